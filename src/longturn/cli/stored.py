"""What `longturn sessions` does with a store; it needs `longturn[stores]`, so the commands load it when they run."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal, TypeVar

from longturn.cli import screens
from longturn.cli.gauge import dollars
from longturn.cli.outputs import strict_json, write
from longturn.cli.transcripts import chat_messages, lines_of
from longturn.core.meter import Meter
from longturn.errors import ConfigError, StoreError
from longturn.stores import Entry, Head, Log, Problem, Removed, Store

if TYPE_CHECKING:
    from rich.console import Console

Form = Literal["chat", "messages", "log"]
Done = TypeVar("Done")

STYLES: Mapping[str, str] = {"you": "bold cyan", "assistant": "bold green"}
"""Of who said it; all others are dim."""


@dataclass(frozen=True, slots=True)
class Session:
    """One session as it was read: its log, what it spent, and the sessions that came of it."""

    log: Log
    meter: Meter
    children: tuple[Head, ...]

    @property
    def messages(self) -> list[Entry]:
        """The entries that are messages."""
        return [entry for entry in self.log.entries if entry.kind == "message"]


def listing(where: str | None, limit: int) -> list[Head]:
    """The sessions, the one written last first; none where nothing was ever kept."""

    async def heads(store: Store) -> list[Head]:
        return await store.sessions(limit=limit or None)

    return [] if where is None else _with(where, heads)


def session(where: str | None, name: str) -> Session:
    """One session. Raises StoreError where there is none of that name."""

    async def read(store: Store) -> Session:
        await _there(store, [name])
        log = await store.read(name)
        charges = await store.charges(name)
        children = await store.sessions(parent=name)
        return Session(log, Meter.of_branch(charges, log.head.charge), tuple(children))

    return _with(_known(where), read)


def problems(where: str | None, name: str | None) -> list[Problem]:
    """What is damaged, in one session or in the whole store."""

    async def verify(store: Store) -> list[Problem]:
        await _there(store, [name] if name else [])
        return await store.verify(name)

    return _with(_known(where), verify)


def delete(where: str | None, names: Sequence[str]) -> Removed:
    """Delete sessions; all must be there before the first is deleted."""

    async def delete_all(store: Store) -> Removed:
        await _there(store, names)
        removed = Removed()
        for name in dict.fromkeys(names):
            # A subagent's session may have gone with its parent's.
            removed += await store.delete(name) if await store.head(name) else Removed()
        return removed

    return _with(_known(where), delete_all)


def older(where: str | None, than: timedelta) -> list[Head]:
    """What `expire` would delete, subagents' sessions aside."""
    before = datetime.now(UTC) - than
    return [head for head in listing(_known(where), 0) if head.updated < before and head.kind != "subagent"]


def expire(where: str | None, than: timedelta) -> Removed:
    """Delete what was last written longer ago."""

    async def expired(store: Store) -> Removed:
        return await store.expire(than)

    return _with(_known(where), expired)


def export(where: str | None, name: str, form: Form, out: str | None) -> tuple[Problem, ...]:
    """Write a session in one of three forms; gives what is damaged and was left out."""
    found = session(where, name)
    bodies = [entry.body for entry in found.messages]
    if form == "log":
        lines = [strict_json(_entry_json(entry)).data for entry in found.log.entries]
        write(b"".join(lines), out)
    else:
        write(strict_json(chat_messages(bodies) if form == "chat" else bodies, indent=2).data, out)
    return found.log.problems


def head_json(head: Head) -> dict[str, object]:
    """A session as JSON data."""
    told = ("session", "title", "kind", "parent", "scope")
    times = {"created": head.created.isoformat(), "updated": head.updated.isoformat()}
    return {**{name: getattr(head, name) for name in told}, **times, "entries": head.length, "info": dict(head.info)}


def session_json(found: Session) -> dict[str, object]:
    """A session with its messages as JSON data."""
    return {
        **head_json(found.log.head),
        "spend": asdict(found.meter.spend),
        "total": asdict(found.meter.spend.total),
        "children": [{"session": head.session, "kind": head.kind} for head in found.children],
        "messages": [entry.body for entry in found.messages],
        "checkpoints": [entry.body for entry in found.log.entries if entry.kind == "checkpoint"],
        "problems": [asdict(problem) for problem in found.log.problems],
    }


