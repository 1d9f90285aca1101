"""Small logs of our own in each format that the readers know: what each reader must make of them (B31, law 9)."""

import json
from collections.abc import Iterable

import pytest

from longturn.arguments import problems_of
from longturn.core.checkpoint import Checkpoint
from longturn.core.meter import Usage
from longturn.dialects.logs import Conversation, load
from longturn.dialects.registry import by_name


def lines(rows: Iterable[object]) -> bytes:
    return "\n".join(json.dumps(row) for row in rows).encode()


def one(data: object) -> Conversation:
    (conversation,) = load(data if isinstance(data, bytes) else json.dumps(data).encode(), "file")
    assert problems_of(by_name(conversation.dialect), conversation.messages) == []
    return conversation


def claude(number: int, kind: str, content: object, parent: int | None, **fields: object) -> dict[str, object]:
    message: dict[str, object] = {"role": kind, "content": content}
    for key in ("id", "usage", "model"):
        if key in fields:
            message[key] = fields.pop(key)
    row = {"type": kind, "uuid": f"u{number}", "parentUuid": None if parent is None else f"u{parent}", "sessionId": "s"}
    return {**row, "isSidechain": False, "timestamp": f"2026-01-01T00:00:{number:02}Z", "message": message, **fields}


def use(call_id: str) -> dict[str, object]:
    return {"type": "tool_use", "id": call_id, "name": "ls", "input": {}}


def answer(call_id: str) -> dict[str, object]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": f"result of {call_id}"}


USED = {"input_tokens": 3, "cache_read_input_tokens": 10, "cache_creation_input_tokens": 5, "output_tokens": 1}
PARALLEL: list[dict[str, object]] = [
    {"type": "summary", "summary": "a title", "leafUuid": "u6"},
    claude(0, "user", "list two folders", None),
    claude(1, "assistant", [{"type": "text", "text": "\n\n"}], 0, id="m1", usage=USED),
    claude(2, "assistant", [use("a")], 1, id="m1", usage=USED),
    claude(3, "assistant", [use("b")], 2, id="m1", usage={**USED, "output_tokens": 40}, model="claude-x"),
    claude(4, "user", [answer("a")], 2),
    claude(5, "user", [answer("b")], 3),
    claude(6, "assistant", [{"type": "text", "text": "Done."}], 5, id="m2", usage=USED, model="claude-x"),
]


def test_the_rows_of_one_claude_code_answer_are_one_message_with_one_usage() -> None:
    found = one(lines(PARALLEL))
    assert (found.dialect, found.name, found.model) == ("anthropic", "s", "claude-x")
    assert found.messages[1] == {"role": "assistant", "content": [use("a"), use("b")]}
    assert found.usage[1] == Usage(input_tokens=18, output_tokens=40, cached_tokens=10, written_tokens=5)
    assert list(found.usage) == [1, 3]


def test_results_of_parallel_calls_that_hang_off_different_rows_all_belong_to_the_branch() -> None:
    found = one(lines(PARALLEL))
    assert found.messages[2] == {"role": "user", "content": [answer("a"), answer("b")]}
    assert len(found.messages) == 4


def test_what_a_claude_code_log_holds_beside_the_conversation_is_named_in_the_notes() -> None:
    assert one(lines(PARALLEL)).notes == (
        "left out: 1 summary rows",
        "1 blank text blocks, which the provider refuses, are left out (line 3)",
    )


def test_an_answer_whose_results_arrive_between_its_rows_stays_one_answer() -> None:
    rows = [
        claude(0, "user", "go", None),
        claude(1, "assistant", [use("a")], 0, id="m1"),
        claude(2, "user", [answer("a")], 1),
        claude(3, "assistant", [use("b")], 2, id="m1"),
        claude(4, "user", [answer("b"), {"type": "text", "text": "and hurry"}], 3),
    ]
    found = one(lines(rows))
    assert found.messages[1:] == [
        {"role": "assistant", "content": [use("a"), use("b")]},
        {"role": "user", "content": [answer("a"), answer("b"), {"type": "text", "text": "and hurry"}]},
    ]


