"""Turns and rounds: where they begin, how many stand, and that whatever is left out goes whole."""

import copy
from dataclasses import replace

import pytest

import longturn
from longturn import NOTE, Policy
from longturn.testing import validate
from tests.conversations import (
    DIALECTS,
    NOTE_TOKENS,
    PLAIN,
    WHOLE_TURNS,
    Answer,
    Result,
    Step,
    System,
    User,
    ask,
    chat,
    outline,
    reply,
    step,
    steps,
    turn,
    written,
)


def at_most(turns: int) -> Policy:
    return replace(PLAIN, max_history_messages=turns)


def turns(first: int, last: int, size: int = 40) -> list[Step]:
    """Answered turns, by their numbers."""
    return [each for number in range(first, last + 1) for each in turn(str(number), size)]


def said(first: int, last: int) -> list[str]:
    return [line for number in range(first, last + 1) for line in (f"ask {number}", f"assistant: say {number}")]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_shaping_edits_nothing_that_was_handed_in(dialect: str) -> None:
    """H1: nothing that shapes a request edits the transcript."""
    messages = written(dialect, [*turns(1, 3), ask("ask 4 "), *steps(1, 12)])
    before, objects = copy.deepcopy(messages), list(messages)
    assert longturn.fit(messages, budget=600, policy=PLAIN).changed
    assert messages == before
    assert all(now is then for now, then in zip(messages, objects, strict=True))


def test_a_window_can_be_thrown_away_and_derived_again() -> None:
    """H2."""
    messages = chat([*turns(1, 3), ask("ask 4 "), *steps(1, 12)])
    window = longturn.fit(messages, budget=600, policy=PLAIN)
    wanted = copy.deepcopy(window.messages)
    window.messages.clear()
    assert longturn.fit(messages, budget=600, policy=PLAIN).messages == wanted


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_newest_turns_stand_whole_and_an_explicit_number_is_exact(dialect: str) -> None:
    """H3, B19: seven turns, three kept; the first user message stays in front of the note."""
    window = longturn.fit(written(dialect, [*turns(1, 6), ask("ask 7 ")]), policy=at_most(3))
    assert outline(window) == ["ask 1", "NOTE", *said(5, 6), "ask 7"]


def test_a_turn_limit_that_is_just_met_changes_nothing() -> None:
    """H3, B19."""
    messages = chat([*turns(1, 2), ask("ask 3 ")])
    assert not longturn.fit(messages, policy=at_most(3)).changed
    assert longturn.fit(messages, policy=at_most(2)).changed


def test_an_explicit_turn_limit_moves_by_one_turn_at_each_new_one() -> None:
    """H3, B19: the first message, whose own rounds are gone, is no turn any more."""
    for number in range(4, 9):
        window = longturn.fit(chat([*turns(1, number - 1), ask(f"ask {number} ")]), policy=at_most(3))
        assert outline(window) == ["ask 1", "NOTE", *said(number - 2, number - 1), f"ask {number}"]


def test_the_turn_limit_holds_between_the_iterations_of_a_tool_loop() -> None:
    """H3: the same turns stand at each call of a turn."""
    running = [*turns(1, 3), ask("ask 4 ")]
    for number in range(4):
        window = longturn.fit(chat([*running, *steps(1, number, 20)]), policy=at_most(2))
        assert outline(window)[:5] == ["ask 1", "NOTE", *said(3, 3), "ask 4"]
        assert window.report.kept_messages == 4 + 2 * number


def test_the_default_of_fifty_turns_drops_to_half_at_once() -> None:
    """H3, B19: ceil(50 x 0.5) = 25 turns stand after a break, and the next one comes 26 turns later."""
    assert not longturn.fit(chat([*turns(1, 49), ask("ask 50 ")]), policy=PLAIN).changed
    assert outline(longturn.fit(chat([*turns(1, 50), ask("ask 51 ")]), policy=PLAIN)) == [
        "ask 1",
        "NOTE",
        *said(27, 50),
        "ask 51",
    ]
    assert outline(longturn.fit(chat([*turns(1, 75), ask("ask 76 ")]), policy=PLAIN))[2] == "ask 27"
    assert outline(longturn.fit(chat([*turns(1, 76), ask("ask 77 ")]), policy=PLAIN))[2] == "ask 53"


