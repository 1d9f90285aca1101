"""What an inspection counts, in lists small enough to count by hand."""

import pytest

import longturn
from longturn.core.meter import Usage
from longturn.errors import ConfigError
from longturn.inspection import MIXED, combined, inspect

PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 9_000}}


def answer(name: str, tool: str, arguments: str = "{}") -> dict[str, object]:
    call = {"id": name, "type": "function", "function": {"name": tool, "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def result(name: str, text: str) -> dict[str, object]:
    return {"role": "tool", "tool_call_id": name, "content": text}


MESSAGES: list[object] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "What is this?"}, PICTURE]},
    answer("a", "look"),
    result("a", "a cat " * 50),
    answer("b", "read", '{"book": "cats"}'),
    result("b", "about cats " * 200),
    {"role": "assistant", "content": "A cat."},
    {"role": "user", "content": "Thanks."},
]
TOOL = {"type": "function", "function": {"name": "look", "description": "Look.", "parameters": {"type": "object"}}}


def test_every_token_is_counted_once_and_the_total_is_what_fit_counts() -> None:
    found = inspect(MESSAGES, tools=[TOOL])
    tokens = found.tokens
    parts = (tokens.system, tokens.tools, tokens.user, tokens.assistant, tokens.tool_calls, tokens.tool_results)
    assert tokens.total == sum(parts) + tokens.images
    assert tokens.total == longturn.fit(MESSAGES, tools=[TOOL]).tokens
    assert all(parts)
    assert (found.messages, found.turns, found.rounds) == (8, 2, 3)


def test_an_image_costs_its_fixed_price_and_its_bytes_nothing_h22() -> None:
    found = inspect(MESSAGES)
    assert found.tokens.images == 1_600
    assert found.tokens.user < 50


def test_calls_and_results_are_gathered_by_tool_the_largest_first() -> None:
    found = inspect(MESSAGES)
    assert [(use.name, use.calls, use.results) for use in found.by_tool] == [("read", 1, 1), ("look", 1, 1)]
    assert sum(use.result_tokens for use in found.by_tool) == found.tokens.tool_results


def test_the_largest_messages_are_named_by_place_kind_and_tool() -> None:
    first, second = inspect(MESSAGES).largest[:2]
    assert (first.message, first.kind) == (1, "user")
    assert (second.message, second.kind, second.tool) == (5, "tool_results", "read")
    assert second.begins.startswith("about cats about")


def test_what_is_broken_is_counted_as_it_is_and_named() -> None:
    found = inspect([{"role": "user", "content": "x"}, result("lost", "nobody asked")])
    assert [use.name for use in found.by_tool] == [""]
    assert found.tokens.tool_results > 0
    assert len(found.problems) == 1


def test_thinking_is_a_part_of_the_answers_tokens() -> None:
    thinking = {"type": "thinking", "thinking": "It has whiskers. " * 40, "signature": "s" * 180}
    messages = [
        {"role": "user", "content": "What is this?"},
        {"role": "assistant", "content": [thinking, {"type": "text", "text": "A cat."}]},
    ]
    found = inspect(messages)
    assert found.dialect == "anthropic"
    assert 100 < found.thinking < found.tokens.assistant


def test_reported_usage_stands_beside_our_count_of_the_same_call() -> None:
    usage = {4: Usage(500, 20, 300), 6: Usage(900, 10)}
    seen = inspect(MESSAGES, usage=usage).reported
    assert seen is not None
    assert (seen.calls, seen.input_tokens, seen.cached_tokens, seen.output_tokens) == (2, 1_400, 300, 30)
    assert seen.largest_input == 900
    assert seen.estimated_input == longturn.fit(MESSAGES[:6]).tokens


def test_what_was_compacted_away_is_not_counted_for_a_later_call() -> None:
    usage = {6: Usage(900, 10)}
    whole, cut = (inspect(MESSAGES, usage=usage, boundaries=places).reported for places in ((), (4,)))
    assert whole is not None
    assert cut is not None
    assert cut.estimated_input < whole.estimated_input


def test_several_conversations_add_up_and_keep_the_number_of_their_run() -> None:
    first, second = inspect(MESSAGES), inspect([{"role": "user", "parts": [{"text": "hi"}]}], model="gemini-2.5-pro")
    both = combined([first, second, inspect([result("lost", "x")])])
    assert both.dialect == MIXED
    assert both.tokens.total == first.tokens.total + second.tokens.total + 5
    assert both.largest[0].run == 1
    assert both.problems[0].startswith("run 3: ")


def test_an_empty_list_holds_nothing_and_an_unknown_dialect_is_refused() -> None:
    assert inspect([]).tokens.total == 0
    with pytest.raises(ConfigError):
        inspect([], dialect="morse")
