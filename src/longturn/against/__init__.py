"""A replay sent to a real server, call by call: taken or refused, true tokens beside our estimate, true cache hits.

Each call goes out as the native window that its policy sends, with an output limit of one token. Nothing is retried,
no redirect is followed, and what the server writes is thrown away. Needs httpx2 (the `against` extra).
"""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from longturn.against.wire import FORMS, Reply, Server, address, body_of, complaint, connection, encoded, model_of
from longturn.core import edits
from longturn.core.counts import Counts
from longturn.core.messages import Message, user
from longturn.core.meter import Usage
from longturn.core.planners import SUMMARY_TOKENS
from longturn.core.policy import Policy, Pruning
from longturn.core.replay import (
    CHECKPOINT_ITEM,
    EDITED,
    NOTE_ITEM,
    PLACEHOLDER_ITEM,
    SUMMARY_ITEM,
    VARIANTS,
    Call,
    Replay,
    Run,
)
from longturn.core.texts import CLEARED, NOTE, PLACEHOLDER
from longturn.dialects.registry import by_name
from longturn.errors import ConfigError
from longturn.overflow import overflow
from longturn.replays import Recording

Outcome = Literal["accepted", "too_long", "refused", "failed"]

FIRST = 3
"""When so many calls at the beginning are refused, and not for their length, the rest would be, too."""
CALL_WORK = 50
"""What a call takes whatever its length, in tokens read, for telling how much of a run is done."""
SUMMARY = "Summary {}: files were read and changed, tests were run, and what they showed was written down. "
"""Repeated, it stands for the text that a summarizer would have written."""
SAMPLE = 20
"""So many of these lines tell how many tokens one of them is among others."""

# A request that the server takes apart and does not like. llama.cpp answers 500 where a model's chat template does not
# take the messages (2026-11).
_REFUSING = frozenset({400, 413, 422, 500})


@dataclass(frozen=True, slots=True)
class Answered:
    """What a server made of one call; in tokens.

    estimate: our count of what was sent. modelled: the front that a cache of the longest prefix would serve. tokens,
    cached: what the server reported that it read, and had of it in its cache; None where it reported nothing.
    outcome: "too_long" is a refusal for the length, "failed" the end of a run. limit: the window that a refusal names.
    reason: the server's words, or what went wrong; empty for an accepted call.
    """

    border: int
    estimate: int
    modelled: int
    outcome: Outcome
    seconds: float
    tokens: int | None = None
    cached: int | None = None
    limit: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Spread:
    """The least, the median and the most of some numbers."""

    least: float
    median: float
    most: float


@dataclass(frozen=True, slots=True)
class Measured:
    """All calls of a replay that were sent, and what they add up to.

    planned: how many there were to send. stopped: why not all of them were sent, empty when they were. interrupted:
    the user ended it. Tokens and ratios are those of accepted calls whose tokens the server reported.
    """

    name: str
    run: str
    planned: int
    calls: tuple[Answered, ...]
    stopped: str = ""
    interrupted: bool = False

    def count(self, outcome: Outcome) -> int:
        """How many calls came out like that."""
        return sum(call.outcome == outcome for call in self.calls)

    @property
    def reported(self) -> list[Answered]:
        """The accepted calls whose tokens the server reported."""
        return [call for call in self.calls if call.outcome == "accepted" and call.tokens]

    @property
    def ratio(self) -> Spread | None:
        """Our estimate over the true tokens, None where nothing was reported."""
        ratios = [call.estimate / call.tokens for call in self.reported if call.tokens]
        return Spread(min(ratios), statistics.median(ratios), max(ratios)) if ratios else None

    @property
    def cached_share(self) -> float | None:
        """How much of what the server read it had in its cache, from 0 to 1."""
        read = sum(call.tokens or 0 for call in self.reported)
        return sum(call.cached or 0 for call in self.reported) / read if read else None

    @property
    def modelled_share(self) -> float | None:
        """How much of the same calls the replay holds for cached, by our estimate."""
        sent = sum(call.estimate for call in self.reported)
        return sum(call.modelled for call in self.reported) / sent if sent else None


def numbers(measured: Measured) -> dict[str, object]:
    """What a replay's calls add up to by names, as JSON data; ratios are estimate over true tokens."""
    reported, ratio = measured.reported, measured.ratio
    return {
        "name": measured.name,
        "run": measured.run,
        "planned": measured.planned,
        "sent": len(measured.calls),
        "accepted": measured.count("accepted"),
        "too_long": measured.count("too_long"),
        "refused": measured.count("refused"),
        "failed": measured.count("failed"),
        "limit": next((call.limit for call in measured.calls if call.limit), None),
        "estimated_tokens": sum(call.estimate for call in reported),
        "true_tokens": sum(call.tokens or 0 for call in reported),
        "ratio_min": ratio and round(ratio.least, 3),
        "ratio_median": ratio and round(ratio.median, 3),
        "ratio_max": ratio and round(ratio.most, 3),
        "cached_share": measured.cached_share and round(measured.cached_share, 3),
        "modelled_share": measured.modelled_share and round(measured.modelled_share, 3),
        "cached_tokens": sum(call.cached or 0 for call in reported),
        "seconds": round(sum(call.seconds for call in measured.calls), 3),
        "stopped": measured.stopped or None,
        "reasons": sorted({call.reason for call in measured.calls if call.outcome == "refused"}),
    }


