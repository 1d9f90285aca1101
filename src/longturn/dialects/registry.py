"""The dialects that ship with longturn: by name, and which one a list of items is in."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from longturn.core.checkpoint import is_entry
from longturn.dialects import anthropic, gemini, openai_chat, openai_responses
from longturn.dialects.base import Dialect, Native
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


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the `count` items read so far say (B29): the dialect that surely wrote them, and those that did not."""

    sure: Dialect | None = None
    excluded: frozenset[str] = frozenset()
    count: int = 0


def weigh(evidence: Evidence, items: Iterable[Native]) -> Evidence:
    """The evidence with some more items; the first sure one decides, so that what arrives later changes nothing.

    An item of a dialect that an earlier item cannot be in decides nothing: it is the odd one out.
    """
    if evidence.sure:
        return evidence
    excluded = set(evidence.excluded)
    for item in items:
        if is_entry(item):
            continue
        if not evidence.count and _is_system(item):
            # Where a user's message must stand first, the system prompt stands beside the list.
            excluded |= {dialect.name for dialect in DIALECTS if dialect.user_first}
        evidence = replace(evidence, count=evidence.count + 1)
        verdicts = {dialect.name: dialect.sniff(item) for dialect in DIALECTS}
        for dialect in DIALECTS:
            if verdicts[dialect.name] and dialect.name not in excluded:
                return replace(evidence, sure=dialect)
        excluded |= {name for name, verdict in verdicts.items() if verdict is False}
    return replace(evidence, excluded=frozenset(excluded))


def _is_system(item: Native) -> bool:
    role = item.get("role") if isinstance(item, dict) else getattr(item, "role", None)
    return role in ("system", "developer")


def choose(evidence: Evidence, provider: str | None = None) -> Dialect:
    """The dialect that the evidence allows: the sure one, the one of the model's provider, or the plainest (B29)."""
    if evidence.sure:
        return evidence.sure
    allowed = [dialect for dialect in DIALECTS if dialect.name not in evidence.excluded] or list(DIALECTS)
    preferred = {"anthropic": "anthropic", "google": "gemini"}.get(provider or "")
    return next((dialect for dialect in allowed if dialect.name == preferred), allowed[0])


def detect(items: Iterable[Native], provider: str | None = None) -> Dialect:
    """The dialect of a whole list of native items; `provider` decides where the items could be several (B29)."""
    return choose(weigh(Evidence(), items), provider)
