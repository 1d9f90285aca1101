"""Bad files: what is whole is read, what is left out is named, and nothing but TranscriptError is ever raised (H29)."""

import json
import random
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longturn.dialects.logs import Conversation, load
from longturn.errors import TranscriptError
from tests.test_logs_formats import CHAT, HEADER, LANGCHAIN, PARALLEL, ROLLOUT, lines, pi, spoke

PI = [HEADER, pi("message", 1, None, message=spoke("user", "a")), pi("message", 2, 1, message=spoke("assistant", "b"))]
GEMINI = {"type": "gemini", "toolCalls": [{"result": [{}]}], "tokens": {"input": 1}, "content": "b"}
ADK = {"author": "a", "content": {"role": "model", "parts": [{"text": "b"}]}, "timestamp": 1}
SWE_AGENT = {"role": "tool", "content": "a", "tool_call_ids": ["b"], "tool_calls": [{"function": {}}]}
MINI = {"role": "assistant", "content": "a", "extra": {"response": {"usage": {"prompt_tokens": 1}}, "timestamp": 1}}
RESPONSE = {"id": "b", "choices": [{"message": {"tool_calls": [{}]}}], "usage": {}}
OPENHANDS = {
    "source": "agent",
    "action": "run",
    "args": {"tools": []},
    "tool_call_metadata": {"tool_call_id": "a", "model_response": RESPONSE},
}
INSPECT = {
    "messages": [{"id": "a", "role": "assistant", "content": "b", "tool_calls": [{"arguments": {}}]}],
    "attachments": {},
    "events": [
        {
            "event": "model",
            "tools": [{}],
            "output": {"choices": [{"message": {"id": "a"}}], "usage": {"total_tokens": 3}},
        }
    ],
}
LIBRECHAT = {
    "messageId": "a",
    "parentMessageId": "b",
    "isCreatedByUser": False,
    "content": [{"type": "tool_call", "tool_call": {"output": "c"}}],
    "children": [],
    "createdAt": "2026-01-01T00:00:00Z",
}
SAMPLES: tuple[object, ...] = (
    PARALLEL,
    ROLLOUT,
    PI,
    [{"type": kind, "data": fields} for kind, fields in LANGCHAIN],
    CHAT,
    {"sessionId": "g", "startTime": "", "messages": [{"type": "user", "content": "a"}, GEMINI]},
    {"events": [ADK]},
    {"trajectory": [], "history": [SWE_AGENT]},
    {"trajectory_format": "mini-swe-agent-1", "info": {"config": {}}, "messages": [MINI]},
    {"history": [OPENHANDS]},
    {"eval": {"model": "m"}, "samples": [INSPECT]},
    {"messages": [LIBRECHAT], "options": {}},
    {"input": "a", "tools": [], "instructions": "b"},
)


def strict(found: list[Conversation]) -> str:
    """What was read as JSON that every reader takes."""
    text = json.dumps([[one.messages, one.system, one.tools, one.notes] for one in found], allow_nan=False)
    text.encode("utf-8")
    json.dumps([one.messages for one in found], ensure_ascii=False).encode("utf-8")
    return text


def test_a_last_line_that_is_cut_off_is_left_out_with_its_number() -> None:
    data = lines(PARALLEL)
    found = load(data[:-40])
    assert found[0].notes[0].startswith(f"line {len(PARALLEL)} is cut off after ")
    assert len(found[0].messages) == 3


def test_a_broken_line_before_the_last_is_an_error_with_its_number() -> None:
    rows = lines(PARALLEL).split(b"\n")
    rows[3] = rows[3][:-9]
    with pytest.raises(TranscriptError, match=r"^line 4, column \d+ is not JSON"):
        load(b"\n".join(rows))


@pytest.mark.parametrize("data", [b'{"messages": [{"role": "user"', b"[1,\n2,\n", b"hello", b'{"a": 1,}\n{}'])
def test_a_document_that_is_no_json_is_an_error_with_line_and_column(data: bytes) -> None:
    with pytest.raises(TranscriptError, match=r"^line \d+, column \d+ is not JSON"):
        load(data)


@pytest.mark.parametrize("data", [b"", b" \n\n", b"\xef\xbb\xbf"])
def test_an_empty_file_is_an_error_that_says_so(data: bytes) -> None:
    with pytest.raises(TranscriptError, match=f"the file is empty \\({len(data)} bytes\\)"):
        load(data)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_every_encoding_that_json_may_come_in_is_read(encoding: str) -> None:
    chat = [{"role": "user", "content": "grüß \u2028 dich 🙂"}]
    assert load(json.dumps(chat, ensure_ascii=False).encode(encoding))[0].messages == chat


def test_line_separators_inside_a_text_do_not_break_a_line() -> None:
    row = json.dumps({"role": "user", "content": "a\u2028b\u2029c\x85d"}, ensure_ascii=False)
    assert load(f"{row}\r\n{row}\r\n".encode())[0].messages == [json.loads(row)] * 2


def test_a_file_that_ends_inside_a_character_keeps_its_whole_lines() -> None:
    data = lines(CHAT) + b'\n{"role": "user", "content": "gr\xc3'
    (found,) = load(data)
    assert found.messages == CHAT
    assert found.notes[0] == "the file ends inside a character; its last 1 bytes are left out"
    assert found.notes[1].startswith("line 3 is cut off")


