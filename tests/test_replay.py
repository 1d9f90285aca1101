"""Replays: small runs whose numbers are worked out by hand, and windows held against those of `Fitter`, call by call.

The small runs count by the plain rule (L12): four characters a token, 4 tokens of framing a message (H21).
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import settings as profile

import longturn
from longturn import NOTE, ContextWindowExceeded, Fitter, Policy
from longturn.core.caches import ANTHROPIC, LONGEST_PREFIX, NO_CACHE, OPENAI, Prices
from longturn.core.counts import Counts
from longturn.core.fold import Base
from longturn.core.messages import Media, Message, ToolResult
from longturn.core.planners import clearing_all_but, folded, planners, sliding, summarizing, unshaped
from longturn.core.policy import NO_LIMIT
from longturn.core.replay import (
    NOTE_ITEM,
    PLACEHOLDER_ITEM,
    VARIANTS,
    Planner,
    Replay,
    Run,
    Sent,
    Sizes,
    replay,
    size_of,
)
from longturn.core.texts import PLACEHOLDER
from longturn.core.tokens import SIMPLE
from longturn.core.transcript import Transcript
from longturn.core.view import Rules
from longturn.dialects.logs import Conversation
from longturn.dialects.logs.load import load
from longturn.dialects.registry import by_name
from longturn.replays import as_json, compare, numbers, recordings
from tests.conversations import (
    CALL_TOKENS,
    CLEARED_TOKENS,
    NOTE_TOKENS,
    Answer,
    Result,
    Step,
    System,
    ask,
    chat,
    read,
    reply,
    sized,
    step,
    steps,
    turn,
)
from tests.strategies import LONG_STORIES, STORIES, Case, cases

PRICES = Prices(fresh=1.0, cached=0.1, stored=1.25, output=5.0)
BASE = Base(10, 20)
HALF = Policy(target_ratio=0.5)
FEWER = profile(max_examples=profile.default.max_examples // 4)  # type: ignore[union-attr]
"""A replay of every call costs as much as several laws."""
NAMES = ["none", "seed", "default", "newest-turns", "sliding", "clear-all-but-3", "summarize"]

assert (CALL_TOKENS, CLEARED_TOKENS, NOTE_TOKENS) == (6, 34, 29)


def run_of(conversation: Sequence[Step], *, base: Base = BASE, capacity: int = NO_LIMIT, **more: Any) -> Run:
    transcript = Transcript(SIMPLE.measure)
    transcript.extend([(message, at, False) for at, message in enumerate(read("openai_chat", chat(conversation)))])
    counts = Counts(transcript, Policy(), SIMPLE)
    counts.update()
    window = None if capacity == NO_LIMIT else capacity
    return Run("small", counts, base, Rules(), window, capacity, **more)


def walk(planner: Planner, run: Run, **more: Any) -> Replay:
    return replay("it", planner, run, **{"rule": LONGEST_PREFIX, "prices": PRICES, **more})


def of_calls(found: Replay, name: str) -> list[Any]:
    return [getattr(call, name) for call in found.calls]


# A question of 100 tokens, four rounds of 6 and 100, an answer; 30 tokens stand before the messages.
FOUR_ROUNDS = [ask("Go ", 100), *steps(1, 4), reply("Done ")]
UNSHAPED = [130, 236, 342, 448, 554]


# --- one example a planner ---


def test_unshaped_every_call_is_sent_everything_and_the_last_request_is_its_front() -> None:
    found = walk(unshaped, run_of(FOUR_ROUNDS, capacity=400))
    assert of_calls(found, "border") == [1, 3, 5, 7, 9]
    assert of_calls(found, "tokens") == UNSHAPED
    assert of_calls(found, "kept") == [0, *UNSHAPED[:4]]
    assert of_calls(found, "cached") == [0, *UNSHAPED[:2], 0, 0]  # what is refused is not read
    assert of_calls(found, "is_rejected") == [False, False, False, True, True]
    assert (found.sent_tokens, found.cached_tokens, found.fresh_tokens) == (708, 366, 342)
    assert (found.rejected, found.broken_fronts, found.misses, found.peak_tokens) == (2, 0, 0, 554)
    assert (found.cleared_results, found.dropped_turns, found.dropped_rounds) == (0, 0, 0)


def test_unshaped_within_the_window_costs_what_is_served_and_what_is_written() -> None:
    found = walk(unshaped, run_of(FOUR_ROUNDS))
    assert found.cost_usd == pytest.approx(1_156 * 0.1 + 554 * 1.25)
    assert walk(unshaped, run_of(FOUR_ROUNDS), rule=NO_CACHE).cost_usd == pytest.approx(1_710)
    assert walk(unshaped, run_of(FOUR_ROUNDS), prices=None).cost_usd is None


def test_the_seed_clears_in_fours_and_the_last_partial_four_before_it_drops() -> None:
    """L2, B13: at 554 of 500 the first three results go (3 x 66), the newest round's stays."""
    found = walk(folded(Policy.seed(), 500, afresh=True), run_of(FOUR_ROUNDS))
    assert of_calls(found, "tokens") == [130, 236, 342, 448, 554 - 3 * 66]
    assert of_calls(found, "kept") == [0, 130, 236, 342, 136]
    assert of_calls(found, "is_broken") == [False, False, False, False, True]
    assert (found.cleared_results, found.dropped_rounds, found.dropped_turns) == (3, 0, 0)