def against(
    recording: Recording,
    replay: Replay,
    server: Server,
    *,
    policy: Policy | None = None,
    most: int | None = None,
    on_progress: Callable[[Answered, float], object] = lambda _answered, _done: None,
) -> Measured:
    """Send the calls of a recording's replay to a server, in order; Ctrl-C and a dead server keep what was measured.

    policy: the replay's, where its texts or its pruning are not the default ones. most: how many calls are sent, the
    first ones. on_progress: called behind each call with what came of it and the share of the work that is done, from
    0 to 1.

    Raises ConfigError for an address that is none, and a server that does not have the model.
    """
    calls = replay.calls[:most]
    measured = Measured(replay.name, replay.run, len(calls), ())
    work = [call.tokens - call.kept + CALL_WORK for call in calls]
    done = 0
    try:
        for spent, answered in zip(work, ask(recording, calls, server, policy or Policy()), strict=False):
            measured = replace(measured, calls=(*measured.calls, answered))
            done += spent
            on_progress(answered, done / sum(work))
    except KeyboardInterrupt:
        return replace(measured, stopped="it was interrupted", interrupted=True)
    return replace(measured, stopped=_stopped(measured))


def ask(recording: Recording, calls: Sequence[Call], server: Server, policy: Policy) -> Iterator[Answered]:
    """Send calls one by one as they are asked for; ends early behind a failure, and where the first are all refused."""
    dialect, form = by_name(recording.conversation.dialect), FORMS[recording.conversation.dialect]
    url = address(server.url, dialect.name)
    all_refused = True
    with connection(form, server.timeout) as send:
        named = replace(server, model=server.model or model_of(send, url, recording.model))
        for number, call in enumerate(calls, 1):
            try:
                window = dialect.render(window_of(recording.run, call.items, policy))
            except ConfigError as error:
                yield Answered(call.border, call.tokens, call.kept, "failed", 0.0, reason=str(error))
                return
            body = body_of(recording.conversation, dialect, window, named)
            answered = _asked(partial(send, url), call, body, dialect.name, named.model)
            yield answered
            all_refused = all_refused and answered.outcome == "refused"
            if answered.outcome == "failed" or (all_refused and number == FIRST):
                return


def window_of(run: Run, items: Sequence[int], policy: Policy) -> list[Message]:
    """The messages that a window's items stand for. Raises ConfigError where an item does not say how much was cut."""
    return [_message(run.counts, item, policy) for item in items]


def _message(counts: Counts, item: int, policy: Policy) -> Message:
    transcript = counts.transcript
    if item == NOTE_ITEM:
        return transcript.note or user(NOTE)
    if item == PLACEHOLDER_ITEM:
        return transcript.placeholder or user(PLACEHOLDER)
    if item <= CHECKPOINT_ITEM:
        return transcript.mark(CHECKPOINT_ITEM - item)
    if item <= SUMMARY_ITEM:
        line = SUMMARY.format(SUMMARY_ITEM - item)
        return user(line * round(SUMMARY_TOKENS * SAMPLE / counts.of_text(line * SAMPLE)))
    row, bits = divmod(item, VARIANTS)
    message, tool = transcript.rows[row].message, transcript.rows[row].tool
    for place, kind in enumerate(EDITED):
        if bits >> place & 1:
            if kind not in _EDITS:
                raise ConfigError(
                    f"a window with a result that was {kind} cannot be sent, since a replay does not keep how much of "
                    "it was left: choose a policy without emergency_trim"
                )
            message = _EDITS[kind](message, tool, policy)
    return message


_EDITS: Mapping[str, Callable[[Message, str, Policy], Message]] = {
    "cleared": lambda message, tool, policy: edits.cleared(message, policy.cleared_texts.get(tool, CLEARED)),
    "images": lambda message, _tool, _policy: edits.without_images(message),
    "arguments": lambda message, _tool, _policy: edits.shortened(message),
    "thinking": lambda message, _tool, _policy: edits.without_thinking(message),
    "softened": lambda message, _tool, policy: edits.pruned(message, policy.pruning or Pruning(), hard=False),
    "hardened": lambda message, _tool, policy: edits.pruned(message, policy.pruning or Pruning(), hard=True),
}


def _asked(
    send: Callable[[bytes], Reply], call: Call, body: Mapping[str, object], dialect: str, model: str | None
) -> Answered:
    """Send one call and tell what came of it."""
    made = Answered(call.border, call.tokens, call.kept, "refused", 0.0)
    try:
        data = encoded(body, dialect)
    except ValueError as error:
        return replace(made, reason=f"the window cannot be written as JSON: {error}")
    reply = send(data)
    made = replace(made, seconds=reply.seconds)
    if reply.status == 0:
        return replace(made, outcome="failed", reason=reply.text)
    answer = reply.data
    if found := overflow(answer, status=reply.status):
        return replace(made, outcome="too_long", tokens=found.tokens, limit=found.limit, reason=found.message)
    if reply.status == 200 and isinstance(answer, dict) and not answer.get("error"):
        usage = Usage.of(answer.get("usage") or answer.get("usageMetadata"))
        read, cached = (usage.input_tokens, usage.cached_tokens) if usage else (None, None)
        return replace(made, outcome="accepted", tokens=read, cached=cached)
    outcome: Outcome = "refused" if reply.status in _REFUSING else "failed"
    return replace(made, outcome=outcome, reason=complaint(reply, dialect, model))


def _stopped(measured: Measured) -> str:
    """Why a run ended before its last call."""
    calls = measured.calls
    if calls and calls[-1].outcome == "failed":
        return f"call {len(calls)} of {measured.planned} failed: {calls[-1].reason}"
    if len(calls) < measured.planned:
        return f"the server refused the first {len(calls)} calls: {calls[-1].reason}"
    return ""
