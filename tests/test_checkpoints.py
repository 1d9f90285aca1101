"""Checkpoints (S8, B33): where they stand, what they apply to, and that no restart, fork or kill loses one."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import longturn
from longturn import Checkpoint, Fitter, Policy, SummaryRequest, TranscriptError, Window
from longturn.core.checkpoint import ENTRY, is_entry
from longturn.core.events import HistoryRepaired, SummaryCompleted
from longturn.core.messages import user
from longturn.core.policy import Retain, Summarization, Trigger
from longturn.core.texts import CHECKPOINT
from longturn.dialects.registry import by_name
from longturn.testing import validate
from tests.conversations import (
    DIALECTS,
    PLAIN,
    Answer,
    Result,
    Step,
    System,
    ask,
    chat,
    outline,
    reply,
    sized,
    step,
    steps,
    tokens,
    turn,
    written,
)

POLICY = replace(PLAIN, summarization=Summarization(reserve_ratio=0))
ROOMY = 100_000
"""A window, in tokens, that takes any head at once."""
Native = dict[str, Any]
ENTRY_OF: Native = {"type": ENTRY, "text": "All before."}


def turns(first: int, last: int, size: int = 100) -> list[Step]:
    return [each for number in range(first, last + 1) for each in turn(str(number), size)]


def mixed(number: int = 24) -> list[Step]:
    """Turns with rounds in them, some calls in parallel."""
    conversation: list[Step] = []
    for place in range(number):
        conversation.append(ask(f"ask {place} "))
        conversation += steps(10 * place, 10 * place + place % 3, 60)
        if place % 4 == 1:
            conversation.append(Answer(calls=(f"p{place}", f"q{place}")))
            conversation += [Result(f"p{place}", sized("p ", 30)), Result(f"q{place}", sized("q ", 30))]
        conversation.append(reply(f"say {place} "))
    return conversation


class Numbered:
    """A summarizer whose summaries can be told apart."""

    def __init__(self) -> None:
        self.asked: list[SummaryRequest] = []

    def __call__(self, request: SummaryRequest) -> str:
        self.asked.append(request)
        return f"## Goal\n- Summary {len(self.asked)}."


def lines(window: Window) -> list[str]:
    """Its outline, with what a checkpoint's message says behind our own words."""
    return [line.removeprefix(CHECKPOINT).strip() for line in outline(window)]


def entries_of(window: Window) -> list[Native]:
    done = [event for event in window.events if isinstance(event, SummaryCompleted)]
    return [event.checkpoint.entry() for event in done if event.checkpoint is not None]


def fit(messages: list[Any], budget: int = 1_000, **more: Any) -> Window:
    return longturn.fit(messages, budget=budget, **{"policy": POLICY, **more})


def run(messages: list[Any], fitter: Fitter) -> Iterator[tuple[list[Any], Window]]:
    """One call for each message; the entries are kept in the list behind what they were made of."""
    held: list[Any] = []
    for message in messages:
        held.append(message)
        window = fitter.fit(held)
        held += entries_of(window)
        yield list(held), window


def fitter_for(dialect: str, budget: int = 1_000, **more: Any) -> tuple[Fitter, Numbered]:
    numbered = Numbered()
    settings = {"budget": budget, "policy": POLICY, "capacity": ROOMY, "dialect": dialect, "summarize": numbered}
    return Fitter(**{**settings, **more}), numbered


def repaired(window: Window) -> list[str]:
    return [repair for event in window.events if isinstance(event, HistoryRepaired) for repair in event.repairs]


# --- where it stands -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS)
def test_b33_a_checkpoint_stands_in_the_notes_place_behind_the_first_message(dialect: str) -> None:
    """B33: system, first user message, the checkpoint, opener, tail."""
    lead: list[Step] = [System("Be brief.")] if dialect.startswith("openai") else []
    conversation = [*lead, *turns(0, 3), ask("Read "), *steps(1, 3)]
    messages = written(dialect, conversation)
    place = len(messages) - 2  # before the last round
    window = fit([*messages[:place], ENTRY_OF, *messages[place:]], dialect=dialect)
    said = ["system: Be brief."] * bool(lead)
    # The round before it had not been read yet when it was made, so it stays.
    rest = ["Read", "call c2", "c2: result c2", "call c3", "c3: result c3"]
    assert lines(window) == [*said, "ask 0", "All before.", *rest]
    assert window.checkpoint is not None
    assert window.checkpoint.text == "All before."
    assert validate(window.messages, dialect) == []


