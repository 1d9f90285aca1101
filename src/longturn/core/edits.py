"""The edits that a rung may make to one message; each gives a copy and is the same however often it is made."""

import json
from collections.abc import Callable
from dataclasses import replace

from longturn.core.measure import IMAGE_MARKER
from longturn.core.messages import Message, Part, Reasoning, Text, ToolCall, ToolResult
from longturn.core.policy import Pruning
from longturn.core.texts import ARGUMENT_CLEARED, EMPTY_ANSWER, IMAGE_CLEARED

LONG_ARGUMENT = 400
"""A string inside a call's arguments longer than this many characters may be shortened (B15)."""
KEPT_ARGUMENT = 60
"""How many characters stay at each end of a shortened argument."""


def cleared(message: Message, text: str) -> Message:
    """A result with `text` in the place of all that the tool returned (L1)."""
    part = result_of(message)
    return message.with_parts([ToolResult(part.call_id, text, (), part.source)])


def without_images(message: Message) -> Message:
    """A result with a short text in the place of each medium (B12)."""
    part = result_of(message)
    lines = [part.text] * bool(part.text) + [IMAGE_CLEARED] * len(part.media)
    return message.with_parts([replace(part, text="\n".join(lines), media=())])


def trimmed(message: Message, characters: int) -> Message:
    """A result cut to head and tail (L8)."""
    part = result_of(message)
    return message.with_parts([replace(part, text=bound_result(part.text, characters))])


def pruned(message: Message, pruning: Pruning, hard: bool) -> Message:
    """A result whose text is pruned by age; its media stay (S3). Never longer than it was."""
    part = result_of(message)
    text = pruning.placeholder if hard else _head_and_tail(part.text, pruning)
    return message if len(text) >= len(part.text) else message.with_parts([replace(part, text=text)])


def _head_and_tail(text: str, pruning: Pruning) -> str:
    note = f"\n...\n[{len(text)} characters, head and tail kept]\n"
    room = max(0, pruning.max_chars - len(note))
    head = min(pruning.head_chars, room)
    tail = min(pruning.tail_chars, room - head)
    start = _outside_marker(text, head, before=True)
    end = _outside_marker(text, len(text) - tail, before=False)
    return f"{text[:start]}{note}{text[end:]}"[: pruning.max_chars]


def without_thinking(message: Message) -> Message:
    """An answer without its thinking; one that is left empty gets a short constant text (B23)."""
    parts: list[Part] = [part for part in message.parts if not isinstance(part, Reasoning)]
    if len(parts) == len(message.parts):
        return message
    return message.with_parts(parts or [Text(EMPTY_ANSWER)])


def shortened(message: Message) -> Message:
    """An answer with long strings in its calls' arguments cut in the middle; the same object where none is (B15)."""
    parts = [_shorter(part) if isinstance(part, ToolCall) else part for part in message.parts]
    if all(new is old for new, old in zip(parts, message.parts, strict=True)):
        return message
    return message.with_parts(parts)


def result_of(message: Message) -> ToolResult:
    """The one part of a "tool" message."""
    part = message.parts[0]
    assert isinstance(part, ToolResult)
    return part


def bound_result(text: str, characters: int = 50_000) -> str:
    """A tool result bounded when it is recorded: two thirds head, one third tail, and how much was left out (H30).

    `characters` bounds the outcome, 0 means no bound. An image marker is never cut in two; the outcome is never
    longer than the original.
    """
    if not characters or len(text) <= characters:
        return text
    marker = f"\n[{len(text)} characters, cut in the middle]\n"
    room = max(0, characters - len(marker) - len(str(len(text))))
    head = _outside_marker(text, room * 2 // 3, before=True)
    tail = _outside_marker(text, len(text) - (room - room * 2 // 3), before=False)
    marker = f"\n[{tail - head} of {len(text)} characters left out]\n"
    bounded = f"{text[:head]}{marker}{text[tail:]}"
    return bounded if len(bounded) <= characters else text[:head] + text[tail:]


def _outside_marker(text: str, cut: int, *, before: bool) -> int:
    """A place near `cut` that is not inside an image marker, and not between the halves of a surrogate pair."""
    start = text.rfind("[IMAGE:", 0, cut)
    found = IMAGE_MARKER.match(text, start) if start >= 0 else None
    if found and found.end() > cut:
        return found.start() if before else found.end()
    if 0 < cut < len(text) and "\udc00" <= text[cut] <= "\udfff" and "\ud800" <= text[cut - 1] <= "\udbff":
        return cut - 1 if before else cut + 1
    return cut


def _shorter(call: ToolCall) -> ToolCall:
    if call.fixed or len(call.arguments) <= LONG_ARGUMENT:
        return call
    try:
        value = json.loads(call.arguments)
        shorter = _map_strings(value, _cut_middle)
        if shorter == value:
            return call
        return replace(call, arguments=_json(shorter))
    except (ValueError, RecursionError):
        return call


def _json(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # Half a surrogate pair, written as an escape, must not come out as a character that UTF-8 cannot say.
    is_sayable = text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text)
    return text if is_sayable else json.dumps(value, allow_nan=False, separators=(",", ":"))


def _cut_middle(text: str) -> str:
    if len(text) <= LONG_ARGUMENT:
        return text
    left_out = ARGUMENT_CLEARED.format(len(text) - 2 * KEPT_ARGUMENT)
    return f"{text[:KEPT_ARGUMENT]}{left_out}{text[-KEPT_ARGUMENT:]}"


def _map_strings(value: object, change: Callable[[str], str]) -> object:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: _map_strings(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [_map_strings(item, change) for item in value]
    return value
