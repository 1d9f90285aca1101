"""The state of the window at one call, read off a decision: what is in it, and how far it is to the next shaping."""

from bisect import bisect_left
from collections.abc import Sequence

from longturn.core.checkpoint import text_of
from longturn.core.fold import Base, Outcome
from longturn.core.meter import MOST_FACTOR, Snapshot
from longturn.core.policy import NO_LIMIT
from longturn.core.view import State, View

RECENT = 5
"""How many turns, or rounds, the size of the next ones is taken from."""


def snapshot_of(
    outcome: Outcome,
    base: Base,
    *,
    window: int | None,
    budget: int,
    capacity: int | None,
    factor: float = 1.0,
    ceiling: float | None = None,
) -> Snapshot:
    """The snapshot of a call (S14).

    window, budget, capacity, factor: as `Snapshot` has them. ceiling: where the next shaping begins, in our count,
    when that is not the fold's own ceiling since a summary is due before it.
    """
    view, state = outcome.view, outcome.state
    checkpoint = _checkpoint(view, state)
    system = base.system + view.counts.tokens[view.counts.transcript.lead]
    reached = view.ceiling(state) if ceiling is None else min(int(ceiling), view.ceiling(state))
    # "No limit" is a number, which a calibration has divided.
    free = None if reached > NO_LIMIT // (2 * MOST_FACTOR) else max(0, reached - view.size(state))
    return Snapshot(
        window=window,
        budget=budget,
        capacity=capacity,
        factor=factor,
        system=system,
        tools=base.tools,
        messages=view.exact(state) - system - base.tools - checkpoint,
        checkpoint=checkpoint,
        free=free,
        turns_left=_left(view, free, _turns(view)),
        rounds_left=_left(view, free, _rounds(view)),
    )


def _checkpoint(view: View, state: State) -> int:
    """Tokens of summaries in the window: in the note's place, and where the list itself begins with one."""
    transcript, first = view.counts.transcript, state.first
    is_first = first >= 0 and bool(text_of(transcript.rows[first].message)) and not view.is_superseded(state)
    tokens = view.row(first) if is_first else 0
    is_handed_back = transcript.note is not None and text_of(transcript.note)
    return tokens + view.mark(state) if state.noted and (state.checkpoint >= 0 or is_handed_back) else tokens


def _turns(view: View) -> Sequence[int]:
    """Where the last turns begin; the running one is not whole."""
    openers = view.counts.transcript.openers
    stop = bisect_left(openers, view.border)
    return openers[max(0, stop - RECENT - 1) : stop]


def _rounds(view: View) -> Sequence[int]:
    """Where the last rounds of the running turn begin, and where the newest ends; before a call each is whole."""
    answers = view.counts.transcript.answers
    stop = bisect_left(answers, view.border)
    start = max(bisect_left(answers, view.opener), stop - RECENT)
    return [*answers[start:stop], view.border]


def _left(view: View, free: int | None, borders: Sequence[int]) -> int | None:
    """How many stretches like those between the borders still fit; as they were recorded, since new ones come whole."""
    if free is None or len(borders) < 2:
        return None
    size = view.tokens(borders[0], borders[-1])
    return free * (len(borders) - 1) // size if size > 0 else None
