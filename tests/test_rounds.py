"""The ladder over turns and rounds: when it is climbed, how far, what a window looks like then, and that it is a fold.

Sizes by the plain rule: a budget of 1,000 has a ceiling of 1,000 and, with 100 tokens of pins, a target of 550.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

import longturn
from longturn import NOTE, Fitter, Policy, Window
from longturn.core.events import HistoryTrimmed, ResultsCleared
from longturn.testing import validate
from tests.conversations import (
    CALL_TOKENS,
    CLEARED_TOKENS,
    DIALECTS,
    NOTE_TOKENS,
    PLAIN,
    WHOLE_TURNS,
    Step,
    System,
    User,
    ask,
    chat,
    is_front,
    outline,
    reply,
    sized,
    step,
    steps,
    turn,
    written,
)

SMALL = 50
"""A result this small is not worth clearing (L4)."""


def shaped(conversation: list[Step], budget: int = 1_000, policy: Policy = PLAIN, **more: Any) -> Window:
    return longturn.fit(chat(conversation), budget=budget, policy=policy, **more)


def calls(conversation: list[Step], dialect: str = "openai_chat") -> Iterator[list[Any]]:
    """The lists that the model would be called with: the conversation before each answer, and at its end."""
    messages = written(dialect, conversation)
    for place, message in enumerate(messages):
        if place and (message.get("role") in ("assistant", "model") or message.get("type") == "function_call"):
            yield messages[:place]
    yield messages


def long_run(rounds: int, size: int = 100) -> list[Step]:
    """One user message and many rounds; every fifth result is five times as large."""
    made = [step(f"c{number}", size * (5 if number % 5 == 0 else 1)) for number in range(rounds)]
    return [ask("Go "), *(each for round_ in made for each in round_)]


def chatter(number: int) -> list[Step]:
    """Turns of a few rounds each, some long."""
    made: list[Step] = []
    for place in range(number):
        made += [ask(f"ask {place} ", 30), *steps(100 * place, 100 * place + place % 4, 60 + 40 * (place % 3))]
        made += [reply(f"say {place} ", 40)]
    return made


# --- when, and how far ---------------------------------------------------------------------------------------------


def test_a_window_is_shaped_only_above_its_ceiling_b8() -> None:
    """B8: 948 tokens and a last question of 52 are exactly the limit."""
    assert not shaped([ask("Go ", 100), *steps(1, 8), ask("And? ", 52)]).changed
    assert shaped([ask("Go ", 100), *steps(1, 8), ask("And? ", 53)]).changed


def test_each_rung_goes_on_towards_the_target_before_the_next_is_tried_b8() -> None:
    """B4, B8, B9, L6: 1,054 tokens; seven results cleared leave 592, two rounds less 541, under a target of 550."""
    window = shaped([ask("Go ", 100), *steps(1, 9)])
    cleared = [line for number in range(3, 8) for line in (f"call c{number}", f"c{number}: CLEARED")]
    whole = [line for number in (8, 9) for line in (f"call c{number}", f"c{number}: result c{number}")]
    assert outline(window) == ["Go", "NOTE", *cleared, *whole]
    assert window.tokens == 100 + NOTE_TOKENS + 7 * CALL_TOKENS + 5 * CLEARED_TOKENS + 200


def test_a_rung_that_suffices_leaves_the_next_alone_b4() -> None:
    """B4, B8: 1,130 tokens; four results cleared leave 466, so nothing is dropped."""
    window = shaped([ask("Go ", 100), *steps(1, 5, 200)])
    assert outline(window)[1::2] == [f"call c{number}" for number in range(1, 6)]
    assert [line.partition(": ")[2] for line in outline(window)[2::2]] == ["CLEARED"] * 4 + ["result c5"]
    assert window.tokens == 100 + 5 * CALL_TOKENS + 4 * CLEARED_TOKENS + 200


def test_a_rung_stops_at_the_target_and_not_before_b8() -> None:
    """B8: 1,074 tokens; each cleared result of 300 saves 266: two leave 542, the third result is whole though old."""
    window = shaped([ask("Go ", 100), *step("a", 300), *step("b", 300), *step("c", 100), *step("d", 250)])
    assert [line.partition(": ")[2] for line in outline(window)[2::2]] == ["CLEARED", "CLEARED", "result c", "result d"]
    assert window.tokens == 100 + 4 * CALL_TOKENS + 2 * CLEARED_TOKENS + 350


def test_whole_turns_are_dropped_the_oldest_first_l5() -> None:
    """L5, B8: 1,050 tokens; down to 550 six turns must go."""
    conversation = [each for number in range(1, 11) for each in turn(str(number))]
    window = shaped([*conversation, ask("ask 11 ", 50)], policy=WHOLE_TURNS)
    kept = [line for number in range(7, 11) for line in (f"ask {number}", f"assistant: say {number}")]
    assert outline(window) == ["ask 1", "NOTE", *kept, "ask 11"]
    assert window.tokens == 50 + NOTE_TOKENS + 400 + 50


def test_whole_rounds_are_dropped_inside_a_turn_that_alone_is_too_long_l6() -> None:
    """L6, B9: 1,046 tokens; without the first turn's answer and nine rounds 521 are left."""
    window = shaped([*turn("1"), ask("ask 2 ", 50), *steps(1, 16, SMALL)])
    kept = [line for number in range(10, 17) for line in (f"call c{number}", f"c{number}: result c{number}")]
    assert outline(window) == ["ask 1", "NOTE", "ask 2", *kept]
    assert window.tokens == 50 + NOTE_TOKENS + 50 + 7 * (CALL_TOKENS + SMALL)


