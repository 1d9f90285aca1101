"""Agents for tests: with a model of Pydantic AI's own classes and SDKs, or of a function; and a tool that says much."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pydantic_ai import Agent, UsageLimits
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.google import GoogleModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.google import GoogleProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.usage import RequestUsage

import longturn
from longturn.agent import DIALECT, LongTurn

CHAPTER = "It was a long and rainy night, and nobody came to the door. " * 20

MODELS: dict[str, Callable[[str], Model]] = {
    "openai_chat": lambda url: OpenAIChatModel("gpt-test", provider=OpenAIProvider(base_url=url + "/v1", api_key="k")),
    "openai_responses": lambda url: OpenAIResponsesModel(
        "gpt-test", provider=OpenAIProvider(base_url=url + "/v1", api_key="k")
    ),
    "anthropic": lambda url: AnthropicModel("claude-sonnet-5-5", provider=AnthropicProvider(base_url=url, api_key="k")),
    "gemini": lambda url: GoogleModel("gemini-test", provider=GoogleProvider(base_url=url, api_key="k")),
}
"""By the dialect of its wire, a model that talks to a server at an address."""


def reader(model: Model, capability: LongTurn[None], **more: Any) -> Agent[None, Any]:
    """An agent with the tool `read`, which gives one chapter: some 300 tokens."""
    agent: Agent[None, Any] = Agent(model, capabilities=[capability], **more)

    @agent.tool_plain
    def read(n: int) -> str:
        """Read one chapter."""
        return f"Chapter {n}. {CHAPTER}"

    return agent


@dataclass
class Scripted:
    """A model in this process that reads so many chapters; `seen` is what it was sent, call by call."""

    last: int
    seen: list[list[ModelMessage]] = field(default_factory=list)
    infos: list[AgentInfo] = field(default_factory=list)

    def __call__(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.seen.append(messages)
        self.infos.append(info)
        number = len(self.seen)
        # As this library counts, so that nothing is calibrated: 107 for the instructions and the tool.
        usage = RequestUsage(input_tokens=tokens(messages) + 107, output_tokens=9)
        if number > self.last or (info.model_settings or {}).get("tool_choice") == "none":
            return ModelResponse([TextPart(f"I read {number - 1} chapters.")], usage=usage)
        return ModelResponse([ToolCallPart("read", {"n": number}, f"call_{number}")], usage=usage)

    @property
    def model(self) -> FunctionModel:
        return FunctionModel(self)


def tokens(messages: list[ModelMessage]) -> int:
    """What messages count as, without instructions and tools."""
    return longturn.fit(messages, dialect=DIALECT, model="test:x", budget=1 << 40).tokens


def play(agent: Agent[None, Any], prompt: str = "Read.", *, request_limit: int | None = None, **more: Any) -> Any:
    """One run in a loop of its own, with the agent's clients closed behind it."""

    async def run() -> Any:
        async with agent:
            limits = more.pop("usage_limits", UsageLimits(request_limit=request_limit))
            return await agent.run(prompt, usage_limits=limits, **more)

    return asyncio.run(run())


def results(messages: list[ModelMessage]) -> list[str]:
    """The texts of all tool results, in order."""
    return [
        part.model_response_str()
        for message in messages
        if isinstance(message, ModelRequest)
        for part in message.parts
        if isinstance(part, ToolReturnPart)
    ]
