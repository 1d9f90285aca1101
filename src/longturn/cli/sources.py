"""Files as the command line takes them: bytes in, conversations out, each with the request body that it stood in."""

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from longturn.dialects.logs import Conversation, load
from longturn.dialects.logs import requests as plain
from longturn.dialects.logs.document import Document, parse
from longturn.dialects.logs.load import READERS
from longturn.errors import ConfigError, TranscriptError

STDIN = "-"
CHUNK = 1 << 22
"""Bytes that are read at once, between two steps of a progress bar."""

# Where a body keeps its messages, and what logs of proxies and batch files wrap a body in.
_KEYS = ("messages", "input", "contents")
_WRAPPERS = ("body", "params", "request", "request_body")
# JSON as Python reads it, but not as the standard has it; texts are matched first, so that what they say is no number.
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|-?Infinity|NaN')
_SUSPECT = re.compile(r"NaN|Infinity|\d[eE]\+?\d{3}")


@dataclass(frozen=True, slots=True)
class Run:
    """One conversation of a file. number: from 1. body: the request that it stood in, None where it stood in none.

    is_bare: the file holds it as a list of messages and nothing else.
    """

    number: int
    conversation: Conversation
    body: Mapping[str, object] | None
    is_bare: bool


@dataclass(frozen=True, slots=True)
class Source:
    """A file that was read: its name for messages, its conversations, and what was left out or mended on the way."""

    name: str
    runs: tuple[Run, ...]
    notes: tuple[str, ...] = ()


def read_bytes(file: str, advance: Callable[[int], object] = lambda _read: None) -> bytes:
    """The bytes of a file, or of standard input for `-`; `advance` is told how many have been read so far.

    Raises TranscriptError for what cannot be read.
    """
    try:
        if file == STDIN:
            return sys.stdin.buffer.read()
        pieces: list[bytes] = []
        with Path(file).open("rb") as stream:
            while piece := stream.read(CHUNK):
                pieces.append(piece)
                advance(len(pieces) * CHUNK)
        return b"".join(pieces)
    except (OSError, ValueError) as error:  # ValueError: a zero byte in a file's name
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise TranscriptError(f"{title(file)} cannot be read: {why[:1].lower()}{why[1:]}") from None


def title(file: str) -> str:
    """How messages call a file: its path as it was given."""
    return "standard input" if file == STDIN else file


@contextmanager
def within(name: str) -> Iterator[None]:
    """Whatever cannot be read inside is reported with the name of the file in front."""
    try:
        yield
    except TranscriptError as error:
        raise TranscriptError(f"{name}: {error}") from None
    except RecursionError:
        raise TranscriptError(f"{name}: it is nested too deeply to be read: flatten it") from None


def read_source(data: bytes, file: str, *, strict: bool = False) -> Source:
    """The conversations in the bytes of a file.

    strict: refuse a request or a list with NaN, Infinity or a number beyond all bounds, which no server takes. Raises
    TranscriptError naming the position.
    """
    document = parse(data)
    stem = "" if file == STDIN else Path(file).stem
    if any(reader.recognise(document) for reader in READERS):
        del document
        return Source(
            title(file), tuple(Run(number, one, None, False) for number, one in enumerate(load(data, stem), 1))
        )
    if strict:
        _refuse_numbers(data)
    found = plain.read(document, stem)
    return Source(title(file), tuple(_runs(document, found)), document.notes)


def _runs(document: Document, conversations: Sequence[Conversation]) -> Iterator[Run]:
    """Conversations of a file that is no log, each with the object of the file that holds it."""
    rows = [row.value for row in document.rows]
    first = conversations[0].messages
    is_list = not rows or (bool(first) and first[0] is rows[0])
    values = [rows] if is_list else [document.value] if isinstance(document.value, dict) else rows
    for number, (found, value) in enumerate(zip(conversations, values, strict=True), 1):
        yield Run(number, found, _body_of(value, found.messages), not isinstance(value, dict))


def _body_of(value: object, messages: list[object]) -> Mapping[str, object] | None:
    """The request body with these very messages in it; a record of a request and its answer is none."""
    if not isinstance(value, dict):
        return None
    for body in (value, *(value.get(key) for key in _WRAPPERS)):
        if not isinstance(body, dict) or "response" in body:
            continue
        if isinstance(body.get("input"), str) or any(body.get(key) is messages for key in _KEYS):
            return body
    return None


def _refuse_numbers(data: bytes) -> None:
    source = data.decode(json.detect_encoding(data), errors="replace")
    if not _SUSPECT.search(source):
        return
    for token in _TOKEN.finditer(source):
        text = token[0]
        if text[0] != '"' and (text[-1].isalpha() or abs(float(text)) == float("inf")):
            line = source.count("\n", 0, token.start()) + 1
            column = token.start() - source.rfind("\n", 0, token.start())
            raise TranscriptError(
                f"line {line}, column {column} has {text:.30}, which JSON does not know and no server takes: "
                "write a number or null"
            )


def chosen(source: Source, run: str | None) -> Run:
    """The one conversation that `--run` means, by number (from 1), name or the beginning of one name.

    Raises ConfigError, naming what there is, when it means none or several.
    """
    if run is None:
        if len(source.runs) == 1:
            return source.runs[0]
        raise ConfigError(
            f"{source.name} holds {len(source.runs)} conversations: choose one with --run, by its number from 1 or by "
            f"its name ({_names(source)})"
        )
    exact = [each for each in source.runs if each.conversation.name == run]
    begun = [each for each in source.runs if run and each.conversation.name.startswith(run)]
    numbered = [each for each in source.runs if str(each.number) == run]
    for found in (exact, numbered, begun):
        if len(found) == 1:
            return found[0]
    what = "no conversation" if not (exact or begun) else f"{len(exact or begun)} conversations"
    raise ConfigError(
        f"--run {run!r:.60} means {what} of {source.name}: give a number from 1 to {len(source.runs)}, "
        f"or a name ({_names(source)})"
    )


def _names(source: Source) -> str:
    names = [repr(each.conversation.name) for each in source.runs[:3]]
    return ", ".join(names) + (", ..." if len(source.runs) > 3 else "")