def test_turns_are_dropped_before_any_round_of_the_running_one_l5() -> None:
    """L5, L6, B4: dropping one older turn is enough, so the running turn stays whole."""
    window = shaped([ask("ask 1 ", 50), reply("say 1 ", 600), ask("ask 2 ", 50), *steps(1, 8, SMALL)])
    assert outline(window)[:4] == ["ask 1", "NOTE", "ask 2", "call c1"]


def test_the_newest_round_stands_however_large_it_is_l6() -> None:
    """L6, B9, B31: exactly the floor is left: pins, note and the newest round."""
    window = shaped([ask("Go ", 50), *steps(1, 5), *step("huge", 5_000)])
    assert outline(window) == ["Go", "NOTE", "call huge", "huge: result huge"]
    assert window.tokens == 50 + NOTE_TOKENS + CALL_TOKENS + 5_000


def test_the_system_prompt_is_always_kept_l7() -> None:
    for size in (50, 900, 2_000):
        window = shaped([System(sized("Be brief. ", size)), ask("Go ", 50), *steps(1, 20)])
        assert outline(window)[:3] == ["system: Be brief.", "Go", "NOTE"]
        assert outline(window)[-1] == "c20: result c20"


def test_large_pins_leave_room_of_the_whole_share_b9() -> None:
    """B9: pins 900 of 1,000, room 250: the ceiling is 1,150 and the target 1,025."""
    assert not shaped([ask("Go ", 900), *steps(1, 4, SMALL)]).changed
    window = shaped([ask("Go ", 900), *steps(1, 5, SMALL)])
    assert outline(window) == ["Go", "NOTE", "call c5", "c5: result c5"]
    room = shaped([ask("Go ", 900), *steps(1, 5, SMALL)], policy=replace(PLAIN, target_ratio=0.8))
    assert outline(room) == ["Go", "NOTE", *(line for n in (3, 4, 5) for line in (f"call c{n}", f"c{n}: result c{n}"))]


def test_a_ceiling_is_never_above_the_capacity_b8() -> None:
    """B8: with large pins the ceiling would be 1,150; a window of 1,100 lowers it."""
    conversation = [ask("Go ", 900), *steps(1, 4, SMALL)]
    assert not shaped(conversation, capacity=1_150, max_output=0).changed
    window = shaped(conversation, capacity=1_100, max_output=0)
    assert window.changed
    assert window.tokens <= 1_100


def test_the_turn_limit_is_applied_before_the_size_is_tested_b4() -> None:
    """B4: 1,070 tokens over the budget, but two turns less make it fit: no result is cleared."""
    conversation = [ask("ask 1 "), reply("say 1 ", 300), ask("ask 2 "), *step("c", 300), reply("say 2 ", 300)]
    window = shaped([*conversation, ask("ask 3 ", 300)], policy=replace(PLAIN, max_history_messages=1))
    assert outline(window) == ["ask 1", "NOTE", "ask 3"]
    assert [type(event) for event in window.events] == [HistoryTrimmed]
    assert [event.reason for event in window.events if isinstance(event, HistoryTrimmed)] == ["turn_limit"]


