"""Thinking in windows: what goes when something before it changed, what stays, and that a strict provider agrees."""

from dataclasses import replace
from typing import Any

import pytest

import longturn
from longturn import NOTE, Fitter, Window
from longturn.core.events import ResultsCleared, ThinkingDropped
from longturn.core.texts import EMPTY_ANSWER
from longturn.strict import StrictAnthropic
from longturn.testing import validate
from tests.conversations import CALL_TOKENS, CLEARED_TOKENS, NOTE_TOKENS, PLAIN, outline, sized

PROVIDER = StrictAnthropic()
OLDER = "claude-sonnet-4-5"
"""A model that binds thinking to the running turn only (B24)."""

Native = dict[str, Any]


def go(size: int = 100, tag: str = "Go ") -> Native:
    return {"role": "user", "content": sized(tag, size)}


def thought(size: int = 10) -> Native:
    """A signed thinking block of `size` tokens of text, and one for its signature of 18 characters."""
    return {"type": "thinking", "thinking": "t" * 4 * size, "signature": "s" * 18}


def use(call: str) -> Native:
    return {"type": "tool_use", "id": call, "name": "read", "input": {}}


def thinking_round(call: str, size: int, *thoughts: Native) -> list[Native]:
    """A round whose answer has those thoughts before its call; `size` tokens are the result's."""
    block = {"type": "tool_result", "tool_use_id": call, "content": sized(f"result {call} ", size)}
    return [{"role": "assistant", "content": [*thoughts, use(call)]}, {"role": "user", "content": [block]}]


def thinkers(window: Window) -> list[str]:
    """The calls whose answers still begin with thinking."""
    lines = outline(window)
    return [lines[place + 1].removeprefix("call ") for place, line in enumerate(lines[:-1]) if line == "thinking"]


# --- bound to all that came before (B23) ---------------------------------------------------------------------------


def preserved() -> list[Native]:
    """100, a small round, four rounds of 217: 1,025 tokens, over a budget of 1,000."""
    rounds = [thinking_round("c1", 40, thought()), *(thinking_round(f"c{n}", 200, thought()) for n in range(2, 6))]
    return [go(), *(message for round_ in rounds for message in round_)]


def test_a_clear_removes_the_thinking_behind_it_that_was_made_before_b23() -> None:
    """B23: the second result is the first that is cleared; the thinking before it stays, that of later calls goes."""
    window = longturn.fit(preserved(), budget=1_000, policy=PLAIN)
    assert [line for line in outline(window) if "CLEARED" in line] == ["c2: CLEARED", "c3: CLEARED", "c4: CLEARED"]
    assert thinkers(window) == ["c1", "c2"]
    assert (
        window.tokens == 100 + (11 + CALL_TOKENS + 40) + (11 + CALL_TOKENS) + 3 * CALL_TOKENS + 3 * CLEARED_TOKENS + 200
    )
    assert {edit.message for edit in window.edits if edit.kind == "thinking"} == {5, 7, 9}
    assert [type(event) for event in window.events if type(event) is not ResultsCleared] == [ThinkingDropped]


def test_thinking_made_after_a_change_stays_b23() -> None:
    messages = [*preserved(), *thinking_round("c6", 40, thought()), *thinking_round("c7", 40, thought())]
    window = longturn.fit(messages, budget=1_000, policy=PLAIN)
    assert thinkers(window) == ["c1", "c2", "c6", "c7"]
    assert window.messages[-1] is messages[-1]
    assert window.messages[-2] is messages[-2]


def test_what_the_removal_saves_counts_before_a_rung_is_judged_b23() -> None:
    """B23: 1,021 tokens; two results and two thoughts less are 487, under the target, so nothing is dropped."""
    messages = [go(), *(message for n in (1, 2, 3) for message in thinking_round(f"c{n}", 200, thought(100)))]
    window = longturn.fit(messages, budget=1_000, policy=PLAIN)
    assert NOTE not in str(window.messages)
    assert thinkers(window) == ["c1"]
    assert window.tokens == 100 + 101 + 3 * CALL_TOKENS + 2 * CLEARED_TOKENS + 200


def test_a_cut_removes_all_thinking_made_before_it_b23() -> None:
    rounds = [thinking_round(f"c{n}", 50, thought()) for n in range(20)]
    window = longturn.fit([go(), *(message for each in rounds for message in each)], budget=1_000, policy=PLAIN)
    assert outline(window)[:2] == ["Go", "NOTE"]
    kept = [f"c{n}" for n in range(20) if f"call c{n}" in outline(window)]
    lost = kept[: len(kept) - len(thinkers(window))]
    assert lost
    assert thinkers(window) == kept[len(lost) :]


