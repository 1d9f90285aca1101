"""What `LongTurn` adds to a model request of an agent: `python -m benchmarks.agent_overhead [--rounds N]`.

A run of N rounds, each with a result of some 400 tokens, and a model in this process that answers at once. Measured are
the three hooks of the capability at each request, so nothing of Pydantic AI's own work; the median is of the last tenth
of the run, when the transcript is longest.
"""

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from pydantic_ai import Agent, UsageLimits
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage

from longturn.agent import LongTurn

TEXT = "The quick brown fox jumps over the lazy dog, and nobody minds at all. " * 22
HOOKS = ("before_model_request", "prepare_model_request", "after_model_request")


def timed(hook: Callable[..., Awaitable[Any]], spent: list[float]) -> Callable[..., Awaitable[Any]]:
    async def measured(*args: Any, **more: Any) -> Any:
        start = time.perf_counter()
        try:
            return await hook(*args, **more)
        finally:
            spent[-1] += time.perf_counter() - start

    return measured


def run(rounds: int, budget: int) -> list[float]:
    """Seconds that the capability took at each request."""
    spent: list[float] = []

    class Timed(LongTurn[None]):
        async def for_run(self, ctx: Any) -> Any:
            mine = await super().for_run(ctx)
            for name in HOOKS:
                setattr(mine, name, timed(getattr(mine, name), spent))
            spent.append(0.0)
            return mine

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        # What follows belongs to the next request, apart from the last hook of this one, which is a fraction of it.
        spent.append(0.0)
        number, usage = len(spent), RequestUsage(input_tokens=20_000, output_tokens=20)
        if number > rounds:
            return ModelResponse([TextPart("done")], usage=usage)
        return ModelResponse([ToolCallPart("read", {"n": number}, f"call_{number}")], usage=usage)

    agent: Agent[None, str] = Agent(FunctionModel(answer), capabilities=[Timed(budget=budget)])

    @agent.tool_plain
    def read(n: int) -> str:
        """Read one chapter."""
        return f"{n} {TEXT}"

    asyncio.run(agent.run("Go.", usage_limits=UsageLimits(request_limit=None)))
    return spent[1:-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1_000)
    parser.add_argument("--budget", type=int, default=100_000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    spent = [1_000 * each for each in run(options.rounds, options.budget)]
    late = spent[-len(spent) // 10 :]
    figures = {
        "rounds": options.rounds,
        "median_ms": round(statistics.median(late), 3),
        "p95_ms": round(statistics.quantiles(late, n=20)[-1], 3),
        "worst_ms": round(max(spent[1:]), 3),
        "first_ms": round(spent[0], 3),
    }
    print(json.dumps(figures))
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(figures), encoding="utf-8")


if __name__ == "__main__":
    main()
