"""The documentation does what it says: what it shows runs, it leaves out no name, and the command reference is current.

A block of ```python is run; the blocks of one page share their names, in order. A line `$ longturn ...` in a block of
```console is run; the lines under it are what it must print, `...` standing for anything. Both run in an empty
folder that holds a copy of `examples/`. A block under `<!-- not run: reason -->` only has to compile.
"""

import doctest
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import get_args

import pytest

import longturn
from longturn import errors
from longturn.core.events import Event
from longturn.core.policy import Policy
from longturn.core.rungs import RUNGS

REPOSITORY = Path(__file__).resolve().parents[1]
CLI = REPOSITORY / "src" / "longturn" / "cli"
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^(?P<skip><!-- not run: .+? -->\n+)?```(?P<language>\w+)\n(?P<text>.*?)^```$", re.M | re.S)

DOCUMENTED = {
    "public name": longturn.__all__,
    "policy key": [field.name for field in fields(Policy)],
    "rung": list(RUNGS),
    "event": [event.__name__ for event in get_args(Event)],
    "error": [name for name, value in vars(errors).items() if isinstance(value, type) and not name.startswith("_")],
}
CHECKER = doctest.OutputChecker()


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a page: its language, its text, the line it starts in, and whether it is run."""

    language: str
    text: str
    line: int
    runs: bool


def blocks(page: Path, language: str) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(language, found["text"], text.count("\n", 0, found.start("text")), found["skip"] is None)
        for found in BLOCK.finditer(text)
        if found["language"] == language
    ]


def pages_with(language: str) -> list[Path]:
    return [page for page in PAGES if blocks(page, language)]


def label(page: Path) -> str:
    return page.relative_to(REPOSITORY).as_posix()


def commands(text: str) -> list[tuple[str, str]]:
    """Each `$ command` of a console block, and the output shown under it."""
    found = re.findall(r"^\$ (.+(?:(?<=\\)\n.+)*)\n((?:(?!\$ ).*\n)*)", text, re.M)
    return [(command, output.strip("\n") and output.rstrip("\n") + "\n") for command, output in found]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder with a copy of the examples, as a reader at the root of a clone would see them."""
    if (REPOSITORY / "examples").is_dir():
        shutil.copytree(REPOSITORY / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", pages_with("python"), ids=label)
@pytest.mark.usefixtures("folder")
def test_the_python_of_a_page_runs_in_order(page: Path) -> None:
    names: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(page, "python"):
        # The blank lines make a traceback point into the page.
        code = compile("\n" * block.line + block.text, str(page), "exec", dont_inherit=True)
        if block.runs:
            exec(code, names)


def test_the_example_in_the_docstring_of_the_package_runs() -> None:
    outcome = doctest.testmod(longturn)
    assert outcome.attempted > 0
    assert outcome.failed == 0


@pytest.mark.skipif(not (CLI / "__main__.py").is_file(), reason="there is no command line yet")
@pytest.mark.parametrize("page", pages_with("console"), ids=label)
def test_the_commands_of_a_page_run_and_print_what_is_shown(page: Path, folder: Path) -> None:
    scripts = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": scripts, "COLUMNS": "100", "NO_COLOR": "1"}
    for block in blocks(page, "console"):
        for command, shown in commands(block.text) if block.runs else []:
            if command.startswith("longturn"):
                done = subprocess.run(command, shell=True, cwd=folder, env=environment, capture_output=True, text=True)
                assert done.returncode == 0, f"{label(page)}: {command}\n{done.stderr}"
                printed = done.stdout + done.stderr
                assert not shown or CHECKER.check_output(shown, printed, doctest.ELLIPSIS), f"{command}\n{printed}"


@pytest.mark.skipif(not (CLI / "reference.py").is_file(), reason="there is no command line yet")
def test_the_command_reference_is_the_one_the_program_writes() -> None:
    written = subprocess.run(
        [sys.executable, "-m", "longturn.cli.reference"], capture_output=True, text=True, check=True
    ).stdout
    assert (REPOSITORY / "docs" / "cli.md").read_text(encoding="utf-8") == written, "run `make reference`"


@pytest.mark.parametrize("kind", DOCUMENTED)
def test_everything_a_user_can_name_is_documented(kind: str) -> None:
    pages = "\n".join(page.read_text(encoding="utf-8") for page in PAGES[1:])
    words = {word for code in re.findall(r"`([^`\n]+)`", pages) for word in re.findall(r"\w+", code)}
    assert [name for name in DOCUMENTED[kind] if name not in words] == []


def test_every_page_stands_in_the_navigation() -> None:
    navigation = (REPOSITORY / "properdocs.yml").read_text(encoding="utf-8")
    assert [page.name for page in PAGES[1:] if page.name not in navigation] == []
