"""Sessions in a database: opened, forked, appended to, read, deleted; what an entry says is the caller's matter."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

from sqlalchemy import delete, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from longturn.core.meter import Charge
from longturn.errors import SessionConflict, StoreError
from longturn.stores import lines
from longturn.stores.databases import Database, opened, unbroken
from longturn.stores.records import Entry, Head, Log, New, Problem, Removed, chained, head_of, micros, named
from longturn.stores.schema import charges, contents, entries, sessions
from longturn.stores.session_rows import charge, charge_of, conflict, deleted, find, info_of, place, stored
from longturn.stores.verify import problems_of


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Store:
    """Sessions in a SQLite file or a PostgreSQL database; `Store.open` makes one, which belongs to its event loop.

    Everything raises StoreError where the database cannot do it. What was recorded is on disk when a call returns, and
    a call that raises or is cancelled leaves all of its write or nothing: `head` says which.

    clock: gives the time, in UTC.
    """

    database: Database
    clock: Callable[[], datetime] = _now

    @classmethod
    async def open(cls, where: str | Path, *, clock: Callable[[], datetime] = _now) -> Self:
        """Open a store, and make or migrate its tables. where: a path, sqlite:///PATH or postgresql://USER@HOST/NAME.

        Raises StoreError for what is no store, cannot be reached or was made by a newer longturn; it is left as it was.
        """
        return cls(await opened(where), clock)

    async def close(self) -> None:
        """Close its connections, once the calls that run have ended."""
        await self.database.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @unbroken
    async def create(
        self,
        session: str,
        *,
        subagent_of: str | None = None,
        scope: str | None = None,
        title: str = "",
        info: Mapping[str, Any] | None = None,
    ) -> Head:
        """A new session without entries. subagent_of: the session that it works for, and is deleted with.

        Raises SessionConflict where there is one of that name, StoreError where its parent is not there.
        """
        async with self.database.writing() as db:
            forked_at = None if subagent_of is None else (await stored(db, subagent_of))["entry"]
            kind = "" if subagent_of is None else "subagent"
            row = {"kind": kind, "parent": subagent_of, "forked_at": forked_at, "entry": None, "length": 0}
            row |= {"family": uuid4().hex, "charge": None, "scope": scope, "title": title}
            return await self._created(db, session, {**row, "info": info_of(info or {})})

    @unbroken
    async def fork(self, source: str, session: str, *, at: str | None = None, title: str | None = None) -> Head:
        """A new session that shares the entries of `source` up to `at` (None: all), its info, and what they have cost.

        Raises SessionConflict where there is one of that name, StoreError where `source` has no entry `at`.
        """
        async with self.database.writing() as db:
            row = dict(await stored(db, source))
            if at is not None:
                line = await lines.read(db, row["entry"], lines.Wanted(kinds=(), since=at))
                if line.oldest != at:
                    raise StoreError(f"session {source!r} has no entry {at!r} to fork at: name one that `read` gives")
                row |= await place(db, row, at)
            row |= {"kind": "fork", "parent": source, "forked_at": row["entry"]}
            row |= {} if title is None else {"title": title}
            return await self._created(db, session, row)

    async def _created(self, db: AsyncConnection, session: str, row: Mapping[str, Any]) -> Head:
        now = micros(self.clock())
        new = {**row, "id": named(session, "the name of a session"), "revision": 0, "created": now, "updated": now}
        once = self.database.insert(sessions).on_conflict_do_nothing(index_elements=["id"]).returning(sessions.c.id)
        if (await db.execute(once, new)).one_or_none() is None:
            raise SessionConflict(f"there is a session {session!r} already: open it, or choose another name")
        return head_of(new)

    @unbroken
    async def head(self, session: str) -> Head | None:
        """A session as it stands now; None where there is none of that name."""
        async with self.database.reading() as db:
            row = await find(db, session)
        return None if row is None else head_of(row)

    @unbroken
    async def append(
        self,
        head: Head,
        entries: Sequence[New] = (),
        *,
        charges: Sequence[Charge] = (),
        title: str | None = None,
        info: Mapping[str, Any] | None = None,
    ) -> Head:
        """Record all of it, or nothing; on disk when it returns. Nothing older is read. Gives the session's new head.

        charges: attempts that were billed. title: in place of the old one, None leaves it.
        info: keys that take the place of the old ones; the other keys stay.
        Raises SessionConflict where the session is not as `head` says: somebody else wrote to it or deleted it.
        StoreError where something is not JSON data, or a charge is recorded already or follows one that is not.
        """
        now = micros(self.clock())
        rows = chained(head.entry, head.length, entries, now)
        length = head.length + len(rows.entries)
        moved: dict[str, Any] = {"revision": head.revision + 1, "length": length, "updated": now}
        moved |= {"entry": rows.entries[-1]["id"]} if rows.entries else {}
        moved |= {"charge": charges[-1].id} if charges else {}
        moved |= {} if title is None else {"title": title}
        moved |= {} if info is None else {"info": info_of({**head.info, **info})}
        is_here = sessions.c.id == head.session, sessions.c.revision == head.revision
        step = update(sessions).where(*is_here, sessions.c.entry.is_not_distinct_from(head.entry))
        async with self.database.writing() as db:
            row = (await db.execute(step.values(moved).returning(sessions))).mappings().one_or_none()
            if row is None:
                raise await conflict(db, head)
            await lines.record(self.database, db, rows)
            if charges:
                await charge(db, row["family"], length, charges, now)
        return head_of(row)

    @unbroken
    async def read(
        self,
        session: str,
        *,
        kinds: Collection[str] | None = None,
        since: str | None = None,
        last: int | None = None,
    ) -> Log:
        """A session's entries from the first to the newest, those before its fork included, as at one moment.

        kinds: only these. since: only what follows this entry. last: only so many, the newest.
        What is damaged is left out, and named in the log's problems. Raises StoreError where there is no such session
        or no entry `since` in it.
        """
        async with self.database.reading() as db:
            head = head_of(await stored(db, session))
            line = await lines.read(db, head.entry, lines.Wanted(kinds, None, since, last))
        if since is not None and line.oldest != since and last is None and not line.problems:
            raise StoreError(f"session {session!r} has no entry {since!r}: read it without `since`")
        return Log(head, line.entries, line.problems)

    @unbroken
    async def find(self, session: str, key: str, *, kind: str = "result") -> Entry | None:
        """The newest entry of that kind and key, such as a tool's whole result by its call id (B14); None for none."""
        async with self.database.reading() as db:
            head = head_of(await stored(db, session))
            line = await lines.read(db, head.entry, lines.Wanted((kind,), key, last=1))
        return line.entries[-1] if line.entries else None

    @unbroken
    async def charges(self, session: str) -> list[Charge]:
        """What a session and its forks have spent, all branches; `longturn.core.meter.branch` picks out one (S13).

        A session's own newest is its head's `charge`. A subagent's are its own.
        """
        family = select(sessions.c.family).where(sessions.c.id == session).scalar_subquery()
        query = select(charges).where(charges.c.family == family).order_by(charges.c.created, charges.c.length)
        async with self.database.reading() as db:
            await stored(db, session)
            return [charge_of(row) for row in (await db.execute(query)).mappings()]

    @unbroken
    async def sessions(
        self, *, limit: int | None = None, scope: str | None = None, parent: str | None = None
    ) -> list[Head]:
        """The sessions, the one written last first. scope, parent: only those of it. limit: at most so many."""
        query = select(sessions).order_by(sessions.c.updated.desc(), sessions.c.id).limit(limit)
        if scope is not None:
            query = query.where(sessions.c.scope == scope)
        if parent is not None:
            query = query.where(sessions.c.parent == parent)
        async with self.database.reading() as db:
            return [head_of(row) for row in (await db.execute(query)).mappings()]

    @unbroken
    async def delete(self, session: str) -> Removed:
        """Delete a session and its subagents; what its forks or other sessions share stays. Gives what was deleted.

        In SQLite the text is overwritten in the file; PostgreSQL gives the room back later (docs/stores.md).
        """
        async with self.database.writing(alone=True) as db:
            removed = await deleted(db, session)
        await self.database.clean()
        return removed

    @unbroken
    async def expire(self, older_than: timedelta) -> Removed:
        """Delete the sessions that were last written longer ago, as `delete` does.

        A subagent lives as long as its parent.
        """
        before = micros(self.clock() - older_than)
        old = select(sessions.c.id).where(sessions.c.updated < before, sessions.c.kind != "subagent")
        removed = Removed()
        async with self.database.writing(alone=True) as db:
            for session in (await db.execute(old)).scalars().all():
                removed += await deleted(db, session)
        await self.database.clean()
        return removed

    @unbroken
    async def sweep(self) -> Removed:
        """Delete what no session leads to any more. There is such a thing only where damage has cut a log.

        `read` finds some of it again by its hash, so do this when `verify` has been looked at, and all is salvaged.
        """
        async with self.database.writing(alone=True) as db:
            gone = await db.execute(delete(entries).where(entries.c.id.in_(lines.unreached())))
            unused = await db.execute(delete(contents).where(contents.c.digest.in_(lines.unused())))
        await self.database.clean()
        return Removed(0, gone.rowcount, unused.rowcount)

    @unbroken
    async def verify(self, session: str | None = None) -> list[Problem]:
        """Hash everything again, or what one session has, and check every link; no problem is an empty list."""
        if session is None:
            return await problems_of(self.database)
        return list((await self.read(session)).problems)
