"""One conversation's windows: a `Fitter` for each model that serves it (H16), what was refused, what was told."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

from pydantic_ai.messages import InstructionPart, ModelMessage, ModelRequest, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings, merge_model_settings
from pydantic_ai.usage import RequestUsage, RunUsage

from longturn.agent.belt import with_belt
from longturn.agent.messages import DIALECT, is_standing
from longturn.agent.words import AgentEvent, ConversationTooLong, Observer, OverflowMet, RequestFitted, UsageReported
from longturn.core.events import Event, SummariesStopped, SummaryCompleted, SummaryStarted
from longturn.core.meter import Kind, Meter, Usage
from longturn.core.policy import Budget, Policy
from longturn.fitter import Fitter
from longturn.overflow import Overflow, overflow
from longturn.summaries import Compaction, Summarize, notify

MOST_REFUSALS = 4
"""How many refusals one request may meet before the provider's error is raised (H24)."""

LEAST_OUTPUT = 256
"""An output limit is not lowered below this many tokens; the history is shortened instead."""

ByModel = Callable[[Model], Any]
Key = tuple[str, str | None, int | None]
"""Of a route: the model's id, its address, and the request's own output limit."""

_log = logging.getLogger("longturn")
# Those are told as they happen, by the fitter itself.
_TOLD_AT_ONCE = (SummaryStarted, SummaryCompleted, SummariesStopped)


@dataclass(frozen=True, slots=True)
class Rules:
    """What windows are made by, the same for all conversations; arguments are those of `LongTurn`."""

    policy: Policy
    budget: int | Budget | ByModel | None = None
    capacity: int | ByModel | None = None
    observers: tuple[Observer, ...] = ()
    summarizers: Callable[["Conversation"], Sequence[Summarize]] = lambda _conversation: ()

    def tell(self, event: AgentEvent) -> None:
        """To every observer; what one raises never reaches the run (H28)."""
        for observer in self.observers:
            notify(observer, event)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as the hooks left it, for the model that will serve it."""

    model: Model
    messages: list[ModelMessage]
    settings: ModelSettings | None
    parameters: ModelRequestParameters

    @property
    def max_output(self) -> int | None:
        """The request's own output limit, in tokens (B10)."""
        found = (merge_model_settings(self.model.settings, self.settings) or {}).get("max_tokens")
        return found if isinstance(found, int) else None

    @property
    def instructions(self) -> list[InstructionPart | str]:
        """What the request carries as instructions: those of its parameters, else the last ones in the messages."""
        if self.parameters.instruction_parts is not None:
            return list(self.parameters.instruction_parts)
        told = (message.instructions for message in reversed(self.messages) if isinstance(message, ModelRequest))
        return [text for text in [next((text for text in told if text), None)] if text]

    @property
    def tools(self) -> list[object]:
        """Everything that is sent as a tool or a schema (H18, H23)."""
        parameters, output = self.parameters, self.parameters.output_object
        revealed = parameters.revealed_tool_names
        function_tools = [tool for tool in parameters.function_tools if not tool.defer_loading or tool.name in revealed]
        schema = [{"name": output.name, "schema": output.json_schema}] if output else []
        return [*function_tools, *parameters.output_tools, *parameters.native_tools, *schema]


@dataclass(frozen=True, slots=True)
class Fitted:
    """What is sent for it."""

    messages: list[ModelMessage]
    settings: ModelSettings | None


@dataclass(slots=True)
class Route:
    """One model's side of a conversation. max_output: what refusals lowered the output limit to."""

    fitter: Fitter
    window: int | None
    asked: Asked
    max_output: int | None = None
    refusals: int = 0
    told: tuple[int, tuple[Event, ...]] = (0, ())

    @property
    def state(self) -> dict[str, Any]:
        """What a later process needs besides the messages to make the same windows, as JSON data (L9)."""
        return {**self.fitter.dump(measured=False), "max_output": self.max_output}


