"""S12-S14, S18 in a `Fitter`: its meter counts, survives a restart, and its debug logs hold no text."""

import json
import logging
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

import longturn
from longturn import ConfigError, ContextWindowExceeded, Fitter
from longturn.core.caches import Prices
from longturn.core.meter import Usage
from longturn.debug_log import NAME, set_up
from tests.conversations import PLAIN, ask, chat, reply, steps, turn
from tests.strategies import PRUNING, STORIES, Case, cases

PRICES = Prices(fresh=1.0, cached=0.5, stored=2.0, output=10.0)
LOGGER = logging.getLogger("longturn")


def fitter(**more: object) -> Fitter:
    return Fitter(budget=1_000, policy=PLAIN, **more)  # type: ignore[arg-type]


@pytest.fixture
def logs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Debug logging turned on by the variable, and off again."""
    level, handlers = LOGGER.level, list(LOGGER.handlers)
    monkeypatch.setenv(NAME, "true")
    set_up.cache_clear()
    yield
    monkeypatch.undo()
    set_up.cache_clear()
    LOGGER.setLevel(level)
    LOGGER.handlers[:] = handlers


# --- spend ---------------------------------------------------------------------------------------------------------


def test_every_kind_of_call_is_counted_with_its_cost_s13() -> None:
    session = fitter(prices=PRICES)
    session.observe(Usage(10), kind="failed")  # before any window: it calibrates nothing
    session.fit(chat([ask("Go ", 100)]))
    session.observe(Usage(100, 5, 40, 20))
    session.observe(Usage(50), kind="subagent", model="my-llama")
    spend = session.meter.spend
    assert (spend.failed.cost_usd, spend.call.cost_usd) == (10.0, 40 + 20 + 40 + 50)
    assert (spend.subagent.cost_usd, spend.subagent.unpriced_calls) == (None, 1)
    assert (spend.total.calls, spend.total.cost_usd, spend.total.input_tokens) == (3, 160.0, 160)
    assert session.meter.all_branches == spend


def test_only_the_report_on_a_window_calibrates_l15() -> None:
    """L15, S13."""
    session = fitter()
    session.fit(chat([ask("Go ", 100)]))
    for kind in ("summary", "subagent", "failed"):
        session.observe(Usage(300), kind=kind)
    assert session.meter.factor == 1.0
    with pytest.raises(ConfigError, match="no kind of call"):
        session.observe(Usage(300), kind="retry")  # type: ignore[arg-type]


def test_the_meter_of_a_session_never_starts_again_when_its_messages_do_s13() -> None:
    session = fitter(prices=PRICES)
    for conversation in (chat(turn("one")), chat(turn("other"))):
        session.fit(conversation)
        session.observe(Usage(100))
    assert session.meter.spend.total.calls == 2


def test_a_summary_is_paid_for_as_such_and_not_counted_again_in_the_window_s12() -> None:
    """S10, S12, S13: the checkpoint's baseline and the turns since."""
    session = fitter(summarize=lambda _request: longturn.Summary("Boats.", Usage(700, 9)), prices=PRICES)
    conversation = [each for number in range(30) for each in turn(f"{number} ")]
    for stop in range(1, len(conversation), 2):
        window = session.fit(chat(conversation[:stop]))
    meter = session.meter
    assert window.checkpoint
    assert meter.snapshot
    assert meter.snapshot.checkpoint
    assert meter.snapshot.used == window.tokens <= 1_000
    assert meter.spend.summary.calls >= 1
    assert meter.spend.summary.cost_usd == meter.spend.summary.calls * (700 + 90)
    assert meter.spend.call.calls == 0


# --- restarts and forks --------------------------------------------------------------------------------------------


def test_a_meter_survives_a_restart_of_its_fitter_s12() -> None:
    messages = chat([*turn("one"), ask("Go ", 100), *steps(1, 4)])
    first = fitter(prices=PRICES)
    first.observe(Usage(2 * first.fit(messages).tokens, 10))
    second = fitter(prices=PRICES).load(json.loads(json.dumps(first.dump())))
    assert second.meter == first.meter
    messages += chat([reply("Done. "), ask("And? ")])
    assert first.fit(messages).snapshot == second.fit(messages).snapshot
    assert second.meter.snapshot is not None
    assert second.meter.snapshot.factor == 2.0


