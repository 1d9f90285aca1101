"""`longturn replay`: what it prints and writes, what it takes and how it ends; and policies read from files."""

import http.server
import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from longturn.cli.replay import NAMED
from longturn.core.policy import Policy, Pruning
from longturn.errors import ConfigError
from longturn.policies import read_policy
from longturn.replays import TOTALS
from tests.test_cli import USER, Command, command, rounds, saved, strict
from tests.test_cli_process import LONGTURN, PLAIN, on_terminal

__all__ = ["command"]  # a fixture
FIELDS = ["name", *TOTALS]


def body(number: int, model: str | None = "gpt-5") -> dict[str, object]:
    """A request of one turn with so many rounds; every answer has a call before it."""
    named = {} if model is None else {"model": model}
    return {**named, "messages": [USER, *rounds(number), {"role": "assistant", "content": "Read."}]}


def policies(done: object) -> dict[str, dict[str, Any]]:
    assert isinstance(done, dict)
    return {each["name"]: each for each in done["policies"]}


# --- What it prints -----------------------------------------------------------------------------------------


def test_the_json_has_every_policy_with_the_same_fields_in_order(command: Command) -> None:
    done = command("replay", saved("a.json", body(40)), "--budget", "8k", "--json")
    assert (done.status, done.err) == (0, "")
    assert isinstance(done.json, dict)
    assert [list(each) for each in done.json["policies"]] == [FIELDS] * len(NAMED)
    assert tuple(policies(done.json)) == NAMED
    assert done.json["calls"] == 41
    assert "files" not in done.json
    assert "estimates" in done.json["notes"][0]
    (basis,) = done.json["basis"]
    assert (basis["model"], basis["window"], basis["budget"], basis["rule"]["name"]) == (
        "gpt-5",
        400_000,
        8_000,
        "openai",
    )


def test_a_policy_that_shapes_holds_the_budget_and_costs_less_than_none(command: Command) -> None:
    found = policies(command("replay", saved("a.json", body(60)), "--budget", "8k", "--json").json)
    assert found["none"]["peak_tokens"] > 8_000
    assert found["default"]["peak_tokens"] <= 8_000
    assert found["default"]["cost_usd"] < found["none"]["cost_usd"]
    assert found["none"]["broken_fronts"] == 0


def test_several_files_give_their_totals_and_each_file(command: Command) -> None:
    files = [saved("a.json", body(10)), saved("b.json", body(20))]
    found = command("replay", *files, "--budget", "8k", "--json").json
    assert isinstance(found, dict)
    assert [each["file"] for each in found["files"]] == files
    assert found["calls"] == sum(each["calls"] for each in found["files"]) == 32
    for field in TOTALS:
        add = max if field == "peak_tokens" else sum
        each = [policies(entry)["default"][field] for entry in found["files"]]
        assert policies(found)["default"][field] == pytest.approx(add(each)), field


def test_a_file_that_is_given_twice_is_replayed_once(command: Command) -> None:
    once = command("replay", saved("a.json", body(10)), "--json")
    assert command("replay", "a.json", "a.json", "--json").json == once.json


def test_calls_over_the_window_are_rejected_and_the_best_is_none_of_those(command: Command) -> None:
    done = command("replay", saved("a.json", body(60)), "--capacity", "9k", "--budget", "8k")
    none, default = (
        next(line for line in done.out.splitlines() if f" {name} " in line) for name in ("none", "default")
    )
    headings = done.out.splitlines()[2].split()
    assert int(none.split()[headings.index("rejected")]) > 0
    assert default.startswith("* ")
    assert "Judged by\ngpt-5: window 9,000 less 2,250 for the answer; budget 8,000; cache openai (from" in done.out
    assert "per million tokens $1.25 fresh, $0.125 cached, $10.00 output" in done.out
    assert "Tokens are estimates, and so is the money" in done.out


def test_an_unknown_model_gives_tokens_and_no_money(command: Command) -> None:
    done = command("replay", saved("a.json", body(60, "our-own-7b")), "--budget", "8k")
    assert "cost" not in done.out.splitlines()[2]
    assert "our-own-7b: window unknown, so no call is rejected; budget 8,000" in done.out
    assert "price unknown" in done.out
    assert "lowest fresh tokens" in done.out
    found = policies(command("replay", "a.json", "--json").json)
    assert {each["cost_usd"] for each in found.values()} == {None}


def test_money_of_some_runs_only_is_said_to_be_that(command: Command) -> None:
    done = command("replay", saved("a.json", body(20)), saved("b.json", body(20, None)), "--budget", "8k")
    assert "1 run of 2 without a known price: not in the money." in done.out
    assert "Fresh tokens by file" in done.out


