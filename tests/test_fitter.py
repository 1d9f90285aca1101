"""`Fitter`: what it remembers between calls, what it learns from reports, and that it gives what `fit` gives."""

import copy
import json
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

import longturn
from longturn import ConfigError, ContextWindowExceeded, Fitter, TranscriptError, Window
from longturn.core.tokens import SIMPLE, Estimator
from tests.conversations import (
    DIALECTS,
    PLAIN,
    Answer,
    Result,
    Step,
    User,
    ask,
    chat,
    outline,
    reply,
    steps,
    turn,
    written,
)


def fitter(budget: int = 1_000, **more: Any) -> Fitter:
    return Fitter(**{"budget": budget, "policy": PLAIN, **more})


def scratch(messages: list[Any], budget: int = 1_000, **more: Any) -> Window:
    return longturn.fit(messages, **{"budget": budget, "policy": PLAIN, **more})


def long_chat() -> list[Step]:
    conversation: list[Step] = []
    for number in range(12):
        conversation += [ask(f"ask {number} "), *steps(10 * number, 10 * number + number % 4), reply(f"say {number} ")]
    return conversation


# --- append-only lists ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_growing_list_gives_what_fit_gives_b35(dialect: str) -> None:
    """B35: however it grows, one message at a time or several."""
    messages = written(dialect, long_chat())
    for stride in (1, 3, 7):
        growing = fitter(dialect=dialect)
        for stop in range(1, len(messages) + 1, stride):
            one, other = growing.fit(messages[:stop]), scratch(messages[:stop], dialect=dialect)
            assert (one.messages, one.tokens, one.edits) == (other.messages, other.tokens, other.edits)


@pytest.mark.parametrize(
    "changed",
    [
        lambda messages: messages[:10],
        lambda messages: [],
        lambda messages: [{"role": "user", "content": "Another beginning."}, *messages[1:]],
        lambda messages: [*messages[:-1], {"role": "user", "content": "Another end."}],
        lambda messages: [{"role": "system", "content": "Be brief."}, *messages],
        lambda messages: messages[4:],
        lambda messages: chat([User("Something else.")]) * 40,
    ],
    ids=["shorter", "empty", "first", "seam", "prepended", "beheaded", "other"],
)
def test_a_list_that_is_not_the_last_one_continued_is_folded_from_scratch_b35(changed: Any) -> None:
    messages = chat(long_chat())
    remembering = fitter()
    remembering.fit(messages)
    other = changed(messages)
    assert remembering.fit(other).messages == scratch(other).messages
    assert remembering.fit(messages).messages == scratch(messages).messages


@pytest.mark.parametrize(("check", "sees"), [("full", True), ("seam", False)])
def test_a_change_in_the_middle_is_seen_by_the_full_check_b35(check: Any, sees: bool) -> None:
    messages = chat([ask("Go "), *steps(1, 3)])
    remembering = fitter(check=check)
    remembering.fit(messages)
    messages[2] = {**messages[2], "content": "Another result."}
    assert ("c1: Another result." in outline(remembering.fit(messages))) == sees


def test_the_callers_own_list_may_grow_in_place_b35() -> None:
    messages = chat(long_chat())
    growing, remembering = messages[:1], fitter()
    for message in messages[1:]:
        growing.append(message)
        assert remembering.fit(growing).messages == scratch(growing).messages


def test_equal_copies_of_the_messages_are_the_same_list_b35() -> None:
    """B35: callers rebuild their lists from a database at each call."""
    messages = chat(long_chat())
    remembering = fitter(check="full")
    for stop in range(1, len(messages) + 1):
        window = remembering.fit(copy.deepcopy(messages[:stop]))
    assert window.messages == scratch(messages).messages


def test_a_window_of_a_fitter_stays_as_it_was_when_the_next_is_made_b35() -> None:
    messages = chat(long_chat())
    remembering = fitter()
    kept: list[tuple[list[Any], list[Any]]] = []
    for stop in range(1, len(messages) + 1):
        window = remembering.fit(messages[:stop]).messages
        kept.append((window, list(window)))
    assert all(window == then for window, then in kept)


def test_system_and_tools_may_be_given_once_or_at_each_call_b7() -> None:
    messages = written("anthropic", [ask("Go ")])
    tools = [{"name": "read", "description": "Reads.", "input_schema": {"type": "object"}}]
    wanted = scratch(messages, system="Be brief.", tools=tools, dialect="anthropic").tokens
    assert fitter(system="Be brief.", tools=tools, dialect="anthropic").fit(messages).tokens == wanted
    later = fitter(dialect="anthropic")
    assert later.fit(messages).tokens < wanted
    assert later.fit(messages, system="Be brief.", tools=tools).tokens == wanted


@pytest.mark.parametrize("messages", [{"messages": []}, "Go", b"Go", 7, None])
def test_what_is_no_list_of_messages_is_refused_in_words_b35(messages: Any) -> None:
    with pytest.raises(TranscriptError, match="messages must be a list"):
        fitter().fit(messages)


