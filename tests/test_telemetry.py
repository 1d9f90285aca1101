"""H28: what telemetry records, with the real SDK's exporters in memory; numbers, never a word of a message."""

import asyncio
import subprocess
import sys
from dataclasses import dataclass, replace
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic_ai import Agent, UsageLimits
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.instrumented import InstrumentationSettings
from pydantic_ai.usage import RequestUsage

import longturn
from longturn.agent import ConversationTooLong, LongTurn, OverflowMet, UsageReported
from longturn.agent.telemetry import telemetry
from longturn.core.events import HistoryRepaired, ResultsCleared, SummariesStopped, SummaryCompleted, SummaryStarted
from longturn.core.meter import Usage
from longturn.core.policy import Policy
from longturn.summaries import SummaryRequest
from tests.agents import MODELS, Scripted, reader
from tests.wires import chapters, serving


def play(agent: Agent[None, Any], prompt: str, **more: Any) -> Any:
    """One run without a limit of steps, with its clients closed behind it."""

    async def run() -> Any:
        async with agent:
            return await agent.run(prompt, usage_limits=UsageLimits(request_limit=None), **more)

    return asyncio.run(run())


@dataclass(frozen=True, slots=True)
class Seen:
    """The exporters of one test, and an observer that feeds them."""

    spans: InMemorySpanExporter
    metrics: InMemoryMetricReader
    tracers: TracerProvider
    observer: Any

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans.get_finished_spans() if span.name == name]

    @property
    def points(self) -> dict[str, list[Any]]:
        """The data points of each metric."""
        data = self.metrics.get_metrics_data()
        scopes = [scope for resource in data.resource_metrics for scope in resource.scope_metrics] if data else []
        return {metric.name: list(metric.data.data_points) for scope in scopes for metric in scope.metrics}

    def total(self, name: str, **attributes: str) -> float:
        """A metric's sum over the points with these attributes."""
        points = self.points.get(name, [])
        for key, value in attributes.items():
            points = [point for point in points if point.attributes.get(f"longturn.{key}") == value]
        return sum(float(getattr(point, "value", 0) or getattr(point, "count", 0)) for point in points)


@pytest.fixture
def seen() -> Seen:
    spans, metrics, tracers = InMemorySpanExporter(), InMemoryMetricReader(), TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(spans))
    observer = telemetry(usage=True, tracer_provider=tracers, meter_provider=MeterProvider([metrics]))
    return Seen(spans, metrics, tracers, observer)


def test_every_fit_is_a_span_with_the_state_of_the_window_h28(seen: Seen) -> None:
    """H28, S14: under the run's own span, as long as the fit took."""
    agent = reader(Scripted(30).model, LongTurn(budget=3_000, capacity=20_000, observer=seen.observer))
    with seen.tracers.get_tracer("test").start_as_current_span("run") as run:
        play(agent, "Read.")
    fits = seen.named("longturn.fit")
    assert len(fits) == 31
    assert {span.parent and span.parent.span_id for span in fits} == {run.get_span_context().span_id}
    last: dict[str, Any] = dict(fits[-1].attributes or {})
    assert last["gen_ai.provider.name"] == "function"
    assert last["gen_ai.request.model"].startswith("function:")
    assert last["longturn.budget"] == 3_000
    assert last["longturn.messages_before"] == 61
    assert 0 < last["longturn.sent"] <= 3_000
    assert last["longturn.sent"] == sum(
        last[f"longturn.{part}"] for part in ("system", "tools", "messages", "checkpoint")
    )
    assert last["longturn.seconds"] == pytest.approx(
        ((fits[-1].end_time or 0) - (fits[-1].start_time or 0)) / 1e9, rel=0.01
    )
    assert seen.total("longturn.window.tokens") == seen.total("longturn.fit.duration") == 31


def test_every_cut_is_a_span_and_is_counted_by_its_kind_h28(seen: Seen) -> None:
    events: list[object] = []
    agent = reader(Scripted(30).model, LongTurn(budget=3_000, observer=[seen.observer, events.append]))
    play(agent, "Read.")
    cleared = [event for event in events if isinstance(event, ResultsCleared)]
    assert len(seen.named("longturn.clear_results")) == len(cleared) > 0
    assert seen.total("longturn.cuts", cut="clear results") == len(cleared)
    assert seen.total("longturn.cut.tokens", cut="clear results") == sum(event.tokens_saved for event in cleared)


def test_a_recovery_is_a_span_with_the_figures_of_the_provider_h28_h24(seen: Seen) -> None:
    with serving(chapters(40), window=9_000) as wire:
        agent = reader(
            MODELS["openai_chat"](wire.url), LongTurn(capacity=40_000, budget=32_000, observer=seen.observer)
        )
        play(agent, "Read the book.")
        refused = wire.statuses.count(400)
    spans = seen.named("longturn.recover")
    assert len(spans) == refused == seen.total("longturn.recoveries") > 0
    assert (
        dict(spans[0].attributes or {}).items()
        >= {
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "gpt-test",
            "longturn.attempt": 1,
            "longturn.limit": 9_000,
        }.items()
    )