def test_a_retried_prompt_gives_the_newest_branch_first_and_the_older_one_beside_it() -> None:
    rows = [
        claude(0, "user", "hello", None),
        claude(1, "assistant", "Hi.", 0, id="m1"),
        claude(2, "user", "first try", 1),
        claude(3, "assistant", "One.", 2, id="m2"),
        claude(4, "user", "second try", 1),
        claude(5, "assistant", "Two.", 4, id="m3"),
        claude(6, "user", "never answered", 1),
        claude(7, "user", "go on", 5),
    ]
    newest, older = load(lines(rows))
    assert [message["content"] for message in newest.messages if message["role"] == "user"] == [  # type: ignore[index]
        "hello",
        "second try",
        "go on",
    ]
    assert (newest.name, older.name) == ("s", "s#2")
    assert older.messages[2:] == [
        {"role": "user", "content": "first try"},
        {"role": "assistant", "content": [{"type": "text", "text": "One."}]},
    ]
    assert older.notes == ("an older branch: its own rows are line 3, line 4",)
    assert "a branch without an answer of its own is left out (line 1, line 7)" in newest.notes


def test_a_claude_code_compaction_is_a_boundary_and_the_history_before_it_stays() -> None:
    rows = [
        claude(0, "user", "long story", None),
        claude(1, "assistant", "Yes.", 0, id="m1"),
        {
            **claude(2, "system", "", None),
            "subtype": "compact_boundary",
            "logicalParentUuid": "u1",
            "compactMetadata": {"trigger": "auto", "preTokens": 900},
            "message": None,
        },
        claude(3, "user", "Summary of it all.", 2, isCompactSummary=True),
        claude(4, "assistant", "Going on.", 3, id="m2"),
    ]
    found = one(lines(rows))
    assert found.messages[2] == Checkpoint("Summary of it all.", source_tokens=900, time="2026-01-01T00:00:03Z").entry()
    assert len(found.messages) == 4
    assert found.boundaries == (2,)


def test_a_sidechain_is_a_conversation_of_its_own() -> None:
    rows = [
        claude(0, "user", "ask a helper", None),
        claude(1, "user", "you are the helper", None, isSidechain=True, agentId="h1"),
        claude(2, "assistant", "Helping.", 1, id="m9", isSidechain=True, agentId="h1"),
        claude(3, "assistant", "It helped.", 0, id="m1"),
    ]
    main, side = load(lines(rows))
    assert (main.name, len(main.messages)) == ("s", 2)
    assert (side.name, len(side.messages)) == ("h1", 2)


def test_a_row_whose_parent_was_cut_away_follows_the_row_before_with_a_note() -> None:
    rows = [claude(0, "user", "go", 99), claude(1, "assistant", "Gone.", 98, id="m1"), claude(2, "user", "ok", 1)]
    found = one(lines(rows))
    assert len(found.messages) == 3
    assert any("name a parent that is not there" in note for note in found.notes)


def test_api_errors_and_rows_of_wrong_shape_are_counted_not_kept() -> None:
    rows = [
        claude(0, "user", "go", None),
        claude(1, "assistant", "API Error: 529", 0, id="m1", isApiErrorMessage=True),
        claude(2, "user", 7, 1),
    ]
    found = one(lines(rows))
    assert len(found.messages) == 1
    assert found.notes == ("left out: 1 API error rows, 1 user rows",)


def codex(kind: str, **payload: object) -> dict[str, object]:
    return {"timestamp": "2026-01-01T00:00:00Z", "type": kind, "payload": payload}


def item(role: str, said: str) -> dict[str, object]:
    block = {"type": "output_text" if role == "assistant" else "input_text", "text": said}
    return {"type": "message", "role": role, "content": [block]}


def reported(total: int, **last: int) -> dict[str, object]:
    return codex("event_msg", type="token_count", info={"last_token_usage": last, "total_token_usage": {"t": total}})


