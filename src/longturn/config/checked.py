"""What stands in our sections, checked key by key: all problems are found, each with line and path of its key (S16)."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from longturn.config.document import (
    Document,
    Node,
    Problem,
    is_nothing,
    items,
    line_of,
    pairs,
    refuse_tag,
    scalar,
    shown,
)
from longturn.config.rules import broken_rules
from longturn.config.schema import Sections, allowed, hints, is_section, of_each, of_items
from longturn.errors import ConfigError

if TYPE_CHECKING:
    from pydantic import TypeAdapter

SECTIONS = ("history", "ladder", "summarization", "models")
MOST_VALUES = 20_000
"""More values than these no file holds that a person wrote; aliases of aliases make some of a few lines."""
OLD_TRIGGER = "token_count"
"""A trigger of earlier days (S17)."""

_HUMP = re.compile(r"(?<=[a-z0-9])[A-Z]")
_PLAIN = re.compile(r"[\w-]+")
_OLD_TRIGGER_TEXT = (
    "is an old trigger: write token_ratio with a share of what may be sent from 0 to 1, such as 0.8, or "
    "remaining_tokens with how many are left; `longturn config migrate` does it"
)

Path = tuple[str | int, ...]
"""Where a value stands: names of keys in snake_case, and positions in lists."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value was found: its line, its path as the file spells it, its node, and what it should be."""

    line: int
    shown: str
    node: Node
    hint: Any


@dataclass(frozen=True, slots=True)
class Checked:
    """Our sections. sections: None where there are problems. places: of every value that is set."""

    sections: Sections | None
    places: Mapping[Path, Place]
    problems: tuple[Problem, ...]


def check(document: Document) -> Checked:
    """Check our sections. Raises ConfigError for a file that aliases make too large; collects all other problems."""
    walk = _Walk(document.name)
    plain: dict[str, object] = {}
    known = hints(Sections)
    seen: dict[str, int] = {}
    for pair in document.sections():
        if pair.key in seen:
            walk.say(line_of(pair.at), pair.key, f"is there twice (first in line {seen[pair.key]}): keep one")
        elif pair.key in known and not is_nothing(pair.value):
            walk.take(plain, pair.key, pair.value, known[pair.key], (pair.key,), pair.key, line_of(pair.at))
        seen.setdefault(pair.key, line_of(pair.at))
    found = walk.validated(plain)
    for path, text in broken_rules(plain):
        place = walk.places[path]
        walk.say(place.line, place.shown, text)
    return Checked(
        None if walk.problems else found, walk.places, tuple(sorted(walk.problems, key=lambda one: one.line))
    )


def snake(key: str) -> str:
    """maxTokens as max_tokens."""
    return _HUMP.sub(lambda hump: f"_{hump[0].lower()}", key)


def camel(key: str) -> str:
    """max_tokens as maxTokens."""
    first, *rest = key.split("_")
    return first + "".join(word.title() for word in rest)


def below(path: str, key: str | int) -> str:
    """The path of a key in a path; one that is no plain word stands in brackets."""
    if isinstance(key, str) and _PLAIN.fullmatch(key):
        return f"{path}.{key}"
    return f"{path}[{json.dumps(key, ensure_ascii=False)}]"


@lru_cache(maxsize=1)
def _adapter() -> "TypeAdapter[Sections]":
    from pydantic import TypeAdapter

    return TypeAdapter(Sections)