def test_the_default_rounds_half_a_turn_up_and_follows_the_ratio() -> None:
    """B19: ceil(50 x 0.33) = 17; an explicit 50 is exact whatever the ratio."""
    messages = chat([*turns(1, 50), ask("ask 51 ")])
    assert outline(longturn.fit(messages, policy=replace(PLAIN, target_ratio=0.33)))[2] == "ask 35"
    assert outline(longturn.fit(messages, policy=at_most(50)))[2] == "ask 2"
    assert outline(longturn.fit(messages, policy="seed"))[2] == "ask 2"


def test_a_first_turn_without_rounds_is_not_counted() -> None:
    """B19: the first message's turn counts while any of its rounds is kept; it has none here."""
    messages = chat([ask("ask 1 "), ask("ask 2 "), ask("ask 3 "), ask("ask 4 ")])
    assert not longturn.fit(messages, policy=at_most(3)).changed
    assert outline(longturn.fit(messages, policy=at_most(2))) == ["ask 1", "NOTE", "ask 3", "ask 4"]


def test_a_turn_limit_of_zero_acts_as_one_h8() -> None:
    messages = chat([*turns(1, 2), ask("ask 3 "), *step("c")])
    for turns_kept in (0, 1):
        window = longturn.fit(messages, policy=at_most(turns_kept))
        assert outline(window) == ["ask 1", "NOTE", "ask 3", "call c", "c: result c"]


def test_a_budget_smaller_than_the_newest_turn_keeps_it_h8() -> None:
    window = longturn.fit(chat([*turns(1, 3), ask("ask 4 ", 5_000)]), budget=10, policy=PLAIN)
    assert outline(window) == ["ask 1", "NOTE", "ask 4"]
    assert window.tokens == 20 + NOTE_TOKENS + 5_000


@pytest.mark.parametrize("dialect", DIALECTS)
def test_calls_leave_with_their_results_and_parallel_ones_together(dialect: str) -> None:
    """H4: a round is an answer with the results of all its calls, and is never split."""
    rounds: list[Step] = []
    for number in range(12):
        parallel = tuple(f"{name}{number}" for name in "abc")
        rounds += [Answer(calls=parallel), *(Result(call, "short") for call in parallel)]
    for budget in range(60, 400, 20):
        window = longturn.fit(written(dialect, [ask("Go "), *rounds]), budget=budget, policy=PLAIN)
        kept = outline(window)
        calls = [line.removeprefix("call ") for line in kept if line.startswith("call ")]
        assert [line.partition(":")[0] for line in kept if ": " in line] == calls
        assert len(calls) % 3 == 0
        assert validate(window.messages, dialect) == []


@pytest.mark.parametrize("text", ["[Tool results] read: 12 files", " \n\t[Tool results]\nread: 12 files"])
def test_a_message_of_tool_results_in_words_opens_no_turn_h5(text: str) -> None:
    conversation: list[Step] = [
        *turns(1, 1),
        ask("ask 2 "),
        reply("say 2 "),
        User(text),
        reply("say more "),
        ask("ask 3 "),
    ]
    window = longturn.fit(chat(conversation), policy=at_most(2))
    assert outline(window) == ["ask 1", "NOTE", *said(2, 2), text.strip(), "assistant: say more", "ask 3"]


def test_the_words_inside_a_message_do_open_a_turn_h5() -> None:
    conversation: list[Step] = [*turns(1, 2), User("What are [Tool results]?"), reply("say 3 "), ask("ask 4 ")]
    window = longturn.fit(chat(conversation), policy=at_most(2))
    assert outline(window) == ["ask 1", "NOTE", "What are [Tool results]?", "assistant: say 3", "ask 4"]


