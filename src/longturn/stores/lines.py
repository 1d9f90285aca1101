"""The log in SQL: a line of entries read back from its end, recorded, and given up. Sessions are `store`'s matter."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Exists, Select, and_, bindparam, case, delete, exists, literal, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.elements import ColumnElement

from longturn.stores.databases import Database
from longturn.stores.records import Entry, Problem, Removed, Row, Rows, body_fault, entry_id, entry_of, link_fault
from longturn.stores.schema import branches, contents, entries, sessions


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which entries of a line: of these kinds (None: all) and this key, after the entry `since`, the last `last`."""

    kinds: Collection[str] | None = None
    key: str | None = None
    since: str | None = None
    last: int | None = None

    @property
    def condition(self) -> ColumnElement[bool]:
        """Kinds and key in SQL."""
        of_kind = literal(True) if self.kinds is None else entries.c.kind.in_(sorted(self.kinds))
        return of_kind if self.key is None else and_(of_kind, entries.c.key == self.key)

    def is_met(self, rows: Sequence[Row]) -> bool:
        """Whether these rows, the newest first, go far enough back."""
        return bool(rows) and (
            rows[-1]["parent"] is None
            or rows[-1]["id"] == self.since
            or (self.last is not None and sum(row["hit"] for row in rows) >= self.last)
        )


@dataclass(frozen=True, slots=True)
class Line:
    """What was read of a line, the oldest first.

    oldest: the id of the first row that was reached, wanted or not. ends: where each part begins that damage has cut.
    """

    entries: tuple[Entry, ...]
    problems: tuple[Problem, ...]
    oldest: str | None
    ends: tuple[str, ...]


async def read(db: AsyncConnection, end: str | None, wanted: Wanted) -> Line:
    """The wanted entries up to `end`: one query, and one more for each damaged link, which is mended if it can be."""
    rows: list[Row] = []
    problems: list[Problem] = []
    seen: set[str] = set()
    ends: list[str] = []
    while end is not None and end not in seen:
        ends.append(end)
        rows.extend((await db.execute(_back_from(end, wanted))).mappings())
        seen.update(row["id"] for row in rows)
        if not rows:
            problems.append(Problem("entry", end, "the newest entry is missing, and with it all before it"))
        if not rows or wanted.is_met(rows):
            break
        oldest = rows[-1]
        end = await _before(db, oldest)
        found = f"{oldest['position']} entries are out of reach" if end is None else "it was found by its hash"
        text = f"the link from entry {oldest['position']} to the one before it is damaged: {found}"
        problems.append(Problem("entry", oldest["id"], text))
        if end is not None:
            rows[-1] = _relinked(oldest, end)
    kept = [row for row in reversed(rows) if row["id"] != wanted.since]
    sound, damaged = _checked(kept if wanted.last is None else _last(kept, wanted.last))
    return Line(sound, (*problems, *damaged), rows[-1]["id"] if rows else None, tuple(ends))


def _back_from(end: str, wanted: Wanted) -> Select[Any]:
    """The rows from `end` back, the newest first: all of them, since each is a link to check; bodies where wanted.

    An entry stands before its child, which also ends the recursion where a damaged link would lead in a circle.
    """
    hit = case((wanted.condition, 1), else_=0)
    line = select(entries, hit.label("hit"), hit.label("seen")).where(entries.c.id == end).cte("line", recursive=True)
    older = select(entries, hit, line.c.seen + hit).join(line, entries.c.id == line.c.parent)
    older = older.where(entries.c.position < line.c.position)
    if wanted.since is not None:
        older = older.where(line.c.id != wanted.since)
    if wanted.last is not None:
        older = older.where(line.c.seen < wanted.last)
    line = line.union_all(older)
    is_wanted = and_(contents.c.digest == line.c.digest, line.c.hit == 1)
    return select(line, contents.c.body).outerjoin_from(line, contents, is_wanted).order_by(line.c.position.desc())


async def _before(db: AsyncConnection, child: Row) -> str | None:
    """The entry before one whose link is broken, by hash: the one that it names, or that makes it sound."""
    near = or_(entries.c.id == child["parent"], entries.c.position == child["position"] - 1)
    is_named_right = _is_sound(child)
    for row in (await db.execute(select(entries).where(near))).mappings():
        if is_named_right and child["parent"] in (row["id"], _own_id(row)):
            return str(row["id"])
        if not is_named_right and _is_sound(_relinked(child, row["id"])):
            return str(row["id"])
    return None