@pytest.mark.parametrize("dialect", DIALECTS)
def test_s8_the_message_of_a_checkpoint_is_our_words_and_its_text(dialect: str) -> None:
    messages = written(dialect, turns(0, 3))
    window = fit([*messages[:4], ENTRY_OF, *messages[4:]], dialect=dialect)
    assert window.messages[1] == by_name(dialect).render([user(f"{CHECKPOINT}\n\nAll before.")])[0]
    assert not any(is_entry(message) for message in window.messages)
    # It counts like any user message.
    assert window.tokens == 50 + tokens(f"{CHECKPOINT}\n\nAll before.") + 4 + 200


@pytest.mark.parametrize("dialect", DIALECTS)
def test_s8_an_entry_is_never_sent_as_it_is_and_may_stand_at_any_place(dialect: str) -> None:
    """S8: at every place of a list, between a call and its result too; the newest round stays in any case."""
    messages = written(dialect, [*turns(0, 1), ask("Read "), *steps(1, 3), reply("Done. ")])
    for place in range(len(messages) + 1):
        held = [*messages[:place], ENTRY_OF, *messages[place:]]
        window = fit(held, dialect=dialect)
        assert not any(is_entry(message) for message in window.messages)
        assert lines(window).count("All before.") == 1
        assert lines(window)[-1] == "assistant: Done."
        assert validate(window.messages, dialect) == []
        growing = Fitter(budget=1_000, policy=POLICY, dialect=dialect)
        for stop in range(1, len(held) + 1):
            grown = growing.fit(held[:stop])
        assert grown.messages == window.messages


@pytest.mark.parametrize(
    ("dialect", "key"),
    [("openai_chat", "messages"), ("openai_responses", "input"), ("anthropic", "messages"), ("gemini", "contents")],
)
def test_s8_an_entry_in_a_request_body_is_taken_up(dialect: str, key: str) -> None:
    messages = written(dialect, [*turns(0, 2), ask("Read "), *steps(1, 1)])
    window = longturn.fit_request({key: [*messages[:4], ENTRY_OF, *messages[4:]]}, dialect=dialect)
    assert lines(window)[:3] == ["ask 0", "All before.", "ask 2"]
    assert window.body is not None
    assert window.body[key] == window.messages


def test_s8_only_type_and_text_of_an_entry_are_needed() -> None:
    assert Checkpoint.of({"type": ENTRY, "text": "So."}) == Checkpoint("So.")
    made = Checkpoint(
        "So.", covers=12, digest="ab", tokens=7, source_tokens=900, model="m", time="2026-11-30T12:00:00Z"
    )
    entry = json.loads(json.dumps(made.entry()))
    assert Checkpoint.of(entry) == made
    assert entry["version"] == 1
    assert entry["covers"] == {"messages": 12, "digest": "ab"}


@pytest.mark.parametrize(
    "broken",
    [{"text": ""}, {"text": " \n"}, {"text": None}, {"text": 7}, {"version": 2}, {"version": "1"}, {"covers": 5}],
)
def test_s8_an_entry_that_cannot_be_read_is_refused_with_its_position(broken: Native) -> None:
    messages = chat(turns(0, 2))
    with pytest.raises(TranscriptError, match=r"message 4: .*checkpoint"):
        fit([*messages[:4], {**ENTRY_OF, **broken}, *messages[4:]])


def test_s8_every_entry_of_a_run_says_what_it_covers_when_and_how_large_it_is() -> None:
    """S8: text, tokens, what it covers, model, version, time."""
    fitter, _ = fitter_for("openai_chat", model="gpt-5")
    entries = [item for held, _ in run(chat(turns(0, 30)), fitter) for item in held if is_entry(item)]
    assert entries
    for entry in entries:
        assert entry["tokens"] == tokens(entry["text"])
        assert entry["source_tokens"] == 50 * entry["covers"]["messages"]
        assert entry["model"] == "gpt-5"
        assert entry["version"] == 1
        assert entry["time"].endswith("Z")


