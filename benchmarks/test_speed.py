"""Speed, memory and steadiness of fronts, beside other tools: `make bench` (or `pytest benchmarks --benchmark-only`).

Every subject runs in a process of its own on one conversation (workload.py), and reports CPU time; a tool that is not
installed is left out. What is not a time stands in `extra_info`. benchmarks/report.py makes the tables.
"""

import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import longturn
from benchmarks import workload
from benchmarks.workers import CLOCK, OURS, Subject, peers, running
from longturn.dialects.openai_chat import DIALECT

SIZES = (400, 1_600, 6_400)
STEADY = 230
"""Rounds after which the fronts are watched: just over the budget."""
ENOUGH = 4.0
"""Seconds of CPU that go into one figure of a slow subject."""
TOO_SLOW = 20.0
"""A subject that takes so many seconds for the smallest history is spared, as its user would be, all else."""
SPARED: dict[str, float] = {}


def repeats(seconds: float, most: int) -> int:
    """How often a call that takes so long is repeated."""
    return max(3, min(most, int(ENOUGH / max(seconds, 1e-6)))) if seconds < ENOUGH else 1


def spare(name: str) -> None:
    if name in SPARED:
        pytest.skip(f"{name} took {SPARED[name]:.0f} s for {SIZES[0]} rounds")


def introduce(subject: Subject, benchmark: Any, **more: object) -> None:
    benchmark.extra_info.update(subject.ask("hello"), **more)


@pytest.mark.parametrize("name", ["estimate_pass", "longturn_fit", *peers()])
@pytest.mark.parametrize("rounds", SIZES)
@pytest.mark.benchmark(timer=CLOCK.read)
def test_shaping_from_scratch(rounds: int, name: str, benchmark: Any) -> None:
    spare(name)
    benchmark.group = f"from scratch, {rounds} rounds"
    with running(name) as subject:
        subject.ask("load", rounds=20)
        subject.ask("apply")  # imports and caches
        loaded = subject.ask("load", rounds=rounds)
        introduce(subject, benchmark, rounds=rounds, **loaded)
        first = subject.ask("apply")["seconds"]
        benchmark.pedantic(subject.ask, args=("apply",), rounds=repeats(first, 20))
        if name == "longturn_fit":
            pairs = [subject.ask("extra", name="beside_estimate") for _ in range(15)]
            benchmark.extra_info["times_estimate"] = sorted(pair["seconds"] / pair["estimate"] for pair in pairs)
        if name != "estimate_pass" and rounds == SIZES[0]:
            benchmark.extra_info["window"] = described(subject.ask("window")["messages"], rounds)
        if first > TOO_SLOW:
            SPARED[name] = first
        elif name != "estimate_pass":
            benchmark.extra_info.update(subject.ask("memory"))


def described(window: list[workload.Message], rounds: int) -> dict[str, object]:
    """What is left of a conversation: its size by a neutral ruler, results, the request, what a provider refuses."""
    given = workload.history(rounds)
    results = {message["tool_call_id"]: message["content"] for message in given if message["role"] == "tool"}
    kept = [message for message in window if message["role"] == "tool"]
    return {
        "tokens": workload.tokens_of(window),
        "calls": sum(bool(message.get("tool_calls")) for message in window),
        "results": len(kept),
        "whole": sum(message["content"] == results.get(message.get("tool_call_id")) for message in kept),
        "request": any(message["role"] == "user" and message["content"] == given[1]["content"] for message in window),
        "problems": len(DIALECT.problems(window)),
    }


