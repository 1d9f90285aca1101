"""The rung "answers": old rounds leave, and the newest words of users before them stay as far as the whole share goes.

Sizes by the plain rule: a budget of 1,000 has a ceiling of 1,000, a whole share of 250 and, with pins of p tokens, a
target of p + (1,000 - p) / 2.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given

import longturn
from longturn import NOTE, ContextWindowExceeded, Fitter, Policy, Window
from longturn.core.counts import Counts
from longturn.core.events import HistoryTrimmed, ResultsCleared
from longturn.core.fold import Base
from longturn.core.messages import Message
from longturn.core.planners import folded, summarizing
from longturn.core.replay import NOTE_ITEM, SUMMARY_ITEM, VARIANTS, Run, Sizes, replay, size_of
from longturn.core.tokens import SIMPLE
from longturn.core.transcript import Transcript
from longturn.core.view import Rules
from longturn.strict import StrictAnthropic
from longturn.testing import validate
from tests.conversations import (
    CLEARED_TOKENS,
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
    is_front,
    outline,
    reply,
    sized,
    step,
    steps,
    written,
)
from tests.oracle import opener_places, read
from tests.strategies import MARKS, PIN, Case, cases

ANSWERS = replace(PLAIN, rungs=("images", "results", "arguments", "answers", "turns", "rounds"))
Native = dict[str, Any]


def asked(first: int, last: int) -> list[str]:
    return [f"ask {number}" for number in range(first, last + 1)]


def turns(first: int, last: int, said: int = 30, answered: int = 100) -> list[Step]:
    """Answered turns: a user's message of `said` tokens and an answer of `answered`."""
    return [
        each
        for number in range(first, last + 1)
        for each in (ask(f"ask {number} ", said), reply(f"say {number} ", answered))
    ]


def shaped(conversation: Sequence[Step], budget: int = 1_000, policy: Policy = ANSWERS, **more: Any) -> Window:
    return longturn.fit(chat(conversation), budget=budget, policy=policy, **more)


def prefixes(messages: Sequence[Native]) -> Iterator[list[Native]]:
    """The lists that the model would be called with: before each answer, and at the end."""
    for at in range(1, len(messages)):
        if messages[at].get("role") in ("assistant", "model") or messages[at].get("type") == "function_call":
            yield list(messages[:at])
    yield list(messages)


SEVEN = [*turns(1, 7), ask("ask 8 ", 120)]
"""1,030 tokens at the last call, for which the first break is: pins of 150, a target of 575."""
LEFT = ["ask 1", "NOTE", "ask 2", "ask 3", "ask 4", "ask 5", "ask 6", "assistant: say 6", "ask 7", "assistant: say 7"]
"""What is left of it before the newest message."""


# --- what stays ----------------------------------------------------------------------------------------------------


