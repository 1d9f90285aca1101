"""The chat completions dialect: what it reads, hands back, mends and refuses."""

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionMessage

from longturn.core.edits import shortened
from longturn.core.messages import Media, Message, Opaque, Reasoning, Text, ToolCall, ToolResult, result, user
from longturn.dialects.base import find
from longturn.dialects.openai_chat import DIALECT, REASONING_FIELDS
from longturn.errors import TranscriptError
from longturn.testing import check_dialect, validate

PNG = "data:image/png;base64," + "A" * 4000


def call(call_id: str = "call_1", arguments: object = '{"path": "a.py"}', **more: object) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "read", "arguments": arguments}, **more}


def calling(*calls: dict[str, Any], **more: object) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": list(calls), **more}


def answer_to(call_id: str = "call_1", content: object = "12 lines", **more: object) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content, **more}


def read(items: list[Any]) -> list[Message]:
    befores = [None, *items[:-1]]
    return [message for place, item in enumerate(items) for message in DIALECT.read(item, befores[place], place)]


def parts(item: object) -> tuple[object, ...]:
    (message,) = DIALECT.read(item, None, 0)
    return message.parts


IMAGE = {"type": "image_url", "image_url": {"url": PNG}}
EXAMPLES: list[list[Any]] = [
    [],
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": ""}],
    [
        {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
        {"role": "user", "content": [{"type": "text", "text": "What is this?"}, IMAGE], "name": "ada"},
        calling(call("a"), call("b"), reasoning_content="Two files.", vendor={"x": 1}),
        answer_to(
            "b", [{"type": "text", "text": "b"}, {"type": "text", "text": "c"}], cache_control={"type": "ephemeral"}
        ),
        answer_to("a"),
        {
            "role": "assistant",
            "content": "A cat.",
            "reasoning_details": [{"type": "reasoning.encrypted", "data": "x" * 90}],
        },
        {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "A" * 900, "format": "wav"}}]},
        {"role": "assistant", "content": None, "refusal": "I cannot."},
    ],
    [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": None, "function_call": {"name": "ls", "arguments": "{}"}},
        {"role": "function", "name": "ls", "content": "a.py"},
        calling({"id": "c", "type": "custom", "custom": {"name": "patch", "input": "*** Begin"}}),
        answer_to("c", "done"),
        calling(call("a", arguments="{broken")),
        answer_to("a", [{"type": "text", "text": "shot"}, IMAGE]),
    ],
    [
        {"role": "user", "content": "go"},
        ChatCompletionMessage.model_validate(calling(call("a"), reasoning="Hm.")),
        answer_to("a"),
        ChatCompletionMessage(role="assistant", content="Done."),
        {"role": "user", "content": [{"type": "text", "text": "thanks"}, {"type": "sticker", "id": 7}]},
    ],
]


def test_the_dialect_keeps_what_every_dialect_promises() -> None:
    """Laws 6, 7 and 9 over examples of everything that the format has."""
    check_dialect(DIALECT, EXAMPLES)


def test_a_real_sdk_object_comes_back_as_itself_and_is_read_like_its_dict() -> None:
    """H7: the same object; what is unset in it (None) is not read."""
    native = ChatCompletionMessage.model_validate(calling(call("a")))
    (message,) = DIALECT.read(native, None, 0)
    assert DIALECT.render([message])[0] is native
    assert message.parts == parts(calling(call("a")))


def test_an_edited_sdk_object_is_rebuilt_as_a_dict_without_its_unset_fields() -> None:
    native = ChatCompletionMessage.model_validate(calling(call("a"), reasoning_content="Hm."))
    (message,) = DIALECT.read(native, None, 0)
    bare = message.with_parts([part for part in message.parts if not isinstance(part, Reasoning)])
    assert DIALECT.render([bare]) == [calling(call("a"))]


def test_sdk_objects_inside_a_dict_are_read_too() -> None:
    native = ChatCompletionMessage.model_validate(calling(call("a")))
    item = {"role": "assistant", "content": None, "tool_calls": native.tool_calls}
    assert next(part for part in parts(item) if isinstance(part, ToolCall)).arguments == '{"path": "a.py"}'
    assert item["tool_calls"] is native.tool_calls


@pytest.mark.parametrize("role", ["system", "developer"])
def test_system_and_developer_are_one_role(role: str) -> None:
    """H6: leading system and developer messages."""
    (message,) = DIALECT.read({"role": role, "content": "Be brief."}, None, 0)
    assert (message.role, message.text) == ("system", "Be brief.")


