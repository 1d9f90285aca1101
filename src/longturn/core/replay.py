"""Replay: what a policy would have sent at each call of a recorded run, and what stayed equal from call to call.

Each answer in a recording was one call. No model is needed, and nothing here knows files. A window is a list of items,
one for each message in it: a number that names the row and the edits made to it, or our own text. So two windows are
compared by comparing numbers, and a front is the beginning that two neighbouring lists share (B30).
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from longturn.core.caches import NO_CACHE, CacheRule, Prices
from longturn.core.counts import Counts
from longturn.core.fold import Base
from longturn.core.policy import NO_LIMIT
from longturn.core.view import Rules

EDITED = ("cleared", "images", "arguments", "thinking", "trimmed", "softened", "hardened")
"""Edits of one row; an item holds a bit for each."""
VARIANTS = 1 << len(EDITED)
LOST = sum(1 << EDITED.index(kind) for kind in ("cleared", "trimmed", "softened", "hardened"))
"""Edits after which a result no longer says what it said."""
NOTE_ITEM, PLACEHOLDER_ITEM = -1, -2
SUMMARY_ITEM = -100
"""A summary is this less its number: each one is another text."""
CHECKPOINT_ITEM = -(1 << 30)
"""A checkpoint of the recording is this less its index; it is counted as a summary."""


@dataclass(frozen=True, slots=True)
class Run:
    """One recorded conversation, read and counted once for all policies.

    base: system prompt and tools, in tokens. window: the model's, in tokens, None when unknown. capacity: the window
    less the room for the answer, `NO_LIMIT` when unknown.
    since: border of the first call: answers before it were recorded as calls of another run (a compaction kept them).
    times: by border, unix seconds of its call, where the recording has them. needs: by border, the rows of results that
    the answer of its call quotes (misses.py).
    """

    name: str
    counts: Counts
    base: Base
    rules: Rules
    window: int | None = None
    capacity: int = NO_LIMIT
    since: int = 0
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
    have served. fresh: the rest of the request; a rejected one is not read, so it has neither. is_broken: the last
    request is no prefix of this one (B30). is_rejected: over the window. missed: rows that its answer quotes and that
    were not whole in it. summarized: tokens of another call that read them to write a summary for this one;
    summarized_cached: how many the cache served.
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
    summarized: int = 0
    summarized_cached: int = 0


@dataclass(frozen=True, slots=True)
class Replay:
    """All calls of a run under one policy, and what they add up to (`replay --json`).

    sizes: tokens of the items that are not a row as it was recorded. A call counts as one miss, whatever the number of
    results it missed. cleared_results, dropped_turns, dropped_rounds: how many of the run's were ever sent other than
    whole, or were not there. cost_usd: of what was sent and of summaries, None without prices.
    """

    name: str
    run: str
    calls: tuple[Call, ...]
    sizes: Mapping[int, int]
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


def replay(
    name: str,
    planner: Planner,
    run: Run,
    rule: CacheRule = NO_CACHE,
    prices: Prices | None = None,
    *,
    keep_items: bool = True,
) -> Replay:
    """Walk a run call by call under one policy; without `keep_items` the calls forget their windows."""
    sizes: Sizes = {}
    calls: list[Call] = []
    gone = _Gone(run)
    last: Sent | None = None
    read: Sent | None = None
    for sent in planner(run, sizes):
        if sent.border < run.since:
            continue
        front = _front(run, last, sent, sizes)
        # What is refused is not read, so it is in no cache.
        warm = front if read is last else _front(run, read, sent, sizes)
        call = _judge(run, sent, front, warm, rule, prices)
        gone.look(sent, last, front.shared)
        calls.append(call if keep_items else dataclasses.replace(call, items=()))
        last, read = sent, read if call.is_rejected else sent
    return Replay(
        name=name,
        run=run.name,
        calls=tuple(calls),
        sizes=sizes,
        rejected=sum(call.is_rejected for call in calls),
        sent_tokens=sum(call.cached + call.fresh + call.summarized for call in calls),
        fresh_tokens=sum(call.fresh + call.summarized - call.summarized_cached for call in calls),
        cached_tokens=sum(call.cached + call.summarized_cached for call in calls),
        broken_fronts=sum(call.is_broken for call in calls),
        misses=sum(bool(call.missed) for call in calls),
        peak_tokens=max((call.tokens for call in calls), default=0),
        cleared_results=len(gone.cleared),
        dropped_turns=len(gone.rows.intersection(run.counts.transcript.openers)),
        dropped_rounds=len(gone.rows.intersection(run.counts.transcript.answers)),
        cost_usd=None if prices is None else sum(call.cost for call in calls),
    )


@dataclass(frozen=True, slots=True)
class _Front:
    """What a request shares with an earlier one: items and tokens, and how old that one is, in seconds."""

    shared: int = 0
    tokens: int = 0
    is_broken: bool = False
    age: float = 0.0


def _front(run: Run, last: Sent | None, sent: Sent, sizes: Sizes) -> _Front:
    if last is None:
        return _Front()
    shared = _shared(last.items, sent.items)
    tokens = last.tokens - sum(size_of(run, sizes, item) for item in last.items[shared:])
    times = run.times
    age = times[sent.border] - times[last.border] if sent.border in times and last.border in times else 0.0
    return _Front(shared, tokens, shared < len(last.items), age)


def _judge(run: Run, sent: Sent, front: _Front, warm: _Front, rule: CacheRule, prices: Prices | None) -> Call:
    is_rejected = sent.tokens > run.capacity
    added = _blocks(run, sent.items[warm.shared :])
    cached = 0 if is_rejected else rule.served(warm.tokens, added=added, age=warm.age, fixed=run.fixed)
    # To the agent's own model the head goes as it was last sent, so the cache serves it (S7).
    read = sent.summarized
    summarized_cached = rule.served(read, added=1, age=warm.age, fixed=run.fixed) if read else 0
    cost = 0.0
    if prices and not is_rejected:
        cost = prices.of(sent.tokens, cached, rule)
        cost += prices.of(sent.summarized, summarized_cached, rule) + prices.written(sent.summary)
    return Call(
        border=sent.border,
        tokens=sent.tokens,
        kept=front.tokens,
        cached=cached,
        fresh=0 if is_rejected else sent.tokens - cached,
        is_broken=front.is_broken,
        is_rejected=is_rejected,
        missed=_missed(run, sent),
        cost=cost,
        items=sent.items,
        summarized=sent.summarized,
        summarized_cached=summarized_cached,
    )


def _missed(run: Run, sent: Sent) -> tuple[int, ...]:
    needs = run.needs.get(sent.border)
    if not needs:
        return ()
    told = {item // VARIANTS for item in sent.items if not item % VARIANTS & LOST}
    return tuple(row for row in needs if row not in told)


def _blocks(run: Run, items: Sequence[int]) -> int:
    """How many content blocks, as a cache's look-back counts them."""
    rows = run.counts.transcript.rows
    return sum(len(rows[item // VARIANTS].message.parts) if item >= 0 else 1 for item in items)


def _shared(last: Sequence[int], now: Sequence[int]) -> int:
    """How many items two windows have in common at their beginning."""
    low, high = 0, min(len(last), len(now))
    if last[:high] == now[:high]:
        return high
    while low < high:
        middle = (low + high + 1) // 2
        if last[low:middle] == now[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def size_of(run: Run, sizes: Sizes, item: int) -> int:
    """Tokens of one item."""
    if item in sizes:
        return sizes[item]
    row = item // VARIANTS
    return run.counts.tokens[row + 1] - run.counts.tokens[row]


class _Gone:
    """Which rows were ever left out, and which results were ever sent other than whole."""

    __slots__ = ("_results", "cleared", "rows")

    def __init__(self, run: Run) -> None:
        self._results = set(run.counts.results)
        self.rows: set[int] = set()
        self.cleared: set[int] = set()

    def look(self, sent: Sent, last: Sent | None, shared: int) -> None:
        """Look at what differs from the last window."""
        items = [item for item in sent.items[shared:] if item >= 0]
        before = {item // VARIANTS for item in last.items[shared:] if item >= 0} if last else set()
        arrived = range(last.border if last else 0, sent.border)
        self.rows |= before.union(arrived).difference(item // VARIANTS for item in items)
        self.cleared |= self._results.intersection(item // VARIANTS for item in items if item % VARIANTS)
