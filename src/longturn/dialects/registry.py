"""The dialects that ship with longturn, by name; it does not detect which one a list is in."""

from longturn.dialects import anthropic, gemini, openai_chat, openai_responses
from longturn.dialects.base import Dialect
from longturn.errors import ConfigError

DIALECTS: tuple[Dialect, ...] = (
    openai_chat.DIALECT,
    openai_responses.DIALECT,
    anthropic.DIALECT,
    gemini.DIALECT,
)


def by_name(name: str) -> Dialect:
    """The dialect called `name`. Raises ConfigError naming the known ones."""
    for dialect in DIALECTS:
        if dialect.name == name:
            return dialect
    known = ", ".join(dialect.name for dialect in DIALECTS)
    raise ConfigError(f"no dialect is called {name!r}: use one of {known}")
