"""What was decided so far (`State`), and a transcript seen at one border under it (`View`): sizes, units, stretches.

Nothing here decides: rungs (rungs.py) move a state forward, fold.py says when.
"""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import NamedTuple

from longturn.core.counts import Counts
from longturn.core.policy import Limits
from longturn.core.thinking import ThinkingRule


@dataclass(frozen=True, slots=True)
class Rules:
    """What the wire asks of a window: a user's message in front (B28), and what holds for thinking (B23, B24)."""

    user_first: bool = False
    thinking: ThinkingRule = "free"


class State(NamedTuple):
    """The decisions in force. Each only moves forward (B3); positions are rows.

    first: the user message that stands in front, -1 while there is none.
    cut: rows between the first message and this one are left out. noted: something was left out, so the note stands.
    checkpoint: the index of the one that stands in the note's place, -1 for none (B33).
    bare: of the rows from the cut up to this one, only the users' messages stand.
    cleared, shortened: clearable results and long arguments before these rows are replaced.
    images: results whose images gave way to a text while the rest stood (B12).
    softened, hardened: prunable results before these rows are cut to head and tail, or replaced, for their age (B20).
    thoughts: (place, border): thinking after `place` that was made before `border` is removed (B23).
    kept: a round before the cut that stays since the answer behind the cut has no thinking to start with (B24).
    trimmed: (row, characters): results of a newest round that were cut in the middle (L8).
    cause: why the cut stands where it does.
    offset: what the state adds to the prefix sum of a border: size = base + offset + tokens[border].
    """

    first: int
    cut: int
    noted: bool = False
    checkpoint: int = -1
    bare: int = 0
    cleared: int = 0
    images: tuple[int, ...] = ()
    shortened: int = 0
    softened: int = 0
    hardened: int = 0
    thoughts: tuple[tuple[int, int], ...] = ()
    kept: int = -1
    trimmed: tuple[tuple[int, int], ...] = ()
    cause: str = ""
    offset: int = 0