def test_a_dump_loaded_twice_is_a_fork_s13() -> None:
    first = fitter(prices=PRICES)
    first.fit(chat([ask("Go ")]))
    first.observe(Usage(100))
    dumped = first.dump()
    one, other = fitter(prices=PRICES).load(dumped), fitter(prices=PRICES).load(dumped)
    one.observe(Usage(20), kind="subagent")
    spent = [session.meter.spend.total.input_tokens for session in (first, one, other)]
    assert spent == [100, 120, 100]


def test_a_refused_request_leaves_the_snapshot_of_the_last_window_s14() -> None:
    session = fitter(capacity=1_000, max_output=0)
    messages = chat([ask("Go ", 200)])
    taken = session.fit(messages).snapshot
    with pytest.raises(ContextWindowExceeded):
        session.fit([*messages, *chat([reply("Yes "), ask("More ", 4_000)])])
    assert session.meter.snapshot == taken


# --- logs ----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("logs")
def test_a_session_logs_each_window_report_and_refusal_s18(caplog: pytest.LogCaptureFixture) -> None:
    session = fitter(capacity=1_000, max_output=0)
    messages = chat([ask("Go ", 200)])
    session.fit(messages)
    session.observe(Usage(300, 7))
    with pytest.raises(ContextWindowExceeded):
        session.fit([*messages, *chat([reply("Yes "), ask("More ", 4_000)])])
    assert [record.getMessage().split()[0] for record in caplog.records] == ["window", "usage", "refused"]
    assert "input_tokens=300" in caplog.records[1].getMessage()
    assert "estimated=200 factor=1.5" in caplog.records[1].getMessage()
    assert {record.levelno for record in caplog.records} == {logging.DEBUG}


def test_a_session_logs_nothing_unless_asked_s18(caplog: pytest.LogCaptureFixture) -> None:
    """S18: not even where the application wants debug logs of everything."""
    set_up.cache_clear()
    caplog.set_level(logging.DEBUG)
    session = fitter()
    session.observe(Usage(2 * session.fit(chat([ask("Go ", 400), *steps(1, 9)])).tokens))
    assert caplog.records == []
    set_up.cache_clear()


def said(case: Case) -> set[str]:
    """Words of the messages, each of its own: texts begin with a number sign and a number."""
    raw = json.dumps(case.raw, ensure_ascii=False)
    return {word for word in raw.replace('"', " ").replace("\\", " ").split() if word.startswith("#")}


@pytest.mark.usefixtures("logs")
@given(cases(STORIES) | cases(policies=PRUNING), st.sampled_from((1, logging.DEBUG, logging.INFO, logging.ERROR)))
def test_no_word_of_a_session_is_ever_logged_s18(case: Case, level: int) -> None:
    """S18: windows, summaries that fail, are given up and are made, refusals; at every level."""
    lines: list[str] = []
    ear = logging.Handler()
    ear.emit = lambda record: lines.append(f"{ear.format(record)} {record.args}")  # type: ignore[method-assign]
    LOGGER.setLevel(level)
    LOGGER.addHandler(ear)
    answers = iter(["", "#summary", "#summary of boats and nights"])

    def summarize(_request: object) -> str:
        answer = next(answers, None)
        if answer is None:
            raise ValueError("#error")
        return answer

    session = Fitter(dialect=case.dialect, summarize=summarize, **case.settings)
    LOGGER.setLevel(level)
    try:
        for messages in case.prefixes():
            session.observe(Usage(session.fit(messages).tokens + 7))
        session.compact()
    except ContextWindowExceeded:
        pass
    finally:
        LOGGER.removeHandler(ear)
    assert bool(lines) == (level <= logging.DEBUG and bool(case.prefixes()))
    logged = "\n".join(lines)
    assert "#" not in logged
    assert not [word for word in said(case) if word in logged]


@pytest.mark.usefixtures("logs")
def test_a_summary_is_logged_by_its_numbers_s18(caplog: pytest.LogCaptureFixture) -> None:
    def pieces(_request: object) -> Sequence[str]:
        return ["Xylophones ", "and boats."]

    session = fitter(summarize=pieces)
    conversation = [each for number in range(30) for each in turn(f"{number} ")]
    for stop in range(1, len(conversation), 2):
        session.fit(chat(conversation[:stop]))
    logged = "\n".join(record.getMessage() for record in caplog.records)
    assert "SummaryStarted messages=" in logged
    assert "SummaryCompleted checkpoint.text=<21>" in logged
    assert "ylophones" not in logged
    assert "checkpoint=-1->0" in logged
