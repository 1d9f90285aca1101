"""What the law tests found broken, each history made as small as it gets."""

from typing import Any

import pytest

import longturn
from longturn import NOTE, Fitter, Policy, Window
from longturn.core.checkpoint import Checkpoint
from longturn.core.policy import Pruning
from longturn.core.texts import PLACEHOLDER, UNANSWERED
from longturn.core.tokens import SIMPLE
from longturn.core.transcript import Transcript
from longturn.testing import validate
from tests.oracle import read, transcript_of
from tests.strategies import PIN, is_pinned

Native = dict[str, Any]


def said(text: str) -> Native:
    return {"role": "user", "content": text}


def answer(text: str) -> Native:
    return {"role": "assistant", "content": text}


def called(*ids: str) -> Native:
    function = {"name": "read", "arguments": "{}"}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": call_id, "type": "function", "function": function} for call_id in ids],
    }


def result(call_id: str, text: str) -> Native:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def picture(call_id: str) -> Native:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    return {"role": "tool", "tool_call_id": call_id, "content": [{"type": "text", "text": "a"}, image]}


def assert_stable(messages: list[Native], dialect: str, **settings: Any) -> Window:
    """The window of the list is valid, and shaping it again changes nothing (laws 3 and 7)."""
    window = longturn.fit(messages, dialect=dialect, **settings)
    assert validate(window.messages, dialect) == []
    again = longturn.fit(window.messages, dialect=dialect, **settings)
    assert again.messages == window.messages
    assert again.tokens == window.tokens
    return window


def contents(window: Window) -> list[Any]:
    return [item["content"] for item in window.messages if isinstance(item, dict)]


def test_an_older_pinned_message_stands_before_a_newer_opener_b14() -> None:
    """Laws 3 and 5: order is kept where a cut inside a turn leaves both standing."""
    pinned, opener = said(f"{PIN} stays"), said("Next")
    rounds = [item for number in range(6) for item in (called(f"c{number}"), result(f"c{number}", "word " * 60))]
    history = [said("Go"), called("a"), result("a", "word " * 60), pinned, opener, *rounds]
    window = assert_stable(history, "openai_chat", budget=250, policy=Policy(pin=is_pinned))
    assert NOTE in contents(window)
    assert window.messages.index(pinned) < window.messages.index(opener)


def test_a_result_without_its_picture_is_judged_by_what_is_left_of_it_b12() -> None:
    """Law 10: a window that is handed back has no picture left to count."""
    settings: dict[str, Any] = {"budget": 3_000, "policy": Policy(target_ratio=0.9, image_tokens=1_600)}
    history: list[Any] = [said("Go"), called("p"), picture("p"), answer("Seen"), said("On")]
    handed = history
    for number in range(12):
        window = longturn.fit(history, dialect="openai_chat", **settings)
        assert longturn.fit(handed, dialect="openai_chat", **settings).messages == window.messages
        arrived = [called(f"c{number}"), result(f"c{number}", "word " * 300)]
        history, handed = [*history, *arrived], [*window.messages, *arrived]


def test_a_foreign_result_does_not_part_two_answers_b1() -> None:
    """Law 3: once it is gone they are neighbours, so they were one answer before."""
    history = [said("Go"), answer("a " * 300), result("ghost", "x"), answer("b " * 300), said("On")]
    assert_stable(history, "openai_chat", budget=200)


def test_a_stale_result_is_not_taken_for_a_later_call_of_the_same_id_b21() -> None:
    stale, right = result("c", "the stale one"), result("c", "the right one")
    history = [said("Go"), called("c"), said("Well?"), answer("Hm."), stale, called("c"), right]
    window = assert_stable(history, "openai_chat", budget=9_999)
    assert [text for text in contents(window) if text in (UNANSWERED, "the stale one", "the right one")] == [
        UNANSWERED,
        "the right one",
    ]


@pytest.mark.parametrize("reasoning", [0, 1])
def test_two_calls_of_one_id_in_one_answer_of_responses_stay_valid(reasoning: int) -> None:
    """Law 7: the items cannot say that a second answer began."""
    call = {"type": "function_call", "call_id": "c", "name": "read", "arguments": "{}"}
    thought = [{"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "x" * 40}] * reasoning
    output = {"type": "function_call_output", "call_id": "c", "output": "read"}
    window = assert_stable([said("Go"), *thought, call, *thought, call, output], "openai_responses", budget=9_999)
    assert window.report.repairs


def test_two_calls_of_one_id_in_one_answer_of_claude_stay_valid() -> None:
    """Law 7, H29: duplicates are settled."""
    call = {"type": "tool_use", "id": "a", "name": "read", "input": {}}
    back = {"type": "tool_result", "tool_use_id": "a", "content": "read"}
    history = [said("Go"), {"role": "assistant", "content": [call, call]}, {"role": "user", "content": [back, back]}]
    assert assert_stable(history, "anthropic", budget=9_999).report.repairs


def test_a_system_message_in_front_of_a_list_for_claude_is_made_valid() -> None:
    """Law 7: only a list of nothing but system messages is excepted (B31)."""
    history = [{"role": "system", "content": "Be brief."}, said("Go"), answer("Gone")]
    assert_stable(history, "anthropic", budget=9_999)


@pytest.mark.parametrize("budget", [9_999, 60])
def test_a_placeholder_is_reported_also_where_something_was_left_out_b28(budget: int) -> None:
    rounds = []
    for number in range(6):
        call = {"type": "tool_use", "id": f"t{number}", "name": "read", "input": {}}
        back = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "word " * 30}
        rounds += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [back]}]
    window = assert_stable(rounds, "anthropic", budget=budget)
    assert contents(window)[0] == [{"type": "text", "text": PLACEHOLDER}]
    assert (NOTE in str(window.messages)) is (budget == 60)
    assert any("user message" in repair for repair in window.report.repairs)


