"""`longturn config`, and what a configuration file does to `longturn fit` and `longturn replay` (S15-S17)."""

import os
import re
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from longturn.policies import read_policy
from tests.test_cli import USER, Command, Done, command, rounds, saved, strict
from tests.test_cli_process import LONGTURN, PLAIN, on_terminal
from tests.test_config import LIBRECHAT, MIGRATED

__all__ = ["command"]  # a fixture

UNKNOWN = "sumarization is a section that nobody knows, so it is ignored"
GOOD = """\
history:
  max_context_tokens: 6000
summarization:
  enabled: false
models:
  own: {window: 9000, max_output: 999}
"""


def asked(done: Done, key: str) -> Any:
    """One key of the JSON that a command printed."""
    found = done.json
    assert isinstance(found, dict)
    return found[key]


@pytest.fixture(autouse=True)
def no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LONGTURN_CONFIG", raising=False)


def written(text: str, name: str = "f.yaml") -> str:
    Path(name).write_bytes(text.encode())
    return name


# --- check --------------------------------------------------------------------------------------------------


def test_check_says_that_nothing_is_wrong_s16(command: Command) -> None:
    done = command("config", "check", written(GOOD))
    assert (done.status, done.out, done.err) == (0, "f.yaml: nothing is wrong\n", "")


def test_check_lists_every_problem_with_its_place_and_ends_with_2_s16(command: Command) -> None:
    done = command("config", "check", written("ladder:\n  btach: 1\n  strict: 1\nsumarization: {}\n"))
    assert done.status == 2
    assert done.out.splitlines() == [
        "f.yaml, line 2: ladder.btach is no key: did you mean batch?",
        "f.yaml, line 3: ladder.strict must be true or false, got 1",
        f"f.yaml, line 4: {UNKNOWN}: did you mean summarization? (warning)",
        "f.yaml: 2 problems, 1 warning",
    ]


def test_check_reports_old_settings_as_warnings_s17(command: Command) -> None:
    done = command("config", "check", written(LIBRECHAT))
    assert done.status == 0
    assert done.out.count("is an old setting without effect: ") == 7
    assert done.out.endswith("f.yaml: 7 warnings\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("config", "check"), "longturn: no file is named: give FILE, or set LONGTURN_CONFIG\n"),
        (("config", "check", "none.yaml"), "longturn: none.yaml cannot be read: no such file or directory\n"),
        (("config", "check", "."), "longturn: . cannot be read: is a directory\n"),
        (("config", "check", "bad.yaml"), "longturn: bad.yaml, line 2, column 1: this is no YAML"),
        (("config", "show", "wrong.yaml"), "longturn: wrong.yaml, line 1: ladder.batch must be a whole number"),
        (("config", "show", "good.yaml", "--budget", "x"), "longturn: --budget 'x' is no number of tokens"),
        (("config", "migrate", "good.yaml", "--in-place", "-o", "x"), "give neither -o nor - with it"),
        (("config", "migrate", "-", "--in-place"), "give neither -o nor - with it"),
        (("config", "migrate", "bad.yaml"), "this is no YAML"),
        (("config", "chek"), "No such command 'chek'"),
        (("fit", "list.json", "--config", "wrong.yaml"), "longturn: wrong.yaml, line 1: ladder.batch must be"),
        (("fit", "list.json", "--config", "none.yaml"), "longturn: none.yaml cannot be read"),
        (("replay", "list.json", "--policy", "wrong.yaml"), "longturn: wrong.yaml, line 1: ladder.batch must be"),
    ],
)
def test_bad_usage_and_bad_files_end_with_2_and_one_line(
    command: Command, arguments: tuple[str, ...], said: str
) -> None:
    written("a: 1\n\tb", "bad.yaml")
    written("ladder: {batch: 0}", "wrong.yaml")
    written(GOOD, "good.yaml")
    saved("list.json", [USER])
    done = command(*arguments)
    assert done.status == 2
    assert done.out == ""
    assert said in done.err
    assert done.err.count("\n") == 1


def test_the_group_without_a_command_prints_its_help(command: Command) -> None:
    done = command("config")
    assert done.status == 0
    assert all(name in done.out for name in ("check", "show", "migrate"))


# --- show ---------------------------------------------------------------------------------------------------


def test_show_tells_for_each_value_where_it_comes_from_s15(command: Command) -> None:
    done = command("config", "show", written(GOOD))
    rows = {line.split()[0]: line.split()[1:] for line in done.out.splitlines()[1:]}
    assert rows["history.max_context_tokens"] == ["6,000", "f.yaml:2"]
    assert rows["summarization.enabled"] == ["false", "f.yaml:4"]
    assert rows["ladder.target_ratio"] == ["0.4", "default"]
    assert rows["models.own.window"] == ["9,000", "f.yaml:6"]
    preset = command("config", "show", written("ladder: {preset: seed}"))
    assert ["ladder.batch", "4", "preset,", "f.yaml:1"] in map(str.split, preset.out.splitlines())


def test_show_works_out_the_budget_of_a_model_s15(command: Command) -> None:
    """H13-H16, B10: window from the file, room for the answer, capacity, budget, and what a flag changes."""
    file = written(GOOD)
    found = asked(command("config", "show", file, "--model", "own", "--json"), "resolved")
    assert {name: tuple(each.values()) for name, each in found.items()} == {
        "window": (9_000, "f.yaml"),
        "max_output": (999, "f.yaml"),
        "capacity": (8_001, "window less max_output"),
        "budget": (6_000, "max_context_tokens in f.yaml"),
        "limit": (6_000, "the smaller of budget and capacity"),
        "image_tokens": (1_600, "default"),
    }
    flagged = command("config", "show", file, "--model", "own", "--budget", "3k", "--capacity", "5k", "--json")
    assert asked(flagged, "resolved")["budget"] == {"value": 3_000, "source": "flag"}
    assert asked(flagged, "resolved")["window"] == {"value": 5_000, "source": "flag"}
    catalog = asked(command("config", "show", file, "--model", "gpt-4o", "--json"), "resolved")
    assert catalog["window"] == {"value": 128_000, "source": "catalog"}
    assert catalog["prices.input"]["source"] == "catalog"


