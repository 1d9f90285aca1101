"""The ladder: each rung names the places it could go to, and what the state is when it has gone there.

A rung is a pure function from a view and a state to a state with a smaller window. The climb is the same for all: to
the first place that brings the size down to the target, or to the last one (B8). Nothing here decides when to climb.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence

from longturn.core.messages import Reasoning
from longturn.core.policy import Policy
from longturn.core.view import State, View, merged
from longturn.errors import ConfigError

Rung = Callable[[View, State, int], State]
Step = Callable[[int], State]


def climb(view: View, state: State, target: int, places: Sequence[int], step: Step) -> State:
    """The state at the first of `places` whose size is at most `target`, at the last one if there is none.

    Sizes fall from place to place, so a binary search finds it.
    """
    if not places or view.size(state) <= target:
        return state
    low, high = 0, len(places) - 1
    while low < high:
        middle = (low + high) // 2
        if view.size(step(places[middle])) <= target:
            high = middle
        else:
            low = middle + 1
    return step(places[low])


def edit(view: View, state: State, place: int, **changes: object) -> State:
    """The state with `changes`, the first of which is made at row `place`.

    Where a provider checks that nothing before a thinking block has changed, all thinking behind the place goes with
    it, without gaps (B23); what that saves counts at once.
    """
    thinking = view.counts.thinking
    if view.rules.thinking == "preserved" and thinking[view.border] > thinking[place + 1]:
        changes["thoughts"] = merged(state.thoughts, place, view.border)
    return view.settle(state._replace(**changes))  # type: ignore[arg-type]  # fields of State by name


def replace_images(view: View, state: State, target: int) -> State:
    """Images in the results of older turns give way to a short text (B12); one that was cut (L8) stays as it is."""
    edited = {*state.images, *(row for row, _ in state.trimmed)}
    places = [
        row
        for row in view.pictures(view.begin(state), max(view.opener, 0))
        if row not in edited and not view.is_cleared(state, row)
    ]

    def replaced(row: int) -> State:
        images = [*state.images, *places[: places.index(row) + 1]]
        return edit(view, state, places[0], images=tuple(sorted(images)))

    return climb(view, state, target, places, replaced)


def clear_results(view: View, state: State, target: int) -> State:
    """Old tool results give way to a short note, the oldest first, in batches (L1-L4, B13)."""
    clearable, batch = view.counts.clearable, view.counts.policy.batch
    start = bisect_left(clearable, max(state.cleared, view.begin(state)))
    rows = clearable[start : bisect_left(clearable, whole_from(view, state))]
    if state.images or state.trimmed:
        rows = [row for row in rows if view.is_clearable(state, row)]
    # The last, partial batch is cleared too before anything is dropped (B13).
    ends = [*rows[batch - 1 :: batch], *rows[-1:]]
    return climb(view, state, target, ends, lambda row: edit(view, state, rows[0], cleared=row + 1))


def whole_from(view: View, state: State) -> int:
    """The row from which results stay whole: the newest that fit in the whole share, and the newest round (L3, B13)."""
    counts = view.counts
    last = bisect_left(counts.results, view.border)
    if not last:
        return view.border
    fitting = fitting_from(counts.result_tokens, last, view.limits.whole)
    if state.images or state.trimmed:
        # Results whose images are gone, or that were cut, take less room than they were recorded with.
        room, fitting = view.limits.whole, last
        while fitting and room >= 0:
            row = counts.results[fitting - 1]
            room -= view.row(row) - view.reduction(state, row)
            fitting -= room >= 0
    newest = counts.results[min(fitting, last - 1)]
    answers = counts.transcript.answers
    before = bisect_left(answers, view.border)
    return min(newest, answers[before - 1]) if before else newest


def fitting_from(sums: Sequence[int], last: int, share: int) -> int:
    """From which entry on those before `last` fit in `share` together, by their prefix sums."""
    return bisect_left(sums, sums[last] - share, 0, last)


def shorten_arguments(view: View, state: State, target: int) -> State:
    """Long arguments of old calls are cut in the middle, to valid JSON (B15).

    What stays whole is chosen as for results (L3): the newest that fit in the whole share, and the newest round.
    """
    wordy = view.counts.wordy
    start = bisect_left(wordy, max(state.shortened, view.begin(state)))
    last = bisect_left(wordy, view.border)
    stop = min(fitting_from(view.counts.wordy_tokens, last, view.limits.whole), bisect_left(wordy, view.newest))
    places = [row for row in wordy[start:stop] if view.counts.shortening(row)]
    # Thinking may stand behind a call in the same answer, so the change is made just before the row.
    return climb(view, state, target, places, lambda row: edit(view, state, places[0] - 1, shortened=row + 1))


def drop_answers(view: View, state: State, target: int) -> State:
    """The oldest rounds are left out, first those of old turns; what users said stays, as far as the whole share goes.

    Users' messages are small, and they are what an agent must not forget: what to do, and what never to do.
    """
    begin = view.begin(state)
    places = useful(view, state, [*view.turns_from(begin), *view.rounds_from(begin)], _bare_at)
    return climb(view, state, target, places, lambda row: _bare_at(view, state, row, "token_budget"))


def drop_turns(view: View, state: State, target: int) -> State:
    """The oldest whole turns are left out; the first message and the running turn stay (L5, B16)."""
    places = useful(view, state, view.turns_from(state.cut))
    return climb(view, state, target, places, lambda row: cut_at(view, state, row, "token_budget"))


def drop_rounds(view: View, state: State, target: int) -> State:
    """The oldest rounds of the running turn are left out; its opener and the newest round stay (L6)."""
    places = useful(view, state, view.rounds_from(view.begin(state)))
    return climb(view, state, target, places, lambda row: cut_at(view, state, row, "token_budget"))


def useful(view: View, state: State, places: Sequence[int], cut_to: "Cut | None" = None) -> Sequence[int]:
    """Without the places in front at which a cut would leave out nothing: such a cut is none (B16)."""
    now, cut_to = left_out(view, state), cut_to or cut_at
    for at, row in enumerate(places):
        if left_out(view, cut_to(view, state, row, "")) > now:
            return places[at:]
    return ()


def left_out(view: View, state: State) -> int:
    """How many rows are not in the window."""
    if not state.noted:
        return 0
    transcript = view.counts.transcript
    standing = sum(stop - start for start, stop in view.left_standing(state))
    standing += 0 <= state.first < state.cut and not view.is_superseded(state)
    standing += view.inside(state.cut, state.first) >= 0
    return view.begin(state) - transcript.lead - standing


Cut = Callable[[View, State, int, str], State]


def cut_at(view: View, state: State, row: int, cause: str) -> State:
    """The state with the cut before `row`; inside a turn it lands where the thinking rule lets it (B16, B24)."""
    cut, kept = _landing(view, row)
    # Behind the first message, never on it: it stands in front of the note (B17).
    cut = cut + 1 if cut == state.first else cut
    if state.bare > cut:
        kept = state.kept
    return edit(view, state, view.counts.transcript.lead - 1, cut=cut, kept=kept, noted=True, cause=cause)


def _bare_at(view: View, state: State, row: int, cause: str) -> State:
    """The state with nothing but the newest users' messages before `row`, as many as fit in the whole share."""
    bare, kept = _landing(view, row)
    openers, room = view.counts.transcript.openers, view.limits.whole
    # Behind an older turn that was cut inside, its opener stands as one of the users' messages, or not at all.
    inside = view.inside(state.cut, state.first)
    is_older = 0 <= inside < view.counts.transcript.turn_of(min(bare, view.border - 1))
    least = inside if is_older else max(state.cut, state.first + 1)
    at = bisect_left(openers, bare)
    while at and openers[at - 1] >= least and view.row(openers[at - 1]) <= room:
        at -= 1
        room -= view.row(openers[at])
    cut = least
    if at and openers[at - 1] >= least:
        cut = openers[at] if at < len(openers) and openers[at] < bare else bare
    lead = view.counts.transcript.lead
    return edit(view, state, lead - 1, cut=cut, bare=bare, kept=kept, noted=True, cause=cause)


