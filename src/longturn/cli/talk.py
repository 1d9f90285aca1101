"""One conversation at the terminal: who answers, where it is kept, how an answer comes, what went wrong in words."""

import asyncio
import secrets
from collections.abc import Callable, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic_ai import Agent
from pydantic_ai.exceptions import AgentRunError, UserError
from pydantic_ai.messages import FunctionToolCallEvent, PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta
from pydantic_ai.models import Model, infer_model
from pydantic_ai.settings import ModelSettings

from longturn.agent.local import WINDOW, serving
from longturn.agent.session import Answered, Session
from longturn.agent.words import RequestFitted
from longturn.cli.notices import notice
from longturn.cli.screens import printable
from longturn.cli.wrapping import Writer
from longturn.core.events import HistoryTrimmed
from longturn.core.meter import Meter
from longturn.errors import ConfigError, LongturnError
from longturn.stores import Head, Store

if TYPE_CHECKING:
    from rich.console import Console

LOCAL = "local"
LOCAL_OUTPUT = 1_024
"""Tokens that a small model may answer with where nothing is said; some never come to an end."""
TITLE = 60


@dataclass(frozen=True, slots=True)
class Options:
    """What `longturn chat` was told; sizes in tokens."""

    model: str | None
    store: str
    session: str | None = None
    instructions: str | None = None
    budget: int | None = None
    capacity: int | None = None
    max_output: int | None = None
    summarize: bool = True


@dataclass(frozen=True, slots=True)
class Answerer:
    """A model with its name as it was given, and its window where we set it ourselves."""

    model: Model
    name: str
    window: int | None = None
    max_output: int | None = None


@dataclass(slots=True)
class Talk:
    """A conversation that is going on.

    session: None until something was said. aside: where notices go. left_out: how many messages the last window was
    smaller than the transcript.
    """

    options: Options
    answerer: Answerer
    agent: Agent[None, str]
    store: Store
    runner: asyncio.Runner
    screen: "Console"
    aside: "Console"
    budget: int | None
    session: Session[str] | None = None
    left_out: int = 0
    is_over: bool = False

    @property
    def meter(self) -> Meter:
        """What was spent so far, and the state of the window."""
        return self.session.meter if self.session else Meter()

    def ask(self, prompt: str) -> None:
        """Take a turn and show the answer as it comes. Raises LongturnError for whatever a turn can fail with."""
        with plainly():
            self.runner.run(self._turn(prompt))

    def resume(self, name: str) -> None:
        """Go on with a session of the store, held to `budget`."""
        self.session = self.runner.run(self._open(name))

    def do(self, work: Callable[[Session[str]], Any], what: str) -> Any:
        """Something with the session, which there must be. Raises ConfigError before the first message."""
        if self.session is None:
            raise ConfigError(f"nothing was said yet, so there is nothing to {what}")
        with plainly():
            return self.runner.run(work(self.session))

    def tell(self, text: str) -> None:
        """A line beside the conversation."""
        self.aside.print(printable(text), style="dim")

    async def _open(self, name: str, title: str = "") -> Session[str]:
        return await Session.open(
            self.agent,
            self.store,
            name,
            budget=self.budget,
            capacity=self.options.capacity or self.answerer.window,
            summarize=self.options.summarize,
            recall=False,  # no tool, so no result
            title=title,
            info={"model": self.answerer.name},
        )

    async def _turn(self, prompt: str) -> None:
        if self.session is None:
            self.session = await self._open(new_name(), printable(prompt)[:TITLE])
        writer = Writer(self.screen)
        writer.wait()
        try:
            async with aclosing(self.session.send(prompt)) as events:
                async for event in events:
                    self._show(writer, event)
        finally:
            writer.end()
            if self.aside is self.screen:
                self.screen.print()

    def _show(self, writer: Writer, event: object) -> None:
        match event:
            case PartStartEvent(part=TextPart(content=text)) | PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
                if text:
                    writer.write(text)
            case FunctionToolCallEvent():
                writer.end()
                self.tell(f"({event.part.tool_name})")
            case RequestFitted():
                self._count(writer, event.messages_before, event.messages_after)
            case Answered():
                if not writer.said.rstrip().endswith(str(event.output).rstrip()):
                    writer.write(str(event.output))
            case _ if words := notice(event):
                self._aside(writer, words)
                if isinstance(event, HistoryTrimmed):
                    self.left_out = -1

    def _count(self, writer: Writer, before: int, after: int) -> None:
        """Say how much is left out where it changed and no event said so: after a restart, or with a new budget."""
        left_out = max(0, before - after)
        if left_out > 0 and self.left_out not in (-1, left_out):
            self._aside(writer, f"{after} of {before} messages are sent. The transcript stays whole.")
        self.left_out = left_out

    def _aside(self, writer: Writer, words: str) -> None:
        writer.end()
        self.tell(words)
        writer.wait()


def new_name() -> str:
    """A name for a session that sorts by time."""
    return f"{datetime.now():%Y-%m-%d-%H%M%S}-{secrets.token_hex(2)}"


def agent_of(answerer: Answerer, options: Options) -> Agent[None, str]:
    """The agent that talks: a model, instructions, no tools."""
    most = options.max_output or answerer.max_output
    settings = ModelSettings(max_tokens=most) if most else None
    return Agent(answerer.model, instructions=options.instructions, model_settings=settings)


@contextmanager
def answering(options: Options, head: Head | None) -> Iterator[Answerer]:
    """The model that was named, or that the session was begun with; a local one is served until the block is left.

    Raises ConfigError where none is named, none of that name is known, or it lacks a package or a key.
    """
    name = options.model or (str(head.info.get("model") or "") if head else "")
    if not name:
        raise ConfigError(
            "no model is named: --model openai:gpt-5.2, anthropic:claude-sonnet-5-5 or whatever Pydantic AI knows, or "
            "--model local for a small one on this machine, without a key"
        )
    where, _, file = name.partition(":")
    if where == LOCAL:
        with serving(Path(file) if file else None, window=options.capacity or WINDOW) as local:
            yield Answerer(local.model(), name, local.window, min(LOCAL_OUTPUT, local.window // 4))
        return
    try:
        model = infer_model(name)
    except ImportError as error:
        raise ConfigError(f"{name} needs a package that is not installed: {error}") from error
    except (UserError, ValueError) as error:
        raise ConfigError(f"{name} cannot be used: {error}") from error
    yield Answerer(model, name)


@contextmanager
def plainly() -> Iterator[None]:
    """Turns what a model's call fails with into a LongturnError in one sentence."""
    try:
        yield
    except (AgentRunError, UserError) as error:
        raise LongturnError(f"the model did not answer: {error}") from error
    except TimeoutError as error:
        raise LongturnError("the model did not answer in time") from error
