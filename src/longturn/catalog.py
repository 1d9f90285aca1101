"""What is known of a model by its name: window, prices, provider and prefix cache; most of it from `genai-prices`.

It asks no network and never guesses: a name that the data does not spell is unknown. The first question loads the data
(some 0.6 seconds); importing this module does not. Answers are remembered for as long as the process runs.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date
from functools import lru_cache
from typing import TYPE_CHECKING

from longturn.core.caches import ANTHROPIC, BLOCKS, DEEPSEEK, GEMINI, LONGEST_PREFIX, OPENAI, CacheRule, Prices
from longturn.core.meter import Usage

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, ModelPrice

# Models whose window the data leaves out (0.2.3); input limits as Google's model pages give them, autumn 2026.
_DOCUMENTED = {
    ("google", "gemini-2.5-pro"): 1_048_576,
    ("google", "gemini-3-pro-preview"): 1_048_576,
    ("google", "gemini-3.1-pro-preview"): 1_048_576,
}

# What a model writes at most, in tokens, as their makers' model pages give it, autumn 2026: the data does not say. The
# first pattern that matches counts. A name that is in no row is unknown.
_MOST_OUTPUT = tuple(
    (re.compile(pattern), tokens)
    for pattern, tokens in (
        (r"claude-3[.-]7", 64_000),
        (r"claude-3[.-]5", 8_192),
        (r"claude-3", 4_096),
        (r"claude-opus-4(-[01]\b|-2025|$)", 32_000),
        (r"claude-(opus|sonnet|haiku)-4", 64_000),
        (r"gpt-5", 128_000),
        (r"gpt-4\.1", 32_768),
        (r"gpt-4o", 16_384),
        (r"gpt-4-turbo", 4_096),
        (r"\bo[134]\b", 100_000),
        (r"gemini-(2\.5|3)", 65_536),
        (r"gemini-(1\.5|2\.0)", 8_192),
    )
)

# How a model's server caches, by the model's name; the first pattern that matches counts. Minimums as the makers' pages
# give them, autumn 2026. Open models are served by anybody, mostly by servers that reuse the longest common prefix.
_CACHED = tuple(
    (re.compile(pattern), rule)
    for pattern, rule in (
        (r"claude-opus-4[.-][56]|claude-haiku-4[.-]5", replace(ANTHROPIC, least=4_096)),
        (r"claude-opus-4[.-]7|claude-3([.-]5)?-haiku", replace(ANTHROPIC, least=2_048)),
        (r"claude", ANTHROPIC),
        (r"gemini-(1\.5|2)", replace(GEMINI, least=2_048)),
        (r"gemini", GEMINI),
        (r"gpt-oss", LONGEST_PREFIX),
        (r"gpt-|chatgpt|codex|\bo[134]\b", OPENAI),
        (r"deepseek", DEEPSEEK),
        (r"qwen|kimi|moonshot|grok", BLOCKS),
    )
)
_PROVIDERS_CACHE = {"anthropic": ANTHROPIC, "openai": OPENAI, "azure": OPENAI, "google": GEMINI, "deepseek": DEEPSEEK}
_DIALECTS_CACHE = {"anthropic": ANTHROPIC, "openai_chat": OPENAI, "openai_responses": OPENAI, "gemini": GEMINI}

_WRITE = 1.25
"""What writing to Claude's cache costs (five minutes), times fresh input, where the data has no price for it."""
_MILLION = 1e6

