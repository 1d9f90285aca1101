"""Small inputs rebuilt from public trouble reports about tools that shape histories, each with what must hold."""

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import longturn
from longturn import NOTE, LongturnError, Window, exact
from longturn.core.messages import Message, Reasoning, Text, ToolCall, ToolResult
from longturn.dialects.registry import by_name
from longturn.testing import validate

NAMES = (
    "anthropic-results-and-new-text",
    "cyrillic-subagent",
    "dangling-call-in-the-middle",
    "empty-list",
    "empty-user-text",
    "hangul-counts",
    "image-and-long-text",
    "newest-small-older-huge",
    "no-plain-user-to-cut-at",
    "no-user-message",
    "note-is-not-text",
    "one-turn-subagent",
    "only-system",
    "orphan-at-the-cut",
    "preserved-thinking-after-a-clear",
    "preserved-thinking-untouched",
    "same-id-every-round",
    "schemas-alone-exceed",
    "special-token-text",
    "ten-parallel-calls",
)
CHARACTERS = 2_000
"""About how long the results of a `$rounds` macro are."""


def expanded(value: Any) -> Any:
    """The value with its macros written out (README of the cases)."""
    if value == "$NOTE":
        return NOTE
    if isinstance(value, list):
        return [item for entry in value for item in (rounds(entry) if is_rounds(entry) else [expanded(entry)])]
    if isinstance(value, dict) and "$repeat" in value:
        text, times = value["$repeat"]
        return text * times
    return {key: expanded(item) for key, item in value.items()} if isinstance(value, dict) else value


def is_rounds(value: Any) -> bool:
    return isinstance(value, dict) and "$rounds" in value


def rounds(entry: Mapping[str, Any]) -> list[Any]:
    asked, made = entry["$rounds"], []
    result = asked["text"] * (CHARACTERS // len(asked["text"]))
    for number in range(asked["n"]):
        ids = [asked["same_id"] or f"r{number}_{call}" for call in range(asked["per"])]
        function = {"name": "read_file", "arguments": "{}"}
        calls = [{"id": call_id, "type": "function", "function": function} for call_id in ids]
        made.append({"role": "assistant", "content": None, "tool_calls": calls})
        made += [{"role": "tool", "tool_call_id": call_id, "content": result} for call_id in ids]
    return made


class Outcome(NamedTuple):
    """A case and what came of it: a window, or one of our errors."""

    case: Mapping[str, Any]
    messages: list[Any]
    window: Window | None
    error: LongturnError | None

    @property
    def fitted(self) -> Window:
        assert self.window is not None, self.error
        return self.window

    @property
    def core(self) -> list[Message]:
        """The window's core messages."""
        return read(self.case["dialect"], self.fitted.messages)


def read(dialect: str, items: list[Any]) -> list[Message]:
    befores = [None, *items]
    return [m for place, item in enumerate(items) for m in by_name(dialect).read(item, befores[place], place)]


def texts_of(message: Message) -> list[str]:
    texts = []
    for part in message.parts:
        if isinstance(part, Text | Reasoning | ToolResult):
            texts.append(part.text)
        elif isinstance(part, ToolCall):
            texts += [part.name, part.arguments]
    return texts


@cache
def count_o200k() -> Callable[[str], int]:
    counting = exact.openai("gpt-4o")
    return lambda text: counting.tokens(counting.measure(text))


def is_valid(outcome: Outcome, expected: Any) -> bool:
    return (validate(outcome.fitted.messages, outcome.case["dialect"]) == []) is expected


def is_within_budget(outcome: Outcome, expected: Any) -> bool:
    return (outcome.fitted.tokens <= outcome.case["budget"]) is expected


def is_exact_within(outcome: Outcome, expected: Any) -> bool:
    tokens: int = sum(count_o200k()(text) for message in outcome.core for text in texts_of(message))
    return tokens <= expected


def is_unchanged(outcome: Outcome, expected: Any) -> bool:
    same = [id(item) for item in outcome.fitted.messages] == [id(item) for item in outcome.messages]
    return same is expected and outcome.fitted.changed is not expected


def is_changed(outcome: Outcome, expected: Any) -> bool:
    return outcome.fitted.changed is expected


def has_first_user(outcome: Outcome, expected: Any) -> bool:
    first = next(item for item in outcome.messages if item["role"] == "user")
    return any(item is first for item in outcome.fitted.messages) is expected


def has_last(outcome: Outcome, expected: Any) -> bool:
    return (outcome.fitted.messages[-1] is outcome.messages[-1]) is expected


def has_texts(outcome: Outcome, expected: Any) -> bool:
    shown = json.dumps(outcome.fitted.messages, ensure_ascii=False)
    return all(text in shown for text in expected)


def lacks_texts(outcome: Outcome, expected: Any) -> bool:
    shown = json.dumps(outcome.fitted.messages, ensure_ascii=False)
    return not any(text in shown for text in expected)


def has_whole_results(outcome: Outcome, expected: Any) -> bool:
    before = [part.text for m in read(outcome.case["dialect"], outcome.messages) for part in results_of(m)]
    return sum(part.text in before for m in outcome.core for part in results_of(m)) >= expected


def results_of(message: Message) -> list[ToolResult]:
    return [part for part in message.parts if isinstance(part, ToolResult)]


def is_raised(outcome: Outcome, expected: Any) -> bool:
    return type(outcome.error).__name__ == expected


def names_it(outcome: Outcome, expected: Any) -> bool:
    return expected in str(outcome.error)


EXPECTATIONS: Mapping[str, Callable[[Outcome, Any], bool]] = {
    "valid": is_valid,
    "within_budget": is_within_budget,
    "exact_within": is_exact_within,
    "unchanged": is_unchanged,
    "changed": is_changed,
    "first_user_kept": has_first_user,
    "last_kept": has_last,
    "contains": has_texts,
    "lacks": lacks_texts,
    "whole_results_at_least": has_whole_results,
    "tokens_before_at_least": lambda outcome, expected: outcome.fitted.report.total >= expected,
    "tokens_before_at_most": lambda outcome, expected: outcome.fitted.report.total <= expected,
    "raises": is_raised,
    "message_names": names_it,
    "no_crash": lambda outcome, expected: (outcome.window is not None or outcome.error is not None) is expected,
}


def fitted(path: Path) -> Outcome:
    case = expanded(json.loads(path.read_text(encoding="utf-8")))
    given = {key: case[key] for key in ("budget", "capacity", "model", "tools") if key in case}
    try:
        window = longturn.fit(case["messages"], dialect=case["dialect"], **given)
    except LongturnError as error:
        return Outcome(case, case["messages"], None, error)
    return Outcome(case, case["messages"], window, None)


@pytest.mark.parametrize("name", NAMES)
def test_a_case_from_a_trouble_report_ends_as_it_should(name: str, shared: Path) -> None:
    outcome = fitted(shared / "cases" / f"{name}.json")
    assert outcome.case["expect"]
    for what, expected in outcome.case["expect"].items():
        assert EXPECTATIONS[what](outcome, expected), (what, expected, outcome.error)


def test_every_case_is_known_here(shared: Path) -> None:
    assert sorted(path.stem for path in (shared / "cases").glob("*.json")) == list(NAMES)
