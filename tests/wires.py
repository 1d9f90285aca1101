"""A small real HTTP server that speaks four providers' wires, for the providers' own SDKs to talk to.

It checks every request with `longturn.testing.validate`, refuses what is above its window in the provider's own words
(our rendering of documented shapes), and answers from a script: it has the tool `read` called, chapter by chapter.
"""

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from longturn.testing import validate

Body = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """What the model says: a text, or calls of `read` with these chapters; what it thinks before; why it stopped."""

    text: str = ""
    chapters: tuple[int, ...] = ()
    thinking: str = ""
    stop: str = ""


@dataclass(frozen=True)
class Refusal:
    """An error of the provider's: status and body."""

    status: int
    body: Body


Script = Callable[[int, Body], Answer | Refusal]


@dataclass
class Wire:
    """A running server: its address, and what arrived. problems: what the provider would have refused."""

    url: str
    script: Script
    window: int | None = None
    bodies: list[Body] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def sizes(self, status: int = 200) -> list[int]:
        """How large the requests were that got this status, in tokens."""
        return [count(body) for body, got in zip(self.bodies, self.statuses, strict=True) if got == status]


def count(body: Body) -> int:
    """Tokens of a request as this server counts: a quarter of the characters of what the model reads."""
    keys = ("messages", "input", "contents", "system", "instructions", "systemInstruction", "tools")
    return len(json.dumps([body.get(key) for key in keys], ensure_ascii=False)) // 4


def chapters(last: int, *, at_once: int = 1) -> Script:
    """Read so many chapters, some at once, then say so; without tools say so at once."""

    def script(number: int, body: Body) -> Answer:
        first = number * at_once + 1
        if first > last or body.get("tool_choice") in ("none", {"type": "none"}):
            return Answer(f"I read {first - 1} chapters.")
        return Answer(chapters=tuple(range(first, first + at_once)))

    return script


@contextmanager
def serving(script: Script, *, window: int | None = None) -> Iterator[Wire]:
    """Run a server on a free port of this machine. window: what it takes, in its own tokens."""
    wire = Wire("", script, window)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _door(wire))
    server.daemon_threads = True
    wire.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield wire
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _door(wire: Wire) -> type[BaseHTTPRequestHandler]:
    class Door(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            speech = _speech(self.path)
            wire.problems += validate(body[speech.messages], speech.dialect)
            answered = sum(status == 200 for status in wire.statuses)
            tokens = count(body)
            said: Answer | Refusal = wire.script(answered, body)
            if wire.window is not None and tokens > wire.window:
                said = speech.refusal(tokens, wire.window)
            wire.bodies.append(body)
            wire.headers.append(dict(self.headers.items()))
            wire.statuses.append(said.status if isinstance(said, Refusal) else 200)
            if isinstance(said, Refusal):
                self._send(said.status, "application/json", json.dumps(said.body))
            elif body.get("stream") or "stream" in self.path:
                events = speech.stream(said, tokens)
                self._send(200, "text/event-stream", "".join(events))
            else:
                self._send(200, "application/json", json.dumps(speech.answer(said, tokens)))

        def _send(self, status: int, kind: str, text: str) -> None:
            data = text.encode()
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            self.send_header("connection", "close")
            self.end_headers()
            self.wfile.write(data)
            self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # as the base class has it
            """Nothing: a test's output is its own."""

    return Door


@dataclass(frozen=True)
class Speech:
    """One provider's wire: where its messages stand, how it answers and how it refuses."""

    dialect: str
    messages: str
    answer: Callable[[Answer, int], Body]
    refusal: Callable[[int, int], Refusal]
    stream: Callable[[Answer, int], Sequence[str]] = lambda _answer, _tokens: ()


def _speech(path: str) -> Speech:
    return next(speech for part, speech in SPEECHES.items() if part in path)


def _chat(said: Answer, tokens: int) -> Body:
    calls = [
        {
            "id": f"call_{number}",
            "type": "function",
            "function": {"name": "read", "arguments": json.dumps({"n": number})},
        }
        for number in said.chapters
    ]
    message = {"role": "assistant", "content": said.text or None, **({"tool_calls": calls} if calls else {})}
    stop = said.stop or ("tool_calls" if calls else "stop")
    return {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "served",
        "choices": [{"index": 0, "finish_reason": stop, "message": message}],
        "usage": {"prompt_tokens": tokens, "completion_tokens": 9, "total_tokens": tokens + 9},
    }


def _chat_stream(said: Answer, tokens: int) -> Sequence[str]:
    whole = _chat(said, tokens)
    choice = whole["choices"][0]
    delta = choice["message"]
    for index, call in enumerate(delta.get("tool_calls", ())):
        call["index"] = index
    head = {**whole, "object": "chat.completion.chunk", "usage": None}
    parts = [
        {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]},
        {**head, "choices": [], "usage": whole["usage"]},
    ]
    return [*(f"data: {json.dumps(part)}\n\n" for part in parts), "data: [DONE]\n\n"]


