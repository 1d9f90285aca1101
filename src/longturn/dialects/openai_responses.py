"""The OpenAI Responses format: one item of `input` is one core message, and the items of one answer continue it.

A reasoning item and what came with it are one answer by `continues`, which no rung splits. Calls that the client runs
are tool calls; what the server ran, compaction items and unknown items are opaque and pass through untouched.

Outputs whose shape has no place for text: an edited `computer_call_output` shows a blank screenshot, an edited
`tool_search_output` finds no tools. What cannot be sent is mended while reading (H29): missing content, arguments and
outputs become empty ones, and a reasoning item that nothing of its answer follows gets a short answer behind it; one
at the very end is left to `problems`, since reading item by item cannot see that nothing follows.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from longturn.core.messages import Media, Message, Opaque, Reasoning, Role, Text, ToolCall, ToolResult
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

ROLES: Mapping[str, Role] = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}
TEXTS = frozenset({"input_text", "output_text", "text", "summary_text", "reasoning_text"})
MEDIA: Mapping[str, str] = {
    "input_image": "image",
    "computer_screenshot": "image",
    "input_file": "file",
    "input_audio": "audio",
}
# A part of a conversation that the client sets, not the model (2026-09).
SETTINGS = frozenset({"additional_tools", "configuration_update", "compaction_trigger"})
NO_ANSWER = "[No answer was recorded.]"
# 1 x 1 pixel: a screenshot must be an image.
BLANK = (
    "data:image/png;base64,"
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)


class Call(NamedTuple):
    """How a call that the client runs is written: its output's type, and the keys of its parts.

    name: the key of the tool's name, or None where the type is the name. required: OpenAI refuses it unanswered.
    """

    output: str
    arguments: tuple[str, ...]
    name: str | None = None
    id: str = "call_id"
    required: bool = True


CALLS: Mapping[str, Call] = {
    "function_call": Call("function_call_output", ("arguments",), "name"),
    "custom_tool_call": Call("custom_tool_call_output", ("input",), "name"),
    "local_shell_call": Call("local_shell_call_output", ("action",)),
    "shell_call": Call("shell_call_output", ("action",)),
    "computer_call": Call("computer_call_output", ("actions", "action")),
    "apply_patch_call": Call("apply_patch_call_output", ("operation",)),
    "tool_search_call": Call("tool_search_output", ("arguments",)),
    "mcp_approval_request": Call("mcp_approval_response", ("arguments",), "name", "id", required=False),
}
# Output type -> the keys under which the call's id may stand (SDK types name `id` for local shells, agents `call_id`).
OUTPUTS: Mapping[str, tuple[str, ...]] = {
    **{call.output: ("call_id",) for call in CALLS.values()},
    "local_shell_call_output": ("call_id", "id"),
    "mcp_approval_response": ("approval_request_id",),
}
# What an output of ours says besides: that nothing was done.
MADE: Mapping[str, dict[str, object]] = {
    "tool_search_output": {"execution": "client", "status": "completed"},
    "mcp_approval_response": {"approve": False},
    "apply_patch_call_output": {"status": "failed"},
}


def read(item: Native, before: Native | None, position: int) -> Sequence[Message]:
    """The core message of an item. Raises TranscriptError for what is no object and for an unknown role."""
    native = as_object(item, position)
    kind = _kind(native)
    if not kind:
        raise unreadable(position, "expected an item with a type or a role")
    if kind == "message":
        message = _read_message(native, item, position)
    elif kind in CALLS:
        message = _read_call(native, item, CALLS[kind])
    elif kind in OUTPUTS:
        message = _read_output(native, item, OUTPUTS[kind])
    elif kind == "reasoning":
        message = Message("assistant", (_reasoning(native),), item)
    else:
        message = Message("system" if kind in SETTINGS else "assistant", (Opaque(countable(native), native),), item)
    if before is None:
        return (message,)
    earlier = _peek(before)
    if message.role == "assistant" and _is_output(earlier):
        return (_continuing(message),)
    if message.role != "assistant" and _kind(earlier) == "reasoning":
        why = "reasoning that nothing of its answer followed got a short answer"
        return (Message("assistant", (Text(NO_ANSWER),), continues=True, repair=why), message)
    return (message,)


def _continuing(message: Message) -> Message:
    return Message(message.role, message.parts, message.source, 1, True, message.edited, message.repair)


def _peek(item: Native) -> dict[str, Any]:
    """Type, role and execution of an item, without reading the rest of it."""
    if isinstance(item, dict):
        return item
    return {key: getattr(item, key, None) for key in ("type", "role", "execution")}


def _kind(native: Mapping[str, Any]) -> str:
    """The type of an item: "message" where only a role says so, the server's own tool searches apart."""
    kind = str(native.get("type") or ("message" if native.get("role") else ""))
    if kind in ("tool_search_call", "tool_search_output") and native.get("execution") == "server":
        return "server_" + kind
    return kind


