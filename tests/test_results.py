"""What happens to tool results and to arguments of old calls: cleared, spared, pinned, shortened, cut."""

import json
import re
from dataclasses import replace
from typing import Any

import pytest

import longturn
from longturn import CLEARED, ContextWindowExceeded, Fitter, Policy, Window, bound_result
from longturn.core.events import ArgumentsShortened, ResultsCleared, ResultsTrimmed
from longturn.core.rungs import replace_images
from longturn.testing import validate
from tests.conversations import (
    CALL_TOKENS,
    CLEARED_TOKENS,
    DIALECTS,
    PLAIN,
    Answer,
    Result,
    Step,
    ask,
    chat,
    outline,
    read,
    reply,
    sized,
    step,
    steps,
    tokens,
    turn,
    written,
)

SEED = replace(Policy.seed(), estimator=PLAIN.estimator)
SPARING = replace(PLAIN, target_ratio=0.6)
"""With 100 tokens of pins and a budget of 1,000: a target of 640."""


def shaped(conversation: list[Step], budget: int = 1_000, policy: Policy = PLAIN, **more: Any) -> Window:
    return longturn.fit(chat(conversation), budget=budget, policy=policy, **more)


def results(window: Window) -> dict[str, str]:
    """What stands in the place of each result, by the id of its call."""
    return dict(line.split(": ", 1) for line in outline(window) if re.match(r"\w+: ", line) and "assistant" not in line)


def cleared(window: Window) -> list[str]:
    return [call for call, text in results(window).items() if text == "CLEARED"]


# --- clearing ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_oldest_results_give_way_to_a_note_and_keep_their_place_and_id_l1(dialect: str) -> None:
    messages = written(dialect, [ask("Go ", 100), *steps(1, 5, 200)])
    window = longturn.fit(messages, budget=1_000, policy=PLAIN)
    assert cleared(window) == ["c1", "c2", "c3", "c4"]
    assert [line for line in outline(window) if line.startswith("call")] == [
        f"call c{number}" for number in range(1, 6)
    ]
    assert results(window)["c5"] == "result c5"
    assert validate(window.messages, dialect) == []
    whole = [item for item in window.messages if not any(item is message for message in messages)]
    assert len(whole) == 4


def test_the_note_says_that_the_tool_can_be_run_again_l1() -> None:
    assert "cleared" in CLEARED
    assert "context" in CLEARED
    assert "again" in CLEARED


def test_the_rest_of_a_cleared_message_stays_as_it_was_l1() -> None:
    messages = chat([ask("Go ", 100), *steps(1, 5, 200)])
    messages[2]["x_vendor"] = {"kept": True}
    window = longturn.fit(messages, budget=1_000, policy=PLAIN)
    assert window.messages[2] == {**messages[2], "content": CLEARED}


def test_the_seed_clears_in_fours_and_then_waits_for_the_next_four_l2() -> None:
    """L2, B13: 1,054 tokens at the ninth round; after four 790, so the tenth changes nothing and the eleventh does."""
    ninth, tenth, eleventh = (shaped([ask("Go ", 100), *steps(1, number)], policy=SEED) for number in (9, 10, 11))
    assert cleared(ninth) == ["c1", "c2", "c3", "c4"]
    assert (cleared(tenth), tenth.events) == (cleared(ninth), ())
    assert cleared(eleventh) == [f"c{number}" for number in range(1, 9)]
    assert [line for line in outline(eleventh) if line == "NOTE"] == []


def test_a_four_is_one_of_clearable_results_b13() -> None:
    """B13, L4: the small second result is no part of the four."""
    sizes = {"a": 150, "small": 20, "c": 150, "d": 150, "e": 150, "f": 150, "g": 150}
    conversation = [ask("Go ", 100), *(each for call, size in sizes.items() for each in step(call, size))]
    assert cleared(shaped(conversation, policy=SEED)) == ["a", "c", "d", "e"]


def test_the_last_partial_four_is_cleared_before_anything_is_dropped_b13() -> None:
    """B13: only two results can be cleared; one alone would have been enough."""
    window = shaped([ask("Go ", 100), *steps(1, 3, 300)], policy=SEED)
    assert cleared(window) == ["c1", "c2"]
    assert window.tokens == 100 + 3 * CALL_TOKENS + 2 * CLEARED_TOKENS + 300


def test_the_batch_size_is_a_setting_l2() -> None:
    """L2, B13: down to 640, three results are enough; one by one is the default, and in pairs a fourth goes."""
    conversation = [ask("Go ", 100), *steps(1, 5, 200)]
    assert len(cleared(shaped(conversation, policy=SPARING))) == 3
    assert len(cleared(shaped(conversation, policy=replace(SPARING, batch=2)))) == 4


