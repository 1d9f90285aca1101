"""The numbers: what may be sent (budget), what the model takes (capacity), and how far a rung goes (policy)."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from longturn.core.tokens import Estimator
from longturn.errors import ConfigError

STUB_WINDOW = 32_000
"""The operand of the budget where the model's window is unknown (H10), in tokens."""
DEFAULT_PRUNING_TOKENS = 8_192
"""What `history_pruning.enabled` without a value lowers the budget to (H13), in tokens."""
DEFAULT_TURNS = 50
"""The turn limit when none is given (H3): soft, so it drops to `target_ratio` of it at once (B19)."""
DEFAULT_RATIO = 0.75
"""Out of the box, the share of a known window that may be sent; the rest is room for the answer."""
SEED_RUNGS = ("images", "results", "turns", "rounds")
"""The ladder of the preset `seed`: arguments are left alone (B15)."""
NO_LIMIT = 1 << 62
"""Stands for "no limit" where a number is needed, in tokens."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What we let ourselves send, in tokens; build it with `resolve` or give a number to `fit(budget=...)`.

    limit: over it a window is shaped; 0 switches proactive trimming off (H11).
    operand: what a ratio was applied to (H10).
    window: the model's window as clients are told it; None when unknown.
    """

    limit: int
    operand: int = STUB_WINDOW
    window: int | None = None

    def __post_init__(self) -> None:
        _whole("budget", self.limit, least=0)

    @staticmethod
    def resolve(
        *,
        max_context_tokens: int | None = None,
        context_compact_ratio: float | None = None,
        window: int | None = None,
        pruning_enabled: bool = False,
        pruning_max_tokens: int | None = None,
    ) -> "Budget":
        """The budget that the keys of a configuration mean (H10-H15), in tokens."""
        operand = window or max_context_tokens or STUB_WINDOW
        if max_context_tokens == 0:
            return Budget(0, operand, window)
        if _counts(context_compact_ratio):
            limit = max(1, math.trunc(operand * context_compact_ratio))  # type: ignore[operator]  # _counts saw it
            limit = min(limit, max_context_tokens or limit)
        else:
            limit = max_context_tokens or STUB_WINDOW
        if pruning_enabled:
            pruned = DEFAULT_PRUNING_TOKENS if pruning_max_tokens is None else pruning_max_tokens
            limit = min(limit, pruned) if pruned > 0 else limit
        return Budget(min(limit, window or limit), operand, window)


def _counts(ratio: float | None) -> bool:
    return ratio is not None and 0 < ratio <= 1


MOST_PROTECTED = 10
"""How many of the newest rounds pruning may be kept from at most."""


@dataclass(frozen=True, slots=True)
class Pruning:
    """Pruning of tool results by age (S1-S3), off unless a policy has one; the oldest message is of age 1.

    keep_last_assistants: the newest rounds that are never touched. min_prunable_tool_chars: results that do not exceed
    it are never touched. soft_trim_ratio: from this age on, head and tail only: head_chars and tail_chars, at most
    max_chars in all. hard_clear_ratio: from this age on the placeholder alone, unless hard_clear is off.
    """

    keep_last_assistants: int = 3
    soft_trim_ratio: float = 0.3
    hard_clear_ratio: float = 0.5
    min_prunable_tool_chars: int = 50_000
    max_chars: int = 4_000
    head_chars: int = 1_500
    tail_chars: int = 1_500
    hard_clear: bool = True
    placeholder: str = "[Old tool result content cleared]"

    def __post_init__(self) -> None:
        for name, least in (
            ("keep_last_assistants", 0),
            ("min_prunable_tool_chars", 0),
            ("max_chars", 1),
            ("head_chars", 0),
            ("tail_chars", 0),
        ):
            _whole(name, getattr(self, name), least=least)
        if self.keep_last_assistants > MOST_PROTECTED:
            raise ConfigError(f"keep_last_assistants must be at most {MOST_PROTECTED}, got {self.keep_last_assistants}")
        _share("soft_trim_ratio", self.soft_trim_ratio, least=0)
        _share("hard_clear_ratio", self.hard_clear_ratio, least=0)


TriggerType = Literal["token_ratio", "remaining_tokens", "messages_to_refine"]
Scalar = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Trigger:
    """When to summarize (S4), judged on what would be sent before anything is cleared or dropped for its size.

    token_ratio: its share of what may be sent is at least `value`, from 0 to 1. remaining_tokens: at most `value`
    tokens are left. messages_to_refine: at least `value` messages would be summarized.
    """

    type: TriggerType
    value: float

    def __post_init__(self) -> None:
        if self.type == "token_ratio":
            _share("the value of a token_ratio", self.value, least=0)
        elif self.type in ("remaining_tokens", "messages_to_refine"):
            _whole(f"the value of {self.type}", self.value, least=1)
        else:
            raise ConfigError(
                f"no trigger is called {self.type!r}: use token_ratio, remaining_tokens or messages_to_refine"
            )


