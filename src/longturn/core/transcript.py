"""The transcript: an append-only list of rows, mended as it arrives, with its turns, rounds and borders.

It holds what is true whatever the model: structure and measured texts. It decides nothing about windows.
"""

from bisect import bisect_right
from collections.abc import Iterable

from longturn.core.checkpoint import BEGINNING, Checkpoint, Landed, digests, text_of
from longturn.core.measure import MeasureText, measured
from longturn.core.messages import Message, user
from longturn.core.repair import Repair, Row, mend
from longturn.core.texts import NOTE, PLACEHOLDER

RESULTS_PREFIX = "[Tool results]"


class Transcript:
    """Rows that only grow, and where answers and turns begin.

    The rows from `settled` on are the running round: they may still be rearranged until the next answer arrives (B2,
    B21). Everything before is final. All positions below are row indices.

    answers: where each answer begins; the border of a call is the place just before it (B1).
    openers: the real user messages, each of which opens a turn (H4, H5).
    lead: the number of leading system messages. first: the first user message, -1 while there is none.
    summarized: the first user message is a checkpoint; what it stands for is not in the list.
    noted: the caller handed back a window of ours, and rows before the first one here were left out of it (B18).
    system_apart: a system message may not stand directly behind an answer (Anthropic); set it before anything arrives.
    note, placeholder: the caller's own objects of our note (or of the checkpoint in its place) and placeholder, so that
    they come back as they are.
    checkpoints: those that apply here, each with the border from which on it is in force (S8, B33).
    """

    __slots__ = (
        "_answering",
        "_calling",
        "_digests",
        "_entries",
        "_landed",
        "_landing",
        "_mode",
        "_tail",
        "answers",
        "checkpoints",
        "first",
        "lead",
        "measure",
        "note",
        "noted",
        "openers",
        "pinned",
        "placeholder",
        "repairs",
        "rows",
        "settled",
        "summarized",
        "system_apart",
    )

    def __init__(self, measure: MeasureText) -> None:
        self.measure = measure
        self.system_apart = False
        self.rows: list[Row] = []
        self.answers: list[int] = []
        self.openers: list[int] = []
        self.pinned: list[int] = []
        self.repairs: list[tuple[int, Repair]] = []
        self.settled = 0
        self.lead = 0
        self.first = -1
        self.noted = self.summarized = False
        self.note: Message | None = None
        self.placeholder: Message | None = None
        self.checkpoints: list[Landed] = []
        self._landing: list[tuple[Checkpoint, int]] = []
        self._landed = 0
        self._digests = [BEGINNING]
        self._entries: list[int] = []
        self._tail: list[Row] = []
        self._answering = self._calling = False
        self._mode = "lead"

    def extend(self, arrived: Iterable[tuple[Message | Checkpoint, int, bool]]) -> None:
        """Append messages and checkpoints, each with its index in the caller's list and whether it is pinned.

        The index of a checkpoint that stands in no list is -1.
        """
        self._reopen()
        for arriving, position, pinned in arrived:
            self._entries += [position] * (isinstance(arriving, Checkpoint) and position >= 0)
            if isinstance(arriving, Checkpoint) and self._mode != "lead":
                self._landing.append((arriving, position))
                continue
            # A list that begins with a checkpoint: what it covers is not here, so it is what the user said first.
            message = arriving.message if isinstance(arriving, Checkpoint) else arriving
            if self._is_ours(message):
                continue
            same = False
            if message.role == "assistant":
                same = self._answering and (message.continues or not self._calling)
                if not same:
                    self._settle()
                    self._calling = False
                self._calling = self._calling or bool(message.calls)
                self._answering = True
            elif message.role != "tool" or self._calling:
                # A result where no call is open will be left out, so it does not part two answers.
                self._answering = False
            self._tail.append(Row(message, measured(message, self.measure), position, pinned, continues=same))
        self._append_tail()

    def turn_of(self, row: int) -> int:
        """The opener of the turn that holds `row`, -1 where it stands before the first one."""
        after = bisect_right(self.openers, row)
        return self.openers[after - 1] if after else -1

    def latest(self, border: int) -> int:
        """The index of the newest checkpoint that is in force at a border, -1 for none."""
        return bisect_right(self.checkpoints, border, key=lambda landed: landed.at) - 1

    def mark(self, checkpoint: int) -> Message:
        """What stands where something was left out: the checkpoint of this index, or the note for -1 (B17, B33)."""
        return self.checkpoints[checkpoint].checkpoint.message if checkpoint >= 0 else self.note or user(NOTE)

    def digest(self, row: int) -> str:
        """Of what the rows before `row` say (B33)."""
        return self._digested(row)[row].hex()

    def _digested(self, until: int) -> list[bytes]:
        """Entry i: of the rows before i. What stands before the running round is digested once."""
        known = self._digests
        known += digests((row.message for row in self.rows[len(known) - 1 : until]), known[-1])
        return known

    def _is_ours(self, message: Message) -> bool:
        """Whether this is our own placeholder or note, by exact text and place together (B18, B28, H9)."""
        if self._mode == "rest":
            return False
        if message.role == "system" and self._mode == "lead":
            return False
        if message.role != "user":
            self._mode = "rest"
            return False
        leading, self._mode = self._mode == "lead", "run"
        text = message.text if len(message.parts) == 1 else ""
        if leading and text == PLACEHOLDER:
            self.placeholder = message
            return True
        if not leading and self.note is None and (text == NOTE or text_of(message)):
            self.note, self.noted = message, True
            return True
        return False

    def _settle(self) -> None:
        self._append_tail()
        self.settled = len(self.rows)
        self._landed = len(self.checkpoints)
        self._tail, self._landing = [], []

    def _reopen(self) -> None:
        """Forget how the running round was arranged; its rows are still in `_tail`."""
        start = self.settled
        del self.rows[start:]
        for places in (self.answers, self.openers, self.pinned):
            while places and places[-1] >= start:
                places.pop()
        while self.repairs and self.repairs[-1][0] >= start:
            self.repairs.pop()
        del self.checkpoints[self._landed :]
        del self._digests[start + 1 :]
        if self.first >= start:
            self.first = -1
        self.lead = min(self.lead, start)

    def _append_tail(self) -> None:
        if self._tail:
            self._append_rows()
        for checkpoint, position in self._landing:
            self._land(checkpoint, position)

    def _land(self, checkpoint: Checkpoint, position: int) -> None:
        """Take a checkpoint up where what it covers is found; the same one again, or one of another list, is not."""
        at = len(self.rows)
        if checkpoint.digest is None:
            cut = self._covered(checkpoint.covers, position)
        else:
            places = self._digested(at)
            found = [place for place, digest in enumerate(places) if digest.hex() == checkpoint.digest]
            if not found:
                why = "the checkpoint is not of what stands before it here, so it was left out"
                # One that a fitter has made itself, for another list, is passed over.
                self.repairs += [(self.settled, Repair(position, why))] * (position >= 0)
                return
            cut = self._whole_round(found[-1])
        twin = self.checkpoints[-1] if self.checkpoints else Landed(0, -1, Checkpoint(""))
        is_same = (twin.checkpoint.text, twin.checkpoint.digest) == (checkpoint.text, checkpoint.digest)
        if not is_same or (checkpoint.digest is None and twin.cut != cut):
            self.checkpoints.append(Landed(at, cut, checkpoint))

    def _covered(self, messages: int, position: int) -> int:
        """The row before which everything stands in front of a position of the list, or is of its first messages.

        messages: how many these are, entries not counted; 0 for all. A round that is not there as a whole stays.
        """
        end = position
        if messages:
            end = messages
            for entry in self._entries:
                end += entry <= end
            end = min(end, position)
        cut = len(self.rows)
        while cut and not 0 <= self.rows[cut - 1].position < end:
            cut -= 1
        return self._whole_round(cut)

    def _whole_round(self, cut: int) -> int:
        """The cut, or the beginning of the round that it would split."""
        if cut < len(self.rows) and (self.rows[cut].message.role == "tool" or self.rows[cut].continues):
            return self.answers[bisect_right(self.answers, cut) - 1] if self.answers else 0
        return cut

    def _append_rows(self) -> None:
        mended = mend(self._tail, self.measure, self.system_apart)
        if self._tail[0].message.role == "assistant":
            self.answers.append(len(self.rows))
        self.repairs += [(self.settled, repair) for repair in mended.repairs]
        for row in mended.rows:
            role, place = row.message.role, len(self.rows)
            if role == "user":
                if self.first < 0:
                    self.first = place
                    self.summarized = bool(text_of(row.message))
                    self.openers.append(place)
                elif not row.message.text.lstrip().startswith(RESULTS_PREFIX):
                    self.openers.append(place)
            elif role == "system" and place == self.lead:
                self.lead = place + 1
            if row.pinned:
                self.pinned.append(place)
            self.rows.append(row)
