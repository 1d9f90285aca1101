"""Subjects as processes to ask (worker.py is their end), and the clock that they report their own CPU time to."""

import json
import select
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from benchmarks.peers import PEERS, installed

HERE = Path(__file__).resolve().parent
OURS = ("estimate_pass", "longturn_fit", "longturn_fitter", "longturn_seed")
PATIENCE = 240
"""Seconds of real time until a subject is given up."""


class Clock:
    """The CPU seconds that all subjects have reported; `read` is a timer for pytest-benchmark."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def read(self) -> float:
        """The sum so far."""
        return self.seconds


CLOCK = Clock()


class Subject:
    """A running worker; `errors` is where it writes what went wrong."""

    def __init__(self, name: str, process: subprocess.Popen[str], errors: IO[str]) -> None:
        self.name = name
        self.process = process
        self.errors = errors

    def ask(self, op: str, **more: object) -> dict[str, Any]:
        """One order and its answer; the seconds in it go to the clock. A peer that fails is skipped, ours fails."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps({"op": op, **more}), file=self.process.stdin, flush=True)
        in_time = select.select([self.process.stdout], [], [], PATIENCE)[0]
        line = self.process.stdout.readline() if in_time else ""
        if not line:
            self.errors.seek(0)
            said = self.errors.read().strip().splitlines()
            fault = said[-1] if in_time and said else f"no answer within {PATIENCE} seconds"
            (pytest.fail if self.name in OURS else pytest.skip)(f"{self.name}, {op}: {fault[:300]}")
        answer: dict[str, Any] = json.loads(line)
        CLOCK.seconds += answer.get("seconds", 0.0)
        return answer


@contextmanager
def running(name: str) -> Iterator[Subject]:
    """The subject of that name, ours or a peer, in its own process."""
    peer = next((peer for peer in PEERS if peer.script == name), None)
    script = peer.path if peer else HERE / "subjects" / f"{name}.py"
    command = [str(peer.python if peer else sys.executable), str(HERE / "worker.py"), str(script)]
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        try:
            yield Subject(name, process, errors)
        finally:
            process.kill()


def peers() -> tuple[str, ...]:
    """The names of the peers that can be run here."""
    return tuple(peer.script for peer in installed())