def test_an_anthropic_message_of_results_opens_no_turn_but_one_with_words_does_h5() -> None:
    """H5: results with new text close a round and open a turn."""
    only = [*turns(1, 1), ask("ask 2 "), *step("a"), *step("b"), reply("say 2 ")]
    messages = written("anthropic", only)
    assert longturn.fit(messages, policy=PLAIN).report.turns == 2
    messages[-2]["content"].append({"type": "text", "text": "And now the rest."})
    assert longturn.fit(messages, policy=PLAIN).report.turns == 3


def test_leading_system_messages_stand_and_later_ones_leave_with_their_turn_h6() -> None:
    conversation: list[Step] = [
        *(System("Be brief."), System("Be kind.")),
        reply("Welcome "),
        *turns(1, 1),
        *(ask("ask 2 "), System("It is noon."), reply("say 2 ")),
        ask("ask 3 "),
    ]
    front = ["system: Be brief.", "system: Be kind.", "ask 1", "NOTE"]
    one, two = (longturn.fit(chat(conversation), policy=at_most(number)) for number in (1, 2))
    assert outline(one) == [*front, "ask 3"]
    assert outline(two) == [*front, "ask 2", "system: It is noon.", "assistant: say 2", "ask 3"]
    assert not longturn.fit(chat(conversation), policy=at_most(3)).changed


