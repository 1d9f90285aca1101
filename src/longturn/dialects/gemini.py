"""The Gemini contents format: reading contents and rendering them (its API's rules: `gemini_rules`).

Both spellings of keys (`functionCall`, `function_call`) are read, and kept when something is rebuilt. A thought
signature stays on its part whatever happens; on a part that is no thought it is counted by a `Reasoning` of its own
right behind, which has no source and renders nothing.
"""

from collections.abc import Sequence
from dataclasses import replace

from longturn.core.messages import Media, Message, Opaque, Part, Reasoning, Role, Text, ToolCall, ToolResult
from longturn.core.texts import EMPTY_MESSAGE
from longturn.dialects.base import Dialect, Native, Request
from longturn.dialects.gemini_rules import (
    CALL,
    KNOWN,
    MEDIA,
    RESPONSE,
    ROLES,
    SIGNATURE,
    Body,
    body_of,
    fault_of,
    fields,
    first_key,
    inner,
    problems,
)
from longturn.dialects.joined import first_source, render_joined
from longturn.dialects.native import countable, json_object, json_text, plain, texts
from longturn.errors import TranscriptError

_MEDIA_KINDS = ("image", "audio", "video")
_DECLARATIONS = ("functionDeclarations", "function_declarations")
_PARAMETERS = ("parameters", "parametersJsonSchema", "parameters_json_schema")


# Reading


def read(item: Native, before: Native | None, position: int) -> Sequence[Message]:
    """The core messages in one content; what the API would refuse is mended and reported (H29).

    A user's content gives one "tool" message for each of its function responses, then one "user" message for the
    rest. A call without an id is known by its name, and a response by the call that it answers in the content before.
    Raises TranscriptError naming the position for a role or part that cannot be read.
    """
    role, bodies = fields(item, position)
    repairs: list[str] = []
    responses: list[tuple[Body, Native]] = []
    others: list[Part] = []
    for native in bodies:
        body = body_of(native, position)
        if len(body) == 1 and type(text := body.get("text")) is str and text:
            others.append(Text(text, native))
            continue
        fault = fault_of(role, body)
        if fault is not None:
            repairs.append(f"{fault}: left out")
        elif first_key(body, RESPONSE) is not None:
            responses.append((body, native))
        else:
            others.extend(_parts(body, native))
    if not responses and not others:
        repairs.append("content without parts: given a short text")
        others.append(Text(EMPTY_MESSAGE))
    if responses and before is not None and _only_responses(before):
        repairs.append("responses to one answer in several contents: joined")
    if not responses and not repairs:
        return (Message(role, tuple(others), item),)
    groups: list[tuple[Role, tuple[Part, ...]]] = [("tool", (part,)) for part in _results(responses, before)]
    if others:
        groups.append((role, tuple(others)))
    messages = [Message(kind, parts, item, len(groups), edited=bool(repairs)) for kind, parts in groups]
    if repairs:
        messages[0] = replace(messages[0], repair="; ".join(dict.fromkeys(repairs)))
    return messages


def _parts(body: Body, native: Native) -> list[Part]:
    """The part, and behind it what counts the signature that it carries."""
    sealed = _sealed(body)
    text = body.get("text")
    part: Part
    if (key := first_key(body, CALL)) is not None:
        part = _call(inner(body, key), bool(sealed), native)
    elif body.get("thought") or (sealed and text == ""):
        return [Reasoning(_string(text), sealed, native)]
    elif isinstance(text, str):
        part = Text(text, native)
    elif (key := first_key(body, MEDIA)) is not None:
        part = _media(inner(body, key), native)
    else:
        part = Opaque(countable({name: value for name, value in body.items() if name not in SIGNATURE}), native)
    return [part, Reasoning("", sealed)] if sealed else [part]


def _call(call: Body, fixed: bool, native: Native) -> ToolCall:
    arguments = call.get("args")
    whole = arguments is None or isinstance(arguments, dict)
    text = "{}" if arguments is None else json_text(arguments)
    return ToolCall(_identity(call), _string(call.get("name")), text, fixed or not whole, native)


