"""OpenTelemetry spans and metrics of what happens to windows: numbers and names of models, never a word of a message.

It needs `opentelemetry-api` alone; without an SDK nothing is recorded and nothing fails.
"""

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, fields
from time import time_ns
from types import MappingProxyType

from opentelemetry import baggage, metrics, trace
from opentelemetry.metrics import Counter, Histogram, Meter
from opentelemetry.trace import SpanKind, Status, StatusCode, Tracer

from longturn.agent.subagents import FromSubagent
from longturn.agent.words import (
    AgentEvent,
    ConversationTooLong,
    LimitReached,
    OverflowMet,
    RequestFitted,
    UsageReported,
)
from longturn.core.events import (
    ArgumentsShortened,
    HistoryRepaired,
    HistoryTrimmed,
    ResultsCleared,
    ResultsPruned,
    ResultsTrimmed,
    SummariesStopped,
    SummaryCompleted,
    SummaryStarted,
    ThinkingDropped,
)

SCOPE = "longturn"
"""The instrumentation scope, and what the names of its own attributes and metrics begin with."""

TOKEN_BUCKETS = tuple(4**power for power in range(14))
SECOND_BUCKETS = tuple(0.01 * 2**power for power in range(14))
"""As the GenAI conventions have them for tokens and durations (1.41)."""
FIT_BUCKETS = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0, 20.0, 60.0)
SHARE_BUCKETS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5, 2.0)

# What the conventions call providers, where Pydantic AI calls them otherwise.
PROVIDERS: Mapping[str, str] = MappingProxyType(
    {
        "google": "gcp.gemini",
        "google-gla": "gcp.gemini",
        "google-vertex": "gcp.vertex_ai",
        "google-cloud": "gcp.vertex_ai",
        "bedrock": "aws.bedrock",
        "azure": "azure.ai.openai",
        "mistral": "mistral_ai",
        "grok": "x_ai",
        "xai": "x_ai",
    }
)
CUTS: Mapping[type, str] = MappingProxyType(
    {
        HistoryTrimmed: "trim history",
        ResultsCleared: "clear results",
        ResultsPruned: "prune results",
        ResultsTrimmed: "trim results",
        ArgumentsShortened: "shorten arguments",
        ThinkingDropped: "drop thinking",
        HistoryRepaired: "repair history",
    }
)
"""The name of the span of each event that changed a window."""

_CONVERSATION = "gen_ai.conversation.id"
# An observer is told of the end of a summary in the task that it was told of the beginning in.
_summary_began: ContextVar[int | None] = ContextVar("longturn_summary_began", default=None)

Attributes = Mapping[str, str | int | float | bool]


def telemetry(
    *,
    usage: bool = False,
    tracer_provider: trace.TracerProvider | None = None,
    meter_provider: metrics.MeterProvider | None = None,
) -> Callable[[AgentEvent | FromSubagent], None]:
    """An observer for `LongTurn`, `Session` and `Fitter`, that makes spans and metrics of what it is told (H28).

    Spans: `longturn.fit`, `longturn.summarize`, `longturn.recover` and one for each kind of cut (`CUTS`), below the
    span that is current, such as Pydantic AI's own.
    usage: also record `gen_ai.client.token.usage`; leave it off where Pydantic AI's instrumentation is on, since that
    records it too. The providers are those that the program has set, unless others are given.
    """
    meter = metrics.get_meter(SCOPE, meter_provider=meter_provider)
    return _Telemetry(trace.get_tracer(SCOPE, tracer_provider=tracer_provider), _instruments(meter, usage))


@dataclass(frozen=True, slots=True)
class _Instruments:
    window: Histogram
    share: Histogram
    fit: Histogram
    summary: Histogram
    cuts: Counter
    freed: Counter
    summaries: Counter
    recoveries: Counter
    ends: Counter
    usage: Histogram | None


def _instruments(meter: Meter, usage: bool) -> _Instruments:
    def histogram(name: str, unit: str, what: str, buckets: tuple[float, ...]) -> Histogram:
        return meter.create_histogram(name, unit, what, explicit_bucket_boundaries_advisory=buckets)

    tokens = "Number of input and output tokens used."
    return _Instruments(
        window=histogram("longturn.window.tokens", "{token}", "Tokens of a request as it is sent.", TOKEN_BUCKETS),
        share=histogram("longturn.window.share", "1", "What is sent, as a share of its limit.", SHARE_BUCKETS),
        fit=histogram("longturn.fit.duration", "s", "How long it takes to fit a request.", FIT_BUCKETS),
        summary=histogram("longturn.summary.duration", "s", "How long a summary takes.", SECOND_BUCKETS),
        cuts=meter.create_counter("longturn.cuts", "{cut}", "Changes that were made to windows, by kind."),
        freed=meter.create_counter("longturn.cut.tokens", "{token}", "Tokens that cuts took out of windows."),
        summaries=meter.create_counter("longturn.summaries", "{summary}", "Summaries, by outcome."),
        recoveries=meter.create_counter("longturn.recoveries", "{request}", "Refused requests that were made again."),
        ends=meter.create_counter("longturn.ends", "{run}", "Runs that could not go on as they were, by reason."),
        usage=histogram("gen_ai.client.token.usage", "{token}", tokens, TOKEN_BUCKETS) if usage else None,
    )


