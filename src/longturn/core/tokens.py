"""Estimates how many tokens a text is, by model family, with nothing but byte tables.

A text is measured once (`features`: how many of each class of `families.py`) and the counts are remembered; the
estimate for any family is then one dot product (L13, B6). It errs upwards (L12). Not here: the 4 tokens that frame a
message, images, and what a provider reports (calibration).
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from operator import add, mul, sub

from longturn.core.families import ASCII_CLASSES, BLOCKS, CLASSES, MODELS, WEIGHTS, Family

Features = tuple[int, ...]
"""Counts per class, in the order of `families.CLASSES`; classes that are missing at the end are 0."""

OPAQUE_CHARS_PER_TOKEN = 18
"""Characters of encrypted reasoning or a signature for one token of the reasoning behind it (B25; measured)."""

_CHUNK = 1 << 13  # characters measured at once: the passes stay in the cache, and memory does not grow with the text
_PER_TOKEN = 1000  # weights are thousandths

# One byte of marks for each byte of UTF-8, 0 for all that is not ASCII.
_LETTER, _UPPER, _FOREIGN, _DIGIT, _PUNCT, _WHITE, _NEWLINE, _CONTROL = (1 << bit for bit in range(8))


def _marks(byte: int) -> int:
    char = chr(byte)
    if byte >= 0x80:
        return 0
    if char.isalpha():
        return _LETTER | _UPPER * char.isupper() | _FOREIGN * (char in "agkmuy")
    if char.isdigit():
        return _DIGIT
    if char in " \t\n\r":
        return _WHITE | _NEWLINE * (char in "\n\r")
    return _PUNCT if char.isprintable() else _CONTROL


def _mask(mark: int) -> int:
    """The mark in every byte of the longest chunk (a character is at most four bytes of UTF-8)."""
    return int.from_bytes(bytes([mark]) * (4 * _CHUNK), "little")


_MARKS = bytes(map(_marks, range(256)))
_LETTERS, _UPPERS, _FOREIGNS, _DIGITS, _PUNCTS, _WHITES, _NEWLINES, _CONTROLS = (_mask(1 << bit) for bit in range(8))


def _scripts() -> bytes:
    """For each 128 of the characters up to U+FFFF, their class; 0 for ASCII."""
    starts = [first // 128 for first, _ in BLOCKS]
    sizes = map(sub, [*starts[1:], 512], starts)
    return b"\0" + b"".join(bytes([CLASSES.index(name)]) * size for (_, name), size in zip(BLOCKS, sizes, strict=True))


_LOWER_HALF, _UPPER_HALF = _scripts()[0::2], _scripts()[1::2]  # by the high byte of a UTF-16 unit
_IS_UPPER_HALF = bytes(128) + b"\xff" * 128  # by its low byte
_ASTRAL = CLASSES.index("astral")


def features(text: str) -> Features:
    """Measure a text: how many of each class of `families.CLASSES` it holds (B6).

    Counts of two texts add up to those of both joined, but for a run over the seam. Never raises: a surrogate without
    its partner counts as one astral character. Some 100 MB of ASCII a second; memory is bounded by the chunk.
    """
    plain = [0] * ASCII_CLASSES
    scripts = [0] * (len(CLASSES) - ASCII_CLASSES)
    before = b"\0\0"
    for start in range(0, len(text), _CHUNK):
        chunk = text[start : start + _CHUNK]
        marks = before + chunk.encode("utf-8", "surrogatepass").translate(_MARKS)
        before = marks[-2:]
        plain = list(map(add, plain, _count_ascii(marks)))
        if not chunk.isascii():
            scripts = list(map(add, scripts, _count_scripts(chunk)))
    return (*plain, *scripts) if any(scripts) else tuple(plain)


def _count_ascii(marks: bytes) -> Features:
    """The ASCII classes of `marks`, whose first two bytes only tell what came before.

    The bytes are one big integer, so that a mark is counted, or compared with that of the byte before, in one pass.
    """
    before2 = int.from_bytes(marks, "little")
    before = before2 >> 8
    here = before2 >> 16
    same = here & before
    letters, uppers, digits = here & _LETTERS, here & _UPPERS, here & _DIGITS
    white_pairs = same & _WHITES
    humps = uppers & before << 1  # _LETTER of the byte before, moved onto _UPPER
    letter_digit = (letters << 3 & before) | (digits & before << 3)  # _LETTER and _DIGIT are three bits apart
    letter, upper, digit = letters.bit_count(), uppers.bit_count(), digits.bit_count()
    punct, newline = (here & _PUNCTS).bit_count(), (here & _NEWLINES).bit_count()
    return (
        letter - upper,
        upper,
        (same & _FOREIGNS).bit_count(),
        letter - (same & _LETTERS).bit_count(),  # runs: characters less those that continue one
        (humps & ~before).bit_count(),
        letter_digit.bit_count(),
        digit,
        digit - (same & _DIGITS).bit_count(),
        punct,
        punct - (same & _PUNCTS).bit_count(),
        (white_pairs & ~before2).bit_count(),
        (here & _WHITES).bit_count() - newline,
        newline,
        (here & _CONTROLS).bit_count(),
    )


def _count_scripts(chunk: str) -> list[int]:
    """The classes of the characters beyond ASCII: by UTF-16 high byte, then by the half of its 256 characters."""
    units = chunk.encode("utf-16-le", "surrogatepass")
    high, size = units[1::2], len(units) // 2
    lower = int.from_bytes(high.translate(_LOWER_HALF), "little")
    upper = int.from_bytes(high.translate(_UPPER_HALF), "little")
    is_upper = int.from_bytes(units[0::2].translate(_IS_UPPER_HALF), "little")
    classes = (lower ^ ((lower ^ upper) & is_upper)).to_bytes(size, "little")
    counts = [classes.count(number) for number in range(ASCII_CLASSES, len(CLASSES))]
    counts[_ASTRAL - ASCII_CLASSES] -= size - len(chunk)  # two units are one character
    return counts


@dataclass(frozen=True, slots=True)
class Estimator:
    """How texts are counted for a model: `measure` a text once, remember that, and turn it into `tokens` at will.

    All estimators but exact ones share one `measure`, so what is remembered serves every family (B6). `tokens` gives
    whole tokens, rounded up; 0 for empty text.
    """

    name: str
    measure: Callable[[str], Features]
    tokens: Callable[[Features], int]


def _estimator(family: Family) -> Estimator:
    column = 1 + list(Family).index(family)
    weights = [row[column] for row in WEIGHTS]

    def tokens(counts: Features) -> int:
        thousandths: int = sum(map(mul, weights, counts))
        return -(-thousandths // _PER_TOKEN)

    return Estimator(family.value, features, tokens)


_ESTIMATORS = {family: _estimator(family) for family in Family}

SIMPLE = _ESTIMATORS[Family.SIMPLE]
"""The plain rule (L12): four ASCII characters a token, Chinese, Japanese and Korean one each, all else two."""


@lru_cache(maxsize=256)
def estimator_for(model: str | None) -> Estimator:
    """The estimator of a model's family, by its name in any provider's spelling; "modern" where that says nothing."""
    name = (model or "").lower()
    family = next((family for pattern, family in MODELS if re.search(pattern, name)), Family.MODERN)
    return _ESTIMATORS[family]


def exact(count: Callable[[str], int], name: str = "exact") -> Estimator:
    """An estimator that asks a real tokenizer: `count` gives a text's tokens, special ones read as text (L14)."""
    return Estimator(name, lambda text: (count(text),), lambda counts: counts[0])


def estimate(text: str, *, model: str | None = None) -> int:
    """About how many tokens a text is for a model, erring upwards (L12)."""
    return estimator_for(model).tokens(features(text))