# --- the newest wins, nothing is lost ------------------------------------------------------------------------------


def test_s8_the_newest_checkpoint_wins_and_the_older_ones_stay_in_the_list() -> None:
    messages = chat(turns(0, 5))
    held = [*messages[:4], {**ENTRY_OF, "text": "One."}, *messages[4:8], {**ENTRY_OF, "text": "Two."}, *messages[8:]]
    assert lines(fit(held))[:3] == ["ask 0", "Two.", "ask 4"]
    assert lines(fit(held[:8]))[:3] == ["ask 0", "One.", "ask 2"]
    assert [item["text"] for item in held if is_entry(item)] == ["One.", "Two."]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_s8_windows_are_the_same_from_entries_from_a_dump_and_from_both(dialect: str) -> None:
    """S8, L9, B35: whatever of the two the next process has."""
    messages = written(dialect, mixed())
    fitter, numbered = fitter_for(dialect)
    for place, (held, window) in enumerate(run(messages, fitter)):
        dumped = json.loads(json.dumps(fitter.dump()))
        kept = json.loads(json.dumps(held))
        raw = [item for item in kept if not is_entry(item)]
        assert fit(kept, dialect=dialect).messages == window.messages
        assert validate(window.messages, dialect) == []
        if place % 5 == 0:
            for given in (raw, kept):
                loaded = Fitter(budget=1_000, policy=POLICY, dialect=dialect).load(dumped)
                assert loaded.fit(given).messages == window.messages
                assert loaded.fit(given).checkpoint == window.checkpoint
    assert len(numbered.asked) >= 3


@pytest.mark.parametrize("dialect", DIALECTS)
def test_s8_a_caller_that_hands_back_windows_gets_the_same_ones(dialect: str) -> None:
    """S8, B18, law 10: it keeps no entry; the checkpoint stands in what it hands back. Nothing is reported broken."""
    messages = written(dialect, turns(0, 40))
    raw, _ = fitter_for(dialect, summarize=lambda _request: "## Goal\n- Go on.")
    back, _ = fitter_for(dialect, summarize=lambda _request: "## Goal\n- Go on.")
    handed: list[Any] = []
    for stop, message in enumerate(messages, 1):
        wanted, window = raw.fit(messages[:stop]), back.fit([*handed, message])
        handed = window.messages
        assert handed == wanted.messages
        assert repaired(window) == []
    assert any(CHECKPOINT in str(message) for message in handed)


def test_s8_a_fresh_process_goes_on_from_a_window_that_was_handed_back() -> None:
    """S8: with neither entries nor dump; the standing text is merged into the next summary."""
    fitter, _ = fitter_for("openai_chat")
    windows = [window for _, window in run(chat(turns(0, 11)), fitter)]
    other, numbered = fitter_for("openai_chat")
    held = windows[-1].messages
    for number in range(12, 24):
        held = other.fit([*held, *chat(turns(number, number))]).messages
    assert numbered.asked
    assert numbered.asked[0].previous == "## Goal\n- Summary 1."
    assert sum(CHECKPOINT in str(message) for message in held) == 1


def without_ids(messages: list[Any], dialect: str) -> list[Any]:
    """Other ids for all calls, as after a migration; in Gemini's format none."""
    text = json.dumps(messages)
    for number in range(400):
        text = text.replace(f'"c{number}"', f'"other_{number}"')
    changed = json.loads(text)
    if dialect == "gemini":
        for content in changed:
            for part in content.get("parts", ()):
                for key in ("functionCall", "functionResponse"):
                    part.get(key, {}).pop("id", None)
    return list(changed)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_s8_a_checkpoint_is_found_again_when_the_ids_are_gone(dialect: str) -> None:
    messages = written(dialect, [ask("Go "), *steps(1, 40, 60)])
    fitter, _ = fitter_for(dialect)
    *_, (held, window) = run(messages, fitter)
    again = fit(without_ids(held, dialect), dialect=dialect)
    assert again.checkpoint == window.checkpoint is not None
    assert repaired(again) == []
    assert again.tokens == window.tokens