@dataclass(frozen=True, slots=True)
class View:
    """A transcript at one border: what a call made there would see.

    border: rows before this one exist. opener: the running turn's user message, -1 before the first.
    newest: where the newest unit begins, a round, or a turn that has none yet. base: system and tools, in tokens,
    rounded for the test (B7); exact_base: the same, not rounded.
    """

    counts: Counts
    limits: Limits
    rules: Rules
    border: int
    opener: int
    newest: int
    base: int
    exact_base: int

    # --- sizes ---------------------------------------------------------------------------------------------------

    def size(self, state: State) -> int:
        """Everything that would be sent (B7), in tokens, with the base rounded up."""
        return self.base + state.offset + self.counts.tokens[self.border]

    def exact(self, state: State) -> int:
        """The same with the base as it is."""
        return self.exact_base + state.offset + self.counts.tokens[self.border]

    def pins(self, state: State) -> int:
        """What no rung may take: base, first user message, opener of the running turn, pinned units (B9)."""
        # Pinned units before the message in front are gone with the first one (B16).
        pinned = sum(self.tokens(*unit) for unit in self.pinned_units(self.border) if unit[0] > state.first)
        first = self.mark(state) if self.is_superseded(state) else self.row(state.first)
        return self.base + first + (self.row(self.opener) if self.opener != state.first else 0) + pinned

    def ceiling(self, state: State) -> int:
        """Over this a window is shaped (B8)."""
        pins = self.pins(state)
        return min(pins + max(self.limits.limit - pins, self.limits.whole), self.limits.capacity)

    def target(self, state: State) -> int:
        """Down to this it is shaped (B9)."""
        pins = self.pins(state)
        room = max(self.limits.limit - pins, self.limits.whole)
        return min(int(pins + self.limits.ratio * room), self.limits.capacity)

    def tokens(self, start: int, stop: int) -> int:
        """Tokens of a stretch of rows as they were recorded."""
        return self.counts.tokens[stop] - self.counts.tokens[start]

    def row(self, place: int) -> int:
        """Tokens of one row as it was recorded; none for -1."""
        return self.tokens(place, place + 1) if place >= 0 else 0

    # --- units ---------------------------------------------------------------------------------------------------

    def turns_from(self, cut: int) -> list[int]:
        """Openers of the whole turns that a cut could move to: behind `cut`, up to the running turn."""
        openers = self.counts.transcript.openers
        return openers[bisect_right(openers, cut) : bisect_right(openers, self.opener)]

    def rounds_from(self, cut: int) -> list[int]:
        """Rounds of the running turn that a cut could move to: behind `cut`, up to the newest unit."""
        answers = self.counts.transcript.answers
        return answers[bisect_right(answers, max(cut, self.opener)) : bisect_right(answers, self.newest)]

    def unit(self, row: int) -> tuple[int, int]:
        """First and one past the last row of the round, or lone message, that holds `row`."""
        transcript = self.counts.transcript
        if transcript.rows[row].message.role in ("user", "system"):
            return row, row + 1
        answers, openers = transcript.answers, transcript.openers
        at = bisect_right(answers, row)
        after = bisect_right(openers, row)
        stops = [self.border]
        stops += answers[at : at + 1] + openers[after : after + 1]
        return answers[at - 1] if at else row, min(stops)

    def pinned_units(self, before: int) -> list[tuple[int, int]]:
        """Units with a pinned row that begin before `before`, without the first message and the opener."""
        units: list[tuple[int, int]] = []
        for row in self.counts.transcript.pinned:
            if row >= before or row in (self.counts.transcript.first, self.opener):
                continue
            unit = self.unit(row)
            if not units or units[-1] != unit:
                units.append(unit)
        return units

    def begin(self, state: State) -> int:
        """The row from which everything stands; before it, only what `left_standing` gives and what was said first."""
        return max(state.cut, state.bare)

    def left_standing(self, state: State) -> list[tuple[int, int]]:
        """Units before that row that stay: pinned ones, the one kept for its thinking, users' messages (B14, B24)."""
        opener, openers = self.inside(state.cut, state.first), self.counts.transcript.openers
        pinned = self.pinned_units(self.begin(state))
        units = {unit for unit in pinned if unit[0] > state.first and unit[0] != opener}
        if state.kept >= 0:
            units.add(self.unit(state.kept))
        if state.bare > state.cut:
            alone = openers[bisect_left(openers, state.cut) : bisect_left(openers, state.bare)]
            units.update((row, row + 1) for row in alone)
        return sorted(units)

    def inside(self, cut: int, first: int) -> int:
        """The opener that must stand before a cut inside its turn; -1 where the cut is at a turn's border."""
        rows, row = self.counts.transcript.rows, min(cut, self.border - 1)
        # A system message between two turns is no piece of the one before it.
        while row < self.border - 1 and rows[row].message.role == "system":
            row += 1
        opener = self.counts.transcript.turn_of(row)
        return opener if first < opener < cut else -1

    def turns(self, state: State) -> int:
        """Turns that stand in the window, as the turn limit counts them (B19)."""
        openers = self.counts.transcript.openers
        cut = max(state.cut, state.first + 1)
        at = bisect_left(openers, cut)
        whole = bisect_left(openers, self.border) - at
        following = openers[at] if whole else self.border
        # The turn that the cut lies in counts while any of its rounds stands.
        return whole + (max(cut, state.bare) < following)

    # --- what a state takes away ---------------------------------------------------------------------------------

    def settle(self, state: State) -> State:
        """The state with its offset worked out anew from its positions."""
        counts = self.counts
        size = self.standing(state, self.begin(state), self.border)
        if state.noted:
            size += self.mark(state) + self.front(state) + self.row(self.inside(state.cut, state.first))
            size += sum(self.standing(state, *unit) for unit in self.left_standing(state))
        elif self.headless():
            size += counts.placeholder
        return state._replace(offset=size - counts.tokens[self.border])

    def mark(self, state: State) -> int:
        """Tokens of the note or of the checkpoint in its place, with framing; none where one stands in front."""
        if not self.has_mark(state):
            return 0
        return self.counts.of_mark(self.counts.transcript.mark(state.checkpoint))

    def front(self, state: State) -> int:
        """Tokens of the user message in front of the note."""
        if self.is_superseded(state):
            return 0
        return self.counts.placeholder if self.front_missing(state) else self.row(state.first)

    def is_led(self, state: State) -> bool:
        """Whether the list begins with a checkpoint: it, or a newer one in its place, stands alone in front (S8)."""
        return self.counts.transcript.summarized and state.first == self.counts.transcript.first

    def has_mark(self, state: State) -> bool:
        """Whether a cut window has a note or a checkpoint besides the one that the list may begin with."""
        return state.checkpoint >= 0 or not self.is_led(state)

    def is_superseded(self, state: State) -> bool:
        """Whether a newer checkpoint stands for the one that the list begins with."""
        return state.checkpoint >= 0 and self.is_led(state)

    def front_missing(self, state: State) -> bool:
        """Whether a placeholder stands in front of the note: no user message of the transcript stands there (B28)."""
        return not 0 <= state.first < state.cut

    def headless(self) -> bool:
        """Whether an uncut window has a placeholder: it came with one, or a user's message must stand first (B28)."""
        transcript = self.counts.transcript
        if transcript.placeholder is not None:
            return True
        if not self.rules.user_first or transcript.lead >= self.border:
            return False
        return transcript.rows[transcript.lead].message.role != "user"

    def standing(self, state: State, start: int, stop: int) -> int:
        """Tokens of a stretch of rows with the edits that are in force."""
        counts = self.counts
        size = self.tokens(start, stop)
        cleared = stop if start == state.kept else max(start, min(state.cleared, stop))
        size -= counts.clearing[cleared] - counts.clearing[start]
        if state.shortened > start:
            size -= counts.shortening_between(start, min(state.shortened, stop))
        for row in (*state.images, *(row for row, _ in state.trimmed)):
            if (
                start <= row < stop
                and not self.is_pruned(state, row)
                and not self.is_cleared(state, row, start == state.kept)
            ):
                size -= self.reduction(state, row)
                size += counts.clearing[row + 1] - counts.clearing[row] if row < cleared else 0
        for row in self.prunable(start, min(max(state.softened, state.hardened), stop)):
            is_cleared = row < cleared and counts.is_clearable(row)
            if row < state.hardened:
                # What age has cleared stays so: the rung for clearing would save nothing and change the front again.
                size += (counts.clearing[row + 1] - counts.clearing[row]) * is_cleared - counts.pruning(row, hard=True)
            elif not is_cleared:
                size -= counts.pruning(row, hard=False)
        for place, border in state.thoughts:
            low, high = max(place + 1, start), min(border, stop)
            if high > low:
                size -= counts.thinking[high] - counts.thinking[low] - self.emptied(low, high)
        return size

    def is_cleared(self, state: State, row: int, kept: bool = False) -> bool:
        """Whether a note stands for the result in this row; what a reduction has left may be too small for it (L4)."""
        if not (row < state.cleared or kept):
            return False
        return self.is_clearable(state, row)

    def is_clearable(self, state: State, row: int) -> bool:
        """Whether the result in this row, as it stands, is worth clearing (L4)."""
        if not self.counts.is_clearable(row):
            return False
        reduction = self.reduction(state, row)
        return not reduction or self.counts.is_worth_clearing(row, self.row(row) - reduction)

    def reduction(self, state: State, row: int) -> int:
        """Tokens that the result in this row is smaller by since its images went (B12) or it was cut (L8)."""
        if row in state.images:
            return self.counts.picturing(row)
        return next((self.counts.trimming(place, size) for place, size in state.trimmed if place == row), 0)

    def prunable(self, start: int, stop: int) -> list[int]:
        """Rows of results that pruning by age may touch, in a stretch."""
        # What stands before the first user message is never touched (S3).
        prunable, start = self.counts.prunable, max(start, self.counts.transcript.first)
        return prunable[bisect_left(prunable, start) : bisect_left(prunable, stop)]

    def is_pruned(self, state: State, row: int) -> bool:
        """Whether the result in this row is pruned by age."""
        return row < max(state.softened, state.hardened) and bool(self.prunable(row, row + 1))

    def emptied(self, start: int, stop: int) -> int:
        """Tokens of the texts that stand for answers of nothing but thinking in a stretch of rows (B23)."""
        bare = self.counts.bare
        return self.counts.empty_answer * (bisect_left(bare, stop) - bisect_left(bare, start))

    def pictures(self, start: int, stop: int) -> list[int]:
        """Rows of results with media in a stretch, but pinned ones."""
        pictured = self.counts.pictured
        return pictured[bisect_left(pictured, start) : bisect_left(pictured, stop)]


def merged(thoughts: tuple[tuple[int, int], ...], place: int, border: int) -> tuple[tuple[int, int], ...]:
    """The intervals with one more, which ends at the newest border: overlapping ones become one (B23)."""
    kept = [interval for interval in thoughts if interval[1] <= place + 1]
    reached = [interval[0] for interval in thoughts if interval[1] > place + 1]
    return (*kept, (min([place, *reached]), border))
