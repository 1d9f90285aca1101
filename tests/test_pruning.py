"""Pruning of results by age: when it is due, what it leaves, and that it is carried on like any other decision.

With a budget of 4,000 and 20 tokens of pins a prune is due when it frees a quarter of (limit - target), 497 tokens.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

import longturn
from longturn import Fitter, Policy, Window
from longturn.core.events import HistoryTrimmed, ResultsPruned
from longturn.core.messages import ToolResult
from longturn.core.policy import Pruning
from longturn.testing import validate
from tests.conversations import (
    DIALECTS,
    PLAIN,
    Step,
    System,
    ask,
    chat,
    outline,
    read,
    reply,
    sized,
    step,
    tokens,
    turn,
    written,
)

AGED = Pruning(
    keep_last_assistants=1,
    soft_trim_ratio=0.5,
    hard_clear_ratio=0.5,
    min_prunable_tool_chars=1_000,
    max_chars=400,
    head_chars=150,
    tail_chars=150,
)
SOFT = replace(AGED, hard_clear_ratio=0.7)
PLACEHOLDER = AGED.placeholder


def pruning(rule: Pruning, **more: Any) -> Policy:
    return replace(PLAIN, pruning=rule, **more)


def shaped(conversation: list[Step], rule: Pruning = AGED, dialect: str = "openai_chat", **more: Any) -> Window:
    return longturn.fit(written(dialect, conversation), budget=4_000, policy=pruning(rule, **more))


def results(window: Window) -> dict[str, str]:
    return dict(line.split(": ", 1) for line in outline(window) if ": " in line and not line.startswith("assistant"))


def small(number: int) -> list[Step]:
    """Rounds whose results are too short to be pruned."""
    return [each for place in range(number) for each in step(f"s{place}", 20)]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_pruning_waits_until_it_frees_a_quarter_of_what_a_break_frees_b20(dialect: str) -> None:
    """B20: one result of 300 tokens is not enough; of nine canonical messages two are old enough, and both go."""
    start = [ask("Go "), *step("a", 300), *step("b", 300)]
    assert not shaped([*start, *small(1)], dialect=dialect).changed
    window = shaped([*start, *small(2)], dialect=dialect)
    assert {call: text for call, text in results(window).items() if call in "ab"} == {
        "a": PLACEHOLDER,
        "b": PLACEHOLDER,
    }
    assert [type(event) for event in window.events] == [ResultsPruned]
    assert {edit.kind for edit in window.edits} == {"pruned"}
    assert validate(window.messages, dialect) == []


def test_pruning_comes_along_when_another_rung_breaks_the_front_b20() -> None:
    """B20, B4: too little to be due by itself; the turn limit breaks the front, so it costs nothing more."""
    conversation = [*turn("1", 40), ask("ask 2 "), *step("a", 300), *small(3), reply("say 2 ")]
    assert not shaped([*conversation], max_history_messages=2).changed
    window = shaped([*conversation, ask("ask 3 ")], max_history_messages=2)
    assert outline(window)[:5] == ["ask 1", "NOTE", "ask 2", "call a", f"a: {PLACEHOLDER}"]
    assert {type(event) for event in window.events} == {ResultsPruned, HistoryTrimmed}


def test_a_result_of_middle_age_keeps_head_and_tail_b20() -> None:
    """B20: of five messages the third is of age 0.6."""
    window = shaped([ask("Go "), *step("a", 800), *small(1)], SOFT)
    text = window.messages[2]["content"]  # type: ignore[index]
    original = sized("result a ", 800)
    assert text.startswith(original[:150])
    assert text.endswith(original[-150:])
    assert len(text) <= 400
    assert window.tokens == 20 + 2 * 6 + tokens(text) + 4 + 20


def test_a_trimmed_result_goes_on_to_be_cleared_only_when_that_is_due_b20() -> None:
    """B20: at seven messages the third is of age 0.71, but clearing it would free some 90 tokens only."""
    fitter = Fitter(budget=4_000, policy=pruning(SOFT))
    conversation = [ask("Go "), *step("a", 800), *small(1)]
    first = fitter.fit(chat(conversation))
    second = fitter.fit(chat([*conversation, *step("more", 20)]))
    assert second.messages[: len(first.messages)] == first.messages
    assert second.events == ()


@pytest.mark.parametrize("kept", [1, 2, 3])
def test_the_newest_rounds_are_never_pruned_b20(kept: int) -> None:
    """B20: so many are protected, whatever their age."""
    rule = replace(AGED, keep_last_assistants=kept, soft_trim_ratio=0, hard_clear_ratio=0)
    conversation = [ask("Go "), *(each for number in range(4) for each in step(f"c{number}", 800))]
    window = shaped(conversation, rule)
    assert [call for call, text in results(window).items() if text != PLACEHOLDER] == [
        f"c{number}" for number in range(4 - kept, 4)
    ]


def test_a_result_that_does_not_exceed_the_least_length_is_never_pruned_b20() -> None:
    """B20: measured on the original."""
    conversation = [ask("Go "), *step("a", 804), *small(3)]
    assert not shaped(conversation, replace(AGED, min_prunable_tool_chars=3_200)).changed
    assert shaped(conversation, replace(AGED, min_prunable_tool_chars=3_199)).changed


def run(dialect: str) -> Iterator[list[Any]]:
    """The lists before each of forty answers; every third result is large enough to be pruned."""
    conversation: list[Step] = [ask("Go ")]
    for number in range(40):
        yield written(dialect, conversation)
        conversation += step(f"c{number}", 100 + 400 * (number % 3 == 0))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_pruned_windows_are_a_fold_like_all_others_b20(dialect: str) -> None:
    """B20, L9: step by step and from scratch the same."""
    fitter = Fitter(budget=4_000, policy=pruning(SOFT), dialect=dialect)
    for messages in run(dialect):
        wanted = longturn.fit(messages, budget=4_000, policy=pruning(SOFT), dialect=dialect).messages
        assert fitter.fit(messages).messages == wanted


@pytest.mark.parametrize("dialect", DIALECTS)
def test_pruning_is_never_silent_b20(dialect: str) -> None:
    """B20, B32, L11: without an event the last window is a front of this one; going on to a clear is told too."""
    fitter = Fitter(budget=4_000, policy=pruning(SOFT), dialect=dialect)
    last: list[Any] = []
    for messages in run(dialect):
        window = fitter.fit(messages)
        assert window.events or window.messages[: len(last)] == last
        last = window.messages


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_front_is_never_broken_for_a_small_prune_alone_b20(dialect: str) -> None:
    """B20: it frees 497 tokens, or another rung breaks the front anyway."""
    fitter, freed = Fitter(budget=4_000, policy=pruning(SOFT), dialect=dialect), 0
    last: list[Any] = []
    for messages in run(dialect):
        window = fitter.fit(messages)
        pruned = sum(edit.tokens for edit in window.edits if edit.kind == "pruned")
        if window.messages[: len(last)] != last and {type(event) for event in window.events} <= {ResultsPruned}:
            assert pruned - freed >= 497
        last, freed = window.messages, pruned


def test_every_result_that_pruning_changes_is_told_b20() -> None:
    """B20, B32: one that goes on from head and tail to the placeholder too, and what that saves."""
    fitter, freed = Fitter(budget=4_000, policy=pruning(SOFT)), 0
    last: list[Any] = []
    for messages in run("openai_chat"):
        window = fitter.fit(messages)
        if {edit.kind for edit in window.edits} - {"pruned"}:
            break
        changed = sum(before != after for before, after in zip(last, window.messages, strict=False))
        pruned = sum(edit.tokens for edit in window.edits)
        told = [event for event in window.events if isinstance(event, ResultsPruned)]
        assert sum(event.results for event in told) == changed
        assert sum(event.tokens_saved for event in told) == pruned - freed
        last, freed = window.messages, pruned


# --- S1-S3, by the numbers of their table ---


def ages(rule: Pruning, conversation: list[Step], budget: int = 4_000, dialect: str = "openai_chat") -> str:
    """What became of each result, a letter each: whole, soft, hard."""
    window = longturn.fit(written(dialect, conversation), budget=budget, policy=pruning(rule), dialect=dialect)
    parts = [part for message in read(dialect, window.messages) for part in message.parts]
    return "".join(kind_of(part.text, rule) for part in parts if isinstance(part, ToolResult))


def kind_of(text: str, rule: Pruning = AGED) -> str:
    if "head and tail kept" in text:
        return "s"
    return "h" if rule.placeholder in text or longturn.CLEARED in text else "w"


TEN = [ask("Go "), ask("On "), *(each for number in range(4) for each in step(f"c{number}", 800))]
"""Ten messages: the results are the 3rd, 5th, 7th and 9th behind the first, of ages 0.7, 0.5, 0.3 and 0.1."""
BARE = replace(AGED, keep_last_assistants=0, max_chars=400)


def test_pruning_is_off_unless_a_policy_has_it_s1() -> None:
    assert Policy().pruning is None
    window = longturn.fit(chat(TEN), budget=4_000, policy=PLAIN)
    assert not window.changed


def test_the_defaults_of_pruning_are_those_of_the_table_s1() -> None:
    rule = Pruning()
    assert (rule.keep_last_assistants, rule.soft_trim_ratio, rule.hard_clear_ratio) == (3, 0.3, 0.5)
    assert (rule.min_prunable_tool_chars, rule.max_chars, rule.head_chars, rule.tail_chars) == (
        50_000,
        4_000,
        1_500,
        1_500,
    )
    assert (rule.hard_clear, rule.placeholder) == (True, "[Old tool result content cleared]")


@pytest.mark.parametrize(
    ("soft", "hard", "found"),
    [
        (0.3, 0.5, "hhsw"),
        (0.30001, 0.50001, "hsww"),
        (0.29999, 0.49999, "hhsw"),
        (0.1, 0.1, "hhhh"),
        (0.1, 1, "ssss"),
        (0.7, 0.7, "hwww"),
        (0.70001, 0.70001, "wwww"),
        (0, 0, "hhhh"),
        (1, 1, "wwww"),
    ],
)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_result_is_pruned_from_its_age_on_borders_included_s2(
    soft: float, hard: float, found: str, dialect: str
) -> None:
    """S2: age is (n - i) / n; the same in every dialect."""
    assert ages(replace(BARE, soft_trim_ratio=soft, hard_clear_ratio=hard), TEN, dialect=dialect) == found


def test_without_hard_clear_old_results_keep_head_and_tail_s2() -> None:
    assert ages(replace(BARE, soft_trim_ratio=0.3, hard_clear_ratio=0.5, hard_clear=False), TEN) == "sssw"


@pytest.mark.parametrize(("kept", "found"), [(0, "hhhh"), (1, "hhhw"), (2, "hhww"), (3, "hwww"), (4, "wwww")])
def test_so_many_of_the_newest_rounds_are_protected_and_0_protects_none_s3(kept: int, found: str) -> None:
    """S3: a round each, so that one long turn is pruned too."""
    rule = replace(BARE, keep_last_assistants=kept, soft_trim_ratio=0, hard_clear_ratio=0)
    assert ages(rule, TEN) == found


@pytest.mark.parametrize(("least", "found"), [(3_184, "wwww"), (3_183, "hhhh"), (0, "hhhh")])
def test_what_does_not_exceed_the_least_length_stays_whole_s3(least: int, found: str) -> None:
    """S3: 800 tokens less four of framing are 3,184 characters."""
    rule = replace(BARE, soft_trim_ratio=0, hard_clear_ratio=0, min_prunable_tool_chars=least)
    assert ages(rule, TEN) == found


def test_a_result_is_measured_on_its_original_when_it_goes_on_to_be_cleared_s2() -> None:
    """S2: trimmed to 400 characters it would be below the least length; it goes on, and never back."""
    fitter = Fitter(budget=4_000, policy=pruning(replace(BARE, soft_trim_ratio=0.3, hard_clear_ratio=0.6)))
    last: dict[str, str] = {}
    seen: set[str] = set()
    conversation: list[Step] = [ask("Go ")]
    for number in range(30):
        conversation += step(f"c{number}", 500)
        found = {
            part.call_id: kind_of(part.text)
            for message in read("openai_chat", fitter.fit(chat(conversation)).messages)
            for part in message.parts
            if isinstance(part, ToolResult)
        }
        for call in found.keys() & last.keys():
            seen.add(last[call] + found[call])
        last = found
    assert {"ws", "sh"} <= seen <= {"ww", "ws", "wh", "ss", "sh", "hh"}


@pytest.mark.parametrize(
    ("most", "head", "tail"), [(4_000, 1_500, 1_500), (400, 150, 150), (100, 1_500, 1_500), (60, 0, 60), (1, 5, 5)]
)
def test_a_trimmed_result_is_never_longer_than_the_most_nor_than_it_was_s2(most: int, head: int, tail: int) -> None:
    rule = replace(BARE, hard_clear=False, soft_trim_ratio=0, max_chars=most, head_chars=head, tail_chars=tail)
    window = shaped([ask("Go "), *step("a", 2_400), *small(2)], rule)
    text, original = window.messages[2]["content"], sized("result a ", 2_400)  # type: ignore[index]
    assert len(text) <= most < len(original)
    if most > head + tail + 60:
        assert text.startswith(original[:head])
        assert text.endswith(original[-tail:])


def test_a_placeholder_that_is_longer_than_the_result_replaces_nothing_s2() -> None:
    rule = replace(BARE, soft_trim_ratio=0, hard_clear_ratio=0, placeholder="Gone. " * 2_000)
    assert not shaped(TEN, rule).changed


def test_what_stands_before_the_first_user_message_is_never_pruned_s3() -> None:
    """S3: results that a caller left in front of it, and system messages."""
    rule = replace(BARE, soft_trim_ratio=0, hard_clear_ratio=0, min_prunable_tool_chars=0)
    conversation = [System("x" * 2_000), *step("early", 700), *TEN[1:]]
    window = shaped(conversation, rule)
    assert results(window)["early"] == "result early"
    assert "x" * 2_000 in str(window.messages[0])
    assert results(window)["c0"] == PLACEHOLDER


def test_images_in_a_pruned_result_stay_and_only_its_text_is_replaced_s3() -> None:
    rule = replace(BARE, soft_trim_ratio=0, hard_clear_ratio=0)
    messages = chat(TEN)
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    messages[3] = {**messages[3], "content": [{"type": "text", "text": messages[3]["content"]}, picture]}
    policy = replace(pruning(rule), image_tokens=100)
    window = longturn.fit(messages, budget=4_000, policy=policy)
    content = window.messages[3]["content"]  # type: ignore[index]
    assert picture in content
    assert {"type": "text", "text": PLACEHOLDER} in content
