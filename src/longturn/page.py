"""Replays as one HTML file that needs nothing else: a table that reads without scripts, and charts drawn by the page.

Nothing is replayed or counted here. The page asks for nothing over a network, and its policy lets it run and style
nothing but its own script and sheet; texts of a conversation get into it as data only.
"""

import json
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from importlib.resources import files
from string import Template

from longturn import catalog
from longturn.core.caches import CacheRule, Prices
from longturn.core.messages import Media, Message, Text, ToolResult
from longturn.core.policy import NO_LIMIT
from longturn.core.replay import (
    EDITED,
    NOTE_ITEM,
    PLACEHOLDER_ITEM,
    SUMMARY_ITEM,
    VARIANTS,
    Call,
    Replay,
)
from longturn.replays import Recording, numbers

BEGINNING = 80
"""How many characters of a message's text the page shows."""
NAMES = 3
"""How many names of models or rules are listed before the rest is a number."""

# Marks that turn the reading direction, controls, tags, and halves of surrogate pairs: none may reach a reader's screen
# as what it is. The joiners that scripts and emoji need (U+200C, U+200D) stay.
_HARMFUL = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e007f]"
)
_ROLES = {"system": "s", "user": "u", "assistant": "a", "tool": "t"}
_CONTINUED = "c"

Runs = Sequence[tuple[Recording, Sequence[Replay]]]


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of the table: a field of `numbers`, its heading, what it means, and whether its least is its best."""

    field: str
    heading: str
    meaning: str
    is_least_best: bool = True


_COLUMNS = (
    _Column("rejected", "Rejected", "calls over the model's window"),
    _Column("sent_tokens", "Sent", "tokens of all requests"),
    _Column("fresh_tokens", "Fresh", "tokens that the cache would not have served"),
    _Column("cached_tokens", "Cached", "tokens that the cache would have served, and their share of those sent", False),
    _Column("broken_fronts", "Broken fronts", "calls whose request does not begin with the last one"),
    _Column("misses", "Misses", "calls whose answer quotes a result that was not whole in the window"),
    _Column("peak_tokens", "Peak", "tokens of the largest request"),
    _Column("cleared_results", "Cleared results", "results that were ever not whole"),
    _Column("dropped_turns", "Dropped turns", "turns that were ever left out"),
    _Column("dropped_rounds", "Dropped rounds", "rounds that were ever left out"),
    _Column(
        "cost_usd",
        "Cost",
        "dollars for what was sent, and how many times that of the cheapest policy without a rejected call",
    ),
)


def page(title: str, runs: Runs, *, budget: int | None, rule: CacheRule | None = None, texts: bool = True) -> str:
    """The HTML text of a report on replays; equal input gives equal text.

    runs: recordings, each with its replays under the same policies in the same order. budget: in tokens, for the line
    in the charts. rule: the cache rule that was replayed with, None for each provider's own, as in `compare`. texts:
    whether the first 80 characters of each message are shown; without them the page holds no text of a conversation,
    only roles, the names of tools and numbers.
    """
    style, script = _asset("page.css"), _asset("page.js")
    data = json.dumps(_data(runs, budget, texts), ensure_ascii=False, separators=(",", ":"))
    return Template(_asset("page.html")).substitute(
        title=_text(title),
        policy=f"default-src 'none'; img-src data:; style-src {_hash(style)}; script-src {_hash(script)}",
        style=style,
        script=script,
        facts="".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in _facts(runs, budget, rule)),
        head="".join(_heading(column) for column in _COLUMNS),
        body=_rows([numbers(replays) for replays in zip(*(replays for _, replays in runs), strict=True)]),
        data=data.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"),
    )


def _asset(name: str) -> str:
    return (files("longturn") / "page_assets" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """A text as a content security policy names it."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _plain(text: str, most: int | None = None) -> str:
    """The beginning of a text on one line, with nothing in it that acts on a terminal or a reader's screen."""
    if most is not None:
        text = text[: 4 * most]
    return _HARMFUL.sub("\ufffd", " ".join(text.split()))[:most]


