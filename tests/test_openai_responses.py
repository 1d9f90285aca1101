"""The Responses dialect: items, answers that go on over several items, and outputs of every shape."""

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses import (
    ResponseComputerToolCall,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseReasoningItem,
)

from longturn.core.messages import Message, Opaque, Reasoning, Text, ToolCall, ToolResult, result, user
from longturn.dialects.base import find
from longturn.dialects.openai_responses import BLANK, DIALECT, NO_ANSWER
from longturn.errors import TranscriptError
from longturn.testing import check_dialect, validate

PNG = "data:image/png;base64," + "A" * 4000
IMAGE = {"type": "input_image", "image_url": PNG}
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}]}
ASKED = {"role": "user", "content": "go"}
SAID = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Done.", "annotations": []}],
}


def call(call_id: str = "call_1", arguments: object = '{"path": "a.py"}', **more: object) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": "read", "arguments": arguments, **more}


def output(call_id: str = "call_1", text: object = "12 lines", **more: object) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": text, **more}


def read(items: list[Any]) -> list[Message]:
    befores = [None, *items[:-1]]
    return [message for place, item in enumerate(items) for message in DIALECT.read(item, befores[place], place)]


def one(item: object) -> Message:
    (message,) = DIALECT.read(item, None, 0)
    return message


# A call of each kind that the client runs, and its output; the server runs tool searches that do not say "client".
PAIRS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "function": (call(), output(text=[{"type": "input_text", "text": "12 lines"}, IMAGE])),
    "custom": (
        {"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": "*** Begin"},
        {"type": "custom_tool_call_output", "call_id": "c", "output": "12 lines", "id": "o"},
    ),
    "local shell": (
        {"type": "local_shell_call", "id": "l", "call_id": "c", "action": {"type": "exec", "command": ["ls"]}},
        {"type": "local_shell_call_output", "call_id": "c", "output": "12 lines"},
    ),
    "shell": (
        {"type": "shell_call", "call_id": "c", "action": {"commands": ["ls"]}},
        {
            "type": "shell_call_output",
            "call_id": "c",
            "output": [{"stdout": "12 lines", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
        },
    ),
    "patch": (
        {"type": "apply_patch_call", "call_id": "c", "operation": {"type": "delete_file", "path": "a.py"}},
        {"type": "apply_patch_call_output", "call_id": "c", "status": "completed", "output": "12 lines"},
    ),
    "computer": (
        {"type": "computer_call", "id": "cu", "call_id": "c", "action": {"type": "screenshot"}},
        {
            "type": "computer_call_output",
            "call_id": "c",
            "output": {"type": "computer_screenshot", "image_url": PNG},
            "acknowledged_safety_checks": [{"id": "s"}],
        },
    ),
    "tool search": (
        {"type": "tool_search_call", "call_id": "c", "execution": "client", "arguments": {"goal": "files"}},
        {"type": "tool_search_output", "call_id": "c", "execution": "client", "tools": [{"name": "12 lines"}]},
    ),
    "approval": (
        {"type": "mcp_approval_request", "id": "c", "server_label": "s", "name": "rm", "arguments": "{}"},
        {"type": "mcp_approval_response", "approval_request_id": "c", "approve": True, "reason": "12 lines"},
    ),
}
SERVER: list[dict[str, Any]] = [
    {"type": "web_search_call", "id": "ws", "status": "completed", "action": {"type": "search", "query": "cats"}},
    {"type": "code_interpreter_call", "id": "ci", "code": "1 + 1", "outputs": [], "status": "completed"},
    {"type": "mcp_call", "id": "mcp", "name": "x", "server_label": "s", "arguments": "{}", "output": "y"},
    {"type": "tool_search_call", "id": "ts", "execution": "server", "arguments": {}},
    {"type": "tool_search_output", "id": "to", "execution": "server", "tools": []},
    {"type": "compaction", "encrypted_content": "x" * 90},
    {"type": "hologram_call", "id": "new in 2027"},
]
EXAMPLES: list[list[Any]] = [
    [],
    [{"role": "developer", "content": "Be brief."}, ASKED, {"role": "assistant", "content": "Yes."}, ASKED],
    [ASKED, THOUGHT, SAID, call("a"), call("b", vendor=1), output("b"), output("a", status="completed"), THOUGHT, SAID],
    [ASKED, *(item for pair in PAIRS.values() for item in pair), SAID],
    [
        ASKED,
        THOUGHT,
        *SERVER,
        SAID,
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "?"}, IMAGE]},
    ],
    [
        {"type": "additional_tools", "role": "developer", "tools": []},
        {"type": "item_reference", "id": "fc_1"},
        output("x"),
    ],
    [
        ASKED,
        ResponseReasoningItem(id="rs", type="reasoning", summary=[], encrypted_content="x" * 180),
        ResponseFunctionToolCall(type="function_call", call_id="a", name="read", arguments="{}", id="fc"),
        ResponseComputerToolCall.model_validate(
            PAIRS["computer"][0] | {"pending_safety_checks": [], "status": "completed"}
        ),
        output("a"),
        PAIRS["computer"][1],
        ResponseOutputMessage.model_validate(SAID),
    ],
]


