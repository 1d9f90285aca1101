"""A summary as it is kept: without what models put around one, and cut at its lines where it is too long."""

import re
from collections.abc import Callable, Sequence

from longturn.core.edits import bound_result
from longturn.core.texts import CHECKPOINT

Count = Callable[[str], int]

_THINKING = re.compile(r"\A\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)
_FENCED = re.compile(r"```\w*\n(.*?)\n?```", re.DOTALL)

_LEAST = 64
_HEADING = 9
# What goes first where there is no room, by heading: what was ruled goes last (S6).
_RANKS = {
    "done": 0,
    "progress": 1,
    "in progress": 2,
    "critical context": 3,
    "key decisions": 4,
    "next steps": 5,
    "goal": 7,
    "constraints & preferences": 8,
}
_OTHER = 6


def plain(text: str) -> str:
    """A summary without what models like to put around one: thinking, a fence, our own first line.

    Empty where it says nothing: dots, or headings alone.
    """
    text = _THINKING.sub("", text).strip()
    fenced = _FENCED.fullmatch(text)
    text = fenced.group(1).strip() if fenced else text
    text = text.removeprefix(CHECKPOINT).strip()
    said = (line for line in text.splitlines() if not line.startswith("#"))
    return text if any(letter.isalnum() for line in said for letter in line) else ""


def bounded(text: str, most: int, count: Count) -> str:
    """A summary of at most `most` tokens, cut at its lines: progress and context go first, what was ruled goes last."""
    if count(text) <= most:
        return text
    lines = text.splitlines()
    ranks = _ranks(lines)
    left = sorted(
        (place for place in range(len(lines)) if ranks[place] < _HEADING), key=lambda place: (ranks[place], place)
    )
    low, high = 0, len(left)
    while low < high:
        middle = (low + high) // 2
        if count(_without(lines, ranks, set(left[:middle]))) <= most:
            high = middle
        else:
            low = middle + 1
    short = _without(lines, ranks, set(left[:low]))
    # One endless line, or nothing but headings: there is nothing to choose from.
    return short if short else bound_result(text, max(_LEAST, len(text) * most // (2 * count(text))))


def _without(lines: Sequence[str], ranks: Sequence[int], gone: set[int]) -> str:
    """The lines that are left, without headings under which none is."""
    kept: list[str] = []
    heading = ""
    for place, line in enumerate(lines):
        if ranks[place] == _HEADING:
            heading = line
        elif place not in gone and line.strip():
            kept += [heading] * bool(heading) + [line]
            heading = ""
    return "\n".join(kept)


def _ranks(lines: Sequence[str]) -> list[int]:
    """How much each line matters: by the heading that it stands under."""
    ranks: list[int] = []
    rank = _OTHER
    for line in lines:
        if line.startswith("#"):
            rank = _RANKS.get(line.strip("# :").lower(), _OTHER)
            ranks.append(_HEADING)
        else:
            ranks.append(rank)
    return ranks
