"""OpenHands runs (version 0: evaluation outputs with a `history`, or an exported list of events), as OpenAI chat.

What OpenHands puts into its prompts at run time (recalled knowledge, condensed histories) is not in its events.
"""

from collections import Counter
from collections.abc import Sequence

from longturn.core.meter import Usage
from longturn.dialects.logs.chat import call, content, left_out, tool
from longturn.dialects.logs.conversation import Conversation
from longturn.dialects.logs.document import Document
from longturn.dialects.logs.fields import array, first_text, obj, objects, openai_usage, seconds, text

Event = dict[str, object]
# Events that are never shown to a model, or only through a prompt template that is not in the log.
_SILENT = frozenset(
    {"", "null", "recall", "change_agent_state", "agent_state_changed", "condensation", "condensation_request", "start"}
)


def recognise(document: Document) -> bool:
    """Whether a first row, its `history`, or its `events` holds actions or observations with a source."""
    return any(_is_run(_events(row.value)) for row in document.rows[:5]) or _is_run(
        [row.value for row in document.rows[:20]]
    )


def _is_run(events: Sequence[object]) -> bool:
    known = [event for event in objects(list(events[:20])) if "source" in event]
    return any(isinstance(event.get("action") or event.get("observation"), str) for event in known)


def _events(value: object) -> list[object]:
    row = obj(value)
    return array(row.get("history")) or array(row.get("events")) or array(row.get("trajectory"))


def read(document: Document, name: str) -> list[Conversation]:
    """One conversation a run."""
    if _is_run([row.value for row in document.rows[:20]]):
        return [_conversation({}, [row.value for row in document.rows], name)]
    found = []
    for row in document.rows:
        run = obj(row.value)
        title = first_text(run.get("instance_id"), run.get("id"), f"{name} {row.where}".strip())
        found.append(_conversation(run, _events(run), title))
    return found


def _conversation(run: Event, events: Sequence[object], name: str) -> Conversation:
    messages: list[object] = []
    usage: dict[int, Usage] = {}
    times: dict[int, float] = {}
    odd: Counter[str] = Counter()
    answers: set[str] = set()
    models: list[object] = []
    for listed in events:
        event = obj(listed)
        response = obj(obj(event.get("tool_call_metadata")).get("model_response"))
        made = first_text(response.get("id")) if event.get("action") else ""
        if made and made in answers:
            continue  # a further call of the same answer
        answers.add(made)
        message = _message(event, response, odd)
        if message is None:
            continue
        time = seconds(event.get("timestamp"))
        reported = openai_usage(response.get("usage")) if message["role"] == "assistant" else None
        times.update({len(messages): time} if time is not None else {})
        usage.update({len(messages): reported} if reported else {})
        models.append(response.get("model"))
        messages.append(message)
    tools = [given for event in map(obj, events) for given in array(obj(event.get("args")).get("tools"))]
    configured = obj(obj(run.get("metadata")).get("llm_config")).get("model")
    return Conversation(
        dialect="openai_chat",
        messages=messages,
        name=name,
        model=first_text(configured, *models) or None,
        tools=tools or None,
        usage=usage,
        times=times,
        notes=left_out(odd),
    )


def _message(event: Event, response: Event, odd: Counter[str]) -> Event | None:
    action, observation = text(event.get("action")), text(event.get("observation"))
    metadata, args = obj(event.get("tool_call_metadata")), obj(event.get("args"))
    if observation and text(metadata.get("tool_call_id")):
        return tool(metadata["tool_call_id"], text(event.get("content")), metadata.get("function_name"))
    if action and metadata:
        return _answer(event, metadata, response)
    if (action or observation) in _SILENT:
        odd[f"{action or observation or 'untyped'} events"] += 1
        return None
    if action == "system":
        return {"role": "system", "content": text(args.get("content"))}
    if observation:
        return {"role": "user", "content": text(event.get("content"))}
    said = first_text(args.get("content"), args.get("thought"), args.get("final_thought"), event.get("message"))
    if event.get("source") == "agent":
        return {"role": "assistant", "content": said}
    images = [{"type": "image_url", "image_url": url} for url in array(args.get("image_urls"))]
    return {"role": "user", "content": content([said, *images], odd)}


def _answer(event: Event, metadata: Event, response: Event) -> Event:
    """The model's own message; where the log dropped it (OpenHands can), the call rebuilt from the action."""
    message = next((obj(choice.get("message")) for choice in objects(response.get("choices"))), {})
    if message:
        calls = [_call(made) for made in objects(message.get("tool_calls"))]
        answer: Event = {"role": "assistant", "content": message.get("content")}
        return answer | {"tool_calls": calls} if calls else answer
    args = obj(event.get("args"))
    made = call(metadata.get("tool_call_id"), metadata.get("function_name"), args)
    return {"role": "assistant", "content": text(args.get("thought")) or None, "tool_calls": [made]}


def _call(made: Event) -> Event:
    function = obj(made.get("function"))
    return call(made.get("id"), function.get("name"), function.get("arguments"))
