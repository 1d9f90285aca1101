"""The fold: at each border the rungs are tried if they are due, and what they decided is carried on (B2-B5).

`Route.advance` is the primitive: it folds what has arrived since the last call, so its cost is that of what arrived. A
fold from scratch is one call of it over everything.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from longturn.core.counts import Counts
from longturn.core.edits import result_of
from longturn.core.policy import NO_LIMIT, Limits
from longturn.core.pruning import prune
from longturn.core.rungs import cut_at, edit, ladder, useful
from longturn.core.view import Rules, State, View

UNDER_ESTIMATE = 1.25
"""How far an estimate may stand above the truth: only beyond that is a request refused on an estimate alone (B11)."""
BASE_STEPS = 32
"""The base is rounded up to this fraction of the limit, so that a date in a prompt moves no cut (B7)."""
LEAST_TRIMMED = 200
"""An emergency trim leaves at least this many characters of a result (L8)."""


@dataclass(frozen=True, slots=True)
class Base:
    """What every request carries beside the messages, in tokens."""

    system: int = 0
    tools: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """The decisions for the call that would be made now: the view, the state before, and the state after (B2)."""

    view: View
    before: State
    state: State


class Recovery(NamedTuple):
    """A provider's refusal of the request made at a border, as too long (B34).

    row: the border. refused: the request's size by our count. most: what the provider is sent from then on, in tokens
    as it counts them.
    """

    row: int
    refused: int
    most: int


class Route:
    """One policy's fold over a transcript, for one provider, model and budget (B5).

    `state` holds the committed decisions: those of borders that an answer has followed. What is decided at the end of
    the list is tentative and worked out anew at each call (B2).
    """

    __slots__ = (
        "_ceiling",
        "_done",
        "_known",
        "_rounded",
        "base",
        "counts",
        "factors",
        "limits",
        "recoveries",
        "rules",
        "state",
    )

    def __init__(self, counts: Counts, rules: Rules, limits: Limits) -> None:
        self.counts = counts
        self.rules = rules
        self.limits = limits
        self.base = Base()
        # (row, factor): at borders behind `row` the provider is known to count `factor` times as many tokens (L15).
        self.factors: list[tuple[int, float]] = []
        # What the provider has refused, in order (B34).
        self.recoveries: list[Recovery] = []
        self.reset()

    def reset(self) -> None:
        """Forget the committed decisions; the next call folds everything anew."""
        self.state: State | None = None
        self._done = 0
        self._rounded = 0
        self._ceiling = -1
        self._known: tuple[int, float] = (-1, 0.0)

    def advance(self, base: Base) -> Outcome:
        """Fold what has arrived, and decide for the call that would be made now."""
        self._prepare(base)
        for border in self._new_borders():
            self.state = self._decide_at(border)
        view = self._view(len(self.counts.transcript.rows))
        before = self._before(view)
        return Outcome(view, before, decide(view, before))

    def calls(self, base: Base, *, afresh: bool = False) -> Iterator[Outcome]:
        """The decisions for each call that was made, in order; `afresh` forgets them from call to call."""
        self._prepare(base)
        for border in self._new_borders():
            view = self._view(border)
            before = self._before(view)
            state = decide(view, before)
            self.state = None if afresh else state
            yield Outcome(view, before, state)

    def _prepare(self, base: Base) -> None:
        self.counts.update()
        self.base = base
        rounded = self._round(base)
        if rounded != self._rounded:
            # B7: a base that moves a step refolds everything.
            self.reset()
            self._rounded = rounded

    def _new_borders(self) -> Iterator[int]:
        """The borders that an answer has followed and that were not folded yet."""
        transcript = self.counts.transcript
        while self._done < len(transcript.answers):
            border = transcript.answers[self._done]
            self._done += 1
            if border > transcript.lead:
                yield border

    def _decide_at(self, border: int) -> State:
        """One inner border. Most need no decision: the same turn and numbers, and still under the ceiling."""
        state, transcript = self.state, self.counts.transcript
        known = (self._opener_at(border), self._factor_at(border))
        always = bool(self.recoveries or transcript.pinned or self.counts.policy.pruning or transcript.checkpoints)
        if state is not None and known == self._known and not always:
            size = self._rounded + state.offset + self.counts.tokens[border]
            if size <= self._ceiling:
                return state
        view = self._view(border)
        state = decide(view, self._before(view))
        self._known, self._ceiling = known, view.ceiling(state)
        return state

    def _before(self, view: View) -> State:
        transcript = self.counts.transcript
        first = transcript.first if transcript.first < view.border else -1
        if self.state is None:
            cut = first + 1 if transcript.noted and first >= 0 else transcript.lead
            return view.settle(State(first, cut, noted=transcript.noted))
        return self.state if self.state.first >= 0 else self.state._replace(first=first)

    def _view(self, border: int) -> View:
        transcript = self.counts.transcript
        opener = self._opener_at(border)
        before = bisect_left(transcript.answers, border)
        return View(
            counts=self.counts,
            limits=self._limits_at(border),
            rules=self.rules,
            border=border,
            opener=opener,
            newest=max(opener, transcript.answers[before - 1] if before else -1, transcript.lead),
            base=self._rounded,
            exact_base=self._exact(self.base),
        )

    def _opener_at(self, border: int) -> int:
        openers = self.counts.transcript.openers
        before = bisect_left(openers, border)
        return openers[before - 1] if before else -1

    def _factor_at(self, border: int) -> float:
        """The calibration in force at a border, 0.0 for none: the newest usage reported for an earlier one (B5)."""
        if not self.factors:
            return 0.0
        before = bisect_left(self.factors, (border, 0.0))
        return self.factors[before - 1][1] if before else 0.0

    def _limits_at(self, border: int) -> Limits:
        factor, limits = self._factor_at(border), self.limits
        for recovery in self.recoveries:
            if recovery.row < border:
                limits = limits.held(recovery.most)
        limits = limits.scaled(factor) if factor else limits
        refused = [recovery.refused for recovery in self.recoveries if recovery.row == border]
        # Each time it is refused again it is made smaller.
        return limits.recovering(refused[-1] * 2 // 3) if refused else limits

    def _exact(self, base: Base) -> int:
        return base.system + base.tools + self.counts.tokens[self.counts.transcript.lead]

    def _round(self, base: Base) -> int:
        exact = self._exact(base)
        if self.limits.limit >= NO_LIMIT:
            return exact
        step = max(1, min([self.limits.limit, *(recovery.most for recovery in self.recoveries)]) // BASE_STEPS)
        return -(-exact // step) * step


def decide(view: View, state: State) -> State:
    """What is done at one border, in order (B4)."""
    # Judged before pruning: once a front breaks, shaping goes on to the target, not just below the limit (B8).
    adopted = adopt(view, state)
    # Where a checkpoint breaks the front anyway, it is worth going down to the target at once.
    is_broken = adopted is not state
    state = adopted
    is_due = view.size(state) > (view.target(state) if is_broken else view.ceiling(state))
    if view.counts.policy.pruning:
        state = prune(view, state, view.counts.policy.pruning)
    state = _limit_turns(view, state)
    if is_due:
        state = _climb(view, state)
    if is_over(view, state) and view.opener > state.first >= 0:
        # B16: the first message goes last, and the running turn's opener takes its place for good.
        cut = max(state.cut, view.opener + 1)
        lead = view.counts.transcript.lead
        state = edit(view, state, lead - 1, first=view.opener, cut=cut, noted=True, cause="token_budget")
    if is_over(view, state) and view.counts.policy.emergency_trim:
        state = _trim_newest(view, state)
    return state


def adopt(view: View, state: State) -> State:
    """The newest checkpoint takes the note's place, and what it covers is left out (S8, B33)."""
    transcript = view.counts.transcript
    newest = transcript.latest(view.border)
    if newest <= state.checkpoint:
        return state
    # The newest unit stays, even where a checkpoint covers it all, until a rung takes it (law 6).
    cut = max(state.cut, min(transcript.checkpoints[newest].cut, view.newest))
    adopted = cut_at(view, state._replace(checkpoint=newest), cut, "checkpoint")
    # One from elsewhere may be larger than all it stands for; that must not refuse what would have fitted.
    return state if is_over(view, adopted) and not is_over(view, state) else adopted


