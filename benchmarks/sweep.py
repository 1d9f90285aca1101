"""Which numbers a policy should have: replays of recorded runs over a grid of them, and other tools' rules beside.

`python -m benchmarks.sweep FOLDER [--write]` reads every session log under FOLDER and prints the tables of
docs/policies.md; with `--write` they go between the markers in the page. No model is asked.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.report import table, write
from longturn.core.planners import folded, planners
from longturn.core.policy import Policy
from longturn.core.replay import Planner
from longturn.dialects.logs import load
from longturn.replays import Recording, compare, recordings

PAGE = Path(__file__).resolve().parents[1] / "docs" / "policies.md"
BUDGETS = (8_000, 32_000, 128_000, 200_000)
JUDGED = (32_000, 100_000)
"""The budgets at which the default is chosen."""
TARGETS = (0.4, 0.5, 0.6, 0.8, 1.0)
LOWER_TARGETS = (0.2, 0.25, 0.3, 0.35)
SHARES = (0.1, 0.25, 0.4, 0.5)
BATCHES = (1, 4, 16)
CACHED, FRESH = 0.1, 1.25
"""Price of a token that a cache serves and of one that it stores, of the plain price (Anthropic, providers' pages)."""


@dataclass(frozen=True, slots=True)
class Total:
    """A policy over many runs: millions of tokens at the plain price, dollars where prices are known, and the rest."""

    price: float = 0.0
    dollars: float = 0.0
    misses: int = 0
    broken: int = 0
    rejected: int = 0


def read(folder: Path) -> list[Recording]:
    """Every run under a folder, for windows that refuse nothing below a million tokens."""
    found: list[Recording] = []
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        for conversation in load(path.read_bytes(), path.name):
            found += recordings(conversation, capacity=1_000_000)
    return found


def total(planner: Planner, runs: Sequence[Recording]) -> Total:
    """One policy over all runs, each by its provider's cache rule."""
    sums = Total()
    for run in runs:
        [found] = compare(run, {"it": planner}, keep_items=False)
        price = (found.cached_tokens * CACHED + found.fresh_tokens * FRESH) / 1e6
        sums = Total(
            sums.price + price,
            sums.dollars + (found.cost_usd or 0.0),
            sums.misses + found.misses,
            sums.broken + found.broken_fronts,
            sums.rejected + found.rejected,
        )
    return sums


def outgrowing(runs: Sequence[Recording], budget: int) -> list[Recording]:
    """The runs that a budget shapes at all: in the others every policy sends the same."""
    return [run for run in runs if run.run.fixed + run.run.counts.tokens[-1] > budget]


def policies(runs: Sequence[Recording]) -> Iterator[str]:
    """The named policies at each budget."""
    for budget in sorted({*BUDGETS, *JUDGED}):
        chosen = outgrowing(runs, budget)
        calls = sum(len(run.run.counts.transcript.answers) for run in chosen)
        yield f"Budget {budget:,}: {len(chosen)} runs outgrow it, {calls:,} calls."
        yield ""
        if not chosen:
            continue
        found = {name: total(planner, chosen) for name, planner in planners(budget).items()}
        seed = found["seed"]
        rows = [
            (
                f"`{name}`",
                f"{each.price:.2f}",
                ratio(each.price, seed.price),
                f"{each.dollars:.2f}",
                each.misses,
                each.broken,
            )
            for name, each in found.items()
        ]
        yield from table(("policy", "price", "of `seed`", "dollars", "misses", "broken fronts"), *rows)
        yield ""


def grid(runs: Sequence[Recording]) -> Iterator[str]:
    """Targets, whole shares and batches at the judged budgets, both together, cheapest first."""
    found: dict[tuple[float, float, int], Total] = {}
    choices = [(target, share, 1) for target in (*LOWER_TARGETS, *TARGETS) for share in SHARES]
    choices += [(target, 0.25, batch) for target in (0.4, 0.5, 1.0) for batch in BATCHES[1:]]
    for target, share, batch in choices:
        policy = Policy(target_ratio=target, whole_share=share, batch=batch)
        found[target, share, batch] = judged(runs, lambda budget, policy=policy: folded(policy, budget))
    seed = judged(runs, lambda budget: folded(Policy.seed(), budget, afresh=True))
    rows = [
        (
            target,
            share,
            batch,
            f"{each.price:.2f}",
            ratio(each.price, seed.price),
            each.misses,
            ratio(each.misses, seed.misses),
        )
        for (target, share, batch), each in sorted(found.items(), key=lambda entry: entry[1].price)
    ]
    yield f"`seed`, decided afresh at each call: {seed.price:.2f}, {seed.misses} misses."
    yield ""
    yield from table(("target", "whole share", "batch", "price", "of `seed`", "misses", "of `seed`"), *rows)


def judged(runs: Sequence[Recording], planner: Callable[[int], Planner]) -> Total:
    """The sum over the judged budgets, of the runs that outgrow each."""
    parts = [total(planner(budget), outgrowing(runs, budget)) for budget in JUDGED]
    return Total(
        sum(part.price for part in parts),
        sum(part.dollars for part in parts),
        sum(part.misses for part in parts),
        sum(part.broken for part in parts),
        sum(part.rejected for part in parts),
    )


def ratio(value: float, base: float) -> str:
    return f"{value / base:.2f}" if base else "-"


def tables(runs: Sequence[Recording]) -> Mapping[str, Sequence[str]]:
    """Each table of the page under the name of its marker."""
    calls = sum(len(run.run.counts.transcript.answers) for run in runs)
    return {
        "runs": [f"{len(runs)} runs, {calls:,} calls, {sum(len(run.run.needs) for run in runs)} that quote a result."],
        "policies": list(policies(runs)),
        "grid": list(grid(runs)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    if not asked.folder.is_dir():
        print(f"no recorded runs under {asked.folder}: the sweep is left out")
        return
    found = tables(read(asked.folder))
    if asked.write:
        write(found, PAGE)
    for name, lines in found.items():
        print(f"\n## {name}\n", *lines, sep="\n")


if __name__ == "__main__":
    main()
