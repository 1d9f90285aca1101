"""Connections to SQLite and PostgreSQL as a store needs them, and the migration of its tables."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from sqlalchemy import Connection, Table, event, inspect, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from longturn.errors import StoreError
from longturn.stores.faults import told
from longturn.stores.schema import VERSION_TABLE, VERSIONS

POOL = 8
"""Connections at most. PostgreSQL takes 100 from all its clients unless it is told otherwise."""
PATIENCE = 30
"""Seconds to wait for another process's lock, for a connection of the pool, and for a server to answer."""
LOCK = 0x6C6F6E67
"""Of PostgreSQL's advisory locks: taken by all who write, alone by who migrates or deletes."""

PRAGMAS = (
    f"PRAGMA busy_timeout = {PATIENCE * 1000}",
    "PRAGMA foreign_keys = ON",
    # WAL alone would survive a killed process; FULL also survives a power cut.
    "PRAGMA synchronous = FULL",
    # People's data: what is deleted is overwritten.
    "PRAGMA secure_delete = ON",
)
NEW_FILE = ("PRAGMA auto_vacuum = INCREMENTAL", "PRAGMA journal_mode = WAL")
# As scripts, since sqlite3 takes one step of a statement without columns, and each step of this vacuum frees one page.
# Who reads or writes meanwhile is not waited for long: the next time does it.
CLEANING = (
    "PRAGMA busy_timeout = 1000",
    "PRAGMA incremental_vacuum",
    "PRAGMA wal_checkpoint(TRUNCATE)",
    PRAGMAS[0],
)
INSERTS: Mapping[str, Callable[[Table], Any]] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}
BEGIN = "longturn_begin"
"""The execution option that says how a transaction begins in SQLite; "" leaves it out."""


@dataclass(frozen=True, slots=True)
class Database:
    """An engine, and how to read, write and clean with it.

    place: where it is, without a password. writers: SQLite takes one writer at a time; waiting for one's turn here is
    fair and costs nothing, waiting in SQLite is neither. running: calls that have not ended.
    """

    place: str
    engine: AsyncEngine
    writers: asyncio.Semaphore
    running: set[asyncio.Task[Any]] = field(default_factory=set)

    @property
    def is_sqlite(self) -> bool:
        """Whether it is a file of SQLite; else it is PostgreSQL."""
        return self.engine.dialect.name == "sqlite"

    def insert(self, table: Table) -> Any:
        """The dialect's own insert, which knows what to do on a conflict."""
        return INSERTS[self.engine.dialect.name](table)

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """A transaction that sees one moment of the store."""
        options = {BEGIN: "BEGIN"} if self.is_sqlite else {"isolation_level": "REPEATABLE READ"}
        with told(self.place):
            async with self.engine.execution_options(**options).connect() as db:
                yield db

    @asynccontextmanager
    async def writing(self, *, alone: bool = False) -> AsyncIterator[AsyncConnection]:
        """A transaction that is on disk when the block is left, and leaves nothing when the block raises.

        alone: no other writer meanwhile, in any process.
        """
        with told(self.place):
            async with self.writers, self.engine.execution_options(**{BEGIN: "BEGIN IMMEDIATE"}).begin() as db:
                if not self.is_sqlite:
                    await db.execute(text(f"SELECT pg_advisory_xact_lock{'' if alone else '_shared'}({LOCK})"))
                yield db

    async def clean(self) -> None:
        """Give back what was deleted: SQLite's file shrinks and its write-ahead log is emptied.

        A reader may hold the latter up until the next time. PostgreSQL does the same by itself (autovacuum).
        """
        if not self.is_sqlite:
            return
        with told(self.place):
            async with self.writers, self.engine.execution_options(**{BEGIN: ""}).connect() as db:
                driver: Any = (await db.get_raw_connection()).driver_connection
                for script in CLEANING:
                    try:
                        await driver.executescript(script)
                    except sqlite3.OperationalError as error:
                        if not error.sqlite_errorname.startswith("SQLITE_BUSY"):
                            raise

    async def close(self) -> None:
        """Close the connections, once the calls that run have ended, or are out of patience."""
        if self.running:
            await asyncio.wait(self.running, timeout=PATIENCE)
        await self.engine.dispose()

    async def damage(self) -> list[str]:
        """What the database itself finds wrong with its file; PostgreSQL keeps checksums and says it when it reads."""
        if not self.is_sqlite:
            return []
        async with self.reading() as db:
            return [found for (found,) in await db.exec_driver_sql("PRAGMA integrity_check(20)") if found != "ok"]


class _Stored(Protocol):
    @property
    def database(self) -> Database: ...


_Of = TypeVar("_Of", bound=_Stored)
_Given = ParamSpec("_Given")
_Found = TypeVar("_Found")
_Method = Callable[Concatenate[_Of, _Given], Coroutine[Any, Any, _Found]]


