"""Replay: what a policy would have sent at each call of a recorded run, and what stayed equal from call to call.

Each answer in a recording was one call. No model is needed, and nothing here knows files. A window is a list of items,
one for each message in it: a number that names the row and the edits made to it, or our own text. So two windows are
compared by comparing numbers, and a front is the beginning that two neighbouring lists share (B30).
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from longturn.core.caches import NO_CACHE, CacheRule, Prices
from longturn.core.counts import Counts
from longturn.core.fold import Base
from longturn.core.policy import NO_LIMIT
from longturn.core.view import Rules

EDITED = ("cleared", "images", "arguments", "thinking", "trimmed", "pruned")
"""Edits of one row; an item holds a bit for each."""
VARIANTS = 1 << len(EDITED)
NOTE_ITEM, PLACEHOLDER_ITEM = -1, -2
SUMMARY_ITEM = -100
"""A summary is this less its number: each one is another text."""


@dataclass(frozen=True, slots=True)
class Run:
    """One recorded conversation, read and counted once for all policies.

    base: system prompt and tools, in tokens. capacity: what the model takes, in tokens, `NO_LIMIT` when unknown.
    times: by border, unix seconds of its call, where the recording has them. needs: by border, the rows of results that
    the answer of its call quotes (misses.py). written: by border, tokens of its answer.
    """

    name: str
    counts: Counts
    base: Base
    rules: Rules
    capacity: int = NO_LIMIT
    times: Mapping[int, float] = field(default_factory=dict)
    needs: Mapping[int, Sequence[int]] = field(default_factory=dict)

    @property
    def fixed(self) -> int:
        """Tokens of what stands before the messages."""
        return self.base.system + self.base.tools


@dataclass(frozen=True, slots=True)
class Sent:
    """What a planner sends at one call: the window's items and its tokens, with system and tools.

    summarized: tokens that another call read to write a summary for this one; summary: tokens of that summary.
    """

    border: int
    items: Sequence[int]
    tokens: int
    summarized: int = 0
    summary: int = 0


Sizes = dict[int, int]
"""Tokens of items that are not a row as it was recorded; a planner fills in those that it makes."""
Planner = Callable[[Run, Sizes], Iterator[Sent]]


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a replay, in tokens.

    kept: the front that equals the beginning of the last request. cached: how much of it the provider's cache would
    have served. fresh: the rest of the request. is_broken: the last request is no prefix of this one (B30).
    is_rejected: over the window. missed: rows that its answer quotes and that were not whole in it.
    """

    border: int
    tokens: int
    kept: int
    cached: int
    fresh: int
    is_broken: bool
    is_rejected: bool
    missed: tuple[int, ...]
    cost: float
    items: Sequence[int]


@dataclass(frozen=True, slots=True)
class Replay:
    """All calls of a run under one policy, and what they add up to (`replay --json`).

    A call counts as one miss, whatever the number of results it missed. cleared_results, dropped_turns, dropped_rounds:
    how many of the run's were ever not whole, or not there. cost_usd: of what was sent, None without prices.
    """

    name: str
    run: str
    calls: tuple[Call, ...]
    rejected: int
    sent_tokens: int
    fresh_tokens: int
    cached_tokens: int
    broken_fronts: int
    misses: int
    peak_tokens: int
    cleared_results: int
    dropped_turns: int
    dropped_rounds: int
    cost_usd: float | None


def replay(name: str, planner: Planner, run: Run, rule: CacheRule = NO_CACHE, prices: Prices | None = None) -> Replay:
    """Walk a run call by call under one policy."""
    sizes: Sizes = {}
    calls: list[Call] = []
    gone = _Gone(run)
    last: Sent | None = None
    for sent in planner(run, sizes):
        call = _judge(run, sent, last, sizes, rule, prices, calls[-1].border if calls else -1)
        gone.look(sent, is_new=call.is_broken or not calls)
        calls.append(call)
        last = sent
    return Replay(
        name=name,
        run=run.name,
        calls=tuple(calls),
        rejected=sum(call.is_rejected for call in calls),
        sent_tokens=sum(call.tokens for call in calls),
        fresh_tokens=sum(call.fresh for call in calls),
        cached_tokens=sum(call.cached for call in calls),
        broken_fronts=sum(call.is_broken for call in calls),
        misses=sum(bool(call.missed) for call in calls),
        peak_tokens=max((call.tokens for call in calls), default=0),
        cleared_results=len(gone.cleared),
        dropped_turns=len(gone.rows.intersection(run.counts.transcript.openers)),
        dropped_rounds=len(gone.rows.intersection(run.counts.transcript.answers)),
        cost_usd=None if prices is None else sum(call.cost for call in calls),
    )


def _judge(
    run: Run, sent: Sent, last: Sent | None, sizes: Sizes, rule: CacheRule, prices: Prices | None, before: int
) -> Call:
    shared = _shared(last.items, sent.items) if last else 0
    is_broken = last is not None and shared < len(last.items)
    kept = 0
    if last is not None:
        kept = run.fixed + sum(size_of(run, sizes, item) for item in sent.items[:shared]) if is_broken else last.tokens
    age = run.times[sent.border] - run.times[before] if sent.border in run.times and before in run.times else 0.0
    cached = rule.served(kept, added=len(sent.items) - shared, age=age, fixed=run.fixed)
    present = set(sent.items) if run.needs.get(sent.border) else set()
    cost = prices.of(sent.tokens, cached, rule) if prices else 0.0
    if prices and sent.summarized:
        # The head goes to the summarizer as it was last sent, so the cache serves it.
        cost += prices.of(sent.summarized, min(kept, sent.summarized), rule) + prices.written(sent.summary)
    return Call(
        border=sent.border,
        tokens=sent.tokens,
        kept=kept,
        cached=cached,
        fresh=sent.tokens - cached,
        is_broken=is_broken,
        is_rejected=sent.tokens > run.capacity,
        missed=tuple(row for row in run.needs.get(sent.border, ()) if row * VARIANTS not in present),
        cost=cost,
        items=sent.items,
    )


def _shared(last: Sequence[int], now: Sequence[int]) -> int:
    """How many items two windows have in common at their beginning."""
    length = min(len(last), len(now))
    if last[:length] == now[:length]:
        return length
    return next(at for at in range(length) if last[at] != now[at])


def size_of(run: Run, sizes: Sizes, item: int) -> int:
    """Tokens of one item."""
    if item in sizes:
        return sizes[item]
    row = item // VARIANTS
    return run.counts.tokens[row + 1] - run.counts.tokens[row]


class _Gone:
    """Which rows were ever left out or cleared; looked at only where a front broke, since else nothing went."""

    __slots__ = ("_run", "cleared", "rows")

    def __init__(self, run: Run) -> None:
        self._run = run
        self.rows: set[int] = set()
        self.cleared: set[int] = set()

    def look(self, sent: Sent, *, is_new: bool) -> None:
        if not is_new:
            return
        items = [item for item in sent.items if item >= 0]
        self.rows |= set(range(sent.border)) - {item // VARIANTS for item in items}
        results = self._run.counts.results
        edited = {item // VARIANTS for item in items if item % VARIANTS}
        self.cleared |= edited.intersection(results[: bisect_left(results, sent.border)])
