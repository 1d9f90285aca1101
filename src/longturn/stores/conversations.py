"""Pydantic AI's ConversationStore over the tables of a Store: a conversation is a session, and a session one."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from uuid import uuid4

from pydantic import TypeAdapter, ValidationError
from pydantic_ai import DeferredToolRequests
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)
from pydantic_ai.messages import ModelMessage
from pydantic_ai.usage import RunUsage
from sqlalchemy import and_, delete, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from longturn.errors import StoreError
from longturn.stores import lines
from longturn.stores.databases import Database, unbroken
from longturn.stores.records import Entry, New, Row, Rows, chained, decoded_info, encoded, micros, moment, named
from longturn.stores.schema import branches, entries, sessions
from longturn.stores.session_rows import deleted, find, place
from longturn.stores.store import Store

MESSAGE: TypeAdapter[ModelMessage] = TypeAdapter(ModelMessage)
USAGE = TypeAdapter(RunUsage)
DEFERRED = TypeAdapter(DeferredToolRequests | None)

STATE = "pydantic_ai"
"""The key in a session's info where a record keeps what no column has."""
MESSAGES = lines.Wanted(kinds=("message",))

_log = logging.getLogger(__name__)


def message_body(message: ModelMessage) -> Any:
    """A message as the JSON data that an entry holds; sessions and conversations use the same, so they share it."""
    return MESSAGE.dump_python(message, mode="json")


def message_of(entry: Entry) -> ModelMessage:
    """The message that an entry holds; raises StoreError where it is another program's."""
    try:
        return MESSAGE.validate_python(entry.body)
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise StoreError(
            f"entry {entry.position} holds no message of Pydantic AI ({where}: {first['msg']}, {error.error_count()}"
            " faults in all): read this session with the program that wrote it"
        ) from error


class _Place(NamedTuple):
    """An entry in the log: its id and position; the beginning has neither."""

    id: str | None
    position: int


BEGINNING = _Place(None, -1)


class Conversations(ConversationStore):
    """A Pydantic AI ConversationStore in SQLite or PostgreSQL. It closes nothing: the store is the caller's.

    A conversation is a session, so `Store.read`, `verify`, `expire` see it; a session that was written otherwise loads
    here by its messages. A fork or branch shares entries, and equal messages anywhere share their content. `delete`
    deletes what no session reaches any more. Database faults raise StoreError. Subagents' sessions are not listed.
    """

    def __init__(self, store: Store) -> None:
        self.store = store

    @property
    def database(self) -> Database:
        """Where the tables are."""
        return self.store.database

    @unbroken
    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """The record of a conversation, or None."""
        async with self.database.reading() as db:
            row = await find(db, conversation_id)
            return None if row is None else await _record(db, row)

    @unbroken
    async def read_records(self, *, scope: str | None = None, limit: int | None = None) -> Sequence[ConversationRecord]:
        """The records, the one saved last first."""
        query = select(sessions).where(sessions.c.kind != "subagent").order_by(sessions.c.updated.desc()).limit(limit)
        if scope is not None:
            query = query.where(sessions.c.scope == scope)
        async with self.database.reading() as db:
            return [await _record(db, row) for row in (await db.execute(query)).mappings().all()]

    @unbroken
    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Store a record and its new entries together, or neither."""
        now = micros(self.store.clock())
        async with self.database.writing() as db:
            row = await find(db, named(record.conversation_id, "the id of a conversation"), lock=True)
            if (None if row is None else _revision(row)) != expected_revision:
                raise ConversationConflict(record.conversation_id)
            known = {} if row is None or row["entry"] is None else await _end(db, row)
            rows = await _chained(db, known, new_entries, now, record.conversation_id)
            await lines.record(self.database, db, rows)
            head = await _known(db, known, record.head_id)
            if head is None:
                raise ConversationConflict(record.conversation_id)
            values = _values(record, head)
            if row is None:
                new = await _new_row(db, known, record)
                once = (
                    self.database.insert(sessions)
                    .on_conflict_do_nothing(index_elements=["id"])
                    .returning(sessions.c.id)
                )
                if (await db.execute(once, {**new, **values, "created": now})).one_or_none() is None:
                    raise ConversationConflict(record.conversation_id)
            else:
                info = {**(decoded_info(row["info"]) or {}), STATE: _state(record, row["revision"] + 1)}
                values |= {"info": encoded(info), "revision": row["revision"] + 1}
                await db.execute(update(sessions).where(sessions.c.id == record.conversation_id).values(values))
            await _leave(db, row, record, known)

    @unbroken
    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Delete a conversation, its subagents' sessions, and what no other session reaches."""
        async with self.database.writing(alone=True) as db:
            row = await find(db, conversation_id)
            if row is None or _revision(row) != expected_revision:
                raise ConversationConflict(conversation_id)
            await deleted(db, conversation_id)
        await self.database.clean()

    @unbroken
    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """One entry; raises KeyError where there is none."""
        return (await self.read_history(entry_id, limit=1))[0]

    @unbroken
    async def read_history(self, head_id: str | None, *, limit: int | None = None) -> list[ConversationEntry]:
        """The messages up to an entry in one query; damaged ones are left out, and a warning is logged."""
        if head_id is None:
            return []
        async with self.database.reading() as db:
            end = await _found(db, head_id)
            if end is None:
                raise KeyError(f"no entry {head_id!r} is stored")
            # One more than asked for, since the first entry names the one before it.
            last = None if limit is None else limit + 1
            line = await lines.read(db, end.id, lines.Wanted(MESSAGES.kinds, last=last))
        for problem in line.problems:
            _log.warning(
                "left out of the history up to %s: %s %s: %s", head_id, problem.where, problem.id, problem.text
            )
        history: list[ConversationEntry] = []
        parent: str | None = None
        for entry in line.entries:
            history.append(ConversationEntry(id=_name(entry), parent_id=parent, message=message_of(entry)))
            parent = _name(entry)
        return history if limit is None else history[max(0, len(history) - limit) :]


