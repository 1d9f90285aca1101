"""`Session`: an agent's conversation that outlives its process; messages are durable before a call that needs them."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic_ai import Agent, CancellationToken
from pydantic_ai.messages import (
    AgentStreamEvent,
    ModelMessage,
    repair_messages,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.run import AgentRunResult
from pydantic_ai.tools import Tool

from longturn.agent.beginning import Prompt, beginning
from longturn.agent.capability import LongTurn
from longturn.agent.conversation import Asked, ByModel
from longturn.agent.recall import Recallable, listed, page_of, recalled
from longturn.agent.recorder import Recorder, Seal
from longturn.agent.recording import Recording
from longturn.agent.subagents import FromSubagent, Subagents, delegating, name_of
from longturn.agent.words import AgentEvent, Observer, RequestFitted, UsageReported
from longturn.arguments import named_policy, whole
from longturn.core.events import SummariesStopped, SummaryCompleted, SummaryDelta, SummaryStarted
from longturn.core.meter import Meter
from longturn.core.policy import Budget, Policy
from longturn.errors import ConfigError, SessionConflict
from longturn.stores import Problem, Removed, Store
from longturn.summaries import Compaction, Summarize, notify

Output = TypeVar("Output")

# Summaries have their own entries and charges, usage its charges, a window its route's state; a delta is text.
_KEPT_ELSEWHERE = (
    SummaryStarted,
    SummaryDelta,
    SummaryCompleted,
    SummariesStopped,
    UsageReported,
    RequestFitted,
    FromSubagent,
)


@dataclass(frozen=True, slots=True)
class Answered(Generic[Output]):
    """The turn is done; `output` is what the agent answered."""

    output: Output


SessionEvent = AgentStreamEvent | AgentEvent | FromSubagent | Answered[Any]


@dataclass(slots=True)
class Settings:
    """What a session was opened with besides its agent and store; arguments are those of `Session.open`."""

    capability: Mapping[str, Any]
    observers: tuple[Callable[[Any], object], ...]
    most_characters: int
    recall: bool
    subagents: tuple[Subagents, ...]


class Session(Generic[Output]):
    """One conversation of an agent, in a store; `Session.open` makes or resumes it.

    A turn runs by `run`, `send` or `run_sync`; one at a time. Whatever ends a turn (an error, a cancellation, kill -9),
    what was recorded stays, at most the running call is lost, and the next turn goes on with valid messages. Errors of
    the store are StoreErrors; SessionConflict where another process writes to the same session.
    """

    def __init__(self, agent: Agent[Any, Output], recording: Recording, settings: Settings) -> None:
        self.agent = agent
        self._recording = recording
        self._settings = settings
        self._observers = settings.observers
        self._longturn: LongTurn[Any] = LongTurn(observer=self._told, **settings.capability)
        self._conversation = self._longturn.conversation(self.id)
        self._conversation.saved = recording.states
        self._listen: Callable[[Any], object] | None = None
        self._task: asyncio.Task[AgentRunResult[Output]] | None = None
        self._token = CancellationToken()
        self._loop = asyncio.get_running_loop()
        self._tools = [Tool(self._recall, name="recall")] if settings.recall else []
        self._tools += [delegating(each, self._subagent) for each in settings.subagents]

    @classmethod
    async def open(
        cls,
        agent: Agent[Any, Output],
        store: Store,
        session: str,
        *,
        policy: Policy | str | None = None,
        budget: int | Budget | ByModel | None = None,
        capacity: int | ByModel | None = None,
        summarize: bool | Summarize | Sequence[Summarize] = True,
        observer: Observer | Sequence[Observer] = (),
        max_iterations: int | None = None,
        max_tool_result_chars: int = 50_000,
        recall: bool = True,
        subagents: Subagents | Sequence[Subagents] = (),
        subagent_of: str | None = None,
        scope: str | None = None,
        title: str = "",
        info: Mapping[str, Any] | None = None,
    ) -> "Session[Output]":
        """A session as it stands in the store, or a new one.

        policy, budget, capacity, summarize, observer, max_iterations: as for `LongTurn`.
        max_tool_result_chars: a tool's longer result is bounded in the transcript, and kept whole for `recall` (H30,
            B22); 0 for no bound.
        recall: the agent gets the tool `recall`, with which it reads results again that were cleared or bounded.
        subagents: whom the agent may delegate tasks to, each by a tool.
        subagent_of, scope, title, info: of a new session, as for `Store.create`.

        Raises StoreError where the store cannot be read, ConfigError for an agent that has a `LongTurn` already. What
        is damaged is left out, and named in `problems`.
        """
        _refuse_second(agent)
        if recall:
            chosen = named_policy(policy)
            policy = replace(chosen, cleared_texts=Recallable(chosen.cleared_texts))
        numbers = {"budget": budget, "capacity": capacity, "max_iterations": max_iterations}
        settings = Settings(
            capability={"policy": policy, "summarize": summarize, **numbers},
            observers=(observer,) if callable(observer) else tuple(observer),
            most_characters=whole("max_tool_result_chars", max_tool_result_chars, least=0),
            recall=recall,
            subagents=(subagents,) if isinstance(subagents, Subagents) else tuple(subagents),
        )
        if await store.head(session) is None:
            await store.create(session, subagent_of=subagent_of, scope=scope, title=title, info=info)
        return cls(agent, await Recording.open(store, session), settings)

    @classmethod
    @contextmanager
    def sync(
        cls, agent: Agent[Any, Output], where: str | Path, session: str, **options: Any
    ) -> Iterator["Session[Output]"]:
        """For code that is not async: opens the store too, and closes it; `run_sync` then runs the turns."""
        with asyncio.Runner() as runner:
            store = runner.run(Store.open(where))
            try:
                yield runner.run(cls.open(agent, store, session, **options))
            finally:
                runner.run(store.close())

    # --- What it is --------------------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """Its name in the store."""
        return self._recording.head.session

    @property
    def messages(self) -> list[ModelMessage]:
        """The whole transcript, as it is recorded."""
        return list(self._recording.transcript)

    @property
    def meter(self) -> Meter:
        """What it spent, its subagents and summaries included, and the state of its window (S12-S14).

        `all_branches` holds what its forks had spent when it was opened.
        """
        state = next(iter(reversed(list(self._recording.states.values()))), {})
        last = Meter.of(state.get("meter", {}))
        return replace(self._recording.meter, snapshot=last.snapshot, factor=last.factor)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What was found damaged when it was opened, and is left out."""
        return self._recording.problems

    # --- Turns -------------------------------------------------------------------------------------------------------

    async def run(self, prompt: Prompt | None = None, **options: Any) -> Output:
        """Take a turn and give the answer. prompt: None goes on with a turn that was cut off, its open calls first.

        options: further arguments of `Agent.run`, such as `deps`, `usage_limits`, `model`, and `timeout` in seconds.
        Raises what the agent's run raises; RunCancelled after `cancel`.
        """
        task = self._start(prompt, options)
        try:
            return (await asyncio.shield(task)).output
        finally:
            await _ended(task)

    async def send(self, prompt: Prompt | None = None, **options: Any) -> AsyncGenerator[SessionEvent, None]:
        """The same as a stream: Pydantic AI's events, longturn's, and at last `Answered`.

        Whoever leaves it early closes it (`contextlib.aclosing`), which cancels the turn.
        """
        events: asyncio.Queue[Any] = asyncio.Queue()

        async def heard(_ctx: object, stream: AsyncIterable[AgentStreamEvent]) -> None:
            async for event in stream:
                events.put_nowait(event)

        task = self._start(prompt, {**options, "event_stream_handler": heard})
        task.add_done_callback(lambda _done: events.put_nowait(None))
        self._listen = events.put_nowait
        try:
            while (event := await events.get()) is not None:
                yield event
            yield Answered((await task).output)
        finally:
            self._listen = None
            await _ended(task)

    def run_sync(self, prompt: Prompt | None = None, **options: Any) -> Output:
        """The same from code that is not async, in the event loop where the session was opened (`Session.sync`)."""
        try:
            here: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        if here is self._loop:
            raise ConfigError("run_sync() was called inside the session's event loop: await session.run() instead")
        turn = self.run(prompt, **options)
        if self._loop.is_running():
            return asyncio.run_coroutine_threadsafe(turn, self._loop).result()
        return self._loop.run_until_complete(turn)

    def cancel(self) -> None:
        """End the running turn, which raises RunCancelled; what it recorded stays. Nothing where none runs."""
        if self._task is not None and not self._task.done():
            self._token.cancel()

    async def compact(self) -> Compaction:
        """Summarize now (S10); later windows use it. Says why where there is no summary."""
        self._refuse_busy()
        last = next(iter(reversed(self._conversation.routes.values())), None)
        messages = repair_messages(self._recording.transcript, repair_last_response=True)
        if last is None:
            model = self.agent.model
            if not isinstance(model, Model):
                return Compaction(None, "failed", "no model is known yet: give the agent one, or take a turn first")
            settings = self.agent.model_settings
            asked = Asked(model, messages, settings if isinstance(settings, dict) else None, ModelRequestParameters())
        else:
            asked = replace(last.asked, messages=messages)
        compaction = await self._conversation.compact(asked)
        self._recording.note(self._conversation.states)
        await self._recording.flush()
        return compaction

    async def recall(self, result_id: str) -> str | None:
        """A tool's whole result by its call's id, whatever a window or the transcript shows; None where none is."""
        return await recalled(self._recording.store, self.id, self._recording.transcript, result_id)

    async def fork(self, session: str, *, at: str | None = None) -> "Session[Output]":
        """A new session that shares this one's entries up to `at` (an id that `Store.read` gives; None: all)."""
        self._refuse_busy()
        await self._recording.flush()
        await self._recording.store.fork(self.id, session, at=at)
        return type(self)(self.agent, await Recording.open(self._recording.store, session), self._settings)

    async def delete(self) -> Removed:
        """Delete it and its subagents' sessions; what forks share stays."""
        self._refuse_busy()
        await self._recording.settled()
        return await self._recording.store.delete(self.id)

    @staticmethod
    async def expire(store: Store, older_than: timedelta) -> Removed:
        """Delete all sessions that were last written longer ago: `Store.expire`."""
        return await store.expire(older_than)

    # --- Inside ------------------------------------------------------------------------------------------------------

    def _start(self, prompt: Prompt | None, options: Mapping[str, Any]) -> "asyncio.Task[AgentRunResult[Output]]":
        self._refuse_busy()
        begin = beginning(self._recording.transcript, prompt)
        recorder = Recorder(
            self._recording,
            self._conversation,
            known=begin.known,
            said=begin.said,
            most_characters=self._settings.most_characters,
            tools=self._tools,
        )
        self._token = options.get("cancellation_token") or CancellationToken()
        arguments: dict[str, Any] = {
            **options,
            "message_history": begin.history or None,
            "conversation_id": self.id,
            "capabilities": [*options.get("capabilities", ()), recorder, self._longturn, Seal(recorder)],
            "cancellation_token": self._token,
        }
        self._task = asyncio.create_task(self._turn(begin.prompt, arguments))
        return self._task

    async def _turn(self, prompt: Prompt | None, arguments: Mapping[str, Any]) -> AgentRunResult[Output]:
        try:
            await self._recording.flush()
            return await self.agent.run(prompt, **arguments)
        finally:
            await self._recording.settled()

    async def _subagent(self, subagents: Subagents, call_id: str) -> "Session[Any]":
        name = name_of(self.id, call_id, self._recording.transcript)
        options = {"observer": lambda event: self._told(FromSubagent(name, event)), **subagents.session}
        session = await Session.open(
            subagents.agent, self._recording.store, name, subagent_of=self.id, title=subagents.tool, **options
        )
        session._recording.tell = self._recording.of_subagent
        return session

    def _refuse_busy(self) -> None:
        if self._task is not None and not self._task.done():
            raise SessionConflict(f"session {self.id!r} is in a turn already: await its end, or cancel it")

    def _told(self, event: Any) -> None:
        if isinstance(event, UsageReported):
            self._recording.spent(event)
        elif not isinstance(event, _KEPT_ELSEWHERE):
            numbers = {name: value for name, value in asdict(event).items() if not isinstance(value, tuple)}
            self._recording.keep("event", {"type": type(event).__name__, **numbers})
        for observer in (*self._observers, *([self._listen] if self._listen else [])):
            notify(observer, event)

    async def _recall(self, result_id: str, page: int = 1) -> str:
        """Read a tool's result again that was cleared or shortened.

        Args:
            result_id: the id of its tool call; an empty one gives a list.
            page: which part of a long result, from 1.
        """
        text = await self.recall(result_id)
        if text is not None:
            return page_of(text, page)
        missing = f"There is no result {result_id!r}. The newest ones:\n" if result_id else ""
        return missing + listed(self._recording.transcript)


async def _ended(task: "asyncio.Task[Any]") -> None:
    """End a turn whose caller has left; a write that is under way is awaited."""
    if not task.done():
        task.cancel()
        await asyncio.wait([task])
    if not task.cancelled():
        task.exception()


def _refuse_second(agent: Agent[Any, Any]) -> None:
    found: list[Any] = []
    agent.root_capability.apply(lambda each: found.append(each) if isinstance(each, LongTurn) else None)
    if found:
        raise ConfigError("the agent has a LongTurn already: leave it out, and give its arguments to Session.open")