@pytest.mark.parametrize(("share", "kept"), [(0.25, 2), (0.35, 3), (0.05, 1)])
def test_what_stays_whole_is_chosen_by_size_and_is_at_least_one_l3(share: float, kept: int) -> None:
    """L3, B13: of results of 100 tokens, so many fit in the whole share of 1,000."""
    window = shaped([ask("Go ", 100), *steps(1, 9)], policy=replace(PLAIN, whole_share=share))
    assert [call for call, text in results(window).items() if text != "CLEARED"] == [
        f"c{number}" for number in range(10 - kept, 10)
    ]


def test_whole_is_the_unbroken_run_of_the_newest_results_b13() -> None:
    """B13: the large second result ends the run, so the small one before it is not spared."""
    conversation = [ask("Go ", 100), *step("a", 70), *step("b", 700), *step("c", 80), *step("d", 80)]
    assert cleared(shaped(conversation)) == ["a", "b"]


def test_results_of_the_newest_round_are_never_cleared_b13() -> None:
    """B13: the model has not read them yet, be they larger than the whole share, and many."""
    many = tuple(f"n{number}" for number in range(6))
    conversation: list[Step] = [ask("Go ", 100), *steps(1, 3, 200), Answer(calls=many)]
    conversation += [Result(call, sized(f"result {call} ", 300)) for call in many]
    window = shaped(conversation)
    assert set(many) <= set(results(window))
    assert not set(many) & set(cleared(window))


def test_results_of_a_finished_turn_are_spared_while_no_answer_followed_them_b13() -> None:
    """B13: the newest round stays the newest when a user message follows it."""
    window = shaped([ask("Go ", 100), *steps(1, 3, 200), *step("new", 300), ask("And? ", 20)])
    assert results(window)["new"] == "result new"
    assert cleared(window) == ["c1", "c2", "c3"]


@pytest.mark.parametrize(("size", "outcome"), [(64, "result c1"), (74, "CLEARED")])
def test_a_result_not_much_larger_than_the_note_is_left_alone_l4(size: int, outcome: str) -> None:
    """L4, B13: twice the note is 60 tokens of text."""
    window = shaped([ask("Go ", 90), *step("c1", size), *steps(2, 6, 200)])
    assert results(window)["c1"] == outcome
    assert cleared(window)[-4:] == ["c2", "c3", "c4", "c5"]


def test_a_cleared_result_is_not_cleared_again_l4() -> None:
    window = shaped([ask("Go ", 100), *steps(1, 5, 200)])
    again = longturn.fit(window.messages, budget=1_000, policy=PLAIN)
    assert not again.changed
    assert again.events == ()


# --- what is spared ------------------------------------------------------------------------------------------------


def test_results_of_an_exempt_tool_are_never_cleared_b14() -> None:
    conversation = [ask("Go ", 100), *step("kept", 200, "remember"), *steps(2, 5, 200)]
    window = shaped(conversation, policy=replace(SPARING, keep_tools=frozenset({"remember"})))
    assert results(window)["kept"] == "result kept"
    assert cleared(window) == ["c2", "c3", "c4"]


def test_a_tool_can_carry_its_own_cleared_text_b14() -> None:
    own = "[Cleared. This command had effects: do not run it again.]"
    conversation = [ask("Go ", 100), *step("c1", 200, "push"), *steps(2, 5, 200)]
    window = shaped(conversation, policy=replace(PLAIN, cleared_texts={"push": own}))
    assert results(window)["c1"] == own
    assert results(window)["c2"] == "CLEARED"
    assert window.tokens == 100 + 5 * CALL_TOKENS + tokens(own) + 4 + 3 * CLEARED_TOKENS + 200


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_pinned_message_is_never_cleared_or_left_out_b14(dialect: str) -> None:
    """B14, H4, B17: its call stays with it, behind note and opener."""
    messages = written(dialect, [*turn("1", 40), ask("ask 2 "), *steps(1, 40, 200)])
    place = next(place for place, message in enumerate(messages) if "result c3" in json.dumps(message))
    policy = replace(PLAIN, pin=lambda message: message is messages[place])
    window = longturn.fit(messages, budget=1_000, policy=policy)
    assert outline(window)[:5] == ["ask 1", "NOTE", "ask 2", "call c3", "c3: result c3"]
    assert outline(window)[-1] == "c40: result c40"
    assert validate(window.messages, dialect) == []


