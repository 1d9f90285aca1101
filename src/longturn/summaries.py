"""Summaries in a session (S4-S10): who is asked, what of it is told, and when attempts end.

The steps are one generator; `drive` and `drive_async` ask the summarizers for it, from sync and from async code.
"""

import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Literal, TypeVar

from longturn.core.checkpoint import Checkpoint
from longturn.core.events import Event, Observer, SummariesStopped, SummaryCompleted, SummaryDelta, SummaryStarted
from longturn.core.fold import Outcome
from longturn.core.head import Head, head_of, is_triggered
from longturn.core.messages import Message, Reasoning, Role, Text, ToolCall, ToolResult
from longturn.core.policy import NO_LIMIT, Scalar, Summarization
from longturn.core.summary import Ask, Summarizer, SummaryFailed, checkpoint_of, summarize
from longturn.core.window import alternating
from longturn.dialects.base import Dialect, Native
from longturn.errors import ConfigError

MOST_FAILURES = 3
"""After so many failed attempts in a row there are no more in a session (S9)."""

_log = logging.getLogger("longturn")

Refusal = Literal["", "disabled", "nothing to summarize", "exhausted", "busy", "failed"]
Done = TypeVar("Done")


@dataclass(frozen=True, slots=True)
class Said:
    """One message of a head in plain text; a call is written as name and arguments."""

    role: Role
    text: str


@dataclass(frozen=True, slots=True)
class SummaryRequest:
    """What a summarizer is asked; it answers with the text of the summary.

    messages: the head in the caller's own format, each in its role, and the instruction as the last one (S7).
    system, tools: as the fitter was given them where the agent's own model is asked, else None: send them along, and
        the provider's prefix cache serves the head.
    history: what is new since the last checkpoint, in plain text. previous: that checkpoint, "" for a first one.
    instruction: what is asked. max_tokens: the output limit, in tokens.
    provider, model, parameters: who should write it; None: the agent's own model.
    text: everything but the instruction as one plain text, for a summarizer that takes no message list.
    """

    messages: list[Native]
    system: object
    tools: object
    history: tuple[Said, ...]
    previous: str
    instruction: str
    max_tokens: int
    provider: str | None
    model: str | None
    parameters: Mapping[str, Scalar]
    _read: Sequence[Message] = field(repr=False)

    @property
    def text(self) -> str:
        """The conversation in plain text: every message behind a line with its role."""
        return "\n\n".join(f"[{said.role}]\n{said.text}" for said in map(said_of, self._read[:-1]))


@dataclass(frozen=True, slots=True)
class Summary:
    """A summarizer's answer with what the provider reported of the call: any SDK's usage object or dict (S10)."""

    text: str
    usage: object = None


Reply = str | Summary | Iterable[str]
Summarize = Callable[[SummaryRequest], Reply | Awaitable[Reply] | AsyncIterator[str]]
"""A summarizer: it gives the text, a `Summary`, or the pieces of a text as they come; from async code also awaited."""


@dataclass(frozen=True, slots=True)
class Compaction:
    """What came of asking for a summary (S10): the checkpoint, or why there is none, in one word and in full."""

    checkpoint: Checkpoint | None
    refused: Refusal = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """A request, and which of the summarizers it is for."""

    request: SummaryRequest
    summarize: Summarize


Steps = Generator[Question, Summary, Done]


