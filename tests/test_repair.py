"""Histories that arrive broken leave valid: calls and results are paired, by place, in every dialect."""

from dataclasses import replace
from typing import Any

import pytest

import longturn
from longturn import NOTE, Fitter, Window
from longturn.core.events import HistoryRepaired
from longturn.core.texts import PLACEHOLDER, UNANSWERED
from longturn.testing import validate
from tests.conversations import (
    DIALECTS,
    NOTE_TOKENS,
    PLAIN,
    Answer,
    Result,
    Step,
    System,
    User,
    ask,
    chat,
    outline,
    read,
    reply,
    step,
    steps,
    turn,
    written,
)

every_dialect = pytest.mark.parametrize("dialect", DIALECTS)
GO = User("Go")
NO_RESULT = f"a: {UNANSWERED}"


def mended(dialect: str, conversation: list[Step]) -> Window:
    """The window of a broken history, which must be valid whatever came in, and say what was done."""
    window = longturn.fit(written(dialect, conversation), policy=PLAIN, dialect=dialect)
    assert validate(window.messages, dialect) == []
    assert window.report.repairs
    assert "repaired" in {edit.kind for edit in window.edits}
    return window


@every_dialect
def test_a_result_without_its_call_is_dropped_h29(dialect: str) -> None:
    window = mended(dialect, [GO, Result("lost", "12 files"), Answer("Done."), User("And?")])
    assert outline(window) == ["Go", "assistant: Done.", "And?"]
    assert "lost" in window.report.repairs[0]


@pytest.mark.parametrize("dialect", [dialect for dialect in DIALECTS if dialect != "gemini"])
def test_a_result_of_another_call_is_dropped_and_the_call_is_answered_h29(dialect: str) -> None:
    """H29; Gemini's responses answer by their place, whatever their ids."""
    conversation: list[Step] = [GO, Answer(calls=("a",)), Result("b", "12 files"), Answer("Done.")]
    assert outline(mended(dialect, conversation)) == ["Go", "call a", NO_RESULT, "assistant: Done."]


@every_dialect
def test_a_call_that_was_never_answered_gets_a_short_synthetic_result_b21(dialect: str) -> None:
    """B21, H29: in the middle, before what stands between it and the next answer; it counts like any result."""
    window = mended(dialect, [GO, Answer(calls=("a",)), User("Hurry!"), Answer("I gave up."), User("And?")])
    assert outline(window) == ["Go", "call a", NO_RESULT, "Hurry!", "assistant: I gave up.", "And?"]
    assert window.tokens == longturn.fit(window.messages, policy=PLAIN, dialect=dialect).tokens


@pytest.mark.parametrize("dialect", [dialect for dialect in DIALECTS if dialect != "openai_responses"])
def test_an_answer_behind_an_open_call_is_another_answer_b1(dialect: str) -> None:
    """B1, B21: the items of a Responses list do not say where one answer ends; everywhere else messages do."""
    window = mended(dialect, [GO, Answer(calls=("a",)), Answer("I gave up."), User("And?")])
    assert outline(window) == ["Go", "call a", NO_RESULT, "assistant: I gave up.", "And?"]


@every_dialect
def test_one_of_several_parallel_calls_may_lack_its_result_h29(dialect: str) -> None:
    conversation: list[Step] = [GO, Answer(calls=("a", "b", "c")), Result("c", "C"), Result("a", "A"), Answer("Done.")]
    window = mended(dialect, conversation)
    assert sorted(outline(window)[4:7]) == ["a: A", f"b: {UNANSWERED}", "c: C"]


@every_dialect
def test_the_end_of_a_list_is_a_border_and_a_late_result_moves_to_its_call_b21(dialect: str) -> None:
    """B21, B2: a synthetic result is tentative until an answer follows."""
    fitter = Fitter(policy=PLAIN, dialect=dialect)
    messages = written(dialect, [GO, Answer(calls=("a",)), User("Hurry!")])
    assert outline(fitter.fit(messages)) == ["Go", "call a", NO_RESULT, "Hurry!"]
    messages += written(dialect, [Result("a", "12 files")])
    window = fitter.fit(messages)
    assert outline(window) == ["Go", "call a", "a: 12 files", "Hurry!"]
    assert window.messages == longturn.fit(messages, policy=PLAIN, dialect=dialect).messages
    assert validate(window.messages, dialect) == []
    messages += written(dialect, [Answer("Done.")])
    assert outline(fitter.fit(messages)) == ["Go", "call a", "a: 12 files", "Hurry!", "assistant: Done."]


@every_dialect
def test_a_result_that_comes_after_a_later_answer_is_dropped_b21(dialect: str) -> None:
    late: list[Step] = [User("Hurry!"), Answer("I gave up."), Result("a", "12 files")]
    window = mended(dialect, [GO, Answer(calls=("a",)), *late, User("So?")])
    assert outline(window) == ["Go", "call a", NO_RESULT, "Hurry!", "assistant: I gave up.", "So?"]
    assert len(window.report.repairs) == 2