def test_a_leading_developer_message_is_kept_like_a_system_one_h6() -> None:
    messages = [{"role": "developer", "content": "Be brief."}, *chat([*turns(1, 5), ask("ask 6 ")])]
    window = longturn.fit(messages, policy=at_most(1))
    assert window.messages[0] is messages[0]
    assert outline(window)[1:] == ["ask 1", "NOTE", "ask 6"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_nothing_changes_when_nothing_needs_to_be_dropped(dialect: str) -> None:
    """H7: the same objects, in order."""
    messages = written(dialect, [*turns(1, 3), ask("ask 4 "), *steps(1, 4), reply("say 4 "), ask("ask 5 ")])
    window = longturn.fit(messages, budget=5_000, policy=PLAIN)
    assert not window.changed
    assert len(window.messages) == len(messages)
    assert all(now is then for now, then in zip(window.messages, messages, strict=True))
    assert (window.edits, window.events) == ((), ())


def test_a_user_who_types_our_note_elsewhere_keeps_a_real_turn_h9() -> None:
    conversation: list[Step] = [*turns(1, 1), User(NOTE), reply("say 2 "), ask("ask 3 ")]
    assert longturn.fit(chat(conversation), policy=PLAIN).report.turns == 3
    window = longturn.fit(chat(conversation), policy=at_most(2))
    assert outline(window) == ["ask 1", "NOTE", "NOTE", "assistant: say 2", "ask 3"]
    assert window.messages[2] == {"role": "user", "content": NOTE}


def test_an_assistant_or_a_first_message_with_the_words_of_our_note_is_none_h9() -> None:
    """H9: it is known by place and text together."""
    messages = chat([User(NOTE), Answer(NOTE), ask("ask 2 ")])
    window = longturn.fit(messages, policy=PLAIN)
    assert not window.changed
    assert (window.report.turns, window.report.messages) == (2, 3)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_shaping_a_shaped_list_never_stacks_notes_h9(dialect: str) -> None:
    raw = [*turns(1, 4), ask("ask 5 ")]
    shaped = longturn.fit(written(dialect, raw), policy=at_most(2))
    more: list[Step] = [reply("say 5 "), ask("ask 6 ")]
    again = longturn.fit([*shaped.messages, *written(dialect, more)], policy=at_most(2))
    assert outline(again) == ["ask 1", "NOTE", *said(5, 5), "ask 6"]
    assert again.messages == longturn.fit(written(dialect, [*raw, *more]), policy=at_most(2)).messages


def test_our_note_is_no_turn_and_no_message_of_the_transcript_h9() -> None:
    shaped = longturn.fit(chat([*turns(1, 4), ask("ask 5 ")]), policy=at_most(2))
    report = longturn.fit(shaped.messages, policy=at_most(2)).report
    assert (report.turns, report.messages, report.left_out) == (3, 4, 0)


def test_neighbouring_answers_are_one_unless_the_earlier_has_open_calls_b1() -> None:
    one = chat([ask("Go "), Answer("Part one."), Answer("Part two.")])
    assert longturn.fit(one, policy=PLAIN).report.rounds == 1
    closed = chat([ask("Go "), *step("a"), Answer("Part one."), Answer("Part two.")])
    assert longturn.fit(closed, policy=PLAIN).report.rounds == 2
    opened = chat([ask("Go "), Answer(calls=("a",)), Answer("I gave up.")])
    assert longturn.fit(opened, policy=PLAIN).report.rounds == 2


def test_all_items_of_one_answer_are_one_border_b1() -> None:
    """B1: in Responses an answer is spread over several items."""
    both = (Result("a", "x"), Result("b", "y"))
    conversation: list[Step] = [ask("Go "), Answer("I shall look.", ("a", "b")), *both, Answer("Done.")]
    for dialect in DIALECTS:
        report = longturn.fit(written(dialect, conversation), policy=PLAIN).report
        assert (report.rounds, report.turns) == (2, 1)


def test_the_first_message_goes_last_and_only_to_avoid_a_refusal_b16() -> None:
    """B16: the opener of the running turn takes its place; on an estimate alone 1,250 is sent to 1,000 (B11)."""
    messages = chat([ask("ask 1 ", 700), reply("say 1 "), ask("ask 2 ", 600)])
    kept = longturn.fit(messages, budget=500, capacity=1_100, max_output=0, policy=PLAIN)
    assert outline(kept) == ["ask 1", "NOTE", "ask 2"]
    gone = longturn.fit(messages, budget=500, capacity=1_000, max_output=0, policy=PLAIN)
    assert outline(gone) == ["ask 2", "NOTE"]
    assert gone.tokens == 600 + NOTE_TOKENS


def test_a_first_message_that_went_does_not_come_back_b16() -> None:
    conversation: list[Step] = [ask("ask 1 ", 700), reply("say 1 "), ask("ask 2 ", 600), reply("say 2 "), ask("ask 3 ")]
    window = longturn.fit(chat(conversation), budget=900, capacity=1_000, max_output=0, policy=PLAIN)
    assert outline(window) == ["ask 2", "NOTE", *said(2, 2)[1:], "ask 3"]


def test_the_opener_of_a_turn_that_was_cut_inside_leaves_with_it_b16() -> None:
    """B16: ask 2 stands while its turn runs, and goes when turns are dropped for the next."""
    second = [*turns(1, 1), ask("ask 2 "), *steps(1, 20)]
    running = longturn.fit(chat(second), budget=1_000, policy=WHOLE_TURNS)
    assert outline(running)[:3] == ["ask 1", "NOTE", "ask 2"]
    third = [*second, reply("say 2 "), ask("ask 3 "), *steps(21, 40)]
    later = longturn.fit(chat(third), budget=1_000, policy=WHOLE_TURNS)
    assert outline(later)[:3] == ["ask 1", "NOTE", "ask 3"]
    assert "ask 2" not in outline(later)


def test_a_turn_that_was_cut_inside_counts_as_whole_b16() -> None:
    """B16, B19: with a limit of two turns the cut one and the running one both stand."""
    second = [*turns(1, 1), ask("ask 2 "), *steps(1, 20), reply("say 2 ")]
    policy = at_most(2)
    window = longturn.fit(chat([*second, ask("ask 3 ")]), budget=1_000, policy=policy)
    assert outline(window)[:3] == ["ask 1", "NOTE", "ask 2"]
    window = longturn.fit(chat([*second, ask("ask 3 "), reply("say 3 "), ask("ask 4 ")]), budget=1_000, policy=policy)
    assert outline(window) == ["ask 1", "NOTE", *said(3, 3), "ask 4"]


def test_a_cut_that_leaves_out_no_message_is_none_b16() -> None:
    window = longturn.fit(chat([ask("ask 1 ", 100), ask("ask 2 ", 2_000)]), budget=1_000, policy=PLAIN)
    assert not window.changed
    assert window.events == ()
