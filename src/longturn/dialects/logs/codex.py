"""Codex rollouts (JSONL): a Responses item a row, compactions that replace the history, usage as events.

The log holds the instructions but not the built-in tool definitions. Format as written from 0.44 to 0.146 (2026);
the first rollouts (2025) have a bare header and bare items.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import NamedTuple

from longturn.core.checkpoint import is_entry
from longturn.core.meter import Usage
from longturn.dialects.logs import compaction
from longturn.dialects.logs.chat import left_out
from longturn.dialects.logs.conversation import Conversation
from longturn.dialects.logs.document import Document
from longturn.dialects.logs.fields import array, first_text, obj, objects, openai_usage, seconds, text

_ROWS = frozenset({"session_meta", "response_item", "turn_context", "event_msg", "compacted"})
# Items that are Codex's own records; it takes them out before it sends the history.
_NOT_SENT = frozenset({"ghost_snapshot", "other"})
_INSTRUCTING = ("system", "developer")
_RETURNED = ("_output", "_response")


class _Begun(NamedTuple):
    """What a compacted history begins with: its items, and indices of earlier ones that need not be repeated."""

    items: Sequence[object]
    kept: tuple[int, ...] = ()


def recognise(document: Document) -> bool:
    """Whether one of the first rows is an envelope of a rollout (a known `type` with a `payload`) or a bare header."""
    rows = [obj(row.value) for row in document.rows[:50]]
    return any(map(_is_bare_header, rows[:1])) or any(
        text(row.get("type")) in _ROWS and isinstance(row.get("payload"), dict) for row in rows
    )


def _is_bare_header(row: dict[str, object]) -> bool:
    return "instructions" in row and "timestamp" in row and "type" not in row and "input" not in row


def read(document: Document, name: str) -> list[Conversation]:
    """The one conversation of the rollout; a compacted history follows what it replaces, behind a boundary."""
    rows = [(row.where, _enveloped(obj(row.value))) for row in document.rows]
    messages: list[object] = []
    usage: dict[int, Usage] = {}
    times: dict[int, float] = {}
    boundaries: list[int] = []
    kept: dict[int, tuple[int, ...]] = {}
    notes: list[str] = []
    odd: Counter[str] = Counter()
    for where, row in rows:
        kind, payload = text(row.get("type")), obj(row.get("payload"))
        if kind == "compacted":
            begun = _replacement(payload, row.get("timestamp"), messages, odd)
            if not isinstance(payload.get("replacement_history"), list):
                notes.append(f"{where}: the compacted history is not in the log, only its summary")
            boundaries.append(len(messages))
            kept.update({len(messages): begun.kept} if begun.kept else {})
            messages.extend(begun.items)
        elif kind == "response_item" and text(payload.get("type")) not in ("", *_NOT_SENT):
            time = seconds(row.get("timestamp"))
            times.update({len(messages): time} if time is not None else {})
            messages.append(payload)
        elif kind == "response_item":
            odd[f"{first_text(payload.get('type'), 'untyped')} items"] += 1
        elif kind == "event_msg" and payload.get("type") == "token_count":
            _report(payload, messages, boundaries, usage, odd)
        elif kind == "event_msg" and payload.get("type") == "thread_rolled_back":
            notes.append(f"{where}: the user took back {payload.get('num_turns')} turns; they are kept here")
        elif kind not in _ROWS or kind == "event_msg":
            odd[f"{first_text(kind, 'untyped')} rows"] += 1
    metas = [obj(row.get("payload")) for _, row in rows if row.get("type") == "session_meta"]
    models = [obj(row.get("payload")).get("model") for _, row in rows if row.get("type") == "turn_context"]
    if any(meta.get("dynamic_tools") for meta in metas):
        notes.append("the definitions of dynamic tools are left out: the built-in ones are not in the log either")
    return [
        Conversation(
            dialect="openai_responses",
            messages=messages,
            name=first_text(*(meta.get("id") for meta in metas), name),
            model=first_text(*reversed(models)) or None,
            system=first_text(*_instructions(metas)) or None,
            usage=usage,
            times=times,
            boundaries=tuple(boundaries),
            kept=kept,
            notes=(*left_out(odd), *notes),
        )
    ]


def _enveloped(row: dict[str, object]) -> dict[str, object]:
    """The row as later versions write it."""
    if "payload" in row or "record_type" in row:
        return row
    if _is_bare_header(row):
        return {"type": "session_meta", "payload": row}
    bare = text(row.get("type")) not in ("", *_ROWS)
    return {"type": "response_item", "payload": row} if bare else row


def _instructions(metas: Iterable[dict[str, object]]) -> Iterator[object]:
    for meta in metas:
        yield obj(meta.get("base_instructions")).get("text")
        yield meta.get("instructions")


def _replacement(payload: dict[str, object], time: object, messages: Sequence[object], odd: Counter[str]) -> _Begun:
    """What the history was replaced by: a checkpoint, and the items that Codex sent along with the summary.

    Older rollouts hold only the summary. Where it is encrypted, or none of the items that were sent, they stay as they
    are. Codex sends its instructions and the users' messages once more; what stands in front of any window is not
    repeated here.
    """
    summary = text(payload.get("message"))
    if not isinstance(payload.get("replacement_history"), list):
        return _Begun([compaction.entry(summary, messages, time=time)] if summary.strip() else [])
    items = objects(payload["replacement_history"])
    sent: list[object] = [item for item in items if text(item.get("type")) not in _NOT_SENT]
    lost = len(array(payload["replacement_history"])) - len(sent)
    odd.update({"items of replacement histories": lost} if lost else {})
    # Codex puts it behind the users' messages; it is the same text as the row's own (2026).
    told = [place for place, item in enumerate(sent) if summary.strip() and _said(item) == ("user", summary)]
    if not told or any(obj(item).get("type") == "compaction" for item in sent):
        return _Begun(sent)
    del sent[told[-1]]
    kept = []
    for place in _front(messages):
        again = next((at for at, item in enumerate(sent) if _said(item) == _said(messages[place])), None)
        if again is not None:
            del sent[again]
            kept.append(place)
    return _Begun([compaction.entry(summary, messages, time=time), *sent], tuple(kept))


def _front(messages: Sequence[object]) -> list[int]:
    """Where the leading instructions and the first user's message stand."""
    lead = list(takewhile(lambda place: _said(messages[place])[0] in _INSTRUCTING, range(len(messages))))
    first = next((place for place, item in enumerate(messages) if _said(item)[0] == "user"), None)
    return lead if first is None else [*lead, first]


