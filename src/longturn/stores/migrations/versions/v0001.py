"""The first schema."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "longturn_contents",
        sa.Column("digest", sa.Text, primary_key=True),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    _log()
    _sessions()
    op.create_table(
        "longturn_branches",
        sa.Column("session", sa.Text, sa.ForeignKey("longturn_sessions.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("entry", sa.Text, sa.ForeignKey("longturn_entries.id"), nullable=False, index=True),
    )
    op.create_table(
        "longturn_charges",
        sa.Column("family", sa.Text, primary_key=True),
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("parent", sa.Text),
        sa.Column("length", sa.Integer, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("cost_usd", sa.Double),
        sa.Column("input_tokens", sa.BigInteger, nullable=False),
        sa.Column("output_tokens", sa.BigInteger, nullable=False),
        sa.Column("cached_tokens", sa.BigInteger, nullable=False),
        sa.Column("written_tokens", sa.BigInteger, nullable=False),
        sa.Column("reasoning_tokens", sa.BigInteger, nullable=False),
        sa.Column("created", sa.BigInteger, nullable=False),
        sa.ForeignKeyConstraint(["family", "parent"], ["longturn_charges.family", "longturn_charges.id"]),
    )


def _log() -> None:
    op.create_table(
        "longturn_entries",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("parent", sa.Text, sa.ForeignKey("longturn_entries.id"), index=True),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, sa.ForeignKey("longturn_contents.digest"), nullable=False, index=True),
        sa.Column("created", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    keyed = sa.text("key != ''")
    op.create_index("ix_longturn_entries_key", "longturn_entries", ["key"], postgresql_where=keyed, sqlite_where=keyed)


def _sessions() -> None:
    op.create_table(
        "longturn_sessions",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column(
            "entry", sa.Text, sa.ForeignKey("longturn_entries.id", deferrable=True, initially="DEFERRED"), index=True
        ),
        sa.Column("length", sa.Integer, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("family", sa.Text, nullable=False, index=True),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("parent", sa.Text, index=True),
        sa.Column("forked_at", sa.Text),
        sa.Column("charge", sa.Text),
        sa.Column("scope", sa.Text),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("info", sa.LargeBinary, nullable=False),
        sa.Column("created", sa.BigInteger, nullable=False),
        sa.Column("updated", sa.BigInteger, nullable=False),
    )
    op.create_index("ix_longturn_sessions_scope", "longturn_sessions", ["scope", "updated"])
    op.create_index("ix_longturn_sessions_updated", "longturn_sessions", ["updated"])
