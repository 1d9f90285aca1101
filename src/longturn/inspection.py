"""Where the tokens of a conversation are and what is broken in it; it counts and names, and shapes nothing."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace

from longturn import catalog
from longturn.arguments import TOOL_FRAMING, Arrived, as_tools, problems_of, read_items
from longturn.core.checkpoint import Checkpoint
from longturn.core.counts import Counts
from longturn.core.measure import Measure, measured
from longturn.core.messages import Message, Reasoning, ToolResult
from longturn.core.meter import Usage
from longturn.core.policy import Policy
from longturn.core.tokens import Estimator, estimator_for
from longturn.core.transcript import Transcript
from longturn.dialects.base import Dialect, Native
from longturn.dialects.registry import by_name, detect

LARGEST = 10
"""How many of the largest messages are named."""
BEGINNING = 80
"""How many characters of a message's text are shown."""
MIXED = "mixed"
"""The dialect of conversations that are in several."""

_KINDS = {"system": "system", "user": "user", "assistant": "assistant", "tool": "tool_results"}


@dataclass(frozen=True, slots=True)
class Tokens:
    """Estimated tokens by kind, with the framing of each message; `total` is the sum of all the others.

    system: the system prompt and system messages. assistant: what answers say and think. images: media of any message.
    """

    total: int = 0
    system: int = 0
    tools: int = 0
    user: int = 0
    assistant: int = 0
    tool_calls: int = 0
    tool_results: int = 0
    images: int = 0

    def __add__(self, other: "Tokens") -> "Tokens":
        return Tokens(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(Tokens)))


@dataclass(frozen=True, slots=True)
class Large:
    """One message: its index in the list, its kind as in `Tokens`, its tool if it is a result, and how it begins."""

    message: int
    kind: str
    tool: str
    tokens: int
    begins: str
    run: int | None = None


@dataclass(frozen=True, slots=True)
class ToolUse:
    """What one tool takes, in calls, results and tokens; results without a call stand under the empty name."""

    name: str
    calls: int = 0
    results: int = 0
    call_tokens: int = 0
    result_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Reported:
    """What the provider reported, where a log has it, in tokens.

    calls, input_tokens, cached_tokens, output_tokens: over all calls. largest_input: of the call that read most.
    estimated_input: what we count for that same call; without a system prompt or tools that the log does not hold.
    """

    calls: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    largest_input: int
    estimated_input: int


@dataclass(frozen=True, slots=True)
class Standing:
    """One checkpoint: the index of its entry, its tokens as it is sent, and how many messages here it stands for.

    covers: 0 where it begins the list, and where it is of another list, so that it is left out (B33).
    """

    message: int
    tokens: int
    covers: int


@dataclass(frozen=True, slots=True)
class Inspection:
    """A conversation in numbers, all of them estimates for its model.

    messages: items of the list; a checkpoint's entry counts as the user message that it is sent as. thinking: the part
    of the assistant's tokens that is thinking. by_tool, largest: the largest first. problems: what the provider would
    refuse, with positions. boundaries: where the agent that kept the log had compacted its history. checkpoints: the
    entries in the list (S8).
    """

    dialect: str
    model: str | None
    messages: int
    turns: int
    rounds: int
    tokens: Tokens
    thinking: int
    by_tool: tuple[ToolUse, ...]
    largest: tuple[Large, ...]
    problems: tuple[str, ...]
    reported: Reported | None = None
    boundaries: tuple[int, ...] = ()
    checkpoints: tuple[Standing, ...] = ()


@dataclass(frozen=True, slots=True)
class _Entry:
    """One core message with its place, its tokens and those of its parts that are counted apart."""

    message: Message
    position: int
    tool: str
    tokens: int
    calls: tuple[int, ...]
    images: int
    thinking: int


