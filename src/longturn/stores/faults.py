"""What a database's errors mean, as a table, and how they become StoreErrors that say what to do."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from longturn.errors import StoreError


class Fault(NamedTuple):
    """Error codes that begin with `code` (SQLite's names, PostgreSQL's SQLSTATE), and what they mean.

    text: what the error says where it comes without a code, as psycopg's do while connecting.
    """

    code: str
    what: str
    advice: str
    text: str = "\0"


RESUME = "nothing of this write was kept; free some room and try again"
RESTORE = "stop writing to it, keep a copy, and restore a backup, or salvage it with sqlite3's .recover"
RECONNECT = "what was recorded before is safe; read the session's head and go on once the database answers"

FAULTS = (
    Fault("SQLITE_FULL", "has no room left on its disk", RESUME),
    Fault("SQLITE_IOERR", "cannot be read or written, the disk may be full", RESUME),
    Fault("SQLITE_READONLY", "is read-only here", "give this process the right to write to the file and its folder"),
    Fault(
        "SQLITE_CANTOPEN",
        "cannot be opened",
        "check that its folder exists and that this process may write to it",
        "unable to open database file",
    ),
    Fault("SQLITE_PERM", "may not be opened", "give this process the right to read and write it"),
    Fault(
        "SQLITE_NOTADB",
        "is not a SQLite database",
        "name another file; this one was left as it is",
        "file is not a database",
    ),
    Fault("SQLITE_CORRUPT", "is damaged", RESTORE, "database disk image is malformed"),
    Fault("SQLITE_BUSY", "is locked by another process", "nothing of this write was kept; try again"),
    Fault("SQLITE_LOCKED", "is locked", "nothing of this write was kept; try again"),
    Fault("SQLITE_TOOBIG", "cannot keep a content of that size", "record less of it"),
    Fault("SQLITE_CONSTRAINT", "refused what does not hold together", "read the session's head and try again"),
    Fault("53100", "has no room left on its disk", RESUME),
    Fault("53300", "has too many connections", "close some, or raise max_connections"),
    Fault("53", "has run out of a resource", RESUME),
    Fault("08", "lost its connection", RECONNECT),
    Fault("57P", "was shut down or is starting", RECONNECT),
    Fault("58", "met a fault of its system", RECONNECT),
    Fault(
        "3D",
        "does not exist on that server",
        "create it (createdb), or correct the URL",
        'database ".*" does not exist',
    ),
    Fault("28", "refused the user or password", "correct the URL", "no password supplied|authentication failed"),
    Fault(
        "42501", "does not let this user do that", "grant it what it needs: create in the schema, then read and write"
    ),
    Fault("25006", "is read-only", "connect to the primary server"),
    Fault("25P03", "closed a transaction that waited too long", "nothing of this write was kept; try again"),
    Fault("40", "could not order two writers", "nothing of this write was kept; read the session's head and try again"),
    Fault("55P03", "is locked by another process", "nothing of this write was kept; try again"),
    Fault("23", "refused what does not hold together", "read the session's head and try again"),
    Fault("XX", "is damaged", "stop writing to it and restore a backup"),
)
UNKNOWN = Fault("", "failed", "what was recorded before is safe; try again, and report it if it stays")

UNREACHABLE = Fault("", "cannot be reached", RECONNECT)


def fault_of(error: BaseException) -> Fault:
    """What a driver's error means."""
    code = getattr(error, "sqlite_errorname", None) or getattr(error, "sqlstate", None) or ""
    by_code = (fault for fault in FAULTS if code.startswith(fault.code)) if code else iter(())
    by_text = (fault for fault in FAULTS if re.search(fault.text, str(error)))
    return next(by_code, None) or next(by_text, UNKNOWN)


@contextmanager
def told(place: str) -> Iterator[None]:
    """Turns a database's errors into StoreErrors about the store at `place`; SQL and its values are not shown."""
    try:
        yield
    except DBAPIError as error:
        driver = error.orig or error
        fault = fault_of(driver)
        # psycopg gives no code where no server answered, or where the connection broke.
        if fault is UNKNOWN and isinstance(error, OperationalError) and not isinstance(driver, sqlite3.Error):
            fault = UNREACHABLE
        raise _store_error(place, fault, driver) from error
    except sqlite3.Error as error:
        raise _store_error(place, fault_of(error), error) from error
    except PoolTimeout as error:
        raise StoreError(f"the store at {place} is busy: no connection came free ({error}); try again") from error
    except SQLAlchemyError as error:
        raise _store_error(place, UNKNOWN, error) from error


def _store_error(place: str, fault: Fault, error: BaseException) -> StoreError:
    words = " ".join(str(error).split()) or type(error).__name__
    return StoreError(f"the store at {place} {fault.what} ({words}): {fault.advice}")
