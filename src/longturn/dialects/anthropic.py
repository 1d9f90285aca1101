"""The Anthropic Messages format: reading its messages and rendering them (its API's rules: `anthropic_rules`)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from longturn.core.messages import Media, Message, Opaque, Part, Reasoning, Role, Text, ToolCall, ToolResult
from longturn.core.texts import EMPTY_MESSAGE
from longturn.core.thinking import thinking_rule
from longturn.dialects.anthropic_rules import (
    ROLES,
    Block,
    blocks_of,
    body_of,
    fault_of,
    fields,
    is_blank,
    is_empty_inside,
    is_mute,
    problems,
)
from longturn.dialects.base import Dialect, Native, Request
from longturn.dialects.joined import first_source, render_joined
from longturn.dialects.native import countable, json_object, json_text, plain, texts

_OURS = ("tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use", "document")
_OTHERS = ("image_url", "input_text", "output_text", "input_image", "input_audio", "refusal", "file")


# Reading


def read(item: Native, before: Native | None, position: int) -> Sequence[Message]:
    """The core messages in one native message; what the API would refuse is mended and reported (H29).

    A user message gives one "tool" message for each of its results, then one "user" message for the rest.
    Raises TranscriptError naming the position for a role or content that cannot be read.
    """
    role, content = fields(item, position)
    if role == "system" and position == 0:
        # The list must begin with a user's message; a system prompt stands beside it (2026-11).
        first, *rest = [
            replace(message, source=item, edited=True)
            for message in read({"role": "user", "content": content}, None, position)
        ]
        return replace(first, repair="a system message in first place: sent as the user's"), *rest
    if type(content) is str and not is_blank(content):
        return (Message(role, (Text(content),), item),)
    repairs: list[str] = []
    results: list[Part] = []
    others: list[Part] = []
    for native in blocks_of(content, position):
        body = body_of(native, position)
        fault = fault_of(role, body)
        if fault is not None:
            repairs.append(f"{fault}: left out")
            continue
        part = _part(body, native)
        if part.source is not native:
            repairs.append("empty content in a tool_result: mended")
        if type(part) is not ToolResult:
            others.append(part)
            continue
        if others:
            repairs.append("tool_result blocks behind other blocks: put first")
        results.append(part)
    if any([type(part) is Text and part.text.isspace() for part in others]) and is_mute(role, _texts(others)):
        repairs.append("text of nothing but white space: left out")
        others = [part for part in others if not isinstance(part, Text)]
    if not results and not others:
        repairs.append("message without content: given a short text")
        others.append(Text(EMPTY_MESSAGE))
    if results and _only_results(before):
        repairs.append("results of one answer in several messages: joined")
    if not results and not repairs:
        return (Message(role, tuple(others), item),)
    groups: list[tuple[Role, tuple[Part, ...]]] = [("tool", (part,)) for part in results]
    if others:
        groups.append((role, tuple(others)))
    messages = [Message(kind, parts, item, len(groups), edited=bool(repairs)) for kind, parts in groups]
    if repairs:
        messages[0] = replace(messages[0], repair="; ".join(dict.fromkeys(repairs)))
    return messages


def _texts(parts: Iterable[Part]) -> list[str | None]:
    return [part.text if isinstance(part, Text) else None for part in parts]


def _only_results(item: Native | None) -> bool:
    if not isinstance(item, Mapping) or item.get("role") != "user":
        return False
    content = item.get("content")
    if not isinstance(content, (list, tuple)) or not content:
        return False
    return all(isinstance(block, Mapping) and block.get("type") == "tool_result" for block in content)


def _part(body: Block, native: Native) -> Part:
    kind = body.get("type")
    reader = _READERS.get(kind) if isinstance(kind, str) else None
    return Opaque(countable(body), native) if reader is None else reader(body, native)


def _text(body: Block, native: Native) -> Part:
    return Text(_string(body.get("text")), native)


def _thinking(body: Block, native: Native) -> Part:
    return Reasoning(_string(body.get("thinking")), len(_string(body.get("signature"))), native)


def _redacted(body: Block, native: Native) -> Part:
    return Reasoning("", len(_string(body.get("data"))), native)


def _call(body: Block, native: Native) -> Part:
    given = body.get("input")
    arguments = given if isinstance(given, str) else json_text(given)
    return ToolCall(_string(body.get("id")), _string(body.get("name")), arguments, not isinstance(given, dict), native)


def _image(_: Block, native: Native) -> Part:
    return Media("image", native)


def _document(body: Block, native: Native) -> Part:
    given = body.get("source")
    source = given if isinstance(given, dict) else {}
    if source.get("type") == "text":
        pieces = [body.get("title"), body.get("context"), source.get("data")]
        return Opaque("\n".join(piece for piece in pieces if isinstance(piece, str)), native)
    return Opaque(countable(body), native) if source.get("type") == "content" else Media("document", native)


def _result(body: Block, native: Native) -> Part:
    call_id, content = _string(body.get("tool_use_id")), body.get("content")
    if type(content) is str and content:
        return ToolResult(call_id, content, (), native)
    blocks = [content] if isinstance(content, str) else content if isinstance(content, (list, tuple)) else []
    bodies = [block if type(block) is dict else plain(block) for block in blocks]
    kept = [block for block in bodies if isinstance(block, dict) and not is_empty_inside(block)]
    if not kept and body.get("is_error"):  # "content cannot be empty if `is_error` is true" (2025)
        return ToolResult(call_id, EMPTY_MESSAGE, (), {**body, "content": EMPTY_MESSAGE})
    if len(kept) < len(bodies) and content != "":
        native = {**body, "content": kept}
    parts = [_part(block, block) for block in kept]
    inner = "\n".join(part.text for part in parts if isinstance(part, Text | Opaque))
    return ToolResult(call_id, inner, tuple(part for part in parts if isinstance(part, Media)), native)


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""


_READERS: dict[str, Callable[[Block, Native], Part]] = {
    "text": _text,
    "tool_use": _call,
    "tool_result": _result,
    "thinking": _thinking,
    "redacted_thinking": _redacted,
    "image": _image,
    "document": _document,
}


# Rendering


def render(messages: Sequence[Message]) -> list[Native]:
    """Core messages as native messages: the same objects where nothing was edited, copies elsewhere (B27)."""
    return render_joined(messages, _rebuild)


def _rebuild(group: Sequence[Message]) -> Native:
    source = first_source(group)
    parts = [part for message in group for part in message.parts]
    role = "user" if group[0].role == "tool" else group[0].role
    # An answer may have said white space beside thinking, which is refused once the thinking is gone.
    nothing = not parts or (role == "assistant" and is_mute(role, _texts(parts)))
    content = [{"type": "text", "text": EMPTY_MESSAGE}] if nothing else [_block(part) for part in parts]
    return {**(source if isinstance(source, dict) else {}), "role": role, "content": content}


def _block(part: Part) -> Native:
    native = part.source
    body = native if isinstance(native, dict) else plain(native)
    if not isinstance(body, dict):
        return _written(part, {})
    return native if _part(body, native) == part else _written(part, body)


def _written(part: Part, body: Block) -> Native:
    """A block for a part that longturn made or changed, from a copy of `body`, its own native block ({} for none)."""
    if isinstance(part, Text):
        same_kind = body.get("type") == "text"
        return {**(body if same_kind else {"type": "text"}), "text": part.text}
    if isinstance(part, ToolResult):
        head = body or {"type": "tool_result", "tool_use_id": part.call_id}
        said: list[Native] = [{"type": "text", "text": part.text}] if part.text else []
        media = [medium.source for medium in part.media]
        return {**head, "content": said + media if media else part.text}
    if isinstance(part, ToolCall):
        head = body or {"type": "tool_use", "id": part.id, "name": part.name}
        return {**head, "input": json_object(part.arguments) or {}}
    return part.source


# Requests


def sniff(item: Native) -> bool | None:
    """Whether one native item is surely Anthropic's (True), surely not (False), or could be (None)."""
    if type(item) is dict:
        name, content, foreign = item.get("role"), item.get("content"), "tool_calls" in item or "parts" in item
    else:
        name, content, foreign = getattr(item, "role", None), getattr(item, "content", None), hasattr(item, "parts")
    if foreign or not isinstance(name, str) or name not in ROLES:
        return False
    if not isinstance(content, (list, tuple)):
        return None
    for block in content:
        kind = block.get("type") if isinstance(block, dict) else getattr(block, "type", None)
        if kind in _OURS or (kind == "image" and isinstance(block, dict) and "source" in block):
            return True
        if kind in _OTHERS:
            return False
    return None


def tool_texts(tool: object) -> list[list[str]]:
    """The name, description and JSON schema of a tool; the whole JSON of one that the server runs (H23)."""
    body = plain(tool)
    if not isinstance(body, dict) or "input_schema" not in body:
        return [[countable(body)]]
    return [[_string(body.get("name")), _string(body.get("description")), json_text(body["input_schema"])]]


DIALECT = Dialect(
    name="anthropic",
    read=read,
    render=render,
    problems=problems,
    sniff=sniff,
    system_texts=texts,
    tool_texts=tool_texts,
    request=Request(messages=(("messages",),), system=(("system",),), max_output=(("max_tokens",),)),
    user_first=True,
    system_apart=True,
    thinking=thinking_rule,
)
