"""kill -9 at random points, by real processes: what an append returned for is there, and nothing is half there."""

import os
import random
import time
from pathlib import Path

import pytest

from longturn.stores import Store
from tests.stores.conftest import Postgres
from tests.stores.writer import PART, heard, open_only, started, write_on

pytestmark = pytest.mark.anyio

KILLS = 200 if os.environ.get("HYPOTHESIS_PROFILE") == "nightly" else 20


async def test_killing_the_writer_at_any_point_loses_no_recorded_message(place: str) -> None:
    """At most the append that ran is lost, `verify` finds nothing, and the next process goes on (L9)."""
    chance = random.Random(KILLS)
    known = 0
    for number in range(KILLS):
        child, told = started(write_on, place)
        if number % 4:
            assert told.poll(60), "the child could not open the store"
            time.sleep(chance.random() / 5)
        else:  # while it opens the store, or even makes its tables
            time.sleep(chance.random() / 2)
        child.kill()
        child.join()
        known = max([known, *heard(told)])
        async with await Store.open(place) as store:
            if not known and await store.head("s") is None:
                continue
            log = await store.read("s")
            assert log.problems == ()
            assert [entry.body["n"] for entry in log.entries] == list(range(log.head.length))
            assert log.head.length in {known, known + PART}
            known = log.head.length
            assert await store.verify() == []
    assert known > PART * KILLS


async def test_a_server_that_crashes_in_mid_write_loses_no_recorded_message(postgres: Postgres) -> None:
    place = postgres.place()
    for _ in range(3):
        child, told = started(write_on, place)
        assert told.poll(60)
        time.sleep(0.3)
        postgres.crash()
        child.join()
        postgres.start()
        known = max(heard(told))
        async with await Store.open(place) as store:
            log = await store.read("s")
            assert log.head.length in {known, known + PART}
            assert [entry.body["n"] for entry in log.entries] == list(range(log.head.length))
            assert await store.verify() == []


def test_many_processes_may_open_a_new_store_at_once(place: str) -> None:
    children = [started(open_only, place) for _ in range(6)]
    assert [heard(told) for _, told in children] == [[[]]] * 6
    for child, _ in children:
        child.join()
        assert child.exitcode == 0


@pytest.mark.parametrize("number", range(6))
async def test_a_store_whose_making_was_killed_can_be_made_again(tmp_path: Path, number: int) -> None:
    where = tmp_path / "new.db"
    child, told = started(open_only, str(where))
    time.sleep(0.05 * number)
    child.kill()
    child.join()
    assert heard(told) in ([], [[]])
    async with await Store.open(where) as store:
        await store.create("s")
        assert await store.verify() == []