def test_data_urls_and_payloads_never_count_as_text() -> None:
    """H22: base64 is media or nothing."""
    item = {"role": "user", "content": [IMAGE, {"type": "sticker", "data": "B" * 5000, "name": "cat"}]}
    image, sticker = parts(item)
    assert isinstance(image, Media)
    assert image.kind == "image"
    assert isinstance(sticker, Opaque)
    assert len(sticker.text) < 60
    assert "cat" in sticker.text


def test_the_images_of_a_tool_result_are_its_media() -> None:
    """H22: attachments count, the text beside them is text."""
    (part,) = parts(answer_to("a", [{"type": "text", "text": "shot"}, IMAGE]))
    assert isinstance(part, ToolResult)
    assert (part.text, [medium.kind for medium in part.media]) == ("shot", ["image"])


@pytest.mark.parametrize(
    ("fields", "text", "sealed"),
    [
        ({"reasoning_content": "Hm."}, "Hm.", 0),
        ({"reasoning": "Hm."}, "Hm.", 0),
        (
            {"reasoning": "Hm.", "reasoning_details": [{"type": "reasoning.text", "text": "Hm.", "signature": "abc"}]},
            "Hm.",
            3,
        ),
        ({"reasoning_details": [{"type": "reasoning.encrypted", "data": "x" * 180}]}, "", 180),
        ({"thinking_blocks": [{"type": "thinking", "thinking": "Hm.", "signature": "abcd"}]}, "Hm.", 4),
    ],
)
def test_reasoning_of_compatible_servers_is_counted_once(fields: dict[str, object], text: str, sealed: int) -> None:
    """B25: readable text, and the characters of what is sealed."""
    thought = parts({"role": "assistant", "content": "Yes.", **fields})[0]
    assert thought == Reasoning(text, sealed)


def test_reasoning_that_is_removed_takes_all_its_fields_along() -> None:
    item = {"role": "assistant", "content": "Yes.", "reasoning": "Hm.", "reasoning_details": [{"text": "Hm."}], "x": 1}
    (message,) = read([item])
    edited = message.with_parts([part for part in message.parts if not isinstance(part, Reasoning)])
    assert DIALECT.render([edited]) == [{"role": "assistant", "content": "Yes.", "x": 1}]


@pytest.mark.parametrize("arguments", ["", "[1]", "7", "[" * 100_000, "{" + "broken " * 100, '{"a":' * 100_000])
def test_arguments_that_are_no_json_object_are_left_alone(arguments: str) -> None:
    """B15: what cannot be shortened to valid JSON stays as it is."""
    (message,) = read([calling(call(arguments=arguments))])
    assert shortened(message) is message
    assert message.calls[0].arguments == arguments


def test_shortened_arguments_change_nothing_but_the_arguments() -> None:
    """B15: keys that we do not know stay on the call and on the message."""
    item = calling(call("a", index=0), call("b"), vendor=1)
    (message,) = read([item])
    first, second = message.calls
    (shorter,) = DIALECT.render([message.with_parts([replace(first, arguments="{}"), second])])
    assert shorter == calling(call("a", arguments="{}", index=0), call("b"), vendor=1)
    assert isinstance(shorter, dict)
    assert shorter["tool_calls"][1] is item["tool_calls"][1]


def test_a_cleared_result_keeps_its_other_keys_and_becomes_a_string() -> None:
    item = answer_to("a", [{"type": "text", "text": "long"}, IMAGE], name="read", cache_control={"type": "ephemeral"})
    (message,) = read([item])
    cleared = message.with_parts([ToolResult("a", "[cleared]")])
    assert DIALECT.render([cleared]) == [{**item, "content": "[cleared]"}]


def test_a_shortened_result_keeps_its_images_in_a_list() -> None:
    (message,) = read([answer_to("a", [{"type": "text", "text": "long"}, IMAGE])])
    (part,) = message.parts
    assert isinstance(part, ToolResult)
    shorter = message.with_parts([replace(part, text="l")])
    assert DIALECT.render([shorter]) == [answer_to("a", [{"type": "text", "text": "l"}, IMAGE])]


def test_messages_of_our_own_are_plain_ones() -> None:
    assert DIALECT.render([user("note"), result("a", "none")]) == [
        {"role": "user", "content": "note"},
        {"role": "tool", "tool_call_id": "a", "content": "none"},
    ]


def test_a_synthetic_result_of_a_legacy_call_is_a_function_message() -> None:
    asked = read([{"role": "assistant", "content": None, "function_call": {"name": "ls", "arguments": "{}"}}])
    assert DIALECT.render([*asked, result("ls", "none")])[1] == {"role": "function", "name": "ls", "content": "none"}


