"""S12-S14 on a terminal: the gauge, one line of any width, with colour and without, in Unicode and in ASCII."""

import io
import os
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from longturn.cli.gauge import gauge, show_gauge
from longturn.core.meter import Meter, Snapshot, Spend, Usage
from tests.test_meter import bills, snapshots, spent

SNAPSHOT = Snapshot(200_000, 32_000, 136_000, system=400, tools=620, messages=12_100, free=18_880, turns_left=6)
SPEND = Spend().plus(Usage(100_000, 500), "call", 0.42)
METER = Meter(SNAPSHOT, SPEND, SPEND)


def line(meter: Meter, width: int | None, encoding: str = "utf-8") -> str:
    return gauge(meter, width=width, encoding=encoding).plain


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (120, "[████████████▎                 ]  41%  13,120 of 32,000 tokens  about 6 turns until the next shaping  "),
        (80, "[██████████▋               ]  41%  13,120 of 32,000 tokens  ~6 turns left  $0.42"),
        (60, "[██▌   ]  41%  13,120 of 32,000 tokens  ~6 turns left  $0.42"),
        (40, "[██   ]  41%  13.1k/32k  ~6 turns  $0.42"),
        (20, "41%  13.1k/32k"),
        (3, "41%"),
        (None, "41%  13,120 of 32,000 tokens  about 6 turns until the next shaping  $0.42 so far"),
    ],
)
def test_the_gauge_says_less_where_there_is_less_room_s14(width: int | None, shown: str) -> None:
    assert line(METER, width).startswith(shown)


@given(st.none() | snapshots, bills, bills, st.integers(1, 200), st.sampled_from(("utf-8", "ascii", "latin-1")))
def test_the_gauge_is_one_line_that_fits_whatever_it_shows_s14(
    snapshot: Snapshot | None, here: object, there: object, width: int, encoding: str
) -> None:
    meter = Meter(snapshot, spent(here), spent(there))  # type: ignore[arg-type]
    text = line(meter, width, encoding)
    assert 0 < len(text) <= width
    assert text.isprintable()
    assert encoding == "utf-8" or text.isascii()
    assert line(meter, None, "ascii").isascii()


def test_an_unknown_window_is_not_hidden_s14() -> None:
    unknown = replace(METER, snapshot=replace(SNAPSHOT, window=None, capacity=None))
    assert "window unknown" in line(unknown, 100)
    assert "window ?" in line(unknown, 60)
    assert "window" not in line(METER, 100)


def test_without_a_limit_there_is_no_bar_and_no_share_s14() -> None:
    free = replace(SNAPSHOT, window=None, budget=0, capacity=None, free=None, turns_left=None)
    assert line(replace(METER, snapshot=free), 100) == "13,120 tokens, no limit  window unknown  $0.42 so far"


def test_before_the_first_call_the_gauge_says_that_nothing_was_sent_s14() -> None:
    assert line(Meter(), 80) == "nothing sent yet"
    assert line(Meter(spend=SPEND, all_branches=SPEND), 80) == "nothing sent yet  $0.42 so far"


@pytest.mark.parametrize(
    ("turns", "rounds", "shown"),
    [
        (6, 40, "about 6 turns"),
        (1, None, "about 1 turn "),
        (0, 3, "about 3 rounds"),
        (None, 1, "about 1 round "),
        (0, None, "less than a turn"),
        (None, 0, "less than a round"),
        (0, 0, "less than a round"),
    ],
)
def test_the_gauge_counts_rounds_where_no_whole_turn_is_left_s14(
    turns: int | None, rounds: int | None, shown: str
) -> None:
    long = replace(METER, snapshot=replace(SNAPSHOT, turns_left=turns, rounds_left=rounds))
    assert shown in line(long, None)


@pytest.mark.parametrize(
    ("costs", "shown"),
    [
        ([], ""),
        ([None], "$?"),
        ([0.42, None], "$0.42+"),
        ([0.0], "$0.00"),
        ([0.00001], "<$0.0001"),
        ([0.0042], "$0.0042"),
        ([1_234.5], "$1,234.50"),
    ],
)
def test_what_is_not_known_of_the_cost_shows_s13(costs: list[float | None], shown: str) -> None:
    spend = Spend()
    for cost in costs:
        spend = spend.plus(Usage(1), "call", cost)
    text = line(Meter(SNAPSHOT, spend, spend), 60)
    assert text.endswith(f"left  {shown}" if shown else "left")


def test_the_cost_over_all_branches_is_shown_apart_s13() -> None:
    more = replace(METER, all_branches=SPEND.plus(Usage(1), "subagent", 1.0))
    assert line(more, None).endswith("$0.42 so far, $1.42 over all branches")
    assert line(more, 80).endswith("$0.42")


def test_the_gauge_counts_as_the_provider_does_s14() -> None:
    """S14, L15: the calibration in force."""
    assert "26,240 of 32,000 tokens" in line(replace(METER, snapshot=replace(SNAPSHOT, factor=2.0)), 100)


@pytest.mark.parametrize(("messages", "style"), [(1_000, "cyan"), (20_000, "yellow"), (28_000, "red"), (90_000, "red")])
def test_the_bar_changes_its_colour_as_the_window_fills_s14(messages: int, style: str) -> None:
    full = gauge(replace(METER, snapshot=replace(SNAPSHOT, messages=messages)), width=80)
    assert [span.style for span in full.spans if span.style != "bold"] == [style]


@pytest.mark.parametrize("colors", ["truecolor", None])
def test_the_gauge_on_a_terminal_has_colour_only_where_it_may_s14(colors: str | None) -> None:
    out = io.StringIO()
    show_gauge(Console(file=out, force_terminal=True, width=80, color_system=colors), METER)  # type: ignore[arg-type]
    written = out.getvalue()
    assert ("\x1b[36m" in written) == (colors is not None)
    assert re.sub(r"\x1b\[[\d;]*m", "", written) == f"{line(METER, 80)}\n"


def test_a_gauge_that_is_piped_says_it_all_without_a_bar_s14() -> None:
    reading, writing = os.pipe()
    with open(writing, "w", encoding="ascii") as out:
        show_gauge(Console(file=out, soft_wrap=True), METER)
    with open(reading, encoding="ascii") as piped:
        assert piped.read() == f"{line(METER, None)}\n"
