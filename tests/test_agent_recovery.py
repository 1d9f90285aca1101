"""An agent's recovery from a refusal for length (H24-H26), through the providers' own SDKs against a real server."""

import asyncio
import json
import logging
from itertools import pairwise
from typing import Any

import pytest
from pydantic_ai import Agent, UsageLimits
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models.fallback import FallbackModel

from longturn.agent import TOO_LONG, ConversationTooLong, LongTurn, OverflowMet, UsageReported
from longturn.agent.words import AgentEvent
from longturn.core.events import HistoryTrimmed, ResultsCleared
from tests.agents import CHAPTER, MODELS, play, reader, results
from tests.wires import Answer, Body, Refusal, Wire, chapters, serving

WINDOW = 9_000
STREAMED = ("openai_chat", "anthropic")


def ask(agent: Agent[None, Any], prompt: str = "Read the book.", *, streamed: bool = False) -> Any:
    """One run, with its clients closed behind it."""

    async def run() -> Any:
        async with agent:
            if not streamed:
                return await agent.run(prompt)
            async with agent.run_stream(prompt) as stream:
                await stream.get_output()
                return stream

    return asyncio.run(run())


@pytest.mark.parametrize("name", MODELS)
def test_a_refusal_in_each_providers_own_words_is_recovered_from_h24_h25(name: str) -> None:
    events: list[AgentEvent] = []
    with serving(chapters(40), window=WINDOW) as wire:
        done = ask(reader(MODELS[name](wire.url), LongTurn(capacity=40_000, budget=32_000, observer=events.append)))
        assert done.output == "I read 40 chapters."
        assert wire.problems == []
        assert wire.statuses.count(400) == len([event for event in events if isinstance(event, OverflowMet)]) >= 1
        refused = wire.statuses.index(400)
        sizes = [len(str(body)) for body in wire.bodies]
        assert sizes[refused + 1] <= sizes[refused] * 3 / 4
    # The transcript is whole: it is the window that is shaped (H1).
    assert [text.startswith(f"Chapter {n}.") for n, text in enumerate(results(done.all_messages()), 1)] == [True] * 40
    assert any(isinstance(event, HistoryTrimmed | ResultsCleared) for event in events)


@pytest.mark.parametrize("name", STREAMED)
def test_a_refusal_while_a_stream_opens_is_recovered_from_h24(name: str) -> None:
    with serving(chapters(40), window=WINDOW) as wire:
        stream = ask(reader(MODELS[name](wire.url), LongTurn(capacity=40_000, budget=32_000)), streamed=True)
        assert 400 in wire.statuses
        assert wire.statuses[-1] == 200
        assert wire.problems == []
    assert len(results(stream.all_messages())) == 40


@pytest.mark.parametrize("name", ["openai_chat", "anthropic", "gemini"])
def test_a_run_without_the_capability_is_refused_on_the_same_server_h24(name: str) -> None:
    with serving(chapters(40), window=WINDOW) as wire:
        agent: Agent[None, str] = Agent(MODELS[name](wire.url))

        @agent.tool_plain
        def read(n: int) -> str:
            return f"Chapter {n}. {CHAPTER}"

        with pytest.raises(ModelHTTPError):
            ask(agent)


def test_each_attempt_is_strictly_smaller_and_there_are_only_a_few_h24() -> None:
    """A server that refuses whatever it is sent: at most four attempts more, then the person is told (L17)."""
    events: list[AgentEvent] = []

    def script(number: int, body: Body) -> Answer | Refusal:
        error = {"message": "maximum context length", "code": "context_length_exceeded"}
        return Answer(chapters=(number + 1,)) if number < 20 else Refusal(400, {"error": error})

    with serving(script) as wire:
        done = ask(reader(MODELS["openai_chat"](wire.url), LongTurn(budget=32_000, observer=events.append)))
        assert done.output == TOO_LONG
        sizes = wire.sizes(400)
        assert 2 <= len(sizes) <= 5
        assert all(later < earlier for earlier, later in pairwise(sizes))
    assert sum(isinstance(event, ConversationTooLong) for event in events) == 1


