"""When to summarize, and what: the head that a checkpoint would stand for, and the tail that is retained (S4, S5)."""

from bisect import bisect_left
from dataclasses import dataclass

from longturn.core.fold import Outcome, adopt
from longturn.core.policy import NO_LIMIT, Summarization
from longturn.core.pruning import prune
from longturn.core.rungs import cut_at
from longturn.core.view import State, View

SHARE = 5
"""A checkpoint takes at most this fraction of what may be sent, and of what it stands for."""
LEAST = 64
"""A summary may always have this many tokens."""


@dataclass(frozen=True, slots=True)
class Head:
    """What would be summarized: the rows from `start`, where the last checkpoint ends, up to `cut`.

    messages: how many they are, as the core counts them. tokens: of all rows up to the cut, as recorded.
    most: how long the summary may be, in tokens.
    """

    start: int
    cut: int
    messages: int
    tokens: int
    most: int


def carried(outcome: Outcome) -> State:
    """What the trigger is judged on: what is carried on, pruned by age, before anything is shaped for its size (S4)."""
    view = outcome.view
    state = adopt(view, outcome.before)
    pruning = view.counts.policy.pruning
    return prune(view, state, pruning) if pruning else state


def head_of(outcome: Outcome, rules: Summarization, *, on_request: bool = False) -> Head | None:
    """What a summary made now would cover; None where there is nothing to summarize, or no room for it (S5, S9).

    on_request: somebody asks for it now, so it should make the window much smaller, however small that is.
    """
    view, state = outcome.view, carried(outcome)
    full = view.size(state) if on_request else trigger_size(view, rules)
    start, cut = covered(view, state), _tail_from(outcome, state, rules, full)
    rows = [row for place, row in enumerate(view.counts.transcript.rows[start:cut], start) if place != state.first]
    is_new = state.checkpoint < 0 or view.counts.transcript.checkpoints[state.checkpoint].at < view.border
    # Where the instructions alone fill the window, no summary helps; where nothing came since the last, neither (S9).
    if not rows or not is_new or view.pins(state) + LEAST > view.limits.limit:
        return None
    source = view.tokens(view.counts.transcript.lead, cut)
    return Head(start, cut, sum(not row.continues for row in rows), source, _most(view, cut, rules))


def _most(view: View, cut: int, rules: Summarization) -> int:
    """How long the summary of all before a cut may be, in tokens."""
    source = view.tokens(view.counts.transcript.lead, cut)
    return min(rules.most_tokens, max(LEAST, view.limits.limit // SHARE), max(LEAST, source // SHARE))


def is_triggered(outcome: Outcome, rules: Summarization) -> bool:
    """Whether it is time (S4): by the trigger, or, without one, because messages would be dropped."""
    view, state, decided = outcome.view, carried(outcome), outcome.state
    if rules.trigger is None:
        # Also where an earlier call has dropped what no summary covers: one failed, or nobody was there to write it.
        return view.begin(decided) > max(covered(view, state), decided.first + 1)
    if rules.trigger.type == "messages_to_refine":
        head = head_of(outcome, rules)
        return head is not None and head.messages >= rules.trigger.value
    return view.limits.limit < NO_LIMIT and view.exact(state) >= trigger_size(view, rules)


def covered(view: View, state: State) -> int:
    """The row up to which the standing checkpoint goes."""
    transcript = view.counts.transcript
    return transcript.checkpoints[state.checkpoint].cut if state.checkpoint >= 0 else transcript.lead


def trigger_size(view: View, rules: Summarization) -> float:
    """The size at which a trigger fires, in tokens; without one that of the ladder."""
    limit, trigger = view.limits.limit, rules.trigger
    if trigger is None or trigger.type == "messages_to_refine":
        return limit
    return trigger.value * limit if trigger.type == "token_ratio" else limit - trigger.value


def _tail_from(outcome: Outcome, state: State, rules: Summarization, full: float) -> int:
    """The row from which everything is retained: whole turns, in a turn that is too long whole rounds.

    As many turns as asked for, as far as they leave the window as far below `full` as the ladder's target is below the
    limit: the next summary is then some way off.
    """
    view, decided, retain = outcome.view, outcome.state, rules.retain_recent
    openers = view.counts.transcript.openers[: bisect_left(view.counts.transcript.openers, view.border)]
    places = [*openers[-max(1, retain.turns) :], *view.rounds_from(view.opener)]
    # Results that the ladder clears before it drops anything may stand cleared in the tail.
    cuts = {name: getattr(state, name) for name in ("first", "cut", "bare", "noted", "kept", "checkpoint")}
    shaped = decided._replace(**cuts)
    pins = view.pins(state)
    goal = min(view.target(state), pins + view.limits.ratio * max(0, full - pins))

    def fits(place: int) -> bool:
        cut = cut_at(view, shaped, max(state.cut, place), "")
        is_small = retain.tokens is None or view.tokens(place, view.border) <= retain.tokens
        return is_small and view.size(cut) + _most(view, place, rules) <= goal

    if not places:
        return state.cut
    place = places[min(bisect_left(places, True, key=fits), len(places) - 1)]
    return max(state.cut, cut_at(view, state, place, "").cut if place > state.first else place)
