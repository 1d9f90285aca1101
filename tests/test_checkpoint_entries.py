"""Checkpoints in lists and logs (S8, B33): what fit, inspect, replay and the commands make of an entry."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import longturn
from longturn import Policy
from longturn.against import window_of
from longturn.cli.__main__ import run
from longturn.core.checkpoint import Checkpoint, is_entry
from longturn.core.meter import Usage
from longturn.core.planners import folded, planners, summarizing
from longturn.core.replay import CHECKPOINT_ITEM, SUMMARY_ITEM, replay
from longturn.core.texts import CHECKPOINT
from longturn.dialects.logs import Conversation, load
from longturn.dialects.registry import by_name
from longturn.errors import TranscriptError
from longturn.inspection import Standing, inspect
from longturn.page import page
from longturn.replays import compare, recordings
from longturn.testing import validate
from tests.oracle import read
from tests.writers import WRITERS, Call, Made

Native = dict[str, Any]


def user(said: str) -> Native:
    return {"role": "user", "content": said}


def answer(said: str) -> Native:
    return {"role": "assistant", "content": said}


def calls(name: str) -> list[Native]:
    made = {"id": name, "type": "function", "function": {"name": "read", "arguments": "{}"}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [made]},
        {"role": "tool", "tool_call_id": name, "content": f"{name}: found"},
    ]


def entry(text: str = "so far", covers: int = 0) -> Native:
    return Checkpoint(text, covers=covers).entry()


def said(messages: Sequence[Any], dialect: str = "openai_chat") -> list[str]:
    """What each message says, a checkpoint by its text in brackets."""
    texts = [message.text or str(getattr(message.parts[0], "text", "")) for message in read(dialect, messages)]
    return [f"[{text[len(CHECKPOINT) :].strip()}]" if text.startswith(CHECKPOINT) else text for text in texts]


def fitted(messages: Sequence[Any]) -> list[str]:
    return said(longturn.fit(messages, dialect="openai_chat").messages)


# --- what an entry without a digest stands for ---


def test_s8_messages_behind_an_entry_are_never_covered_by_it() -> None:
    """Several of the user's in a row, before the next answer, are the running round as it arrives."""
    before = [user("1"), answer("2"), user("3"), answer("4")]
    assert fitted([*before, entry(), user("5"), user("6"), answer("7"), user("8")]) == ["1", "[so far]", *"5678"]


@pytest.mark.parametrize(("covers", "kept"), [(0, "56"), (1, "23456"), (2, "3456"), (3, "3456"), (4, "56"), (9, "56")])
def test_s8_an_entry_that_names_a_number_of_messages_stands_for_the_first_ones(covers: int, kept: str) -> None:
    """The question stays where one of its answers does (B33: opener, tail)."""
    messages = [user("1"), answer("2"), user("3"), answer("4"), entry(covers=covers), user("5"), answer("6")]
    assert fitted(messages) == ["1", "[so far]", *kept]


def test_s8_entries_are_not_counted_among_the_messages_that_a_later_one_stands_for() -> None:
    messages = [entry("zero"), user("1"), answer("2"), entry("one"), user("3"), answer("4"), entry("two", 2), user("5")]
    assert fitted(messages) == ["[two]", *"345"]


@pytest.mark.parametrize("covers", range(1, 8))
def test_s8_a_round_in_whose_middle_a_checkpoint_ends_stays_as_a_whole(covers: int) -> None:
    messages = [user("1"), *calls("a"), user("2"), *calls("b"), entry(covers=covers), user("3"), answer("4")]
    window = longturn.fit(messages).messages
    assert validate(window, "openai_chat") == []
    found = [call.id for message in read("openai_chat", window) for call in message.calls]
    assert found == (["a", "b"] if covers < 3 else ["b"] if covers < 6 else [])


def test_s8_the_same_summary_once_more_stands_for_more_where_more_has_come() -> None:
    messages = [user("1"), answer("2"), entry(), user("3"), answer("4"), entry(), user("5"), answer("6")]
    assert fitted(messages) == ["1", "[so far]", "5", "6"]