def _chat_refusal(tokens: int, window: int) -> Refusal:
    message = (
        f"This model's maximum context length is {window} tokens. However, your messages resulted in {tokens} tokens. "
        "Please reduce the length of the messages."
    )
    error = {
        "message": message,
        "type": "invalid_request_error",
        "param": "messages",
        "code": "context_length_exceeded",
    }
    return Refusal(400, {"error": error})


def _responses(said: Answer, tokens: int) -> Body:
    output: list[Body] = [
        {
            "type": "function_call",
            "id": f"fc_{number}",
            "call_id": f"call_{number}",
            "name": "read",
            "arguments": json.dumps({"n": number}),
            "status": "completed",
        }
        for number in said.chapters
    ]
    if said.text:
        content = [{"type": "output_text", "text": said.text, "annotations": []}]
        output.append({"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": content})
    return {
        "id": "r",
        "object": "response",
        "created_at": 1,
        "model": "served",
        "status": "completed",
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": tokens,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 9,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": tokens + 9,
        },
    }


def _responses_refusal(_tokens: int, _window: int) -> Refusal:
    message = "Your input exceeds the context window of this model. Please adjust your input and try again."
    error = {"message": message, "type": "invalid_request_error", "param": "input", "code": "context_length_exceeded"}
    return Refusal(400, {"error": error})


def _anthropic(said: Answer, tokens: int) -> Body:
    content: list[Body] = [{"type": "thinking", "thinking": said.thinking, "signature": "s" * 40}] * bool(said.thinking)
    content += [{"type": "text", "text": said.text}] * bool(said.text)
    content += [
        {"type": "tool_use", "id": f"toolu_{number}", "name": "read", "input": {"n": number}}
        for number in said.chapters
    ]
    return {
        "id": "msg",
        "type": "message",
        "role": "assistant",
        "model": "served",
        "content": content,
        "stop_reason": said.stop or ("tool_use" if said.chapters else "end_turn"),
        "stop_sequence": None,
        "usage": {"input_tokens": tokens // 2, "cache_read_input_tokens": tokens - tokens // 2, "output_tokens": 9},
    }


def _anthropic_stream(said: Answer, tokens: int) -> Sequence[str]:
    whole = _anthropic(said, tokens)
    events: list[Body] = [{"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}}]
    for index, block in enumerate(whole["content"]):
        empty, *deltas = _pieces(block)
        events.append({"type": "content_block_start", "index": index, "content_block": empty})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    delta = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    events += [{"type": "message_delta", "delta": delta, "usage": {"output_tokens": 9}}, {"type": "message_stop"}]
    return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]


def _pieces(block: Body) -> list[Body]:
    """A block as a stream brings it: empty, then what is added."""
    if block["type"] == "text":
        return [{**block, "text": ""}, {"type": "text_delta", "text": block["text"]}]
    if block["type"] == "tool_use":
        added = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        return [{**block, "input": {}}, added]
    empty = {"type": "thinking", "thinking": "", "signature": ""}
    thought = {"type": "thinking_delta", "thinking": block["thinking"]}
    return [empty, thought, {"type": "signature_delta", "signature": block["signature"]}]


def _anthropic_refusal(tokens: int, window: int) -> Refusal:
    message = f"prompt is too long: {tokens} tokens > {window} maximum"
    return Refusal(400, {"type": "error", "error": {"type": "invalid_request_error", "message": message}})


def _gemini(said: Answer, tokens: int) -> Body:
    parts: list[Body] = [{"text": said.text}] * bool(said.text)
    parts += [{"functionCall": {"name": "read", "args": {"n": number}}} for number in said.chapters]
    return {
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": said.stop or "STOP"}],
        "usageMetadata": {"promptTokenCount": tokens, "candidatesTokenCount": 9, "totalTokenCount": tokens + 9},
        "modelVersion": "served",
        "responseId": "r",
    }


def _gemini_refusal(tokens: int, window: int) -> Refusal:
    message = f"The input token count ({tokens}) exceeds the maximum number of tokens allowed ({window})."
    return Refusal(400, {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}})


SPEECHES: Mapping[str, Speech] = {
    "/chat/completions": Speech("openai_chat", "messages", _chat, _chat_refusal, _chat_stream),
    "/responses": Speech("openai_responses", "input", _responses, _responses_refusal),
    "/messages": Speech("anthropic", "messages", _anthropic, _anthropic_refusal, _anthropic_stream),
    "/models/": Speech("gemini", "contents", _gemini, _gemini_refusal),
}