def test_the_default_goes_on_to_its_target_and_carries_its_decisions_on() -> None:
    """B8, B9: the target is 130 + 370 / 2 = 315; clearing leaves 356, and two rounds (40 each) for a note do."""
    run = run_of([*FOUR_ROUNDS[:-1], *steps(5, 5), reply("Done ")], needs={9: (2, 6), 11: (8, 10)})
    found = walk(folded(HALF, 500), run)
    assert of_calls(found, "tokens") == [130, 236, 342, 448, 305, 305 + 106]
    assert of_calls(found, "kept") == [0, 130, 236, 342, 130, 305]
    assert (found.broken_fronts, found.cleared_results, found.dropped_rounds, found.dropped_turns) == (1, 1, 2, 0)
    assert of_calls(found, "missed") == [(), (), (), (), (2, 6), ()]
    assert found.misses == 1
    assert walk(unshaped, run).misses == 0


def test_newest_turns_leaves_out_whole_turns_for_a_note() -> None:
    """L5, B9: of 350 the ceiling is 260; without the second question and two answers, with a note, it is 229."""
    conversation = [each for tag in "abcd" for each in turn(tag)]
    found = walk(planners(260)["newest-turns"], run_of(conversation, base=Base()))
    assert of_calls(found, "tokens") == [50, 150, 250, 229]
    assert of_calls(found, "kept") == [0, 50, 150, 50]
    assert found.calls[-1].items == [0, NOTE_ITEM, 4 * VARIANTS, 5 * VARIANTS, 6 * VARIANTS]
    assert (found.broken_fronts, found.dropped_turns, found.dropped_rounds, found.cleared_results) == (1, 1, 2, 0)


def test_sliding_sends_the_newest_forty_messages_but_no_result_without_its_call() -> None:
    """A system message of 20 stays; the last answer has two calls, so that its window would begin with a result."""
    opened = [*chat_system(20), ask("Go ", 100), *steps(1, 20)]
    pair = [Answer(calls=("x", "y")), *step("x", 50)[1:], *step("y", 50)[1:]]
    found = walk(sliding, run_of([*opened, *pair, reply("Done ")]))
    assert of_calls(found, "tokens")[:2] == [30 + 20 + 100, 30 + 20 + 206]
    # 19 rounds and the question are 39 messages; 20 rounds are 40; then 18 rounds and the pair are 39.
    pair_tokens = 2 * CALL_TOKENS - 4 + 100
    assert of_calls(found, "tokens")[-3:] == [50 + 100 + 19 * 106, 50 + 20 * 106, 50 + 18 * 106 + pair_tokens]
    assert of_calls(found, "kept")[-2:] == [50, 50]
    assert (found.broken_fronts, found.dropped_turns, found.dropped_rounds) == (2, 1, 2)


def chat_system(size: int) -> list[Step]:

    return [System(sized("Be brief ", size))]


