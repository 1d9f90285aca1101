"""Policies to compare in a replay: our own fold, the rule it came from, and what other tools do."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping

from longturn.core.counts import Counts
from longturn.core.fold import Outcome, Route
from longturn.core.policy import NO_LIMIT, Limits, Policy
from longturn.core.replay import (
    CHECKPOINT_ITEM,
    EDITED,
    NOTE_ITEM,
    PLACEHOLDER_ITEM,
    SUMMARY_ITEM,
    VARIANTS,
    Planner,
    Run,
    Sent,
    Sizes,
)
from longturn.core.view import State
from longturn.core.window import kinds_of, reach, saved_by, stretches

CLEARED = 1 << EDITED.index("cleared")
KEPT_RESULTS = 3
"""How many of the newest results "clear-all-but-3" leaves whole: what LangChain's and Anthropic's clearing does."""
SLIDING = 40
"""How many of the newest messages "sliding" sends."""
SUMMARY_TOKENS = 2_000
"""Tokens of the stand-in for a summary."""


def folded(policy: Policy, limit: int | None = None, *, afresh: bool = False) -> Planner:
    """Our fold under a policy; `limit` is the budget in tokens. `afresh`: decided anew at each call."""

    def plan(run: Run, sizes: Sizes) -> Iterator[Sent]:
        made = _Items(sizes)
        for outcome in _outcomes(run, sizes, policy, limit, afresh=afresh):
            yield Sent(outcome.view.border, made.of(outcome), outcome.view.exact(outcome.state))

    return plan


def summarizing(limit: int | None = None, tokens: int = SUMMARY_TOKENS) -> Planner:
    """Where our fold would leave turns or rounds out, a summary of so many tokens stands in the note's place."""
    policy = Policy(name="summarize", rungs=("turns", "rounds"))

    def plan(run: Run, sizes: Sizes) -> Iterator[Sent]:
        made = _Items(sizes)
        cut, number, last = -1, 0, 0
        for outcome in _outcomes(run, sizes, policy, limit):
            size = outcome.view.exact(outcome.state)
            items = made.of(outcome)
            # A checkpoint of the recording is there already, until more is left out.
            is_ours = outcome.state.noted and outcome.state.cause != "checkpoint"
            is_new = is_ours and outcome.state.cut != cut
            if is_ours:
                cut, number, mark = outcome.state.cut, number + is_new, mark_of(outcome.state)
                size += tokens - sizes[mark]
                sizes[SUMMARY_ITEM - number] = tokens
                items = [SUMMARY_ITEM - number if item == mark else item for item in items]
            yield Sent(outcome.view.border, items, size, last if is_new else 0, tokens if is_new else 0)
            last = size

    return plan


def unshaped(run: Run, _sizes: Sizes) -> Iterator[Sent]:
    """Everything, at every call."""
    for border in _borders(run):
        yield Sent(border, range(0, border * VARIANTS, VARIANTS), run.fixed + run.counts.tokens[border])


def sliding(run: Run, _sizes: Sizes) -> Iterator[Sent]:
    """The system messages and the newest 40 others, less results at the beginning whose call is gone."""
    counts, rows, lead = run.counts, run.counts.transcript.rows, run.counts.transcript.lead
    for border in _borders(run):
        start = max(lead, border - SLIDING)
        while start > lead and start < border and rows[start].message.role == "tool":
            start += 1
        tokens = run.fixed + counts.tokens[lead] + counts.tokens[border] - counts.tokens[start]
        yield Sent(border, _whole(0, lead) + _whole(start, border), tokens)


def clearing_all_but(limit: int | None, kept: int = KEPT_RESULTS) -> Planner:
    """Once the whole history is over the limit: all results but the newest few are cleared, decided at each call."""

    def plan(run: Run, sizes: Sizes) -> Iterator[Sent]:
        counts = run.counts
        most = Policy().budget(run.window, limit).limit or NO_LIMIT
        done: list[int] = []
        for border in _borders(run):
            tokens = run.fixed + counts.tokens[border]
            last = bisect_left(counts.results, border)
            if tokens <= most or last <= kept:
                yield Sent(border, _whole(0, border), tokens)
                continue
            stop = counts.results[last - kept]
            for row in range(len(done), stop):
                is_clearable = counts.is_clearable(row)
                done.append(row * VARIANTS + CLEARED * is_clearable)
                if is_clearable:
                    saved = counts.clearing[row + 1] - counts.clearing[row]
                    sizes[done[row]] = counts.tokens[row + 1] - counts.tokens[row] - saved
            yield Sent(border, done[:stop] + _whole(stop, border), tokens - counts.clearing[stop])

    return plan


