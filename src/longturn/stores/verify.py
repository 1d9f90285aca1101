"""Looks through a whole store for damage: every hash again, every link, and what the database says of its own file."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

from sqlalchemy import Column, Select, select
from sqlalchemy.ext.asyncio import AsyncConnection

from longturn.errors import StoreError
from longturn.stores.databases import Database
from longturn.stores.lines import unreached, unused
from longturn.stores.records import Problem, body_fault, decoded_info, link_fault
from longturn.stores.schema import contents, entries, sessions

PAGE = 100
"""Rows that are held at once; a content may be tens of megabytes."""


async def problems_of(database: Database) -> list[Problem]:
    """All that is wrong with a store."""
    problems = [Problem("file", database.place, found) for found in await database.damage()]
    try:
        async with database.reading() as db:
            problems += [found async for found in _contents(db)]
            problems += [found async for found in _entries(db)]
            problems += [found async for found in _sessions(db)]
            problems += await _left_over(db)
    except StoreError as error:
        # A damaged file may be readable in part only: what was found so far is the better answer.
        problems.append(Problem("file", database.place, str(error)))
    return problems


async def _pages(db: AsyncConnection, query: Select[Any], key: Column[str]) -> AsyncIterator[Mapping[str, Any]]:
    after = ""
    while rows := (await db.execute(query.where(key > after).order_by(key).limit(PAGE))).mappings().all():
        for row in rows:
            yield row
        after = rows[-1][key.name]


async def _contents(db: AsyncConnection) -> AsyncIterator[Problem]:
    async for row in _pages(db, select(contents), contents.c.digest):
        if found := body_fault(row["digest"], row["body"]):
            yield Problem("content", row["digest"], found)


async def _entries(db: AsyncConnection) -> AsyncIterator[Problem]:
    before = entries.alias("before")
    query = select(entries, before.c.position.label("before"), contents.c.digest.label("content"))
    query = query.outerjoin_from(entries, before, entries.c.parent == before.c.id)
    query = query.outerjoin(contents, entries.c.digest == contents.c.digest)
    async for row in _pages(db, query, entries.c.id):
        if found := link_fault(row):
            yield Problem("entry", row["id"], found)
        elif row["parent"] is not None and row["before"] != row["position"] - 1:
            yield Problem("entry", row["id"], f"entry {row['position']} follows one that is damaged or missing")
        elif row["parent"] is None and row["position"] != 0:
            yield Problem("entry", row["id"], f"entry {row['position']} has none before it")
        if row["content"] is None:
            yield Problem("entry", row["id"], f"the content of entry {row['position']} is missing")


async def _sessions(db: AsyncConnection) -> AsyncIterator[Problem]:
    query = select(sessions, entries.c.position).outerjoin_from(sessions, entries, sessions.c.entry == entries.c.id)
    async for row in _pages(db, query, sessions.c.id):
        length = 0 if row["entry"] is None else (row["position"] or 0) + 1
        if row["entry"] is not None and row["position"] is None:
            yield Problem("session", row["id"], "its newest entry is missing")
        elif row["length"] != length:
            yield Problem("session", row["id"], f"it should have {row['length']} entries and has {length}")
        if decoded_info(row["info"]) is None:
            yield Problem("session", row["id"], "its info is damaged: it is read as empty")


async def _left_over(db: AsyncConnection) -> list[Problem]:
    text = "no session leads to it any more: sweep() would delete it"
    cut_off = [Problem("entry", entry, text) for entry in (await db.execute(unreached())).scalars()]
    return cut_off + [Problem("content", digest, text) for digest in (await db.execute(unused())).scalars()]