ROLLOUT: list[dict[str, object]] = [
    codex("session_meta", id="r1", base_instructions={"text": "Be brief."}),
    codex("turn_context", model="gpt-x"),
    codex("response_item", **item("user", "list")),
    codex("response_item", type="reasoning", summary=[], encrypted_content="seal"),
    codex("response_item", type="function_call", call_id="c1", name="ls", arguments="{}"),
    reported(1, input_tokens=100, cached_input_tokens=60, output_tokens=9, reasoning_output_tokens=4),
    codex("event_msg", type="exec_command_end", call_id="c1", stdout="shown twice"),
    codex("response_item", type="function_call_output", call_id="c1", output="a b"),
    reported(1, input_tokens=100, cached_input_tokens=60, output_tokens=9, reasoning_output_tokens=4),
    codex("response_item", **item("assistant", "Two files.")),
    reported(2, input_tokens=120, output_tokens=3),
]


def test_a_codex_rollout_gives_its_items_instructions_model_and_usage() -> None:
    found = one(lines(ROLLOUT))
    assert (found.dialect, found.name, found.model, found.system) == ("openai_responses", "r1", "gpt-x", "Be brief.")
    assert [message["type"] for message in found.messages] == [  # type: ignore[index]
        "message",
        "reasoning",
        "function_call",
        "function_call_output",
        "message",
    ]
    assert found.usage == {2: Usage(100, 9, 60, 0, 4), 4: Usage(120, 3)}
    assert found.notes == ("left out: 1 event_msg rows, 1 token_count events without an answer of their own",)


def test_the_first_rollouts_of_codex_have_no_envelopes() -> None:
    bare = [row["payload"] for row in ROLLOUT if row["type"] == "response_item"]
    found = one(lines([{"id": "r0", "timestamp": "", "instructions": "Be brief."}, {"record_type": "state"}, *bare]))
    assert (found.name, found.system, found.messages) == ("r0", "Be brief.", bare)
    assert found.notes == ("left out: 1 untyped rows",)


STANDING = Checkpoint("the summary", time="2026-01-01T00:00:00Z").entry()
SEALED = {"type": "compaction", "encrypted_content": "seal"}


@pytest.mark.parametrize(
    ("history", "begun", "kept"),
    [
        (None, [STANDING], {}),
        ([item("user", "list"), item("user", "the summary")], [STANDING], {5: (0,)}),
        (
            [
                item("user", "rules"),
                {**item("user", "list"), "id": "m1"},
                item("user", "list"),
                item("user", "the summary"),
            ],
            [STANDING, item("user", "rules"), item("user", "list")],
            {5: (0,)},
        ),
        (
            [item("user", "list"), item("user", "the summary"), item("user", "list")],
            [STANDING, item("user", "list")],
            {5: (0,)},
        ),
        ([item("user", "li ..."), item("user", "the summary")], [STANDING, item("user", "li ...")], {}),
        ([item("user", "list"), {"type": "ghost_snapshot"}], [item("user", "list")], {}),
        ([item("user", "the summary"), SEALED], [item("user", "the summary"), SEALED], {}),
    ],
    ids=["summary only", "first message", "twice", "kept messages", "cut message", "no summary", "encrypted"],
)
def test_a_codex_compaction_starts_anew_with_its_summary_as_a_checkpoint_s8(
    history: object, begun: list[object], kept: dict[int, tuple[int, ...]]
) -> None:
    """What users had said follows it, less the first message, which stands in front of every window."""
    compacted = codex("compacted", message="the summary", replacement_history=history)
    usage = reported(3, input_tokens=9, output_tokens=1)
    found = one(lines([*ROLLOUT, compacted, usage, codex("response_item", **item("user", "next"))]))
    assert (found.boundaries, found.kept) == ((5,), kept)
    assert found.messages[5:] == [*begun, item("user", "next")]
    assert max(found.usage) < 5
    assert ("only its summary" in found.notes[-1]) == (history is None)


