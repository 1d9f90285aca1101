"""Subagents: tools that hand a task to another agent, in a session of its own; only the last word comes back."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pydantic_ai import Agent
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.messages import ModelMessage, ModelRequest, ToolReturnPart
from pydantic_ai.tools import RunContext, Tool

from longturn.agent.beginning import is_answered
from longturn.arguments import whole
from longturn.errors import StoreError

AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class Subagents:
    """Who works on delegated tasks, and how.

    agent: who. tool: the name of the tool that delegates; description: what the delegating model reads of it.
    at_once: so many work at the same time in one session, the others wait for their turn.
    session: further arguments of `Session.open` for their sessions, such as `budget`, `policy`, `max_iterations`.
    run: further arguments of their runs, such as `timeout` in seconds and `usage_limits`; `deps` are the caller's own.
    """

    agent: Agent[Any, Any]
    tool: str = "delegate"
    description: str = (
        "Hand a task to a subagent that works on it alone. It knows only the task as you write it; you get its last "
        "answer. Several can work at the same time."
    )
    at_once: int = AT_ONCE
    session: Mapping[str, Any] = field(default_factory=dict)
    run: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        whole("at_once", self.at_once, least=1)


@dataclass(frozen=True, slots=True)
class FromSubagent:
    """What happened in a subagent's session (H28)."""

    session: str
    event: Any


class Working(Protocol):
    """The session that a subagent works in."""

    @property
    def messages(self) -> list[ModelMessage]:
        """Its transcript."""

    async def run(self, prompt: str | None = None, **options: Any) -> Any:
        """Take a turn, or go on with one that was cut off."""


Opens = Callable[[Subagents, str], Awaitable[Working]]
"""Opens, or resumes, a subagent's session: whose, and the id of the call that delegates."""


def delegating(subagents: Subagents, opens: Opens) -> Tool[Any]:
    """The tool that delegates."""
    places = asyncio.Semaphore(subagents.at_once)

    async def delegate(ctx: RunContext[Any], task: str) -> Any:
        async with places:
            session = await opens(subagents, ctx.tool_call_id or "")
            try:
                return await _worked(session, task, {"deps": ctx.deps, **subagents.run})
            except StoreError:
                raise
            except Exception as error:  # a tool's call: its agent is told, and decides
                raise ToolFailed(f"The subagent failed: {type(error).__name__}: {error}") from error

    return Tool(delegate, name=subagents.tool, description=subagents.description)


async def _worked(session: Working, task: str, options: Mapping[str, Any]) -> Any:
    """The last word; a subagent whose parent was killed in mid-work goes on where it was."""
    messages = session.messages
    if messages and is_answered(messages):
        return getattr(messages[-1], "text", None)
    return await session.run(None if messages else task, **options)


def name_of(parent: str, call_id: str, transcript: Sequence[ModelMessage]) -> str:
    """The name of a subagent's session: of its parent and its call, told apart by place where ids are repeated."""
    before = [
        part
        for message in transcript
        if isinstance(message, ModelRequest)
        for part in message.parts
        if isinstance(part, ToolReturnPart) and part.tool_call_id == call_id
    ]
    return f"{parent}/{call_id}" + (f"-{len(before)}" if before else "")
