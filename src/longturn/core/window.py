"""A window derived from a view and a state: its messages, the edits in force, and what happened at this border."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Literal

from longturn.core import edits
from longturn.core.checkpoint import text_of
from longturn.core.events import (
    ArgumentsShortened,
    Event,
    HistoryRepaired,
    HistoryTrimmed,
    Reason,
    ResultsCleared,
    ResultsPruned,
    ResultsTrimmed,
    ThinkingDropped,
)
from longturn.core.fold import Outcome
from longturn.core.messages import Message, user
from longturn.core.texts import PLACEHOLDER
from longturn.core.view import State, View

Kind = Literal["left_out", "cleared", "images", "arguments", "thinking", "trimmed", "pruned", "repaired"]


@dataclass(frozen=True, slots=True)
class Edit:
    """One recorded change that is in force.

    message: index in the caller's list, -1 for something that stands nowhere in it. reason: why, in words.
    tokens: how many it saves.
    """

    kind: Kind
    message: int
    reason: str
    tokens: int = 0


def messages(view: View, state: State, stop: int) -> list[Message]:
    """The window up to row `stop`: system messages, first user message, note, what stands before the cut, rest."""
    transcript = view.counts.transcript
    window = [row.message for row in transcript.rows[: transcript.lead]]
    ahead, *behind = stretches(view, state)
    if state.noted:
        if not view.is_superseded(state):
            window += edited(view, state, *ahead) or [transcript.placeholder or user(PLACEHOLDER)]
        if view.has_mark(state):
            window.append(transcript.mark(state.checkpoint))
    elif view.headless():
        window.append(transcript.placeholder or user(PLACEHOLDER))
    for start, end in behind:
        window += edited(view, state, start, min(end, stop))
    return window


def stretches(view: View, state: State) -> list[tuple[int, int]]:
    """The stretches of rows in a window behind its system messages; the first is the message ahead of the note."""
    behind = [(view.begin(state), view.border)]
    if not state.noted:
        return [(0, 0), *behind]
    ahead = (0, 0) if view.front_missing(state) or view.is_superseded(state) else (state.first, state.first + 1)
    opener = view.inside(state.cut, state.first)
    standing = [*view.left_standing(state), *([(opener, opener + 1)] if opener >= 0 else [])]
    return [ahead, *sorted(standing), *behind]


def reach(view: View, state: State, start: int, stop: int) -> int:
    """Rows of a stretch from here on are as they were recorded."""
    places = [state.cleared, state.shortened, state.softened, state.hardened]
    places += [border for _, border in state.thoughts]
    places += [row + 1 for row, _ in state.trimmed] + [row + 1 for row in state.images]
    return stop if start == state.kept else max(start, min(max(places), stop))


def edited(view: View, state: State, start: int, stop: int) -> list[Message]:
    """The messages of a stretch of rows with the edits that are in force."""
    rows, end = view.counts.transcript.rows, reach(view, state, start, stop)
    window = [_edited_row(view, state, row, start == state.kept) for row in range(start, end)]
    return window + [row.message for row in rows[end:stop]]


def _edited_row(view: View, state: State, row: int, kept: bool) -> Message:
    """One row's message as the window holds it; the very same object where nothing applies (law 2)."""
    entry = view.counts.transcript.rows[row]
    message = entry.message
    for kind in kinds_of(view, state, row, kept):
        message = _EDITS[kind](view, state, row, message)
    return message


def saved_by(view: View, state: State, row: int, kind: Kind) -> int:
    """Tokens that an edit of this kind saves in a row."""
    return _SAVED[kind](view, state, row)


def kinds_of(view: View, state: State, row: int, kept: bool) -> tuple[Kind, ...]:
    """The edits that apply to one row, in the order in which they are made."""
    counts = view.counts
    entry = counts.transcript.rows[row]
    if entry.message.role == "tool":
        kind = _result_kind(view, state, row, kept)
        return (kind,) if kind else ()
    if entry.message.role != "assistant":
        return ()
    kinds: list[Kind] = []
    if row < state.shortened and _is_in(counts.wordy, row) and counts.shortening(row):
        kinds.append("arguments")
    if entry.measure.thinking is not None and any(place < row < border for place, border in state.thoughts):
        kinds.append("thinking")
    return tuple(kinds)


def _result_kind(view: View, state: State, row: int, kept: bool) -> Kind | None:
    is_cleared = view.is_cleared(state, row, kept)
    if view.is_pruned(state, row) and (row < state.hardened or not is_cleared):
        return "pruned"
    if is_cleared:
        return "cleared"
    if any(place == row for place, _ in state.trimmed):
        return "trimmed"
    return "images" if row in state.images else None


def _cleared(view: View, _state: State, row: int, message: Message) -> Message:
    return edits.cleared(message, view.counts.cleared_text(view.counts.transcript.rows[row].tool))


def _pruned(view: View, state: State, row: int, message: Message) -> Message:
    pruning = view.counts.policy.pruning
    return edits.pruned(message, pruning, hard=row < state.hardened) if pruning else message


_EDITS: Mapping[Kind, Callable[[View, State, int, Message], Message]] = {
    "cleared": _cleared,
    "pruned": _pruned,
    "trimmed": lambda _view, state, row, message: edits.trimmed(message, dict(state.trimmed)[row]),
    "images": lambda _view, _state, _row, message: edits.without_images(message),
    "arguments": lambda _view, _state, _row, message: edits.shortened(message),
    "thinking": lambda _view, _state, _row, message: edits.without_thinking(message),
}
_SAVED: Mapping[Kind, Callable[[View, State, int], int]] = {
    "cleared": lambda view, _state, row: view.counts.clearing[row + 1] - view.counts.clearing[row],
    "pruned": lambda view, state, row: view.counts.pruning(row, hard=row < state.hardened),
    "trimmed": lambda view, state, row: view.counts.trimming(row, dict(state.trimmed)[row]),
    "images": lambda view, _state, row: view.counts.picturing(row),
    "arguments": lambda view, _state, row: view.counts.shortening(row),
    "thinking": lambda view, _state, row: (
        view.counts.thinking[row + 1] - view.counts.thinking[row] - view.emptied(row, row + 1)
    ),
}


