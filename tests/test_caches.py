"""Prefix caches by their documented rules (spec/providers.md), prices, and which model has which."""

import pytest
from genai_prices import data_snapshot

from longturn.catalog import cache_rule_of, prices_of, window_of
from longturn.core.caches import (
    ANTHROPIC,
    BLOCKS,
    DEEPSEEK,
    GEMINI,
    LONGEST_PREFIX,
    NO_CACHE,
    OPENAI,
    RULES,
    CacheRule,
    Prices,
)
from tests.test_catalog import SPELLINGS, STRANGERS

PRICES = Prices(fresh=1.0, cached=0.1, stored=1.25, output=5.0)


@pytest.mark.parametrize(
    ("rule", "kept", "served"),
    [
        (OPENAI, 1_023, 0),
        (OPENAI, 1_024, 1_024),
        (OPENAI, 1_151, 1_024),
        (OPENAI, 1_152, 1_152),
        (OPENAI, 10_000, 9_984),
        (ANTHROPIC, 1_023, 0),
        (ANTHROPIC, 1_025, 1_025),
        (GEMINI, 4_095, 0),
        (GEMINI, 4_097, 4_097),
        (DEEPSEEK, 63, 0),
        (DEEPSEEK, 200, 192),
        (BLOCKS, 700, 512),
        (LONGEST_PREFIX, 1, 1),
        (LONGEST_PREFIX, 0, 0),
        (NO_CACHE, 100_000, 0),
    ],
)
def test_a_front_is_served_from_the_minimum_on_in_the_steps_of_the_provider(
    rule: CacheRule, kept: int, served: int
) -> None:
    assert rule.served(kept, added=2, age=1.0, fixed=0) == served


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.name)
def test_no_more_is_served_than_was_kept(rule: CacheRule) -> None:
    assert all(0 <= rule.served(kept, added=0, age=0.0, fixed=0) <= kept for kept in range(5_000))


def test_a_cache_that_nobody_used_for_its_lifetime_is_gone() -> None:
    assert ANTHROPIC.served(5_000, added=2, age=300.0, fixed=2_000) == 5_000
    assert ANTHROPIC.served(5_000, added=2, age=300.5, fixed=2_000) == 0
    assert LONGEST_PREFIX.served(5_000, added=2, age=1e9, fixed=0) == 5_000


def test_a_marker_at_the_end_finds_no_earlier_one_beyond_twenty_blocks_so_only_system_and_tools_are_served() -> None:
    assert ANTHROPIC.served(5_000, added=20, age=0.0, fixed=2_000) == 5_000
    assert ANTHROPIC.served(5_000, added=21, age=0.0, fixed=2_000) == 2_000
    assert ANTHROPIC.served(5_000, added=21, age=0.0, fixed=1_000) == 0
    assert OPENAI.served(5_120, added=500, age=0.0, fixed=0) == 5_120


def test_a_request_costs_what_is_served_at_one_price_and_what_is_written_at_another() -> None:
    assert PRICES.of(5_000, 4_000, ANTHROPIC) == pytest.approx(4_000 * 0.1 + 1_000 * 1.25)
    assert PRICES.of(5_000, 0, NO_CACHE) == pytest.approx(5_000)
    assert PRICES.written(100) == pytest.approx(500)


def test_a_request_below_the_minimum_costs_the_plain_price() -> None:
    assert PRICES.of(1_023, 0, ANTHROPIC) == pytest.approx(1_023)
    assert PRICES.of(1_024, 0, ANTHROPIC) == pytest.approx(1_280)


def test_where_writing_has_no_price_a_request_costs_fresh_and_served_tokens() -> None:
    free = Prices(fresh=1.0, cached=0.5, stored=1.0, output=4.0)
    assert free.of(2_000, 1_024, OPENAI) == pytest.approx(1_024 * 0.5 + 976)