BROKEN: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("no content", {"role": "user"}, {"role": "user", "content": ""}),
    ("null content", {"role": "assistant", "content": None}, {"role": "assistant", "content": ""}),
    ("null result", answer_to(content=None), answer_to(content="")),
    ("an empty list", {"role": "user", "content": []}, {"role": "user", "content": ""}),
    ("a number", {"role": "user", "content": 7}, {"role": "user", "content": "7"}),
    ("empty calls", {"role": "assistant", "content": "x", "tool_calls": []}, {"role": "assistant", "content": "x"}),
    ("an empty list beside calls", calling(call(), content=[]), calling(call(), content="")),
    ("arguments as an object", calling(call(arguments={"a": 1})), calling(call(arguments='{"a":1}'))),
    ("no arguments", calling(call(arguments=None)), calling(call(arguments="{}"))),
    ("one id twice", calling(call("a"), call("a")), calling(call("a"))),
    (
        "a call of nothing",
        calling({"id": "x"}, call("a")),
        calling(call("a")),
    ),
    ("calls in no list", {**calling(), "content": "x", "tool_calls": 7}, {"role": "assistant", "content": "x"}),
    (
        "a legacy call of nothing",
        {"role": "assistant", "content": "x", "function_call": [1]},
        {"role": "assistant", "content": "x"},
    ),
]