@dataclass(slots=True)
class Conversation:
    """The routes of one conversation.

    routes: by what tells them apart, the one that was used last at the end. current: the route of the request that is
    under way. spent: the run's own usage, to which summaries are added. busy: a run is on it. saved: the `Route.state`
    of an earlier process, by the route's name.
    """

    rules: Rules
    routes: dict[Key, Route] = field(default_factory=dict)
    current: Route | None = None
    spent: RunUsage | None = None
    busy: bool = False
    saved: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    async def compact(self, asked: Asked) -> Compaction:
        """Summarize now, on request (S10)."""
        route = self.current = self._route(asked)
        try:
            return await route.fitter.compact_async(asked.messages)
        finally:
            self.current = None

    @property
    def states(self) -> dict[str, dict[str, Any]]:
        """The `Route.state` of every route by its name, which is the same in every process."""
        return {route_name(key): route.state for key, route in self.routes.items()}

    async def fit(self, asked: Asked) -> Fitted:
        """The window for a call that is made now. Raises ContextWindowExceeded where none fits (H18)."""
        route = self.current = self._route(asked)
        began = perf_counter()
        window = await route.fitter.fit_async(asked.messages, system=asked.instructions, tools=asked.tools)
        told = len(asked.messages), window.events
        if told != route.told:
            for event in window.events:
                if not isinstance(event, _TOLD_AT_ONCE):
                    self.rules.tell(event)
        route.told = told
        taken = perf_counter() - began
        name, before, after = asked.model.model_id, len(asked.messages), len(window.messages)
        self.rules.tell(RequestFitted(name, before, after, window.snapshot, taken))
        settings = with_belt(asked.model, asked.settings)
        if route.max_output is not None:
            settings = {**(settings or {}), "max_tokens": route.max_output}
        return Fitted(window.messages, settings)  # type: ignore[arg-type]

    def observe(self, route: Route, usage: RequestUsage, kind: Kind = "call") -> None:
        """Take in what the provider reported; a report without input tokens says nothing."""
        reported = usage_of(usage)
        if kind == "call":
            route.refusals = 0
        if reported.input_tokens > 0:
            route.fitter.observe(reported, kind=kind)
            self.rules.tell(UsageReported(route.asked.model.model_id, reported, kind))

    def recovers(self, route: Route, found: Overflow | None) -> bool:
        """Whether a refused request may be made again, smaller (H24); anything but an overflow may not (H26)."""
        if found is None or route.refusals >= MOST_REFUSALS:
            return False
        route.refusals += 1
        lower = _lower_output(route, found) if found.about_output else None
        if lower is None and not route.fitter.recover(replace(found, about_output=False)):
            return False
        route.max_output = route.max_output if lower is None else lower
        name = route.asked.model.model_id
        self.rules.tell(OverflowMet(name, route.refusals, found.tokens, found.limit, lower))
        return True

    def overflowed(self, route: Route, response: ModelResponse) -> Overflow | None:
        """Whether an answer says that the window cut it short, as some providers' do (H24)."""
        details, usage = response.provider_details or {}, response.usage
        answer = {
            "finish_reason": details.get("finish_reason") or response.finish_reason,
            "usage": {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens},
        }
        most = route.max_output or route.asked.max_output
        return overflow(answer, capacity=route.window, max_output=most)

    def too_long(self, route: Route | None, found: Overflow | None) -> None:
        """Tell that it cannot go on; it is the person's decision what follows, so no alarm (L17)."""
        model = route.asked.model.model_id if route else "unknown"
        tokens, capacity = (found.tokens, found.limit) if found else (None, None)
        _log.info("a conversation is too long for %s: %s tokens, it takes %s", model, tokens, capacity)
        self.rules.tell(ConversationTooLong(model, tokens, capacity))

    @property
    def meters(self) -> Mapping[str, Meter]:
        """What was seen and spent, by model (S12-S14); of several routes to one model, of the last."""
        return {route.asked.model.model_id: route.fitter.meter for route in self.routes.values()}

    def _route(self, asked: Asked) -> Route:
        model = asked.model
        key = (model.model_id, model.base_url, asked.max_output)
        route = self.routes.pop(key, None)
        if route is None:
            route = self._new_route(asked)
            saved = self.saved.get(route_name(key))
            if saved:
                route.fitter.load({**route.fitter.dump(), **saved})
                route.max_output = saved.get("max_output")
        self.routes[key] = route
        route.asked = asked
        return route

    def _new_route(self, asked: Asked) -> Route:
        rules, model = self.rules, asked.model
        capacity = rules.capacity(model) if callable(rules.capacity) else rules.capacity
        window = model.context_window if capacity is None else capacity
        budget = rules.budget(model) if callable(rules.budget) else rules.budget
        fitter = Fitter(
            model=model.model_id,
            budget=budget,
            capacity=window,
            max_output=asked.max_output,
            policy=rules.policy,
            dialect=DIALECT,
            summarize=rules.summarizers(self) or None,
            observer=rules.tell,
        )
        return Route(fitter, window, asked)


def route_name(key: tuple[object, ...]) -> str:
    """The name of a route in a store."""
    return " ".join(map(str, key))


def usage_of(usage: RequestUsage) -> Usage:
    """Pydantic AI's usage as ours; both count cached tokens as input."""
    return Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_tokens=usage.cache_read_tokens,
        written_tokens=usage.cache_write_tokens,
        reasoning_tokens=usage.output_reasoning_tokens,
    )


def standing(policy: Policy) -> Policy:
    """A policy that never leaves out what later requests are read with (`is_standing`)."""
    pin = policy.pin
    return replace(policy, pin=is_standing if pin is None else lambda item: is_standing(item) or bool(pin(item)))


def _lower_output(route: Route, found: Overflow) -> int | None:
    """The output limit that leaves the input as it is, or None where that is too little to answer with."""
    asked = route.max_output or route.asked.max_output or found.output
    is_stated = found.limit is not None and found.input is not None
    lower = (found.limit or 0) - (found.input or 0) if is_stated else (asked or 0) // 2
    return lower if lower >= LEAST_OUTPUT and (asked is None or lower < asked) else None
