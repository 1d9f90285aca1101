"""The agent runtime on Pydantic AI; it needs the extra `agent`."""

from longturn.agent.capability import LongTurn
from longturn.agent.messages import DIALECT
from longturn.agent.words import (
    LAST_STEP,
    TOO_LONG,
    AgentEvent,
    ConversationTooLong,
    LimitReached,
    Observer,
    OverflowMet,
    RequestFitted,
    UsageReported,
)

__all__ = [
    "DIALECT",
    "LAST_STEP",
    "TOO_LONG",
    "AgentEvent",
    "ConversationTooLong",
    "LimitReached",
    "LongTurn",
    "Observer",
    "OverflowMet",
    "RequestFitted",
    "UsageReported",
]