def test_the_dialect_keeps_what_every_dialect_promises() -> None:
    """Laws 6, 7 and 9 over examples of everything that the format has."""
    check_dialect(DIALECT, EXAMPLES)


def test_the_items_of_one_answer_continue_its_first_item() -> None:
    """B25: reasoning and what came with it are one round, and so are the calls beside it."""
    items = [
        ASKED,
        THOUGHT,
        SAID,
        call("a"),
        call("b"),
        output("a"),
        output("b"),
        THOUGHT,
        call("c"),
        output("c"),
        SAID,
    ]
    continuing = [place for place, message in enumerate(read(items)) if message.continues]
    assert continuing == [2, 3, 4, 8]


def test_what_the_server_ran_belongs_to_the_answer_and_is_opaque() -> None:
    """B25: opaque items pass through."""
    first, *rest = read([THOUGHT, *SERVER, SAID])
    assert not first.continues
    assert all(message.role == "assistant" and message.continues for message in rest)
    assert all(isinstance(message.parts[0], Opaque) for message in rest[:-1])


def test_sdk_objects_continue_an_answer_like_their_dicts() -> None:
    thought, calling, *_ = EXAMPLES[-1][1:]
    first, second = read([thought, calling])
    assert second.continues
    assert second.parts[0] == replace(one(calling).calls[0], source=second.calls[0].source)
    assert DIALECT.render([first, second]) == [thought, calling]
    assert DIALECT.render([first, second])[1] is calling


def test_an_edited_sdk_object_is_rebuilt_as_a_dict_without_its_unset_fields() -> None:
    """OpenAI refuses `status: null` on items that are sent back."""
    message = one(ResponseFunctionToolCall(type="function_call", call_id="a", name="read", arguments='{"a": "b"}'))
    edited = message.with_parts([replace(message.calls[0], arguments="{}")])
    assert DIALECT.render([edited]) == [{"type": "function_call", "call_id": "a", "name": "read", "arguments": "{}"}]


def test_encrypted_reasoning_counts_by_its_characters_and_summaries_as_text() -> None:
    """B25: opaque reasoning is priced by length."""
    thought = one(THOUGHT | {"encrypted_content": "x" * 180, "content": [{"type": "reasoning_text", "text": "So."}]})
    (part,) = thought.parts
    assert isinstance(part, Reasoning)
    assert (part.text, part.sealed) == ("Hm.\nSo.", 180)


@pytest.mark.parametrize("kind", PAIRS)
def test_a_call_that_the_client_runs_and_its_output_share_an_id(kind: str) -> None:
    """H4: a call and its result live and die together."""
    asked, answered = map(one, PAIRS[kind])
    (part,) = answered.parts
    assert isinstance(part, ToolResult)
    assert asked.calls[0].id == part.call_id
    assert ("12 lines" in part.text) is (kind != "computer")
    assert "AAAA" not in part.text
    assert len(part.media) == (kind in ("function", "computer"))


@pytest.mark.parametrize("kind", PAIRS)
def test_only_the_arguments_of_functions_may_be_shortened(kind: str) -> None:
    """B15: where the dialect lets that be."""
    assert one(PAIRS[kind][0]).calls[0].fixed is (kind != "function")


