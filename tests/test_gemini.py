"""The Gemini contents dialect: what is read, mended, rendered and named as refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from google.genai import _transformers, types
from hypothesis import given
from hypothesis import strategies as st

from longturn.core.edits import cleared, without_images
from longturn.core.messages import Media, Message, Opaque, Reasoning, Text, ToolCall, ToolResult, result, user
from longturn.core.texts import CLEARED, EMPTY_MESSAGE, NOTE, UNANSWERED
from longturn.dialects.gemini import DIALECT
from longturn.errors import TranscriptError
from longturn.testing import check_dialect

IMAGE = {"inlineData": {"mimeType": "image/png", "data": "A" * 300}}
MOVIE = {"file_data": {"mime_type": "video/mp4", "file_uri": "files/1"}}


def text(said: str, **more: Any) -> dict[str, Any]:
    return {"text": said, **more}


def call(name: str, **more: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": {"path": "a"}, **more}}


def response(name: str, **more: Any) -> dict[str, Any]:
    return {"functionResponse": {"name": name, "response": {"output": "ok"}, **more}}


def asked(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "parts": list(parts)}


def said(*parts: Any) -> dict[str, Any]:
    return {"role": "model", "parts": list(parts)}


def read(items: list[Any]) -> list[Message]:
    befores = [None, *items]
    return [m for place, item in enumerate(items) for m in DIALECT.read(item, befores[place], place)]


def mended(*items: Any) -> list[Any]:
    messages = read(list(items))
    assert any(message.repair for message in messages)
    rendered = DIALECT.render(messages)
    assert DIALECT.problems(rendered) == []
    assert DIALECT.render(read(rendered)) == rendered
    return rendered


def results(messages: list[Message]) -> list[ToolResult]:
    return [part for message in messages for part in message.parts if isinstance(part, ToolResult)]


ROUND = [asked(text("Go")), said(call("read")), asked(response("read"))]


# Reading


def test_each_kind_of_part_becomes_its_part() -> None:
    """H21, H22, B25: in both spellings of keys."""
    code = {"executableCode": {"language": "PYTHON", "code": "1+1"}}
    output = {"code_execution_result": {"outcome": "OK", "output": "2"}}
    parts = [text("hm", thought=True, thoughtSignature="s" * 36), text("Hello"), code, output, MOVIE]
    [message] = DIALECT.read(said(*parts), None, 0)
    assert message.role == "assistant"
    assert message.parts == (
        Reasoning("hm", 36, parts[0]),
        Text("Hello", parts[1]),
        Opaque('{"executableCode":{"language":"PYTHON","code":"1+1"}}', code),
        Opaque('{"code_execution_result":{"outcome":"OK","output":"2"}}', output),
        Media("video", MOVIE),
    )


def test_a_call_without_an_id_is_known_by_its_name() -> None:
    native = {"function_call": {"name": "read", "args": {"path": "été"}}}
    [message] = DIALECT.read(said(native, call("read", id="c1")), None, 0)
    assert message.calls[0] == ToolCall("read", "read", '{"path":"été"}', False, native)
    assert message.calls[1].id == "c1"


def test_a_signature_stays_on_its_part_and_counts_beside_it_b25() -> None:
    native = {**call("read"), "thought_signature": "s" * 360}
    [message] = DIALECT.read(said(native, text("x")), None, 0)
    assert message.parts[:2] == (ToolCall("read", "read", '{"path":"a"}', True, native), Reasoning("", 360))
    rebuilt = message.with_parts([part for part in message.parts if not isinstance(part, Text)])
    assert DIALECT.render([rebuilt]) == [said(native)]
    without = message.with_parts([part for part in message.parts if not isinstance(part, Reasoning)])
    assert DIALECT.render([without]) == [said(native, text("x"))]


def test_the_signature_that_ends_a_streamed_answer_is_no_empty_part() -> None:
    [message] = DIALECT.read(said(text("x"), text("", thoughtSignature="s" * 36)), None, 0)
    assert message.parts[1] == Reasoning("", 36, {"text": "", "thoughtSignature": "s" * 36})
    assert not message.edited


def test_responses_become_one_tool_message_each_and_the_rest_one_user_message() -> None:
    for role in ("user", "function", "tool"):
        native = {"role": role, "parts": [response("a"), response("b"), text("and?"), IMAGE]}
        messages = DIALECT.read(native, None, 0)
        assert [message.role for message in messages] == ["tool", "tool", "user"]
        assert {message.share for message in messages} == {3}
        assert results(list(messages))[0] == ToolResult("a", '{"output":"ok"}', (), native["parts"][0])


def test_a_content_without_a_role_is_the_users() -> None:
    assert DIALECT.read({"parts": [text("hi")]}, None, 0)[0].role == "user"
    assert DIALECT.read("hi", None, 0)[0].text == "hi"


def test_a_response_is_known_by_the_call_that_it_answers() -> None:
    calls = said(call("read", id="c1"), call("read", id="c2"), call("list"))
    answers = asked(response("list", id="x"), response("read"), response("read", id="c1"))
    assert [part.call_id for part in results(read([calls, answers]))] == ["list", "c1", "c2"]
    straight = asked(response("read", id="c2"), response("read", id="c1"), response("list"))
    assert [part.call_id for part in results(read([calls, straight]))] == ["c2", "c1", "list"]


def test_what_a_tool_attached_is_media_h22() -> None:
    [message] = DIALECT.read(asked(response("shot", parts=[IMAGE])), None, 0)
    assert results([message])[0].media == (Media("image", IMAGE),)


@pytest.mark.parametrize(
    ("item", "word"),
    [
        ({"role": "assistant", "parts": []}, "unknown role 'assistant'"),
        ({"role": 3, "parts": []}, "unknown role 3"),
        ({"role": "user", "parts": "hi"}, "parts is a str"),
        ({"role": "user", "parts": ["hi"]}, "a part is a str"),
        (7, "expected an object"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_position(item: Any, word: str) -> None:
    with pytest.raises(TranscriptError, match=r"^messages\[4\]: ") as caught:
        DIALECT.read(item, None, 4)
    assert word in str(caught.value)
    assert DIALECT.problems([item]) == [str(caught.value).replace("[4]", "[0]")]


# Mending


@pytest.mark.parametrize("parts", [[], None, [text("")], [{}], [{"thought": True}], [{"text": None}]])
def test_an_empty_content_gets_a_short_text_h29(parts: Any) -> None:
    history = [asked(text("Go")), {"role": "model", "parts": parts}, asked(text("?"))]
    assert mended(*history)[1] == said(text(EMPTY_MESSAGE))


def test_empty_parts_and_parts_in_the_wrong_role_are_left_out_h29() -> None:
    rendered = mended(asked(text("Go"), call("x")), said(text(""), call("read"), response("x")), ROUND[2])
    assert rendered == ROUND


def test_responses_in_several_contents_are_joined_b27() -> None:
    items = [ROUND[0], said(call("a"), call("b")), asked(response("a")), asked(response("b"), text("go on"))]
    assert DIALECT.problems(items) != []
    assert mended(*items)[2:] == [asked(response("a"), response("b"), text("go on"))]


# Rendering


def test_a_cleared_response_keeps_name_and_id_and_reads_back_as_the_same_text() -> None:
    """Law 3: so a shaped list that is handed back is not shaped again."""
    native = {"role": "function", "parts": [response("a", id="c1", parts=[IMAGE], willContinue=False), text("x")]}
    before = json.dumps(native)
    tool, rest = DIALECT.read(native, None, 0)
    [rendered] = DIALECT.render([cleared(tool, CLEARED), rest])
    answer = {"name": "a", "response": {"result": CLEARED}, "id": "c1", "willContinue": False}
    assert rendered == {"role": "function", "parts": [{"functionResponse": answer}, text("x")]}
    assert [part.text for part in results(read([rendered]))] == [CLEARED]
    assert json.dumps(native) == before


def test_a_response_without_its_image_is_text_b12() -> None:
    [tool] = DIALECT.read(asked({"function_response": {"name": "a", "response": {}, "parts": [IMAGE]}}), None, 0)
    [rendered] = DIALECT.render([without_images(tool)])
    said = "{}\n[An image was cleared here.]"
    assert rendered == asked({"function_response": {"name": "a", "response": {"result": said}}})


@pytest.mark.parametrize(
    ("native", "expected"),
    [
        (call("read"), {"functionResponse": {"name": "read", "response": {"result": UNANSWERED}}}),
        (call("read", id="c1"), {"functionResponse": {"id": "c1", "name": "read", "response": {"result": UNANSWERED}}}),
        (
            {"function_call": {"name": "read", "args": {}}},
            {"function_response": {"name": "read", "response": {"result": UNANSWERED}}},
        ),
    ],
)
def test_a_synthetic_response_takes_name_id_and_spelling_from_its_call_b21(native: Any, expected: Any) -> None:
    opener, answer = read([ROUND[0], said(native)])
    rendered = DIALECT.render([opener, answer, result(answer.calls[0].id, UNANSWERED)])
    assert rendered[2] == asked(expected)
    assert DIALECT.problems(rendered) == []


def test_a_synthetic_response_stands_with_the_real_ones_b27() -> None:
    items = [ROUND[0], said(call("a"), call("b")), asked(response("a"), text("go on"))]
    opener, calls, one, rest = read(items)
    rendered = DIALECT.render([opener, calls, one, result("b", UNANSWERED), rest])
    assert len(rendered) == 3
    assert DIALECT.problems(rendered) == []
    assert [part.call_id for part in results(read(rendered))] == ["a", "b"]


def test_shortened_arguments_keep_the_spelling_of_their_call_b15() -> None:
    native = {"function_call": {"name": "read", "args": {"path": "x" * 900}, "id": "c1"}}
    [message] = DIALECT.read(said(native), None, 0)
    changed = message.with_parts([ToolCall("c1", "read", '{"path": "x"}', False, native)])
    shorter = {"function_call": {"name": "read", "args": {"path": "x"}, "id": "c1"}}
    assert DIALECT.render([changed]) == [said(shorter)]


def test_a_note_and_an_opener_stay_separate_contents_b27() -> None:
    _, opener = DIALECT.read(asked(response("a"), text("next")), None, 0)
    assert DIALECT.render([user("first"), user(NOTE), opener]) == [
        asked(text("first")),
        asked(text(NOTE)),
        asked(text("next")),
    ]


# Losslessness


def sdk_contents() -> list[Any]:
    return [
        types.Content(
            role="user", parts=[types.Part(text="Go"), types.Part.from_bytes(data=b"\x01", mime_type="image/png")]
        ),
        types.Content(
            role="model",
            parts=[
                types.Part(text="plan", thought=True),
                types.Part(
                    function_call=types.FunctionCall(name="f", args={"a": "한"}), thought_signature=b"\x01\x02sig"
                ),
                types.Part(text="so"),
            ],
        ),
        types.Content(role="user", parts=[types.Part.from_function_response(name="f", response={"x": 1})]),
    ]


def examples() -> list[list[Any]]:
    busy = said(text("à", thought=True), text("так"), {**call("a"), "thoughtSignature": "c2ln"}, call("a"), call("b"))
    return [
        ROUND,
        [
            asked(text("Go"), IMAGE, MOVIE),
            busy,
            asked(response("a", parts=[IMAGE]), response("a"), response("b"), text("?")),
        ],
        [ROUND[0], said(call("a", id="1")), {"role": "function", "parts": [response("a", id="1")], "x": 2}],
        [
            *ROUND,
            said({"executable_code": {"code": "1"}}, {"code_execution_result": {"output": "1"}}),
            asked(text("ok")),
        ],
        sdk_contents(),
    ]


def test_the_dialect_keeps_what_the_core_relies_on() -> None:
    """Laws 6, 7, 9 and B29, by the checks that users run on their own dialects."""
    check_dialect(DIALECT, examples())


def test_an_edited_sdk_content_keeps_the_bytes_of_its_other_parts() -> None:
    items = sdk_contents()
    [message] = DIALECT.read(items[1], items[0], 1)
    [rendered] = DIALECT.render([message.with_parts(message.parts[1:])])
    [back] = _transformers.t_contents([rendered])
    assert back == types.Content(role="model", parts=items[1].parts[1:])
    tools = DIALECT.read(items[2], items[1], 2)
    [answer] = _transformers.t_contents(DIALECT.render([cleared(tool, CLEARED) for tool in tools]))
    assert answer.parts is not None
    assert answer.parts[0].function_response == types.FunctionResponse(name="f", response={"result": CLEARED})


SCRIPTS = st.sampled_from(["plain words", "Größe", "так точно", "한국어", "日本", "🙂 x", "a\u0301", "{}"])
WORDS = st.lists(SCRIPTS, min_size=1, max_size=4).map(" ".join)


@st.composite
def conversations(draw: st.DrawFn) -> list[Any]:
    """Valid lists: parallel calls with and without ids, both spellings, thoughts, signatures, text beside results."""
    number = iter(range(10_000))
    camel = draw(st.booleans())
    keys = ("functionCall", "functionResponse", "thoughtSignature")
    asks, gives, seal = keys if camel else ("function_call", "function_response", "thought_signature")
    items: list[Any] = [asked(text(draw(WORDS)), *([IMAGE] if draw(st.booleans()) else []))]
    for _ in range(draw(st.integers(0, 6))):
        parts: list[Any] = [text(draw(WORDS), thought=True)] if draw(st.booleans()) else []
        parts += [text(draw(WORDS), **({seal: draw(WORDS)} if draw(st.booleans()) else {}))]
        answers: list[Any] = []
        for _ in range(draw(st.integers(0, 3))):
            head = {"name": draw(st.sampled_from(["read", "list"]))}
            head |= {"id": f"c{next(number)}"} if draw(st.booleans()) else {}
            parts.append(
                {asks: {**head, "args": {"path": draw(WORDS)}}} | ({seal: "c2ln"} if draw(st.booleans()) else {})
            )
            value = draw(st.sampled_from([{"result": "it"}, {"output": 1, "error": None}, {}]))
            answers.append({gives: {**head, "response": value}})
        new = [text(draw(WORDS))] if not answers or draw(st.booleans()) else []
        items += [said(*parts), {"role": draw(st.sampled_from(["user", "function"])), "parts": answers + new}]
    return items


@given(conversations())
def test_rendering_what_was_read_gives_the_very_same_objects(items: list[Any]) -> None:
    """Law 9, H7."""
    before = json.dumps(items)
    assert DIALECT.problems(items) == []
    messages = read(items)
    assert not any(message.edited for message in messages)
    assert all(one is other for one, other in zip(DIALECT.render(messages), items, strict=True))
    assert json.dumps(items) == before


@given(conversations(), st.data())
def test_cleared_and_synthetic_responses_render_to_a_valid_list(items: list[Any], data: st.DataObject) -> None:
    """Laws 3 and 7: what was written reads back as what was meant."""
    messages: list[Message] = []
    for message in read(items):
        kind = data.draw(st.integers(0, 2)) if message.role == "tool" else 0
        call_id = results([message])[0].call_id if kind else ""
        messages.append([message, cleared(message, CLEARED), result(call_id, UNANSWERED)][kind] if kind else message)
    rendered = DIALECT.render(messages)
    assert DIALECT.problems(rendered) == []
    again = read(rendered)
    assert [(r.call_id, r.text) for r in results(again)] == [(r.call_id, r.text) for r in results(messages)]
    assert [(m.role, m.text, m.calls) for m in again] == [(m.role, m.text, m.calls) for m in messages]


def test_a_recorded_session_reads_and_renders_unchanged(shared: Path) -> None:
    log = shared / "data" / "transcripts" / "gemini" / "adk-session.json"
    events = json.loads(log.read_text(encoding="utf-8"))["events"]
    items = [event["content"] for event in events if event.get("content")]
    messages = read(items)
    assert sum(len(message.calls) for message in messages) == 2
    assert all(one is other for one, other in zip(DIALECT.render(messages), items, strict=True))
    assert {DIALECT.sniff(item) for item in items} == {True}


# What the API would refuse

GOOD = [
    [],
    ROUND,
    [*ROUND, said(text("done")), asked(text("?"))],
    [
        asked(text("a")),
        asked(text("b")),
        said(text("c")),
        said(call("x"), call("x")),
        asked(response("x"), response("x")),
    ],
    [asked(text("a")), said(call("x")), asked(text("b"), response("x"))],
]
BAD: list[tuple[list[Any], str]] = [
    ([said(text("a"))], "contents[0]: the first content must be a user's"),
    ([asked(response("a"))], "contents[0]: the first content may not answer"),
    (ROUND[:2], "contents[1]: 1 function calls are not answered"),
    ([*ROUND[:2], asked(text("x"))], "contents[2]: 0 function responses stand behind a content with 1"),
    ([ROUND[0], said(call("a"), call("b")), asked(response("a"))], "contents[2]: 1 function responses"),
    ([*ROUND[:2], said(text("x")), ROUND[2]], "contents[2]: 0 function responses"),
    ([*ROUND, ROUND[2]], "contents[3]: 1 function responses stand behind a content with 0"),
    ([asked(text(""))], "contents[0].parts[0]: empty part"),
    ([asked(text("x"), {})], "contents[0].parts[1]: empty part"),
    ([asked()], "contents[0]: the content has no parts"),
    ([asked(text("x"), call("a"))], "contents[0].parts[1]: function call in a user's content"),
    ([asked(text("x")), said(response("a"))], "contents[1].parts[0]: function response in a model's content"),
]


@pytest.mark.parametrize("items", GOOD)
def test_a_list_that_the_api_takes_has_no_problem(items: list[Any]) -> None:
    assert DIALECT.problems(items) == []


@pytest.mark.parametrize(("items", "words"), BAD, ids=[words for _, words in BAD])
def test_a_list_that_the_api_refuses_is_named_with_its_position(items: list[Any], words: str) -> None:
    assert any(words in problem for problem in DIALECT.problems(items)), DIALECT.problems(items)


# Requests


@pytest.mark.parametrize(
    ("item", "verdict"),
    [
        (asked(text("hi")), True),
        ({"parts": [IMAGE]}, True),
        (types.Content(role="user", parts=[types.Part(text="hi")]), True),
        (asked(), None),
        ("hi", None),
        ({"role": "user", "content": "hi"}, False),
        ({"role": "assistant", "parts": [text("hi")]}, False),
        ({"role": "user", "parts": [{"type": "text", "text": "hi"}]}, False),
        (5, False),
    ],
)
def test_an_item_tells_whether_it_is_of_this_format_b29(item: Any, verdict: bool | None) -> None:
    assert DIALECT.sniff(item) is verdict


def test_one_definition_of_tools_counts_as_many_h23() -> None:
    def lookup(name: str) -> str:
        """Look a name up."""
        return name

    one = {"name": "f", "description": "does", "parameters": {"type": "OBJECT"}}
    two = {"name": "g", "parametersJsonSchema": {"type": "object"}}
    tool = {"functionDeclarations": [one, two], "googleSearch": {}}
    assert DIALECT.tool_texts(tool) == [
        ["f", "does", '{"type":"OBJECT"}'],
        ["g", "", '{"type":"object"}'],
        ['{"googleSearch":{}}'],
    ]
    assert DIALECT.tool_texts(lookup) == [["lookup", "Look a name up."]]
    declared = types.Tool(function_declarations=[types.FunctionDeclaration(name="f", description="does")])
    assert DIALECT.tool_texts(declared) == [["f", "does"]]


def test_the_system_instruction_counts_in_every_form_that_is_taken() -> None:
    for given_form in ("a", ["a"], text("a"), {"parts": [text("a")]}, types.Content(parts=[types.Part(text="a")])):
        assert DIALECT.system_texts(given_form) == ["a"]


JUNK = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.sampled_from(["", "x", "image/png"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2),
        st.dictionaries(st.sampled_from(["name", "id", "args", "response", "parts", "mimeType", "result"]), inner),
    ),
    max_leaves=6,
)
KEYS = ["text", "functionCall", "function_call", "functionResponse", "thought", "thoughtSignature", "inlineData", "x"]


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "role": st.sampled_from([None, "user", "model", "function"]),
                "parts": st.one_of(
                    JUNK, st.lists(st.dictionaries(st.sampled_from(KEYS), JUNK, max_size=3), max_size=3)
                ),
            }
        ),
        max_size=3,
    )
)
def test_whatever_comes_in_is_read_or_refused_in_our_own_words_h29(items: list[Any]) -> None:
    DIALECT.problems(items)
    assert all(DIALECT.sniff(item) in (True, False, None) for item in items)
    try:
        messages = read(items)
    except TranscriptError:
        return
    rendered = DIALECT.render(messages)
    again = read(rendered)
    assert not any(message.repair for message in again)
    assert DIALECT.render(again) == rendered
