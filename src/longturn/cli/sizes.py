"""Token counts as people write them on a command line: 32000, 32k, 1.5m."""

import re
from decimal import Decimal

from longturn.errors import ConfigError

FORMS = "32000, 32_000, 32,000, 32k (32,000) or 1.5m (1,500,000)"
_UNITS = {"": 1, "k": 1_000, "m": 1_000_000}
_SIZE = re.compile(r"(?P<number>\d[\d_,]*(?:\.\d+)?)\s*(?P<unit>[km]?)", re.ASCII)
_MOST_CHARACTERS = 20


def tokens_of(option: str, text: str | None, *, least: int = 0) -> int | None:
    """The number of tokens that `text` means, k being 1,000; None for None.

    Raises ConfigError naming the option and the forms that are accepted.
    """
    if text is None:
        return None
    found = _SIZE.fullmatch(text.strip().lower()) if len(text) <= _MOST_CHARACTERS else None
    number = Decimal(found["number"].replace("_", "").replace(",", "")) * _UNITS[found["unit"]] if found else None
    if number is None or number != int(number) or number < least:
        above = f" of at least {least}" if least else ""
        raise ConfigError(f"{option} {text!r:.40} is no number of tokens{above}: write {FORMS}")
    return int(number)
