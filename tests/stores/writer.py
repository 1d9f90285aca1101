"""What child processes do to a store while they are killed; a fork server that has imported all this starts them."""

import asyncio
import os
import resource
import signal
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

import aiosqlite  # noqa: F401  (imported before the fork, as SQLAlchemy would after it)
import alembic.command
import alembic.config  # noqa: F401
import psycopg  # noqa: F401

from longturn.errors import StoreError
from longturn.stores import New, Store

PART = 3
"""Messages in one append: whole or not there."""


def context() -> Any:
    found = get_context("forkserver")
    found.set_forkserver_preload([__name__])
    return found


def started(target: Callable[..., None], *args: object) -> tuple[BaseProcess, Connection]:
    """A child that runs `target(*args, told)`, and what it tells."""
    mine, its = context().Pipe(duplex=False)
    child = context().Process(target=target, args=(*args, its), daemon=True)
    child.start()
    its.close()
    return child, mine


def heard(told: Connection) -> list[Any]:
    """All that a child told before it ended."""
    found = []
    while True:
        try:
            found.append(told.recv())
        except EOFError:
            return found


def part(length: int) -> list[New]:
    """Three messages, the last of them of another size each time."""
    bodies = [{"n": length + number, "text": "x" * (length * 37 % 5_000)} for number in range(PART)]
    return [New("message", body) for body in bodies]


def write_on(where: str, told: Connection) -> None:
    """Append to session "s" for ever, tell the length after each append; fork and delete now and then."""

    async def run() -> None:
        async with await Store.open(where) as store:
            head = await store.head("s") or await store.create("s")
            told.send(head.length)
            while True:
                head = await store.append(head, part(head.length))
                told.send(head.length)
                if head.length // PART % 4 == 0:
                    fork = await store.fork("s", f"fork {head.length} {head.revision}")
                    await store.append(fork, [New("message", "of the fork alone")])
                    await store.delete(fork.session)

    asyncio.run(run())


def open_only(where: str, told: Connection) -> None:
    """Open a store, tell how that went, and end."""

    async def run() -> None:
        try:
            async with await Store.open(where) as store:
                told.send(await store.verify())
        except StoreError as error:
            told.send(str(error))

    asyncio.run(run())


def fill(where: str, most: int, told: Connection) -> None:
    """Append until files may not grow beyond `most` bytes; tell the error and the length; go on with room again."""

    async def run() -> None:
        async with await Store.open(where) as store:
            head = await store.create("s")
            # As on a full disk, the write fails; without this the process would be killed.
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
            while True:
                try:
                    head = await store.append(head, part(head.length))
                except StoreError as error:
                    told.send((str(error), head.length))
                    break
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
            told.send((await store.head("s") == head, (await store.append(head, part(head.length))).length))

    asyncio.run(run())


async def _opened(where: str) -> None:
    async with await Store.open(where) as store:
        await store.sessions()


def without_rights(where: str, user: int, told: Connection) -> None:
    """Read and append as somebody who may not write to the file."""
    if user:  # once all that is imported late is there: this user may have no right to read it
        asyncio.run(_opened(where))
        os.setuid(user)

    async def run() -> None:
        try:
            async with await Store.open(where) as store:
                told.send(len((await store.read("s")).entries))
                head = await store.head("s")
                assert head is not None
                await store.append(head, part(0))
        except StoreError as error:
            told.send(str(error))

    asyncio.run(run())
