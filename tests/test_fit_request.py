"""`fit_request`: what is taken from a request body, what is given back, and what is left to the provider's server."""

import copy
from typing import Any

import pytest

import longturn
from longturn import ContextWindowExceeded, TranscriptError
from longturn.testing import validate
from tests.conversations import DIALECTS, PLAIN, Step, System, ask, chat, outline, reply, steps, turn, written

KEYS = {"openai_chat": "messages", "openai_responses": "input", "anthropic": "messages", "gemini": "contents"}
OUTPUT: dict[str, dict[str, Any]] = {
    "openai_chat": {"max_completion_tokens": 300},
    "openai_responses": {"max_output_tokens": 300},
    "anthropic": {"max_tokens": 300},
    "gemini": {"generationConfig": {"maxOutputTokens": 300}},
}
SYSTEM_TEXT = "s" * 400
"""100 tokens."""
SYSTEM: dict[str, dict[str, Any]] = {
    "openai_responses": {"instructions": SYSTEM_TEXT},
    "anthropic": {"system": SYSTEM_TEXT},
    "gemini": {"systemInstruction": {"parts": [{"text": SYSTEM_TEXT}]}},
}
PARAMETERS = {"type": "object", "properties": {"path": {"type": "string"}}}
READ = {"name": "read", "description": "d" * 400}
TOOLS: dict[str, list[Any]] = {
    "openai_chat": [{"type": "function", "function": {**READ, "parameters": PARAMETERS}}],
    "openai_responses": [{"type": "function", **READ, "parameters": PARAMETERS}],
    "anthropic": [{**READ, "input_schema": PARAMETERS}],
    "gemini": [{"functionDeclarations": [{**READ, "parameters": PARAMETERS}]}],
}
every_dialect = pytest.mark.parametrize("dialect", DIALECTS)


def body_of(dialect: str, conversation: list[Step], **more: Any) -> dict[str, Any]:
    return {"temperature": 0.5, KEYS[dialect]: written(dialect, conversation), **more}


def long_turn() -> list[Step]:
    return [ask("Go ", 100), *steps(1, 30, 200)]


@every_dialect
def test_an_unchanged_body_is_the_very_same_object_h7(dialect: str) -> None:
    body = body_of(dialect, [ask("Go "), *steps(1, 3)])
    window = longturn.fit_request(body, policy=PLAIN)
    assert window.body is body
    assert window.dialect == dialect
    assert not window.changed


@every_dialect
def test_a_shaped_body_is_a_copy_with_other_messages_and_nothing_else_changed_h1(dialect: str) -> None:
    body = body_of(dialect, long_turn(), tools=TOOLS[dialect], metadata={"user": "u1"}, **OUTPUT[dialect])
    before = copy.deepcopy(body)
    window = longturn.fit_request(body, budget=1_500, policy=PLAIN)
    assert window.body is not None
    assert body == before
    assert window.changed
    assert {key: value for key, value in window.body.items() if key != KEYS[dialect]} == {
        key: value for key, value in body.items() if key != KEYS[dialect]
    }
    assert window.body[KEYS[dialect]] == window.messages
    assert window.body["metadata"] is body["metadata"]
    assert validate(window.messages, dialect) == []


@every_dialect
def test_a_request_gives_the_window_of_its_messages_h2(dialect: str) -> None:
    body = body_of(dialect, long_turn())
    window = longturn.fit_request(body, budget=1_000, policy=PLAIN)
    assert window.messages == longturn.fit(body[KEYS[dialect]], budget=1_000, policy=PLAIN, dialect=dialect).messages


@every_dialect
def test_the_output_limit_is_taken_from_the_body_b10(dialect: str) -> None:
    body = body_of(dialect, [ask("Go ")], **OUTPUT[dialect])
    assert longturn.fit_request(body, capacity=1_000, policy=PLAIN).capacity == 700
    assert longturn.fit_request(body, capacity=1_000, max_output=100, policy=PLAIN).capacity == 900
    assert longturn.fit_request(body, capacity=1_000, max_output=0, policy=PLAIN).capacity == 1_000