def test_an_answer_left_empty_gets_a_short_constant_text_b23() -> None:
    """B23: thinking and redacted_thinking alike."""
    sealed = {"type": "redacted_thinking", "data": "d" * 36}
    messages = [go(), *thinking_round("c1", 700, thought()), {"role": "assistant", "content": [thought(), sealed]}]
    messages += [go(50, "More "), *thinking_round("c2", 300, thought())]
    window = longturn.fit(messages, budget=1_000, policy=PLAIN)
    assert f"assistant: {EMPTY_ANSWER}" in outline(window)
    assert "redacted_thinking" not in str(window.messages)
    assert validate(window.messages, "anthropic") == []


@pytest.mark.parametrize("model", [None, "claude-opus-5-5", "claude-fable-5-2"])
@pytest.mark.parametrize("size", [40, 200, 600])
def test_a_provider_that_binds_thinking_never_refuses_a_window_b23(model: str | None, size: int) -> None:
    """B23, B26, L9: fifty answers, each signed for the window that it was given; also when folded from scratch."""
    fitter = Fitter(model=model, budget=1_500, policy=PLAIN, dialect="anthropic")
    messages = [go()]
    dropped = 0
    for number in range(50):
        window = fitter.fit(messages)
        request = {"messages": window.messages}
        assert PROVIDER.check(request) == []
        dropped += sum(isinstance(event, ThinkingDropped) for event in window.events)
        blocks = [thought(5), use(f"c{number}")] if number % 4 else [use(f"c{number}")]
        messages.append(PROVIDER.answer(request, blocks))
        messages += thinking_round(f"c{number}", size)[1:]
        if number % 9 == 8:
            messages += [PROVIDER.answer({"messages": fitter.fit(messages).messages}, [thought(), *said("So.")])]
            messages += [go(60, f"ask {number} ")]
    assert dropped
    assert longturn.fit(messages, model=model, budget=1_500, policy=PLAIN).messages == fitter.fit(messages).messages


def said(text: str) -> list[Native]:
    return [{"type": "text", "text": text}]


@pytest.mark.parametrize("model", [OLDER, "gpt-5"])
def test_where_thinking_is_not_bound_a_clear_leaves_it_b24(model: str) -> None:
    """B23, B24."""
    window = longturn.fit(preserved(), budget=1_000, policy=PLAIN, model=model, dialect="anthropic")
    assert any("CLEARED" in line for line in outline(window))
    assert thinkers(window) == [f"c{n}" for n in range(1, 6)]


# --- bound to the running tool turn (B24) --------------------------------------------------------------------------


def sparse(thoughtful: set[int], rounds: int = 30) -> list[Native]:
    """One turn; so many of its answers begin with thinking."""
    made = [thinking_round(f"c{n}", 50, *([thought()] if n in thoughtful else [])) for n in range(rounds)]
    return [go(), *(message for each in made for message in each)]


def test_the_first_kept_round_of_a_running_tool_turn_starts_with_thinking_b24() -> None:
    """B24: a cut moves to the next newer round that does."""
    for rounds in range(14, 40):
        messages = sparse(set(range(0, 40, 3)), rounds)
        window = longturn.fit(messages, budget=1_000, policy=PLAIN, model=OLDER)
        if "NOTE" in outline(window):
            assert outline(window)[:3] == ["Go", "NOTE", "thinking"]
            assert int(thinkers(window)[0].removeprefix("c")) % 3 == 0
        assert window.messages[-1] is messages[-1]


def test_where_no_newer_round_starts_with_thinking_the_newest_older_one_is_kept_b24() -> None:
    """B24: before the cut, with its results cleared, and counted."""
    rounds = [thinking_round(f"c{n}", 100 if n == 1 else 50, *([thought()] if n < 2 else [])) for n in range(30)]
    window = longturn.fit([go(), *(m for each in rounds for m in each)], budget=1_000, policy=PLAIN, model=OLDER)
    assert outline(window)[:5] == ["Go", "NOTE", "thinking", "call c1", "c1: CLEARED"]
    kept = [line for line in outline(window)[5:] if line.startswith("call")]
    assert outline(window)[-1] == "c29: result c29"
    assert window.tokens == 100 + NOTE_TOKENS + 11 + CALL_TOKENS + CLEARED_TOKENS + len(kept) * (CALL_TOKENS + 50)
    assert window.tokens <= 1_000
    assert validate(window.messages, "anthropic") == []


def test_a_turn_without_any_thinking_is_cut_anywhere_b24() -> None:
    with_rule, without = (
        longturn.fit(sparse(set()), budget=1_000, policy=PLAIN, model=model, dialect="anthropic")
        for model in (OLDER, "gpt-5")
    )
    assert with_rule.messages == without.messages


