"""The command line over both databases: a chat is kept, listed, shown, verified and deleted."""

import io
import json

import pytest

from longturn.cli.__main__ import run


def test_a_chat_in_either_database_is_kept_listed_and_deleted(
    place: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGTURN_STORE", place)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"Is it night?\n/fork dawn\nAnd now?\n")))
    assert run(["chat", "--model", "test"]) == 0
    assert capsys.readouterr().out == "success (no tool calls)\n" * 2
    assert run(["sessions", "list", "--json"]) == 0
    heads = json.loads(capsys.readouterr().out)
    assert [(head["session"] == "dawn", head["title"]) for head in heads] == [
        (True, "Is it night?"),
        (False, "Is it night?"),
    ]
    assert run(["sessions", "show", "dawn"]) == 0
    assert "4 messages" in capsys.readouterr().out
    assert run(["sessions", "verify"]) == 0
    assert run(["sessions", "delete", "dawn", "--yes"]) == 0
    capsys.readouterr()
    assert run(["sessions", "list", "--json"]) == 0
    assert [head["session"] for head in json.loads(capsys.readouterr().out)] == [heads[1]["session"]]
