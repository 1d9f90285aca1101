"""Capabilities that record an agent's run: each message before the call that depends on it, each long result whole."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from pydantic_ai import ModelRequestNode
from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering, WrapRunHandler
from pydantic_ai.capabilities.abstract import AgentNode, NodeResult
from pydantic_ai.exceptions import UsageLimitExceeded
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ToolCallPart,
    ToolReturn,
    ToolReturnPart,
    repair_messages,
)
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.run import AgentRunResult
from pydantic_ai.tools import RunContext, Tool, ToolDefinition
from pydantic_ai.toolsets import FunctionToolset
from pydantic_core import PydanticSerializationError, to_jsonable_python

from longturn.agent.capability import LongTurn
from longturn.agent.conversation import Conversation
from longturn.agent.recording import Recording
from longturn.core.edits import bound_result
from longturn.errors import StoreError
from longturn.stores.conversations import MESSAGE
from longturn.stores.records import Kind


class Recorder(AbstractCapability[Any]):
    """Records one run of a session, and brings the session's tools.

    known: the messages that the run was given and that are recorded. said: of the last of them, the parts that are,
    where the run goes on with it in one message with what is new.
    most_characters: a result that is longer is kept whole apart, and bounded in the transcript (B22); 0 for no bound.
    """

    def __init__(
        self,
        recording: Recording,
        conversation: Conversation,
        *,
        known: Sequence[ModelMessage],
        said: Sequence[ModelRequestPart] = (),
        most_characters: int = 50_000,
        tools: Sequence[Tool[Any]] = (),
    ) -> None:
        self.id, self.description, self.defer_loading = None, None, False
        self._recording = recording
        self._conversation = conversation
        self._said = said
        self._most = most_characters
        self._tools = tools
        # By identity; the messages are held, so that no other object takes an id.
        self._seen = {id(message): message for message in known}
        self._live: Sequence[ModelMessage] = ()

    def get_ordering(self) -> CapabilityOrdering:
        """In front of all others: what they made of a message or a result is what is recorded."""
        return CapabilityOrdering(position="outermost")

    def get_toolset(self) -> FunctionToolset[Any] | None:
        """The session's own tools."""
        return FunctionToolset(self._tools, id="longturn-session") if self._tools else None

    async def wrap_run(self, ctx: RunContext[Any], *, handler: WrapRunHandler) -> AgentRunResult[Any]:
        """Record what the run ends with, however it ends; half an answer is no message and is lost with its call."""
        try:
            result = await handler()
        except BaseException as error:
            cut = None if isinstance(error, UsageLimitExceeded) else _half(self._live)
            with suppress(StoreError):  # it waits on, and the run's own error says more
                await self._take([message for message in self._live if message is not cut])
            raise
        await self._take(result.all_messages())
        return result

    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """What is asked and what tools returned is on disk before the model is called.

        The window is made of the messages as a later run will be given them, neighbouring requests joined (L9).
        """
        await self._take(ctx.messages)
        request_context.messages = repair_messages(request_context.messages, repair_last_response=False)
        return request_context

    async def after_node_run(
        self, ctx: RunContext[Any], *, node: "AgentNode[Any]", result: "NodeResult[Any]"
    ) -> "NodeResult[Any]":
        """An answer is on disk before its tools run."""
        self._live = ctx.messages
        if isinstance(node, ModelRequestNode):
            await self._take(ctx.messages)
        return result

    async def before_node_run(self, ctx: RunContext[Any], *, node: "AgentNode[Any]") -> "AgentNode[Any]":
        """Follow the run's own list, which is not there when the run begins."""
        self._live = ctx.messages
        return node

    async def after_tool_execute(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: ToolDefinition, args: Any, result: Any
    ) -> Any:
        """Results as they will be read back from the store, and no longer than they may be; the whole is kept."""
        if isinstance(result, ToolReturn):
            return replace(result, return_value=self._bounded(call, result.return_value))
        return self._bounded(call, result)

    def _bounded(self, call: ToolCallPart, content: Any) -> Any:
        part = _stored(ToolReturnPart(call.tool_name, content, call.tool_call_id))
        text = part.model_response_str()
        if not self._most or len(text) <= self._most:
            return part.content
        self._recording.keep("result", {"tool": call.tool_name, "text": text}, call.tool_call_id)
        short = bound_result(text, self._most)
        return [short, *part.files] if part.files else short

    async def _take(self, messages: Sequence[ModelMessage]) -> None:
        self._live = messages
        new = [message for message in messages if id(message) not in self._seen]
        self._seen |= {id(message): message for message in new}
        self._recording.take([piece for piece in map(self._fresh, new) if piece is not None])
        await self.seal()

    async def seal(self, *, only: Kind | None = None) -> None:
        """Record what waits, and what the routes have learnt; `only` where something of that kind does."""
        self._recording.note(self._conversation.states)
        if only is None or self._recording.holds(only):
            await self._recording.flush()

    def _fresh(self, message: ModelMessage) -> ModelMessage | None:
        """What of a new message is not recorded yet."""
        if not isinstance(message, ModelRequest):
            return message
        if not self._said and message.parts:
            return message
        parts = [part for part in message.parts if not any([part is said for said in self._said])]
        return replace(message, parts=parts) if parts else None


class Seal(AbstractCapability[Any]):
    """A checkpoint that was made for a request is on disk before the request is sent (S8)."""

    def __init__(self, recorder: Recorder) -> None:
        self.id, self.description, self.defer_loading = None, None, False
        self._recorder = recorder

    def get_ordering(self) -> CapabilityOrdering:
        """Behind the one that makes the windows."""
        return CapabilityOrdering(position="innermost", wrapped_by=[LongTurn])

    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Record it; what only tells of the request is recorded with its answer."""
        await self._recorder.seal(only="checkpoint")
        return request_context


def _half(messages: Sequence[ModelMessage]) -> ModelMessage | None:
    """The answer that was cut off, where the list ends with one."""
    last = messages[-1] if messages else None
    return last if isinstance(last, ModelResponse) and last.state == "interrupted" else None


def _stored(part: ToolReturnPart) -> ToolReturnPart:
    """A result as it comes back from a store, so that windows before and after a restart are equal (L9)."""
    if isinstance(part.content, str):
        return part
    try:
        read = MESSAGE.validate_python(MESSAGE.dump_python(ModelRequest([part]), mode="json", warnings="none"))
    except PydanticSerializationError:
        # Bytes that are no text, or objects of the tool's own: Pydantic AI would end the run over them.
        return replace(part, content=to_jsonable_python(part.content, bytes_mode="base64", serialize_unknown=True))
    found = read.parts[0]
    assert isinstance(found, ToolReturnPart)
    return found
