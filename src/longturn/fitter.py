"""`Fitter`: the fold over one growing message list; it reads and counts only what has arrived since the last call."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import is_
from typing import Literal

from longturn import catalog
from longturn.core import window as windows
from longturn.core.counts import Counts
from longturn.core.events import Event
from longturn.core.fold import Base, Outcome, Route, is_over
from longturn.core.messages import Message
from longturn.core.meter import Meter, Usage, factor_of
from longturn.core.policy import PRESETS, Budget, Limits, Policy
from longturn.core.rungs import ladder
from longturn.core.tokens import Estimator, estimator_for
from longturn.core.transcript import Transcript
from longturn.core.view import Rules, State
from longturn.core.window import Edit
from longturn.dialects.base import Dialect, Native
from longturn.dialects.registry import Evidence, by_name, choose, weigh
from longturn.errors import ConfigError, TranscriptError
from longturn.remembered import recall, remember
from longturn.report import Report, refusal, report_of

TOOL_FRAMING = 4
"""Tokens of framing per tool schema (H23)."""
VERSION = 1
"""Of what `Fitter.dump` gives."""


@dataclass(frozen=True, slots=True)
class Window:
    """What one call would be sent, in the caller's own format; untouched messages are the caller's own objects.

    messages: the shaped list. system, tools: as they were given. body: the request to send, from `fit_request` only.
    tokens: everything in it by our count, system, tools and images included. budget: the limit it was held to, in
    tokens, 0 when off. capacity: what the model takes less the room for the answer, None when unknown.
    events: what happened at this call, nothing where earlier decisions were only carried on (B32).
    """

    messages: list[Native]
    system: object
    tools: object
    tokens: int
    budget: int
    capacity: int | None
    dialect: str
    events: tuple[Event, ...]
    body: Mapping[str, object] | None
    _given: Sequence[Native]
    _count: int
    _outcome: Outcome
    _base: Base

    @property
    def changed(self) -> bool:
        """Whether anything differs from the messages handed in; otherwise they are the very same objects (law 2)."""
        # The list of what was given only grows, so that its beginning is still what this window was made of.
        return len(self.messages) != self._count or not all(map(is_, self.messages, self._given))

    @property
    def edits(self) -> tuple[Edit, ...]:
        """Every change that is in force (B32). Of a `Fitter`'s window: read it before the next `fit`."""
        return windows.edits_in_force(self._outcome)

    @property
    def report(self) -> Report:
        """What was kept, what was not, and why, in numbers; printed, a few plain lines."""
        return report_of(self._outcome, self._base, self.dialect, self.budget, self.capacity)