def test_show_without_a_file_shows_the_defaults(command: Command) -> None:
    done = command("config", "show", "--json")
    assert asked(done, "file") is None
    assert {each["source"] for each in asked(done, "settings").values()} == {"default"}
    strict(done.out)


def test_the_variable_names_the_file_where_none_is_given(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGTURN_CONFIG", written(GOOD))
    assert command("config", "check").out == "f.yaml: nothing is wrong\n"
    assert command("config", "show").out.startswith("f.yaml (named by LONGTURN_CONFIG)\n")
    assert command("config", "show", written("{}", "g.yaml")).out.startswith("g.yaml\n")
    done = command("fit", saved("a.json", [USER, *rounds(60)]), "--json", "-o", "out.json")
    assert asked(done, "report")["limit"] == 6_000


def test_show_is_a_table_on_a_terminal_and_plain_lines_elsewhere(command: Command) -> None:
    file = written(GOOD)
    screen = on_terminal("config", "show", str(Path(file).resolve()))
    assert screen.status == 0
    assert "history" in screen.lines
    assert any(re.match("max_context_tokens +6,000 +line 2", line) for line in screen.lines)
    assert "\x1b" not in command("config", "show", file).out


# --- migrate ------------------------------------------------------------------------------------------------


def test_migrate_prints_the_file_and_says_on_standard_error_what_was_done_s17(command: Command) -> None:
    done = command("config", "migrate", written(LIBRECHAT))
    assert (done.status, done.out) == (0, MIGRATED)
    assert done.err.startswith("f.yaml, summarization says now: enabled: true")
    assert Path("f.yaml").read_text() == LIBRECHAT


def test_migrate_replaces_the_file_in_place_and_keeps_its_mode_s17(command: Command) -> None:
    file = written(LIBRECHAT)
    Path(file).chmod(0o640)
    assert command("config", "migrate", file, "--in-place").out == ""
    assert Path(file).read_text() == MIGRATED
    assert stat.S_IMODE(Path(file).stat().st_mode) == 0o640
    before = Path(file).stat()
    done = command("config", "migrate", file, "--in-place")
    assert done.err == "f.yaml: nothing to migrate\n"
    assert Path(file).stat() == before
    assert os.listdir() == ["f.yaml"]


def test_migrate_in_place_follows_a_link_and_leaves_it_one_s17(command: Command) -> None:
    Path("link.yaml").symlink_to(written(LIBRECHAT))
    command("config", "migrate", "link.yaml", "--in-place")
    assert Path("link.yaml").is_symlink()
    assert Path("f.yaml").read_text() == MIGRATED


def test_migrate_writes_elsewhere_and_reads_standard_input_s17(command: Command) -> None:
    assert command("config", "migrate", written(LIBRECHAT), "-o", "new.yaml").status == 0
    assert Path("new.yaml").read_text() == MIGRATED
    done = subprocess.run(
        [*LONGTURN, "config", "migrate", "-"], input=LIBRECHAT.encode(), capture_output=True, env=PLAIN
    )
    assert (done.returncode, done.stdout.decode()) == (0, MIGRATED)


# --- What a file does elsewhere -----------------------------------------------------------------------------


def test_fit_takes_policy_window_and_output_limit_from_the_file_s15(command: Command) -> None:
    file, history = written(GOOD), saved("a.json", [USER, *rounds(60)])
    report = asked(command("fit", history, "--config", file, "--model", "own", "--json", "-o", "o.json"), "report")
    assert (report["limit"], report["capacity"]) == (6_000, 8_001)
    flagged = ("--budget", "5k", "--capacity", "7k", "--max-output", "0")
    done = command("fit", history, "--config", file, "--model", "own", *flagged, "--json", "-o", "o.json")
    report = asked(done, "report")
    assert (report["limit"], report["capacity"]) == (5_000, 7_000)
    report = asked(command("fit", history, "--config", file, "--policy", "seed", "--json", "-o", "o.json"), "report")
    assert report["limit"] == 32_000


def test_the_output_limit_of_a_request_counts_before_the_files_s15(command: Command) -> None:
    body = {"model": "own", "max_tokens": 500, "messages": [USER, *rounds(60)]}
    done = command("fit", saved("a.json", body), "--config", written(GOOD), "--json", "-o", "o.json")
    assert asked(done, "report")["capacity"] == 8_500


def test_fit_tells_the_warnings_of_its_file(command: Command) -> None:
    done = command("fit", saved("a.json", [USER]), "--config", written("sumarization: {}"), "-o", "o.json")
    assert f"f.yaml, line 1: {UNKNOWN}" in done.err


def test_replay_takes_the_policy_of_a_configuration_file_s15(command: Command) -> None:
    body = {"model": "gpt-5", "messages": [USER, *rounds(60), {"role": "assistant", "content": "Read."}]}
    done = command("replay", saved("a.json", body), "--policy", written(GOOD, "mine.yaml"), "--json")
    (found,) = asked(done, "policies")
    assert found["name"] == "mine"
    assert found["peak_tokens"] <= 6_000
    assert read_policy(b"ladder: {batch: 3}", "x/a.YML").batch == 3
