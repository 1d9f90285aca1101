"""Agents whose work in a session tests can follow, stop and kill: scripted models, and windows without their times."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from hashlib import blake2b
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

import aiosqlite  # noqa: F401  (imported before a fork, as SQLAlchemy would after it)
import alembic.command
import alembic.config  # noqa: F401
import psycopg  # noqa: F401
from pydantic_ai import Agent
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from longturn.agent.session import Session
from longturn.stores import Store

CHAPTER = "It was a long and rainy night, and nobody came to the door. " * 8
# When, where and by how many attempts a message was made is no part of what a model is sent.
SENT = ("kind", "parts", "instructions")


@dataclass
class Reader:
    """A model that reads `chapters` in each turn, two at once, then answers.

    It follows the session's transcript, so that it can be resumed; without one, what its window says.
    at: called with the messages before each reply, and may raise. seen: what it was sent, call by call.
    """

    chapters: int = 3
    at: Callable[[list[ModelMessage]], object] = lambda _messages: None
    seen: list[list[ModelMessage]] = field(default_factory=list)
    session: list[Session[Any]] = field(default_factory=list)

    async def __call__(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.seen.append(messages)
        self.at(messages)
        await asyncio.sleep(0)
        whole = self.session[-1].messages if self.session else messages
        answers = [message for message in whole if isinstance(message, ModelResponse)]
        number = max([call.args_as_dict()["n"] for each in answers for call in each.tool_calls], default=-1) + 1
        done = rounds(whole) if self.session else number // 2
        if done >= self.chapters:
            return ModelResponse([TextPart(f"I read {done} chapters.")])
        calls = [ToolCallPart("read", {"n": number + each}, f"call_{number + each}") for each in range(2)]
        return ModelResponse(calls)

    @property
    def agent(self) -> Agent[None, str]:
        agent: Agent[None, str] = Agent(FunctionModel(self, model_name="reader"))

        @agent.tool_plain
        async def read(n: int) -> str:
            """Read one chapter."""
            await asyncio.sleep(0)
            return f"Chapter {n}. {CHAPTER}"

        return agent


async def opened(reader: Reader, store: Store, name: str = "s", **options: Any) -> Session[str]:
    """A session with the reader's agent in a small window; the reader follows it."""
    session = await Session.open(reader.agent, store, name, **{"capacity": 2_000, "summarize": False, **options})
    reader.session.append(session)
    return session


def rounds(messages: list[ModelMessage]) -> int:
    """Answers with calls since the last prompt of a user."""
    count = 0
    for message in reversed(messages):
        if isinstance(message, ModelResponse):
            count += bool(message.tool_calls)
        elif any([isinstance(part, UserPromptPart) for part in message.parts]):
            break
    return count


def sent(messages: list[ModelMessage]) -> list[Any]:
    """Messages as JSON data without what no model is sent."""
    found = ModelMessagesTypeAdapter.dump_python(messages, mode="json")
    whole = [{key: message[key] for key in SENT if key in message} for message in found]
    for message in whole:
        for part in message["parts"]:
            part.pop("timestamp", None)
    return whole


def digest(messages: list[ModelMessage]) -> str:
    return blake2b(json.dumps(sent(messages)).encode(), digest_size=16).hexdigest()


def results(messages: list[ModelMessage]) -> list[Any]:
    """All tool results, in order."""
    return [
        part
        for message in messages
        if isinstance(message, ModelRequest)
        for part in message.parts
        if isinstance(part, ToolReturnPart)
    ]


class Stepped:
    """Steps through all tasks of a session's turn, and cancels the turn at one of their awaits.

    at: which one. count: how many they came to.
    """

    def __init__(self, at: int | None = None) -> None:
        self.at = at
        self.count = 0
        self._turn: asyncio.Task[Any] | None = None

    def factory(self, loop: asyncio.AbstractEventLoop, coro: Any, **more: Any) -> "asyncio.Task[Any]":
        """A task factory; the tasks of others are not stepped through."""
        is_turn = getattr(coro, "__qualname__", "") == "Session._turn"
        if not is_turn and self._turn is None:
            return asyncio.Task(coro, loop=loop, **more)
        task: asyncio.Task[Any] = asyncio.Task(self._stepping(coro), loop=loop, **more)
        self._turn = task if is_turn else self._turn
        return task

    async def _stepping(self, coro: Any) -> Any:
        return await _Steps(self._step, coro)

    def _step(self) -> None:
        self.count += 1
        if self.count == self.at and self._turn is not None:
            self._turn.cancel()


class _Steps:
    def __init__(self, step: Callable[[], None], coro: Coroutine[Any, Any, Any]) -> None:
        self.step, self.coro = step, coro

    def __await__(self) -> Any:
        value: Any = None
        error: BaseException | None = None
        while True:
            try:
                future = self.coro.send(value) if error is None else self.coro.throw(error)
            except StopIteration as done:
                return done.value
            self.step()
            value, error = None, None
            try:
                value = yield future
            except BaseException as raised:  # noqa: BLE001  # it is the coroutine's
                error = raised


def started(target: Callable[..., None], *args: object) -> tuple[BaseProcess, Connection]:
    """A child that runs `target(*args, told)`, and what it tells; importing all this takes seconds, so once."""
    warm = get_context("forkserver")
    warm.set_forkserver_preload([__name__])
    mine, its = warm.Pipe(duplex=False)
    child = warm.Process(target=target, args=(*args, its), daemon=True)
    child.start()
    its.close()
    return child, mine


def work_on(where: str, told: Connection) -> None:
    """Take turns in session "s" for ever; tell, at each call of the model, how much is recorded and what is sent."""

    async def run() -> None:
        async with await Store.open(where) as store:
            reader = Reader()

            def tell(messages: list[ModelMessage]) -> None:
                told.send((len(reader.session[-1].messages), digest(messages)))

            reader.at = tell
            session = await opened(reader, store)
            while True:
                last = session.messages[-1] if session.messages else None
                is_cut = last is not None and not (isinstance(last, ModelResponse) and not last.tool_calls)
                await session.run(None if is_cut else "Read on.")

    asyncio.run(run())