@pytest.mark.parametrize(
    ("data", "says"),
    [(b'["\xff", 1]', "byte 2 is not UTF-8 text"), (b"PK\x03\x04zip", "archive"), (b"\x1f\x8bgz", "archive")],
)
def test_what_is_no_text_is_an_error_with_the_byte(data: bytes, says: str) -> None:
    with pytest.raises(TranscriptError, match=says):
        load(data)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_json_cannot_say_are_read_as_null_with_a_note(number: str) -> None:
    found = load(b'[{"role": "user", "content": "a", "score": %s}]' % number.encode())
    assert found[0].messages == [{"role": "user", "content": "a", "score": None}]
    assert found[0].notes == (f"the document: {number} is no JSON and was read as null (1 times)",)
    strict(found)


def test_a_number_of_too_many_digits_is_an_error() -> None:
    with pytest.raises(TranscriptError, match="number that cannot be read"):
        load(b"[%s]" % (b"1" * 5_000))


def test_lone_surrogates_become_replacement_characters_with_a_note() -> None:
    found = load(b'[{"role": "user", "content": "a\\ud83d b \\ud83d\\ude42"}]')
    assert found[0].messages == [{"role": "user", "content": "a\ufffd b 🙂"}]
    assert "1 halves of a character" in found[0].notes[0]
    strict(found)


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 100_000,
        b"[" * 100_000 + b"]" * 100_000,
        b'{"messages":' * 100_000 + b"1" + b"}" * 100_000,
        lines(CHAT) + b"\n" + b"[" * 100_000 + b"]" * 100_000 + b"\n{}",
    ],
)
def test_absurd_nesting_is_an_error_not_a_crash(data: bytes) -> None:
    with pytest.raises(TranscriptError, match="nested too deeply"):
        load(data)


@pytest.mark.parametrize(
    "data", [b"5", b'"text"', b"null", b"{}", b'{"a": 1}', b"[[1]]", b'[{"role": "user", "content": "a"}, 5]']
)
def test_json_without_messages_is_an_error_that_says_what_to_give(data: bytes) -> None:
    with pytest.raises(TranscriptError, match=r"give an object with messages|no one dialect"):
        load(data)


def test_messages_of_two_dialects_are_an_error_that_names_the_places() -> None:
    mixed = [*CHAT, {"role": "user", "parts": [{"text": "hi"}]}]
    with pytest.raises(TranscriptError, match=r"of no one dialect; nearest is \w+, which cannot be message 2$"):
        load(json.dumps(mixed).encode())


def test_a_log_that_holds_no_message_is_an_error() -> None:
    with pytest.raises(TranscriptError, match="Codex rollout holds no messages"):
        load(lines(ROLLOUT[:2]))


def test_rings_of_parents_end_and_lose_nothing() -> None:
    rows = [row | {"parentUuid": "u6"} if row.get("uuid") == "u0" else row for row in PARALLEL]
    assert len(load(lines(rows))[0].messages) == 4


def test_a_log_wrapped_in_one_array_reads_like_its_lines() -> None:
    wrapped, plain = load(json.dumps(PARALLEL).encode())[0], load(lines(PARALLEL))[0]
    assert (wrapped.messages, wrapped.usage) == (plain.messages, plain.usage)


def attempt(data: bytes) -> None:
    try:
        strict(load(data, "x"))
    except TranscriptError:
        return


@given(st.binary(max_size=200))
def test_random_bytes_raise_nothing_but_transcript_errors(data: bytes) -> None:
    attempt(data)


@given(st.integers(0, len(SAMPLES) - 1), st.integers(0, 10_000), st.binary(max_size=3))
def test_a_log_cut_or_spoiled_anywhere_raises_nothing_but_transcript_errors(which: int, at: int, put: bytes) -> None:
    sample = SAMPLES[which]
    data = encoded(sample)
    place = at % len(data)
    attempt(data[:place])
    attempt(data[:place] + put + data[place + len(put) :])


ODD: tuple[object, ...] = (
    None,
    True,
    0,
    -1,
    1.5,
    10**400,
    "",
    "x",
    [],
    [None],
    [[]],
    {},
    {"type": "text"},
    "\x00",
    ["a"],
    1e300,
)


def spoiled(value: object) -> Iterator[object]:
    """Copies of `value` with one value, at any depth, left out or replaced by one of any other type."""
    yield from ODD
    if isinstance(value, dict):
        for key, item in value.items():
            rest = {name: kept for name, kept in value.items() if name != key}
            yield rest
            yield from ({**rest, key: odd} for odd in spoiled(item))
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield value[:place] + value[place + 1 :]
            yield from ([*value[:place], odd, *value[place + 1 :]] for odd in spoiled(item))


def encoded(sample: object) -> bytes:
    return lines(sample) if isinstance(sample, list) else json.dumps(sample).encode()


@pytest.mark.parametrize("which", range(len(SAMPLES)))
def test_one_field_of_any_type_anywhere_raises_nothing_but_transcript_errors(which: int) -> None:
    for sample in spoiled(SAMPLES[which]):
        attempt(encoded(sample))


def spoil(value: object, choose: Callable[[int], int], odds: int) -> object:
    """A copy of `value` in which some values, at any depth, are replaced by others of any type."""
    if choose(odds) == 0:
        return ODD[choose(len(ODD))]
    if isinstance(value, dict):
        return {key: spoil(item, choose, odds) for key, item in value.items() if choose(odds * 2)}
    return [spoil(item, choose, odds) for item in value] if isinstance(value, list) else value


@given(st.integers(0, len(SAMPLES) - 1), st.randoms(use_true_random=False), st.integers(4, 60))
def test_many_fields_of_any_type_raise_nothing_but_transcript_errors(
    which: int, chance: random.Random, odds: int
) -> None:
    attempt(encoded(spoil(SAMPLES[which], chance.randrange, odds)))
