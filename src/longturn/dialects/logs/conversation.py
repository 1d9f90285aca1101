"""What a reader of session logs gives: conversations in a dialect's messages, with what the log knows of them."""

from dataclasses import dataclass, field

from longturn.core.meter import Usage


@dataclass(frozen=True, slots=True)
class Conversation:
    """One run in a log.

    dialect: "openai_chat", "openai_responses", "anthropic" or "gemini".
    messages: native messages of that dialect in the order a model read them; what the log left broken (calls without
        results) stays broken. Where the agent had compacted, the summary stands as the entry of a checkpoint (S8).
    name: session, subagent, sample or branch.
    system, tools: where the log has them beside the messages, in the dialect's form.
    usage: index of an answer's (last) native message -> what the provider reported for the call that made it.
    times: native index -> unix seconds, where the log has time stamps.
    boundaries: native indices at which the recording agent had compacted its history: it sent the messages from there
        on, and nothing before but those that are `kept`.
    kept: boundary -> indices of earlier messages that stood directly behind the summary; they are not repeated.
    notes: what was left out or mended while reading, in words with positions.
    """

    dialect: str
    messages: list[object]
    name: str = ""
    model: str | None = None
    system: object = None
    tools: list[object] | None = None
    usage: dict[int, Usage] = field(default_factory=dict)
    times: dict[int, float] = field(default_factory=dict)
    boundaries: tuple[int, ...] = ()
    kept: dict[int, tuple[int, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
