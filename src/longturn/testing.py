"""Checks that users run on their own code: is a list valid in a dialect, and does a dialect keep its promises."""

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from longturn.arguments import problems_of
from longturn.core.checkpoint import is_entry
from longturn.core.edits import cleared, without_images, without_thinking
from longturn.core.messages import Message, Part, ToolCall, ToolResult, result, user
from longturn.core.texts import CLEARED, NOTE, UNANSWERED
from longturn.dialects.base import Dialect, Native
from longturn.dialects.registry import by_name

Check = Callable[[Dialect, Sequence[Native]], Iterator[str]]

SHORTENED = '{"note":"shortened"}'
"""What `check_dialect` puts in the place of a call's arguments."""

# One item of each format that is shipped which no other format has.
_UNMISTAKABLE: Mapping[str, Native] = {
    "openai_chat": {"role": "tool", "tool_call_id": "call_1", "content": "12 files"},
    "openai_responses": {"type": "function_call", "call_id": "call_1", "name": "list", "arguments": "{}"},
    "anthropic": {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "list", "input": {}}]},
    "gemini": {"role": "model", "parts": [{"functionCall": {"name": "list", "args": {}}}]},
}


def validate(messages: Sequence[Native], dialect: Dialect | str) -> list[str]:
    """What the provider would refuse in `messages`, a sentence with its position each; empty when valid (law 7).

    dialect: a `Dialect`, or the name of one that is shipped. A checkpoint's entry is refused: it is there to be kept,
    and stands in no window. Raises ConfigError for an unknown name, TranscriptError for an entry that cannot be read.
    """
    found = by_name(dialect) if isinstance(dialect, str) else dialect
    entries = [place for place, item in enumerate(messages) if is_entry(item)]
    kept = [f"messages[{place}]: a checkpoint's entry is not sent as it is: send what fit() gives" for place in entries]
    return [*kept, *problems_of(found, messages)]


def check_dialect(dialect: Dialect, examples: Iterable[Sequence[Native]], akin: Iterable[str] = ()) -> None:
    """Hold a dialect to what the core relies on, over your own examples; raises AssertionError with all that failed.

    examples: valid message lists; between them they should hold system, user and assistant messages, calls (parallel
        ones too), results, reasoning, media, SDK objects, unknown fields and unknown blocks.
    akin: names of shipped formats that this one is a variant of, so that it may claim their items.

    Checked: unedited messages render to the very same objects (law 9) and are read the same each time; nothing handed
    in is changed (law 6); a cleared result, a removed image or thought, shortened arguments, a synthetic result, a
    note and a cut at a user message render to something valid (law 7); items of other formats are not claimed (B29).
    """
    failures = list(_claims(dialect, {dialect.name, *akin}))
    for number, example in enumerate(examples):
        before = copy.deepcopy(list(example))
        failures += [f"example {number}: {failure}" for check in _CHECKS for failure in check(dialect, example)]
        if before != list(example):
            failures.append(f"example {number}: the messages handed in were changed")
    if failures:
        lines = "".join(f"\n- {failure}" for failure in failures)
        raise AssertionError(f"the dialect {dialect.name!r} does not keep what a dialect promises:{lines}")


def _read(dialect: Dialect, items: Sequence[Native]) -> list[Message]:
    befores = [None, *items[:-1]]
    return [
        message
        for position, (before, item) in enumerate(zip(befores, items, strict=True) if items else ())
        for message in dialect.read(item, before, position)
    ]


def _claims(dialect: Dialect, own: set[str]) -> Iterator[str]:
    for name, item in _UNMISTAKABLE.items():
        if name not in own and dialect.sniff(item) is True:
            yield f"sniff claims an item of {name}: {item}"
    if dialect.system_texts(None) or dialect.system_texts("Be brief.") != ["Be brief."]:
        yield "system_texts must give no text for None, and a plain text as it is"