def test_s8_step_by_step_and_from_scratch_entries_give_the_same_windows() -> None:
    first = [user("1"), *calls("a"), user("3"), answer("4"), entry("one", 3), user("5"), user("6"), answer("7")]
    messages = [*first, entry("two", 6), user("8"), *calls("b"), entry("three"), user("9")]
    fitter = longturn.Fitter(dialect="openai_chat")
    for stop in range(1, len(messages) + 1):
        scratch = longturn.fit(messages[:stop], dialect="openai_chat")
        assert fitter.fit(messages[:stop]).messages == scratch.messages


# --- lists that users write ---


def told(dialect: str) -> list[Native]:
    """A list in a dialect with an entry behind its first round."""
    writer, made = WRITERS[dialect], [Made("c1", Call(), "{}", "found")]
    first = [*writer.answer("", "", made), *writer.results(made)]
    return [writer.user("go", False), *first, entry(), writer.user("more", False), *writer.answer("Done.", "", [])]


WRAPPED: dict[str, Callable[[list[Native]], str]] = {
    "a list": json.dumps,
    "lines": lambda messages: "\n".join(map(json.dumps, messages)),
    "a line of its own": lambda messages: (
        json.dumps({"messages": messages}) + "\n" + json.dumps({"messages": messages})
    ),
}


@pytest.mark.parametrize("form", WRAPPED)
@pytest.mark.parametrize("dialect", WRITERS)
def test_s8_a_file_with_an_entry_is_read_in_its_dialect_and_the_entry_takes_effect(dialect: str, form: str) -> None:
    found = load(WRAPPED[form](told(dialect)).encode())[0]
    assert (found.dialect, found.messages) == (dialect, told(dialect))
    window = longturn.fit(found.messages, dialect=dialect)
    assert said(window.messages, dialect) == ["go", "[so far]", "more", "Done."]
    assert validate(window.messages, dialect) == []


@pytest.mark.parametrize("dialect", WRITERS)
def test_s8_validate_says_that_an_entry_is_not_sent_as_it_is(dialect: str) -> None:
    assert validate(told(dialect), dialect) == [
        f"messages[{place}]: a checkpoint's entry is not sent as it is: send what fit() gives"
        for place, item in enumerate(told(dialect))
        if is_entry(item)
    ]


# --- inspect ---


def test_s8_an_inspection_counts_checkpoints_and_names_what_is_broken_by_its_place_in_the_list() -> None:
    lost = {"role": "tool", "tool_call_id": "lost", "content": "x"}
    other = {**entry("of another list"), "covers": {"messages": 2, "digest": "0" * 32}}
    found = inspect([user("1"), answer("2"), entry(), user("3"), lost, entry(covers=1), other], dialect="openai_chat")
    assert found.problems == ("messages[4]: the result for 'lost' follows no open call with that id",)
    assert [(each.message, each.covers) for each in found.checkpoints] == [(2, 2), (5, 1), (6, 0)]
    window = longturn.fit([user("1"), answer("2"), entry()])
    assert found.checkpoints[0].tokens == window.report.checkpoint
    assert found.tokens.total == sum(large.tokens for large in found.largest)
    assert (found.messages, found.turns, found.rounds) == (7, 2, 1)


def test_s8_a_list_that_begins_with_an_entry_begins_with_a_users_message() -> None:
    found = inspect([entry(), answer("2"), user("3")], dialect="anthropic")
    assert found.problems == ()
    assert found.checkpoints == (Standing(0, found.largest[0].tokens, 0),)


def test_what_was_kept_beside_a_summary_is_counted_for_the_calls_behind_it() -> None:
    messages = [user("1"), answer("2"), user("kept " * 50), answer("4"), entry(covers=2), user("5"), answer("6")]
    usage = {6: Usage(900, 10)}
    bare, whole = (inspect(messages, usage=usage, boundaries=(4,), kept=kept) for kept in ({}, {4: (2, 3)}))
    assert bare.reported is not None
    assert whole.reported is not None
    kept = [large.tokens for large in whole.largest if large.message in (2, 3)]
    assert whole.reported.estimated_input - bare.reported.estimated_input == sum(kept)


# --- replay ---


def conversation(*messages: Native, **more: Any) -> Conversation:
    return Conversation("openai_chat", list(messages), name="log", **more)


LONG = "a line of what was found. " * 20
MARKED = conversation(
    user("go"),
    *[each for name in "abcd" for each in calls(name)],
    entry("one"),
    user(LONG),
    *[each for name in "efgh" for each in calls(name)],
    answer(LONG),
    entry("two", 10),
    user("on"),
    *calls("i"),
    answer("Done."),
)