def test_a_gemini_cli_chat_gives_calls_and_results_as_contents() -> None:
    made = {"id": "c1", "name": "ls", "args": {"p": "."}, "status": "success"}
    returned = {"functionResponse": {"id": "c1", "name": "ls", "response": {"output": "a"}}}
    messages = [
        {"id": "1", "timestamp": "2026-01-01T00:00:00Z", "type": "user", "content": "list"},
        {"id": "2", "type": "info", "content": "shown only"},
        {
            "id": "3",
            "type": "gemini",
            "content": "",
            "model": "gemini-x",
            "toolCalls": [{**made, "result": [returned]}],
            "thoughts": [{"subject": "Listing"}],
            "tokens": {"input": 50, "output": 5, "cached": 20, "thoughts": 2, "tool": 0, "total": 57},
        },
    ]
    found = one({"sessionId": "g", "projectHash": "h", "startTime": "", "messages": messages})
    assert found.dialect == "gemini"
    assert found.messages[1:] == [
        {"role": "model", "parts": [{"functionCall": {"id": "c1", "name": "ls", "args": {"p": "."}}}]},
        {"role": "user", "parts": [returned]},
    ]
    assert found.usage == {1: Usage(50, 7, 20, 0, 2)}
    assert found.notes == ("left out: 1 headlines of thoughts, 1 info messages",)


def test_an_adk_session_gives_its_contents_with_the_names_of_the_wire() -> None:
    events = [
        {"author": "user", "content": {"role": "user", "parts": [{"text": "go", "thought": None}]}, "timestamp": 1.5},
        {"author": "bot", "content": {"role": "model", "parts": [{"function_call": {"name": "f", "args": {}}}]}},
        {"author": "bot", "partial": True, "content": {"role": "model", "parts": [{"text": "half"}]}},
        {"author": "bot", "content": {"role": "user", "parts": [{"function_response": {"name": "f", "response": {}}}]}},
    ]
    found = one({"id": "adk", "events": events})
    assert found.messages == [
        {"role": "user", "parts": [{"text": "go"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {}}}]},
    ]
    assert found.times == {0: 1.5}
    assert found.notes == ("left out: 1 partial events",)


def test_a_swe_agent_trajectory_gives_results_the_id_of_their_call() -> None:
    made = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command":"ls"}'}}
    history = [
        {"role": "system", "content": "Fix it.", "agent": "main", "message_type": "system_prompt"},
        {"role": "user", "content": "The issue.", "agent": "main"},
        {"role": "assistant", "content": "", "thought": "", "action": "ls", "agent": "main", "tool_calls": [made]},
        {"role": "tool", "content": "a", "agent": "main", "tool_call_ids": ["c1"]},
    ]
    config = json.dumps({"agent": {"model": {"name": "gpt-x"}}})
    found = one({"trajectory": [], "history": history, "replay_config": config})
    assert found.model == "gpt-x"
    assert found.messages[2:] == [
        {"role": "assistant", "content": "", "tool_calls": [made]},
        {"role": "tool", "tool_call_id": "c1", "content": "a"},
    ]


def test_swe_agent_actions_written_as_text_are_a_plain_chat() -> None:
    history = [{"role": role, "content": "x", "agent": "primary"} for role in ("system", "user", "assistant", "user")]
    assert [message["role"] for message in one({"trajectory": [], "history": history}).messages] == [  # type: ignore[index]
        "system",
        "user",
        "assistant",
        "user",
    ]


def test_a_mini_swe_agent_run_keeps_usage_and_leaves_its_own_roles_out() -> None:
    usage = {"prompt_tokens": 70, "completion_tokens": 6, "prompt_tokens_details": {"cached_tokens": 30}}
    messages = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "ls", "extra": {"timestamp": 9.0, "response": {"usage": usage}}},
        {"role": "exit", "content": "done", "extra": {}},
    ]
    info = {"config": {"model": {"model_name": "gpt-x"}}}
    found = one({"info": info, "messages": messages, "trajectory_format": "mini-swe-agent-1.1"})
    assert found.messages == [{"role": "user", "content": "go"}, {"role": "assistant", "content": "ls"}]
    assert (found.model, found.usage, found.times) == ("gpt-x", {1: Usage(70, 6, 30)}, {1: 9.0})
    assert found.notes == ("left out: 1 exit messages",)


