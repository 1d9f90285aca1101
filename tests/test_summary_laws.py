"""The laws (B31) where checkpoints are in force: random histories, random summarizers, random triggers, every dialect.

The caller keeps what a caller should: each checkpoint's entry, behind the messages that were held when it was made.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import longturn
from longturn import ContextWindowExceeded, Fitter, Summary, SummaryRequest, Window
from longturn.core.checkpoint import is_entry, text_of
from longturn.core.events import HistoryRepaired, SummaryCompleted, SummaryStarted
from longturn.core.messages import Message, Reasoning
from longturn.core.policy import Retain, Summarization, Trigger
from longturn.testing import validate
from tests.oracle import is_at_floor, newest_unit, opener_places, read
from tests.strategies import BROKEN_STORIES, POLICIES, PRUNING, STORIES, Case, Native, cases

SEEN: Counter[str] = Counter()
# A summary makes a call dear, so an eighth of what the other laws are given.
fewer = settings(max_examples=settings().max_examples // 8)

TRIGGERS = st.sampled_from(
    (
        None,
        None,
        Trigger("token_ratio", 0),
        Trigger("token_ratio", 0.6),
        Trigger("token_ratio", 1),
        Trigger("remaining_tokens", 100),
        Trigger("messages_to_refine", 1),
        Trigger("messages_to_refine", 7),
    )
)
RULES = st.builds(
    Summarization,
    model=st.sampled_from((None, None, "gpt-4o-mini")),
    max_summary_tokens=st.sampled_from((4_096, 40)),
    reserve_ratio=st.sampled_from((0.05, 0, 0.4)),
    trigger=TRIGGERS,
    retain_recent=st.builds(Retain, turns=st.sampled_from((2, 0, 1, 5)), tokens=st.sampled_from((None, 60))),
)
BEHAVIOURS = st.lists(
    st.sampled_from(("good", "good", "good", "long", "huge", "empty", "raises", "pieces", "none")),
    min_size=1,
    max_size=6,
)


@dataclass
class Scripted:
    """A summarizer that does what it was told to, in turn; it keeps what it was asked."""

    behaviours: list[str]
    asked: list[SummaryRequest] = field(default_factory=list)

    def __call__(self, request: SummaryRequest) -> Any:
        number = len(self.asked)
        self.asked.append(request)
        return REPLIES[self.behaviours[number % len(self.behaviours)]](number)


def raising(number: int) -> str:
    raise RuntimeError(f"the model is down, attempt {number}")


REPLIES: dict[str, Callable[[int], Any]] = {
    "good": lambda number: f"## Goal\n- Checkpoint {number}.",
    "long": lambda number: Summary(f"## Goal\n- Checkpoint {number}.\n" + "- One more line.\n" * 30),
    "huge": lambda number: f"Checkpoint {number}. " * 4_000,
    "empty": lambda _number: " \n",
    "raises": raising,
    "pieces": lambda number: iter(["## Goal\n", f"- Checkpoint {number}", "."]),
    "none": lambda _number: None,
}


@dataclass(frozen=True)
class Step:
    """One call: what the caller holds (as it came, and with entries), and the window."""

    raw: list[Native]
    held: list[Any]
    window: Window
    fitter: Fitter
    summarizer: Scripted
    asked: list[SummaryRequest]


def run(case: Case, behaviours: list[str]) -> Iterator[Step]:
    """The calls of a run, until the request is refused as too large for the model."""
    summarizer = Scripted(behaviours)
    fitter = Fitter(dialect=case.dialect, summarize=summarizer, **case.settings)
    held: list[Any] = []
    raw: list[Native] = []
    SEEN["histories"] += 1
    for arrived in case.arrivals:
        raw, held = [*raw, *arrived], [*held, *arrived]
        if not held:
            continue
        before, asked = held, len(summarizer.asked)
        try:
            window = fitter.fit(held)
        except ContextWindowExceeded:
            SEEN["refused"] += 1
            return
        done = [event for event in window.events if isinstance(event, SummaryCompleted)]
        held = [*held, *(event.checkpoint.entry() for event in done if event.checkpoint is not None)]
        SEEN["checkpoints"] += len(held) - len(before)
        SEEN["failures"] += sum(event.checkpoint is None for event in done)
        SEEN["summarized"] += len(held) > len(before) and sum(map(is_entry, held)) == 1
        yield Step(raw, held, window, fitter, summarizer, summarizer.asked[asked:])


def summarized(case: Case, rules: Summarization) -> Case:
    """The same with rules for summaries."""
    policy = replace(case.settings["policy"], summarization=rules)
    return replace(case, settings={**case.settings, "policy": policy})


@fewer
@given(cases(), RULES, BEHAVIOURS)
def test_s8_law_4_step_by_step_from_scratch_and_after_a_restart_windows_are_equal(
    case: Case, rules: Summarization, behaviours: list[str]
) -> None:
    """S8, L9: from the entries in the list, from a dump alone, and from both together."""
    case = summarized(case, rules)
    for number, step in enumerate(run(case, behaviours)):
        wanted = step.window.messages
        assert case.fit(step.held).messages == wanted
        if number % 3 == 1:
            dumped = json.loads(json.dumps(step.fitter.dump()))
            for kept in (step.raw, step.held):
                later = case.fitter().load(dumped).fit(kept)
                assert later.messages == wanted
                assert (later.tokens, later.checkpoint) == (step.window.tokens, step.window.checkpoint)


@fewer
@given(cases(STORIES | BROKEN_STORIES, policies=POLICIES | PRUNING), RULES, BEHAVIOURS)
def test_s5_s7_s8_laws_1_6_and_7_hold_where_summarizers_are_asked(
    case: Case, rules: Summarization, behaviours: list[str]
) -> None:
    """S5, S7, S8, B8, B9, B33: also over broken histories; what summarizers are sent is valid too."""
    case = summarized(case, rules)
    untouched = json.dumps(case.raw)
    for step in run(case, behaviours):
        assert validate(step.window.messages, case.dialect) == []
        if not step.window.report.repairs and not case.story.headless:
            is_within_its_ceiling_or_at_the_floor(case, step)
            keeps_what_must_survive(case, step)
        for request in step.asked:
            is_a_valid_question(case, rules, request)
    assert json.dumps(case.raw) == untouched


def is_within_its_ceiling_or_at_the_floor(case: Case, step: Step) -> None:
    """Law 1; and the sums agree with a count of the messages one by one (H21)."""
    view, state = step.window._outcome.view, step.window._outcome.state
    policy = case.settings["policy"]
    if view.size(state) > view.ceiling(state) and policy.pin is None:
        assert is_at_floor(case.dialect, step.raw, step.window)
    alone = replace(policy, summarization=None, max_history_messages=1 << 20, pruning=None)
    limits = {"budget": 1 << 40, "capacity": None, "policy": alone}
    again = longturn.fit(step.window.messages, dialect=case.dialect, **{**case.settings, **limits})
    assert again.tokens == step.window.tokens


def keeps_what_must_survive(case: Case, step: Step) -> None:
    """Law 6: system messages, opener and newest unit; and there is one checkpoint at most."""
    raw, sent = read(case.dialect, step.raw), read(case.dialect, step.window.messages)
    lead = [message for message in raw[:1] if message.role == "system"]
    assert sent[: len(lead)] == lead
    openers = opener_places(raw)
    if openers:
        assert raw[openers[-1]].text in [message.text for message in sent if message.role == "user"]
    checkpoint = step.window.checkpoint
    marks = [text_of(message) for message in sent if text_of(message)]
    assert marks == ([checkpoint.text] if checkpoint else [])
    newest, kept = calls_of(newest_unit(raw)), calls_of(sent)
    assert kept[len(kept) - len(newest) :] == newest


def is_a_valid_question(case: Case, rules: Summarization, request: SummaryRequest) -> None:
    """S7: valid on the wire, the instruction last, system and tools for the own model only."""
    SEEN["requests"] += 1
    assert validate(request.messages, case.dialect) == []
    sent = read(case.dialect, request.messages)
    assert (sent[-1].role, sent[-1].text) == ("user", request.instruction)
    assert request.max_tokens <= rules.most_tokens
    is_own = rules.model in (None, case.settings["model"])
    own = (case.settings.get("system"), case.settings.get("tools"))
    assert (request.system, request.tools) == (own if is_own else (None, None))
    # Another model is never sent the thinking of this one; Gemini's signatures stay on their calls (B25).
    if not is_own and case.dialect != "gemini":
        assert not any(isinstance(part, Reasoning) for message in sent for part in message.parts)


def calls_of(messages: list[Message]) -> list[str]:
    return [call.id for message in messages for call in message.calls]


@fewer
@given(cases(STORIES), RULES, BEHAVIOURS)
def test_s9_s10_an_attempt_ends_in_one_event_and_is_not_repeated_without_new_messages(
    case: Case, rules: Summarization, behaviours: list[str]
) -> None:
    """S9, S10, L11: a second look asks nobody and gives the same window; without an event no byte changes."""
    case = summarized(case, rules)
    last: list[Any] = []
    for step in run(case, behaviours):
        kinds = [type(event) for event in step.window.events]
        assert kinds.count(SummaryStarted) == kinds.count(SummaryCompleted) <= 1
        assert bool(step.asked) == (SummaryStarted in kinds)
        assert HistoryRepaired not in kinds
        assert kinds or step.window.messages[: len(last)] == last
        before = len(step.summarizer.asked)
        assert step.fitter.fit(step.held).messages == step.window.messages
        assert len(step.summarizer.asked) == before
        last = step.window.messages


def test_s8_a_quarter_of_the_histories_were_summarized() -> None:
    """What the tests above have seen."""
    if SEEN["histories"]:
        assert SEEN["summarized"] >= SEEN["histories"] / 4, dict(SEEN)
        assert SEEN["failures"] >= SEEN["histories"] / 20, dict(SEEN)
