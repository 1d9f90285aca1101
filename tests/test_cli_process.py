"""The command as a shell runs it: pipes, signals, terminals of many widths, colours, standard input, start-up."""

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from dataclasses import dataclass
from pathlib import Path

import pytest

LONGTURN = [sys.executable, "-m", "longturn"]
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
PLAIN = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "FORCE_COLOR")}
TERMINAL = {**PLAIN, "TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8"}


@dataclass(frozen=True, slots=True)
class Screen:
    """What a terminal was sent, standard output and standard error together, and the exit status."""

    status: int
    text: str

    @property
    def lines(self) -> list[str]:
        return ESCAPE.sub("", self.text).splitlines()


def on_terminal(*arguments: str, columns: int = 80, **environment: str) -> Screen:
    """Run the command on a terminal of its own."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(
        [*LONGTURN, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, env={**TERMINAL, **environment}
    )
    os.close(theirs)
    pieces = []
    while True:
        try:
            piece = os.read(ours, 65_536)
        except OSError:  # Linux: the other end is closed
            break
        if not piece:
            break
        pieces.append(piece)
    os.close(ours)
    return Screen(process.wait(), b"".join(pieces).decode())


@pytest.fixture
def conversation(tmp_path: Path) -> str:
    """A file with a conversation of some 20,000 tokens in it, wide characters and a long tool name included."""
    messages: list[object] = [{"role": "user", "content": "読んで " * 40}]
    for number in range(30):
        function = {"name": ("read", "search_the_whole_archive_by_title")[number % 2], "arguments": '{"book": 1}'}
        messages += [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": f"c{number}", "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": f"c{number}", "content": "雨の夜だった。 It rained. " * 100},
        ]
    path = tmp_path / "conversation.json"
    path.write_text(json.dumps(messages), encoding="utf-8")
    return str(path)


@pytest.fixture
def long(tmp_path: Path) -> str:
    """A file of 12 MB, which is long enough for a progress bar and for no pipe's buffer."""
    path = tmp_path / "long.json"
    path.write_text(json.dumps([{"role": "user", "content": "word " * 2_400_000}]))
    return str(path)


def run(*arguments: str, data: bytes = b"", **environment: str) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run([*LONGTURN, *arguments], input=data, capture_output=True, env={**PLAIN, **environment})


def test_standard_input_is_read_for_a_dash_in_place_of_a_file() -> None:
    data = b'[{"role": "user", "content": "hi"}]'
    assert json.loads(run("fit", "-", data=data).stdout) == json.loads(data)
    assert run("count", "-", data=data).stdout == b"5\n"
    broken = run("fit", "-", data=b"[")
    assert broken.returncode == 2
    assert broken.stderr.startswith(b"longturn: standard input: line 1, column 2 is not JSON")


def test_the_exit_status_tells_what_happened(conversation: str) -> None:
    assert run("fit", conversation, "--budget", "8k").returncode == 0
    assert run("fit", conversation, "--budget", "x").returncode == 2
    assert run("fit", conversation, "--capacity", "50").returncode == 3