CLEARED: dict[str, dict[str, Any]] = {
    "function": {"output": "gone"},
    "custom": {"output": "gone"},
    "local shell": {"output": "gone"},
    "shell": {"output": [{"stdout": "gone", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]},
    "patch": {"output": "gone"},
    "computer": {"output": {"type": "computer_screenshot", "image_url": BLANK}},
    "tool search": {"tools": []},
    "approval": {"reason": "gone"},
}


@pytest.mark.parametrize("kind", PAIRS)
def test_a_cleared_output_keeps_its_shape_and_its_other_keys(kind: str) -> None:
    """L1, in the shape that each output has."""
    item = PAIRS[kind][1]
    before = copy.deepcopy(item)
    message = one(item)
    (part,) = message.parts
    assert isinstance(part, ToolResult)
    assert DIALECT.render([message.with_parts([replace(part, text="gone", media=())])]) == [item | CLEARED[kind]]
    assert item == before


@pytest.mark.parametrize("kind", PAIRS)
def test_a_synthetic_result_has_the_type_that_its_call_wants(kind: str) -> None:
    """H29: an unanswered call of any kind gets an answer of its own kind."""
    asked = one(PAIRS[kind][0])
    rendered = DIALECT.render([asked, result(asked.calls[0].id, "none")])
    assert DIALECT.problems(rendered) == []
    assert rendered[1]["type"] == PAIRS[kind][1]["type"]  # type: ignore[index]


def test_an_output_with_images_keeps_them_when_its_text_is_shortened() -> None:
    message = one(PAIRS["function"][1])
    (part,) = message.parts
    assert isinstance(part, ToolResult)
    assert DIALECT.render([message.with_parts([replace(part, text="12")])]) == [
        output(text=[{"type": "input_text", "text": "12"}, IMAGE])
    ]


def test_a_note_is_an_easy_message_of_the_user() -> None:
    assert DIALECT.render([user("note")]) == [{"role": "user", "content": "note"}]


def test_reasoning_that_is_removed_takes_its_item_along() -> None:
    """An item of nothing but removed reasoning goes; a text that was put in its place is an answer."""
    message = one(THOUGHT)
    assert DIALECT.render([message.with_parts([])]) == []
    assert DIALECT.render([message.with_parts([Text("x")])]) == [{"role": "assistant", "content": "x"}]


BROKEN: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("null content", {"role": "user", "content": None}, {"role": "user", "content": ""}),
    ("a number", {"role": "user", "content": 7}, {"role": "user", "content": "7"}),
    ("arguments as an object", call(arguments={"a": 1}), call(arguments='{"a":1}')),
    ("no arguments", call(arguments=None), call(arguments="{}")),
    ("no output", output(text=None), output(text="")),
    ("a lone block", output(text={"type": "input_text", "text": "x"}), output(text="x")),
    ("an output of another shape", output(text={"lines": 12}), output(text='{"lines":12}')),
]