@pytest.mark.parametrize("name", ["longturn_fitter", "longturn_seed", *peers()])
@pytest.mark.parametrize("rounds", [SIZES[0], SIZES[-1]])
@pytest.mark.benchmark(timer=CLOCK.read)
def test_one_more_round(rounds: int, name: str, benchmark: Any) -> None:
    spare(name)
    benchmark.group = f"one more round after {rounds}"
    with running(name) as subject:
        subject.ask("load", rounds=rounds, settle=True)
        introduce(subject, benchmark, rounds=rounds)
        first = subject.ask("more")["seconds"]
        many = 600 if name in OURS else repeats(first, 100)
        benchmark.pedantic(subject.ask, args=("more",), rounds=many)
        seconds = benchmark.stats.stats.sorted_data
        benchmark.extra_info["rounds_timed"] = len(seconds)
        benchmark.extra_info["p99"] = seconds[-(len(seconds) // 100) - 1]


@pytest.mark.parametrize("what", ["refold", "loaded"])
@pytest.mark.benchmark(group="6400 rounds on remembered counts", timer=CLOCK.read)
def test_folding_on_remembered_counts(what: str, benchmark: Any) -> None:
    with running("longturn_fitter") as subject:
        subject.ask("load", rounds=SIZES[-1])
        benchmark.pedantic(subject.ask, args=("extra",), kwargs={"name": what}, rounds=7, warmup_rounds=1)


@pytest.mark.benchmark(group="one huge string", timer=CLOCK.read)
def test_a_result_of_a_hundred_million_characters(benchmark: Any) -> None:
    with running("longturn_fit") as subject:
        found = benchmark.pedantic(subject.ask, args=("extra",), kwargs={"name": "one_huge_string"}, rounds=2)
        benchmark.extra_info.update({key: found[key] for key in ("bytes", "peak")})


@pytest.mark.parametrize("name", ["longturn_fitter", "longturn_seed", *peers()])
@pytest.mark.benchmark(group=f"fronts after {STEADY} rounds", timer=CLOCK.read)
def test_how_much_of_a_request_stood_in_the_last_one(name: str, benchmark: Any) -> None:
    spare(name)
    sent: list[dict[str, Any]] = []
    with running(name) as subject:
        subject.ask("load", rounds=STEADY, settle=True)
        introduce(subject, benchmark)
        first = subject.ask("more", front=True)["seconds"]
        benchmark.pedantic(lambda: sent.append(subject.ask("more", front=True)), rounds=200 if first < 0.1 else 40)
    tokens = [step["tokens"] for step in sent]
    fresh = [step["tokens"] - step["cached"] for step in sent]
    shares = [step["cached"] / max(1, step["tokens"]) for step in sent]
    benchmark.extra_info |= {
        "steps": len(sent),
        "cached_share": 1 - sum(fresh) / sum(tokens),
        "broken": sum(share < 0.5 for share in shares),
        "fresh_mean": sum(fresh) / len(fresh),
        "fresh_max": max(fresh),
        "sent_min": min(tokens),
        "sent_max": max(tokens),
    }


PACKAGE = Path(longturn.__file__).parent
PURE = [
    f"longturn.{path.parent.name}.{path.stem}"
    for part in ("core", "dialects")
    for path in (PACKAGE / part).glob("*.py")
]
# A bare package stands in for `longturn`, whose public names bring the catalog with them.
STAND_IN = f"""
import sys
package = sys.modules["longturn"] = type(sys)("longturn")
package.__path__ = [{str(PACKAGE)!r}]
import {", ".join(name.removesuffix(".__init__") for name in PURE)}
"""
IMPORTS: dict[str, str] = {"nothing": "", "core and dialects": STAND_IN, "longturn": "import longturn"}
LOADED = "\nimport sys; print(*sorted({m.partition('.')[0] for m in sys.modules} - sys.stdlib_module_names))"


def children() -> float:
    """CPU seconds of the processes that have been waited for."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def start(program: str) -> Callable[[], str]:
    command = [sys.executable, "-c", program]
    return lambda: subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("what", IMPORTS)
@pytest.mark.benchmark(group="starting Python and importing", timer=children)
def test_importing(what: str, benchmark: Any) -> None:
    benchmark.pedantic(start(IMPORTS[what]), rounds=15, warmup_rounds=1)
    bare = set(start(LOADED)().split())
    benchmark.extra_info["foreign"] = sorted(set(start(IMPORTS[what] + LOADED)().split()) - bare - {"longturn"})
