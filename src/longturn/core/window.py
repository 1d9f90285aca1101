"""A window derived from a view and a state: its messages, the edits in force, and what happened at this border."""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from longturn.core import edits
from longturn.core.events import (
    ArgumentsShortened,
    Event,
    HistoryRepaired,
    HistoryTrimmed,
    ResultsCleared,
    ResultsPruned,
    ResultsTrimmed,
    ThinkingDropped,
)
from longturn.core.fold import Outcome
from longturn.core.messages import Message, user
from longturn.core.policy import NO_LIMIT
from longturn.core.texts import NOTE, PLACEHOLDER
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
    ahead, *behind = _stretches(view, state)
    if state.noted:
        window += edited(view, state, *ahead) or [transcript.placeholder or user(PLACEHOLDER)]
        window.append(transcript.note or user(NOTE))
    elif view.headless():
        window.append(transcript.placeholder or user(PLACEHOLDER))
    for start, end in behind:
        window += edited(view, state, start, min(end, stop))
    return window


def _stretches(view: View, state: State) -> list[tuple[int, int]]:
    """The stretches of rows in a window behind its system messages; the first is the message ahead of the note."""
    behind = [(state.cut, view.border)]
    if not state.noted:
        return [(0, 0), *behind]
    is_ahead = 0 <= state.first < state.cut
    opener = view.inside(state.cut, state.first)
    return [
        (state.first, state.first + 1) if is_ahead else (0, 0),
        *([(opener, opener + 1)] if opener >= 0 else []),
        *view.left_standing(state),
        *behind,
    ]


def _reach(view: View, state: State, start: int, stop: int) -> int:
    """Rows of a stretch from here on are as they were recorded."""
    places = [state.cleared, state.images, state.shortened, state.softened, state.hardened]
    places += [border for _, border in state.thoughts] + [row + 1 for row, _ in state.trimmed]
    return stop if start == state.kept else max(start, min(max(places), stop))


def edited(view: View, state: State, start: int, stop: int) -> list[Message]:
    """The messages of a stretch of rows with the edits that are in force."""
    rows, reach = view.counts.transcript.rows, _reach(view, state, start, stop)
    window = [edit_of(view, state, row, start == state.kept)[1] for row in range(start, reach)]
    return window + [row.message for row in rows[reach:stop]]


def edit_of(view: View, state: State, row: int, kept: bool) -> tuple[Kind | None, Message]:
    """What a state does to one row, and its message then; None and the very same object where nothing applies."""
    counts = view.counts
    entry = counts.transcript.rows[row]
    message = entry.message
    if message.role == "tool":
        pruning = counts.policy.pruning
        is_cleared = (row < state.cleared or kept) and counts.is_clearable(row)
        if pruning and view.is_pruned(state, row) and (row < state.hardened or not is_cleared):
            return "pruned", edits.pruned(message, pruning, hard=row < state.hardened)
        if is_cleared:
            return "cleared", edits.cleared(message, counts.cleared_text(entry.tool))
        for place, characters in state.trimmed:
            if place == row:
                return "trimmed", edits.trimmed(message, characters)
        if row < state.images and entry.measure.media and not entry.pinned:
            return "images", edits.without_images(message)
    kind: Kind | None = None
    if message.role == "assistant":
        if row < state.shortened and _is_in(counts.wordy, row) and counts.shortening(row):
            kind, message = "arguments", edits.shortened(message)
        if entry.measure.thinking is not None and any(place < row < border for place, border in state.thoughts):
            kind, message = "thinking", edits.without_thinking(message)
    return kind, message


def _is_in(places: list[int], row: int) -> bool:
    at = bisect_left(places, row)
    return at < len(places) and places[at] == row


def _edits_of(view: View, state: State) -> Iterator[tuple[int, Kind, int]]:
    """Row, kind and tokens saved of each edited message in the window."""
    counts = view.counts
    for start, stop in _stretches(view, state):
        for row in range(start, _reach(view, state, start, stop)):
            kind, message = edit_of(view, state, row, start == state.kept)
            if kind:
                yield row, kind, view.row(row) - counts.of_message(message)


def edits_in_force(outcome: Outcome) -> tuple[Edit, ...]:
    """Everything that makes the window differ from the transcript (B32)."""
    view, state = outcome.view, outcome.state
    transcript = view.counts.transcript
    found = [Edit("repaired", repair.position, repair.what) for _, repair in transcript.repairs]
    if transcript.noted:
        found.append(Edit("left_out", -1, "left out before this list began"))
    reason = "turn limit" if state.cause == "turn_limit" else "token budget"
    found += [
        Edit("left_out", transcript.rows[row].position, reason, view.row(row)) for row in sorted(_gone(view, state))
    ]
    edited = sorted(_edits_of(view, state))
    return (*found, *(Edit(kind, transcript.rows[row].position, "token budget", saved) for row, kind, saved in edited))


def standing_rows(view: View, state: State) -> set[int]:
    """The rows that are in the window."""
    return set(range(view.counts.transcript.lead)).union(*(range(*each) for each in _stretches(view, state)))


def _gone(view: View, state: State) -> set[int]:
    return set(range(view.border)) - standing_rows(view, state)


def events(outcome: Outcome) -> tuple[Event, ...]:
    """What happened at this border (B32): nothing when the decisions before it were only carried on."""
    view, before, state = outcome.view, outcome.before, outcome.state
    transcript = view.counts.transcript
    found: list[Event] = []
    repairs = tuple(repair.what for row, repair in transcript.repairs if row >= transcript.settled)
    if repairs:
        found.append(HistoryRepaired(repairs))
    if state == before:
        return tuple(found)
    earlier = {row: kind for row, kind, _ in _edits_of(view, before)}
    saved: dict[Kind, list[int]] = {}
    for row, kind, tokens in _edits_of(view, state):
        if earlier.get(row) != kind:
            saved.setdefault(kind, []).append(tokens)
    found += [_edited_event(kind, tokens) for kind, tokens in saved.items()]
    if (state.cut, state.first, state.noted) != (before.cut, before.first, before.noted):
        found.append(_trimming(outcome))
    return tuple(found)


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
    gone = _gone(view, state) - _gone(view, before)
    limit = view.limits.limit
    return HistoryTrimmed(
        dropped_messages=len(gone),
        dropped_turns=view.turns(before) - view.turns(state),
        dropped_rounds=len(gone.intersection(view.counts.transcript.answers)),
        kept_turns=view.turns(state),
        reason="turn_limit" if state.cause == "turn_limit" else "token_budget",
        token_budget=0 if limit >= NO_LIMIT else limit,
        tokens_before=view.exact(before),
        tokens_after=view.exact(state),
        source="calibrated" if view.limits.calibrated else "estimate",
    )


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
