"""What providers report of a call, in one shape, what a session has spent so far, and the state of its window.

Plain values that add up: nothing here is shared or changed in place, and no price is looked up.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, TypeVar, get_args

from longturn.errors import ConfigError, TranscriptError

LEAST_FACTOR, MOST_FACTOR, FACTOR_STEPS = 0.5, 5.0, 16
"""A calibration factor is kept within these and rounded to a sixteenth (L15, B5)."""


@dataclass(frozen=True, slots=True)
class Usage:
    """One call's reported tokens.

    input_tokens: everything it read, whether fresh, from its prefix cache or written to it. cached_tokens,
    written_tokens: the parts that were read from and written to it. output_tokens: everything it wrote;
    reasoning_tokens is a part of it.
    """

    input_tokens: int
    output_tokens: int = 0
    cached_tokens: int = 0
    written_tokens: int = 0
    reasoning_tokens: int = 0

    @staticmethod
    def of(reported: object) -> "Usage | None":
        """From a usage object or dict as OpenAI, Anthropic, Gemini and their likes report it; None where it is none.

        Anthropic's `input_tokens` leaves out what was cached; all others' counts include it.
        """
        if isinstance(reported, Usage):
            return reported
        read = _number(reported, "input_tokens", "prompt_tokens", "prompt_token_count", "promptTokenCount")
        if read is None:
            return None
        cached = _number(reported, "cache_read_input_tokens")
        written = _number(reported, "cache_creation_input_tokens") or 0
        if cached is not None or written:
            read += (cached or 0) + written
        else:
            details = _field(reported, "input_tokens_details") or _field(reported, "prompt_tokens_details")
            cached = _number(details, "cached_tokens")
            if cached is None:
                cached = _number(reported, "cached_content_token_count", "cachedContentTokenCount")
        names = ("output_tokens", "completion_tokens", "candidates_token_count", "candidatesTokenCount")
        thoughts = _number(reported, "thoughts_token_count", "thoughtsTokenCount") or 0
        details = _field(reported, "output_tokens_details") or _field(reported, "completion_tokens_details")
        reasoning = _number(details, "reasoning_tokens") or thoughts
        return Usage(read, (_number(reported, *names) or 0) + thoughts, cached or 0, written, reasoning)


Kind = Literal["call", "summary", "subagent", "failed"]
"""What a session pays for (S13): its calls, summaries, its subagents' calls, attempts that failed and were billed."""


@dataclass(frozen=True, slots=True)
class Totals:
    """What some calls add up to, in tokens as in `Usage`, and in dollars.

    cost_usd: of the calls whose prices are known, None while there is none. unpriced_calls: those that are not in it.
    """

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    written_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: float | None = None
    unpriced_calls: int = 0

    @staticmethod
    def of(usage: Usage, cost_usd: float | None) -> "Totals":
        """Of one call; cost_usd: None when the price is not known."""
        return Totals(1, **asdict(usage), cost_usd=cost_usd, unpriced_calls=int(cost_usd is None))

    def __add__(self, other: "Totals") -> "Totals":
        return Totals(**{each.name: _added(getattr(self, each.name), getattr(other, each.name)) for each in _TOTALS})


_TOTALS = fields(Totals)


@dataclass(frozen=True, slots=True)
class Spend:
    """Everything that a session has spent, by what it was spent on; never reset (S13)."""

    call: Totals = Totals()
    summary: Totals = Totals()
    subagent: Totals = Totals()
    failed: Totals = Totals()

    @property
    def total(self) -> Totals:
        """All kinds together."""
        return self.call + self.summary + self.subagent + self.failed

    def plus(self, usage: Usage, kind: Kind = "call", cost_usd: float | None = None) -> "Spend":
        """With one more call. cost_usd: None when the price is not known. Raises ConfigError for another kind."""
        if kind not in get_args(Kind):
            raise ConfigError(f"no kind of call is named {kind!r}: use one of {', '.join(get_args(Kind))}")
        return replace(self, **{kind: getattr(self, kind) + Totals.of(usage, cost_usd)})


@dataclass(frozen=True, slots=True)
class Charge:
    """One attempt that was billed, as a session stores it; it never changes.

    parent: the charge before it on its branch, None for a session's first. A fork is a second charge of one parent.
    """

    id: str
    parent: str | None
    usage: Usage
    kind: Kind = "call"
    cost_usd: float | None = None


def spend_of(charges: Iterable[Charge]) -> Spend:
    """What charges add up to: of all that a session has, its total over all branches (S13)."""
    spend = Spend()
    for charge in charges:
        spend = spend.plus(charge.usage, charge.kind, charge.cost_usd)
    return spend