def inspect(
    messages: Sequence[Native],
    *,
    model: str | None = None,
    system: object = None,
    tools: object = None,
    dialect: Dialect | str | None = None,
    usage: Mapping[int, Usage] | None = None,
    boundaries: Sequence[int] = (),
    kept: Mapping[int, Sequence[int]] | None = None,
) -> Inspection:
    """Count a message list in any dialect, as it is: nothing is mended or left out before it is counted.

    model, system, tools, dialect: as for `longturn.fit`. usage: what was reported, by the index of the answer's last
    message. boundaries: indices before which nothing was sent any more, but what was `kept`: indices of messages, by
    boundary. Raises TranscriptError for a message or an entry that cannot be read, ConfigError for an unknown dialect.
    """
    given = list(messages)
    found = by_name(dialect) if isinstance(dialect, str) else dialect or detect(given, catalog.provider_of(model))
    estimator, policy = estimator_for(model), Policy()
    arrived = list(read_items(found, enumerate(given)))
    structure = Transcript(_unmeasured)
    structure.extend(arrived)
    read = [(one.said.message if isinstance(one.said, Checkpoint) else one.said, one.position) for one in arrived]
    tool_of = {id(row.message): row.tool for row in structure.rows}
    counts = Counts(Transcript(estimator.measure), policy, estimator)
    entries = [_entry(counts, message, position, tool_of.get(id(message), "")) for message, position in read]
    base = Tokens(system=_sum(estimator, found.system_texts(system)), tools=_of_tools(estimator, found, tools))
    tokens = sum(map(_tokens, entries), replace(base, total=base.system + base.tools))
    starts = [structure.rows[row].position for row in structure.answers]
    return Inspection(
        dialect=found.name,
        model=model,
        messages=len(given),
        turns=len(structure.openers),
        rounds=len(structure.answers),
        tokens=tokens,
        thinking=sum(entry.thinking for entry in entries),
        by_tool=_ranked(use for entry in entries for use in _uses(entry)),
        largest=_largest(map(_large, entries)),
        problems=tuple(problems_of(found, given)),
        reported=_reported(usage or {}, entries, starts, tokens.system + tokens.tools, boundaries, kept or {}),
        boundaries=tuple(boundaries),
        checkpoints=tuple(_standing(arrived, entries, structure)),
    )


def combined(inspections: Sequence[Inspection]) -> Inspection:
    """Several conversations as one: sums, the largest of all, problems with the number of their run (from 1)."""
    dialects = {each.dialect for each in inspections}
    models = {each.model for each in inspections}
    reported = [each.reported for each in inspections if each.reported]
    runs = list(enumerate(inspections, 1))
    return Inspection(
        dialect=dialects.pop() if len(dialects) == 1 else MIXED,
        model=models.pop() if len(models) == 1 else None,
        messages=sum(each.messages for each in inspections),
        turns=sum(each.turns for each in inspections),
        rounds=sum(each.rounds for each in inspections),
        tokens=sum((each.tokens for each in inspections), Tokens()),
        thinking=sum(each.thinking for each in inspections),
        by_tool=_ranked(use for each in inspections for use in each.by_tool),
        largest=_largest(replace(large, run=number) for number, each in runs for large in each.largest),
        problems=tuple(f"run {number}: {problem}" for number, each in runs for problem in each.problems),
        reported=_together(reported) if reported else None,
    )


def _unmeasured(_text: str) -> tuple[int, ...]:
    return ()


def _sum(estimator: Estimator, texts: Iterable[str]) -> int:
    return sum(estimator.tokens(estimator.measure(text)) for text in texts)


def _of_tools(estimator: Estimator, dialect: Dialect, tools: object) -> int:
    schemas = ["\n".join(texts) for tool in as_tools(tools) for texts in dialect.tool_texts(tool)]
    return _sum(estimator, schemas) + TOOL_FRAMING * len(schemas)


def _entry(counts: Counts, message: Message, position: int, tool: str) -> _Entry:
    tokens = counts.of_message(message)
    shape: Measure = measured(message, _unmeasured)
    thinking = 0
    if shape.thinking is not None:
        rest = [part for part in message.parts if not isinstance(part, Reasoning)]
        thinking = tokens - counts.of_message(replace(message, parts=tuple(rest)))
    return _Entry(
        message=message,
        position=position,
        tool=tool,
        tokens=tokens,
        calls=tuple(counts.of_text(f"{call.name} {call.arguments}") for call in message.calls),
        images=shape.media * counts.policy.image_tokens,
        thinking=thinking,
    )


