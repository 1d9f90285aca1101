"""How a turn begins on a transcript that may end anywhere: what the agent's run is given and what of it is recorded."""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    UserContent,
    UserPromptPart,
    repair_messages,
)

from longturn.errors import ConfigError

Prompt = str | Sequence[UserContent]


@dataclass(frozen=True, slots=True)
class Beginning:
    """prompt, history: what the run is given; without a prompt it goes on with the history's last message.

    known: the messages of the history that are recorded. said: the recorded parts of the one behind them.
    """

    prompt: Prompt | None
    history: list[ModelMessage]
    known: Sequence[ModelMessage]
    said: Sequence[ModelRequestPart] = ()


def beginning(transcript: Sequence[ModelMessage], prompt: Prompt | None) -> Beginning:
    """The beginning of the next turn. prompt: None goes on with one that was cut off.

    Calls that a cut left open are run when their turn goes on, and answered as interrupted when a new one begins (B21).
    A request that got no answer and a new prompt make one request, as providers want it.
    Raises ConfigError where there is nothing to go on with.
    """
    messages = repair_messages(transcript, repair_last_response=False)
    last = messages[-1] if messages else None
    if prompt is None and is_answered(transcript):
        raise ConfigError("no turn was cut off, so there is none to go on with: give a prompt")
    if prompt is not None and is_answered(transcript):
        return Beginning(prompt, messages, messages)
    said = last.parts if isinstance(last, ModelRequest) else ()
    if prompt is None:
        return Beginning(None, messages, messages[:-1] if said else messages, said)
    asked = ModelRequest([UserPromptPart(prompt)])
    history = repair_messages([*transcript, asked], repair_last_response=True)
    return Beginning(None, history, history[:-1], said)


def is_answered(transcript: Sequence[ModelMessage]) -> bool:
    """Whether the last turn is at its end, or there is none yet."""
    last = transcript[-1] if transcript else None
    return last is None or (isinstance(last, ModelResponse) and not last.tool_calls)
