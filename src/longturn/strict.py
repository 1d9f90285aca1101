"""A model of a provider that binds thinking to its conversation, for tests; it answers nothing by itself (B26).

Claude models with preserved thinking refuse a request in which a thinking block stands behind anything that is not
what it was when the block was made (documented for autumn 2026). Here a signature is a hash of all of that.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from longturn.dialects.anthropic_rules import problems
from longturn.dialects.native import plain

Block = dict[str, object]
Request = Mapping[str, object]

_SEALS = {"thinking": "signature", "redacted_thinking": "data"}
_CHARACTERS_PER_TOKEN = 4


def count(request: Request) -> int:
    """Tokens of a request by a rule of thumb: a quarter of the characters of its JSON."""
    return len(json.dumps(plain(dict(request)), ensure_ascii=False, default=str)) // _CHARACTERS_PER_TOKEN


@dataclass(frozen=True, slots=True)
class StrictAnthropic:
    """A provider that refuses what Anthropic would.

    window: what it takes, in tokens; None for any size. count: a request -> its tokens.
    """

    window: int | None = None
    count: Callable[[Request], int] = count

    def check(self, request: Request) -> list[str]:
        """Why the request would be refused, a sentence each; empty when it would be answered.

        Refused are what the Anthropic dialect's `problems` names, thinking and redacted_thinking blocks whose
        signature is not the one that their prefix in this request gives, and a request above the window.
        """
        messages = _messages(request)
        found = [*problems(messages), *_unbound(request)]
        tokens = self.count(request) if self.window is not None else 0
        if self.window is not None and tokens > self.window:
            found.append(f"prompt is too long: {tokens} tokens > {self.window} maximum")
        return found

    def answer(self, request: Request, content: Sequence[Block]) -> Block:
        """An assistant message with `content`, its thinking blocks signed for exactly this request.

        Raises ValueError with the refusals when the request would not be answered.
        """
        refusals = self.check(request)
        if refusals:
            raise ValueError("the request is refused: " + "; ".join(refusals))
        return {"role": "assistant", "content": sign(request, content)}


def sign(request: Request, content: Sequence[Block]) -> list[Block]:
    """Copies of the blocks of an answer to `request`, where thinking and redacted_thinking carry their signatures.

    A signature is a hash of the system prompt, the tools, all messages, the blocks of the answer before it, and the
    text of the block itself; `cache_control` is left out, and text is the same as one block of text.
    """
    prefix = _base(request)
    for message in _messages(request):
        for _ in _walk(message, prefix):
            pass
    prefix.update(_canonical("assistant"))
    signed: list[Block] = []
    for block in content:
        key = _SEALS.get(str(block.get("type")))
        signed.append(block if key is None else {**block, key: _seal(prefix, block)})
        prefix.update(_canonical(signed[-1]))
    return signed


def _unbound(request: Request) -> Iterator[str]:
    prefix = _base(request)
    for position, message in enumerate(_messages(request)):
        for index, block, expected in _walk(message, prefix):
            if block[_SEALS[str(block["type"])]] != expected:
                yield (
                    f"messages[{position}].content[{index}]: the signature of this {block['type']} block is invalid: "
                    "it is bound to a different conversation (the system prompt, the tools, an earlier message or an "
                    "earlier thinking block is not what it was)"
                )


def _walk(message: object, prefix: "hashlib._Hash") -> Iterator[tuple[int, Block, str]]:
    """The sealed blocks of a message, each with its index and the signature that is due; `prefix` moves behind it."""
    read = plain(message)
    body: Block = read if isinstance(read, dict) else {}
    content = body.get("content")
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    prefix.update(_canonical(body.get("role")))
    for index, block in enumerate(blocks):
        if isinstance(block, dict) and _SEALS.get(str(block.get("type"))) in block:
            yield index, block, _seal(prefix, block)
        prefix.update(_canonical(block))


def _seal(prefix: "hashlib._Hash", block: Block) -> str:
    own = prefix.copy()
    own.update(_canonical([block.get("type"), block.get("thinking")]))
    return own.hexdigest()


def _base(request: Request) -> "hashlib._Hash":
    return hashlib.sha256(_canonical([plain(request.get("system")), plain(request.get("tools"))]))


def _messages(request: Request) -> list[object]:
    messages = request.get("messages")
    return list(messages) if isinstance(messages, (list, tuple)) else []


def _canonical(value: object) -> bytes:
    text = json.dumps(_unmarked(value), ensure_ascii=False, sort_keys=True, separators=(",", ":"), default=str)
    return text.encode("utf-8", "surrogatepass") + b"\n"


def _unmarked(value: object) -> object:
    if isinstance(value, dict):
        return {key: _unmarked(item) for key, item in value.items() if key != "cache_control"}
    return [_unmarked(item) for item in value] if isinstance(value, list) else value