@every_dialect
def test_of_two_results_the_first_stands_b21(dialect: str) -> None:
    conversation: list[Step] = [GO, Answer(calls=("a",)), Result("a", "first"), Result("a", "second"), Answer("Done.")]
    assert outline(mended(dialect, conversation)) == ["Go", "call a", "a: first", "assistant: Done."]


@every_dialect
def test_ids_repeated_over_rounds_are_told_apart_by_place_b21(dialect: str) -> None:
    conversation: list[Step] = [GO]
    for number in range(3):
        conversation += [Answer(calls=("call_0",)), Result("call_0", f"result {number}")]
    messages = written(dialect, conversation)
    window = longturn.fit(messages, policy=PLAIN, dialect=dialect)
    assert not window.changed
    assert window.events == ()
    assert [line for line in outline(window) if ":" in line] == [f"call_0: result {number}" for number in range(3)]


@every_dialect
def test_a_repeated_id_whose_second_call_lacks_a_result_b21(dialect: str) -> None:
    """B21: the first round's result is never taken for the second's."""
    conversation: list[Step] = [GO, *step("a", 20), Answer(calls=("a",)), User("So?"), Answer("Done.")]
    again = ["call a", NO_RESULT, "So?", "assistant: Done."]
    assert outline(mended(dialect, conversation)) == ["Go", "call a", "a: result a", *again]


@every_dialect
def test_a_repair_is_told_once_and_stays_in_the_report_b32(dialect: str) -> None:
    """B32, H29: an event at its border, an edit for as long as it is in force."""
    fitter = Fitter(policy=PLAIN, dialect=dialect)
    messages = written(dialect, [GO, Answer(calls=("a",)), User("Hurry!"), Answer("I gave up.")])
    fitter.fit(messages)
    messages += written(dialect, [User("And?"), *step("b", 20)])
    window = fitter.fit(messages)
    assert [event for event in window.events if isinstance(event, HistoryRepaired)] == []
    assert len(window.report.repairs) == 1
    assert [edit.message for edit in window.edits if edit.kind == "repaired"] == [1]


@every_dialect
def test_mending_what_was_mended_changes_nothing_h29(dialect: str) -> None:
    broken: list[Step] = [
        GO,
        Answer(calls=("a", "b")),
        Result("b", "B"),
        Result("x", "X"),
        Answer("Done."),
        Result("a", "A"),
    ]
    window = mended(dialect, [*broken, User("So?")])
    again = longturn.fit(window.messages, policy=PLAIN, dialect=dialect)
    assert not again.changed
    assert (again.events, again.report.repairs) == ((), ())


@every_dialect
@pytest.mark.parametrize("cut", range(9))
def test_a_history_cut_anywhere_by_others_is_mended_h29(dialect: str, cut: int) -> None:
    """H29, B28: restored from any place on; valid in its dialect."""
    whole = written(dialect, [GO, *step("a", 20), Answer("So.", ("b", "c")), Result("b", "B"), Result("c", "C"), GO])
    window = longturn.fit(whole[cut:], policy=PLAIN, dialect=dialect)
    assert validate(window.messages, dialect) == []


# --- user messages -------------------------------------------------------------------------------------------------


@every_dialect
def test_neighbouring_user_messages_are_sent_separately_b27(dialect: str) -> None:
    """B27: first, note and opener."""
    conversation: list[Step] = [*turn("1"), ask("ask 2 "), *steps(1, 30, 50)]
    window = longturn.fit(written(dialect, conversation), budget=1_000, policy=PLAIN)
    front = [message.text for message in read(dialect, window.messages)[:3]]
    assert len({id(message) for message in window.messages[:3]}) == 3
    assert front[1] == NOTE
    assert outline(window)[:3] == ["ask 1", "NOTE", "ask 2"]


def test_strict_alternation_joins_them_in_that_order_b27() -> None:
    conversation: list[Step] = [System("Be brief."), *turn("1"), ask("ask 2 "), *steps(1, 30, 50)]
    window = longturn.fit(chat(conversation), budget=1_000, policy=replace(PLAIN, alternate=True))
    roles = [message["role"] for message in window.messages]  # type: ignore[index]
    assert roles[:3] == ["system", "user", "assistant"]
    assert all(roles[place] != roles[place + 1] or roles[place] == "tool" for place in range(len(roles) - 1))
    text = str(window.messages[1])
    assert text.index("ask 1") < text.index(NOTE) < text.index("ask 2")


def test_results_of_one_answer_in_several_messages_are_joined_as_a_repair_b27() -> None:
    spread = written("anthropic", [GO, Answer(calls=("a", "b"))])
    spread += written("anthropic", [Result("a", "A")]) + written("anthropic", [Result("b", "B"), Answer("Done.")])
    window = longturn.fit(spread, policy=PLAIN)
    assert len(window.messages) == 4
    assert outline(window) == ["Go", "call a", "call b", "a: A", "b: B", "assistant: Done."]
    assert window.report.repairs


def results_with_text(call: str, size: int, text: str) -> dict[str, Any]:
    message = written("anthropic", [Result(call, "x" * 4 * size)])[0]
    message["content"].append({"type": "text", "text": text})
    return dict(message)


