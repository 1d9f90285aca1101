"""One session as it is recorded: its transcript, what decides its windows, what it spent; written in order, on disk.

What is written, and when, is decided by `recorder` and `session`; this knows only how.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from typing import Any, Literal
from uuid import uuid4

from pydantic_ai.messages import ModelMessage

from longturn import catalog
from longturn.agent.words import UsageReported
from longturn.core.meter import Charge, Meter
from longturn.errors import SessionConflict
from longturn.stores import Head, New, Problem, Store
from longturn.stores.conversations import message_body, message_of
from longturn.stores.records import Entry, Kind, chained

State = dict[str, Any]
"""What a route needs to go on after a restart; the keys are those of `Fitter.dump` that are recorded."""

LISTS: Mapping[str, Kind] = {
    "factors": "event",
    "checkpoints": "checkpoint",
    "recoveries": "recovery",
}
"""Of a route's state, the lists that are recorded entry by entry, and the kind of these entries."""
NUMBERS = ("max_output", "failed_summaries", "meter")
"""Of a route's state, what is recorded whole when it changes."""
STATE_KINDS = ("message", "checkpoint", "recovery", "event")


class Recording:
    """A session's log as one process knows it; `take` and the others queue, `flush` writes.

    transcript: every message, in order. states: by route, what its windows need besides. meter: what was spent.
    problems: what was found damaged, and left out, when it was opened. tell: is told of every charge.
    """

    __slots__ = (
        "_charges",
        "_tail",
        "_trying",
        "_waiting",
        "_writing",
        "head",
        "meter",
        "problems",
        "states",
        "store",
        "tell",
        "transcript",
    )

    def __init__(self, store: Store, head: Head, problems: Sequence[Problem] = ()) -> None:
        self.store = store
        self.head = head
        self.problems = tuple(problems)
        self.transcript: list[ModelMessage] = []
        self.states: dict[str, State] = {}
        self.meter = Meter()
        self.tell: Callable[[Charge], object] = lambda _charge: None
        self._waiting: list[New] = []
        self._charges: list[Charge] = []
        self._tail = head.charge
        self._writing: asyncio.Task[None] | None = None
        # What the last write tried, where it is not known whether it was kept.
        self._trying: tuple[Sequence[New], Sequence[Charge]] | None = None

    @classmethod
    async def open(cls, store: Store, session: str) -> "Recording":
        """A session that is there. Raises StoreError where it is not, or where another program wrote its messages."""
        log = await store.read(session, kinds=STATE_KINDS)
        recording = cls(store, log.head, log.problems)
        for entry in log.entries:
            recording._replay(entry)
        charges = await store.charges(session)
        recording.meter = Meter.of_branch(charges, log.head.charge)
        await recording._take_up_subagents({charge.id for charge in charges})
        return recording

    def _replay(self, entry: Entry) -> None:
        if entry.kind == "message":
            self.transcript.append(message_of(entry))
            return
        body = entry.body if isinstance(entry.body, dict) else {}
        if "route" not in body:
            return
        state = self.states.setdefault(str(body["route"]), {})
        for name in LISTS:
            if name in body:
                state[name] = [*state.get(name, [])[: body[name]["after"]], *body[name]["new"]]
        state |= {name: body[name] for name in NUMBERS if name in body}

    async def _take_up_subagents(self, known: set[str]) -> None:
        """Charge what subagents spent in a process that was killed before it could say so here (S13)."""
        for child in await self.store.sessions(parent=self.head.session):
            if child.kind == "subagent":
                for charge in await self.store.charges(child.session):
                    if _name_of(charge) not in known:
                        self.of_subagent(charge)

    # --- What is to be recorded --------------------------------------------------------------------------------------

    def take(self, messages: Iterable[ModelMessage]) -> None:
        """Messages that arrived; what becomes of the run's own objects later is not recorded."""
        for message in messages:
            self.transcript.append(copy(message))
            self._waiting.append(New("message", message_body(message)))

    def keep(self, kind: Literal["event", "result"], body: object, key: str = "") -> None:
        """An event's numbers, or a tool's whole result under its call's id."""
        self._waiting.append(New(kind, body, key))

    def spent(self, reported: UsageReported) -> None:
        """An attempt that was billed."""
        cost = catalog.cost_of(reported.usage, reported.model)
        self._charge(Charge(uuid4().hex, self._tail, reported.usage, reported.kind, cost))

    def of_subagent(self, charge: Charge) -> None:
        """What a subagent was charged counts here too (S13)."""
        self._charge(Charge(_name_of(charge), self._tail, charge.usage, "subagent", charge.cost_usd))

    def _charge(self, charge: Charge) -> None:
        self._tail = charge.id
        self._charges.append(charge)
        self.meter = self.meter.plus(charge.usage, charge.kind, charge.cost_usd)
        self.tell(charge)

    def note(self, states: Mapping[str, State]) -> None:
        """What has changed in the routes' states since they were last recorded; nothing twice."""
        for route, state in states.items():
            known = self.states.setdefault(route, {})
            # What was spent has its own rows; the snapshot is what a gauge shows after a restart (S12).
            now = {**state, "meter": {name: state["meter"][name] for name in ("snapshot", "factor")}}
            moved: dict[Kind, State] = {"event": {name: now[name] for name in NUMBERS if now[name] != known.get(name)}}
            for name, kind in LISTS.items():
                before = known.get(name, [])
                if now[name] != before:
                    after = _shared(before, now[name])
                    moved.setdefault(kind, {})[name] = {"after": after, "new": now[name][after:]}
                    known[name] = now[name]
            known |= {name: now[name] for name in NUMBERS}
            self._waiting += [New(kind, {"route": route, **body}) for kind, body in moved.items() if body]

    def holds(self, kind: Kind) -> bool:
        """Whether something of this kind waits to be recorded."""
        return any([new.kind == kind for new in self._waiting])

    # --- Writing -----------------------------------------------------------------------------------------------------

    async def flush(self) -> None:
        """Record all that waits; on disk when it returns. A caller that is cancelled does not stop it half way.

        Raises SessionConflict where another process wrote to the session, StoreError where the database cannot do it:
        then it waits on, and the next flush records it.
        """
        task = asyncio.create_task(self._flush(self._writing))
        task.add_done_callback(_seen)
        self._writing = task
        await asyncio.shield(task)

    async def settled(self) -> None:
        """Wait for a write that a cancelled caller left under way."""
        if self._writing is not None and not self._writing.done():
            await asyncio.wait([self._writing])

    async def _flush(self, before: asyncio.Task[None] | None) -> None:
        if before is not None and not before.done():
            await asyncio.wait([before])
        if self._trying is not None:
            await self._look()
        new, charges = tuple(self._waiting), tuple(self._charges)
        if not new and not charges:
            return
        self._trying = new, charges
        try:
            head = await self.store.append(self.head, new, charges=charges)
        except SessionConflict:
            self._trying = None
            raise
        self._written(head)

    async def _look(self) -> None:
        """Whether the last write was kept, which is not known where the database went away or this task was ended."""
        assert self._trying is not None
        new, charges = self._trying
        found = await self.store.head(self.head.session)
        rows = chained(self.head.entry, self.head.length, new, 0).entries
        entry = rows[-1]["id"] if rows else self.head.entry
        charge = charges[-1].id if charges else self.head.charge
        # An entry's id stands for it and all before it, so this write alone can have left this head.
        left = None if found is None else (found.revision, found.entry, found.charge)
        if found is not None and left == (self.head.revision + 1, entry, charge):
            self._written(found)
        self._trying = None

    def _written(self, head: Head) -> None:
        assert self._trying is not None
        new, charges = self._trying
        del self._waiting[: len(new)], self._charges[: len(charges)]
        self.head, self._trying = head, None


def _name_of(charge: Charge) -> str:
    """The id under which a parent records what its subagent spent."""
    return f"subagent {charge.id}"


def _shared(one: Sequence[object], other: Sequence[object]) -> int:
    """How many entries two lists have in common from the beginning."""
    pairs = zip(one, other, strict=False)
    return next((at for at, pair in enumerate(pairs) if pair[0] != pair[1]), min(len(one), len(other)))


def _seen(task: "asyncio.Task[None]") -> None:
    """What a write raised is told by the next one, since what it should have written still waits."""
    if not task.cancelled():
        task.exception()