@pytest.mark.parametrize(("item", "mended"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_what_cannot_be_sent_is_mended_and_reported(item: dict[str, Any], mended: dict[str, Any]) -> None:
    """H29: the source is not changed, the copy is valid, the repair is told."""
    before = copy.deepcopy(item)
    (message,) = read([item])
    assert message.edited
    assert message.repair
    assert DIALECT.render([message]) == [mended]
    assert item == before


@pytest.mark.parametrize(("item", "mended"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_what_was_mended_is_what_is_refused(item: dict[str, Any], mended: dict[str, Any]) -> None:
    """Law 7: no repair where nothing is broken."""
    opened = [calling(call())] if item["role"] == "tool" else []
    answers = [answer_to(key) for key in {each["id"] for each in mended.get("tool_calls") or ()}]
    problems = validate([*opened, item, *answers], "openai_chat")
    assert problems, "nothing is refused"
    assert all(problem.startswith(f"messages[{len(opened)}]: ") for problem in problems), problems
    assert DIALECT.problems([*opened, mended, *answers]) == []


@pytest.mark.parametrize(
    ("items", "said"),
    [
        ([answer_to("a")], "messages[0]: the result for 'a' follows no open call"),
        ([calling(call("a"))], "messages[0]: the call 'a' is not answered"),
        ([calling(call("a")), {"role": "user", "content": "x"}, answer_to("a")], "messages[0]: the call 'a' is not"),
        ([calling(call("a")), answer_to("a"), answer_to("a")], "messages[2]: the result for 'a' follows no open call"),
        ([calling(call("a"), call("b")), answer_to("b")], "messages[0]: the call 'a' is not answered"),
        ([{"role": "model", "content": "x"}], "messages[0]: expected a role of system, developer"),
        ([7], "messages[0]: expected a role of system, developer, user, assistant, tool, function, got int"),
        ([calling({**call(), "id": None}), answer_to("None")], "messages[0]: a call has no id"),
    ],
)
def test_each_thing_that_openai_refuses_is_named_with_its_position(items: list[Any], said: str) -> None:
    """Law 7, and the wire rule of chat completions."""
    assert any(problem.startswith(said) for problem in DIALECT.problems(items)), DIALECT.problems(items)


def test_an_id_may_be_used_again_in_a_later_round() -> None:
    """B21: ids are told apart by place."""
    rounds = [calling(call("same")), answer_to("same")] * 3
    assert DIALECT.problems([{"role": "user", "content": "go"}, *rounds]) == []
    assert DIALECT.render(read(rounds)) == rounds


@pytest.mark.parametrize(
    ("item", "said"),
    [
        (7, "messages[3]: expected an object with a role, got int 7"),
        ({"role": "model", "content": "x"}, "messages[3]: unknown role 'model': use one of system, developer"),
        ({"content": "x"}, "messages[3]: unknown role None"),
        ({"role": ["user"]}, "messages[3]: unknown role ['user']"),
    ],
)
def test_what_cannot_be_read_is_an_error_that_names_the_position(item: object, said: str) -> None:
    with pytest.raises(TranscriptError) as caught:
        DIALECT.read(item, None, 3)
    assert str(caught.value).startswith(said)


def test_absurd_nesting_is_an_error_and_not_a_crash() -> None:
    deep: Any = "x"
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(TranscriptError, match="nested too deeply"):
        DIALECT.read({"role": "user", "content": [{"type": "odd", "x": deep}]}, None, 0)


@pytest.mark.parametrize(
    ("item", "verdict"),
    [
        (answer_to(), True),
        (calling(call()), True),
        ({"role": "user", "content": [IMAGE]}, True),
        ({"role": "assistant", "content": "x", "reasoning_content": "y"}, True),
        ({"role": "user", "content": "x"}, None),
        ({"role": "system", "content": [{"type": "text", "text": "x"}]}, None),
        ({"role": "user", "content": [{"type": "input_text", "text": "x"}]}, False),
        ({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "x"}]}, False),
        ({"role": "user", "parts": [{"text": "x"}]}, False),
        ({"type": "message", "role": "user", "content": "x"}, False),
        ({"type": "reasoning", "summary": []}, False),
        ("x", False),
    ],
)
def test_one_item_is_judged_to_be_of_this_format_or_not(item: object, verdict: bool | None) -> None:
    """B29: the verdict on the list is made of these."""
    assert DIALECT.sniff(item) is verdict


def test_a_tool_is_counted_by_its_name_description_and_parameters() -> None:
    """H23: nested, flat and legacy forms alike; another kind of tool by its whole JSON."""
    function = {"name": "read", "description": "Reads.", "parameters": {"type": "object"}}
    texts = [["read", "Reads.", '{"type":"object"}']]
    assert DIALECT.tool_texts({"type": "function", "function": function}) == texts
    assert DIALECT.tool_texts(function) == texts
    assert DIALECT.tool_texts({"type": "custom", "custom": {"name": "p"}}) == [
        ['{"type":"custom","custom":{"name":"p"}}']
    ]


def test_a_schema_that_json_cannot_say_is_counted_and_one_that_contains_itself_is_an_error() -> None:
    """H23: NaN, lone surrogates, sets and odd keys are written somehow."""
    schema: dict[Any, Any] = {"default": float("nan"), "title": "\ud800", "enum": {1}, "type": "object"}
    assert DIALECT.tool_texts({"name": "x", "parameters": schema}) == [
        ["x", '{"default":NaN,"title":"\ud800","enum":"{1}","type":"object"}']
    ]
    assert DIALECT.tool_texts({"name": "x", "parameters": {(1, 2): 3}}) == [["x", "{(1, 2): 3}"]]
    schema["self"] = schema
    with pytest.raises(TranscriptError, match="nested too deeply"):
        DIALECT.tool_texts({"name": "x", "parameters": schema})


def test_an_empty_reasoning_field_survives_an_edit() -> None:
    """DeepSeek wants the key on every answer of a running tool turn."""
    (message,) = read([calling(call("a"), reasoning_content="")])
    edited = message.with_parts([replace(message.calls[0], arguments="{}")])
    assert DIALECT.render([edited]) == [calling(call("a", arguments="{}"), reasoning_content="")]


def test_a_system_prompt_may_come_in_any_form() -> None:
    assert DIALECT.system_texts([{"type": "text", "text": "a"}, "b", {"role": "system", "content": "c"}]) == [
        "a",
        "b",
        "c",
    ]


def test_the_body_is_read_at_its_newer_names_first() -> None:
    body = {"messages": [1], "functions": [2], "max_tokens": 3, "max_completion_tokens": 4}
    request = DIALECT.request
    found = [find(body, paths) for paths in (request.messages, request.tools, request.max_output, request.system)]
    assert found == [[1], [2], 4, None]


TEXT = st.text(max_size=20)
BLOCKS = st.lists(
    st.one_of(
        st.fixed_dictionaries({"type": st.just("text"), "text": TEXT}),
        st.just(IMAGE),
        st.fixed_dictionaries({"type": TEXT}, optional={"text": st.none() | TEXT, "data": TEXT}),
    ),
    min_size=1,
    max_size=4,
)
EXTRAS = st.dictionaries(TEXT.map("x_".__add__), st.none() | st.integers() | TEXT, max_size=2)


@st.composite
def conversations(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Valid lists: system messages, user messages and answers with up to three calls, each with unknown fields."""
    items: list[dict[str, Any]] = []
    for role in draw(st.lists(st.sampled_from(["system", "user", "assistant", "calls"]), max_size=8)):
        if role != "calls":
            items.append({"role": role, "content": draw(TEXT | BLOCKS), **draw(EXTRAS)})
            continue
        ids = draw(st.lists(TEXT, min_size=1, max_size=3, unique=True))
        thoughts = draw(st.fixed_dictionaries({}, optional={"reasoning_content": TEXT, "reasoning": TEXT}))
        items.append(calling(*(call(each, draw(TEXT)) for each in ids), **thoughts, **draw(EXTRAS)))
        items += [answer_to(each, draw(TEXT | BLOCKS), **draw(EXTRAS)) for each in draw(st.permutations(ids))]
    return items


@given(conversations())
def test_any_valid_list_is_lossless_and_takes_every_edit(items: list[dict[str, Any]]) -> None:
    """Laws 6, 7 and 9."""
    check_dialect(replace(DIALECT, sniff=lambda _item: None), [items])


KEYS = ["id", "type", "function", "custom", "name", "arguments", "input", "text", "data", "signature", "summary"]
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["text", "custom", "function", "thinking", ""])
)
ODD = SCALARS | st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)


@given(st.sampled_from(["system", "user", "assistant"]), ODD)
def test_no_content_whatever_breaks_the_reader(role: str, content: object) -> None:
    """H29: broken in, something sendable out, or the same object."""
    item = {"role": role, "content": content}
    (rendered,) = DIALECT.render(read([item]))
    assert DIALECT.problems([rendered]) == []
    assert rendered is item or DIALECT.problems([item])


FIELDS = ["tool_calls", "function_call", "refusal", "audio", "content", *REASONING_FIELDS]


def is_answered(made: ToolCall) -> bool:
    """Whether a tool message answers the call: none answers a legacy one."""
    return isinstance(made.source, dict) and not {"function", "custom"}.isdisjoint(made.source)


@given(st.dictionaries(st.sampled_from(FIELDS), ODD, max_size=4))
def test_no_fields_of_an_answer_whatever_break_the_reader(fields: dict[str, object]) -> None:
    """H29: a field of another shape than OpenAI's is passed over or mended."""
    item = {"role": "assistant", **fields}
    (message,) = read([item])
    rendered = [*DIALECT.render([message]), *(answer_to(call.id) for call in message.calls if is_answered(call))]
    assert DIALECT.problems(rendered) == []
    assert rendered[0] is item or DIALECT.problems([item])
    assert isinstance(DIALECT.render([replace(message, edited=True)])[0], dict)


def recorded(shared: Path) -> dict[str, list[dict[str, Any]]]:
    """SWE-agent writes `tool_call_ids` where OpenAI wants `tool_call_id`; its reader of logs renames it, as here."""
    folder = shared / "data" / "transcripts"
    runs = json.loads((folder / "openai-chat" / "airline-200-runs.json").read_text())
    lists = {f"airline {number}": run["traj"] for number, run in enumerate(runs)}
    lists["litellm"] = json.loads((folder / "openai-chat" / "litellm-log.json").read_text())["messages"]
    for path in sorted((folder / "swe-agent").glob("*.traj")):
        items = json.loads(path.read_text())["history"]
        lists[path.name] = [
            item | {"tool_call_id": item["tool_call_ids"][0]} if "tool_call_ids" in item else item for item in items
        ]
    return lists


def test_every_recorded_conversation_is_valid_and_lossless(shared: Path) -> None:
    """Laws 7 and 9 on 203 real runs."""
    lists = recorded(shared)
    del lists["litellm"]
    check_dialect(replace(DIALECT, sniff=lambda _item: None), lists.values())


def test_a_recorded_request_with_an_empty_content_list_is_mended_there_and_only_there(shared: Path) -> None:
    """H29: OpenAI refuses `content: []`, the proxy that logged the request took it."""
    items = recorded(shared)["litellm"]
    assert DIALECT.problems(items) == ["messages[8]: content is an empty list"]
    rendered = DIALECT.render(read(items))
    assert [place for place, item in enumerate(items) if rendered[place] is not item] == [8]
    assert rendered[8] == items[8] | {"content": ""}
    check_dialect(DIALECT, [rendered])


def test_text_parts_that_were_edited_are_written_into_their_own_blocks() -> None:
    """B12 and others may change a text and must keep the block's other keys."""
    item = {
        "role": "user",
        "content": [{"type": "text", "text": "long", "cache_control": {"type": "ephemeral"}}, IMAGE],
    }
    (message,) = read([item])
    first, image = message.parts
    assert isinstance(first, Text)
    edited = message.with_parts([replace(first, text="l"), image, Text("more")])
    block = {"type": "text", "text": "l", "cache_control": {"type": "ephemeral"}}
    assert DIALECT.render([edited]) == [{"role": "user", "content": [block, IMAGE, {"type": "text", "text": "more"}]}]
