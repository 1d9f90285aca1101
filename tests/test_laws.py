"""The ten laws (B31) over random histories in every dialect, most of them too long for their budget.

Each test fits a history call by call, as a run would. An independent count of the messages stands against the sums that
the fold keeps.
"""

import copy
import json
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import pytest
from hypothesis import given

import longturn
from longturn import CLEARED, NOTE, ContextWindowExceeded, Window
from longturn.core.checkpoint import BEGINNING, Checkpoint, digests, is_entry
from longturn.core.counts import FRAMING, Counts
from longturn.core.edits import shortened, without_images
from longturn.core.fold import is_over
from longturn.core.messages import Message, Reasoning, ToolResult
from longturn.core.rungs import cut_at
from longturn.core.texts import CHECKPOINT, EMPTY_ANSWER, EMPTY_MESSAGE, PLACEHOLDER
from longturn.core.tokens import estimator_for
from longturn.core.transcript import Transcript
from longturn.dialects.registry import by_name
from longturn.testing import validate
from tests.oracle import (
    answer_places,
    is_at_floor,
    is_ours,
    newest_unit,
    opener_places,
    read,
    transcript_of,
    without_entries,
)
from tests.strategies import (
    BROKEN_STORIES,
    LONG_STORIES,
    MARKS,
    NOWHERE,
    PRUNING,
    SOME_MARKS,
    Case,
    Native,
    cases,
    covering_from,
)

SEEN: Counter[str] = Counter()


class Step(NamedTuple):
    """One call of a run: what the caller held, and the window."""

    held: list[Native]
    window: Window


def run(case: Case) -> Iterator[Step]:
    """The calls of a run, until the request is refused as too large for the model."""
    fitter = case.fitter()
    shaped = False
    SEEN["histories"] += 1
    for held in case.prefixes():
        try:
            window = fitter.fit(held)
        except ContextWindowExceeded:
            SEEN["refused"] += 1
            return
        if window.changed and not shaped:
            SEEN["shaped"] += 1
            shaped = True
        state = window._outcome.state
        SEEN["windows"] += 1
        SEEN["bare"] += state.bare > state.cut
        SEEN["summarized"] += window.checkpoint is not None
        yield Step(held, window)


def counter(case: Case) -> Counts:
    """Counts messages one by one, without the sums of the fold."""
    estimator = estimator_for(case.settings["model"])
    return Counts(Transcript(estimator.measure), case.settings["policy"], estimator)