def _text(text: str) -> str:
    return escape(_plain(text))


# What was replayed


def _facts(runs: Runs, budget: int | None, rule: CacheRule | None) -> Iterator[tuple[str, str]]:
    recordings = [recording for recording, _ in runs]
    calls = sum(len(replays[0].calls) for _, replays in runs if replays)
    windows = sorted({recording.run.capacity for recording in recordings})
    rules = [rule or catalog.cache_rule_of(each.model, each.conversation.dialect) for each in recordings]
    models = list(dict.fromkeys(recording.model for recording in recordings))
    yield "Replayed", f"{_counted(len(runs), 'run')}, {_counted(calls, 'call')}"
    yield "Model", _listed(model or "not recorded" for model in models)
    yield (
        "Window, less the answer's room",
        _listed("unknown" if window >= NO_LIMIT else _counted(window, "token") for window in windows),
    )
    yield "Budget", "each policy's own" if budget is None else _counted(budget, "token")
    yield "Cache rule", _listed(each.name for each in rules)
    yield "Prices of a million tokens", _listed(map(_price, map(catalog.prices_of, models)))


def _price(prices: Prices | None) -> str:
    if prices is None:
        return "unknown"
    named = {"fresh": prices.fresh, "cached": prices.cached, "to the cache": prices.stored, "output": prices.output}
    return ", ".join(f"${price * 1_000_000:,.4g} {name}" for name, price in named.items())


def _counted(number: int, word: str) -> str:
    return f"{number:,} {word}" + ("" if number == 1 else "s")


def _listed(names: Iterable[str]) -> str:
    found = list(dict.fromkeys(_text(name) for name in names))
    more = f" and {len(found) - NAMES} more" if len(found) > NAMES else ""
    return "; ".join(found[:NAMES]) + more


# The table


def _heading(column: _Column) -> str:
    return (
        f'<th scope="col" role="columnheader" data-field="{column.field}" title="{escape(column.meaning)}">'
        f'<button type="button">{column.heading}</button></th>'
    )


def _rows(totals: Sequence[Mapping[str, object]]) -> str:
    best = {column.field: _best(column, totals) for column in _COLUMNS}
    costs = [_number(each, "cost_usd") for each in totals]
    return "".join(
        f'<tr role="row"><th scope="row" role="rowheader" data-field="name">{_text(str(each["name"]))}</th>'
        + "".join(_cell(column, each, best[column.field], costs) for column in _COLUMNS)
        + "</tr>"
        for each in totals
    )


def _cell(column: _Column, total: Mapping[str, object], best: float | None, costs: Sequence[float | None]) -> str:
    value = _number(total, column.field)
    is_best = best is not None and _judged(column, total) == best and not total["rejected"]
    classes = ["best"] if is_best else ["bad"] if column.field == "rejected" and value else []
    shown = "unknown" if value is None else f"{value:,.0f}"
    known = [cost for cost in costs if cost is not None]
    if column.field == "cost_usd" and value is not None:
        shown = f"${value:,.{2 if min(known) >= 1 else 4}f}" + _relative(value, best or min(known), max(known))
    if column.field == "cached_tokens" and total["sent_tokens"]:
        shown += f" <small>{_judged(column, total):.0%}</small>"
    mark = '<span class="mark">best</span> ' if is_best else ""
    raw = "" if value is None else repr(value)
    return (
        f'<td role="cell"{_class(classes)} data-field="{column.field}" data-value="{raw}" '
        f'data-label="{column.heading}">{mark}{shown}</td>'
    )


def _class(names: Sequence[str]) -> str:
    return f' class="{" ".join(names)}"' if names else ""


def _relative(value: float, least: float, most: float) -> str:
    if not most:
        return ""
    times = f" <small>×{value / least:,.2f}</small>" if least else ""
    bar = f'<rect width="{100 * value / most:.1f}" height="4"/>'
    return f'{times}<svg class="bar" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">{bar}</svg>'


def _number(total: Mapping[str, object], field: str) -> float | None:
    value = total[field]
    return value if isinstance(value, int | float) else None


