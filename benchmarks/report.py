"""The tables of docs/benchmarks.md from one run: `python -m benchmarks.report RUN.json [--llama L.json] [--write]`.

RUN.json is what `pytest benchmarks --benchmark-json=RUN.json` wrote. Prints the tables; with `--write` they go between
the markers in the page.
"""

import argparse
import json
import os
import platform
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import accuracy, llama_window

PAGE = Path(__file__).resolve().parents[1] / "docs" / "benchmarks.md"
Run = Mapping[str, Any]
Row = Sequence[object]
ESTIMATE = "one pass of estimate"


def table(*rows: Row) -> Iterator[str]:
    """Markdown; the first row is the heading."""
    head, *rest = [[str(cell) for cell in row] for row in rows]
    for cells in (head, ["---", *["---:"] * (len(head) - 1)], *rest):
        yield "| " + " | ".join(cells) + " |"


def time_of(seconds: float) -> str:
    """With the unit that leaves few digits."""
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"


def of(run: Run, test: str) -> list[dict[str, Any]]:
    """The results of one test, statistics and `extra_info` in one."""
    return [
        {**found["stats"], **found["extra_info"], "what": (found["params"] or {}).get("what")}
        for found in run["benchmarks"]
        if found["name"].startswith(test)
    ]


def machine(run: Run) -> Iterator[str]:
    """What it was measured on, and the releases."""
    info = run["machine_info"]
    model = info["cpu"].get("brand_raw") or info["machine"]
    releases = dict.fromkeys(found["extra_info"].get("version") for found in run["benchmarks"])
    yield (
        f"{run['datetime'][:10]}, {model}, {os.cpu_count()} cores shared with other work, {platform.system()}, "
        f"Python {info['python_version']}. All times are CPU time."
    )
    yield ""
    yield f"Releases: {', '.join(filter(None, releases))}."


def scratch(run: Run) -> Iterator[str]:
    """From scratch: the least and the median of each subject, and how many passes of `estimate` that is."""
    found = of(run, "test_shaping_from_scratch")
    sizes = sorted({each["rounds"] for each in found})
    base = {each["rounds"]: each["min"] for each in found if each["name"] == ESTIMATE}
    rows: list[Row] = [["subject", *(f"{size:,} rounds: min / median" for size in sizes), "in passes of `estimate`"]]
    for name in dict.fromkeys(each["name"] for each in found):
        by_size = {each["rounds"]: each for each in found if each["name"] == name}
        cells = [f"{time_of(each['min'])} / {time_of(each['median'])}" for _, each in sorted(by_size.items())]
        ratios = " / ".join(f"{by_size[size]['min'] / base[size]:.2f}" for size in sizes if size in by_size)
        rows.append([name, *cells, *["gave up"] * (len(sizes) - len(cells)), ratios])
    yield from table(*rows)
    pairs = {each["rounds"]: each["times_estimate"] for each in found if "times_estimate" in each}
    spoken = ", ".join(
        f"{ratios[0]:.2f} / {ratios[len(ratios) // 2]:.2f} at {size:,}" for size, ratios in sorted(pairs.items())
    )
    yield ""
    yield f"`fit` over one pass of `estimate`, timed in turn fifteen times, least / median: {spoken} rounds."


def remembered(run: Run) -> Iterator[str]:
    """6,400 rounds once the counts are known."""
    names = {
        "refold": "the same `Fitter`, a system prompt that grew: everything is decided anew",
        "loaded": "a new `Fitter` that took up a dump: everything is read anew",
    }
    rows = [
        (names[each["what"]], time_of(each["min"]), time_of(each["median"]))
        for each in of(run, "test_folding_on_remembered_counts")
    ]
    yield from table(("6,400 rounds on remembered counts", "min", "median"), *rows)


def more(run: Run) -> Iterator[str]:
    """One more round: mean, median and p99 at both sizes."""
    found = of(run, "test_one_more_round")
    sizes = sorted({each["rounds"] for each in found})
    head = [
        "subject",
        *(f"after {size:,}: mean / median / p99" for size in sizes),
        "rounds timed",
        "median, large over small",
    ]
    rows: list[Row] = [head]
    for name in dict.fromkeys(each["name"] for each in found):
        ours = sorted((each for each in found if each["name"] == name), key=lambda each: each["rounds"])
        cells = [" / ".join(time_of(each[key]) for key in ("mean", "median", "p99")) for each in ours]
        ratio = f"{ours[-1]['median'] / ours[0]['median']:.2f}"
        rows.append([name, *cells, " / ".join(str(each["rounds_timed"]) for each in ours), ratio])
    yield from table(*rows)


