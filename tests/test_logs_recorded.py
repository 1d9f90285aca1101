"""Logs of real agents: each gives the rounds, results and figures that are known of it."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from longturn.arguments import problems_of, read_items
from longturn.core.checkpoint import Checkpoint
from longturn.core.messages import Message
from longturn.dialects.logs import Conversation, load
from longturn.dialects.registry import by_name


@dataclass(frozen=True, slots=True)
class Figures:
    """Sums over all conversations of a file; `most` is the most calls in one answer, `open` calls without a result."""

    conversations: int
    messages: int
    answers: int
    calls: int
    results: int
    users: int
    most: int
    open: int = 0
    usage: int = 0
    problems: int = 0


def answers_of(messages: list[Message]) -> list[int]:
    """How many calls each answer makes, its further items included."""
    calls: list[int] = []
    for message in messages:
        if message.role == "assistant" and not (message.continues and calls):
            calls.append(len(message.calls))
        elif message.role == "assistant":
            calls[-1] += len(message.calls)
    return calls


def core(found: Conversation) -> list[Message]:
    """Its messages; a checkpoint counts as the user's message that it is sent as."""
    read = [arrived.said for arrived in read_items(by_name(found.dialect), enumerate(found.messages))]
    return [said.message if isinstance(said, Checkpoint) else said for said in read]


def figures(found: list[Conversation]) -> Figures:
    total: Counter[str] = Counter()
    most = 0
    for one in found:
        messages = core(one)
        calls = answers_of(messages)
        roles = Counter(message.role for message in messages)
        total.update(messages=len(one.messages), answers=len(calls), calls=sum(calls), usage=len(one.usage))
        total.update(results=roles["tool"], users=roles["user"], open=sum(calls) - roles["tool"])
        total.update(problems=len(problems_of(by_name(one.dialect), one.messages)))
        most = max(most, *calls, 0)
    return Figures(len(found), **{**dict.fromkeys(("open", "usage", "problems"), 0), **total}, most=most)


# An answer of Claude Code is spread over several rows; counted by its message id, 197 calls came in 157 answers.
KNOWN = {
    "claude-code/three-requests-197-rounds.jsonl": Figures(1, 315, 157, 197, 197, 4, 6, usage=157),
    "claude-code/subagent-21-rounds.jsonl": Figures(1, 18, 9, 21, 21, 1, 6, usage=9),
    "claude-code/subagent-33-rounds.jsonl": Figures(1, 24, 12, 33, 33, 1, 9, usage=12),
    "claude-code/huge-results.jsonl": Figures(1, 119, 55, 48, 48, 21, 4, usage=55),
    "codex/rollout-102-rounds.jsonl": Figures(1, 249, 66, 102, 102, 3, 3, usage=66),
    "pi/large-session.jsonl": Figures(1, 900, 439, 391, 373, 88, 16, open=18, usage=439, problems=18),
    "gemini-cli/file-ops.json": Figures(1, 18, 9, 14, 14, 5, 9, usage=9),
    "gemini/adk-session.json": Figures(1, 9, 6, 2, 2, 1, 1),
    "swe-agent/marshmallow.traj": Figures(1, 28, 13, 13, 13, 1, 1),
    "swe-agent/pandas.traj": Figures(1, 76, 37, 37, 37, 1, 1),
    "swe-agent/text-actions.traj": Figures(1, 26, 12, 0, 0, 13, 0),
    "mini-swe-agent/github_issue.traj.json": Figures(1, 22, 10, 0, 0, 11, 0),
    # Two of the runs end in a `finish` call, which nothing answers.
    "openhands/multi_swe_bench_output.jsonl": Figures(3, 216, 105, 105, 103, 5, 1, open=2, usage=105, problems=2),
    "inspect/browser.json": Figures(1, 10, 5, 4, 4, 1, 1, usage=5),
    "langchain/summarization_seed_messages.json": Figures(1, 6, 3, 2, 2, 1, 1, usage=3),
    "librechat/tree.json": Figures(3, 17, 7, 0, 0, 7, 0),
    "openai-chat/airline-200-runs.json": Figures(200, 5308, 2454, 1164, 1164, 1490, 1),
    # One result of the request is an empty list of blocks, which OpenAI itself would refuse.
    "openai-chat/litellm-log.json": Figures(1, 12, 5, 5, 5, 1, 1, problems=1),
}


def recorded(shared: Path, name: str) -> list[Conversation]:
    return load((shared / "data" / "transcripts" / name).read_bytes(), name)


@pytest.mark.parametrize("name", KNOWN)
def test_a_recorded_log_gives_the_figures_that_are_known_of_it(name: str, shared: Path) -> None:
    assert figures(recorded(shared, name)) == KNOWN[name]


def test_a_trimmed_codex_rollout_gives_a_boundary_for_each_compaction(shared: Path) -> None:
    (found,) = recorded(shared, "codex/rollout-small-compacted.jsonl")
    assert found.boundaries == (10, 15, 24, 45, 72, 140)
    assert core(found)


@pytest.mark.parametrize(
    ("name", "place", "tokens", "time"),
    [
        ("three-requests-197-rounds", 253, 167_117, "2026-02-12T16:13:25.614Z"),
        ("huge-results", 83, 155_979, "2026-01-07T20:58:27.908Z"),
    ],
)
def test_a_claude_code_compaction_is_a_checkpoint_of_the_whole_history_before_it_s8(
    name: str, place: int, tokens: int, time: str, shared: Path
) -> None:
    (found,) = recorded(shared, f"claude-code/{name}.jsonl")
    assert found.boundaries == (place,)
    checkpoint = Checkpoint.of(found.messages[place])
    assert checkpoint.text.startswith("This session is being continued from")
    assert (checkpoint.covers, checkpoint.digest, checkpoint.source_tokens, checkpoint.time) == (0, None, tokens, time)


def test_reported_input_grows_with_the_history_until_the_compaction(shared: Path) -> None:
    (found,) = recorded(shared, "claude-code/three-requests-197-rounds.jsonl")
    (start,) = found.boundaries
    before = max(place for place in found.usage if place < start)
    after = min(place for place in found.usage if place >= start)
    assert found.usage[before].input_tokens > 150_000 > 4 * found.usage[after].input_tokens
    assert all(usage.input_tokens >= usage.cached_tokens + usage.written_tokens for usage in found.usage.values())


@pytest.mark.parametrize("name", [*KNOWN, "codex/rollout-small-compacted.jsonl"])
def test_recorded_times_are_seconds_of_this_century(name: str, shared: Path) -> None:
    for found in recorded(shared, name):
        assert all(978_307_200 < time < 4_102_444_800 for time in found.times.values())
