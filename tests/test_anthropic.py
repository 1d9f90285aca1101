"""The Anthropic Messages dialect: what is read, mended, rendered and named as refused."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from anthropic.types import Message as SdkMessage
from anthropic.types import TextBlock, ThinkingBlock, ToolUseBlock, Usage
from hypothesis import given
from hypothesis import strategies as st

from longturn.core.edits import cleared, without_images, without_thinking
from longturn.core.messages import Media, Message, Opaque, Reasoning, Text, ToolCall, ToolResult, result, user
from longturn.core.texts import CLEARED, EMPTY_MESSAGE, NOTE, UNANSWERED
from longturn.dialects.anthropic import DIALECT
from longturn.errors import TranscriptError
from longturn.testing import check_dialect

IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 300}}
PDF = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "B" * 300}}


def text(said: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": said, **more}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": name, "name": "read_file", "input": arguments}


def answer(name: str, content: Any = "ok", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": name, "content": content, **more}


def thinking(said: str, signature: str = "c2lnbmVk") -> dict[str, Any]:
    return {"type": "thinking", "thinking": said, "signature": signature}


def asked(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def said(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


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


ROUND = [{"role": "user", "content": "Go"}, said(call("t1")), asked(answer("t1"))]


# Reading


def test_a_user_message_with_results_and_text_becomes_one_tool_message_a_result_and_one_user_message() -> None:
    native = asked(answer("t1"), answer("t2"), text("and b?"), IMAGE)
    messages = DIALECT.read(native, None, 0)
    assert [message.role for message in messages] == ["tool", "tool", "user"]
    assert {id(message.source) for message in messages} == {id(native)}
    assert {message.share for message in messages} == {3}
    assert not any(message.edited for message in messages)
    assert messages[2].parts == (Text("and b?", native["content"][2]), Media("image", IMAGE))


def test_a_user_message_of_results_alone_opens_no_turn_h5() -> None:
    assert [message.role for message in DIALECT.read(asked(answer("t1")), None, 0)] == ["tool"]


def test_each_kind_of_block_becomes_its_part() -> None:
    """H21, H22, B25: what each block of an answer is counted by."""
    server = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}}
    blocks = [thinking("plan", "x" * 90), {"type": "redacted_thinking", "data": "y" * 36}, text("Hello"), server]
    blocks.append({"type": "tool_use", "id": "t1", "name": "read_file", "input": {"path": "été"}})
    [message] = DIALECT.read(said(*blocks), None, 0)
    assert message.role == "assistant"
    assert message.parts == (
        Reasoning("plan", 90, blocks[0]),
        Reasoning("", 36, blocks[1]),
        Text("Hello", blocks[2]),
        Opaque('{"type":"server_tool_use","id":"s1","name":"web_search","input":{"query":"q"}}', server),
        ToolCall("t1", "read_file", '{"path":"été"}', False, blocks[4]),
    )


def test_the_payload_of_an_image_or_a_pdf_never_counts_as_text_h22() -> None:
    unknown = {"type": "container_upload", "source": {"data": "C" * 300}}
    note = {"type": "document", "title": "Plan", "source": {"type": "text", "media_type": "text/plain", "data": "one"}}
    [message] = DIALECT.read(asked(IMAGE, PDF, unknown, note), None, 0)
    assert [type(part) for part in message.parts] == [Media, Media, Opaque, Opaque]
    assert isinstance(message.parts[2], Opaque)
    assert len(message.parts[2].text) < 100
    assert message.parts[3] == Opaque("Plan\none", note)


def test_images_inside_a_result_are_its_media_h22() -> None:
    [message] = DIALECT.read(asked(answer("t1", [text("one"), IMAGE, text("two")])), None, 0)
    [part] = message.parts
    assert isinstance(part, ToolResult)
    assert (part.text, part.media) == ("one\ntwo", (Media("image", IMAGE),))


def test_arguments_that_are_no_object_are_fixed() -> None:
    [message] = DIALECT.read(said({"type": "tool_use", "id": "t", "name": "f", "input": '{"pa'}), None, 0)
    assert message.calls[0].arguments == '{"pa'
    assert message.calls[0].fixed


def test_a_system_message_inside_the_list_is_a_system_message_h6() -> None:
    [message] = DIALECT.read({"role": "system", "content": "Be brief from now on."}, None, 3)
    assert (message.role, message.text) == ("system", "Be brief from now on.")


@pytest.mark.parametrize(
    ("item", "word"),
    [
        ({"role": "tool", "content": "x"}, "unknown role 'tool'"),
        ({"content": "x"}, "unknown role None"),
        ({"role": ["user"], "content": "x"}, "unknown role"),
        ({"role": "user", "content": 5}, "content is a int"),
        ({"role": "user", "content": ["x"]}, "content block is a str"),
        (7, "expected an object"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_position(item: Any, word: str) -> None:
    with pytest.raises(TranscriptError, match=r"^messages\[4\]: ") as caught:
        DIALECT.read(item, None, 4)
    assert word in str(caught.value)
    assert DIALECT.problems([item]) == [str(caught.value).replace("[4]", "[0]")]


# Mending


@pytest.mark.parametrize("empty", ["", " \n\t", [], None, [text("")], [text(" \n")]])
@pytest.mark.parametrize("role", ["user", "assistant"])
def test_an_empty_message_gets_a_short_text_h29(role: str, empty: Any) -> None:
    opener = [{"role": "user", "content": "Go"}]
    assert mended(*opener, {"role": role, "content": empty})[1] == {"role": role, "content": [text(EMPTY_MESSAGE)]}


def test_empty_text_beside_other_blocks_is_left_out_h29() -> None:
    mark = {"type": "ephemeral"}
    rendered = mended(ROUND[0], said(text(""), call("t1")), asked(answer("t1"), text("", cache_control=mark)))
    assert rendered[1:] == [said(call("t1")), asked(answer("t1"))]


def test_white_space_is_left_out_where_a_user_says_nothing_else_h29() -> None:
    assert mended(*ROUND[:2], asked(answer("t1"), text("\n")))[2] == asked(answer("t1"))
    assert mended(asked(text("\n"), IMAGE)) == [asked(IMAGE)]
    beside = asked(text("\n"), text("real"))
    assert DIALECT.render(read([beside]))[0] is beside


def test_white_space_that_claude_said_beside_thinking_stays_as_it_is() -> None:
    """Law 2: leaving it out would change what the thinking behind it is bound to (B23)."""
    native = said(text("\n\n"), thinking("plan"), call("t1"))
    [message] = DIALECT.read(native, None, 1)
    assert DIALECT.render([message])[0] is native
    assert DIALECT.render([without_thinking(message)]) == [said(text("\n\n"), call("t1"))]
    [alone] = DIALECT.read(said(text("\n\n"), thinking("plan")), None, 1)
    assert DIALECT.render([without_thinking(alone)]) == [said(text(EMPTY_MESSAGE))]


def test_results_behind_other_blocks_are_put_first_h29() -> None:
    late = asked(text("see above"), answer("t1"), IMAGE)
    assert mended(*ROUND[:2], late)[2] == asked(answer("t1"), text("see above"), IMAGE)
    assert late == asked(text("see above"), answer("t1"), IMAGE)


def test_results_of_one_answer_in_several_messages_are_joined_b27() -> None:
    items = [ROUND[0], said(call("t1"), call("t2")), asked(answer("t1")), asked(answer("t2"), text("go on"))]
    assert mended(*items)[2:] == [asked(answer("t1"), answer("t2"), text("go on"))]


def test_a_late_result_joins_its_answer_with_the_text_of_its_message_b27() -> None:
    opener, calls, first, late = [
        ROUND[0],
        said(call("t1"), call("t2")),
        asked(answer("t1"), text("hm")),
        asked(answer("t2")),
    ]
    one, hm, two = read([opener, calls, first, late])[2:]
    moved = [*read([opener, calls]), one, two, hm]
    assert DIALECT.render(moved)[2:] == [asked(answer("t1"), answer("t2"), text("hm"))]


def test_empty_text_inside_a_result_is_left_out_h29() -> None:
    assert mended(*ROUND[:2], asked(answer("t1", [text(""), text("x")])))[2] == asked(answer("t1", [text("x")]))
    emptied = asked(answer("t1", EMPTY_MESSAGE, is_error=True))
    assert mended(*ROUND[:2], asked(answer("t1", [], is_error=True)))[2] == emptied
    assert DIALECT.problems([*ROUND[:2], asked(answer("t1", ""))]) == []


def test_blocks_in_the_wrong_role_and_unsigned_thinking_are_left_out_h29() -> None:
    unsigned = {"type": "thinking", "thinking": "hm"}
    rendered = mended(asked(text("Go"), call("t0")), said(unsigned, text("a"), answer("t0")))
    assert rendered == [asked(text("Go")), said(text("a"))]


# Rendering


def test_a_cleared_result_keeps_the_other_fields_of_its_block() -> None:
    block = answer("t1", [text("long"), IMAGE], cache_control={"type": "ephemeral"}, is_error=True)
    native = asked(block, text("next"))
    native["x"] = 1
    tool, question = DIALECT.read(native, None, 0)
    [rendered] = DIALECT.render([cleared(tool, CLEARED), question])
    assert rendered == {**native, "content": [{**block, "content": CLEARED}, text("next")]}
    assert isinstance(rendered, dict)
    assert rendered["content"][1] is native["content"][1]
    assert block["content"] == [text("long"), IMAGE]


def test_a_result_without_its_image_is_text_b12() -> None:
    [tool] = DIALECT.read(asked(answer("t1", [text("seen"), IMAGE])), None, 0)
    [rendered] = DIALECT.render([without_images(tool)])
    assert rendered == asked(answer("t1", "seen\n[An image was cleared here.]"))


def test_a_kept_image_stays_beside_a_changed_text() -> None:
    [tool] = DIALECT.read(asked(answer("t1", [text("seen"), IMAGE])), None, 0)
    changed = tool.with_parts([ToolResult("t1", "s", (Media("image", IMAGE),), tool.parts[0].source)])
    assert DIALECT.render([changed]) == [asked(answer("t1", [text("s"), IMAGE]))]


def test_an_answer_without_thinking_keeps_its_own_blocks_b23() -> None:
    native = said(thinking("a"), text("b", citations=[]), thinking("c"), call("t1"))
    [rendered] = DIALECT.render([without_thinking(DIALECT.read(native, None, 0)[0])])
    assert rendered == said(text("b", citations=[]), call("t1"))


def test_an_answer_of_nothing_but_thinking_is_never_left_empty_b23() -> None:
    [message] = DIALECT.read(said(thinking("a")), None, 0)
    assert DIALECT.problems([ROUND[0], *DIALECT.render([without_thinking(message)])]) == []
    assert DIALECT.render([message.with_parts([])]) == [said(text(EMPTY_MESSAGE))]


def test_shortened_arguments_are_written_as_an_object_b15() -> None:
    [message] = DIALECT.read(said(call("t1", path="x" * 900)), None, 0)
    changed = message.with_parts([ToolCall("t1", "read_file", '{"path": "x"}', False, message.parts[0].source)])
    assert DIALECT.render([changed]) == [said(call("t1", path="x"))]


def test_an_opener_whose_results_left_holds_the_rest_of_its_message_b16() -> None:
    _, opener = DIALECT.read(asked(answer("t1"), text("new question")), None, 0)
    assert DIALECT.render([user("first"), user(NOTE), opener]) == [
        asked(text("first")),
        asked(text(NOTE)),
        asked(text("new question")),
    ]


def test_a_synthetic_result_stands_with_the_real_ones_of_its_answer_b21() -> None:
    items = [ROUND[0], said(call("t1"), call("t2")), asked(answer("t1"), text("go on"))]
    opener, calls, one, rest = read(items)
    rendered = DIALECT.render([opener, calls, one, result("t2", UNANSWERED), rest])
    assert rendered[2:] == [asked(answer("t1"), answer("t2", UNANSWERED), text("go on"))]
    assert DIALECT.problems(rendered) == []


def test_one_object_listed_twice_is_given_back_twice() -> None:
    again = asked(text("again"))
    items = [again, again, said(call("t1")), asked(answer("t1"), text("x"))]
    assert all(one is other for one, other in zip(DIALECT.render(read(items)), items, strict=True))


# Losslessness


def sdk_objects() -> list[Any]:
    content = [
        ThinkingBlock(type="thinking", thinking="plan", signature="c2ln"),
        TextBlock(type="text", text="I read it."),
        ToolUseBlock(type="tool_use", id="t1", name="read_file", input={"path": "a"}),
    ]
    usage = Usage(input_tokens=1, output_tokens=1)
    whole = SdkMessage(id="m", content=content, model="x", role="assistant", type="message", usage=usage)
    return [
        {"role": "user", "content": "Go"},
        {"role": "assistant", "content": content},
        asked(answer("t1")),
        whole,
        asked(answer("t1", [text("a")])),
    ]


def examples() -> list[list[Any]]:
    mark = {"type": "ephemeral"}
    search = [
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}},
        {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []},
    ]
    busy = said(thinking("à"), text("так"), call("t1", path="한" * 500), call("t2"))
    return [
        ROUND,
        [
            asked(text("Go"), IMAGE, PDF),
            busy,
            asked(answer("t1", [IMAGE]), answer("t2"), text("ok", cache_control=mark)),
        ],
        [{"role": "user", "content": "Go"}, said(*search, text("x")), {"role": "user", "content": "More", "id": 7}],
        [*ROUND, {"role": "system", "content": "Be brief."}, said(text("done")), {"role": "user", "content": "?"}],
        sdk_objects(),
    ]


def test_the_dialect_keeps_what_the_core_relies_on() -> None:
    """Laws 6, 7, 9 and B29, by the checks that users run on their own dialects."""
    check_dialect(DIALECT, examples())


def test_an_edited_answer_of_sdk_blocks_holds_the_same_sdk_blocks() -> None:
    items = sdk_objects()
    for item in (items[1], items[3]):
        [rendered] = DIALECT.render([without_thinking(DIALECT.read(item, None, 1)[0])])
        content = item["content"] if isinstance(item, dict) else item.content
        assert isinstance(rendered, dict)
        assert list(rendered) == ["role", "content"]
        assert all(one is other for one, other in zip(rendered["content"], content[1:], strict=True))


SCRIPTS = st.sampled_from(["plain words", "Größe", "так точно", "한국어", "日本", "🙂 x", "a\u0301", "{}"])
WORDS = st.lists(SCRIPTS, min_size=1, max_size=4).map(" ".join)


@st.composite
def conversations(draw: st.DrawFn) -> list[Any]:
    """Valid lists: parallel calls, results with images and text, new text beside results, thinking, server tools."""
    number = iter(range(10_000))
    content = st.one_of(WORDS, st.lists(st.one_of(WORDS.map(text), st.just(IMAGE)), max_size=3))
    opener = draw(st.one_of(WORDS, WORDS.map(lambda said: [text(said)]), WORDS.map(lambda said: [IMAGE, text(said)])))
    items: list[Any] = [{"role": "user", "content": opener}]
    for _ in range(draw(st.integers(0, 6))):
        blocks = [thinking(draw(WORDS), draw(WORDS))] if draw(st.booleans()) else []
        blocks += [text(draw(WORDS))] if draw(st.booleans()) else []
        calls = [call(f"t{next(number)}", path=draw(WORDS)) for _ in range(draw(st.integers(0, 3)))]
        items.append(said(*(blocks + calls or [text("ok")])))
        results = [answer(block["id"], draw(content)) for block in draw(st.permutations(calls))]
        new = [text(draw(WORDS)), IMAGE] if not results or draw(st.booleans()) else []
        items.append(asked(*results, *new))
        items += [{"role": "user", "content": draw(WORDS)}] if draw(st.booleans()) else []
    return items


@given(conversations())
def test_rendering_what_was_read_gives_the_very_same_objects(items: list[Any]) -> None:
    """Law 9, H7."""
    before = json.dumps(items)
    assert DIALECT.problems(items) == []
    rendered = DIALECT.render(read(items))
    assert all(one is other for one, other in zip(rendered, items, strict=True))
    assert json.dumps(items) == before


@given(conversations(), st.data())
def test_any_edits_render_to_a_valid_list_that_reads_back_the_same(items: list[Any], data: st.DataObject) -> None:
    """Laws 3 and 7: what was written reads back as what was meant."""
    edits = st.sampled_from([lambda m: m, without_thinking, lambda m: cleared(m, CLEARED) if m.role == "tool" else m])
    messages = [data.draw(edits)(message) for message in read(items)]
    rendered = DIALECT.render(messages)
    assert DIALECT.problems(rendered) == []
    again = read(rendered)
    assert [(m.role, m.text, m.calls) for m in again] == [(m.role, m.text, m.calls) for m in messages]
    assert [list(map(type, m.parts)) for m in again] == [list(map(type, m.parts)) for m in messages]
    assert [r.text for r in results_of(again)] == [r.text for r in results_of(messages)]
    assert DIALECT.render(again) == rendered


def results_of(messages: list[Message]) -> Iterator[ToolResult]:
    return (part for message in messages for part in message.parts if isinstance(part, ToolResult))


BROKEN = st.lists(
    st.one_of(
        st.sampled_from([text(""), text(" "), text("x"), IMAGE, thinking("x"), {"type": "thinking", "thinking": "y"}]),
        st.sampled_from(["a", "b"]).flatmap(
            lambda n: st.sampled_from([answer(n), answer(n, ""), answer(n, [text("")])])
        ),
    ),
    max_size=4,
)


@given(st.lists(st.one_of(BROKEN, WORDS, st.sampled_from(["", "\n"])), min_size=1, max_size=4), st.booleans())
def test_no_block_that_came_in_broken_is_left_h29(contents: list[Any], answers: bool) -> None:
    items: list[Any] = [{"role": "user", "content": "Go"}]
    items += [{"role": "assistant" if answers else "user", "content": content} for content in contents]
    faults = ("empty", "white space", "block in a", "signature")
    assert [p for p in DIALECT.problems(DIALECT.render(read(items))) if any(fault in p for fault in faults)] == []


@pytest.mark.parametrize("name", ["three-requests-197-rounds", "subagent-21-rounds", "huge-results"])
def test_recorded_sessions_read_and_render_unchanged(shared: Path, name: str) -> None:
    items = recorded(shared, name)
    assert len(items) > 15
    messages = read(items)
    assert all(one is other for one, other in zip(DIALECT.render(messages), items, strict=True))
    assert not any(message.edited for message in messages)


def recorded(shared: Path, name: str) -> list[Any]:
    """The messages of a coding agent's log, where each block of an answer and each result is a row of its own."""
    lines = (shared / "data" / "transcripts" / "claude-code" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [row["message"] for line in lines if (row := json.loads(line)).get("type") in ("user", "assistant")]
    items: list[Any] = []
    answers: dict[str, Any] = {}
    for row in rows:
        blocks = [text(row["content"])] if isinstance(row["content"], str) else row["content"]
        item = answers.get(row.get("id", ""))
        if item is None and blocks[0]["type"] == "tool_result" and items[-1]["role"] == "user":
            item = items[-1]
        if item is None:
            item = {"role": row["role"], "content": []}
            items.append(item)
        answers |= {row["id"]: item} if "id" in row else {}
        item["content"] += blocks
    return items


# What the API would refuse

GOOD = [
    [],
    ROUND,
    [*ROUND, said(text("done"))],
    [ROUND[0], said(text("\n"), call("t1")), asked(answer("t1", " "), text(" "), text("x"))],
    [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}, said(text("c")), said(call("t1")), ROUND[2]],
    [*ROUND, {"role": "system", "content": "x"}, said(text("done"))],
    [*ROUND[:2], asked(answer("t1")), asked(text("and this"))],
    [ROUND[0], said({"type": "server_tool_use", "id": "s", "name": "x", "input": {}}, call("t1")), ROUND[2]],
]
SERVER = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
MARKED = [text("x", cache_control={"type": "ephemeral"})]
BAD: list[tuple[list[Any], str]] = [
    ([said(text("hi"))], "messages[0]: the first message must be a user's"),
    (ROUND[:2], "messages[1]: tool_use 't1' has no tool_result"),
    ([*ROUND[:2], asked(text("x"))], "messages[1]: tool_use 't1' has no tool_result"),
    ([*ROUND[:2], asked(text("x")), asked(answer("t1"))], "must stand before all other blocks"),
    ([ROUND[0], ROUND[2]], "messages[1]: tool_result 't1' has no tool_use in the message before"),
    ([*ROUND, said(text("x")), ROUND[2]], "messages[4]: tool_result 't1' has no tool_use"),
    ([*ROUND[:2], asked(text("x"), answer("t1"))], "messages[2]: tool_result blocks must stand before"),
    ([ROUND[0], said(call("t1"), call("t1")), ROUND[2]], "messages[1]: two tool_use blocks of one answer"),
    ([*ROUND[:2], asked(answer("t1"), answer("t1"))], "messages[2]: tool_use 't1' has more than one tool_result"),
    ([ROUND[0], said(call("t1"), call("t2")), ROUND[2], asked(answer("t2"))], "spread over 2 messages"),
    ([{"role": "user", "content": ""}], "messages[0].content[0]: empty text block"),
    ([asked(text("x"), text(""))], "messages[0].content[1]: empty text block"),
    ([asked(text(" "), IMAGE)], "messages[0].content[0]: text of nothing but white space"),
    ([ROUND[0], said(text(" "))], "messages[1].content[0]: text of nothing but white space"),
    ([asked()], "messages[0]: the message is empty"),
    ([*ROUND[:2], asked(answer("t1", [text("")]))], "messages[2].content[0]: empty text block in a tool_result"),
    ([*ROUND[:2], asked(answer("t1", "", is_error=True))], "messages[2].content[0]: tool_result that is an error"),
    ([asked(text("x"), call("t1"))], "messages[0].content[1]: tool_use block in a user message"),
    ([ROUND[0], said({"type": "thinking", "thinking": "x"}, text("y"))], "thinking block without a signature"),
    ([asked(*MARKED * 5)], "5 blocks carry cache_control: at most 4"),
    ([*ROUND[:2], asked(answer("t1", MARKED * 3), *MARKED * 2)], "5 blocks carry cache_control"),
    ([ROUND[0], said(text("x")), {"role": "system", "content": "y"}], "may not follow an assistant message"),
    ([ROUND[0], {"role": "system", "content": "y"}, ROUND[0]], "may not stand directly before a user message"),
    ([ROUND[0], said(SERVER), ROUND[0], said(text("x"))], "the server tool call 's' has no result after it"),
    ([ROUND[0], said({"type": "web_search_tool_result", "tool_use_id": "s", "content": []})], "no server tool call"),
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
        ({"role": "user", "content": "hi"}, None),
        (asked(text("hi")), None),
        (ROUND[1], True),
        (ROUND[2], True),
        (asked(text("hi"), IMAGE), True),
        (said(thinking("x")), True),
        (asked({"type": "image_url", "image_url": {"url": "u"}}), False),
        ({"role": "assistant", "content": None, "tool_calls": []}, False),
        ({"role": "tool", "content": "x"}, False),
        ({"role": "user", "parts": []}, False),
        ({"type": "function_call"}, False),
        ("hi", False),
    ],
)
def test_an_item_tells_whether_it_is_of_this_format_b29(item: Any, verdict: bool | None) -> None:
    assert DIALECT.sniff(item) is verdict


