"""LangChain dumps (`dumps`, `messages_to_dict`, a state that holds either; JSON), as OpenAI chat."""

from collections import Counter
from collections.abc import Sequence

from longturn.core.meter import Usage
from longturn.dialects.logs.chat import assistant, call, content, left_out, said, thought, tool
from longturn.dialects.logs.conversation import Conversation
from longturn.dialects.logs.document import Document
from longturn.dialects.logs.fields import array, first_text, obj, objects, openai_usage, text

Raw = dict[str, object]
_ROLES = {
    "human": "user",
    "HumanMessageChunk": "user",
    "ai": "assistant",
    "AIMessageChunk": "assistant",
    "system": "system",
    "SystemMessageChunk": "system",
    "tool": "tool",
    "ToolMessageChunk": "tool",
    "function": "tool",
}
_SPEAKERS = frozenset({"human", "HumanMessageChunk", "ai", "AIMessageChunk"})
# A constructor's `id` ends in the class name; `type` in its kwargs may be missing (JavaScript's dumps).
_CLASSES = {
    "HumanMessage": "human",
    "AIMessage": "ai",
    "AIMessageChunk": "ai",
    "SystemMessage": "system",
    "ToolMessage": "tool",
    "FunctionMessage": "function",
}


def _fields(value: object) -> Raw:
    """The fields of a dumped message with its `type`; empty for anything else."""
    raw = obj(value)
    if raw.get("lc") == 1 and raw.get("type") == "constructor":
        names = array(raw.get("id"))
        kind = _CLASSES.get(text(names[-1]) if names else "", "")
        fields = obj(raw.get("kwargs"))
        return {"type": kind} | fields if kind or text(fields.get("type")) in _ROLES else {}
    if isinstance(raw.get("data"), dict) and isinstance(raw.get("type"), str):
        return {"type": raw["type"]} | obj(raw["data"])
    return raw if text(raw.get("type")) in _ROLES and "content" in raw else {}


def _is_dump(listed: Sequence[object]) -> bool:
    # Other formats have messages of type "system" or "tool" too, but only LangChain says "human" and "ai".
    return any(text(_fields(value).get("type")) in _SPEAKERS for value in listed[:20])


def _lists(document: Document) -> list[Sequence[object]]:
    """Each list of dumped messages in the file: its rows, the lists in its rows, or a state's `messages`."""
    rows = [row.value for row in document.rows]
    if _is_dump(rows):
        return [rows]
    inner = [array(value) or array(obj(value).get("messages")) for value in [*rows, obj(document.value).get("kwargs")]]
    return [listed for listed in inner if _is_dump(listed)]


def recognise(document: Document) -> bool:
    """Whether the file holds dumped messages, by their constructor or their `type` and `data`."""
    return bool(_lists(document))


def read(document: Document, name: str) -> list[Conversation]:
    """One conversation for each list of messages."""
    lists = _lists(document)
    return [_conversation(listed, f"{name}#{place + 1}" if place else name) for place, listed in enumerate(lists)]


def _conversation(listed: Sequence[object], name: str) -> Conversation:
    messages: list[object] = []
    usage: dict[int, Usage] = {}
    odd: Counter[str] = Counter()
    models: list[object] = []
    for value in listed:
        raw = _fields(value)
        message = _message(raw, odd)
        if message is None:
            continue
        reported = openai_usage(raw.get("usage_metadata"))
        usage.update({len(messages): reported} if reported and message["role"] == "assistant" else {})
        about = obj(raw.get("response_metadata"))
        models.append(first_text(about.get("model_name"), about.get("model")))
        messages.append(message)
    return Conversation(
        dialect="openai_chat",
        messages=messages,
        name=name,
        model=first_text(*reversed(models)) or None,
        usage=usage,
        notes=left_out(odd),
    )


def _message(raw: Raw, odd: Counter[str]) -> dict[str, object] | None:
    kind = text(raw.get("type"))
    role = _ROLES.get(kind, text(raw.get("role")) if kind == "chat" else "")
    if role == "assistant":
        return _answer(raw, odd)
    if role == "tool":
        return tool(raw.get("tool_call_id"), content(raw.get("content"), odd), raw.get("name"))
    if role in ("user", "system"):
        return {"role": role, "content": content(raw.get("content"), odd)}
    odd[f"{kind or 'untyped'} messages"] += 1
    return None


def _answer(raw: Raw, odd: Counter[str]) -> dict[str, object] | None:
    blocks = raw.get("content")
    made = [*objects(raw.get("tool_calls")), *objects(raw.get("invalid_tool_calls"))]
    known = {text(call_made.get("id")) for call_made in made}
    beside = [
        block for block in objects(blocks) if block.get("type") == "tool_use" and text(block.get("id")) not in known
    ]
    calls = [call(one.get("id"), one.get("name"), one.get("args", one.get("input"))) for one in [*made, *beside]]
    sealed = sum(1 for block in objects(blocks) if block.get("signature"))
    if sealed:
        odd["signatures of thinking, which chat messages have no place for"] += sealed
    message = assistant(said(blocks, odd), calls, thought(blocks))
    if message is None:
        odd["empty answers"] += 1
    return message