def test_an_unknown_check_is_refused_b35() -> None:
    with pytest.raises(ConfigError, match="check"):
        fitter(check="none")


def test_a_tuple_of_messages_is_as_good_as_a_list_b35() -> None:
    messages = chat(long_chat())
    assert fitter().fit(tuple(messages)).messages == scratch(messages).messages


# --- the dialect ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_dialect_is_judged_on_the_whole_list_b29(dialect: str) -> None:
    """B29: one user message tells nothing yet; what follows does."""
    conversation = [ask("Go "), *steps(1, 12)]
    messages = written(dialect, conversation)
    growing = fitter()
    for stop in range(1, len(messages) + 1):
        window = growing.fit(messages[:stop])
    assert window.dialect == dialect
    assert window.messages == scratch(messages, dialect=dialect).messages


def test_a_new_verdict_refolds_b29() -> None:
    """B29: what looked like OpenAI's chat is Anthropic's when a tool_use comes; equal to a fold from scratch."""
    messages = written("anthropic", [each for number in range(12) for each in turn(str(number))])
    growing = fitter()
    assert growing.fit(messages).dialect == "openai_chat"
    messages += written("anthropic", [ask("Last "), *steps(1, 2)])
    window = growing.fit(messages)
    assert window.dialect == "anthropic"
    assert window.messages == scratch(messages, dialect="anthropic").messages


@pytest.mark.parametrize(
    ("model", "dialect"),
    [("anthropic:claude-sonnet-4-5", "anthropic"), ("openai:gpt-5", "openai_chat"), (None, "openai_chat")],
)
def test_the_provider_of_the_model_decides_where_the_messages_do_not_b29(model: str | None, dialect: str) -> None:
    messages = [{"role": "user", "content": "Go"}, {"role": "assistant", "content": "Yes."}]
    assert longturn.fit(messages, model=model).dialect == dialect


def test_what_the_messages_say_overrides_the_provider_b29() -> None:
    """B29: OpenAI's format is spoken to Claude by many routers."""
    messages = chat([ask("Go "), *steps(1, 1)])
    assert longturn.fit(messages, model="anthropic:claude-sonnet-4-5").dialect == "openai_chat"


# --- reports -------------------------------------------------------------------------------------------------------

REPORTS = [
    {"prompt_tokens": 300, "completion_tokens": 20, "prompt_tokens_details": {"cached_tokens": 100}},
    {"input_tokens": 300, "output_tokens": 20, "input_tokens_details": {"cached_tokens": 100}},
    {"input_tokens": 150, "output_tokens": 20, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 50},
    {"promptTokenCount": 300, "candidatesTokenCount": 20, "cachedContentTokenCount": 100},
    SimpleNamespace(input_tokens=300, output_tokens=20, input_tokens_details=SimpleNamespace(cached_tokens=100)),
]


@pytest.mark.parametrize("reported", REPORTS, ids=["chat", "responses", "anthropic", "gemini", "object"])
def test_a_report_of_any_provider_is_taken_in_l15(reported: Any) -> None:
    """L15: Anthropic's input tokens leave out what was cached; all others' include it."""
    remembering = fitter(budget=5_000)
    window = remembering.fit(chat([ask("Go ", 200)]))
    remembering.observe(reported)
    spent = remembering.meter.spend.total
    assert (spent.calls, spent.input_tokens, spent.output_tokens, spent.cached_tokens) == (1, 300, 20, 100)
    assert remembering.meter.snapshot == window.snapshot
    taken = window.snapshot
    assert (taken.used, taken.budget, taken.capacity, taken.factor) == (window.tokens, 5_000, None, 1.0)
    assert remembering.meter.factor == 1.5


def test_a_meter_adds_up_the_reports_l15() -> None:
    remembering = fitter(budget=5_000, capacity=8_000, max_output=0)
    messages = chat([ask("Go ", 200)])
    for number in range(3):
        remembering.fit(messages)
        remembering.observe({"input_tokens": 200, "output_tokens": 10})
        messages += chat([reply(f"say {number} "), ask(f"ask {number} ")])
    spent = remembering.meter.spend.total
    assert (spent.calls, spent.input_tokens, spent.output_tokens) == (3, 600, 30)
    assert remembering.meter.snapshot is not None
    assert (remembering.meter.snapshot.window, remembering.meter.snapshot.capacity) == (8_000, 8_000)


@pytest.mark.parametrize(
    ("reported", "factor"),
    [(200, 1.0), (300, 1.5), (20, 0.5), (100, 0.5), (5_000, 5.0), (203, 1.0), (210, 1.0625), (1, 0.5)],
)
def test_a_factor_is_kept_in_its_bounds_and_rounded_to_a_sixteenth_l15(reported: int, factor: float) -> None:
    """L15, B5: of exactly the request that was fitted last, 200 estimated tokens."""
    remembering = fitter(budget=5_000)
    remembering.fit(chat([ask("Go ", 200)]))
    remembering.observe({"input_tokens": reported})
    assert remembering.meter.factor == factor


