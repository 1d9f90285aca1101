"""The few texts that longturn writes for a model to read. They are constants: bytes once sent stay the same (L11)."""

NOTE = "[Earlier messages were left out here to keep the conversation inside the model's context window.]"
"""Stands directly behind the first user message when turns or rounds were left out (B17)."""

CHECKPOINT = (
    "[Checkpoint: the conversation up to here was summarized to keep it inside the model's context window. "
    "The summary follows; go on from it.]"
)
"""Begins the message that stands in the note's place where a checkpoint is in force (B33); its text comes behind."""

CLEARED = (
    "[This tool result was cleared to keep the conversation inside the model's context. "
    "Run the tool again if you need it.]"
)
"""Replaces an old tool result (L1)."""

UNANSWERED = "[No result was recorded for this tool call.]"
"""The synthetic result of a call that never got one (H29, B21)."""

PLACEHOLDER = "[The conversation begins with an answer.]"
"""A user message where a window would have none (B28)."""

EMPTY_ANSWER = "[Thinking left out.]"
"""An answer that held nothing but thinking which had to go (B23)."""

EMPTY_MESSAGE = "[Empty message.]"
"""What a message says that held nothing which the provider would accept (H29)."""

IMAGE_CLEARED = "[An image was cleared here.]"
"""Replaces an image in the result of an older turn (B12)."""

ARGUMENT_CLEARED = "[{} characters were cleared here]"
"""Stands in the middle of a long argument of an old call (B15)."""

AGENT_NOTE = (
    "Your work in this conversation may be long. When the conversation outgrows what the model can take, the oldest "
    "tool results are cleared and the newest are kept whole; nothing else is needed from you. So do not stop a long "
    "task early and do not shorten your work to save space: go on, and read a file or run a tool again if you need a "
    "result that was cleared."
)
"""For an agent's instructions: tells it about the safety nets, so that it goes on (L18)."""
