"""Pydantic AI's messages as a dialect; what goes out on a wire is made of them by Pydantic AI's own model classes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, is_dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from typing import Any

from pydantic_ai.messages import (
    BaseToolCallPart,
    BaseToolReturnPart,
    BinaryContent,
    CachePoint,
    CompactionPart,
    FilePart,
    FileUrl,
    InstructionBaselinePart,
    InstructionDeltaPart,
    InstructionPart,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    RetryFeedbackPart,
    RetryPromptPart,
    SpeechPart,
    SystemPromptPart,
    TextContent,
    TextPart,
    ThinkingPart,
    ToolAvailabilityDeltaPart,
    ToolCallPart,
    ToolReturnPart,
    UploadedFile,
    UserPromptPart,
)
from pydantic_ai.tools import ToolDefinition

from longturn.agent.words import LAST_STEP
from longturn.core.messages import Media, Message, Opaque, Part, Reasoning, Role, Text, ToolCall, ToolResult
from longturn.core.thinking import thinking_rule
from longturn.dialects.base import Dialect, Native, Request
from longturn.dialects.native import countable, json_object, json_text, unreadable

NEVER = datetime(1970, 1, 1, tzinfo=UTC)
"""When our own parts were written: windows of one list are equal, whenever they are made (L9)."""

UNKNOWN_TOOL = "unknown_tool"
"""The name in a result of ours whose call is not in sight."""

_TEXTUAL = (
    "text/",
    "application/json",
    "application/xml",
    "application/yaml",
    "application/x-yaml",
    "application/toml",
)
ToolOf = Callable[[str], str]
# A call or result of these kinds makes tools known; a request without them hides those tools again.
_REVEALING = frozenset({"tool-search", "capability-load"})
# Request parts that later requests are read with: a window without them would say other things than were agreed.
_STANDING = (InstructionBaselinePart, InstructionDeltaPart, ToolAvailabilityDeltaPart)


# Reading


def read(item: Native, before: Native | None, position: int) -> Sequence[Message]:
    """The core messages in one Pydantic AI message.

    A request gives one "tool" message for each of its results, then the rest, in order, as "user" messages (what the
    person said) and "system" messages (system prompts, feedback and records of the framework, which open no turn).
    Raises TranscriptError naming the position for anything but a ModelRequest or ModelResponse.
    """
    if isinstance(item, ModelResponse):
        return (Message("assistant", tuple([_answered(part) for part in item.parts]), item),)
    if not isinstance(item, ModelRequest):
        raise unreadable(position, f"expected a ModelRequest or ModelResponse, got {type(item).__name__}")
    groups: list[tuple[Role, tuple[Part, ...]]] = [
        ("tool", (_result(part),)) for part in item.parts if answers(part) is not None
    ]
    others = [part for part in item.parts if answers(part) is None]
    for role, run in groupby(others, _role):
        groups.append((role, tuple([core for part in run for core in _asked(part)])))
    if not groups:
        return (Message("system", (), item),)
    return [Message(role, parts, item, len(groups)) for role, parts in groups]


def answers(part: object) -> str | None:
    """The id of the call that a part of a request answers; None where it answers none."""
    if isinstance(part, ToolReturnPart) or (isinstance(part, RetryPromptPart) and part.tool_name is not None):
        return part.tool_call_id
    return None


def is_standing(item: object) -> bool:
    """Whether a message holds what later requests are read with: instructions that changed, tools that were found."""
    parts: Sequence[object] = item.parts if isinstance(item, ModelRequest | ModelResponse) else ()
    return any([isinstance(part, _STANDING) or getattr(part, "tool_kind", None) in _REVEALING for part in parts])


def _role(part: object) -> Role:
    """The user's only what a person said; `LAST_STEP` is sent in the user's voice, but opens no turn."""
    is_said = isinstance(part, SpeechPart) or (isinstance(part, UserPromptPart) and part.content != LAST_STEP)
    return "user" if is_said else "system"


def _asked(part: ModelRequestPart) -> list[Part]:
    if isinstance(part, SystemPromptPart):
        return [Text(part.content, part)]
    if isinstance(part, UserPromptPart):
        content = part.content
        return [Text(content, part)] if isinstance(content, str) else [_said(piece, part) for piece in content]
    if isinstance(part, RetryFeedbackPart | RetryPromptPart):
        return [Opaque(part.model_response(), part)]
    if isinstance(part, ToolAvailabilityDeltaPart):
        return [Opaque(" ".join(part.tools_added), part)]
    said = getattr(part, "content", None)
    return [Opaque(said if isinstance(said, str) else "", part)]


def _said(piece: object, part: UserPromptPart) -> Part:
    """One piece of what a user said; its source is the whole part, which is never taken apart."""
    if isinstance(piece, str):
        return Text(piece, part)
    if isinstance(piece, TextContent):
        return Text(piece.content, part)
    if isinstance(piece, CachePoint):
        return Opaque("", part)
    if isinstance(piece, BinaryContent) and piece.media_type.startswith(_TEXTUAL):
        return Opaque(piece.data.decode("utf-8", "replace"), part)
    return Media(_kind(piece), part)


def _kind(file: object) -> str:
    """What kind of medium a file is."""
    media_type = file.media_type if isinstance(file, BinaryContent | UploadedFile | FileUrl) else ""
    kind = media_type.partition("/")[0]
    return kind if kind in ("image", "audio", "video") else "document"


def _result(part: object) -> Part:
    if isinstance(part, RetryPromptPart):
        return ToolResult(part.tool_call_id, part.model_response(), (), part)
    assert isinstance(part, BaseToolReturnPart)
    media = tuple([Media(_kind(file), file) for file in part.files])
    text = part.content if isinstance(part.content, str) else part.model_response_str(wrap_if_error=False)
    return ToolResult(part.tool_call_id, text, media, part)


def _answered(part: ModelResponsePart) -> Part:
    if isinstance(part, ToolCallPart):
        return _call(part)
    if isinstance(part, TextPart):
        return Text(part.content, part)
    if isinstance(part, ThinkingPart):
        return Reasoning(part.content, len(part.signature or ""), part)
    if isinstance(part, FilePart):
        return Media(_kind(part.content), part)
    if isinstance(part, BaseToolCallPart):
        return Opaque(f"{part.tool_name} {part.args_as_json_str()}", part)
    if isinstance(part, BaseToolReturnPart):
        return Opaque(part.model_response_str(), part)
    if isinstance(part, CompactionPart) and not part.content:
        return Opaque(countable(part.provider_details or {}), part)
    return Opaque(part.content if isinstance(part.content, str) else "", part)


def _call(part: ToolCallPart) -> Part:
    args = part.args
    text = args if isinstance(args, str) else json_text(args or {})
    # OpenAI keeps its own copy of a call that comes with its item's id, and Gemini signs calls (2026-11).
    is_signed = part.id is not None or "thought_signature" in (part.provider_details or ())
    fixed = is_signed or part.tool_kind is not None or not (isinstance(args, dict) or text.startswith("{"))
    return ToolCall(part.tool_call_id, part.tool_name, text, fixed, part)


# Rendering


def render(messages: Sequence[Message]) -> list[Native]:
    """Core messages as Pydantic AI messages: the same objects where nothing was edited, copies elsewhere."""
    rendered: list[Native] = []
    for _, placed in groupby(enumerate(messages), _origin):
        places, run = zip(*placed, strict=True)
        rendered.append(run[0].source if _is_whole(run) else _rebuilt(run, partial(_called, messages, places[0])))
    return rendered


def _origin(placed: tuple[int, Message]) -> tuple[int, int]:
    """What neighbours have in common that come from one native message; a message of ours stands for itself."""
    place, message = placed
    return (0, id(message.source)) if message.source is not None else (1, place)


def _is_whole(run: Sequence[Message]) -> bool:
    return run[0].source is not None and run[0].share == len(run) and not any([message.edited for message in run])


def _rebuilt(run: Sequence[Message], called: ToolOf) -> Native:
    source = run[0].source
    if run[0].role == "assistant":
        answer = [_written_answer(part) for part in run[0].parts]
        return replace(source, parts=answer) if isinstance(source, ModelResponse) else ModelResponse(answer)
    parts: list[ModelRequestPart] = []
    for message in run:
        for part in message.parts:
            written = _written(part, message.role, called)
            if not parts or parts[-1] is not written:
                parts.append(written)
    return replace(source, parts=parts) if isinstance(source, ModelRequest) else ModelRequest(parts)


def _written(part: Part, role: Role, called: ToolOf) -> ModelRequestPart:
    """A part of a request for one that was read, edited or made here."""
    native = part.source
    if isinstance(part, ToolResult):
        return native if native is not None and _result(native) == part else _written_result(part, called)  # type: ignore[return-value]
    if not isinstance(part, Text):
        return native  # type: ignore[return-value]
    if isinstance(native, UserPromptPart | SystemPromptPart):
        is_same = not isinstance(native.content, str) or native.content == part.text
        return native if is_same else replace(native, content=part.text)
    kind = SystemPromptPart if role == "system" else UserPromptPart
    return kind(part.text, timestamp=NEVER) if native is None else native  # type: ignore[return-value]


def _written_result(part: ToolResult, called: ToolOf) -> ToolReturnPart:
    media = [medium.source for medium in part.media]
    content: Any = [part.text, *media] if media and part.text else media or part.text
    native = part.source
    if type(native) is ToolReturnPart:
        return replace(native, content=content)
    if isinstance(native, BaseToolReturnPart | RetryPromptPart):
        outcome = native.outcome if isinstance(native, BaseToolReturnPart) else "retried"
        name, made = native.tool_name or UNKNOWN_TOOL, native.timestamp
        return ToolReturnPart(name, content, part.call_id, timestamp=made, outcome=outcome)
    return ToolReturnPart(called(part.call_id), content, part.call_id, timestamp=NEVER, outcome="interrupted")


def _called(messages: Sequence[Message], place: int, call_id: str) -> str:
    """The tool of the last call with this id before a place."""
    for before in range(place - 1, -1, -1):
        for call in messages[before].calls:
            if call.id == call_id:
                return call.name
    return UNKNOWN_TOOL


def _written_answer(part: Part) -> ModelResponsePart:
    native = part.source
    if isinstance(part, Text) and native is None:
        return TextPart(part.text)
    if isinstance(part, Text) and isinstance(native, TextPart):
        return native if native.content == part.text else replace(native, content=part.text, id=None)
    if isinstance(part, ToolCall) and isinstance(native, ToolCallPart) and _call(native) != part:
        given = json_object(part.arguments) if isinstance(native.args, dict) else None
        return replace(native, args=part.arguments if given is None else given)
    return native  # type: ignore[return-value]


# Requests


def problems(items: Sequence[Native]) -> list[str]:
    """What Pydantic AI would have to mend in a list before it is sent, a sentence with its position each."""
    return list(_problems(items))


def _problems(items: Sequence[Native]) -> Iterator[str]:
    waiting: dict[str, int] = {}
    for position, item in enumerate(items):
        if isinstance(item, ModelRequest):
            for call_id in map(answers, item.parts):
                if call_id is not None and waiting.pop(call_id, None) is None:
                    yield f"messages[{position}]: the result of {call_id!r} does not follow its call"
        elif isinstance(item, ModelResponse):
            if position == 0:
                yield "messages[0]: the first message must be a request"
            yield from _unanswered(waiting)
            waiting = {part.tool_call_id: position for part in item.parts if isinstance(part, ToolCallPart)}
        else:
            yield f"messages[{position}]: a {type(item).__name__} is neither a ModelRequest nor a ModelResponse"
    yield from _unanswered(waiting)


def _unanswered(waiting: Mapping[str, int]) -> Iterator[str]:
    for call_id, position in waiting.items():
        yield f"messages[{position}]: the call {call_id!r} is not answered by the messages that follow"


def sniff(item: Native) -> bool | None:
    """Whether one item is Pydantic AI's; nobody else's is."""
    return isinstance(item, ModelRequest | ModelResponse)


def system_texts(system: object) -> list[str]:
    """The texts of instructions: None, a text, an InstructionPart, or several."""
    if system is None:
        return []
    if isinstance(system, InstructionPart):
        return [system.content]
    return (
        [text for each in system for text in system_texts(each)] if isinstance(system, list | tuple) else [str(system)]
    )


def tool_texts(tool: object) -> list[list[str]]:
    """Name, description and JSON parameters of a tool; the whole JSON of one that the provider runs (H23)."""
    if isinstance(tool, ToolDefinition):
        return [[tool.name, tool.description or "", json_text(tool.parameters_json_schema)]]
    is_record = is_dataclass(tool) and not isinstance(tool, type)
    return [[countable(asdict(tool) if is_record else tool)]]  # type: ignore[call-overload]


DIALECT = Dialect(
    name="pydantic_ai",
    read=read,
    render=render,
    problems=problems,
    sniff=sniff,
    system_texts=system_texts,
    tool_texts=tool_texts,
    request=Request(messages=(("messages",),)),
    user_first=True,
    thinking=thinking_rule,
)
"""For `longturn.fit(result.all_messages(), dialect=DIALECT)` and for `Fitter(dialect=DIALECT)`."""
