"""Recorded conversations made ready for replay, policies compared over them, and the outcome as plain data.

It reads no files and prints nothing; `core/replay.py` does the walking.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from longturn import catalog
from longturn.arguments import base_of, output_room, read_items
from longturn.core.caches import CacheRule
from longturn.core.checkpoint import is_entry
from longturn.core.counts import Counts
from longturn.core.misses import needs_of
from longturn.core.policy import NO_LIMIT, Policy
from longturn.core.replay import Planner, Replay, Run, replay
from longturn.core.tokens import estimator_for
from longturn.core.transcript import Transcript
from longturn.core.view import Rules
from longturn.dialects.logs import Conversation
from longturn.dialects.registry import by_name

TOTALS = (
    "rejected",
    "sent_tokens",
    "fresh_tokens",
    "cached_tokens",
    "broken_fronts",
    "misses",
    "peak_tokens",
    "cleared_results",
    "dropped_turns",
    "dropped_rounds",
    "cost_usd",
)
"""The numbers of a replay, in the order of `longturn replay --json`."""


@dataclass(frozen=True, slots=True)
class Recording:
    """A conversation, or the part of one behind a boundary where its agent had compacted it, ready for replay.

    start: index of its first item in the conversation. run: what is walked; the positions of its rows are indices, too.
    """

    conversation: Conversation
    start: int
    run: Run
    model: str | None
    provider: str | None


def recordings(conversation: Conversation, *, model: str | None = None, capacity: int | None = None) -> list[Recording]:
    """The runs of a conversation: one, or one more for each boundary, at which a replay starts anew.

    A run behind a boundary begins with the summary and the messages that were kept beside it; the calls of these are
    those of the run before. model: what to replay for, where it is not the recorded one. capacity: its window in
    tokens. Raises TranscriptError for a message or a checkpoint that cannot be read.
    """
    name = model or conversation.model
    window = catalog.window_of(name) if capacity is None else capacity
    room = None if window is None else window - output_room(name, window)
    dialect, estimator = by_name(conversation.dialect), estimator_for(name)
    base = base_of(dialect, estimator, conversation.system, conversation.tools)
    behind = (start for start in conversation.boundaries if 0 < start < len(conversation.messages))
    starts = [0, *dict.fromkeys(behind)]
    found = []
    for number, (start, stop) in enumerate(zip(starts, [*starts[1:], len(conversation.messages)], strict=True)):
        transcript = Transcript(estimator.measure)
        transcript.system_apart = dialect.system_apart
        places = _places(conversation, start, stop)
        transcript.extend(read_items(dialect, ((place, conversation.messages[place]) for place in places)))
        counts = Counts(transcript, Policy(), estimator)
        counts.update()
        positions = {border: transcript.rows[border].position for border in transcript.answers}
        own = (border for border, position in positions.items() if position >= start)
        run = Run(
            name=conversation.name + (f"#{number + 1}" if number else ""),
            counts=counts,
            base=base,
            rules=Rules(dialect.user_first, dialect.thinking(name)),
            window=window,
            capacity=NO_LIMIT if room is None else room,
            since=next(own, len(transcript.rows)),
            times={row: conversation.times[place] for row, place in positions.items() if place in conversation.times},
            needs=needs_of(transcript),
        )
        found.append(Recording(conversation, start, run, name, catalog.provider_of(name)))
    return found


def _places(conversation: Conversation, start: int, stop: int) -> list[int]:
    """The indices of what stands in a part of a conversation: the messages that were kept come behind the summary."""
    kept = conversation.kept.get(start, ())
    own = list(range(start, stop))
    return [*own[:1], *kept, *own[1:]] if own and is_entry(conversation.messages[start]) else [*kept, *own]


def compare(
    recording: Recording,
    planners: Mapping[str, Planner],
    rule: CacheRule | None = None,
    *,
    keep_items: bool = True,
) -> list[Replay]:
    """A recording under each policy; the provider's cache rule and prices, where they are known, price it.

    keep_items: whether each call keeps its window, as the report page needs it.
    """
    rule = catalog.cache_rule_of(recording.model, recording.conversation.dialect) if rule is None else rule
    prices = catalog.prices_of(recording.model)
    return [
        replay(name, planner, recording.run, rule, prices, keep_items=keep_items) for name, planner in planners.items()
    ]


def numbers(replays: Iterable[Replay]) -> dict[str, object]:
    """The totals of one policy's replays by their names in JSON; the cost is None where no price is known."""
    listed = list(replays)
    totals: dict[str, object] = {"name": listed[0].name if listed else ""}
    for field in TOTALS:
        values = [getattr(each, field) for each in listed]
        known = [value for value in values if value is not None]
        totals[field] = (max if field == "peak_tokens" else sum)(known) if known else None if field == "cost_usd" else 0
    return totals


def as_json(files: Mapping[str, Sequence[Sequence[Replay]]]) -> dict[str, object]:
    """`longturn replay --json`: by file name, for each of its recordings the replays in the order of the policies."""
    named = {name: _file(recordings) for name, recordings in files.items()}
    total = _file([replays for recordings in files.values() for replays in recordings])
    return total if len(named) == 1 else {**total, "files": [{"file": name, **entry} for name, entry in named.items()]}


def _file(recordings: Sequence[Sequence[Replay]]) -> dict[str, object]:
    columns = list(zip(*recordings, strict=True))
    calls = sum(len(replays[0].calls) for replays in recordings if replays)
    return {"calls": calls, "policies": [numbers(column) for column in columns]}
