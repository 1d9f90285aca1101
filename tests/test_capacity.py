"""The capacity: what is refused before it is sent, what is not, and what the error says."""

import copy
import pickle
import re
from dataclasses import replace
from typing import Any

import pytest

import longturn
from longturn import ContextWindowExceeded, Fitter, LongturnError
from longturn.core.events import HistoryTrimmed
from tests.conversations import (
    CALL_TOKENS,
    NOTE_TOKENS,
    PLAIN,
    WHOLE_TURNS,
    Answer,
    Result,
    Step,
    System,
    ask,
    chat,
    outline,
    reply,
    sized,
    step,
    steps,
    turn,
    written,
)

TOOL = {"name": "search", "description": "d" * 8_000, "parameters": {"type": "object", "properties": {}}}
TOOLS = [{"type": "function", "function": TOOL}]


def refused(conversation: list[Step], **more: Any) -> ContextWindowExceeded:
    with pytest.raises(ContextWindowExceeded) as caught:
        longturn.fit(chat(conversation), **{"capacity": 1_000, "max_output": 0, "policy": PLAIN, **more})
    return caught.value


def test_a_newest_turn_above_the_budget_is_sent_where_the_window_takes_it_h17() -> None:
    conversation = [*turn("1", 200), ask("ask 2 ", 800)]
    window = longturn.fit(chat(conversation), budget=200, capacity=1_000, max_output=0, policy=PLAIN)
    assert outline(window) == ["ask 1", "NOTE", "ask 2"]
    assert window.tokens == 100 + NOTE_TOKENS + 800
    assert (window.budget, window.capacity) == (200, 1_000)


def test_a_request_above_the_window_is_refused_with_its_numbers_h18() -> None:
    error = refused([ask("Go ", 2_000)])
    assert isinstance(error, LongturnError)
    assert (error.estimated_tokens, error.capacity) == (2_000, 1_000)
    assert error.breakdown == {"system": 0, "tools": 0, "messages": 2_000, "images": 0}
    assert "2,000" in str(error)
    assert "1,000" in str(error)


LOOK = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}]}


@pytest.mark.parametrize(
    ("messages", "tools", "largest", "advice"),
    [
        (chat([ask("Go ")]), TOOLS, "tools", "fewer tools"),
        (chat([System(sized("Be brief. ", 2_000)), ask("Go ")]), None, "system", "system prompt"),
        (chat([ask("Go ", 2_000)]), None, "messages", "shorten"),
        ([LOOK, LOOK], None, "images", "fewer images"),
    ],
    ids=["tools", "system", "messages", "images"],
)
def test_the_error_says_which_part_is_large_and_what_would_help_h18(
    messages: list[Any], tools: Any, largest: str, advice: str
) -> None:
    """H18: everything that will be sent is counted; raising the budget cannot cure it, so it is not suggested."""
    with pytest.raises(ContextWindowExceeded) as caught:
        longturn.fit(messages, tools=tools, capacity=1_000, max_output=0, policy=PLAIN)
    error, text = caught.value, str(caught.value)
    assert set(error.breakdown) == {"system", "tools", "messages", "images"}
    assert sum(error.breakdown.values()) == error.estimated_tokens
    assert max(error.breakdown, key=lambda part: error.breakdown[part]) == largest
    assert re.search(rf"{largest} {error.breakdown[largest]:,}", text)
    assert advice in text
    assert "larger window" in text or "larger model" in text
    assert "budget" not in text


def test_everything_that_may_be_left_out_is_left_out_before_a_refusal_h18() -> None:
    conversation = [each for number in range(30) for each in turn(str(number))]
    window = longturn.fit(chat([*conversation, ask("Last ", 900)]), capacity=1_000, max_output=0, policy=PLAIN)
    assert outline(window) == ["ask 0", "NOTE", "Last"]


