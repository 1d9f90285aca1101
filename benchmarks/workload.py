"""The conversation that everything is measured on, and its sizes; standard library only: every peer's Python reads it.

One user message, then rounds of one call and one result of 2,000 characters each: one long turn of an agent that reads
files. Every result is a text of its own, so nothing is saved by sharing strings.
"""

import json
import sys
from collections.abc import Iterator
from typing import Any

BUDGET = 100_000
CHARACTERS = 2_000

Message = dict[str, Any]


def round_of(number: int, characters: int = CHARACTERS) -> list[Message]:
    """One answer with one call, and its result."""
    call_id = f"call_{number:06d}"
    arguments = json.dumps({"path": f"src/chapter_{number:06d}.md"})
    call = {"id": call_id, "type": "function", "function": {"name": "read_file", "arguments": arguments}}
    sentence = f"Chapter {number:06d} tells of the winter in which the river froze, and who crossed it on foot. "
    text = (sentence * (characters // len(sentence) + 1))[:characters]
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call_id, "content": text},
    ]


def history(rounds: int) -> list[Message]:
    """A system message, the request, and so many rounds."""
    opening = [
        {"role": "system", "content": "You are a careful agent. Read every file that you are told to read."},
        {"role": "user", "content": "Read the chapters one by one and check them against the notes."},
    ]
    return opening + [message for number in range(rounds) for message in round_of(number)]


def texts_of(messages: list[Message]) -> Iterator[str]:
    """The texts that are counted: contents, and names and arguments of calls."""
    for message in messages:
        content = message.get("content")
        if isinstance(content, str):
            yield content
        elif content:
            yield "".join(block.get("text", "") for block in content)
        for call in message.get("tool_calls") or ():
            yield f"{call['function']['name']} {call['function']['arguments']}"


def bytes_of(messages: list[Message]) -> int:
    """What the conversation's texts hold of memory."""
    return sum(map(sys.getsizeof, texts_of(messages)))


def tokens_of(messages: list[Message]) -> int:
    """A neutral ruler, so that no subject is judged by its own: four characters a token, four tokens a message."""
    return sum(map(len, texts_of(messages))) // 4 + 4 * len(messages)