def test_a_request_that_is_invalid_for_another_reason_is_not_sent_again_h26_l16() -> None:
    error = {"message": "Invalid schema for function 'read'", "type": "invalid_request_error", "code": "invalid"}
    for status in (400, 422):
        with serving(lambda _number, _body, status=status: Refusal(status, {"error": error})) as wire:  # type: ignore[misc]
            agent = reader(MODELS["openai_chat"](wire.url), LongTurn(budget=32_000))
            with pytest.raises(ModelHTTPError, match="Invalid schema"):
                ask(agent)
            assert wire.statuses == [status]


def test_a_refusal_that_is_about_the_output_lowers_that_and_leaves_the_history_alone_h24() -> None:
    events: list[AgentEvent] = []

    def script(number: int, body: Body) -> Answer | Refusal:
        if body["max_tokens"] > 5_000:
            message = f"input length and `max_tokens` exceed context limit: 3000 + {body['max_tokens']} > 8000"
            return Refusal(400, {"type": "error", "error": {"type": "invalid_request_error", "message": message}})
        return Answer("Short.")

    with serving(script) as wire:
        capability: LongTurn[None] = LongTurn(observer=events.append)
        agent = reader(MODELS["anthropic"](wire.url), capability, model_settings={"max_tokens": 6_000})
        assert ask(agent).output == "Short."
        first, second = wire.bodies
        assert second["max_tokens"] == 5_000
        assert {**second, "max_tokens": 0} == {**first, "max_tokens": 0}
    (met,) = [event for event in events if isinstance(event, OverflowMet)]
    assert (met.max_output, met.limit) == (5_000, 8_000)


@pytest.mark.parametrize("stop", ["model_context_window_exceeded"])
def test_an_answer_that_the_window_cut_short_is_asked_for_again_h24(stop: str) -> None:
    """Anthropic says so in a good response; what it cost is counted as failed (S13)."""
    events: list[AgentEvent] = []

    def script(number: int, body: Body) -> Answer:
        if number < 12:
            return Answer(chapters=(number + 1,))
        return Answer("Cut", stop=stop) if number == 12 else Answer("Whole.")

    with serving(script) as wire:
        capability: LongTurn[None] = LongTurn(capacity=40_000, budget=32_000, observer=events.append)
        done = ask(reader(MODELS["anthropic"](wire.url), capability, model_settings={"max_tokens": 1_000}))
        assert done.output == "Whole."
        assert len(str(wire.bodies[13])) < len(str(wire.bodies[12]))
    assert [event.kind for event in events if isinstance(event, UsageReported)] == ["call"] * 12 + ["failed", "call"]


def test_when_nothing_is_left_to_leave_out_a_person_reads_a_plain_sentence_l17(caplog: Any) -> None:
    """L17: the final text and an event; log level info, no error."""
    caplog.set_level(logging.DEBUG)
    events: list[AgentEvent] = []
    with serving(chapters(1), window=100) as wire:
        done = ask(reader(MODELS["openai_chat"](wire.url), LongTurn(observer=events.append)), "Read " + CHAPTER)
    assert done.output == TOO_LONG
    assert "start a new chat" in TOO_LONG
    assert isinstance(done.all_messages()[-1], ModelResponse)
    (told,) = [event for event in events if isinstance(event, ConversationTooLong)]
    assert (told.model, told.capacity) == ("openai:gpt-test", 100)
    ours = [record for record in caplog.records if record.name == "longturn"]
    assert [record.levelname for record in ours] == ["INFO"]
    assert "rainy" not in caplog.text.split("longturn")[-1]


def test_the_providers_error_is_raised_where_that_is_wanted_l17() -> None:
    with serving(chapters(1), window=100) as wire:
        agent = reader(MODELS["openai_chat"](wire.url), LongTurn(on_too_long="raise"))
        with pytest.raises(ModelHTTPError, match="maximum context length"):
            ask(agent, "Read " + CHAPTER)


def test_an_output_that_is_no_text_cannot_say_it_so_the_error_is_raised_l17() -> None:
    with serving(chapters(1), window=100) as wire:
        agent = reader(MODELS["openai_chat"](wire.url), LongTurn(), output_type=int)
        with pytest.raises(ModelHTTPError):
            ask(agent, "Read " + CHAPTER)


# --- fallbacks ---