def test_clear_all_but_three_clears_the_rest_once_the_history_is_over_the_limit() -> None:
    found = walk(clearing_all_but(500), run_of([*FOUR_ROUNDS[:-1], *steps(5, 5), reply("Done ")]))
    assert of_calls(found, "tokens") == [130, 236, 342, 448, 554 - 66, 660 - 2 * 66]
    assert of_calls(found, "kept") == [0, 130, 236, 342, 136, 136 + 34 + 6]
    assert (found.broken_fronts, found.cleared_results, found.dropped_rounds) == (2, 2, 0)


def test_clear_all_but_three_counts_a_result_that_was_cleared_before_it_was_ever_sent() -> None:
    five = [Answer(calls=tuple("abcde")), *(step(call)[1] for call in "abcde")]
    found = walk(clearing_all_but(400), run_of([ask("Go "), *steps(1, 3, 20), *five, reply("Done ")]))
    assert not found.broken_fronts
    assert found.cleared_results == 2


def test_summarize_puts_a_summary_in_the_place_of_the_note() -> None:
    """The fold leaves out three rounds (554 - 318 + 29 = 265); a summary of 80 stands for the note of 29."""
    found = walk(summarizing(500, tokens=80), run_of([*FOUR_ROUNDS[:-1], *steps(5, 5), reply("Done ")]))
    assert of_calls(found, "tokens") == [130, 236, 342, 448, 265 - 29 + 80, 316 + 106]
    assert of_calls(found, "kept") == [0, 130, 236, 342, 130, 316]
    assert (found.broken_fronts, found.dropped_rounds, found.cleared_results) == (1, 3, 0)


def test_a_summary_costs_a_call_that_reads_the_last_request_out_of_the_cache() -> None:
    found = walk(summarizing(500, tokens=80), run_of(FOUR_ROUNDS))
    sent = 130 * 0.1 + (316 - 130) * 1.25
    assert found.calls[-1].cost == pytest.approx(sent + 448 * 0.1 + 80 * 5)


# --- fronts, caches, needs ---


def test_a_cache_that_has_gone_cold_by_the_recordings_own_times_serves_nothing() -> None:
    run = run_of(FOUR_ROUNDS, base=Base(2_000, 0), times={1: 0.0, 3: 299.0, 5: 700.0, 9: 710.0})
    found = walk(unshaped, run, rule=ANTHROPIC)
    assert of_calls(found, "kept") == [0, 2_100, 2_206, 2_312, 2_418]
    assert of_calls(found, "cached") == [0, 2_100, 0, 2_312, 2_418]


def test_below_the_minimum_nothing_is_served_and_above_it_whole_steps() -> None:
    found = walk(unshaped, run_of(FOUR_ROUNDS, base=Base(700, 0)), rule=OPENAI)
    assert of_calls(found, "kept") == [0, 800, 906, 1_012, 1_118]
    assert of_calls(found, "cached") == [0, 0, 0, 0, 1_024]


def test_a_result_that_is_whole_in_the_window_is_not_missed_however_old_it_is() -> None:
    run = run_of(FOUR_ROUNDS, needs={9: (2, 8)})
    assert of_calls(walk(clearing_all_but(500), run), "missed")[-1] == (2,)
    assert of_calls(walk(clearing_all_but(600), run), "missed")[-1] == ()


def test_a_run_without_calls_and_one_with_a_single_call_are_replayed() -> None:
    for name, planner in planners(100).items():
        empty, asked = walk(planner, run_of([])), walk(planner, run_of([ask("Go ")]))
        assert empty.calls == asked.calls == (), name
        assert (empty.sent_tokens, empty.peak_tokens, empty.cost_usd) == (0, 0, 0), name
        single = walk(planner, run_of([ask("Go "), reply("Done ")]))
        assert of_calls(single, "tokens") == [50], name
        assert (single.broken_fronts, single.cached_tokens) == (0, 0), name
    assert list(planners(100)) == NAMES


@pytest.mark.parametrize("limit", range(400, 3_000, 130))
def test_law_8_fronts_break_no_more_often_than_the_tokens_allow(limit: int) -> None:
    """L10, B31: the step is (1 - ratio) x room; at these limits the floor is never reached."""
    found = walk(folded(HALF, limit), run_of([ask("Go ", 50), *steps(1, 80, 60), reply("Done ")], base=Base()))
    room = limit - 50
    assert found.broken_fronts <= 80 * 66 / (room / 2) + 1
    assert max(of_calls(found, "tokens")) <= limit