@pytest.mark.parametrize("dialect", DIALECTS)
def test_s8_a_checkpoint_is_found_again_when_a_database_has_sorted_the_keys(dialect: str) -> None:
    """S8, B33: JSON arguments are the same whatever the order of their keys."""
    rounds = [
        each
        for number in range(40)
        for each in (
            Answer(calls=(f"c{number}",), arguments='{"path": "a", "lines": {"to": 9, "from": 1}}'),
            Result(f"c{number}", sized("result ", 60)),
        )
    ]
    fitter, _ = fitter_for(dialect)
    *_, (held, window) = run(written(dialect, [ask("Go "), *rounds]), fitter)
    again = fit(json.loads(json.dumps(held, sort_keys=True)), dialect=dialect)
    assert again.checkpoint == window.checkpoint is not None


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses"])
def test_s8_a_system_message_added_in_front_moves_no_anchor(dialect: str) -> None:
    fitter, _ = fitter_for(dialect)
    *_, (held, window) = run(written(dialect, turns(0, 20)), fitter)
    again = fit([*written(dialect, [System("Today is Monday.")]), *held], dialect=dialect)
    assert again.messages[1:] == window.messages
    assert again.checkpoint == window.checkpoint is not None


def test_s8_texts_in_a_list_of_blocks_are_the_same_texts() -> None:
    """S8, B33: SDKs write a text as a string or as a list of one block."""
    fitter, _ = fitter_for("openai_chat")
    *_, (held, window) = run(chat(turns(0, 20)), fitter)
    blocks = [
        item if is_entry(item) else {**item, "content": [{"type": "text", "text": item["content"]}]} for item in held
    ]
    assert fit(blocks).checkpoint == window.checkpoint is not None


# --- forks and edits -----------------------------------------------------------------------------------------------


def edited_in_the_middle(held: list[Any]) -> list[Any]:
    return [*held[:5], {**held[5], "content": "Something else."}, *held[6:]]


def edited_at_the_beginning(held: list[Any]) -> list[Any]:
    return [{**held[0], "content": "Another task."}, *held[1:]]


def without_a_turn(held: list[Any]) -> list[Any]:
    return [*held[:4], *held[6:]]


def with_a_turn_more(held: list[Any]) -> list[Any]:
    return [*held[:4], *chat(turns(77, 77)), *held[4:]]


def forked(held: list[Any]) -> list[Any]:
    """A branch from the fifth message on, that kept the entries."""
    entries = [item for item in held if is_entry(item)]
    return [*held[:5], *chat([reply("another way "), *turns(50, 58)]), *entries]


@pytest.mark.parametrize(
    "change", [edited_in_the_middle, edited_at_the_beginning, without_a_turn, with_a_turn_more, forked]
)
def test_b33_a_checkpoint_of_another_history_is_not_applied_and_that_is_reported(
    change: Callable[[list[Any]], list[Any]],
) -> None:
    """B33: forks, and edits of what it covers; the window is what it would be without it."""
    fitter, numbered = fitter_for("openai_chat")
    *_, (held, _) = run(chat(turns(0, 12)), fitter)
    assert len(numbered.asked) == 1
    other = change(held)
    window = fit(other)
    assert window.checkpoint is None
    assert [edit.reason for edit in window.edits if edit.kind == "repaired"] == [
        "the checkpoint is not of what stands before it here, so it was left out"
    ]
    assert window.messages == fit([item for item in other if not is_entry(item)]).messages
    # What a fitter remembers by itself is not applied either; nobody handed it in, so there is nothing to report.
    loaded = Fitter(budget=1_000, policy=POLICY, dialect="openai_chat").load(fitter.dump())
    alone = loaded.fit([item for item in other if not is_entry(item)])
    assert (alone.messages, repaired(alone)) == (window.messages, [])


