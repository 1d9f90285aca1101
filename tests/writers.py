"""How a story is written natively in each of the four dialects: user messages, answers and results."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

PIXEL = "iVBORw0KGgo="
Native = dict[str, Any]


class Call(NamedTuple):
    """A call and what came back.

    fate: answered, missing, twice, late (behind what follows), lost (behind the next answer), orphan (of no call).
    """

    tool: str = "read"
    words: int = 3
    argument: int = 0
    script: str = "ascii"
    image: bool = False
    fate: str = "answered"


class Made(NamedTuple):
    """A call with its texts, ready to be written."""

    id: str
    call: Call
    argument: str
    result: str


@dataclass(frozen=True, slots=True)
class Writer:
    """How one dialect writes a story; `joins`: results and new text share one user message."""

    user: Callable[[str, bool], Native]
    answer: Callable[[str, str, list[Made]], list[Native]]
    results: Callable[[list[Made]], list[Native]]
    system: Callable[[str], Native] | None = None
    content: str = ""

    def mixed(self, results: Native, said: Native) -> Native | None:
        """Both in one user message, where the dialect has that."""
        if not self.content:
            return None
        blocks = said[self.content]
        blocks = [{"type": "text", "text": blocks}] if isinstance(blocks, str) else blocks
        return {**results, self.content: [*results[self.content], *blocks]}


def _chat_user(text: str, image: bool) -> Native:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + PIXEL}}
    return {"role": "user", "content": [{"type": "text", "text": text}, picture] if image else text}


def _chat_answer(text: str, thought: str, calls: list[Made]) -> list[Native]:
    made: Native = {"role": "assistant", "content": text or (None if calls else "")}
    if thought:
        made["reasoning_content"] = thought
    if calls:
        functions = [{"name": one.call.tool, "arguments": one.argument} for one in calls]
        made["tool_calls"] = [
            {"id": one.id, "type": "function", "function": function}
            for one, function in zip(calls, functions, strict=True)
        ]
    return [made]


def _chat_results(calls: list[Made]) -> list[Native]:
    return [
        {"role": "tool", "tool_call_id": one.id, "content": _chat_user(one.result, one.call.image)["content"]}
        for one in calls
    ]


def _responses_user(text: str, image: bool) -> Native:
    picture = {"type": "input_image", "image_url": "data:image/png;base64," + PIXEL}
    return {"role": "user", "content": [{"type": "input_text", "text": text}, picture] if image else text}


def _responses_answer(text: str, thought: str, calls: list[Made]) -> list[Native]:
    items: list[Native] = []
    if thought:
        summary = [{"type": "summary_text", "text": thought}]
        items.append({"type": "reasoning", "id": "rs", "summary": summary, "encrypted_content": "x" * len(thought)})
    if text or not calls:
        items.append({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]})
    return items + [
        {"type": "function_call", "call_id": one.id, "name": one.call.tool, "arguments": one.argument} for one in calls
    ]


def _responses_results(calls: list[Made]) -> list[Native]:
    return [
        {
            "type": "function_call_output",
            "call_id": one.id,
            "output": _responses_user(one.result, one.call.image)["content"],
        }
        for one in calls
    ]


def _anthropic_user(text: str, image: bool) -> Native:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    return {"role": "user", "content": [{"type": "text", "text": text}, picture] if image else text}


def _anthropic_answer(text: str, thought: str, calls: list[Made]) -> list[Native]:
    blocks: list[Native] = []
    if thought:
        blocks.append({"type": "thinking", "thinking": thought, "signature": "s" * 40})
    if text or not calls:
        blocks.append({"type": "text", "text": text or "."})
    blocks += [
        {"type": "tool_use", "id": one.id, "name": one.call.tool, "input": json.loads(one.argument)} for one in calls
    ]
    return [{"role": "assistant", "content": blocks}]


def _anthropic_results(calls: list[Made]) -> list[Native]:
    blocks = [
        {
            "type": "tool_result",
            "tool_use_id": one.id,
            "content": _anthropic_user(one.result, one.call.image)["content"],
        }
        for one in calls
    ]
    return [{"role": "user", "content": blocks}]


def _gemini_user(text: str, image: bool) -> Native:
    picture = [{"inlineData": {"mimeType": "image/png", "data": PIXEL}}] if image else []
    return {"role": "user", "parts": [{"text": text}, *picture]}


def _gemini_answer(text: str, thought: str, calls: list[Made]) -> list[Native]:
    parts: list[Native] = [{"text": thought, "thought": True}] if thought else []
    if text or not calls:
        parts.append({"text": text or "."})
    for number, one in enumerate(calls):
        call = {"name": one.call.tool, "args": json.loads(one.argument), **({"id": one.id} if one.id else {})}
        signed = {"thoughtSignature": "c2ln" * 9} if thought and not number else {}
        parts.append({"functionCall": call, **signed})
    return [{"role": "model", "parts": parts}]


def _gemini_results(calls: list[Made]) -> list[Native]:
    parts = []
    for one in calls:
        response: Native = {"name": one.call.tool, "response": {"result": one.result}}
        if one.id:
            response["id"] = one.id
        if one.call.image:
            response["parts"] = [{"inlineData": {"mimeType": "image/png", "data": PIXEL}}]
        parts.append({"functionResponse": response})
    return [{"role": "user", "parts": parts}]


WRITERS: Mapping[str, Writer] = {
    "openai_chat": Writer(_chat_user, _chat_answer, _chat_results, lambda text: {"role": "system", "content": text}),
    "openai_responses": Writer(
        _responses_user, _responses_answer, _responses_results, lambda text: {"role": "developer", "content": text}
    ),
    "anthropic": Writer(
        _anthropic_user,
        _anthropic_answer,
        _anthropic_results,
        lambda text: {"role": "system", "content": text},
        content="content",
    ),
    "gemini": Writer(_gemini_user, _gemini_answer, _gemini_results, content="parts"),
}
