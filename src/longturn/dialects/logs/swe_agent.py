"""SWE-agent and mini-swe-agent trajectories (JSON): OpenAI tool calls or actions written as text, as OpenAI chat."""

import json
from collections import Counter

from longturn.core.meter import Usage
from longturn.dialects.logs.chat import call, left_out, tool
from longturn.dialects.logs.conversation import Conversation
from longturn.dialects.logs.document import Document
from longturn.dialects.logs.fields import array, first_text, obj, objects, openai_usage, seconds, text

# What SWE-agent is given for a model when people or recordings act.
_NO_MODELS = frozenset({"replay", "human", "human_thought", "instant_empty_submit"})
_CHAT_ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})
# Kept on the wire form of a message; the rest (agent, thought, action, extra, ...) is SWE-agent's own record.
_KEPT = (
    "role",
    "content",
    "tool_calls",
    "tool_call_id",
    "name",
    "thinking_blocks",
    "reasoning_content",
    "cache_control",
)


def recognise(document: Document) -> bool:
    """Whether it is one object with a `trajectory` and a `history` of messages."""
    value = obj(document.value)
    return "trajectory" in value and any("role" in message for message in objects(value.get("history")))


def read(document: Document, name: str) -> list[Conversation]:
    """One conversation for each agent that speaks in the history (what it knew, before SWE-agent's own shaping)."""
    value = obj(document.value)
    agents: dict[str, list[dict[str, object]]] = {}
    for message in objects(value.get("history")):
        agents.setdefault(text(message.get("agent")), []).append(message)
    lost = len(array(value.get("history"))) - sum(map(len, agents.values()))
    found = []
    for agent, history in agents.items():
        odd = Counter({"history entries that are no object": lost} if lost else {})
        messages = [_message(message, odd) for message in history if _is_chat(message, odd)]
        title = first_text(agent, name) if len(agents) > 1 else name
        found.append(
            Conversation(
                "openai_chat", list(messages), title, model=_model(value.get("replay_config")), notes=left_out(odd)
            )
        )
    return found


def _model(config: object) -> str | None:
    if isinstance(config, str):
        try:
            config = json.loads(config)
        except ValueError:
            return None
    name = text(obj(obj(obj(config).get("agent")).get("model")).get("name"))
    return name if name and name not in _NO_MODELS else None


def _is_chat(message: dict[str, object], odd: Counter[str]) -> bool:
    role = text(message.get("role"))
    if role not in _CHAT_ROLES:
        odd[f"{role or 'roleless'} messages"] += 1
    return role in _CHAT_ROLES


def _message(raw: dict[str, object], odd: Counter[str]) -> dict[str, object]:
    """The message as a provider takes it: with the one call id that SWE-agent keeps in a list, arguments as text."""
    kept = {key: raw[key] for key in _KEPT if raw.get(key) is not None}
    ids = array(raw.get("tool_call_ids"))
    if raw.get("role") == "tool" and "tool_call_id" not in kept and ids:
        odd.update({"ids of calls answered together with another": len(ids) - 1} if len(ids) > 1 else {})
        return tool(ids[0], raw.get("content"), raw.get("name"))
    if raw.get("role") == "assistant":
        kept.setdefault("content", None)
        calls = objects(kept.pop("tool_calls", None))
        if calls:
            kept["tool_calls"] = [_call(made) for made in calls]
    return kept


def _call(made: dict[str, object]) -> dict[str, object]:
    function = obj(made.get("function"))
    plain = made.get("type") == "function" and isinstance(function.get("arguments"), str) and "index" not in made
    return made if plain else call(made.get("id"), function.get("name"), function.get("arguments"))


def recognise_mini(document: Document) -> bool:
    """Whether one object names mini-swe-agent as its format, or has `info` beside messages with `extra`."""
    value = obj(document.value)
    if text(value.get("trajectory_format")).startswith("mini-swe-agent"):
        return isinstance(value.get("messages"), list)
    return "info" in value and any("extra" in message for message in objects(value.get("messages")))


def read_mini(document: Document, name: str) -> list[Conversation]:
    """The run; usage and times are in each answer's `extra`. One over the Responses API is given as Responses items."""
    value = obj(document.value)
    listed = objects(value.get("messages"))
    responses = any(isinstance(message.get("output"), list) for message in listed)
    messages: list[object] = []
    usage: dict[int, Usage] = {}
    times: dict[int, float] = {}
    lost = len(array(value.get("messages"))) - len(listed)
    odd = Counter({"messages that are no object": lost} if lost else {})
    for raw in listed:
        extra = obj(raw.get("extra"))
        if responses:
            own = {key: item for key, item in raw.items() if key != "extra"}
            items = array(raw.get("output")) if isinstance(raw.get("output"), list) else [own]
        else:
            items = [_message(raw, odd)] if _is_chat(raw, odd) else []
        if not items:
            continue
        time = seconds(extra.get("timestamp"))
        times.update({len(messages): time} if time is not None else {})
        messages.extend(items)
        reported = openai_usage(raw.get("usage") or obj(extra.get("response")).get("usage"))
        usage.update({len(messages) - 1: reported} if reported else {})
    model = obj(obj(obj(value.get("info")).get("config")).get("model"))
    return [
        Conversation(
            dialect="openai_responses" if responses else "openai_chat",
            messages=messages,
            name=first_text(value.get("instance_id"), name),
            model=first_text(model.get("model_name")) or None,
            usage=usage,
            times=times,
            notes=left_out(odd),
        )
    ]
