"""The commands on good and on bad input, run in this process: what they print, and with which status they end."""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import longturn
from longturn.cli.__main__ import run
from longturn.cli.sizes import tokens_of
from longturn.errors import ConfigError

USER = {"role": "user", "content": "Read every chapter."}
FORMS = ("32000", "32_000", "32,000", "32k", "1.5m")


@dataclass(frozen=True, slots=True)
class Done:
    """What a command left behind."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> object:
        return strict(self.out)


Command = Callable[..., Done]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """Runs a command in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> Done:
        status = run(arguments)
        seen = capsys.readouterr()
        return Done(status, seen.out, seen.err)

    return call


def strict(text: str) -> object:
    """JSON as the standard has it: no NaN, no Infinity, no half characters."""

    def refuse(constant: str) -> object:
        raise AssertionError(f"{constant} is no JSON")

    text.encode("utf-8", "strict")
    return json.loads(text, parse_constant=refuse)


def call(name: str, tool: str = "read", arguments: str = "{}") -> dict[str, object]:
    return {"id": name, "type": "function", "function": {"name": tool, "arguments": arguments}}


def rounds(number: int, text: str = "It was a long chapter. " * 90, arguments: str = "{}") -> list[object]:
    messages: list[object] = []
    for place in range(number):
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call(f"c{place}", arguments=arguments)]},
            {"role": "tool", "tool_call_id": f"c{place}", "content": text},
        ]
    return messages


def saved(name: str, value: object) -> str:
    Path(name).write_text(json.dumps(value), encoding="utf-8")
    return name


# --- fit ----------------------------------------------------------------------------------------------------


def test_a_list_of_messages_comes_out_as_the_list_that_fit_gives(command: Command) -> None:
    messages = [USER, *rounds(40)]
    done = command("fit", saved("list.json", messages), "--budget", "8k")
    assert done.status == 0
    assert done.json == longturn.fit(messages, budget=8_000).messages
    assert "tokens are sent (budget 8,000" in done.err


def test_a_request_body_comes_out_as_a_body_with_all_its_other_keys(command: Command) -> None:
    body = {"model": "gpt-5", "temperature": 0.5, "max_completion_tokens": 500, "messages": [USER, *rounds(40)]}
    done = command("fit", saved("body.json", body), "--budget", "8k")
    assert done.json == longturn.fit_request(body, budget=8_000).body
    assert "capacity 399,500" in done.err


@pytest.mark.parametrize(
    "body",
    [
        {"model": "claude-sonnet-4-5", "max_tokens": 9, "system": "Be brief.", "messages": [USER]},
        {"model": "gpt-5", "input": "hello", "instructions": "Be brief."},
        {"contents": [{"role": "user", "parts": [{"text": "hi"}]}], "systemInstruction": {"parts": [{"text": "x"}]}},
    ],
    ids=["anthropic", "responses", "gemini"],
)
def test_a_body_that_fits_comes_out_as_it_went_in(command: Command, body: dict[str, object]) -> None:
    assert command("fit", saved("body.json", body)).json == body


