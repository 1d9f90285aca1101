"""kill -9 of a process in mid-turn, at random points: no recorded message is lost, and the window is the same (L9)."""

import os
import random
import time

import pytest
from pydantic_ai.messages import repair_messages

from longturn.agent import DIALECT
from longturn.stores import Store
from tests.sessions.working import Reader, opened, started, work_on
from tests.stores.writer import heard

pytestmark = pytest.mark.anyio

KILLS = 40 if os.environ.get("HYPOTHESIS_PROFILE") == "nightly" else 4


async def test_killing_a_turn_anywhere_loses_at_most_the_running_call(place: str) -> None:
    """The child says at each call what it has recorded, and what the window is; the next child asks the same again."""
    chance = random.Random(KILLS)
    known = 0
    windows: dict[int, str] = {}
    for _ in range(KILLS):
        child, told = started(work_on, place)
        calls = []
        for _ in range(chance.randint(2, 9)):
            assert told.poll(60), "the child does not go on"
            calls.append(told.recv())
        time.sleep(chance.random() / 20)
        child.kill()
        child.join()
        for recorded, window in [*calls, *heard(told)]:
            assert recorded >= known
            known = recorded
            assert windows.setdefault(recorded, window) == window
        async with await Store.open(place) as store:
            log = await store.read("s", kinds=["message"])
            # What was told was on disk; behind it at most the answer to that call and the results of its tools.
            assert known <= len(log.entries) <= known + 2
            assert log.problems == ()
            assert await store.verify() == []
            session = await opened(Reader(), store)
            assert len(session.messages) == len(log.entries)
            assert DIALECT.problems(repair_messages(session.messages)) == []
    assert known > 2 * KILLS
