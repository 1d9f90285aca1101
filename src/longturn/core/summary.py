"""How a summary is made: a generator that asks for texts and ends with one that may be kept (S5-S9).

It calls no model: it yields what to ask, gets the answer sent in, or a `SummaryFailed` thrown in. One body serves sync
and async callers (`summaries.py` has the drivers).
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby

from longturn.core import edits, prompts
from longturn.core import window as windows
from longturn.core.checkpoint import Checkpoint, text_of
from longturn.core.fold import Outcome
from longturn.core.head import LEAST, Head, carried
from longturn.core.messages import Message, Text, ToolResult, user
from longturn.core.plain import bounded, plain
from longturn.core.policy import NO_LIMIT, Summarization
from longturn.core.rungs import cut_at
from longturn.core.view import State, View
from longturn.errors import LongturnError

MARGIN = 1.25
"""How much longer than asked an answer may be before it is asked for again: summarizers count with other tokens."""


class SummaryFailed(LongturnError):
    """A summarizer gave nothing that can be used; thrown into the generator where an answer was asked for."""


@dataclass(frozen=True, slots=True)
class Summarizer:
    """Who is asked. own: it is the agent's own model, so the head goes as it was last sent (S7).

    capacity: what it takes less the room for its answer, in tokens, `NO_LIMIT` where unknown. fallbacks: how many
    others there are to ask.
    """

    own: bool = True
    capacity: int = NO_LIMIT
    fallbacks: int = 0


@dataclass(frozen=True, slots=True)
class Ask:
    """One question: `messages` is a window with the instruction last; `fresh` is what is new in it since `previous`.

    max_tokens: the output limit. number: who is asked, 0 for the first.
    """

    messages: Sequence[Message]
    fresh: Sequence[Message]
    previous: str
    instruction: str
    max_tokens: int
    number: int = 0


Asking = Generator[Ask, str, str]


def summarize(outcome: Outcome, head: Head, rules: Summarization, asked: Summarizer) -> Asking:
    """Ask for the summary of a head; the text that was got, no longer than the head allows. Raises SummaryFailed.

    A head that is too long for who is asked goes in several passes, each merged into what the last one gave (S5).
    """
    view, state = outcome.view, carried(outcome)
    transcript = view.counts.transcript
    previous = text_of(transcript.mark(state.checkpoint)) if state.noted else ""
    whole = [row.message for row in transcript.rows[: transcript.lead]]
    first = [transcript.rows[state.first].message] if state.first >= 0 else []
    if view.is_led(state):
        # The list begins with a checkpoint: a newer one takes its place.
        previous, first = previous or text_of(first[0]), []
    whole += first
    for sent, fresh in _passes(view, state, head, rules, asked):
        instruction = _instruction(rules, bool(previous), head.most)
        mark = [Checkpoint(previous).message] if previous else []
        messages = (*_until_said(sent or (*whole, *mark, *fresh), len(whole)), user(instruction))
        previous = yield from _answered(view, Ask(messages, fresh, previous, instruction, head.most), asked.fallbacks)
    return previous


def checkpoint_of(outcome: Outcome, head: Head, text: str) -> Checkpoint:
    """The checkpoint of a head. Raises SummaryFailed where it is not smaller than what it replaces (S9)."""
    view, state = outcome.view, carried(outcome)
    counts = view.counts
    found = Checkpoint(
        text=text,
        digest=counts.transcript.digest(head.cut),
        tokens=counts.of_text(text),
        source_tokens=head.tokens,
    )
    after = cut_at(view, state, max(state.cut, head.cut), "checkpoint")
    size = view.size(after) - view.mark(after) + counts.of_mark(found.message)
    # Where the ladder has gone further than the last checkpoint, the summary brings back what is in no window.
    if size >= view.size(state) + view.tokens(head.start, max(head.start, state.cut)):
        raise SummaryFailed(f"the summary of {found.tokens:,} tokens is not smaller than what it replaces")
    return found


def _passes(
    view: View, state: State, head: Head, rules: Summarization, asked: Summarizer
) -> Iterator[tuple[Sequence[Message], Sequence[Message]]]:
    """What is sent before the instruction, empty where it is put together from what is fresh; and what is fresh."""
    counts, rows = view.counts, view.counts.transcript.rows
    # A lone item of reasoning says nothing to another model.
    silent = set(counts.bare)
    places = [place for place in range(head.start, head.cut) if place != state.first and place not in silent]
    as_sent = {place: _as_sent(view, state, place) for place in places}
    instruction = counts.of_text(_instruction(rules, True, head.most)) + counts.note
    is_gap = view.begin(state) > max(head.start, state.first + 1)
    prefix = view.exact(state) - view.tokens(head.cut, view.border) + instruction
    if asked.own and not is_gap and prefix <= asked.capacity:
        # As it was last sent, so that the provider's prefix cache serves it (S7).
        yield windows.messages(view, state, head.cut), list(as_sent.values())
        return
    room = asked.capacity - instruction - view.pins(state) - head.most
    recorded = [edits.without_thinking(rows[place].message) for place in places]
    if not asked.own and sum(map(counts.of_message, recorded)) <= room:
        yield (), recorded
        return
    for chunk in _chunks(view, places, as_sent, max(LEAST, room)):
        yield (), chunk


def _until_said(messages: Sequence[Message], least: int) -> Sequence[Message]:
    """Without system messages at the end: some providers take none directly before a user's."""
    stop = len(messages)
    while stop > least and messages[stop - 1].role == "system":
        stop -= 1
    return messages[:stop]