def test_the_older_name_of_openais_output_limit_counts_too_b10() -> None:
    assert longturn.fit_request(body_of("openai_chat", [ask("Go ")], max_tokens=400), capacity=1_000).capacity == 600


@pytest.mark.parametrize("dialect", list(SYSTEM))
def test_the_system_prompt_is_taken_from_the_body_b7(dialect: str) -> None:
    without, with_it = body_of(dialect, [ask("Go ")]), body_of(dialect, [ask("Go ")], **SYSTEM[dialect])
    plain = longturn.fit_request(without, policy=PLAIN)
    window = longturn.fit_request(with_it, policy=PLAIN)
    assert 100 <= window.tokens - plain.tokens <= 104
    assert window.body is with_it
    assert longturn.fit_request(with_it, policy=PLAIN, system="s" * 80).tokens < plain.tokens + 30


@every_dialect
def test_the_tools_are_taken_from_the_body_h23(dialect: str) -> None:
    body = body_of(dialect, [ask("Go ")])
    plain = longturn.fit_request(body, policy=PLAIN).tokens
    with_tools = {**body, "tools": TOOLS[dialect]}
    window = longturn.fit_request(with_tools, policy=PLAIN)
    assert window.tokens > plain + 100
    assert window.tokens == longturn.fit_request(body, policy=PLAIN, tools=TOOLS[dialect]).tokens
    with pytest.raises(ContextWindowExceeded) as caught:
        longturn.fit_request(with_tools, capacity=50, max_output=0, policy=PLAIN)
    assert caught.value.breakdown["tools"] > 100


def test_the_model_is_taken_from_the_body_h15() -> None:
    """H15, B29: its window, and the provider's format where the messages could be several."""
    body = body_of("openai_chat", [ask("Go ")], model="gpt-4o")
    known = longturn.fit(body["messages"], model="gpt-4o")
    assert known.capacity
    assert longturn.fit_request(body).capacity == known.capacity
    assert longturn.fit_request(body, model="claude-nobody-knows").capacity is None
    anthropic = longturn.fit_request({**body, "model": "claude-sonnet-4-5", "max_tokens": 1_000, "system": "Be brief."})
    assert anthropic.dialect == "anthropic"


def test_a_bare_input_of_responses_is_one_user_message_b29() -> None:
    body = {"model": "gpt-nobody", "input": "Read every chapter."}
    window = longturn.fit_request(body, policy=PLAIN)
    assert window.body is body
    assert window.dialect == "openai_responses"
    assert outline(window) == ["Read every chapter."]


def test_a_bare_text_of_gemini_is_one_user_message_b29() -> None:
    body = {"model": "gemini-nobody", "contents": "Read every chapter."}
    window = longturn.fit_request(body, policy=PLAIN)
    assert (window.dialect, outline(window)) == ("gemini", ["Read every chapter."])
    assert window.body is body


def test_the_nested_configuration_of_google_genai_is_read_too_h23() -> None:
    """H23, B7, B10: what `generate_content` takes under `config` counts like the fields of the wire."""
    contents = written("gemini", [ask("Go ")])
    tools = [{"function_declarations": [{**READ, "parameters": PARAMETERS}]}]
    wire: dict[str, Any] = {"contents": contents, "tools": TOOLS["gemini"], **SYSTEM["gemini"], **OUTPUT["gemini"]}
    config = {"system_instruction": SYSTEM_TEXT, "tools": tools, "max_output_tokens": 300}
    nested = {"contents": contents, "config": config}
    one, other = (longturn.fit_request(body, capacity=2_000, policy=PLAIN) for body in (wire, nested))
    assert (one.tokens, one.capacity) == (other.tokens, other.capacity)
    assert other.capacity == 1_700
    assert other.body is nested
    shaped = longturn.fit_request(
        {"contents": written("gemini", long_turn()), "config": config}, capacity=2_000, policy=PLAIN
    )
    assert shaped.body is not None
    assert shaped.changed
    assert shaped.body["config"] is config


# --- what the server was asked to do (providers.md) ----------------------------------------------------------------


