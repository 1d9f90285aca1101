"""The report page in a real Chromium: what it shows is what was replayed, and what it opens is nothing but itself."""

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from longturn.core.planners import planners
from longturn.core.replay import SUMMARY_ITEM, VARIANTS, Call, Replay
from longturn.dialects.logs import Conversation
from longturn.page import page
from longturn.replays import TOTALS, Recording, compare, numbers, recordings
from tests.conversations import Answer, Result, System, User, chat, sized

BUDGET, WINDOW = 3_000, 8_000
QUOTED = "The port of the second server is 48211 since last Tuesday, at noon."
NAMES = ("chromium", "google-chrome")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
HOSTILE = (
    "</script><script>document.title = 'run'</script>",
    "<!--<script><img src=x onerror=\"document.title='run'\">",
    "\u202etxt.exe\u202c \x1b[31m \x00 \ud800 \u2028 &lt;b&gt; ${title} $title",
)

Runs = Sequence[tuple[Recording, Sequence[Replay]]]


def conversation(rounds: int = 40, name: str = "a made-up run", *, texts: Sequence[str] = HOSTILE) -> Conversation:
    """A task, another half way, rounds of one call or two with long results, and at the end a quote of an early one."""
    steps: list[Any] = [System("Be brief."), User("Read it all."), Answer("I begin.")]
    steps += [part for text in texts for part in (User(text), Answer(text or "so"))]
    for number in range(rounds):
        if number == rounds // 2:
            steps.append(User("And now the rest."))
        calls = (f"c{number}",) if number % 3 else (f"c{number}", f"d{number}")
        steps.append(Answer(f"Step {number}.", calls))
        steps += [
            Result(call, sized(f"result {call} {QUOTED if number == 4 else ''}", 200 + 17 * number)) for call in calls
        ]
    return Conversation("openai_chat", chat([*steps, Answer(QUOTED)]), name, model="gpt-5")


def replayed(*conversations: Conversation) -> Runs:
    found = [each for one in conversations for each in recordings(one, capacity=WINDOW)]
    return [(each, compare(each, planners(BUDGET))) for each in found]


@pytest.fixture(scope="module")
def runs() -> Runs:
    return replayed(conversation(), conversation(12, "another", texts=()))


@pytest.fixture(scope="module")
def html(runs: Runs) -> str:
    return page("<i>made up</i> & $data", runs, budget=BUDGET)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        reason = "needs Chromium: install Debian's package chromium, or run `make test` as root, which does"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield started
        started.close()


