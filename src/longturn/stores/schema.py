"""The tables of a store, the same in every database; `migrations` makes them, and a test holds the two together."""

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
)

VERSIONS = ("0001",)
"""The schema's versions, oldest first; the last is the one that this longturn writes."""
VERSION_TABLE = "longturn_version"

METADATA = MetaData()

# What entries hold, once each: JSON in UTF-8 as it was written, since a window must come back byte for byte (L9). Bytes
# and not text, so that a damaged row can still be read, and told apart by its digest.
contents = Table(
    "longturn_contents",
    METADATA,
    Column("digest", Text, primary_key=True),
    Column("body", LargeBinary, nullable=False),
)

# The log. An id is the hash of the row and of its parent's id, so it stands for everything up to here. Times are
# microseconds since 1970 in UTC.
entries = Table(
    "longturn_entries",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("parent", Text, ForeignKey("longturn_entries.id"), index=True),
    Column("position", Integer, nullable=False),
    Column("kind", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("digest", Text, ForeignKey("longturn_contents.digest"), nullable=False, index=True),
    Column("created", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)
Index("ix_longturn_entries_key", entries.c.key, postgresql_where=entries.c.key != "", sqlite_where=entries.c.key != "")

# A session is a name for an entry. `parent` is text: a fork outlives what it was forked from. A family is a session
# and its forks; what was spent is kept for all of them (S13).
sessions = Table(
    "longturn_sessions",
    METADATA,
    Column("id", Text, primary_key=True),
    # Looked at when all is written: a session is moved first, so that a conflict is found before anything is.
    Column("entry", Text, ForeignKey("longturn_entries.id", deferrable=True, initially="DEFERRED"), index=True),
    Column("length", Integer, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("family", Text, nullable=False, index=True),
    Column("kind", Text, nullable=False),
    Column("parent", Text, index=True),
    Column("forked_at", Text),
    Column("charge", Text),
    Column("scope", Text),
    Column("title", Text, nullable=False),
    Column("info", LargeBinary, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("updated", BigInteger, nullable=False),
    Index("ix_longturn_sessions_scope", "scope", "updated"),
    Index("ix_longturn_sessions_updated", "updated"),
)

# Ends of lines that a conversation left and may go back to (Pydantic AI's `branches`).
branches = Table(
    "longturn_branches",
    METADATA,
    Column("session", Text, ForeignKey("longturn_sessions.id", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("entry", Text, ForeignKey("longturn_entries.id"), nullable=False, index=True),
)

# `length`: how many entries the session had once the charge was recorded, so that a fork knows what it inherits.
charges = Table(
    "longturn_charges",
    METADATA,
    Column("family", Text, primary_key=True),
    Column("id", Text, primary_key=True),
    Column("parent", Text),
    Column("length", Integer, nullable=False),
    Column("kind", Text, nullable=False),
    Column("cost_usd", Double),
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("cached_tokens", BigInteger, nullable=False),
    Column("written_tokens", BigInteger, nullable=False),
    Column("reasoning_tokens", BigInteger, nullable=False),
    Column("created", BigInteger, nullable=False),
    ForeignKeyConstraint(["family", "parent"], ["longturn_charges.family", "longturn_charges.id"]),
)
