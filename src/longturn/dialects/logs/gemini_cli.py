"""Chats that Gemini CLI records and sessions of Google's ADK (JSON), as Gemini contents."""

from collections import Counter

from longturn.core.meter import Usage
from longturn.dialects.logs.chat import left_out
from longturn.dialects.logs.conversation import Conversation
from longturn.dialects.logs.document import Document
from longturn.dialects.logs.fields import array, count, first_text, gemini_usage, obj, objects, seconds, text

# Python SDKs write parts with underscores; the wire has camel case.
_WIRE_KEYS = {
    "function_call": "functionCall",
    "function_response": "functionResponse",
    "inline_data": "inlineData",
    "file_data": "fileData",
    "mime_type": "mimeType",
    "file_uri": "fileUri",
    "thought_signature": "thoughtSignature",
    "executable_code": "executableCode",
    "code_execution_result": "codeExecutionResult",
}
_WITH_KEYS = frozenset({"inlineData", "fileData"})


def recognise_cli(document: Document) -> bool:
    """Whether it is one object with a session, a project hash or start, and messages with a `type`."""
    value = obj(document.value)
    types = {text(message.get("type")) for message in objects(value.get("messages"))}
    return (
        "sessionId" in value and ("projectHash" in value or "startTime" in value) and bool(types & {"user", "gemini"})
    )


def read_cli(document: Document, name: str) -> list[Conversation]:
    """The chat: each recorded answer is a model content, the results of its calls the user content behind it."""
    value = obj(document.value)
    messages: list[object] = []
    usage: dict[int, Usage] = {}
    times: dict[int, float] = {}
    odd: Counter[str] = Counter()
    models: list[object] = []
    for record in array(value.get("messages")):
        raw = obj(record)
        kind = text(raw.get("type"))
        if kind not in ("user", "gemini"):
            odd[f"{kind or 'untyped'} messages"] += 1
            continue
        contents = _user(raw) if kind == "user" else _model(raw, odd)
        if not contents:
            odd[f"empty {kind} messages"] += 1
            continue
        time, reported = seconds(raw.get("timestamp")), _tokens(raw.get("tokens"))
        times.update({len(messages): time} if time is not None else {})
        usage.update({len(messages): reported} if reported and kind == "gemini" else {})
        models.append(raw.get("model"))
        messages.extend(contents)
    return [
        Conversation(
            dialect="gemini",
            messages=messages,
            name=first_text(value.get("sessionId"), name),
            model=first_text(*reversed(models)) or None,
            usage=usage,
            times=times,
            notes=left_out(odd),
        )
    ]


def _parts(content: object) -> list[object]:
    if isinstance(content, str):
        return [{"text": content}] if content else []
    listed = content if isinstance(content, list) else [content]
    return [
        {"text": part} if isinstance(part, str) else wire_part(part) for part in listed if isinstance(part, str | dict)
    ]


def _user(raw: dict[str, object]) -> list[object]:
    parts = _parts(raw.get("content"))
    return [{"role": "user", "parts": parts}] if parts else []


def _model(raw: dict[str, object], odd: Counter[str]) -> list[object]:
    calls = objects(raw.get("toolCalls"))
    parts = _parts(raw.get("content"))
    parts += [{"functionCall": {key: call[key] for key in ("id", "name", "args") if key in call}} for call in calls]
    results = [part for call in calls for part in _parts(call.get("result")) if part]
    if raw.get("thoughts"):
        # Headlines of thoughts for the screen; Gemini CLI does not send them back.
        odd["headlines of thoughts"] += len(array(raw.get("thoughts")))
    answer = [{"role": "model", "parts": parts}] if parts else []
    return [*answer, *([{"role": "user", "parts": results}] if results else [])]


def _tokens(value: object) -> Usage | None:
    raw = obj(value)
    reported = Usage(
        input_tokens=count(raw.get("input")) + count(raw.get("tool")),
        output_tokens=count(raw.get("output")) + count(raw.get("thoughts")),
        cached_tokens=count(raw.get("cached")),
        reasoning_tokens=count(raw.get("thoughts")),
    )
    return reported if reported.input_tokens else None


def recognise_adk(document: Document) -> bool:
    """Whether it is one object with events that have an author and a content."""
    events = objects(obj(document.value).get("events"))
    return any("author" in event and isinstance(event.get("content"), dict) for event in events)


def read_adk(document: Document, name: str) -> list[Conversation]:
    """The contents of the session's events in order, in the roles that they were recorded with."""
    value = obj(document.value)
    messages: list[object] = []
    usage: dict[int, Usage] = {}
    times: dict[int, float] = {}
    odd: Counter[str] = Counter()
    for record in array(value.get("events")):
        event = obj(record)
        content = obj(event.get("content"))
        parts = [wire_part(part) for part in objects(content.get("parts"))]
        if event.get("partial") is True or not parts:
            odd["partial events" if parts else "events without parts"] += 1
            continue
        role = "user" if content.get("role") in ("user", "function") else "model"
        time = seconds(event.get("timestamp"))
        reported = gemini_usage(event.get("usageMetadata") or event.get("usage_metadata"))
        times.update({len(messages): time} if time is not None else {})
        usage.update({len(messages): reported} if reported and role == "model" else {})
        messages.append({"role": role, "parts": parts})
    return [
        Conversation(
            dialect="gemini",
            messages=messages,
            name=first_text(value.get("id"), name),
            usage=usage,
            times=times,
            notes=left_out(odd),
        )
    ]


def wire_part(part: object) -> dict[str, object]:
    """A part with the key names of the wire; None values, which SDKs write for what is unset, are left out."""
    renamed = {_WIRE_KEYS.get(key, key): value for key, value in obj(part).items() if value is not None}
    return {key: wire_part(value) if key in _WITH_KEYS else value for key, value in renamed.items()}