def _media(data: Body, native: Native) -> Media:
    kind = _string(data.get("mimeType") or data.get("mime_type")).partition("/")[0]
    return Media(kind if kind in _MEDIA_KINDS else "document", native)


def _results(responses: Sequence[tuple[Body, Native]], before: Native | None) -> list[ToolResult]:
    """The results, each under the id that its call in the content before is known by."""
    calls = _calls_of(before) if responses else []
    results: list[ToolResult] = []
    for body, native in responses:
        part = _result(body, native)
        response = inner(body, first_key(body, RESPONSE))
        same_id = [call for call in calls if call.get("id") is not None and call["id"] == response.get("id")]
        same_name = [call for call in calls if call.get("name") == response.get("name")]
        if same_id or same_name:
            call = (same_id or same_name)[0]
            calls.remove(call)
            part = replace(part, call_id=_identity(call))
        results.append(part)
    return results


def _calls_of(item: Native | None) -> list[Body]:
    """The function calls of a model's content, in order; none of anything else, which another reading reports."""
    try:
        role, natives = ("user", ()) if item is None else fields(item, 0)
        bodies = [body_of(native, 0) for native in natives] if role == "assistant" else []
    except TranscriptError:
        return []
    return [inner(body, key) for body in bodies if (key := first_key(body, CALL)) is not None]


def _identity(body: Body) -> str:
    return _string(body.get("id")) or _string(body.get("name"))


def _result(body: Body, native: Native) -> ToolResult:
    response = inner(body, first_key(body, RESPONSE))
    said = response.get("response")
    # What a cleared result is rendered as reads back as the same text (law 3).
    alone = said.get("result") if isinstance(said, dict) and len(said) == 1 else None
    text = alone if isinstance(alone, str) else "" if said is None else json_text(said)
    attached = response.get("parts")
    media = [_attached(part) for part in attached] if isinstance(attached, list) else []
    return ToolResult(_identity(response), text, tuple(media), native)


def _attached(part: object) -> Media:
    body: Body = part if isinstance(part, dict) else {}
    return _media(inner(body, first_key(body, MEDIA)), part)


def _only_responses(item: Native) -> bool:
    try:
        role, bodies = fields(item, 0)
        return role == "user" and bool(bodies) and all(first_key(body_of(part, 0), RESPONSE) for part in bodies)
    except TranscriptError:
        return False


def _sealed(body: Body) -> int:
    key = first_key(body, SIGNATURE)
    signature = body[key] if key is not None else ""
    if isinstance(signature, bytes):
        return (len(signature) + 2) // 3 * 4  # as the base64 text that it is sent as
    return len(_string(signature))


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""


# Rendering


def render(messages: Sequence[Message]) -> list[Native]:
    """Core messages as contents: the same objects where nothing was edited, copies elsewhere.

    A result of longturn's own takes name, id and spelling from its call in the answer before. Edited SDK objects
    come back as dicts that hold the SDK's own parts.
    """
    return render_joined(_named(messages), _rebuild)


def _named(messages: Sequence[Message]) -> Sequence[Message]:
    """The messages, where a result of longturn's own has a native part to be written into."""
    named = list(messages)
    calls: list[ToolCall] = []
    for place, message in enumerate(messages):
        if message.role == "assistant":
            behind = place > 0 and messages[place - 1].role == "assistant"
            calls = [*calls, *message.calls] if behind else list(message.calls)
        elif message.role == "tool" and message.source is None:
            call = next((call for call in calls if call.id == _only_result(message).call_id), None)
            named[place] = replace(message, parts=(_native_result(_only_result(message), call),))
    return named


def _only_result(message: Message) -> ToolResult:
    part = message.parts[0]
    return part if isinstance(part, ToolResult) else ToolResult("", "")


def _native_result(part: ToolResult, call: ToolCall | None) -> ToolResult:
    if part.source is not None:
        return part
    body = plain(call.source) if call is not None else None
    native = body if isinstance(body, dict) else {}
    key = first_key(native, CALL)
    given = inner(native, key).get("id")
    head: Body = {"id": given} if isinstance(given, str) else {}
    head["name"] = call.name if call is not None else part.call_id
    return replace(part, source={RESPONSE[key == CALL[1]]: head})