def test_the_one_line_of_a_batch_file_that_is_chosen_comes_out_as_its_body(command: Command) -> None:
    lines = [{"custom_id": f"r{number}", "body": {"model": "gpt-5", "messages": [USER]}} for number in range(3)]
    Path("batch.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert command("fit", "batch.jsonl", "--run", "2").json == lines[1]["body"]
    assert command("fit", "batch.jsonl", "--run", "custom_id r2").json == lines[2]["body"]
    undecided = command("fit", "batch.jsonl")
    assert (undecided.status, undecided.out) == (2, "")
    assert "batch.jsonl holds 3 conversations: choose one with --run" in undecided.err


@pytest.mark.parametrize("choice", ["0", "4", "", "nobody", "custom"])
def test_a_run_that_means_none_or_several_is_refused_with_what_there_is(command: Command, choice: str) -> None:
    lines = [{"custom_id": f"r{number}", "messages": [USER]} for number in range(3)]
    done = command("inspect", saved("runs.json", lines), "--run", choice)
    assert done.status == 2
    assert "a number from 1 to 3" in done.err


def test_a_list_of_one_conversation_gives_that_body_and_no_list(command: Command) -> None:
    assert command("fit", saved("one.json", [{"messages": [USER]}])).json == {"messages": [USER]}
    assert command("fit", saved("nested.json", [[USER]])).json == [USER]


def test_a_session_log_comes_out_as_a_body_of_its_dialect(command: Command) -> None:
    log = [
        {"parentUuid": None, "sessionId": "s", "uuid": "1", "type": "user", "message": USER},
        {
            "parentUuid": "1",
            "sessionId": "s",
            "uuid": "2",
            "type": "assistant",
            "message": {
                "id": "m",
                "role": "assistant",
                "model": "claude-sonnet-4-5",
                "content": [{"type": "text", "text": "Yes."}],
            },
        },
    ]
    Path("log.jsonl").write_text("\n".join(map(json.dumps, log)))
    done = command("fit", "log.jsonl", "--max-output", "1k")
    body = done.json
    assert isinstance(body, dict)
    assert (body["model"], body["max_tokens"], len(body["messages"])) == ("claude-sonnet-4-5", 1_000, 2)


def test_out_is_written_whole_and_report_json_goes_to_standard_output_then(command: Command) -> None:
    messages = [USER, *rounds(40)]
    done = command("fit", saved("list.json", messages), "--budget", "8k", "-o", "out.json", "--json")
    report = done.json
    assert isinstance(report, dict)
    assert done.err == ""
    assert list(report) == ["report", "edits", "events", "notes"]
    assert report["report"]["sent"] <= 8_000
    assert strict(Path("out.json").read_text()) == longturn.fit(messages, budget=8_000).messages
    assert sorted(path.name for path in Path().iterdir()) == ["list.json", "out.json"]


def test_report_json_goes_to_standard_error_beside_the_request(command: Command) -> None:
    done = command("fit", saved("list.json", [USER]), "--json")
    assert done.json == [USER]
    assert isinstance(strict(done.err), dict)


def test_an_output_that_exists_keeps_its_permissions_and_a_link_keeps_pointing(command: Command) -> None:
    Path("real.json").write_text("old")
    Path("real.json").chmod(0o640)
    Path("link.json").symlink_to("real.json")
    assert command("fit", saved("list.json", [USER]), "-o", "link.json").status == 0
    assert Path("link.json").is_symlink()
    assert strict(Path("real.json").read_text()) == [USER]
    assert Path("real.json").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("out", ["missing/out.json", ".", "list.json/out.json"])
def test_an_output_that_cannot_be_written_is_said_and_leaves_nothing(command: Command, out: str) -> None:
    done = command("fit", saved("list.json", [USER]), "-o", out)
    assert done.status == 2
    assert done.err.startswith(f"longturn: {out} cannot be written: ")
    assert [path.name for path in Path().iterdir()] == ["list.json"]


def test_what_cannot_fit_ends_with_status_3_and_says_what_is_large(command: Command) -> None:
    done = command("fit", saved("list.json", [{"role": "user", "content": "word " * 9_000}]), "--capacity", "4k")
    assert (done.status, done.out) == (3, "")
    assert "the model takes 4,000" in done.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "No model is named, so no window was checked, and the budget is the 32,000 of an unknown window"),
        (("--model", "no-such-model", "--budget", "9k"), "The window of 'no-such-model' is not known, so no window"),
    ],
)
def test_a_window_that_is_not_known_is_said_with_the_budget_that_counts(
    command: Command, options: tuple[str, ...], said: str
) -> None:
    assert said in command("fit", saved("list.json", [USER]), *options).err


def test_half_characters_in_arguments_never_make_invalid_output(command: Command) -> None:
    arguments = json.dumps({"text": "\ud83d" + "x" * 5_000})
    messages = [USER, *rounds(30, "ok", arguments)]
    done = command("fit", saved("list.json", messages), "--budget", "8k")
    assert done.status == 0
    assert isinstance(done.json, list)
    assert "were written as U+FFFD" in done.err or "\\ud83d" in done.out


# --- bad input ----------------------------------------------------------------------------------------------------

BAD = {
    "empty": ("", "the file is empty"),
    "prose": ("Once upon a time", "line 1, column 1 is not JSON"),
    "number": ("42", "is no message"),
    "null": ("null", "is no message"),
    "other object": ('{"a": 1}', "it has: a"),
    "messages that are no list": ('{"messages": {"role": "user"}}', "is no message"),
    "messages of numbers": ('{"messages": [1, null]}', "message 0"),
    "role that is no text": ('[{"role": 7}]', "item 0"),
    "broken line": ('{"role": "user"}\n{"role": bad}\n{"role": "user"}', "line 2, column 10"),
    "nested": ("[" * 100_000 + "]" * 100_000, "nested too deeply"),
    "nested content": (
        '{"messages": [{"role": "user", "content": ' + "[" * 940 + "]" * 940 + "}]}",
        "nested too deeply",
    ),
    "long number": ('[{"role": "user", "content": "x", "n": ' + "9" * 6_000 + "}]", "a number that cannot be read"),
    "zero bytes": ("\0\0\0\0", "Error"),
}


