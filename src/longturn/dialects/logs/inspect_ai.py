"""inspect_ai evaluation logs (JSON): a conversation a sample, as OpenAI chat; usage and tools from its model events."""

from collections import Counter
from collections.abc import Mapping

from longturn.core.meter import Usage
from longturn.dialects.logs.chat import assistant, call, content, left_out, said, thought, tool
from longturn.dialects.logs.conversation import Conversation
from longturn.dialects.logs.document import Document
from longturn.dialects.logs.fields import array, count, obj, objects, seconds, text

Raw = dict[str, object]
_ATTACHED = "attachment://"


def recognise(document: Document) -> bool:
    """Whether it is one object with an `eval` and samples that hold messages (or one such sample)."""
    value = obj(document.value)
    samples = objects(value.get("samples"))
    return isinstance(value.get("eval"), dict) and any("messages" in sample for sample in samples)


def read(document: Document, name: str) -> list[Conversation]:
    """The messages of each sample; what was stored as an attachment is put back in its place."""
    value = obj(document.value)
    model = text(obj(value.get("eval")).get("model")) or None
    lost = len(array(value.get("samples"))) - len(objects(value.get("samples")))
    odd = Counter({"samples that are no object": lost} if lost else {})
    return [_sample(sample, name, model, left_out(odd)) for sample in objects(value.get("samples"))]


def _sample(sample: Raw, name: str, model: str | None, notes: tuple[str, ...]) -> Conversation:
    attachments = obj(sample.get("attachments"))
    calls = [event for event in objects(sample.get("events")) if event.get("event") == "model"]
    reports = {_answer_id(event): event for event in calls if _answer_id(event)}
    messages: list[object] = []
    usage: dict[int, Usage] = {}
    times: dict[int, float] = {}
    odd: Counter[str] = Counter()
    for raw in array(sample.get("messages")):
        message = _message(obj(_attached(raw, attachments)), odd)
        if message is None:
            continue
        event = reports.get(text(obj(raw).get("id")), {})
        reported = _usage(obj(event.get("output")).get("usage"))
        time = seconds(event.get("completed") or event.get("timestamp"))
        usage.update({len(messages): reported} if reported else {})
        times.update({len(messages): time} if time is not None else {})
        messages.append(message)
    tools: list[object] = [_tool(given, attachments) for given in (objects(calls[-1].get("tools")) if calls else [])]
    number, epoch = sample.get("id"), sample.get("epoch")
    return Conversation(
        dialect="openai_chat",
        messages=messages,
        name=" ".join(
            filter(None, (name, f"sample {number}" if number is not None else "", f"epoch {epoch}" if epoch else ""))
        ),
        model=model,
        tools=tools or None,
        usage=usage,
        times=times,
        notes=(*notes, *left_out(odd)),
    )


def _answer_id(event: Mapping[str, object]) -> str:
    choices = objects(obj(event.get("output")).get("choices"))
    return text(obj(choices[0].get("message")).get("id")) if choices else ""


def _attached(value: object, attachments: Raw) -> object:
    if isinstance(value, str) and value.startswith(_ATTACHED):
        return attachments.get(value.removeprefix(_ATTACHED), value)
    if isinstance(value, list):
        return [_attached(item, attachments) for item in value]
    if isinstance(value, dict):
        return {key: _attached(item, attachments) for key, item in value.items()}
    return value


def _message(raw: Raw, odd: Counter[str]) -> Raw | None:
    role, blocks = text(raw.get("role")), raw.get("content")
    if role == "assistant":
        calls = [
            call(made.get("id"), made.get("function"), made.get("arguments")) for made in objects(raw.get("tool_calls"))
        ]
        answer = assistant(said(blocks, odd), calls, thought(blocks))
        odd.update({"empty answers": 1} if answer is None else {})
        return answer
    if role == "tool":
        error = text(obj(raw.get("error")).get("message"))  # sent in the place of the content
        return tool(raw.get("tool_call_id"), error or content(blocks, odd), raw.get("function"))
    if role in ("user", "system"):
        return {"role": role, "content": content(blocks, odd)}
    odd[f"{role or 'roleless'} messages"] += 1
    return None


def _tool(given: Raw, attachments: Raw) -> Raw:
    kept = {key: given[key] for key in ("name", "description", "parameters") if key in given}
    return {"type": "function", "function": _attached(kept, attachments)}


def _usage(value: object) -> Usage | None:
    """Usage in inspect_ai's words; whether the input includes what was cached changed in 2025, the total tells."""
    raw = obj(value)
    output = count(raw.get("output_tokens"))
    cached, written = count(raw.get("input_tokens_cache_read")), count(raw.get("input_tokens_cache_write"))
    total = count(raw.get("total_tokens")) - output
    fallback = count(raw.get("input_tokens")) + cached + written
    read_tokens = total if total > 0 else fallback
    return Usage(read_tokens, output, cached, written, count(raw.get("reasoning_tokens"))) if read_tokens else None
