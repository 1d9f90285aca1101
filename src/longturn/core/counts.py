"""Tokens of a transcript's rows under one estimator and one policy, as prefix sums: any stretch is a subtraction.

A route (provider, model, budget) has its own counts; the measured texts below them are shared (B5, B6).
"""

from bisect import bisect_left

from longturn.core import edits
from longturn.core.measure import Measure, measured
from longturn.core.messages import Message, Reasoning, ToolCall
from longturn.core.policy import Policy
from longturn.core.repair import Row
from longturn.core.texts import CLEARED, EMPTY_ANSWER, NOTE, PLACEHOLDER
from longturn.core.tokens import OPAQUE_CHARS_PER_TOKEN, Estimator
from longturn.core.transcript import Transcript

FRAMING = 4
"""Tokens of framing per message (H21)."""


class Counts:
    """Prefix sums over the rows of a transcript: entry i is about the rows before row i.

    tokens: everything. clearing: what clearing all clearable results would save. thinking: thinking and signatures.
    results: rows of tool results, result_tokens: their own prefix sums. clearable: results that a rung may clear.
    pictured: rows of results with media. prunable: results that pruning by age may touch. wordy: answers with calls
    that may be shortened, wordy_tokens: prefix sums of their texts. bare: answers of nothing but thinking. heads: rows
    that begin a message, not an item that continues one. note, placeholder, empty_answer: tokens of our own texts, the
    first two with framing.
    """

    __slots__ = (
        "_marks",
        "_notes",
        "_savings",
        "_seen",
        "bare",
        "clearable",
        "clearing",
        "empty_answer",
        "estimator",
        "heads",
        "note",
        "pictured",
        "placeholder",
        "policy",
        "prunable",
        "result_tokens",
        "results",
        "thinking",
        "tokens",
        "transcript",
        "wordy",
        "wordy_tokens",
    )

    def __init__(self, transcript: Transcript, policy: Policy, estimator: Estimator) -> None:
        self.transcript = transcript
        self.policy = policy
        self.estimator = estimator
        self.tokens = [0]
        self.clearing = [0]
        self.thinking = [0]
        self.results: list[int] = []
        self.result_tokens = [0]
        self.clearable: list[int] = []
        self.pictured: list[int] = []
        self.prunable: list[int] = []
        self.wordy: list[int] = []
        self.wordy_tokens = [0]
        self.bare: list[int] = []
        self.heads: list[int] = []
        self._savings: dict[tuple[str, int], int] = {}
        self._notes: dict[str, int] = {}
        self._seen = 0
        self._marks: dict[str, int] = {}
        self.note = self.of_text(NOTE) + FRAMING
        self.placeholder = self.of_text(PLACEHOLDER) + FRAMING
        self.empty_answer = self.of_text(EMPTY_ANSWER)

    def of_text(self, text: str) -> int:
        """Tokens of a text, without framing."""
        return self.estimator.tokens(self.transcript.measure(text))

    def of_message(self, message: Message) -> int:
        """Tokens of a message that stands for itself, with framing."""
        return self._of_measure(measured(message, self.transcript.measure), continues=False)

    def of_mark(self, message: Message) -> int:
        """The same of a note or a checkpoint, counted once."""
        text = message.text
        if text not in self._marks:
            self._marks[text] = self.of_message(message)
        return self._marks[text]

    def update(self) -> None:
        """Follow the transcript: rows that were settled at the last update stand, the rest is counted anew."""
        self._truncate(self._seen)
        rows, thinking, bare = self.transcript.rows, self.thinking, self.bare
        total, cleared, thought = self.tokens[-1], self.clearing[-1], thinking[-1]
        for place in range(self._seen, len(rows)):
            row = rows[place]
            message, measure = row.message, row.measure
            size = self._of_measure(measure, row.continues)
            if message.role == "tool":
                self.results.append(place)
                self.result_tokens.append(self.result_tokens[-1] + size)
                cleared += self._clearing(place, row, size)
            elif message.role == "assistant":
                if measure.thinking is not None:
                    thought += self._of_thinking(measure)
                    if all(isinstance(part, Reasoning) for part in message.parts):
                        bare.append(place)
                if not row.pinned and self._is_wordy(message):
                    self.wordy.append(place)
                    self.wordy_tokens.append(self.wordy_tokens[-1] + self.estimator.tokens(measure.body))
            if not row.continues:
                self.heads.append(place)
            total += size
            self.tokens.append(total)
            self.clearing.append(cleared)
            thinking.append(thought)
        self._seen = self.transcript.settled

    def cleared_text(self, tool: str) -> str:
        """What replaces a cleared result of this tool (B14)."""
        return self.policy.cleared_texts.get(tool, CLEARED)

    def is_clearable(self, place: int) -> bool:
        """Whether a rung may clear the result in this row."""
        return self.clearing[place + 1] > self.clearing[place]

    def is_worth_clearing(self, place: int, size: int) -> bool:
        """Whether a result of this row's tool is worth clearing at a size of so many tokens, framing included (L4)."""
        return size - FRAMING > 2 * self._note_of(self.transcript.rows[place].tool)

    def shortening(self, place: int) -> int:
        """Tokens saved by shortening the arguments of the answer in this row; 0 where it would be next to none."""
        key = ("arguments", place)
        if key not in self._savings:
            message = self.transcript.rows[place].message
            shorter = edits.shortened(message)
            saved = 0
            if shorter is not message:
                after = measured(shorter, self.transcript.measure)
                saved = self._size(place) - self._of_measure(after, self.transcript.rows[place].continues)
            self._savings[key] = saved if saved > self._note_of("") else 0
        return self._savings[key]

    def shortening_between(self, start: int, stop: int) -> int:
        """The same over a stretch of rows."""
        places = self.wordy[bisect_left(self.wordy, start) : bisect_left(self.wordy, stop)]
        return sum(self.shortening(place) for place in places)

    def picturing(self, place: int) -> int:
        """Tokens saved by replacing the media of the result in this row."""
        key = ("images", place)
        if key not in self._savings:
            shorter = edits.without_images(self.transcript.rows[place].message)
            self._savings[key] = self._size(place) - self.of_message(shorter)
        return self._savings[key]

    def pruning(self, place: int, hard: bool) -> int:
        """Tokens saved by pruning the result in this row (B20)."""
        key = ("hard" if hard else "soft", place)
        if key not in self._savings and self.policy.pruning:
            shorter = edits.pruned(self.transcript.rows[place].message, self.policy.pruning, hard)
            self._savings[key] = self._size(place) - self.of_message(shorter)
        return self._savings[key]

    def trimming(self, place: int, characters: int) -> int:
        """Tokens saved by cutting the result in this row to so many characters (L8)."""
        shorter = edits.trimmed(self.transcript.rows[place].message, characters)
        return max(0, self._size(place) - self.of_message(shorter))

    def _size(self, place: int) -> int:
        return self.tokens[place + 1] - self.tokens[place]

    def _of_measure(self, measure: Measure, continues: bool) -> int:
        size = self.estimator.tokens(measure.body)
        if not continues:
            size += FRAMING
        if measure.media:
            size += measure.media * self.policy.image_tokens
        if measure.thinking is not None:
            size += self._of_thinking(measure)
        return size

    def _of_thinking(self, measure: Measure) -> int:
        # Never nothing: a block with an empty text still has to be removed and counted (providers.md).
        return max(1, self.estimator.tokens(measure.thinking or ()) + measure.sealed // OPAQUE_CHARS_PER_TOKEN)

    def _clearing(self, place: int, row: Row, size: int) -> int:
        if row.pinned:
            return 0
        if row.measure.media:
            self.pictured.append(place)
        if row.tool in self.policy.keep_tools:
            return 0
        pruning = self.policy.pruning
        if pruning and len(edits.result_of(row.message).text) > pruning.min_prunable_tool_chars:
            self.prunable.append(place)
        note = self._note_of(row.tool)
        # L4: what is not larger than twice the note is left alone; so a cleared result is never cleared again.
        if not size - FRAMING > 2 * note:
            return 0
        self.clearable.append(place)
        return size - FRAMING - note

    def _is_wordy(self, message: Message) -> bool:
        for part in message.parts:
            if isinstance(part, ToolCall) and len(part.arguments) > edits.LONG_ARGUMENT and not part.fixed:
                return not any(call.name in self.policy.keep_tools for call in message.calls)
        return False

    def _note_of(self, tool: str) -> int:
        if tool not in self._notes:
            self._notes[tool] = self.of_text(self.cleared_text(tool))
        return self._notes[tool]

    def _truncate(self, start: int) -> None:
        gone = len(self.tokens) - 1
        if start == gone:
            return
        for sums in (self.tokens, self.clearing, self.thinking):
            del sums[start + 1 :]
        for places in (self.clearable, self.pictured, self.prunable, self.wordy, self.bare, self.heads):
            del places[bisect_left(places, start) :]
        del self.wordy_tokens[len(self.wordy) + 1 :]
        keep = bisect_left(self.results, start)
        del self.results[keep:], self.result_tokens[keep + 1 :]
        for place in range(start, gone):
            for edit in ("arguments", "images", "soft", "hard"):
                self._savings.pop((edit, place), None)
