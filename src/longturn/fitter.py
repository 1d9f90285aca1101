"""`Fitter`: the fold over one growing message list; it reads and counts only what has arrived since the last call."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from longturn import catalog
from longturn.arguments import base_of, checked, named_policy, output_room, summarizing, whole
from longturn.core import window as windows
from longturn.core.caches import Prices
from longturn.core.checkpoint import Checkpoint
from longturn.core.counts import Counts
from longturn.core.events import Observer, SummaryCompleted
from longturn.core.fold import Base, Outcome, Recovery, Route, is_over
from longturn.core.head import trigger_size
from longturn.core.messages import Message
from longturn.core.meter import Kind, Meter, Snapshot, Usage, factor_of
from longturn.core.policy import Budget, Limits, Policy, Summarization
from longturn.core.rungs import ladder
from longturn.core.snapshot import snapshot_of
from longturn.core.tokens import estimator_for
from longturn.core.view import Rules, State
from longturn.debug_log import log_refusal, log_usage, log_window, set_up
from longturn.dialects.base import Dialect, Native
from longturn.dialects.registry import by_name
from longturn.errors import ConfigError
from longturn.overflow import Overflow
from longturn.reading import Reading
from longturn.remembered import recall, remember
from longturn.report import refusal
from longturn.shaped import Window
from longturn.summaries import Compaction, Requests, Steps, Summaries, Summarize, drive, drive_async

VERSION = 2
"""Of what `Fitter.dump` gives."""


@dataclass(frozen=True, slots=True)
class _Call:
    """One call as it is worked on: the decisions for it, and what it was made with."""

    dialect: Dialect
    base: Base
    outcome: Outcome
    system: object
    tools: object
    given: Sequence[Native]


class Fitter:
    """`fit`, remembering: hand it the whole growing list at each call, and a call costs what has arrived.

    It gives what `fit` gives for the same list (B35). The list is append-only; that its length, first message and the
    seam agree with the last call is checked, with `check="full"` every message is. A list that does not agree is folded
    from scratch. Arguments are those of `fit`; `system` and `tools` can be given once here or at each `fit`.

    summarize: who writes the summary when messages would be left out, by the rules of the policy's `summarization`: a
        callable that takes a `SummaryRequest`; of several, the ones behind the first are asked when it fails. Without
        one, messages are left out without a summary.
    prices: dollars per token, where those of the model are not to be looked up by name (S13).
    observer: told of each summary's progress as it happens; all else that happens is in `Window.events`.
    """

    def __init__(
        self,
        *,
        model: str | None = None,
        budget: Budget | int | None = None,
        capacity: int | None = None,
        max_output: int | None = None,
        policy: Policy | str | None = None,
        system: object = None,
        tools: object = None,
        dialect: Dialect | str | None = None,
        prices: Prices | None = None,
        check: Literal["seam", "full"] = "seam",
        summarize: Summarize | Sequence[Summarize] | None = None,
        observer: Observer | None = None,
    ) -> None:
        self.model = model
        self.policy = summarizing(named_policy(policy), summarize)
        ladder(self.policy)  # a rung that does not exist is said here, not in mid-conversation
        window = catalog.window_of(model) if capacity is None else whole("capacity", capacity, least=1)
        self._taken = output_room(model, window) if max_output is None else whole("max_output", max_output, least=0)
        self._room = None if window is None else max(0, window - self._taken)
        self._budget = budget if isinstance(budget, Budget) else self.policy.budget(window, budget)
        self._limits = Limits.of(self.policy, self._budget, self._room)
        self._estimator = self.policy.estimator or estimator_for(model)
        self._named = by_name(dialect) if isinstance(dialect, str) else dialect
        self._system, self._tools = system, tools
        if check not in ("seam", "full"):
            raise ConfigError(f'check must be "seam" or "full", got {check!r}')
        self._check = check
        self._remembered: dict[str, tuple[int, ...]] = {}
        self._factors: list[tuple[int, float]] = []
        self._recoveries: list[Recovery] = []
        # System prompt and tools of the last call.
        self._given: tuple[object, object] = (system, tools)
        self._priced: tuple[object, object, Base] | None = None
        self._model_window, self._prices = window, prices
        self._logs = set_up()
        self._meter = Meter()
        self._snapshot: Snapshot | None = None
        summarizers = (summarize,) if callable(summarize) else tuple(summarize or ())
        self._summaries = Summaries(self.policy.summarization or Summarization(), summarizers, observer, self._spent)
        # Checkpoints that were made here: (how many messages stood before it, the checkpoint).
        self._made: list[tuple[int, Checkpoint]] = []
        self._begin()

    def _begin(self, before: Reading | None = None) -> None:
        """Start a transcript; what was learnt of the provider's counting stays."""
        self._reading = Reading(recall(self._estimator.measure, self._remembered), before)
        self._route: Route | None = None
        self._rendered: list[Native] = []
        self._rendered_for: tuple[int, tuple[State, Message | None] | None] = (0, None)
        self._last: tuple[int, int] | None = None

    def fit(self, messages: Sequence[Native], *, system: object = None, tools: object = None) -> Window:
        """The window for a call that is made now; errors are those of `longturn.fit`.

        Where it is time for a summary and there is a summarizer, that is asked first. Raises ConfigError where it has
        to be awaited.
        """
        return drive(self._fitting(messages, system, tools), self._summaries.tell)

    async def fit_async(self, messages: Sequence[Native], *, system: object = None, tools: object = None) -> Window:
        """The same from async code; the summarizer may have to be awaited."""
        return await drive_async(self._fitting(messages, system, tools), self._summaries.tell)

    def compact(self, messages: Sequence[Native] | None = None) -> Compaction:
        """Summarize now, whatever the trigger says (S10); the next `fit` uses it. messages: the last list when None."""
        return drive(self._compacting(messages), self._summaries.tell)

    async def compact_async(self, messages: Sequence[Native] | None = None) -> Compaction:
        """The same from async code."""
        return await drive_async(self._compacting(messages), self._summaries.tell)

    def _fitting(self, messages: Sequence[Native], system: object, tools: object) -> Steps[Window]:
        call = self._advance(messages, system, tools)
        if self.policy.summarization is not None and not self._summaries.refusal:
            call = (yield from self._summarized(call, on_request=False))[0]
        view, state = call.outcome.view, call.outcome.state
        if is_over(view, state):
            error = refusal(call.outcome, call.base, self._taken)
            if self._logs:
                log_refusal(error)
            raise error
        snapshot = self._snapshot_of(call)
        self._last = (view.border, snapshot.used)
        self._snapshot = snapshot
        told, self._summaries.told = self._summaries.told, []
        events = (*told, *windows.events(call.outcome))
        if self._logs:
            log_window(snapshot, call.outcome, events)
        return Window(
            messages=self._render(call.dialect, call.outcome),
            system=call.system,
            tools=call.tools,
            tokens=snapshot.used,
            budget=self._budget.limit,
            capacity=self._room,
            dialect=call.dialect.name,
            events=events,
            snapshot=snapshot,
            body=None,
            _given=self._reading.items,
            _count=len(call.given),
            _outcome=call.outcome,
            _base=call.base,
        )

    def _compacting(self, messages: Sequence[Native] | None) -> Steps[Compaction]:
        given = self._reading.items if messages is None else messages
        if not given:
            return Compaction(None, self._summaries.refusal or "nothing to summarize")
        call = self._advance(given, *self._given)
        return (yield from self._summarized(call, on_request=True))[1]

    def _advance(self, messages: Sequence[Native], system: object, tools: object) -> _Call:
        """Read what has arrived and decide."""
        system = self._system if system is None else system
        tools = self._tools if tools is None else tools
        self._given = system, tools
        given = checked(messages)
        dialect = self._follow(given)
        base = self._price(dialect, system, tools)
        assert self._route is not None
        return _Call(dialect, base, self._route.advance(base), system, tools, given)

    def _summarized(self, call: _Call, *, on_request: bool) -> Steps[tuple[_Call, Compaction]]:
        """Make a summary if it is time; the call as it stands with the checkpoint in force."""
        assert self._route is not None
        model = self._summaries.rules.model
        request = Requests(
            dialect=call.dialect,
            model=self.model,
            system=call.system,
            tools=call.tools,
            is_own=model is None or model == self.model,
            window=catalog.window_of(model),
            taken=self._taken,
            covers=self._reading.messages_before,
            alternate=self.policy.alternate,
        )
        reading, count = self._reading, len(call.given)
        compaction = yield from self._summaries.steps(call.outcome, request, on_request=on_request)
        if self._reading is not reading or len(reading.items) != count:
            # While the summary was awaited, another call has read on, or read another list.
            call = self._advance(call.given, call.system, call.tools)
        checkpoint = compaction.checkpoint
        if checkpoint is not None:
            before = call.outcome.view.exact(call.outcome.before)
            self._reading.transcript.extend([(checkpoint, -1, False)])
            self._made.append((self._reading.messages(count), checkpoint))
            call = replace(call, outcome=self._route.advance(call.base))
            after = call.outcome.view.exact(call.outcome.state)
            self._summaries.tell(SummaryCompleted(checkpoint, tokens_before=before, tokens_after=after))
        return call, compaction

    def observe(self, usage: object, *, kind: Kind = "call", model: str | None = None) -> None:
        """Take in what a provider reported: any SDK's usage object or dict, or a `Usage`; the meter counts it (S13).

        kind: "call" is the report on the last window; later comparisons are scaled by reported over estimated tokens,
        and nothing that was decided is undone (L15). "subagent", "summary" and "failed", an attempt that was billed all
        the same, are only counted. model: who was asked, when that is not this fitter's own.

        Raises ConfigError before the first `fit`, and for a report without a count of input tokens.
        """
        reported = Usage.of(usage)
        if reported is None:
            raise ConfigError(f"no count of input tokens in the usage report: {usage!r:.200}")
        if kind == "call":
            self._calibrate(reported)
        self._count(reported, kind, model)

    def _calibrate(self, reported: Usage) -> None:
        if self._last is None or self._route is None:
            raise ConfigError("observe() takes the report on a window: call fit() first")
        border, tokens = self._last
        self._learn(border, factor_of(reported.input_tokens, tokens))

    def recover(self, found: Overflow) -> bool:
        """Take in that the provider refused the last window as too long; then `fit` the same list again, and send that.

        It holds at most two thirds of what was refused, and less again after a further refusal. From then on no more is
        sent than the refusal says the model takes, or nine tenths of what was refused (B34, H24). Nothing else is kept
        of it, so tell the meter with `observe(usage, kind="failed")` what it cost, if anything.

        False: nothing smaller can be made; raise the provider's error. A refusal that is about the output limit
        (`about_output`) asks for a lower one, not for this. Raises ConfigError before the first `fit`.
        """
        if self._last is None or self._route is None:
            raise ConfigError("recover() takes the refusal of a window: call fit() first")
        border, refused = self._last
        sent = found.input or found.tokens
        if sent:
            self._learn(border, factor_of(sent, refused))
        factor = factor_of(sent, refused) if sent else self._meter.factor
        # B10: room for the answer, at most a quarter of a window that turns out to be smaller than was known.
        held = found.limit and found.limit - min(self._taken, found.limit // 4)
        most = max(1, held or int(0.9 * refused * factor))
        known = list(self._recoveries)
        self._recoveries.append(Recovery(border, refused, most))
        outcome = self._route.advance(self._route.base)
        if outcome.view.exact(outcome.state) < refused:
            return True
        self._recoveries[:] = known
        return False

    def _learn(self, border: int, factor: float) -> None:
        self._factors[:] = [entry for entry in self._factors if entry[0] < border] + [(border, factor)]
        self._meter = replace(self._meter, factor=factor)

    def _count(self, reported: Usage, kind: Kind, model: str | None) -> None:
        cost = catalog.cost_of(reported, model or self.model, prices=None if model else self._prices)
        self._meter = self._meter.plus(reported, kind, cost)
        if self._logs:
            estimated = self._last[1] if self._last and kind == "call" else 0
            log_usage(reported, kind=kind, estimated=estimated, factor=self._meter.factor, cost_usd=cost)

    def _spent(self, usage: object) -> None:
        reported = Usage.of(usage)
        if reported is not None:
            self._count(reported, "summary", self._summaries.rules.model)

    def _snapshot_of(self, call: _Call) -> Snapshot:
        view, rules = call.outcome.view, self._summaries.rules
        return snapshot_of(
            call.outcome,
            call.base,
            window=self._model_window,
            budget=self._budget.limit,
            capacity=self._room,
            factor=next((factor for row, factor in reversed(self._factors) if row < view.border), 1.0),
            ceiling=None if self._summaries.refusal else trigger_size(view, rules),
        )

    @property
    def meter(self) -> Meter:
        """What was seen so far: the last window, and what was spent (S12-S14)."""
        return replace(self._meter, snapshot=self._snapshot)

    def dump(self, *, measured: bool = True) -> dict[str, object]:
        """What a later process needs to go on as this one, as JSON data: calibration, checkpoints, measured texts.

        No message text is in it but that of the checkpoints. Without them, and where their entries are in the messages,
        the windows need none of it: they follow from the messages (L9). measured: whether the measured texts are in it,
        which only spare the later process counting them again.
        """
        rows = self._reading.transcript.rows if measured else ()
        return {
            "version": VERSION,
            "estimator": self._estimator.name,
            "factors": [list(entry) for entry in self._factors],
            "recoveries": [list(recovery) for recovery in self._recoveries],
            "meter": self.meter.as_json(),
            "checkpoints": [[messages, checkpoint.entry()] for messages, checkpoint in self._made],
            "failed_summaries": self._summaries.failures,
            "measured": {key: list(counts) for key, counts in remember(rows).items()},
        }

    def load(self, dumped: Mapping[str, object]) -> "Fitter":
        """Take up what another process dumped; give this fitter the same arguments as that one. Returns itself.

        Raises ConfigError for a dump of another version or estimator.
        """
        if dumped.get("version") != VERSION or dumped.get("estimator") != self._estimator.name:
            raise ConfigError(
                f"the dump is of version {dumped.get('version')!r}, estimator {dumped.get('estimator')!r}; this fitter "
                f"takes version {VERSION}, estimator {self._estimator.name!r}"
            )
        measured = dumped.get("measured")
        lists = [each for key in ("factors", "recoveries", "checkpoints") if isinstance(each := dumped.get(key), list)]
        if not isinstance(measured, Mapping) or len(lists) < 3:
            raise ConfigError("the dump lacks its lists of factors, recoveries, checkpoints and measured texts")
        factors, recoveries, made = lists
        self._remembered = {str(key): tuple(counts) for key, counts in measured.items()}
        self._factors = [(int(row), float(factor)) for row, factor in factors]
        self._recoveries = [Recovery(*map(int, recovery)) for recovery in recoveries]
        self._made = [(int(messages), Checkpoint.of(entry)) for messages, entry in made]
        self._meter = Meter.of(dumped.get("meter", {}))
        self._snapshot = self._meter.snapshot
        failures = dumped.get("failed_summaries")
        self._summaries.failures = failures if isinstance(failures, int) else 0
        self._begin()
        return self

    def _follow(self, given: Sequence[Native]) -> Dialect:
        """Read what has arrived since the last call; start anew where the list is not the last one continued."""
        if not self._reading.continues(given, full=self._check == "full"):
            self._begin()
        dialect = self._named or self._reading.judge(given, catalog.provider_of(self.model))
        if self._reading.dialect not in (None, dialect):
            # B29: a new verdict refolds.
            self._begin(self._reading)
        if self._route is None:
            rules, transcript = Rules(dialect.user_first, dialect.thinking(self.model)), self._reading.transcript
            transcript.system_apart = dialect.system_apart
            self._route = Route(Counts(transcript, self.policy, self._estimator), rules, self._limits)
            self._route.factors, self._route.recoveries = self._factors, self._recoveries
        self._reading.take(given, dialect, self.policy.pin, dict(self._made))
        return dialect

    def _price(self, dialect: Dialect, system: object, tools: object) -> Base:
        """Tokens of system prompt and tools; counted anew only when they differ from those of the last call."""
        if self._priced is None or self._priced[0] != system or self._priced[1] != tools:
            self._priced = (system, tools, base_of(dialect, self._estimator, system, tools))
        return self._priced[2]

    def _render(self, dialect: Dialect, outcome: Outcome) -> list[Native]:
        """The window in the caller's format; what stands before the running round is rendered once and kept."""
        view, state = outcome.view, outcome.state
        if self.policy.alternate:
            return dialect.render(windows.alternating(windows.messages(view, state, view.border)))
        settled = max(self._reading.transcript.settled, view.begin(state))
        until, known = self._rendered_for
        if known == (state, self._reading.transcript.note) and until <= settled:
            self._rendered += dialect.render(windows.edited(view, state, until, settled))
        else:
            self._rendered = dialect.render(windows.messages(view, state, settled))
        self._rendered_for = (settled, (state, self._reading.transcript.note))
        return self._rendered + dialect.render(windows.edited(view, state, settled, view.border))