# --- what it looks like --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_note_stands_behind_the_first_user_message_and_the_opener_behind_it_b17(dialect: str) -> None:
    """B17, H27, L6: in every dialect; its text is constant."""
    conversation = [*turn("1"), ask("ask 2 ", 50), *steps(1, 40, SMALL)]
    window = longturn.fit(written(dialect, conversation), budget=1_000, policy=PLAIN)
    assert outline(window)[:3] == ["ask 1", "NOTE", "ask 2"]
    assert outline(window).count("NOTE") == 1
    assert not any(character.isdigit() for character in NOTE)
    assert validate(window.messages, dialect) == []


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_shaped_list_that_was_answered_and_the_raw_history_give_the_same_windows_b18(dialect: str) -> None:
    """B18, B31 (law 10): the caller hands back the last window with what has arrived, or the whole history."""
    for conversation in (chatter(14), [*turn("1"), ask("ask 2 "), *long_run(25)[1:]], long_run(40)):
        earlier, window = 0, None
        for raw in calls(conversation, dialect):
            handed = [*(window.messages if window else []), *raw[earlier:]]
            window = longturn.fit(handed, budget=1_000, policy=PLAIN, dialect=dialect)
            assert window.messages == longturn.fit(raw, budget=1_000, policy=PLAIN, dialect=dialect).messages
            earlier = len(raw)


def test_a_user_message_between_our_note_and_the_first_kept_round_is_the_opener_b18() -> None:
    """B18: of a handed-back window: the message behind the note opened the turn that is cut inside."""
    handed = chat([User("Go"), User(NOTE), User("Next"), *steps(1, 3)])
    window = longturn.fit(handed, budget=1_000, policy=PLAIN)
    assert not window.changed
    assert (window.report.turns, window.report.messages) == (2, 8)
    again = longturn.fit([*handed, *chat(steps(4, 20))], budget=1_000, policy=PLAIN)
    assert outline(again)[:3] == ["Go", "NOTE", "Next"]


def test_only_the_first_exact_note_behind_the_first_message_is_ours_b18() -> None:
    """B18, H9: a second one in the same place is what a user said."""
    handed = chat([User("Go"), User(NOTE), User(NOTE), *step("a")])
    assert longturn.fit(handed, policy=PLAIN).report.turns == 2
    assert longturn.fit(chat([User("Go"), User(f"{NOTE} "), *step("a")]), policy=PLAIN).report.turns == 2


def test_a_note_behind_a_later_message_of_the_leading_run_is_ours_b18() -> None:
    """B18: the first exact match in the leading run of user messages."""
    handed = chat([User("Go"), User("Quickly"), User(NOTE), *step("a")])
    window = longturn.fit(handed, policy=PLAIN)
    assert window.report.messages == 4
    assert outline(window).count("NOTE") == 1


# --- a fold --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("policy", [PLAIN, replace(Policy.seed(), estimator=PLAIN.estimator)], ids=["default", "seed"])
def test_from_scratch_step_by_step_and_after_a_restart_the_windows_are_equal_l9(dialect: str, policy: Policy) -> None:
    """L9, B5: a window follows from the transcript and the policy, with no hidden state."""
    for conversation in (chatter(14), long_run(40)):
        stepwise = Fitter(budget=1_000, policy=policy, dialect=dialect)
        for raw in calls(conversation, dialect):
            wanted = longturn.fit(raw, budget=1_000, policy=policy, dialect=dialect).messages
            assert stepwise.fit(raw).messages == wanted
            restarted = Fitter(budget=1_000, policy=policy, dialect=dialect).load(stepwise.dump())
            assert restarted.fit(raw).messages == wanted


@pytest.mark.parametrize("conversation", [chatter(40), long_run(120)], ids=["turns", "rounds"])
def test_broken_fronts_are_bounded_by_what_was_added_l10(conversation: list[Step]) -> None:
    """L10, B30, B31 (law 8): a front breaks when the last request is no prefix of this one."""
    fitter = Fitter(budget=2_000, policy=PLAIN)
    windows = [fitter.fit(raw) for raw in calls(conversation)]
    pairs = list(pairwise(windows))
    breaks = sum(not is_front(before.messages, after.messages) for before, after in pairs)
    room = 2_000 - 60  # the pins are two messages of at most 30 tokens
    assert 0 < breaks <= windows[-1].report.total / (0.5 * room) + 1


def test_without_a_lower_target_fronts_break_far_more_often_l10() -> None:
    """L10, B30: the seed's own rule stays available, by its name."""
    breaks = {}
    for name, policy in {"default": PLAIN, "seed": replace(Policy.seed(), estimator=PLAIN.estimator)}.items():
        fitter = Fitter(budget=2_000, policy=policy)
        windows = [fitter.fit(raw).messages for raw in calls(long_run(120))]
        breaks[name] = sum(not is_front(before, after) for before, after in pairwise(windows))
    assert breaks["seed"] > 2 * breaks["default"]
    assert longturn.fit(chat(long_run(9)), budget=1_000, policy="seed").budget == 1_000


