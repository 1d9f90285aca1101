"""Stored messages of Pydantic AI as a person reads them, and as OpenAI chat messages; from their JSON data alone."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

BRIEF = 200
"""Characters that are shown of a call's arguments or of a result, unless all is asked for."""

Body = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Line:
    """Something that was said: `who` is "you", "assistant", "system", "thinking", "call" or "result"."""

    who: str
    text: str


def lines_of(message: object, *, brief: bool = True) -> Iterator[Line]:
    """What one stored message says, part by part. brief: calls and results by their beginnings only."""
    for part in _parts(message):
        kind, text = part.get("part_kind"), _said(part.get("content"))
        if kind in ("tool-return", "builtin-tool-return") or (kind == "retry-prompt" and part.get("tool_name")):
            yield Line("result", f"{part.get('tool_name')}: {_shortened(text) if brief else text}")
        elif kind in ("tool-call", "builtin-tool-call"):
            arguments = _arguments(part)
            yield Line("call", f"{part.get('tool_name')} {_shortened(arguments) if brief else arguments}")
        elif text:
            yield Line(_WHO.get(str(kind), "system"), _shortened(text) if brief and kind == "thinking" else text)


def chat_messages(messages: Sequence[object]) -> list[dict[str, object]]:
    """Stored messages as OpenAI chat messages, which every other command reads.

    What that format has no place for is left out: signatures, the ids and figures of providers, and files, of which
    only images and text are carried over. The instructions of the first request become the system message.
    """
    found: list[dict[str, object]] = []
    first = next((message for message in messages if isinstance(message, Mapping)), {})
    if first.get("instructions"):
        found.append({"role": "system", "content": str(first["instructions"])})
    for message in messages:
        kind = message.get("kind") if isinstance(message, Mapping) else None
        found += [_answer(message)] if kind == "response" else _request(message)
    return found


_WHO = {"user-prompt": "you", "text": "assistant", "thinking": "thinking", "retry-prompt": "system"}


def _parts(message: object) -> list[Body]:
    parts = message.get("parts") if isinstance(message, Mapping) else None
    return [part for part in parts if isinstance(part, Mapping)] if isinstance(parts, list) else []


def _request(message: object) -> list[dict[str, object]]:
    results, rest = list[dict[str, object]](), list[dict[str, object]]()
    for part in _parts(message):
        kind, content = part.get("part_kind"), part.get("content")
        call = part.get("tool_call_id") if kind == "tool-return" or part.get("tool_name") else None
        if call:
            results.append({"role": "tool", "tool_call_id": str(call), "content": _said(content)})
        elif kind == "user-prompt":
            rest.append({"role": "user", "content": content if isinstance(content, str) else _pieces(content)})
        elif _said(content):
            rest.append({"role": "system" if kind == "system-prompt" else "user", "content": _said(content)})
    return [*results, *rest]


def _answer(message: object) -> dict[str, object]:
    texts = {"text": "", "thinking": ""}
    calls: list[object] = []
    for part in _parts(message):
        kind = str(part.get("part_kind"))
        if kind == "tool-call":
            function = {"name": str(part.get("tool_name")), "arguments": _arguments(part)}
            calls.append({"id": str(part.get("tool_call_id")), "type": "function", "function": function})
        elif kind in texts:
            texts[kind] += _said(part.get("content"))
    answer: dict[str, object] = {"role": "assistant", "content": texts["text"] or (None if calls else "")}
    answer |= {"reasoning_content": texts["thinking"]} if texts["thinking"] else {}
    return answer | ({"tool_calls": calls} if calls else {})


def _pieces(content: object) -> list[dict[str, object]]:
    """The pieces of what a user said, files among them."""
    return [_piece(piece) for piece in content] if isinstance(content, list) else [_text(_said(content))]


def _piece(piece: object) -> dict[str, object]:
    if not isinstance(piece, Mapping):
        return _text(_said(piece))
    media = str(piece.get("media_type") or "")
    url = piece.get("url") if piece.get("kind") == "image-url" else None
    if piece.get("kind") == "binary" and media.startswith("image/"):
        url = f"data:{media};base64,{piece.get('data')}"
    return {"type": "image_url", "image_url": {"url": str(url)}} if url else _text(_said(piece))


def _text(text: str) -> dict[str, object]:
    return {"type": "text", "text": text}


def _said(content: object) -> str:
    """Content as text; files as a word in brackets."""
    if isinstance(content, str):
        return content
    if isinstance(content, list) and not all(isinstance(piece, int | float) for piece in content):
        return "\n".join(map(_said, content))
    if isinstance(content, Mapping) and content.get("kind") == "text-content":
        return str(content.get("content"))
    if isinstance(content, Mapping) and ("media_type" in content or "url" in content):
        return f"[{content.get('media_type') or content.get('kind')}]"
    return "" if content is None else json.dumps(content, ensure_ascii=False)


def _arguments(part: Body) -> str:
    given = part.get("args")
    return given if isinstance(given, str) else json.dumps(given or {}, ensure_ascii=False)


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= BRIEF else f"{line[:BRIEF]}… ({len(text):,} characters)"
