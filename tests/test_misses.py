"""What was needed later: which results an answer quotes, by example and against a plain search of all runs."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longturn.core.messages import Message, Reasoning, Text, ToolCall, result, user
from longturn.core.misses import RUN, needs_of
from longturn.core.tokens import SIMPLE
from longturn.core.transcript import Transcript
from longturn.dialects.registry import by_name
from tests.conversations import DIALECTS, Answer, Result, Step, User, written

QUOTE = "def area(width, height):  # of a rectangle, in metres"
OTHER = "class Circle: radius = 3.14159  # and nothing else in it"
assert RUN <= len(QUOTE) < 2 * RUN


def said(text: str, *calls: str, arguments: str = "{}") -> Message:
    return Message("assistant", (Text(text), *(ToolCall(call, "read", arguments) for call in calls)))


def needs(*messages: Message) -> dict[int, tuple[int, ...]]:
    transcript = Transcript(SIMPLE.measure)
    transcript.extend([(message, place, False) for place, message in enumerate(messages)])
    return needs_of(transcript)


def test_a_run_of_48_characters_of_a_result_in_a_later_answer_makes_it_needed() -> None:
    run = user("Go"), said("", "a"), result("a", f"line 1\n{QUOTE}\nline 3")
    assert needs(*run, said(f"I read: {QUOTE[:48]}")) == {3: (2,)}
    assert needs(*run, said(f"I read: {QUOTE[:47]}")) == {}


def test_a_result_is_needed_once_however_often_it_is_quoted() -> None:
    run = user("Go"), said("", "a"), result("a", f"{QUOTE}\n{OTHER}")
    assert needs(*run, said(f"{QUOTE} and {OTHER}, and again {QUOTE}")) == {3: (2,)}


def test_white_space_is_folded_on_both_sides_of_a_quote() -> None:
    run = user("Go"), said("", "a"), result("a", "def f():\n\treturn  left +\r\n   right * (top - bottom) // 12")
    assert needs(*run, said("def f(): return left + right * (top - bottom) // 12")) == {3: (2,)}


def test_strings_in_the_arguments_of_a_call_quote_as_they_are_meant() -> None:
    text = 'print("eins")\nprint("zwei")\nprint("drei")\nprint("vier")\n'
    run = user("Go"), said("", "a"), result("a", text)
    arguments = json.dumps({"edits": [{"old": text}], "all": True, "times": 3})
    assert needs(*run, said("", "b", arguments=arguments)) == {3: (2,)}
    free = needs(*run, said("", "b", arguments=f"*** patch\n{text}"))
    assert free == {3: (2,)}


def test_what_thinking_repeats_is_no_quote() -> None:
    run = user("Go"), said("", "a"), result("a", QUOTE)
    assert needs(*run, Message("assistant", (Reasoning(QUOTE), Text("Done.")))) == {}


def test_of_two_results_that_hold_a_run_the_newer_is_needed() -> None:
    run = user("Go"), said("", "a"), result("a", f"{QUOTE} {OTHER}"), said("", "b"), result("b", f"> {QUOTE}")
    assert needs(*run, said(QUOTE)) == {5: (4,)}
    assert needs(*run, said(f"{OTHER}; {QUOTE}")) == {5: (2, 4)}


def test_a_result_of_the_same_answer_or_a_later_one_is_no_source() -> None:
    assert needs(user("Go"), said(QUOTE, "a"), result("a", QUOTE), said("Done.")) == {}


def test_what_the_first_user_message_holds_is_never_needed() -> None:
    run = user(f"Why is there {QUOTE}?"), said("", "a"), result("a", QUOTE)
    assert needs(*run, said(QUOTE)) == {}


def test_what_a_newer_user_message_holds_needs_no_result() -> None:
    run = user("Go"), said("", "a"), result("a", QUOTE), said("Yes?")
    assert needs(*run, user(f"I mean {QUOTE}"), said(QUOTE)) == {}


@pytest.mark.parametrize("rule", ["-" * 200, "=-" * 90, "| --- " * 40, "0" * 100, " " * 500])
def test_a_rule_or_padding_is_no_quote(rule: str) -> None:
    assert needs(user("Go"), said("", "a"), result("a", f"head\n{rule}\nfoot"), said(rule)) == {}


@pytest.mark.parametrize(
    "text",
    [
        "Это строка, которую модель потом повторит слово в слово, и ещё немного",
        "模型稍后会逐字重复这一行文字因此没有这个结果它就无法继续工作下去所以我们必须把这个结果保留到最后一步为止不能丢掉它",
        "سيكرر النموذج هذا السطر لاحقا كلمة بكلمة ولذلك يحتاج إليه حتى النهاية",
        "🚀 one 🛰️ two 👩‍💻 three 🧪 four 🧵 five 🧭 six 🧱 seven 🧲 eight 🧯 nine",
    ],
)
def test_a_quote_is_found_in_every_script(text: str) -> None:
    assert needs(user("Go"), said("", "a"), result("a", f"x {text} y"), said(f"So: {text}")) == {3: (2,)}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_quote_is_found_in_every_dialect(dialect: str) -> None:
    text = f'first line\n{QUOTE}\nand a \\ and a "quote"\nlast line'
    conversation: list[Step] = [
        User("Go"),
        Answer(calls=("a",)),
        Result("a", text),
        Answer(f'{QUOTE}\nand a \\ and a "quote"\n'),
    ]
    form, transcript = by_name(dialect), Transcript(SIMPLE.measure)
    before: Any = None
    for place, item in enumerate(written(dialect, conversation)):
        transcript.extend([(message, place, False) for message in form.read(item, before, place)])
        before = item
    assert needs_of(transcript) == {3: (2,)}


def test_one_line_a_hundred_thousand_times_is_told_from_its_neighbours() -> None:
    line = "2026-01-01 12:00:00 INFO worker 7 started without complaint\n"
    run = user("Go"), said("", "a", "b"), result("a", line * 100_000 + QUOTE), result("b", line * 3)
    assert needs(*run, said(line * 2 + QUOTE)) == {4: (2, 3)}
    assert needs(*run, said(line * 50)) == {4: (3,)}


def test_a_result_longer_than_a_chunk_is_folded_without_a_seam() -> None:
    words = "".join(f"w{number:06}\n" for number in range(300_000))
    run = user("Go"), said("", "a"), result("a", words)
    for start in (0, 1_048_500, 1_048_576, len(words) - 64):
        assert needs(*run, said(words[start : start + 64])) == {3: (2,)}


def test_where_nothing_is_quoted_nothing_is_needed() -> None:
    assert needs() == {}
    assert needs(user("Go")) == {}
    assert needs(user("Go"), said("", "a"), result("a", ""), said("")) == {}
    assert needs(said(QUOTE), user("Go")) == {}
    broken = (
        user("Go"),
        said("", "a", arguments="{" * 10_000),
        result("a", '["' + "\\" * 9),
        said("", "b", arguments='"'),
    )
    assert needs(*broken) == {}


# Characters that are all different in every block, so that the rule on padding takes no part.
_WORDS = st.sampled_from(
    [f"{letter}{number:05}-{letter.upper()}xyzuvw" for letter in "abcdefgh" for number in range(9)]
)
_TEXTS = st.lists(_WORDS, max_size=12).map(" ".join)


@given(st.lists(st.tuples(_TEXTS, _TEXTS, st.booleans()), max_size=7))
def test_needs_are_those_that_a_search_of_every_run_finds(rounds: Sequence[tuple[str, str, bool]]) -> None:
    messages = [user("Go")]
    for number, (spoken, found, is_asked) in enumerate(rounds):
        messages += [said(spoken, f"c{number}"), result(f"c{number}", found)]
        messages += [user(found)] * is_asked
    expected: dict[int, tuple[int, ...]] = {}
    for border, message in enumerate(messages):
        if message.role == "assistant":
            held = [
                (place, text_of(other)) for place, other in enumerate(messages[:border]) if other.role != "assistant"
            ]
            starts = range(len(message.text) - RUN + 1)
            runs = {message.text[start : start + RUN] for start in starts}
            newest = {max((place for place, text in held if run in text), default=-1) for run in runs}
            rows = tuple(sorted(place for place in newest if place >= 0 and messages[place].role == "tool"))
            expected.update({border: rows} if rows else {})
    assert needs(*messages) == expected


def text_of(message: Message) -> str:
    return "".join(getattr(part, "text", "") for part in message.parts)