def _own_id(row: Row) -> str:
    return entry_id(row["parent"], row["position"], row["kind"], row["key"], row["digest"])


def _is_sound(row: Row) -> bool:
    return bool(_own_id(row) == row["id"])


def _relinked(row: Row, parent: str) -> Row:
    """The row with the parent that was found for it, if that is what its hash says."""
    mended = {**row, "parent": parent}
    return mended if _is_sound(mended) else row


def _last(rows: Sequence[Row], count: int) -> Sequence[Row]:
    hits = [number for number, row in enumerate(rows) if row["hit"]]
    return rows if len(hits) <= count else rows[hits[-count] if count else len(rows) :]


def _checked(rows: Sequence[Row]) -> tuple[tuple[Entry, ...], tuple[Problem, ...]]:
    """The wanted entries that are as they were recorded, and what is wrong with the others."""
    sound: list[Entry] = []
    problems: list[Problem] = []
    for row in rows:
        link = link_fault(row)
        body = body_fault(row["digest"], row["body"]) if row["hit"] else None
        if link:
            problems.append(Problem("entry", row["id"], link))
        if body:
            problems.append(Problem("content", row["digest"], f"{body} (entry {row['position']}, {row['kind']})"))
        if row["hit"] and not link and not body:
            sound.append(entry_of(row))
    return tuple(sound), tuple(problems)


async def record(database: Database, db: AsyncConnection, rows: Rows) -> None:
    """Insert what is not there yet; equal contents are stored once, and a damaged one is healed by an equal new one."""
    if not rows.entries:
        return
    insert = database.insert(contents)
    heal = insert.on_conflict_do_update(
        index_elements=["digest"],
        set_={"body": insert.excluded.body},
        where=contents.c.body != insert.excluded.body,
    )
    await db.execute(heal, rows.contents)
    await db.execute(database.insert(entries).on_conflict_do_nothing(index_elements=["id"]), rows.entries)


async def release(db: AsyncConnection, end: str | None) -> Removed:
    """Delete the entries from `end` back that no session and no other entry needs, and contents that only they had."""
    if end is None:
        return Removed()
    gone = select(entries).where(entries.c.id == end, ~_child(), ~_named()).cte("gone", recursive=True)
    older = select(entries).join(gone, entries.c.id == gone.c.parent)
    older = older.where(entries.c.position < gone.c.position, ~_child(besides=gone.c.id), ~_named())
    gone = gone.union_all(older)
    found = (await db.execute(select(gone.c.id, gone.c.digest).order_by(gone.c.position.desc()))).all()
    if not found:
        return Removed()
    # Children first: a parent that is still named cannot be deleted.
    each = delete(entries).where(entries.c.id == bindparam("gone"))
    await db.execute(each, [{"gone": row.id} for row in found])
    orphaned = delete(contents).where(contents.c.digest == bindparam("gone"), ~_used())
    removed = await db.execute(orphaned, [{"gone": digest} for digest in sorted({row.digest for row in found})])
    return Removed(entries=len(found), contents=removed.rowcount)


def unreached() -> Select[Any]:
    """Entries that no session and no branch leads to: what damage has cut off."""
    ends = select(sessions.c.entry.label("id")).where(sessions.c.entry.is_not(None)).union(select(branches.c.entry))
    reached = select(ends.subquery().c.id).cte("reached", recursive=True)
    older = select(entries.c.parent).join(reached, entries.c.id == reached.c.id).where(entries.c.parent.is_not(None))
    return select(entries.c.id).where(entries.c.id.not_in(select(reached.union(older).c.id)))


def unused() -> Select[Any]:
    """Contents that no entry has."""
    return select(contents.c.digest).where(~_used())


def _child(besides: ColumnElement[str] | None = None) -> Exists:
    child = entries.alias("child")
    is_child = child.c.parent == entries.c.id
    return (
        exists().where(is_child if besides is None else and_(is_child, child.c.id != besides)).correlate_except(child)
    )


def _named() -> ColumnElement[bool]:
    by_session = exists().where(sessions.c.entry == entries.c.id).correlate_except(sessions)
    return or_(by_session, exists().where(branches.c.entry == entries.c.id).correlate_except(branches))


def _used() -> Exists:
    return exists().where(entries.c.digest == contents.c.digest).correlate_except(entries)