def test_where_all_fits_no_policy_is_called_the_best(command: Command) -> None:
    done = command("replay", saved("a.json", body(3)))
    assert "All alike: no policy found anything to shape." in done.out
    assert "*" not in done.out


@pytest.mark.parametrize("value", [[], [USER], {"messages": [USER], "model": "gpt-5"}], ids=["empty", "list", "body"])
def test_a_transcript_without_an_answer_has_no_call_to_replay(command: Command, value: object) -> None:
    done = command("replay", saved("a.json", value))
    assert (done.status, done.err) == (0, "")
    assert "No model answered in it, so there is no call to replay." in done.out
    found = command("replay", "a.json", "--json").json
    assert isinstance(found, dict)
    assert (found["calls"], policies(found)["none"]["sent_tokens"]) == (0, 0)


def test_a_transcript_of_one_call_is_sent_fresh_and_whole(command: Command) -> None:
    found = policies(
        command("replay", saved("a.json", [USER, {"role": "assistant", "content": "Yes."}]), "--json").json
    )
    assert {(each["broken_fronts"], each["cached_tokens"]) for each in found.values()} == {(0, 0)}
    assert found["none"]["fresh_tokens"] == found["none"]["sent_tokens"] == found["none"]["peak_tokens"]


def test_each_conversation_of_a_file_is_a_run_and_run_chooses_one(command: Command) -> None:
    lines = [{"custom_id": f"r{number}", "body": body(10 * number)} for number in (1, 2)]
    Path("batch.jsonl").write_text("\n".join(map(json.dumps, lines)))
    both, second = (
        command("replay", "batch.jsonl", "--json").json,
        command("replay", "batch.jsonl", "--run", "2", "--json").json,
    )
    assert isinstance(both, dict)
    assert isinstance(second, dict)
    assert (both["calls"], second["calls"]) == (32, 21)
    refused = command("replay", "batch.jsonl", "--run", "3")
    assert (refused.status, refused.out) == (2, "")
    assert "--run '3' means no conversation of batch.jsonl" in refused.err


def test_a_log_that_was_compacted_starts_anew_there_and_says_so(command: Command, shared: Path) -> None:
    log = shared / "data" / "transcripts" / "claude-code" / "three-requests-197-rounds.jsonl"
    done = command("replay", str(log), "--budget", "32k")
    assert done.out.startswith("three-requests-197-rounds.jsonl: 2 runs, ")
    assert "Its agent had compacted the history before message 253: the replay starts anew there" in done.out


# --- What it takes ------------------------------------------------------------------------------------------


def test_only_the_chosen_policies_are_replayed_and_a_file_is_one(command: Command) -> None:
    Path("mine.toml").write_text('target_ratio = 0.2\nkeepTools = ["read"]\n')
    chosen = ("--policy", "sliding", "--policy", "mine.toml", "--policy", "none")
    found = policies(command("replay", saved("a.json", body(60)), *chosen, "--budget", "8k", "--json").json)
    assert list(found) == ["sliding", "mine", "none"]
    assert found["mine"]["cleared_results"] == 0
    assert found["mine"]["peak_tokens"] <= 8_000


def test_the_budget_of_a_policy_file_holds_where_none_is_given(command: Command) -> None:
    Path("mine.json").write_text('{"name": "tight", "maxContextTokens": 6000}')
    done = command("replay", saved("a.json", body(60)), "--policy", "default", "--policy", "mine.json")
    assert "budget 300,000 (tight: 6,000)" in done.out
    found = policies(command("replay", "a.json", "--policy", "mine.json", "--json").json)
    assert found["tight"]["peak_tokens"] <= 6_000


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--policy", "defualt"), "--policy 'defualt' is neither a policy nor a file: did you mean default?"),
        (
            ("--policy", "xyz"),
            "use one of none, seed, default, newest-turns, sliding, clear-all-but-3, summarize, or a",
        ),
        (("--policy", "."), "longturn: . cannot be read"),
        (("--policy", "default", "--policy", "default.json"), "two policies are called 'default'"),
        (("--budget", "much"), "--budget 'much' is no number of tokens"),
        (("--capacity", "0"), "--capacity '0' is no number of tokens of at least 1"),
        (("--jobs", "0"), "--jobs"),
        (("--html", "-"), "--html needs the name of a file"),
        (("--against", "http://localhost:9"), "choose with --policy what is sent"),
    ],
)
def test_bad_usage_is_refused_in_one_line_that_says_what_to_do(
    command: Command, arguments: tuple[str, ...], said: str
) -> None:
    Path("default.json").write_text("{}")
    done = command("replay", saved("a.json", body(2)), *arguments)
    assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
    assert said in done.err


