"""The OpenAI chat completions format, and that of the many servers that speak it; one message is one core message.

What cannot be sent is mended while reading (H29): missing content becomes an empty string, an empty `tool_calls` goes,
arguments that are no string become one, of two calls with one id the first stands. Whether calls and results match is
the core's to repair.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeGuard

from longturn.core.messages import Media, Message, Opaque, Part, Reasoning, Role, Text, ToolCall, ToolResult
from longturn.dialects.base import Dialect, Native, Request
from longturn.dialects.native import (
    as_object,
    countable,
    function_texts,
    json_text,
    plain,
    read_content,
    render_each,
    texts,
    unreadable,
    write_content,
)

ROLES: Mapping[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
TEXTS = frozenset({"text"})
MEDIA: Mapping[str, str] = {"image_url": "image", "input_audio": "audio", "file": "file", "video_url": "video"}

# DeepSeek, Qwen, vLLM: reasoning_content; OpenRouter: reasoning and reasoning_details; LiteLLM: thinking_blocks.
REASONING_FIELDS = ("reasoning_content", "reasoning", "reasoning_details", "thinking_blocks")
ANSWER_FIELDS = frozenset({"tool_calls", "function_call", "refusal", "audio", *REASONING_FIELDS})
RARE_FIELDS = tuple(ANSWER_FIELDS - {"tool_calls"})
FOREIGN_BLOCKS = frozenset(
    {
        *("input_text", "output_text", "input_image", "input_file", "summary_text"),
        *("tool_use", "tool_result", "image", "document", "redacted_thinking", "server_tool_use"),
    }
)


def read(item: Native, _before: Native | None, position: int) -> Sequence[Message]:
    """The one core message of a native message. Raises TranscriptError for no object and for an unknown role."""
    if type(item) is dict:  # the plain shapes, which are nearly all there are, without a copy
        content, role = item.get("content"), item.get("role")
        if type(content) is str:
            if role == "user" or role == "system" or (role == "assistant" and ANSWER_FIELDS.isdisjoint(item)):
                return (Message(role, (Text(content),), item),)
            if role == "tool" and type(call_id := item.get("tool_call_id")) is str:
                return (Message("tool", (ToolResult(call_id, content),), item),)
        if role == "assistant" and (answer := _usual_answer(item)):
            return (Message("assistant", answer, item),)
    native = as_object(item, position)
    role = ROLES.get(str(native.get("role")))
    if role is None:
        raise unreadable(position, f"unknown role {native.get('role')!r}: use one of {', '.join(ROLES)}")
    repairs: list[str] = []
    parts = _READERS[role](native, repairs)
    return (Message(role, tuple(parts), item, edited=bool(repairs), repair="; ".join(repairs) or None),)


def _usual_answer(native: dict[str, Any]) -> tuple[Part, ...] | None:
    """Text, if any, and function calls, as the API gives them; None where there is, or may be, anything else."""
    content, calls = native.get("content"), native.get("tool_calls")
    if type(calls) is not list or not calls or any([native.get(field) is not None for field in RARE_FIELDS]):
        return None
    asked: dict[str, ToolCall] = {}
    for call in calls:
        function = call.get("function") if type(call) is dict and call.get("type") == "function" else None
        if type(function) is not dict:
            return None
        call_id, name, arguments = call.get("id"), function.get("name"), function.get("arguments")
        if type(call_id) is not str or type(name) is not str or type(arguments) is not str:
            return None
        asked[call_id] = ToolCall(call_id, name, arguments, not arguments.startswith("{"), call)
    if len(asked) < len(calls) or not (content is None or type(content) is str):
        return None
    return (*asked.values(),) if content is None else (Text(content), *asked.values())


def _content(native: dict[str, Any], repairs: list[str]) -> list[Part]:
    content = native.get("content")
    if content is None or content == []:
        repairs.append("missing content became an empty text")
        return [Text("")]
    if not isinstance(content, (str, list)):
        repairs.append(f"content of type {type(content).__name__} became text")
        content = json_text(content)
    return read_content(content, TEXTS, MEDIA)


def _read_result(native: dict[str, Any], repairs: list[str]) -> list[Part]:
    call_id = native.get("name" if native["role"] == "function" else "tool_call_id")
    if not isinstance(call_id, str):
        repairs.append("a result without an id got an empty one")
        call_id = ""
    parts = _content(native, repairs)
    text = "\n".join(part.text for part in parts if isinstance(part, (Text, Opaque)))
    return [ToolResult(call_id, text, tuple(part for part in parts if type(part) is Media))]


def _read_answer(native: dict[str, Any], repairs: list[str]) -> list[Part]:
    calls = list(_calls(native, repairs))
    extra = list(_extras(native))
    bare = native.get("content") is None and (calls or extra)
    return [*_reasoning(native), *([] if bare else _content(native, repairs)), *extra, *calls]


def _extras(native: dict[str, Any]) -> Iterator[Part]:
    """What an answer may consist of besides content: fields, so they stay in the copy that is sent."""
    if isinstance(native.get("refusal"), str):
        yield Opaque(native["refusal"])
    if isinstance(native.get("audio"), dict):
        yield Opaque(countable(native["audio"]))


def _says_otherwise(native: dict[str, Any]) -> bool:
    return isinstance(native.get("refusal"), str) or isinstance(native.get("audio"), dict)


def _reasoning(native: dict[str, Any]) -> Iterator[Reasoning]:
    fields = {key: native[key] for key in REASONING_FIELDS if native.get(key)}
    if not fields:
        return
    blocks = [block for value in fields.values() if isinstance(value, list) for block in value]
    sealed, told = 0, []
    for block in blocks:
        if isinstance(block, dict):
            sealed += sum(len(block[key]) for key in ("data", "signature") if isinstance(block.get(key), str))
            told += [block[key] for key in ("text", "summary", "thinking") if isinstance(block.get(key), str)]
    # The same thoughts often stand in two fields; the longest telling is what the server uses.
    tellings = ["\n".join(told), *(value for value in fields.values() if isinstance(value, str))]
    yield Reasoning(max(tellings, key=len), sealed)


def _calls(native: dict[str, Any], repairs: list[str]) -> Iterator[ToolCall]:
    calls, legacy = native.get("tool_calls"), native.get("function_call")
    if calls == [] or not isinstance(calls, (list, type(None))):
        repairs.append("tool_calls without a call were left out")
    seen: set[str] = set()
    for call in calls if isinstance(calls, list) else ():
        read = _read_call(call, repairs)
        if read is None:
            repairs.append(f"a call that names no tool was left out: {json_text(call)[:60]}")
        elif read.id in seen:
            repairs.append(f"a second call with the id {read.id!r} was left out")
        else:
            seen.add(read.id)
            yield read
    if _names_itself(legacy):
        yield _call(str(legacy.get("name") or ""), legacy, legacy, repairs)
    elif legacy is not None:
        repairs.append("a function_call that is none was left out")


def _read_call(call: object, repairs: list[str]) -> ToolCall | None:
    if not isinstance(call, dict):
        return None
    call_id, function, custom = call.get("id"), call.get("function"), call.get("custom")
    if not isinstance(call_id, str):
        repairs.append("a call without an id got an empty one")
        call_id = ""
    if call.get("type") == "custom" and isinstance(custom, dict):
        return ToolCall(call_id, str(custom.get("name") or ""), str(custom.get("input") or ""), True, call)
    return _call(call_id, function, call, repairs) if isinstance(function, dict) else None


def _call(call_id: str, function: dict[str, Any], source: dict[str, Any], repairs: list[str]) -> ToolCall:
    arguments = function.get("arguments")
    if not isinstance(arguments, str):
        repairs.append(f"arguments of type {type(arguments).__name__} became JSON text")
        arguments = json_text({} if arguments is None else arguments)
    return ToolCall(call_id, str(function.get("name") or ""), arguments, not arguments.startswith("{"), source)


_READERS = {"system": _content, "user": _content, "assistant": _read_answer, "tool": _read_result}


def render(messages: Sequence[Message]) -> list[Native]:
    """Core messages as native ones; the unedited are handed back, the others are built from a copy."""
    legacy: set[str] = set()
    if any([message.role == "tool" and message.source is None for message in messages]):
        legacy = {call.id for message in messages for call in message.calls if _is_legacy(call)}
    return render_each(messages, lambda message: [_rebuild(message, legacy)])


def _is_legacy(call: ToolCall) -> bool:
    return _names_itself(call.source)


def _names_itself(call: object) -> TypeGuard[dict[str, Any]]:
    """Whether it is the bare call of the `function_call` field; those of `tool_calls` have it inside."""
    return isinstance(call, dict) and "function" not in call and "custom" not in call


def _rebuild(message: Message, legacy: set[str]) -> Native:
    source, result = message.source, message.parts[0] if message.role == "tool" else None
    if type(source) is dict and type(result) is ToolResult and result.call_id == source.get("tool_call_id"):
        return source | {"content": write_content([Text(result.text), *result.media], "text")}
    if message.source is None:
        native: dict[str, Any] = {"role": message.role}
    else:
        native = dict(as_object(message.source, 0))
    if message.role == "tool":
        part = message.parts[0]
        assert isinstance(part, ToolResult)
        return _rebuild_result(native, part, legacy if message.source is None else set())
    content = write_content(message.parts, "text")
    if message.role != "assistant":
        return native | {"content": "" if content is None else content}
    return _rebuild_answer(native, message, content)


def _rebuild_result(native: dict[str, Any], part: ToolResult, legacy: set[str]) -> Native:
    if part.call_id in legacy:
        return {"role": "function", "name": part.call_id, "content": part.text}
    native["name" if native["role"] == "function" else "tool_call_id"] = part.call_id
    return native | {"content": write_content([Text(part.text), *part.media], "text")}


def _rebuild_answer(native: dict[str, Any], message: Message, content: str | list[Any] | None) -> Native:
    calls = [_rebuild_call(call) for call in message.calls if not _is_legacy(call)]
    legacy = [call for call in message.calls if _is_legacy(call)]
    answered = calls or legacy or _says_otherwise(native)
    # content: null beside calls is the usual shape; some servers refuse the key's absence (llama.cpp, 2024).
    native["content"] = "" if content is None and not answered else content
    native["tool_calls"] = calls
    native["function_call"] = {"name": legacy[0].name, "arguments": legacy[0].arguments} if legacy else None
    gone = [key for key in ("tool_calls", "function_call") if not native[key]]
    if not any(type(part) is Reasoning and part.source is None for part in message.parts):
        # Empty ones stay: DeepSeek refuses answers of a running tool turn without the key (2026).
        gone += [key for key in REASONING_FIELDS if native.get(key)]
    return {key: value for key, value in native.items() if key not in gone}


def _rebuild_call(call: ToolCall) -> object:
    if not isinstance(call.source, dict):
        return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
    source = call.source if call.source.get("id") == call.id else {**call.source, "id": call.id}
    function = source.get("function")
    if not isinstance(function, dict) or function.get("arguments") == call.arguments:
        return source
    return {**source, "function": {**function, "arguments": call.arguments}}


def problems(items: Sequence[Native]) -> list[str]:
    """What OpenAI refuses in a list of messages, a sentence with its position each; empty when it is valid."""
    found: list[str] = []
    open_ids: list[str] = []
    asked = -1
    for position, item in enumerate(items):
        native = plain(item)
        if not isinstance(native, dict) or str(native.get("role")) not in ROLES:
            shown = repr(native.get("role")) if isinstance(native, dict) else type(item).__name__
            found.append(f"messages[{position}]: expected a role of {', '.join(ROLES)}, got {shown}")
            continue
        found += [f"messages[{position}]: {fault}" for fault in _faults(native)]
        if native["role"] == "tool":
            call_id = native.get("tool_call_id")
            if call_id in open_ids:
                open_ids.remove(call_id)
            else:
                found.append(f"messages[{position}]: the result for {call_id!r} follows no open call with that id")
            continue
        found += _unanswered(open_ids, asked)
        open_ids, asked = list(dict.fromkeys(str(call.get("id")) for call in _native_calls(native))), position
    return found + _unanswered(open_ids, asked)


def _unanswered(open_ids: list[str], asked: int) -> list[str]:
    return [
        f"messages[{asked}]: the call {call_id!r} is not answered by the messages that follow" for call_id in open_ids
    ]


def _native_calls(native: dict[str, Any]) -> list[dict[str, Any]]:
    calls = native.get("tool_calls") if native["role"] == "assistant" else None
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


def _faults(native: dict[str, Any]) -> Iterator[str]:
    role, content = native["role"], native.get("content")
    called = native.get("tool_calls") or _names_itself(native.get("function_call"))
    may_lack = role == "assistant" and (called or _says_otherwise(native))
    if content is None and not may_lack:
        yield f"a {role} message needs content"
    elif content == []:
        yield "content is an empty list"
    elif content is not None and not isinstance(content, (str, list)):
        yield f"content must be text or a list of blocks, got {type(content).__name__}"
    if role == "function" and not isinstance(native.get("name"), str):
        yield "a function message needs a name"
    if role == "assistant":
        yield from _call_faults(native)


def _call_faults(native: dict[str, Any]) -> Iterator[str]:
    calls, legacy = native.get("tool_calls"), native.get("function_call")
    if calls == [] or not isinstance(calls, (list, type(None))):
        yield "tool_calls must be a list of at least one call, or be left out"
    if legacy is not None and not _names_itself(legacy):
        yield "a function_call must be an object with a name and arguments"
    elif legacy is not None and not isinstance(legacy.get("arguments"), str):
        yield "the arguments of the function_call are no text"
    for call in calls if isinstance(calls, list) else ():
        own = call.get("custom" if call.get("type") == "custom" else "function") if isinstance(call, dict) else None
        if not isinstance(own, dict):
            yield f"a call names no tool: {json_text(call)[:60]}"
        elif not isinstance(call.get("id"), str):
            yield "a call has no id"
        elif call.get("type") != "custom" and not isinstance(own.get("arguments"), str):
            yield f"the arguments of the call {call['id']!r} are no text"
    ids = [str(call.get("id")) for call in _native_calls(native)]
    if len(set(ids)) < len(ids):
        yield f"two calls share an id: {ids}"


def sniff(item: Native) -> bool | None:
    """True for what only chat completions has, False for what it never has, None for plain role and text."""
    native = plain(item)
    if not isinstance(native, dict) or str(native.get("role")) not in ROLES or "parts" in native:
        return False
    if native.get("type") == "message":  # Responses items and Anthropic answers
        return False
    if native["role"] in ("tool", "function") or any(native.get(key) for key in ANSWER_FIELDS):
        return True
    content = native.get("content")
    blocks = content if isinstance(content, list) else ()
    kinds = {str(block.get("type")) for block in blocks if isinstance(block, dict)}
    if kinds & FOREIGN_BLOCKS:
        return False
    return True if kinds & {"image_url", "file", "video_url"} else None


def tool_texts(tool: object) -> list[list[str]]:
    """One tool definition (nested, flat or legacy) as name, description and JSON parameters; others as their JSON."""
    native = plain(tool)
    if not isinstance(native, dict):
        return [[json_text(native)]]
    function = native.get("function", native)
    if not isinstance(function, dict) or native.get("type", "function") != "function" or "name" not in function:
        return [[json_text(native)]]
    return [function_texts(function)]


DIALECT = Dialect(
    name="openai_chat",
    read=read,
    render=render,
    problems=problems,
    sniff=sniff,
    system_texts=texts,
    tool_texts=tool_texts,
    request=Request(
        messages=(("messages",),),
        tools=(("tools",), ("functions",)),
        max_output=(("max_completion_tokens",), ("max_tokens",)),
    ),
)
