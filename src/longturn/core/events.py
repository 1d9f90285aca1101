"""What happened at a border, as frozen records; an observer is any callable that takes one (B32)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from longturn.core.checkpoint import Checkpoint

Reason = Literal["token_budget", "turn_limit", "overflow_recovery", "checkpoint"]
Source = Literal["estimate", "calibrated", "provider"]


@dataclass(frozen=True, slots=True)
class HistoryTrimmed:
    """Turns or rounds were left out (H27), or a checkpoint stands for them (reason "checkpoint").

    Tokens count the whole request as it would have been and is now sent.

    dropped_messages: messages that left the window, our note not counted. dropped_turns, dropped_rounds: whole ones
    among them. kept_turns: turns that stand. token_budget: the limit, 0 when off. source: where the numbers come from.
    """

    dropped_messages: int
    dropped_turns: int
    dropped_rounds: int
    kept_turns: int
    reason: Reason
    token_budget: int
    tokens_before: int
    tokens_after: int
    source: Source


@dataclass(frozen=True, slots=True)
class ResultsCleared:
    """Old tool results were replaced by a note (L1), or, with `kind` "images", only their images (B12)."""

    results: int
    tokens_saved: int
    kind: Literal["results", "images"] = "results"


@dataclass(frozen=True, slots=True)
class ArgumentsShortened:
    """Long arguments of old calls were cut in the middle (B15); `answers` is how many answers were touched."""

    answers: int
    tokens_saved: int


@dataclass(frozen=True, slots=True)
class ResultsPruned:
    """Old tool results were cut to head and tail, or replaced, for their age (B20)."""

    results: int
    tokens_saved: int


@dataclass(frozen=True, slots=True)
class ResultsTrimmed:
    """Results of the newest round were cut to head and tail, since nothing else made the request fit (L8)."""

    results: int
    tokens_saved: int


@dataclass(frozen=True, slots=True)
class ThinkingDropped:
    """Thinking behind an edit was removed, since the provider would refuse it (B23); `answers` lost theirs."""

    answers: int
    tokens_saved: int


@dataclass(frozen=True, slots=True)
class HistoryRepaired:
    """A history arrived broken and was mended (H29); each repair says where and what, in words."""

    repairs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SummaryStarted:
    """A summarizer is asked (S10). messages, tokens: what it is to cover. max_tokens: how long it may be."""

    messages: int
    tokens: int
    max_tokens: int


@dataclass(frozen=True, slots=True)
class SummaryDelta:
    """A piece of a summary that is being written; what was written so far is void when a `SummaryStarted` follows."""

    text: str


@dataclass(frozen=True, slots=True)
class SummaryCompleted:
    """A summary is done: keep `checkpoint.entry()` with the messages (S8); or it failed, and `error` says why (S9).

    failures: how many attempts in a row have failed. tokens_before, tokens_after: of the window without and with it.
    """

    checkpoint: Checkpoint | None
    error: str = ""
    failures: int = 0
    tokens_before: int = 0
    tokens_after: int = 0


@dataclass(frozen=True, slots=True)
class SummariesStopped:
    """No further summary is tried in this session, after so many failures in a row (S9); the ladder does the work."""

    failures: int


Event = (
    HistoryTrimmed
    | ResultsCleared
    | ResultsPruned
    | ArgumentsShortened
    | ResultsTrimmed
    | ThinkingDropped
    | HistoryRepaired
    | SummaryStarted
    | SummaryDelta
    | SummaryCompleted
    | SummariesStopped
)
Observer = Callable[[Event], object]
