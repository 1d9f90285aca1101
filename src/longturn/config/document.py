"""A YAML file as a tree whose nodes know their place in the text, and what can be said of it before any key is known.

It never builds an object that a tag asks for, and takes no file that would grow when its aliases are followed.
"""

import math
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from longturn.errors import ConfigError

MOST_CHARACTERS = 1 << 20
"""A larger file is none that a person wrote, and would take seconds to read."""

_TAGS = "tag:yaml.org,2002:"
_TEXTS = frozenset({"str", "timestamp", "value", "merge"})
_TRUE, _FALSE = frozenset({"true", "yes", "on"}), frozenset({"false", "no", "off"})
_ODD_NUMBERS = {".inf": math.inf, "+.inf": math.inf, "-.inf": -math.inf, ".nan": math.nan}
_BASED = re.compile(r"[-+]?0[box]", re.IGNORECASE)
_HALVES = re.compile("[\ud800-\udfff]")
_MOST_SHOWN = 40

# What ruamel.yaml 0.19 raises on odd input besides its own errors: a character beyond Unicode, a broken tag.
_ITS_BUGS = (ValueError, TypeError, AttributeError, IndexError, KeyError, AssertionError, OverflowError)


Node = Any
"""A node of ruamel.yaml's: a scalar, a sequence or a mapping by its `id`. The package is loaded with the first file."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with one key, or worth knowing; `line` counts from 1, `path` is the key's, "" for the file's."""

    line: int
    path: str
    text: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.path}{' ' if self.path else ''}{self.text}"


@dataclass(frozen=True, slots=True)
class Pair:
    """A key of a map: its text, the nodes of key and value, and the map that it is written in."""

    key: str
    at: Node
    value: Node
    home: Node


@dataclass(frozen=True, slots=True)
class Document:
    """A file that was read. root: its map; None where the file holds nothing. text: without a byte order mark."""

    name: str
    text: str
    root: Node | None
    has_mark: bool = False

    def sections(self) -> list[Pair]:
        """The top level, keys that are there twice included."""
        return [] if self.root is None else own_pairs(self.root)


def parse(data: bytes | str, name: str) -> Document:
    """Read a file. Raises ConfigError with the line for what is not UTF-8, not YAML, no map, or too large or deep."""
    text = data if isinstance(data, str) else _decoded(data, name)
    has_mark = text.startswith("\ufeff")
    text = text.removeprefix("\ufeff")
    if len(text) > MOST_CHARACTERS:
        raise ConfigError(f"{name} has {len(text):,} characters: a configuration has at most {MOST_CHARACTERS:,}")
    root = _composed(text, name)
    if root is not None and is_nothing(root):
        root = None
    if root is not None and root.id != "mapping":
        what = "a list" if root.id == "sequence" else "a single value"
        raise ConfigError(
            f"{name}, line {line_of(root)}: the file holds {what}: it must hold sections, such as `history:`"
        )
    return Document(name, text, root, has_mark)


def _decoded(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"{name}, line {line}: byte {error.start} (0x{data[error.start]:02x}) is no UTF-8: save the file as UTF-8"
        ) from None


def _composed(text: str, name: str) -> Node | None:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError
    from ruamel.yaml.reader import ReaderError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an anchor that is used for a second thing is none of our business
            return YAML(typ="safe", pure=True).compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        said = " ".join(filter(None, (error.context, error.problem)))
        tab = ": indent with spaces, not with tabs" if "\\t" in said else ""
        raise ConfigError(
            f"{name}, line {line}, column {column}: this is no YAML: {' '.join(said.split())}{tab}"
        ) from None
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise ConfigError(f"{name}, line {line}: U+{error.character:04X} may not stand in YAML: remove it") from None
    except RecursionError:
        raise ConfigError(f"{name} is nested too deeply: flatten it") from None
    except (YAMLError, *_ITS_BUGS) as error:
        said = " ".join(str(error).split())[:200]
        raise ConfigError(f"{name} is no YAML that can be read: {said or type(error).__name__}") from None