def _tokens(entry: _Entry) -> Tokens:
    text = entry.tokens - entry.images
    calls = min(text, sum(entry.calls))
    kind = _KINDS[entry.message.role]
    return replace(Tokens(total=entry.tokens, tool_calls=calls, images=entry.images), **{kind: text - calls})


def _uses(entry: _Entry) -> list[ToolUse]:
    if entry.message.role == "tool":
        return [ToolUse(entry.tool, results=1, result_tokens=entry.tokens)]
    named = zip(entry.message.calls, entry.calls, strict=True)
    return [ToolUse(call.name, calls=1, call_tokens=tokens) for call, tokens in named]


def _ranked(uses: Iterable[ToolUse]) -> tuple[ToolUse, ...]:
    known: dict[str, ToolUse] = {}
    for use in uses:
        one = known.get(use.name, ToolUse(use.name))
        known[use.name] = ToolUse(
            use.name,
            one.calls + use.calls,
            one.results + use.results,
            one.call_tokens + use.call_tokens,
            one.result_tokens + use.result_tokens,
        )
    return tuple(sorted(known.values(), key=lambda use: (-use.call_tokens - use.result_tokens, use.name)))


def _large(entry: _Entry) -> Large:
    part = entry.message.parts[0] if entry.message.parts else None
    text = part.text if isinstance(part, ToolResult) else entry.message.text
    kind = "tool_calls" if sum(entry.calls) * 2 > entry.tokens else _KINDS[entry.message.role]
    if kind == "tool_calls":
        call = entry.message.calls[entry.calls.index(max(entry.calls))]
        return Large(entry.position, kind, call.name, entry.tokens, _beginning(call.arguments))
    return Large(entry.position, kind, entry.tool, entry.tokens, _beginning(text))


def _beginning(text: str) -> str:
    return " ".join(text[: 4 * BEGINNING].split())[:BEGINNING]


def _largest(entries: Iterable[Large]) -> tuple[Large, ...]:
    return tuple(sorted(entries, key=lambda large: -large.tokens)[:LARGEST])


def _reported(
    usage: Mapping[int, Usage],
    entries: Sequence[_Entry],
    starts: Sequence[int],
    base: int,
    boundaries: Sequence[int],
    kept: Mapping[int, Sequence[int]],
) -> Reported | None:
    if not usage:
        return None
    at = max(usage, key=lambda position: usage[position].input_tokens)
    answer = starts[bisect_right(starts, at) - 1] if starts else at
    begins = max((place for place in boundaries if place <= answer), default=0)
    places = {*kept.get(begins, ()), *range(begins, answer)}
    # System messages are part of the base.
    sent = [entry.tokens for entry in entries if entry.position in places and entry.message.role != "system"]
    return Reported(
        calls=len(usage),
        input_tokens=sum(each.input_tokens for each in usage.values()),
        cached_tokens=sum(each.cached_tokens for each in usage.values()),
        output_tokens=sum(each.output_tokens for each in usage.values()),
        largest_input=usage[at].input_tokens,
        estimated_input=base + sum(sent),
    )


def _standing(arrived: Sequence[Arrived], entries: Sequence[_Entry], structure: Transcript) -> Iterator[Standing]:
    """The checkpoints among what arrived; `entries` are the same in numbers."""
    lost = {repair.position for _, repair in structure.repairs}
    messages: set[int] = set()
    for one, entry in zip(arrived, entries, strict=True):
        if isinstance(one.said, Checkpoint):
            covers = min(one.said.covers, len(messages)) if one.said.covers else len(messages)
            yield Standing(one.position, entry.tokens, 0 if one.position in lost else covers)
        else:
            messages.add(one.position)


def _together(reported: Sequence[Reported]) -> Reported:
    largest = max(reported, key=lambda each: each.largest_input)
    sums = {name: sum(asdict(each)[name] for each in reported) for name in ("calls", "input_tokens", "cached_tokens")}
    return replace(largest, output_tokens=sum(each.output_tokens for each in reported), **sums)
