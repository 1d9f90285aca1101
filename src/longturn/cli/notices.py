"""What happened to a window, as one sentence for whoever sits at the terminal; of a message's text nothing is said."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from longturn.agent.words import LimitReached, OverflowMet
from longturn.cli.screens import number_of
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


def notice(event: object) -> str:
    """The sentence for an event; "" for one that needs none."""
    words = WORDS.get(type(event))
    return words(event) if words else ""


def _trimmed(event: HistoryTrimmed) -> str:
    what = number_of(event.dropped_turns, "turn") if event.dropped_turns else number_of(event.dropped_rounds, "round")
    if event.reason == "checkpoint":
        what = f"{number_of(event.dropped_messages, 'message')}, which a summary stands for"
    return f"Left out {what}: {event.tokens_before:,} tokens became {event.tokens_after:,}. The transcript stays whole."


def _summarized(event: SummaryCompleted) -> str:
    if event.checkpoint is None:
        return f"There is no summary: {event.error}."
    made = event.checkpoint
    return f"Summarized: {made.tokens:,} tokens stand for {made.source_tokens:,}."


def _refused(event: OverflowMet) -> str:
    figures = f" ({event.tokens:,} tokens, it takes {event.limit:,})" if event.tokens and event.limit else ""
    return f"The model refused the request as too long{figures}: asking again with less."


def _saved(what: str) -> Callable[[Any], str]:
    return lambda event: f"{what}: {event.tokens_saved:,} tokens less."


WORDS: Mapping[type, Callable[[Any], str]] = MappingProxyType(
    {
        HistoryTrimmed: _trimmed,
        ResultsCleared: lambda event: _saved(f"Cleared {number_of(event.results, 'old result')}")(event),
        ResultsPruned: lambda event: _saved(f"Pruned {number_of(event.results, 'old result')}")(event),
        ResultsTrimmed: lambda event: _saved(f"Cut {number_of(event.results, 'new result')} short")(event),
        ArgumentsShortened: _saved("Shortened the arguments of old calls"),
        ThinkingDropped: _saved("Dropped thinking behind a change"),
        HistoryRepaired: lambda event: f"Mended the history in {number_of(len(event.repairs), 'place')}.",
        SummaryStarted: lambda event: (
            f"Summarizing {number_of(event.messages, 'message')} ({event.tokens:,} tokens)..."
        ),
        SummaryCompleted: _summarized,
        SummariesStopped: lambda event: (
            f"No more summaries after {event.failures} failures in a row: the oldest turns are left out instead."
        ),
        OverflowMet: _refused,
        LimitReached: lambda event: "The limit of steps is reached: asking for a last answer.",
    }
)