class Fitter:
    """`fit`, remembering: hand it the whole growing list at each call, and a call costs what has arrived.

    It gives what `fit` gives for the same list (B35). The list is append-only; that its length, first message and the
    seam agree with the last call is checked, with `check="full"` every message is. A list that does not agree is folded
    from scratch. Arguments are those of `fit`; `system` and `tools` can be given once here or at each `fit`.
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
        check: Literal["seam", "full"] = "seam",
    ) -> None:
        self.model = model
        self.policy = named_policy(policy)
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
        self._priced: tuple[object, object, Base] | None = None
        self._meter = Meter(budget=self._budget.limit, capacity=self._room)
        self._begin()

    def _begin(self) -> None:
        """Start a transcript; what was learnt of the provider's counting stays."""
        measure = recall(self._estimator.measure, self._remembered)
        self._items: list[Native] = []
        self._evidence = Evidence()
        self._dialect: Dialect | None = None
        self._transcript = Transcript(measure)
        self._route: Route | None = None
        self._rendered: list[Native] = []
        self._rendered_for: tuple[int, tuple[State, Message | None] | None] = (0, None)
        self._last: tuple[int, int] | None = None

    def fit(self, messages: Sequence[Native], *, system: object = None, tools: object = None) -> Window:
        """The window for a call that is made now; errors are those of `longturn.fit`."""
        system = self._system if system is None else system
        tools = self._tools if tools is None else tools
        given = checked(messages)
        dialect = self._follow(given)
        base = self._price(dialect, system, tools)
        assert self._route is not None
        outcome = self._route.advance(base)
        view, state = outcome.view, outcome.state
        if is_over(view, state):
            raise refusal(outcome, base, self._taken)
        tokens = view.exact(state)
        self._last = (view.border, tokens)
        self._meter = replace(self._meter, window=tokens)
        return Window(
            messages=self._render(dialect, outcome),
            system=system,
            tools=tools,
            tokens=tokens,
            budget=self._budget.limit,
            capacity=self._room,
            dialect=dialect.name,
            events=windows.events(outcome),
            body=None,
            _given=self._items,
            _count=len(given),
            _outcome=outcome,
            _base=base,
        )

    def observe(self, usage: object) -> None:
        """Take in what the provider reported for the last window (L15): any SDK's usage object or dict, or a `Usage`.

        Later comparisons are scaled by reported over estimated tokens; nothing that was decided is undone. Raises
        ConfigError before the first `fit`, and for a report without a count of input tokens.
        """
        reported = Usage.of(usage)
        if reported is None:
            raise ConfigError(f"no count of input tokens in the usage report: {usage!r:.200}")
        if self._last is None or self._route is None:
            raise ConfigError("observe() takes the report on a window: call fit() first")
        border, tokens = self._last
        factor = factor_of(reported.input_tokens, tokens)
        self._factors = [entry for entry in self._factors if entry[0] < border] + [(border, factor)]
        self._route.factors = self._factors
        self._meter = replace(self._meter.plus(reported), factor=factor)

    @property
    def meter(self) -> Meter:
        """What was seen so far: the last window and the totals of all reports, in tokens."""
        return self._meter

    def dump(self) -> dict[str, object]:
        """What a later process needs to go on without counting anew, as JSON data: calibration and measured texts.

        No message text is in it, only digests. The windows need none of it: they follow from the messages (L9).
        """
        return {
            "version": VERSION,
            "estimator": self._estimator.name,
            "factors": [list(entry) for entry in self._factors],
            "measured": {key: list(counts) for key, counts in remember(self._transcript.rows).items()},
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
        factors, measured = dumped.get("factors"), dumped.get("measured")
        if not isinstance(factors, list) or not isinstance(measured, Mapping):
            raise ConfigError("the dump lacks its lists of factors and measured texts")
        self._remembered = {str(key): tuple(counts) for key, counts in measured.items()}
        self._factors = [(int(row), float(factor)) for row, factor in factors]
        self._begin()
        return self

    def _follow(self, given: Sequence[Native]) -> Dialect:
        """Read what has arrived since the last call; start anew where the list is not the last one continued."""
        seen = len(self._items)
        if not self._continues(given):
            self._begin()
            seen = 0
        self._evidence = weigh(self._evidence, given[seen:])
        dialect = self._named or choose(self._evidence, catalog.provider_of(self.model))
        if dialect is not self._dialect and self._dialect is not None:
            # B29: a new verdict refolds.
            evidence = self._evidence
            self._begin()
            self._evidence, seen = evidence, 0
        self._dialect = dialect
        if self._route is None:
            rules = Rules(dialect.user_first, dialect.thinking(self.model))
            self._transcript.system_apart = dialect.system_apart
            self._route = Route(Counts(self._transcript, self.policy, self._estimator), rules, self._limits)
            self._route.factors = self._factors
        pin, before = self.policy.pin, given[seen - 1] if seen else None
        arrived = []
        for position in range(seen, len(given)):
            item = given[position]
            pinned = pin is not None and bool(pin(item))
            arrived += [(message, position, pinned) for message in dialect.read(item, before, position)]
            before = item
        if arrived or not seen:
            self._transcript.extend(arrived)
        self._items += given[seen:]
        return dialect

    def _continues(self, given: Sequence[Native]) -> bool:
        """Whether the list is the last one with more behind it (B35)."""
        items = self._items
        if len(given) < len(items):
            return False
        places = range(len(items)) if self._check == "full" else [0, len(items) - 1] if items else []
        return all(given[place] is items[place] or given[place] == items[place] for place in places)

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
        settled = max(self._transcript.settled, view.begin(state))
        until, known = self._rendered_for
        if known == (state, self._transcript.note) and until <= settled:
            self._rendered += dialect.render(windows.edited(view, state, until, settled))
        else:
            self._rendered = dialect.render(windows.messages(view, state, settled))
        self._rendered_for = (settled, (state, self._transcript.note))
        return self._rendered + dialect.render(windows.edited(view, state, settled, view.border))


def base_of(dialect: Dialect, estimator: Estimator, system: object, tools: object) -> Base:
    """Tokens of a system prompt and of tool definitions in any form that the dialect takes (H23)."""
    system_tokens = sum(estimator.tokens(estimator.measure(text)) for text in dialect.system_texts(system))
    tool_tokens = 0
    for tool in as_tools(tools):
        for texts in dialect.tool_texts(tool):
            tool_tokens += TOOL_FRAMING + estimator.tokens(estimator.measure("\n".join(texts)))
    return Base(system_tokens, tool_tokens)


def named_policy(policy: Policy | str | None) -> Policy:
    """A policy as it is, a preset by its name, or the default. Raises ConfigError for an unknown name."""
    if isinstance(policy, Policy):
        return policy
    preset = PRESETS.get(policy or "default")
    if preset is None:
        raise ConfigError(f"no policy is called {policy!r}: use one of {', '.join(PRESETS)}")
    return preset()


def output_room(model: str | None, window: int | None) -> int:
    """What is kept free for the answer when the request names no limit: the model's, at most a quarter (B10)."""
    return 0 if window is None else min(catalog.max_output_of(model) or 0, window // 4)


def whole(name: str, value: object, *, least: int) -> int:
    """A whole number of at least `least`. Raises ConfigError naming the argument."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigError(f"{name} must be a whole number of at least {least}, got {value!r}")
    return value


def checked(messages: object) -> Sequence[Native]:
    """The messages as they are. Raises TranscriptError for what is no list."""
    if isinstance(messages, Mapping):
        raise TranscriptError("messages must be a list, got an object: is it a request body? Use fit_request for that")
    if isinstance(messages, str | bytes) or not isinstance(messages, Sequence):
        raise TranscriptError(f"messages must be a list, got {type(messages).__name__}")
    return messages


def as_tools(tools: object) -> Sequence[object]:
    """Tool definitions as a sequence; a single one counts as one."""
    if tools is None:
        return ()
    return tools if isinstance(tools, Sequence) and not isinstance(tools, str) else (tools,)
