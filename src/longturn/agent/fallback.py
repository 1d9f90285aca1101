"""Fits a request for each candidate of a `FallbackModel` by itself: which one serves it is known only there (H16)."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from copy import copy
from typing import Any

from pydantic_ai.exceptions import ModelAPIError
from pydantic_ai.messages import ModelMessage, ModelResponse, repair_messages
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import RunContext

from longturn.agent.conversation import Asked, Conversation, Route
from longturn.errors import ContextWindowExceeded
from longturn.overflow import overflow


def each_fitted(fallback: FallbackModel, conversation: Conversation) -> FallbackModel:
    """A copy whose candidates fit what they are given; the one that was handed in stays as it is."""
    fitted = copy(fallback)
    fitted.models = [
        each_fitted(model, conversation) if isinstance(model, FallbackModel) else FittedModel(model, conversation)
        for model in fallback.models
    ]
    return fitted


class FittedModel(WrapperModel):
    """One candidate: the window is made, refused and made again here, before the next candidate is tried."""

    def __init__(self, wrapped: Model, conversation: Conversation) -> None:
        super().__init__(wrapped)
        self._conversation = conversation

    def prepare_messages(
        self, messages: list[ModelMessage], model_request_parameters: ModelRequestParameters | None = None
    ) -> list[ModelMessage]:
        """Nothing yet: a window is made of the messages as they are, and prepared then."""
        return messages

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Ask the candidate with a window of its own."""
        asked = Asked(self.wrapped, messages, model_settings, model_request_parameters)
        while True:
            route, window, settings = await self._window(asked)
            try:
                response = await self.wrapped.request(window, settings, model_request_parameters)
            except ModelAPIError as error:
                if not self._conversation.recovers(route, overflow(error)):
                    raise
                continue
            found = self._conversation.overflowed(route, response)
            if found is None or not self._conversation.recovers(route, found):
                self._conversation.observe(route, response.usage)
                return response
            self._conversation.observe(route, response.usage, "failed")

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """The same as a stream; a refusal while it opens is recovered from, one in the midst of it is not."""
        asked = Asked(self.wrapped, messages, model_settings, model_request_parameters)
        async with AsyncExitStack() as stack:
            while True:
                route, window, settings = await self._window(asked)
                opening = self.wrapped.request_stream(window, settings, model_request_parameters, run_context)
                try:
                    stream = await stack.enter_async_context(opening)
                    break
                except ModelAPIError as error:
                    if not self._conversation.recovers(route, overflow(error)):
                        raise
            yield stream
            self._conversation.observe(route, stream.usage)

    async def _window(self, asked: Asked) -> tuple[Route, list[ModelMessage], ModelSettings | None]:
        try:
            fitted = await self._conversation.fit(asked)
        except ContextWindowExceeded as exceeded:
            # What a FallbackModel goes on from to the next candidate, whose window may be larger.
            raise ModelAPIError(self.model_name, str(exceeded)) from exceeded
        assert self._conversation.current is not None
        window = repair_messages(fitted.messages)
        prepared = self.wrapped.prepare_messages(window, asked.parameters)
        return self._conversation.current, prepared, fitted.settings
