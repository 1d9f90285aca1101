"""The file as the rest of longturn takes it: a policy, and what it says about models. It asks no catalog."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from difflib import get_close_matches
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Any

from longturn.config.checked import SECTIONS, Checked, check
from longturn.config.document import MOST_CHARACTERS, Document, Problem, is_nothing, line_of, parse
from longturn.config.librechat import KNOWN, old_settings
from longturn.config.rules import SUMMARY_TOKENS
from longturn.config.schema import (
    ContextPruning,
    History,
    HistoryPruning,
    Ladder,
    PriceKeys,
    Sections,
    SummarizationKeys,
)
from longturn.core.caches import Prices
from longturn.core.policy import STUB_WINDOW, Policy, Pruning, Retain, Summarization, Trigger
from longturn.errors import ConfigError

_MILLION = 1e6


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """What the file says about a model, in tokens and dollars per token; None where it says nothing."""

    window: int | None = None
    max_output: int | None = None
    image_tokens: int | None = None
    prices: Prices | None = None


@dataclass(frozen=True, slots=True)
class Config:
    """A configuration file that holds. name: how messages call it.

    models: by the exact name that a request gives. lines: of each key that is set, by its dotted path in snake_case.
    warnings: what does no harm, but may not be what is meant.
    """

    policy: Policy
    models: Mapping[str, ModelSettings] = field(default_factory=dict)
    name: str = ""
    lines: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[Problem, ...] = ()

    def model(self, name: str | None) -> ModelSettings:
        """What the file says about a model: nothing about one that it does not name, nothing borrowed (H15)."""
        return self.models.get(name or "", ModelSettings())

    def policy_for(self, model: str | None) -> Policy:
        """The policy with that model's price of an image."""
        tokens = self.model(model).image_tokens
        return self.policy if tokens is None else replace(self.policy, image_tokens=tokens)


@dataclass(frozen=True, slots=True)
class Examined:
    """A file with everything that is to be said of it. config: None where there are problems."""

    config: Config | None
    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]


def load(path: str | Path) -> Config:
    """The configuration in a file. Raises ConfigError as `read` does, and where the file cannot be opened."""
    return read(read_file(path), str(path))


def read(text: str | bytes, name: str) -> Config:
    """The configuration in a text (S15); `name` is what messages call it, and its stem the policy's name.

    Raises ConfigError with the line and the path of every key that is wrong (S16): nothing runs with other settings.
    """
    examined = examine(text, name)
    if examined.config is not None:
        return examined.config
    first, *more = map(str, examined.problems)
    if not more:
        raise ConfigError(f"{name}, {first}")
    raise ConfigError(f"{name} has {len(more) + 1} problems: {'; '.join((first, *more))}")


def read_file(path: str | Path) -> bytes:
    """The bytes of a configuration file. Raises ConfigError where it cannot be opened or is too large for one."""
    try:
        with Path(path).open("rb") as stream:
            data = stream.read(4 * MOST_CHARACTERS + 1)  # a character has four bytes at most
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise ConfigError(f"{path} cannot be read: {why[:1].lower()}{why[1:]}") from None
    if len(data) > 4 * MOST_CHARACTERS:
        raise ConfigError(f"{path} is too large for a configuration: it has at most {MOST_CHARACTERS:,} characters")
    return data


def examine(text: str | bytes, name: str) -> Examined:
    """All problems and warnings of a file. Raises ConfigError only where it is no YAML, or no map."""
    document = parse(text, name)
    checked = check(document)
    warnings = [*_warned(document), *(old.problem() for old in old_settings(document))]
    if checked.sections is not None:
        warnings += _doubtful(checked, checked.sections)
    in_order = tuple(sorted(warnings, key=lambda one: one.line))
    if checked.sections is None:
        return Examined(None, checked.problems, in_order)
    policy = _policy(checked.sections, PurePath(name).stem or "config")
    models = {
        model: ModelSettings(keys.window, keys.max_output, keys.image_tokens, _prices(keys.prices))
        for model, keys in (checked.sections.models or {}).items()
    }
    lines = MappingProxyType({".".join(map(str, path)): place.line for path, place in checked.places.items()})
    return Examined(Config(policy, MappingProxyType(models), name, lines, in_order), (), in_order)


