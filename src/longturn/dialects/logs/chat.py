"""OpenAI chat messages out of the neutral blocks that logs keep (pi, LangChain, inspect_ai, LibreChat, OpenHands)."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence

from longturn.dialects.logs.fields import array, first_text, obj, tally, text

_TEXT = ("text", "input_text", "output_text")
_THINKING = ("thinking", "reasoning", "think")
# Calls that a log keeps a second time among the blocks (LangChain repeats Anthropic's), or of its own (pi).
CALL_BLOCKS = ("tool_use", "toolCall", "tool_call", "function_call")

Message = dict[str, object]


def call(call_id: object, name: object, arguments: object) -> Message:
    """One entry of `tool_calls`; arguments that are no text are written as JSON."""
    written = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return {"id": text(call_id), "type": "function", "function": {"name": text(name), "arguments": written}}


def tool(call_id: object, content: object, name: object = None) -> Message:
    """The result of a call."""
    message: Message = {"role": "tool", "tool_call_id": text(call_id), "content": content}
    return message | {"name": name} if isinstance(name, str) and name else message


def assistant(said: str, calls: Sequence[Message] = (), reasoning: str = "") -> Message | None:
    """An answer (None when it says and calls nothing); reasoning goes to `reasoning_content`, a vendors' extension."""
    if not said and not calls:
        return None
    message: Message = {"role": "assistant", "content": said or None}
    if reasoning:
        message["reasoning_content"] = reasoning
    return message | {"tool_calls": list(calls)} if calls else message


def said(content: object, odd: Counter[str]) -> str:
    """The text of an answer's content; `odd` counts blocks that are neither text, thinking nor calls."""
    if isinstance(content, str):
        return content
    parts = []
    for block in array(content):
        kind = text(obj(block).get("type"))
        if isinstance(block, str) or kind in _TEXT:
            parts.append(_block_text(block))
        elif kind not in _THINKING and kind not in CALL_BLOCKS:
            odd[f"{kind or type(block).__name__} blocks of answers"] += 1
    return "".join(parts)


def thought(content: object) -> str:
    """The readable thinking among an answer's blocks."""
    blocks = [obj(block) for block in array(content)]
    return "\n".join(filter(None, (_thinking_text(block) for block in blocks if block.get("type") in _THINKING)))


def content(value: object, odd: Counter[str]) -> object:
    """The content of a user message or a result: text as text, blocks as chat parts (text and images)."""
    if isinstance(value, str):
        return value
    parts = [part for block in array(value) if (part := _part(block, odd)) is not None]
    if len(parts) == 1 and parts[0]["type"] == "text":
        return parts[0]["text"]
    return parts or ""


def _part(block: object, odd: Counter[str]) -> Message | None:
    raw = obj(block)
    kind = text(raw.get("type"))
    if isinstance(block, str) or kind in _TEXT:
        return {"type": "text", "text": _block_text(block)}
    url = _image_url(raw) if kind in ("image", "image_url", "input_image") else ""
    if url:
        return {"type": "image_url", "image_url": {"url": url}}
    odd[f"{kind or type(block).__name__} blocks"] += 1
    return None


def _image_url(raw: Mapping[str, object]) -> str:
    """The address in an image block: OpenAI's, inspect_ai's, LangChain's, pi's and Anthropic's ways to write it."""
    source = obj(raw.get("source"))
    data = first_text(raw.get("data"), raw.get("base64"), source.get("data"))
    if data:
        kind = first_text(raw.get("mimeType"), raw.get("mime_type"), source.get("media_type"), "image/png")
        return f"data:{kind};base64,{data}"
    return first_text(
        raw.get("image_url"), obj(raw.get("image_url")).get("url"), raw.get("image"), raw.get("url"), source.get("url")
    )


def _block_text(block: object) -> str:
    value = obj(block).get("text") if isinstance(block, dict) else block
    return text(value) or text(obj(value).get("value"))  # LibreChat: {"text": {"value": ...}}


def _thinking_text(block: Mapping[str, object]) -> str:
    return first_text(block.get("thinking"), block.get("reasoning"), block.get("think"), block.get("text"))


def left_out(odd: Counter[str]) -> tuple[str, ...]:
    """The note for what a reader left out, by kind; none when it left out nothing."""
    return (f"left out: {tally(odd)}",) if odd else ()