def planners(limit: int | None, policy: Policy | None = None) -> Mapping[str, Planner]:
    """The policies to compare, by name, all with one limit in tokens (None: each policy's own)."""
    whole_turns = Policy(name="newest-turns", rungs=("turns",), target_ratio=1.0)
    return {
        "none": unshaped,
        "seed": folded(Policy.seed(), limit, afresh=True),
        "default": folded(policy or Policy(), limit),
        "newest-turns": folded(whole_turns, limit),
        "sliding": sliding,
        "clear-all-but-3": clearing_all_but(limit),
        "summarize": summarizing(limit),
    }


def _outcomes(run: Run, sizes: Sizes, policy: Policy, limit: int | None, *, afresh: bool = False) -> Iterator[Outcome]:
    room = run.capacity if run.capacity < NO_LIMIT else None
    limits = Limits.of(policy, policy.budget(run.window, limit), room)
    counts = Counts(run.counts.transcript, policy, policy.estimator or run.counts.estimator)
    counts.update()
    if counts.tokens != run.counts.tokens:
        # A policy that counts otherwise (its own estimator or price of an image) has sizes of its own.
        sizes.update({row * VARIANTS: after - counts.tokens[row] for row, after in enumerate(counts.tokens[1:])})
    return Route(counts, run.rules, limits).calls(run.base, afresh=afresh)


def _borders(run: Run) -> Iterator[int]:
    lead = run.counts.transcript.lead
    return (border for border in run.counts.transcript.answers if border > lead)


def mark_of(state: State) -> int:
    """The item of what stands where something was left out: the note, or a checkpoint of the recording."""
    return CHECKPOINT_ITEM - state.checkpoint if state.checkpoint >= 0 else NOTE_ITEM


def _whole(start: int, stop: int) -> list[int]:
    return list(range(start * VARIANTS, stop * VARIANTS, VARIANTS))


class _Items:
    """Items of a fold's windows; those of a state that stands are only added to."""

    __slots__ = ("_cleared", "_items", "_sizes", "_state", "_until")

    def __init__(self, sizes: Sizes) -> None:
        self._sizes = sizes
        self._cleared: list[int] = []
        self._state: State | None = None
        self._items: list[int] = []
        self._until = 0

    def of(self, outcome: Outcome) -> list[int]:
        view, state = outcome.view, outcome.state
        if state != self._state:
            self._items = self._made(outcome)
        else:
            self._items = self._items + _whole(self._until, view.border)
        self._state, self._until = state, view.border
        return self._items

    def _made(self, outcome: Outcome) -> list[int]:
        view, state, sizes = outcome.view, outcome.state, self._sizes
        counts = view.counts
        mark = mark_of(state)
        sizes[mark], sizes[PLACEHOLDER_ITEM] = view.mark(state), counts.placeholder
        items = _whole(0, counts.transcript.lead)
        ahead, *behind = stretches(view, state)
        if state.noted:
            front = [] if view.is_superseded(state) else [PLACEHOLDER_ITEM]
            items += _whole(*ahead) or front
            items += [mark] if view.has_mark(state) else []
        elif view.headless():
            items.append(PLACEHOLDER_ITEM)
        is_plain = state == self._plain(state)
        for start, stop in behind:
            end = reach(view, state, start, stop)
            if is_plain:
                items += self._all_cleared(outcome, end)[start:end]
            else:
                items += [self._edited(outcome, row, start == state.kept) for row in range(start, end)]
            items += _whole(end, stop)
        return items

    @staticmethod
    def _plain(state: State) -> State:
        """The same with no edit but cleared results, for which the items are known by row."""
        standing = {name: getattr(state, name) for name in ("checkpoint", "bare", "kept", "cleared", "cause", "offset")}
        return State(state.first, state.cut, state.noted, **standing)

    def _all_cleared(self, outcome: Outcome, end: int) -> list[int]:
        counts, sizes, cleared = outcome.view.counts, self._sizes, self._cleared
        for row in range(len(cleared), end):
            is_clearable = counts.is_clearable(row)
            cleared.append(row * VARIANTS + CLEARED * is_clearable)
            if is_clearable:
                sizes[cleared[row]] = outcome.view.row(row) - counts.clearing[row + 1] + counts.clearing[row]
        return cleared

    def _edited(self, outcome: Outcome, row: int, kept: bool) -> int:
        view, state = outcome.view, outcome.state
        kinds = kinds_of(view, state, row, kept)
        aged = "hardened" if row < state.hardened else "softened"
        item = row * VARIANTS + sum(1 << EDITED.index(aged if kind == "pruned" else kind) for kind in kinds)
        if kinds:
            self._sizes[item] = view.row(row) - sum(saved_by(view, state, row, kind) for kind in kinds)
        return item