@pytest.mark.parametrize(("item", "mended"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_what_cannot_be_sent_is_mended_and_reported(item: dict[str, Any], mended: dict[str, Any]) -> None:
    """H29: the source is not changed, the copy is valid, the repair is told."""
    before = copy.deepcopy(item)
    message = one(item)
    assert message.edited
    assert message.repair
    assert DIALECT.render([message]) == [mended]
    assert item == before
    opened, answers = ([call()], []) if "output" in item else ([], [output()] if "call_id" in item else [])
    assert len(validate([*opened, item, *answers], "openai_responses")) == 1
    assert validate([*opened, mended, *answers], "openai_responses") == []


def test_reasoning_that_nothing_follows_gets_a_short_answer_behind_it() -> None:
    """H29: an aborted answer left only its reasoning; OpenAI wants an item of the same answer behind it."""
    items = [ASKED, THOUGHT, ASKED, THOUGHT, output("x")]
    assert len(DIALECT.problems(items[:3])) == 1
    messages = read(items)
    assert [message.repair is not None for message in messages] == [False, False, True, False, False, True, False]
    rendered = DIALECT.render(messages)
    assert rendered[2] == rendered[5] == {"role": "assistant", "content": NO_ANSWER}
    assert [item for item in rendered if item != rendered[2]] == items
    assert DIALECT.problems(rendered[:4]) == []


@pytest.mark.parametrize(
    ("items", "said"),
    [
        ([call("a")], "input[0]: the call 'a' has no function_call_output"),
        ([output("a")], "input[0]: the function_call_output for 'a' follows no open call"),
        ([output("a"), call("a")], "input[0]: the function_call_output for 'a' follows no open call"),
        ([call("a"), output("a"), output("a")], "input[2]: the function_call_output for 'a' follows no open call"),
        ([call("a"), call("a"), output("a")], "input[1]: a second function_call with the id 'a' before the first"),
        ([PAIRS["custom"][0], output("c")], "input[1]: the function_call_output for 'c' follows no open call"),
        ([THOUGHT], "input[0]: the reasoning item is not followed by an item of its answer"),
        ([THOUGHT, ASKED], "input[0]: the reasoning item is not followed by an item of its answer"),
        ([{"role": "tool", "content": "x"}], "input[0]: expected a role of user, assistant, system, developer, got"),
        ([{"type": "function_call", "name": "x", "arguments": "{}"}], "input[0]: a function_call needs a call_id"),
        ([7], "input[0]: expected an item with a type or a role"),
        ([{}], "input[0]: expected an item with a type or a role"),
    ],
)
def test_each_thing_that_openai_refuses_is_named_with_its_position(items: list[Any], said: str) -> None:
    """Law 7, and the wire rules of Responses."""
    assert any(problem.startswith(said) for problem in DIALECT.problems(items)), DIALECT.problems(items)


def test_an_output_may_come_late_and_an_id_may_be_used_again() -> None:
    """B21: OpenAI pairs by id, not by neighbourhood; ids are told apart by place."""
    assert DIALECT.problems([call("a"), ASKED, output("a"), call("a"), output("a")]) == []


def test_an_approval_request_may_stay_unanswered() -> None:
    assert DIALECT.problems([ASKED, PAIRS["approval"][0], ASKED]) == []


def test_an_output_whose_call_may_stand_behind_a_reference_is_no_orphan() -> None:
    assert DIALECT.problems([{"type": "item_reference", "id": "fc_1"}, output("a")]) == []


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ("go", "messages[3]: expected an object with a role, got str 'go'"),
        ({"role": "model", "content": "x"}, "messages[3]: unknown role 'model': use one of user, assistant"),
        ({"id": "x"}, "messages[3]: expected an item with a type or a role"),
    ],
)
def test_what_cannot_be_read_is_an_error_that_names_the_position(item: object, said: str) -> None:
    with pytest.raises(TranscriptError) as caught:
        DIALECT.read(item, None, 3)
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize(
    ("item", "verdict"),
    [
        (call(), True),
        (output(), True),
        (THOUGHT, True),
        (SAID, True),
        *((item, True) for item in SERVER),
        ({"type": "message", "role": "user", "content": "x"}, True),
        ({"role": "user", "content": [{"type": "input_text", "text": "x"}]}, True),
        ({"type": "ghost_snapshot"}, None),
        (ASKED, None),
        ({"role": "developer", "content": "x"}, None),
        ({"role": "user", "content": [{"type": "text", "text": "x"}]}, False),
        ({"type": "message", "role": "assistant", "content": [{"type": "text", "text": "x"}]}, False),
        ({"role": "assistant", "content": None, "tool_calls": []}, False),
        ({"role": "tool", "tool_call_id": "a", "content": "x"}, False),
        ({"role": "model", "parts": []}, False),
        ({}, False),
        ("x", False),
    ],
)
def test_one_item_is_judged_to_be_of_this_format_or_not(item: object, verdict: bool | None) -> None:
    """B29: the verdict on the list is made of these."""
    assert DIALECT.sniff(item) is verdict


def test_a_tool_is_counted_by_its_name_description_and_parameters() -> None:
    """H23: a function by its texts, a built-in tool by its whole JSON."""
    function = {"type": "function", "name": "read", "description": "Reads.", "parameters": {"type": "object"}}
    assert DIALECT.tool_texts(function) == [["read", "Reads.", '{"type":"object"}']]
    assert DIALECT.tool_texts({"type": "web_search"}) == [['{"type":"web_search"}']]


def test_the_pieces_of_a_body_are_found_where_responses_has_them() -> None:
    body = {"input": [1], "tools": [2], "max_output_tokens": 3, "instructions": "Be brief."}
    request = DIALECT.request
    found = [find(body, paths) for paths in (request.messages, request.tools, request.max_output, request.system)]
    assert found == [[1], [2], 3, "Be brief."]


TEXT = st.text(max_size=20)
IDS = st.lists(TEXT.filter(bool), min_size=1, max_size=3, unique=True)
EXTRAS = st.dictionaries(TEXT.map("x_".__add__), st.none() | st.integers() | TEXT, max_size=2)
BLOCKS = st.lists(st.just(IMAGE) | st.fixed_dictionaries({"type": st.just("input_text"), "text": TEXT}), max_size=3)


