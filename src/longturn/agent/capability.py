"""`LongTurn`: a Pydantic AI capability that keeps an agent's long turns inside the serving model's window."""

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, Literal

from pydantic_ai import CallToolsNode, ModelRequestNode
from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering, WrapRunHandler
from pydantic_ai.capabilities.abstract import AgentNode, NodeResult
from pydantic_ai.exceptions import FallbackExceptionGroup, RetryModelRequest, SkipModelRequest, UsageLimitExceeded
from pydantic_ai.messages import (
    ModelRequest,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestContext, ModelRequestParameters
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.run import AgentRunResult
from pydantic_ai.tools import AgentDepsT, RunContext

from longturn.agent.asking import asking
from longturn.agent.conversation import Asked, ByModel, Conversation, Rules, standing
from longturn.agent.fallback import each_fitted
from longturn.agent.messages import answers
from longturn.agent.words import LAST_STEP, NOT_RUN, NOTHING_SAID, TOO_LONG, LimitReached, Observer
from longturn.arguments import named_policy, summarizing
from longturn.core.meter import Meter
from longturn.core.policy import Budget, Policy
from longturn.core.texts import AGENT_NOTE
from longturn.errors import ConfigError, ContextWindowExceeded
from longturn.overflow import Overflow, overflow
from longturn.summaries import Summarize

MOST_CONVERSATIONS = 256
"""Of so many conversations calibration, checkpoints and refusals are kept between their runs; the oldest go first."""


class LongTurn(AbstractCapability[AgentDepsT]):
    """Fits every model request of an agent: `Agent(..., capabilities=[LongTurn()])`.

    The transcript (`result.all_messages()`) stays whole; only what is sent is shaped, for the model that really serves
    it, counting instructions, tools and what other capabilities added (H16, H18). A refusal for length is recovered
    from (H24); the provider's usage calibrates (L15); the agent's instructions tell it that old results may be cleared
    (L18). One instance may serve any number of runs at once.

    budget, capacity: what may be sent, and what the model takes, in tokens; as numbers, or as callables that are given
        the model. Without a capacity it is the one of the model's profile, else of the catalog.
    policy: a `Policy` or the name of a preset.
    summarize: True: when messages would be left out, the agent's own model (or the one that the policy's
        `summarization` names) is asked for a summary; or who else writes it, as for `Fitter`.
    observer: told of everything that happens to a window, of usage and of refusals; several are allowed. What one
        raises never breaks a run (H28).
    max_iterations: model requests in a run with tools; then a last answer without tools is asked for, as it is when the
        run's `UsageLimits` allow no further request or tool call (H19).
    on_too_long: "answer": a conversation that cannot go on ends with a plain sentence as its text (L17); "raise": with
        `ContextWindowExceeded` or the provider's error, as it always does where the output is no text.
    note: whether `AGENT_NOTE` goes into the instructions.
    """

    def __init__(
        self,
        *,
        budget: int | Budget | ByModel | None = None,
        capacity: int | ByModel | None = None,
        policy: Policy | str | None = None,
        summarize: bool | Summarize | Sequence[Summarize] = False,
        observer: Observer | Sequence[Observer] = (),
        max_iterations: int | None = None,
        on_too_long: Literal["answer", "raise"] = "answer",
        note: bool = True,
        id: str | None = None,  # noqa: A002  # as Pydantic AI calls it
    ) -> None:
        self.id, self.description, self.defer_loading = id, None, False
        if on_too_long not in ("answer", "raise"):
            raise ConfigError(f'on_too_long must be "answer" or "raise", got {on_too_long!r}')
        if max_iterations is not None and max_iterations < 1:
            raise ConfigError(f"max_iterations must be at least 1, got {max_iterations!r}")
        chosen = standing(summarizing(named_policy(policy), summarize or None))
        own = () if isinstance(summarize, bool) else (summarize,) if callable(summarize) else tuple(summarize)
        asks = not own and chosen.summarization is not None
        self._rules = Rules(
            policy=chosen,
            budget=budget,
            capacity=capacity,
            observers=(observer,) if callable(observer) else tuple(observer),
            summarizers=lambda conversation: (asking(conversation),) if asks else own,
        )
        self._max_iterations, self._on_too_long, self._note = max_iterations, on_too_long, note
        self._conversations: dict[str, Conversation] = {}
        self._conversation = Conversation(self._rules)
        self._is_last_step = False

    # --- The agent's side ----------------------------------------------------------------------------------------

    def get_ordering(self) -> CapabilityOrdering:
        """Behind all others, so that what they add is counted, and a refusal is seen here first."""
        return CapabilityOrdering(position="innermost")

    def get_instructions(self) -> str | None:
        """`AGENT_NOTE`, the same from the first call on (L18)."""
        return AGENT_NOTE if self._note else None

    def meters(self, conversation_id: str) -> Mapping[str, Meter]:
        """What was seen and spent in a conversation, by model (S12-S14); nothing for one that is not known here."""
        known = self._conversations.get(conversation_id)
        return {} if known is None else known.meters

    def dump(self, conversation_id: str) -> dict[str, object]:
        """What another process needs for the same windows, as JSON data; store it beside the messages (L9)."""
        known = self._conversations.get(conversation_id)
        return {} if known is None else dict(known.states)

    def load(self, conversation_id: str, dumped: Mapping[str, Any]) -> None:
        """Take up a conversation that was dumped; give this capability the same arguments as that one.

        A dump of another version or estimator raises ConfigError at the first request.
        """
        self.conversation(conversation_id).saved = dumped

    def conversation(self, conversation_id: str) -> Conversation:
        """What is known of a conversation, which its next run takes up; a new one where nothing is."""
        return self._conversations.setdefault(conversation_id, Conversation(self._rules))

    async def for_run(self, ctx: RunContext[AgentDepsT]) -> "LongTurn[AgentDepsT]":
        """One run's own instance; what is known of its conversation is shared with the runs before it."""
        run = copy(self)
        run._conversation = Conversation(self._rules)
        run._is_last_step = False
        return run

    async def wrap_run(self, ctx: RunContext[AgentDepsT], *, handler: WrapRunHandler) -> AgentRunResult[Any]:
        """Take the conversation up; a second run on it at the same time folds it by itself."""
        known = self._conversations.get(ctx.conversation_id or "")
        if known is not None and not known.busy:
            self._conversation = known
        conversation = self._conversation
        conversation.busy, conversation.spent = True, ctx.usage
        try:
            if known is None or known is conversation:
                self._keep(ctx.conversation_id)
            return await handler()
        finally:
            conversation.busy, conversation.spent = False, None

    def _keep(self, conversation_id: str | None) -> None:
        if conversation_id is None:
            return
        self._conversations.pop(conversation_id, None)
        self._conversations[conversation_id] = self._conversation
        idle = [key for key, each in self._conversations.items() if not each.busy]
        for key in idle[: max(0, len(self._conversations) - MOST_CONVERSATIONS)]:
            del self._conversations[key]

    # --- A request -----------------------------------------------------------------------------------------------

    async def before_model_request(
        self, ctx: RunContext[AgentDepsT], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """At the limit of steps: say so, and turn the tools off (H19)."""
        if not self._is_last_step and not self._is_limit_reached(ctx):
            return request_context
        parameters = request_context.model_request_parameters
        if not parameters.function_tools:
            return request_context
        self._is_last_step = True
        self._rules.tell(LimitReached(ctx.usage.requests, ctx.usage.tool_calls))
        # In the user's voice, and tools off by choice, not left out: a system prompt in mid-conversation makes Pydantic
        # AI change the first one (2.68), and the front of the request is to stay as it was (B23).
        ctx.enqueue(UserPromptPart(LAST_STEP))
        request_context.model_settings = {**(request_context.model_settings or {}), "tool_choice": "none"}
        return request_context

    def _is_limit_reached(self, ctx: RunContext[AgentDepsT]) -> bool:
        limits, usage = ctx.usage_limits, ctx.usage
        most = None if limits is None else limits.request_limit
        calls = None if limits is None else limits.tool_calls_limit
        return (
            (self._max_iterations is not None and ctx.run_step > self._max_iterations)
            or (most is not None and usage.requests + 1 >= most)
            or (calls is not None and usage.tool_calls >= calls)
        )

    async def prepare_model_request(
        self, ctx: RunContext[AgentDepsT], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Fit the request for the model that serves it (H16)."""
        conversation, model = self._conversation, request_context.model
        conversation.current = None
        if isinstance(model, FallbackModel):
            request_context.model = each_fitted(model, conversation)
            return request_context
        parameters = request_context.model_request_parameters
        asked = Asked(model, request_context.messages, request_context.model_settings, parameters)
        try:
            fitted = await conversation.fit(asked)
        except ContextWindowExceeded as exceeded:
            answer = self._too_long(overflow(exceeded), parameters)
            if answer is None:
                raise
            raise SkipModelRequest(answer) from exceeded
        request_context.messages, request_context.model_settings = fitted.messages, fitted.settings
        return request_context

    async def on_model_request_error(
        self, ctx: RunContext[AgentDepsT], *, request_context: ModelRequestContext, error: Exception
    ) -> ModelResponse:
        """A refusal for length: ask again with less (H24). Everything else is raised (H26)."""
        route = None if isinstance(request_context.model, FallbackModel) else self._conversation.current
        found = _refused(error)
        if found is None:
            raise error
        if route is not None and self._conversation.recovers(route, found):
            raise RetryModelRequest from error
        answer = self._too_long(found, request_context.model_request_parameters)
        if answer is None:
            raise error
        return answer

    async def after_model_request(
        self, ctx: RunContext[AgentDepsT], *, request_context: ModelRequestContext, response: ModelResponse
    ) -> ModelResponse:
        """Take in the usage (L15); an answer that the window cut short is asked for again, unless it was streamed."""
        conversation = self._conversation
        route, conversation.current = conversation.current, None
        if route is not None and not isinstance(request_context.model, FallbackModel):
            found = None if request_context.streaming else conversation.overflowed(route, response)
            if found is not None and conversation.recovers(route, found):
                conversation.observe(route, response.usage, "failed")
                raise RetryModelRequest
            conversation.observe(route, response.usage)
        return _without_calls(response, request_context) if self._is_last_step else response

    async def on_node_run_error(
        self, ctx: RunContext[AgentDepsT], *, node: "AgentNode[AgentDepsT]", error: Exception
    ) -> "NodeResult[AgentDepsT]":
        """More calls at once than the limit of tool calls allows: they are not run, and a last answer follows (H19)."""
        limit = None if ctx.usage_limits is None else ctx.usage_limits.tool_calls_limit
        is_limit = isinstance(error, UsageLimitExceeded) and not self._is_last_step
        if limit is None or not is_limit or not isinstance(node, CallToolsNode):
            raise error
        answered = {call_id for message in ctx.messages for part in message.parts if (call_id := answers(part))}
        left = [call for call in node.model_response.tool_calls if call.tool_call_id not in answered]
        if ctx.usage.tool_calls + len(left) <= limit:
            raise error
        self._is_last_step = True
        parts = [ToolReturnPart(call.tool_name, NOT_RUN, call.tool_call_id, outcome="denied") for call in left]
        return ModelRequestNode(ModelRequest(parts))

    def _too_long(self, found: Overflow | None, parameters: ModelRequestParameters) -> ModelResponse | None:
        """The last words where the output is a text and the caller wants them, else None (L17)."""
        self._conversation.too_long(self._conversation.current, found)
        self._conversation.current = None
        is_text = parameters.allow_text_output and parameters.output_object is None
        wanted = is_text and self._on_too_long == "answer"
        return ModelResponse([TextPart(TOO_LONG)], finish_reason="length") if wanted else None


def _refused(error: Exception) -> Overflow | None:
    """What an error says of length; of a group, only where every candidate says so."""
    if isinstance(error, FallbackExceptionGroup) and any(overflow(each) is None for each in error.exceptions):
        return None
    return overflow(error)


def _without_calls(response: ModelResponse, request_context: ModelRequestContext) -> ModelResponse:
    """An answer without calls that nobody would answer; some models call tools that were turned off."""
    output = {tool.name for tool in request_context.model_request_parameters.output_tools}
    kept: list[ModelResponsePart] = [
        part for part in response.parts if not isinstance(part, ToolCallPart) or part.tool_name in output
    ]
    if len(kept) == len(response.parts):
        return response
    has_answer = any([isinstance(part, TextPart | ToolCallPart) for part in kept])
    changed = copy(response)
    changed.parts = kept if has_answer else [*kept, TextPart(NOTHING_SAID)]
    return changed