def _judged(column: _Column, total: Mapping[str, object]) -> float:
    """What makes a value the best of its column: of tokens from the cache their share, of all else the number."""
    value = _number(total, column.field) or 0
    return value if column.is_least_best else value / max(1, _number(total, "sent_tokens") or 0)


def _best(column: _Column, totals: Sequence[Mapping[str, object]]) -> float | None:
    """The best value of a column; None where all are equal or unknown. A run that was rejected had ended there."""
    judged = [_judged(column, each) for each in totals if not each["rejected"] and each[column.field] is not None]
    if len(set(judged)) < 2:
        return None
    return (min if column.is_least_best else max)(judged)


# The data of the charts


def _data(runs: Runs, budget: int | None, texts: bool) -> dict[str, object]:
    return {
        "budget": budget,
        "edits": EDITED,
        "variants": VARIANTS,
        "note": NOTE_ITEM,
        "placeholder": PLACEHOLDER_ITEM,
        "summary": SUMMARY_ITEM,
        "runs": [_run(recording, replays, texts) for recording, replays in runs],
    }


def _run(recording: Recording, replays: Sequence[Replay], texts: bool) -> dict[str, object]:
    run = recording.run
    rows, sums = run.counts.transcript.rows, run.counts.tokens
    tools = [_plain(row.tool or ", ".join(dict.fromkeys(call.name for call in row.message.calls)), 60) for row in rows]
    names = list(dict.fromkeys(tools))
    return {
        "name": _plain(run.name),
        "model": _plain(recording.model or ""),
        "window": None if run.capacity >= NO_LIMIT else run.capacity,
        "system": run.base.system,
        "tools": run.base.tools,
        "roles": "".join(_CONTINUED if row.continues else _ROLES[row.message.role] for row in rows),
        "tokens": [sums[place + 1] - sums[place] for place in range(len(rows))],
        "places": [row.position for row in rows],
        "names": names,
        "named": [names.index(tool) for tool in tools],
        "texts": [_beginning(row.message) for row in rows] if texts else None,
        "policies": [_policy(replay) for replay in replays],
    }


def _beginning(message: Message) -> str:
    said = [part.text for part in message.parts if isinstance(part, Text | ToolResult) and part.text]
    media = [f"[{part.kind}]" for part in message.parts if isinstance(part, Media)]
    return _plain(" ".join([*said, *media] or [call.arguments for call in message.calls]), BEGINNING)


def _policy(replay: Replay) -> dict[str, object]:
    calls = replay.calls
    return {
        "name": _plain(replay.name),
        "cost": replay.cost_usd,
        "sizes": sorted(replay.sizes.items()),
        "borders": [call.border for call in calls],
        "windows": list(_windows(calls)),
        "cached": [call.cached for call in calls],
        "costs": None if replay.cost_usd is None else [round(call.cost, 6) for call in calls],
        "missed": {number: call.missed for number, call in enumerate(calls) if call.missed},
    }


def _windows(calls: Sequence[Call]) -> Iterator[int | list[int]]:
    """Each call's window by how it differs from the last one's.

    0: the rows that arrived stand behind it, whole. A list: how many items at its beginning stand, and then pairs, an
    item and how many rows from there on have the same edits.
    """
    last: list[int] = []
    border = 0
    for call in calls:
        items = list(call.items)
        arrived = range(border * VARIANTS, call.border * VARIANTS, VARIANTS)
        if len(items) == len(last) + len(arrived) and items == [*last, *arrived]:
            yield 0
        else:
            both = min(len(last), len(items))
            kept = next((at for at in range(both) if last[at] != items[at]), both)
            yield [kept, *_paired(items[kept:])]
        last, border = items, call.border


def _paired(items: Sequence[int]) -> Iterator[int]:
    first, count = 0, 0
    for item in items:
        if count and item >= 0 and first >= 0 and item == first + count * VARIANTS:
            count += 1
            continue
        if count:
            yield from (first, count)
        first, count = item, 1
    if count:
        yield from (first, count)