def test_thinking_of_older_turns_binds_no_cut_b24() -> None:
    """B24: only while a tool turn runs; a cut at a turn's border stands where it fell."""
    messages: list[Native] = []
    for number in range(12):
        messages += [go(50, f"ask {number} "), {"role": "assistant", "content": [thought(), *said("Yes." * 30)]}]
    messages += [go(50, "ask 12 "), *thinking_round("c", 50)]
    window = longturn.fit(messages, budget=1_000, policy=PLAIN, model=OLDER)
    assert outline(window)[1] == "NOTE"
    assert outline(window)[2].startswith("ask")


# --- other providers (B25) -----------------------------------------------------------------------------------------


def reasoned(number: int, size: int = 50) -> list[Native]:
    """One answer of Responses: an opaque reasoning item of 20 tokens and two calls, and the outputs."""
    calls = [
        {"type": "function_call", "call_id": f"{letter}{number}", "name": "read", "arguments": "{}"} for letter in "ab"
    ]
    outputs = [
        {"type": "function_call_output", "call_id": call["call_id"], "output": sized(str(call["call_id"]), size)}
        for call in calls
    ]
    reasoning = {"type": "reasoning", "id": f"r{number}", "summary": [], "encrypted_content": "e" * 18 * 20}
    return [reasoning, *calls, *outputs]


def test_all_items_of_an_answer_stay_together_with_their_reasoning_b25() -> None:
    """B25, B1: the round is cut whole; a reasoning item never loses what it came with."""
    messages: list[Native] = [{"type": "message", "role": "user", "content": "Go"}]
    for number in range(30):
        messages += reasoned(number)
    window = longturn.fit(messages, budget=1_000, policy=PLAIN)
    assert (window.dialect, window.report.rounds) == ("openai_responses", 30)
    assert outline(window)[:2] == ["Go", "NOTE"]
    rest = outline(window)[2:]
    kinds = [line.split()[0] if line.startswith(("call", "thinking")) else "output" for line in rest]
    assert kinds == ["thinking", "call", "call", "output", "output"] * (len(rest) // 5)
    assert all(any(item is message for message in messages) for item in window.messages[2:])


def test_reasoning_stays_when_results_of_its_answer_are_cleared_b25() -> None:
    messages: list[Native] = [{"type": "message", "role": "user", "content": "Go"}]
    for number in range(3):
        messages += reasoned(number, 200)
    window = longturn.fit(messages, budget=1_200, policy=replace(PLAIN, target_ratio=0.6))
    assert outline(window).count("thinking") == 3
    assert any("CLEARED" in line for line in outline(window))


@pytest.mark.parametrize("characters", [18 * 100, 32_780])
def test_opaque_reasoning_counts_an_eighteenth_of_its_characters_b25(characters: int) -> None:
    """B25: 32,780 characters were 1,759 tokens; by this rule 1,821, never less."""
    go_ = {"type": "message", "role": "user", "content": "Go"}
    answer = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]}
    sealed = {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "e" * characters}
    without, with_it = (longturn.fit(each, policy=PLAIN).tokens for each in ([go_, answer], [go_, sealed, answer]))
    assert characters // 18 <= with_it - without <= characters // 18 + 1


def test_thought_signatures_stay_on_their_parts_b25() -> None:
    """B25: Gemini's signed parts are the caller's own in every window that holds them."""
    contents: list[Native] = [{"role": "user", "parts": [{"text": "Go"}]}]
    for number in range(12):
        call = {"functionCall": {"name": "read", "args": {"n": number}}, "thoughtSignature": f"signature{number}"}
        response = {"functionResponse": {"name": "read", "response": {"output": "x" * 800}}}
        contents += [{"role": "model", "parts": [call]}, {"role": "user", "parts": [response]}]
    window = longturn.fit(contents, budget=1_000, policy=PLAIN)
    assert window.changed
    models = [content for content in window.messages if content["role"] == "model"]  # type: ignore[index]
    assert models
    assert all(any(content is given for given in contents) for content in models)
    assert validate(window.messages, "gemini") == []


def test_signed_arguments_of_gemini_are_never_shortened_b15() -> None:
    """B15, B25: a signature covers them."""
    contents: list[Native] = [{"role": "user", "parts": [{"text": "Go"}]}]
    for number in range(4):
        call = {"functionCall": {"name": "write", "args": {"text": "x" * 2_000}}, "thoughtSignature": f"s{number}"}
        response = {"functionResponse": {"name": "write", "response": {"output": "y" * (1_600 if number == 3 else 8)}}}
        contents += [{"role": "model", "parts": [call]}, {"role": "user", "parts": [response]}]
    window = longturn.fit(contents, budget=2_000, policy=PLAIN)
    assert [edit for edit in window.edits if edit.kind == "arguments"] == []
