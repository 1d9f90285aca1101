"""Policies out of files: a configuration in YAML, or TOML or JSON with the keys of `Policy`. It opens no file."""

import difflib
import json
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import PurePath
from typing import Any, TypeVar

from longturn.config import read
from longturn.core.policy import Policy, Pruning
from longturn.core.rungs import ladder
from longturn.errors import ConfigError

_ONLY_IN_PYTHON = frozenset({"pin", "estimator"})
_ONLY_IN_YAML = "summarization"
_YAML = (".yaml", ".yml")
_HUMP = re.compile(r"(?<=[a-z0-9])[A-Z]")

Settings = TypeVar("Settings", Policy, Pruning)


def read_policy(data: bytes, name: str) -> Policy:
    """The policy that a file describes: keys as `Policy` spells them, or in camelCase, and a table `pruning`.

    name: what messages call the file; a policy that has no `name` of its own is called by its stem. A null says
    nothing. Of a configuration file (.yaml, .yml) the policy is taken. Raises ConfigError with file and line for what
    is neither TOML nor JSON, an unknown key (naming the nearest one) and a value that the key does not take.
    """
    if PurePath(name).suffix.lower() in _YAML:
        return read(data, name).policy
    text, table = _parsed(data, name)
    source = _Source(name, text)
    pruning = table.pop("pruning", None)
    policy = _filled(Policy(name=PurePath(name).stem), table, source)
    if pruning is None:
        return policy
    if not isinstance(pruning, dict):
        raise source.error("pruning", "pruning must be a table of keys, such as { keep_last_assistants = 3 }")
    return replace(policy, pruning=_filled(Pruning(), pruning, source))


@dataclass(frozen=True, slots=True)
class _Source:
    name: str
    text: str

    def error(self, key: str, problem: str) -> ConfigError:
        """The problem with the place where `key` is set, as far as that can be found in the text."""
        found = re.search(rf"(?<![\w-])[\"']?{re.escape(key)}[\"']?\s*[:=\]]", self.text)
        line = f", line {self.text.count(chr(10), 0, found.start()) + 1}" if found else ""
        return ConfigError(f"{self.name}{line}: {problem}")


def _parsed(data: bytes, name: str) -> tuple[str, dict[str, object]]:
    try:
        text = data.decode("utf-8-sig")
        # TOML never begins with a brace, and a JSON object always does.
        if text.lstrip().startswith("{"):
            return text, json.loads(text, object_pairs_hook=_once, parse_constant=_refused)
        return text, tomllib.loads(text)
    except ValueError as error:  # what both parsers raise, and the decoder; each says where
        raise ConfigError(f"{name} is no policy in TOML or JSON: {error}") from None


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    table = dict(pairs)
    if len(table) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} is there twice")
    return table


def _refused(constant: str) -> object:
    raise ValueError(f"{constant} is no number in JSON")


def _filled(settings: Settings, table: Mapping[str, object], source: _Source) -> Settings:
    """The settings with each key of a table set, one after the other, so that an error knows its key."""
    known = [field.name for field in fields(settings)]
    seen: set[str] = set()
    for written, value in table.items():
        key = _HUMP.sub(lambda hump: f"_{hump[0].lower()}", written)
        if key not in known:
            raise source.error(written, f"there is no key {written!r}{_nearest(key, known)}")
        if key in _ONLY_IN_PYTHON:
            raise source.error(written, f"{written} is code: it can be set in Python only")
        if key == _ONLY_IN_YAML:
            raise source.error(written, f"{written} is a section of a configuration file (.yaml): write it there")
        if key in seen:
            raise source.error(written, f"{key} is set twice, in two spellings: keep one")
        seen.add(key)
        try:
            change: dict[str, Any] = {} if value is None else {key: _TAKEN.get(key, _as_it_is)(key, value)}
            settings = replace(settings, **change)
        except ConfigError as error:
            raise source.error(written, str(error)) from None
    return settings


def _nearest(key: str, known: list[str]) -> str:
    usable = [name for name in known if name not in _ONLY_IN_PYTHON]
    close = difflib.get_close_matches(key, usable, n=1)
    return f": did you mean {close[0]!r}?" if close else f"; the keys are {', '.join(sorted(usable))}"


def _as_it_is(_key: str, value: object) -> object:
    return value  # the dataclass checks its own numbers


def _flag(key: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"{key} must be true or false, got {value!r:.40}")
    return value


def _text(key: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{key} must be a text, got {value!r:.40}")
    return value


def _names(key: str, value: object) -> frozenset[str]:
    return frozenset(_list(key, value))


def _list(key: str, value: object) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ConfigError(f"{key} must be a list of names, got {value!r:.40}")
    return value


def _texts(key: str, value: object) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise ConfigError(f"{key} must give a text for each tool's name, got {value!r:.40}")
    return value


def _rungs(key: str, value: object) -> tuple[str, ...]:
    rungs = tuple(_list(key, value))
    ladder(Policy(rungs=rungs))
    return rungs


_TAKEN: Mapping[str, Callable[[str, object], object]] = {
    "name": _text,
    "history_pruning_enabled": _flag,
    "emergency_trim": _flag,
    "strict": _flag,
    "alternate": _flag,
    "hard_clear": _flag,
    "placeholder": _text,
    "keep_tools": _names,
    "cleared_texts": _texts,
    "rungs": _rungs,
}
"""How the value of a key that is no number is taken; `pruning` is a table of its own."""
