"""`recall`: a tool's whole result again, by its call's id, where a window has it cleared or the transcript bounded."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, ToolCallPart, ToolReturnPart

from longturn.stores import Store

PAGE = 8_000
"""Characters that the tool gives at once."""
LISTED = 20
"""Results that are named where an id is not known, the newest."""

RECALLABLE = (
    "[This tool result was cleared to keep the conversation inside the model's context. It is kept: call recall with "
    "the id of its tool call to read it again. Call recall with an empty id for a list.]"
)
"""Replaces an old tool result where the agent can recall it (B14)."""


class Recallable(Mapping[str, str]):
    """Texts for cleared results by tool name, as a policy has them; `RECALLABLE` for every other tool."""

    __slots__ = ("_own",)

    def __init__(self, own: Mapping[str, str]) -> None:
        self._own = own

    def __getitem__(self, tool: str) -> str:
        return self._own.get(tool, RECALLABLE)

    def __iter__(self) -> Iterator[str]:
        return iter(self._own)

    def __len__(self) -> int:
        return len(self._own)


async def recalled(store: Store, session: str, transcript: Sequence[ModelMessage], result_id: str) -> str | None:
    """The whole text of the newest result of that call id; None where there is none."""
    kept = await store.find(session, result_id) if result_id else None
    if kept is not None:
        return str(kept.body["text"])
    results = (part for part in _results(transcript) if part.tool_call_id == result_id)
    found = next(results, None)
    return None if found is None else found.model_response_str()


def page_of(text: str, page: int, size: int = PAGE) -> str:
    """One page of a text, the first is 1; with how to get the next one."""
    pages = max(1, -(-len(text) // size))
    here = min(max(1, page), pages)
    shown = text[(here - 1) * size : here * size]
    return shown if pages == 1 else f"[page {here} of {pages}]\n{shown}"


def listed(transcript: Sequence[ModelMessage]) -> str:
    """The newest results by id, with the calls that they answer; for whoever does not know the id."""
    calls: dict[str, ToolCallPart] = {}
    for message in transcript:
        if isinstance(message, ModelResponse):
            calls |= {call.tool_call_id: call for call in message.tool_calls}
    lines = []
    for part in _results(transcript):
        call = calls.get(part.tool_call_id)
        arguments = "" if call is None else call.args_as_json_str()[:80]
        lines.append(f"{part.tool_call_id}: {part.tool_name}({arguments}), {len(part.model_response_str())} characters")
        if len(lines) == LISTED:
            break
    return "\n".join(lines) or "There are no results yet."


def _results(transcript: Sequence[ModelMessage]) -> Iterator[ToolReturnPart]:
    """The newest first."""
    for message in reversed(transcript):
        parts: Sequence[Any] = message.parts if isinstance(message, ModelRequest) else ()
        yield from (part for part in reversed(parts) if isinstance(part, ToolReturnPart))
