"""`longturn sessions` over a real store: what it prints, what it writes, what it deletes, and how it ends."""

import asyncio
import json
import sqlite3
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from longturn.cli.__main__ import run
from longturn.cli.places import default_store
from longturn.core.meter import Charge, Usage
from longturn.stores import New, Store
from longturn.stores.conversations import MESSAGE, message_body
from longturn.testing import validate

MESSAGES: list[ModelMessage] = [
    ModelRequest([UserPromptPart("How long is the night?\nIn \x1b[31mTromsø.")], instructions="Be brief."),
    ModelResponse([ThinkingPart("Look it up. " * 50), TextPart("I look."), ToolCallPart("read", {"page": 1}, "c1")]),
    ModelRequest([ToolReturnPart("read", "It was a long night. " * 90, "c1")]),
    ModelResponse([ToolCallPart("read", '{"page": 2}', "c2")]),
    ModelRequest([ToolReturnPart("read", "no such page", "c2", outcome="retried")]),
    ModelResponse([TextPart("Two months.")]),
    ModelRequest([UserPromptPart(["And this?", BinaryContent(data=b"x", media_type="image/png")])]),
    ModelResponse([TextPart("A picture.")]),
]


@dataclass(frozen=True, slots=True)
class Done:
    """What a command left behind."""

    status: int
    out: str
    err: str


Sessions = Callable[..., Done]


def within(place: str, work: Callable[[Store], Awaitable[Any]], **options: Any) -> None:
    async def go() -> None:
        async with await Store.open(place, **options) as store:
            await work(store)

    asyncio.run(go())


async def fill(store: Store) -> None:
    head = await store.create("night", title="How long is the night?")
    news = [New("message", message_body(message)) for message in MESSAGES]
    await store.append(head, news, charges=[Charge("c", None, Usage(5_000, 120, 1_000), "call", 0.0042)])
    await store.fork("night", "other")
    await store.create("night/c1", subagent_of="night", title="Look it up")


@pytest.fixture
def place(tmp_path: Path) -> str:
    """A store with a session, a fork of it and a subagent's."""
    path = str(tmp_path / "kept.db")
    within(path, fill)
    return path


