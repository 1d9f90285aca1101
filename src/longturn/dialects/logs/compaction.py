"""Compactions that a log tells of, as checkpoints in the list: the summary, what it stands for, what was kept."""

from collections.abc import Sequence

from longturn.core.checkpoint import Checkpoint, is_entry
from longturn.dialects.logs.fields import count, first_text, seconds, text


def entry(
    summary: str,
    messages: Sequence[object],
    first_kept: int | None = None,
    *,
    time: object = None,
    model: object = None,
    tokens: object = None,
    source_tokens: object = None,
) -> dict[str, object]:
    """The entry of a summary that stands for all `messages`, or for those before the index `first_kept` (S8).

    time: a time stamp as the log has it. tokens: of the summary, source_tokens: of what it stands for, where known.
    """
    covered = messages[: first_kept or 0]
    return Checkpoint(
        text=summary,
        covers=sum(not is_entry(message) for message in covered),
        tokens=count(tokens),
        source_tokens=count(source_tokens),
        model=first_text(model) or None,
        time=text(time) if seconds(time) is not None else "",
    ).entry()


def kept(messages: Sequence[object], first_kept: int | None) -> tuple[int, ...]:
    """The indices of the messages that a compaction left standing behind `first_kept`."""
    return tuple(place for place in range(first_kept or len(messages), len(messages)) if not is_entry(messages[place]))