def _as_sent(view: View, state: State, place: int) -> Message:
    return edits.without_thinking(windows.edited(view, state, place, place + 1)[0])


def _chunks(
    view: View, places: Sequence[int], messages: Mapping[int, Message], room: int
) -> Iterator[Sequence[Message]]:
    """Whole rounds and messages in pieces of at most `room` tokens; what is larger by itself is cut in the middle."""
    counts = view.counts
    chunk: list[Message] = []
    size = 0
    for _, unit in groupby(places, key=view.unit):
        piece = _squeezed(view, [messages[place] for place in unit], room)
        tokens = sum(map(counts.of_message, piece))
        if chunk and size + tokens > room:
            yield chunk
            chunk, size = [], 0
        chunk += piece
        size += tokens
    if chunk:
        yield chunk


def _squeezed(view: View, piece: list[Message], room: int) -> list[Message]:
    """The messages with every text cut in the middle as far as they need to fit together."""
    characters = max((len(text) for message in piece for text in _texts(message)), default=0)
    while characters > LEAST and sum(map(view.counts.of_message, piece)) > room:
        characters //= 2
        piece = [_shorter(message, characters) for message in piece]
    return piece


def _texts(message: Message) -> Iterator[str]:
    return (part.text for part in message.parts if isinstance(part, Text | ToolResult))


def _shorter(message: Message, characters: int) -> Message:
    message = edits.shortened(message)
    parts = [
        replace(part, text=edits.bound_result(part.text, characters)) if isinstance(part, Text | ToolResult) else part
        for part in message.parts
    ]
    return message.with_parts(parts)


def _instruction(rules: Summarization, is_update: bool, most: int) -> str:
    own = rules.update_prompt if is_update else rules.prompt
    return own or (prompts.UPDATE if is_update else prompts.FIRST).replace("{tokens}", str(most))


def _answered(view: View, ask: Ask, fallbacks: int) -> Asking:
    """An answer that is not too long: asked for once more, then cut."""
    text = yield from _got(ask, fallbacks)
    tokens = view.counts.of_text(text)
    if tokens > ask.max_tokens * MARGIN:
        instruction = ask.instruction + prompts.SHORTER.replace("{had}", str(tokens)).replace(
            "{tokens}", str(ask.max_tokens)
        )
        messages = (*ask.messages[:-1], user(instruction))
        with suppress(SummaryFailed):  # the long one is better than none
            text = yield from _got(replace(ask, messages=messages, instruction=instruction), 0)
    return bounded(text, ask.max_tokens, view.counts.of_text)


def _got(ask: Ask, fallbacks: int) -> Asking:
    """The first answer that is none too few: the first summarizer is asked twice, each fallback once (S9)."""
    failure = SummaryFailed("no summarizer was asked")
    for number in (0, 0, *range(1, fallbacks + 1)):
        try:
            answer = yield replace(ask, number=number)
        except SummaryFailed as error:
            failure = error
            continue
        text = plain(answer)
        if any(line not in ask.instruction for line in text.splitlines() if not line.startswith("#")):
            return text
        failure = SummaryFailed("the summary repeats the instruction" if text else "the summary was empty")
    raise failure
