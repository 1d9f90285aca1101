"""What goes wrong outside: full disks, servers gone, damaged files and rows; all is told, nothing is half written."""

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from sqlalchemy import text

from longturn.errors import StoreError
from longturn.stores import New, Store
from tests.stores.conftest import Postgres
from tests.stores.writer import fill, heard, part, started, without_rights

pytestmark = pytest.mark.anyio

NOBODY = 65534


async def five(store: Store) -> list[str]:
    """A session "s" of five messages, and their ids."""
    await store.append(await store.create("s"), [New("message", f"m{number}") for number in range(5)])
    return [entry.id for entry in (await store.read("s")).entries]


def test_a_full_disk_is_told_and_the_session_goes_on_with_room(tmp_path: Path) -> None:
    child, told = started(fill, str(tmp_path / "s.db"), 600_000)
    (error, length), (is_head_same, after) = heard(told)
    child.join()
    assert "free some room and try again" in error
    assert length > 0
    assert is_head_same
    assert after == length + len(part(0))


async def test_a_full_disk_of_a_server_is_told_and_leaves_nothing_of_the_write(postgres: Postgres) -> None:
    """The error is the server's own, raised by a trigger after the contents are in."""
    place = postgres.place()
    async with await Store.open(place) as store:
        head = await store.append(await store.create("s"), part(0))
        postgres.execute(
            place,
            "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN RAISE EXCEPTION 'No space left on device' USING ERRCODE = '53100'; END $$",
            "CREATE TRIGGER full_disk BEFORE INSERT ON longturn_entries EXECUTE FUNCTION full_disk()",
        )
        with pytest.raises(StoreError, match=r"has no room left on its disk .*free some room"):
            await store.append(head, part(3))
        postgres.execute(place, "DROP TRIGGER full_disk ON longturn_entries")
        assert await store.head("s") == head
        assert await store.verify() == []
        assert (await store.append(head, part(3))).length == 6


async def test_a_server_that_is_gone_is_told_and_the_same_store_goes_on_when_it_is_back(postgres: Postgres) -> None:
    async with await Store.open(postgres.place()) as store:
        head = await store.append(await store.create("s"), part(0))
        postgres.crash()
        try:
            with pytest.raises(StoreError, match="go on once the database answers") as refused:
                await store.append(head, part(3))
            assert "m0" not in str(refused.value)
        finally:
            postgres.start()
        assert await store.head("s") == head
        assert (await store.append(head, part(3))).length == 6


async def test_a_connection_cut_in_the_middle_of_a_write_leaves_nothing_of_it(postgres: Postgres) -> None:
    async with await Store.open(postgres.place()) as store:
        head = await store.append(await store.create("s"), part(0))

        async def cut() -> None:
            async with store.database.writing() as db:
                await db.execute(text("DELETE FROM longturn_entries WHERE position = 2"))
                await db.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))

        with pytest.raises(StoreError, match=r"was shut down or is starting|lost its connection|cannot be reached"):
            await cut()
        assert await store.head("s") == head
        assert (await store.append(head, part(3))).length == 6


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("mysql://host/name", "no store is kept in mysql"),
        ("sqlite://", "a store is a file"),
        (
            "postgresql://user:secret@127.0.0.1:1/name",
            r"postgresql\+psycopg://user:\*\*\*@127.0.0.1:1/name.* cannot be reached",
        ),
        ("post gres://", "the URL of a store cannot be read"),
    ],
)
async def test_a_url_that_is_no_store_is_told_without_its_password(url: str, told: str) -> None:
    with pytest.raises(StoreError, match=told) as refused:
        await Store.open(url)
    assert "secret" not in str(refused.value)


async def test_a_database_that_does_not_exist_is_told(postgres: Postgres) -> None:
    with pytest.raises(StoreError, match=r"does not exist on that server.*createdb"):
        await Store.open(postgres.server.get_uri(database="nowhere"))


async def test_a_file_that_is_no_database_is_left_as_it_was(tmp_path: Path) -> None:
    where = tmp_path / "notes.txt"
    where.write_text("not a database, " * 100)
    with pytest.raises(StoreError, match=r"is not a SQLite database.*name another file"):
        await Store.open(where)
    assert where.read_text() == "not a database, " * 100