def _climb(view: View, state: State) -> State:
    """Rung after rung until one brings the size down to the target (B8)."""
    target, shaped = view.target(state), state
    for rung in ladder(view.counts.policy):
        shaped = rung(view, shaped, target)
        if view.size(shaped) <= target:
            break
    # The note may cost more than the little that a cut leaves out; that must not refuse what would have fitted.
    return state if is_over(view, shaped) and not is_over(view, state) else shaped


def is_over(view: View, state: State) -> bool:
    """Whether the request must be refused (H18, B11): on an estimate alone, only where it would surely not fit."""
    margin = 1.0 if view.limits.calibrated else UNDER_ESTIMATE
    return view.exact(state) > view.limits.capacity * margin


def _limit_turns(view: View, state: State) -> State:
    """More turns than the limit: down to the number that a break leaves (H3, B19)."""
    if view.turns(state) <= view.limits.turns:
        return state
    openers = view.counts.transcript.openers
    places = useful(view, state, [openers[bisect_left(openers, view.border) - view.limits.keep_turns]])
    return cut_at(view, state, places[0], "turn_limit") if places else state


def _trim_newest(view: View, state: State) -> State:
    """Results of the newest round are cut to head and tail, the largest first, until the request fits (L8)."""
    counts = view.counts
    results = counts.results[bisect_left(counts.results, view.newest) : bisect_left(counts.results, view.border)]
    for row in sorted(results, key=view.row, reverse=True):
        text = result_of(counts.transcript.rows[row].message).text
        characters = len(text)
        while view.exact(state) > view.limits.capacity and characters > LEAST_TRIMMED:
            share = 1 - (view.exact(state) - view.limits.capacity) / max(1, view.row(row))
            characters = max(LEAST_TRIMMED, int(characters * min(0.9, max(share, 0.1))))
            others = tuple(entry for entry in state.trimmed if entry[0] != row)
            state = edit(view, state, row, trimmed=(*others, (row, characters)))
    return state
