"""What is measured of a message, once, whatever the model that will count it (B6, L13)."""

import re
from collections.abc import Callable
from typing import NamedTuple

from longturn.core.messages import Message, Opaque, Reasoning, Text, ToolCall, ToolResult

MeasureText = Callable[[str], tuple[int, ...]]

# Loadable: a path or a file name. `[IMAGE:...]` is a placeholder, so text (H22).
IMAGE_MARKER = re.compile(r"\[IMAGE:[^\]\n]*(?:/|\w\.\w)[^\]\n]*\]")


class Measure(NamedTuple):
    """Features of the text, features of the thinking (None without), characters of signatures, number of media."""

    body: tuple[int, ...]
    thinking: tuple[int, ...] | None = None
    sealed: int = 0
    media: int = 0


def measured(message: Message, measure: MeasureText) -> Measure:
    """Measure a message: thinking apart, since it can be removed alone (B23); media by number, never by bytes (H22)."""
    parts = message.parts
    if len(parts) == 1:
        part = parts[0]
        if type(part) is ToolResult:
            return Measure(measure(part.text), None, 0, len(part.media))
        if type(part) is ToolCall:
            return Measure(measure(f"{part.name} {part.arguments}"))
        if type(part) is Text and (message.role != "user" or "[IMAGE:" not in part.text):
            return Measure(measure(part.text))
    texts: list[str] = []
    thinking: list[str] = []
    sealed = media = 0
    for part in parts:
        if isinstance(part, ToolCall):
            texts.append(f"{part.name} {part.arguments}")
        elif isinstance(part, Reasoning):
            thinking.append(part.text)
            sealed += part.sealed
        elif isinstance(part, ToolResult):
            texts.append(part.text)
            media += len(part.media)
        elif isinstance(part, Text):
            text, images = IMAGE_MARKER.subn("", part.text) if message.role == "user" else (part.text, 0)
            texts.append(text)
            media += images
        elif isinstance(part, Opaque):
            texts.append(part.text)
        else:
            media += 1
    return Measure(measure("\n".join(texts)), measure("\n".join(thinking)) if thinking else None, sealed, media)
