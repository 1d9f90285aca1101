"""What the command line writes: strict JSON in UTF-8, to standard output or into a file that is whole or not there."""

import json
import os
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TextIO

from longturn.against import Measured, numbers
from longturn.cli.replay import Replayed
from longturn.cli.sources import STDIN, Run
from longturn.dialects.registry import by_name
from longturn.errors import ConfigError
from longturn.inspection import Inspection
from longturn.page import page
from longturn.replays import as_json
from longturn.request import new_body, put
from longturn.shaped import Window

_LONE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Written:
    """JSON text as bytes; `replaced` halves of characters (lone surrogates) became U+FFFD, since UTF-8 has none."""

    data: bytes
    replaced: int


def strict_json(value: object, *, indent: int | None = None) -> Written:
    """`value` as strict JSON with a newline at its end, never with NaN or Infinity, always valid UTF-8."""
    separators = (",", ":") if indent is None else None
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent, separators=separators)
    try:
        return Written(f"{text}\n".encode(), 0)
    except UnicodeEncodeError:
        text, replaced = _LONE.subn("\ufffd", text)
        return Written(f"{text}\n".encode(), replaced)


def write(data: bytes, out: str | None) -> None:
    """To standard output, or into `out` in one step. Raises ConfigError where that cannot be written."""
    if out is None or out == STDIN:
        write_all(data, sys.stdout)
        return
    try:
        _replace(Path(out).resolve(), data)
    except (OSError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise ConfigError(f"{out} cannot be written: {why[:1].lower()}{why[1:]}") from None


def write_all(data: bytes, stream: TextIO) -> None:
    """All of `data` to a standard stream, whatever its encoding is."""
    stream.flush()
    # With PYTHONUNBUFFERED there is no buffer below the text: a write to a pipe then takes what the pipe has room for.
    rest = memoryview(data)
    while rest:
        rest = rest[stream.buffer.write(rest) :]
    stream.buffer.flush()


def _replace(path: Path, data: bytes) -> None:
    if path.exists() and not path.is_file():
        # A pipe or a device has no half-written state to hide; a folder says so itself.
        path.write_bytes(data)
        return
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with beside.open("xb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        if path.exists():
            beside.chmod(path.stat().st_mode & 0o7777)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def shaped(run: Run, window: Window, model: str | None, max_output: int | None) -> object:
    """What `fit` writes: a body for a body, a list for a list, a new request body for a run of a log."""
    if run.body is not None:
        return window.body
    if run.is_bare:
        return window.messages
    found = run.conversation
    dialect = by_name(window.dialect)
    body = new_body(dialect, window.messages, model=model or found.model, system=found.system, tools=found.tools)
    if max_output is not None and dialect.request.max_output:
        put(body, dialect.request.max_output[0], max_output)
    return body


def report_json(window: Window, notes: Sequence[str]) -> dict[str, object]:
    """What `fit --json` prints."""
    return {
        "report": asdict(window.report),
        "edits": [asdict(edit) for edit in window.edits],
        "events": [{"event": type(event).__name__, **asdict(event)} for event in window.events],
        "notes": list(notes),
    }


def inspection_json(inspection: Inspection, notes: Sequence[str]) -> dict[str, object]:
    """What `inspect --json` prints of one conversation."""
    return {**asdict(inspection), "notes": list(notes)}


def runs_json(total: Inspection, runs: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """The same of several: the totals, and each run with the same keys, its number and its name."""
    return {**asdict(total), "notes": [], "runs": list(runs)}


def replay_json(files: Sequence[Replayed], measured: Sequence[Measured] | None) -> dict[str, object]:
    """What `replay --json` prints: the totals, each file's where there are several, what they were judged by, notes.

    measured: what a server made of the calls, None where nothing was sent.
    """
    bases = Counter(basis for file in files for basis in file.bases)
    notes = [(f"{file.file}: " if len(files) > 1 else "") + note for file in files for note in file.notes]
    return {
        **as_json({file.file: file.replays for file in files}),
        "basis": [{**asdict(basis), "own": dict(basis.own), "runs": count} for basis, count in bases.items()],
        "notes": ["Tokens and costs are estimates.", *notes],
        **({} if measured is None else {"against": list(map(numbers, measured))}),
    }


def html_page(files: Sequence[Replayed]) -> str:
    """What `replay --html` writes, of files whose recordings were kept."""
    runs = [pair for file in files for pair in zip(file.recordings, file.replays, strict=True)]
    budgets = {basis.budget for file in files for basis in file.bases}
    title = Path(files[0].file).name if len(files) == 1 else f"{len(files)} files"
    return page(title, runs, budget=(budgets.pop() or None) if len(budgets) == 1 else None)
