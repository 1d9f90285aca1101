"""The gauge: one line on how full the window is, how long it will last and what was spent, as wide as there is room.

Rich is loaded when it is drawn, not before.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from longturn.cli.screens import bar, number_of
from longturn.core.meter import Meter, Snapshot, Totals

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

STYLES: Mapping[float, str] = {0.85: "red", 0.6: "yellow", 0.0: "cyan"}
"""The bar's colour from a share of the limit on."""
WIDEST_BAR, LEAST_BAR, AROUND_BAR = 30, 5, 4
"""In characters: the bar, and brackets and space around it."""
SHORT = 3
"""From this one on, the wordings are short."""

_Forms = tuple[str, str, str, str, str]
"""One thing that the gauge says, from the longest wording to the shortest; empty where it is left out."""


def show_gauge(screen: "Console", meter: Meter) -> None:
    """Print the gauge: as wide as the terminal, and in full and without a bar where none is there."""
    screen.print(gauge(meter, width=screen.width if screen.is_terminal else None, encoding=screen.encoding))


def gauge(meter: Meter, *, width: int | None, encoding: str = "utf-8") -> "Text":
    """One line about a session (S12-S14).

    It gives what is sent as a share of the smaller of budget and capacity, how many turns (or rounds) of the recent
    ones' size there are until the next shaping, and the cost so far. width: columns at most, None for as many as the
    words take, without a bar. encoding: of what it is written to; where it is not Unicode, the line is ASCII.
    """
    from rich.text import Text

    snapshot = meter.snapshot or Snapshot()
    said = [_tokens(snapshot), _window(snapshot), _left(snapshot), _cost(meter)]
    if meter.snapshot is None:
        said = [("nothing sent yet",) * 5, _cost(meter)]
    share = "" if snapshot.share is None or meter.snapshot is None else f"{snapshot.share:.0%}"
    for place, forms in enumerate(zip(*said, strict=True)):
        words = "  ".join(form for form in (share, *forms) if form)
        # Longer wordings are for where there is room for a bar too; of the short ones, words tell more than a bar.
        least = AROUND_BAR + LEAST_BAR if share and place < SHORT else 0
        if width is None or len(words) + least <= width:
            break
    if width is not None and len(words) > width:
        words = words.partition("  ")[0][:width]
    line = Text(words)
    line.stylize("bold", 0, len(share))
    room = 0 if width is None or not share else min(WIDEST_BAR, width - len(words) - AROUND_BAR)
    if room < LEAST_BAR:
        return line
    filled = bar(min(1.0, snapshot.share or 0.0), room, encoding).ljust(room)
    style = next(style for least, style in STYLES.items() if (snapshot.share or 0.0) >= least)
    return Text.assemble("[", (filled, style), "]  ", line)


def _tokens(snapshot: Snapshot) -> _Forms:
    if snapshot.limit is None:
        long, short = f"{number_of(snapshot.sent, 'token')}, no limit", _rounded(snapshot.sent)
    else:
        long = f"{snapshot.sent:,} of {number_of(snapshot.limit, 'token')}"
        short = f"{_rounded(snapshot.sent)}/{_rounded(snapshot.limit)}"
    return long, long, short, short, short


def _window(snapshot: Snapshot) -> _Forms:
    known = snapshot.window is not None
    return ("", "", "", "", "") if known else ("window unknown", "window unknown", "window ?", "window ?", "window ?")


def _left(snapshot: Snapshot) -> _Forms:
    """Turns while a whole one still fits; rounds of the running turn where none does."""
    count, what = snapshot.turns_left, "turn"
    if not count and snapshot.rounds_left is not None:
        count, what = snapshot.rounds_left, "round"
    if count is None:
        return ("", "", "", "", "")
    long = f"about {number_of(count, what)}" if count else f"less than a {what}"
    short = f"~{number_of(count, what)}" if count else f"<1 {what}"
    return f"{long} until the next shaping", f"{short} left", f"{short} left", short, ""


def _cost(meter: Meter) -> _Forms:
    ours, whole = dollars(meter.spend.total), dollars(meter.all_branches.total)
    apart = f", {whole} over all branches" if meter.all_branches != meter.spend else ""
    return f"{ours} so far{apart}" if ours else apart.removeprefix(", "), ours, ours, ours, ""


def dollars(totals: Totals) -> str:
    """What calls cost, "" for none; a plus behind it says that there were calls whose price is not known."""
    if not totals.calls:
        return ""
    cost = totals.cost_usd
    if cost is None:
        return "$?"
    if 0 < cost < 0.0001:
        return "<$0.0001"
    digits = 2 if cost >= 0.1 or not cost else 4
    return f"${cost:,.{digits}f}" + ("+" if totals.unpriced_calls else "")


def _rounded(tokens: int) -> str:
    """1.5k, 32k, 1.5m."""
    for unit, name in ((1_000_000, "m"), (1_000, "k")):
        if tokens >= unit:
            return f"{tokens / unit:.3g}{name}" if tokens < 1_000 * unit else f"{tokens // unit:,}{name}"
    return str(tokens)
