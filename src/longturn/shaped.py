"""`Window`: what one call would be sent, with what was done to make it fit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import is_

from longturn.core import window as windows
from longturn.core.checkpoint import Checkpoint
from longturn.core.events import Event
from longturn.core.fold import Base, Outcome
from longturn.core.meter import Snapshot
from longturn.core.window import Edit
from longturn.dialects.base import Native
from longturn.report import Report, report_of


@dataclass(frozen=True, slots=True)
class Window:
    """What one call would be sent, in the caller's own format; untouched messages are the caller's own objects.

    messages: the shaped list. system, tools: as they were given. body: the request to send, from `fit_request` only.
    tokens: everything in it by our count, system, tools and images included. budget: the limit it was held to, in
    tokens, 0 when off. capacity: what the model takes less the room for the answer, None when unknown.
    events: what happened at this call, nothing where earlier decisions were only carried on (B32). snapshot: how full
    it is, and with what (S14).
    """

    messages: list[Native]
    system: object
    tools: object
    tokens: int
    budget: int
    capacity: int | None
    dialect: str
    events: tuple[Event, ...]
    snapshot: Snapshot
    body: Mapping[str, object] | None
    _given: Sequence[Native]
    _count: int
    _outcome: Outcome
    _base: Base

    @property
    def changed(self) -> bool:
        """Whether anything differs from the messages handed in; otherwise they are the very same objects (law 2)."""
        # The list of what was given only grows, so that its beginning is still what this window was made of.
        return len(self.messages) != self._count or not all(map(is_, self.messages, self._given))

    @property
    def edits(self) -> tuple[Edit, ...]:
        """Every change that is in force (B32). Of a `Fitter`'s window: read it before the next `fit`."""
        return windows.edits_in_force(self._outcome)

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The checkpoint that stands in it (S8); None without one, or where it was handed back in a window."""
        number = self._outcome.state.checkpoint
        return self._outcome.view.counts.transcript.checkpoints[number].checkpoint if number >= 0 else None

    @property
    def report(self) -> Report:
        """What was kept, what was not, and why, in numbers; printed, a few plain lines."""
        return report_of(self._outcome, self._base, self.dialect, self.budget, self.capacity)
