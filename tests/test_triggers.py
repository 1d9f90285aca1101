"""When a summary is made (S4): each trigger at its border, and what it is judged on.

Sizes are by the plain rule: a turn of 100 tokens is a question of 50 and an answer of 50.
"""

from dataclasses import replace
from typing import Any

import pytest

from longturn import ConfigError, Fitter, Policy, SummaryRequest, Window
from longturn.core.events import ResultsCleared, SummaryCompleted, SummaryStarted
from longturn.core.policy import Pruning, Retain, Summarization, Trigger
from tests.conversations import DIALECTS, PLAIN, Answer, Result, Step, ask, chat, outline, sized, step, turn, written

GOOD = "## Goal\n- Go on."


class Asked(list[SummaryRequest]):
    """A summarizer that keeps what it was asked."""

    def __call__(self, request: SummaryRequest) -> str:
        self.append(request)
        return GOOD


def rules(trigger: Trigger | None, **more: Any) -> Policy:
    return replace(PLAIN, summarization=Summarization(trigger=trigger, **{"reserve_ratio": 0, **more}))


def fit(
    conversation: list[Step], trigger: Trigger | None, budget: int = 1_000, dialect: str = "openai_chat", **more: Any
) -> tuple[Window, Asked]:
    asked = Asked()
    settings = {key: more.pop(key) for key in ("capacity", "max_output", "system", "tools") if key in more}
    policy = more.pop("policy", None) or rules(trigger, **more)
    fitter = Fitter(budget=budget, policy=policy, summarize=asked, dialect=dialect, **settings)
    return fitter.fit(written(dialect, conversation)), asked


def turns(number: int, size: int = 100) -> list[Step]:
    return [each for place in range(number) for each in turn(str(place), size)]


# --- token_ratio ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(("last", "due"), [(99, False), (100, True), (101, True)])
def test_s4_a_token_ratio_fires_at_exactly_its_share_of_what_may_be_sent(last: int, due: bool, dialect: str) -> None:
    """S4: 0.8 of 1,000; seven turns of 100 and one of 99, 100 or 101."""
    window, asked = fit([*turns(7), *turn("last", last)], Trigger("token_ratio", 0.8), dialect=dialect)
    assert bool(asked) == due
    assert (window.checkpoint is not None) == due
    if not due:
        assert window.tokens == 700 + last
        assert not window.changed


def test_s4_a_token_ratio_of_0_fires_as_soon_as_there_is_something_to_summarize() -> None:
    """S4: both ends of the range are included; what was said last always stays, so one turn alone is never a head."""
    trigger = Trigger("token_ratio", 0)
    assert [bool(fit(turns(number), trigger, budget=100_000)[1]) for number in (1, 2, 3)] == [False, True, True]


@pytest.mark.parametrize(("last", "due"), [(99, False), (100, True)])
def test_s4_a_token_ratio_of_1_fires_when_nothing_more_may_be_sent(last: int, due: bool) -> None:
    """S4: at the limit itself, one token before the ladder would have to do anything."""
    assert bool(fit([*turns(9), *turn("last", last)], Trigger("token_ratio", 1))[1]) == due


@pytest.mark.parametrize("value", [-0.01, 1.01, True, "0.5", float("nan")])
def test_s4_a_token_ratio_is_from_0_to_1(value: Any) -> None:
    with pytest.raises(ConfigError, match="token_ratio"):
        Trigger("token_ratio", value)


# --- remaining_tokens ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("last", "due"), [(99, False), (100, True), (101, True)])
def test_s4_remaining_tokens_fires_when_no_more_than_so_many_are_left(last: int, due: bool) -> None:
    """S4: 200 of 1,000 are left at 800."""
    assert bool(fit([*turns(7), *turn("last", last)], Trigger("remaining_tokens", 200))[1]) == due


def test_s4_remaining_tokens_above_what_may_be_sent_fires_at_once() -> None:
    assert fit(turns(2), Trigger("remaining_tokens", 5_000))[1]


@pytest.mark.parametrize("name", ["remaining_tokens", "messages_to_refine"])
@pytest.mark.parametrize("value", [0, -1, 1.5, True, "7"])
def test_s4_a_number_of_tokens_or_messages_is_a_whole_one_of_at_least_1(name: Any, value: Any) -> None:
    with pytest.raises(ConfigError, match=name):
        Trigger(name, value)


def test_s4_another_trigger_is_refused_with_those_there_are() -> None:
    """S17: the old one of LibreChat's is none."""
    with pytest.raises(ConfigError, match="token_ratio, remaining_tokens or messages_to_refine"):
        Trigger("token_count", 5)  # type: ignore[arg-type]


