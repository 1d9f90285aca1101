"""Logs that are trees: the way from a newest entry back to its root, and the branches beside it."""

from collections.abc import Callable, Iterator, Sequence


def way(parents: Sequence[int | None], leaf: int) -> list[int]:
    """Positions from the root to `leaf`; a ring of parents is cut where it closes."""
    seen: dict[int, None] = {}
    position: int | None = leaf
    while position is not None and position not in seen:
        seen[position] = None
        position = parents[position]
    return list(reversed(seen))


def branches(
    parents: Sequence[int | None],
    wanted: Sequence[bool],
    complete: Callable[[list[int]], list[int]] = lambda path: path,
) -> Iterator[list[int]]:
    """The ways to the newest entries, the newest first, until each wanted entry is on one.

    parents: position of each entry's parent, in the order the entries were written. complete: adds the entries that
    belong to a way but do not lie on it.
    """
    covered: set[int] = set()
    for leaf in reversed(range(len(parents))):
        if wanted[leaf] and leaf not in covered:
            path = complete(way(parents, leaf))
            covered.update(path)
            yield path