def test_tools_count_by_name_description_and_schema_h23() -> None:
    schema = {"type": "object", "properties": {}}
    tool = {"name": "f", "description": "does", "input_schema": schema, "cache_control": {"type": "ephemeral"}}
    assert DIALECT.tool_texts(tool) == [["f", "does", '{"type":"object","properties":{}}']]
    assert DIALECT.tool_texts({"type": "bash_20250124", "name": "bash"}) == [['{"type":"bash_20250124","name":"bash"}']]
    assert DIALECT.system_texts([text("a"), text("b", cache_control={"type": "ephemeral"})]) == ["a", "b"]


JUNK = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.sampled_from(["", " ", "x", "text", "tool_result", "user"])),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.sampled_from(["type", "text"]), inner)),
    max_leaves=6,
)
KINDS = ["text", "tool_use", "tool_result", "thinking", "image", "document", "server_tool_use", "x_tool_result"]
KEYS = ["text", "thinking", "signature", "id", "name", "input", "tool_use_id", "content", "is_error", "source"]


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "role": st.sampled_from(["user", "assistant", "system"]),
                "content": st.one_of(
                    JUNK,
                    st.lists(
                        st.builds(
                            lambda kind, more: {"type": kind, **more},
                            st.one_of(st.sampled_from(KINDS), JUNK),
                            st.dictionaries(st.sampled_from(KEYS), JUNK, max_size=4),
                        ),
                        max_size=3,
                    ),
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