def served(wire: Wire, name: str = "openai_chat") -> Any:
    return MODELS[name](wire.url)


@pytest.mark.parametrize("streamed", [False, True])
def test_each_candidate_of_a_fallback_model_gets_a_window_of_its_own_h16(streamed: bool) -> None:
    """The first fails at the 20th request; the second, with a window of a fifth, takes over and reads on."""

    def failing(number: int, body: Body) -> Answer | Refusal:
        return (
            Refusal(404, {"error": {"message": "gone", "code": "model_not_found"}})
            if number >= 20
            else small(number, body)
        )

    small = chapters(40)
    sizes = {"openai:gpt-test": 60_000, "anthropic:claude-sonnet-5-5": 6_000}
    with serving(failing) as first, serving(lambda n, body: small(n + 20, body)) as second:
        model = FallbackModel(served(first), served(second, "anthropic"))
        capability: LongTurn[None] = LongTurn(capacity=lambda model: sizes[model.model_id])
        done = ask(reader(model, capability, model_settings={"max_tokens": 500}), streamed=streamed)
        assert first.problems + second.problems == []
        assert max(first.sizes()) > 6_500
        assert max(second.sizes()) < 6_500
        assert len(second.sizes()) == 21
    assert len(results(done.all_messages())) == 40


def test_a_refusal_is_recovered_from_before_the_next_candidate_is_tried_h16_h24() -> None:
    with serving(chapters(30), window=WINDOW) as first, serving(chapters(0)) as second:
        model = FallbackModel(served(first), served(second))
        done = ask(reader(model, LongTurn(capacity=40_000, budget=32_000)))
        assert done.output == "I read 30 chapters."
        assert 400 in first.statuses
        assert second.bodies == []


def test_a_candidate_that_is_too_small_is_passed_over_and_the_last_one_ends_it_plainly_h16_l17() -> None:
    long = "Read " + CHAPTER * 4
    with serving(chapters(0)) as first, serving(chapters(0)) as second:
        sizes = {"openai:gpt-test": 300, "anthropic:claude-sonnet-5-5": 6_000}
        model = FallbackModel(served(first), served(second, "anthropic"))
        capability: LongTurn[None] = LongTurn(capacity=lambda model: sizes[model.model_id])
        agent = reader(model, capability, model_settings={"max_tokens": 10})
        assert ask(agent, long).output == "I read 0 chapters."
        assert first.bodies == []
        sizes["anthropic:claude-sonnet-5-5"] = 300
        capability = LongTurn(capacity=lambda model: sizes[model.model_id])
        agent = reader(FallbackModel(served(first), served(second, "anthropic")), capability)
        assert ask(agent, long).output == TOO_LONG


def test_limits_of_usage_still_hold_where_a_request_is_made_again() -> None:
    with serving(chapters(40), window=WINDOW) as wire:
        agent = reader(served(wire), LongTurn(capacity=40_000, budget=32_000))

        async def run() -> Any:
            async with agent:
                return await agent.run("Read.", usage_limits=UsageLimits(request_limit=60))

        done = asyncio.run(run())
        assert done.usage.requests == 41
        assert len(wire.bodies) > 41


# --- restarts ---


def test_after_a_restart_the_next_window_is_the_one_it_would_have_been_l9() -> None:
    """L9, B34: calibration, and what a refusal said, go with the dump."""
    with serving(chapters(30), window=WINDOW) as wire:
        before: LongTurn[None] = LongTurn(capacity=40_000, budget=32_000)
        done = ask(reader(served(wire), before))
        dumped = json.loads(json.dumps(before.dump(done.conversation_id)))
        after: LongTurn[None] = LongTurn(capacity=40_000, budget=32_000)
        after.load(done.conversation_id, dumped)
        wire.script = chapters(0)
        for capability in (before, after):
            play(reader(served(wire), capability), "Go on.", message_history=done.all_messages())
        assert wire.bodies[-1] == wire.bodies[-2]
        assert after.meters(done.conversation_id) == before.meters(done.conversation_id)
        # Without it the refusal is met again.
        play(reader(served(wire), LongTurn(capacity=40_000, budget=32_000)), message_history=done.all_messages())
        assert wire.statuses[-2:] == [400, 200]
