"""What a store takes and gives, as frozen values, and how a log is hashed; no database is touched here."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, Literal, get_args

from longturn.errors import StoreError

Kind = Literal["message", "result", "checkpoint", "recovery", "event"]
"""What an entry holds. A result is a tool's whole answer, where the message in the transcript was bounded (B22)."""
Link = Literal["", "fork", "subagent"]
"""What a session is to its parent: a fork shares its entries, a subagent starts empty and is deleted with it."""

Row = Mapping[Any, Any]
"""A row of a table, by the names of its columns."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST = 253_402_300_799_999_999
"""The last microsecond that a datetime can say; a damaged time is held to it."""


@dataclass(frozen=True, slots=True)
class New:
    """What is to be recorded. body: JSON data. key: a name to find it by, such as a tool call's id; "" for none."""

    kind: Kind
    body: Any
    key: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """One record of a session's log.

    id: the hash of all the rest and of the parent's id, so equal histories have equal ids. position: 0 for a session's
    first. digest: of the body as it is stored. created: when a session first recorded it.
    """

    id: str
    parent: str | None
    position: int
    kind: Kind
    key: str
    digest: str
    body: Any
    created: datetime


@dataclass(frozen=True, slots=True)
class Head:
    """A session as it stood when it was read or written; `Store.append` takes it and gives the next one.

    entry: the newest, None while there is none. length: entries from the first to it. revision: goes up by one with
    every write. kind, parent, forked_at: what it is to which session, and from which entry of that on. charge: the
    newest of what it spent. scope: whose or where it is, such as a user or a channel. info: the caller's own JSON data.
    """

    session: str
    entry: str | None
    length: int
    revision: int
    kind: Link
    parent: str | None
    forked_at: str | None
    charge: str | None
    scope: str | None
    title: str
    info: Mapping[str, Any] = field(hash=False)
    created: datetime
    updated: datetime


@dataclass(frozen=True, slots=True)
class Problem:
    """Damage that was found. where: "file", "session", "entry", "content". id: of what; text: what is wrong with it."""

    where: Literal["file", "session", "entry", "content"]
    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Log:
    """A session's entries from the first to the head. What is damaged is left out of them and named in `problems`."""

    head: Head
    entries: tuple[Entry, ...]
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class Removed:
    """How much was deleted: sessions, entries that no session reaches any more, and their contents."""

    sessions: int = 0
    entries: int = 0
    contents: int = 0

    def __add__(self, other: "Removed") -> "Removed":
        return Removed(self.sessions + other.sessions, self.entries + other.entries, self.contents + other.contents)


@dataclass(frozen=True, slots=True)
class Rows:
    """New entries as rows of the tables, parents before children."""

    entries: tuple[dict[str, Any], ...]
    contents: tuple[dict[str, Any], ...]


def encoded(body: object) -> bytes:
    """JSON data as it is stored: keys in their order. Raises TypeError or ValueError for anything else.

    Text stays readable; only what UTF-8 cannot say (half a surrogate pair) is escaped.
    """
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:
        return json.dumps(body, separators=(",", ":")).encode()


def digest_of(body: bytes) -> str:
    """What a content is known by."""
    return sha256(body).hexdigest()


def entry_id(parent: str | None, position: int, kind: str, key: str, digest: str) -> str:
    """What an entry is known by: it stands for the entry and for all before it."""
    return sha256(json.dumps([parent, position, kind, key, digest]).encode()).hexdigest()


def micros(time: datetime) -> int:
    """A time as it is stored."""
    return (time - EPOCH) // timedelta(microseconds=1)


def moment(stored: int) -> datetime:
    """A time as it is given."""
    return EPOCH + timedelta(microseconds=max(0, min(stored, LAST)))


def chained(parent: str | None, position: int, new: Sequence[New], now: int) -> Rows:
    """The rows of entries that follow `parent`, the first at `position`. Raises StoreError for what cannot be kept."""
    rows: list[dict[str, Any]] = []
    bodies: dict[str, bytes] = {}
    for number, each in enumerate(new):
        if each.kind not in get_args(Kind):
            raise StoreError(
                f"entry {number} of {len(new)} is of kind {each.kind!r}: use one of {', '.join(get_args(Kind))}"
            )
        try:
            body = encoded(each.body)
        except (TypeError, ValueError, RecursionError) as error:
            raise StoreError(
                f"entry {number} of {len(new)} ({each.kind}) is not JSON data, so nothing was recorded: {error}"
            ) from error
        digest = digest_of(body)
        bodies[digest] = body
        here = named(each.key, "the key of an entry") if each.key else ""
        row: dict[str, Any] = {
            "parent": parent,
            "position": position + number,
            "kind": each.kind,
            "key": here,
            "digest": digest,
        }
        parent = entry_id(**row)
        rows.append({"id": parent, **row, "created": now})
    # Writers that record the same contents at once must meet them in one order, or PostgreSQL sees a deadlock.
    return Rows(tuple(rows), tuple({"digest": digest, "body": bodies[digest]} for digest in sorted(bodies)))


def named(name: str, what: str) -> str:
    """The name, if every database can keep it; else raises StoreError."""
    if not name or "\0" in name or not _is_utf8(name):
        raise StoreError(f"{what} must be text that is not empty and holds no NUL or half surrogate, got {name!r:.60}")
    return name


def decoded_info(stored: bytes) -> Mapping[str, Any] | None:
    """A session's own data; None where it is damaged."""
    try:
        info = json.loads(stored)
    except ValueError:
        return None
    return info if isinstance(info, dict) else None


def head_of(row: Row) -> Head:
    """A head from its row; damaged info reads as none, and `verify` tells of it."""
    return Head(
        session=row["id"],
        entry=row["entry"],
        length=row["length"],
        revision=row["revision"],
        kind=row["kind"],
        parent=row["parent"],
        forked_at=row["forked_at"],
        charge=row["charge"],
        scope=row["scope"],
        title=row["title"],
        info=decoded_info(row["info"]) or {},
        created=moment(row["created"]),
        updated=moment(row["updated"]),
    )


def link_fault(row: Row) -> str | None:
    """What is wrong with an entry's row by its own hash."""
    found = entry_id(row["parent"], row["position"], row["kind"], row["key"], row["digest"])
    return None if found == row["id"] else f"entry {row['position']} is damaged: it hashes to {found[:12]}"


def body_fault(digest: str, body: object) -> str | None:
    """What is wrong with a content by its hash."""
    if body is None:
        return "the content is missing"
    if not isinstance(body, bytes):
        return f"the content is damaged: it is {type(body).__name__}, not bytes"
    found = digest_of(body)
    return None if found == digest else f"the content of {len(body)} bytes is damaged: it hashes to {found[:12]}"


def entry_of(row: Row) -> Entry:
    """An entry from its row and body, which were found sound."""
    return Entry(
        row["id"],
        row["parent"],
        row["position"],
        row["kind"],
        row["key"],
        row["digest"],
        json.loads(row["body"]),
        moment(row["created"]),
    )


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
