"""What a person sees: bars and tables on a terminal, plain lines where the output goes elsewhere.

Rich is loaded when something is printed, not before: `longturn --help` needs none of it.
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING

from longturn.inspection import Inspection, Large, Standing
from longturn.report import Report

if TYPE_CHECKING:
    from rich.console import Console

NARROW = 64
"""On a terminal of fewer columns, texts beside numbers are left out."""
LONG = 10_000_000
"""Inputs of more bytes than these get a progress bar."""
PACE = 600.0
"""Seconds that the pace is taken from, for telling the time that is left: a call to a slow server may take minutes."""
SHOWN = 10
"""How many problems, notes, tools and runs are listed."""

_WIDEST_BAR, _WIDEST_NAME = 60, 32
_EIGHTHS = " ▏▎▍▌▋▊▉"
_LABELS = {
    "tool_results": "tool results",
    "tool_calls": "tool calls",
    "assistant": "assistant",
    "user": "user",
    "system": "system",
    "tools": "tools",
    "images": "images",
}
_ONE = {"tool_results": "result of", "tool_calls": "call of"}


def console(*, stderr: bool = False) -> "Console":
    """A console that takes no text for markup: what it prints comes out of other people's files."""
    from rich.console import Console

    return Console(
        file=sys.stderr if stderr else sys.stdout,
        color_system=None if os.environ.get("NO_COLOR") else "auto",
        markup=False,
        emoji=False,
        highlight=False,
        soft_wrap=not is_terminal(stderr=stderr),
    )


def is_terminal(*, stderr: bool = False) -> bool:
    """Whether a person reads the stream as it comes."""
    return (sys.stderr if stderr else sys.stdout).isatty()


def printable(text: str) -> str:
    """The text on one line, without anything that a terminal would obey."""
    return harmless(" ".join(text.split()))


def harmless(text: str) -> str:
    """The text with its lines and tabs, without anything else that a terminal would obey; may be given in pieces."""
    return "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in text.replace("\r", ""))


@contextmanager
def progress(size: int) -> Iterator[Callable[..., None]]:
    """A bar with the time left on the terminal, for long work; gives `step(doing, done=0.0)` with done from 0 to 1.

    It leaves nothing behind, and shows nothing where the input is short or no terminal is there.
    """
    if size < LONG or not is_terminal(stderr=True):
        yield lambda _doing, _done=0.0: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    screen = console(stderr=True)
    with Progress(*columns, console=screen, transient=True, speed_estimate_period=PACE) as bar:
        task = bar.add_task("", total=None)

        def step(doing: str, done: float = 0.0) -> None:
            bar.update(task, description=doing, total=1.0 if done else None, completed=done, refresh=not done)

        yield step


def show_inspection(screen: "Console", heading: str, inspection: Inspection, notes: Sequence[str]) -> None:
    """Where the tokens are: by kind, by tool, the largest messages; what is broken; what the provider had reported."""
    tokens = inspection.tokens
    screen.print(printable(heading), style="bold")
    model = printable(inspection.model) if inspection.model else "no model named"
    screen.print(
        f"{inspection.dialect}, {model}: {number_of(inspection.messages, 'message')}, "
        f"{number_of(inspection.turns, 'turn')}, {number_of(inspection.rounds, 'round')}, about {tokens.total:,} tokens"
    )
    if tokens.total:
        screen.print()
        parts = {kind: count for kind, count in asdict(tokens).items() if kind != "total" and count}
        by_size = sorted(parts.items(), key=lambda part: -part[1])
        _bars(screen, [(_LABELS[kind], count) for kind, count in by_size], tokens.total)
    if inspection.thinking:
        screen.print(f"{inspection.thinking:,} of the assistant's tokens are thinking.", style="dim")
    _tools(screen, inspection)
    _largest(screen, inspection.largest)
    listed(screen, "Broken", inspection.problems, "red")
    _reported(screen, inspection)
    if inspection.boundaries:
        places = ", ".join(map(str, inspection.boundaries[:SHOWN]))
        listed(screen, "Compacted", [f"The agent had compacted its history before messages {places}."])
    _checkpoints(screen, inspection.checkpoints)
    listed(screen, "On reading", notes, "dim")


def show_runs(screen: "Console", names: Sequence[str], inspections: Sequence[Inspection]) -> None:
    """The largest of several conversations."""
    runs = zip(range(1, len(names) + 1), names, inspections, strict=True)
    ranked = sorted(runs, key=lambda run: -run[2].tokens.total)[:SHOWN]
    is_wide = screen.width >= NARROW
    headings = ("run", "tokens", "messages", "rounds", "broken", "name") if is_wide else ("run", "tokens", "name")
    rows = []
    for number, name, each in ranked:
        counts = (each.messages, each.rounds, len(each.problems)) if is_wide else ()
        rows.append([str(number), *map(_grouped, (each.tokens.total, *counts)), name])
    more = f", the largest of {len(names)}" if len(names) > SHOWN else ""
    screen.print()
    screen.print(f"Runs{more} (--run shows one)", style="bold")
    table(screen, headings, rows)


def show_report(screen: "Console", report: Report, notes: Sequence[str]) -> None:
    """What was kept and what was not, and why: the same lines everywhere, with bars above them on a terminal."""
    if screen.is_terminal and report.total:
        _bars(screen, [("before", report.total), ("sent", report.sent)], max(report.total, report.sent))
    for line in str(report).splitlines():
        screen.print(printable(line))
    for note in notes:
        screen.print(printable(note), style="dim")