MOST_RETAINED = 20
"""How many turns may be kept behind a summary at most."""


@dataclass(frozen=True, slots=True)
class Retain:
    """What stays as it is behind a summary: the newest `turns`, holding at most `tokens` (None: what fits the target).

    The newest turn always stays; of a single long turn, its newest rounds.
    """

    turns: int = 2
    tokens: int | None = None

    def __post_init__(self) -> None:
        _whole("turns", self.turns, least=0)
        if self.turns > MOST_RETAINED:
            raise ConfigError(f"turns must be at most {MOST_RETAINED}, got {self.turns}")
        if self.tokens is not None:
            _whole("tokens", self.tokens, least=1)


@dataclass(frozen=True, slots=True)
class Summarization:
    """Checkpoints: what is left out of a window lives on as a summary (S4-S11). Off unless a policy has one.

    provider, model: who writes the summary; None: the agent's own model. parameters: further ones of that model.
    prompt, update_prompt: instead of the built-in ones, for a first summary and for one that is merged into the last.
    max_summary_tokens: the summary's length at most; a `maxSummaryTokens` in `parameters` wins.
    reserve_ratio: this share of the budget is kept free. trigger: when; None: as soon as messages would be dropped.
    retain_recent: what stays verbatim.
    """

    enabled: bool = True
    provider: str | None = None
    model: str | None = None
    parameters: Mapping[str, Scalar] = field(default_factory=dict)
    prompt: str | None = None
    update_prompt: str | None = None
    max_summary_tokens: int = 4_096
    reserve_ratio: float = 0.05
    trigger: Trigger | None = None
    retain_recent: Retain = field(default_factory=Retain)

    def __post_init__(self) -> None:
        _whole("max_summary_tokens", self.max_summary_tokens, least=1)
        if "maxSummaryTokens" in self.parameters:
            _whole("maxSummaryTokens in parameters", self.parameters["maxSummaryTokens"], least=1)
        _share("reserve_ratio", self.reserve_ratio, least=0)
        if self.reserve_ratio == 1:
            raise ConfigError("reserve_ratio must be below 1, or nothing could be sent")

    @property
    def most_tokens(self) -> int:
        """The output limit of a summary call, in tokens."""
        return int(self.parameters.get("maxSummaryTokens", self.max_summary_tokens))