def branch(charges: Iterable[Charge], tip: str | None) -> tuple[Charge, ...]:
    """The charges from a session's first to `tip`, what came before a fork included (S13); none for None.

    Raises TranscriptError where a parent is not among the charges, or is its own ancestor.
    """
    known = {charge.id: charge for charge in charges}
    found: list[Charge] = []
    while tip is not None:
        charge = known.pop(tip, None)
        if charge is None:
            after = f"the parent of {found[-1].id!r}, " if found else ""
            raise TranscriptError(
                f"no charge {tip!r}, {after}is stored, or it is its own ancestor: the store is broken"
            )
        found.append(charge)
        tip = charge.parent
    return tuple(reversed(found))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The window of one call (S14); what it holds in tokens by our count, limits as the provider counts.

    window: what the model takes, None when unknown. budget: what we let ourselves send, 0 when off. capacity: the
    window less the room for the answer. factor: how many tokens the provider counts for one of ours, as known at this
    call (L15).
    system, tools, messages, checkpoint: the parts; messages are what stands, so nothing that was left out is counted
    again (S12), checkpoint is the summary that stands for it. They add up to `used`.
    free: what may still arrive before the next shaping, None where nothing limits it. turns_left, rounds_left: how
    many turns, or rounds of the running turn, as large as the last ones that is; None while there is no whole one.
    """

    window: int | None = None
    budget: int = 0
    capacity: int | None = None
    factor: float = 1.0
    system: int = 0
    tools: int = 0
    messages: int = 0
    checkpoint: int = 0
    free: int | None = None
    turns_left: int | None = None
    rounds_left: int | None = None

    @property
    def used(self) -> int:
        """Everything that is sent."""
        return self.system + self.tools + self.messages + self.checkpoint

    @property
    def sent(self) -> int:
        """The same as the provider counts, as far as that is known."""
        return round(self.used * self.factor)

    @property
    def limit(self) -> int | None:
        """What `sent` is held to: the smaller of budget and capacity, None where there is neither."""
        return min((limit for limit in (self.budget or None, self.capacity) if limit is not None), default=None)

    @property
    def share(self) -> float | None:
        """How much of the limit is used, 1.0 for all of it; None without a limit."""
        limit = self.limit
        return None if limit is None else self.sent / max(1, limit)


@dataclass(frozen=True, slots=True)
class Meter:
    """What a session has spent, and the state of its window (S12-S14).

    snapshot: of the last call, None before the first. spend: of this branch, with what it inherited at its fork.
    all_branches: of the whole session. factor: how many tokens the provider counts for one of ours, as last reported:
    in force from the next call on (L15).
    """

    snapshot: Snapshot | None = None
    spend: Spend = Spend()
    all_branches: Spend = Spend()
    factor: float = 1.0

    @staticmethod
    def of_branch(charges: Iterable[Charge], tip: str | None) -> "Meter":
        """Of one branch of a stored session, by its newest charge; errors are those of `branch`."""
        stored = tuple(charges)
        return Meter(spend=spend_of(branch(stored, tip)), all_branches=spend_of(stored))

    def plus(self, usage: Usage, kind: Kind = "call", cost_usd: float | None = None) -> "Meter":
        """After one more call; arguments and errors are those of `Spend.plus`."""
        spend, whole = self.spend.plus(usage, kind, cost_usd), self.all_branches.plus(usage, kind, cost_usd)
        return replace(self, spend=spend, all_branches=whole)

    def as_json(self) -> dict[str, object]:
        """It as JSON data, which `of` takes: a restart loses nothing (S12)."""
        return {
            "snapshot": None if self.snapshot is None else asdict(self.snapshot),
            "spend": asdict(self.spend),
            "all_branches": asdict(self.all_branches),
            "factor": self.factor,
        }

    @staticmethod
    def of(data: object) -> "Meter":
        """From what `as_json` gave; what is not there is as in a new one. Raises ConfigError naming what is wrong."""
        read: Mapping[str, Any] = _object(data, "meter")
        snapshot = read.get("snapshot")
        factor = _numbers(Snapshot, {"factor": read.get("factor", 1.0)}, "meter").factor
        return Meter(
            None if snapshot is None else _numbers(Snapshot, snapshot, "meter.snapshot"),
            _spend(read.get("spend", {}), "meter.spend"),
            _spend(read.get("all_branches", {}), "meter.all_branches"),
            factor,
        )


def factor_of(reported: int, estimated: int) -> float:
    """The calibration that a report stands for: reported over estimated, bounded and rounded (L15, B5)."""
    if reported <= 0 or estimated <= 0:
        return 1.0
    factor = round(reported / estimated * FACTOR_STEPS) / FACTOR_STEPS
    return min(MOST_FACTOR, max(LEAST_FACTOR, factor))


def _field(value: object, name: str) -> object:
    return value.get(name) if isinstance(value, dict) else getattr(value, name, None)


def _number(value: object, *names: str) -> int | None:
    for name in names:
        found = _field(value, name)
        if isinstance(found, int) and not isinstance(found, bool):
            return found
    return None


def _added(one: Any, other: Any) -> Any:
    """A sum in which None stands for nothing known."""
    return other if one is None else one if other is None else one + other


_Read = TypeVar("_Read")


def _object(data: object, where: str) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise ConfigError(f"{where} must be an object, got {data!r:.60}")
    return data


def _spend(data: object, where: str) -> Spend:
    read = _object(data, where)
    return Spend(**{kind: _numbers(Totals, read.get(kind, {}), f"{where}.{kind}") for kind in get_args(Kind)})


def _numbers(form: type[_Read], data: object, where: str) -> _Read:
    """One of our records that hold numbers only, from JSON data; keys that it does not have are a later version's."""
    read = _object(data, where)
    known: dict[str, object] = {}
    for field in fields(form):  # type: ignore[arg-type]
        value = read.get(field.name, field.default)
        # A store may turn 1.0 into 1.
        is_fit = isinstance(value, field.type | int) and not isinstance(value, bool)
        if not is_fit or (value is not None and not 0 <= value < math.inf):
            raise ConfigError(f"{where}.{field.name} must be a number of at least 0, got {value!r:.60}")
        known[field.name] = value
    return form(**known)
