"""The pairing rules for one answer and what came until the next: every call ends with exactly one result (H29, B21)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from longturn.core.measure import Measure, MeasureText, measured
from longturn.core.messages import Message, Part, Reasoning, ToolCall, ToolResult, result, user
from longturn.core.texts import EMPTY_MESSAGE, UNANSWERED


class Row(NamedTuple):
    """A message on its way into the transcript.

    measure: what its estimate is computed from (B6). position: its index in the caller's list, -1 for one of ours.
    tool: the name of the tool that a result came from. pinned: the policy keeps it (B14). continues: it goes on with
    the answer that the row before began (B1).
    """

    message: Message
    measure: Measure
    position: int
    pinned: bool = False
    tool: str = ""
    continues: bool = False


@dataclass(frozen=True, slots=True)
class Repair:
    """One thing that was mended in a history that arrived broken; `position` is an index in the caller's list."""

    position: int
    what: str


class Mended(NamedTuple):
    """Rows in the order in which they stand in the transcript, and what was mended."""

    rows: Sequence[Row]
    repairs: Sequence[Repair]


def mend(segment: Sequence[Row], measure: MeasureText, system_apart: bool = False) -> Mended:
    """The rows of one answer with exactly one result for each call behind it, and what had to be done.

    `segment` holds an answer (one row or more) and everything up to the next one; the segment before the first answer
    holds none. Results keep the order in which they came; a late one moves to its call; the first of two stands, and so
    does the first of two calls with one id. system_apart: a system message may not stand directly behind an answer.
    """
    whole = _in_order(segment)
    if whole is not None and not (system_apart and _follows_at_once(whole)):
        return Mended(whole, ())
    repairs = list(_reported(segment))
    answer: list[Row] = []
    results: list[Row] = []
    others: list[Row] = []
    waiting: dict[str, list[str]] = {}
    for row in _with_unique_calls(segment, measure, repairs):
        part = row.message.parts[0] if row.message.role == "tool" else None
        if row.message.role == "assistant":
            answer.append(row)
            for call in row.message.calls:
                waiting.setdefault(call.id, []).append(call.name)
        elif not isinstance(part, ToolResult):
            others.append(row)
        elif names := waiting.get(part.call_id):
            results.append(row._replace(tool=names.pop(0)))
            if others:
                repairs.append(Repair(row.position, f"the late result of call {part.call_id!r} was moved to its call"))
        else:
            why = "a second result" if part.call_id in waiting else "a result without its call"
            repairs.append(Repair(row.position, f"{why} (call {part.call_id!r}) was left out"))
    for call_id, names in waiting.items():
        for name in names:
            results.append(Row(result(call_id, UNANSWERED), Measure(measure(UNANSWERED)), -1, tool=name))
            repairs.append(Repair(answer[-1].position, f"call {call_id!r} ({name}) got a synthetic result"))
    rows = [*answer, *results, *others]
    if system_apart and _follows_at_once(rows):
        message = user(EMPTY_MESSAGE)
        rows.insert(len(answer), Row(message, measured(message, measure), -1))
        repairs.append(Repair(others[0].position, "a system message directly behind an answer was set apart"))
    return Mended(rows, repairs)


def _follows_at_once(rows: Sequence[Row]) -> bool:
    """Whether a system message stands directly behind an answer."""
    roles = [row.message.role for row in rows]
    return any(role == "assistant" and behind == "system" for role, behind in pairwise(roles))


def _with_unique_calls(segment: Sequence[Row], measure: MeasureText, repairs: list[Repair]) -> list[Row]:
    """The rows without second calls of one id in an answer; a dialect without ids calls by name, however often."""
    seen: set[str] = set()
    rows: list[Row] = []
    for row in segment:
        kept = _without_seen(row.message.parts, seen)
        if len(kept) == len(row.message.parts):
            rows.append(row)
            continue
        repairs.append(Repair(row.position, "a second call with the same id was left out"))
        if kept:
            message = row.message.with_parts(kept)
            rows.append(row._replace(message=message, measure=measured(message, measure)))
        else:
            # What was thought for a call that is gone goes with it.
            while rows and rows[-1].continues and _is_thinking(rows[-1]):
                rows.pop()
    return rows


def _without_seen(parts: Sequence[Part], seen: set[str]) -> list[Part]:
    kept: list[Part] = []
    for part in parts:
        if isinstance(part, ToolCall):
            if part.id in seen and part.id != part.name:
                continue
            seen.add(part.id)
        kept.append(part)
    return kept


def _is_thinking(row: Row) -> bool:
    return all(isinstance(part, Reasoning) for part in row.message.parts)


def _in_order(segment: Sequence[Row]) -> list[Row] | None:
    """The rows, where nothing has to be mended: an answer, if any, and the results of all its calls in order."""
    answer, *behind = segment
    if answer.message.role == "tool":
        return None
    calls = answer.message.calls if answer.message.role == "assistant" else ()
    if len(calls) > 1 and len({call.id for call in calls}) < len(calls):
        return None
    rows = [answer]
    for number, row in enumerate(behind):
        message = row.message
        if message.repair:
            return None
        if number < len(calls):
            part = message.parts[0] if message.role == "tool" else None
            if type(part) is not ToolResult or part.call_id != calls[number].id:
                return None
            rows.append(Row(message, row.measure, row.position, row.pinned, calls[number].name))
        elif message.role == "tool" or message.role == "assistant":
            return None
        else:
            rows.append(row)
    return None if len(behind) < len(calls) or answer.message.repair else rows


def _reported(segment: Iterable[Row]) -> list[Repair]:
    return [Repair(row.position, row.message.repair) for row in segment if row.message.repair]