@pytest.mark.parametrize("dialect", DIALECTS)
def test_bytes_once_sent_change_only_where_a_step_was_taken_l11(dialect: str) -> None:
    """L11, B30, B32: without an event the last window is a front of this one."""
    fitter, last, quiet = Fitter(budget=1_000, policy=PLAIN, dialect=dialect), None, 0
    for raw in calls(chatter(20), dialect):
        window = fitter.fit(raw)
        if last is not None and not window.events:
            assert is_front(last, window.messages)
            quiet += 1
        last = window.messages
    assert quiet > 20


def test_what_is_decided_at_the_end_is_tentative_b2() -> None:
    """B2: a retry, or a second user message, decides anew from what was committed."""
    before = [ask("Go ", 100), *steps(1, 8)]
    fitter = Fitter(budget=1_000, policy=PLAIN)
    messages = chat(before)
    assert not fitter.fit(messages).changed
    messages += chat([ask("And? ", 53)])
    first = fitter.fit(messages)
    assert first.changed
    retried = fitter.fit(messages)
    assert (retried.messages, retried.events, retried.tokens) == (first.messages, first.events, first.tokens)
    messages += chat([ask("Hello? ", 400)])
    second = fitter.fit(messages)
    assert second.messages == longturn.fit(messages, budget=1_000, policy=PLAIN).messages
    assert second.messages[-2:] == messages[-2:]


def test_looking_at_a_window_between_two_answers_changes_no_later_one_b2() -> None:
    """B2: one fitter looks after every message, the other only when the model is called."""
    messages = chat(chatter(16))
    looking, calling = Fitter(budget=1_000, policy=PLAIN), Fitter(budget=1_000, policy=PLAIN)
    for place in range(1, len(messages) + 1):
        seen = looking.fit(messages[:place])
        if place == len(messages) or messages[place]["role"] == "assistant":
            assert calling.fit(messages[:place]).messages == seen.messages


def test_decisions_of_answered_calls_are_carried_on_and_never_undone_b3() -> None:
    """B3, L9: what is left out stays out; what is cleared stays so until it is left out."""
    out: set[int] = set()
    cleared: set[int] = set()
    for raw in calls(chatter(25)):
        if raw[-1]["role"] == "user" and len(raw) > 1:
            continue  # decided at the end of a list whose answer follows; seen again one call later
        edits = longturn.fit(raw, budget=1_000, policy=PLAIN).edits
        now_out = {edit.message for edit in edits if edit.kind == "left_out"}
        now_cleared = {edit.message for edit in edits if edit.kind == "cleared"}
        assert out <= now_out
        assert cleared <= now_cleared | now_out
        out, cleared = now_out, now_cleared
    assert out


def test_a_larger_budget_later_brings_nothing_back_into_another_route_b5() -> None:
    """B5: each route folds the whole transcript by itself; a switch undoes nothing elsewhere."""
    narrow, wide = Fitter(budget=1_000, policy=PLAIN), Fitter(budget=4_000, policy=PLAIN)
    for place, raw in enumerate(calls(long_run(60))):
        route, budget = (narrow, 1_000) if place % 3 else (wide, 4_000)
        assert route.fit(raw).messages == longturn.fit(raw, budget=budget, policy=PLAIN).messages


def test_a_bare_list_has_no_calibration_and_recorded_usage_gives_sixteenths_b5() -> None:
    """B5, L15."""
    fitter = Fitter(budget=10_000, policy=PLAIN)
    window = fitter.fit(chat([ask("Go ", 500), *steps(1, 5)]))
    assert fitter.meter.factor == 1
    fitter.observe({"input_tokens": round(window.tokens * 1.4)})
    assert fitter.meter.factor == 22 / 16


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_window_is_below_its_ceiling_or_exactly_the_floor_b31(dialect: str) -> None:
    """B31, laws 1 and 6: the opener and the newest unit survive."""
    for budget in (150, 400, 1_000, 3_000):
        for raw in calls(chatter(10), dialect):
            window = longturn.fit(raw, budget=budget, policy=PLAIN, dialect=dialect)
            assert window.messages[-1] is raw[-1]
            ceiling = max(budget, 60 + budget // 4)  # the pins are two messages of 30 tokens
            assert window.tokens <= ceiling or len(outline(window)) <= 5


def test_a_list_of_system_messages_alone_is_left_as_it_is_b31() -> None:
    """B31: law 7 excepts it; it is no error of ours."""
    messages = chat([System("Be brief.")])
    assert longturn.fit(messages, budget=10, policy=PLAIN).messages == messages
    assert longturn.fit([], budget=10, policy=PLAIN).messages == []


def test_results_are_cleared_before_turns_are_dropped_b4() -> None:
    """B4: in one break both are needed; each leaves its own event."""
    window = shaped([ask("Go ", 100), *steps(1, 9)])
    assert [type(event) for event in window.events] == [ResultsCleared, HistoryTrimmed]