@pytest.fixture
def sessions(place: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Sessions:
    """Runs `longturn sessions` on that store."""
    monkeypatch.setenv("LONGTURN_STORE", place)
    monkeypatch.setenv("COLUMNS", "100")

    def call(*arguments: str) -> Done:
        status = run(["sessions", *arguments])
        seen = capsys.readouterr()
        return Done(status, seen.out, seen.err)

    return call


def test_sessions_are_listed_with_what_they_are_to_each_other(sessions: Sessions) -> None:
    done = sessions("list")
    assert (done.status, done.err) == (0, "")
    assert "(fork of night) How long is the night?" in done.out
    assert "(subagent of night) Look it up" in done.out
    listed = json.loads(sessions("list", "--json").out)
    assert {head["session"]: (head["kind"], head["entries"]) for head in listed} == {
        "night": ("", 8),
        "other": ("fork", 8),
        "night/c1": ("subagent", 0),
    }
    assert len(json.loads(sessions("list", "--json", "--limit", "1").out)) == 1


def test_a_session_is_shown_with_its_cost_and_without_what_a_terminal_would_obey(sessions: Sessions) -> None:
    shown = sessions("show", "night").out
    assert "8 messages" in shown
    assert "5,000 tokens read, 120 written, $0.0042" in shown
    assert "How long is the night?\nIn \ufffd[31mTromsø." in shown
    assert "(call) read" in shown
    assert "(1,890 characters)" in shown
    assert "Fork: other" in shown
    assert "It was a long night. " * 90 in sessions("show", "night", "--full").out
    assert "(7 messages before)" in sessions("show", "night", "--last", "1").out
    told = json.loads(sessions("show", "other", "--json").out)
    assert (told["parent"], told["total"]["input_tokens"], len(told["messages"])) == ("night", 5_000, 8)


def test_an_exported_session_is_a_valid_chat_that_the_other_commands_read(sessions: Sessions, tmp_path: Path) -> None:
    out = tmp_path / "chat.json"
    assert sessions("export", "night", "-o", str(out)).status == 0
    chat = json.loads(out.read_text())
    assert validate(chat, "openai_chat") == []
    assert [message["role"] for message in chat] == [
        *("system", "user", "assistant", "tool", "assistant", "tool", "assistant", "user", "assistant")
    ]
    assert chat[-2]["content"][1]["image_url"]["url"].startswith("data:image/png;base64,")
    assert run(["inspect", str(out), "--json"]) == 0


def test_an_export_of_messages_is_read_back_by_pydantic_ai_unchanged(sessions: Sessions) -> None:
    bodies = json.loads(sessions("export", "night", "--as", "messages").out)
    assert [MESSAGE.validate_python(body) for body in bodies] == [
        MESSAGE.validate_python(message_body(message)) for message in MESSAGES
    ]


def test_an_exported_log_has_every_entry_on_a_line_with_its_hash(sessions: Sessions) -> None:
    entries = [json.loads(line) for line in sessions("export", "night", "--as", "log").out.splitlines()]
    assert [entry["position"] for entry in entries] == list(range(8))
    assert [entry["parent"] for entry in entries[1:]] == [entry["id"] for entry in entries[:-1]]


def test_verify_names_a_damaged_row_and_the_session_opens_without_it(sessions: Sessions, place: str) -> None:
    assert sessions("verify").out == "Sound: every hash and every link is as it was written.\n"
    with sqlite3.connect(place) as db:
        query = "UPDATE longturn_contents SET body = CAST('{}' AS BLOB) WHERE CAST(body AS TEXT) LIKE '%Two months%'"
        assert db.execute(query).rowcount == 1
    db.close()
    verified = sessions("verify")
    assert verified.status == 2
    assert "is damaged: it hashes to" in verified.out
    assert len(json.loads(sessions("verify", "--json").out)) == 1
    shown = sessions("show", "night")
    assert shown.status == 0
    assert "7 messages" in shown.out
    assert "Damaged, and left out" in shown.out
    exported = sessions("export", "night", "--as", "messages")
    assert len(json.loads(exported.out)) == 7
    assert "left out: content" in exported.err


def test_deleted_sessions_are_gone_and_what_a_fork_shares_stays(sessions: Sessions) -> None:
    assert sessions("delete", "night").err.endswith("give --yes to delete\n")
    assert sessions("delete", "other", "nobody", "--yes").status == 2
    assert len(json.loads(sessions("list", "--json").out)) == 3
    assert sessions("delete", "night", "night/c1", "--yes").out.startswith("Deleted: 2 sessions")
    assert [head["session"] for head in json.loads(sessions("list", "--json").out)] == ["other"]
    assert "8 messages" in sessions("show", "other").out


def test_old_sessions_expire_and_new_ones_stay(sessions: Sessions, place: str) -> None:
    async def old(store: Store) -> None:
        await store.create("last year")

    within(place, old, clock=lambda: datetime.now(UTC) - timedelta(days=400))
    assert sessions("expire", "--older-than", "60w").out == "No session is older than 60w.\n"
    assert sessions("expire", "--older-than", "30d").status == 2
    assert sessions("expire", "--older-than", "30d", "--yes").out.startswith("Deleted: 1 session,")
    assert "last year" not in sessions("list").out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["show", "nobody"], "there is no session 'nobody', so nothing was done: `longturn sessions list` names them"),
        (["verify", "nobody"], "there is no session 'nobody'"),
        (["list", "--store", "missing.db"], "there is no store at missing.db"),
        (["list", "--store", ""], "--store is empty"),
        (["list", "--store", "mysql://x/y"], "no store is kept in mysql"),
        (["list", "--store", "postgresql://127.0.0.1:1/x"], "cannot be reached"),
        (["expire", "--older-than", "soon"], "write a number and m, h, d or w, such as 30d"),
        (["export", "night", "-o", "no/such/folder/x.json"], "cannot be written"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line_with_status_2(
    sessions: Sessions, arguments: list[str], said: str
) -> None:
    done = sessions(*arguments)
    assert (done.status, done.out) == (2, "")
    assert said in done.err
    assert done.err.count("\n") == 1


def test_a_store_from_a_newer_version_is_refused_and_left_alone(sessions: Sessions, place: str) -> None:
    with sqlite3.connect(place) as db:
        db.execute("UPDATE longturn_version SET version_num = '9999'")
    db.close()
    done = sessions("list")
    assert done.status == 2
    assert "install a newer longturn" in done.err


def test_without_a_store_nothing_is_made_and_nothing_fails(
    sessions: Sessions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LONGTURN_STORE")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert sessions("list").out == "No session is kept here yet: `longturn chat` starts one.\n"
    assert json.loads(sessions("list", "--json").out) == []
    assert "no session is kept yet" in sessions("verify").err
    assert not default_store().parent.exists()
    assert default_store() == tmp_path / "data" / "longturn" / "sessions.db"


def test_a_file_that_is_no_store_is_left_as_it_is(sessions: Sessions, tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("not a database")
    done = sessions("list", "--store", str(file))
    assert done.status == 2
    assert "is not a SQLite database" in done.err
    assert file.read_text() == "not a database"
