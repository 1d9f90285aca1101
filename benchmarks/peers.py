"""Other tools that shorten conversations, each in its own environment: `python -m benchmarks.peers` installs them.

The scripts that call them are kept beside the working copy, in ../shared/peers; without that folder there are no peers.
Releases are pinned in constraints/bench-*.txt, one file an environment, since the tools do not share dependencies.
"""

import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = ROOT.parent / "shared" / "peers"
PLACE = ROOT / ".benchmarks" / "peers"


@dataclass(frozen=True, slots=True)
class Peer:
    """A script in ../shared/peers, and the environment it runs in."""

    script: str
    environment: str

    @property
    def path(self) -> Path:
        """The script."""
        return SCRIPTS / f"{self.script}.py"

    @property
    def python(self) -> Path:
        """The Python of its environment."""
        return python_of(self.environment)


PEERS = (
    Peer("langchain_clear_tool_uses", "langchain"),
    Peer("langchain_trim_messages", "langchain"),
    Peer("pydantic_ai_harness_tiered", "pydantic-ai"),
    Peer("litellm_trim_messages_empty_content", "litellm"),
    Peer("headroom_compress", "headroom"),
)


def python_of(environment: str) -> Path:
    """Where an environment keeps its Python."""
    return PLACE / environment / "bin" / "python"


def install(environment: str) -> str | None:
    """Make an environment, if it is not there as it is pinned; what went wrong, or None."""
    pins = ROOT / "constraints" / f"bench-{environment}.txt"
    done = PLACE / environment / "pins.txt"
    if done.is_file() and done.read_bytes() == pins.read_bytes():
        return None
    venv.create(PLACE / environment, with_pip=True, clear=True)
    command = [str(python_of(environment)), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"]
    tried = subprocess.run([*command, str(pins)], capture_output=True, text=True)
    if tried.returncode:
        return tried.stderr.strip().splitlines()[-1] if tried.stderr.strip() else f"pip exited with {tried.returncode}"
    done.write_bytes(pins.read_bytes())
    return None


def installed() -> tuple[Peer, ...]:
    """The peers that can be run here."""
    return tuple(peer for peer in PEERS if peer.path.is_file() and (PLACE / peer.environment / "pins.txt").is_file())


def main() -> None:
    """Install all of them; one that cannot be is reported, and the benchmarks go on without it."""
    if not SCRIPTS.is_dir():
        print("no scripts for other tools beside the working copy: longturn is measured alone")
        return
    for environment in dict.fromkeys(peer.environment for peer in PEERS):
        fault = install(environment)
        print(f"{environment}: {fault or 'ready'}", file=sys.stderr if fault else sys.stdout)


if __name__ == "__main__":
    main()