def _warned(document: Document) -> list[Problem]:
    """Sections that nobody knows, and sections of ours with nothing in them."""
    if document.root is None:
        return [Problem(1, "", "the file is empty: everything is as it is without one")]
    found = []
    for pair in document.sections():
        if pair.key in SECTIONS:
            if is_nothing(pair.value):
                text = "is empty, so it says nothing" + (
                    ": write {} for its defaults" if pair.key == "summarization" else ""
                )
                found.append(Problem(line_of(pair.at), pair.key, text))
        elif pair.key not in KNOWN:
            close = get_close_matches(pair.key.lower(), (*SECTIONS, *KNOWN), n=1)
            meant = f"did you mean {close[0]}?" if close else f"ours are {', '.join(SECTIONS)}"
            found.append(
                Problem(line_of(pair.at), pair.key, f"is a section that nobody knows, so it is ignored: {meant}")
            )
    return found


def _doubtful(checked: Checked, sections: Sections) -> list[Problem]:
    """What is allowed, but hardly meant."""
    history = sections.history
    if history is None:
        return []
    found = []
    place = checked.places["history",]
    ratio = history.context_compact_ratio
    counts = ratio is not None and 0 < ratio <= 1
    if ratio is not None and not counts:
        at = checked.places["history", "context_compact_ratio"]
        found.append(Problem(at.line, at.shown, f"is {ratio:g}, not above 0 to 1, so it counts as unset"))
    if history.max_context_tokens is None and not counts:
        text = (
            f"sets neither max_context_tokens nor a ratio, so at most {STUB_WINDOW:,} tokens are sent whatever the "
            "model's window is: context_compact_ratio: 0.75 sends three quarters of it"
        )
        found.append(Problem(place.line, place.shown, text))
    return found


def _policy(sections: Sections, name: str) -> Policy:
    history, ladder = sections.history or History(), sections.ladder or Ladder()
    base = Policy.seed() if ladder.preset == "seed" else Policy()
    pruning = _set(history.history_pruning or HistoryPruning())
    # H10-H13 say what the keys of a file mean; the ratio out of the box is for those who have none (spec 1).
    ratio = {} if sections.history is None else {"default_ratio": None}
    keys = sections.summarization
    changes = {
        "name": name,
        **ratio,
        **_set(history, but="history_pruning"),
        **{f"history_pruning_{key}": value for key, value in pruning.items()},
        **_set(ladder, but="preset"),
        "summarization": None if keys is None else _summarization(keys),
        "pruning": None if keys is None else _pruning(keys.context_pruning),
    }
    return replace(base, **changes)


def _summarization(keys: SummarizationKeys) -> Summarization:
    """An empty text is as if it were not there, as in LibreChat."""
    values = {key: value for key, value in _set(keys, but="context_pruning").items() if value != ""}
    if keys.trigger is not None:
        values["trigger"] = Trigger(keys.trigger.type, keys.trigger.value)
    if keys.retain_recent is not None:
        values["retain_recent"] = Retain(**_set(keys.retain_recent))
    if keys.parameters is not None:
        camel, snake = SUMMARY_TOKENS
        renamed = {camel if key == snake else key: value for key, value in keys.parameters.items()}
        values["parameters"] = MappingProxyType(renamed)
    return Summarization(**values)


def _pruning(keys: ContextPruning | None) -> Pruning | None:
    """Opt-in, and whether summarization is on or off (S1)."""
    if keys is None or not keys.enabled:
        return None
    values = {key: value for key, value in _set(keys).items() if not is_dataclass(value) and key != "enabled"}
    values |= {} if keys.soft_trim is None else _set(keys.soft_trim)
    if keys.hard_clear is not None:
        values |= {"hard_clear" if key == "enabled" else key: value for key, value in _set(keys.hard_clear).items()}
    return Pruning(**values)


def _prices(keys: PriceKeys | None) -> Prices | None:
    """Dollars per token; what the file leaves out of the cache's prices is that of fresh input."""
    if keys is None:
        return None
    cached = keys.input if keys.cached is None else keys.cached
    written = keys.input if keys.written is None else keys.written
    return Prices(*(price / _MILLION for price in (keys.input, cached, written, keys.output)))


def _set(keys: Any, but: str = "") -> dict[str, Any]:
    """The keys that are set."""
    found = {each.name: getattr(keys, each.name) for each in fields(keys)}
    return {name: value for name, value in found.items() if value is not None and name != but}
