"""Every recorded run, fitted call by call as an agent would: valid, within budget, fronts hold; and some figures."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import longturn
from longturn import Fitter, Policy, Window
from longturn.core.messages import Message
from longturn.core.tokens import SIMPLE
from longturn.dialects.logs import Conversation, load
from longturn.dialects.registry import by_name
from longturn.testing import validate
from tests.oracle import is_at_floor, read, without_entries

NAMES = (
    "claude-code/huge-results.jsonl",
    "claude-code/subagent-21-rounds.jsonl",
    "claude-code/subagent-33-rounds.jsonl",
    "claude-code/three-requests-197-rounds.jsonl",
    "codex/rollout-102-rounds.jsonl",
    "codex/rollout-small-compacted.jsonl",
    "gemini-cli/file-ops.json",
    "gemini/adk-session.json",
    "inspect/browser.json",
    "langchain/summarization_seed_messages.json",
    "librechat/tree.json",
    "mini-swe-agent/github_issue.traj.json",
    "openai-chat/airline-200-runs.json",
    "openai-chat/litellm-log.json",
    "openhands/multi_swe_bench_output.jsonl",
    "pi/large-session.jsonl",
    "swe-agent/marshmallow.traj",
    "swe-agent/pandas.traj",
    "swe-agent/text-actions.traj",
)
BUDGETS = (8_000, 32_000, 100_000)
EVERY = 7
"""Windows that are held against the dialect's rules and a fit from scratch: each seventh, and the last."""


def recorded(shared: Path, name: str) -> list[Conversation]:
    """The conversations of a recording, every message of them; where its agent compacted says nothing here."""
    found = load((shared / "data" / "transcripts" / name).read_bytes(), name)
    return [replace(each, messages=without_entries(each.messages), boundaries=()) for each in found]


def calls_of(found: Conversation) -> list[int]:
    """Where calls were made: before each answer, and at the end."""
    reader = by_name(found.dialect).read
    befores = [None, *found.messages]
    places: list[int] = []
    before: list[str] = []
    for place, item in enumerate(found.messages):
        now: list[str] = [message.role for message in reader(item, befores[place], place)]
        if now == ["assistant"] != before and place:
            places.append(place)
        before = now
    return [*places, len(found.messages)]


class Call(NamedTuple):
    """One call of a run and what is checked of it."""

    at: int
    window: Window
    broke: bool

    @property
    def room(self) -> int:
        """From the target up to the ceiling, in tokens (B9)."""
        view, state = self.window._outcome.view, self.window._outcome.state
        return view.ceiling(state) - view.target(state)

    @property
    def is_apart(self) -> bool:
        """A break by the turn limit, or one that ended above the target: nothing more could go (B31)."""
        view, state = self.window._outcome.view, self.window._outcome.state
        by_turns = any(getattr(event, "reason", "") == "turn_limit" for event in self.window.events)
        return self.broke and (by_turns or view.size(state) > view.target(state))


def run(found: Conversation, **settings: Any) -> Iterator[Call]:
    """The calls of a recorded run as an agent with longturn would have made them."""
    fitter = Fitter(dialect=found.dialect, model=found.model, system=found.system, tools=found.tools, **settings)
    last: list[Any] = []
    for at in calls_of(found):
        window = fitter.fit(found.messages[:at])
        yield Call(at, window, last != window.messages[: len(last)])
        last = window.messages


def open_calls(messages: Sequence[Message]) -> list[str]:
    """Ids of calls and results that do not stand together."""
    calls: list[str] = []
    stray: list[str] = []
    for message in messages:
        for part in message.parts:
            call_id = getattr(part, "call_id", None)
            if call_id in calls:
                calls.remove(call_id)
            elif call_id is not None:
                stray.append(call_id)
        calls += [call.id for call in message.calls]
    return calls + stray


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_run_stays_valid_and_within_its_budget_with_fronts_that_hold(
    name: str, budget: int, shared: Path
) -> None:
    """Laws 1, 4, 7 and 8 on real runs; what a window weighs above its ceiling is the floor's."""
    for found in recorded(shared, name):
        made = list(run(found, budget=budget, capacity=None))
        for number, call in enumerate(made):
            view, state = call.window._outcome.view, call.window._outcome.state
            if view.size(state) > view.ceiling(state):
                assert is_at_floor(found.dialect, found.messages[: call.at], call.window)
            if number % EVERY == 0 or call is made[-1]:
                assert validate(call.window.messages, found.dialect) == []
                assert not open_calls(read(found.dialect, call.window.messages))
        breaks = sum(call.broke and not call.is_apart for call in made)
        apart = sum(call.is_apart for call in made)
        added = made[-1].window.report.total
        assert breaks <= added / min(call.room for call in made) + 1 + apart
        scratch = longturn.fit(
            found.messages,
            dialect=found.dialect,
            model=found.model,
            system=found.system,
            tools=found.tools,
            budget=budget,
        )
        assert scratch.messages == made[-1].window.messages
        assert scratch.tokens == made[-1].window.tokens


class Figures(NamedTuple):
    """What is left of a whole run in the last window at 32,000 tokens of the plain rule, and how often fronts broke."""

    tokens: int
    kept: int
    cleared: int
    breaks: int


RUNGS = ("images", "results", "arguments", "turns", "rounds")
PLAIN = Policy(target_ratio=0.5, whole_share=0.25, batch=1, rungs=RUNGS, estimator=SIMPLE)
GOLDEN = {
    "claude-code/huge-results.jsonl": Figures(27_268, 37, 1, 5),
    "claude-code/subagent-33-rounds.jsonl": Figures(14_689, 27, 4, 2),
    "claude-code/three-requests-197-rounds.jsonl": Figures(30_423, 71, 0, 4),
    "codex/rollout-102-rounds.jsonl": Figures(31_365, 107, 0, 5),
    "pi/large-session.jsonl": Figures(29_840, 260, 0, 5),
    "swe-agent/pandas.traj": Figures(13_866, 76, 0, 0),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_the_last_window_of_a_recorded_run_is_the_one_that_it_was(name: str, shared: Path) -> None:
    """L9: the fold has no hidden state. Policy and estimator are spelled out: no better default moves it."""
    (found,) = recorded(shared, name)
    made = list(run(found, budget=32_000, policy=PLAIN))
    report = made[-1].window.report
    breaks = sum(call.broke for call in made)
    assert Figures(report.sent, report.kept_messages, report.cleared_results, breaks) == GOLDEN[name]
