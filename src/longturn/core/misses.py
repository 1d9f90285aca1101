"""What was needed later: which results an answer quotes, so that a window without them would have missed them.

A quote is a run of 48 characters of an answer's text, or of a string in its calls' arguments, that a message before it
holds, white space folded. It counts for the newest message that holds it, and makes that one needed if it is a
result; what the system messages and the first user message hold always stands in front and makes nothing needed. It
knows no windows and no policies: needs are those of a run.
"""

import json
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from longturn.core.edits import result_of
from longturn.core.messages import Message, Text, ToolCall
from longturn.core.transcript import Transcript

RUN = 48
"""Characters of the shortest quote."""
BLOCK = RUN // 2
"""A held text is known by its blocks of so many characters, one behind the other: every run holds a whole block."""
LEAST_DIFFERENT = 6
"""A block of fewer different characters (a rule, the edge of a table, padding) tells no quote."""
MOST_PLACES = 64
"""Of a block that stands in many places, so many of the newest are looked at."""

_ALWAYS = 1 << 62  # stands for the row of what is in front of every window: newer than any
_CHUNK = 1 << 20
_WHITE = re.compile(r"\s")


class _Place(NamedTuple):
    """Where a block stands: in a text of the message in this row, at this character."""

    row: int
    text: str
    at: int


class _Quoted(NamedTuple):
    """A text of an answer, and the characters at which a block begins that another message may hold."""

    text: str
    seeds: Sequence[int]


class _Span(NamedTuple):
    """Runs that the message in a row holds: those that begin from `start` up to before `stop`."""

    row: int
    start: int
    stop: int


def needs_of(transcript: Transcript) -> dict[int, tuple[int, ...]]:
    """By border, the rows of the results that the answer behind it quotes; borders without any are left out.

    Some 10 MB of transcript a second. It holds the folded texts of users and tools once, and beside them only the
    blocks that an answer may share.
    """
    rows, bounds = transcript.rows, [0, *transcript.answers, len(transcript.rows)]
    held = {row: _held(entry.message) for row, entry in enumerate(rows) if entry.message.role != "assistant"}
    answers = _quoting(
        held, {start: _said(rows[place].message for place in range(start, stop)) for start, stop in pairwise(bounds)}
    )
    wanted = {text[at : at + BLOCK] for quoted in answers.values() for text, seeds in quoted for at in seeds}
    front = {*range(transcript.lead), transcript.first}
    places: dict[str, deque[_Place]] = {}
    always: dict[str, deque[_Place]] = {}
    for row in front.intersection(held):
        _remember(always, wanted, _ALWAYS, held[row])
    needs: dict[int, tuple[int, ...]] = {}
    for start, stop in pairwise(bounds):
        found = {row for quoted in answers[start] for row in _sources(quoted, always, places)}
        if results := sorted(row for row in found if row < _ALWAYS and rows[row].message.role == "tool"):
            needs[start] = tuple(results)
        for row in range(start, stop):
            if row not in front:
                _remember(places, wanted, row, held.get(row, ()))
    return needs


def _quoting(held: Mapping[int, Sequence[str]], said: Mapping[int, Sequence[str]]) -> dict[int, list[_Quoted]]:
    """By border, the texts of its answer that hold a block of another message, and where.

    Blocks are told by their hashes; one that only seems to be held costs time and nothing else. So next to nothing is
    remembered of a huge result.
    """
    blocks = sum(len(text) for texts in held.values() for text in texts) // BLOCK
    mask = (1 << (8 * blocks).bit_length()) - 1
    known = bytearray(mask + 1)
    for texts in held.values():
        for text in texts:
            for at in range(0, len(text) - BLOCK + 1, BLOCK):
                known[hash(text[at : at + BLOCK]) & mask] = 1
    found: dict[int, list[_Quoted]] = {}
    for border, texts in said.items():
        found[border] = []
        for text in texts:
            seeds = [at for at in range(len(text) - BLOCK + 1) if known[hash(text[at : at + BLOCK]) & mask]]
            found[border] += [_Quoted(text, seeds)] * bool(seeds)
    return found


