"""Events, edits and the report: what happened at a border, what is in force, and the numbers of both."""

from dataclasses import FrozenInstanceError, replace

import pytest

import longturn
from longturn import Fitter, Policy, Window
from longturn.core.events import HistoryTrimmed, ResultsCleared
from tests.conversations import (
    CALL_TOKENS,
    CLEARED_TOKENS,
    DIALECTS,
    NOTE_TOKENS,
    PLAIN,
    WHOLE_TURNS,
    Step,
    System,
    ask,
    chat,
    outline,
    reply,
    sized,
    steps,
    turn,
    written,
)

SAVED = 100 - CLEARED_TOKENS
"""What clearing a result of 100 tokens saves."""


def rounds() -> list[Step]:
    """1,054 tokens: shaped to 541 by five cleared results and two rounds less."""
    return [ask("Go ", 100), *steps(1, 9)]


def turns() -> list[Step]:
    """1,050 tokens: shaped to 529 by six turns less."""
    return [*(each for number in range(1, 11) for each in turn(str(number))), ask("ask 11 ", 50)]


def shaped(conversation: list[Step], budget: int = 1_000, policy: Policy = PLAIN) -> Window:
    return longturn.fit(chat(conversation), budget=budget, policy=policy)


def test_dropped_rounds_are_told_with_their_numbers_h27() -> None:
    """H27, B32: tokens_after counts the note, dropped_messages does not."""
    window = shaped(rounds())
    assert window.events == (
        ResultsCleared(results=5, tokens_saved=5 * SAVED),
        HistoryTrimmed(
            dropped_messages=4,
            dropped_turns=0,
            dropped_rounds=2,
            kept_turns=1,
            reason="token_budget",
            token_budget=1_000,
            tokens_before=1_054,
            tokens_after=541,
            source="estimate",
        ),
    )
    assert window.tokens == 541


def test_dropped_turns_are_told_with_their_numbers_h27() -> None:
    """H27: of the first turn the user message stands, so eleven messages and six turns left."""
    (event,) = shaped(turns(), policy=WHOLE_TURNS).events
    assert event == HistoryTrimmed(
        dropped_messages=11,
        dropped_turns=6,
        dropped_rounds=6,
        kept_turns=5,
        reason="token_budget",
        token_budget=1_000,
        tokens_before=1_050,
        tokens_after=529,
        source="estimate",
    )


def test_a_turn_limit_is_told_as_the_reason_h27() -> None:
    window = longturn.fit(chat(turns()), budget=5_000, policy=replace(PLAIN, max_history_messages=3))
    # Ten borders before this one moved the cut by one turn each; this one too.
    (event,) = window.events
    assert isinstance(event, HistoryTrimmed)
    assert (event.reason, event.dropped_turns, event.dropped_rounds, event.kept_turns) == ("turn_limit", 1, 1, 3)
    assert (event.dropped_messages, event.token_budget) == (2, 5_000)
    assert event.tokens_after == event.tokens_before - 100


@pytest.mark.parametrize("dialect", DIALECTS)
def test_events_count_canonical_messages_in_every_dialect_b29(dialect: str) -> None:
    """B29, H27."""
    window = longturn.fit(written(dialect, rounds()), budget=1_100, policy=PLAIN)
    wanted = longturn.fit(chat(rounds()), budget=1_100, policy=PLAIN)
    if dialect != "gemini":  # whose results are a few tokens larger, so it may shape where others need not
        assert window.events == wanted.events
    assert (window.report.messages, window.report.rounds, window.report.turns) == (19, 9, 1)


def test_nothing_is_told_when_nothing_was_dropped_h27() -> None:
    assert shaped(rounds()[:-2]).events == ()
    assert shaped(rounds(), budget=2_000).events == ()


def test_what_was_told_once_is_not_told_again_b32() -> None:
    """B32: events are those of the last border, edits are all in force."""
    first = shaped(rounds())
    second = shaped([*rounds(), *steps(10, 10)])
    assert second.events == ()
    assert second.edits == first.edits


def test_one_event_tells_one_trim_and_counts_only_what_is_new_h27() -> None:
    """H27: over a run, the dropped messages of all events are those that are not in the window."""
    fitter = Fitter(budget=1_000, policy=PLAIN)
    conversation = [*turns(), *steps(1, 40)]
    messages = chat(conversation)
    dropped = rounds_dropped = trims = 0
    for stop in range(1, len(messages) + 1):
        if stop < len(messages) and messages[stop]["role"] != "assistant":
            continue
        window = fitter.fit(messages[:stop])
        trimmed = [event for event in window.events if isinstance(event, HistoryTrimmed)]
        assert len(trimmed) <= 1
        for event in trimmed:
            trims += 1
            dropped += event.dropped_messages
            rounds_dropped += event.dropped_rounds
            assert event.tokens_after == window.tokens
            assert event.tokens_before > event.tokens_after
    assert trims > 2
    assert dropped == window.report.left_out == len([edit for edit in window.edits if edit.kind == "left_out"])
    kept_rounds = sum(message["role"] == "assistant" for message in window.messages)  # type: ignore[index]
    assert rounds_dropped == window.report.rounds - kept_rounds


