"""S12-S14: what a session has spent, branch by branch, what it cost, and the state of its window at each call."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args

import pytest
from genai_prices import Usage as TheirUsage
from genai_prices import calc_price
from hypothesis import given
from hypothesis import strategies as st

import longturn
from longturn import ConfigError, ContextWindowExceeded, Fitter, TranscriptError, Window
from longturn.catalog import cost_of, prices_of
from longturn.core.caches import Prices
from longturn.core.meter import Charge, Kind, Meter, Snapshot, Spend, Totals, Usage, branch, spend_of
from longturn.core.snapshot import snapshot_of
from longturn.core.texts import CHECKPOINT
from tests.conversations import PLAIN, Step, System, ask, chat, reply, step, steps, turn
from tests.conversations import tokens as tokens_of
from tests.strategies import Case, cases

KINDS: tuple[Kind, ...] = get_args(Kind)
USAGE = Usage(1_000, 50, cached_tokens=600, written_tokens=300, reasoning_tokens=20)

tokens = st.integers(0, 10**7)
usages = st.builds(Usage, tokens, tokens, tokens, tokens, tokens)
# Eighths of a dollar add up without rounding, in whatever order.
dollars = st.none() | st.integers(0, 800).map(lambda eighths: eighths / 8)
bills = st.lists(st.tuples(usages, st.sampled_from(KINDS), dollars), max_size=12)
counts = st.none() | tokens
snapshots = st.builds(
    Snapshot, counts, tokens, counts, st.floats(0.5, 5), tokens, tokens, tokens, tokens, counts, counts, counts
)


def spent(bill: Sequence[tuple[Usage, Kind, float | None]]) -> Spend:
    spend = Spend()
    for usage, kind, cost in bill:
        spend = spend.plus(usage, kind, cost)
    return spend


# --- what was spent ------------------------------------------------------------------------------------------------


@given(bills)
def test_totals_cover_everything_that_was_billed_whatever_it_was_for_s13(bill: Any) -> None:
    spend, costs = spent(bill), [cost for _, _, cost in bill if cost is not None]
    assert spend.total == Totals(
        calls=len(bill),
        input_tokens=sum(usage.input_tokens for usage, _, _ in bill),
        output_tokens=sum(usage.output_tokens for usage, _, _ in bill),
        cached_tokens=sum(usage.cached_tokens for usage, _, _ in bill),
        written_tokens=sum(usage.written_tokens for usage, _, _ in bill),
        reasoning_tokens=sum(usage.reasoning_tokens for usage, _, _ in bill),
        cost_usd=sum(costs) if costs else None,
        unpriced_calls=len(bill) - len(costs),
    )


@given(bills, st.sampled_from(KINDS))
def test_each_kind_of_call_has_totals_of_its_own_s13(bill: Any, kind: Kind) -> None:
    alone = spent([each for each in bill if each[1] == kind])
    assert getattr(spent(bill), kind) == getattr(alone, kind) == alone.total


def test_a_cost_that_is_known_for_some_calls_only_says_so_s13() -> None:
    spend = Spend().plus(USAGE, "call", 0.5).plus(USAGE, "summary").plus(USAGE, "call", 0.25)
    assert (spend.total.cost_usd, spend.total.unpriced_calls, spend.total.calls) == (0.75, 1, 3)
    assert (spend.summary.cost_usd, spend.summary.unpriced_calls) == (None, 1)
    assert (Spend().total.cost_usd, Spend().total.unpriced_calls) == (None, 0)


def test_a_kind_of_call_that_does_not_exist_is_refused_s13() -> None:
    with pytest.raises(ConfigError, match=r"'retry'.*call, summary, subagent, failed"):
        Spend().plus(USAGE, "retry")  # type: ignore[arg-type]


# --- branches ------------------------------------------------------------------------------------------------------


def charge(name: str, parent: str | None, input_tokens: int, kind: Kind = "call") -> Charge:
    return Charge(name, parent, Usage(input_tokens), kind, float(input_tokens))


def test_a_fork_inherits_the_spend_up_to_its_point_and_the_whole_is_shown_apart_s13() -> None:
    common = [charge("a", None, 1), charge("b", "a", 20, "summary")]
    main, fork = charge("c", "b", 300), charge("d", "b", 4_000, "failed")
    session = [*common, main, fork, charge("e", "d", 50_000)]
    first, second = Meter.of_branch(session, "c"), Meter.of_branch(session, "e")
    assert first.spend.total.input_tokens == 321
    assert second.spend.total.input_tokens == 54_021
    assert (second.spend.summary.cost_usd, second.spend.failed.cost_usd) == (20.0, 4_000.0)
    assert first.all_branches == second.all_branches
    assert first.all_branches.total.input_tokens == 54_321
    assert Meter.of_branch(session, None).spend == Spend()


@given(st.lists(st.tuples(usages, st.sampled_from(KINDS), dollars, st.integers(0, 11)), min_size=1, max_size=12))
def test_on_any_tree_a_branch_is_its_parents_branch_and_one_more_s13(drawn: Any) -> None:
    session: list[Charge] = []
    for place, (usage, kind, cost, above) in enumerate(drawn):
        parent = session[above % place].id if place and above else None
        session.append(Charge(str(place), parent, usage, kind, cost))
    for each in session:
        before = spend_of(branch(session, each.parent))
        assert spend_of(branch(session, each.id)) == before.plus(each.usage, each.kind, each.cost_usd)
        assert branch(reversed(session), each.id) == branch(session, each.id)
    assert spend_of(session) == spent([(usage, kind, cost) for usage, kind, cost, _ in drawn])


@pytest.mark.parametrize(
    ("session", "tip", "words"),
    [
        ([charge("a", None, 1)], "z", "no charge 'z'"),
        ([charge("a", "lost", 1)], "a", "no charge 'lost', the parent of 'a'"),
        ([charge("a", "b", 1), charge("b", "a", 1)], "a", "no charge 'a', the parent of 'b'"),
    ],
    ids=["tip", "parent", "circle"],
)
def test_a_branch_with_a_hole_or_a_circle_is_refused_s13(session: Any, tip: str, words: str) -> None:
    with pytest.raises(TranscriptError, match=words):
        branch(session, tip)


def test_a_copy_of_a_meter_is_a_fork_that_leaves_the_other_alone_s13() -> None:
    """S13: values, not shared state."""
    before = Meter().plus(USAGE, "call", 1.0)
    one, other = before.plus(USAGE, "subagent", 2.0), before.plus(USAGE, "failed", 4.0)
    assert [each.spend.total.cost_usd for each in (before, one, other)] == [1.0, 3.0, 5.0]


# --- restarts ------------------------------------------------------------------------------------------------------


@given(bills, bills, st.none() | snapshots, st.floats(0.5, 5))
def test_a_meter_survives_a_restart_as_json_s12(here: Any, everywhere: Any, snapshot: Any, factor: float) -> None:
    meter = Meter(snapshot, spent(here), spent([*here, *everywhere]), factor)
    assert Meter.of(json.loads(json.dumps(meter.as_json(), allow_nan=False))) == meter


def test_a_meter_of_an_older_or_newer_version_is_read_as_far_as_it_goes_s12() -> None:
    """S12: a store may have made an integer of a whole number too."""
    assert Meter.of({}) == Meter()
    data = {"factor": 2, "spend": {"call": {"calls": 1, "cost_usd": 3, "new": "?"}, "new": 4}, "new": []}
    assert Meter.of(data) == Meter(spend=Spend(Totals(1, cost_usd=3.0)), factor=2.0)


@pytest.mark.parametrize(
    ("broken", "place"),
    [
        ([], "meter must be an object"),
        ({"spend": 5}, "meter.spend must be an object"),
        ({"all_branches": {"failed": None}}, "meter.all_branches.failed must be an object"),
        ({"spend": {"call": {"calls": -1}}}, "meter.spend.call.calls must be a number"),
        ({"spend": {"call": {"calls": True}}}, "meter.spend.call.calls must be a number"),
        ({"spend": {"call": {"calls": None}}}, "meter.spend.call.calls must be a number"),
        ({"spend": {"call": {"calls": 1.5}}}, "meter.spend.call.calls must be a number"),
        ({"spend": {"call": {"cost_usd": float("nan")}}}, "meter.spend.call.cost_usd must be a number"),
        ({"snapshot": {"free": "many"}}, "meter.snapshot.free must be a number"),
        ({"snapshot": {"factor": float("inf")}}, "meter.snapshot.factor must be a number"),
        ({"factor": None}, "meter.factor must be a number"),
    ],
)
def test_a_broken_meter_is_refused_with_the_place_s12(broken: Any, place: str) -> None:
    with pytest.raises(ConfigError, match=place):
        Meter.of(broken)


# --- costs ---------------------------------------------------------------------------------------------------------


def test_cached_and_written_tokens_and_the_answer_have_prices_of_their_own_s13() -> None:
    """S13: of 1,000 tokens read, 600 came from the cache and 300 were written to it."""
    prices = Prices(fresh=1.0, cached=0.01, stored=100.0, output=1_000_000.0)
    assert cost_of(USAGE, None, prices=prices) == 100 + 6 + 30_000 + 50_000_000
    assert cost_of(USAGE, "gpt-5", prices=prices) == cost_of(USAGE, None, prices=prices)


def test_an_unknown_models_calls_have_no_cost_s13() -> None:
    """S13, H15: nor does it borrow that of a similar name."""
    assert cost_of(USAGE, "my-llama") is None
    assert cost_of(USAGE, "gpt-5-my-finetune") is None
    assert cost_of(USAGE, None) is None


@pytest.mark.parametrize("input_tokens", [1_000, 200_000, 200_001, 900_000])
@pytest.mark.parametrize(
    "model", ["claude-sonnet-4-5", "claude-opus-4-6", "gpt-5", "gpt-5-mini", "gemini-2.5-pro", "gemini-2.5-flash"]
)
def test_costs_are_those_that_the_price_data_works_out_itself_s13(model: str, input_tokens: int) -> None:
    """S13: large requests cost more with some models."""
    cached, output = input_tokens // 2, 700
    theirs = calc_price(
        TheirUsage(input_tokens=input_tokens, cache_read_tokens=cached, output_tokens=output), model_ref=model
    )
    assert cost_of(Usage(input_tokens, output, cached), model) == pytest.approx(float(theirs.total_price))


def test_writing_to_claudes_cache_costs_a_quarter_more_s13() -> None:
    written = cost_of(Usage(10_000, written_tokens=10_000), "claude-sonnet-4-5")
    assert written == pytest.approx(1.25 * (cost_of(Usage(10_000), "claude-sonnet-4-5") or 0))
    assert prices_of("claude-sonnet-4-5", input_tokens=300_000) != prices_of("claude-sonnet-4-5")


# --- the state of the window ---------------------------------------------------------------------------------------


def snapshot(made: Window, **more: Any) -> Snapshot:
    settings = {"window": made.capacity, "budget": made.budget, "capacity": made.capacity, **more}
    return snapshot_of(made._outcome, made._base, **settings)


def fitter(budget: int = 1_000, **more: Any) -> Fitter:
    return Fitter(budget=budget, policy=PLAIN, **more)


@given(cases())
def test_the_parts_of_a_snapshot_add_up_to_what_is_sent_s14(case: Case) -> None:
    """S12, S14: what was left out or cleared is not in it."""
    try:
        window = case.fit(case.raw)
    except ContextWindowExceeded:
        return
    taken = snapshot(window)
    assert taken.used == taken.system + taken.tools + taken.messages + taken.checkpoint == window.tokens
    assert min(taken.system, taken.tools, taken.messages) >= 0
    report = window.report
    assert (taken.system, taken.tools) == (report.system, report.tools)


def test_a_snapshot_tells_what_the_window_holds_s14() -> None:
    """S14: a system prompt given apart and one in front are the same; an unknown window is None."""
    messages = chat([System("s" * 64), ask("Go ", 100)])
    tools = [{"type": "function", "function": {"name": "read", "description": "r" * 60, "parameters": {}}}]
    window = longturn.fit(messages, budget=1_000, policy=PLAIN, system="s" * 40, tools=tools)
    taken = snapshot(window)
    assert (taken.window, taken.capacity, taken.budget, taken.limit) == (None, None, 1_000, 1_000)
    assert (taken.system, taken.messages, taken.checkpoint) == (10 + 20, 100, 0)
    assert taken.tools > 15
    assert taken.share == taken.used / 1_000


def test_after_a_summary_what_it_stands_for_is_not_counted_again_s12() -> None:
    """S12: the gauge shows the checkpoint and the turns since, wherever the entry stands in the list."""
    early = [each for number in range(8) for each in turn(f"early {number} ")]
    late = [*turn("late"), ask("Go ", 50)]
    entry = {"type": "longturn.checkpoint", "text": "It is about boats. " * 10}
    behind = longturn.fit([*chat(early), entry, *chat(late)], budget=5_000, policy=PLAIN)
    taken = snapshot(behind)
    said = CHECKPOINT + "\n\n" + "It is about boats. " * 10
    assert taken.checkpoint == pytest.approx(tokens_of(said) + 4, abs=1)
    assert taken.messages == 50 + 100 + 50  # the first message of all stays in front
    assert taken.used == behind.tokens
    alone = snapshot(longturn.fit([entry, *chat(late)], budget=5_000, policy=PLAIN))
    assert (alone.checkpoint, alone.messages) == (taken.checkpoint, 150)
    again = snapshot(longturn.fit([*behind.messages, *chat([reply("Yes ", 30)])], budget=5_000, policy=PLAIN))
    assert (again.checkpoint, again.messages) == (taken.checkpoint, taken.messages + 30)


def test_free_ends_where_a_summary_is_due_s14() -> None:
    window = longturn.fit(chat([ask("Go ", 100)]), budget=1_000, policy=PLAIN)
    assert [snapshot(window, ceiling=ceiling).free for ceiling in (None, 800.5, 2_000, 50)] == [900, 700, 900, 0]


@pytest.mark.parametrize("factor", [None, 2.0])
def test_free_is_exactly_what_may_arrive_before_the_next_shaping_s14(factor: float | None) -> None:
    """S14, L15: also where the provider counts twice as many."""
    messages = chat([ask("Go ", 100), *steps(1, 2)])
    for more, shapes in ((0, False), (1, True)):
        one = fitter()
        window = one.fit(messages)
        if factor:
            one.observe(Usage(int(window.tokens * factor)))
            messages_then = [*messages, *chat(step("c3", 50))]
            window = one.fit(messages_then)
        else:
            messages_then = messages
        free = snapshot(window, factor=factor or 1.0).free
        assert free
        window = one.fit([*messages_then, *chat([reply("Yes", free // 2), ask("And? ", free - free // 2 + more)])])
        assert bool(window.events) == shapes
        assert window.changed == shapes


def test_the_turns_left_are_those_until_the_next_shaping_s14() -> None:
    conversation: list[Step] = []
    told: list[int | None] = []
    one = fitter()
    for number in range(40):
        conversation.append(ask(f"ask {number} ", 30))
        window = one.fit(chat(conversation))
        if window.events:
            break
        told.append(snapshot(window).turns_left)
        conversation.append(reply(f"say {number} ", 30))
    assert told[0] is None
    assert told[1:] == list(range(len(told) - 2, -1, -1))
    after = snapshot(window)
    assert after.turns_left
    assert 0 < after.turns_left < len(told)


def test_the_rounds_left_of_a_long_turn_are_those_until_the_next_shaping_s14() -> None:
    told: list[int | None] = []
    one = fitter()
    for number in range(40):
        window = one.fit(chat([ask("Go ", 100), *steps(1, number)]))
        if window.events:
            break
        told.append(snapshot(window).rounds_left)
        assert snapshot(window).turns_left is None
    assert told[0] is None
    assert told[1:] == list(range(len(told) - 2, -1, -1))


def test_only_the_last_turns_tell_how_large_the_next_ones_will_be_s14() -> None:
    small = [each for number in range(10) for each in turn(f"small {number} ", 20)]
    large = [each for number in range(5) for each in turn(f"large {number} ", 400)]
    taken = snapshot(fitter(10_000).fit(chat([*small, *large, ask("Go ", 20)])))
    assert taken.free == 10_000 - 200 - 2_000 - 20
    assert taken.turns_left == taken.free // 400


def test_without_any_limit_nothing_is_free_and_no_turns_are_told_s14() -> None:
    one = fitter(0)
    messages = chat([*turn("one"), *turn("two"), ask("Go "), *steps(1, 3)])
    one.observe(Usage(5 * one.fit(messages).tokens))
    taken = snapshot(one.fit([*messages, *chat(steps(4, 4))]))
    assert (taken.free, taken.turns_left, taken.rounds_left) == (None, None, None)
    assert (taken.limit, taken.share) == (None, None)


def test_with_the_budget_off_the_model_is_the_limit_s14() -> None:
    window = fitter(0, capacity=1_000, max_output=100).fit(chat([ask("Go ", 300)]))
    taken = snapshot(window, window=1_000)
    assert (taken.window, taken.capacity, taken.limit, taken.free) == (1_000, 900, 900, 600)


def test_a_snapshot_is_shown_as_the_provider_counts_s14() -> None:
    """S14, L15: the calibration in force."""
    taken = Snapshot(budget=1_000, capacity=500, factor=1.5, messages=200)
    assert (taken.used, taken.sent, taken.limit, taken.share) == (200, 300, 500, 0.6)
    assert replace(taken, capacity=None).share == 0.3
    assert Snapshot(budget=0, capacity=0, messages=5).share == 5.0