def test_later_comparisons_are_scaled_l15() -> None:
    """L15: the provider counts twice as many, so half as many of ours are the limit."""
    messages = chat([ask("Go ", 100), *steps(1, 4)])
    remembering = fitter()
    remembering.observe({"input_tokens": 2 * remembering.fit(messages).tokens})
    messages += chat(steps(5, 5))
    window = remembering.fit(messages)
    assert not scratch(messages).changed
    assert window.changed
    assert window.tokens * 2 <= 1_000


def test_a_calibration_never_undoes_a_decision_l15() -> None:
    """L15, L9: what was cleared and cut stays so, though the provider counts half as many."""
    messages = chat([ask("Go ", 100), *steps(1, 12)])
    remembering = fitter()
    before = remembering.fit(messages)
    remembering.observe({"input_tokens": before.tokens // 2})
    messages += chat([reply("Done. "), ask("And? ")])
    after = remembering.fit(messages)
    assert after.messages[: len(before.messages)] == before.messages


def test_reports_of_one_route_leave_another_alone_l15() -> None:
    """L15, B5: per route."""
    messages = chat([ask("Go ", 100), *steps(1, 4)])
    one, other = fitter(), fitter()
    for each in (one, other):
        each.fit(messages)
    one.observe({"input_tokens": 2_000})
    messages += chat(steps(5, 5))
    assert one.fit(messages).changed
    assert not other.fit(messages).changed


def test_a_report_before_any_window_or_without_tokens_is_refused_l15() -> None:
    with pytest.raises(ConfigError, match="fit"):
        fitter().observe({"input_tokens": 5})
    remembering = fitter()
    remembering.fit(chat([ask("Go ")]))
    for nothing in ({}, {"output_tokens": 5}, None, SimpleNamespace()):
        with pytest.raises(ConfigError, match="input tokens"):
            remembering.observe(nothing)


# --- dump and load -------------------------------------------------------------------------------------------------


def test_a_dump_is_json_without_any_text_of_the_messages_b35() -> None:
    remembering = fitter()
    remembering.fit(chat(long_chat()))
    dumped = json.dumps(remembering.dump())
    assert "ask 3" not in dumped
    assert "result" not in dumped
    assert fitter().load(json.loads(dumped)).fit(chat(long_chat())).messages == scratch(chat(long_chat())).messages


def test_a_loaded_fitter_measures_no_known_text_again_b35() -> None:
    """B35, L13, B6."""
    measured: Counter[str] = Counter()

    def measure(text: str) -> tuple[int, ...]:
        measured[text] += 1
        return SIMPLE.measure(text)

    policy = replace(PLAIN, estimator=Estimator("counting", measure, SIMPLE.tokens))
    messages = chat(long_chat())
    first = fitter(policy=policy)
    window = first.fit(messages)
    measured.clear()
    loaded = fitter(policy=policy).load(first.dump())
    assert loaded.fit(messages).messages == window.messages
    assert [text for text in measured if any(message["content"] == text for message in messages)] == []


def test_a_loaded_fitter_goes_on_with_what_was_learnt_b35() -> None:
    """B35, L15: the windows of both are the same from then on."""
    messages = chat([ask("Go ", 100), *steps(1, 4)])
    first = fitter()
    first.observe({"input_tokens": 2 * first.fit(messages).tokens})
    second = fitter().load(first.dump())
    for number in range(5, 20):
        messages += chat(steps(number, number))
        assert second.fit(messages).messages == first.fit(messages).messages


@pytest.mark.parametrize(
    "broken", [{"version": 99}, {"estimator": "other"}, {"factors": None}, {"measured": 3}, {"version": None}]
)
def test_a_dump_of_another_kind_is_refused_b35(broken: dict[str, Any]) -> None:
    remembering = fitter()
    remembering.fit(chat([ask("Go ")]))
    with pytest.raises(ConfigError, match="dump"):
        fitter().load({**remembering.dump(), **broken})


def test_a_refused_request_can_be_followed_by_a_report_on_the_one_before_b35() -> None:
    """B35, H18: a refusal is no window, so a report is on the last that was."""
    remembering = fitter(capacity=1_000, max_output=0)
    messages = chat([ask("Go ", 200)])
    remembering.fit(messages)
    with pytest.raises(ContextWindowExceeded):
        remembering.fit([*messages, *chat([Answer(calls=("a",)), Result("a", "x" * 40_000)])])
    remembering.observe({"input_tokens": 300})
    assert remembering.meter.factor == 1.5


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_note_that_the_caller_hands_back_late_is_the_callers_own_b35(dialect: str) -> None:
    """B35, B18: the window holds the caller's object, as from scratch, not the one that was made before."""
    policy = replace(PLAIN, max_history_messages=1)
    remembering = fitter(policy=policy, dialect=dialect)
    messages = written(dialect, [User("One"), User("Two"), User("Three")])
    assert outline(remembering.fit(messages)) == ["One", "NOTE", "Three"]
    messages += written(dialect, [User(longturn.NOTE)])
    assert remembering.fit(messages).messages == scratch(messages, policy=policy, dialect=dialect).messages