def test_a_trim_after_a_report_says_that_its_numbers_are_calibrated_h27() -> None:
    fitter = Fitter(budget=1_000, policy=PLAIN)
    messages = chat(rounds()[:-2])
    fitter.observe({"input_tokens": fitter.fit(messages).tokens})
    messages += chat(rounds()[-2:])
    sources = [event.source for event in fitter.fit(messages).events if isinstance(event, HistoryTrimmed)]
    assert sources == ["calibrated"]


def test_events_and_edits_are_frozen_b32() -> None:
    window = shaped(rounds())
    with pytest.raises(FrozenInstanceError):
        window.events[0].results = 7  # type: ignore[union-attr, misc]
    with pytest.raises(FrozenInstanceError):
        window.edits[0].tokens = 7  # type: ignore[misc]


def test_each_edit_names_the_message_in_the_callers_list_b32() -> None:
    """B32: the first two rounds are left out, the results of the next five cleared."""
    edits = shaped(rounds()).edits
    assert [(edit.kind, edit.message, edit.tokens) for edit in edits] == [
        ("left_out", 1, CALL_TOKENS),
        ("left_out", 2, 100),
        ("left_out", 3, CALL_TOKENS),
        ("left_out", 4, 100),
        *(("cleared", place, SAVED) for place in (6, 8, 10, 12, 14)),
    ]
    assert all(edit.reason for edit in edits)


def test_every_change_of_a_window_is_an_edit_and_every_edit_a_change_b32() -> None:
    """B32, H28: no path trims silently."""
    messages = chat([*turns(), *steps(1, 30), reply("Done. "), ask("And? ")])
    window = longturn.fit(messages, budget=1_000, policy=PLAIN)
    gone = {place for place, message in enumerate(messages) if not any(message is each for each in window.messages)}
    assert {edit.message for edit in window.edits} == gone


def test_the_report_adds_up_b32() -> None:
    """B32: tokens and messages as the core counts them."""
    report = longturn.fit(
        chat([System(sized("Be brief. ", 50)), *rounds()]), budget=1_100, policy=PLAIN, capacity=9_000, max_output=0
    ).report
    assert (report.total, report.sent, report.system, report.tools) == (1_104, 1_104 - 513, 50, 0)
    assert (report.messages, report.turns, report.rounds) == (20, 1, 9)
    assert (report.kept_messages, report.left_out) == (16, 4)
    assert (report.whole_results, report.cleared_results) == (2, 5)
    assert (report.limit, report.capacity) == (1_100, 9_000)
    assert report.edits == {"left_out": 4, "cleared": 5}
    assert report.saved == {"left_out": 2 * (CALL_TOKENS + 100), "cleared": 5 * SAVED}
    assert report.sent == report.total - sum(report.saved.values()) + NOTE_TOKENS


def test_the_report_of_an_untouched_list_has_nothing_to_tell_b32() -> None:
    report = shaped(rounds()[:-2]).report
    assert (report.total, report.sent, report.left_out, report.cleared_results) == (948, 948, 0, 0)
    assert (report.edits, report.saved, report.repairs) == ({}, {}, ())


def test_the_printed_report_names_its_numbers_b32() -> None:
    text = str(shaped(rounds()).report)
    for number in ("541", "1,054", "1,000", "15 of 19"):
        assert number in text
    assert "5 results cleared" in text


def test_a_report_of_no_messages_can_be_printed_b32() -> None:
    assert "0 of 0" in str(longturn.fit([], policy=PLAIN).report)


def test_a_handed_back_window_says_that_something_was_left_out_before_it_b32() -> None:
    """B32, B18: it stands nowhere in the caller's list."""
    again = longturn.fit(shaped(rounds()).messages, budget=1_000, policy=PLAIN)
    assert [(edit.kind, edit.message) for edit in again.edits] == [("left_out", -1)]
    assert again.events == ()


def test_the_note_is_told_of_whenever_something_was_dropped_h27() -> None:
    """H27: note and event come together."""
    fitter = Fitter(budget=1_000, policy=PLAIN)
    messages = chat(turns())
    told = False
    for stop in range(1, len(messages) + 1, 2):
        window = fitter.fit(messages[:stop])
        told = told or any(isinstance(event, HistoryTrimmed) for event in window.events)
        assert ("NOTE" in outline(window)) == told
    assert told


def test_each_kind_of_event_says_how_much_it_saved_b32() -> None:
    """B32: the events beside the trim."""
    window = shaped([ask("Go ", 100), *steps(1, 5, 200)])
    assert window.events == (ResultsCleared(results=4, tokens_saved=4 * (200 - CLEARED_TOKENS)),)
    assert window.tokens == 1_130 - 4 * (200 - CLEARED_TOKENS)