@pytest.fixture(scope="module")
def url(html: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("page") / "replay.html"
    path.write_text(html, encoding="utf-8")
    return path.as_uri()


@pytest.fixture
def opened(browser: Browser, url: str) -> Iterator[Page]:
    """The page, read; a complaint on the console, an error or a request for anything else fails the test."""
    context = browser.new_context(viewport={"width": 1120, "height": 900})
    tab, seen = context.new_page(), list[str]()
    tab.on("console", lambda message: seen.append(f"console: {message.text}"))
    tab.on("pageerror", lambda error: seen.append(f"error: {error}"))
    tab.on("request", lambda request: seen.append(f"request: {request.url}"))
    tab.goto(url)
    yield tab
    context.close()
    assert [line for line in seen if line != f"request: {url}"] == []


def choose(tab: Page, policy: str) -> None:
    tab.get_by_role("radio", name=policy).first.check(force=True)


def every_call(tab: Page) -> list[dict[str, Any]]:
    """What the page says of each call of the policy and run that are shown."""
    found: list[dict[str, Any]] = tab.evaluate("""() => {
        const slider = document.getElementById("call");
        return Array.from({length: Number(slider.max)}, (_, place) => {
            slider.value = place + 1;
            slider.dispatchEvent(new Event("input", {bubbles: true}));
            return {
                said: document.getElementById("readout").innerText,
                kinds: [...document.querySelectorAll("#kinds .tokens")].map((each) => each.textContent),
                sum: document.getElementById("window-sum").textContent,
                fronts: document.querySelectorAll("#window .front").length,
            };
        });
    }""")
    return found


def whole_number(text: str) -> int:
    return int(text.replace(",", ""))


def told(call: Call) -> tuple[int, int, int, int]:
    """How many rows of a call's window stand whole, reduced, left out, and how many texts of ours stand in it."""
    rows = [item for item in call.items if item >= 0]
    less = sum(bool(item % VARIANTS) for item in rows)
    return len(rows) - less, less, call.border - len(rows), len(call.items) - len(rows)


def test_the_page_opens_without_a_complaint_and_asks_for_nothing(opened: Page) -> None:
    assert opened.get_by_role("heading", level=1).inner_text() == "<i>made up</i> & $data"
    assert opened.locator("#chart svg").count() == 1
    assert opened.evaluate("performance.getEntriesByType('resource').length") == 0


@pytest.mark.parametrize("run", [0, 1])
def test_every_call_of_every_policy_shows_what_the_replay_counted(opened: Page, runs: Runs, run: int) -> None:
    """Tokens, what of them is from the cache, the state of each row, and the fronts that broke (B30)."""
    opened.locator("#run").select_option(str(run))
    for replay in runs[run][1]:
        choose(opened, replay.name)
        shown = every_call(opened)
        assert len(shown) == len(replay.calls)
        for call, seen in zip(replay.calls, shown, strict=True):
            assert f"sends {call.tokens:,} tokens, {call.cached:,} of them from the cache" in seen["said"]
            assert sum(map(whole_number, seen["kinds"])) == call.tokens
            counts = [whole_number(number) for number in re.findall(r"[\d,]*\d", seen["sum"])]
            assert [*counts, 0][1:5] == list(told(call))
            assert ("The front broke" in seen["said"]) == call.is_broken
            assert ("would be rejected" in seen["said"]) == call.is_rejected
            assert ("was not whole here" in seen["said"]) == bool(call.missed)
            assert seen["fronts"] <= call.is_broken


def test_a_summary_counts_as_a_checkpoint(opened: Page, runs: Runs) -> None:
    replay = next(each for each in runs[0][1] if each.name == "summarize")
    choose(opened, "summarize")
    shown = [whole_number(seen["kinds"][2]) for seen in every_call(opened)]
    assert shown == [2_000 * any(item <= SUMMARY_ITEM for item in call.items) for call in replay.calls]
    assert any(shown)


def test_keys_choose_the_call_whose_window_is_listed(opened: Page) -> None:
    choose(opened, "default")
    slider = opened.get_by_role("slider", name="Call")
    slider.focus()
    opened.keyboard.press("End")
    last = opened.locator("#window").inner_text()
    assert "Left out" in last
    assert "Added" in last
    opened.keyboard.press("Home")
    first = opened.locator("#window").inner_text()
    assert "Left out" not in first
    opened.keyboard.press("ArrowRight")
    assert opened.locator("#window-name").inner_text() == "What call 2 is sent under default"
    assert opened.locator("#window").inner_text() not in (first, last)
    assert re.match(r"call 2, [\d,]+ tokens", slider.get_attribute("aria-valuetext") or "")


def test_keys_choose_the_policy(opened: Page) -> None:
    choose(opened, "none")
    opened.keyboard.press("ArrowRight")
    assert opened.locator("#caption").inner_text().startswith("seed:")


def test_the_next_mark_is_the_next_call_at_which_something_happened(opened: Page, runs: Runs) -> None:
    """Fronts that broke (B30), results that were missed, requests over the window."""
    replay = next(each for each in runs[0][1] if each.name == "default")
    choose(opened, "default")
    button, found = opened.get_by_role("button", name="next mark"), []
    while button.is_enabled():
        button.click()
        found.append(int(opened.locator("#call").input_value()) - 1)
    happened = [place for place, call in enumerate(replay.calls) if call.is_broken or call.missed or call.is_rejected]
    assert found == happened
    assert found


def test_a_press_on_the_chart_chooses_the_call_below_it(opened: Page) -> None:
    choose(opened, "default")
    box = opened.locator("#chart").bounding_box()
    assert box
    opened.locator("#chart").click(position={"x": box["width"] - 12, "y": 100})
    assert opened.locator("#call").input_value() == opened.locator("#call").get_attribute("max")


def test_the_table_holds_the_numbers_of_the_replays_and_needs_no_script(browser: Browser, url: str, runs: Runs) -> None:
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(url)
    rows = tab.locator("#table tbody tr")
    for place, replays in enumerate(zip(*(replays for _, replays in runs), strict=True)):
        totals = numbers(replays)
        row = rows.nth(place)
        assert row.locator("th").inner_text() == totals["name"]
        shown = {field: row.locator(f"td[data-field={field}]") for field in TOTALS}
        assert {field: float(cell.get_attribute("data-value") or "nan") for field, cell in shown.items()} == {
            field: pytest.approx(totals[field]) for field in TOTALS
        }
        assert whole_number(shown["sent_tokens"].inner_text().split()[-1]) == totals["sent_tokens"]
    assert rows.count() == len(planners(BUDGET))
    assert tab.locator("noscript p").is_visible()
    assert not tab.locator("#runs").is_visible()
    context.close()


def test_a_heading_sorts_the_table_by_keyboard(opened: Page) -> None:
    opened.get_by_role("button", name="Cost").focus()
    opened.keyboard.press("Enter")
    cells = opened.locator("#table td[data-field=cost_usd]")
    costs = [float(cell.get_attribute("data-value") or "nan") for cell in cells.all()]
    assert costs == sorted(costs)
    assert opened.locator("th[aria-sort]").get_attribute("aria-sort") == "ascending"
    opened.keyboard.press("Enter")
    again = [float(cell.get_attribute("data-value") or "nan") for cell in cells.all()]
    assert again == costs[::-1]


def test_the_best_of_a_column_is_marked_but_never_where_calls_were_rejected(opened: Page, runs: Runs) -> None:
    cells = opened.locator("#table td[data-field=fresh_tokens].best")
    totals = [numbers(replays) for replays in zip(*(replays for _, replays in runs), strict=True)]
    assert next(each for each in totals if each["name"] == "none")["rejected"]
    least = min(int(str(each["fresh_tokens"])) for each in totals if not each["rejected"])
    assert [int(cell.get_attribute("data-value") or "") for cell in cells.all()] == [least]
    assert opened.locator("tr", has_text="none").first.locator("td.best").count() == 0


def test_light_and_dark_are_other_colours(browser: Browser, url: str) -> None:
    colours: set[tuple[str, str]] = set()
    schemes: tuple[Literal["light", "dark"], ...] = ("light", "dark")
    for scheme in schemes:
        context = browser.new_context(color_scheme=scheme)
        tab = context.new_page()
        tab.goto(url)
        style = "(each) => [getComputedStyle(each).color, getComputedStyle(each).backgroundColor].join()"
        colours.add((tab.locator("body").evaluate(style), tab.locator(".mini").first.evaluate(style)))
        context.close()
    (one, other) = colours
    assert one[0] != other[0]
    assert one[1] != other[1]


def test_nothing_is_wider_than_a_screen_of_360_pixels(opened: Page, runs: Runs) -> None:
    opened.set_viewport_size({"width": 360, "height": 740})
    for replay in runs[0][1]:
        choose(opened, replay.name)
        opened.get_by_role("slider", name="Call").press("End")
        opened.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
        assert opened.evaluate("document.documentElement.scrollWidth") == 360


def test_hostile_texts_are_shown_as_text_and_do_nothing(opened: Page, html: str) -> None:
    choose(opened, "none")
    opened.get_by_role("slider", name="Call").press("End")
    opened.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
    assert opened.title() == "<i>made up</i> & $data · longturn replay"
    assert opened.locator("img").count() == 0
    assert opened.locator("script").count() == 2
    texts = opened.locator("#window .text").all_inner_texts()
    assert HOSTILE[0] in texts
    assert HOSTILE[1] in texts
    assert "\ufffdtxt.exe\ufffd \ufffd[31m \ufffd \ufffd &lt;b&gt; ${title} $title" in texts
    assert not re.search("[\x00\u202a-\u202e\u2066-\u2069\u2028]", html)
    assert "<img" not in html


def test_without_texts_the_page_holds_no_word_of_the_conversation(runs: Runs) -> None:
    bare = page("made up", runs, budget=BUDGET, texts=False)
    assert "result c" not in bare
    assert "Step 3." not in bare
    assert "txt.exe" not in bare


def test_equal_input_gives_equal_bytes(html: str) -> None:
    again = replayed(conversation(), conversation(12, "another", texts=()))
    assert page("<i>made up</i> & $data", again, budget=BUDGET) == html


def test_a_recording_without_calls_still_makes_a_page(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "empty.html"
    silent = Conversation("openai_chat", chat([User("Is anybody there?")]))
    path.write_text(page("nothing", replayed(silent), budget=None), encoding="utf-8")
    tab, errors = browser.new_page(), list[str]()
    tab.on("pageerror", lambda error: errors.append(str(error)))
    tab.goto(path.as_uri())
    assert not tab.locator("figure").is_visible()
    assert errors == []
    tab.close()
