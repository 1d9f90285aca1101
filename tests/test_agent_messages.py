"""Pydantic AI's messages as a dialect: what a dialect promises, the laws, and what its adapters make of a window."""

import asyncio
import copy
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from pydantic_ai.messages import (
    BinaryContent,
    CachePoint,
    CompactionPart,
    FilePart,
    ImageUrl,
    InstructionPart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    NativeToolCallPart,
    NativeToolReturnPart,
    RetryFeedbackPart,
    RetryInfo,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

import longturn
from longturn import CLEARED, NOTE, ContextWindowExceeded, Policy, TranscriptError
from longturn.agent import DIALECT
from longturn.agent.messages import is_standing, read
from longturn.core.messages import Media, Message, ToolResult
from longturn.testing import check_dialect, validate
from tests.agents import CHAPTER, MODELS
from tests.strategies import BROKEN_STORIES, Case, cases
from tests.wires import Answer, serving

PIXEL = BinaryContent(b"\x89PNG" * 9, media_type="image/png")
SEEN: Counter[str] = Counter()


def example() -> list[ModelMessage]:
    """A conversation with a part of every kind that an adapter sends."""
    return [
        ModelRequest([SystemPromptPart("Be brief."), UserPromptPart("Go.")], instructions="Be kind."),
        ModelResponse(
            [
                ThinkingPart("Hm.", signature="s" * 40, provider_name="anthropic"),
                TextPart("I look."),
                ToolCallPart("read", {"path": "a" * 900}, "call_1"),
                ToolCallPart("read", '{"path": "b"}', "call_2"),
            ],
            provider_name="anthropic",
        ),
        ModelRequest(
            [
                ToolReturnPart("read", CHAPTER, "call_1"),
                ToolReturnPart("read", ["A picture.", PIXEL], "call_2"),
                UserPromptPart(["And this?", ImageUrl("https://example.org/a.png"), PIXEL, CachePoint()]),
            ]
        ),
        ModelResponse(
            [
                TextPart("Done."),
                FilePart(PIXEL),
                NativeToolCallPart("web_search", {"query": "x"}, "n1", provider_name="anthropic"),
                NativeToolReturnPart("web_search", [{"title": "t"}], "n1", provider_name="anthropic"),
                CompactionPart("What was said.", provider_name="anthropic"),
            ]
        ),
        ModelRequest([RetryFeedbackPart("No.", retry=RetryInfo(cause="model_retry"))]),
        ModelResponse([ToolCallPart("write", None, "call_3")]),
        ModelRequest([ToolReturnPart("write", {"error": "no disk"}, "call_3", outcome="failed")]),
        ModelRequest([UserPromptPart("Again.")]),
    ]


def test_the_dialect_keeps_what_a_dialect_promises() -> None:
    check_dialect(DIALECT, [example(), example()[:1], []])


def test_what_the_framework_says_opens_no_turn_and_what_a_person_says_does() -> None:
    """H5, H6."""
    roles = [message.role for place, item in enumerate(example()) for message in read(item, None, place)]
    assert "".join(role[0] for role in roles) == "suattuasatu"


def test_results_stand_before_what_was_said_with_them_and_carry_their_media() -> None:
    """H22: the attachments that a tool declared are its images."""
    both = ModelRequest([UserPromptPart("And?"), ToolReturnPart("read", ["text", PIXEL], "c1")])
    result, said = read(both, None, 0)
    part = result.parts[0]
    assert isinstance(part, ToolResult)
    assert [medium.kind for medium in part.media] == ["image"]
    assert (said.role, said.text) == ("user", "And?")
    assert DIALECT.render([result, said]) == [both]


def test_files_count_by_kind_and_text_files_as_text() -> None:
    text = BinaryContent(b"a line of text", media_type="text/plain")
    pdf = BinaryContent(b"%PDF", media_type="application/pdf")
    (message,) = read(ModelRequest([UserPromptPart([text, pdf])]), None, 0)
    assert getattr(message.parts[0], "text", "") == "a line of text"
    assert message.parts[1] == Media("document", message.parts[1].source)


def test_a_cleared_result_keeps_its_id_its_tool_and_its_place() -> None:
    """L1."""
    request = ModelRequest([ToolReturnPart("read", ["x", PIXEL], "c1", metadata={"own": 1})], run_id="r")
    (message,) = read(request, None, 0)
    (rebuilt,) = DIALECT.render([message.with_parts([ToolResult("c1", CLEARED, (), message.parts[0].source)])])
    assert isinstance(rebuilt, ModelRequest)
    (part,) = rebuilt.parts
    assert isinstance(part, ToolReturnPart)
    assert (part.content, part.tool_name, part.tool_call_id, part.metadata) == (CLEARED, "read", "c1", {"own": 1})
    assert (rebuilt.run_id, request.parts[0].content) == ("r", ["x", PIXEL])  # type: ignore[union-attr]


def test_a_call_that_a_provider_keeps_or_signs_is_not_shortened() -> None:
    """B15: OpenAI uses its own copy of a call with an item's id, and Gemini signs calls."""
    args = {"content": "x" * 2_000}
    free, kept, signed = (
        ToolCallPart("write", args, "a"),
        ToolCallPart("write", args, "b", id="fc_1", provider_name="openai"),
        ToolCallPart("write", args, "c", provider_name="google", provider_details={"thought_signature": "cw=="}),
    )
    (message,) = read(ModelResponse([free, kept, signed]), None, 0)
    assert [call.fixed for call in message.calls] == [False, True, True]


def test_a_result_of_ours_names_the_tool_that_was_called() -> None:
    """H29, B21: Gemini pairs results with calls by the name."""
    broken = [ModelRequest([UserPromptPart("Go.")]), ModelResponse([ToolCallPart("read", "{}", "c1")])]
    broken.append(ModelRequest([UserPromptPart("Well?")]))
    window = longturn.fit(broken, dialect=DIALECT, model="openai:gpt-5")
    answer = window.messages[2]
    assert isinstance(answer, ModelRequest)
    assert [(part.tool_name, part.tool_call_id) for part in answer.parts if isinstance(part, ToolReturnPart)] == [
        ("read", "c1")
    ]
    assert validate(window.messages, DIALECT) == []


def test_something_else_in_the_list_is_an_error_that_names_its_position() -> None:
    with pytest.raises(TranscriptError, match=r"messages\[1\]: expected a ModelRequest or ModelResponse, got dict"):
        longturn.fit([example()[0], {"role": "user"}], dialect=DIALECT)


def test_instructions_and_tools_are_counted_as_text() -> None:
    """H18, H23."""
    tool = ToolDefinition(name="read", description="Reads.", parameters_json_schema={"type": "object"})
    assert DIALECT.tool_texts(tool) == [["read", "Reads.", '{"type":"object"}']]
    assert DIALECT.system_texts([InstructionPart(content="A"), "B"]) == ["A", "B"]


def test_what_later_requests_are_read_with_is_told_from_the_rest() -> None:
    found = ToolCallPart("search_tools", {"queries": ["x"]}, "c1", tool_kind="tool-search")
    assert is_standing(ModelResponse([found]))
    assert not any(map(is_standing, example()))


# --- the laws, over histories that are written as Pydantic AI would hold them ---


def rewritten(items: Sequence[Any]) -> list[ModelMessage]:
    """Messages in Anthropic's format as Pydantic AI's."""
    return [_rewritten(item["role"], item["content"]) for item in items]


def _rewritten(role: str, content: Any) -> ModelMessage:
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if role == "assistant":
        return ModelResponse([_answered(block) for block in blocks], provider_name="anthropic")
    return ModelRequest([_asked(block, role) for block in blocks])


def _answered(block: Any) -> Any:
    if block["type"] == "thinking":
        return ThinkingPart(block["thinking"], signature=block["signature"], provider_name="anthropic")
    if block["type"] == "tool_use":
        return ToolCallPart(block["name"], block["input"], block["id"])
    return TextPart(block["text"])


def _asked(block: Any, role: str) -> Any:
    if block["type"] == "tool_result":
        content = block["content"]
        texts = [content] if isinstance(content, str) else [part.get("text", PIXEL) for part in content]
        return ToolReturnPart("read", texts if len(texts) > 1 else texts[0], block["tool_use_id"])
    if block["type"] == "image":
        return UserPromptPart([PIXEL])
    return SystemPromptPart(block["text"]) if role == "system" else UserPromptPart(block["text"])


def settings_of(case: Case) -> dict[str, Any]:
    policy: Policy = case.settings["policy"]
    return {**case.settings, "policy": replace(policy, pin=None), "dialect": DIALECT}


def handed(case: Case) -> list[list[ModelMessage]]:
    """What the caller holds at each call."""
    whole = rewritten(case.raw)
    return [whole[: len(held)] for held in case.prefixes()]


@given(cases(BROKEN_STORIES, ("anthropic",)))
def test_windows_are_valid_and_the_same_however_they_are_come_by_and_the_input_is_not_changed(case: Case) -> None:
    """Laws 3, 4, 6, 7 and 10."""
    settings = settings_of(case)
    fitter, back, last = longturn.Fitter(**settings), list[Any](), 0
    # Every few calls, so that an example stays cheap; the fitter is asked at all of them.
    for number, held in enumerate(handed(case)):
        before = copy.copy(held)
        try:
            window = fitter.fit(held)
        except ContextWindowExceeded:
            return
        SEEN["windows"] += 1
        SEEN["shaped"] += window.changed
        assert validate(window.messages, DIALECT) == []
        if number % 5 == 4:
            assert longturn.fit(held, **settings).messages == window.messages
            assert longturn.fit(window.messages, **settings).messages == window.messages
        back = longturn.fit([*back, *held[last:]], **settings).messages
        assert back == window.messages
        assert held == before
        last = len(held)


@given(cases(dialects=("anthropic",)))
def test_reading_and_rendering_gives_the_very_same_objects(case: Case) -> None:
    """Law 9."""
    for held in handed(case):
        found: list[Message] = [message for place, item in enumerate(held) for message in read(item, None, place)]
        rendered = DIALECT.render(found)
        assert [id(item) for item in rendered] == [id(item) for item in held]


def test_many_of_these_windows_were_shaped() -> None:
    if SEEN["windows"]:
        assert SEEN["shaped"] >= SEEN["windows"] / 3, dict(SEEN)


# --- what goes out on the wire ---


@pytest.mark.parametrize("wire_name", MODELS)
def test_a_shaped_window_is_valid_for_the_adapter_and_the_sdk_of_each_provider(wire_name: str) -> None:
    """Law 7: a cut, a note, cleared results, an image, a synthetic result and thinking, checked where they arrive."""
    history = example()
    for number in range(40):
        history += [
            ModelResponse([TextPart("Next."), ToolCallPart("read", {"n": number}, f"c{number}")]),
            ModelRequest([ToolReturnPart("read", f"{number} {CHAPTER}", f"c{number}")]),
        ]
    history += [ModelResponse([ToolCallPart("read", {}, "lost")]), ModelRequest([UserPromptPart(["So?", PIXEL])])]
    window = longturn.fit(history, dialect=DIALECT, model="claude-sonnet-5-5", budget=4_000)
    assert window.changed
    assert NOTE in json.dumps([str(message) for message in window.messages])

    async def ask() -> None:
        model = MODELS[wire_name](wire.url)
        parameters = ModelRequestParameters(instruction_parts=[InstructionPart(content="Be kind.")])
        async with model:
            messages = model.prepare_messages(window.messages, parameters)  # type: ignore[arg-type]
            await model.request(messages, None, parameters)

    with serving(lambda _number, _body: Answer("Fine.")) as wire:
        asyncio.run(ask())
        assert (wire.problems, wire.statuses) == ([], [200])
