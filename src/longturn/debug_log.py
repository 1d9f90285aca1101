"""Verbose logs of token counts and pruning decisions, for whoever asked for them; never a text of a message (S18).

`AGENT_DEBUG_LOGGING=true`, in the environment or in `.env`, turns them on, and nothing else does. They are records of
level DEBUG of the logger `longturn`. What is logged is numbers: of a text only its length, but for words of our own.
"""

import logging
import os
import re
from collections.abc import Iterator, Sequence, Sized
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import get_args

from longturn.core.events import Event, Reason, Source
from longturn.core.fold import Outcome
from longturn.core.meter import Kind, Snapshot, Usage
from longturn.errors import ContextWindowExceeded

NAME, ON = "AGENT_DEBUG_LOGGING", "true"
"""The variable, and its one value that turns logging on."""
LOGGER = "longturn"
FORMAT = "%(asctime)s %(name)s: %(message)s"
"""Of the lines on standard error, where the application has set up no logging of its own."""

_WORDS = frozenset({*get_args(Reason), *get_args(Source), *get_args(Kind), "results", "images", ""})
# An assignment of a `.env` file, as a shell and the usual readers of such files take it: a quoted value may go over
# several lines, and a `#` begins a comment only behind white space.
_ASSIGNED = re.compile(
    r"""^[ \t]*(?:export[ \t]+)?(?P<name>[A-Za-z_]\w*)[ \t]*=[ \t]*
    (?:(?P<mark>['"])(?P<quoted>(?:\\[\s\S]|(?!(?P=mark))[^\\])*)(?P=mark)[ \t]*(?:\#.*)?
    |(?P<bare>(?!\#).*?)(?:[ \t]+\#.*)?[ \t]*|\#.*)$""",
    re.MULTILINE | re.VERBOSE,
)
_LONGEST_FILE = 1 << 16
"""Bytes of a `.env` file that are read."""


@cache
def set_up() -> bool:
    """Whether these logs were asked for; the first call in a process looks, in the environment and then in `.env`.

    When they were, it sets the logger `longturn` to DEBUG, and lets it write to standard error for as long as the
    application has set up no logging of its own.
    """
    value = os.environ.get(NAME)
    if value is None:
        value = assigned(_read(Path(".env")), NAME)
    if value != ON:
        return False
    root, logger = logging.getLogger(), logging.getLogger(LOGGER)
    logger.setLevel(logging.DEBUG)
    if not logger.hasHandlers():
        ours = logging.StreamHandler()
        ours.setFormatter(logging.Formatter(FORMAT))
        # An application that sets up its logging later would have every line twice.
        ours.addFilter(lambda _record: not root.handlers and logger.handlers == [ours])
        logger.addHandler(ours)
    return True


def assigned(text: str, name: str) -> str | None:
    """The value that a `.env` file gives a variable, the last one where there are several; None where it gives none.

    Quotes around it and white space are not part of it; nothing in it is expanded.
    """
    value = None
    for found in _ASSIGNED.finditer(text.replace("\r\n", "\n")):
        if found["name"] == name:
            value = found["bare"] or "" if found["quoted"] is None else found["quoted"]
    return value


def log_window(snapshot: Snapshot, outcome: Outcome, events: Sequence[Event]) -> None:
    """One call's window: its numbers, which decisions moved and how far, and what happened."""
    view, state, before = outcome.view, outcome.state, outcome.before
    transcript = view.counts.transcript
    judged = {
        "border": view.border,
        "turns": len(transcript.openers),
        "rounds": len(transcript.answers),
        "tokens": snapshot.used,
        "size": view.size(state),
        "target": view.target(state),
        "ceiling": view.ceiling(state),
        "pins": view.pins(state),
    }
    _log("window", [*judged.items(), *_numbers(snapshot)])
    if state != before:
        moved = (
            (name, f"{_shown(then)}->{_shown(now)}")
            for name, then, now in zip(state._fields, before, state, strict=True)
            if then != now
        )
        _log("decided", [("size_before", view.size(before)), *moved])
    log_events(events)


def log_events(events: Sequence[object]) -> None:
    """Events, each by its name and numbers."""
    for event in events:
        _log(type(event).__name__, _numbers(event))


def log_usage(usage: Usage, *, kind: Kind, estimated: int, factor: float, cost_usd: float | None) -> None:
    """What a provider reported of a call, beside our own count of it, and the calibration that follows (L15)."""
    more = {"kind": kind, "estimated": estimated, "factor": factor, "cost_usd": cost_usd}
    _log("usage", [*_numbers(usage), *((name, _shown(value)) for name, value in more.items())])


def log_refusal(error: ContextWindowExceeded) -> None:
    """A request that cannot be made to fit (H18)."""
    numbers = [("estimated_tokens", error.estimated_tokens), ("capacity", error.capacity)]
    _log("refused", [*numbers, *error.breakdown.items()])


def _log(what: str, numbers: Sequence[tuple[str, object]]) -> None:
    logging.getLogger(LOGGER).debug("%s %s", what, " ".join(f"{name}={value}" for name, value in numbers))


def _numbers(value: object) -> list[tuple[str, object]]:
    """The fields of one of our records; those of a record inside it behind its name and a dot."""
    return list(_walked(value, ""))


def _walked(value: object, prefix: str) -> Iterator[tuple[str, object]]:
    for field in fields(value):  # type: ignore[arg-type]
        inner = getattr(value, field.name)
        if is_dataclass(inner):
            yield from _walked(inner, f"{prefix}{field.name}.")
        else:
            yield f"{prefix}{field.name}", _shown(inner)


def _shown(value: object) -> object:
    """A number as it is, a word of our own too; of anything else its length, and of what has none its type."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if value is None or isinstance(value, int) or (isinstance(value, str) and value in _WORDS):
        return value
    return f"<{len(value)}>" if isinstance(value, Sized) else f"<{type(value).__name__}>"


def _read(path: Path) -> str:
    try:
        if not path.is_file():  # a pipe would be waited for
            return ""
        with path.open("rb") as file:
            return file.read(_LONGEST_FILE).decode("utf-8-sig", errors="replace")
    except OSError:
        return ""