# --- messages_to_refine --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(("value", "due"), [(6, True), (7, True), (8, False)])
def test_s4_messages_to_refine_counts_what_would_be_summarized(value: int, due: bool, dialect: str) -> None:
    """S4, S5: six turns, two retained: eight messages before them, less the first one, which stays in front."""
    assert bool(fit(turns(6), Trigger("messages_to_refine", value), dialect=dialect)[1]) == due


@pytest.mark.parametrize("dialect", DIALECTS)
def test_s4_messages_are_counted_alike_in_every_dialect(dialect: str) -> None:
    """S4, B20, B29: an answer with two calls is one message, each result is one."""
    rounds: list[Step] = [Answer("So. ", ("a", "b")), Result("a", sized("a ", 20)), Result("b", sized("b ", 20))]
    conversation = [ask("Go "), *rounds, *turns(2)]
    for value, due in ((3, True), (4, False)):
        assert bool(fit(conversation, Trigger("messages_to_refine", value), dialect=dialect)[1]) == due


def test_s4_messages_to_refine_are_those_since_the_last_checkpoint() -> None:
    """S4, S5: at 4 messages, each second turn."""
    asked, messages = Asked(), chat(turns(12))
    fitter = Fitter(budget=10_000, policy=rules(Trigger("messages_to_refine", 4)), summarize=asked)
    made = []
    for stop in range(1, len(messages) + 1):
        before = len(asked)
        fitter.fit(messages[:stop])
        made += [stop] * (len(asked) - before)
    # The first message stands in front, so the first time it takes one more; then every fourth message.
    assert made == [9, 13, 17, 21]


# --- no trigger ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS)
def test_s4_without_a_trigger_a_summary_is_made_as_soon_as_messages_would_be_dropped(dialect: str) -> None:
    """S4: ten turns are exactly 1,000; one token more, and something would have to go."""
    for last, due in ((100, False), (101, True)):
        window, asked = fit([*turns(9), *turn("last", last)], None, dialect=dialect)
        assert bool(asked) == due
        assert (window.checkpoint is not None) == due


def test_s4_without_a_trigger_clearing_results_is_enough_where_it_is_enough() -> None:
    """S4: nothing would be dropped, so nobody is asked."""
    window, asked = fit([ask("Go "), *step("a", 600), *step("b", 100), *step("c", 300)], None)
    assert [type(event) for event in window.events] == [ResultsCleared]
    assert not asked


def test_s4_a_long_history_that_is_handed_in_at_once_is_summarized_too() -> None:
    """S4: what an earlier call had to drop is in no summary, so it is time."""
    window, asked = fit(turns(40), None)
    assert asked
    assert window.checkpoint is not None


# --- what it is judged on ------------------------------------------------------------------------------------------


def test_s4_a_trigger_is_judged_before_results_are_cleared() -> None:
    """S4: over 1,000 with the results whole; cleared, 0.9 would never be reached."""
    conversation = [*turns(1), ask("Go "), *step("a", 600), *step("b", 100), *step("c", 300)]
    window, asked = fit(conversation, Trigger("token_ratio", 0.9), capacity=100_000)
    assert asked
    assert ResultsCleared not in [type(event) for event in window.events]
    assert sized("result a ", 600) in [said.text for said in asked[0].history]


def test_s4_a_trigger_is_judged_after_pruning_by_age() -> None:
    """S1, S4: pruning frees 800 of 1,000 tokens, so 0.8 of 1,200 is not reached; without it, it is."""
    rule = Pruning(keep_last_assistants=1, soft_trim_ratio=0.5, hard_clear_ratio=0.5, min_prunable_tool_chars=1_000)
    conversation = [ask("Go "), *step("a", 800), *(each for place in range(4) for each in step(f"s{place}", 34))]
    trigger = Trigger("token_ratio", 0.8)
    window, asked = fit(conversation, None, budget=1_200, policy=replace(rules(trigger), pruning=rule))
    assert not asked
    assert {edit.kind for edit in window.edits} == {"pruned"}
    assert window.tokens < 0.8 * 1_200
    assert fit(conversation, trigger, budget=1_200)[1]


def test_s4_a_trigger_is_judged_on_the_carried_window_not_on_the_transcript() -> None:
    """S4: 3,000 tokens of transcript, of which a checkpoint and some turns stand."""
    asked, messages = Asked(), chat(turns(30))
    fitter = Fitter(budget=1_000, policy=rules(Trigger("token_ratio", 0.8)), summarize=asked)
    sizes = []
    for stop in range(1, len(messages) + 1):
        window = fitter.fit(messages[:stop])
        sizes.append(window.tokens)
        assert window.tokens < 800
    assert 3 <= len(asked) <= 9
    assert max(sizes) >= 750  # no sooner than it has to be