def test_tool_schemas_count_and_are_counted_only_when_they_are_sent_h18() -> None:
    messages = chat([ask("Go ")])
    assert longturn.fit(messages, capacity=1_000, max_output=0, policy=PLAIN).tokens == 20
    assert refused([ask("Go ")], tools=TOOLS).breakdown["tools"] > 2_000


def test_with_trimming_off_old_turns_are_dropped_only_as_far_as_the_window_demands_h19() -> None:
    """H19, H11: 1,250 tokens for a window of 1,000: three turns less make 979, and no lower target is gone to."""
    conversation = [each for number in range(1, 13) for each in turn(str(number))]
    messages = chat([*conversation, ask("ask 13 ", 50)])
    window = longturn.fit(messages, budget=0, capacity=1_000, max_output=0, policy=WHOLE_TURNS)
    assert outline(window)[:3] == ["ask 1", "NOTE", "ask 5"]
    assert window.tokens == 50 + NOTE_TOKENS + 800 + 50
    assert window.budget == 0
    assert [event.token_budget for event in window.events if isinstance(event, HistoryTrimmed)] == [0]


def test_with_trimming_off_and_the_window_unknown_nothing_is_dropped_h19() -> None:
    conversation = [each for number in range(1, 40) for each in turn(str(number), 5_000)]
    assert not longturn.fit(chat(conversation), budget=0, policy=PLAIN).changed


def test_with_trimming_off_the_window_still_refuses_h19() -> None:
    assert refused([ask("Go ", 2_000)], budget=0).estimated_tokens == 2_000


def test_an_unknown_window_refuses_nothing_h20() -> None:
    """H20: the stub of 32,000 is not the truth about the model."""
    window = longturn.fit(chat([ask("Go ", 500_000)]), policy=PLAIN)
    assert (window.tokens, window.capacity) == (500_000, None)


def test_strict_makes_the_operand_binding_h20() -> None:
    """H20, B11: on an estimate alone what is above 1.25 x 32,000 is refused."""
    strict = replace(PLAIN, strict=True)
    assert refused([ask("Go ", 40_100)], capacity=None, policy=strict).capacity == 32_000
    assert longturn.fit(chat([ask("Go ", 39_900)]), policy=strict).tokens == 39_900
    assert (
        refused([ask("Go ", 2_000)], capacity=None, policy=replace(strict, max_context_tokens=1_000)).capacity == 1_000
    )
    assert longturn.fit(chat([ask("Go ", 39_900)]), policy=strict, capacity=50_000, max_output=0).capacity == 50_000


def test_on_an_estimate_alone_what_may_fit_is_sent_b11() -> None:
    """B11: refused is what is above the capacity even when a quarter is taken off the estimate."""
    assert longturn.fit(chat([ask("Go ", 1_250)]), capacity=1_000, max_output=0, policy=PLAIN).tokens == 1_250
    assert refused([ask("Go ", 1_251)]).estimated_tokens == 1_251


@pytest.mark.parametrize(("reported", "refuses"), [(400, False), (500, False), (530, False), (560, True), (600, True)])
def test_with_recorded_usage_the_calibrated_figure_itself_decides_b11(reported: int, refuses: bool) -> None:
    """B11, L15: 500 estimated tokens were reported as so many; then 929 with the note is the least."""
    fitter = Fitter(capacity=1_000, budget=1_000, max_output=0, policy=PLAIN)
    messages = chat([ask("Go ", 500)])
    fitter.fit(messages)
    fitter.observe({"input_tokens": reported})
    messages += chat([reply("Yes "), ask("And? ", 900)])
    if refuses:
        with pytest.raises(ContextWindowExceeded):
            fitter.fit(messages)
    else:
        assert "And?" in outline(fitter.fit(messages))