# --- recordings ---


def recorded(conversation: Sequence[Step], **more: Any) -> Conversation:
    return Conversation("openai_chat", chat(conversation), name="log", **more)


def test_at_a_boundary_of_the_recording_a_replay_starts_anew() -> None:
    conversation = [*turn("a"), *turn("b"), *turn("c")]
    times = {1: 10.0, 3: 20.0, 5: 30.0}
    found = recordings(recorded(conversation, boundaries=(4,), times=times))
    assert [(each.start, each.run.name) for each in found] == [(0, "log"), (4, "log#2")]
    assert [dict(each.run.times) for each in found] == [{1: 10.0, 3: 20.0}, {1: 30.0}]
    assert [len(compare(each, {"none": unshaped})[0].calls) for each in found] == [2, 1]
    assert len(recordings(recorded(conversation, boundaries=(0, 6)))) == 1


def test_without_a_known_model_there_is_no_money() -> None:
    (recording,) = recordings(recorded(FOUR_ROUNDS, model="my-llama"))
    replays = compare(recording, planners(500))
    assert [each.cost_usd for each in replays] == [None] * len(NAMES)
    assert numbers(replays[:1])["cost_usd"] is None
    (priced,) = recordings(recorded(FOUR_ROUNDS, model="my-llama"), model="gpt-5")
    assert (compare(priced, {"none": unshaped})[0].cost_usd or 0) > 0


def test_several_conversations_add_up_and_files_are_told_apart() -> None:
    runs = [compare(each, planners(500)) for size in (100, 60) for each in recordings(recorded([*FOUR_ROUNDS]))][:2]
    one = as_json({"a.json": runs})
    assert one["calls"] == 10
    assert "files" not in one
    two = as_json({"a.json": runs[:1], "b.json": runs[1:]})
    assert two == {**one, "files": two["files"]}
    assert [entry["calls"] for entry in two["files"]] == [5, 5]  # type: ignore[attr-defined]
    policies: Any = one["policies"]
    assert [each["name"] for each in policies] == NAMES
    assert policies[0]["sent_tokens"] == 2 * runs[0][0].sent_tokens
    assert policies[0]["peak_tokens"] == runs[0][0].peak_tokens


# --- replays and Fitter ---


class Pair(NamedTuple):
    """What a replay sends at a call, and the window that `Fitter` gives there."""

    sent: Sent
    window: longturn.Window | None


def pairs(
    run: Run, sizes: Sizes, planner: Planner, fitter: Fitter, messages: Sequence[Any], start: int = 0
) -> Iterator[Pair]:
    for sent in planner(run, sizes):
        position = run.counts.transcript.rows[sent.border].position
        try:
            window = fitter.fit(messages[start:position])
        except ContextWindowExceeded:
            window = None
        yield Pair(sent, window)