@pytest.mark.parametrize("budget", [120, 400, 8_000])
def test_b33_a_replay_sends_the_checkpoints_of_a_list_as_fitter_does(budget: int) -> None:
    (recording,) = recordings(MARKED)
    fitter, policy = longturn.Fitter(budget=budget), Policy()
    found = compare(recording, {"default": folded(policy, budget)})[0]
    for call in found.calls:
        position = recording.run.counts.transcript.rows[call.border].position
        window = fitter.fit(MARKED.messages[:position])
        sent = by_name("openai_chat").render(window_of(recording.run, call.items, policy))
        assert said(sent) == said(window.messages)
        assert call.tokens == window.tokens
    assert any(item <= CHECKPOINT_ITEM for call in found.calls for item in call.items)


def test_b33_a_policy_that_has_summaries_written_begins_with_those_that_are_there() -> None:
    (recording,) = recordings(MARKED)
    wide, tight = (replay("it", summarizing(limit), recording.run) for limit in (8_000, 250))
    assert any(item <= CHECKPOINT_ITEM for call in wide.calls for item in call.items)
    assert not any(call.summarized for call in wide.calls)
    assert any(CHECKPOINT_ITEM < item <= SUMMARY_ITEM for call in tight.calls for item in call.items)
    assert any(call.summarized for call in tight.calls)


def test_the_report_page_is_drawn_of_runs_with_checkpoints() -> None:
    runs = [(each, compare(each, planners(400))) for each in recordings(MARKED)]
    assert "so far" not in page("it", runs, budget=400, texts=False)
    kept = conversation(user("go"), answer("1"), entry("sum", 1), answer("2"), boundaries=(2,), kept={2: (1,)})
    runs = [(each, compare(each, planners(400))) for each in recordings(kept)]
    assert '"places":[2,1,3]' in page("it", runs, budget=400)


def test_behind_a_boundary_a_replay_begins_with_the_summary_and_what_was_kept_whose_calls_are_not_made_again() -> None:
    history = [user("1"), answer("2"), *calls("a"), *calls("b"), entry(covers=2)]
    times = dict(enumerate(map(float, range(10))))
    log = conversation(*history, *calls("c"), answer("4"), boundaries=(6,), kept={6: (2, 3, 4, 5)}, times=times)
    first, second = recordings(log)
    assert [row.position for row in second.run.counts.transcript.rows] == [6, 2, 3, 4, 5, 7, 8, 9]
    assert second.run.counts.transcript.rows[0].message.text == f"{CHECKPOINT}\n\nso far"
    for each in compare(second, planners(None)):
        assert [second.run.counts.transcript.rows[call.border].position for call in each.calls] == [7, 9]
        assert not each.calls[0].is_broken
    assert [len(compare(each, {"none": planners(None)["none"]})[0].calls) for each in (first, second)] == [2, 2]
    assert [second.run.times[border] for border in (5, 7)] == [7.0, 9.0]


# --- logs ---


def lines(*rows: object) -> bytes:
    return "\n".join(map(json.dumps, rows)).encode()


def spoken(number: int, role: str, text: str) -> Native:
    message = {"role": role, "content": [{"type": "text", "text": text}]}
    return {"type": "message", "id": f"e{number}", "parentId": f"e{number - 1}" if number else None, "message": message}


def test_s8_a_window_fitted_from_a_pi_log_is_the_one_that_pi_went_on_with() -> None:
    """The first message, which longturn keeps in front, is all that is more."""
    summary = {"type": "compaction", "summary": "so far", "firstKeptEntryId": "e2", "tokensBefore": 9}
    (found,) = load(
        lines(
            {"type": "session", "version": 3, "id": "p", "cwd": "x"},
            spoken(0, "user", "1"),
            spoken(1, "assistant", "2"),
            spoken(2, "user", "3"),
            spoken(3, "assistant", "4"),
            {**summary, "id": "e4", "parentId": "e3"},
            spoken(5, "user", "5"),
            spoken(6, "assistant", "6"),
        )
    )
    assert fitted(found.messages) == ["1", "[so far]", *"3456"]
    behind = recordings(found)[1]
    rows = [row.message for row in behind.run.counts.transcript.rows]
    assert [message.text for message in rows] == [f"{CHECKPOINT}\n\nso far", *"3456"]
    assert behind.run.since == 4


