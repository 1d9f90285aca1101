"""Runs of an agent with `LongTurn`: routes, counting, calibration, limits of steps, observers, many runs at once."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from pydantic_ai import Agent, ModelRequestNode, RunContext, UsageLimits
from pydantic_ai.capabilities import AbstractCapability, Hooks, ModelFallback
from pydantic_ai.exceptions import ModelHTTPError, RetryModelRequest, UsageLimitExceeded
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestContext
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RequestUsage

import longturn
from longturn import AGENT_NOTE, CLEARED, NOTE, ConfigError, ContextWindowExceeded, Policy, Summary, SummaryRequest
from longturn.agent import DIALECT, LAST_STEP, TOO_LONG, ConversationTooLong, LimitReached, LongTurn, UsageReported
from longturn.agent.belt import with_belt
from longturn.agent.conversation import usage_of
from longturn.agent.words import AgentEvent
from longturn.core.events import HistoryTrimmed, ResultsCleared, SummaryCompleted, SummaryStarted
from longturn.core.meter import Usage
from longturn.core.policy import Summarization
from longturn.testing import validate
from tests.agents import CHAPTER, MODELS, Scripted, play, reader, results, tokens
from tests.wires import Answer, serving

BUDGET = 6_000


# --- the window, and the transcript ---


def test_what_is_sent_keeps_to_the_budget_and_the_transcript_stays_whole() -> None:
    """H1, L1; every window is valid, and starts with what was asked."""
    story = Scripted(60)
    done = play(reader(story.model, LongTurn(budget=BUDGET)), "Read the book.")
    assert done.output == "I read 60 chapters."
    assert len(results(done.all_messages())) == 60
    assert CLEARED not in results(done.all_messages())
    assert max(map(tokens, story.seen)) <= BUDGET
    assert CLEARED in results(story.seen[-1])
    for window in story.seen:
        assert validate(window, DIALECT) == []


def test_a_short_run_is_sent_as_it_is() -> None:
    """Law 2."""
    story = Scripted(3)
    done = play(reader(story.model, LongTurn()), "Read.")
    assert story.seen[-1] == done.all_messages()[:-1]


@pytest.mark.parametrize("how", ["run_sync", "run_stream", "iter", "run_stream_events"])
def test_however_a_run_is_driven_its_windows_are_shaped(how: str) -> None:
    """H28: no path goes without."""

    async def drive(agent: Agent[None, Any]) -> None:
        limits = UsageLimits(request_limit=None)
        if how == "run_stream":
            async with agent.run_stream("Read.", usage_limits=limits) as stream:
                await stream.get_output()
        elif how == "iter":
            async with agent.iter("Read.", usage_limits=limits) as run:
                async for _ in run:
                    pass
        elif how == "run_stream_events":
            async with agent.run_stream_events("Read.", usage_limits=limits) as events:
                async for _ in events:
                    pass
        else:
            await agent.run("Read.", usage_limits=limits)

    events: list[AgentEvent] = []
    story = Scripted(40)

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> Any:
        (part,) = story(messages, info).parts
        if isinstance(part, ToolCallPart):
            yield {0: DeltaToolCall(part.tool_name, part.args_as_json_str(), tool_call_id=part.tool_call_id)}
        else:
            yield getattr(part, "content", "")

    model = FunctionModel(story, stream_function=stream)
    asyncio.run(drive(reader(model, LongTurn(budget=BUDGET, observer=events.append))))
    assert len(story.seen) == 41
    assert all(validate(window, DIALECT) == [] for window in story.seen)
    assert CLEARED in results(story.seen[-1])
    assert any(isinstance(event, ResultsCleared) for event in events)


def test_a_conversation_that_is_handed_back_goes_on_with_the_same_front() -> None:
    """L9, law 10: the transcript of the first run goes into the second."""
    story = Scripted(30)
    capability: LongTurn[None] = LongTurn(budget=BUDGET)
    agent = reader(story.model, capability)
    first = play(agent, "Read.")
    story.last = 60
    last = story.seen[-1]
    second = play(agent, "Go on.", message_history=first.all_messages())
    assert second.conversation_id == first.conversation_id
    assert len(results(second.all_messages())) == 59
    fresh = Scripted(30)
    fresh.last = 0
    play(reader(fresh.model, LongTurn(budget=BUDGET)), "Go on.", message_history=first.all_messages())
    assert results(fresh.seen[0]) == results(story.seen[31])
    assert results(story.seen[31])[: len(results(last))] == results(last)


def test_many_runs_at_once_do_not_know_of_each_other() -> None:
    """Ten runs of one agent, each with a story of its own; and two runs on one conversation."""

    async def all_at_once(agent: Agent[None, Any], history: list[ModelMessage] | None = None) -> list[Any]:
        limits = UsageLimits(request_limit=None)
        runs = (agent.run(f"Read {n}.", message_history=history, usage_limits=limits) for n in range(10))
        return await asyncio.gather(*runs)

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        number = len({text.split(".")[0] for text in results(messages) if text != CLEARED})
        asked = str(messages[0].parts[0].content)  # type: ignore[union-attr]
        if sum(isinstance(message, ModelResponse) for message in messages) >= 25 or number >= 25:
            return ModelResponse([TextPart(asked)])
        return ModelResponse([ToolCallPart("read", {"n": number + 1})])

    agent = reader(FunctionModel(answer), LongTurn(budget=20_000))
    done = asyncio.run(all_at_once(agent))
    assert [each.output for each in done] == [f"Read {n}." for n in range(10)]
    again = asyncio.run(all_at_once(agent, done[0].all_messages()))
    assert {each.conversation_id for each in again} == {done[0].conversation_id}


# --- routes (H16) ---


def test_a_model_that_a_hook_chooses_gets_a_window_of_its_own_h16() -> None:
    """H16: each route folds the whole transcript; a switch undoes nothing elsewhere (B5)."""
    large, small = Scripted(40), Scripted(40)
    models: dict[bool, Model] = {
        False: FunctionModel(large, model_name="large"),
        True: FunctionModel(small, model_name="small"),
    }
    hooks: Hooks[None] = Hooks()

    @hooks.on.before_model_request
    async def choose(ctx: RunContext[None], request_context: ModelRequestContext) -> ModelRequestContext:
        request_context.model = models[ctx.run_step % 5 == 0]
        return request_context

    sizes = {"large": 40_000, "small": 5_000}
    capability: LongTurn[None] = LongTurn(capacity=lambda model: sizes[model.model_name], observer=[])
    agent: Agent[None, str] = Agent(models[False], capabilities=[hooks, capability])

    @agent.tool_plain
    def read(n: int) -> str:
        return f"Chapter {n}. {CHAPTER}"

    large.last = 32
    done = play(agent, "Read.")
    assert max(map(tokens, small.seen)) <= 5_000 < max(map(tokens, large.seen))
    assert CLEARED not in results(large.seen[-1])
    assert set(capability.meters(done.conversation_id)) == {"function:large", "function:small"}


def test_a_capability_that_moves_on_to_another_model_gets_a_window_for_that_one_h16() -> None:
    """H16: Pydantic AI's ModelFallback asks for a further attempt, on the next model."""
    large, small = Scripted(40), Scripted(40)

    def failing(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if len(large.seen) >= 20:
            raise ModelHTTPError(503, "large")
        return large(messages, info)

    def last(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        said = small(messages, info)
        return said if len(results(messages)) < 38 else ModelResponse([TextPart("Done.")])

    sizes = {"large": 40_000, "small": 4_000}
    models = FunctionModel(failing, model_name="large"), FunctionModel(last, model_name="small")
    capability: LongTurn[None] = LongTurn(capacity=lambda model: sizes[model.model_name])
    agent: Agent[None, str] = Agent(capabilities=[ModelFallback(*models), capability])

    @agent.tool_plain
    def read(n: int) -> str:
        return f"Chapter {n}. {CHAPTER}"

    assert play(agent)
    assert max(map(tokens, small.seen)) <= 4_000 < max(map(tokens, large.seen))


def test_the_window_of_a_model_is_that_of_its_profile_h15_h16() -> None:
    story = Scripted(30)
    model = FunctionModel(story, profile={"context_window": 5_000})
    play(reader(model, LongTurn()), "Read.")
    assert max(map(tokens, story.seen)) <= 5_000


def test_the_output_limit_of_the_settings_is_kept_free_b10() -> None:
    def most(max_tokens: int) -> int:
        story = Scripted(40)
        model = FunctionModel(story, profile={"context_window": 8_000})
        play(reader(model, LongTurn(budget=8_000)), "Read.", model_settings={"max_tokens": max_tokens})
        return max(map(tokens, story.seen))

    assert most(3_000) <= 5_000 < most(500) <= 7_500


# --- counting (H18) ---


def test_instructions_tools_and_what_other_capabilities_add_are_counted_h18() -> None:
    hooks: Hooks[None] = Hooks()

    @hooks.on.before_model_request
    async def add(ctx: RunContext[None], request_context: ModelRequestContext) -> ModelRequestContext:
        *before, last = request_context.messages
        assert isinstance(last, ModelRequest)
        request_context.messages = [*before, replace(last, parts=[*last.parts, UserPromptPart(CHAPTER)])]
        return request_context

    def used(*capabilities: AbstractCapability[None], **more: Any) -> int:
        seen: list[int] = []
        capability: LongTurn[None] = LongTurn(note=False)
        agent: Agent[None, str] = Agent(TestModel(), capabilities=[capability, *capabilities], **more)
        done = play(agent, "Hi.")
        (meter,) = capability.meters(done.conversation_id).values()
        assert meter.snapshot
        seen.append(meter.snapshot.used)
        return seen[0]

    plain, chapter = used(), longturn.estimate(CHAPTER)
    assert used(instructions=CHAPTER) - plain >= chapter
    assert used(hooks) - plain >= chapter
    wordy = Agent(TestModel(), capabilities=[LongTurn(note=False)])
    assert used(output_type=list[dict[str, int]]) > plain
    assert play(wordy, "Hi.").output


def test_a_request_that_cannot_fit_is_not_sent_h18_l17() -> None:
    """H18, L17: before any network call; the person reads a plain sentence, or who wants the error gets it."""
    story, events = Scripted(0), list[AgentEvent]()
    agent = reader(story.model, LongTurn(capacity=100, observer=events.append))
    done = play(agent, "Read " + CHAPTER)
    assert (done.output, story.seen) == (TOO_LONG, [])
    (told,) = [event for event in events if isinstance(event, ConversationTooLong)]
    assert told.capacity == 100
    assert told.tokens
    assert told.tokens > 100
    with pytest.raises(ContextWindowExceeded):
        play(reader(story.model, LongTurn(capacity=100, on_too_long="raise")), "Read " + CHAPTER)


def test_a_stream_of_a_request_that_cannot_fit_says_so_too_l17() -> None:
    async def run() -> str:
        async with reader(TestModel(), LongTurn(capacity=100)).run_stream("Read " + CHAPTER) as stream:
            return await stream.get_output()

    assert asyncio.run(run()) == TOO_LONG


# --- usage (L15) ---


def test_reported_usage_calibrates_the_route_and_is_metered_l15() -> None:
    """L15: the provider counts twice as many; so half as many of our tokens are sent, and nothing decided is undone."""
    story, events = Scripted(60), list[AgentEvent]()

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        said = story(messages, info)
        size = tokens(messages) + 120
        return replace(said, usage=RequestUsage(input_tokens=2 * size, cache_read_tokens=size, output_tokens=5))

    capability: LongTurn[None] = LongTurn(budget=8_000, observer=events.append)
    done = play(reader(FunctionModel(answer), capability), "Read.")
    assert max(map(tokens, story.seen)) <= 4_300
    (meter,) = capability.meters(done.conversation_id).values()
    assert 1.7 <= meter.factor <= 2.1
    assert meter.spend.call.calls == 61
    assert meter.spend.call.cached_tokens * 2 == meter.spend.call.input_tokens == done.usage.input_tokens
    assert sum(isinstance(event, UsageReported) for event in events) == 61


def test_a_usage_report_is_read_in_full_l15() -> None:
    usage = RequestUsage(
        input_tokens=100, cache_read_tokens=60, cache_write_tokens=30, output_tokens=9, output_reasoning_tokens=4
    )
    assert usage_of(usage) == Usage(100, 9, 60, 30, 4)


# --- the agent knows (L18) ---


def test_the_agents_instructions_hold_the_note_from_the_first_call_on_l18() -> None:
    story = Scripted(3)
    play(reader(story.model, LongTurn(), instructions="Be brief."), "Read.")
    told = {info.instructions for info in story.infos}
    assert len(told) == 1
    assert AGENT_NOTE in (told.pop() or "")
    quiet = Scripted(1)
    play(reader(quiet.model, LongTurn(note=False)), "Read.")
    assert not quiet.infos[0].instructions


# --- limits of steps (H19) ---


@pytest.mark.parametrize(
    ("limits", "most", "read"),
    [
        (UsageLimits(request_limit=10), None, 9),
        (UsageLimits(request_limit=None, tool_calls_limit=7), None, 7),
        (UsageLimits(request_limit=None), 12, 12),
    ],
)
def test_at_the_limit_of_steps_a_last_answer_is_asked_for_h19(limits: UsageLimits, most: int | None, read: int) -> None:
    """H19: with the tools off, itself fitted and checked, instead of an error."""
    story, events = Scripted(100), list[AgentEvent]()
    agent = reader(story.model, LongTurn(budget=2_000, max_iterations=most, observer=events.append))
    done = play(agent, "Read.", usage_limits=limits)
    assert done.output == f"I read {read} chapters."
    assert (story.infos[-1].model_settings or {}).get("tool_choice") == "none"
    assert tokens(story.seen[-1]) <= 2_000
    assert [LAST_STEP in str(message) for message in done.all_messages()].count(True) == 1
    assert LAST_STEP in str(story.seen[-1])
    (told,) = [event for event in events if isinstance(event, LimitReached)]
    assert told.requests == read
    assert sum(isinstance(message, ModelResponse) for message in done.all_messages()) == read + 1


def test_more_calls_at_once_than_the_limit_allows_are_not_run_and_a_last_answer_follows_h19() -> None:
    ran: list[int] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if (info.model_settings or {}).get("tool_choice") == "none":
            return ModelResponse([TextPart("That is all.")])
        return ModelResponse([ToolCallPart("read", {"n": n}) for n in range(4)])

    agent: Agent[None, str] = Agent(FunctionModel(answer), capabilities=[LongTurn()])

    @agent.tool_plain
    def read(n: int) -> str:
        ran.append(n)
        return "text"

    done = play(agent, "Read.", usage_limits=UsageLimits(tool_calls_limit=6))
    assert (done.output, len(ran)) == ("That is all.", 4)
    assert sum("was not run" in text for text in results(done.all_messages())) == 4
    assert validate(done.all_messages(), DIALECT) == []


def test_a_model_that_goes_on_calling_is_not_run_any_further_h19() -> None:
    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse([ToolCallPart("read", {"n": 1})])

    done = play(reader(FunctionModel(answer), LongTurn()), "Read.", usage_limits=UsageLimits(request_limit=4))
    assert done.output == "The limit of steps for this task is reached."
    assert done.usage.requests == 4


def test_the_tools_stay_declared_in_the_last_request_so_that_its_front_is_the_same_h19_b23() -> None:
    def script(number: int, body: dict[str, Any]) -> Answer:
        return Answer("Done.") if body.get("tool_choice") == {"type": "none"} else Answer(chapters=(number + 1,))

    async def run() -> Any:
        async with agent:
            return await agent.run("Read.", usage_limits=UsageLimits(request_limit=5))

    with serving(script) as wire:
        agent = reader(MODELS["anthropic"](wire.url), LongTurn())
        assert asyncio.run(run()).output == "Done."
        assert wire.problems == []
        assert len({str(body["tools"]) for body in wire.bodies}) == 1
        assert len({str(body["system"]) for body in wire.bodies}) == 1


def test_a_run_without_tools_is_left_to_its_limits() -> None:
    agent: Agent[None, str] = Agent(TestModel(), capabilities=[LongTurn()])
    with pytest.raises(UsageLimitExceeded):
        play(agent, "Hi.", usage_limits=UsageLimits(request_limit=0))


# --- observers (H28) ---


def test_every_trim_reaches_every_observer_and_one_that_raises_breaks_nothing_h28(caplog: Any) -> None:
    first, second = list[AgentEvent](), list[AgentEvent]()

    def broken(event: AgentEvent) -> None:
        raise RuntimeError("the dashboard is down")

    story = Scripted(40)
    agent = reader(story.model, LongTurn(budget=3_000, observer=[first.append, broken, second.append]))
    done = play(agent, "Read.")
    assert done.output == "I read 40 chapters."
    assert first == second
    shapes = [event for event in first if isinstance(event, ResultsCleared | HistoryTrimmed)]
    assert len(shapes) >= 2
    assert NOTE in str(story.seen[-1]) or CLEARED in str(story.seen[-1])


def test_a_subagents_windows_reach_the_observers_too_h28() -> None:
    """H28: one-shot and subagent runs included; what it costs is in the parent's usage (S13)."""
    events: list[AgentEvent] = []
    inner = reader(Scripted(30).model, LongTurn(budget=3_000, observer=events.append))
    outer: Agent[None, str] = Agent(TestModel(), capabilities=[LongTurn(observer=events.append)])

    @outer.tool
    async def delegate(ctx: RunContext[None]) -> str:
        done = await inner.run("Read.", usage=ctx.usage)
        return str(done.output)

    done = play(outer, "Go.")
    assert any(isinstance(event, ResultsCleared) for event in events)
    assert done.usage.requests == 33


def test_a_window_that_is_made_again_is_not_told_again_h28() -> None:
    """H27: one event a trim; another capability asks for the same request again."""
    events: list[AgentEvent] = []
    story = Scripted(40)
    failed: set[int] = set()

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if len(story.seen) not in failed:
            failed.add(len(story.seen))
            raise longturn.LongturnError("a hiccup")
        return story(messages, info)

    class Again(AbstractCapability[None]):
        async def on_model_request_error(self, ctx: Any, *, request_context: Any, error: Exception) -> ModelResponse:

            raise RetryModelRequest from error

    agent: Agent[None, str] = Agent(
        FunctionModel(answer), capabilities=[Again(), LongTurn(budget=3_000, observer=events.append)]
    )

    @agent.tool_plain
    def read(n: int) -> str:
        return f"Chapter {n}. {CHAPTER}"

    play(agent, "Read.")
    told = [event for event in events if isinstance(event, ResultsCleared | HistoryTrimmed)]
    quiet: list[AgentEvent] = []
    play(reader(Scripted(40).model, LongTurn(budget=3_000, observer=quiet.append)), "Read.")
    assert len(told) == len([event for event in quiet if isinstance(event, ResultsCleared | HistoryTrimmed)])


# --- summaries ---


def test_the_agents_own_model_writes_the_summary_and_it_is_metered_as_one() -> None:
    """S4, S7, S13: with the agent's own instructions and tools, so that a prefix cache serves the head."""
    story, events = Scripted(60), list[AgentEvent]()
    asked: list[tuple[list[ModelMessage], AgentInfo]] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        last = messages[-1].parts[-1]
        if isinstance(last, UserPromptPart) and "about to be cut" in str(last.content):
            asked.append((messages, info))
            usage = RequestUsage(input_tokens=900, output_tokens=60)
            return ModelResponse([TextPart("The reader has read many chapters; nobody came. " * 3)], usage=usage)
        return replace(story(messages, info), usage=RequestUsage(input_tokens=tokens(messages), output_tokens=1))

    policy = replace(Policy(), rungs=("turns", "rounds"))
    capability: LongTurn[None] = LongTurn(budget=BUDGET, policy=policy, summarize=True, observer=events.append)
    done = play(reader(FunctionModel(answer), capability), "Read.")
    assert done.output == "I read 60 chapters."
    assert asked
    assert {info.instructions for _, info in asked} == {story.infos[0].instructions}
    assert [tool.name for tool in asked[0][1].function_tools] == ["read"]
    assert (asked[0][1].model_settings or {}).get("tool_choice") == "none"
    assert any("nobody came" in str(window[:2]) for window in story.seen)
    completed = [event for event in events if isinstance(event, SummaryCompleted)]
    assert len(completed) == len([event for event in events if isinstance(event, SummaryStarted)])
    assert all(event.checkpoint for event in completed)
    (meter,) = capability.meters(done.conversation_id).values()
    assert meter.spend.summary.calls == len(asked) == len(completed)
    assert done.usage.output_tokens == meter.spend.total.output_tokens
    assert len(results(done.all_messages())) == 60


def test_a_summary_can_be_written_by_somebody_else_and_its_failure_breaks_nothing() -> None:
    """S9."""
    story = Scripted(40)
    asked: list[SummaryRequest] = []

    async def write(request: SummaryRequest) -> Summary:
        asked.append(request)
        if len(asked) == 1:
            raise RuntimeError("down")
        return Summary("What was read is known. " * 4)

    policy = replace(Policy(), rungs=("turns", "rounds"), summarization=Summarization())
    agent = reader(story.model, LongTurn(budget=3_000, policy=policy, summarize=write))
    done = play(agent, "Read.")
    assert done.output == "I read 40 chapters."
    assert len(asked) > 1


# --- preserved thinking (B23) ---


def test_claude_with_preserved_thinking_is_asked_to_drop_what_no_longer_fits_b23() -> None:
    with serving(lambda _number, _body: Answer("Fine.", thinking="Hm.")) as wire:

        async def run() -> None:
            async with agent:
                await agent.run("Hi.")

        agent: Agent[None, str] = Agent(MODELS["anthropic"](wire.url), capabilities=[LongTurn()])
        asyncio.run(run())
        (body,), (headers,) = wire.bodies, wire.headers
        behaviour = {"prefix_mismatch_behavior": "drop_block"}
        assert body["thinking"] == {"type": "adaptive", "block_binding": behaviour}
        assert "thinking-binding-controls-2026-08-01" in headers["anthropic-beta"]


def test_what_the_caller_says_of_thinking_stands_b23() -> None:
    with serving(lambda _number, _body: Answer("Fine.")) as wire:
        model = MODELS["anthropic"](wire.url)
        said: list[Any] = [
            {"thinking": False},
            {"anthropic_thinking": {"type": "disabled"}},
            {"anthropic_thinking": {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "error"}}},
            {"extra_body": {"thinking": {"type": "adaptive"}}},
        ]
        assert [with_belt(model, settings) for settings in said] == said
        assert with_belt(MODELS["openai_chat"](wire.url), None) is None


# --- arguments ---


def test_arguments_that_cannot_be_used_are_errors_that_name_them() -> None:
    with pytest.raises(ConfigError, match="max_iterations must be at least 1, got 0"):
        LongTurn(max_iterations=0)
    with pytest.raises(ConfigError, match='on_too_long must be "answer" or "raise"'):
        LongTurn(on_too_long="stop")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="no policy is called 'best'"):
        LongTurn(policy="best")


def test_a_system_prompt_in_the_middle_of_a_run_stays_in_its_turn() -> None:
    """H6."""
    story = Scripted(40)

    agent = reader(story.model, LongTurn(budget=3_000))

    @agent.tool
    def remind(ctx: RunContext[None]) -> str:
        return "noted"

    async def run() -> Any:
        async with agent.iter("Read.") as run:
            async for node in run:
                if isinstance(node, ModelRequestNode) and len(story.seen) == 20:
                    run.enqueue(SystemPromptPart("Be careful."))
            return run.result

    done = asyncio.run(run())
    assert done.output == "I read 40 chapters."
    for window in story.seen:
        assert validate(window, DIALECT) == []
