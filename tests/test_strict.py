"""The model of a provider that binds thinking to its conversation (B26)."""

import copy
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from longturn.core.edits import cleared, without_thinking
from longturn.core.messages import Message
from longturn.core.texts import CLEARED
from longturn.dialects.anthropic import DIALECT
from longturn.strict import StrictAnthropic, sign

PROVIDER = StrictAnthropic()
CALL = {"type": "tool_use", "id": "t", "name": "read_file", "input": {"path": "a"}}


def request(messages: list[Any], system: str = "Be brief.", tools: tuple[Any, ...] = ()) -> dict[str, Any]:
    return {"system": system, "tools": list(tools), "messages": list(messages)}


def blocks(number: int, *, thinks: int = 1) -> list[dict[str, Any]]:
    plans = [{"type": "thinking", "thinking": f"plan {number}.{n}"} for n in range(thinks)]
    return [*plans, {**CALL, "id": f"t{number}"}]


def results(number: int) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"t{number}", "content": "x" * 50}]}


def run(rounds: int, messages: list[Any], start: int = 0) -> list[Any]:
    """`messages` and so many answers of the provider, each with its result."""
    grown = list(messages)
    for number in range(start, start + rounds):
        grown += [PROVIDER.answer(request(grown), blocks(number)), results(number)]
    return grown


OPENER = {"role": "user", "content": "Go"}


def invalid(messages: list[Any], **more: Any) -> list[str]:
    return [
        refusal.partition(": ")[0] for refusal in PROVIDER.check(request(messages, **more)) if "signature" in refusal
    ]


def test_an_untouched_conversation_is_always_answered_b26() -> None:
    assert PROVIDER.check(request(run(6, [OPENER]))) == []


def test_a_change_invalidates_all_thinking_behind_it_that_was_made_before_b23() -> None:
    messages = run(4, [OPENER])
    messages[4] = {"role": "user", "content": [{**messages[4]["content"][0], "content": CLEARED}]}
    assert invalid(messages) == ["messages[5].content[0]", "messages[7].content[0]"]


def test_thinking_made_after_a_change_is_valid_b23() -> None:
    """The rule that B23 rests on: take out all thinking behind the change, and later blocks stand."""
    messages = run(4, [OPENER])
    messages[4] = {"role": "user", "content": [{**messages[4]["content"][0], "content": CLEARED}]}
    shaped = [*messages[:5], *map(bare, messages[5:])]
    assert PROVIDER.check(request(shaped)) == []
    assert PROVIDER.check(request(run(3, shaped, start=4))) == []


def bare(message: dict[str, Any]) -> dict[str, Any]:
    if message["role"] != "assistant":
        return message
    return {**message, "content": [block for block in message["content"] if block["type"] != "thinking"]}


def test_a_changed_system_prompt_or_tool_invalidates_all_thinking_b23() -> None:
    messages = run(2, [OPENER])
    both = ["messages[1].content[0]", "messages[3].content[0]"]
    assert invalid(messages, system="Be long.") == both
    assert invalid(messages, tools=({"name": "f", "input_schema": {}},)) == both


def test_a_missing_thinking_block_invalidates_those_behind_it_b23() -> None:
    messages = run(3, [OPENER])
    messages[3] = bare(messages[3])
    assert invalid(messages) == ["messages[5].content[0]"]


def test_the_blocks_of_one_answer_are_bound_to_each_other_b23() -> None:
    content: Any = PROVIDER.answer(request([OPENER]), blocks(0, thinks=2))["content"]
    one, two, call = content
    signed = [OPENER, {"role": "assistant", "content": [one, two, call]}, results(0)]
    assert invalid(signed) == []
    for content in ([two, call], [two, one, call], [{**one, "thinking": "other"}, two, call]):
        assert invalid([OPENER, {"role": "assistant", "content": content}, results(0)]) != []


def test_leaving_out_the_last_thinking_block_of_all_is_no_change_for_the_others() -> None:
    messages = run(3, [OPENER])
    assert invalid([*messages[:5], bare(messages[5]), messages[6]]) == []


def test_redacted_thinking_is_bound_as_well_b23() -> None:
    content = sign(request([OPENER]), [{"type": "redacted_thinking"}, {**CALL, "id": "t0"}])
    messages = [OPENER, {"role": "assistant", "content": content}, results(0)]
    assert PROVIDER.check(request(messages)) == []
    assert invalid([{"role": "user", "content": "Stop"}, *messages[1:]]) == ["messages[1].content[0]"]


def test_cache_markers_are_not_compared() -> None:
    messages = copy.deepcopy(run(2, [OPENER]))
    messages[0] = {"role": "user", "content": [{"type": "text", "text": "Go", "cache_control": {"type": "ephemeral"}}]}
    messages[2]["content"][0]["cache_control"] = {"type": "ephemeral"}
    assert PROVIDER.check(request(messages)) == []


def test_what_the_dialect_calls_a_problem_is_refused_too() -> None:
    assert PROVIDER.check(request([OPENER, {"role": "assistant", "content": [CALL]}])) != []
    with pytest.raises(ValueError, match="has no tool_result"):
        PROVIDER.answer(request([OPENER, {"role": "assistant", "content": [CALL]}]), blocks(0))


def test_a_request_above_the_window_is_refused_with_both_numbers() -> None:
    small = StrictAnthropic(window=30, count=lambda asked: len(asked["messages"]) * 10)  # type: ignore[arg-type]
    assert small.check(request([OPENER])) == []
    assert small.check(request([OPENER] * 4)) == ["prompt is too long: 40 tokens > 30 maximum"]
    assert StrictAnthropic(window=10).check(request([{"role": "user", "content": "x" * 400}])) != []


@given(st.lists(st.booleans(), min_size=2, max_size=7), st.integers(0, 6))
def test_clearing_through_the_dialect_stays_valid_when_thinking_behind_it_goes(kept: list[bool], at: int) -> None:
    """B23, law 7: over a run in which each window is shaped and answered, in the dialect's own form."""
    assume(at < len(kept))
    raw: list[Any] = [OPENER]
    for number in range(len(kept)):
        window = DIALECT.render(shaped(read(raw), at, number))
        raw += [PROVIDER.answer(request(window), blocks(number, thinks=1 + kept[number])), results(number)]
    assert PROVIDER.check(request(DIALECT.render(shaped(read(raw), at, len(kept))))) == []
    if at + 1 < len(kept):
        half = [cleared(m, CLEARED) if place == 2 + 2 * at else m for place, m in enumerate(read(raw))]
        assert PROVIDER.check(request(DIALECT.render(half))) != []


def read(items: list[Any]) -> list[Message]:
    return [message for place, item in enumerate(items) for message in DIALECT.read(item, None, place)]


def shaped(messages: list[Message], at: int, border: int) -> list[Message]:
    """Once two rounds are there behind round `at`, its result is cleared and thinking made until then goes."""
    due = at + 2
    if border < due:
        return messages
    cut, made = 2 + 2 * at, 1 + 2 * due
    return [
        cleared(m, CLEARED) if place == cut else without_thinking(m) if cut < place < made else m
        for place, m in enumerate(messages)
    ]
