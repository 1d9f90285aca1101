"""What people and models read from the agent runtime, and the events that only a runtime has; numbers, never text."""

from collections.abc import Callable
from dataclasses import dataclass

from longturn.core.events import Event
from longturn.core.meter import Kind, Snapshot, Usage

TOO_LONG = (
    "This conversation is too long for the model to read at once. Please start a new chat for the next step; "
    "all that was built so far is kept."
)
"""The final text when a conversation cannot go on (L17)."""

LAST_STEP = (
    "The limit of steps for this task is reached, so no more tools can be used. Answer now: say what was found and "
    "done, and what is left to do."
)
"""What the model is told before its last answer (H19)."""

NOT_RUN = "[This tool was not run: the limit of tool calls for this task is reached.]"
"""The result of a call that a limit of tool calls left over."""

NOTHING_SAID = "The limit of steps for this task is reached."
"""The final text where the model went on calling tools all the same."""


@dataclass(frozen=True, slots=True)
class ConversationTooLong:
    """Nothing that may be left out makes the conversation fit this model; the person reads `TOO_LONG` (L17).

    tokens: of the smallest request, as far as it is known; capacity: what the model takes.
    """

    model: str
    tokens: int | None
    capacity: int | None


@dataclass(frozen=True, slots=True)
class OverflowMet:
    """A provider refused a request as too long (H24); it is made again, smaller.

    attempt: how many refusals this request has met. tokens, limit: as the provider stated them. max_output: the output
    limit that is asked for from now on, where the refusal was about that and the history stays as it is.
    """

    model: str
    attempt: int
    tokens: int | None
    limit: int | None
    max_output: int | None = None


@dataclass(frozen=True, slots=True)
class LimitReached:
    """The limit of steps is reached, and the model is asked for a last answer without tools (H19)."""

    requests: int
    tool_calls: int


@dataclass(frozen=True, slots=True)
class UsageReported:
    """What a provider reported of one call (L15). kind: what it was spent on (S13)."""

    model: str
    usage: Usage
    kind: Kind


@dataclass(frozen=True, slots=True)
class RequestFitted:
    """A request was fitted, whether or not anything had to be changed; one for every try (S14).

    messages_before, messages_after: Pydantic AI messages in the transcript and in the window. snapshot: how full the
    window is, and with what. seconds: how long it took, a summary that was asked for included.
    """

    model: str
    messages_before: int
    messages_after: int
    snapshot: Snapshot
    seconds: float


AgentEvent = Event | ConversationTooLong | OverflowMet | LimitReached | UsageReported | RequestFitted
Observer = Callable[[AgentEvent], object]