def space(run: Run) -> Iterator[str]:
    """The most that shaping takes on top of the conversation, in multiples of its texts."""
    found = [each for each in of(run, "test_shaping_from_scratch") if "peak" in each]
    sizes = sorted({each["rounds"] for each in found})
    rows: list[Row] = [["subject", *(f"{size:,} rounds" for size in sizes)]]
    for name in dict.fromkeys(each["name"] for each in found):
        by_size = {each["rounds"]: each for each in found if each["name"] == name}
        rows.append([name, *(f"{each['peak'] / each['bytes']:.2f}" for _, each in sorted(by_size.items()))])
    yield from table(*rows)
    for huge in of(run, "test_a_result_of"):
        yield ""
        yield (
            f"One result of {huge['bytes'] / 1e6:.0f} MB: {huge['peak'] / 1e6:.1f} MB on top of it, "
            f"{time_of(huge['min'])} ({huge['bytes'] / huge['min'] / 1e6:.0f} MB/s)."
        )


def fronts(run: Run) -> Iterator[str]:
    """How much of each request a provider's prefix cache could serve."""
    head = (
        "subject",
        "steps",
        "cached share",
        "steps under half",
        "fresh tokens a step: mean / max",
        "request, tokens",
    )
    rows = [
        (
            each["name"],
            each["steps"],
            f"{each['cached_share']:.1%}",
            each["broken"],
            f"{each['fresh_mean']:,.0f} / {each['fresh_max']:,}",
            f"{each['sent_min']:,} to {each['sent_max']:,}",
        )
        for each in of(run, "test_how_much")
    ]
    yield from table(head, *rows)


def windows(run: Run) -> Iterator[str]:
    """What each subject makes of 400 rounds with a budget of 100,000 tokens."""
    head = ("subject", "tokens", "calls kept", "results whole / kept", "the request stands", "what OpenAI refuses")
    rows = [
        (
            each["name"],
            f"{window['tokens']:,}",
            window["calls"],
            f"{window['whole']} / {window['results']}",
            "yes" if window["request"] else "no",
            window["problems"] or "nothing",
        )
        for each in of(run, "test_shaping_from_scratch")
        if (window := each.get("window"))
    ]
    yield from table(head, *rows)


def imports(run: Run) -> Iterator[str]:
    """Start-up time over a bare interpreter's."""
    found = {each["what"]: each for each in of(run, "test_importing")}
    bare = found["nothing"]
    rows = [
        (
            name,
            time_of(each["min"] - bare["min"]),
            time_of(each["median"] - bare["median"]),
            ", ".join(each["foreign"]) or "none",
        )
        for name, each in found.items()
        if each is not bare
    ]
    yield from table(("import", "min", "median", "third-party packages it loads"), *rows)


PARTS: Mapping[str, Callable[[Run], Iterator[str]]] = {
    "machine": machine,
    "scratch": scratch,
    "remembered": remembered,
    "more": more,
    "space": space,
    "fronts": fronts,
    "windows": windows,
    "imports": imports,
}


def write(parts: Mapping[str, Sequence[str]], file: Path = PAGE) -> None:
    """Put each part between its markers in the page."""
    page = file.read_text(encoding="utf-8")
    for name, lines in parts.items():
        marked = re.compile(rf"(<!-- measured: {name} -->\n).*?(<!-- end -->)", re.S)
        text = "\n".join(lines)
        page, number = marked.subn(lambda found, text=text: f"{found[1]}\n{text}\n\n{found[2]}", page)
        assert number == 1, f"the page has {number} places for {name}"
    file.write_text(page, encoding="utf-8")


def main() -> None:
    """Print the tables, and write them where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--llama", type=Path)
    parser.add_argument("--write", action="store_true")
    chosen = parser.parse_args()
    run = json.loads(chosen.run.read_text(encoding="utf-8"))
    parts = {name: list(part(run)) for name, part in PARTS.items()}
    parts["accuracy"] = accuracy.table()
    if chosen.llama and chosen.llama.is_file():
        parts["llama"] = list(llama_window.lines(json.loads(chosen.llama.read_text(encoding="utf-8"))))
    for name, lines in parts.items():
        print(f"\n[{name}]", *lines, sep="\n")
    if chosen.write:
        write(parts)


if __name__ == "__main__":
    main()