@pytest.mark.parametrize(("reserve", "limit"), [(0, 1_000), (0.05, 950), (0.5, 500), (0.75, 250)])
def test_s4_the_share_is_of_the_budget_less_the_reserve_which_is_counted_once(reserve: float, limit: int) -> None:
    """S4: token_ratio 1 is the ladder's limit itself."""
    for total, due in ((limit - 1, False), (limit, True)):
        conversation = [ask("Go ", 30), *turn("1", 70), *turn("last", total - 100)]
        assert bool(fit(conversation, Trigger("token_ratio", 1), reserve_ratio=reserve)[1]) == due


def test_s4_the_share_is_of_the_capacity_where_that_is_smaller_than_the_budget() -> None:
    """S4: 800 of 1,000 in the window less the answer's 200; reserve and answer are not the same room."""
    for last, due in ((99, False), (100, True)):
        more: dict[str, Any] = {"capacity": 1_200, "max_output": 200, "budget": 50_000}
        assert bool(fit([*turns(7), *turn("last", last)], Trigger("token_ratio", 0.8), **more)[1]) == due


def test_s4_with_trimming_off_the_share_is_of_the_capacity() -> None:
    for last, due in ((99, False), (100, True)):
        more: dict[str, Any] = {"capacity": 1_000, "max_output": 0, "budget": 0}
        assert bool(fit([*turns(7), *turn("last", last)], Trigger("token_ratio", 0.8), **more)[1]) == due


def test_s4_with_trimming_off_and_the_window_unknown_no_share_is_ever_used() -> None:
    """S4: nothing is a share of what has no bound; a number of messages still fires."""
    assert not fit(turns(40), Trigger("token_ratio", 0), budget=0)[1]
    assert not fit(turns(40), Trigger("remaining_tokens", 5), budget=0)[1]
    assert not fit(turns(40), None, budget=0)[1]
    assert fit(turns(40), Trigger("messages_to_refine", 10), budget=0)[1]


def test_s4_system_prompt_and_tools_count_as_used() -> None:
    """S4, B7: 500 tokens of prompt and three turns are 800."""
    system = "x" * 4 * 500
    for last, due in ((99, False), (100, True)):
        assert bool(fit([*turns(2), *turn("last", last)], Trigger("token_ratio", 0.8), system=system)[1]) == due


def test_s4_what_the_provider_reported_scales_the_share() -> None:
    """S4, L15: it counts twice as many tokens, so 400 of ours are 0.8 of 1,000."""
    asked, messages = Asked(), chat(turns(5))
    fitter = Fitter(budget=1_000, policy=rules(Trigger("token_ratio", 0.8)), summarize=asked)
    fitter.observe({"input_tokens": 2 * fitter.fit(messages[:4]).tokens})
    fitter.fit(messages[:7])
    assert not asked
    fitter.fit(messages[:8])
    assert asked


# --- what is retained ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(("kept", "first"), [(0, 7), (1, 7), (2, 6), (3, 5), (5, 3)])
def test_s5_so_many_turns_stay_as_they_are(kept: int, first: int, dialect: str) -> None:
    """S5: 0 too leaves the newest one."""
    trigger = Trigger("messages_to_refine", 1)
    window, _ = fit(turns(8), trigger, budget=10_000, dialect=dialect, retain_recent=Retain(kept))
    tail = [line for place in range(first, 8) for line in (f"ask {place}", f"assistant: say {place}")]
    assert [line.split("\n")[0][:11] for line in outline(window)[:2]] == ["ask 0", "[Checkpoint"]
    assert outline(window)[2:] == tail


@pytest.mark.parametrize(("most", "first"), [(99, 7), (199, 7), (200, 6), (299, 6), (300, 5), (10_000, 3)])
def test_s5_what_stays_holds_no_more_tokens_than_asked_but_the_newest_turn(most: int, first: int) -> None:
    window, _ = fit(
        turns(8), Trigger("messages_to_refine", 1), budget=10_000, retain_recent=Retain(turns=5, tokens=most)
    )
    if most < 100:  # the newest turn is one round: its question stays with it
        assert outline(window)[-2:] == ["ask 7", "assistant: say 7"]
    else:
        assert outline(window)[2] == f"ask {first}"


def test_s5_events_tell_what_a_summary_stands_for() -> None:
    """S4, S10: six turns, two retained; it is counted in the core's messages and in the caller's."""
    window, _ = fit(turns(6), Trigger("messages_to_refine", 7), budget=10_000)
    started, completed = window.events[:2]
    assert isinstance(started, SummaryStarted)
    assert isinstance(completed, SummaryCompleted)
    assert (started.messages, started.tokens, started.max_tokens) == (7, 400, 80)
    assert completed.checkpoint is not None
    assert (completed.checkpoint.covers, completed.checkpoint.source_tokens) == (8, 400)
    assert (completed.tokens_before, completed.tokens_after) == (600, window.tokens)
