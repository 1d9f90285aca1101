"""The checks that users run on their own dialect: each promise, broken on purpose, is found and named."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from longturn.core.messages import Message, Text, user
from longturn.dialects.base import Dialect
from longturn.dialects.openai_chat import DIALECT
from longturn.dialects.registry import DIALECTS, by_name
from longturn.errors import ConfigError
from longturn.testing import check_dialect, validate

ASKED = {"role": "user", "content": "go"}
CALLED = {
    "role": "assistant",
    "content": None,
    "reasoning": "Hm.",
    "tool_calls": [{"id": "a", "type": "function", "function": {"name": "read", "arguments": '{"path": "a.py"}'}}],
}
ANSWERED = {"role": "tool", "tool_call_id": "a", "content": "12 lines"}
EXAMPLE: list[Any] = [{"role": "system", "content": "Be brief."}, ASKED, CALLED, ANSWERED, ASKED]

Render = Callable[[Sequence[Message]], list[object]]


def test_a_list_is_judged_by_a_dialect_or_by_its_name() -> None:
    """Law 7: valid in, valid out is said in these terms."""
    assert validate(EXAMPLE, "openai_chat") == validate(EXAMPLE, DIALECT) == []
    (problem,) = validate(EXAMPLE[:-2], "openai_chat")
    assert problem == "messages[2]: the call 'a' is not answered by the messages that follow"


def test_an_unknown_dialect_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="no dialect is called 'cohere': use one of openai_chat, openai_responses"):
        validate(EXAMPLE, "cohere")


def test_every_shipped_dialect_is_found_by_its_own_name() -> None:
    assert [by_name(dialect.name) for dialect in DIALECTS] == list(DIALECTS)


def test_a_dialect_that_keeps_its_promises_passes_in_silence() -> None:
    check_dialect(DIALECT, [EXAMPLE, []])


def copies(messages: Sequence[Message]) -> list[object]:
    return [dict(item) for item in DIALECT.render(messages)]  # type: ignore[call-overload]


def without_notes(messages: Sequence[Message]) -> list[object]:
    return DIALECT.render([message for message in messages if message.source or message.role != "user"])


def without_edits(messages: Sequence[Message]) -> list[object]:
    return DIALECT.render([replace(message, edited=False) for message in messages if message.source])


def changing(messages: Sequence[Message]) -> list[object]:
    for message in messages:
        if message.edited and isinstance(message.source, dict):
            message.source["content"] = "changed"
    return DIALECT.render(messages)


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (replace(DIALECT, render=copies), "rendering what was read does not give the same 5 objects (got 5)"),
        (replace(DIALECT, render=without_notes), "a note behind the first user message: it is not there"),
        (replace(DIALECT, render=without_edits), "synthetic results: messages[2]: the call 'a' is not answered"),
        (replace(DIALECT, render=changing), "the messages handed in were changed"),
        (replace(DIALECT, sniff=lambda _item: True), "sniff claims an item of gemini"),
        (replace(DIALECT, sniff=lambda _item: False), "sniff disowns messages[0]"),
        (replace(DIALECT, system_texts=lambda _system: []), "system_texts must give no text for None"),
        (replace(DIALECT, problems=lambda _items: ["messages[0]: odd"]), "it is not valid: messages[0]: odd"),
        (
            replace(
                DIALECT, read=lambda item, _before, _at: [replace(user("x"), source=item, edited=True, repair="x")]
            ),
            "a valid message was mended while reading: x",
        ),
        (
            replace(DIALECT, read=lambda item, _before, _at: [Message("tool", (Text("x"),), item)]),
            "a tool message must have exactly one part, a ToolResult",
        ),
    ],
    ids=["copies", "no notes", "no edits", "changes", "claims all", "disowns", "no system", "invalid", "mends", "tool"],
)
def test_each_broken_promise_is_named(broken: Dialect, said: str) -> None:
    """Laws 6, 7 and 9, and B29."""
    with pytest.raises(AssertionError) as caught:
        check_dialect(broken, [[dict(item) for item in EXAMPLE]])
    text = str(caught.value)
    assert text.startswith("the dialect 'openai_chat' does not keep what a dialect promises:\n- ")
    assert said in text


def test_a_variant_of_a_shipped_format_may_claim_its_items() -> None:
    """B29: a vendor's dialect of chat completions is chat completions."""
    variant = replace(DIALECT, name="vendor_chat")
    check_dialect(variant, [EXAMPLE], akin=["openai_chat"])
    with pytest.raises(AssertionError, match="promises:\n- sniff claims an item of openai_chat"):
        check_dialect(variant, [EXAMPLE])


def test_an_example_that_is_no_valid_list_is_said_to_be_none() -> None:
    with pytest.raises(AssertionError, match="example 1: it is not valid: messages\\[0\\]: the result for 'a'"):
        check_dialect(DIALECT, [EXAMPLE, [ANSWERED]])