def line_of(node: Node) -> int:
    """The line that a node begins in, from 1."""
    return int(node.start_mark.line) + 1


def is_nothing(node: Node) -> bool:
    """Whether a node is a null: such a key says nothing."""
    return bool(node.id == "scalar" and node.tag == f"{_TAGS}null")


def own_pairs(node: Node) -> list[Pair]:
    """The pairs of a map as written; a key that is a list or a map has no text and is called "?"."""
    return [
        Pair(_whole(key.value, "replace") if key.id == "scalar" else "?", key, value, node) for key, value in node.value
    ]


def pairs(node: Node) -> list[Pair]:
    """The pairs of a map, and behind them those it merges (`<<: *base`) that it has not itself."""
    found = [pair for pair in own_pairs(node) if not _is_merge(pair)]
    known = {pair.key for pair in found}
    for pair in _merged(node):
        if pair.key not in known:
            known.add(pair.key)
            found.append(pair)
    return found


def _merged(node: Node) -> Iterator[Pair]:
    waiting: list[Node] = [node]
    seen: set[int] = set()
    while waiting:
        base = waiting.pop()
        if base.id != "mapping" or id(base) in seen:
            continue
        seen.add(id(base))
        merges: list[Node] = []
        for pair in own_pairs(base):
            if not _is_merge(pair):
                yield pair
            else:
                merges += pair.value.value if pair.value.id == "sequence" else [pair.value]
        waiting += reversed(merges)


def _is_merge(pair: Pair) -> bool:
    return bool(pair.at.tag == f"{_TAGS}merge")


def items(node: Node) -> list[Node]:
    """The nodes of a list."""
    return list(node.value)


def scalar(node: Node) -> str | int | float | bool | None:
    """What a scalar means. Raises ValueError where its tag is not known or does not fit its text.

    JavaScript, for which LibreChat's blocks were written, has one kind of number: 4096.0 and 4e3 are whole ones here.
    """
    text, tag = node.value, node.tag.removeprefix(_TAGS)
    if tag in _TEXTS:
        return _whole(text, "strict")
    if tag == "null":
        return None
    if tag == "bool" and text.lower() in _TRUE | _FALSE:
        return text.lower() in _TRUE
    if tag in ("int", "float"):
        return _number(text.replace("_", "").lower())
    raise ValueError(_unwanted(node))


def refuse_tag(node: Node) -> None:
    """Raise ValueError for a map or a list with a tag that asks for something else."""
    if node.tag.removeprefix(_TAGS) not in ("map", "seq"):
        raise ValueError(_unwanted(node))


def _unwanted(node: Node) -> str:
    return f"has the tag {node.tag.removeprefix(_TAGS)!r:.40}, which means nothing here: remove it"


def _whole(text: str, errors: str) -> str:
    """The text with the halves of characters put together that JSON escapes them in; a lone half is an error."""
    if not _HALVES.search(text):
        return text
    try:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", errors)
    except UnicodeDecodeError:
        raise ValueError("holds half of a character (a lone surrogate): remove it") from None


def _number(text: str) -> int | float:
    if text in _ODD_NUMBERS:
        return _ODD_NUMBERS[text]
    try:
        if _BASED.match(text):
            return int(text, 0)
        number = float(text)
        if not math.isfinite(number) or not number.is_integer():
            return number
        return int(text) if text.lstrip("+-").isdecimal() else int(number)
    except ValueError:
        raise ValueError("is no number that can be read") from None


def shown(node: Node) -> str:
    """A value as a message quotes it: short, on one line, in the file's own spelling."""
    if node.id != "scalar":
        return "a list" if node.id == "sequence" else "a map"
    if node.tag == f"{_TAGS}null":
        return "nothing"
    text = " ".join(node.value.split())
    text = text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 1]}…"
    is_text = node.tag.removeprefix(_TAGS) in _TEXTS
    return repr(text) if is_text else text