@dataclass(slots=True)
class _Walk:
    """Goes through the nodes as far as the schema knows them, and not further: no alias can lead it astray."""

    name: str
    places: dict[Path, Place] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    refused: set[Path] = field(default_factory=set)

    def say(self, line: int, path: str, text: str) -> None:
        self.problems.append(Problem(line, path, text))

    def take(
        self, into: dict[str, object], name: str, node: Node, hint: Any, path: Path, path_shown: str, line: int
    ) -> None:
        """Put one value into the plain data, or say why it cannot be put."""
        self.places[path] = Place(line, path_shown, node, hint)
        if len(self.places) > MOST_VALUES:
            raise ConfigError(f"{self.name} holds more than {MOST_VALUES:,} values, counting each use of an alias")
        try:
            into[name] = self._plain(node, hint, path, path_shown)
        except ConfigError:  # which is a ValueError too, but one that ends the walk
            raise
        except ValueError as error:
            self.refused.add(path)
            self.say(line, path_shown, str(error))

    def _plain(self, node: Node, hint: Any, path: Path, path_shown: str) -> object:
        if node.id == "scalar":
            return scalar(node)
        refuse_tag(node)
        if node.id == "mapping":
            is_known = is_section(hint) or of_each(hint) is not None
            return self._keys(node, hint, path, path_shown) if is_known else {}
        listed: list[object] = []
        for place, each in enumerate(items(node) if of_items(hint) is not None else ()):
            one: dict[str, object] = {}
            self.take(one, "", each, of_items(hint), (*path, place), below(path_shown, place), line_of(each))
            listed += one.values()
        return listed

    def _keys(self, node: Node, hint: Any, path: Path, path_shown: str) -> dict[str, object]:
        known = hints(hint) if is_section(hint) else None
        found: dict[str, object] = {}
        seen: dict[str, str] = {}
        for pair in pairs(node):
            line, here = line_of(pair.at), below(path_shown, pair.key)
            name = pair.key if known is None else snake(pair.key)
            if name in seen:
                spelled = "" if seen[name] == pair.key else f", here and as {seen[name]}"
                self.say(line, here, f"is there twice{spelled}: keep one")
            elif known is not None and name not in known:
                self.say(line, here, _unknown(name, pair.key, known, path))
            elif not is_nothing(pair.value):
                wanted = of_each(hint) if known is None else known[name]
                self.take(found, name, pair.value, wanted, (*path, name), here, line)
            seen.setdefault(name, pair.key)
        return found

    def validated(self, plain: dict[str, object]) -> Sections | None:
        from pydantic import ValidationError

        try:
            # As JSON, since pydantic's strict mode takes keys and values for a dataclass from JSON only.
            return _adapter().validate_json(json.dumps(plain))
        except ValidationError as error:
            wrong = {self._wrong(each["loc"], each["type"] == "missing"): None for each in error.errors()}
            self.problems += [problem for problem in wrong if problem is not None]
            return None

    def _wrong(self, loc: Path, is_missing: bool) -> Problem | None:
        """What pydantic found, at the deepest value of ours that it is about; None where it is known already."""
        if loc in self.refused:
            return None
        path = loc
        while path not in self.places:  # the branches of a union count as steps too
            path = path[:-1]
        place = self.places[path]
        if is_missing:
            wanted = allowed(hints(place.hint)[str(loc[-1])])
            return Problem(place.line, below(place.shown, str(loc[-1])), f"is missing: it must be {wanted}")
        if path == ("summarization", "trigger", "type") and shown(place.node) == repr(OLD_TRIGGER):
            return Problem(place.line, place.shown, f"{OLD_TRIGGER} {_OLD_TRIGGER_TEXT}")
        is_choice = get_origin(place.hint) is Literal and place.node.id == "scalar"
        close = get_close_matches(place.node.value, get_args(place.hint), n=1) if is_choice else []
        meant = f": did you mean {close[0]}?" if close else ""
        return Problem(place.line, place.shown, f"must be {allowed(place.hint)}, got {shown(place.node)}{meant}")


def _unknown(name: str, written: str, known: Mapping[str, object], path: Path) -> str:
    homes = [section for section, hint in hints(Sections).items() if is_section(hint) and name in hints(hint)]
    if homes:
        return f"is no key here: it belongs into {homes[0]}"
    close = get_close_matches(name, known, n=1)
    is_camel = path[0] == "summarization" and "_" not in written
    if close:
        return f"is no key: did you mean {camel(close[0]) if is_camel else close[0]}?"
    return f"is no key: the keys here are {', '.join(camel(key) if is_camel else key for key in known)}"
