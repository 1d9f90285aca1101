"""Reading what callers hand in (dicts, or objects of the providers' SDKs) as plain data, which it never changes."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from longturn.core.messages import Media, Message, Opaque, Part, Reasoning, Text
from longturn.dialects.base import Native
from longturn.errors import TranscriptError

# Keys under which providers carry base64 without a data: prefix; such payloads never count as text (H22).
PAYLOAD_KEYS = frozenset({"data", "b64_json", "file_data", "image_base64", "partial_image_b64"})
PAYLOAD_LENGTH = 256


def plain(value: object) -> object:
    """`value` with every SDK object in it, at any depth, replaced by plain data.

    Where there is none, the very same object is returned. Reads dicts, other mappings, lists, tuples and whatever has
    a pydantic `model_dump` (openai, anthropic, google-genai). Raises TranscriptError when nested too deeply.
    """
    try:
        return _plain(value)
    except RecursionError:
        raise TranscriptError("the value is nested too deeply to be read: flatten it") from None


_SCALARS = frozenset({str, int, float, bool, type(None)})


def _plain(value: Any) -> Any:
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind is dict or kind is list:
        read = value
        for key, item in value.items() if kind is dict else enumerate(value):
            if type(item) not in _SCALARS and (other := _plain(item)) is not item:
                read = value.copy() if read is value else read
                read[key] = other
        return read
    dump = getattr(value, "model_dump", None)
    if dump is not None:
        # Unset fields are None in SDK objects, and providers refuse some of them when sent back as null (OpenAI
        # Responses refuses `status: null`, 2025); explicit None inside free-form dicts is kept by pydantic.
        return _plain(dump(mode="json", by_alias=True, exclude_none=True, warnings=False))
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def as_object(item: Native, position: int) -> dict[str, Any]:
    """One native item as a plain dict to read from, never to change.

    Raises TranscriptError naming `position` when it is no object.
    """
    value = plain(item)
    if isinstance(value, dict):
        return value
    raise unreadable(position, f"expected an object with a role, got {_shown(item)}")


def _shown(item: object) -> str:
    text = repr(item)
    return f"{type(item).__name__} {text[:57] + '...' if len(text) > 60 else text}"


def unreadable(position: int, what: str) -> TranscriptError:
    """The error for an item that cannot be read: `messages[3]: what`."""
    return TranscriptError(f"messages[{position}]: {what}")


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str)


def json_text(value: object) -> str:
    """`value` as compact JSON text, for counting; what JSON cannot say is written with `str`.

    Raises TranscriptError when the value is nested too deeply or contains itself.
    """
    try:
        return _ENCODER.encode(value)
    except RecursionError:
        raise TranscriptError("the value is nested too deeply to be written as JSON: flatten it") from None
    except TypeError:  # a key that JSON cannot say
        return str(value)
    except ValueError as error:  # it contains itself
        raise TranscriptError(f"the value cannot be written as JSON: {error}") from None


def countable(value: object) -> str:
    """The text that an opaque block is counted by: its JSON without base64 payloads (H22)."""
    return json_text(_without_payloads(plain(value)))


def _without_payloads(value: object, key: object = None) -> object:
    if isinstance(value, str):
        heavy = is_data_url(value) or (key in PAYLOAD_KEYS and len(value) > PAYLOAD_LENGTH)
        return "" if heavy else value
    if isinstance(value, dict):
        return {name: _without_payloads(item, name) for name, item in value.items()}
    return [_without_payloads(item, key) for item in value] if isinstance(value, list) else value


def is_data_url(text: str) -> bool:
    """Whether `text` is an inline payload (`data:image/png;base64,...`)."""
    return text.startswith("data:") and ";base64," in text[:200]


def json_object(text: str) -> dict[str, Any] | None:
    """The JSON object that `text` is, or None when it is anything else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def texts(value: object) -> list[str]:
    """The texts in a system prompt, in any form a provider takes: None, text, a block, a list of blocks, a content.

    A block is counted by its `text`, a content by its `parts` or `content`, anything else by its JSON.
    """
    return list(_texts(plain(value)))


def _texts(value: object) -> Iterator[str]:
    if value is None:
        return
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, dict) and isinstance(value.get("text"), str):
        yield value["text"]
    elif isinstance(value, dict) and ("parts" in value or "content" in value):
        yield from _texts(value.get("parts", value.get("content")))
    else:
        yield countable(value)


def function_texts(function: Mapping[str, Any]) -> list[str]:
    """What OpenAI counts of a function tool: its name, its description and its parameters as JSON (H23)."""
    schema = function.get("parameters")
    described = [str(function["name"]), str(function.get("description") or "")]
    return [text for text in [*described, "" if schema is None else json_text(schema)] if text]


def read_content(content: str | list[Any], texts: frozenset[str], media: Mapping[str, str]) -> list[Part]:
    """Plain message content (a string or a list of blocks) as parts, each with its block as its source.

    texts: the block types that carry `text`. media: block type -> `Media.kind`. Refusals and unknown blocks are
    opaque, thinking blocks are reasoning.
    """
    if isinstance(content, str):
        return [Text(content)]
    return [_read_block(block, texts, media) for block in content]


def _read_block(block: Any, texts: frozenset[str], media: Mapping[str, str]) -> Part:
    if isinstance(block, str):
        return Text(block, source=block)
    if not isinstance(block, dict):
        return Opaque(countable(block), source=block)
    kind = block.get("type")
    if not isinstance(kind, str):
        return Opaque(countable(block), source=block)
    if kind in texts and isinstance(block.get("text"), str):
        return Text(block["text"], source=block)
    if kind in media:
        return Media(media[kind], source=block)
    if kind == "refusal" and isinstance(block.get("refusal"), str):
        return Opaque(block["refusal"], source=block)
    if kind == "thinking":
        return Reasoning("\n".join(_texts(block.get("thinking"))), len(block.get("signature") or ""), source=block)
    return Opaque(countable(block), source=block)


def write_content(parts: Iterable[Part], text_type: str) -> str | list[Any] | None:
    """Parts as message content: a string where no block was read, else the blocks; None where there is nothing.

    text_type: the type of a block for text that had none. Parts without a source, text apart, are no content.
    """
    kept = [part for part in parts if type(part) is Text or (type(part) in _BLOCKS and part.source is not None)]
    if not kept:
        return None
    if all(part.source is None for part in kept):
        return "\n\n".join(part.text for part in kept if type(part) is Text)
    return [_write_block(part, text_type) for part in kept]


_BLOCKS = (Media, Opaque, Reasoning)


def _write_block(part: Part, text_type: str) -> object:
    if type(part) is not Text or (isinstance(part.source, dict) and part.source.get("text") == part.text):
        return part.source
    if isinstance(part.source, str):
        return part.text
    return (
        {**part.source, "text": part.text} if isinstance(part.source, dict) else {"type": text_type, "text": part.text}
    )


def render_each(messages: Sequence[Message], rebuild: Callable[[Message], Iterable[Native]]) -> list[Native]:
    """Core messages as native items, for formats in which one item is one core message.

    The unedited are handed back as their own source; `rebuild` gives the items for the edited and for those that
    longturn made (their source is None), and never changes a source.
    """
    rendered: list[Native] = []
    for message in messages:
        if message.source is None or message.edited:
            rendered.extend(rebuild(message))
        else:
            rendered.append(message.source)
    return rendered