@dataclass(frozen=True, slots=True)
class _Telemetry:
    tracer: Tracer
    instruments: _Instruments

    def __call__(self, event: AgentEvent | FromSubagent) -> None:
        match event:
            case RequestFitted():
                self._fitted(event)
            case SummaryStarted():
                _summary_began.set(time_ns())
            case SummaryCompleted():
                self._summarized(event)
            case OverflowMet():
                self.instruments.recoveries.add(1, _named(event.model))
                self._span("recover", {**_named(event.model), **_numbers(event)})
            case ConversationTooLong():
                self._ended("too_long", {**_named(event.model), **_numbers(event)}, is_error=True)
            case LimitReached():
                self._ended("limit", _numbers(event))
            case SummariesStopped():
                self._ended("summaries_stopped", _numbers(event))
            case UsageReported():
                self._used(event)
            case FromSubagent():
                self(event.event)
            case _ if type(event) in CUTS:
                self._cut(event)

    def _fitted(self, event: RequestFitted) -> None:
        snapshot, named = event.snapshot, _named(event.model)
        self.instruments.window.record(snapshot.sent, named)
        self.instruments.fit.record(event.seconds, named)
        if snapshot.share is not None:
            self.instruments.share.record(snapshot.share, named)
        numbers = {**_numbers(event), **_numbers(snapshot), "longturn.sent": snapshot.sent}
        self._span("fit", {**named, **numbers}, took=event.seconds)

    def _cut(self, event: AgentEvent) -> None:
        kind = {"longturn.cut": CUTS[type(event)]}
        numbers = _numbers(event)
        if isinstance(event, HistoryTrimmed):
            freed = event.tokens_before - event.tokens_after
        else:
            freed = getattr(event, "tokens_saved", 0)
        if isinstance(event, HistoryRepaired):
            numbers["longturn.repairs"] = len(event.repairs)
        self.instruments.cuts.add(1, kind)
        if freed > 0:
            self.instruments.freed.add(freed, kind)
        self._span(kind["longturn.cut"], numbers)

    def _summarized(self, event: SummaryCompleted) -> None:
        began, now = _summary_began.get(), time_ns()
        _summary_began.set(None)
        took = (now - began) / 1e9 if began else 0.0
        made = event.checkpoint
        outcome: Attributes = {"longturn.outcome": "completed" if made else "failed"}
        numbers = {**_numbers(event), **outcome}
        if made is not None:
            numbers |= {"longturn.summary.tokens": made.tokens, "longturn.summary.source_tokens": made.source_tokens}
        self.instruments.summaries.add(1, outcome)
        self.instruments.summary.record(took, outcome)
        self._span("summarize", numbers, took=took, error=None if made else "summary_failed")

    def _ended(self, reason: str, numbers: Attributes, *, is_error: bool = False) -> None:
        self.instruments.ends.add(1, {"longturn.reason": reason})
        self._span(reason.replace("_", " "), numbers, error=reason if is_error else None)

    def _used(self, event: UsageReported) -> None:
        if self.instruments.usage is None:
            return
        attributes = {"gen_ai.operation.name": "chat", "longturn.kind": event.kind, **_named(event.model)}
        for kind, tokens in (("input", event.usage.input_tokens), ("output", event.usage.output_tokens)):
            self.instruments.usage.record(tokens, {**attributes, "gen_ai.token.type": kind})

    def _span(self, name: str, attributes: Attributes, *, took: float = 0.0, error: str | None = None) -> None:
        """A span that has just ended, below the current one."""
        conversation = baggage.get_baggage(_CONVERSATION)
        known = {_CONVERSATION: conversation} if isinstance(conversation, str) and conversation else {}
        end = time_ns()
        span = self.tracer.start_span(
            f"{SCOPE}.{name}".replace(" ", "_"),
            kind=SpanKind.INTERNAL,
            attributes={**attributes, **known},
            start_time=end - round(took * 1e9),
        )
        if error is not None:
            span.set_attribute("error.type", error)
            span.set_status(Status(StatusCode.ERROR))
        span.end(end)


def _named(model: str) -> Attributes:
    """A model in the words of the GenAI conventions."""
    provider, colon, name = model.partition(":")
    if not colon:
        return {"gen_ai.request.model": model}
    return {"gen_ai.provider.name": PROVIDERS.get(provider, provider), "gen_ai.request.model": name}


def _numbers(event: object) -> dict[str, str | int | float | bool]:
    """Its numbers, and those of its words that are one of a few: what a message says cannot be among them."""
    found: dict[str, str | int | float | bool] = {}
    for each in fields(event):  # type: ignore[arg-type]
        value = getattr(event, each.name)
        if isinstance(value, int | float) or each.name in ("reason", "source", "kind"):
            found[f"{SCOPE}.{each.name}"] = value
    return found