def _is_valid(dialect: Dialect, items: Sequence[Native]) -> Iterator[str]:
    yield from (f"it is not valid: {problem}" for problem in dialect.problems(items))
    for message in _read(dialect, items):
        if message.edited or message.repair:
            yield f"a valid message was mended while reading: {message.repair}"
    for position, item in enumerate(items):
        if dialect.sniff(item) is False:
            yield f"sniff disowns messages[{position}]"


def _is_lossless(dialect: Dialect, items: Sequence[Native]) -> Iterator[str]:
    messages = _read(dialect, items)
    if messages != _read(dialect, items):
        yield "reading it twice gives different messages"
    for position, message in enumerate(messages):
        if message.role == "tool" and not _is_result(message):
            yield f"core message {position}: a tool message must have exactly one part, a ToolResult"
    rendered = dialect.render(messages)
    if len(rendered) != len(items) or any(one is not other for one, other in zip(rendered, items, strict=False)):
        yield f"rendering what was read does not give the same {len(items)} objects (got {len(rendered)})"


def _takes_edits(dialect: Dialect, items: Sequence[Native]) -> Iterator[str]:
    messages = _read(dialect, items)
    for what, edit in _EDITS.items():
        edited = [edit(message) for message in messages]
        if edited != messages:
            yield from _renders(dialect, what, edited)


def _renders(dialect: Dialect, what: str, messages: Sequence[Message]) -> Iterator[str]:
    rendered = dialect.render(messages)
    yield from (f"{what}: {problem}" for problem in dialect.problems(rendered))
    again = _read(dialect, rendered)
    # A synthetic or edited call may be written in another shape, so only what the model must still see is compared.
    if [call.id for message in again for call in message.calls] != [
        c.id for message in messages for c in message.calls
    ]:
        yield f"{what}: other calls than before"
    if _answered(again) != _answered(messages):
        yield f"{what}: other results than before"


def _answered(messages: Iterable[Message]) -> list[str]:
    return [part.call_id for message in messages for part in message.parts if isinstance(part, ToolResult)]


def _takes_a_note(dialect: Dialect, items: Sequence[Native]) -> Iterator[str]:
    messages = _read(dialect, items)
    places = [place for place, message in enumerate(messages) if message.role == "user"]
    if not places:
        return
    place = places[0] + 1
    noted = [*messages[:place], user(NOTE), *messages[place:]]
    yield from _renders(dialect, "a note behind the first user message", noted)
    if NOTE not in [message.text for message in _read(dialect, dialect.render(noted))]:
        yield "a note behind the first user message: it is not there when read again"


def _takes_cuts(dialect: Dialect, items: Sequence[Native]) -> Iterator[str]:
    messages = _read(dialect, items)
    system = messages[: next((place for place, message in enumerate(messages) if message.role != "system"), 0)]
    for place, message in enumerate(messages):
        if message.role == "user" and place > len(system):
            yield from _renders(dialect, f"a cut before core message {place}", [*system, *messages[place:]])


def _short_arguments(message: Message) -> Message:
    parts: list[Part] = [
        replace(part, arguments=SHORTENED) if isinstance(part, ToolCall) and not part.fixed else part
        for part in message.parts
    ]
    return message if tuple(parts) == message.parts else message.with_parts(parts)


def _is_result(message: Message) -> bool:
    return message.role == "tool" and [type(part) for part in message.parts] == [ToolResult]


def _cleared(message: Message) -> Message:
    return cleared(message, CLEARED) if _is_result(message) else message


def _without_images(message: Message) -> Message:
    return without_images(message) if _is_result(message) else message


def _synthetic(message: Message) -> Message:
    part = message.parts[0] if message.role == "tool" else None
    return result(part.call_id, UNANSWERED) if isinstance(part, ToolResult) else message


_EDITS: Mapping[str, Callable[[Message], Message]] = {
    "cleared results": _cleared,
    "results without images": _without_images,
    "answers without thinking": without_thinking,
    "shortened arguments": _short_arguments,
    "synthetic results": _synthetic,
}
_CHECKS: tuple[Check, ...] = (_is_valid, _is_lossless, _takes_edits, _takes_a_note, _takes_cuts)
