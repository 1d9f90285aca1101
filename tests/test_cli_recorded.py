"""Every recorded log through `fit` and `inspect`: what comes out is strict JSON, and valid for its dialect."""

import json
from pathlib import Path
from typing import Any

import pytest

from longturn.cli.__main__ import run
from longturn.dialects.logs import load
from longturn.dialects.registry import by_name
from longturn.inspection import inspect

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "data" / "transcripts"
FILES = [path.relative_to(FOLDER).as_posix() for path in sorted(FOLDER.rglob("*")) if path.is_file()]


def strict(text: str) -> Any:
    """JSON as the standard has it, without NaN and Infinity."""

    def refuse(constant: str) -> object:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.fixture
def transcripts(shared: Path) -> Path:
    return shared / "data" / "transcripts"


@pytest.mark.parametrize("budget", ["8k", "32k"])
@pytest.mark.parametrize("name", FILES)
def test_a_recorded_log_is_fitted_to_a_request_that_its_provider_takes(
    name: str, budget: str, transcripts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["fit", str(transcripts / name), "--budget", budget, "--run", "1"]) == 0
    seen = capsys.readouterr()
    body = strict(seen.out)
    found = load((transcripts / name).read_bytes())[0]
    dialect = by_name(found.dialect)
    messages = body if isinstance(body, list) else body[dialect.request.messages[0][0]]
    assert dialect.problems(messages) == []
    assert "tokens are sent" in seen.err


@pytest.mark.parametrize("name", FILES)
def test_a_recorded_log_is_inspected_and_its_parts_add_up(
    name: str, transcripts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["inspect", str(transcripts / name), "--json"]) == 0
    found = strict(capsys.readouterr().out)
    tokens = found["tokens"]
    assert tokens["total"] == sum(tokens.values()) - tokens["total"] > 0
    runs = found.get("runs", [found])
    assert len(runs) == len(load((transcripts / name).read_bytes()))
    assert sum(each["tokens"]["total"] for each in runs) == tokens["total"]
    assert run(["inspect", str(transcripts / name)]) == 0
    assert f"about {tokens['total']:,} tokens" in capsys.readouterr().out


def test_our_count_is_held_against_what_the_provider_reported(transcripts: Path) -> None:
    found = load((transcripts / "codex" / "rollout-102-rounds.jsonl").read_bytes())[0]
    seen = inspect(found.messages, model=found.model, system=found.system, dialect=found.dialect, usage=found.usage)
    assert seen.reported is not None
    assert seen.reported.calls == 66
    assert 0.9 < seen.reported.estimated_input / seen.reported.largest_input < 1.25
