"""Readers of agents' session logs: bytes of a file in, native messages of a dialect out; nothing is shaped."""

from longturn.dialects.logs.conversation import Conversation
from longturn.dialects.logs.load import load

__all__ = ["Conversation", "load"]
