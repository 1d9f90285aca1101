"""A long turn, for real: a subagent reads the Python standard library, file by file, until no window could hold it.

Nothing is recorded or made up: the tool reads the files of the Python that runs this, and every number is measured
here. What is written goes into a temporary folder. Run it with `make demo`, or `python examples/demo.py`.
"""

import json
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

import longturn
from longturn.cli.sizes import tokens_of

LIBRARY = Path(sysconfig.get_paths()["stdlib"])
TOTAL = 3_000_000
"""Characters of source that the subagent reads."""
PAGE = 4_000
"""Characters that one call of the tool returns at most, in whole lines."""
WINDOWS = ("200k", "8k")
STEPS = 10
"""Lines of a table of calls."""
WENT = {"cleared": "results are cleared", "left_out": "messages are left out"}

TASK = (
    "You are a subagent. Read the modules of the standard library one after the other, page by page, and write down "
    "every use of a mutable default argument, with file and line. Do not stop before the last file."
)
TOOL = {
    "type": "function",
    "function": {
        "name": "read_file",
        "description": "Read a page of a file, from a line on. Says where the next page begins.",
        "parameters": {
            "type": "object",
            "properties": {"path": {"type": "string"}, "line": {"type": "integer"}},
            "required": ["path"],
        },
    },
}

Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run looked like through one window.

    refused_from: the first call that the window would not take as it is. peak, sent: estimated tokens of the largest
    request and of all. broken: calls whose request does not begin with the one before. front: the mean share kept.
    """

    window: str
    calls: int
    refused_from: int | None
    peak: int
    sent: int
    broken: int
    front: float
    last: longturn.Window


def read_file(path: Path, line: int) -> tuple[str, int]:
    """The tool: a page of a file and the line of the next one, 0 at the end."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
    page: list[str] = []
    size = 0
    for number, text in enumerate(lines[line - 1 :], line):
        if page and size + len(text) > PAGE:
            return "".join(page) + f"[more from line {number}]", number
        page.append(text[:PAGE])
        size += len(text)
    return "".join(page) + "[end of file]", 0


def transcript() -> list[Message]:
    """The subagent's turn: one task, and then call after call. Every third round asks for two files at once."""
    messages: list[Message] = [{"role": "user", "content": TASK}]
    pages = every_page()
    for number in count(1):
        calls: list[Message] = []
        results: list[Message] = []
        for path, line, text in islice(pages, 2 if number % 3 == 0 else 1):
            name = f"call_{number}_{len(calls)}"
            arguments = json.dumps({"path": path, "line": line})
            calls.append({"id": name, "type": "function", "function": {"name": "read_file", "arguments": arguments}})
            results.append({"role": "tool", "tool_call_id": name, "content": text})
        if not calls:
            break
        messages += [{"role": "assistant", "content": None, "tool_calls": calls}, *results]
    return messages


def every_page() -> Iterator[tuple[str, int, str]]:
    """Path, line and text of page after page, file after file, until TOTAL characters have been read."""
    read = 0
    for path in sorted(LIBRARY.glob("[a-z]*.py")):
        line = 1
        while line and read < TOTAL:
            at, (text, line) = line, read_file(path, line)
            read += len(text)
            yield path.name, at, text


def borders(messages: list[Message]) -> list[int]:
    """How long the list is at each model call: before every answer, and once more for the last one."""
    return [place for place, message in enumerate(messages) if message["role"] == "assistant"] + [len(messages)]


def shared(before: list[Any], now: list[Any]) -> float:
    """The share of the last request that stands unchanged at the front of this one: what a prefix cache can serve."""
    same = 0
    for old, new in zip(before, now, strict=False):
        if old is not new and old != new:
            break
        same += characters(old)
    return same / max(1, sum(map(characters, before)))


def characters(message: Message) -> int:
    """About how long a message is on the wire."""
    return len(str(message["content"] or message.get("tool_calls")))


def through(window: str, messages: list[Message], sizes: list[int], screen: Console) -> Outcome:
    """Every call of the run, fitted as an agent would fit it, with one line for each tenth of the way."""
    capacity = tokens_of("window", window) or 0
    fitter = longturn.Fitter(capacity=capacity, tools=[TOOL])
    calls = borders(messages)
    refused = next((number for number, size in enumerate(sizes, 1) if size > capacity), None)
    shown = {round(len(calls) * step / STEPS) for step in range(1, STEPS + 1)}
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("call", "transcript", "sent", "whole", "cleared", "left out", "front kept"):
        table.add_column(heading, justify="right")
    before: list[Any] = []
    fronts: list[float] = []
    peak = sent = seen = 0
    for number, length in enumerate(calls, 1):
        fitted = fitter.fit(messages[:length])
        fronts.append(shared(before, fitted.messages) if before else 1.0)
        peak, sent, before = max(peak, fitted.tokens), sent + fitted.tokens, fitted.messages
        if number in shown:
            now = fitted.report
            numbers = (number, sizes[number - 1], now.sent, now.whole_results, now.cleared_results, now.left_out)
            kept = sum(fronts[seen:]) / len(fronts[seen:])
            table.add_row(*(f"{each:,}" for each in numbers), f"{kept:.0%}")
            seen = number
    screen.print(table)
    return Outcome(
        window=window,
        calls=len(calls),
        refused_from=refused,
        peak=peak,
        sent=sent,
        broken=sum(front < 1 for front in fronts),
        front=sum(fronts) / len(fronts),
        last=fitted,
    )


