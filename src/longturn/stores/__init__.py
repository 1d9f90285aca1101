"""Durable sessions in SQLite or PostgreSQL: a log that only grows, hashes each entry, and is forked by sharing.

Needs `longturn[stores]`, and `longturn[postgres]` for PostgreSQL.
"""

try:
    from longturn.stores.store import Store
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in ("sqlalchemy", "greenlet"):
        raise
    raise ModuleNotFoundError("stores need SQLAlchemy: pip install 'longturn[stores]'", name=error.name) from error

from longturn.stores.records import Entry, Head, Log, New, Problem, Removed

__all__ = ["Entry", "Head", "Log", "New", "Problem", "Removed", "Store"]
