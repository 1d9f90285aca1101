"""A checkpoint: a summary with the position that it covers, and the entry of a message list that it is kept as (S8)."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

from longturn.core.messages import Media, Message, Opaque, Text, ToolCall, ToolResult, user
from longturn.core.texts import CHECKPOINT
from longturn.errors import TranscriptError

ENTRY = "longturn.checkpoint"
"""The `type` of an entry; no provider has one of this name."""
VERSION = 1
"""Of the entries written here."""
BEGINNING = b""
"""The digest of nothing."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A summary that stands for the beginning of a transcript; newer ones take the place of older ones (S8).

    text: the summary. covers: how many messages of the caller's list it stands for, counted from the beginning,
        entries like this one not counted.
    digest: of what they say; it applies to a list only where this is found (B33). None: it is taken at its word, and
        with `covers` at 0 it covers all before it.
    tokens: of the text, estimated. source_tokens: of everything that it covers, estimated.
    model: who wrote it, None for the agent's own. time: when, in ISO 8601; "" where it is not known.
    """

    text: str
    covers: int = 0
    digest: str | None = None
    tokens: int = 0
    source_tokens: int = 0
    model: str | None = None
    time: str = ""

    def entry(self) -> dict[str, object]:
        """It as an entry of a message list, in JSON data: append it to the messages that you keep."""
        return {
            "type": ENTRY,
            "version": VERSION,
            "text": self.text,
            "tokens": self.tokens,
            "source_tokens": self.source_tokens,
            "covers": {"messages": self.covers, "digest": self.digest},
            "model": self.model,
            "time": self.time,
        }

    @staticmethod
    def of(entry: object) -> "Checkpoint":
        """From an entry; only `type` and `text` are needed. Raises TranscriptError for one that cannot be read."""
        if not isinstance(entry, Mapping):
            raise TranscriptError(f"a checkpoint's entry must be an object, got {type(entry).__name__}")
        version, text = entry.get("version", VERSION), entry.get("text")
        covers = {} if entry.get("covers") is None else entry["covers"]
        if version != VERSION:
            raise TranscriptError(f"the checkpoint is of version {version!r}, this longturn reads {VERSION}")
        if not isinstance(text, str) or not text.strip():
            raise TranscriptError(f"the checkpoint has no text: {text!r:.60}")
        if not isinstance(covers, Mapping):
            raise TranscriptError(f"`covers` of the checkpoint must be an object, got {covers!r:.60}")
        messages, digest, model = covers.get("messages"), covers.get("digest"), entry.get("model")
        if messages is not None and _number(messages) != messages:
            # Read as nothing, it would make the checkpoint stand for everything.
            raise TranscriptError(f"the checkpoint must cover a whole number of messages, got {messages!r:.60}")
        if digest is not None and not isinstance(digest, str):
            raise TranscriptError(f"the digest of the checkpoint must be a text, got {digest!r:.60}")
        return Checkpoint(
            text=text,
            covers=_number(messages),
            digest=digest,
            tokens=_number(entry.get("tokens")),
            source_tokens=_number(entry.get("source_tokens")),
            model=model if isinstance(model, str) else None,
            time=str(entry.get("time") or ""),
        )

    @property
    def message(self) -> Message:
        """What stands in a window's note's place (B33)."""
        return user(f"{CHECKPOINT}\n\n{self.text}")


class Landed(NamedTuple):
    """A checkpoint in a transcript: in force from the border `at` on, it stands for the rows before `cut`."""

    at: int
    cut: int
    checkpoint: Checkpoint


def is_entry(item: object) -> bool:
    """Whether an item of a message list is a checkpoint's entry, not a message of any dialect."""
    return isinstance(item, Mapping) and item.get("type") == ENTRY


def text_of(message: Message) -> str:
    """The summary that a window's message carries; empty where it is no checkpoint of ours."""
    if message.role != "user" or len(message.parts) != 1 or not message.text.startswith(CHECKPOINT):
        return ""
    return message.text[len(CHECKPOINT) :].strip()


def digests(messages: Iterable[Message], before: bytes = BEGINNING) -> Iterable[bytes]:
    """The digest of everything up to and with each message, system messages left out; `before`: of what came first.

    Taken of what was said, called and returned: it is the same in every dialect, and whatever ids the provider gives.
    """
    for message in messages:
        if message.role != "system":
            told = blake2b(before + message.role.encode(), digest_size=16)
            for part in message.parts:
                told.update(_told(part).encode("utf-8", "surrogatepass"))
            before = told.digest()
        yield before


def _told(part: object) -> str:
    match part:
        case Text(text=text) | Opaque(text=text):
            return f"\0say\0{text}"
        case ToolCall(name=name, arguments=arguments):
            return f"\0call\0{name}\0{_sorted(arguments)}"
        case ToolResult(text=text, media=media):
            return f"\0result\0{text}\0{len(media)}"
        case Media(kind=kind):
            return f"\0media\0{kind}"
    return ""


def _sorted(arguments: str) -> str:
    """Arguments however a store may have written them down; text that is no JSON as it is."""
    try:
        return json.dumps(json.loads(arguments), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments


def _number(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0