def test_a_pinned_user_message_stays_when_its_turn_is_left_out_b14() -> None:
    conversation = [each for number in range(1, 12) for each in turn(str(number))]
    policy = replace(PLAIN, pin=lambda message: "ask 3" in message["content"])  # type: ignore[index]
    window = shaped([*conversation, ask("ask 12 ", 50)], policy=policy)
    assert outline(window)[:3] == ["ask 1", "NOTE", "ask 3"]
    assert "assistant: say 3" not in outline(window)


# --- arguments -----------------------------------------------------------------------------------------------------


def written_files(number: int, characters: int = 3_200) -> list[Step]:
    """Rounds in which whole files are written."""
    made: list[Step] = []
    for place in range(number):
        arguments = json.dumps({"path": f"{place}.py", "content": "x = 1\n" * (characters // 7)})
        made += [Answer(calls=(f"w{place}",), tool="write", arguments=arguments), Result(f"w{place}", "ok", "write")]
    return made


def arguments_of(window: Window) -> list[Any]:
    return [json.loads(call.arguments) for message in read(window.dialect, window.messages) for call in message.calls]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_long_arguments_of_old_calls_are_shortened_to_valid_json_b15(dialect: str) -> None:
    messages = written(dialect, [ask("Go "), *written_files(3), *step("c", 700)])
    window = longturn.fit(messages, budget=2_500, policy=PLAIN)
    arguments = arguments_of(window)
    assert [each.get("path") for each in arguments] == ["0.py", "1.py", "2.py", None]
    assert all(len(each["content"]) < 400 and "cleared" in each["content"] for each in arguments[:3])
    assert [type(event) for event in window.events] == [ArgumentsShortened]
    assert validate(window.messages, dialect) == []


def test_calls_that_only_write_are_shortened_although_their_results_are_small_b15() -> None:
    """B15, B4: nothing is dropped where shortening the calls before the newest suffices."""
    window = shaped([ask("Go "), *written_files(4)], budget=2_500)
    assert [len(each["content"]) < 400 for each in arguments_of(window)] == [True, True, True, False]
    assert [type(event) for event in window.events] == [ArgumentsShortened]


def test_results_are_cleared_before_arguments_are_shortened_b15() -> None:
    conversation = [ask("Go "), *written_files(1, 1_600), *steps(1, 4, 650)]
    window = shaped(conversation, budget=3_000)
    assert [type(event) for event in window.events] == [ResultsCleared]


def test_the_seed_leaves_arguments_alone_b15() -> None:
    window = shaped([ask("Go "), *written_files(4)], budget=2_500, policy=SEED)
    assert "NOTE" in outline(window)
    assert [type(event).__name__ for event in window.events] == ["HistoryTrimmed"]


# --- emergency -----------------------------------------------------------------------------------------------------


def emergency(sizes: dict[str, int]) -> list[Step]:
    made: list[Step] = [ask("Go "), *steps(1, 2), Answer(calls=tuple(sizes))]
    return [*made, *(Result(call, sized(f"result {call} ", size)) for call, size in sizes.items())]


URGENT = replace(PLAIN, emergency_trim=True)


def test_the_newest_results_are_cut_only_when_asked_for_l8() -> None:
    with pytest.raises(ContextWindowExceeded):
        shaped(emergency({"big": 2_000}), budget=900, capacity=1_000, max_output=0)


def test_the_largest_of_the_newest_results_is_cut_first_l8() -> None:
    """L8: to head and tail; the others stay whole when that is enough."""
    window = shaped(emergency({"mid": 300, "big": 2_000, "low": 100}), 900, URGENT, capacity=1_000, max_output=0)
    texts = {item["tool_call_id"]: item["content"] for item in window.messages if item["role"] == "tool"}  # type: ignore[index]
    assert window.tokens <= 1_000
    assert texts["mid"] == sized("result mid ", 300)
    assert texts["low"] == sized("result low ", 100)
    assert texts["big"].startswith("result big ~~~")
    assert texts["big"].endswith("~~~")
    assert len(texts["big"]) < 8_000
    assert ResultsTrimmed in [type(event) for event in window.events]


def test_several_large_results_are_cut_until_the_request_fits_l8() -> None:
    window = shaped(emergency({"a": 2_000, "b": 3_000}), 900, URGENT, capacity=1_000, max_output=0)
    assert window.tokens <= 1_000
    assert outline(window)[:3] == ["Go", "NOTE", "call a"]


def test_nothing_is_cut_where_the_request_may_be_sent_l8() -> None:
    """L8, B11: 1,200 estimated tokens may fit in 1,000, so it is sent."""
    conversation = emergency({"a": 1_140})
    window = shaped(conversation, 900, URGENT, capacity=1_000, max_output=0)
    assert 1_000 < window.tokens < 1_250
    assert window.messages[-1] == chat(conversation)[-1]


def test_a_result_that_was_cut_stays_cut_when_the_answer_came_l8() -> None:
    """L8, L11, B3: what was sent is carried on, as long as it stands whole otherwise."""
    messages = chat(emergency({"big": 2_000}))
    fitter = Fitter(budget=1_000, capacity=1_000, max_output=0, policy=URGENT)
    sent, whole = fitter.fit(messages).messages[-1], messages[-1]
    messages += chat([Answer("Read it.")])
    window = fitter.fit(messages)
    assert sent in window.messages
    assert whole not in window.messages
    assert window.messages == longturn.fit(messages, budget=1_000, capacity=1_000, max_output=0, policy=URGENT).messages


# --- bounds when recorded ------------------------------------------------------------------------------------------


def test_fit_never_bounds_a_result_by_itself_b22() -> None:
    """B22: that is what a session does when it records."""
    messages = chat([ask("Go "), Answer(calls=("a",)), Result("a", "x" * 200_000)])
    assert not longturn.fit(messages, budget=100_000, policy=PLAIN).changed


def test_a_short_result_or_no_bound_leaves_the_text_as_it_is_h30() -> None:
    assert bound_result("x" * 50_000) == "x" * 50_000
    assert bound_result("x" * 60_000, 0) == "x" * 60_000
    assert bound_result("", 10) == ""


def test_a_bounded_result_is_two_thirds_head_and_one_third_tail_h30() -> None:
    text = "".join(chr(0x4E00 + number % 20_000) for number in range(90_000))
    bounded = bound_result(text)
    found = re.fullmatch(r"(?s)([\u4e00-\u9fff]+)(\n[^\u4e00-\u9fff]*\n)([\u4e00-\u9fff]+)", bounded)
    assert found
    head, marker, tail = found.groups()
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len(head) == pytest.approx(2 * len(tail), rel=0.01)
    assert 49_000 < len(bounded) <= 50_000
    assert str(len(text) - len(head) - len(tail)) in re.findall(r"\d+", marker.replace(",", ""))


@pytest.mark.parametrize("length", [1, 2, 10, 60, 61, 99, 100, 101, 102, 140, 1_000])
@pytest.mark.parametrize("bound", [1, 2, 40, 60, 100])
def test_a_bounded_result_is_never_longer_than_the_bound_or_the_original_h30(length: int, bound: int) -> None:
    text = "0123456789" * 100
    bounded = bound_result(text[:length], bound)
    assert len(bounded) <= min(length, bound)


@pytest.mark.parametrize("shift", range(0, 60, 3))
def test_a_bound_never_cuts_through_an_image_marker_h30(shift: int) -> None:
    marker = "[IMAGE:/tmp/shots/screen.png]"
    text = "a" * shift + (marker + "b" * 7) * 40
    bounded = bound_result(text, 400)
    assert bounded.count("[IMAGE:") == bounded.count(marker)
    assert bounded.count(".png]") == bounded.count(marker)
    assert len(bounded) <= 400


@pytest.mark.parametrize("shift", range(4))
def test_a_bound_never_cuts_through_a_code_point_h30(shift: int) -> None:
    """H30: halves of a surrogate pair, as some JSON readers leave them, stay together."""
    text = "a" * shift + "\ud83d\ude00" * 300
    bounded = bound_result(text, 200)
    assert not re.search("[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]", bounded)


def test_no_rung_makes_a_result_larger_that_was_cut_and_has_an_image_b12_l8() -> None:
    """B12, L8: the rung for images passes it over, or the window would be counted larger by what was cut."""
    call = {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    seen = [
        *chat([ask("Go ")]),
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "word " * 1_600}, image]},
    ]
    policy = replace(URGENT, image_tokens=300, target_ratio=0.9)
    settings: dict[str, Any] = {"budget": 1_000, "capacity": 1_000, "max_output": 0, "policy": policy}
    fitter = longturn.Fitter(**settings)
    trimmed = fitter.fit(seen)
    assert {edit.kind for edit in trimmed.edits} == {"trimmed"}
    later = fitter.fit([*seen, *chat([reply("seen "), ask("and ", 100)])])._outcome
    assert later.before.trimmed
    assert later.view.size(replace_images(later.view, later.before, 0)) <= later.view.size(later.before)