def test_files_that_cannot_be_read_are_named_and_the_others_replayed(command: Command) -> None:
    Path("broken.json").write_text('{"messages": [')
    done = command("replay", "none.json", saved("a.json", body(10)), "broken.json", "--json")
    assert done.status == 2
    assert isinstance(done.json, dict)
    assert done.json["calls"] == 11
    assert [line.split(":")[1].split()[0] for line in done.err.splitlines()] == ["none.json", "broken.json"]
    alone = command("replay", "none.json")
    assert (alone.status, alone.out) == (2, "")
    assert alone.err == "longturn: none.json cannot be read: no such file or directory\n"


def test_the_page_is_written_beside_the_table(command: Command) -> None:
    done = command("replay", saved("a.json", body(40)), "--budget", "8k", "--html", "out.html")
    assert "clear-all-but-3" in done.out
    page = Path("out.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "clear-all-but-3" in page
    refused = command("replay", "a.json", "--html", "no/such/folder/out.html")
    assert (refused.status, refused.out) == (2, "")
    assert "no/such/folder/out.html cannot be written" in refused.err


# --- A server -----------------------------------------------------------------------------------------------


@pytest.fixture
def server() -> Iterator[str]:
    """A server that takes requests of up to 100,000 bytes, counts a token for four, and caches nothing."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            size = int(self.headers["content-length"])
            self.rfile.read(size)
            error = {"message": f"maximum context length is 25000 tokens, you requested {size // 4} tokens"}
            usage = {"prompt_tokens": size // 4, "completion_tokens": 1}
            self.reply(
                {"error": error} if size > 100_000 else {"choices": [], "usage": usage}, 400 if size > 100_000 else 200
            )

        def do_GET(self) -> None:
            self.reply({"data": [{"id": "small"}]}, 200)

        def reply(self, value: object, status: int) -> None:
            data = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_parts: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as listening:
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{listening.server_address[1]}"
        listening.shutdown()
        thread.join()


def test_against_a_server_says_what_it_took_and_how_many_tokens_it_counted(command: Command, server: str) -> None:
    chosen = ("--policy", "none", "--policy", "default", "--budget", "8k", "--against", server)
    done = command("replay", saved("a.json", body(60)), *chosen, "--json")
    assert (done.status, done.err) == (0, "")
    assert isinstance(done.json, dict)
    none, default = done.json["against"]
    assert (none["name"], none["sent"], none["too_long"] > 0) == ("none", 61, True)
    assert (default["name"], default["sent"], default["accepted"]) == ("default", 61, 61)
    shown = command("replay", "a.json", *chosen, "--calls", "3")
    assert f"Sent to {server}" in shown.out
    assert "default     3         3         0" in shown.out


def test_a_server_that_is_not_there_ends_it_with_1(command: Command) -> None:
    done = command("replay", saved("a.json", body(4)), "--policy", "none", "--against", "http://127.0.0.1:9")
    assert done.status == 1
    assert "none: call 1 of 5 failed" in done.out


# --- As a shell runs it -------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [60, 80, 100, 120])
def test_the_table_is_no_wider_than_the_terminal(tmp_path: Path, columns: int) -> None:
    for name in ("first.json", "a-file-with-quite-a-long-name.json"):
        (tmp_path / name).write_text(json.dumps(body(200)))
    files = sorted(map(str, tmp_path.iterdir()))
    screen = on_terminal("replay", *files, "--budget", "20k", columns=columns, NO_COLOR="1")
    assert screen.status == 0
    assert max(map(len, screen.lines)) <= columns
    assert "\x1b" not in screen.text
    table = screen.lines[2 : 3 + len(NAMED)]
    assert {"cost", "rejected", "broken", "missed"} <= set(table[0].split())
    assert [line[2:].split()[0] for line in table[1:]] == list(NAMED)
    assert ("█" in screen.text) == (columns > 60)


def test_a_terminal_gets_colours_and_a_pipe_the_whole_numbers(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text(json.dumps(body(100)))
    assert "\x1b[1;32m" in on_terminal("replay", str(file), "--budget", "20k").text
    piped = subprocess.run(
        [*LONGTURN, "replay", str(file)], capture_output=True, text=True, env={**PLAIN, "COLUMNS": "60"}
    )
    assert (piped.returncode, piped.stderr) == (0, "")
    assert "rounds out" in piped.stdout.splitlines()[2]
    assert "\x1b" not in piped.stdout
    assert "█" not in piped.stdout


def test_processes_give_what_one_process_gives_and_standard_input_is_a_file(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text(json.dumps(body(30)))
    given = json.dumps(body(20)).encode()
    answers = [
        subprocess.run(
            [*LONGTURN, "replay", str(file), "-", "--json", "--jobs", jobs], input=given, capture_output=True
        )
        for jobs in ("1", "2")
    ]
    assert [(done.returncode, done.stderr) for done in answers] == [(0, b"")] * 2
    assert answers[0].stdout == answers[1].stdout
    found = strict(answers[0].stdout.decode())
    assert isinstance(found, dict)
    assert [entry["file"] for entry in found["files"]] == [str(file), "standard input"]


def test_an_interrupt_ends_the_processes_too_with_130_and_without_a_traceback(tmp_path: Path) -> None:
    pipes = [tmp_path / "one.json", tmp_path / "two.json"]
    for pipe in pipes:
        os.mkfifo(pipe)
    process = subprocess.Popen(
        [*LONGTURN, "replay", *map(str, pipes), "--jobs", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=PLAIN,
    )
    # Each opens when a process of its own reads it; the bytes never come.
    with pipes[0].open("wb"), pipes[1].open("wb"):
        process.send_signal(signal.SIGINT)
        out, error = process.communicate()
    assert (process.returncode, out, error) == (130, b"", b"")


# --- Files that policies are read from ----------------------------------------------------------------------


def test_a_policy_is_read_from_toml_or_json_in_either_spelling() -> None:
    toml = b'name = "tight"\ntarget_ratio = 0.3\nrungs = ["results"]\nstrict = true\n[pruning]\nmax_chars = 100\n'
    keys = b'"name": "tight", "targetRatio": 0.3, "rungs": ["results"], "strict": true, "pruning": {"maxChars": 100}'
    text = b"\xef\xbb\xbf{" + keys + b"}"  # with the mark that some editors begin a file with
    expected = Policy(name="tight", target_ratio=0.3, rungs=("results",), strict=True, pruning=Pruning(max_chars=100))
    assert read_policy(toml, "any.toml") == read_policy(text, "any.json") == expected


def test_a_policy_file_is_called_by_its_stem_and_a_null_says_nothing() -> None:
    assert read_policy(b"", "folder/mine.toml") == Policy(name="mine")
    assert read_policy(b'{"batch": null, "pruning": null}', "mine.json") == Policy(name="mine")


def test_sets_of_tools_and_their_texts_are_read_as_the_policy_takes_them() -> None:
    found = read_policy(b'keep_tools = ["plan"]\ncleared_texts = { read = "gone" }\nbatch = 4', "a.toml")
    assert (found.keep_tools, found.cleared_texts, found.batch) == (frozenset({"plan"}), {"read": "gone"}, 4)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\ntarget_ration = 1", "p, line 2: there is no key 'target_ration': did you mean 'target_ratio'?"),
        (b'{"targetRation": 1}', "p, line 1: there is no key 'targetRation': did you mean 'target_ratio'?"),
        (b"zzz = 1", "p, line 1: there is no key 'zzz'; the keys are alternate, batch,"),
        (b"[pruning]\nmaxchars = 1", "p, line 2: there is no key 'maxchars': did you mean 'max_chars'?"),
        (b"[pruning]\n\nhard_clear = 1", "p, line 3: hard_clear must be true or false, got 1"),
        (b"pruning = true", "p, line 1: pruning must be a table of keys"),
        (b"\n\ntarget_ratio = 3", "p, line 3: target_ratio must be a number above 0 to 1, got 3"),
        (b"batch = true", "p, line 1: batch must be a whole number of at least 1, got True"),
        (b"strict = 1", "p, line 1: strict must be true or false, got 1"),
        (b"name = ''", "p, line 1: name must be a text, got ''"),
        (b"keep_tools = 'read'", "p, line 1: keep_tools must be a list of names, got 'read'"),
        (b"cleared_texts = { a = 1 }", "p, line 1: cleared_texts must give a text for each tool's name"),
        (b"rungs = ['result']", "p, line 1: no rung is called 'result': use images, results"),
        (b"pin = 'x'", "p, line 1: pin is code: it can be set in Python only"),
        (b"batch = 2\nBatch = 3", "p, line 2: there is no key 'Batch': did you mean 'batch'?"),
        (b"wholeShare = 0.1\nwhole_share = 0.1", "p, line 2: whole_share is set twice, in two spellings: keep one"),
        (b'{"batch": 1, "batch": 2}', "p is no policy in TOML or JSON: the key 'batch' is there twice"),
        (b'{"target_ratio": NaN}', "p is no policy in TOML or JSON: NaN is no number in JSON"),
        (
            b"target_ratio: 0.3",
            "p is no policy in TOML or JSON: Expected '=' after a key in a key/value pair (at line 1",
        ),
        (b'{"batch": }', "p is no policy in TOML or JSON: Expecting value: line 1 column 11"),
        (b"\xff", "p is no policy in TOML or JSON: 'utf-8' codec can't decode byte 0xff in position 0"),
    ],
)
def test_a_policy_file_that_is_wrong_is_refused_with_its_place_and_what_is_meant(data: bytes, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read_policy(data, "p")
    assert str(refused.value).startswith(said)