def _is_output(native: Mapping[str, Any]) -> bool:
    """Whether an item is one that the model's side wrote."""
    kind = _kind(native)
    return native.get("role") == "assistant" if kind == "message" else kind not in OUTPUTS and kind not in SETTINGS


def _read_message(native: dict[str, Any], item: Native, position: int) -> Message:
    role = ROLES.get(str(native.get("role")))
    if role is None:
        raise unreadable(position, f"unknown role {native.get('role')!r}: use one of {', '.join(ROLES)}")
    content = native.get("content")
    if isinstance(content, (str, list)):
        return Message(role, tuple(read_content(content, TEXTS, MEDIA)), item)
    mended = "" if content is None else json_text(content)
    return Message(role, (Text(mended),), item, edited=True, repair=f"content of type {_name(content)} became text")


def _read_call(native: dict[str, Any], item: Native, call: Call) -> Message:
    arguments = next((native[key] for key in call.arguments if native.get(key) is not None), None)
    name = str(native.get(call.name) or "") if call.name else str(native["type"]).removesuffix("_call")
    mended = native["type"] == "function_call" and not isinstance(arguments, str)
    text = arguments if isinstance(arguments, str) else json_text({} if arguments is None else arguments)
    fixed = native["type"] != "function_call" or not text.startswith("{")
    part = ToolCall(str(native.get(call.id) or ""), name, text, fixed, native)
    if not mended:
        return Message("assistant", (part,), item)
    why = f"arguments of type {_name(arguments)} became JSON text"
    return Message("assistant", (part,), item, edited=True, repair=why)


def _name(value: object) -> str:
    return "null" if value is None else type(value).__name__


def _read_output(native: dict[str, Any], item: Native, id_keys: tuple[str, ...]) -> Message:
    call_id = str(next((native[key] for key in id_keys if native.get(key)), ""))
    kind = native["type"]
    if kind in ("tool_search_output", "mcp_approval_response"):
        shown = {key: value for key, value in native.items() if key in ("tools", "approve", "reason")}
        return Message("tool", (ToolResult(call_id, countable(shown), (), native),), item)
    output = native.get("output")
    if kind == "shell_call_output" and isinstance(output, list):
        runs = [run for run in output if isinstance(run, dict)]
        streams = [str(run[key]) for run in runs for key in ("stdout", "stderr") if run.get(key)]
        return Message("tool", (ToolResult(call_id, "\n".join(streams), (), native),), item)
    if kind == "computer_call_output" and isinstance(output, dict):
        output = [output]
    mended = not isinstance(output, (str, list)) and kind != "apply_patch_call_output"
    parts = read_content(output if isinstance(output, (str, list)) else _as_content(output), TEXTS, MEDIA)
    text = "\n".join(part.text for part in parts if isinstance(part, (Text, Opaque)))
    result = ToolResult(call_id, text, tuple(part for part in parts if type(part) is Media), native)
    why = f"an output of type {_name(output)} became text" if mended else None
    return Message("tool", (result,), item, edited=mended, repair=why)