def show_list(screen: "Console", heads: Sequence[Head], limit: int) -> None:
    """A table, the session written last first."""
    if not heads:
        screen.print("No session is kept here yet: `longturn chat` starts one.")
        return
    is_wide = screen.width >= screens.NARROW
    rows = [
        [head.session, *([_time(head.updated), str(head.length)] if is_wide else []), _title(head)] for head in heads
    ]
    screens.table(screen, ("session", *(("last written", "entries") if is_wide else ()), "title"), rows)
    if limit and len(heads) == limit:
        screen.print(f"The newest {limit}; --limit 0 lists all.", style="dim")


def show_session(screen: "Console", found: Session, last: int | None, full: bool) -> None:
    """What a session is, and what was said in it."""
    head, messages = found.log.head, found.messages
    screen.print(screens.printable(f"{head.session}: {head.title}" if head.title else head.session), style="bold")
    about = [screens.number_of(len(messages), "message"), f"written {_time(head.created)} to {_time(head.updated)}"]
    total = found.meter.spend.total
    if total.calls:
        tokens = f"{total.input_tokens:,} tokens read, {total.output_tokens:,} written"
        about += [screens.number_of(total.calls, "call"), tokens, dollars(total)]
    screen.print(", ".join(about), style="dim")
    if head.parent is not None:
        screen.print(
            screens.printable(f"{'A fork' if head.kind == 'fork' else 'A subagent'} of {head.parent}"), style="dim"
        )
    for child in found.children:
        screen.print(screens.printable(f"{child.kind.capitalize()}: {child.session}"), style="dim")
    shown = messages if last is None else messages[len(messages) - min(last, len(messages)) :]
    if len(shown) < len(messages):
        screen.print(f"({screens.number_of(len(messages) - len(shown), 'message')} before)", style="dim")
    for entry in shown:
        show_message(screen, entry.body, full=full)
    show_problems(screen, found.log.problems)


def show_message(screen: "Console", body: object, *, full: bool = False) -> None:
    """What one stored message says."""
    for line in lines_of(body, brief=not full):
        style = STYLES.get(line.who, "dim")
        if line.who in ("you", "assistant"):
            screen.print()
            screen.print(line.who, style=style)
            screen.print(screens.harmless(line.text))
        else:
            screen.print(screens.harmless(f"({line.who}) {line.text}"), style="dim")


def show_problems(screen: "Console", found: Sequence[Problem]) -> None:
    """What is damaged, each on a line; nothing where nothing is."""
    screens.listed(screen, "Damaged, and left out", list(map(told, found)), "red")


def told(problem: Problem) -> str:
    """A problem on one line."""
    return f"{problem.where} {problem.id}: {problem.text}" if problem.id else f"{problem.where}: {problem.text}"


def removed_words(removed: Removed) -> str:
    """What was deleted, in words."""
    what = screens.number_of(removed.sessions, "session")
    return f"Deleted: {what}, with {screens.number_of(removed.contents, 'content')} that nothing else holds."


def _with(where: str, work: Callable[[Store], Awaitable[Done]]) -> Done:
    async def run() -> Done:
        async with await Store.open(where) as store:
            return await work(store)

    return asyncio.run(run())


async def _there(store: Store, names: Sequence[str]) -> None:
    for name in names:
        if await store.head(name) is None:
            raise StoreError(f"there is no session {name!r}, so nothing was done: `longturn sessions list` names them")


def _known(where: str | None) -> str:
    if where is None:
        raise ConfigError("no session is kept yet: `longturn chat` starts one, or name another store with --store")
    return where


def _entry_json(entry: Entry) -> dict[str, object]:
    return {**asdict(entry), "created": entry.created.isoformat()}


def _title(head: Head) -> str:
    kind = f"({head.kind} of {head.parent}) " if head.parent else ""
    return kind + head.title


def _time(moment: datetime) -> str:
    return moment.astimezone().strftime("%Y-%m-%d %H:%M")