def rounded(case: Case, window: Window) -> int:
    """The size that is tested: the base (system, tools) rounded up to a 32nd of the limit (B7)."""
    step = max(1, limit_of(case, window) // 32)
    base = window.report.system + window.report.tools
    return window.tokens - base + -(-base // step) * step


def is_superseded(window: Window) -> bool:
    """Whether the list begins with a checkpoint and a newer one has taken its place in front (S8)."""
    return window._outcome.view.is_superseded(window._outcome.state)


def limit_of(case: Case, window: Window) -> int:
    """Over this a window is shaped: the budget, or where trimming is off what the model takes (B7, H19)."""
    assert window.capacity is not None
    return min(case.settings["budget"] or window.capacity, window.capacity)


# --- the laws ---


@given(cases(marks=MARKS))
def test_law_1_a_window_is_within_its_ceiling_or_at_the_floor_or_refused(case: Case) -> None:
    """B8, B9, B31."""
    for held, window in run(case):
        view, state = window._outcome.view, window._outcome.state
        assert view.size(state) == rounded(case, window)
        if rounded(case, window) > ceiling_of(case, held, window):
            assert is_at_floor(case.dialect, held, window)


def ceiling_of(case: Case, held: list[Native], window: Window) -> int:
    """Pins and room, at most the capacity (B8, B9); with `pin`, or none in front, what the view says."""
    policy, counts = case.settings["policy"], counter(case)
    raw, view = read(case.dialect, held), window._outcome.view
    front = next((message for message in read(case.dialect, window.messages) if message.role != "system"), None)
    openers = opener_places(raw)
    found = view.ceiling(window._outcome.state)
    if (
        policy.pin
        or not openers
        or is_superseded(window)
        or front is None
        or front.role != "user"
        or front.text == PLACEHOLDER
    ):
        return found
    opener = raw[openers[-1]]
    pins = rounded(case, window) - window.tokens + window.report.system + window.report.tools
    pins += counts.of_message(front) + (counts.of_message(opener) if opener.text != front.text else 0)
    limit = limit_of(case, window)
    assert window.capacity is not None
    ceiling = min(pins + max(limit - pins, int(policy.whole_share * limit)), window.capacity)
    assert found == ceiling
    return ceiling


@given(cases(marks=MARKS))
def test_the_tokens_of_a_window_are_those_of_its_messages_counted_one_by_one(case: Case) -> None:
    """H21, B7: the fold keeps sums; here nothing is remembered. So with users' messages alone and with checkpoints."""
    counts = counter(case)
    for held, window in run(case):
        lead = [message for message in read(case.dialect, held)[:1] if message.role == "system"]
        base = window.report.system + window.report.tools - sum(map(counts.of_message, lead))
        sent = read(case.dialect, window.messages)
        answers = sum(message.role == "assistant" for message in sent)
        # The messages of one answer are framed once (B29).
        unframed = FRAMING * (answers - len(answer_places(sent)))
        assert window.tokens == base + sum(map(counts.of_message, sent)) - unframed
        # What is ours and no message of the history: placeholder, note, checkpoint in its place.
        front = next((message.text for message in sent if message.role != "system"), "")
        ours = sum(map(is_ours, sent)) - (front.startswith(CHECKPOINT) and not is_superseded(window))
        assert window.report.kept_messages == len(sent) - ours
        assert window.report.left_out == len(read(case.dialect, held)) - window.report.kept_messages


@given(cases())
def test_law_2_where_nothing_is_due_the_window_is_the_same_objects(case: Case) -> None:
    """H7, B31."""
    if case.story.headless:
        return
    policy = replace(case.settings["policy"], max_history_messages=None)
    whole = longturn.fit(
        case.raw, **{**case.settings, "budget": 1 << 40, "capacity": None, "policy": policy}, dialect=case.dialect
    )
    enough = whole.report.total * 32 // 31 + 33
    fits = replace(case, settings={**case.settings, "budget": enough, "capacity": None, "policy": policy})
    for held in fits.prefixes():
        window = fits.fit(held)
        assert not window.changed
        assert [id(item) for item in window.messages] == [id(item) for item in held]
        assert not window.edits
        assert not window.events


@given(cases(BROKEN_STORIES, marks=MARKS))
def test_law_3_shaping_a_shaped_history_changes_nothing(case: Case) -> None:
    for _, window in run(case):
        again = case.fit(window.messages)
        assert again.messages == window.messages
        assert not again.changed
        assert again.tokens == window.tokens


@given(cases(BROKEN_STORIES, marks=MARKS))
def test_law_4_from_scratch_step_by_step_and_after_a_restart_windows_are_equal(case: Case) -> None:
    """L9, B2, B35; a second look, and what follows a restart, change nothing either."""
    before: list[Native] = []
    for number, (held, window) in enumerate(run(case)):
        scratch = case.fit(held)
        assert scratch.messages == window.messages
        assert (scratch.tokens, scratch.edits) == (window.tokens, window.edits)
        if number % 3 == 1:
            earlier = case.fitter()
            earlier.fit(before)
            later = case.fitter().load(json.loads(json.dumps(earlier.dump())))
            assert later.fit(held).messages == window.messages
            assert later.fit(held).messages == window.messages
        before = held


@given(cases())
def test_law_4_a_restart_keeps_what_was_learnt_of_the_providers_counting(case: Case) -> None:
    """L15, B5: calibration is part of the dump."""
    going, factors = case.fitter(), (1.2, 0.8, 1.6, 1.0)
    for number, held in enumerate(case.prefixes()):
        later = case.fitter().load(json.loads(json.dumps(going.dump())))
        try:
            window = going.fit(held)
        except ContextWindowExceeded:
            with pytest.raises(ContextWindowExceeded):
                later.fit(held)
            return
        assert later.fit(held).messages == window.messages
        going.observe({"input_tokens": int(window.tokens * factors[number % 4])})


@given(cases(marks=MARKS))
def test_law_5_no_round_is_split_and_order_is_kept_and_nothing_is_invented(case: Case) -> None:
    """H4, B31."""
    texts = {CLEARED, *case.settings["policy"].cleared_texts.values()}
    for held, window in run(case):
        raw, sent = read(case.dialect, held), read(case.dialect, window.messages)
        ours = {NOTE, PLACEHOLDER, *(Checkpoint.of(item).message.text for item in held if is_entry(item))}
        place = 0
        for message in sent:
            if is_ours(message):
                assert message.text in ours
                continue
            while place < len(raw) and not is_made_from(message, raw[place], texts):
                place += 1
            assert place < len(raw), f"not in the history, or out of order: {message}"
            place += 1
        gone = {edit.message for edit in window.edits if edit.kind == "left_out"}
        for round_ in rounds(case, held):
            assert not gone.intersection(round_) or gone.issuperset(round_)


def rounds(case: Case, held: Sequence[Native]) -> Iterator[set[int]]:
    """The positions of each round's items: an answer and the results behind it."""
    inside: set[int] = set()
    before, last = None, -1
    for place, item in enumerate(held):
        if is_entry(item):
            continue
        roles = {message.role for message in by_name(case.dialect).read(item, before, place)}
        if roles == {"tool"} or (
            roles == {"assistant"} and last in inside and before is not None and not has_result(case, before)
        ):
            inside.add(place)
        elif roles == {"assistant"}:
            yield inside
            inside = {place}
        before, last = item, place
    yield inside


def has_result(case: Case, item: Native) -> bool:
    return any(message.role == "tool" for message in by_name(case.dialect).read(item, None, 0))


def is_made_from(sent: Message, raw: Message, cleared: set[str]) -> bool:
    """Whether a message is one of the history as it was, or with an edit that a rung may make."""
    if sent.role != raw.role:
        return False
    if sent.parts == raw.parts:
        return True
    if sent.role == "tool":
        new, old = sent.parts[0], raw.parts[0]
        assert isinstance(new, ToolResult)
        assert isinstance(old, ToolResult)
        pictureless = without_images(raw).parts[0]
        assert isinstance(pictureless, ToolResult)
        known = {old.text, pictureless.text, *cleared}
        return new.call_id == old.call_id and (new.text in known or "characters left out]" in new.text)
    if sent.role != "assistant":
        return False
    arguments = [call.arguments for call in raw.calls], [call.arguments for call in shortened(raw).calls]
    called = [json.loads(call.arguments) for call in sent.calls]
    return (
        [call.id for call in sent.calls] == [call.id for call in raw.calls]
        and any(called == [json.loads(text) for text in texts] for texts in arguments)
        and sent.text in (raw.text, EMPTY_ANSWER)
    )


@given(cases(BROKEN_STORIES, marks=MARKS))
def test_law_6_system_messages_opener_and_newest_round_survive_and_the_input_is_not_changed(case: Case) -> None:
    before = copy.deepcopy(case.raw)
    for held, window in run(case):
        raw, sent = read(case.dialect, held), read(case.dialect, window.messages)
        lead = [message for message in raw[:1] if message.role == "system"]
        assert sent[: len(lead)] == lead
        # What sets a system message apart from an answer is of our own making (H29).
        assert is_tail(telling(newest_unit(raw)), telling(sent))
        openers = opener_places(raw)
        # One that is a checkpoint gives way to a newer one.
        if openers and not (is_superseded(window) and openers[-1] == openers[0]):
            assert raw[openers[-1]].text in [message.text for message in sent if message.role == "user"]
    assert case.raw == before


def telling(messages: Sequence[Message]) -> list[Message]:
    return [message for message in messages if message.text != EMPTY_MESSAGE and not is_ours(message)]


def is_tail(unit: Sequence[Message], sent: Sequence[Message]) -> bool:
    """Whether the window ends in this unit: its answer and its user messages, and a result for each call."""
    wanted = [(m.text, [c.id for c in m.calls]) for m in unit if m.role != "tool" and not is_only_thinking(m)]
    kept = [m for m in sent if m.role != "tool" and not is_only_thinking(m)]
    tail = [(m.text, [c.id for c in m.calls]) for m in kept]
    return tail[len(tail) - len(wanted) :] == wanted


def is_only_thinking(message: Message) -> bool:
    return all(isinstance(part, Reasoning) for part in message.parts) or message.text == EMPTY_ANSWER


@given(cases(marks=MARKS))
def test_law_7_what_comes_in_valid_goes_out_valid(case: Case) -> None:
    for held, window in run(case):
        if not case.story.headless:
            assert validate(without_entries(held), case.dialect) == []
        assert validate(window.messages, case.dialect) == []


@given(cases(BROKEN_STORIES, marks=MARKS))
def test_law_7_what_comes_in_broken_goes_out_valid_with_a_report(case: Case) -> None:
    """H29, B21, B28."""
    for held, window in run(case):
        assert validate(window.messages, case.dialect) == []
        if validate(without_entries(held), case.dialect):
            SEEN["broken"] += 1
            # What was broken may have been left out before the first user message, or an entry came first.
            is_mended = window.report.left_out or is_entry(held[0])
            assert window.report.repairs or (case.story.headless and is_mended)


@given(cases(LONG_STORIES, marks=MARKS))
def test_law_8_fronts_break_no_more_often_than_the_tokens_allow(case: Case) -> None:
    """B30: calls at the floor, breaks by the turn limit and checkpoints are apart; each starts a count of its own."""
    last: list[object] | None = None
    breaks = apart = 0
    standing = -1
    least = None
    for step in run(case):
        window = step.window
        view, state = window._outcome.view, window._outcome.state
        room = view.ceiling(state) - view.target(state)
        least = room if least is None else min(least, room)
        by_turns = any(getattr(event, "reason", "") == "turn_limit" for event in window.events)
        floored = rounded(case, window) > view.target(state) and bool(window.events)
        adopted, standing = state.checkpoint != standing, state.checkpoint
        broken = last is not None and window.messages[: len(last)] != last
        apart += by_turns or floored or adopted
        breaks += broken and not by_turns and not floored and not adopted
        last = window.messages
    if least and least > 0 and last is not None:
        added = window.report.total - window.report.system - window.report.tools
        assert breaks <= added / least + 1 + apart


@given(cases(policies=PRUNING, marks=MARKS))
def test_pruning_by_age_keeps_windows_equal_valid_and_within_their_ceiling(case: Case) -> None:
    """S1-S3, B20: laws 1, 4 and 7; ages are those in the whole history, so laws 3 and 10 are not asked."""
    for held, window in run(case):
        assert case.fit(held).messages == window.messages
        if not case.story.headless:
            assert validate(window.messages, case.dialect) == []
        if rounded(case, window) > ceiling_of(case, held, window):
            assert is_at_floor(case.dialect, held, window)
        SEEN["pruned"] += any(edit.kind == "pruned" for edit in window.edits)


@given(cases(marks=SOME_MARKS))
def test_the_newest_checkpoint_that_applies_stands_for_what_it_covers(case: Case) -> None:
    """S8, B33: it stands in the note's place; what it covers is not there, pins and the newest unit apart."""
    for held, window in run(case):
        found = newest_entry(case.dialect, held)
        sent = [message for message in read(case.dialect, window.messages) if message.role != "system"]
        marks = [message.text for message in sent if message.text.startswith(CHECKPOINT)]
        if found and not marks:
            assert is_too_large(window)
            continue
        # One that the list begins with is what the user said first, until a newer one takes its place.
        assert marks == [Checkpoint.of(held[found.place]).message.text] if found else len(marks) <= 1
        if any(item["covers"]["digest"] == NOWHERE for at, item in enumerate(held) if at > 1 and is_entry(item)):
            assert any("checkpoint" in repair for repair in window.report.repairs)
        if found is None:
            continue
        view, state = window._outcome.view, window._outcome.state
        transcript = view.counts.transcript
        starts = sorted({*transcript.answers, *transcript.openers})
        # The first unit that is not covered as a whole, or was the newest when the checkpoint came; and its opener.
        newest = [start for start in starts if start < transcript.checkpoints[state.checkpoint].at][-1:]
        whole = [place for place, row in enumerate(transcript.rows) if row.position >= found.stop][:1]
        cut = min([*newest, *(start for row in whole for start in starts[: bisect_right(starts, row)][-1:])])
        stays = {state.first, view.opener, transcript.turn_of(cut), *range(transcript.lead), *range(cut, view.border)}
        stays = stays.union(*(range(*unit) for unit in view.left_standing(state)))
        there = {transcript.rows[row].position for row in stays}
        gone = {edit.message for edit in window.edits if edit.kind == "left_out"}
        assert gone >= {at for at in range(found.stop) if not is_entry(held[at])} - there


def is_too_large(window: Window) -> bool:
    """Whether the newest checkpoint would have refused a request that fits without it (S9)."""
    view, before = window._outcome.view, window._outcome.before
    transcript = view.counts.transcript
    newest = transcript.latest(view.border)
    cut = max(before.cut, min(transcript.checkpoints[newest].cut, view.newest))
    return is_over(view, cut_at(view, before._replace(checkpoint=newest), cut, "")) and not is_over(view, before)


class Found(NamedTuple):
    """An entry at `place` in a list that covers the items before `stop`."""

    place: int
    stop: int


def newest_entry(dialect: str, held: Sequence[Native]) -> Found | None:
    """The newest entry that applies to a valid list and does not stand at its very beginning."""
    leading = next((at for at, item in enumerate(held) if item.get("role") not in ("system", "developer")), -1)
    for place in range(len(held) - 1, -1, -1):
        if not is_entry(held[place]) or place == leading:
            continue
        checkpoint = Checkpoint.of(held[place])
        if checkpoint.digest is None:
            messages = [at for at, item in enumerate(held[:place]) if not is_entry(item)]
            covered = messages[: checkpoint.covers or None]
            return Found(place, covered[-1] + 1 if covered else 0)
        stop = bisect_left(range(place + 1), True, key=lambda stop: tells(dialect, held[:stop], checkpoint.digest))
        if stop <= place:
            return Found(place, stop)
    return None


def tells(dialect: str, items: Sequence[Native], digest: str | None) -> bool:
    """Whether a digest is of the beginning of what these items say."""
    return digest in [told.hex() for told in (BEGINNING, *digests(read(dialect, items)))]


@given(cases())
def test_law_9_rendering_what_was_read_gives_the_same_objects(case: Case) -> None:
    for held in case.prefixes():
        rendered = by_name(case.dialect).render(read(case.dialect, held))
        assert [id(item) for item in rendered] == [id(item) for item in held]


@given(cases(BROKEN_STORIES, marks=MARKS))
def test_law_10_a_raw_history_and_one_handed_back_shaped_give_the_same_windows(case: Case) -> None:
    """B18: the caller appends to the last window what arrived, and hands that in."""
    handed: list[object] = []
    for number, (held, window) in enumerate(run(case)):
        seen = len(case.prefixes()[number - 1]) if number else 0
        for place, item in enumerate(held[seen:], seen):
            handed += for_list(case.dialect, held[: place + 1], handed) if is_entry(item) else [item]
        shaped = case.fit(handed)
        assert shaped.messages == window.messages
        assert shaped.tokens == window.tokens
        handed = shaped.messages


def for_list(dialect: str, held: Sequence[Native], handed: Sequence[object]) -> list[Native]:
    """The entry at the end of a raw history, for the list that is handed in instead: it covers the same there.

    Nothing where it is not taken up in the history, since it is the last one again or of another list.
    """
    entry, raw, before = held[-1], transcript_of(dialect, held), transcript_of(dialect, held[:-1])
    if len(raw.checkpoints) == len(before.checkpoints):
        return [entry] if len(before.rows) == before.lead else []
    landed = raw.checkpoints[-1]
    if is_of_all(landed.checkpoint):
        return [entry]
    there = transcript_of(dialect, handed)
    places = {mark_of(row.message): place for place, row in enumerate(there.rows)}
    standing = [
        row for row in range(landed.cut, len(raw.rows)) if places.keys() & {mark_of(raw.rows[row].message)} - {""}
    ]
    found = places[mark_of(raw.rows[standing[0]].message)] if standing else len(there.rows)
    if landed.cut == raw.lead:
        found = there.lead
    elif standing:
        # The items of an answer without a text of their own come before the one that was found, and so does an opener.
        found = max(place for place in (there.lead, *there.answers, *there.openers) if place <= found)
        found -= any(is_mute(raw, row) for row in range(landed.cut, standing[0])) and is_mute(there, found - 1)
    return [covering_from(there, found, landed.checkpoint.text)]


def is_mute(transcript: Transcript, row: int) -> bool:
    """Whether a turn is opened here without a word."""
    return row in transcript.openers and not mark_of(transcript.rows[row].message)


def is_of_all(checkpoint: Checkpoint) -> bool:
    return checkpoint.digest is None and not checkpoint.covers


def mark_of(message: Message) -> str:
    """The number that a text of the pen has; empty where there is none, or in a result, which may have lost it."""
    if message.role == "tool":
        return ""
    parts = [replace(part, source=None) for part in message.parts if not isinstance(part, Reasoning)]
    number = re.search(r"#\w+", str(parts))
    return number.group() if number else ""


def test_at_least_half_of_the_histories_were_shaped_and_many_by_what_is_new() -> None:
    """B31; what the tests above have seen."""
    if SEEN["histories"]:
        assert SEEN["shaped"] >= SEEN["histories"] / 2, dict(SEEN)
        assert SEEN["bare"] >= SEEN["windows"] / 50, dict(SEEN)
        assert SEEN["summarized"] >= SEEN["windows"] / 10, dict(SEEN)
