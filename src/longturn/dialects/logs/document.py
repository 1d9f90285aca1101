"""Bytes of a file as JSON values: one document, or one value a line, with the place of each; it knows no log format."""

import json
import math
import re
from dataclasses import dataclass

from longturn.errors import TranscriptError

_ZIP, _GZIP = b"PK\x03\x04", b"\x1f\x8b"
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Row:
    """One JSON value of a file, and where it stood: `line 7`, or `item 7` (from 0) of a top-level array."""

    where: str
    value: object


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed file.

    value: the whole file when it is one JSON document, else None.
    rows: its lines, the elements of a top-level array, or the one document.
    notes: what could not be read, in words with positions.
    """

    value: object
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()


def parse(data: bytes) -> Document:
    """Read `data` (UTF-8, UTF-16 or UTF-32, with or without a byte order mark) as JSON or JSON lines.

    A last line that is cut off is left out with a note. Raises TranscriptError, naming line or byte, for an empty file,
    for what is no text, no JSON or nested too deeply, and for a broken line before the last.
    """
    mended: list[str] = []
    source = _decode(data, mended)
    if not source.strip():
        raise TranscriptError(f"the file is empty ({len(data)} bytes): give a request, a message list or a session log")
    try:
        value = _loads(source, "the document", mended)
    except json.JSONDecodeError as error:
        rows = _lines(source, error, mended)
        return Document(rows[0].value if len(rows) == 1 else None, rows, tuple(mended))
    except RecursionError:
        raise TranscriptError("the document is nested too deeply to be read: flatten it") from None
    if isinstance(value, list):
        return Document(value, tuple(Row(f"item {index}", item) for index, item in enumerate(value)), tuple(mended))
    return Document(value, (Row("line 1", value),), tuple(mended))


def _decode(data: bytes, mended: list[str]) -> str:
    if data.startswith((_ZIP, _GZIP)):
        raise TranscriptError("the file is a compressed archive: unpack it first (inspect_ai: `inspect log dump`)")
    encoding = json.detect_encoding(data)
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        if error.end < len(data):
            raise TranscriptError(
                f"byte {error.start} is not {encoding.upper()} text: give a JSON or JSON lines file"
            ) from None
        mended.append(f"the file ends inside a character; its last {len(data) - error.start} bytes are left out")
        return data[: error.start].decode(encoding)


def _lines(source: str, whole: json.JSONDecodeError, mended: list[str]) -> tuple[Row, ...]:
    # Not splitlines(): JSON text may hold U+2028 and its kin unescaped.
    lines = [(number, line) for number, line in enumerate(source.split("\n"), 1) if line.strip()]
    rows: list[Row] = []
    for number, line in lines:
        try:
            rows.append(Row(f"line {number}", _loads(line, f"line {number}", mended)))
        except RecursionError:
            raise TranscriptError(f"line {number} is nested too deeply to be read: flatten it") from None
        except json.JSONDecodeError as error:
            if not rows:
                raise TranscriptError(f"line {whole.lineno}, column {whole.colno} is not JSON: {whole.msg}") from None
            if number != lines[-1][0]:
                raise TranscriptError(
                    f"line {number}, column {error.colno} is not JSON: {error.msg}; mend or remove the line"
                ) from None
            mended.append(f"line {number} is cut off after {len(line)} characters and left out")
    return tuple(rows)


def _loads(source: str, where: str, mended: list[str]) -> object:
    odd: list[str] = []

    def number(digits: str) -> float | None:
        value = float(digits)
        odd.extend([] if math.isfinite(value) else [digits])
        return value if math.isfinite(value) else None

    try:
        value: object = json.loads(source, parse_constant=number, parse_float=number)
    except json.JSONDecodeError:
        raise
    except ValueError as error:  # a whole number of more digits than Python converts
        raise TranscriptError(f"{where} holds a number that cannot be read: {error}") from None
    if odd:
        mended.append(f"{where}: {', '.join(sorted(set(odd))[:3])} is no JSON and was read as null ({len(odd)} times)")
    if _SURROGATE_ESCAPE.search(source):
        lone: list[str] = []
        value = _without_surrogates(value, lone)
        if lone:
            mended.append(f"{where}: {len(lone)} halves of a character (lone surrogates) were read as U+FFFD")
    return value


def _without_surrogates(value: object, lone: list[str]) -> object:
    if isinstance(value, str):
        lone.extend(_LONE_SURROGATE.findall(value))
        return _LONE_SURROGATE.sub("\ufffd", value)
    if isinstance(value, list):
        return [_without_surrogates(item, lone) for item in value]
    if isinstance(value, dict):
        return {str(_without_surrogates(key, lone)): _without_surrogates(item, lone) for key, item in value.items()}
    return value
