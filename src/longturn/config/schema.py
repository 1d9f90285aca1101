"""The keys of the file: their types and ranges, and the words that say them. Defaults are not here: core has them.

The dataclasses are what pydantic checks against. A key that is not set is None; names are in snake_case.
"""

import types
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Le, Lt, MinLen

from longturn.core.policy import Scalar, TriggerType
from longturn.core.rungs import RUNGS

MOST = 10**12
"""No number of tokens, characters or dollars in a file is larger than this."""

Count = Annotated[int, Ge(0), Le(MOST)]
Positive = Annotated[int, Ge(1), Le(MOST)]
Share = Annotated[float, Ge(0), Le(1)]
PartialShare = Annotated[float, Gt(0), Le(1)]
Dollars = Annotated[float, Ge(0), Le(MOST)]
if TYPE_CHECKING:
    RungName = str
else:  # a checker cannot read what only the table of rungs knows
    RungName = Literal[tuple(RUNGS)]
Words = Annotated[str, MinLen(1)]


@dataclass(frozen=True, slots=True)
class HistoryPruning:
    """`history.history_pruning` (H13)."""

    enabled: bool | None = None
    max_tokens: Count | None = None


@dataclass(frozen=True, slots=True)
class History:
    """`history` (H10-H13, H3). A ratio outside 0 to 1 counts as unset (H12), so it is no error."""

    max_context_tokens: Count | None = None
    context_compact_ratio: float | None = None
    history_pruning: HistoryPruning | None = None
    max_history_messages: Count | None = None


@dataclass(frozen=True, slots=True)
class Ladder:
    """`ladder` (L1-L10)."""

    preset: Literal["default", "seed"] | None = None
    name: Words | None = None
    target_ratio: PartialShare | None = None
    whole_share: PartialShare | None = None
    batch: Positive | None = None
    rungs: tuple[RungName, ...] | None = None
    keep_tools: frozenset[str] | None = None
    cleared_texts: Mapping[str, Words] | None = None
    image_tokens: Count | None = None
    emergency_trim: bool | None = None
    strict: bool | None = None
    alternate: bool | None = None


@dataclass(frozen=True, slots=True)
class SoftTrim:
    """`summarization.contextPruning.softTrim` (S2)."""

    max_chars: Positive | None = None
    head_chars: Count | None = None
    tail_chars: Count | None = None


@dataclass(frozen=True, slots=True)
class HardClear:
    """`summarization.contextPruning.hardClear` (S2)."""

    enabled: bool | None = None
    placeholder: Words | None = None


@dataclass(frozen=True, slots=True)
class ContextPruning:
    """`summarization.contextPruning` (S1-S3)."""

    enabled: bool | None = None
    keep_last_assistants: Annotated[int, Ge(0), Le(10)] | None = None
    soft_trim_ratio: Share | None = None
    hard_clear_ratio: Share | None = None
    min_prunable_tool_chars: Count | None = None
    soft_trim: SoftTrim | None = None
    hard_clear: HardClear | None = None


@dataclass(frozen=True, slots=True)
class TriggerKeys:
    """`summarization.trigger` (S4); the range of `value` depends on `type`, so it is checked where both are known."""

    type: TriggerType
    value: int | float


@dataclass(frozen=True, slots=True)
class RetainRecent:
    """`summarization.retainRecent`."""

    turns: Annotated[int, Ge(0), Le(20)] | None = None
    tokens: Positive | None = None


@dataclass(frozen=True, slots=True)
class SummarizationKeys:
    """`summarization` (S1-S11), as LibreChat has it."""

    enabled: bool | None = None
    provider: str | None = None
    model: str | None = None
    parameters: Mapping[str, Scalar] | None = None
    prompt: str | None = None
    update_prompt: str | None = None
    max_summary_tokens: Positive | None = None
    reserve_ratio: Annotated[float, Ge(0), Lt(1)] | None = None
    trigger: TriggerKeys | None = None
    retain_recent: RetainRecent | None = None
    context_pruning: ContextPruning | None = None


@dataclass(frozen=True, slots=True)
class PriceKeys:
    """`models.<name>.prices`, in dollars per million tokens (S13)."""

    input: Dollars
    output: Dollars
    cached: Dollars | None = None
    written: Dollars | None = None


@dataclass(frozen=True, slots=True)
class ModelKeys:
    """`models.<name>` (H15, S13)."""

    window: Positive | None = None
    max_output: Positive | None = None
    image_tokens: Count | None = None
    prices: PriceKeys | None = None


@dataclass(frozen=True, slots=True)
class Sections:
    """The sections of a file that are ours (S15)."""

    # What pydantic is told. Strict: a boolean is no number (S16).
    __pydantic_config__ = {"strict": True, "allow_inf_nan": False, "extra": "forbid"}  # noqa: RUF012

    history: History | None = None
    ladder: Ladder | None = None
    summarization: SummarizationKeys | None = None
    models: Mapping[str, ModelKeys] | None = None


def hints(section: type) -> dict[str, Any]:
    """The keys of a section and what each holds."""
    return {name: _bare(hint) for name, hint in get_type_hints(section, include_extras=True).items()}


def is_section(hint: object) -> bool:
    """Whether a key holds keys of ours."""
    return is_dataclass(hint)


def of_each(hint: object) -> object:
    """What each value of a map that users name the keys of holds; None where the hint is no such map."""
    return get_args(hint)[1] if get_origin(hint) is Mapping else None


def of_items(hint: object) -> object:
    """What each item of a list holds; None where the hint is no list."""
    return get_args(hint)[0] if get_origin(hint) in (tuple, frozenset) else None


def allowed(hint: Any) -> str:
    """What a value may be, in words: "a whole number from 0 to 10"."""
    if is_section(hint):
        return f"a map of keys ({', '.join(field.name for field in fields(hint))})"
    if get_origin(hint) is Annotated:
        kind, *bounds = get_args(hint)
        return f"{_KINDS[kind]}{_range(bounds)}"
    if get_origin(hint) is Literal:
        return f"one of {', '.join(get_args(hint))}"
    if get_origin(hint) is Mapping:
        return "a map of names to values, each " + allowed(of_each(hint))
    if get_origin(hint) in (tuple, frozenset):
        return f"a list, each of it {allowed(of_items(hint))}"
    return _KINDS[hint]


_KINDS: Mapping[object, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    Scalar: "a text, a number, true or false",
    int | float: "a number",
}


def _range(bounds: list[object]) -> str:
    """In words; a most that only keeps out absurd numbers is not worth any."""
    low = next((bound for bound in bounds if isinstance(bound, Ge | Gt)), None)
    high = next((bound for bound in bounds if isinstance(bound, Le | Lt)), None)
    least = None if low is None else f" from {low.ge}" if isinstance(low, Ge) else f" above {low.gt}"
    if isinstance(high, Le) and high.le == MOST:
        return f" of at least {low.ge}" if isinstance(low, Ge) else least or ""
    if high is None:
        return " that is not empty" if bounds else ""
    return f"{least} to {high.le}" if isinstance(high, Le) else f"{least} and below {high.lt}"


def _bare(hint: Any) -> Any:
    """The hint without its `| None`."""
    if get_origin(hint) not in (Union, types.UnionType):
        return hint
    rest = [each for each in get_args(hint) if each is not type(None)]
    return rest[0] if len(rest) == 1 else Union[tuple(rest)]  # noqa: UP007