def test_b33_an_edit_behind_what_a_checkpoint_covers_leaves_it_in_force() -> None:
    fitter, _ = fitter_for("openai_chat")
    *_, (held, window) = run(chat(turns(0, 12)), fitter)
    again = fit([*held[:-1], {**held[-1], "content": "Another answer."}])
    assert again.checkpoint == window.checkpoint is not None
    assert repaired(again) == []


def test_b33_a_fork_behind_a_checkpoint_keeps_it() -> None:
    """B33: both branches go on from the same one, in fitters of their own or in one that is given both by turns."""
    fitter, numbered = fitter_for("openai_chat")
    *_, (held, window) = run(chat(turns(0, 12)), fitter)
    branches = [[*held, *chat(turns(number, number + 1))] for number in (100, 200)]
    for branch in (*branches, *branches):
        assert fitter.fit(branch).checkpoint == fit(branch).checkpoint == window.checkpoint
        assert lines(fitter.fit(branch))[-1] == f"assistant: say {101 if branch is branches[0] else 201}"
    assert len(numbered.asked) == 1


def test_b33_of_two_entries_the_older_holds_where_the_newer_is_of_another_branch() -> None:
    fitter, numbered = fitter_for("openai_chat")
    *_, (held, _) = run(chat(turns(0, 24)), fitter)
    entries = [item for item in held if is_entry(item)]
    assert len(numbered.asked) == len(entries) >= 2
    covered = entries[0]["covers"]["messages"]
    raw = [item for item in held if not is_entry(item)]
    window = fit([*raw[: covered + 4], *chat(turns(60, 60)), *entries])
    assert window.checkpoint is not None
    assert window.checkpoint.text == entries[0]["text"]


# --- a run without end ---------------------------------------------------------------------------------------------

BULKY = "## Goal\n- Finish the report.\n## Progress\n### Done\n" + "- Read one more chapter and noted it down.\n" * 200


def endless(conversation: Iterator[list[Step]], policy: Policy) -> tuple[list[Window], list[SummaryRequest], list[int]]:
    """A run through a window of 8,000 tokens; the last is how many calls of Python functions each fit took."""
    asked: list[SummaryRequest] = []

    def summarize(request: SummaryRequest) -> str:
        asked.append(request)
        return BULKY if len(asked) % 3 else f"## Goal\n- Summary {len(asked)}."

    fitter = Fitter(capacity=8_000, max_output=0, policy=policy, dialect="openai_chat", summarize=summarize)
    messages: list[Any] = []
    windows, costs = [], []
    for arrived in conversation:
        messages += chat(arrived)
        before = len(asked)
        cost, window = counted(partial(fitter.fit, messages))
        windows.append(window)
        if len(asked) == before:
            costs.append(cost)
    return windows, asked, costs