@dataclass(frozen=True, slots=True)
class Policy:
    """How windows are shaped. Frozen: make variants with `dataclasses.replace`. Presets: `Policy()`, `Policy.seed()`.

    max_context_tokens, context_compact_ratio, history_pruning_enabled, history_pruning_max_tokens: the budget's keys
        (H10-H13). With neither of the first two set and the window known, 0.75 of the window may be sent
        (`default_ratio`).
    max_history_messages: the newest whole turns that are kept; an explicit number is exact, 0 acts as 1 (H3, H8).
    target_ratio: once over the limit, shaping goes on down to this share of it (L10, B9).
    whole_share: the newest results that fit in this share of the limit stay whole (L3, B13).
    batch: results are cleared in groups of this many (L2).
    image_tokens: the price of an image, in tokens (H22).
    keep_tools: names of tools whose results are never cleared (B14).
    cleared_texts: by tool name, what replaces a cleared result instead of `CLEARED` (B14).
    pin: a predicate on the caller's own message objects; those for which it is true are never cleared or left out.
    rungs: the rungs of the ladder, in order; the names are those of `rungs.RUNGS` (B12, B15).
    pruning: results are pruned by age, before anything else (B20).
    summarization: what is left out lives on as a summary, where a summarizer is at hand (S4).
    emergency_trim: the newest results may be cut to head and tail when nothing else makes the request fit (L8).
    strict: where the window is unknown, 32,000 (or max_context_tokens) is binding (H20).
    alternate: neighbouring messages of one role are joined, for templates that insist on alternation (B27).
    estimator: how tokens are counted; None chooses by the model's family (L12).
    """

    name: str = "default"
    max_context_tokens: int | None = None
    context_compact_ratio: float | None = None
    history_pruning_enabled: bool = False
    history_pruning_max_tokens: int | None = None
    default_ratio: float | None = DEFAULT_RATIO
    max_history_messages: int | None = None
    target_ratio: float = 0.4
    whole_share: float = 0.25
    batch: int = 1
    image_tokens: int = 1_600
    keep_tools: frozenset[str] = frozenset()
    cleared_texts: Mapping[str, str] = field(default_factory=dict)
    pin: Callable[[object], bool] | None = None
    rungs: tuple[str, ...] = ("images", "results", "arguments", "answers", "turns", "rounds")
    pruning: Pruning | None = None
    summarization: Summarization | None = None
    emergency_trim: bool = False
    strict: bool = False
    alternate: bool = False
    estimator: Estimator | None = None

    def __post_init__(self) -> None:
        for name, least in (
            ("max_context_tokens", 0),
            ("history_pruning_max_tokens", 0),
            ("max_history_messages", 0),
            ("batch", 1),
            ("image_tokens", 0),
        ):
            value = getattr(self, name)
            if value is not None:
                _whole(name, value, least=least)
        for name in ("context_compact_ratio", "default_ratio"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
                raise ConfigError(f"{name} must be a number, got {value!r}")
        _share("target_ratio", self.target_ratio)
        _share("whole_share", self.whole_share)

    @staticmethod
    def seed() -> "Policy":
        """The first rule set as it was published: results cleared in fours, and no lower target (L2, L10)."""
        return Policy(name="seed", target_ratio=1.0, batch=4, rungs=SEED_RUNGS, default_ratio=None)

    def budget(self, window: int | None, limit: int | None = None) -> Budget:
        """The budget for a model with this window (None: unknown); `limit` overrides the policy's own keys."""
        if limit is not None:
            return Budget.resolve(max_context_tokens=limit, window=window)
        ratio = self.context_compact_ratio
        if self.max_context_tokens is None and not _counts(ratio) and window is not None:
            ratio = self.default_ratio
        return Budget.resolve(
            max_context_tokens=self.max_context_tokens,
            context_compact_ratio=ratio,
            window=window,
            pruning_enabled=self.history_pruning_enabled,
            pruning_max_tokens=self.history_pruning_max_tokens,
        )


PRESETS: Mapping[str, Callable[[], Policy]] = {"default": Policy, "seed": Policy.seed}


@dataclass(frozen=True, slots=True)
class Limits:
    """The numbers one fold works with, in tokens of the estimate.

    limit: over it we shape (`NO_LIMIT` when trimming is off and the window unknown).
    capacity: what the model takes less the room for the answer (B10); `NO_LIMIT` when unknown (H20).
    turns: how many turns may stand; keep_turns: down to how many a break goes (B19).
    budget: the limit as it was set, 0 for off. calibrated: whether a provider's reported usage stands behind the
    estimate (B11). recovers: the request was refused as too long and is made again (B34).
    """

    limit: int
    capacity: int
    ratio: float
    whole_share: float
    turns: int
    keep_turns: int
    budget: int = 0
    calibrated: bool = False
    recovers: bool = False

    @staticmethod
    def of(policy: Policy, budget: Budget, room: int | None) -> "Limits":
        """From a policy, its budget, and `room`: the model's window less the output limit, None when unknown."""
        capacity = NO_LIMIT if room is None else room
        if policy.strict and room is None:
            capacity = budget.operand
        limit = min(budget.limit or NO_LIMIT, capacity)
        if policy.summarization and policy.summarization.enabled and limit < NO_LIMIT:
            limit = max(1, int(limit * (1 - policy.summarization.reserve_ratio)))
        # H19: with trimming off, old turns go only as far as the window demands.
        ratio = policy.target_ratio if budget.limit else 1.0
        explicit = policy.max_history_messages
        turns = DEFAULT_TURNS if explicit is None else max(1, explicit)
        keep = math.ceil(DEFAULT_TURNS * policy.target_ratio) if explicit is None else turns
        return Limits(limit, capacity, ratio, policy.whole_share, turns, keep, budget.limit)

    def scaled(self, factor: float) -> "Limits":
        """The same in tokens of the estimate when the provider counts `factor` times as many (L15)."""
        return replace(self, limit=int(self.limit / factor), capacity=int(self.capacity / factor), calibrated=True)

    def held(self, most: int) -> "Limits":
        """The same with no more than `most` tokens sent, as the provider counts them (B34)."""
        return replace(self, limit=min(self.limit, most))

    def recovering(self, most: int) -> "Limits":
        """For a request that was refused: at once down to `most` tokens of the estimate (B34)."""
        return replace(self, limit=min(self.limit, most), ratio=1.0, recovers=True)

    @property
    def whole(self) -> int:
        """What the newest results that stay whole may hold (L3), in tokens."""
        return int(self.whole_share * self.limit)


def _whole(name: str, value: object, *, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(f"{name} must be a whole number of at least {least}, got {value!r}")
    if value < least:
        raise ConfigError(f"{name} must be at least {least}, got {value}")


def _share(name: str, value: object, least: float | None = None) -> None:
    above = "above 0" if least is None else f"from {least}"
    if isinstance(value, bool) or not isinstance(value, int | float) or not (least or 0) <= value <= 1:
        raise ConfigError(f"{name} must be a number {above} to 1, got {value!r}")
    if least is None and value == 0:
        raise ConfigError(f"{name} must be a number above 0 to 1, got 0")