# The data matches some models by the beginning or a part of a name, so that dates and versions need no row. What else
# stands around that part makes it another model, whose window is not borrowed (H15): "claude-opus-4-10" is no 4-1.
_BEFORE = re.compile(
    r"(?:(?:us|eu|apac|au|jp|ca|sa|in|me|us-gov|global|regional)\.)?"
    r"(?:(?:anthropic|amazon|meta|mistral|cohere|deepseek|qwen|openai|google|minimax|moonshot|zai|nvidia)[./])?"
)
_DATED = r"(?:20\d\d-\d\d-\d\d|\d\d-\d\d|\d\d-20\d\d|\d{3,8}|latest|default|preview|exp|v\d(?::\d+)?)"
_AFTER = re.compile(rf"(?:\d\d|{_DATED})?(?:[-@.]{_DATED})*")
_CLOUD_NAME = re.compile(r"(?:[a-z-]+\.)?(?:anthropic|amazon|meta|mistral|cohere|deepseek|qwen|openai|ai21)\.[a-z]")
_RESOURCE = re.compile(r"^(?:publishers/[\w-]+/)?models/")  # as the Gemini API and Google Cloud spell a name
_LITERALS = ("equals", "starts_with", "ends_with", "contains")


@dataclass(frozen=True, slots=True)
class _Reference:
    """A model's name and the provider that the caller wrote before it, as the data calls it."""

    provider: str | None
    name: str


def window_of(model: str | None, *, overrides: Mapping[str, int] | None = None) -> int | None:
    """The window of a model in tokens, or None when it is not known (H10, H15).

    model: a name as people write it: bare ("gpt-5"), dated, with its provider before it ("anthropic:claude-opus-4-6",
        "openai/gpt-4o", "openrouter/anthropic/claude-sonnet-4.5"), or as a cloud spells it ("us.anthropic....-v1:0").
        A router's window for a model may differ from its maker's, so a named provider's own data counts.
    overrides: windows that the caller knows better, by the exact name that `model` has.
    """
    if model is None:
        return None
    if overrides and model in overrides:
        return overrides[model]
    reference = _reference(model)
    return None if reference is None else _window(reference)


def max_output_of(model: str | None) -> int | None:
    """What a model writes at most in one answer, in tokens, or None when it is not known (B10)."""
    name = (model or "").lower()
    return next((tokens for pattern, tokens in _MOST_OUTPUT if pattern.search(name)), None)


def prices_of(model: str | None, *, input_tokens: int = 0) -> Prices | None:
    """What a model's tokens cost in dollars, or None when it is not known; another model's are never borrowed (H15).

    model: a name as for `window_of`. input_tokens: how large the request is, since some prices rise with its size;
    without it they are those of a small one. Where they change with the time of day they are those that hold apart from
    it, and where they have changed today's. Tokens served from a cache cost as much as fresh ones where the data has no
    price for them; tokens written to one too, but 1.25 times as much for Claude.
    """
    reference = None if model is None else _reference(model)
    info = None if reference is None else _info(reference)
    found = None if info is None else _in_force(info, date.today())
    fresh = None if found is None else _rate(found, "input_mtok", input_tokens)
    if found is None or fresh is None:
        return None
    keys = ("cache_read_mtok", "cache_write_mtok", "output_mtok")
    cached, stored, output = (_rate(found, key, input_tokens) for key in keys)
    if stored is None:
        stored = fresh * (_WRITE if cache_rule_of(model, "").name == ANTHROPIC.name else 1)
    return Prices(fresh, fresh if cached is None else cached, stored, output or 0.0)


def cost_of(usage: Usage, model: str | None, *, prices: Prices | None = None) -> float | None:
    """What one call cost in dollars, its answer included, or None when the model's prices are not known (S13).

    Tokens that were read from the cache and written to it have prices of their own, and a large request may have higher
    ones (`prices_of`). prices: those that the caller knows better, for requests of any size.
    """
    known = prices or prices_of(model, input_tokens=usage.input_tokens)
    if known is None:
        return None
    fresh = max(0, usage.input_tokens - usage.cached_tokens - usage.written_tokens)
    read = fresh * known.fresh + usage.cached_tokens * known.cached + usage.written_tokens * known.stored
    return read + known.written(usage.output_tokens)


def cache_rule_of(model: str | None, dialect: str) -> CacheRule:
    """How the prefix cache behind a model works: by the model's name, else by its provider.

    Without a model it is that of the dialect's own provider. A name that says nothing stands for a server of one's own,
    which serves the longest common prefix; so does a dialect that is not one of ours.
    """
    if model is None:
        return _DIALECTS_CACHE.get(dialect, LONGEST_PREFIX)
    name = model.lower()
    rule = next((rule for pattern, rule in _CACHED if pattern.search(name)), None)
    return rule or _PROVIDERS_CACHE.get(provider_of(model) or "", LONGEST_PREFIX)


