"""Conversations of computable size for tests, in every dialect, and what a window holds in plain words.

Sizes follow the plain rule (L12): four ASCII characters a token, and 4 tokens of framing a message (H21).
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import longturn
from longturn.core.messages import Message, Reasoning, Text, ToolCall, ToolResult
from longturn.core.policy import Policy
from longturn.core.tokens import SIMPLE
from longturn.dialects.registry import by_name

PLAIN = Policy(estimator=SIMPLE, target_ratio=0.5)
"""The default policy, counting by the plain rule."""
WHOLE_TURNS = replace(PLAIN, rungs=("images", "results", "arguments", "turns", "rounds"))
"""The same with whole turns dropped, their users' messages too (L5, B16)."""
FRAMING = 4
DIALECTS = ("openai_chat", "openai_responses", "anthropic", "gemini")

Native = dict[str, Any]


def tokens(text: str) -> int:
    """Tokens of an ASCII text by the plain rule, without framing."""
    return -(-len(text) // 4)


NOTE_TOKENS = tokens(longturn.NOTE) + FRAMING
CLEARED_TOKENS = tokens(longturn.CLEARED) + FRAMING
CALL_TOKENS = tokens("read {}") + FRAMING


def sized(tag: str, size: int) -> str:
    """A text beginning with `tag` whose message is exactly `size` tokens, framing included."""
    characters = 4 * (size - FRAMING)
    assert len(tag) <= characters, (tag, size)
    return tag + "~" * (characters - len(tag))


@dataclass(frozen=True)
class User:
    text: str


@dataclass(frozen=True)
class System:
    text: str


@dataclass(frozen=True)
class Answer:
    """Text and calls, each an id or (id, tool name)."""

    text: str = ""
    calls: tuple[str, ...] = ()
    tool: str = "read"
    arguments: str = "{}"


@dataclass(frozen=True)
class Result:
    call: str
    text: str
    tool: str = "read"


Step = User | System | Answer | Result


def ask(tag: str, size: int = 20) -> User:
    return User(sized(tag, size))


def reply(tag: str, size: int = 20) -> Answer:
    return Answer(sized(tag, size))


def turn(tag: str, size: int = 100) -> list[Step]:
    """A user message and an answer, half of `size` tokens each."""
    return [ask(f"ask {tag} ", size // 2), reply(f"say {tag} ", size - size // 2)]


def step(call: str, size: int = 100, tool: str = "read") -> list[Step]:
    """A round of one call and its result; `size` tokens are the result's, `CALL_TOKENS` the call's."""
    return [Answer(calls=(call,), tool=tool), Result(call, sized(f"result {call} ", size), tool)]


def steps(first: int, last: int, size: int = 100) -> list[Step]:
    """Rounds `c<first>` to `c<last>`."""
    return [each for number in range(first, last + 1) for each in step(f"c{number}", size)]


def written(dialect: str, conversation: Iterable[Step]) -> list[Any]:
    """A conversation in a dialect's own format, fresh objects each time."""
    return _WRITERS[dialect](list(conversation))


def chat(conversation: Iterable[Step]) -> list[Any]:
    """A conversation in the format of OpenAI chat completions."""
    return list(_chat(conversation))


def _chat(conversation: Iterable[Step]) -> Iterator[Native]:
    for each in conversation:
        match each:
            case User(text):
                yield {"role": "user", "content": text}
            case System(text):
                yield {"role": "system", "content": text}
            case Result(call, text):
                yield {"role": "tool", "tool_call_id": call, "content": text}
            case Answer(text, calls, tool, arguments):
                function = {"name": tool, "arguments": arguments}
                made = [{"id": call, "type": "function", "function": function} for call in calls]
                yield {"role": "assistant", "content": text or None, **({"tool_calls": made} if made else {})}


def _responses(conversation: Iterable[Step]) -> Iterator[Native]:
    for each in conversation:
        match each:
            case User(text):
                yield {"type": "message", "role": "user", "content": text}
            case System(text):
                yield {"type": "message", "role": "system", "content": text}
            case Result(call, text):
                yield {"type": "function_call_output", "call_id": call, "output": text}
            case Answer(text, calls, tool, arguments):
                if text:
                    yield {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
                for call in calls:
                    yield {"type": "function_call", "call_id": call, "name": tool, "arguments": arguments}


def _anthropic(conversation: Sequence[Step]) -> Iterator[Native]:
    for place, each in enumerate(conversation):
        match each:
            case User(text):
                yield {"role": "user", "content": text}
            case System(text):
                yield {"role": "system", "content": text}
            case Result():
                if place and isinstance(conversation[place - 1], Result):
                    continue
                run = _run(conversation[place:])
                blocks = [{"type": "tool_result", "tool_use_id": one.call, "content": one.text} for one in run]
                yield {"role": "user", "content": blocks}
            case Answer(text, calls, tool, arguments):
                use = {"type": "tool_use", "name": tool, "input": json.loads(arguments)}
                spoken = [{"type": "text", "text": text}] if text else []
                yield {"role": "assistant", "content": [*spoken, *({**use, "id": call} for call in calls)]}


def _gemini(conversation: Sequence[Step]) -> Iterator[Native]:
    for place, each in enumerate(conversation):
        match each:
            case User(text) | System(text):
                yield {"role": "user", "parts": [{"text": text}]}
            case Result():
                if place and isinstance(conversation[place - 1], Result):
                    continue
                run = _run(conversation[place:])
                parts = [
                    {"functionResponse": {"id": one.call, "name": one.tool, "response": {"output": one.text}}}
                    for one in run
                ]
                yield {"role": "user", "parts": parts}
            case Answer(text, calls, tool, arguments):
                made = [{"functionCall": {"id": call, "name": tool, "args": json.loads(arguments)}} for call in calls]
                yield {"role": "model", "parts": [*([{"text": text}] if text else []), *made]}


def _run(conversation: Sequence[Step]) -> list[Result]:
    """The results in front."""
    run: list[Result] = []
    for each in conversation:
        if not isinstance(each, Result):
            break
        run.append(each)
    return run


_WRITERS: dict[str, Callable[[list[Step]], list[Any]]] = {
    "openai_chat": lambda conversation: list(_chat(conversation)),
    "openai_responses": lambda conversation: list(_responses(conversation)),
    "anthropic": lambda conversation: list(_anthropic(conversation)),
    "gemini": lambda conversation: list(_gemini(conversation)),
}


def read(dialect: str, messages: Sequence[Any]) -> list[Message]:
    """The core messages of a native list."""
    form = by_name(dialect)
    befores = [None, *messages][: len(messages)]
    pairs = zip(befores, messages, strict=True)
    return [message for place, (before, item) in enumerate(pairs) for message in form.read(item, before, place)]


def outline(window: longturn.Window) -> list[str]:
    """What a window holds, one line a part; the filling of `sized` texts is left out."""
    return [line for message in read(window.dialect, window.messages) for line in _lines(message)]


def _lines(message: Message) -> Iterator[str]:
    for part in message.parts:
        match part:
            case Text(text):
                yield _tag(text) if message.role == "user" else f"{message.role}: {_tag(text)}"
            case ToolCall(call):
                yield f"call {call}"
            case ToolResult(call, text):
                yield f"{call}: {_tag(text)}"
            case Reasoning():
                yield "thinking"
            case _:
                yield type(part).__name__.lower()


def _tag(text: str) -> str:
    if text.startswith('{"output":'):  # how Gemini's responses carry a text
        text = json.loads(text)["output"]
    known = {longturn.NOTE: "NOTE", longturn.CLEARED: "CLEARED"}
    return known.get(text, text.rstrip("~").strip())


def is_front(earlier: Sequence[Any], later: Sequence[Any]) -> bool:
    """Whether a later window begins with all of an earlier one (B30)."""
    return list(later[: len(earlier)]) == list(earlier)
