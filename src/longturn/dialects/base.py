"""What a dialect is: a record of functions between one provider's message format and the core's messages.

A dialect does no shaping and keeps no state. To add one, write a module with a `Dialect` in it and run
`longturn.testing.check_dialect` on it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from longturn.core.messages import Message
from longturn.core.thinking import ThinkingRule

Native = object


@dataclass(frozen=True, slots=True)
class Request:
    """Where the pieces stand in a request body; a path is a tuple of keys, the first that exists is used."""

    messages: tuple[tuple[str, ...], ...]
    system: tuple[tuple[str, ...], ...] = ()
    tools: tuple[tuple[str, ...], ...] = (("tools",),)
    max_output: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Dialect:
    """One provider's message format.

    name: "openai_chat", "openai_responses", "anthropic" or "gemini", or yours.
    read: (native item, the native item before it or None, its position) -> the core messages in it. Reading the items
        one by one or in any grouping gives the same messages. Raises TranscriptError naming the position.
    render: core messages -> native items. Unedited whole messages give back their own sources; edited and new ones are
        built from a copy, sources are never changed.
    problems: native items -> what the provider would refuse, a sentence with position each; empty when valid.
    sniff: one native item -> True (surely this format), False (surely not), None (could be).
    system_texts: the `system` argument in any form the provider takes -> the texts it is counted by.
    tool_texts: one tool definition -> the texts it is counted by (name, description, JSON parameters). One native
        definition may hold several tools (Gemini): a list of texts for each.
    request: where the pieces stand in a body.
    user_first: the first message must be a user's (Anthropic, Gemini).
    system_apart: a system message in the list may not stand directly behind an answer (Anthropic).
    thinking: what holds for thinking when a model of this name reads the window (B23, B24).
    """

    name: str
    read: Callable[[Native, Native | None, int], Sequence[Message]]
    render: Callable[[Sequence[Message]], list[Native]]
    problems: Callable[[Sequence[Native]], list[str]]
    sniff: Callable[[Native], bool | None]
    system_texts: Callable[[object], list[str]]
    tool_texts: Callable[[object], list[list[str]]]
    request: Request
    user_first: bool = False
    system_apart: bool = False
    thinking: Callable[[str | None], ThinkingRule] = lambda _model: "free"


def find(body: Mapping[str, object], paths: tuple[tuple[str, ...], ...]) -> object:
    """The value at the first of `paths` that exists in `body`, or None."""
    for path in paths:
        value: object = body
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        if value is not None:
            return value
    return None
