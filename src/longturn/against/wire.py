"""How a dialect is spoken to a server over HTTP: addresses, keys, request bodies, and what comes back.

It retries nothing and follows no redirect. Needs httpx2 (the `against` extra), which the first connection loads.
"""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from longturn.dialects.base import Dialect, Native
from longturn.dialects.logs import Conversation
from longturn.errors import ConfigError
from longturn.request import new_body, put

CONNECTING = 10.0
"""Seconds until a connection must stand."""
SHOWN = 300
"""Characters of a server's own words that are kept."""

_HINTS: Mapping[int, str] = {
    401: "set {key} to a key that it takes",
    403: "set {key} to a key that it takes",
    404: "the recording is in {dialect}: the server must speak that, and know the model {model!r}",
    405: "the recording is in {dialect}: the server must speak that",
    429: "wait, and run it again",
    501: "the recording is in {dialect}: the server must speak that",
}


@dataclass(frozen=True, slots=True)
class Form:
    """How a dialect is spoken over HTTP.

    path: behind /v1, none where only a whole address will do. key: the environment's variable with the key, which is
    sent in `header` behind `scheme`. headers, body: what else each request carries.
    """

    path: str
    key: str
    header: str = "authorization"
    scheme: str = "Bearer "
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, object] = field(default_factory=dict)


FORMS: Mapping[str, Form] = {
    "openai_chat": Form("/chat/completions", "OPENAI_API_KEY"),
    # What was said is not to be kept for later calls.
    "openai_responses": Form("/responses", "OPENAI_API_KEY", body={"store": False}),
    "anthropic": Form("/messages", "ANTHROPIC_API_KEY", "x-api-key", "", {"anthropic-version": "2023-06-01"}),
    "gemini": Form("", "GEMINI_API_KEY", "x-goog-api-key", ""),
}
# Anthropic caches only what is marked: a mark on the body is one on its last block (2026-02). Five are refused.
_MARK: Mapping[str, object] = {"cache_control": {"type": "ephemeral"}}
_OPENAI_HOSTS = ("openai.com", "openai.azure.com")
_OPENAI_LEAST = 16  # output tokens; on /responses, OpenAI refuses a lower limit (2026-07)


@dataclass(frozen=True, slots=True)
class Server:
    """Where a replay is sent.

    url: an address like "http://localhost:8080", with or without /v1; one with another path is used as it is. model:
    None for the recorded one if the server has it, else for its only one. timeout: seconds until an answer must be
    there. output: limit of an answer in tokens.
    """

    url: str
    model: str | None = None
    timeout: float = 300.0
    output: int = 1


def address(url: str, dialect: str) -> str:
    """Where calls of a dialect are sent. Raises ConfigError for what is no address of a server."""
    try:
        parts = urlsplit(url)
        host = parts.hostname if parts.port != 0 else None
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https"):
        raise ConfigError(f"{url!r:.100} is no address of a server: give one like http://localhost:8080")
    path = parts.path.rstrip("/")
    if path not in ("", "/v1"):
        return url
    if not FORMS[dialect].path:
        raise ConfigError(f"a recording in {dialect} needs the whole address, .../models/NAME:generateContent")
    return f"{parts.scheme}://{parts.netloc}/v1{FORMS[dialect].path}"


def body_of(found: Conversation, dialect: Dialect, window: Sequence[Native], server: Server) -> dict[str, object]:
    """A request for a window, with the conversation's system prompt and tools, and an output limit."""
    body = new_body(dialect, window, model=server.model, system=found.system, tools=found.tools)
    put(body, _limit_path(dialect, server.url), _limit(dialect, server))
    return {**FORMS[dialect.name].body, **body}