@pytest.mark.parametrize("kind", [kind for kind in BAD if kind != "zero bytes"])
@pytest.mark.parametrize("name", ["fit", "inspect"])
def test_input_that_cannot_be_read_ends_with_status_2_and_one_line(command: Command, name: str, kind: str) -> None:
    text, said = BAD[kind]
    Path("bad.json").write_text(text)
    done = command(name, "bad.json")
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("longturn: bad.json: ")
    assert said in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("kind", BAD)
def test_count_takes_any_other_file_as_text(command: Command, kind: str) -> None:
    Path("text").write_text(BAD[kind][0])
    assert command("count", "text").out == f"{longturn.estimate(BAD[kind][0])}\n"


@pytest.mark.parametrize(
    "data",
    [b"\x1f\x8b\x08\0", b"PK\x03\x04", bytes(range(256)), '[{"role": "user", "content": "é"}]'.encode("latin-1")],
)
def test_bytes_that_are_no_text_are_refused_but_by_count(command: Command, data: bytes) -> None:
    Path("bytes").write_bytes(data)
    assert command("fit", "bytes").status == 2
    assert command("inspect", "bytes").status == 2
    assert command("count", "bytes").status == 0


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_every_unicode_encoding_of_json_is_read_and_utf_8_is_written(command: Command, encoding: str) -> None:
    Path("list.json").write_bytes(json.dumps([USER]).encode(encoding))
    assert command("fit", "list.json").json == [USER]


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (
            '{"model": "m",\n "temperature": NaN, "messages": [{"role": "user", "content": "NaN"}]}',
            "line 2, column 17 has NaN",
        ),
        ('[{"role": "user", "content": "a \\"NaN\\" b", "n": -Infinity}]', "line 1, column 50 has -Infinity"),
        ('[{"role": "user", "content": "x", "n": 1e999}]', "line 1, column 40 has 1e999"),
        ('{"role": "user", "content": "x"}\n{"role": "user", "content": "x", "n": NaN}', "line 2, column 39 has NaN"),
    ],
)
def test_numbers_that_are_no_json_are_refused_by_fit_with_their_place_and_noted_by_inspect(
    command: Command, text: str, where: str
) -> None:
    Path("nan.json").write_text(text)
    done = command("fit", "nan.json")
    assert (done.status, done.out) == (2, "")
    assert f"nan.json: {where}" in done.err
    assert "read as null" in command("inspect", "nan.json").out


def test_lone_surrogates_become_replacement_characters_with_a_line_in_the_report(command: Command) -> None:
    Path("half.json").write_text('[{"role": "user", "content": "a\\ud83d b \\ud83d\\ude00"}]')
    done = command("fit", "half.json")
    assert done.json == [{"role": "user", "content": "a\ufffd b 😀"}]
    assert "lone surrogates" in done.err


def test_a_line_that_is_cut_off_at_the_end_is_left_out_and_reported(command: Command) -> None:
    Path("cut.jsonl").write_text(json.dumps(USER) + '\n{"role": "assistant", "con')
    done = command("fit", "cut.jsonl")
    assert done.json == [USER]
    assert "line 2 is cut off" in done.err


ODD: dict[str, list[object]] = {
    "nothing": [],
    "only a system message": [{"role": "system", "content": "Be brief."}],
    "an answer first": [{"role": "assistant", "content": "Yes?"}, USER],
    "a call without its result": [USER, *rounds(1)[:1], USER],
    "a result without its call": [USER, {"role": "tool", "tool_call_id": "x", "content": "lost"}],
    "one id twice": [
        USER,
        {"role": "assistant", "content": None, "tool_calls": [call("a"), call("a")]},
        *[{"role": "tool", "tool_call_id": "a", "content": "1"}] * 3,
    ],
    "terminal codes": [{"role": "user", "content": "\x1b[31mred\x1b]0;title\x07 [bold]x[/bold]"}],
}


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("arguments", [("fit", "--budget", "8k"), ("inspect", "--json"), ("inspect",), ("count",)])
def test_odd_lists_are_taken_by_every_command(command: Command, kind: str, arguments: tuple[str, ...]) -> None:
    name, *options = arguments
    done = command(name, saved("odd.json", ODD[kind]), *options)
    assert done.status == 0
    assert "\x1b" not in done.out.replace("\\u001b", "")
    if arguments != ("inspect",):
        strict(done.out)


