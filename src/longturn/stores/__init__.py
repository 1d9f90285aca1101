"""Durable sessions in SQLite or PostgreSQL: a log that only grows, hashes each entry, and is forked by sharing.

Needs `longturn[stores]`, and `longturn[postgres]` for PostgreSQL.
"""

from longturn.stores.records import Entry, Head, Log, New, Problem, Removed
from longturn.stores.store import Store

__all__ = ["Entry", "Head", "Log", "New", "Problem", "Removed", "Store"]
