"""What a person sees of a replay: policies side by side, files beneath, and what all of it was judged by."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from longturn.against import Measured
from longturn.cli.replay import Basis, Replayed
from longturn.cli.screens import SHOWN, bar, listed, number_of, printable
from longturn.replays import numbers

if TYPE_CHECKING:
    from rich.console import Console

MILLION = 1_000_000
MODELS = 5
"""Of how many models it is said what they were judged by."""
_WIDEST_BAR, _LEAST_BAR, _BESIDE_BAR = 40, 6, 7  # beside it: two spaces, and the share behind it
_WIDEST_NAME = 24

Form = Callable[[float], str]
Total = Mapping[str, object]
"""The numbers of a policy by their names in JSON (replays.py)."""


@dataclass(frozen=True, slots=True)
class Column:
    """A number of a replay: its name in JSON, its heading, and how soon it gives way where room is short."""

    field: str
    heading: str
    rank: int


COLUMNS = (
    Column("cost_usd", "cost", 0),
    Column("fresh_tokens", "fresh", 4),
    Column("cached_tokens", "cached", 8),
    Column("sent_tokens", "sent", 7),
    Column("peak_tokens", "peak", 6),
    Column("rejected", "rejected", 1),
    Column("broken_fronts", "broken", 2),
    Column("misses", "missed", 3),
    Column("cleared_results", "cleared", 9),
    Column("dropped_turns", "turns out", 11),
    Column("dropped_rounds", "rounds out", 10),
)
BAR_RANK = 5
"""The bar gives way before the columns of a lower rank do."""


def show_replay(screen: "Console", files: Sequence[Replayed]) -> None:
    """The policies side by side over all files, the files where there are several, and what they were judged by."""
    runs = [run for file in files for run in file.replays]
    bases = [basis for file in files for basis in file.bases]
    totals = [numbers(column) for column in zip(*runs, strict=True)]
    calls = sum(len(run[0].calls) for run in runs)
    what = Path(files[0].file).name if len(files) == 1 else number_of(len(files), "file")
    screen.print(printable(f"{what}: {number_of(len(runs), 'run')}, {number_of(calls, 'call')}"), style="bold")
    if not calls:
        screen.print("No model answered in it, so there is no call to replay.")
    else:
        measure = "cost_usd" if all(basis.prices for basis in bases) else "fresh_tokens"
        screen.print()
        _policies(screen, totals, measure, _over_budget(files, len(totals)))
        if len(files) > 1:
            _files(screen, files, measure)
    _judged_by(screen, bases)
    named = [(f"{Path(file.file).name}: " if len(files) > 1 else "") + note for file in files for note in file.notes]
    listed(screen, "On reading", [f"{note[:1].upper()}{note[1:]}" for note in named], "dim")


def _policies(screen: "Console", totals: Sequence[Total], measure: str, over: Sequence[int]) -> None:
    from rich.text import Text

    names = [_short(str(total["name"])) for total in totals]
    layout = _laid_out(screen, names, totals)
    headings, *rows = layout.cells
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    what = "cost" if measure == "cost_usd" else "fresh tokens"
    over_bar = f"  {what} beside the most"[: layout.room + 7] if layout.room >= 16 else ""
    screen.print("  " + _line(headings, widths) + over_bar, style="dim")
    judged = [
        (_amount(total, "rejected") + beyond, _amount(total, measure))
        for total, beyond in zip(totals, over, strict=True)
    ]
    most = max(amount for _, amount in judged) or 1.0
    is_contest = len({tuple(total.values())[1:] for total in totals}) > 1
    for row, key in zip(rows, judged, strict=True):
        is_best = is_contest and key == min(judged)
        line = Text(("* " if is_best else "  ") + _line(row, widths), "bold" if is_best else "")
        if layout.room:
            line.append("  ")
            line.append(
                bar(key[1] / most, layout.room, screen.encoding).ljust(layout.room), "green" if is_best else "cyan"
            )
            line.append(f" {key[1] / most:>4.0%}", "dim")
        screen.print(line)
    if is_contest:
        screen.print(f"* the lowest {what} among those with the fewest calls rejected or over the budget", style="dim")
    elif len(totals) > 1:
        screen.print("All alike: no policy found anything to shape.", style="dim")


def show_measured(screen: "Console", measured: Sequence[Measured], url: str) -> None:
    """What a server made of the calls, by policy: taken or refused, and its tokens beside our estimate."""
    screen.print()
    screen.print(printable(f"Sent to {url}"), style="bold")
    rows = [["policy", "sent", "accepted", "too long", "refused", "estimate", "its count", "cached", "expected"]]
    for name in dict.fromkeys(each.name for each in measured):
        of = [each for each in measured if each.name == name]
        outcomes = (sum(each.count(outcome) for each in of) for outcome in ("accepted", "too_long", "refused"))
        reported = [call for each in of for call in each.reported]
        ours, theirs = sum(call.estimate for call in reported), sum(call.tokens or 0 for call in reported)
        cached = (sum(call.cached or 0 for call in reported), sum(call.modelled for call in reported))
        shares = (f"{part / max(1, of_all):.0%}" for part, of_all in zip(cached, (theirs, ours), strict=True))
        sent = sum(len(each.calls) for each in of)
        rows.append([_short(name), *map(grouped, (sent, *outcomes, ours, theirs)), *shares])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    while screen.is_terminal and sum(widths) + 2 * len(widths) > screen.width and len(widths) > 2:
        widths.pop()
    for place, row in enumerate(rows):
        screen.print("  " + _line(row[: len(widths)], widths), style="" if place else "dim")
    screen.print(
        "Tokens are those of accepted calls whose tokens the server reported; expected: in its cache.", style="dim"
    )
    problems = {call.reason for each in measured for call in each.calls if call.outcome == "refused"}
    stopped = {f"{each.name}: {each.stopped}" for each in measured if each.stopped}
    listed(screen, "Refused", sorted(problems), "red")
    listed(screen, "Not all was sent", sorted(stopped), "red")


def _over_budget(files: Sequence[Replayed], policies: int) -> list[int]:
    """For each policy, how many of its calls are over the budget that it was given."""
    over: Counter[int] = Counter()
    for file in files:
        for replays, basis in zip(file.replays, file.bases, strict=True):
            for place, replay in enumerate(replays):
                limit = dict(basis.own).get(replay.name, basis.budget)
                over[place] += sum(call.tokens > limit for call in replay.calls) if limit else 0
    return [over[place] for place in range(policies)]


@dataclass(frozen=True, slots=True)
class Layout:
    """The rows of a table, the headings first, and the characters that are left beside it for a bar."""

    cells: Sequence[Sequence[str]]
    room: int


def _laid_out(screen: "Console", names: Sequence[str], totals: Sequence[Total]) -> Layout:
    """All columns in full where they fit or nobody counts columns; else shorter numbers, then fewer columns."""
    columns = [column for column in COLUMNS if any(total[column.field] is not None for total in totals)]
    if not screen.is_terminal:
        return Layout(_cells(names, totals, columns, grouped), 0)
    ranks = sorted({BAR_RANK, *(column.rank for column in columns)})
    attempts = [(grouped, ranks), *((compact, ranks[:count]) for count in range(len(ranks), 0, -1))]
    for form, kept in attempts:
        cells = _cells(names, totals, [column for column in columns if column.rank in kept], form)
        width = 2 + sum(max(map(len, column)) + 2 for column in zip(*cells, strict=True)) - 2
        room = min(_WIDEST_BAR, screen.width - width - _BESIDE_BAR) if BAR_RANK in kept else 0
        if width <= screen.width and (BAR_RANK not in kept or room >= _LEAST_BAR):
            break
    return Layout(cells, room)


def _cells(names: Sequence[str], totals: Sequence[Total], columns: Sequence[Column], form: Form) -> list[list[str]]:
    money = money_form([_amount(total, "cost_usd") for total in totals])
    rows = [["policy", *(column.heading for column in columns)]]
    for name, total in zip(names, totals, strict=True):
        rows.append([name, *(_cell(total[column.field], column.field, form, money) for column in columns)])
    return rows


def _cell(value: object, field: str, form: Form, money: Form) -> str:
    if not isinstance(value, int | float):
        return "-"
    return money(value) if field == "cost_usd" else form(value)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    """The first cell to the left, all others to the right."""
    first, *others = (
        cell.ljust(width) if not place else cell.rjust(width)
        for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return "  ".join([first, *others])


def _amount(total: Total, field: str) -> float:
    value = total[field]
    return value if isinstance(value, int | float) else 0.0


def _short(name: str) -> str:
    name = printable(name)
    return name if len(name) <= _WIDEST_NAME else f"…{name[1 - _WIDEST_NAME :]}"


def money_form(dollars: Sequence[float]) -> Form:
    """How all of these are written: in cents, or with two more digits where one of them is below ten cents."""
    digits = 4 if any(0 < each < 0.1 for each in dollars) else 2
    return lambda each: f"${each:,.{digits}f}"


def grouped(count: float) -> str:
    """1,234,567."""
    return f"{count:,}"


def compact(count: float) -> str:
    """9,876, 12.3k, 123k, 1.23M, 123M."""
    if count < 10_000:
        return f"{count:,}"
    scaled, unit = (count / 1_000, "k") if count < 999_500 else (count / MILLION, "M")
    digits = 0 if scaled >= 99.95 else 1 if unit == "k" or scaled >= 9.995 else 2
    return f"{scaled:,.{digits}f}{unit}"


def _files(screen: "Console", files: Sequence[Replayed], measure: str) -> None:
    """What each of the largest files costs under each policy, as many policies as have room."""
    entries = [[numbers(column) for column in zip(*file.replays, strict=True)] for file in files]
    amounts = [[_amount(total, measure) for total in totals] for totals in entries]
    form = (
        money_form([amount for row in amounts for amount in row])
        if measure == "cost_usd"
        else compact
        if screen.is_terminal
        else grouped
    )
    ranked = sorted(range(len(files)), key=lambda place: -max(amounts[place], default=0))[:SHOWN]
    names = [str(total["name"]) for total in max(entries, key=len)]
    rows = [["file", "calls", *map(_short, names)]]
    for place in ranked:
        calls = sum(len(run[0].calls) for run in files[place].replays)
        rows.append([_short(files[place].file), grouped(calls), *map(form, amounts[place] or [0.0] * len(names))])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    while screen.is_terminal and len(widths) > 3 and sum(widths) + 2 * len(widths) > screen.width:
        widths.pop()
    of = f", the largest {SHOWN} of {len(files)}" if len(files) > SHOWN else ""
    what = "Cost" if measure == "cost_usd" else "Fresh tokens"
    left = len(names) + 2 - len(widths)
    more = f", {len(names) - left} of {len(names)} policies" if left else ""
    screen.print()
    screen.print(f"{what} by file{of}{more}", style="bold")
    for place, row in enumerate(rows):
        screen.print("  " + _line(row[: len(widths)], widths), style="" if place else "dim")


def _judged_by(screen: "Console", bases: Sequence[Basis]) -> None:
    counted = Counter(bases)
    lines = [
        basis_text(basis) + (f" ({number_of(count, 'run')})" if len(counted) > 1 else "")
        for basis, count in counted.most_common()
    ]
    more = [f"and {len(lines) - MODELS} more (--json lists all)"] if len(lines) > MODELS else []
    listed(screen, "Judged by", [*lines[:MODELS], *more])
    screen.print(
        "Tokens are estimates, and so is the money; what the answers themselves cost is not in it.", style="dim"
    )
    if any(basis.prices for basis in bases):
        unpriced = sum(basis.prices is None for basis in bases)
        rest = (
            f" {number_of(unpriced, 'run')} of {len(bases)} without a known price: not in the money."
            if unpriced
            else ""
        )
        screen.print(f"Prices are those of genai-prices.{rest}", style="dim")


def basis_text(basis: Basis) -> str:
    """What runs were judged by, in one sentence: model, window, budget, cache and prices."""
    model = basis.model or "no model named"
    window = "window unknown, so no call is rejected"
    if basis.window is not None:
        window = f"window {basis.window:,}" + (f" less {basis.room:,} for the answer" if basis.room else "")
    budget = f"budget {basis.budget:,}" if basis.budget else "budget off"
    own = "".join(f" ({name}: {limit:,})" for name, limit in basis.own)
    return f"{model}: {window}; {budget}{own}; {_cache_text(basis)}; {_price_text(basis)}"


def _cache_text(basis: Basis) -> str:
    rule = basis.rule
    if not rule.serves:
        return "no cache"
    parts = [
        f"from {rule.least:,} tokens" if rule.least else "",
        f"in steps of {rule.step:,}" if rule.step > 1 else "",
        f"gone after {rule.lifetime:,.0f} s" if rule.lifetime else "",
    ]
    details = ", ".join(filter(None, parts))
    return f"cache {rule.name}" + (f" ({details})" if details else "")


def _price_text(basis: Basis) -> str:
    prices = basis.prices
    if prices is None:
        return "price unknown"
    parts = [(prices.fresh, "fresh"), (prices.cached, "cached")]
    parts += [(prices.stored, "written to the cache")] if prices.stored != prices.fresh else []
    parts += [(prices.output, "output")]
    return "per million tokens " + ", ".join(f"{_price(dollars)} {kind}" for dollars, kind in parts)


def _price(dollars: float) -> str:
    text = f"{dollars * MILLION:.4f}".rstrip("0")
    whole, _, rest = text.partition(".")
    return f"${whole}.{rest.ljust(2, '0')}"