def _name(entry: Entry) -> str:
    """What Pydantic AI knows an entry by: the id that it gave, which is the entry's key."""
    return entry.key or entry.id


async def _found(db: AsyncConnection, name: str) -> _Place | None:
    """The entry that Pydantic AI knows by this name."""
    is_named = or_(entries.c.id == name, and_(entries.c.key == name, entries.c.kind == "message"))
    row = (await db.execute(select(entries.c.id, entries.c.position).where(is_named).limit(1))).one_or_none()
    return None if row is None else _Place(row.id, row.position)


async def _known(db: AsyncConnection, known: Mapping[str, _Place], name: str | None) -> _Place | None:
    if name is None:
        return BEGINNING
    return known.get(name) or await _found(db, name)


async def _newest(db: AsyncConnection, end: str | None) -> str | None:
    """The name of the newest message of a line."""
    line = await lines.read(db, end, lines.Wanted(MESSAGES.kinds, last=1))
    return _name(line.entries[-1]) if line.entries else None


async def _end(db: AsyncConnection, row: Row) -> dict[str, _Place]:
    """A session's newest message, taken as its newest entry: what follows it follows checkpoints and events too."""
    newest = await _newest(db, row["entry"])
    return {} if newest is None else {newest: _Place(row["entry"], row["length"] - 1)}


async def _chained(
    db: AsyncConnection, known: dict[str, _Place], new: Sequence[ConversationEntry], now: int, conversation: str
) -> Rows:
    """New entries as rows; adds their places to `known`."""
    rows: list[Rows] = []
    for entry in new:
        parent = await _known(db, known, entry.parent_id)
        if parent is None:
            raise ConversationConflict(conversation)
        body = New("message", message_body(entry.message), key=entry.id)
        rows.append(chained(parent.id, parent.position + 1, [body], now))
        known[entry.id] = _Place(rows[-1].entries[0]["id"], parent.position + 1)
    contents = {content["digest"]: content for each in rows for content in each.contents}
    return Rows(tuple(row for each in rows for row in each.entries), tuple(contents[key] for key in sorted(contents)))


async def _record(db: AsyncConnection, row: Row) -> ConversationRecord:
    state = (decoded_info(row["info"]) or {}).get(STATE, {})
    query = select(entries.c.id, entries.c.key).join(branches, branches.c.entry == entries.c.id)
    left = await db.execute(query.where(branches.c.session == row["id"]).order_by(branches.c.number))
    is_fork = row["kind"] == "fork"
    return ConversationRecord(
        conversation_id=row["id"],
        head_id=await _newest(db, row["entry"]),
        usage=USAGE.validate_python(state.get("usage", {})),
        deferred_tool_requests=DEFERRED.validate_python(state.get("deferred_tool_requests")),
        scope=row["scope"],
        forked_from=row["parent"] if is_fork else None,
        forked_at=state.get("forked_at", row["forked_at"]) if is_fork else None,
        branches=[key or id for id, key in left],  # noqa: A001
        revision=_revision(row),
        updated_at=moment(row["updated"]),
    )


def _state(record: ConversationRecord, revision: int) -> dict[str, Any]:
    return {
        "revision": [revision, record.revision],
        "usage": USAGE.dump_python(record.usage, mode="json"),
        "deferred_tool_requests": DEFERRED.dump_python(record.deferred_tool_requests, mode="json"),
        "forked_at": record.forked_at,
    }


def _revision(row: Row) -> str:
    """The token that the last save gave, unless a session has written since."""
    at, token = (decoded_info(row["info"]) or {}).get(STATE, {}).get("revision", (None, ""))
    return str(token) if at == row["revision"] else f"{row['family']}.{row['revision']}"


def _values(record: ConversationRecord, head: _Place) -> dict[str, Any]:
    updated = micros(record.updated_at)
    return {"entry": head.id, "length": head.position + 1, "scope": record.scope, "updated": updated}


async def _new_row(db: AsyncConnection, known: Mapping[str, _Place], record: ConversationRecord) -> dict[str, Any]:
    """A row for a conversation that is not there yet; a fork is of its source's family, with what that had spent."""
    row = {"id": record.conversation_id, "revision": 0, "title": "", "info": encoded({STATE: _state(record, 0)})}
    row |= {"family": uuid4().hex, "charge": None, "kind": "", "parent": None, "forked_at": None}
    if record.forked_from is None:
        return row
    row |= {"kind": "fork", "parent": record.forked_from}
    source, at = await find(db, record.forked_from), await _known(db, known, record.forked_at)
    if source is not None and at is not None and at.id is not None:
        row |= {"forked_at": at.id, "family": source["family"], "charge": (await place(db, source, at.id))["charge"]}
    return row


async def _leave(db: AsyncConnection, row: Row | None, record: ConversationRecord, known: Mapping[str, _Place]) -> None:
    """Note the ends that the record left, and delete what it gave up for good."""
    mine = branches.c.session == record.conversation_id
    before = [] if row is None else [row["entry"], *(await db.execute(select(branches.c.entry).where(mine))).scalars()]
    ends = [await _known(db, known, name) for name in record.branches]
    await db.execute(delete(branches).where(mine))
    kept = [
        {"session": record.conversation_id, "number": number, "entry": end.id}
        for number, end in enumerate(ends)
        if end is not None
    ]
    if kept:
        await db.execute(insert(branches), kept)
    for end in before:
        await lines.release(db, end)