def same(run: Run, sent: Sent, window: longturn.Window) -> None:
    """Asserts that the items stand for the window's messages, one for one."""
    messages = read(window.dialect, window.messages)
    assert len(sent.items) == len(messages)
    for item, message in zip(sent.items, messages, strict=True):
        if item in (NOTE_ITEM, PLACEHOLDER_ITEM):
            assert message.text == (NOTE if item == NOTE_ITEM else PLACEHOLDER)
        else:
            row = run.counts.transcript.rows[item // VARIANTS].message
            assert row.role == message.role
            assert (plain(row) == plain(message)) == (item % VARIANTS == 0)


def common(last: Sequence[Message], now: Sequence[Message]) -> int:
    """How many messages two requests have in common at their beginning, block by block."""
    length = min(len(last), len(now))
    return next((at for at in range(length) if plain(last[at]) != plain(now[at])), length)


def plain(message: Message) -> tuple[object, ...]:
    """The parts without their native blocks, which are other objects once a message was rebuilt."""
    return tuple(
        replace(part, source=None, media=(Media(),) * len(part.media))
        if isinstance(part, ToolResult)
        else replace(part, source=None)
        for part in message.parts
    )


def without_pins(case: Case) -> Case:
    return replace(case, settings={**case.settings, "policy": replace(case.settings["policy"], pin=None)})


def run_for(case: Case) -> Run:
    settings = case.settings
    conversation = Conversation(
        case.dialect, [*case.raw], system=settings.get("system"), tools=settings.get("tools"), model=settings["model"]
    )
    (recording,) = recordings(conversation, capacity=settings["capacity"])
    return recording.run


@FEWER
@given(cases(STORIES))
def test_a_replay_sends_what_fitter_gives_at_every_call(drawn: Case) -> None:
    """L9: same tokens, and an item for each message."""
    case = without_pins(drawn)
    run = run_for(case)
    planner = folded(case.settings["policy"], case.settings["budget"])
    for sent, window in pairs(run, {}, planner, case.fitter(), case.raw):
        if window is not None:
            assert sent.tokens == window.tokens
            same(run, sent, window)


@FEWER
@given(cases(LONG_STORIES))
def test_what_is_kept_is_the_common_beginning_of_the_rendered_requests(drawn: Case) -> None:
    """B30: kept and fresh tokens add up, and a broken front is one whose messages differ."""
    policy = replace(drawn.settings["policy"], pin=None, image_tokens=Policy().image_tokens)
    case = replace(drawn, settings={**drawn.settings, "policy": policy})
    run, sizes = run_for(case), Sizes()
    planner = folded(policy, case.settings["budget"])
    found = replay("it", planner, run, LONGEST_PREFIX)
    last: list[Message] | None = None
    for call, (sent, window) in zip(found.calls, pairs(run, sizes, planner, case.fitter(), case.raw), strict=True):
        assert call.tokens == sent.tokens
        assert call.cached + call.fresh == (0 if call.is_rejected else sent.tokens)
        assert call.cached == (0 if call.is_rejected else call.kept)
        if call.is_rejected:
            return
        assert call.tokens == run.fixed + sum(size_of(run, sizes, item) for item in sent.items)
        if window is None:
            return
        now = read(window.dialect, window.messages)
        if last is not None:
            shared = common(last, now)
            assert call.is_broken == (shared < len(last))
            assert call.kept == run.fixed + sum(size_of(run, sizes, item) for item in sent.items[:shared])
        last = now


TRANSCRIPTS = Path(__file__).resolve().parents[2] / "shared" / "data" / "transcripts"
FILES = [path.relative_to(TRANSCRIPTS).as_posix() for path in sorted(TRANSCRIPTS.rglob("*")) if path.is_file()]


@pytest.mark.parametrize("budget", [8_000, 32_000])
@pytest.mark.parametrize("name", FILES)
def test_a_replay_of_a_recorded_run_sends_what_fitter_gives_at_every_call(name: str, budget: int, shared: Path) -> None:
    for conversation in load((shared / "data" / "transcripts" / name).read_bytes())[:10]:
        for recording in recordings(conversation):
            fitter = Fitter(
                model=conversation.model,
                budget=budget,
                system=conversation.system,
                tools=conversation.tools,
                dialect=by_name(conversation.dialect),
            )
            planner, messages = folded(Policy(), budget), conversation.messages
            for sent, window in pairs(recording.run, {}, planner, fitter, messages, recording.start):
                if window is not None:
                    assert sent.tokens == window.tokens
                    same(recording.run, sent, window)


@pytest.mark.parametrize("model", ["claude-sonnet-4-5", "gpt-5", None])
def test_without_a_budget_a_replay_has_the_one_that_fitter_has(model: str | None) -> None:
    """B10: the budget is a share of the whole window, not of what the room for the answer leaves."""
    lines = "".join(f"{number}: a line of what the tool has printed\n" for number in range(500))
    rounds: list[list[Step]] = [[Answer(calls=(f"c{number}",)), Result(f"c{number}", lines)] for number in range(60)]
    conversation: list[Step] = [ask("Go ", 100), *chain.from_iterable(rounds), reply("Done ")]
    (recording,) = recordings(recorded(conversation, model=model))
    for sent, window in pairs(recording.run, {}, folded(Policy()), Fitter(model=model), chat(conversation)):
        assert window is not None
        assert sent.tokens == window.tokens