class Summaries:
    """The summarizing side of a session: its rules, its summarizers, and how the attempts went.

    failures: attempts in a row that failed. told: what happened since it was last emptied. spent: called with each
    answer's reported usage.
    """

    __slots__ = ("_busy", "_observer", "_summarizers", "_tried", "failures", "rules", "spent", "told")

    def __init__(
        self,
        rules: Summarization,
        summarizers: Sequence[Summarize],
        observer: Observer | None,
        spent: Callable[[object], None],
    ) -> None:
        self.rules = rules
        self.failures = 0
        self.told: list[Event] = []
        self.spent = spent
        self._summarizers = summarizers
        self._observer = observer
        self._tried = -1
        self._busy = False

    def steps(self, outcome: Outcome, request: "Requests", *, on_request: bool = False) -> Steps[Compaction]:
        """Make a summary if it is time, or `on_request`; the checkpoint is not yet taken up anywhere."""
        if self.refusal:
            return Compaction(None, self.refusal)
        # The trigger first: it is judged at every call, and the head need not be.
        is_new = outcome.view.border > self._tried
        is_wanted = on_request or (is_new and is_triggered(outcome, self.rules))
        head = head_of(outcome, self.rules, on_request=on_request) if is_wanted else None
        if head is None:
            return Compaction(None, "nothing to summarize")
        self._busy = True
        try:
            return (yield from self._attempt(outcome, head, request))
        finally:
            self._busy = False

    @property
    def refusal(self) -> Refusal:
        """Why no summary can be made now, whatever there is to summarize; empty where one can."""
        if not self.rules.enabled or not self._summarizers:
            return "disabled"
        if self.failures >= MOST_FAILURES:
            return "exhausted"
        return "busy" if self._busy else ""

    def tell(self, event: Event) -> None:
        """To the observer at once; what an observer raises never reaches the run."""
        if not isinstance(event, SummaryDelta):
            self.told.append(event)
        if self._observer is not None:
            notify(self._observer, event)

    def _attempt(self, outcome: Outcome, head: Head, request: "Requests") -> Steps[Compaction]:
        self.tell(SummaryStarted(head.messages, head.tokens, head.most))
        asking = summarize(outcome, head, self.rules, request.summarizer(outcome, head, len(self._summarizers) - 1))
        try:
            text = yield from self._questions(asking, request)
            found = checkpoint_of(outcome, head, text)
        except GeneratorExit:
            self.tell(SummaryCompleted(None, "it was cancelled", self.failures))
            raise
        except SummaryFailed as failure:
            self.failures += 1
            self._tried = outcome.view.border
            self.tell(SummaryCompleted(None, str(failure), self.failures))
            if self.failures == MOST_FAILURES:
                self.tell(SummariesStopped(self.failures))
            return Compaction(None, "failed", str(failure))
        self.failures = 0
        model = self.rules.model or request.model
        return Compaction(replace(found, covers=request.covers(head.cut), model=model, time=_now()))

    def _questions(self, asking: Generator[Ask, str, str], request: "Requests") -> Steps[str]:
        """The core's questions as requests in the caller's format."""
        answer: str | SummaryFailed | None = None
        while True:
            try:
                ask = asking.throw(answer) if isinstance(answer, SummaryFailed) else asking.send(answer)  # type: ignore[arg-type]
            except StopIteration as done:
                return str(done.value)
            try:
                summary = yield Question(request.of(ask, self.rules), self._summarizers[ask.number])
            except SummaryFailed as failure:
                answer = failure
            else:
                if summary.usage is not None:
                    self.spent(summary.usage)
                answer = summary.text


@dataclass(frozen=True, slots=True)
class Requests:
    """What turns the core's questions into requests: the caller's format, the agent's model, its prompt and tools.

    window: of the summarizer's model where that is another, in tokens, None where unknown. taken: what is kept free
    for an answer of the agent's own. covers: how many of the caller's messages stand before a row.
    alternate: neighbouring messages of one role are joined (B27).
    """

    dialect: Dialect
    model: str | None
    system: object
    tools: object
    is_own: bool
    window: int | None
    taken: int
    covers: Callable[[int], int]
    alternate: bool

    def summarizer(self, outcome: Outcome, head: Head, fallbacks: int) -> Summarizer:
        """Who is asked; a window that is not known is taken to hold a quarter more than what may be sent."""
        limits = outcome.view.limits
        unknown = limits.limit + limits.limit // 4
        if self.is_own:
            known = limits.capacity < NO_LIMIT
            return Summarizer(True, limits.capacity - max(0, head.most - self.taken) if known else unknown, fallbacks)
        return Summarizer(False, unknown if self.window is None else self.window - head.most, fallbacks)

    def of(self, ask: Ask, rules: Summarization) -> SummaryRequest:
        """A question in the caller's format."""
        messages = list(ask.messages)
        parameters = {name: value for name, value in rules.parameters.items() if name != "maxSummaryTokens"}
        return SummaryRequest(
            messages=self.dialect.render(alternating(messages) if self.alternate else messages),
            system=self.system if self.is_own else None,
            tools=self.tools if self.is_own else None,
            history=tuple(map(said_of, ask.fresh)),
            previous=ask.previous,
            instruction=ask.instruction,
            max_tokens=ask.max_tokens,
            provider=rules.provider,
            model=rules.model,
            parameters=parameters,
            _read=ask.messages,
        )


