"""The tables are made and migrated when a store is opened; a newer version's are left alone."""

import subprocess
import sys
from importlib.resources import files

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from longturn.errors import StoreError
from longturn.stores import New, Store
from longturn.stores.schema import METADATA, VERSION_TABLE, VERSIONS

pytestmark = pytest.mark.anyio


def differences(connection: Connection) -> list[object]:
    context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE, "compare_type": True})
    return list(compare_metadata(context, METADATA))


async def test_migrating_makes_the_tables_that_the_queries_are_written_for(store: Store) -> None:
    async with store.database.engine.connect() as db:
        assert await db.run_sync(differences) == []


def test_the_migrations_in_the_package_are_the_versions_it_knows() -> None:
    script = ScriptDirectory(str(files("longturn.stores") / "migrations"))
    assert tuple(step.revision for step in script.walk_revisions())[::-1] == VERSIONS


async def test_a_store_of_a_newer_version_is_refused_with_both_versions_and_left_alone(place: str) -> None:
    async with await Store.open(place) as store:
        await store.append(await store.create("s"), [New("message", "kept")])
        async with store.database.writing() as db:
            await db.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '0999'"))
    with pytest.raises(StoreError, match=rf"has version 0999, this longturn knows {VERSIONS[-1]}.*pip install -U"):
        await Store.open(place)
    with pytest.raises(StoreError, match="0999"):
        await Store.open(place)


async def test_a_store_lives_beside_the_tables_of_another_program(place: str) -> None:
    async with await Store.open(place) as store, store.database.writing() as db:
        await db.execute(text("CREATE TABLE sessions (id INTEGER)"))
        await db.execute(text("CREATE TABLE alembic_version (version_num INTEGER)"))
    async with await Store.open(place) as store:
        await store.create("s")


def test_a_store_is_imported_without_pydantic_ai_alembic_or_a_driver_of_the_other_database() -> None:
    program = "import sys, longturn; print('sqlalchemy' in sys.modules); import longturn.stores; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    first, loaded = done.stdout.splitlines()
    assert first == "False"
    assert not {"pydantic_ai", "alembic", "psycopg"} & set(loaded.split())
