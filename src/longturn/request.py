"""A whole request body in any dialect: where its messages, system prompt, tools and output limit stand."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from longturn.core.policy import Policy
from longturn.core.rungs import RUNGS
from longturn.dialects.base import Dialect, Native, find
from longturn.dialects.registry import Evidence, by_name, choose, weigh
from longturn.errors import TranscriptError

HOMES = {"contents": "gemini", "input": "openai_responses"}
"""Keys that only one dialect keeps its messages under; "messages" is shared."""
HELD_ELSEWHERE = ("previous_response_id", "conversation")
"""OpenAI Responses: the conversation so far is kept by the provider."""
ANTHROPIC_KEYS = ("system", "anthropic_version", "anthropic_beta", "thinking", "stop_sequences", "context_management")


@dataclass(frozen=True, slots=True)
class RequestBody:
    """The pieces of a body.

    served: rungs whose work the request asks the provider to do itself. is_tail: the provider holds what came before,
    so that calls and results here have partners there.
    """

    body: Mapping[str, object]
    dialect: Dialect
    key: str
    messages: list[Native]
    system: object
    tools: object
    model: str | None
    max_output: int | None
    served: frozenset[str]
    is_tail: bool

    def with_messages(self, messages: list[Native]) -> dict[str, object]:
        """A copy of the body with other messages."""
        return {**self.body, self.key: messages}


def read_request(body: Mapping[str, object], dialect: Dialect | str | None, provider: str | None) -> RequestBody:
    """Take a body apart. Raises TranscriptError where it holds no messages."""
    if not isinstance(body, Mapping):
        raise TranscriptError(f"a request body is an object with its messages in it, got {type(body).__name__}")
    found = by_name(dialect) if isinstance(dialect, str) else dialect or _judge(body, provider)
    keys = [path[0] for path in found.request.messages]
    key = next((key for key in keys if body.get(key) is not None), None)
    if key is None:
        raise TranscriptError(f"the request body has no {' or '.join(map(repr, keys))}: its keys are {sorted(body)!r}")
    messages = body[key]
    if isinstance(messages, str):
        # OpenAI Responses and google-genai take a bare text for one user message.
        content = {"parts": [{"text": messages}]} if key == "contents" else {"content": messages}
        messages = [{"role": "user", **content}]
    if not isinstance(messages, list | tuple):
        raise TranscriptError(f"{key!r} in the request body must be a list, got {type(messages).__name__}")
    limit = find(body, found.request.max_output)
    model = body.get("model")
    return RequestBody(
        body=body,
        dialect=found,
        key=key,
        messages=list(messages),
        system=find(body, found.request.system),
        tools=find(body, found.request.tools),
        model=model if isinstance(model, str) else None,
        max_output=limit if isinstance(limit, int) and not isinstance(limit, bool) and limit > 0 else None,
        served=frozenset(_served(body)),
        is_tail=any(body.get(key) is not None for key in HELD_ELSEWHERE),
    )


def new_body(
    dialect: Dialect,
    messages: Sequence[Native],
    *,
    model: str | None = None,
    system: object = None,
    tools: object = None,
) -> dict[str, object]:
    """A request body for messages that came without one; what is None is left out."""
    body: dict[str, object] = {}
    places = dialect.request
    if model and dialect.name != "gemini":  # its model stands in the address
        body["model"] = model
    if tools:
        put(body, places.tools[0], tools)
    listed = list(messages)
    if system is not None and places.system:
        put(body, places.system[0], system)
    elif system is not None:
        # Where a format has no other place for it, the system prompt is the first message.
        listed = [{"role": "system", "content": system}, *listed]
    put(body, places.messages[0], listed)
    return body


def put(body: dict[str, object], path: Sequence[str], value: object) -> None:
    """Set a value in a body, at any depth."""
    *outer, last = path
    for key in outer:
        inner = body.setdefault(key, {})
        assert isinstance(inner, dict)
        body = inner
    body[last] = value


def leave_to_server(policy: Policy, served: frozenset[str]) -> tuple[str, ...]:
    """The policy's rungs without those that the provider was asked to do: no double clearing (providers.md)."""
    return tuple(rung for rung in policy.rungs if rung not in served)


def _judge(body: Mapping[str, object], provider: str | None) -> Dialect:
    for key, name in HOMES.items():
        if key in body and "messages" not in body:
            return by_name(name)
    messages = body.get("messages")
    evidence = weigh(Evidence(), messages if isinstance(messages, list | tuple) else ())
    if provider is None and any(key in body for key in ANTHROPIC_KEYS):
        provider = "anthropic"
    return choose(evidence, provider)


def _served(body: Mapping[str, object]) -> Iterable[str]:
    """Anthropic: `context_management.edits`; OpenAI Responses: a list of `compaction`, or `truncation: "auto"`."""
    asked = body.get("context_management")
    entries = asked.get("edits") if isinstance(asked, Mapping) else asked
    listed = entries if isinstance(entries, list | tuple) else ()
    kinds = [str(entry.get("type")) for entry in listed if isinstance(entry, Mapping)]
    if any(kind.startswith("clear_tool_uses") for kind in kinds):
        yield from ("images", "results", "arguments")
    if any(kind.startswith("compact") for kind in kinds) or body.get("truncation") == "auto":
        yield from RUNGS