# --- the catalog -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "dialect", "rule"),
    [
        ("claude-sonnet-4-5", "anthropic", ANTHROPIC),
        ("openrouter/anthropic/claude-sonnet-4.5", "openai_chat", ANTHROPIC),
        ("bedrock:us.anthropic.claude-sonnet-4-5-20250929-v1:0", "anthropic", ANTHROPIC),
        ("gpt-5", "openai_responses", OPENAI),
        ("o3", "openai_chat", OPENAI),
        ("azure:our-deployment", "openai_chat", OPENAI),
        ("gemini-3-pro-preview", "gemini", GEMINI),
        ("deepseek-chat", "openai_chat", DEEPSEEK),
        ("kimi-k2", "anthropic", BLOCKS),
        ("xai/grok-4", "openai_chat", BLOCKS),
        ("qwen3-coder-plus", "openai_chat", BLOCKS),
        ("gpt-oss-120b", "openai_chat", LONGEST_PREFIX),
        ("my-llama", "openai_chat", LONGEST_PREFIX),
        (None, "anthropic", ANTHROPIC),
        (None, "openai_chat", OPENAI),
        (None, "openai_responses", OPENAI),
        (None, "gemini", GEMINI),
        (None, "a dialect of yours", LONGEST_PREFIX),
    ],
)
def test_the_cache_rule_is_the_models_and_without_one_the_dialects(
    model: str | None, dialect: str, rule: CacheRule
) -> None:
    assert cache_rule_of(model, dialect) == rule


@pytest.mark.parametrize(
    ("model", "least"),
    [
        ("claude-opus-4-5", 4_096),
        ("anthropic/claude-opus-4.6", 4_096),
        ("claude-haiku-4-5", 4_096),
        ("claude-3-5-haiku-latest", 2_048),
        ("claude-3-haiku", 2_048),
        ("claude-opus-4-1", 1_024),
        ("claude-fable-5-1", 1_024),
        ("gemini-2.5-pro", 2_048),
        ("gemini-3.6-flash", 4_096),
    ],
)
def test_the_shortest_front_that_is_cached_depends_on_the_model(model: str, least: int) -> None:
    assert cache_rule_of(model, "openai_chat").least == least


def test_prices_are_dollars_per_token() -> None:
    found = prices_of("claude-sonnet-4-5-20250929")
    assert found is not None
    assert found.fresh * 1e6 == pytest.approx(3.0)
    assert found.cached * 1e6 == pytest.approx(0.3)
    assert found.stored * 1e6 == pytest.approx(3.75)
    assert found.output * 1e6 == pytest.approx(15.0)


def test_where_the_data_has_no_price_for_cached_tokens_they_cost_what_fresh_ones_cost() -> None:
    found = prices_of("openai:gpt-4")
    assert found is not None
    assert found.cached == found.stored == found.fresh


def test_where_the_data_has_no_price_for_writing_it_is_a_quarter_more_for_claude_only() -> None:
    claude, other = prices_of("claude-2"), prices_of("gpt-5")
    assert claude is not None
    assert other is not None
    assert claude.stored == pytest.approx(1.25 * claude.fresh)
    assert other.stored == other.fresh


def test_prices_that_change_with_the_hour_are_the_same_at_every_hour() -> None:
    provider = next(each for each in data_snapshot.get_snapshot().providers if each.id == "deepseek")
    model = next(each for each in provider.models if each.id == "deepseek-chat")
    assert isinstance(model.prices, list)
    found = prices_of("deepseek-chat")
    assert found is not None
    assert found.fresh == pytest.approx(float(model.prices[0].prices.input_mtok) / 1e6)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", STRANGERS, ids=lambda name: name[:40])
def test_the_prices_of_another_model_are_never_borrowed_h15(name: str) -> None:
    assert prices_of(name) is None


@pytest.mark.parametrize("name", [name for name, _ in SPELLINGS])
def test_prices_are_found_under_the_names_that_people_write(name: str) -> None:
    assert window_of(name) is not None
    assert prices_of(name) is not None


def test_no_model_has_no_prices() -> None:
    assert prices_of(None) is None


def test_every_price_in_the_data_can_be_read() -> None:
    for provider in data_snapshot.get_snapshot().providers:
        for model in provider.models:
            found = prices_of(f"{provider.id}:{model.id}")
            assert found is None or min(found.fresh, found.cached, found.stored, found.output) >= 0