@pytest.mark.parametrize("where", ["nowhere/s.db", "."])
async def test_a_path_that_cannot_be_opened_is_told(tmp_path: Path, where: str) -> None:
    with pytest.raises(StoreError, match=r"cannot be opened.*check that its folder exists"):
        await Store.open(tmp_path / where)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may look into; pytest closes its own to others."""
    with TemporaryDirectory(prefix="longturn-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


async def test_a_read_only_file_is_read_and_an_append_is_refused(open_folder: Path) -> None:
    where = open_folder / "s.db"
    async with await Store.open(where) as store:
        await store.append(await store.create("s"), part(0))
        # A reader of a write-ahead log needs the files beside it, which are there while somebody has it open.
        for path in open_folder.iterdir():
            path.chmod(0o444)
        child, told = started(without_rights, str(where), 0 if os.getuid() else NOBODY)
        found = heard(told)
        child.join()
    assert found[0] == 3
    assert "is read-only here" in found[1]


async def test_a_damaged_file_is_told_by_verify_and_by_who_reads_it(tmp_path: Path) -> None:
    where = tmp_path / "s.db"
    async with await Store.open(where) as store:
        await store.append(await store.create("s"), [New("message", "x" * 3_000 + str(n)) for n in range(200)])
    raw = bytearray(where.read_bytes())
    raw[40_000:400_000] = os.urandom(360_000)
    where.write_bytes(raw)
    async with await Store.open(where) as store:
        problems = await store.verify()
        assert {"file"} <= {problem.where for problem in problems}
        try:
            assert (await store.read("s")).problems
        except StoreError as error:
            assert "restore a backup" in str(error)  # noqa: PT017


async def test_a_store_that_another_process_keeps_locked_is_told(tmp_path: Path) -> None:
    where = tmp_path / "s.db"
    async with await Store.open(where) as store:
        head = await store.create("s")
        other = sqlite3.connect(where, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        async with store.database.engine.execution_options(longturn_begin="").connect() as db:
            await db.exec_driver_sql("PRAGMA busy_timeout = 50")
        with pytest.raises(StoreError, match=r"is locked by another process.*try again"):
            await store.append(head, part(0))
        other.rollback()
        other.close()
        assert (await store.append(head, part(0))).length == 3


BODY = "UPDATE longturn_contents SET body = OTHER WHERE digest = '{digest}'"


async def test_a_session_opens_without_a_damaged_content_and_says_so(store: Store, tamper: Any) -> None:
    await five(store)
    damaged = (await store.read("s")).entries[2]
    await tamper(store, BODY.format(digest=damaged.digest))
    log = await store.read("s")
    assert [entry.body for entry in log.entries] == ["m0", "m1", "m3", "m4"]
    assert [(problem.where, problem.id) for problem in log.problems] == [("content", damaged.digest)]
    assert "damaged" in log.problems[0].text
    assert "entry 2" in log.problems[0].text
    assert [problem.id for problem in await store.verify()] == [damaged.digest]
    head = await store.append(log.head, [New("message", "after")])
    assert (await store.read("s", since=damaged.id)).entries[-1].id == head.entry


async def test_a_damaged_content_is_healed_when_it_is_recorded_again(store: Store, tamper: Any) -> None:
    await five(store)
    log = await store.read("s")
    await tamper(store, BODY.format(digest=log.entries[2].digest))
    await store.append(log.head, [New("message", "m2")])
    assert [entry.body for entry in (await store.read("s")).entries] == ["m0", "m1", "m2", "m3", "m4", "m2"]
    assert await store.verify() == []


@pytest.mark.parametrize(
    ("change", "left"),
    [
        ("UPDATE longturn_entries SET kind = 'event' WHERE id = '{2}'", ["m0", "m1", "m3", "m4"]),
        ("UPDATE longturn_entries SET parent = '{4}' WHERE id = '{2}'", ["m0", "m1", "m2", "m3", "m4"]),
        ("UPDATE longturn_entries SET parent = NULL WHERE id = '{2}'", ["m3", "m4"]),
        ("UPDATE longturn_entries SET position = 77 WHERE id = '{2}'", ["m0", "m1", "m3", "m4"]),
        ("UPDATE longturn_entries SET id = 'gone' WHERE id = '{2}'", ["m0", "m1", "m3", "m4"]),
        ("DELETE FROM longturn_entries WHERE id = '{2}'", ["m3", "m4"]),
        ("DELETE FROM longturn_entries WHERE id = '{4}'", []),
        ("DELETE FROM longturn_contents WHERE digest = (SELECT digest FROM longturn_entries WHERE id = '{2}')",
         ["m0", "m1", "m3", "m4"]),
    ],
)  # fmt: skip
async def test_a_session_opens_around_a_damaged_entry_and_says_so(
    store: Store, tamper: Any, change: str, left: list[str]
) -> None:
    ids = await five(store)
    await tamper(store, change.format(*ids))
    log = await store.read("s")
    assert sorted(entry.body for entry in log.entries) == left
    assert log.problems
    assert await store.verify()
    assert await store.verify("s") == list(log.problems)
    # It can still be deleted, and nothing stays behind.
    await store.delete("s")
    await store.sweep()
    assert await store.verify() == []
    assert (await store.append(await store.create("s"), part(0))).length == 3


async def test_a_circle_of_damaged_links_ends(store: Store, tamper: Any) -> None:
    ids = await five(store)
    await tamper(store, f"UPDATE longturn_entries SET parent = '{ids[4]}', position = 9 WHERE id = '{ids[2]}'")
    log = await store.read("s")
    assert {entry.body for entry in log.entries} >= {"m3", "m4"}
    assert log.problems
    await store.delete("s")
    await store.sweep()
    assert await store.verify() == []


async def test_damaged_info_is_read_as_empty_and_told(store: Store, tamper: Any) -> None:
    await store.create("s", info={"a": 1})
    await tamper(store, "UPDATE longturn_sessions SET info = '{oops'")
    head = await store.head("s")
    assert head is not None
    assert head.info == {}
    assert [(problem.where, problem.id) for problem in await store.verify()] == [("session", "s")]
