"""Every error that longturn raises on purpose; each says what happened, with numbers, and what to do."""


class LongturnError(Exception):
    """The base of all errors that longturn raises on purpose."""


class ConfigError(LongturnError, ValueError):
    """A budget, policy, model or dialect that cannot be used as given."""


class TranscriptError(LongturnError, ValueError):
    """A message list, request body or session log that cannot be read; the text names the position."""


class ContextWindowExceeded(LongturnError):
    """Nothing that may be left out would make the request fit the model's window (H18).

    `estimated_tokens` is what would be sent, `capacity` what the model takes less the room kept for the answer,
    `breakdown` where the tokens are: tokens by "system", "tools", "messages" and "images".
    """

    def __init__(self, message: str, *, estimated_tokens: int, capacity: int, breakdown: dict[str, int]) -> None:
        super().__init__(message)
        self.estimated_tokens = estimated_tokens
        self.capacity = capacity
        self.breakdown = breakdown

    def __reduce__(self) -> tuple[object, ...]:
        state = {"estimated_tokens": self.estimated_tokens, "capacity": self.capacity, "breakdown": self.breakdown}
        return (_rebuild, (self.args[0], state))


class StoreError(LongturnError):
    """A store that cannot be opened, read or written; nothing is half written, and the text says what to do."""


class SessionConflict(StoreError):
    """A session is not as the caller knew it: somebody else wrote, deleted or created it. Nothing was written."""


def _rebuild(message: str, state: dict[str, object]) -> ContextWindowExceeded:
    return ContextWindowExceeded(message, **state)  # type: ignore[arg-type]