def _rebuild(group: Sequence[Message]) -> Native:
    source = first_source(group)
    written = [_write(part) for message in group for part in message.parts]
    parts = [part for part in written if part is not None] or [{"text": EMPTY_MESSAGE}]
    if isinstance(source, dict):
        return {**source, "parts": parts}
    role = getattr(source, "role", None) or ("model" if group[0].role == "assistant" else "user")
    return {"role": role, "parts": parts}


def _write(part: Part) -> Native | None:
    native = part.source
    if not isinstance(part, Text | ToolCall | ToolResult):
        return native
    body = native if isinstance(native, dict) else plain(native)
    if not isinstance(body, dict):
        body = {}
    elif _unchanged(part, body, native):
        return native
    if isinstance(part, Text):
        return {**(body if isinstance(body.get("text"), str) else {}), "text": part.text}
    if isinstance(part, ToolCall):
        key = first_key(body, CALL) or CALL[0]
        head = inner(body, key) or {"name": part.name}
        return {**body, key: {**head, "args": json_object(part.arguments) or {}}}
    key = first_key(body, RESPONSE) or RESPONSE[0]
    head = {name: value for name, value in (inner(body, key) or {"name": part.call_id}).items() if name != "parts"}
    media = {"parts": [medium.source for medium in part.media]} if part.media else {}
    return {**body, key: {**head, "response": {"result": part.text}, **media}}


def _unchanged(part: Text | ToolCall | ToolResult, body: Body, native: Native) -> bool:
    if isinstance(part, ToolResult):
        return first_key(body, RESPONSE) is not None and replace(_result(body, native), call_id=part.call_id) == part
    return _parts(body, native)[0] == part


# Requests


def sniff(item: Native) -> bool | None:
    """Whether one native item is surely Gemini's (True), surely not (False), or could be (None)."""
    if isinstance(item, str):
        return None
    name = item.get("role") if type(item) is dict else getattr(item, "role", None)
    parts = item.get("parts") if type(item) is dict else getattr(item, "parts", None)
    if not isinstance(parts, (list, tuple)) or not (name is None or (isinstance(name, str) and name in ROLES)):
        return False
    if not parts:
        return None
    first = parts[0]
    if type(first) is dict:
        return "type" not in first and any(key in KNOWN for key in first)
    return hasattr(first, "function_call")


def tool_texts(tool: object) -> list[list[str]]:
    """The name, description and JSON parameters of each function in one definition; the whole JSON of others (H23)."""
    if callable(tool):  # the SDK takes functions and describes them by signature and docstring
        return [[_string(getattr(tool, "__name__", "")), tool.__doc__ or ""]]
    body = plain(tool)
    if not isinstance(body, dict):
        return [[countable(body)]]
    key = first_key(body, _DECLARATIONS)
    declared = body[key] if key is not None else []
    functions = [entry for entry in declared if isinstance(entry, dict)] if isinstance(declared, list) else []
    rest = {name: value for name, value in body.items() if name != key and value is not None}
    return [_function_texts(entry) for entry in functions] + ([[countable(rest)]] if rest else [])


def _function_texts(entry: Body) -> list[str]:
    key = first_key(entry, _PARAMETERS)
    said = [_string(entry.get("name")), _string(entry.get("description"))]
    return said if key is None else [*said, json_text(entry[key])]


DIALECT = Dialect(
    name="gemini",
    read=read,
    render=render,
    problems=problems,
    sniff=sniff,
    system_texts=texts,
    tool_texts=tool_texts,
    request=Request(
        messages=(("contents",),),
        system=(
            ("systemInstruction",),
            ("system_instruction",),
            ("config", "system_instruction"),
            ("config", "systemInstruction"),
        ),
        tools=(("tools",), ("config", "tools")),
        max_output=(
            ("generationConfig", "maxOutputTokens"),
            ("generationConfig", "max_output_tokens"),
            ("generation_config", "max_output_tokens"),
            ("generation_config", "maxOutputTokens"),
            ("config", "max_output_tokens"),
            ("config", "maxOutputTokens"),
        ),
    ),
    user_first=True,
)