def unbroken(method: _Method[_Of, _Given, _Found]) -> _Method[_Of, _Given, _Found]:
    """A method that runs to its end even where its caller is cancelled meanwhile.

    SQLite keeps the lock of a connection that is torn off in the middle of a statement as long as anything still points
    at the statement, such as the traceback of the cancellation.
    """

    @wraps(method)
    async def whole(self: _Of, /, *args: _Given.args, **kwargs: _Given.kwargs) -> _Found:
        task = asyncio.ensure_future(method(self, *args, **kwargs))
        self.database.running.add(task)
        task.add_done_callback(self.database.running.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            # Nobody is left to be told what it raises.
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
            raise

    return whole


async def opened(where: str | Path) -> Database:
    """A database with the tables of this version in it; raises StoreError."""
    url = _url(where)
    place = str(url.database) if url.get_backend_name() == "sqlite" else url.render_as_string(hide_password=True)
    with told(place):
        if url.get_backend_name() == "sqlite":
            await asyncio.to_thread(_probe, place)
        engine = _connections(url, place)
        database = Database(place, engine, asyncio.Semaphore(1 if url.get_backend_name() == "sqlite" else POOL))
        try:
            await _migrate(database)
        except BaseException:
            await engine.dispose()
            raise
    return database


def _probe(path: str) -> None:
    """Open the file once, plainly: the thread of an aiosqlite connection that fails outlives it, and its loop."""
    connection = sqlite3.connect(path)
    try:
        connection.execute("PRAGMA schema_version")
    finally:
        connection.close()


def _url(where: str | Path) -> URL:
    if isinstance(where, Path) or "://" not in where:
        return URL.create("sqlite+aiosqlite", database=str(Path(where).expanduser()))
    try:
        url = make_url(where)
    except (ArgumentError, ValueError) as error:
        raise StoreError(
            f"the URL of a store cannot be read ({error}): use a path, sqlite:///PATH or postgresql://..."
        ) from error
    backend = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg"}.get(
        url.get_backend_name()
    )
    if backend is None:
        raise StoreError(
            f"no store is kept in {url.get_backend_name()}: use a path, sqlite:///PATH or postgresql://..."
        )
    if backend.startswith("sqlite") and url.database in (None, "", ":memory:"):
        raise StoreError("a store is a file, SQLite's memory would not outlive it: use sqlite:///PATH")
    return url.set(drivername=backend)


def _connections(url: URL, place: str) -> AsyncEngine:
    is_sqlite = url.get_backend_name() == "sqlite"
    # SQL's values are what people said: they are no part of an error. A server may have been away since the last call.
    options: dict[str, Any] = {"hide_parameters": True, "pool_size": POOL, "max_overflow": 0, "pool_timeout": PATIENCE}
    if not is_sqlite:
        options |= {"pool_pre_ping": True}
        url = url.update_query_dict({"connect_timeout": str(PATIENCE), **url.query})
    try:
        engine = create_async_engine(url, **options)
    except ModuleNotFoundError as error:
        extra = "stores" if is_sqlite else "postgres"
        raise StoreError(f"the store at {place} needs {error.name}: pip install 'longturn[{extra}]'") from error
    event.listen(engine.sync_engine, "connect", _set_up_sqlite if is_sqlite else _set_up_postgresql)
    if is_sqlite:
        event.listen(engine.sync_engine, "begin", _begin)
    return engine


def _set_up_sqlite(connection: Any, record: object) -> None:
    # Python 3.11's sqlite3 would begin transactions by itself, and too late.
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in PRAGMAS:
        cursor.execute(pragma)
    cursor.execute("PRAGMA journal_mode")
    if cursor.fetchone() != ("wal",):
        for pragma in NEW_FILE:
            cursor.execute(pragma)
    cursor.close()


def _set_up_postgresql(connection: Any, record: object) -> None:
    cursor = connection.cursor()
    cursor.execute(
        "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
    )
    cursor.close()
    connection.commit()


def _begin(connection: Connection) -> None:
    statement = connection.get_execution_options().get(BEGIN, "BEGIN")
    if statement:
        connection.exec_driver_sql(statement)


async def _migrate(database: Database) -> None:
    async with database.reading() as db:
        found = await db.run_sync(_version)
    if found != VERSIONS[-1]:
        # Another process may have been faster: the version is read again where nobody else writes.
        async with database.writing(alone=True) as db:
            found = await db.run_sync(_version)
            if found not in (None, *VERSIONS):
                raise StoreError(
                    f"the store at {database.place} has version {found}, this longturn knows {VERSIONS[-1]} and older:"
                    " install a newer longturn (pip install -U longturn), or name another store; nothing was changed"
                )
            if found != VERSIONS[-1]:
                await db.run_sync(_upgrade)


def _version(connection: Connection) -> str | None:
    """The version of the tables; None where there are none."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    found: str | None = connection.scalar(text(f"SELECT version_num FROM {VERSION_TABLE}"))
    return found


def _upgrade(connection: Connection) -> None:
    # Alembic takes a while to import, and only a new store or a new version needs it.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