def test_bytes_on_standard_output_are_utf_8_whatever_the_locale(conversation: str) -> None:
    done = run("fit", conversation, "--budget", "8k", LC_ALL="C", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.returncode == 0
    assert "読んで" in done.stdout.decode("utf-8")
    inspected = run("inspect", conversation, LC_ALL="C", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert (inspected.returncode, inspected.stderr) == (0, b"")


def test_output_that_goes_to_no_terminal_is_plain(conversation: str) -> None:
    for arguments in (("inspect", conversation), ("fit", conversation)):
        done = run(*arguments)
        assert b"\x1b" not in done.stdout + done.stderr
        assert "█" not in (done.stdout + done.stderr).decode()
        assert not any(line.endswith(b" ") for line in done.stdout.splitlines())


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_long_output_goes_through_a_pipe_whole(long: str, unbuffered: str) -> None:
    assert json.loads(run("fit", long, PYTHONUNBUFFERED=unbuffered).stdout) == json.loads(Path(long).read_text())


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_closed_pipe_is_taken_quietly(long: str, unbuffered: str) -> None:
    environment = {**PLAIN, "PYTHONUNBUFFERED": unbuffered}
    process = subprocess.Popen(
        [*LONGTURN, "fit", long], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.read(10) == b'[{"role":"'
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 141


def test_an_interrupt_ends_with_130_and_without_a_traceback(tmp_path: Path) -> None:
    fifo = tmp_path / "never.json"
    os.mkfifo(fifo)
    process = subprocess.Popen([*LONGTURN, "fit", str(fifo)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=PLAIN)
    with fifo.open("wb"):  # opens when the command does, which then waits for bytes that never come
        process.send_signal(signal.SIGINT)
        out, error = process.communicate()
    assert (process.returncode, out, error) == (130, b"", b"")


def test_a_terminal_gets_bars_and_colours(conversation: str) -> None:
    screen = on_terminal("inspect", conversation)
    assert screen.status == 0
    assert "\x1b[36m" in screen.text
    assert "█" in screen.text
    assert "█" in on_terminal("fit", conversation, "--budget", "8k", "-o", os.devnull).text


def test_no_color_keeps_the_bars_and_drops_the_colours(conversation: str) -> None:
    screen = on_terminal("inspect", conversation, NO_COLOR="1")
    assert "█" in screen.text
    assert "\x1b" not in screen.text


def test_a_request_on_a_terminal_is_indented(conversation: str) -> None:
    assert '\n  {\n    "role": "user",' in on_terminal("fit", conversation).text.replace("\r\n", "\n")


FIT = ("fit", "--budget", "8k", "-o", os.devnull)


@pytest.mark.parametrize(
    ("arguments", "columns"),
    [(("inspect",), 40), (("inspect",), 60), (("inspect",), 80), (("inspect",), 120), (FIT, 40)],
)
def test_no_line_is_wider_than_the_terminal(conversation: str, arguments: tuple[str, ...], columns: int) -> None:
    name, *options = arguments
    screen = on_terminal(name, conversation, *options, columns=columns, NO_COLOR="1")
    wide = sum(1 for line in screen.lines if len(line) + sum(0x2E80 <= ord(char) <= 0xFFEF for char in line) > columns)
    assert (screen.status, wide) == (0, 0)
    numbers = "\n".join(screen.lines)
    assert re.search(r"\d\d,\d{3}", numbers)


def test_columns_narrows_what_goes_to_no_terminal_too(conversation: str) -> None:
    assert b"begins" in run("inspect", conversation).stdout
    assert b"begins" not in run("inspect", conversation, COLUMNS="40").stdout


def test_a_long_input_shows_its_progress_on_the_terminal_and_leaves_nothing_of_it(long: str) -> None:
    screen = on_terminal("count", long)
    assert "Reading long.json" in screen.text
    assert "Counting" in screen.text
    assert screen.text.rstrip().splitlines()[-1].endswith("tokens (conversation, 12,000,033 bytes)")
    assert b"Reading" not in run("count", long).stderr


@pytest.mark.parametrize("columns", ["40", "200"])
def test_the_command_reference_does_not_depend_on_the_terminal(repository: Path, columns: str) -> None:
    written = subprocess.run(
        [sys.executable, "-m", "longturn.cli.reference"],
        capture_output=True,
        text=True,
        check=True,
        env={**PLAIN, "COLUMNS": columns, "TERM": "dumb", "LANG": "de_DE.UTF-8"},
    ).stdout
    assert written == (repository / "docs" / "cli.md").read_text(encoding="utf-8"), "run `make reference`"


def test_help_loads_neither_rich_nor_the_model_catalog() -> None:
    program = "import sys; from longturn.cli.__main__ import run; run(['--help']); print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not loaded & {"rich", "rich.console", "genai_prices", "pydantic", "asyncio"}


def test_without_typer_the_command_says_what_to_install() -> None:
    program = "import sys; sys.modules['typer'] = None; import longturn.cli.__main__"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stderr == "longturn: the command line needs typer: pip install 'longturn[cli]'\n"


def test_the_demonstration_runs_piped_and_ends_with_its_comparison(repository: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(repository / "examples" / "demo.py")], capture_output=True, text=True, env=PLAIN
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "$ longturn fit transcript.json --capacity 8k" in done.stdout
    assert "refused from call" in done.stdout.split("Side by side")[1]