def test_a_message_of_results_and_new_text_is_returned_as_it_is_only_when_whole_b27() -> None:
    """B27: one native message holds two core messages that share it."""
    both = results_with_text("a", 400, "And now?")
    start = written("anthropic", [ask("Go "), Answer(calls=("a",))])
    whole = longturn.fit([*start, both], budget=10_000, policy=PLAIN)
    assert whole.messages[-1] is both
    rest = written("anthropic", steps(1, 3, 200))
    cleared = longturn.fit([*start, both, *rest], budget=1_000, policy=PLAIN)
    assert both not in cleared.messages
    assert "a: CLEARED" in outline(cleared)
    assert "And now?" in outline(cleared)
    assert both["content"][0]["content"] == "x" * 1_600


def test_of_a_message_of_results_and_new_text_only_the_opener_may_be_left_b27() -> None:
    """B27, B16: the results belong to the round before, and leave with it."""
    both = results_with_text("a", 30, "And now?")
    messages = [
        *written("anthropic", [ask("Go "), Answer(calls=("a",))]),
        both,
        *written("anthropic", steps(1, 30, 50)),
    ]
    window = longturn.fit(messages, budget=1_000, policy=PLAIN)
    assert outline(window)[:3] == ["Go", "NOTE", "And now?"]
    assert validate(window.messages, "anthropic") == []


# --- placeholders --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", ["anthropic", "gemini"])
def test_where_an_answer_comes_first_a_placeholder_stands_before_it_b28(dialect: str) -> None:
    """B28: reported, and no message of the transcript."""
    messages = written(dialect, [reply("Welcome "), GO, *step("a", 20)])
    window = longturn.fit(messages, policy=PLAIN, dialect=dialect)
    assert outline(window)[:3] == [PLACEHOLDER, "assistant: Welcome", "Go"]
    assert validate(window.messages, dialect) == []
    assert window.report.messages == 4
    assert window.tokens == longturn.fit(window.messages, policy=PLAIN, dialect=dialect).tokens
    assert window.edits or window.events


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses"])
def test_where_the_dialect_does_not_mind_an_answer_may_come_first_b28(dialect: str) -> None:
    window = longturn.fit(written(dialect, [reply("Welcome "), GO]), policy=PLAIN, dialect=dialect)
    assert not window.changed


@every_dialect
def test_a_cut_that_would_leave_no_user_message_leaves_a_placeholder_b28(dialect: str) -> None:
    """B28: in every dialect; handed back, the window is the same."""
    window = longturn.fit(written(dialect, steps(1, 30)), budget=1_000, policy=PLAIN, dialect=dialect)
    assert outline(window)[:2] == [PLACEHOLDER, "NOTE"]
    assert outline(window)[-1] == "c30: result c30"
    assert window.tokens <= 1_000
    assert validate(window.messages, dialect) == []
    again = longturn.fit(window.messages, budget=1_000, policy=PLAIN, dialect=dialect)
    assert not again.changed
    assert again.tokens == window.tokens


@every_dialect
def test_a_placeholder_handed_back_is_known_by_place_and_text_b28(dialect: str) -> None:
    """B28, H9: elsewhere the same words are a user's."""
    first = longturn.fit(written(dialect, [User(PLACEHOLDER), Answer("Yes."), GO]), policy=PLAIN, dialect=dialect)
    assert (first.report.turns, first.report.messages, first.changed) == (1, 2, False)
    later = longturn.fit(written(dialect, [GO, Answer("Yes."), User(PLACEHOLDER)]), policy=PLAIN, dialect=dialect)
    assert later.report.turns == 2


@every_dialect
def test_the_first_user_message_always_opens_a_turn_b28(dialect: str) -> None:
    """B28: even one that begins like tool results; it stays in front of the note."""
    conversation: list[Step] = [User("[Tool results] 12 files"), *steps(1, 30, 50)]
    window = longturn.fit(written(dialect, conversation), budget=1_000, policy=PLAIN)
    assert outline(window)[:2] == ["[Tool results] 12 files", "NOTE"]
    assert window.report.turns == 1
    assert NOTE_TOKENS < window.tokens <= 1_000


@every_dialect
def test_two_calls_with_one_id_in_one_answer_are_settled_h29(dialect: str) -> None:
    """H29: duplicates are settled, and the window is valid in its dialect."""
    window = mended(dialect, [GO, Answer(calls=("a", "b", "a")), Result("a", "A"), Result("b", "B"), Answer("Done.")])
    assert outline(window)[-1] == "assistant: Done."


@every_dialect
def test_a_dropped_result_between_two_answers_leaves_one_answer_b1(dialect: str) -> None:
    """B1, B31 (law 3): without it they are neighbours, so they are one; read again they are the same."""
    broken: list[Step] = [GO, Answer("One."), Result("lost", "12 files"), Answer("Two.", ("a",)), Result("a", "A")]
    window = mended(dialect, broken)
    again = longturn.fit(window.messages, policy=PLAIN, dialect=dialect)
    assert window.report.rounds == again.report.rounds == 1
    assert window.tokens == again.tokens
