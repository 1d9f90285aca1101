"""How far estimates are from exact counts, as a table: `python -m benchmarks.accuracy` (needs ../shared/data).

Per tokenizer: the text that is estimated lowest and the one estimated highest of the 120 measured ones that have more
than 3,000 characters, and all recorded agent runs where the tokenizer is at hand (toktok-rs). 1.00 is exact; estimates
are meant to err upwards.
"""

import statistics
from pathlib import Path

import toktok  # type: ignore[import-untyped]

from longturn.core.tokens import estimate
from tests.test_tokens import COLUMNS, script_texts, transcripts

SHARED = Path(__file__).resolve().parents[2] / "shared"
ENCODINGS = {"o200k_gpt4o": "o200k_base", "cl100k_gpt4": "cl100k_base", "qwen3_5_toktok": "qwen3.5"}
HEAD = ("tokenizer", "estimated as", "lowest text", "highest text", "median text", "runs: min", "median", "max")


def text_ratios(model: str | None, column: str) -> dict[str, float]:
    """Estimate over exact count of each text."""
    return {name: estimate(text, model=model) / int(counts[column]) for name, text, counts in script_texts(SHARED)}


def run_ratios(model: str | None, encoding: str) -> list[float]:
    """Estimate over exact count of each recorded run."""
    return sorted(
        sum(estimate(text, model=model) for text in texts) / sum(toktok.batch_count(texts, encoding))
        for _, texts in transcripts(SHARED / "data" / "transcripts")
    )


def rows() -> list[tuple[str, ...]]:
    """The table: each tokenizer under its own family, and under no known model."""
    found = []
    for _, model, column in COLUMNS:
        for known in (model, None):
            ratios = text_ratios(known, column)
            lowest, highest = min(ratios, key=ratios.__getitem__), max(ratios, key=ratios.__getitem__)
            runs = run_ratios(known, ENCODINGS[column]) if column in ENCODINGS else []
            found.append(
                (
                    column,
                    known or "unknown model",
                    f"{ratios[lowest]:.2f} {lowest}",
                    f"{ratios[highest]:.2f} {highest}",
                    f"{statistics.median(ratios.values()):.2f}",
                    *([f"{value:.2f}" for value in (runs[0], statistics.median(runs), runs[-1])] if runs else [""] * 3),
                )
            )
    return found


def table() -> list[str]:
    """The rows as Markdown; a line that says so where there is nothing to measure with."""
    if not SHARED.is_dir():
        return ["(the measured texts are not beside the working copy)"]
    return ["| " + " | ".join(cells) + " |" for cells in (HEAD, ("---",) * len(HEAD), *rows())]


if __name__ == "__main__":
    print(*table(), sep="\n")