def test_words_of_users_survive_word_for_word_where_the_answers_between_them_go() -> None:
    """B9: with five answers left out 559 tokens are left, with four it would be 659."""
    messages = chat(SEVEN)
    window = longturn.fit(messages, budget=1_000, policy=ANSWERS)
    assert outline(window) == [*LEFT, "ask 8"]
    assert window.tokens == 30 + NOTE_TOKENS + 4 * 30 + 2 * 130 + 120
    sent: list[Any] = window.messages
    kept = [message for message in sent if message["role"] == "user" and message["content"] != NOTE]
    assert [id(message) for message in kept] == [id(message) for message in messages if message["role"] == "user"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_in_every_dialect_the_same_stands_and_it_is_valid_h27(dialect: str) -> None:
    """H27, B17, law 7: behind the note, in order."""
    window = longturn.fit(written(dialect, SEVEN), budget=1_000, policy=ANSWERS)
    assert outline(window) == [*LEFT, "ask 8"]
    assert validate(window.messages, dialect) == []


def twelve(said: int) -> list[Step]:
    """1,060 tokens at the last call: twelve turns of 80, of which users said so many, and a message of 100."""
    return [*turns(1, 12, said, 80 - said), ask("ask 13 ", 100)]


@pytest.mark.parametrize(("said", "standing"), [(30, 8), (31, 8), (32, 7), (50, 5), (51, 4), (62, 4), (63, 3)])
def test_what_users_said_stands_as_far_as_it_fits_in_the_whole_share(said: int, standing: int) -> None:
    """L3: 250 tokens, the newest first; a message is there as a whole or not at all."""
    lines = outline(shaped(twelve(said)))
    whole = sum(line.startswith("assistant") for line in lines)
    assert lines[2 : 2 + standing] == asked(13 - whole - standing, 12 - whole)
    assert lines[2 + standing : 4 + standing] == [f"ask {13 - whole}", f"assistant: say {13 - whole}"]
    assert standing * said <= 250 < (standing + 1) * said


def test_a_message_that_does_not_fit_ends_what_stands_so_that_no_gap_is_hidden_between() -> None:
    """The note says that something is missing, and it stands before all that is left: ask 3 would still fit."""
    large: list[Step] = [ask("ask 4 ", 230), reply("say 4 ", 100)]
    conversation: list[Step] = [*turns(1, 3), *large, *turns(5, 6), ask("ask 7 ", 120)]
    assert outline(shaped(conversation)) == ["ask 1", "NOTE", "ask 5", "ask 6", "assistant: say 6", "ask 7"]


def test_the_share_is_of_the_limit_and_can_be_turned() -> None:
    none = replace(ANSWERS, whole_share=0.01)
    assert outline(shaped(SEVEN, policy=none))[:4] == ["ask 1", "NOTE", "ask 5", "assistant: say 5"]
    some = replace(ANSWERS, whole_share=0.07)
    assert outline(shaped(SEVEN, policy=some))[:6] == ["ask 1", "NOTE", "ask 4", "ask 5", "ask 6", "assistant: say 6"]


def test_of_a_running_turn_the_rounds_leave_behind_those_of_older_turns() -> None:
    """L6: its opener and the newest round stay; what users said before stays too."""
    conversation: list[Step] = [*turns(1, 3), ask("ask 4 ", 30), *steps(1, 20, 50)]
    lines = outline(shaped(conversation))
    assert lines[:5] == ["ask 1", "NOTE", "ask 2", "ask 3", "ask 4"]
    assert not any(line.startswith("assistant") for line in lines)
    assert lines[5:][-2:] == ["call c20", "c20: result c20"]
    less = shaped([*turns(1, 3), ask("ask 4 ", 30), *steps(1, 9, 50)], budget=850)
    assert outline(less)[:5] == ["ask 1", "NOTE", "ask 2", "ask 3", "ask 4"]
    assert "call c1" not in outline(less)


def test_rounds_of_older_turns_suffice_where_they_can() -> None:
    """B8: the running turn stays whole when the older ones' answers free enough."""
    conversation: list[Step] = [*turns(1, 6), ask("ask 7 ", 30), *steps(1, 5, 50)]
    lines = outline(shaped(conversation))
    assert lines[2 : lines.index("ask 7")] == asked(2, 6) or "assistant: say 6" in lines
    assert [line for line in lines if line.startswith("call")] == [f"call c{number}" for number in range(1, 6)]


def test_system_messages_and_results_in_words_between_them_leave_with_the_answers_h5() -> None:
    """H5, H6: only a message that opens a turn is what a user said."""
    between: list[Step] = [
        System(sized("It is noon. ", 30)),
        User("[Tool results] read: 12 files"),
        reply("say 2b ", 300),
    ]
    conversation: list[Step] = [*turns(1, 2, 30, 300), *between, *turns(3, 4, 30, 300), ask("ask 5 ", 30)]
    assert outline(shaped(conversation, budget=900))[:4] == ["ask 1", "NOTE", "ask 2", "ask 3"]


def test_of_a_message_with_results_and_words_the_words_stay_h5() -> None:
    """H5, B27: Anthropic's user message that closes a round and opens a turn stands in part."""
    messages = written("anthropic", [ask("ask 1 ", 30), *step("a", 300), reply("say 1 ", 300), *turns(3, 6)])
    messages[2]["content"].append({"type": "text", "text": "ask 2"})
    whole = messages[2]
    window = longturn.fit([*messages, {"role": "user", "content": "ask 7"}], budget=700, policy=ANSWERS)
    assert outline(window)[:4] == ["ask 1", "NOTE", "ask 2", "ask 3"]
    assert len(whole["content"]) == 2
    assert validate(window.messages, "anthropic") == []


def test_an_image_that_a_user_sent_stays_and_counts_h22() -> None:
    """H22, B12: images in results go, those of users are what they said."""
    policy = replace(ANSWERS, image_tokens=100)
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    messages = chat([*turns(1, 9, 30, 150), ask("ask 10 ", 30)])
    shown = {"role": "user", "content": [{"type": "text", "text": sized("ask 7b ", 30)}, image]}
    messages.insert(14, shown)
    window = longturn.fit(messages, budget=1_000, policy=policy)
    assert any(message is shown for message in window.messages)
    # 130 for the picture and its words, and four more of 30 beside it in 250.
    assert outline(window)[2:8] == ["ask 5", "ask 6", "ask 7", "ask 7b", "media", "ask 8"]
    assert window.tokens == 30 + NOTE_TOKENS + 3 * 30 + 130 + 30 + 180 + 30
    assert longturn.fit(messages, budget=1_000, policy=replace(policy, image_tokens=240)).messages.count(shown) == 0


# --- pins ----------------------------------------------------------------------------------------------------------


def pinned(policy: Policy = ANSWERS) -> Policy:
    return replace(policy, pin=lambda item: "(pinned)" in str(item))


def test_a_pinned_message_stands_in_its_place_among_those_that_stay_b14() -> None:
    conversation: list[Step] = [
        *turns(1, 3),
        ask("ask 4 (pinned) ", 30),
        reply("say 4 ", 100),
        *turns(5, 7),
        ask("ask 8 ", 120),
    ]
    lines = outline(shaped(conversation, policy=pinned()))
    assert lines[:6] == ["ask 1", "NOTE", "ask 2", "ask 3", "ask 4 (pinned)", "ask 5"]
    assert lines.count("ask 4 (pinned)") == 1


def test_a_pinned_round_stands_between_the_words_of_users_b14() -> None:
    """B14, law 5: in the order in which it was said."""
    kept: list[Step] = [
        Answer(calls=("kept",)),
        Result("kept", sized("result kept (pinned) ", 40)),
        reply("say 3 ", 100),
    ]
    conversation: list[Step] = [*turns(1, 2), ask("ask 3 ", 30), *kept, *turns(4, 10), ask("ask 11 ", 30)]
    lines = outline(shaped(conversation, policy=pinned()))
    assert lines[:2] == ["ask 1", "NOTE"]
    at = lines.index("call kept")
    assert lines[at - 1 : at + 3] == ["ask 3", "call kept", "kept: result kept (pinned)", "ask 4"]


def test_a_pinned_message_older_than_all_that_fits_stands_before_it_b14() -> None:
    conversation: list[Step] = [
        *turns(1, 1),
        ask("ask 2 (pinned) ", 30),
        reply("say 2 ", 100),
        *turns(3, 14),
        ask("ask 15 ", 30),
    ]
    lines = outline(shaped(conversation, policy=pinned()))
    assert lines[:3] == ["ask 1", "NOTE", "ask 2 (pinned)"]
    assert "ask 3" not in lines


# --- thinking ------------------------------------------------------------------------------------------------------


def thinking_turn(number: int, said: int = 30) -> list[Native]:
    """A user's message, a round with thinking, and an answer."""
    call = {"type": "tool_use", "id": f"t{number}", "name": "read", "input": {}}
    result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": sized(f"result {number} ", 60)}
    return [
        {"role": "user", "content": sized(f"ask {number} ", said)},
        {"role": "assistant", "content": [thought(number), call]},
        {"role": "user", "content": [result]},
        {"role": "assistant", "content": [{"type": "text", "text": sized(f"say {number} ", 60)}]},
    ]


def thought(number: int) -> Native:
    return {"type": "thinking", "thinking": f"Plan {number}. " * 4, "signature": "s" * 18}


def test_while_a_tool_turn_runs_the_first_round_behind_the_words_starts_with_thinking_b24() -> None:
    """B24: the cut inside the running turn moves on to the next round with thinking."""
    older = [message for number in range(1, 4) for message in thinking_turn(number)]
    running: list[Native] = [{"role": "user", "content": sized("ask 4 ", 30)}]
    for number in range(5, 25):
        call = {"type": "tool_use", "id": f"t{number}", "name": "read", "input": {}}
        blocks = [thought(number), call] if number % 4 == 0 else [call]
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": sized(f"result {number} ", 40)}
        running += [{"role": "assistant", "content": blocks}, {"role": "user", "content": [result]}]
    window = longturn.fit([*older, *running], budget=900, policy=ANSWERS, model="claude-opus-4-6", dialect="anthropic")
    lines = outline(window)
    assert lines[:5] == ["ask 1", "NOTE", "ask 2", "ask 3", "ask 4"]
    assert lines[5] == "thinking"
    assert validate(window.messages, "anthropic") == []


def test_a_round_that_is_kept_for_its_thinking_stands_behind_the_words_before_it_b24() -> None:
    """B24, law 5: where no newer round has thinking, the newest older one that has stays with its result cleared."""
    older = [message for number in range(1, 4) for message in thinking_turn(number)]
    running: list[Native] = [{"role": "user", "content": sized("ask 4 ", 30)}]
    for number in range(5, 25):
        call = {"type": "tool_use", "id": f"t{number}", "name": "read", "input": {}}
        blocks = [thought(number), call] if number == 5 else [call]
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": sized(f"result {number} ", 90)}
        running += [{"role": "assistant", "content": blocks}, {"role": "user", "content": [result]}]
    window = longturn.fit([*older, *running], budget=700, policy=ANSWERS, model="claude-opus-4-6", dialect="anthropic")
    lines = outline(window)
    assert lines[:8] == ["ask 1", "NOTE", "ask 2", "ask 3", "ask 4", "thinking", "call t5", "t5: CLEARED"]
    assert lines[-2:] == ["call t24", "t24: result 24"]
    assert validate(window.messages, "anthropic") == []


def test_a_provider_that_binds_thinking_to_all_before_it_refuses_no_window_b23() -> None:
    """B23, B26: a strict provider signs each answer for the window it was sent; forty turns."""
    settings: dict[str, Any] = {"model": "claude-fable-5-1", "budget": 1_200, "policy": ANSWERS}
    provider, fitter, seen = StrictAnthropic(), Fitter(**settings), 0
    held: list[Native] = []
    for number in range(1, 41):
        said, answer, result, text = thinking_turn(number)
        for arrived, content in ((said, answer["content"]), (result, [thought(number), *text["content"]])):
            held.append(arrived)
            window = fitter.fit(held)
            assert longturn.fit(held, **settings).messages == window.messages
            request = {"messages": window.messages}
            assert provider.check(request) == []
            unsigned = [{k: v for k, v in block.items() if k != "signature"} for block in content]
            held.append(provider.answer(request, unsigned))
            seen += window._outcome.state.bare > window._outcome.state.cut
    assert seen > 20


# --- order on the ladder -------------------------------------------------------------------------------------------


def test_results_are_cleared_first_and_answers_leave_only_when_that_does_not_suffice_b4() -> None:
    conversation: list[Step] = [ask("ask 1 ", 30), reply("say 1 ", 310), ask("ask 2 ", 30), *steps(1, 6)]
    few = shaped(conversation)
    assert [type(event) for event in few.events] == [ResultsCleared, HistoryTrimmed]
    assert outline(few)[:5] == ["ask 1", "NOTE", "ask 2", "call c1", "c1: CLEARED"]
    assert few.tokens == 1_006 - 4 * (100 - CLEARED_TOKENS) - 310 + NOTE_TOKENS
    alone = shaped([ask("ask 1 ", 30), *steps(1, 3, 280), reply("say 1 ", 30), ask("ask 2 ", 100)])
    assert [type(event) for event in alone.events] == [ResultsCleared]
    assert NOTE not in str(alone.messages)


def test_what_users_said_goes_by_the_next_rung_the_oldest_first_where_answers_do_not_suffice_l5() -> None:
    """L5, B8: the newest message alone is large; the rung "turns" takes what stands alone until it is at the target."""
    pins = 30 + 450
    target = pins + (1_000 - pins) // 2
    conversation: list[Step] = [*turns(1, 9, 30, 60), ask("ask 10 ", 450)]
    lines = outline(shaped(conversation))
    alone = lines[2:-1]
    assert alone == asked(10 - len(alone), 9)
    assert pins + NOTE_TOKENS + 30 * len(alone) <= target < pins + NOTE_TOKENS + 30 * (len(alone) + 1) + 90


def test_in_front_of_results_the_rung_leaves_results_whole() -> None:
    policy = replace(PLAIN, rungs=("answers", "results", "turns", "rounds"))
    older: list[Step] = [
        each for number in range(1, 6) for each in (ask(f"ask {number} ", 30), *step(f"c{number}", 150))
    ]
    window = shaped([*older, ask("ask 6 ", 120)], policy=policy)
    assert [type(event) for event in window.events] == [HistoryTrimmed]
    assert outline(window)[2:-1] == ["ask 2", "ask 3", "ask 4", "ask 5", "call c5", "c5: result c5"]


def test_without_the_rung_whole_turns_leave_l5() -> None:
    policy = replace(PLAIN, rungs=("images", "results", "arguments", "turns", "rounds"))
    assert outline(shaped(SEVEN, policy=policy))[:4] == ["ask 1", "NOTE", "ask 5", "assistant: say 5"]
    assert "answers" not in Policy.seed().rungs


def test_a_call_that_cannot_fit_even_so_is_refused_and_else_the_opener_goes_first_b16() -> None:
    """B16: what users said never stands in the way of a request that would fit."""
    conversation: list[Step] = [*turns(1, 9, 60, 60), ask("ask 10 ", 900)]
    fits = shaped(conversation, budget=500, capacity=900 + NOTE_TOKENS, max_output=0)
    assert outline(fits)[-1] == "ask 10"
    assert fits.tokens <= (900 + NOTE_TOKENS) * 1.25
    with pytest.raises(ContextWindowExceeded):
        shaped(conversation, budget=500, capacity=700, max_output=0)


# --- what is told --------------------------------------------------------------------------------------------------


def test_the_event_has_the_numbers_of_what_left_and_turns_whose_words_stay_are_kept_h27() -> None:
    """H27, B19: five rounds left; the turn of the first message, of which nothing else stands, is no turn any more."""
    window = shaped(SEVEN)
    assert window.events == (
        HistoryTrimmed(
            dropped_messages=5,
            dropped_turns=1,
            dropped_rounds=5,
            kept_turns=7,
            reason="token_budget",
            token_budget=1_000,
            tokens_before=1_030,
            tokens_after=559,
            source="estimate",
        ),
    )


def test_the_event_counts_turns_whose_words_did_not_fit_as_dropped_h27() -> None:
    """H27: four of 62 stand alone, one turn whole, and the newest message."""
    (event,) = shaped(twelve(62)).events
    assert isinstance(event, HistoryTrimmed)
    assert (event.dropped_turns, event.kept_turns) == (7, 6)
    assert (event.dropped_messages, event.dropped_rounds) == (17, 11)
    assert event.tokens_before == 1_060
    assert event.tokens_after == 62 + NOTE_TOKENS + 4 * 62 + 80 + 100


def test_the_report_and_the_edits_say_which_messages_are_not_there_b32() -> None:
    window = shaped(SEVEN)
    left_out = [edit for edit in window.edits if edit.kind == "left_out"]
    assert window.edits == tuple(left_out)
    assert [edit.message for edit in left_out] == [1, 3, 5, 7, 9]
    assert {(edit.reason, edit.tokens) for edit in left_out} == {("token budget", 100)}
    report = window.report
    assert (report.messages, report.kept_messages, report.left_out, report.turns) == (15, 10, 5, 8)
    assert (report.total, report.sent, report.saved) == (1_030, 559, {"left_out": 500})
    assert "5 messages left out, 500 tokens saved." in str(report)


def test_nothing_is_told_while_the_decision_is_only_carried_on_b32() -> None:
    fitter, messages = Fitter(budget=1_000, policy=ANSWERS), chat(SEVEN)
    assert fitter.fit(messages).events
    later = fitter.fit([*messages, *chat([reply("say 8 ", 20), ask("ask 9 ", 20)])])
    assert later.events == ()
    assert [edit.message for edit in later.edits] == [1, 3, 5, 7, 9]


# --- a fold --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_long_talk_gives_the_same_windows_however_it_is_handed_in_l9(dialect: str) -> None:
    """Laws 3, 4 and 10: from scratch, step by step, after a restart, and with the last window handed back."""
    messages = written(dialect, [*turns(1, 40), ask("ask 41 ", 30), *steps(1, 30, 60)])
    settings: dict[str, Any] = {"budget": 1_000, "policy": ANSWERS, "dialect": dialect}
    fitter, seen, bare = Fitter(**settings), 0, 0
    handed: list[Any] = []
    for held in prefixes(messages):
        window = fitter.fit(held)
        handed = [*handed, *held[seen:]]
        seen = len(held)
        again = longturn.fit(handed, **settings)
        assert again.messages == window.messages == longturn.fit(held, **settings).messages
        assert again.tokens == window.tokens
        assert longturn.fit(window.messages, **settings).messages == window.messages
        handed = again.messages
        bare += window._outcome.state.bare > window._outcome.state.cut
    assert bare > 20


@pytest.mark.parametrize(("said", "stands"), [(300, False), (200, True)])
def test_the_opener_of_a_turn_that_was_cut_inside_stays_only_as_far_as_it_fits_b16(said: int, stands: bool) -> None:
    """B16, law 10: while its turn runs it is pinned; afterwards it is what a user said, like any other."""
    settings: dict[str, Any] = {"budget": 1_000, "policy": replace(ANSWERS, target_ratio=0.9)}
    conversation: list[Step] = [*turns(1, 1), ask("ask 2 ", said), *steps(1, 16, 50), reply("say 2 ", 20)]
    handed: list[Any] = []
    seen = 0
    for held in prefixes(chat([*conversation, ask("ask 3 ", 300)])):
        window = longturn.fit(held, **settings)
        again = longturn.fit([*handed, *held[seen:]], **settings)
        assert again.messages == window.messages
        handed, seen = again.messages, len(held)
    assert ("ask 2" in outline(window)) is stands


def test_words_that_left_never_come_back_and_fronts_break_seldom_l10() -> None:
    """B3, law 8: the newest words push the oldest out, only at a break."""
    fitter = Fitter(budget=1_000, policy=ANSWERS)
    windows: list[list[Any]] = [
        fitter.fit(held).messages for held in prefixes(chat([*turns(1, 60), ask("ask 61 ", 30)]))
    ]
    gone: set[str] = set()
    breaks = 0
    for before, after in pairwise(windows):
        now = {message["content"] for message in after}
        assert not gone & now
        gone |= {message["content"] for message in before} - now
        breaks += not is_front(before, after)
    assert 0 < breaks <= 60 * 130 / (0.5 * 940) + 1


def test_the_turn_limit_counts_a_turn_of_which_only_the_words_stand_b19() -> None:
    limited = replace(ANSWERS, max_history_messages=7)
    window = shaped(SEVEN, policy=limited)
    assert outline(window)[2:6] == ["ask 2", "ask 3", "ask 4", "ask 5"]
    assert isinstance(window.events[0], HistoryTrimmed)
    assert window.events[0].kept_turns == 7
    later = shaped([*SEVEN, reply("say 8 ", 30), ask("ask 9 ", 30)], policy=limited)
    assert outline(later)[2:6] == ["ask 3", "ask 4", "ask 5", "ask 6"]


# --- over random histories -----------------------------------------------------------------------------------------


@given(cases(marks=MARKS))
def test_words_of_users_stand_without_a_gap_and_those_alone_fit_in_the_whole_share(drawn: Case) -> None:
    """In every dialect, with pins and checkpoints: read off the window and the history alone."""
    policy = replace(drawn.settings["policy"], rungs=("answers", "turns", "rounds"))
    case = replace(drawn, settings={**drawn.settings, "policy": policy})
    fitter = case.fitter()
    for held in case.prefixes():
        try:
            window = fitter.fit(held)
        except ContextWindowExceeded:
            return
        assert window.capacity is not None
        limit = min(case.settings["budget"] or window.capacity, window.capacity)
        raw, sent = read(case.dialect, held), read(case.dialect, window.messages)
        # The message in front of the note is no matter of the rung (B16).
        users = [place for place, message in enumerate(sent) if message.role == "user"]
        standing = {sent[place].text: place for place in users[1:]}
        openers = opener_places(raw)
        free = [at for at in openers[1:] if raw[at].text in standing and not (policy.pin and PIN in raw[at].text)]
        assert {raw[at].text for at in openers if free and at > free[0]} <= standing.keys()
        # Of these nothing but the words stands: an answer followed them, and here another user's message does.
        alone = [at for at in free if is_answered(raw, at) and not is_answered(sent, standing[raw[at].text])]
        sizes = sum(window._outcome.view.counts.of_message(raw[at]) for at in alone)
        assert sizes <= int(policy.whole_share * limit)


def is_answered(messages: Sequence[Message], place: int) -> bool:
    return any(message.role == "assistant" for message in messages[place + 1 : place + 2])


# --- in a replay ---------------------------------------------------------------------------------------------------


def small_run(conversation: Sequence[Step]) -> Run:
    """A recording without system prompt and tools, of a model whose window is unknown."""
    transcript = Transcript(SIMPLE.measure)
    transcript.extend((message, at, False) for at, message in enumerate(read("openai_chat", chat(conversation))))
    counts = Counts(transcript, ANSWERS, SIMPLE)
    counts.update()
    return Run("small", counts, Base(), Rules())


def test_a_replay_sends_the_words_of_users_at_the_same_places() -> None:
    """Items and sizes agree with the window's messages; turns whose words stand are not dropped."""
    found = replay("it", folded(ANSWERS, 1_000), small_run([*SEVEN, reply("Done ")]))
    last = found.calls[-1]
    assert last.items == [0, NOTE_ITEM, *(VARIANTS * row for row in (2, 4, 6, 8, 10, 11, 12, 13, 14))]
    assert (last.tokens, last.kept, last.is_broken) == (559, 30, True)
    assert (found.broken_fronts, found.dropped_rounds) == (1, 5)


def test_a_replay_goes_through_the_same_windows_as_a_fitter_l9() -> None:
    """L9: with cleared results among what stands; the sizes of all items together are the window's."""
    older: list[Step] = [
        each for number in range(1, 30) for each in (ask(f"ask {number} ", 30), *step(f"c{number}", 150))
    ]
    conversation: list[Step] = [*older, ask("ask 30 ", 30), *steps(31, 60, 80), reply("Done ")]
    run, sizes, fitter, messages = (
        small_run(conversation),
        Sizes(),
        Fitter(budget=1_000, policy=ANSWERS),
        chat(conversation),
    )
    bare = 0
    for sent in folded(ANSWERS, 1_000)(run, sizes):
        window = fitter.fit(messages[: sent.border])
        assert len(sent.items) == len(window.messages)
        assert sent.tokens == window.tokens == sum(size_of(run, sizes, item) for item in sent.items)
        edited = [edit.message for edit in window.edits if edit.kind != "left_out"]
        assert [item // VARIANTS for item in sent.items if item >= 0 and item % VARIANTS] == edited
        bare += window._outcome.state.bare > window._outcome.state.cut
    assert bare > 20


def test_a_summary_in_a_replay_still_takes_the_place_of_the_note_and_of_whole_turns() -> None:
    """The planner "summarize" leaves turns out by itself, whatever the default ladder is."""
    found = replay("it", summarizing(1_000, tokens=80), small_run([*SEVEN, reply("Done ")]))
    items = found.calls[-1].items
    assert items[0] == 0
    assert items[1] <= SUMMARY_ITEM
    assert list(items[2:]) == [VARIANTS * row for row in range(15 - len(items[2:]), 15)]
    assert found.calls[-1].tokens == 30 + 80 + 130 * (len(items[2:]) // 2) + 120
