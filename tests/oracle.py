"""A second, plain reading of a history, by which the laws are judged: where answers, turns and newest unit begin."""

from collections.abc import Sequence
from typing import Any

from longturn import Window
from longturn.core.checkpoint import Checkpoint, is_entry
from longturn.core.messages import Message, Reasoning
from longturn.core.texts import CHECKPOINT, NOTE, PLACEHOLDER
from longturn.core.tokens import SIMPLE
from longturn.core.transcript import RESULTS_PREFIX, Transcript
from longturn.dialects.registry import by_name


def read(dialect: str, items: Sequence[Any]) -> list[Message]:
    """The core messages of native items; an entry says nothing, but at the very beginning it is a user's message."""
    found: list[Message] = []
    reader, before = by_name(dialect).read, None
    for place, item in enumerate(items):
        if is_entry(item):
            if all(message.role == "system" for message in found):
                found.append(Checkpoint.of(item).message)
            continue
        found += reader(item, before, place)
        before = item
    return found


def transcript_of(dialect: str, items: Sequence[Any]) -> Transcript:
    """The transcript of native items and entries, made in one go."""
    transcript = Transcript(SIMPLE.measure)
    transcript.system_apart = by_name(dialect).system_apart
    arrived: list[tuple[Message | Checkpoint, int, bool]] = []
    before = None
    for place, item in enumerate(items):
        if is_entry(item):
            arrived.append((Checkpoint.of(item), place, False))
            continue
        arrived += [(message, place, False) for message in by_name(dialect).read(item, before, place)]
        before = item
    transcript.extend(arrived)
    return transcript


def without_entries(items: Sequence[Any]) -> list[Any]:
    """The messages alone."""
    return [item for item in items if not is_entry(item)]


def is_ours(message: Message) -> bool:
    """Whether longturn itself wrote the message, by its text: note, placeholder or checkpoint."""
    text = message.text
    return message.role == "user" and (text in (NOTE, PLACEHOLDER) or text.startswith(CHECKPOINT))


def opener_places(messages: Sequence[Message]) -> list[int]:
    """Where turns begin: real user messages, the first whatever it says (H4, H5, B28)."""
    users = [place for place, message in enumerate(messages) if message.role == "user"]
    return [at for at in users if at == users[0] or not messages[at].text.lstrip().startswith(RESULTS_PREFIX)]


def answer_places(messages: Sequence[Message]) -> list[int]:
    """Where answers begin: neighbouring assistant messages are one unless the earlier has open calls (B1)."""
    places: list[int] = []
    calling, before = False, ""
    for place, message in enumerate(messages):
        if message.role == "assistant":
            if before != "assistant" or (calling and not message.continues):
                places.append(place)
                calling = False
            calling = calling or bool(message.calls)
        before = message.role
    return places


def newest_unit(messages: Sequence[Message]) -> list[Message]:
    """The newest round, or the newest turn where it has none yet (B9)."""
    return list(messages[max([0, *opener_places(messages), *answer_places(messages)]) :])


def is_at_floor(dialect: str, held: Sequence[Any], window: Window) -> bool:
    """Whether a window holds nothing but system messages, first message, note, opener, pins and newest unit (B9)."""
    raw, sent = read(dialect, held), read(dialect, window.messages)
    newest, openers = newest_unit(raw), opener_places(raw)
    view, state = window._outcome.view, window._outcome.state
    lead = next((at for at, message in enumerate(raw) if message.role != "system"), len(raw))
    opener = bool(openers) and openers[-1] < len(raw) - len(newest)
    transcript, rungs = view.counts.transcript, view.counts.policy.rungs
    # What users said goes by the rung "turns", where that comes behind the one which lets it stand alone.
    goes = "answers" not in rungs or "turns" in rungs[rungs.index("answers") :]
    alone = set(transcript.openers).difference(transcript.pinned) if goes else set()
    kept = sum(stop - start for start, stop in view.left_standing(state) if start not in alone)
    if view.rules.thinking == "turn" and not kept:
        kept = len(thinking_round(raw))
    first_and_note = 2
    return len(sent) <= lead + first_and_note + opener + kept + len(newest)


def thinking_round(messages: Sequence[Message]) -> list[Message]:
    """The round that stays for its thinking where the newest one of a running tool turn has none (B24)."""
    answers, start = answer_places(messages), max([0, *opener_places(messages)])
    running = [place for place in answers if place >= start]
    thinking = [place for place in running if isinstance(next(iter(messages[place].parts), None), Reasoning)]
    if not thinking or thinking[-1] == running[-1]:
        return []
    return list(messages[thinking[-1] : running[running.index(thinking[-1]) + 1]])