def _as_content(output: object) -> str | list[Any]:
    """An output in no known form: nothing as empty text, a lone block as a list of it, anything else as JSON text."""
    if output is None:
        return ""
    return [output] if isinstance(output, dict) and str(output.get("type")) in TEXTS else json_text(output)


def _reasoning(native: dict[str, Any]) -> Reasoning:
    sealed = native.get("encrypted_content")
    told = texts([native.get("summary"), native.get("content")])
    return Reasoning("\n".join(told), len(sealed) if isinstance(sealed, str) else 0, native)


def render(messages: Sequence[Message]) -> list[Native]:
    """Core messages as items; the unedited are handed back, the others are built from a copy."""
    ours = any([message.role == "tool" and message.source is None for message in messages])
    wanted = _wanted(messages) if ours else {}
    return render_each(messages, lambda message: _rebuild(message, wanted.get(id(message), "function_call_output")))


def _wanted(messages: Sequence[Message]) -> dict[int, str]:
    """The output type of each result of ours, by the identity of its message; its call is the last one before it."""
    types: dict[str, str] = {}
    wanted: dict[int, str] = {}
    for message in messages:
        types.update({call.id: CALLS[call.source["type"]].output for call in message.calls if call.source})  # type: ignore[index]
        if message.role == "tool" and message.source is None:
            wanted[id(message)] = types.get(_result(message).call_id, "function_call_output")
    return wanted


def _result(message: Message) -> ToolResult:
    part = message.parts[0]
    assert isinstance(part, ToolResult)
    return part


def _rebuild(message: Message, wanted: str) -> list[Native]:
    native = {} if message.source is None else dict(as_object(message.source, 0))
    if message.role == "tool":
        part = _result(message)
        made = {"type": wanted, OUTPUTS[wanted][0]: part.call_id, **MADE.get(wanted, {})}
        return [_rebuild_output(native or made, part)]
    if message.calls and native:
        return [_rebuild_call(native, message.calls[0])]
    if native and _kind(native) != "message":
        return _rebuild_opaque(message)
    content = write_content(message.parts, "output_text" if message.role == "assistant" else "input_text")
    return [(native or {"role": message.role}) | {"content": "" if content is None else content}]


def _rebuild_call(native: dict[str, Any], call: ToolCall) -> Native:
    return native | {"arguments": call.arguments} if native["type"] == "function_call" else native


def _rebuild_opaque(message: Message) -> list[Native]:
    """An item that is kept, left out (its reasoning was removed), or replaced by the text put in its place."""
    kept = [part.source for part in message.parts if not isinstance(part, Text) and part.source is not None]
    content = write_content([part for part in message.parts if isinstance(part, Text)], "output_text")
    return [*kept, *([] if content is None else [{"role": "assistant", "content": content}])]


def _rebuild_output(native: dict[str, Any], part: ToolResult) -> Native:
    kind = native["type"]
    if kind == "tool_search_output":
        return native | {"tools": []}
    if kind == "mcp_approval_response":
        return native | {"reason": part.text}
    if kind == "shell_call_output":
        return native | {"output": [{"stdout": part.text, "stderr": "", "outcome": _outcome(native)}]}
    if kind == "computer_call_output":
        screenshot = part.media[0].source if part.media else {"type": "computer_screenshot", "image_url": BLANK}
        return native | {"output": screenshot}
    return native | {"output": write_content([Text(part.text), *part.media], "input_text")}


def _outcome(native: dict[str, Any]) -> object:
    runs = native.get("output")
    first = runs[0] if isinstance(runs, list) and runs else None
    return first.get("outcome") if isinstance(first, dict) else {"type": "exit", "exit_code": 1}


