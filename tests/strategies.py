"""Histories and settings for the law tests: one canonical story, written natively in each dialect.

A story is small numbers; the texts are made from them, each with a number of its own, so that no two messages are equal
by accident and an example shrinks to something that can be read.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from hypothesis import strategies as st

import longturn
from longturn import Policy
from longturn.core.checkpoint import Checkpoint, is_entry
from longturn.core.policy import Pruning
from longturn.core.transcript import Transcript
from tests.oracle import transcript_of, without_entries
from tests.writers import WRITERS, Call, Made, Native

DIALECTS = ("openai_chat", "anthropic", "gemini", "openai_responses")
MODELS: Mapping[str, tuple[str | None, ...]] = {
    "openai_chat": (None, "gpt-5"),
    "openai_responses": (None, "gpt-5"),
    "anthropic": ("claude-fable-5-1", "claude-opus-4-6", "kimi-k2", None),
    "gemini": (None, "gemini-2.5-pro"),
}
SCRIPTS: Mapping[str, str] = {
    "ascii": "a line of output ",
    "code": "if x[0] == 'b': y += 1\n",
    "cyrillic": "строка вывода ",
    "han": "程序输出的一行",
    "hangul": "출력 한 줄 ",
    "arabic": "سطر من الإخراج ",
    "hindi": "आउटपुट की पंक्ति ",
    "emoji": "🚀👩‍💻 ",
}
TOOLS = ("read", "run", "keep")
PIN = "(pinned)"
NOWHERE = "0" * 32
"""The digest of no list."""


class Answer(NamedTuple):
    """An answer; aside: what stands behind its results: nothing, "system", "text" of the user, "tool results"."""

    calls: tuple[Call, ...] = (Call(),)
    words: int = 0
    thought: int = 0
    aside: str = ""


class Turn(NamedTuple):
    """A user message and the answers to it; `words` is -1 where an empty text was sent."""

    words: int = 3
    answers: tuple[Answer, ...] = (Answer(),)
    script: str = "ascii"
    image: bool = False
    pinned: bool = False


class Story(NamedTuple):
    """A conversation. ids: fresh, repeated in every round, or none (Gemini). headless: no user message in front."""

    turns: tuple[Turn, ...] = (Turn(),)
    lead: int = 1
    ids: str = "fresh"
    headless: bool = False


class Mark(NamedTuple):
    """A checkpoint's entry. call: among what arrives for this call; behind: so many of its items, -1 for all; never
    none, since a call that was made without it stands.

    covers: everything before it ("all"), all but so many messages by their number ("first"), so many borders back by
    digest ("some"), what stands in no such list ("other"), or it is the entry before once more ("again"); at the very
    beginning of the list ("front").
    """

    call: int = 1
    behind: int = -1
    covers: str = "all"
    back: int = 0
    words: int = 3


class Pen:
    """Writes a story down; a list in `calls` is what arrives for one model call: an answer and all up to the next."""

    def __init__(self, story: Story, dialect: str) -> None:
        self.story, self.dialect, self.writer = story, dialect, WRITERS[dialect]
        self.calls: list[list[Native]] = [[]]
        self.serial = 0
        self._open = False
        self._late: list[Made] = []
        self._lost: list[Made] = []

    def write(self) -> list[list[Native]]:
        """All that arrives, call by call."""
        if self.story.lead and self.dialect in ("openai_chat", "openai_responses"):
            self._put(WRITERS[self.dialect].system(self.text("ascii", self.story.lead)))  # type: ignore[misc]
        for number, turn in enumerate(self.story.turns):
            if number or not self.story.headless:
                said = self.text(turn.script, turn.words, PIN if turn.pinned else "")
                self._put(self.writer.user(said, turn.image))
                self._flush_late()
            for answer in turn.answers:
                self._answer(answer, is_last=answer is turn.answers[-1])
        self._flush_late()
        return self.calls

    def text(self, script: str, words: int, mark: str = "") -> str:
        """A text that no other message has; empty for -1."""
        self.serial += 1
        return "" if words < 0 else f"#{self.serial}{mark} {SCRIPTS[script] * words}"

    def _put(self, *natives: Native) -> None:
        self.calls[-1] += natives
        self._open = False

    def _answer(self, answer: Answer, *, is_last: bool) -> None:
        self._flush_late()
        if not self._open:
            self.calls.append([])
        made = [self._made(number, call) for number, call in enumerate(answer.calls)]
        thought = self.text("ascii", answer.thought) if answer.thought else ""
        said = self.text("cyrillic", answer.words) if answer.words or not made else ""
        self._put(*self.writer.answer(said, thought, made))
        results = [one for one in made if one.call.fate not in ("missing", "late", "lost") for _ in _times(one)]
        results += [one._replace(id="ghost") for one in made if one.call.fate == "orphan"]
        natives = self.writer.results(results) if results else []
        if self._lost:
            natives += self.writer.results(self._lost)
            self._lost = []
        self._late += [one for one in made if one.call.fate == "late"]
        self._lost += [one for one in made if one.call.fate == "lost"]
        # Anthropic takes a system message only between a user's and an answer.
        aside = "" if answer.aside == "system" and (is_last or not natives) else answer.aside
        self._aside(aside, natives)
        if not aside and (not made or (self.dialect == "openai_responses" and not natives)):
            # Nothing parts it from the next answer: results of calls that are closed do not (B1).
            self._open = True

    def _aside(self, aside: str, results: list[Native]) -> None:
        system = self.writer.system
        if aside == "system" and system is not None:
            self._put(*results, system(self.text("ascii", 2)))
        elif aside in ("text", "tool results"):
            mark = "[Tool results] " if aside == "tool results" else ""
            said = self.writer.user(mark + self.text("han", 3), False)
            mixed = self.writer.mixed(results[-1], said) if results else None
            self._put(*results[: -1 if mixed else None], mixed or said)
        elif results:
            self._put(*results)
        if aside:
            self._flush_late()

    def _made(self, number: int, call: Call) -> Made:
        ids = self.story.ids
        call_id = "" if ids == "none" and self.dialect == "gemini" else f"call_{number}"
        result = self.text(call.script, call.words)
        # Two calls of one id in one answer are left to the examples.
        if ids == "fresh" or (self._open and self.dialect == "openai_responses"):
            call_id = f"call_{self.serial}"
        argument = json.dumps({"path": f"#{self.serial}", "content": SCRIPTS["code"] * call.argument})
        return Made(call_id, call, argument, result)

    def _flush_late(self) -> None:
        if self._late:
            late, self._late, is_open = self._late, [], self._open
            self._put(*self.writer.results(late))
            self._open = is_open


def _times(one: Made) -> range:
    return range(2 if one.call.fate == "twice" else 1)


# --- what is drawn ---


@dataclass(frozen=True, slots=True)
class Case:
    """A history and how it is fitted; `arrivals` is what arrives for each call."""

    dialect: str
    story: Story
    arrivals: tuple[tuple[Native, ...], ...] = field(repr=False)
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def raw(self) -> list[Native]:
        """The whole history."""
        return [item for arrived in self.arrivals for item in arrived]

    def prefixes(self) -> list[list[Native]]:
        """What the caller holds at each call; never empty."""
        found: list[list[Native]] = []
        held: list[Native] = []
        for arrived in self.arrivals:
            held = [*held, *arrived]
            if held:
                found.append(held)
        return found

    def fit(self, messages: Sequence[object]) -> longturn.Window:
        """From scratch."""
        return longturn.fit(messages, dialect=self.dialect, **self.settings)

    def fitter(self) -> longturn.Fitter:
        """One that remembers."""
        return longturn.Fitter(dialect=self.dialect, **self.settings)


def with_marks(dialect: str, arrivals: Sequence[Sequence[Native]], marks: Sequence[Mark]) -> list[list[Native]]:
    """What arrives, with the entries in it; each is made of what stands before it."""
    found = [list(arrived) for arrived in arrivals]
    in_order = sorted(marks, key=lambda mark: -1 if mark.covers == "front" else mark.call % len(found))
    for number, mark in enumerate(in_order):
        call = 0 if mark.covers == "front" else mark.call % len(found)
        behind = 0 if mark.covers == "front" else len(found[call]) if mark.behind < 0 else mark.behind
        before = [item for arrived in found[:call] for item in arrived] + found[call][:behind]
        text = f"#s{number} {SCRIPTS['ascii'] * mark.words}".strip()
        entry = Checkpoint(text, digest=NOWHERE if mark.covers == "other" else None).entry()
        if mark.covers == "some":
            entry = covering(dialect, before, text, mark.back)
        elif mark.covers == "first":
            entry = Checkpoint(text, covers=max(1, len(without_entries(before)) - mark.back)).entry()
        elif mark.covers == "again":
            entry = next(filter(is_entry, reversed(before)), entry)
        found[call].insert(behind, entry)
    return found


def covering(dialect: str, before: Sequence[Native], text: str, back: int) -> Native:
    """An entry that covers a list up to one of its borders, so many before its end, by digest."""
    transcript = transcript_of(dialect, before)
    places = sorted({transcript.lead, *transcript.answers, *transcript.openers, len(transcript.rows)})
    return covering_from(transcript, places[-1 - back % len(places)], text)


def covering_from(transcript: Transcript, row: int, text: str) -> Native:
    """An entry that covers the rows before this one; `covers` says how many items of the list they are."""
    places = [each.position for each in transcript.rows]
    # A result of our own making stands nowhere in the list.
    covers = next((place for place in places[row:] if place >= 0), 1 + max(places, default=-1))
    return Checkpoint(text, covers=covers, digest=transcript.digest(row)).entry()


def is_pinned(item: object) -> bool:
    """The policy's `pin` in these tests."""
    return PIN in json.dumps(item)


