"""pi session logs (JSONL): entries in a row (version 1) or a tree by `parentId` (2 and 3), as OpenAI chat.

The log holds neither the system prompt nor the tool definitions.
"""

from collections import Counter
from collections.abc import Sequence

from longturn.core.meter import Usage
from longturn.dialects.logs import compaction
from longturn.dialects.logs.chat import assistant, call, content, left_out, said, thought, tool
from longturn.dialects.logs.conversation import Conversation
from longturn.dialects.logs.document import Document
from longturn.dialects.logs.fields import count, first_text, obj, objects, seconds, text
from longturn.dialects.logs.tree import branches

Entry = dict[str, object]
_SPEAKING = frozenset({"message", "custom_message", "branch_summary", "compaction"})


def recognise(document: Document) -> bool:
    """Whether the first row is a session header and another a message with pi's roles."""
    rows = [obj(row.value) for row in document.rows[:200]]
    if not rows or not any(row.get("type") == "session" and "cwd" in row for row in rows[:3]):
        return False
    return len(rows) == 1 or any(text(row.get("type")) in _SPEAKING or "message" in row for row in rows[1:])


def read(document: Document, name: str) -> list[Conversation]:
    """The newest branch, then the others; a file of version 1 has only one."""
    entries = [obj(row.value) for row in document.rows]
    header = next((entry for entry in entries if entry.get("type") == "session"), {})
    session = first_text(header.get("id"), name)
    speaking = [text(entry.get("type")) in _SPEAKING for entry in entries]
    found = []
    for number, path in enumerate(branches(_parents(entries), speaking)):
        title = f"{session}#{number + 1}" if number else session
        found.append(_conversation([entries[position] for position in path], title, header))
    return found


def _parents(entries: Sequence[Entry]) -> list[int | None]:
    """Where each entry's parent stands; without ids, and for a parent that is missing, it is the entry before."""
    places = {text(entry.get("id")): place for place, entry in enumerate(entries) if entry.get("type") != "session"}
    parents: list[int | None] = []
    for place, entry in enumerate(entries):
        before = place - 1 if place else None
        if "parentId" not in entry:
            parents.append(before)
        else:
            parents.append(places.get(text(entry["parentId"]), before) if entry["parentId"] is not None else None)
    return parents


def _conversation(path: Sequence[Entry], name: str, header: Entry) -> Conversation:
    messages: list[object] = []
    usage: dict[int, Usage] = {}
    times: dict[int, float] = {}
    kept: dict[int, tuple[int, ...]] = {}
    odd: Counter[str] = Counter()
    places: dict[str, int] = {}
    models = [header.get("modelId")]
    for entry in path:
        raw = obj(entry.get("message"))
        if entry.get("type") == "compaction":
            wanted = text(entry.get("firstKeptEntryId"))
            first = places.get(wanted) if wanted else None
            kept[len(messages)] = compaction.kept(messages, first)
            messages.extend(_summary(entry, messages, first, odd))
            continue
        message = _message(entry, raw, odd)
        places[text(entry.get("id"))] = len(messages)
        models.append(first_text(raw.get("model"), entry.get("modelId")))
        if message is None:
            continue
        time = seconds(first_text(entry.get("timestamp")) or raw.get("timestamp"))
        reported = _usage(raw.get("usage"))
        times.update({len(messages): time} if time is not None else {})
        usage.update({len(messages): reported} if reported and message["role"] == "assistant" else {})
        messages.append(message)
    return Conversation(
        dialect="openai_chat",
        messages=messages,
        name=name,
        model=first_text(*reversed(models)) or None,
        usage=usage,
        times=times,
        boundaries=tuple(kept),
        kept=kept,
        notes=left_out(odd),
    )


def _summary(entry: Entry, messages: Sequence[object], first: int | None, odd: Counter[str]) -> list[object]:
    """The checkpoint of a compaction, which stands for everything before the first message that was kept."""
    summary, time = text(entry.get("summary")), entry.get("timestamp")
    if not summary.strip():
        odd["empty summaries"] += 1
        return []
    return [compaction.entry(summary, messages, first, time=time, source_tokens=entry.get("tokensBefore"))]


def _message(entry: Entry, raw: Entry, odd: Counter[str]) -> dict[str, object] | None:
    kind = text(entry.get("type"))
    if kind == "branch_summary" and entry.get("summary"):
        return {"role": "user", "content": text(entry["summary"])}
    role = "user" if kind == "custom_message" else text(raw.get("role"))
    if role == "assistant":
        return _answer(raw, odd)
    if role == "toolResult":
        return tool(raw.get("toolCallId"), content(raw.get("content"), odd), raw.get("toolName"))
    if role in ("user", "custom", "hookMessage"):
        return {"role": "user", "content": content(raw.get("content", entry.get("content")), odd)}
    if role == "bashExecution" and raw.get("excludeFromContext") is not True:
        return {"role": "user", "content": f"Ran `{text(raw.get('command'))}`\n```\n{text(raw.get('output'))}\n```"}
    if kind not in ("session", "model_change"):
        odd[f"{first_text(role, kind, 'untyped')} entries"] += 1
    return None


def _answer(raw: Entry, odd: Counter[str]) -> dict[str, object] | None:
    blocks = raw.get("content")
    calls = [
        call(block.get("id"), block.get("name"), block.get("arguments"))
        for block in objects(blocks)
        if block.get("type") == "toolCall"
    ]
    sealed = sum(1 for block in objects(blocks) if block.get("thinkingSignature"))
    if sealed:
        odd["signatures of thinking, which chat messages have no place for"] += sealed
    message = assistant(said(blocks, odd), calls, thought(blocks))
    if message is None:
        odd[f"empty answers ({first_text(raw.get('stopReason'), 'no reason given')})"] += 1
    return message


def _usage(value: object) -> Usage | None:
    raw = obj(value)
    cached, written = count(raw.get("cacheRead")), count(raw.get("cacheWrite"))
    total = count(raw.get("input")) + cached + written
    return Usage(total, count(raw.get("output")), cached, written) if total else None
