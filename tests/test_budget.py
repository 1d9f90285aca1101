"""The budget: what the keys of a configuration mean, what holds without any, and what is refused."""

import math
from collections.abc import Callable
from typing import Any

import pytest

import longturn
from longturn import Budget, ConfigError, Policy

OFF = "off"
NAN = math.nan

# M, R, W, P, operand, budget, shown: every row of the table in the first part of the specification.
TABLE = [
    (None, None, None, OFF, 32_000, 32_000, None),
    (None, None, 200_000, OFF, 200_000, 32_000, 200_000),
    (None, None, 8_000, OFF, 8_000, 8_000, 8_000),
    (128_000, None, None, OFF, 128_000, 128_000, None),
    (16_000, None, None, OFF, 16_000, 16_000, None),
    (128_000, None, 8_000, OFF, 8_000, 8_000, 8_000),
    (128_000, None, 200_000, OFF, 200_000, 128_000, 200_000),
    (0, None, None, OFF, 32_000, 0, None),
    (0, 0.9, 200_000, 4_000, 200_000, 0, 200_000),
    (None, 0.9, 200_000, OFF, 200_000, 180_000, 200_000),
    (None, 0.9, 8_000, OFF, 8_000, 7_200, 8_000),
    (None, 0.9, None, OFF, 32_000, 28_800, None),
    (50_000, 0.8, 200_000, OFF, 200_000, 50_000, 200_000),
    (500_000, 0.8, 200_000, OFF, 200_000, 160_000, 200_000),
    (128_000, 0.5, None, OFF, 128_000, 64_000, None),
    (16_000, 0.4, None, OFF, 16_000, 6_400, None),
    (None, 0, 200_000, OFF, 200_000, 32_000, 200_000),
    (None, -1, 200_000, OFF, 200_000, 32_000, 200_000),
    (None, 1.01, 200_000, OFF, 200_000, 32_000, 200_000),
    (None, NAN, 200_000, OFF, 200_000, 32_000, 200_000),
    (None, 1.0, 200_000, OFF, 200_000, 200_000, 200_000),
    (None, 1e-9, 200_000, OFF, 200_000, 1, 200_000),
    (None, None, 200_000, 8_192, 200_000, 8_192, 200_000),
    (None, None, 200_000, 0, 200_000, 32_000, 200_000),
    (None, 0.9, 200_000, 100_000, 200_000, 100_000, 200_000),
    (None, 0.9, 200_000, 190_000, 200_000, 180_000, 200_000),
    (None, None, 8_000, 12_000, 8_000, 8_000, 8_000),
]


@pytest.mark.parametrize(("most", "ratio", "window", "pruned", "operand", "limit", "shown"), TABLE)
def test_the_keys_of_a_configuration_mean_what_the_table_says(
    most: int | None, ratio: float | None, window: int | None, pruned: Any, operand: int, limit: int, shown: int | None
) -> None:
    """H10-H15."""
    budget = Budget.resolve(
        max_context_tokens=most,
        context_compact_ratio=ratio,
        window=window,
        pruning_enabled=pruned != OFF,
        pruning_max_tokens=None if pruned == OFF else pruned,
    )
    assert (budget.operand, budget.limit, budget.window) == (operand, limit, shown)


@pytest.mark.parametrize(("window", "limit"), [(None, 8_192), (200_000, 8_192), (8_000, 8_000)])
def test_pruning_without_a_value_lowers_the_budget_to_8192_h13(window: int | None, limit: int) -> None:
    assert Budget.resolve(window=window, pruning_enabled=True).limit == limit


def test_a_pruning_value_counts_only_when_pruning_is_enabled_h13() -> None:
    assert Budget.resolve(window=200_000, pruning_enabled=False, pruning_max_tokens=4_000).limit == 32_000


def test_pruning_never_raises_a_budget_h13() -> None:
    assert Budget.resolve(max_context_tokens=5_000, pruning_enabled=True, pruning_max_tokens=9_000).limit == 5_000


def test_zero_switches_trimming_off_before_ratio_and_pruning_are_looked_at_h11() -> None:
    assert Budget.resolve(max_context_tokens=0, context_compact_ratio=0.5, pruning_enabled=True).limit == 0


def test_a_ratio_above_one_counts_as_unset_even_when_infinite_h12() -> None:
    assert Budget.resolve(context_compact_ratio=math.inf, window=200_000).limit == 32_000