def problems(items: Sequence[Native]) -> list[str]:
    """What OpenAI refuses in a list of input items, a sentence with its position each; empty when it is valid."""
    found: list[str] = []
    natives = [native if isinstance(native := plain(item), dict) else {} for item in items]
    waiting: dict[tuple[str, str], int] = {}
    # A call may stand on the server, behind a reference to its item (fc_...); then its output is no orphan.
    hidden = any(_kind(native) == "item_reference" for native in natives)
    for position, native in enumerate(natives):
        kind = _kind(native)
        found += [f"input[{position}]: {fault}" for fault in _faults(native, kind)]
        if kind in CALLS:
            pair = (CALLS[kind].output, str(native.get(CALLS[kind].id)))
            if pair in waiting:
                found.append(f"input[{position}]: a second {kind} with the id {pair[1]!r} before the first is answered")
            waiting[pair] = position
        elif kind in OUTPUTS:
            pair = (kind, str(next((native[key] for key in OUTPUTS[kind] if native.get(key)), "")))
            if waiting.pop(pair, None) is None and not hidden:
                found.append(f"input[{position}]: the {kind} for {pair[1]!r} follows no open call with that id")
        elif kind == "reasoning" and not _is_followed(natives, position):
            found.append(f"input[{position}]: the reasoning item is not followed by an item of its answer")
    needed = [(pair, position) for pair, position in waiting.items() if CALLS[_kind(natives[position])].required]
    return found + [f"input[{position}]: the call {pair[1]!r} has no {pair[0]}" for pair, position in needed]


def _is_followed(natives: Sequence[dict[str, Any]], position: int) -> bool:
    return position + 1 < len(natives) and _is_output(natives[position + 1])


def _faults(native: dict[str, Any], kind: str) -> list[str]:
    if not kind:
        return ["expected an item with a type or a role"]
    if kind == "message":
        role, content = native.get("role"), native.get("content")
        known = [] if str(role) in ROLES else [f"expected a role of {', '.join(ROLES)}, got {role!r}"]
        text = f"content must be text or a list of blocks, got {_name(content)}"
        return known + ([] if isinstance(content, (str, list)) else [text])
    if kind in CALLS and not isinstance(native.get(CALLS[kind].id), str):
        return [f"a {kind} needs a {CALLS[kind].id}"]
    if kind == "function_call" and not isinstance(native.get("arguments"), str):
        return [f"the arguments of the call {native['call_id']!r} are no text"]
    if kind in ("function_call_output", "custom_tool_call_output") and not isinstance(
        native.get("output"), (str, list)
    ):
        return [f"an output must be text or a list of blocks, got {_name(native.get('output'))}"]
    return []


def sniff(item: Native) -> bool | None:
    """True for what only Responses has, False for what it never has, None for plain role and text."""
    native = plain(item)
    if not isinstance(native, dict) or "parts" in native or "tool_calls" in native or "function_call" in native:
        return False
    kind = _kind(native)
    if kind != "message":
        known = kind in CALLS or kind in OUTPUTS or kind in SETTINGS or kind in ("reasoning", "item_reference")
        return True if known or kind.endswith(("_call", "_output", "compaction")) else (None if kind else False)
    if str(native.get("role")) not in ROLES:
        return False
    content = native.get("content")
    blocks = content if isinstance(content, list) else ()
    kinds = {str(block.get("type")) for block in blocks if isinstance(block, dict)}
    if kinds & {"input_text", "output_text", "input_image", "input_file"}:
        return True
    if kinds - TEXTS - {"refusal", "input_audio"} or ("text" in kinds):
        return False
    return True if native.get("type") == "message" and isinstance(content, str) else None


def tool_texts(tool: object) -> list[list[str]]:
    """One tool definition as name, description and JSON parameters; tools that are no function as their JSON."""
    native = plain(tool)
    if not isinstance(native, dict) or native.get("type", "function") != "function" or "name" not in native:
        return [[json_text(native)]]
    return [function_texts(native)]


DIALECT = Dialect(
    name="openai_responses",
    read=read,
    render=render,
    problems=problems,
    sniff=sniff,
    system_texts=texts,
    tool_texts=tool_texts,
    request=Request(
        messages=(("input",),),
        system=(("instructions",),),
        max_output=(("max_output_tokens",),),
    ),
)