def command(screen: Console, folder: Path, *arguments: str) -> None:
    """Show a command line and run it for real, in the folder of the transcript."""
    screen.print(Text(f"$ longturn {' '.join(arguments)}", style="bold green"))
    sys.stdout.flush()
    subprocess.run([sys.executable, "-m", "longturn", *arguments], cwd=folder, check=True, stderr=subprocess.STDOUT)
    screen.print()


def heading(screen: Console, text: str) -> None:
    """A line above a part of the demonstration."""
    screen.print(Rule(Text(text, style="bold"), align="left"))


def explain(screen: Console, outcome: Outcome) -> None:
    """What the numbers of one run mean, in words."""
    report = outcome.last.report
    why = Counter((edit.kind, edit.reason) for edit in outcome.last.edits)
    went = " and ".join(f"{number:,} {WENT.get(kind, kind)} ({reason})" for (kind, reason), number in why.items())
    screen.print(
        f"Without longturn this window refuses call {outcome.refused_from} of {outcome.calls} and every one after it; "
        f"with it all are sent, the largest with {outcome.peak:,} tokens. At the last call {went}; "
        f"the task and the newest {report.whole_results} results stand whole. "
        f"{outcome.calls - outcome.broken} of {outcome.calls} requests begin with the whole request before: on "
        f"average {outcome.front:.0%} of it can come from the provider's cache.\n"
    )


def main() -> None:
    """Read, inspect, fit for two windows, compare."""
    started = time.monotonic()
    screen = Console(highlight=False, width=None if sys.stdout.isatty() else 100)
    heading(screen, "1. A subagent reads the standard library")
    messages = transcript()
    endless = longturn.Fitter(budget=0, tools=[TOOL])
    sizes = [endless.fit(messages[:length]).tokens for length in borders(messages)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        body = json.dumps({"messages": messages, "tools": [TOOL]})
        (folder / "transcript.json").write_text(body, encoding="utf-8")
        screen.print(
            f"One task, {len(sizes):,} model calls, {len(body) / 1e6:.1f} MB: about {sizes[-1]:,} tokens in a single "
            "turn. There is no older turn that could be left out.\n"
        )
        command(screen, folder, "inspect", "transcript.json")
        outcomes = []
        for part, window in enumerate(WINDOWS, 2):
            heading(screen, f"{part}. Call by call through a window of {window} tokens")
            outcome = through(window, messages, sizes, screen)
            explain(screen, outcome)
            command(screen, folder, "fit", "transcript.json", "--capacity", window, "-o", f"{window}.json")
            fitted = json.loads((folder / f"{window}.json").read_text(encoding="utf-8"))
            assert fitted["messages"] == outcome.last.messages, "the command line and the Fitter differ"
            screen.print("That is, message for message, what the Fitter had arrived at call by call.\n")
            outcomes.append(outcome)
    heading(screen, "4. Side by side")
    compare(screen, sizes, outcomes)
    screen.print(f"\n{time.monotonic() - started:.1f} seconds; all counts are estimates, none was sent anywhere.")


def compare(screen: Console, sizes: list[int], outcomes: list[Outcome]) -> None:
    """The runs beside each other, and beside one that shapes nothing."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("")
    table.add_column("without", justify="right")
    for outcome in outcomes:
        table.add_column(f"{outcome.window} window", justify="right")
    reports = [outcome.last.report for outcome in outcomes]
    refused = " / ".join(f"{outcome.refused_from:,}" for outcome in outcomes)
    rows = (
        ("calls", f"{len(sizes):,}", [f"{outcome.calls:,}" for outcome in outcomes]),
        ("refused from call", refused, ["never" for _ in outcomes]),
        ("largest request", f"{max(sizes):,}", [f"{outcome.peak:,}" for outcome in outcomes]),
        ("tokens sent in all", f"{sum(sizes):,}", [f"{outcome.sent:,}" for outcome in outcomes]),
        ("results cleared", "", [f"{report.cleared_results:,}" for report in reports]),
        ("messages left out", "", [f"{report.left_out:,}" for report in reports]),
        ("calls with a new front", "", [f"{outcome.broken:,}" for outcome in outcomes]),
        ("front kept", "", [f"{outcome.front:.1%}" for outcome in outcomes]),
    )
    for label, without, cells in rows:
        table.add_row(label, without, *cells)
    screen.print(table)


if __name__ == "__main__":
    main()