def item(role: str, text: str) -> Native:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def test_s8_a_window_fitted_from_a_codex_log_says_nothing_twice() -> None:
    """Codex sends all users' messages again; the first of them stands in front anyway."""
    history = [item("developer", "rules"), item("user", "1"), item("user", "3"), item("user", "so far")]
    turns = [item("user", "1"), item("assistant", "2"), item("user", "3"), item("assistant", "4")]
    rows = [{"type": "response_item", "payload": each} for each in [history[0], *turns]]
    compacted = {"type": "compacted", "payload": {"message": "so far", "replacement_history": history}}
    after = [
        {"type": "response_item", "payload": item("user", "5")},
        {"type": "response_item", "payload": item("assistant", "6")},
    ]
    (found,) = load(lines({"type": "session_meta", "payload": {"id": "r"}}, *rows, compacted, *after))
    window = longturn.fit(found.messages, dialect="openai_responses")
    assert said(window.messages, "openai_responses") == ["rules", "1", "[so far]", *"356"]
    behind = recordings(found)[1].run.counts.transcript.rows
    assert [row.message.text for row in behind][1:] == ["rules", *"1356"]
    assert behind[0].message.text == f"{CHECKPOINT}\n\nso far"


@pytest.mark.parametrize("name", ["three-requests-197-rounds", "huge-results"])
def test_s8_a_recorded_claude_code_session_is_fitted_to_what_it_went_on_with(name: str, shared: Path) -> None:
    (found,) = load((shared / "data" / "transcripts" / "claude-code" / f"{name}.jsonl").read_bytes())
    (place,) = found.boundaries
    window = longturn.fit(found.messages, model=found.model, budget=0, dialect="anthropic")
    first, mark, *rest = window.messages
    assert first is found.messages[0]
    assert read("anthropic", [mark])[0].text == Checkpoint.of(found.messages[place]).message.text
    behind = found.messages[place + 1 :]
    assert all(one is other for one, other in zip(rest[-len(behind) :], behind, strict=True))
    # It was compacted inside a turn: of that, what opened it stands, and the round that was the newest then.
    assert 0 < len(rest) - len(behind) < 6
    assert window.checkpoint == Checkpoint.of(found.messages[place])
    assert validate(window.messages, "anthropic") == []


@pytest.mark.parametrize("name", ["three-requests-197-rounds", "huge-results"])
def test_s8_a_recorded_compaction_begins_a_run_of_its_own_in_a_replay(name: str, shared: Path) -> None:
    (found,) = load((shared / "data" / "transcripts" / "claude-code" / f"{name}.jsonl").read_bytes())
    before, behind = recordings(found)
    (place,) = found.boundaries
    assert (before.start, behind.start) == (0, place)
    assert behind.run.counts.transcript.rows[0].message == Checkpoint.of(found.messages[place]).message
    assert sum(len(each.run.counts.transcript.answers) for each in (before, behind)) == len(found.usage)


def test_a_recorded_codex_session_whose_summaries_are_encrypted_has_no_checkpoints(shared: Path) -> None:
    (found,) = load((shared / "data" / "transcripts" / "codex" / "rollout-small-compacted.jsonl").read_bytes())
    assert len(found.boundaries) == 6
    assert not any(map(is_entry, found.messages))
    assert [each.start for each in recordings(found)] == [0, *found.boundaries]


def librechat(*nodes: Native) -> Conversation:
    linked = [
        {"messageId": str(place), "parentMessageId": str(place - 1), "isCreatedByUser": not place % 2, **node}
        for place, node in enumerate(nodes)
    ]
    (found,) = load(json.dumps({"conversationId": "c", "messages": linked}).encode())
    return found


def test_s8_a_summary_in_a_librechat_export_stands_for_what_its_coverage_says() -> None:
    block = {
        "type": "summary",
        "content": [{"type": "text", "text": "so far"}],
        "tokenCount": 7,
        "coverage": {"retainedFromMessageId": "2"},
        "model": "m",
        "createdAt": "2026-01-01T00:00:00Z",
    }
    text = {"type": "text", "text": "6"}
    found = librechat(
        {"text": "1"}, {"text": "2"}, {"text": "3"}, {"text": "4"}, {"text": "5"}, {"content": [block, text]}
    )
    assert found.messages[5] == Checkpoint("so far", 2, None, 7, 0, "m", "2026-01-01T00:00:00Z").entry()
    assert (found.boundaries, found.kept) == ((5,), {5: (2, 3, 4)})
    assert fitted(found.messages) == ["1", "[so far]", *"3456"]