@st.composite
def conversations(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Valid lists: messages, and answers of reasoning, a text, server items and up to three calls of any kind."""
    items: list[dict[str, Any]] = []
    for role in draw(st.lists(st.sampled_from(["user", "developer", "calls", "pair", "answer"]), max_size=8)):
        if role in ("user", "developer"):
            items.append({"role": role, "content": draw(TEXT | BLOCKS), **draw(EXTRAS)})
            continue
        items += [THOUGHT | draw(EXTRAS)] * draw(st.integers(0, 2))
        items += [draw(st.sampled_from(SERVER)), {**SAID, **draw(EXTRAS)}]
        if role == "calls":
            ids = draw(IDS)
            items += [call(each, draw(TEXT), **draw(EXTRAS)) for each in ids]
            items += [output(each, draw(TEXT | BLOCKS), **draw(EXTRAS)) for each in draw(st.permutations(ids))]
        elif role == "pair":
            items += [dict(item) for item in draw(st.sampled_from(list(PAIRS.values())))]
    return items


@given(conversations())
def test_any_valid_list_is_lossless_and_takes_every_edit(items: list[dict[str, Any]]) -> None:
    """Laws 6, 7 and 9."""
    check_dialect(DIALECT, [items])


KINDS = [*(item["type"] for pair in PAIRS.values() for item in pair), "reasoning", "message", "hologram_call"]
KEYS = ["output", "arguments", "content", "summary", "encrypted_content", "call_id", "tools", "action", "input", "name"]
SCALARS = st.none() | st.booleans() | st.integers() | st.sampled_from(["input_text", "computer_screenshot", "exit", ""])
ODD = SCALARS | st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "text", "stdout", "stderr", "outcome", "data"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.sampled_from(KINDS), st.dictionaries(st.sampled_from(KEYS), ODD, max_size=3))
def test_no_fields_of_an_item_whatever_break_the_reader(kind: str, fields: dict[str, object]) -> None:
    """H29: a field of another shape than OpenAI's is passed over or mended, and the item can be edited."""
    item = {"type": kind, "role": "user", "content": "x", "call_id": "a", **fields}
    message = one(item)
    assert isinstance(DIALECT.render([message])[0], dict)
    assert isinstance(DIALECT.render([replace(message, edited=True)])[0], dict)
    assert isinstance(DIALECT.problems([item]), list)


def test_a_shell_output_of_odd_runs_is_read() -> None:
    item = {"type": "shell_call_output", "call_id": "c", "output": [None, {"stdout": 7}, {"stderr": "no such file"}]}
    (part,) = one(item).parts
    assert isinstance(part, ToolResult)
    assert part.text == "7\nno such file"


def rollout(shared: Path, name: str) -> list[dict[str, Any]]:
    lines = (shared / "data" / "transcripts" / "codex" / name).read_text().splitlines()
    entries = [json.loads(line) for line in lines]
    return [entry["payload"] for entry in entries if entry["type"] == "response_item"]


def test_a_recorded_run_of_102_rounds_is_valid_and_lossless(shared: Path) -> None:
    """Law 9 on a real run: 25 reasoning items, 102 calls and their outputs."""
    items = rollout(shared, "rollout-102-rounds.jsonl")
    messages = read(items)
    assert len(messages) == 249
    assert sum(len(message.calls) for message in messages) == 102
    assert all(DIALECT.sniff(item) for item in items)
    check_dialect(DIALECT, [items])


def test_a_recorded_run_that_was_cut_for_a_fixture_is_mended_where_one_item_shows_it(shared: Path) -> None:
    """H29: a null `arguments` and an object as output; an output without its call is the core's to drop."""
    items = rollout(shared, "rollout-small-compacted.jsonl")
    messages = read(items)
    mended = [place for place, message in enumerate(messages) if message.repair]
    rendered = DIALECT.render(messages)
    assert [place for place, item in enumerate(items) if rendered[place] is not item] == mended == [4, 19]
    assert {problem.split(":")[0] for problem in DIALECT.problems(rendered)} == {"input[10]", "input[13]"}


def test_a_call_of_a_custom_tool_is_counted_by_its_free_text() -> None:
    (part,) = one(PAIRS["custom"][0]).parts
    assert isinstance(part, ToolCall)
    assert (part.name, part.arguments) == ("patch", "*** Begin")
