"""Every key with the value that is in force and the line that set it: what `longturn config show` shows."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from longturn.config.checked import below, camel
from longturn.config.settings import Config, ModelSettings
from longturn.core.caches import Prices

_HISTORY = {
    "max_context_tokens": "max_context_tokens",
    "context_compact_ratio": "context_compact_ratio",
    "history_pruning.enabled": "history_pruning_enabled",
    "history_pruning.max_tokens": "history_pruning_max_tokens",
    "max_history_messages": "max_history_messages",
}
_LADDER = (
    "name",
    "target_ratio",
    "whole_share",
    "batch",
    "rungs",
    "keep_tools",
    "cleared_texts",
    "image_tokens",
    "emergency_trim",
    "strict",
    "alternate",
)
_SUMMARIZATION = ("enabled", "provider", "model", "parameters", "prompt", "update_prompt", "max_summary_tokens")
_PRUNING = {
    "keep_last_assistants": "keep_last_assistants",
    "soft_trim_ratio": "soft_trim_ratio",
    "hard_clear_ratio": "hard_clear_ratio",
    "min_prunable_tool_chars": "min_prunable_tool_chars",
    "soft_trim.max_chars": "max_chars",
    "soft_trim.head_chars": "head_chars",
    "soft_trim.tail_chars": "tail_chars",
    "hard_clear.enabled": "hard_clear",
    "hard_clear.placeholder": "placeholder",
}
_PRICES = {"input": "fresh", "cached": "cached", "written": "stored", "output": "output"}


@dataclass(frozen=True, slots=True)
class Setting:
    """A key, as the documentation spells it. value: plain data; None where nothing is set. line: None for a default."""

    path: str
    value: Any
    line: int | None = None


def effective(config: Config) -> tuple[Setting, ...]:
    """All keys of a configuration in the order of the documentation, and the models that the file names."""
    return tuple(_placed(config, path, value) for path, value in _values(config))


def _placed(config: Config, path: tuple[str, ...], value: Any) -> Setting:
    shown, *keys = path
    for key in keys:
        shown = below(shown, camel(key) if path[0] == "summarization" else key)
    return Setting(shown, _plain(value), config.lines.get(".".join(path)))


def _values(config: Config) -> Iterator[tuple[tuple[str, ...], Any]]:
    policy = config.policy
    for key, name in _HISTORY.items():
        yield ("history", *key.split(".")), getattr(policy, name)
    for key in _LADDER:
        yield ("ladder", key), getattr(policy, key)
    summarization = policy.summarization
    if summarization is None:
        yield ("summarization",), None
    else:
        for key in (*_SUMMARIZATION, "reserve_ratio"):
            yield ("summarization", key), getattr(summarization, key)
        trigger = summarization.trigger
        yield ("summarization", "trigger", "type"), trigger and trigger.type
        yield ("summarization", "trigger", "value"), trigger and trigger.value
        yield ("summarization", "retain_recent", "turns"), summarization.retain_recent.turns
        yield ("summarization", "retain_recent", "tokens"), summarization.retain_recent.tokens
    yield ("summarization", "context_pruning", "enabled"), policy.pruning is not None
    for key, name in _PRUNING.items() if policy.pruning else ():
        yield ("summarization", "context_pruning", *key.split(".")), getattr(policy.pruning, name)
    for model, settings in config.models.items():
        yield from ((("models", model, *key), value) for key, value in _of_model(settings))


def _of_model(settings: ModelSettings) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key in ("window", "max_output", "image_tokens"):
        if getattr(settings, key) is not None:
            yield (key,), getattr(settings, key)
    for key, value in per_million(settings.prices).items():
        yield ("prices", key), value


def per_million(prices: Prices | None) -> dict[str, float]:
    """Prices as the file spells them, in dollars per million tokens."""
    if prices is None:
        return {}
    return {key: round(getattr(prices, name) * 1e6, 9) for key, name in _PRICES.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, tuple):
        return list(value)
    return dict(value) if isinstance(value, Mapping) else value
