"""What was measured of each text, by a digest of the text, so that another process need not measure it again (L13)."""

from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b

from longturn.core.measure import measured
from longturn.core.repair import Row

Features = tuple[int, ...]
MeasureText = Callable[[str], Features]


def recall(measure: MeasureText, remembered: Mapping[str, Features]) -> MeasureText:
    """`measure`, but for texts whose digest is in `remembered`."""
    if not remembered:
        return measure

    def look_up(text: str) -> Features:
        known = remembered.get(key_of(text))
        return measure(text) if known is None else known

    return look_up


def remember(rows: Iterable[Row]) -> dict[str, Features]:
    """By digest, what the rows' texts were measured as."""
    known: dict[str, Features] = {}
    for row in rows:
        texts: list[str] = []

        def note(text: str, texts: list[str] = texts) -> Features:
            texts.append(text)
            return ()

        measured(row.message, note)
        found = [counts for counts in (row.measure.body, row.measure.thinking) if counts is not None]
        known.update(zip(map(key_of, texts), found, strict=True))
    return known


def key_of(text: str) -> str:
    """A digest that tells texts apart, whatever their script; 128 bits."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