def _remember(places: dict[str, deque[_Place]], wanted: set[str], row: int, texts: Sequence[str]) -> None:
    for text in texts:
        for at in range(0, len(text) - BLOCK + 1, BLOCK):
            block = text[at : at + BLOCK]
            if block in wanted and len(set(block)) >= LEAST_DIFFERENT:
                places.setdefault(block, deque(maxlen=MOST_PLACES)).append(_Place(row, text, at))


def _sources(quoted: _Quoted, always: Mapping[str, deque[_Place]], places: Mapping[str, deque[_Place]]) -> set[int]:
    """The rows that hold runs of a text which no newer one holds."""
    text = quoted.text
    seeds = [at for at in quoted.seeds if (block := text[at : at + BLOCK]) in places or block in always]
    spans = [span for at in seeds for span in _spans(text, at, always, places)]
    taken = bytearray(len(text))
    rows = set()
    for row, start, stop in sorted(spans, reverse=True):
        if taken.find(0, start, stop) >= 0:
            rows.add(row)
            taken[start:stop] = b"\1" * (stop - start)
    return rows


def _spans(
    text: str, at: int, always: Mapping[str, deque[_Place]], places: Mapping[str, deque[_Place]]
) -> Iterator[_Span]:
    """The runs around the block at a character, for each place of that block that has any, the newest first."""
    block = text[at : at + BLOCK]
    low, high = max(0, at - BLOCK), min(len(text), at + RUN)
    around = text[low:high]
    for row, other, place in (*always.get(block, ()), *reversed(places.get(block, ()))):
        start = place - at + low
        if start >= 0 and other.startswith(around, start):
            if high - low >= RUN:
                yield _Span(row, low, high - RUN + 1)
            return  # an older one can hold no run around this block that this one does not
        left = _common(text[low:at][::-1], other[max(0, start) : place][::-1])
        right = _common(text[at + BLOCK : high], other[place + BLOCK : place + RUN])
        if left + right >= BLOCK:
            yield _Span(row, at - left, at + right - BLOCK + 1)


def _common(text: str, other: str) -> int:
    """How many characters two texts have in common at their beginning."""
    if text == other:
        return len(text)
    return next((at for at, (a, b) in enumerate(zip(text, other, strict=False)) if a != b), min(len(text), len(other)))


def _held(message: Message) -> list[str]:
    """The texts of a result or a user's message; of a result in JSON its strings too, as an answer quotes them."""
    if message.role != "tool":
        return _folded([message.text])
    text = result_of(message).text
    is_escaped = "\\" in text and text.lstrip()[:1] in ("{", "[", '"')
    return _folded([text, *(_strings(text) if is_escaped else ())])


def _said(messages: Iterator[Message]) -> list[str]:
    """The texts of an answer and the strings in its calls' arguments; its thinking, which may not be sent, is none."""
    texts: list[str] = []
    for message in messages:
        if message.role == "assistant":
            for part in message.parts:
                if isinstance(part, Text):
                    texts.append(part.text)
                elif isinstance(part, ToolCall):
                    texts += _strings(part.arguments) or [part.arguments]
    return _folded(texts)


def _strings(text: str) -> list[str]:
    """The strings in a JSON text, but keys; none where it is no JSON."""
    try:
        waiting = [json.loads(text)]
    except (ValueError, RecursionError):
        return []
    found: list[str] = []
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, dict | list):
            waiting += value.values() if isinstance(value, dict) else value
    return found


def _folded(texts: Sequence[str]) -> list[str]:
    """The texts with each stretch of white space folded to one space, less those too short for a quote."""
    return [folded for text in texts if len(text) >= RUN and len(folded := _fold(text)) >= RUN]


def _fold(text: str) -> str:
    """In chunks, since the words of a huge text take ten times its room."""
    pieces, start = [], 0
    while start < len(text):
        found = _WHITE.search(text, start + _CHUNK)
        stop = found.start() if found else len(text)
        pieces += [piece for piece in [" ".join(text[start:stop].split())] if piece]
        start = stop
    return " ".join(pieces)