def test_an_openhands_run_gives_each_answer_once_with_its_calls_and_their_results() -> None:
    def made(number: int) -> dict[str, object]:
        return {"id": f"c{number}", "type": "function", "function": {"name": "run", "arguments": "{}"}}

    response = {
        "id": "gen-1",
        "model": "m",
        "choices": [{"message": {"role": "assistant", "content": "Both.", "tool_calls": [made(1), made(2)]}}],
        "usage": {"prompt_tokens": 40, "completion_tokens": 4},
    }

    def call(number: int) -> dict[str, object]:
        return {"tool_call_id": f"c{number}", "function_name": "run", "model_response": response}

    history = [
        {"source": "agent", "action": "system", "args": {"content": "You act.", "tools": [{"type": "function"}]}},
        {"source": "user", "action": "message", "args": {"content": "do it"}, "timestamp": "2026-01-01T00:00:00"},
        {"source": "user", "action": "recall", "args": {}},
        {"source": "agent", "action": "run", "args": {}, "tool_call_metadata": call(1)},
        {"source": "agent", "observation": "run", "content": "one", "tool_call_metadata": call(1)},
        {"source": "agent", "action": "run", "args": {}, "tool_call_metadata": call(2)},
        {"source": "agent", "observation": "run", "content": "two", "tool_call_metadata": call(2)},
        {"source": "agent", "observation": "error", "content": "bad call"},
    ]
    found = one(lines([{"instance_id": "i1", "history": history}]))
    assert [message["role"] for message in found.messages] == [  # type: ignore[index]
        "system",
        "user",
        "assistant",
        "tool",
        "tool",
        "user",
    ]
    assert (found.name, found.tools, found.usage) == ("i1", [{"type": "function"}], {2: Usage(40, 4)})
    assert found.notes == ("left out: 1 recall events",)


def pi(kind: str, number: int, parent: int | None, **fields: object) -> dict[str, object]:
    return {"type": kind, "id": f"e{number}", "parentId": None if parent is None else f"e{parent}", **fields}


def spoke(role: str, said: str, **fields: object) -> dict[str, object]:
    return {"role": role, "content": [{"type": "text", "text": said}], **fields}


HEADER = {"type": "session", "version": 3, "id": "p", "cwd": "/tmp", "timestamp": "2026-01-01T00:00:00Z"}


def test_a_pi_session_keeps_aborted_calls_and_counts_what_was_cached() -> None:
    made = {"type": "toolCall", "id": "c1", "name": "read", "arguments": {"path": "a"}}
    usage = {"input": 3, "output": 5, "cacheRead": 7, "cacheWrite": 2}
    rows = [
        {key: value for key, value in HEADER.items() if key != "version"} | {"modelId": "m0"},
        {"type": "message", "message": spoke("user", "go")},
        {"type": "message", "message": {"role": "assistant", "content": [], "stopReason": "aborted"}},
        {"type": "message", "message": {"role": "assistant", "content": [made], "usage": usage, "model": "m1"}},
        {"type": "message", "message": spoke("user", "never mind")},
    ]
    (found,) = load(lines(rows))
    assert [message["role"] for message in found.messages] == ["user", "assistant", "user"]  # type: ignore[index]
    assert (found.model, found.usage) == ("m1", {1: Usage(12, 5, 7, 2)})
    assert found.notes == ("left out: 1 empty answers (aborted)",)
    assert len(by_name("openai_chat").problems(found.messages)) == 1