def encoded(body: Mapping[str, object], dialect: str) -> bytes:
    """A body as JSON, in Anthropic's form with a mark for its cache where there is none. ValueError for NaN."""
    text = json.dumps(body, allow_nan=False)
    # Inside a text the quotes would be escaped, so this finds keys only.
    if dialect == "anthropic" and '"cache_control": ' not in text:
        text = json.dumps({**body, **_MARK}, allow_nan=False)
    return text.encode()


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back: HTTP status, 0 where nothing did, and the text of the body or of what went wrong."""

    status: int
    text: str
    seconds: float = 0.0

    @property
    def data(self) -> object:
        """The body as JSON, the bare text where it is none."""
        try:
            return json.loads(self.text)
        except (ValueError, RecursionError):
            return self.text


Send = Callable[[str, bytes | None], Reply]


@contextmanager
def connection(form: Form, timeout: float) -> Iterator[Send]:
    """Gives a function that posts a body to an address, or gets what is there where the body is None."""
    try:
        import httpx2
    except ModuleNotFoundError:
        raise ConfigError("sending a replay to a server needs httpx2: pip install 'longturn[against]'") from None
    key = os.environ.get(form.key, "").strip()
    if not (key.isascii() and key.isprintable()):
        raise ConfigError(f"what {form.key} is set to is no key: it has characters that no header takes")
    headers = {"content-type": "application/json", **form.headers, **({form.header: form.scheme + key} if key else {})}

    def send(url: str, data: bytes | None) -> Reply:
        started = time.perf_counter()
        try:
            response = client.request("GET" if data is None else "POST", url, content=data)
            status, text = response.status_code, response.text
        except httpx2.TimeoutException:
            status, text = 0, f"no answer within {timeout:g} seconds"
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            status, text = 0, f"the connection broke: {error or type(error).__name__}"
        return Reply(status, text, time.perf_counter() - started)

    with httpx2.Client(headers=headers, timeout=httpx2.Timeout(timeout, connect=min(timeout, CONNECTING))) as client:
        yield send


def model_of(send: Send, url: str, recorded: str | None) -> str:
    """The recorded model where the server has it, its only one, or a name that servers with one model ignore."""
    before, found, _ = url.partition("/v1/")
    reply = send(f"{before}/v1/models", None) if found else Reply(0, "")
    listed = reply.data.get("data") if isinstance(reply.data, dict) else None
    names = [entry.get("id") for entry in listed or () if isinstance(entry, dict)]
    if recorded in names or not names:
        return recorded or "default"
    if len(names) > 1:
        raise ConfigError(
            f"the server has {len(names)} models, but not {recorded!r}: name one of {', '.join(map(str, names[:5]))}"
            + (", ..." if len(names) > 5 else "")
        )
    return str(names[0])


def complaint(reply: Reply, dialect: str, model: str | None) -> str:
    """What the body of a refusal says, on one line, and what to do about it."""
    data = reply.data
    told = data.get("error", data) if isinstance(data, dict) else data
    told = told.get("message", told) if isinstance(told, dict) else told
    text = " ".join((told if isinstance(told, str) else json.dumps(told, ensure_ascii=False)).split())
    hint = _HINTS.get(reply.status, "").format(key=FORMS[dialect].key, dialect=dialect, model=model)
    return f"HTTP {reply.status}: {text[:SHOWN] or 'nothing more'}" + (f" ({hint})" if hint else "")


def _is_openai(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    return any(host == known or host.endswith(f".{known}") for known in _OPENAI_HOSTS)


def _limit_path(dialect: Dialect, url: str) -> tuple[str, ...]:
    # OpenAI's newer models take only max_completion_tokens; of the compatible servers, some know only max_tokens.
    is_plain = dialect.name == "openai_chat" and not _is_openai(url)
    return ("max_tokens",) if is_plain else dialect.request.max_output[0]


def _limit(dialect: Dialect, server: Server) -> int:
    is_bound = dialect.name == "openai_responses" and _is_openai(server.url)
    return max(server.output, _OPENAI_LEAST) if is_bound else server.output
