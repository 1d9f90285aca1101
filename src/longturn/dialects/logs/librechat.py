"""LibreChat conversation exports (JSON): a tree of messages, nested or linked by `parentMessageId`, as OpenAI chat."""

from collections import Counter
from collections.abc import Sequence

from longturn.dialects.logs import compaction
from longturn.dialects.logs.chat import assistant, call, content, left_out, said, thought, tool
from longturn.dialects.logs.conversation import Conversation
from longturn.dialects.logs.document import Document
from longturn.dialects.logs.fields import array, first_text, obj, objects, seconds, text
from longturn.dialects.logs.tree import branches

Node = dict[str, object]
# The block of a summary in an answer; before 2026 it was a field of the last message that it covered.
_SUMMARY = "summary"


def recognise(document: Document) -> bool:
    """Whether it is one object with messages that say who created them and what their parent is."""
    messages = objects(obj(document.value).get("messages"))
    return any("messageId" in message and "isCreatedByUser" in message for message in messages)


def read(document: Document, name: str) -> list[Conversation]:
    """The newest branch, then the others, each from the root on; the preset's instructions come first."""
    value = obj(document.value)
    options = obj(value.get("options"))
    nodes = _flat(value.get("messages"))
    title = first_text(value.get("conversationId"), name)
    found = []
    for number, path in enumerate(branches(_parents(nodes), [True] * len(nodes))):
        odd: Counter[str] = Counter()
        instructions = first_text(options.get("promptPrefix"), options.get("system"))
        messages: list[object] = [{"role": "system", "content": instructions}] if instructions else []
        times: dict[int, float] = {}
        places: dict[str, int] = {}
        kept: dict[int, tuple[int, ...]] = {}
        for node in (nodes[place] for place in path):
            time = seconds(node.get("createdAt"))
            times.update({len(messages): time} if time is not None else {})
            places[text(node.get("messageId"))] = len(messages)
            for message in _messages(node, odd):
                if message.get("type") == _SUMMARY:
                    first = places.get(text(obj(message.get("coverage")).get("retainedFromMessageId")))
                    kept[len(messages)] = compaction.kept(messages, first)
                    messages.append(_checkpoint(message, messages, first))
                else:
                    messages.append(message)
        models = [nodes[place].get("model") for place in reversed(path)]
        found.append(
            Conversation(
                dialect="openai_chat",
                messages=messages,
                name=f"{title}#{number + 1}" if number else title,
                model=first_text(*models, options.get("model")) or None,
                times=times,
                boundaries=tuple(kept),
                kept=kept,
                notes=left_out(odd),
            )
        )
    return found


def _flat(value: object) -> list[Node]:
    """Every message of the tree, parents first; in the order they were created where all say when."""
    nodes: list[Node] = []
    waiting = list(reversed(objects(value)))
    while waiting:
        node = waiting.pop()
        nodes.append(node)
        waiting.extend(reversed(objects(node.get("children"))))
    moments = [seconds(node.get("createdAt")) for node in nodes]
    if all(moment is not None for moment in moments):
        order = sorted(range(len(nodes)), key=lambda place: moments[place] or 0.0)
        return [nodes[place] for place in order]
    return nodes


def _parents(nodes: Sequence[Node]) -> list[int | None]:
    places = {text(node.get("messageId")): place for place, node in enumerate(nodes)}
    return [places.get(text(node.get("parentMessageId"))) for node in nodes]


def _checkpoint(block: Node, messages: Sequence[object], first: int | None) -> Node:
    """The entry of a summary, which stands for everything before the first message that was kept, or before it."""
    return compaction.entry(
        text(block.get("text")),
        messages,
        first,
        time=block.get("createdAt"),
        model=block.get("model"),
        tokens=block.get("tokenCount"),
    )


def _messages(node: Node, odd: Counter[str]) -> list[Node]:
    """What a message of the tree says, and summaries where they stand, as blocks with their `text`."""
    summary = text(node.get("summary"))
    last: Node = {"type": _SUMMARY, "text": summary, "tokenCount": node.get("summaryTokenCount")}
    return [*_said(node, odd), last] if summary.strip() else _said(node, odd)


def _said(node: Node, odd: Counter[str]) -> list[Node]:
    if node.get("error") is True:
        odd["error messages"] += 1
        return []
    blocks = array(node.get("content"))
    if node.get("isCreatedByUser") is True:
        return [{"role": "user", "content": text(node.get("text")) or content(blocks, odd)}]
    messages = _rounds(blocks, odd) if blocks else _answer(text(node.get("text")), [], "")
    if not messages:
        odd["empty answers"] += 1
    return messages


def _answer(spoken: str, made: Sequence[Node], reasoning: str) -> list[Node]:
    calls = [call(one.get("id"), one.get("name"), one.get("args")) for one in made]
    message = assistant(spoken, calls, reasoning)
    results = [tool(one.get("id"), text(one.get("output")), one.get("name")) for one in made if "output" in one]
    return [message, *results] if message else []


def _rounds(blocks: Sequence[object], odd: Counter[str]) -> list[Node]:
    """An agent's run is one message of text and calls with their outputs: words after a call begin a new answer."""
    place = next((place for place, block in enumerate(blocks) if obj(block).get("type") == _SUMMARY), None)
    if place is not None:
        return [*_rounds(blocks[:place], odd), *_summary(obj(blocks[place]), odd), *_rounds(blocks[place + 1 :], odd)]
    rounds: list[list[object]] = [[]]
    for block in blocks:
        called = any(obj(before).get("type") == "tool_call" for before in rounds[-1])
        if called and obj(block).get("type") != "tool_call":
            rounds.append([])
        rounds[-1].append(block)
    messages = []
    for listed in rounds:
        made = [obj(block.get("tool_call")) for block in objects(listed) if block.get("type") == "tool_call"]
        messages.extend(_answer(said(listed, odd), made, thought(listed)))
    return messages


def _summary(block: Node, odd: Counter[str]) -> list[Node]:
    told = said(block.get("content"), odd) or text(block.get("text"))
    if not told.strip() or block.get("summarizing") is True:
        odd["unfinished summaries"] += 1
        return []
    return [{**block, "text": told}]
