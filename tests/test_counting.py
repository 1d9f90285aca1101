"""What counts: framing, calls, images, schemas, everything that is sent; and that a text is measured once."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

import longturn
from longturn import ContextWindowExceeded, Fitter, Policy, Window
from longturn.core.events import ResultsCleared
from longturn.core.texts import IMAGE_CLEARED
from longturn.core.tokens import SIMPLE, Estimator, estimator_for, exact
from longturn.testing import validate
from tests.conversations import (
    DIALECTS,
    FRAMING,
    PLAIN,
    Answer,
    Result,
    Step,
    System,
    User,
    ask,
    chat,
    outline,
    reply,
    sized,
    step,
    steps,
    turn,
    written,
)


def counted(messages: list[Any], **more: Any) -> int:
    return longturn.fit(messages, **{"budget": 100_000, "policy": PLAIN, **more}).tokens


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("a" * 40, 10),
        ("a" * 41, 11),
        ("中" * 10, 10),
        ("ひらがなカナ", 6),
        ("한국어", 3),
        ("я" * 10, 5),
        ("λ" * 10, 5),
        ("م" * 10, 5),
        ("é" * 10, 5),
        ("😀" * 10, 5),
        ("a" * 8 + "中" * 3 + "я" * 2, 6),
        ("<|endoftext|>..." * 4, 16),
    ],
)
def test_a_message_counts_by_script_and_four_for_its_frame(text: str, size: int) -> None:
    """H21, L12, L14: text that looks like a special token is text."""
    assert counted(chat([User(text)])) == size + FRAMING
    assert counted(chat([User(text), Answer(text), User(text)])) == 3 * (size + FRAMING)


def test_a_call_counts_by_its_name_and_arguments_h21() -> None:
    """H21: ids are no text; 40 characters more are ten tokens more."""

    def call(tool: str, arguments: str, call_id: str = "c") -> int:
        return counted(
            chat([ask("Go "), Answer(calls=(call_id,), tool=tool, arguments=arguments), Result(call_id, "ok")])
        )

    plain = call("read", '{"path":"a"}')
    assert plain == 20 + 5 + FRAMING + 1 + FRAMING
    assert call("read" + "x" * 40, '{"path":"a"}') == plain + 10
    assert call("read", '{"path":"a' + "x" * 40 + '"}') == plain + 10
    assert call("read", '{"path":"a"}', "c" * 44) == plain


def test_each_parallel_call_and_each_result_counts_h21() -> None:
    """H21, B29: one frame for the answer, one for each result."""
    both: list[Step] = [ask("Go "), Answer(calls=("a", "b")), Result("a", "x" * 40), Result("b", "y" * 80)]
    for dialect in ("openai_chat", "openai_responses", "anthropic"):
        size = counted(written(dialect, both))
        assert size in (20 + FRAMING + 4 + 2 * FRAMING + 30, 20 + FRAMING + 4 + 2 * FRAMING + 30 + 1)


def test_all_dialects_count_alike_b29() -> None:
    """B29: the frame is one for each canonical message."""
    conversation: list[Step] = [
        *turn("1"),
        ask("ask 2 "),
        Answer("I look.", ("a", "b")),
        *(Result(each, "x" * 40) for each in "ab"),
    ]
    conversation += [reply("say 2 "), ask("ask 3 ")]
    sizes = {dialect: counted(written(dialect, conversation)) for dialect in DIALECTS}
    assert sizes["openai_responses"] == sizes["openai_chat"] == sizes["anthropic"]
    # Gemini's responses are objects: the braces and the key around each text are sent too.
    assert 0 <= sizes["gemini"] - sizes["openai_chat"] <= 2 * 5


# --- images --------------------------------------------------------------------------------------------------------

PNG = "iVBORw0KGgo" * 9
DATA_URL = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + PNG}}


def shown(data: str = PNG) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}


def seen(call: str, images: int, text: str = "x" * 40) -> dict[str, Any]:
    """An Anthropic message with one result that has images attached."""
    content = [{"type": "text", "text": text}, *([shown()] * images)]
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call, "content": content}]}


def called(call: str) -> Any:
    return written("anthropic", [Answer(calls=(call,))])[0]


@pytest.mark.parametrize("later", [0, 3])
def test_an_image_of_a_user_counts_1600_in_a_turn_of_any_age_h22(later: int) -> None:
    rest = chat([reply("I see "), *(each for number in range(later) for each in turn(str(number)))])
    text = {"type": "text", "text": "Look!..."}
    plain = counted([{"role": "user", "content": [text]}, *rest])
    assert counted([{"role": "user", "content": [text, DATA_URL, DATA_URL]}, *rest]) == plain + 2 * 1_600


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_base64_payload_never_counts_as_text_h22(dialect: str) -> None:
    def look(data: str) -> Any:
        match dialect:
            case "openai_chat":
                return {
                    "role": "user",
                    "content": [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}],
                }
            case "openai_responses":
                image = {"type": "input_image", "image_url": f"data:image/png;base64,{data}"}
                return {"type": "message", "role": "user", "content": [image]}
            case "anthropic":
                return {"role": "user", "content": [shown(data)]}
            case _:
                return {"role": "user", "parts": [{"inlineData": {"mimeType": "image/png", "data": data}}]}

    assert counted([look(PNG)], dialect=dialect) == counted([look(PNG * 5_000)], dialect=dialect) == 1_600 + FRAMING


def test_the_price_of_an_image_is_configurable_h22() -> None:
    message = [{"role": "user", "content": [DATA_URL]}]
    assert counted(message, policy=replace(PLAIN, image_tokens=765)) == 765 + FRAMING
    assert counted(message, policy=replace(PLAIN, image_tokens=0)) == FRAMING


@pytest.mark.parametrize(
    "marker",
    ["[IMAGE:/tmp/shot.png]", "[IMAGE:shots/a.jpg]", "[IMAGE:https://example.org/a.png]", "[IMAGE:C:\\shots\\a.png]"],
)
def test_a_loadable_marker_in_a_users_text_counts_as_an_image_h22(marker: str) -> None:
    assert counted(chat([User("Look: " + "x" * 34)])) == 10 + FRAMING
    assert counted(chat([User("Look: " + "x" * 34 + marker)])) == 10 + FRAMING + 1_600
    assert counted(chat([User("Look: " + "x" * 34 + marker + marker)])) == 10 + FRAMING + 3_200


@pytest.mark.parametrize("marker", ["[IMAGE:...]", "[IMAGE:…]", "[IMAGE:]", "[IMAGE]", "[IMAGE: none"])
def test_a_placeholder_is_text_h22(marker: str) -> None:
    assert counted(chat([User(marker)])) < 50


def test_a_marker_in_system_assistant_or_tool_text_is_text_h22() -> None:
    marker = "[IMAGE:/tmp/shot.png]"
    conversation: list[Step] = [
        System(marker),
        ask("Go "),
        Answer(marker),
        ask("And? "),
        Answer(calls=("a",)),
        Result("a", marker),
    ]
    assert counted(chat(conversation)) < 100


def test_images_that_a_tool_attached_count_in_the_running_turn_h22() -> None:
    go = {"role": "user", "content": "Go"}
    plain = counted([go, called("a"), seen("a", 0)])
    assert counted([go, called("a"), seen("a", 2)]) == plain + 2 * 1_600


def test_images_in_results_of_older_turns_are_sent_and_count_until_they_are_replaced_b12() -> None:
    """B12, H22: what is sent is priced."""
    go, answer = {"role": "user", "content": "Go"}, {"role": "assistant", "content": "I saw it."}
    plain = counted([go, called("a"), seen("a", 0), answer, go])
    window = longturn.fit([go, called("a"), seen("a", 2), answer, go], budget=100_000, policy=PLAIN)
    assert not window.changed
    assert window.tokens == plain + 3_200


def older_images(policy: Policy) -> Window:
    go, answer = {"role": "user", "content": "Go"}, {"role": "assistant", "content": "I saw it."}
    old = [message for number in range(3) for message in (called(f"i{number}"), seen(f"i{number}", 1, "x" * 800))]
    new = written("anthropic", steps(1, 5, 200))
    messages = [go, *old, answer, go, called("now"), seen("now", 1), *new]
    return longturn.fit(messages, budget=8_000, policy=policy)


def test_images_of_older_turns_are_the_first_to_go_b12() -> None:
    """B12, B4, H22: three images and texts of 800 characters; when the images suffice, no text is cleared."""
    window = older_images(PLAIN)
    assert [(event.kind, event.results) for event in window.events if isinstance(event, ResultsCleared)] == [
        ("images", 3)
    ]
    assert "CLEARED" not in outline(window)
    assert [place for place, message in enumerate(window.messages) if "image/png" in str(message)] == [10]
    assert str(window.messages).count(IMAGE_CLEARED) == 3
    assert str(window.messages).count("x" * 800) == 3
    assert validate(window.messages, "anthropic") == []


def test_images_and_texts_go_in_the_same_break_b12() -> None:
    """B12: where the images do not suffice, the next rung follows at once."""
    window = older_images(replace(PLAIN, target_ratio=0.3))
    assert "results" in [event.kind for event in window.events if isinstance(event, ResultsCleared)]
    assert "image/png" not in str(window.messages[:8])
    assert window.tokens <= 3_000


def test_a_cleared_result_loses_its_images_too_l1() -> None:
    """L1, H22, B12: nothing of it is sent."""
    messages = [{"role": "user", "content": "Go"}]
    for number in range(6):
        messages += [called(f"i{number}"), seen(f"i{number}", 1)]
    window = longturn.fit(messages, budget=6_000, policy=PLAIN)
    assert window.tokens <= 6_000
    assert outline(window).count("i0: CLEARED") == 1
    assert str(window.messages[2]).count("image/png") == 0


# --- schemas, and all of it ----------------------------------------------------------------------------------------

SCHEMA = {"type": "object", "properties": {"path": {"type": "string", "description": "Where it is."}}}


def schemas(dialect: str, description: str = "Reads a file.", number: int = 1) -> list[Any]:
    fields = [{"name": f"read{place}", "description": description, "parameters": SCHEMA} for place in range(number)]
    match dialect:
        case "openai_chat":
            return [{"type": "function", "function": each} for each in fields]
        case "openai_responses":
            return [{"type": "function", **each} for each in fields]
        case "anthropic":
            return [
                {"name": e["name"], "description": e["description"], "input_schema": e["parameters"]} for e in fields
            ]
        case _:
            return [{"functionDeclarations": fields}]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_schema_counts_by_name_description_and_parameters_and_four_h23(dialect: str) -> None:
    messages = written(dialect, [ask("Go ")])
    none = counted(messages, dialect=dialect)
    one = counted(messages, dialect=dialect, tools=schemas(dialect)) - none
    characters = len("read0" + "Reads a file." + str(SCHEMA))
    assert FRAMING + characters * 0.23 < one < FRAMING + characters * 0.27 + 2
    assert counted(messages, dialect=dialect, tools=schemas(dialect, number=3)) - none == 3 * one
    longer = counted(messages, dialect=dialect, tools=schemas(dialect, "Reads a file." + "x" * 40)) - none
    assert longer == one + 10


def test_no_tools_cost_nothing_h23() -> None:
    assert counted(chat([ask("Go ")]), tools=None) == counted(chat([ask("Go ")]), tools=[]) == 20


def test_the_budget_covers_schemas_and_system_as_well_b7() -> None:
    """B7: the messages alone are under the budget of 1,000."""
    conversation: list[Step] = [ask("Go ", 100), *steps(1, 6)]
    assert not longturn.fit(chat(conversation), budget=1_000, policy=PLAIN).changed
    tools = schemas("openai_chat", "d" * 1_600)
    assert longturn.fit(chat(conversation), budget=1_000, policy=PLAIN, tools=tools).changed
    assert longturn.fit(chat([System(sized("s", 400)), *conversation]), budget=1_000, policy=PLAIN).changed
    assert longturn.fit(written("anthropic", conversation), budget=1_000, policy=PLAIN, system="s" * 1_600).changed


def test_the_note_counts_b7() -> None:
    """B7, H27: the numbers of a window are those of what is sent."""
    window = longturn.fit(chat([ask("Go ", 100), *steps(1, 9)]), budget=1_000, policy=PLAIN)
    assert window.tokens == counted(window.messages)


@pytest.mark.parametrize(("system", "rest", "changed"), [(100, 3_100, False), (90, 3_105, True), (90, 3_100, False)])
def test_the_base_is_rounded_up_to_a_32nd_of_the_limit_for_the_test_b7(system: int, rest: int, changed: bool) -> None:
    """B7: steps of 100 for a limit of 3,200; 90 tokens of system and 3,105 of messages are too much, though 3,195."""
    conversation: list[Step] = [
        System(sized("s", system)),
        ask("Go ", 100),
        *steps(1, 14, 194),
        ask("And? ", rest - 2_900),
    ]
    window = longturn.fit(chat(conversation), budget=3_200, policy=PLAIN)
    assert window.changed == changed
    assert changed or window.tokens == system + rest


def test_a_date_in_the_prompt_moves_no_cut_and_a_step_refolds_everything_b7() -> None:
    """B7: 91 to 99 tokens of system are one step of 100; `.tokens` is exact all the same."""
    messages = written("anthropic", [ask("Go ", 100), *steps(1, 60)])
    fitter = Fitter(budget=3_200, policy=PLAIN, dialect="anthropic")
    first, second = (fitter.fit(messages, system="s" * 4 * size) for size in (91, 99))
    assert first.messages == second.messages
    assert second.tokens - first.tokens == 8
    far = fitter.fit(messages, system="s" * 4 * 900)
    assert (
        far.messages
        == longturn.fit(messages, budget=3_200, policy=PLAIN, dialect="anthropic", system="s" * 4 * 900).messages
    )
    assert far.messages != first.messages


# --- once ----------------------------------------------------------------------------------------------------------


def test_a_message_is_measured_once_however_often_it_is_sent_l13() -> None:
    measured: Counter[str] = Counter()

    def measure(text: str) -> tuple[int, ...]:
        measured[text] += 1
        return SIMPLE.measure(text)

    fitter = Fitter(budget=1_000, policy=replace(PLAIN, estimator=Estimator("counting", measure, SIMPLE.tokens)))
    messages = chat([ask("Go "), *steps(1, 40)])
    for stop in range(1, len(messages) + 1):
        fitter.fit(messages[:stop])
    texts = [message["content"] for message in messages if message["content"]]
    assert {text: measured[text] for text in texts if measured[text] != 1} == {}


def test_what_is_remembered_serves_every_family_b6() -> None:
    """B6: the features of a text are those of all families, whose estimates are dot products over them."""
    names = ("gpt-5", "claude-sonnet-4-5", "gemini-2.5-pro", "deepseek-chat", None)
    families = {estimator_for(name) for name in names}
    assert len(families) > 1
    assert {family.measure for family in families} == {SIMPLE.measure}


def test_an_exact_tokenizer_can_be_plugged_in_l14() -> None:
    """L14: a special token's name in a text is no error."""
    policy = replace(PLAIN, estimator=exact(lambda text: len(text.split())))
    messages = chat([User("one two <|endoftext|> four")])
    assert longturn.fit(messages, policy=policy).tokens == 4 + FRAMING
    with pytest.raises(ContextWindowExceeded):
        longturn.fit(chat([User("word " * 2_000)]), policy=policy, capacity=1_000, max_output=0)


def test_the_sizes_that_these_tests_reckon_with_are_the_librarys_own() -> None:
    """L12, H21: the sizes that these tests reckon with are the library's own."""
    assert counted(chat([ask("Go "), *step("c1", 100)])) == 126
