"""A message list as far as it was read: its items, the dialect they are in, and the transcript that they make."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence

from longturn.arguments import checkpoint_at
from longturn.core.checkpoint import Checkpoint, is_entry
from longturn.core.measure import MeasureText
from longturn.core.messages import Message
from longturn.core.transcript import Transcript
from longturn.dialects.base import Dialect, Native
from longturn.dialects.registry import Evidence, choose, weigh


class Reading:
    """One list, which only grows; what has arrived since the last look is read (B35).

    items: what was read. dialect: None before the first look. transcript: what it says.
    """

    __slots__ = ("_entries", "_evidence", "dialect", "items", "transcript")

    def __init__(self, measure: MeasureText, before: "Reading | None" = None) -> None:
        """Start a list; where `before` is given, its dialect's evidence is taken over (B29)."""
        self.items: list[Native] = []
        self.dialect: Dialect | None = None
        self.transcript = Transcript(measure)
        self._entries: list[int] = []
        self._evidence: Evidence = before._evidence if before else Evidence()

    def continues(self, given: Sequence[Native], *, full: bool) -> bool:
        """Whether a list is this one with more behind it; without `full` its ends are compared."""
        items = self.items
        if len(given) < len(items):
            return False
        places = range(len(items)) if full else [0, len(items) - 1] if items else []
        return all(given[place] is items[place] or given[place] == items[place] for place in places)

    def judge(self, given: Sequence[Native], provider: str | None) -> Dialect:
        """The dialect of the whole list, judged with what has arrived (B29)."""
        self._evidence = weigh(self._evidence, given[len(self.items) :])
        return choose(self._evidence, provider)

    def take(
        self,
        given: Sequence[Native],
        dialect: Dialect,
        pin: Callable[[object], bool] | None,
        made: Mapping[int, Checkpoint],
    ) -> None:
        """Read what has arrived. made: checkpoints that are not in the list, by how many messages stand before them."""
        is_new = self.dialect is None
        self.dialect = dialect
        arrived = list(self._arrived(given, dialect, pin, made))
        self.items += given[len(self.items) :]
        if arrived or is_new:
            self.transcript.extend(arrived)

    def _arrived(
        self,
        given: Sequence[Native],
        dialect: Dialect,
        pin: Callable[[object], bool] | None,
        made: Mapping[int, Checkpoint],
    ) -> Iterator[tuple[Message | Checkpoint, int, bool]]:
        seen = len(self.items)
        number = self.messages(seen)
        before = next((given[place] for place in range(seen - 1, -1, -1) if not is_entry(given[place])), None)
        for position in range(seen, len(given)):
            item = given[position]
            if is_entry(item):
                self._entries.append(position)
                yield checkpoint_at(item, position), position, False
                continue
            pinned = pin is not None and bool(pin(item))
            for message in dialect.read(item, before, position):
                yield message, position, pinned
            before = item
            number += 1
            if number in made:
                yield made[number], -1, False

    def messages(self, position: int) -> int:
        """How many of the first items are messages, not entries."""
        return position - bisect_left(self._entries, position)

    def messages_before(self, row: int) -> int:
        """How many of the caller's messages stand before a row of the transcript."""
        places = (entry.position for entry in self.transcript.rows[row:] if entry.position >= 0)
        return self.messages(next(places, len(self.items)))