def test_a_summary_is_one_span_from_its_start_to_its_end_h28(seen: Seen) -> None:
    story = Scripted(60)

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        last = messages[-1].parts[-1]
        if isinstance(last, UserPromptPart) and "about to be cut" in str(last.content):
            text = "Secret words: nobody came to the door that night. " * 3
            return ModelResponse([TextPart(text)], usage=RequestUsage(input_tokens=900, output_tokens=60))
        return story(messages, info)

    policy = replace(Policy(), rungs=("turns", "rounds"))
    capability: LongTurn[None] = LongTurn(budget=4_000, policy=policy, summarize=True, observer=seen.observer)
    play(reader(FunctionModel(answer), capability), "Read.")
    spans = seen.named("longturn.summarize")
    assert len(spans) == seen.total("longturn.summaries", outcome="completed") > 0
    for span in spans:
        assert (span.end_time or 0) > (span.start_time or 0)
        assert dict(span.attributes or {})["longturn.summary.tokens"] != 0
        assert span.status.is_unset
    written = "".join(span.to_json() for span in seen.spans.get_finished_spans()) + str(seen.points)
    assert "nobody" not in written.lower()


def test_a_failed_summary_says_that_it_failed_and_not_what_the_error_quotes_h28(seen: Seen) -> None:
    """H28, S18: an error's text may quote a message."""

    def fails(request: SummaryRequest) -> str:
        raise RuntimeError("nobody came to the door")

    fitter = longturn.Fitter(budget=600, summarize=fails, observer=seen.observer)
    messages: list[dict[str, Any]] = []
    for number in range(12):
        messages += [
            {"role": "user", "content": f"Question {number}? " * 20},
            {"role": "assistant", "content": "Yes. " * 60},
        ]
        fitter.fit(messages)
    spans = seen.named("longturn.summarize")
    assert len(spans) == seen.total("longturn.summaries", outcome="failed") == 3
    assert not spans[0].status.is_ok
    assert (spans[0].attributes or {})["error.type"] == "summary_failed"
    assert len(seen.named("longturn.summaries_stopped")) == 1
    assert "door" not in "".join(span.to_json() for span in seen.spans.get_finished_spans())


def test_no_word_of_a_repair_or_of_a_summarys_error_is_an_attribute_h28(seen: Seen) -> None:
    seen.observer(HistoryRepaired(("messages[3]: the call 'secret' got an answer", "messages[5]: secret")))
    seen.observer(SummaryStarted(4, 900, 100))
    seen.observer(SummaryCompleted(None, "secret", 1))
    seen.observer(ConversationTooLong("anthropic:claude-x", 9_000, 8_000))
    seen.observer(SummariesStopped(3))
    assert (seen.named("longturn.repair_history")[0].attributes or {})["longturn.repairs"] == 2
    assert (seen.named("longturn.too_long")[0].attributes or {})["error.type"] == "too_long"
    assert seen.total("longturn.ends", reason="too_long") == 1
    assert "secret" not in "".join(span.to_json() for span in seen.spans.get_finished_spans())


@pytest.mark.parametrize(
    ("model", "provider", "name"),
    [
        ("openai:gpt-5.2", "openai", "gpt-5.2"),
        ("google:gemini-3-pro", "gcp.gemini", "gemini-3-pro"),
        ("bedrock:eu.anthropic.claude:0", "aws.bedrock", "eu.anthropic.claude:0"),
        ("nameless", None, "nameless"),
    ],
)
def test_models_are_named_as_the_genai_conventions_name_them_h28(
    seen: Seen, model: str, provider: str | None, name: str
) -> None:
    seen.observer(OverflowMet(model, 1, None, None))
    attributes = seen.named("longturn.recover")[0].attributes or {}
    assert (attributes.get("gen_ai.provider.name"), attributes["gen_ai.request.model"]) == (provider, name)


def test_the_usage_of_tokens_is_recorded_on_request_only_h28() -> None:
    """H28, L15: Pydantic AI's own instrumentation records it too, and nothing may be counted twice."""
    for usage in (False, True):
        metrics = InMemoryMetricReader()
        observer = telemetry(usage=usage, meter_provider=MeterProvider([metrics]))
        observer(UsageReported("openai:gpt-5.2", Usage(900, 30), "summary"))
        data = metrics.get_metrics_data()
        found = data.resource_metrics[0].scope_metrics[0].metrics if data else []
        assert [metric.name for metric in found] == (["gen_ai.client.token.usage"] if usage else [])
        if found:
            sums = {point.attributes["gen_ai.token.type"]: point.sum for point in found[0].data.data_points}  # type: ignore[union-attr,index]
            assert sums == {"input": 900, "output": 30}


def test_the_spans_of_an_instrumented_agent_hold_ours_and_name_the_conversation_h28(seen: Seen) -> None:
    agent: Agent[None, str] = Agent(Scripted(0).model, capabilities=[LongTurn(observer=seen.observer)])
    agent.instrument = InstrumentationSettings(tracer_provider=seen.tracers, include_content=False)
    done = play(agent, "Hello.", conversation_id="c-1")
    (fit,) = seen.named("longturn.fit")
    ids = {span.context.span_id: span for span in seen.spans.get_finished_spans() if span.context}
    assert fit.parent is not None
    assert fit.parent.span_id in ids
    assert (fit.attributes or {})["gen_ai.conversation.id"] == done.conversation_id == "c-1"


def test_without_an_sdk_nothing_is_recorded_and_nothing_fails_h28() -> None:
    program = """
import sys
sys.modules["opentelemetry.sdk"] = None
from longturn.agent.telemetry import telemetry
from longturn.core.events import ResultsCleared
telemetry(usage=True)(ResultsCleared(1, 100))
print("quiet")
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("quiet\n", "")