def test_a_system_message_behind_a_stale_result_stays_valid_for_claude() -> None:
    """Law 7: without the result it would follow an answer directly, which Anthropic refuses."""
    call = {"type": "tool_use", "id": "c", "name": "read", "input": {}}
    stale = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "late"}]}
    calls = {"role": "assistant", "content": [call]}
    history = [said("Go"), calls, said("Well?"), answer("Hm."), stale, {"role": "system", "content": "Be brief."}]
    assert_stable(history, "anthropic", budget=9_999)


def test_pruning_reads_nothing_that_has_not_arrived_yet_s2() -> None:
    """Law 4: a history that begins with an answer gets its first user message late."""
    pruning = Pruning(keep_last_assistants=0, min_prunable_tool_chars=50, max_chars=40, head_chars=10, tail_chars=10)
    settings: dict[str, Any] = {"budget": 0, "capacity": 4_000, "policy": Policy(pruning=pruning)}
    rounds = [item for number in range(9) for item in (called(f"c{number}"), result(f"c{number}", "word " * 90))]
    fitter = Fitter(dialect="openai_chat", **settings)
    for held in (rounds, [*rounds, called("d"), result("d", "x"), said("On")]):
        window = fitter.fit(held)
        assert longturn.fit(held, dialect="openai_chat", **settings).messages == window.messages


# --- checkpoints in the list (S8, B33) -----------------------------------------------------------------------------


def entry(text: str, **covers: Any) -> Native:
    return {"type": "longturn.checkpoint", "text": text, "covers": covers}


def summarized(text: str) -> str:
    return Checkpoint(text).message.text


def test_what_is_said_behind_an_entry_is_not_covered_by_it_s8() -> None:
    history = [said("Go"), answer("1"), entry("So far."), said("Two"), said("Three")]
    assert contents(assert_stable(history, "openai_chat", budget=9_999)) == [
        "Go",
        summarized("So far."),
        "Two",
        "Three",
    ]


def test_an_entry_between_a_call_and_its_result_does_not_split_the_round_s8() -> None:
    """Law 5: a round that is covered in part stays whole."""
    history = [said("Go"), answer("1"), said("Two"), called("c"), entry("So far."), result("c", "x"), answer("Done")]
    window = assert_stable(history, "openai_chat", budget=9_999)
    assert contents(window) == ["Go", summarized("So far."), "Two", None, "x", "Done"]


def test_one_text_twice_covers_what_stands_before_the_second_entry_s8() -> None:
    """S8: the newest wins; it is no repetition of the first, since it stands elsewhere."""
    history = [
        said("Go"),
        answer("1"),
        entry("Sum."),
        said("Two"),
        answer("2"),
        said("Three"),
        entry("Sum."),
        answer("3"),
    ]
    assert contents(assert_stable(history, "openai_chat", budget=9_999)) == ["Go", summarized("Sum."), "Three", "3"]


def test_a_digest_that_is_found_inside_an_answer_does_not_split_it_b33() -> None:
    """Laws 1 and 5: neighbouring answers are one (B1), so what was covered at that time is a piece of one now."""
    digest = transcript_of("openai_chat", [said("Go"), answer("One.")]).digest(2)
    history = [said("Go"), answer("One."), entry("Sum.", messages=2, digest=digest), called("c"), result("c", "x")]
    window = assert_stable([*history, said("On"), answer("Done")], "openai_chat", budget=9_999)
    assert contents(window) == ["Go", summarized("Sum."), "One.", None, "x", "On", "Done"]


def test_a_digest_of_the_running_round_is_taken_anew_when_the_round_changes_b33() -> None:
    """Law 4: a late result moves to its call, so the same rows say something else."""
    history = [said("Go"), called("c"), said("Well?"), result("c", "late"), answer("Done")]
    growing = Transcript(SIMPLE.measure)
    for arrived in (history[:3], history[3:]):
        growing.extend([(message, 0, False) for message in read("openai_chat", arrived)])
        growing.digest(len(growing.rows))
    whole = transcript_of("openai_chat", history)
    assert [growing.digest(row) for row in range(6)] == [whole.digest(row) for row in range(6)]


@pytest.mark.parametrize("dialect", ["openai_chat", "anthropic"])
def test_where_nothing_is_due_an_entry_alone_changes_the_window_and_the_rest_are_the_same_objects_h7(
    dialect: str,
) -> None:
    """Law 2: one of another list is left out, and said to be."""
    history = [said("Go"), answer("1"), entry("Sum.", messages=2, digest="00" * 16), said("Two")]
    window = assert_stable(history, dialect, budget=9_999)
    assert [id(item) for item in window.messages] == [id(item) for item in history if "role" in item]
    assert window.changed
    assert window.checkpoint is None
    assert any("checkpoint" in repair for repair in window.report.repairs)
