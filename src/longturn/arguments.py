"""What callers hand in, checked and counted: policies by name, whole numbers, message lists, tools, entries."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from longturn import catalog
from longturn.core.checkpoint import Checkpoint, is_entry
from longturn.core.fold import Base
from longturn.core.messages import Message
from longturn.core.policy import PRESETS, Policy, Summarization
from longturn.core.tokens import Estimator
from longturn.dialects.base import Dialect, Native
from longturn.errors import ConfigError, TranscriptError

TOOL_FRAMING = 4
"""Tokens of framing per tool schema (H23)."""

# How a dialect begins what it says of a message.
_PLACE = re.compile(r"^(\w+)\[(\d+)\]")


class Arrived(NamedTuple):
    """What one item of a list says, as a transcript takes it: a message or a checkpoint, its index, not pinned."""

    said: Message | Checkpoint
    position: int
    pinned: bool = False


def base_of(dialect: Dialect, estimator: Estimator, system: object, tools: object) -> Base:
    """Tokens of a system prompt and of tool definitions in any form that the dialect takes (H23)."""
    system_tokens = sum(estimator.tokens(estimator.measure(text)) for text in dialect.system_texts(system))
    tool_tokens = 0
    for tool in as_tools(tools):
        for texts in dialect.tool_texts(tool):
            tool_tokens += TOOL_FRAMING + estimator.tokens(estimator.measure("\n".join(texts)))
    return Base(system_tokens, tool_tokens)


def named_policy(policy: Policy | str | None) -> Policy:
    """A policy as it is, a preset by its name, or the default. Raises ConfigError for an unknown name."""
    if isinstance(policy, Policy):
        return policy
    preset = PRESETS.get(policy or "default")
    if preset is None:
        raise ConfigError(f"no policy is called {policy!r}: use one of {', '.join(PRESETS)}")
    return preset()


def summarizing(policy: Policy, summarize: object) -> Policy:
    """The policy with the default rules for summaries, where it has none and there is somebody to write them."""
    return policy if summarize is None or policy.summarization else replace(policy, summarization=Summarization())


def checkpoint_at(entry: object, position: int) -> Checkpoint:
    """The checkpoint of an entry in a message list. Raises TranscriptError, with its position, where it is none."""
    try:
        return Checkpoint.of(entry)
    except TranscriptError as error:
        raise TranscriptError(f"message {position}: {error}: take the entry out, or mend it") from None


def read_items(dialect: Dialect, items: Iterable[tuple[int, Native]]) -> Iterator[Arrived]:
    """The messages and the checkpoints in items that come with their indices, in the order in which they come.

    Raises TranscriptError, with the position, for what cannot be read.
    """
    before = None
    for position, item in items:
        if is_entry(item):
            yield Arrived(checkpoint_at(item, position), position)
            continue
        for message in dialect.read(item, before, position):
            yield Arrived(message, position)
        before = item


def problems_of(dialect: Dialect, items: Sequence[Native]) -> list[str]:
    """What the provider would refuse in a list, a sentence with its position each; entries are no messages (S8)."""
    places = [place for place, item in enumerate(items) if not is_entry(item)]
    if len(places) == len(items):
        return dialect.problems(items)
    sent = [items[place] for place in places]
    if is_entry(items[0]):  # it is sent as what the user said first
        places.insert(0, 0)
        sent[:0] = dialect.render([checkpoint_at(items[0], 0).message])
    return [
        _PLACE.sub(lambda told: f"{told[1]}[{places[int(told[2])]}]", problem) for problem in dialect.problems(sent)
    ]


def output_room(model: str | None, window: int | None) -> int:
    """What is kept free for the answer when the request names no limit: the model's, at most a quarter (B10)."""
    return 0 if window is None else min(catalog.max_output_of(model) or 0, window // 4)


def whole(name: str, value: object, *, least: int) -> int:
    """A whole number of at least `least`. Raises ConfigError naming the argument."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigError(f"{name} must be a whole number of at least {least}, got {value!r}")
    return value


def checked(messages: object) -> Sequence[Native]:
    """The messages as they are. Raises TranscriptError for what is no list."""
    if isinstance(messages, Mapping):
        raise TranscriptError("messages must be a list, got an object: is it a request body? Use fit_request for that")
    if isinstance(messages, str | bytes) or not isinstance(messages, Sequence):
        raise TranscriptError(f"messages must be a list, got {type(messages).__name__}")
    return messages


def as_tools(tools: object) -> Sequence[object]:
    """Tool definitions as a sequence; a single one counts as one."""
    if tools is None:
        return ()
    return tools if isinstance(tools, Sequence) and not isinstance(tools, str) else (tools,)