def _is_in(places: list[int], row: int) -> bool:
    at = bisect_left(places, row)
    return at < len(places) and places[at] == row


def _edits_of(view: View, state: State) -> Iterator[tuple[int, Kind, int]]:
    """Row, kind and tokens saved of each edit that is in force in the window."""
    for start, stop in stretches(view, state):
        for row in range(start, reach(view, state, start, stop)):
            for kind in kinds_of(view, state, row, start == state.kept):
                yield row, kind, saved_by(view, state, row, kind)


def edits_in_force(outcome: Outcome) -> tuple[Edit, ...]:
    """Everything that makes the window differ from the transcript (B32)."""
    view, state = outcome.view, outcome.state
    transcript = view.counts.transcript
    found = [Edit("repaired", repair.position, repair.what) for _, repair in transcript.repairs]
    if transcript.noted:
        found.append(Edit("left_out", -1, "left out before this list began"))
    if transcript.placeholder is None and (view.front_missing(state) if state.noted else view.headless()):
        found.append(Edit("repaired", -1, "a user message was put in front of the first answer"))
    reason = _REASONS.get(state.cause, "token budget")
    gone = set(range(view.border)) - standing_rows(view, state)
    found += [Edit("left_out", transcript.rows[row].position, reason, view.row(row)) for row in sorted(gone)]
    for row, kind, saved in sorted(_edits_of(view, state)):
        cause = "age" if kind == "pruned" else "token budget"
        found.append(Edit(kind, transcript.rows[row].position, cause, saved))
    return tuple(found)


def is_summarized(view: View, state: State) -> bool:
    """Whether a checkpoint stands in the window, one that was handed back included."""
    return state.noted and bool(text_of(view.counts.transcript.mark(state.checkpoint)))


def standing_rows(view: View, state: State) -> set[int]:
    """The rows that are in the window."""
    return set(range(view.counts.transcript.lead)).union(*(range(*each) for each in stretches(view, state)))


def events(outcome: Outcome) -> tuple[Event, ...]:
    """What happened at this border (B32): nothing when the decisions before it were only carried on."""
    view, before, state = outcome.view, outcome.before, outcome.state
    transcript = view.counts.transcript
    found: list[Event] = []
    running = takewhile(lambda entry: entry[0] >= transcript.settled, reversed(transcript.repairs))
    if repairs := tuple(repair.what for _, repair in running):
        found.append(HistoryRepaired(repairs[::-1]))
    if state == before:
        return tuple(found)
    earlier = {(row, kind): tokens for row, kind, tokens in _edits_of(view, before)}
    saved: dict[Kind, list[int]] = {}
    for row, kind, tokens in _edits_of(view, state):
        # A result pruned to head and tail may go on to the placeholder: the same kind, and more saved.
        more = tokens - earlier.get((row, kind), 0)
        if (row, kind) not in earlier or more:
            saved.setdefault(kind, []).append(more)
    found += [_edited_event(kind, tokens) for kind, tokens in saved.items()]
    if (state.cut, state.bare, state.first) != (before.cut, before.bare, before.first) or (
        (state.noted, state.checkpoint) != (before.noted, before.checkpoint)
    ):
        found.append(_trimming(outcome))
    return tuple(found)


_REASONS: Mapping[str, str] = {"turn_limit": "turn limit", "checkpoint": "checkpoint"}


def _edited_event(kind: Kind, tokens: list[int]) -> Event:
    number, saved = len(tokens), sum(tokens)
    match kind:
        case "thinking":
            return ThinkingDropped(number, saved)
        case "arguments":
            return ArgumentsShortened(number, saved)
        case "trimmed":
            return ResultsTrimmed(number, saved)
        case "pruned":
            return ResultsPruned(number, saved)
        case "images":
            return ResultsCleared(number, saved, "images")
        case _:
            return ResultsCleared(number, saved)


def _trimming(outcome: Outcome) -> HistoryTrimmed:
    view, before, state = outcome.view, outcome.before, outcome.state
    gone = standing_rows(view, before) - standing_rows(view, state)
    return HistoryTrimmed(
        dropped_messages=len(gone),
        dropped_turns=view.turns(before) - view.turns(state),
        dropped_rounds=len(gone.intersection(view.counts.transcript.answers)),
        kept_turns=view.turns(state),
        reason=_reason(view, state),
        token_budget=view.limits.budget,
        tokens_before=view.exact(before),
        tokens_after=view.exact(state),
        source="calibrated" if view.limits.calibrated else "estimate",
    )


def _reason(view: View, state: State) -> Reason:
    if state.cause == "turn_limit" or state.cause == "checkpoint":
        return state.cause  # type: ignore[return-value]
    return "overflow_recovery" if view.limits.recovers else "token_budget"


def alternating(messages: list[Message]) -> list[Message]:
    """Neighbouring messages of one role joined, for templates that insist on alternation (B27); results stay apart."""
    joined: list[Message] = []
    for message in messages:
        last = joined[-1] if joined else None
        if last is None or message.role == "tool" or message.role != last.role:
            joined.append(message)
        else:
            joined[-1] = last.with_parts([*last.parts, *message.parts])
    return joined