def test_the_hard_check_takes_the_exact_sum_and_not_the_rounded_base_b7() -> None:
    """B7, B11, B16: 94 tokens of system are 124 for the size test of 1,000, but 994 in all fit."""
    fitter = Fitter(capacity=1_000, budget=1_000, max_output=0, policy=PLAIN, system="s" * 4 * 94, dialect="anthropic")
    messages = chat([ask("Go ", 300)])
    fitter.observe({"input_tokens": fitter.fit(messages).tokens})
    messages += chat([reply("Yes ", 50), ask("And? ", 550)])
    assert outline(fitter.fit(messages))[0] == "Go"


def test_no_cut_makes_a_window_larger_h18() -> None:
    """H18, B7, B16: 990 tokens fit in 1,000; cutting a round of 14 for a note of 29 would refuse them."""
    fitter = Fitter(capacity=1_000, budget=1_000, max_output=0, policy=PLAIN, system="s" * 4 * 94, dialect="anthropic")
    start: list[Step] = [ask("Go ", 700), Answer(calls=("tiny",)), Result("tiny", "ok" * 8)]
    fitter.observe({"input_tokens": fitter.fit(written("anthropic", start)).tokens})
    messages = written("anthropic", [*start, *step("new", 176)])
    window = fitter.fit(messages)
    assert window.tokens == 94 + 700 + 2 * CALL_TOKENS + 8 + 176


def test_input_and_output_together_must_fit_b10() -> None:
    assert longturn.fit(chat([ask("Go ", 700)]), capacity=1_000, max_output=300, policy=PLAIN).capacity == 700
    assert refused([ask("Go ", 900)], max_output=300).capacity == 700
    conversation = [*turn("1", 400), ask("ask 2 ", 400)]
    window = longturn.fit(chat(conversation), budget=900, capacity=1_000, max_output=300, policy=PLAIN)
    assert outline(window) == ["ask 1", "NOTE", "ask 2"]
    assert window.tokens <= 700


def test_a_large_output_limit_is_named_in_the_error_b10() -> None:
    text = str(refused([ask("Go ", 900)], max_output=500))
    assert "500" in text
    assert "output" in text


def test_an_output_limit_larger_than_the_window_is_refused_in_our_own_words_b10() -> None:
    """B10: no room is left for any input, and no negative number is shown."""
    with pytest.raises(LongturnError) as caught:
        longturn.fit(chat([ask("Go ")]), capacity=1_000, max_output=2_000, policy=PLAIN)
    assert "output" in str(caught.value)
    assert "-" not in re.sub(r"[a-z]-[a-z]", "", str(caught.value))


def test_without_an_output_limit_room_for_an_answer_is_kept_b10() -> None:
    """B10: the model's own limit, at most a quarter of the window."""
    window = longturn.fit(chat([ask("Go ")]), model="claude-sonnet-4-5")
    whole = longturn.fit(chat([ask("Go ")]), model="claude-sonnet-4-5", max_output=0).capacity
    assert whole
    assert window.capacity
    assert whole * 3 // 4 <= window.capacity < whole


def test_the_error_survives_a_pickle_and_a_copy_h18() -> None:
    error = refused([ask("Go ", 2_000)])
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(again) is ContextWindowExceeded
        assert str(again) == str(error)
        assert (again.estimated_tokens, again.capacity, again.breakdown) == (2_000, 1_000, error.breakdown)


def test_a_refusal_leaves_a_fitter_usable_h18() -> None:
    """H18, B35: the next list, which fits, is answered as from scratch."""
    fitter = Fitter(capacity=1_000, max_output=0, policy=PLAIN)
    messages = chat([ask("Go "), *steps(1, 3)])
    fitter.fit(messages)
    with pytest.raises(ContextWindowExceeded):
        fitter.fit([*messages, *chat([ask("And? ", 5_000)])])
    shorter = [*messages, *chat([ask("And? ", 50)])]
    assert fitter.fit(shorter).messages == longturn.fit(shorter, capacity=1_000, max_output=0, policy=PLAIN).messages
