"""What no type can say of the values of a file: rules between keys, each told apart from what else may be wrong."""

from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard, get_args

from longturn.core.policy import Summarization, Trigger, TriggerType
from longturn.errors import ConfigError

SUMMARY_TOKENS = ("maxSummaryTokens", "max_summary_tokens")
"""Both spellings of the one key in `parameters` that longturn reads itself."""

Plain = Mapping[str, Any]
Broken = tuple[tuple[str, ...], str]
"""The path of a key, and what is wrong with it."""


def broken_rules(plain: Plain) -> Iterator[Broken]:
    """Every rule that plain data breaks; data of a wrong type breaks none, since its type is told already."""
    summarization = _map(plain, "summarization")
    yield from _trigger(_map(summarization, "trigger"))
    yield from _parameters(_map(summarization, "parameters"))
    for name, model in _map(plain, "models").items():
        yield from _output(name, model if isinstance(model, Mapping) else {})


def _trigger(trigger: Plain) -> Iterator[Broken]:
    """The range of the value is that of its type (S4)."""
    kind, value = trigger.get("type"), trigger.get("value")
    if kind in get_args(TriggerType) and _is_number(value) and abs(value) < float("inf"):
        try:
            Trigger(kind, value)  # type: ignore[arg-type]  # it is one of the names
        except ConfigError as error:
            yield ("summarization", "trigger", "value"), f"cannot be used: {error}"


def _parameters(parameters: Plain) -> Iterator[Broken]:
    here = [key for key in SUMMARY_TOKENS if key in parameters]
    if len(here) > 1:
        yield ("summarization", "parameters", here[1]), f"is there twice, here and as {here[0]}: keep one"
    for key in here[:1]:
        try:
            Summarization(parameters={SUMMARY_TOKENS[0]: parameters[key]})
        except ConfigError:
            yield ("summarization", "parameters", key), "must be a whole number of at least 1"


def _output(name: str, model: Plain) -> Iterator[Broken]:
    window, most = model.get("window"), model.get("max_output")
    if _is_number(window) and _is_number(most) and most >= window > 0:
        yield ("models", name, "max_output"), f"must be below the window of {window:,}, got {most:,}"


def _map(plain: Plain, key: str) -> Plain:
    found = plain.get(key)
    return found if isinstance(found, Mapping) else {}


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