def test_what_is_broken_is_named_with_its_place(command: Command) -> None:
    done = command("inspect", saved("odd.json", ODD["a call without its result"]))
    assert "Broken\n" in done.out
    assert "messages[1]" in done.out


def test_one_text_of_100_megabytes_is_fitted_and_counted(command: Command) -> None:
    messages = [{"role": "user", "content": "word " * 20_000_000}]
    done = command("fit", saved("large.json", messages), "-o", "out.json")
    assert done.status == 0
    assert Path("out.json").stat().st_size > 100_000_000


@pytest.mark.parametrize("name", ["fit", "inspect", "count"])
@pytest.mark.parametrize(
    ("file", "why"),
    [
        ("missing.json", "no such file"),
        (".", "is a directory"),
        ("list.json/x", "not a directory"),
        ("a\0b", "null byte"),
    ],
)
def test_a_file_that_cannot_be_opened_is_said_in_one_line(command: Command, name: str, file: str, why: str) -> None:
    saved("list.json", [USER])
    done = command(name, file)
    assert (done.status, done.out) == (2, "")
    assert f"cannot be read: {why}" in done.err or f"cannot be read: embedded {why}" in done.err
    assert done.err.count("\n") == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read every file")
def test_a_file_that_may_not_be_read_is_said_in_one_line(command: Command) -> None:
    Path(saved("list.json", [USER])).chmod(0)
    assert "permission denied" in command("fit", "list.json").err


# --- usage ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("fit",), "Missing argument 'FILE' (see `longturn fit --help`)"),
        (("nothing",), "No such command 'nothing' (see `longturn --help`)"),
        (("count", "x", "--wrong"), "No such option: --wrong"),
        (("fit", "x", "--budget", "many"), "--budget 'many' is no number of tokens: write 32000"),
        (("fit", "x", "--capacity", "0"), "--capacity '0' is no number of tokens of at least 1"),
        (("fit", "list.json", "--policy", "best"), "use one of default, seed"),
        (("fit", "list.json", "--dialect", "morse"), "use one of openai_chat"),
    ],
)
def test_bad_usage_ends_with_status_2_and_what_to_write_instead(
    command: Command, arguments: tuple[str, ...], said: str
) -> None:
    saved("list.json", [USER])
    done = command(*arguments)
    assert (done.status, done.out) == (2, "")
    assert said in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",), ("fit", "--help"), ("inspect", "-h"), ("count", "-h")])
def test_help_is_shown_on_request_and_for_no_arguments_at_all(command: Command, arguments: tuple[str, ...]) -> None:
    done = command(*arguments)
    assert (done.status, done.err) == (0, "")
    assert "Usage: longturn" in done.out


def test_the_version_is_the_one_of_the_package(command: Command) -> None:
    assert command("--version").out == f"longturn {longturn.__version__}\n"


@pytest.mark.parametrize(
    ("text", "number"),
    [*zip(FORMS, (32_000, 32_000, 32_000, 32_000, 1_500_000), strict=True), (" 8K ", 8_000), ("0", 0), ("0.5k", 500)],
)
def test_sizes_are_read_as_people_write_them(text: str, number: int) -> None:
    assert tokens_of("--budget", text) == number


@pytest.mark.parametrize("text", ["", "k", "-1", "1.5", "32kb", "1e3", "0x10", "nan", "١٢", "0.0001k", "9" * 400])
def test_what_is_no_size_is_refused_with_the_accepted_forms(text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        tokens_of("--budget", text)
    assert all(form in str(refused.value) for form in FORMS)


# --- count ----------------------------------------------------------------------------------------------------


def test_count_gives_a_bare_number_and_with_json_what_was_counted(command: Command) -> None:
    Path("text.txt").write_text("A chapter.\n" * 50)
    tokens = longturn.estimate("A chapter.\n" * 50, model="gpt-5")
    assert command("count", "text.txt", "--model", "gpt-5").out == f"{tokens}\n"
    counted = command("count", "text.txt", "--model", "gpt-5", "--json").json
    assert counted == {"tokens": tokens, "counted_as": "text", "bytes": 550, "model": "gpt-5"}


def test_count_of_a_conversation_is_what_fit_counts(command: Command) -> None:
    messages = [USER, *rounds(5)]
    assert int(command("count", saved("list.json", messages)).out) == longturn.fit(messages).tokens