def test_s8_an_older_librechat_export_has_the_summary_on_the_last_message_that_it_covers() -> None:
    found = librechat({"text": "1"}, {"text": "2", "summary": "so far", "summaryTokenCount": 7}, {"text": "3"})
    assert found.messages[2] == Checkpoint("so far", tokens=7).entry()
    assert fitted(found.messages) == ["1", "[so far]", "3"]


def test_a_librechat_summary_that_was_never_finished_is_left_out_with_a_note() -> None:
    block = {"type": "summary", "content": [{"type": "text", "text": "Half a"}], "summarizing": True}
    found = librechat({"text": "1"}, {"content": [block, {"type": "text", "text": "2"}]})
    assert found.messages == [user("1"), answer("2")]
    assert found.notes == ("left out: 1 unfinished summaries",)


# --- entries that cannot be read ---

MALFORMED: dict[str, Native] = {
    "no text": {},
    "blank text": {"text": " "},
    "text of another type": {"text": ["so far"]},
    "a version of tomorrow": {"text": "so far", "version": 2},
    "covers that is a list": {"text": "so far", "covers": [12]},
    "covers a text": {"text": "so far", "covers": {"messages": "12"}},
    "covers less than nothing": {"text": "so far", "covers": {"messages": -1}},
    "a digest that is a number": {"text": "so far", "covers": {"messages": 1, "digest": 5}},
}
READERS: dict[str, Callable[[list[Native]], object]] = {
    "fit": longturn.fit,
    "inspect": inspect,
    "recordings": lambda messages: recordings(conversation(*messages)),
    "recordings behind a boundary": lambda messages: recordings(conversation(*messages, boundaries=(1, 2))),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("what", MALFORMED)
def test_s8_an_entry_that_cannot_be_read_is_named_by_its_position(what: str, reader: str) -> None:
    messages = [user("1"), answer("2"), {"type": "longturn.checkpoint", **MALFORMED[what]}, user("3")]
    with pytest.raises(TranscriptError, match=r"^message 2: .*take the entry out, or mend it"):
        READERS[reader](messages)


@pytest.mark.parametrize("command", ["fit", "inspect", "replay"])
@pytest.mark.parametrize("wrapped", [False, True])
def test_a_command_ends_with_2_and_the_position_of_an_entry_that_it_cannot_read(
    command: str, wrapped: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    messages = [user("1"), answer("2"), {"type": "longturn.checkpoint"}]
    file = tmp_path / "it.json"
    file.write_text(json.dumps({"messages": messages} if wrapped else messages))
    assert run([command, str(file)]) == 2
    assert capsys.readouterr().err == (
        f"longturn: {file}: message 2: the checkpoint has no text: None: take the entry out, or mend it\n"
    )


# --- the commands ---


def test_s8_every_command_takes_a_list_with_an_entry(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "it.jsonl"
    file.write_bytes(lines(user("1"), answer("2"), entry(), user("3"), answer("4")))
    assert run(["fit", str(file)]) == 0
    assert said(json.loads(capsys.readouterr().out)) == ["1", "[so far]", "3", "4"]
    assert run(["inspect", str(file)]) == 0
    assert "1 checkpoint\nmessage 2: " in (out := capsys.readouterr().out)
    assert out.splitlines()[-1].endswith(" tokens that stand for the first 2 messages")
    assert run(["inspect", "--json", str(file)]) == 0
    found = json.loads(capsys.readouterr().out)
    (tokens,) = [large["tokens"] for large in found["largest"] if large["message"] == 2]
    assert found["checkpoints"] == [{"message": 2, "tokens": tokens, "covers": 2}]
    assert run(["count", str(file)]) == 0
    assert int(capsys.readouterr().out) == found["tokens"]["total"]
    assert run(["replay", "--json", "--html", str(tmp_path / "it.html"), str(file)]) == 0
    assert json.loads(capsys.readouterr().out)["calls"] == 2