def number_of(count: int, name: str) -> str:
    """1 call, 2 calls."""
    return f"{count:,} {name}{'' if count == 1 else 's'}"


def _grouped(count: int) -> str:
    return f"{count:,}"


def _bars(screen: "Console", rows: Sequence[tuple[str, int]], total: int) -> None:
    """Labels, bars (on a terminal only), numbers and shares."""
    from rich.text import Text

    label, digits = max(len(name) for name, _ in rows), len(f"{total:,}")
    room = min(_WIDEST_BAR, screen.width - label - digits - 11)
    for name, count in rows:
        line = Text(f"{name:<{label}}  ")
        if screen.is_terminal and room >= 4:
            line.append(bar(count / max(1, total), room, screen.encoding).ljust(room) + "  ", style="cyan")
        line.append(f"{count:>{digits},}", style="bold")
        line.append(f"  {count / max(1, total):>4.0%}", style="dim")
        screen.print(line)


def bar(share: float, room: int, encoding: str) -> str:
    """A bar of `room` characters at most, for a share from 0 to 1."""
    if not encoding.lower().startswith("utf"):
        return "#" * max(1, round(share * room))
    eighths = max(1, round(share * room * 8))
    return ("█" * (eighths // 8) + _EIGHTHS[eighths % 8]).rstrip()


def table(screen: "Console", headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns without lines; numbers stand to the right. On a terminal the last column ends where the line does."""
    from rich.cells import cell_len, set_cell_size

    cells = [[printable(cell) for cell in row] for row in rows]
    *columns, _last = zip(headings, *cells, strict=True)
    widths = [min(_WIDEST_NAME, max(map(cell_len, column))) for column in columns]
    room = screen.width - sum(widths) - 2 * len(widths)
    for place, row in enumerate([headings, *cells]):
        *firsts, last = row
        line = ""
        for width, cell, column in zip(widths, firsts, columns, strict=True):
            fitted = cell if cell_len(cell) <= width else set_cell_size(cell, width - 1) + "…"
            is_number = all(entry[:1].isdigit() for entry in column[1:])
            line += (" " * (width - cell_len(fitted)) + fitted if is_number else set_cell_size(fitted, width)) + "  "
        if screen.is_terminal and cell_len(last) > room:
            last = set_cell_size(last, max(1, room - 1)) + "…"
        screen.print((line + last).rstrip(), style="" if place else "dim")


def _tools(screen: "Console", inspection: Inspection) -> None:
    if not inspection.by_tool:
        return
    shown = inspection.by_tool[:SHOWN]
    names = [use.name or "(results without a call)" for use in shown]
    is_wide = screen.width >= NARROW
    headings = ("calls", "call tokens", "result tokens", "tool") if is_wide else ("calls", "tokens", "tool")
    rows = [
        [_grouped(use.calls), _grouped(use.call_tokens), _grouped(use.result_tokens), name]
        if is_wide
        else [_grouped(use.calls), _grouped(use.call_tokens + use.result_tokens), name]
        for use, name in zip(shown, names, strict=True)
    ]
    more = f", the largest {SHOWN} of {len(inspection.by_tool)}" if len(inspection.by_tool) > SHOWN else ""
    screen.print()
    screen.print(f"By tool{more}", style="bold")
    table(screen, headings, rows)


def _largest(screen: "Console", largest: Sequence[Large]) -> None:
    if not largest:
        return
    is_wide = screen.width >= NARROW
    rows = []
    for large in largest:
        place = f"{large.message}" if large.run is None else f"{large.message} of run {large.run}"
        kind = _ONE.get(large.kind, large.kind)
        what = f"{kind} {large.tool}" if large.tool else kind.removesuffix(" of")
        rows.append([place, _grouped(large.tokens), what, *([large.begins] if is_wide else [])])
    screen.print()
    screen.print("Largest messages", style="bold")
    table(screen, ("message", "tokens", "what", *(("begins",) if is_wide else ())), rows)


def listed(screen: "Console", title: str, lines: Sequence[str], style: str = "") -> None:
    """The first lines of a list under its title; nothing where there are none."""
    if not lines:
        return
    screen.print()
    screen.print(title, style="bold")
    for line in lines[:SHOWN]:
        screen.print(printable(line), style=style)
    if len(lines) > SHOWN:
        screen.print(f"and {len(lines) - SHOWN:,} more (--json lists all)", style="dim")


def _checkpoints(screen: "Console", checkpoints: Sequence[Standing]) -> None:
    lines = []
    for each in checkpoints:
        what = f"the first {number_of(each.covers, 'message')}" if each.covers else "what is not here"
        lines.append(f"message {each.message}: {number_of(each.tokens, 'token')} that stand for {what}")
    listed(screen, number_of(len(checkpoints), "checkpoint").capitalize(), lines)


def _reported(screen: "Console", inspection: Inspection) -> None:
    found = inspection.reported
    if found is None:
        return
    is_whole = inspection.tokens.system and inspection.tokens.tools
    beside = "" if is_whole else "; the log may hold neither the whole system prompt nor the tools"
    calls, cached = number_of(found.calls, "call"), f"{found.cached_tokens:,} from the cache"
    lines = [
        f"{calls} read {found.input_tokens:,} tokens ({cached}) and wrote {found.output_tokens:,}.",
        f"The largest read {found.largest_input:,}; by our count it was sent {found.estimated_input:,}{beside}.",
    ]
    listed(screen, "Reported by the provider", lines)
