"""What is deleted is gone, from the file too; what is shared stays; retention by age."""

import asyncio
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from longturn.stores import New, Removed, Store

pytestmark = pytest.mark.anyio


def message(text: str) -> New:
    return New("message", {"content": text})


async def test_a_deleted_session_takes_along_what_only_it_had(store: Store) -> None:
    one = await store.append(await store.create("one"), [message("shared"), message("mine")])
    await store.append(await store.create("two"), [message("shared"), message("other")])
    await store.fork("one", "fork", at=(await store.read("one")).entries[0].id)
    await store.append(one, [message("mine too"), message("other")])
    # "other" stays as a content, since the second session has one that says the same.
    assert await store.delete("one") == Removed(sessions=1, entries=3, contents=2)
    assert await store.head("one") is None
    assert [entry.body["content"] for entry in (await store.read("fork")).entries] == ["shared"]
    assert await store.verify() == []
    assert await store.delete("one") == Removed()
    await store.delete("two")
    assert await store.delete("fork") == Removed(1, 1, 1)
    assert await store.verify() == []


async def test_subagents_are_deleted_with_the_session_they_work_for(store: Store) -> None:
    for parent, name in ((None, "a"), ("a", "b"), ("b", "c")):
        await store.append(await store.create(name, subagent_of=parent), [message(name)])
    await store.fork("a", "fork")
    await store.fork("c", "kept")
    assert [head.session for head in await store.sessions(parent="a")] == ["fork", "b"]
    assert (await store.delete("a")).sessions == 3
    assert sorted(head.session for head in await store.sessions()) == ["fork", "kept"]
    assert await store.verify() == []


async def test_sessions_expire_by_age_and_subagents_with_their_parents(place: str) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    times = [now]
    async with await Store.open(place, clock=lambda: times[-1]) as store:
        await store.append(await store.create("old"), [message("old")])
        fresh = await store.create("fresh")
        await store.append(await store.create("worker", subagent_of="fresh"), [message("worker")])
        await store.create("old worker", subagent_of="old")
        times.append(now + timedelta(days=20))
        await store.append(fresh, [message("fresh")])
        times.append(now + timedelta(days=31))
        assert await store.expire(timedelta(days=30)) == Removed(2, 1, 1)
        assert sorted(head.session for head in await store.sessions()) == ["fresh", "worker"]
        assert await store.expire(timedelta(days=30)) == Removed()
        assert await store.verify() == []


@pytest.mark.parametrize("how", ["delete", "expire"])
async def test_deleted_text_is_in_no_file_of_sqlite_any_more(tmp_path: Path, how: str) -> None:
    secret = "the patient's name " * 400
    async with await Store.open(tmp_path / "s.db") as store:
        await store.append(await store.create("kept"), [message("kept")])
        head = await store.create("s", title="titled secret")
        for number in range(30):
            head = await store.append(head, [message(secret + str(number))])
        size = (tmp_path / "s.db").stat().st_size
        await (store.delete("s") if how == "delete" else store.expire(timedelta(seconds=-1)))
        files = {path.name: path.read_bytes() for path in tmp_path.iterdir() if not path.name.endswith("-shm")}
        assert "s.db" in files
        assert [name for name, data in files.items() if b"patient" in data or b"titled secret" in data] == []
        # Most was still in the write-ahead log when the size was taken.
        assert (tmp_path / "s.db").stat().st_size <= max(size, 100_000)
        assert await store.verify() == []


async def test_a_message_that_is_recorded_while_its_twin_is_deleted_is_not_lost(store: Store) -> None:
    for number in range(15):
        await store.append(await store.create(f"old{number}"), [message("same"), message(f"same {number}")])
        new = await store.create(f"new{number}")
        appended, _ = await asyncio.gather(
            store.append(new, [message("same"), message(f"same {number}")]), store.delete(f"old{number}")
        )
        log = await store.read(f"new{number}")
        assert (log.problems, len(log.entries), log.head) == ((), 2, appended)
    assert await store.verify() == []


async def test_a_reader_in_another_process_does_not_stop_a_deletion(tmp_path: Path) -> None:
    """It keeps the old text in the write-ahead log; the next deletion empties that."""
    async with await Store.open(tmp_path / "s.db") as store:
        await store.append(await store.create("s"), [message("a secret")])
        reader = sqlite3.connect(tmp_path / "s.db", isolation_level=None)
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM longturn_entries").fetchone() == (1,)
        assert (await store.delete("s")).sessions == 1
        reader.rollback()
        reader.close()
        await store.expire(timedelta(days=1))
        assert (tmp_path / "s.db-wal").stat().st_size == 0
        assert b"a secret" not in (tmp_path / "s.db").read_bytes()