def _landing(view: View, row: int) -> tuple[int, int]:
    if view.rules.thinking == "turn" and row > view.opener:
        return _with_thinking(view, row)
    return row, -1


def _with_thinking(view: View, row: int) -> tuple[int, int]:
    """Where a cut before `row` lands, and the older round to keep, so that a running tool turn starts with thinking."""
    thoughtful = [answer for answer in view.rounds_from(view.opener) if _starts_with_thinking(view, answer)]
    if not thoughtful:
        return row, -1
    newer = bisect_left(thoughtful, row)
    return (thoughtful[newer], -1) if newer < len(thoughtful) else (row, thoughtful[-1])


def _starts_with_thinking(view: View, answer: int) -> bool:
    parts = view.counts.transcript.rows[answer].message.parts
    return bool(parts) and isinstance(parts[0], Reasoning)


RUNGS: Mapping[str, Rung] = {
    "images": replace_images,
    "results": clear_results,
    "arguments": shorten_arguments,
    "answers": drop_answers,
    "turns": drop_turns,
    "rounds": drop_rounds,
}
"""The rungs by the names that a policy lists them with."""


def ladder(policy: Policy) -> tuple[Rung, ...]:
    """The policy's rungs in order. Raises ConfigError for a name that is none."""
    unknown = [name for name in policy.rungs if name not in RUNGS]
    if unknown:
        raise ConfigError(f"no rung is called {unknown[0]!r}: use {', '.join(RUNGS)}")
    return tuple(RUNGS[name] for name in policy.rungs)
