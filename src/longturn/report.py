"""What a window's user reads: in numbers, what was kept, what was not, and why; and why a request cannot fit."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from longturn.core.fold import Base, Outcome
from longturn.core.window import Edit, edits_in_force, is_summarized, standing_rows
from longturn.errors import ContextWindowExceeded


@dataclass(frozen=True, slots=True)
class Report:
    """The numbers of one window, in tokens and messages as the core counts them (an answer, a single result).

    total, sent: tokens of the whole transcript and of the window, both with system and tools. messages: how many the
    transcript has. whole_results, cleared_results: tool results in the window. left_out: messages that are not in it.
    checkpoint: tokens of the one that stands for them, 0 without.
    saved: tokens by kind of edit. edits: how many by kind. repairs: what was mended, in words.
    """

    dialect: str
    total: int
    sent: int
    system: int
    tools: int
    limit: int
    capacity: int | None
    messages: int
    turns: int
    rounds: int
    kept_messages: int
    whole_results: int
    cleared_results: int
    left_out: int
    checkpoint: int
    edits: Mapping[str, int]
    saved: Mapping[str, int]
    repairs: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def report_of(outcome: Outcome, base: Base, dialect: str, limit: int, capacity: int | None) -> Report:
    """The report of a window."""
    view, state = outcome.view, outcome.state
    transcript, counts = view.counts.transcript, view.counts
    edits = edits_in_force(outcome)
    number: Counter[str] = Counter(edit.kind for edit in edits if edit.message >= 0)
    saved: Counter[str] = Counter()
    for edit in edits:
        saved[edit.kind] += edit.tokens
    standing = standing_rows(view, state)
    results = [row for row in standing if transcript.rows[row].message.role == "tool"]
    cleared = number["cleared"]
    lead = counts.tokens[transcript.lead]
    return Report(
        dialect=dialect,
        total=base.system + base.tools + counts.tokens[view.border],
        sent=view.exact(state),
        system=base.system + lead,
        tools=base.tools,
        limit=limit,
        capacity=capacity,
        messages=view.border,
        turns=len(transcript.openers),
        rounds=len(transcript.answers),
        kept_messages=len(standing),
        whole_results=len(results) - cleared - number["trimmed"],
        cleared_results=cleared,
        left_out=view.border - len(standing),
        checkpoint=view.mark(state) if is_summarized(view, state) else 0,
        edits=dict(number),
        saved={kind: tokens for kind, tokens in saved.items() if tokens},
        repairs=tuple(_repair(edit) for edit in edits if edit.kind == "repaired"),
    )


def _repair(edit: Edit) -> str:
    return f"message {edit.message}: {edit.reason}" if edit.message >= 0 else edit.reason


_WHAT = {
    "left_out": ("message", "left out"),
    "cleared": ("result", "cleared"),
    "images": ("result", "without images"),
    "pruned": ("result", "pruned by age"),
    "arguments": ("answer", "with shortened arguments"),
    "thinking": ("answer", "without thinking"),
    "trimmed": ("newest result", "cut to head and tail"),
}


def _lines(report: Report) -> list[str]:
    limit = f"{report.limit:,}" if report.limit else "off"
    capacity = f"{report.capacity:,}" if report.capacity is not None else "unknown"
    whole = _number(report.whole_results, "tool result")
    turns, rounds = _number(report.turns, "turn"), _number(report.rounds, "round")
    lines = [
        f"{report.sent:,} of {report.total:,} tokens are sent (budget {limit}, capacity {capacity}; estimated).",
        f"Kept: {report.kept_messages:,} of {_number(report.messages, 'message')}, {whole} whole.",
        f"In all: {turns}, {rounds}; system {report.system:,} tokens, tools {report.tools:,}.",
    ]
    if report.checkpoint:
        lines.append(f"A checkpoint of {_number(report.checkpoint, 'token')} stands for what was left out.")
    for kind, (what, how) in _WHAT.items():
        if report.edits.get(kind):
            saved = _number(report.saved.get(kind, 0), "token")
            lines.append(f"{_number(report.edits[kind], what)} {how}, {saved} saved.")
    lines += [f"Mended: {repair}." for repair in report.repairs[:_SHOWN]]
    if len(report.repairs) > _SHOWN:
        lines.append(f"Mended: {len(report.repairs) - _SHOWN:,} more.")
    return lines


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}" + ("" if count == 1 else "s")


_SHOWN = 10
_HELP = {
    "system": "shorten the system prompt",
    "tools": "send fewer tools or shorter schemas",
    "messages": "shorten the newest message or split the request",
    "images": "send fewer images",
    "output": "lower the output limit",
}


def refusal(outcome: Outcome, base: Base, room_taken: int) -> ContextWindowExceeded:
    """The error for a window that cannot fit (H18): what is large, and what would help; never a larger budget."""
    view, state = outcome.view, outcome.state
    rows = view.counts.transcript.rows
    media = sum(rows[row].measure.media for row in standing_rows(view, state) if row not in state.images)
    images = media * view.counts.policy.image_tokens
    system = base.system + view.counts.tokens[view.counts.transcript.lead]
    total = view.exact(state)
    breakdown = {
        "system": system,
        "tools": base.tools,
        "messages": max(0, total - system - base.tools - images),
        "images": images,
    }
    capacity = view.limits.capacity
    by_size = sorted(breakdown.items(), key=lambda entry: -entry[1])
    parts = ", ".join(f"{name} {tokens:,}" for name, tokens in by_size if tokens)
    helps = [_HELP[by_size[0][0]]] + ([_HELP["output"]] if room_taken > capacity // 4 else [])
    less = f" (the window less {room_taken:,} for the answer)" if room_taken else ""
    text = (
        f"the request needs about {total:,} tokens and the model takes {capacity:,}{less}, with everything left out "
        f"that may be: {parts}. To fit: {', or '.join(helps)}, or use a model with a larger window."
    )
    return ContextWindowExceeded(text, estimated_tokens=total, capacity=capacity, breakdown=breakdown)