def counted(call: Callable[[], Window]) -> tuple[int, Window]:
    """How many Python functions a call calls; unlike time, it is the same on every machine."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        result = call()
    finally:
        sys.setprofile(None)
    return calls, result


@pytest.mark.parametrize("kind", ["turns", "rounds"])
def test_s11_a_thousand_turns_or_rounds_go_through_a_window_of_8000_tokens(kind: str) -> None:
    """S11: never refused, summaries now and then only, checkpoints bounded, and a fit costs no more at the end."""
    whole = [ask("Go ", 30), *step("c0", 200)]
    many = [turn(str(number), 300) for number in range(1_000)]
    one = [whole, *(step(f"c{number}", 294) for number in range(1, 1_000))]
    policy = replace(PLAIN, summarization=Summarization(max_summary_tokens=600))
    windows, asked, costs = endless(iter(many if kind == "turns" else one), policy)
    assert len(windows) == 1_000
    assert max(window.tokens for window in windows) <= windows[0].budget == 6_000
    made = [checkpoint for window in windows if (checkpoint := window.checkpoint)]
    different = {checkpoint.covers for checkpoint in made}
    assert max(checkpoint.tokens for checkpoint in made) <= 600
    assert len(made) >= 940
    # Each one makes room for some 2,000 tokens at least, and clearing does much of the work: 300,000 in all.
    assert 20 <= len(different) <= 150
    assert len(asked) <= 2 * len(different)
    assert all(validate(window.messages, "openai_chat") == [] for window in windows[-60:])
    early, late = sorted(costs[100:300]), sorted(costs[-200:])
    assert late[len(late) // 2] <= 1.5 * early[len(early) // 2]
    assert windows[-1].checkpoint is not None
    assert windows[-1].checkpoint.covers >= 1_900


# --- a process that dies -------------------------------------------------------------------------------------------

CHILD = '''
"""An agent whose transcript is a JSONL file: it is killed at the place that it is told."""

import json, os, signal, sys
from dataclasses import replace

from longturn import Fitter
from longturn.core.events import SummaryCompleted
from longturn.core.policy import Policy, Summarization
from longturn.core.tokens import SIMPLE

path, asked, turns, die = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]


def write(name, line):
    with open(name, "a") as file:
        file.write(json.dumps(line) + "\\n")
        file.flush()
        os.fsync(file.fileno())


def killed(place):
    if die == place:
        os.kill(os.getpid(), signal.SIGKILL)


def summarize(request):
    write(asked, {"previous": request.previous, "new": [said.text.split("~")[0] for said in request.history]})
    if die == "asked":
        os.kill(os.getpid(), signal.SIGKILL)
    return "## Goal\\n- Summary of " + str(len(open(asked).readlines())) + "."


def observe(event):
    if isinstance(event, SummaryCompleted) and event.checkpoint:
        killed("answered")
        write(path, event.checkpoint.entry())
        killed("written")


policy = Policy(estimator=SIMPLE, target_ratio=0.5, summarization=Summarization(reserve_ratio=0))
given = {"budget": 1_000, "capacity": 100_000, "policy": policy, "dialect": "openai_chat"}
fitter = Fitter(summarize=summarize, observer=observe, **given)
held = [json.loads(line) for line in open(path)] if os.path.exists(path) else []
while sum(message.get("role") == "assistant" for message in held) < turns:
    number = sum(message.get("role") == "assistant" for message in held)
    if not held or held[-1].get("role") == "assistant":
        held.append({"role": "user", "content": f"ask {number} ".ljust(184, "~")})
        write(path, held[-1])
    window = fitter.fit(held)
    held = [json.loads(line) for line in open(path)]
    held.append({"role": "assistant", "content": f"say {number} ".ljust(184, "~")})
    write(path, held[-1])
print(json.dumps(fitter.fit(held).messages))
'''


def agent(folder: Path, die: str = "") -> subprocess.CompletedProcess[str]:
    """Run the agent in a process of its own."""
    files = [str(folder / "transcript.jsonl"), str(folder / "asked.jsonl")]
    command = [sys.executable, "-c", CHILD, *files, "13", die]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ), timeout=120)


def kept(folder: Path, name: str) -> list[Native]:
    path = folder / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.parametrize(("die", "asked"), [("asked", 2), ("answered", 2), ("written", 1)])
def test_s8_a_process_that_is_killed_around_a_summary_loses_and_doubles_nothing(
    die: str, asked: int, tmp_path: Path
) -> None:
    """S8: before the entry is written the summary is made again, afterwards it is not; the transcript has each once."""
    alive, dead = tmp_path / "alive", tmp_path / "dead"
    for folder in (alive, dead):
        folder.mkdir()
    whole = agent(alive)
    assert (whole.returncode, whole.stderr) == (0, "")
    killed = agent(dead, die)
    assert killed.returncode == -signal.SIGKILL
    again = agent(dead)
    assert (again.returncode, again.stderr) == (0, "")

    wanted, found = kept(alive, "transcript"), kept(dead, "transcript")
    said = [line["content"] for line in found if not is_entry(line)]
    assert said == [line["content"] for line in wanted if not is_entry(line)]
    assert len(said) == len(set(said)) == 26
    entries = [line for line in found if is_entry(line)]
    assert [entry["covers"] for entry in entries] == [entry["covers"] for entry in wanted if is_entry(entry)]
    assert len(entries) == 1
    questions = kept(dead, "asked")
    assert len(questions) == asked
    assert all(question == questions[0] == kept(alive, "asked")[0] for question in questions)
    window = json.loads(again.stdout)
    assert [message["content"][:5] for message in window] == [
        message["content"][:5] for message in json.loads(whole.stdout)
    ]
    assert sum(CHECKPOINT in message["content"] for message in window) == 1


def test_s8_a_dump_that_is_older_than_the_entries_adds_nothing() -> None:
    """S8: the dump of an earlier call, the list of a later one."""
    fitter, _ = fitter_for("openai_chat")
    dumps, helds, windows = [], [], []
    for held, window in run(chat(turns(0, 30)), fitter):
        dumps.append(json.dumps(fitter.dump()))
        helds.append(held)
        windows.append(window)
    for dumped in dumps[::4]:
        loaded = Fitter(budget=1_000, policy=POLICY, dialect="openai_chat").load(json.loads(dumped))
        assert loaded.fit(helds[-1]).messages == windows[-1].messages


def test_s8_what_a_manual_summary_has_made_is_in_the_next_window_and_in_the_dump() -> None:
    fitter, _ = fitter_for("openai_chat", 10_000)
    messages = chat(turns(0, 9))
    fitter.fit(messages)
    made = fitter.compact().checkpoint
    assert made is not None
    assert fitter.fit(messages).checkpoint == made
    assert fit([*messages, made.entry()], 10_000).messages == fitter.fit(messages).messages
    loaded = Fitter(budget=10_000, policy=POLICY, dialect="openai_chat").load(fitter.dump())
    assert loaded.fit(messages).checkpoint == made


def test_s8_a_summary_that_is_kept_by_the_policy_without_a_summarizer_still_counts() -> None:
    """S8: whoever only reads entries needs nobody who writes them, and is asked for nothing."""
    policy = replace(
        PLAIN,
        summarization=Summarization(trigger=Trigger("token_ratio", 0), retain_recent=Retain(0), reserve_ratio=0),
    )
    messages = chat(turns(0, 5))
    window = fit([*messages[:6], ENTRY_OF, *messages[6:]], policy=policy)
    assert lines(window)[:3] == ["ask 0", "All before.", "ask 3"]


def test_s8_a_newer_checkpoint_takes_the_place_of_the_one_that_a_list_begins_with() -> None:
    """S8, S6: who keeps only the checkpoint and what came since never carries two of them."""
    asked: list[SummaryRequest] = []

    def summarize(request: SummaryRequest) -> str:
        asked.append(request)
        return f"## Goal\n- {len(asked)} more, after: {request.previous.split()[-1]}"

    begun = [{"role": "system", "content": "Be brief."}, Checkpoint(text="## Goal\n- nothing").entry()]
    fitter, held = Fitter(budget=1_000, summarize=summarize), [*begun]
    for message in chat(turns(0, 30)):
        held.append(message)
        window = fitter.fit(held)
        carried = [said for said in outline(window) if said.startswith(CHECKPOINT[:12])]
        assert len(carried) == 1
        assert window.snapshot.used == window.tokens
    assert [request.previous.split()[-1] for request in asked][:2] == ["nothing", "nothing"]
    assert len(asked) > 1
    handed = [*window.messages, *chat([reply("Good "), ask("And ")])]
    raw = [*held, *chat([reply("Good "), ask("And ")])]
    rules = Policy(summarization=Summarization())
    assert (
        longturn.fit(handed, budget=1_000, policy=rules).messages
        == Fitter(budget=1_000, policy=rules).load(fitter.dump()).fit(raw).messages
    )


def test_s9_an_entry_larger_than_what_it_stands_for_refuses_nothing() -> None:
    """S9: it came from elsewhere, and the window has no room for it; without it the request fits."""
    said = chat(turns(0, 2))
    huge = Checkpoint(text="word " * 5_000).entry()
    given = [*said, huge, *chat([ask("And ")])]
    settings: dict[str, Any] = {"budget": 900, "capacity": 1_000, "max_output": 0, "policy": POLICY}
    window = longturn.fit(given, **settings)
    assert window.checkpoint is None
    assert window.messages == longturn.fit([*said, *chat([ask("And ")])], **settings).messages
