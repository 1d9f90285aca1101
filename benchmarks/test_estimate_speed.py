"""How fast texts are measured, in MB/s of UTF-8, beside a loop over characters: `make bench`.

The figures are in `extra_info` (`--benchmark-json`); `times_the_loop` is the ratio to judge, machines differ.
"""

import sysconfig
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from longturn.core.tokens import estimate, features

LOG_LINE = "2026-11-30T12:40:07.113Z INFO  [worker-17] GET /api/v2/items/8f3a9c?page=12 200 431ms user_id=90417\n"
ARGUMENTS = '{"path": "src/app/handlers.py", "lines": "120-180"}'


def stdlib_sources() -> str:
    folder = Path(sysconfig.get_path("stdlib"))
    sources = [path.read_text(encoding="utf-8", errors="replace") for path in sorted(folder.glob("*.py"))]
    return "".join(sources).encode("ascii", "replace").decode()


TEXTS: dict[str, Callable[[], str]] = {
    "ascii-python": stdlib_sources,
    "ascii-log": lambda: LOG_LINE * 40_000,
    "chinese": lambda: "智能体的一次长对话必须放进模型的上下文窗口，旧的工具结果会被清除。" * 20_000,
    "cyrillic": lambda: "Все люди рождаются свободными и равными в своём достоинстве и правах. " * 20_000,
}


def one_by_one(text: str) -> int:
    """The plain rule as a loop over characters: what the passes over bytes are held against."""
    ascii_chars = cjk = other = 0
    for char in text:
        if char < "\x80":
            ascii_chars += 1
        elif "\u2e80" <= char <= "\u9fff" or "\uac00" <= char <= "\ud7ff":
            cjk += 1
        else:
            other += 1
    return ascii_chars // 4 + cjk + other // 2


def seconds(call: Callable[[], object], rounds: int = 3) -> float:
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


@pytest.mark.parametrize("kind", TEXTS)
def test_measuring_a_long_text(kind: str, benchmark: Any) -> None:
    text = TEXTS[kind]()
    benchmark.pedantic(features, args=(text,), rounds=7, warmup_rounds=1)
    best = benchmark.stats.stats.min
    benchmark.extra_info["mb_per_second"] = round(len(text.encode()) / best / 1e6, 1)
    benchmark.extra_info["times_the_loop"] = round(seconds(lambda: one_by_one(text)) / best, 1)


def test_estimating_the_arguments_of_a_call(benchmark: Any) -> None:
    benchmark(estimate, ARGUMENTS, model="gpt-5")
    loop = seconds(lambda: [one_by_one(ARGUMENTS) for _ in range(1_000)]) / 1_000
    benchmark.extra_info["microseconds"] = round(benchmark.stats.stats.min * 1e6, 2)
    benchmark.extra_info["times_the_loop"] = round(loop / benchmark.stats.stats.min, 2)