def provider_of(model: str | None) -> str | None:
    """Whose message format a model is spoken to in ("openai", "anthropic", "google", "openrouter", ...), or None.

    It is the provider named before the model, else the one whose names look like this one. Claude on a cloud is
    spoken to in Anthropic's format. A hint for a dialect, no fact about the model: unlike a window it may be given
    for a model that is not in the data.
    """
    reference = None if model is None else _reference(model)
    if reference is None:
        return None
    if reference.provider in ("aws", "google") and "claude" in reference.name:
        return "anthropic"
    return reference.provider


@lru_cache(maxsize=1024)
def _reference(model: str) -> _Reference | None:
    import genai_prices.data_snapshot as data

    providers = data.get_snapshot().providers
    name = _RESOURCE.sub("", model.strip().lower())
    if _CLOUD_NAME.match(name):  # before the colon of its version is taken for a provider's
        return _Reference("aws", name)
    for mark in (":", "/"):
        before, found, after = name.partition(mark)
        provider = data.find_provider_by_id(providers, before) if found and before and after else None
        if provider is not None and provider.id != name:
            return _Reference(provider.id, after)
    if not name:
        return None
    served = (item.id for item in providers if item.model_match is not None and item.model_match.is_match(name))
    return _Reference(next(served, None), name)


def _window(reference: _Reference) -> int | None:
    info = _info(reference)
    return None if info is None else info.context_window or _DOCUMENTED.get((reference.provider or "", info.id))


@lru_cache(maxsize=1024)
def _info(reference: _Reference) -> "ModelInfo | None":
    """The data's entry for a model; None where it has one only for another model of a similar name (H15)."""
    import genai_prices.data_snapshot as data

    snapshot = data.get_snapshot()
    if reference.provider is None:
        return None
    provider = next(item for item in snapshot.providers if item.id == reference.provider)
    model = provider.find_model(reference.name, all_providers=snapshot.providers)
    if model is None or (reference.name != model.id.lower() and not _spells(model.match, reference.name)):
        return None
    return model


def _in_force(info: "ModelInfo", today: date) -> "ModelPrice":
    """The prices of a day; the last whose start has come counts, and none that holds for some hours only."""
    if not isinstance(info.prices, list):
        return info.prices
    dated = [(getattr(each.constraint, "start_date", None), each) for each in info.prices]
    started = [each.prices for start, each in dated if each.constraint is None or (start and start <= today)]
    return started[-1] if started else info.prices[0].prices


def _rate(prices: "ModelPrice", key: str, input_tokens: int) -> float | None:
    """Dollars per token of a request of this size; the tier that it reaches counts for all of its tokens."""
    price = getattr(prices, key)
    if price is None:
        return None
    reached = [tier.price for tier in getattr(price, "tiers", ()) if input_tokens > tier.start]
    return float(reached[-1] if reached else getattr(price, "base", price)) / _MILLION


def _spells(clause: object, name: str) -> bool:
    """Whether `name` is that model's name with no more than a date, a version or a region around it."""
    for leaf in _leaves(clause):
        if hasattr(leaf, "regex"):  # those in the data are anchored
            if re.search(leaf.regex, name):
                return True
            continue
        literal = next(str(text).lower() for kind in _LITERALS if (text := getattr(leaf, kind, None)) is not None)
        before, found, after = name.partition(literal)
        if found and _BEFORE.fullmatch(before) and _AFTER.fullmatch(after):
            return True
    return False


def _leaves(clause: object) -> Iterator[object]:
    """The plain clauses of a match; of those that must all hold, the first tells the name."""
    inner = getattr(clause, "or_", None) or getattr(clause, "and_", [])[:1]
    if not inner:
        yield clause
    for part in inner:
        yield from _leaves(part)
