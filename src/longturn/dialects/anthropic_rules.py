"""What the Anthropic Messages API takes and what it refuses, as far as a list of messages shows it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from longturn.core.messages import Role
from longturn.dialects.base import Native
from longturn.dialects.native import as_object, plain, unreadable
from longturn.errors import TranscriptError

Block = dict[str, object]

MAX_MARKERS = 4
ROLES: dict[object, Role] = {"user": "user", "assistant": "assistant", "system": "system"}
_MISPLACED = {
    "user": ("tool_use", "thinking", "redacted_thinking"),
    "assistant": ("tool_result",),
    "system": ("tool_use", "tool_result", "thinking", "redacted_thinking"),
}


def fields(item: Native, position: int) -> tuple[Role, object]:
    """The role and the content of a native message. Raises TranscriptError naming the position (H29)."""
    if type(item) is dict:
        name, content = item.get("role"), item.get("content")
    elif hasattr(item, "role") and hasattr(item, "content"):  # an SDK Message: its blocks stay the SDK's own objects
        name, content = item.role, item.content
    else:
        body = as_object(item, position)
        name, content = body.get("role"), body.get("content")
    role = ROLES.get(name) if isinstance(name, str) else None
    if role is None:
        raise unreadable(position, f"unknown role {name!r}: Anthropic takes user, assistant and system")
    return role, content


def blocks_of(content: object, position: int) -> Sequence[Native]:
    """The native blocks of a content, which is text, a list or nothing. Raises TranscriptError for anything else."""
    if content is None:
        return ()
    if isinstance(content, str):
        return ({"type": "text", "text": content},)
    if isinstance(content, (list, tuple)):
        return content
    raise unreadable(position, f"content is a {type(content).__name__}: Anthropic takes text or a list of blocks")


def body_of(native: Native, position: int) -> Block:
    """One native block as a plain dict to read from. Raises TranscriptError when it is no object."""
    body = native if type(native) is dict else plain(native)
    if isinstance(body, dict):
        return body
    raise unreadable(position, f"a content block is a {type(native).__name__}: Anthropic takes objects with a type")


def is_blank(text: object) -> bool:
    """Whether there is nothing but white space in `text`."""
    return not isinstance(text, str) or not text or text.isspace()


def is_mute(role: Role, texts: Iterable[str | None]) -> bool:
    """Whether white space is all that a message says, so that its text is refused; None stands for a block of no text.

    Beside other text white space is taken (as tried on the API by others, April 2026), and so is what Claude itself
    wrote beside thinking and calls: answers that begin with two newlines are common in recorded sessions.
    """
    return not any([role == "assistant" if text is None else not is_blank(text) for text in texts])


def fault_of(role: Role, body: Block) -> str | None:
    """Why the API would refuse this block in a message of this role; None when it would not."""
    kind = body.get("type")
    if kind == "text":
        return None if body.get("text") else "empty text block"
    if kind in _MISPLACED[role]:
        return f"{kind} block in a {role} message"
    if kind == "thinking" and not isinstance(body.get("signature"), str):
        return "thinking block without a signature"
    return None


def is_empty_inside(block: Block) -> bool:
    """Whether a block inside a tool_result is text that the API would refuse as empty."""
    return block.get("type") == "text" and not block.get("text")


@dataclass(frozen=True, slots=True)
class _Turn:
    """Neighbouring messages of one role, which the API joins; `places` says where each block stands."""

    role: Role
    blocks: list[Block]
    places: list[int]

    def having(self, kind: str) -> Iterator[tuple[int, Block]]:
        return ((place, block) for place, block in zip(self.places, self.blocks, strict=True) if block["type"] == kind)


def problems(messages: Sequence[Native]) -> list[str]:
    """What the API would refuse, a sentence each with its position; only what the list itself shows.

    Results of one answer in several messages are named too: Anthropic joins neighbouring user messages, most
    compatible endpoints refuse them (2026). Not judged: whether thinking had to be there, and signatures
    (`longturn.strict` models those).
    """
    try:
        single = [_turn(item, position) for position, item in enumerate(messages)]
    except TranscriptError as error:
        return [str(error)]
    joined = _joined(single)
    found = [*_contents(single), *_system_places(single), *_markers(single)]
    return [*found, *_calls(joined), *_results(joined), *_server_tools(joined)]


def _turn(item: Native, position: int) -> _Turn:
    role, content = fields(item, position)
    bodies = [body_of(block, position) for block in blocks_of(content, position)]
    return _Turn(role, [{"type": None, **body} for body in bodies], [position] * len(bodies))


def _joined(single: Iterable[_Turn]) -> list[_Turn]:
    turns: list[_Turn] = []
    for turn in single:
        if not turns or turns[-1].role != turn.role:
            turns.append(_Turn(turn.role, [], []))
        turns[-1].blocks.extend(turn.blocks)
        turns[-1].places.extend(turn.places)
    return turns


def _contents(single: Sequence[_Turn]) -> Iterator[str]:
    if single and single[0].role != "user":
        yield f"messages[0]: the first message must be a user's, not {single[0].role}"
    for position, turn in enumerate(single):
        mute = is_mute(turn.role, [str(body.get("text")) if body["type"] == "text" else None for body in turn.blocks])
        if not turn.blocks:
            yield f"messages[{position}]: the message is empty"
        for index, body in enumerate(turn.blocks):
            fault = fault_of(turn.role, body)
            if fault is None and body["type"] == "tool_result" and turn.role == "user":
                fault = _result_fault(body)
            if fault is None and mute and body["type"] == "text":
                fault = "text of nothing but white space"
            if fault is not None:
                yield f"messages[{position}].content[{index}]: {fault}"


def _result_fault(body: Block) -> str | None:
    content = body.get("content")
    if isinstance(content, (list, tuple)) and any(is_empty_inside(body_of(block, 0)) for block in content):
        return "empty text block in a tool_result"
    return "tool_result that is an error has no content" if body.get("is_error") and not content else None


def _system_places(single: Sequence[_Turn]) -> Iterator[str]:
    for position, turn in enumerate(single):
        if turn.role != "system" or position == 0:
            continue
        if single[position - 1].role == "assistant":
            yield f"messages[{position}]: a system message may not follow an assistant message directly"
        if position + 1 < len(single) and single[position + 1].role == "user":
            yield f"messages[{position}]: a system message may not stand directly before a user message"


def _markers(single: Sequence[_Turn]) -> Iterator[str]:
    blocks = [block for turn in single for block in turn.blocks]
    inner = [inside for block in blocks if isinstance(held := block.get("content"), list) for inside in held]
    count = sum(1 for block in [*blocks, *inner] if isinstance(block, dict) and block.get("cache_control"))
    if count > MAX_MARKERS:
        yield f"{count} blocks carry cache_control: at most {MAX_MARKERS} may"


def _calls(turns: Sequence[_Turn]) -> Iterator[str]:
    for turn, after in zip(turns, [*turns[1:], None], strict=False):
        answers = {_shown(body.get("tool_use_id")) for _, body in after.having("tool_result")} if after else set()
        seen: set[str] = set()
        for place, body in turn.having("tool_use"):
            name = _shown(body.get("id"))
            if name in seen:
                yield f"messages[{place}]: two tool_use blocks of one answer have the id {name!r}"
            elif name not in answers:
                yield f"messages[{place}]: tool_use {name!r} has no tool_result in the message after it"
            seen.add(name)


def _results(turns: Sequence[_Turn]) -> Iterator[str]:
    for before, turn in zip([None, *turns], turns, strict=False):
        if turn.role != "user":
            continue
        calls = {_shown(body.get("id")) for _, body in before.having("tool_use")} if before else set()
        results = list(turn.having("tool_result"))
        seen: set[str] = set()
        for place, body in results:
            name = _shown(body.get("tool_use_id"))
            if name not in calls:
                yield f"messages[{place}]: tool_result {name!r} has no tool_use in the message before it"
            elif name in seen:
                yield f"messages[{place}]: tool_use {name!r} has more than one tool_result"
            seen.add(name)
        if any(block["type"] != "tool_result" for block in turn.blocks[: len(results)]):
            yield f"messages[{results[0][0]}]: tool_result blocks must stand before all other blocks"
        places = sorted({place for place, _ in results})
        if len(places) > 1:
            yield f"messages[{places[1]}]: the results of one answer are spread over {len(places)} messages"


def _shown(name: object) -> str:
    return name if isinstance(name, str) else repr(name)


def _server_tools(turns: Sequence[_Turn]) -> Iterator[str]:
    """Server tools run inside answers; one may end in a later answer when it called a tool of the client in between."""
    answers = [turn for turn in turns if turn.role == "assistant"]
    open_calls: dict[str, int] = {}
    used: set[str] = set()
    for turn in answers:
        for place, body in zip(turn.places, turn.blocks, strict=True):
            kind = str(body["type"])
            if kind in ("server_tool_use", "mcp_tool_use"):
                open_calls[_shown(body.get("id"))] = place
                used.add(_shown(body.get("id")))
            elif kind.endswith("_tool_result"):
                name = _shown(body.get("tool_use_id"))
                open_calls.pop(name, None)
                if name not in used:
                    yield f"messages[{place}]: {kind} {name!r} has no server tool call before it"
    last = answers[-1].places[0] if answers and answers[-1].places else 0
    for name, place in open_calls.items():
        if place < last:
            yield f"messages[{place}]: the server tool call {name!r} has no result after it"
