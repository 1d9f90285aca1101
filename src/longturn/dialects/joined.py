"""Rendering for formats that take all results of one answer in one message, before the user's own blocks (B27)."""

from collections.abc import Callable, Iterator, Sequence

from longturn.core.messages import Message
from longturn.dialects.base import Native


def render_joined(messages: Sequence[Message], rebuild: Callable[[Sequence[Message]], Native]) -> list[Native]:
    """Core messages as native items: unedited whole ones by their own source, the rest through `rebuild`.

    `rebuild` is given one message, or neighbouring results (from several sources or none) together with the user
    message behind them that was read from the same native object as one of them. It gives one native item and never
    changes a source.
    """
    return [_source(group) if _whole(group) else rebuild(group) for group in _groups(messages)]


def first_source(group: Sequence[Message]) -> Native | None:
    """The native object that a rebuilt group is a copy of; None when longturn made all of it."""
    return next((message.source for message in group if message.source is not None), None)


def _source(group: Sequence[Message]) -> Native:
    return group[0].source


def _whole(group: Sequence[Message]) -> bool:
    source, share = group[0].source, group[0].share
    if source is None or share != len(group):
        return False
    return all([message.source is source and not message.edited for message in group])


def _groups(messages: Sequence[Message]) -> Iterator[Sequence[Message]]:
    start, count = 0, len(messages)
    while start < count:
        end = start + 1
        if messages[start].role == "tool":
            while end < count and messages[end].role == "tool":
                end += 1
            if end < count and _belongs(messages[end], messages[start:end]):
                end += 1
        yield messages[start:end]
        start = end


def _belongs(message: Message, results: Sequence[Message]) -> bool:
    return message.role == "user" and message.source is not None and any(message.source is r.source for r in results)
