"""S18: verbose logs are on for `AGENT_DEBUG_LOGGING=true` alone, and hold numbers, never the text of a message."""

import logging
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import longturn
from longturn import ContextWindowExceeded, Window, debug_log
from longturn.core.events import HistoryRepaired, ResultsCleared
from longturn.core.meter import Usage
from longturn.core.snapshot import snapshot_of
from longturn.debug_log import NAME, assigned, log_events, log_refusal, log_usage, log_window, set_up
from tests.conversations import PLAIN, ask, chat, steps, turn
from tests.strategies import BROKEN_STORIES, PRUNING, STORIES, Case, cases

LOGGER = logging.getLogger("longturn")


@pytest.fixture(autouse=True)
def untouched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """An empty working directory, no variable, and a logger that nobody has set up; as it was afterwards."""
    before = LOGGER.level, list(LOGGER.handlers)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(NAME, raising=False)
    set_up.cache_clear()
    yield
    set_up.cache_clear()
    LOGGER.setLevel(before[0])
    LOGGER.handlers[:] = before[1]


class Heard(logging.Handler):
    """Keeps every line that reaches it, whatever its level."""

    def __init__(self) -> None:
        super().__init__(level=0)
        self.lines: list[str] = []
        self.setFormatter(logging.Formatter("%(levelname)s %(name)s %(message)s %(args)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


def heard(window: Window, *, level: int = logging.DEBUG) -> list[str]:
    """What is logged of a window, at a level."""
    ear = Heard()
    LOGGER.addHandler(ear)
    LOGGER.setLevel(level)
    taken = snapshot_of(window._outcome, window._base, window=None, budget=window.budget, capacity=window.capacity)
    log_window(taken, window._outcome, window.events)
    LOGGER.removeHandler(ear)
    return ear.lines


# --- what turns it on ----------------------------------------------------------------------------------------------


def test_nothing_turns_the_logs_on_by_itself_s18() -> None:
    assert not set_up()
    assert (LOGGER.level, LOGGER.handlers) == (logging.NOTSET, [])


@pytest.mark.parametrize(
    "value", ["True", "TRUE", "1", "yes", "on", "", " true", "true ", '"true"', "'true'", "truee", "false", "t"]
)
def test_only_the_word_true_turns_the_logs_on_s18(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, value)
    assert not set_up()
    assert (LOGGER.level, LOGGER.handlers) == (logging.NOTSET, [])


@pytest.mark.parametrize("where", ["environment", "file"])
def test_the_word_true_turns_the_logs_on_in_either_place_s18(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if where == "environment":
        monkeypatch.setenv(NAME, "true")
    else:
        Path(".env").write_text(f"OTHER=1\n{NAME}=true\n")
    assert set_up()
    assert LOGGER.level == logging.DEBUG


def test_the_environment_comes_before_the_file_s18(monkeypatch: pytest.MonkeyPatch) -> None:
    Path(".env").write_text(f"{NAME}=true\n")
    monkeypatch.setenv(NAME, "false")
    assert not set_up()


def test_a_process_looks_once_s18(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not set_up()
    monkeypatch.setenv(NAME, "true")
    assert not set_up()


@pytest.mark.parametrize(
    "text",
    [
        "{}=true",
        "{}=true\r\nOTHER=1\r\n",
        "\ufeff{}=true\n",
        "  {} = true  \n",
        "\t{}\t=\ttrue\t",
        "export {}=true",
        " export   {}=true",
        '{}="true"',
        "{}='true'",
        "{}='true' # on",
        '{} = "true"#on',
        "{}=true # on",
        "{}=true\t#on",
        "{0}=false\n{0}=true",
        "# a comment\n\nOTHER='a\n b'\nnonsense\n{}=true\n",
        "OTHER='don\\'t'\n{}=true",
        "OTHER=don't\n{}=true",
        "=\n{}=true",
    ],
)
def test_a_file_may_say_true_in_the_usual_ways_s18(text: str) -> None:
    Path(".env").write_bytes(text.format(NAME).encode())
    assert set_up()


@pytest.mark.parametrize(
    "text",
    [
        "# {}=true",
        "#{}=true",
        "{}=",
        "{}",
        "{}=# true",
        "{}= # true",
        "{}=True",
        "{}=1",
        "{}=true#",
        "{}=true true",
        "{}=true;",
        "{}='true",
        "{}=\"true'",
        '{}=" true"',
        "{}='true ' ",
        "{}: true",
        "{} true",
        "{0}=true\n{0}=false",
        "{0}=true\n{0}=",
        "NO_{}=true",
        "{}_NOT=true",
        "exports {}=true",
        "OTHER='\n{}=true\n'",
        'OTHER="\\"\n{}=true\n"',
        "OTHER=1 {}=true",
        "{}=$TRUE",
        "{}=tr\x00ue",
    ],
)
def test_anything_else_in_a_file_leaves_the_logs_off_s18(text: str) -> None:
    Path(".env").write_bytes(text.format(NAME).encode())
    assert not set_up()


def test_the_name_in_small_letters_is_another_variable_s18() -> None:
    Path(".env").write_text(f"{NAME.lower()}=true")
    assert not set_up()


@pytest.mark.parametrize("kind", ["folder", "bytes", "large", "link"])
def test_a_file_that_cannot_be_read_leaves_the_logs_off_s18(kind: str) -> None:
    path = Path(".env")
    if kind == "folder":
        path.mkdir()
    elif kind == "bytes":
        path.write_bytes(bytes(range(128, 256)) * 9)
    elif kind == "large":
        path.write_bytes(b"OTHER='\n" * 100_000 + f"\n{NAME}=true".encode())
    else:
        path.symlink_to(path)
    assert not set_up()


@given(st.text(max_size=60), st.text("'\"\\#=\n \ttrue", max_size=30))
def test_any_text_at_all_can_stand_in_the_file_s18(text: str, value: str) -> None:
    assigned(text, NAME)
    assigned(f"{NAME}={value}", NAME)
    assert assigned(f"# {text!r}\n{NAME}=true\n", NAME) == "true"


# --- where the lines go --------------------------------------------------------------------------------------------

PROGRAM = """
import logging, sys
{before}
import longturn
logger = logging.getLogger("longturn")
assert (logger.level, logger.handlers) == (logging.NOTSET, []), "importing set logging up"
from longturn import debug_log
debug_log.set_up()
{after}
debug_log.log_events([longturn.core.events.ResultsPruned(2, 300)])
"""


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        ("", "", ["TIME longturn: ResultsPruned results=2 tokens_saved=300"]),
        (
            "logging.basicConfig(format='mine %(message)s', level=logging.DEBUG)",
            "",
            ["mine ResultsPruned results=2 tokens_saved=300"],
        ),
        ("logging.basicConfig(level=logging.DEBUG)", "logging.getLogger('longturn').setLevel('INFO')", []),
        (
            "",
            "logging.basicConfig(format='mine %(message)s')",
            ["mine ResultsPruned results=2 tokens_saved=300"],
        ),
        (
            "",
            "own = logging.StreamHandler(sys.stderr); logging.getLogger('longturn').addHandler(own)",
            ["ResultsPruned results=2 tokens_saved=300"],
        ),
    ],
    ids=["none", "set up before", "turned down", "set up later", "a handler of its own"],
)
def test_the_logs_go_where_the_application_has_them_and_each_line_once_s18(
    before: str, after: str, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """S18: importing the library sets nothing up."""
    monkeypatch.setenv(NAME, "true")
    program = PROGRAM.format(before=before, after=after)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    shown = done.stderr.splitlines()
    assert [f"TIME {line.split(' ', 2)[2]}" if line[:1].isdigit() else line for line in shown] == lines


# --- what is in them -----------------------------------------------------------------------------------------------


def test_a_window_is_logged_with_its_numbers_and_decisions_s18() -> None:
    before = [*turn("one", 300), *turn("two", 300), ask("Go ", 100)]
    remembering = longturn.Fitter(budget=1_000, policy=PLAIN)
    for number in range(4):
        made = remembering.fit(chat([*before, *steps(1, number)]))
    window, decided, *happened = heard(made)
    numbers = dict(each.split("=", 1) for each in window.split() if "=" in each)
    assert (numbers["turns"], numbers["rounds"], numbers["budget"]) == ("3", "5", "1000")
    assert (numbers["ceiling"], numbers["target"], numbers["pins"]) == ("1000", "625", "250")
    assert (numbers["tokens"], numbers["capacity"]) == (str(made.tokens), "None")
    assert made.tokens <= 625
    assert "size_before=1018" in decided
    assert "cut=0->" in decided
    assert "noted=False->True" in decided
    assert happened[-1].split()[2] == "HistoryTrimmed"
    assert "reason=token_budget" in happened[-1]


def test_a_window_in_which_nothing_moved_is_one_line_s18() -> None:
    assert len(heard(longturn.fit(chat([ask("Go ")]), budget=1_000))) == 1


def test_a_report_and_a_refusal_are_logged_with_their_numbers_s18() -> None:
    ear = Heard()
    LOGGER.addHandler(ear)
    LOGGER.setLevel(logging.DEBUG)
    log_usage(Usage(300, 20, 100), kind="summary", estimated=200, factor=1.5, cost_usd=None)
    with pytest.raises(ContextWindowExceeded) as refused:
        longturn.fit(chat([ask("Xylophone ", 900)]), policy=PLAIN, capacity=500, max_output=0)
    log_refusal(refused.value)
    assert "usage input_tokens=300 output_tokens=20 cached_tokens=100" in ear.lines[0]
    assert "kind=summary estimated=200 factor=1.5 cost_usd=None" in ear.lines[0]
    assert "refused estimated_tokens=900 capacity=500 system=0 tools=0 messages=900 images=0" in ear.lines[1]


SECRET = "xylophone"


@dataclass(frozen=True, slots=True)
class Nested:
    """What an event may hold one day: a summary, an error, a record with a text in it."""

    text: str
    error: str | None
    parts: tuple[str, ...]
    inner: HistoryRepaired
    any: object
    number: int = 7


def test_of_the_texts_in_an_event_only_their_lengths_are_logged_s18() -> None:
    ear = Heard()
    LOGGER.addHandler(ear)
    LOGGER.setLevel(logging.DEBUG)
    nested = Nested(SECRET * 3, SECRET, (SECRET, SECRET), HistoryRepaired((SECRET,)), [SECRET])
    log_events([nested, ResultsCleared(1, 2, "images")])
    assert ear.lines[0].split()[2:9] == [
        "Nested", "text=<27>", "error=<9>", "parts=<2>", "inner.repairs=<1>", "any=<1>", "number=7"
    ]  # fmt: skip
    assert "kind=images" in ear.lines[1]
    assert SECRET not in "".join(ear.lines)


def words_of(value: object) -> Iterator[str]:
    """Every text in a native message that is no name of the format."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from words_of(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from words_of(inner)


@given(
    cases(STORIES) | cases(BROKEN_STORIES) | cases(policies=PRUNING),
    st.sampled_from((logging.DEBUG, logging.INFO, logging.WARNING, 1)),
)
def test_no_text_of_any_message_is_ever_logged_s18(case: Case, level: int) -> None:
    """S18: all texts begin with a number sign and hold words of their own; errors included."""
    try:
        lines = heard(case.fit(case.raw), level=level)
    except ContextWindowExceeded as error:
        ear = Heard()
        LOGGER.addHandler(ear)
        LOGGER.setLevel(level)
        log_refusal(error)
        LOGGER.removeHandler(ear)
        lines = ear.lines
    assert bool(lines) == (level <= logging.DEBUG)
    logged = "\n".join(lines)
    assert "#" not in logged
    assert not [text for text in words_of(case.raw) if len(text) > 9 and text in logged]


def test_the_module_that_logs_never_formats_a_message_s18() -> None:
    """S18: it knows no message at all."""
    source = Path(debug_log.__file__).read_text(encoding="utf-8")
    assert "core.messages" not in source
    assert ".source" not in source
