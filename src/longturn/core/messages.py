"""A message as the core sees it: one role, its parts, and the caller's own object.

Dialects build these and turn them back; the core only reads them and replaces whole parts. `source` is the native
object (or, on a part, the native block) that it was read from. It is never looked into here and never changed: a
message that no rung touched is rendered by handing its source back.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class Text:
    """Text that the model reads as text."""

    text: str
    source: object = None


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Thinking: readable `text`, and `sealed`, the number of characters of signatures or encrypted content."""

    text: str = ""
    sealed: int = 0
    source: object = None


@dataclass(frozen=True, slots=True)
class Media:
    """An image, a sound or a document that is sent beside the text; its bytes never count as text (H22)."""

    kind: str = "image"
    source: object = None


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call: `arguments` is the text the provider counts (JSON, or free text for custom tools).

    `fixed` says that the dialect does not let the arguments be changed (a signature covers them, or they are no JSON).
    """

    id: str
    name: str
    arguments: str
    fixed: bool = False
    source: object = None


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool returned to the call `call_id`: its text and the media that the tool attached."""

    call_id: str
    text: str
    media: tuple[Media, ...] = ()
    source: object = None


@dataclass(frozen=True, slots=True)
class Opaque:
    """A block that is passed through untouched; `text` is what it is counted by."""

    text: str = ""
    source: object = None


Part = Text | Reasoning | Media | ToolCall | ToolResult | Opaque


@dataclass(frozen=True, slots=True)
class Message:
    """One role and its parts. A "tool" message has exactly one part, a `ToolResult`.

    source: the native object it was read from; None for one that longturn made.
    share: how many messages were read from that native object (an Anthropic user message with two results and a
        question is three); the object can be handed back only when all of them stand unedited.
    continues: a further item of the answer that the message before began (OpenAI Responses).
    edited: the parts differ from the source, which must be rebuilt from a copy.
    repair: what the dialect had to mend while reading, in words; None when nothing.
    """

    role: Role
    parts: tuple[Part, ...]
    source: object = None
    share: int = 1
    continues: bool = False
    edited: bool = False
    repair: str | None = None

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls of an answer, in order."""
        parts = self.parts
        if len(parts) == 1:  # nearly every answer of an agent, without a loop
            return (parts[0],) if type(parts[0]) is ToolCall else ()
        return tuple([part for part in parts if type(part) is ToolCall])

    @property
    def text(self) -> str:
        """All `Text` of the message, joined by newlines."""
        return "\n".join(part.text for part in self.parts if type(part) is Text)

    def with_parts(self, parts: Sequence[Part]) -> "Message":
        """A copy with other parts, marked as edited."""
        return Message(self.role, tuple(parts), self.source, self.share, self.continues, True, self.repair)


def user(text: str) -> Message:
    """A user message of longturn's own (a note or a placeholder)."""
    return Message("user", (Text(text),))


def result(call_id: str, text: str) -> Message:
    """A tool result of longturn's own (the synthetic answer to a call that never got one)."""
    return Message("tool", (ToolResult(call_id, text),))
