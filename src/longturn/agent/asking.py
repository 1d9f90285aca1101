"""The summarizer that comes with the agent: it asks the agent's own model, or the one that the policy names."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import cast

from pydantic_ai.direct import model_request
from pydantic_ai.messages import ModelMessage, repair_messages
from pydantic_ai.models import Model, ModelRequestParameters, infer_model
from pydantic_ai.settings import ModelSettings

from longturn.agent.conversation import Asked, Conversation, usage_of
from longturn.agent.words import UsageReported
from longturn.core.summary import SummaryFailed
from longturn.summaries import Summary, SummaryRequest


def asking(conversation: Conversation) -> Callable[[SummaryRequest], Awaitable[Summary]]:
    """A summarizer for one conversation; what it costs counts as "summary", in the meter and in the run's usage."""

    async def ask(request: SummaryRequest) -> Summary:
        assert conversation.current is not None
        asked = conversation.current.asked
        is_own = request.model is None
        model = asked.model if is_own else infer_model(_named(request))
        parameters = _parameters(asked) if is_own else ModelRequestParameters()
        settings = {**(asked.settings or {})} if is_own and asked.settings else {}
        settings |= {**request.parameters, "max_tokens": request.max_tokens}
        if parameters.function_tools:
            settings["tool_choice"] = "none"
        return await _asked(conversation, model, request, cast(ModelSettings, settings), parameters)

    return ask


async def _asked(
    conversation: Conversation,
    model: Model,
    request: SummaryRequest,
    settings: ModelSettings,
    parameters: ModelRequestParameters,
) -> Summary:
    messages = repair_messages(cast(list[ModelMessage], request.messages))
    response = await model_request(
        model,
        model.prepare_messages(messages, parameters),
        model_settings=settings,
        model_request_parameters=parameters,
    )
    if conversation.spent is not None:
        conversation.spent.incr(response.usage)
    usage = usage_of(response.usage)
    conversation.rules.tell(UsageReported(model.model_id, usage, "summary"))
    if response.finish_reason == "length":
        raise SummaryFailed("the summary was cut off at its output limit")
    return Summary(response.text or "", usage if usage.input_tokens else None)


def _parameters(asked: Asked) -> ModelRequestParameters:
    """Instructions and tools as the agent sends them, so that the prefix cache serves the head; a text is answered."""
    return replace(asked.parameters, output_mode="text", output_tools=[], output_object=None, allow_text_output=True)


def _named(request: SummaryRequest) -> str:
    model = request.model or ""
    return model if ":" in model or not request.provider else f"{request.provider}:{model}"