def test_a_pi_tree_gives_each_branch_and_a_compaction_is_a_checkpoint_up_to_what_was_kept_s8() -> None:
    rows = [
        HEADER,
        pi("message", 1, None, message=spoke("user", "start")),
        pi("message", 2, 1, message=spoke("assistant", "Left.")),
        pi("message", 3, 1, message=spoke("assistant", "Right.")),
        pi("message", 4, 3, message=spoke("user", "go on")),
        pi("compaction", 5, 4, summary="so far", firstKeptEntryId="e4", tokensBefore=70, timestamp="2026-01-01"),
        pi("message", 6, 5, message=spoke("assistant", "On.")),
        pi("compaction", 7, 6, summary="and more", firstKeptEntryId="e6"),
        pi("compaction", 8, 7, summary=" "),
    ]
    newest, older = load(lines(rows))
    assert newest.messages == [
        {"role": "user", "content": "start"},
        {"role": "assistant", "content": "Right."},
        {"role": "user", "content": "go on"},
        Checkpoint("so far", covers=2, source_tokens=70, time="2026-01-01").entry(),
        {"role": "assistant", "content": "On."},
        Checkpoint("and more", covers=3).entry(),
    ]
    assert (newest.boundaries, newest.kept) == ((3, 5, 6), {3: (2,), 5: (4,), 6: ()})
    assert newest.notes == ("left out: 1 empty summaries",)
    assert [message["content"] for message in older.messages] == ["start", "Left."]  # type: ignore[index]


LANGCHAIN: list[tuple[str, dict[str, object]]] = [
    ("human", {"content": "read it"}),
    (
        "ai",
        {
            "content": [
                {"type": "text", "text": "Reading."},
                {"type": "tool_use", "id": "c1", "name": "r", "input": {}},
            ],
            "tool_calls": [{"id": "c1", "name": "r", "args": {"p": 1}, "type": "tool_call"}],
            "usage_metadata": {"input_tokens": 20, "output_tokens": 2, "input_token_details": {"cache_read": 8}},
            "response_metadata": {"model_name": "m"},
        },
    ),
    ("tool", {"content": "text", "tool_call_id": "c1", "name": "r"}),
]
CLASSES = {"human": "HumanMessage", "ai": "AIMessage", "tool": "ToolMessage"}


@pytest.mark.parametrize("form", ["dumps", "messages_to_dict", "model_dump", "state"])
def test_every_way_that_langchain_dumps_messages_reads_the_same(form: str) -> None:
    forms = {
        "dumps": [
            {"lc": 1, "type": "constructor", "id": ["langchain", CLASSES[kind]], "kwargs": fields}
            for kind, fields in LANGCHAIN
        ],
        "messages_to_dict": [{"type": kind, "data": fields} for kind, fields in LANGCHAIN],
        "model_dump": [{"type": kind, **fields} for kind, fields in LANGCHAIN],
    }
    found = one(forms[form] if form in forms else {"messages": forms["dumps"], "step": 3})
    made = {"id": "c1", "type": "function", "function": {"name": "r", "arguments": '{"p": 1}'}}
    assert found.messages == [
        {"role": "user", "content": "read it"},
        {"role": "assistant", "content": "Reading.", "tool_calls": [made]},
        {"role": "tool", "tool_call_id": "c1", "content": "text", "name": "r"},
    ]
    assert (found.model, found.usage) == ("m", {1: Usage(20, 2, 8)})


def test_an_inspect_ai_sample_gets_its_attachments_usage_and_tools_back() -> None:
    reply: dict[str, object] = {
        "id": "a1",
        "role": "assistant",
        "content": [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "Hi."}],
    }
    usage = {"input_tokens": 5, "output_tokens": 2, "total_tokens": 17, "input_tokens_cache_read": 10}
    tools: list[object] = [{"name": "go", "description": "attachment://d", "parameters": {}, "options": None}]
    sample = {
        "id": "s1",
        "epoch": 1,
        "messages": [{"id": "u1", "role": "user", "content": "attachment://t"}, reply],
        "attachments": {"t": "hello there", "d": "Goes."},
        "events": [{"event": "model", "tools": tools, "output": {"choices": [{"message": reply}], "usage": usage}}],
    }
    found = one({"version": 2, "eval": {"model": "m"}, "samples": [sample]})
    assert found.messages[0] == {"role": "user", "content": "hello there"}
    assert found.messages[1] == {"role": "assistant", "content": "Hi.", "reasoning_content": "hm"}
    assert found.usage == {1: Usage(15, 2, 10)}
    function = {"name": "go", "description": "Goes.", "parameters": {}}
    assert found.tools == [{"type": "function", "function": function}]
    assert found.name == "file sample s1 epoch 1"