def _said(item: object) -> tuple[str, object]:
    """Whose message an item is and what it says, ids and the like left out: the text where it is nothing else."""
    raw = obj(item)
    if raw.get("type") != "message":
        return "", None
    blocks = array(raw.get("content"))
    plain = [obj(block).get("text") for block in blocks if obj(block).get("type") == "input_text"]
    return text(raw.get("role")), plain[0] if len(plain) == len(blocks) == 1 else raw.get("content")


def _report(
    payload: dict[str, object],
    messages: Sequence[object],
    boundaries: Sequence[int],
    usage: dict[int, Usage],
    odd: Counter[str],
) -> None:
    """Give the figures to the answer before the event: the last item since the start that a model made."""
    reported = openai_usage(obj(payload.get("info")).get("last_token_usage"))
    start = boundaries[-1] if boundaries else 0
    made = next((place for place in reversed(range(start, len(messages))) if _is_made(obj(messages[place]))), None)
    if reported is None or made is None or made in usage:
        # Codex repeats the last figures when a limit changes, and sends the event without any.
        odd["token_count events without an answer of their own"] += 1
    else:
        usage[made] = reported


def _is_made(item: dict[str, object]) -> bool:
    if item.get("type") == "message" or is_entry(item):
        return item.get("role") == "assistant"
    return not text(item.get("type")).endswith(_RETURNED) and item.get("type") not in ("compaction", "agent_message")
