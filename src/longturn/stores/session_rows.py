"""The rows of sessions and of what they spent: found, compared, forked, deleted; in a transaction of the caller's."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import delete, insert, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from longturn.core.meter import Charge, Usage
from longturn.errors import SessionConflict, StoreError
from longturn.stores.lines import Wanted, read, release
from longturn.stores.records import Head, Removed, Row, encoded
from longturn.stores.schema import branches, charges, entries, sessions


def info_of(info: Mapping[str, Any]) -> bytes:
    """A session's own data as it is stored; raises StoreError where it is not JSON data."""
    try:
        return encoded(dict(info))
    except (TypeError, ValueError, RecursionError) as error:
        raise StoreError(f"the info of a session is not JSON data, so nothing was recorded: {error}") from error


async def find(db: AsyncConnection, session: str, *, lock: bool = False) -> Row | None:
    """A session's row, or None. lock: nobody else changes it until the transaction ends."""
    query = select(sessions).where(sessions.c.id == session)
    return (await db.execute(query.with_for_update() if lock else query)).mappings().one_or_none()


async def stored(db: AsyncConnection, session: str) -> Row:
    """A session's row; raises StoreError where there is none."""
    row = await find(db, session)
    if row is None:
        raise StoreError(f"there is no session {session!r} in the store: create it, or look at the store's sessions()")
    return row


async def conflict(db: AsyncConnection, known: Head) -> SessionConflict:
    """What became of a session that is not as it was known."""
    row = await find(db, known.session)
    now = f"is at revision {row['revision']} with {row['length']} entries" if row else "was deleted"
    then = f"revision {known.revision} with {known.length} entries"
    return SessionConflict(
        f"session {known.session!r} {now}, not at {then}: somebody else writes to it. Nothing was recorded;"
        " read it again and append to its new head, or go on in a fork"
    )


async def place(db: AsyncConnection, row: Row, at: str) -> dict[str, Any]:
    """Where a session stood when `at` was its newest entry, and what it had spent by then."""
    position = (await db.execute(select(entries.c.position).where(entries.c.id == at))).scalar_one()
    query = select(charges.c.id, charges.c.parent, charges.c.length).where(charges.c.family == row["family"])
    known = {charge.id: charge for charge in await db.execute(query)}
    # Taken out as they are passed: damaged rows may lead in a circle.
    spent = known.pop(row["charge"], None)
    while spent is not None and spent.length > position + 1:
        spent = known.pop(spent.parent, None)
    return {"entry": at, "length": position + 1, "charge": None if spent is None else spent.id}


async def charge(db: AsyncConnection, family: str, length: int, new: Sequence[Charge], now: int) -> None:
    """Record charges; raises StoreError where they do not follow what is recorded."""
    rows = [
        {"family": family, "id": each.id, "parent": each.parent, "length": length, "kind": each.kind, "created": now}
        | {"cost_usd": each.cost_usd, **asdict(each.usage)}
        for each in new
    ]
    try:
        await db.execute(insert(charges), rows)
    except IntegrityError as error:
        ids = ", ".join(repr(each.id) for each in new)
        raise StoreError(
            f"charges {ids} cannot be recorded: one is there already, or follows a charge that is not."
            " Nothing was recorded; name the head's charge as the parent of the first"
        ) from error


def charge_of(row: Row) -> Charge:
    """A charge from its row."""
    usage = Usage(**{name: row[name] for name in Usage.__slots__})
    return Charge(row["id"], row["parent"], usage, row["kind"], row["cost_usd"])


async def deleted(db: AsyncConnection, session: str) -> Removed:
    """Delete a session and its subagents, theirs included."""
    row = await find(db, session)
    if row is None:
        return Removed()
    removed = Removed(sessions=1)
    working = select(sessions.c.id).where(sessions.c.parent == session, sessions.c.kind == "subagent")
    for subagent in (await db.execute(working)).scalars().all():
        removed += await deleted(db, subagent)
    left = (await db.execute(select(branches.c.entry).where(branches.c.session == session))).scalars().all()
    # Where damage has cut the line, its parts go one by one.
    ends = [end for tip in (row["entry"], *left) for end in (await read(db, tip, Wanted(kinds=()))).ends]
    await db.execute(delete(sessions).where(sessions.c.id == session))
    for end in ends:
        removed += await release(db, end)
    if not await db.scalar(select(sessions.c.id).where(sessions.c.family == row["family"]).limit(1)):
        await db.execute(delete(charges).where(charges.c.family == row["family"]))
    return removed