def test_a_budget_is_truncated_and_never_rounded_h12() -> None:
    assert Budget.resolve(context_compact_ratio=0.9999, window=999).limit == 998


def test_an_explicit_window_of_32000_is_known_and_no_stub_h15() -> None:
    known = Budget.resolve(max_context_tokens=128_000, window=32_000)
    assert (known.limit, known.operand, known.window) == (32_000, 32_000, 32_000)
    assert longturn.fit([{"role": "user", "content": "Go"}], capacity=32_000, max_output=0).capacity == 32_000


def test_a_model_that_nobody_knows_has_no_window_h15() -> None:
    window = longturn.fit([{"role": "user", "content": "Go"}], model="acme/gpt-nobody-knows-this-9")
    assert (window.capacity, window.budget) == (None, 32_000)


def test_out_of_the_box_three_quarters_of_a_known_window_may_be_sent_h12() -> None:
    assert Policy().budget(200_000).limit == 150_000
    assert Policy().budget(None).limit == 32_000


def test_a_key_that_is_set_replaces_the_default_share_h10_h12() -> None:
    assert Policy(max_context_tokens=50_000).budget(200_000).limit == 50_000
    assert Policy(context_compact_ratio=0.9).budget(200_000).limit == 180_000
    assert Policy(max_context_tokens=0).budget(200_000).limit == 0


def test_the_keys_of_a_policy_are_those_of_the_table_h13() -> None:
    policy = Policy(context_compact_ratio=0.9, history_pruning_enabled=True, history_pruning_max_tokens=100_000)
    assert policy.budget(200_000).limit == 100_000


def test_the_seed_preset_sends_32000_tokens_whatever_the_window_h10() -> None:
    assert Policy.seed().budget(200_000).limit == 32_000


def test_a_number_given_to_fit_overrides_the_policy_and_is_capped_by_the_window_h14() -> None:
    message = [{"role": "user", "content": "Go"}]
    policy = Policy(max_context_tokens=9_000)
    assert longturn.fit(message, policy=policy, budget=5_000).budget == 5_000
    assert longturn.fit(message, policy=policy, budget=5_000, capacity=4_000, max_output=0).budget == 4_000
    assert longturn.fit(message, policy=policy).budget == 9_000


def test_a_budget_object_is_taken_as_it_is_h10() -> None:
    assert longturn.fit([{"role": "user", "content": "Go"}], budget=Budget(7_000)).budget == 7_000


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Budget(-1),
        lambda: Budget(1.5),  # type: ignore[arg-type]
        lambda: Budget(True),
        lambda: Policy(max_context_tokens=-1),
        lambda: Policy(max_context_tokens="32k"),  # type: ignore[arg-type]
        lambda: Policy(history_pruning_max_tokens=-1),
        lambda: Policy(max_history_messages=-1),
        lambda: Policy(max_history_messages=2.5),  # type: ignore[arg-type]
        lambda: Policy(target_ratio=0),
        lambda: Policy(target_ratio=1.01),
        lambda: Policy(target_ratio=NAN),
        lambda: Policy(whole_share=0),
        lambda: Policy(whole_share=True),
        lambda: Policy(batch=0),
        lambda: Policy(image_tokens=-1),
        lambda: Policy(context_compact_ratio="0.9").budget(9_000),  # type: ignore[arg-type]
    ],
)
def test_a_number_that_cannot_be_used_is_refused_at_once(wrong: Callable[[], object]) -> None:
    with pytest.raises(ConfigError, match="must be "):
        wrong()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"budget": -5}, "budget"),
        ({"budget": 1.5}, "budget"),
        ({"budget": True}, "budget"),
        ({"budget": "32k"}, "budget"),
        ({"capacity": 0}, "capacity"),
        ({"capacity": "200k"}, "capacity"),
        ({"max_output": -1}, "max_output"),
        ({"policy": "nobodys"}, "nobodys"),
        ({"policy": Policy(rungs=("results", "nothing"))}, "nothing"),
        ({"dialect": "latin"}, "latin"),
    ],
)
def test_an_argument_that_cannot_be_used_is_refused_by_its_name(arguments: dict[str, Any], named: str) -> None:
    messages = [{"role": "user", "content": "Go"}]
    with pytest.raises(ConfigError, match=named):
        longturn.fit(messages, **arguments)