def test_clearing_that_the_request_asks_of_anthropic_is_left_to_it_l1() -> None:
    """L1, B15: no double clearing; dropping is still ours."""
    asked = {"edits": [{"type": "clear_tool_uses_20250919"}]}
    body = body_of("anthropic", long_turn(), max_tokens=100, context_management=asked)
    window = longturn.fit_request(body, budget=1_000, policy=PLAIN)
    assert {edit.kind for edit in window.edits} == {"left_out"}
    assert "NOTE" in outline(window)
    plain = longturn.fit_request({**body, "context_management": None}, budget=1_000, policy=PLAIN)
    assert "cleared" in {edit.kind for edit in plain.edits}


def test_clearing_of_thinking_alone_leaves_results_to_us_l1() -> None:
    asked = {"edits": [{"type": "clear_thinking_20251015"}]}
    body = body_of("anthropic", [ask("Go ", 100), *steps(1, 5, 200)], max_tokens=100, context_management=asked)
    assert {edit.kind for edit in longturn.fit_request(body, budget=1_000, policy=PLAIN).edits} == {"cleared"}


@pytest.mark.parametrize(
    "asked",
    [{"truncation": "auto"}, {"context_management": [{"type": "compaction", "compact_threshold": 900}]}],
    ids=["truncation", "compaction"],
)
def test_truncation_that_the_request_asks_of_openai_is_left_to_it_l5(asked: dict[str, Any]) -> None:
    body = body_of("openai_responses", long_turn(), **asked)
    window = longturn.fit_request(body, budget=1_000, policy=PLAIN)
    assert window.body is body
    assert window.edits == ()


def test_truncation_that_is_switched_off_is_left_to_nobody_l5() -> None:
    body = body_of("openai_responses", long_turn(), truncation="disabled")
    assert longturn.fit_request(body, budget=1_000, policy=PLAIN).changed


def test_compaction_items_of_the_server_pass_through_untouched_h7() -> None:
    """H7: opaque items, and what `previous_response_id` stands for, are left alone."""
    item = {"type": "compaction", "id": "cmp_1", "encrypted_content": "e" * 360}
    messages = [item, *written("openai_responses", [ask("Go "), *steps(1, 2)])]
    body = {"input": messages, "previous_response_id": "resp_1"}
    window = longturn.fit_request(body, policy=PLAIN)
    assert window.body is body
    assert window.messages[0] is item


# --- what cannot be read -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body", [{}, {"model": "gpt-5"}, {"messages": 7}, {"input": 7}, {"contents": {}}, [], "Go", None]
)
def test_a_body_without_messages_is_refused_in_our_own_words_h29(body: Any) -> None:
    with pytest.raises(TranscriptError):
        longturn.fit_request(body)


def test_a_body_in_a_named_dialect_is_read_in_it_b29() -> None:
    body = {"messages": written("anthropic", [ask("Go "), reply("Yes ")])}
    assert longturn.fit_request(body).dialect == "openai_chat"
    assert longturn.fit_request(body, dialect="anthropic").dialect == "anthropic"
    with pytest.raises(TranscriptError, match="contents"):
        longturn.fit_request(body, dialect="gemini")


def test_what_fit_gives_has_no_body_h2() -> None:
    assert longturn.fit(chat([ask("Go ")])).body is None


@every_dialect
def test_a_body_is_shaped_again_to_itself_h9(dialect: str) -> None:
    """H9, law 3."""
    conversation = [*turn("1"), ask("ask 2 "), *steps(1, 30, 200)]
    first = longturn.fit_request(body_of(dialect, conversation), budget=1_000, policy=PLAIN)
    assert first.body is not None
    again = longturn.fit_request(first.body, budget=1_000, policy=PLAIN)
    assert again.body is first.body


def test_a_leading_system_message_of_openai_is_part_of_its_messages_h6() -> None:
    body = body_of("openai_chat", [System("Be brief."), *long_turn()])
    window = longturn.fit_request(body, budget=1_000, policy=PLAIN)
    assert window.messages[0] is body["messages"][0]
