"""What is known here of LibreChat's own file: its sections, and the settings that it gave up for `summarization`."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from longturn.config.checked import below
from longturn.config.document import Document, Node, Pair, Problem, items, line_of, pairs, scalar, shown

KNOWN = frozenset(
    {
        "version", "cache", "interface", "registration", "endpoints", "modelSpecs", "mcpServers", "mcpSettings",
        "actions", "fileConfig", "fileStrategy", "fileStrategies", "cloudfront", "rateLimits", "balance",
        "transactions", "speech", "turnstile", "memory", "webSearch", "ocr", "secureImageLinks", "imageOutputType",
        "includedTools", "filteredTools", "skills", "skillSync", "langfuse", "filters", "messageFilter",
    }
)  # fmt: skip
"""Its top-level keys besides `summarization`, autumn 2026; they are ignored without a word (S15)."""

OLD_KEYS = ("summarize", "summaryModel")
"""What each endpoint had for itself before there was one `summarization` for all."""

OWN_MODEL = "current_model"
"""What LibreChat writes for the model that is in use."""


@dataclass(frozen=True, slots=True)
class Old:
    """An old setting of an endpoint (S17). endpoint: as `summarization.provider` names it."""

    key: str
    path: str
    endpoint: str
    pair: Pair

    @property
    def line(self) -> int:
        """Its line, from 1."""
        return line_of(self.pair.at)

    @property
    def value(self) -> bool | str | None:
        """Its value; None where it is none that the key could have."""
        kind: Any = bool if self.key == "summarize" else str
        try:
            found = scalar(self.pair.value) if self.pair.value.id == "scalar" else None
        except ValueError:
            return None
        return found if isinstance(found, kind) and found != "" else None

    def problem(self) -> Problem:
        """What to write instead."""
        return Problem(self.line, self.path, f"is an old setting without effect: {self._instead()}")

    def _instead(self) -> str:
        if self.value is None:
            return f"remove it (it is {shown(self.pair.value)})"
        if self.key == "summarize":
            return f"write summarization.enabled: {str(self.value).lower()}"
        if self.value == OWN_MODEL:
            return "leave summarization.model out, which stands for the agent's own"
        return f"write summarization.provider: {self.endpoint} and summarization.model: {self.value}"


def old_settings(document: Document) -> list[Old]:
    """Every old setting of a custom or an Azure OpenAI endpoint, in the order of the file, each once."""
    found: dict[int, Old] = {}
    for endpoints in (pair.value for pair in document.sections() if pair.key == "endpoints"):
        for pair in _pairs(endpoints):
            if pair.key == "custom":
                for path, each in _each("endpoints.custom", pair.value):
                    _collect(found, path, _text(each, "name") or "custom", each)
            elif pair.key == "azureOpenAI":
                _collect(found, "endpoints.azureOpenAI", "azureOpenAI", pair.value)
                for groups in (inner.value for inner in _pairs(pair.value) if inner.key == "groups"):
                    for path, each in _each("endpoints.azureOpenAI.groups", groups):
                        _collect(found, path, "azureOpenAI", each)
    return list(found.values())


def _collect(found: dict[int, Old], path: str, endpoint: str, node: Node) -> None:
    """Add what one endpoint has. What several share by an alias or a merge is one setting."""
    for pair in _pairs(node):
        if pair.key in OLD_KEYS:
            found.setdefault(id(pair.at), Old(pair.key, below(path, pair.key), endpoint, pair))


def _each(path: str, node: Node) -> Iterator[tuple[str, Node]]:
    seen: set[int] = set()
    for place, each in enumerate(items(node) if node.id == "sequence" else ()):
        if id(each) not in seen:
            seen.add(id(each))
            yield below(path, place), each


def _pairs(node: Node) -> list[Pair]:
    return pairs(node) if node.id == "mapping" else []


def _text(node: Node, key: str) -> str | None:
    found = next((pair.value for pair in _pairs(node) if pair.key == key), None)
    return str(found.value) if found is not None and found.id == "scalar" and found.value else None