def said_of(message: Message) -> Said:
    """A message in plain text, without thinking."""
    texts = [_plain(part) for part in message.parts if not isinstance(part, Reasoning)]
    return Said(message.role, "\n".join(text for text in texts if text))


def _plain(part: object) -> str:
    match part:
        case Text(text=text) | ToolResult(text=text):
            return text
        case ToolCall(name=name, arguments=arguments):
            return f"{name}({arguments})"
    return "[not text]"


def notify(observer: Observer, event: Event) -> None:
    """Tell an observer; what it raises is its own affair."""
    try:
        observer(event)
    except Exception as error:  # noqa: BLE001  # an observer only looks on
        # What it says may quote a message, and the log never does (S18).
        _log.warning("an observer failed with %s at %s", type(error).__name__, type(event).__name__)


def drive(steps: Steps[Done], tell: Callable[[Event], None]) -> Done:
    """Run the steps, asking the summarizers at once. Raises ConfigError for one that has to be awaited."""
    try:
        question = next(steps)
        while True:
            try:
                summary = _taken(question.summarize(question.request), tell)
            except ConfigError:
                raise
            except Exception as error:  # noqa: BLE001  # a model's call: whatever it raises, the summary failed (S9)
                question = steps.throw(_failure(error))
            else:
                question = steps.send(summary)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    finally:
        steps.close()


async def drive_async(steps: Steps[Done], tell: Callable[[Event], None]) -> Done:
    """The same from async code: what a summarizer gives may have to be awaited, or comes piece by piece."""
    try:
        question = next(steps)
        while True:
            try:
                reply = question.summarize(question.request)
                reply = await reply if inspect.isawaitable(reply) else reply
                if isinstance(reply, AsyncIterator):
                    reply = "".join([_told(piece, tell) async for piece in reply])
                summary = _taken(reply, tell)
            except Exception as error:  # noqa: BLE001  # as above
                question = steps.throw(_failure(error))
            else:
                question = steps.send(summary)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    finally:
        steps.close()


def _taken(reply: object, tell: Callable[[Event], None]) -> Summary:
    """A reply as a `Summary`; a text that comes in pieces is told piece by piece."""
    if isinstance(reply, Summary) and isinstance(reply.text, str):
        return reply
    if isinstance(reply, str):
        return Summary(reply)
    if inspect.isawaitable(reply) or isinstance(reply, AsyncIterator):
        if inspect.iscoroutine(reply):
            reply.close()
        raise ConfigError("the summarizer has to be awaited: use fit_async or compact_async")
    if isinstance(reply, Iterable) and not isinstance(reply, Mapping | Set | bytes):
        return Summary("".join([_told(piece, tell) for piece in reply]))
    raise SummaryFailed(f"a summarizer gives a text, got {type(reply).__name__}")


def _told(piece: object, tell: Callable[[Event], None]) -> str:
    if not isinstance(piece, str):
        raise SummaryFailed(f"a summary comes in pieces of text, got {type(piece).__name__}")
    tell(SummaryDelta(piece))
    return piece


def _failure(error: Exception) -> SummaryFailed:
    if isinstance(error, SummaryFailed):
        return error
    failure = SummaryFailed(f"{type(error).__name__}: {error}")
    failure.__cause__ = error
    return failure


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
