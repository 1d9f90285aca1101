"""What each sender of a chat channel said last, bounded in rows; nothing is stored, a `Session` does that."""

from collections import OrderedDict, deque
from collections.abc import Iterable
from threading import Lock
from typing import Generic, TypeVar

from longturn.errors import ConfigError

DEFAULT_ROWS = 50
"""Rows that are kept of a sender where the number is 0 (H31)."""
DEFAULT_SENDERS = 1_000
"""Senders that are remembered where nothing else is said."""

Row = TypeVar("Row")


class Senders(Generic[Row]):
    """The newest rows of each sender, for a webhook that is called once for each message; threads may share it.

    A row is one message in any format. They are counted singly, not by turns (H31), so the oldest that are left may
    begin in the middle of one: `longturn.fit` and `LongTurn` mend that (H29).

    rows: how many are kept of a sender; 0 means 50, it does not mean none (H31).
    senders: how many are remembered; whoever was silent for longest goes first.
    Raises ConfigError for numbers that are not whole or too small.
    """

    __slots__ = ("_kept", "_lock", "_rows", "_senders")

    def __init__(self, rows: int = 0, *, senders: int = DEFAULT_SENDERS) -> None:
        for name, value, least in (("rows", rows, 0), ("senders", senders, 1)):
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ConfigError(f"{name} must be a whole number of at least {least}, got {value!r}")
        self._rows, self._senders = rows or DEFAULT_ROWS, senders
        self._kept: OrderedDict[str, deque[Row]] = OrderedDict()
        self._lock = Lock()

    def add(self, sender: str, rows: Iterable[Row]) -> None:
        """Append what was said; what exceeds the bound is forgotten, oldest first."""
        new = tuple(rows)
        with self._lock:
            kept = self._kept.pop(sender, None)
            self._kept[sender] = deque(maxlen=self._rows) if kept is None else kept
            self._kept[sender].extend(new)
            if len(self._kept) > self._senders:
                self._kept.popitem(last=False)

    def of(self, sender: str) -> list[Row]:
        """The rows of a sender, oldest first, in a list of its own; empty for one that is not known."""
        with self._lock:
            return list(self._kept.get(sender, ()))

    def forget(self, sender: str) -> int:
        """Drop everything of a sender, such as on /new or when asked to delete it; gives how many rows that were."""
        with self._lock:
            return len(self._kept.pop(sender, ()))
