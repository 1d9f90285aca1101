"""Files that hold messages as they are: request bodies, bare lists, lists or JSON lines of conversations."""

from collections.abc import Mapping, Sequence

from longturn.core.checkpoint import is_entry
from longturn.dialects.base import Dialect, Request, find
from longturn.dialects.logs.conversation import Conversation
from longturn.dialects.logs.document import Document
from longturn.dialects.logs.fields import first_text, obj, some
from longturn.dialects.registry import DIALECTS, by_name, detect
from longturn.errors import TranscriptError

Raw = Mapping[str, object]
# Where a body's message list stands, and the dialect that only it can be in ("" where several use the word).
_BODY = {"contents": "gemini", "input": "openai_responses", "messages": ""}
# Words that data sets use for a conversation's messages.
_LISTS = ("messages", "traj", "conversation", "history", "prompt")
# What a request is wrapped in: batch files (OpenAI's body, Anthropic's params), captures of proxies.
_WRAPPERS = ("body", "params", "request", "request_body")
_NAMES = ("custom_id", "conversation_id", "session_id", "task_id", "instance_id", "id", "trial")


def read(document: Document, name: str) -> list[Conversation]:
    """One conversation for a body or a list, one each for a list or lines of them.

    Raises TranscriptError, naming the place, for what is none of these.
    """
    if isinstance(document.value, dict) and not (_list_key(document.value) is None and _is_message(document.value)):
        return [_conversation(document.value, "the document", name)]
    if not document.rows:
        return [Conversation(DIALECTS[0].name, [], name)]
    if all(_is_message(row.value) for row in document.rows):
        return [_bare([row.value for row in document.rows], name, "the list")]
    return [_conversation(row.value, row.where, f"{name} {row.where}".strip()) for row in document.rows]


def _is_message(value: object) -> bool:
    raw = obj(value)
    return not any(isinstance(raw.get(key), list) for key in _LISTS) and any(
        isinstance(raw.get(key), kind) for key, kind in (("role", str), ("parts", list), ("type", str))
    )


def _conversation(value: object, where: str, name: str) -> Conversation:
    if isinstance(value, list):
        return _bare(value, name, where)
    raw = obj(value)
    body = next((obj(raw[key]) for key in _WRAPPERS if _list_key(obj(raw.get(key)))), raw)
    key = _list_key(body)
    if key is None:
        keys = ", ".join(sorted(map(str, raw))[:8]) or f"a {type(value).__name__}"
        raise TranscriptError(
            f"{where} is no message, no request and no session log that longturn knows (it has: {keys}); "
            "give an object with messages, input or contents, or a list of messages"
        )
    titles = [f"{label} {raw[label]}" for label in _NAMES if isinstance(raw.get(label), str | int)]
    return _request(body, key, first_text(" ".join(titles[:2]), name), where)


def _list_key(body: Raw) -> str | None:
    if isinstance(body.get("input"), str):
        return "input"
    return next((key for key in (*_BODY, *_LISTS) if isinstance(body.get(key), list)), None)


def _request(body: Raw, key: str, name: str, where: str) -> Conversation:
    value = body[key]
    messages: list[object] = value if isinstance(value, list) else [{"role": "user", "content": value}]
    notes = []
    if isinstance(value, str):
        notes.append(f"{where}: `input` is text and was read as one user message")
    if "response" in body and key == "messages":
        notes.append(f"{where}: the answer in `response` is not part of the request and is left out")
    hinted = "anthropic" if key == "messages" and "system" in body else _BODY.get(key, "")
    dialect = by_name(hinted) if hinted else dialect_of(messages, where)
    places: Request = dialect.request
    tools = find(body, places.tools)
    return Conversation(
        dialect=dialect.name,
        messages=messages,
        name=name,
        model=first_text(body.get("model"), obj(body.get("response")).get("model")) or None,
        system=find(body, places.system),
        tools=tools if isinstance(tools, list) else None,
        notes=tuple(notes),
    )


def _bare(items: Sequence[object], name: str, where: str) -> Conversation:
    return Conversation(dialect_of(items, where).name, list(items), name)


def dialect_of(items: Sequence[object], where: str) -> Dialect:
    """The dialect of `items` (B29). Raises TranscriptError naming the places of what it cannot be."""
    dialect = detect(items)
    refused = [place for place, item in enumerate(items) if not is_entry(item) and dialect.sniff(item) is False]
    if not refused:
        return dialect
    places = some(f"message {place}" for place in refused)
    raise TranscriptError(
        f"{where} holds messages of no one dialect; nearest is {dialect.name}, which cannot be {places}"
    )