@pytest.mark.parametrize("nested", [True, False])
def test_a_librechat_export_gives_its_branches_nested_or_flat(nested: bool) -> None:
    def node(name: str, parent: str, said: str, mine: bool) -> dict[str, object]:
        return {"messageId": name, "parentMessageId": parent, "text": said, "isCreatedByUser": mine, "children": []}

    nodes = [node("1", "0", "hi", True), node("2", "1", "Old.", False), node("3", "1", "New.", False)]
    tree = [{**nodes[0], "children": nodes[1:]}] if nested else nodes
    newest, older = load(
        json.dumps({"conversationId": "c", "options": {"promptPrefix": "Be kind."}, "messages": tree}).encode()
    )
    assert newest.messages == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "New."},
    ]
    assert older.messages[-1] == {"role": "assistant", "content": "Old."}


def test_a_librechat_agents_run_is_taken_apart_into_rounds() -> None:
    made = {"id": "c1", "name": "web", "args": '{"q":1}', "output": "found"}
    blocks = [
        {"type": "text", "text": {"value": "Looking."}},
        {"type": "tool_call", "tool_call": made},
        {"type": "text", "text": "Here."},
    ]
    nodes = [
        {"messageId": "1", "parentMessageId": "0", "text": "find", "isCreatedByUser": True},
        {"messageId": "2", "parentMessageId": "1", "text": "", "content": blocks, "isCreatedByUser": False},
    ]
    found = one({"messages": nodes})
    assert [message["role"] for message in found.messages] == [  # type: ignore[index]
        "user",
        "assistant",
        "tool",
        "assistant",
    ]


CHAT = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Hello."}]


@pytest.mark.parametrize(
    ("body", "dialect"),
    [
        (CHAT, "openai_chat"),
        ({"messages": CHAT, "model": "m", "tools": [{"type": "function"}]}, "openai_chat"),
        ({"messages": CHAT, "system": "Be brief.", "model": "m", "tools": [{"name": "t"}]}, "anthropic"),
        ([*CHAT, {"role": "user", "content": [answer("a")]}], "anthropic"),
        ({"input": CHAT, "instructions": "Be brief.", "tools": [{"type": "function"}]}, "openai_responses"),
        (
            [item("user", "hi"), {"type": "function_call", "call_id": "c", "name": "n", "arguments": "{}"}],
            "openai_responses",
        ),
        ({"contents": [{"role": "user", "parts": [{"text": "hi"}]}], "tools": [{}]}, "gemini"),
        ([{"role": "user", "parts": [{"text": "hi"}]}], "gemini"),
        ({"custom_id": "b1", "body": {"messages": CHAT, "model": "m", "tools": [{}]}}, "openai_chat"),
    ],
)
def test_a_body_or_a_bare_list_is_read_in_its_own_dialect_with_the_same_objects(body: object, dialect: str) -> None:
    data = json.dumps(body)
    (found,) = load(data.encode())
    assert found.dialect == dialect
    assert all(json.dumps(message) in data for message in found.messages)
    assert found.tools is None if isinstance(body, list) else len(found.tools or []) == 1


def test_lines_of_messages_are_one_conversation_and_lines_of_lists_are_many() -> None:
    assert one(lines(CHAT)).messages == CHAT
    assert one(lines(CHAT[:1])).messages == CHAT[:1]
    assert [found.name for found in load(lines([{"messages": CHAT, "id": 7}, {"messages": CHAT}]), "f")] == [
        "id 7",
        "f line 2",
    ]
    assert [len(found.messages) for found in load(json.dumps([{"traj": CHAT, "task_id": 1}, CHAT]).encode())] == [2, 2]


def test_an_empty_list_is_an_empty_conversation() -> None:
    assert one([]).messages == []


def test_a_request_log_says_that_its_answer_is_not_part_of_the_request() -> None:
    found = one({"messages": CHAT[:1], "response": {"model": "m", "choices": []}})
    assert (found.model, found.messages) == ("m", CHAT[:1])
    assert found.notes == ("the document: the answer in `response` is not part of the request and is left out",)