WORDS = st.sampled_from((3, 30, 1, 90, 12, 160, 0))
FATES = st.sampled_from(("answered", "answered", "missing", "twice", "late", "lost", "orphan"))
_SCRIPTS = st.sampled_from(tuple(SCRIPTS))


def _stories(fates: tuple[str, ...], openers: tuple[int, ...], longest: int) -> st.SearchStrategy[Story]:
    call = st.builds(
        Call,
        tool=st.sampled_from(TOOLS),
        words=st.sampled_from((3, 30, 1, 90, 12, 160, 0)),
        argument=st.sampled_from((0, 0, 0, 2, 40)),
        script=st.sampled_from(tuple(SCRIPTS)),
        image=st.sampled_from((False,) * 7 + (True,)),
        fate=st.sampled_from(fates),
    )
    answer = st.builds(
        Answer,
        calls=st.tuples(call) | st.lists(call, max_size=4).map(tuple),
        words=st.sampled_from((0, 0, 2, 20)),
        thought=st.sampled_from((0, 1, 15)),
        aside=st.sampled_from(("",) * 9 + ("system", "text", "tool results")),
    )
    turn = st.builds(
        Turn,
        words=st.sampled_from(openers),
        answers=st.lists(answer, min_size=longest // 2, max_size=longest).map(tuple)
        | st.lists(answer, max_size=3).map(tuple),
        script=st.sampled_from(tuple(SCRIPTS)),
        image=st.sampled_from((False,) * 7 + (True,)),
        pinned=st.sampled_from((False, False, True)),
    )
    return st.builds(
        Story,
        turns=st.tuples(turn) | st.lists(turn, min_size=2, max_size=6).map(tuple),
        lead=st.sampled_from((0, 1, 30)),
        ids=st.sampled_from(("fresh", "repeated", "none")),
        headless=st.sampled_from((False,) * 9 + (True,)),
    )


# Built once: hypothesis remembers strategies by their arguments, and these are large.
STORIES = _stories(("answered",), (3, 1, 40, 120), 12)
LONG_STORIES = _stories(("answered",), (3, 1, 40, 120), 24)
BROKEN_STORIES = _stories(("answered",) * 6 + ("missing", "twice", "late", "lost", "orphan"), (3, 1, 40, 120, -1), 12)

_MARK = st.builds(
    Mark,
    call=st.integers(0, 20),
    behind=st.sampled_from((-1, -1, 1, 2, 3)),
    covers=st.sampled_from(("some",) * 4 + ("all", "all", "first", "other", "again", "front")),
    back=st.integers(0, 6),
    words=st.sampled_from((3, 12, 40)),
)
NO_MARKS: st.SearchStrategy[tuple[Mark, ...]] = st.just(())
SOME_MARKS = st.tuples(_MARK) | st.lists(_MARK, min_size=2, max_size=4).map(tuple)
MARKS = NO_MARKS | SOME_MARKS
"""Checkpoints in about half of the histories."""

RUNGS = (
    Policy().rungs,
    ("images", "results", "arguments", "turns", "rounds"),
    ("images", "results", "arguments", "answers", "turns", "rounds"),
    ("answers", "images", "results", "turns", "rounds"),
    ("images", "results", "turns", "answers", "rounds"),
    ("rounds", "answers", "turns"),
    ("results", "answers"),
)
"""With and without the rung "answers"; each ladder ends where nothing else may go."""


_TURNED = st.builds(
    Policy,
    target_ratio=st.sampled_from((0.5, 0.35, 0.75, 1.0)),
    whole_share=st.sampled_from((0.25, 0.05, 0.6)),
    batch=st.sampled_from((1, 2, 4)),
    max_history_messages=st.sampled_from((None, None, 1, 2, 4)),
    keep_tools=st.sampled_from((frozenset(), frozenset({"keep"}))),
    cleared_texts=st.sampled_from(({}, {"run": "This command had effects: do not run it again. " * 2})),
    pin=st.sampled_from((None, None, is_pinned)),
    emergency_trim=st.booleans(),
    image_tokens=st.sampled_from((60, 5, 600)),
    rungs=st.sampled_from(RUNGS),
)
_PRESETS = tuple(Policy(image_tokens=60, rungs=rungs) for rungs in RUNGS[:3])
POLICIES = st.sampled_from((*_PRESETS, replace(Policy.seed(), image_tokens=60))) | _TURNED
"""The presets, and what can be turned in them, one thing or several at once."""
_EAGER = Pruning(
    keep_last_assistants=1,
    min_prunable_tool_chars=200,
    max_chars=150,
    head_chars=70,
    tail_chars=30,
    hard_clear_ratio=0.6,
)
PRUNING = _TURNED.map(lambda policy: replace(policy, pruning=_EAGER))
"""The same with pruning by age, which small results are old enough for."""


@st.composite
def cases(
    draw: st.DrawFn,
    stories: st.SearchStrategy[Story] = STORIES,
    dialects: tuple[str, ...] = DIALECTS,
    policies: st.SearchStrategy[Policy] = POLICIES,
    marks: st.SearchStrategy[tuple[Mark, ...]] = NO_MARKS,
) -> Case:
    """A history with settings that make most of them too long."""
    dialect = draw(st.sampled_from(dialects))
    story = draw(stories)
    arrivals = tuple(map(tuple, with_marks(dialect, Pen(story, dialect).write(), draw(marks))))
    settings: dict[str, Any] = {"model": draw(st.sampled_from(MODELS[dialect]))}
    settings["policy"] = draw(policies)
    if draw(st.sampled_from((False, False, True))):
        settings["system"] = "You are careful. " * draw(st.sampled_from((1, 8, 40)))
        settings["tools"] = [{"name": "read", "description": "Reads. " * 9, "parameters": {}, "input_schema": {}}]
    case = Case(dialect, story, arrivals, settings)
    whole = longturn.fit(case.raw, budget=1 << 40, dialect=dialect, **settings).report.total
    share = draw(st.sampled_from((0.3, 0.5, 0.15, 0.7, 0.4, 1.5)))
    size = max(40, int(share * whole))
    kind = draw(st.sampled_from(("budget", "budget", "budget", "roomy", "tight", "off")))
    limits = {
        "budget": {"budget": size, "capacity": 1 << 40},
        "roomy": {"budget": size, "capacity": 2 * size},
        "tight": {"budget": size, "capacity": max(1, int(0.8 * size))},
        "off": {"budget": 0, "capacity": size},
    }
    return replace(case, settings={**settings, **limits[kind]})
