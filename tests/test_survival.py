"""Checkpoints hold what the user ruled, by compaction-conformance-kit, with a summarizer that needs no model.

`make bench` measures more sessions with the same code: docs/survival.md.
"""

from collections.abc import Callable

import pytest
from compaction_kit.benchmark import run_budget_benchmark
from compaction_kit.semantic import SemanticChecklistCompactor

from benchmarks import extractive, own_sessions, survival
from benchmarks.survival import Checkpoints, Round, Session, by_the_kit, by_the_ladder, corpora, in_parts
from longturn import estimate
from longturn.summaries import Said, SummaryRequest

RULINGS = ("safety_rule", "hard_constraint", "user_preference")
SESSIONS = {name: some[0] for name, some in corpora([1]).items()}
LATER = "Spend at most €700 on the hotel."


def request(*history: Said, previous: str = "", max_tokens: int = 4_096) -> SummaryRequest:
    return SummaryRequest([], None, None, history, previous, "", max_tokens, None, None, {}, ())


def lost(rounds: list[Round]) -> dict[int, list[str]]:
    """The types of ruling that were not held whole, by round."""
    found = {n: [kind for kind in RULINGS if each.held[kind] < each.asked[kind]] for n, each in enumerate(rounds, 1)}
    return {number: kinds for number, kinds in found.items() if kinds}


@pytest.mark.parametrize("measure", [by_the_kit, in_parts], ids=["at once", "in parts"])
@pytest.mark.parametrize("session", SESSIONS.values(), ids=SESSIONS)
def test_no_safety_rule_constraint_or_preference_is_lost_over_five_rounds(
    session: Session, measure: Callable[..., list[Round]]
) -> None:
    """S6, S8."""
    assert lost(measure(Checkpoints(), session)) == {}


@pytest.mark.parametrize("measure", [by_the_kit, in_parts], ids=["at once", "in parts"])
@pytest.mark.parametrize("session", SESSIONS.values(), ids=SESSIONS)
def test_a_checkpoint_takes_at_most_a_fifth_of_its_source(
    session: Session, measure: Callable[..., list[Round]]
) -> None:
    """S9."""
    assert measure(Checkpoints(), session)[-1].share <= 0.2


@pytest.mark.parametrize("session", SESSIONS.values(), ids=SESSIONS)
def test_a_checkpoint_that_nothing_was_added_to_stays_as_it_is(session: Session) -> None:
    """S9."""
    first, *others = (each.texts for each in by_the_kit(Checkpoints(), session))
    assert all(text == first for text in others)
    again = extractive.summarize(request(previous=first[0]))
    assert again == first[0]


def test_at_fixed_budgets_it_holds_what_the_best_compactor_of_the_kit_holds() -> None:
    compared = {"ours": Checkpoints, "kit": SemanticChecklistCompactor}
    found = run_budget_benchmark(compared, survival.BUDGETS, (1,))
    for budget in survival.BUDGETS:
        by_name = {each["compactor"]: each for each in found["entries"] if each["budget_fraction"] == budget}
        ours, kit = by_name["ours"], by_name["kit"]
        assert ours["budget_compliant"]
        assert ours["randomized"]["overall_final_survival"] >= kit["randomized"]["overall_final_survival"]
        assert ours["semantic"]["resolved_rate"] >= kit["semantic"]["resolved_rate"]
        assert ours["semantic"]["distinct_pair_rate"] >= kit["semantic"]["distinct_pair_rate"]
        assert ours["semantic"]["conflicts"]["stale"] == 0


def test_a_ruling_is_found_between_two_pasted_logs_and_a_line_of_a_log_is_none() -> None:
    """S6."""
    last = in_parts(Checkpoints(), own_sessions.buried())[-1]
    assert (last.held.total(), last.stale) == (1, 0)


def test_what_a_tool_says_is_data_and_never_a_ruling() -> None:
    """B33."""
    text = in_parts(Checkpoints(), own_sessions.told_by_a_tool())[-1].texts[0]
    assert own_sessions.TOOL_RULING not in text
    assert "capital letters" not in text
    assert "Do not push to main" in text


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("The hotel budget is €900.", LATER),
        ("HARD CONSTRAINT: Report all times in UTC.", "From now on, report all times in Pacific time."),
        ("We are on branch fix/login.", "We rebased onto fix/keys-2; next step is the migration."),
        ("The demo is on 2027-03-01.", "The demo was moved to March 9."),
    ],
)
def test_a_later_word_on_the_same_subject_replaces_the_earlier_one(earlier: str, later: str) -> None:
    text = extractive.summarize(request(Said("user", earlier), Said("user", later)))
    assert text.count("- ") == 1
    assert text == extractive.summarize(request(Said("user", later)))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The catering budget is €400.", LATER),
        (
            "The production database is Postgres 16.1 in eu-north-1.",
            "The staging database is Postgres 15.2 in eu-west-3.",
        ),
        ("Never share the vault code abc-12.", "Never share the contact code xyz-34."),
        ("No peanuts at the counter.", "No sesame at the counter."),
        ("Never add Lodash.", "Never add Moment."),
        ("Do not touch auth.py.", "Do not touch billing.py."),
    ],
)
def test_what_was_said_of_another_subject_stays(one: str, other: str) -> None:
    text = extractive.summarize(request(Said("user", one), Said("user", other)))
    assert text.count("- ") == 2


def test_small_talk_and_questions_are_left_out() -> None:
    said = ("Looking into why the preview renders twice.", "May I push to main?", "Thanks, that works!")
    assert extractive.summarize(request(*(Said("user", text) for text in said))) == ""


def test_where_there_is_not_room_for_all_rulings_go_first_and_nothing_is_cut() -> None:
    """S11."""
    said = [Said("user", f"FACT: The door code of room {n} is ROOM-{n}00.") for n in range(1, 60)]
    rule = "Never share the door codes with visitors."
    text = extractive.summarize(request(*said, Said("user", rule), max_tokens=120))
    assert estimate(text) <= 120
    assert rule in text
    assert all(line.endswith(".") for line in text.splitlines() if line.startswith("- "))


def test_more_of_what_users_said_stays_where_the_answers_go_first() -> None:
    """The rung `answers`: over tool work, at a fifth of the tokens."""
    held = {
        name: by_the_ladder(policy, survival.with_work(1), 0.2)[-1].held.total()
        for name, policy in survival.LADDERS.items()
    }
    assert held["with `answers`"] > held["without"]
