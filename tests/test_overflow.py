"""H25: a refusal for length is told apart from every other error, through bodies, responses and the real SDKs."""

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import anthropic
import httpx2
import openai
import pytest
from google import genai
from hypothesis import given
from hypothesis import strategies as st

from longturn.errors import ContextWindowExceeded
from longturn.overflow import Overflow, overflow


@dataclass(frozen=True)
class Refusal:
    """What a provider answers, and what is to be read from it."""

    name: str
    body: object
    tokens: int | None = None
    limit: int | None = None
    about_output: bool = False
    status: int = 400
    sdk: str = "openai"


def said(message: str, **more: object) -> dict[str, object]:
    return {"error": {"message": message, "type": "invalid_request_error", **more}}


def claude(message: str, kind: str = "invalid_request_error") -> dict[str, object]:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


def gemini(message: str, code: int = 400, status: str = "INVALID_ARGUMENT") -> dict[str, object]:
    return {"error": {"code": code, "message": message, "status": status}}


CODE = {"code": "context_length_exceeded", "param": "messages"}
RAW = json.dumps(said("This model's maximum context length is 65536 tokens. Your request has 70001 input tokens."))

REFUSALS = (
    Refusal(
        "OpenAI",
        said(
            "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.",
            **CODE,
        ),
        9001,
        8192,
    ),
    Refusal(
        "OpenAI with tools",
        said(
            "This model's maximum context length is 8192 tokens. However, you requested 8600 tokens"
            " (7000 in the messages, 100 in the functions, and 1500 in the completion).",
            **CODE,
        ),
        8600,
        8192,
        about_output=True,
    ),
    Refusal("OpenAI Responses", said("Your input exceeds the context window of this model.", **CODE)),
    Refusal(
        "OpenAI configured limit",
        said("Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300123 tokens."),
        300123,
        272000,
    ),
    Refusal("only a code", said("Bad request", **CODE)),
    Refusal("Groq", said("Please reduce the length of the messages or completion.", **CODE)),
    Refusal(
        "Groq with numbers",
        said("Please reduce the length of the messages or completion. Current length is 9000 while limit is 8192."),
        9000,
        8192,
    ),
    Refusal("Anthropic", claude("prompt is too long: 208310 tokens > 200000 maximum"), 208310, 200000, sdk="anthropic"),
    Refusal("Anthropic on a cloud", claude("Prompt is too long"), sdk="anthropic"),
    Refusal(
        "Anthropic output",
        claude("input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, decrease input length"),
        178959,
        200000,
        about_output=True,
        sdk="anthropic",
    ),
    Refusal("Anthropic 32 MB", claude("Request too large", "request_too_large"), status=413, sdk="anthropic"),
    Refusal(
        "OpenRouter raw",
        {"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": RAW}}},
        70001,
        65536,
    ),
    Refusal(
        "OpenRouter",
        said(
            "This endpoint's maximum context length is 131072 tokens. However, you requested about 141607 tokens"
            " (140000 of text input, 107 of tool input, 1500 in the output)."
        ),
        141607,
        131072,
    ),
    Refusal(
        "OpenRouter output",
        said(
            "This endpoint's maximum context length is 131072 tokens. However, you requested about 138956 tokens"
            " (7884 of text input, 131072 in the output)."
        ),
        138956,
        131072,
        about_output=True,
    ),
    Refusal(
        "Mistral",
        {
            "object": "error",
            "message": "Prompt contains 40001 tokens and 0 draft tokens, too large for model with 32768 maximum"
            " context length",
            "type": "invalid_request_prompt",
            "code": "3051",
        },
        40001,
        32768,
    ),
    Refusal(
        "vLLM",
        {
            "object": "error",
            "message": "This model's maximum context length is 4096 tokens."
            " However, your request has 5000 input tokens.",
            "code": 400,
        },
        5000,
        4096,
    ),
    Refusal(
        "vLLM detail", {"detail": "Input prompt (35247 tokens) is too long and exceeds limit of 1000"}, 35247, 1000
    ),
    Refusal(
        "a list of details",
        {"detail": [{"loc": ["body"], "msg": "Input prompt (5001 tokens) is too long and exceeds the limit of 4096"}]},
        5001,
        4096,
        status=422,
    ),
    Refusal(
        "vLLM decoder",
        said("The decoder prompt (length 5000) is longer than the maximum model length of 4096."),
        5000,
        4096,
    ),
    Refusal(
        "vLLM output",
        said(
            "'max_tokens' or 'max_completion_tokens' is too large: 2000. This model's maximum context length is 4096"
            " tokens and your request has 2104 input tokens (2000 > 4096 - 2104)."
        ),
        2104,
        4096,
        about_output=True,
    ),
    Refusal(
        "vLLM new",
        said(
            "This model's maximum context length is 128000 tokens. However, you requested 65535 output tokens and your"
            " prompt contains at least 62466 input tokens, for a total of at least 128001 tokens."
        ),
        62466,
        128000,
        about_output=True,
    ),
    Refusal(
        "SGLang",
        {
            "object": "error",
            "message": "The input (61709 tokens) is longer than the model's context length (40960 tokens).",
        },
        61709,
        40960,
    ),
    Refusal(
        "SGLang output",
        said(
            "Requested token count exceeds the model's maximum context length of 202752 tokens. You requested a total"
            " of 202941 tokens: 170941 tokens from the input messages and 32000 tokens for the completion."
        ),
        202941,
        202752,
        about_output=True,
    ),
    Refusal(
        "TGI",
        {
            "error": "Input validation error: `inputs` must have less than 4095 tokens. Given: 5000",
            "error_type": "validation",
        },
        5000,
        4095,
        status=422,
    ),
    Refusal(
        "TGI output",
        {
            "error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096."
            " Given: 3000 `inputs` tokens and 2000 `max_new_tokens`"
        },
        3000,
        4096,
        about_output=True,
        status=422,
    ),
    Refusal(
        "llama.cpp",
        {
            "error": {
                "code": 400,
                "message": "request (6031 tokens) exceeds the available context size (4096 tokens), try increasing it",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": 6031,
                "n_ctx": 4096,
            }
        },
        6031,
        4096,
    ),
    Refusal(
        "llama.cpp fields",
        {"error": {"message": "no", "type": "exceed_context_size_error", "n_prompt_tokens": 6031, "n_ctx": 4096}},
        6031,
        4096,
    ),
    Refusal(
        "LM Studio",
        {
            "error": "Trying to keep the first 4900 tokens when context the overflows. However, the model is loaded"
            " with context length of only 4096 tokens, which is not enough."
        },
        4900,
        4096,
    ),
    Refusal(
        "DeepSeek",
        said(
            "This model's maximum context length is 131072 tokens. However, you requested 145134 tokens (136942 in the"
            " messages, 8192 in the completion). Please reduce the length of the messages or completion."
        ),
        145134,
        131072,
    ),
    Refusal(
        "DeepSeek output",
        said(
            "This model's maximum context length is 131072 tokens. However, you requested 131134 tokens (122942 in the"
            " messages, 8192 in the completion). Please reduce the length of the messages or completion."
        ),
        131134,
        131072,
        about_output=True,
    ),
    Refusal(
        "Qwen",
        {"code": "InvalidParameter", "message": "<400> InternalError: Range of input length should be [1, 30720]"},
        None,
        30720,
    ),
    Refusal("GLM", {"error": {"code": "1261", "message": "Prompt exceeds max length"}}),
    Refusal("GLM in Chinese", {"error": {"code": "1261", "message": "Prompt 超长"}}),
    Refusal("GLM in Chinese, other words", {"error": {"code": "1210", "message": "输入长度超过模型最大长度限制"}}),
    Refusal("Moonshot", said("Invalid request: Your request exceeded model token limit: 131,072"), None, 131072),
    Refusal("Moonshot with both", said("Your request exceeded model token limit: 8192 (requested: 9001)"), 9001, 8192),
    Refusal("MiniMax", said("invalid params, context window exceeds limit (2013)")),
    Refusal(
        "Gemini",
        gemini("The input token count (1196265) exceeds the maximum number of tokens allowed (1048576)."),
        1196265,
        1048576,
        sdk="google",
    ),
    Refusal(
        "Gemini on a cloud",
        gemini(
            "Unable to submit request because the input token count is 1,200,000 but model only supports up to"
            " 1,048,576."
        ),
        1200000,
        1048576,
        sdk="google",
    ),
    Refusal(
        "xAI",
        {"error": "This model's maximum prompt length is 131072 but the request contains 537812 tokens."},
        537812,
        131072,
    ),
    Refusal("Bedrock", {"__type": "ValidationException", "message": "Input is too long for requested model."}),
    Refusal("Bedrock overflow", {"__type": "ContextWindowOverflow", "message": "No."}),
    Refusal("Cohere", {"message": "too many tokens: total tokens 5000 cannot exceed 4081"}, 5000, 4081),
    Refusal(
        "Cohere received",
        {"message": "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 6000."},
        6000,
        4081,
    ),
    Refusal("Copilot", said("prompt token count of 130000 exceeds the limit of 128000"), 130000, 128000),
    Refusal(
        "a rate below this one request",
        said(
            "Request too large for m on tokens per min (TPM): Limit 30000, Requested 61337.", code="rate_limit_exceeded"
        ),
        61337,
        30000,
        status=429,
    ),
    Refusal("a front that says no more than 413", {"message": "Request Entity Too Large"}, status=413),
)

# Wrong in other ways: cutting the history would not help, or is not what was asked for.
OTHERS = (
    Refusal(
        "a rate with room for this request",
        said(
            "Rate limit reached for m on tokens per min (TPM): Limit 30000, Used 29000, Requested 8000.", type="tokens"
        ),
        status=429,
    ),
    Refusal("Anthropic's rate", claude("rate limit of 30,000 input tokens per minute", "rate_limit_error"), status=429),
    Refusal(
        "Bedrock's rate", {"__type": "ThrottlingException", "message": "Too many tokens, please wait."}, status=429
    ),
    Refusal(
        "MiniMax's rate", {"base_resp": {"status_code": 1039, "status_msg": "TPM rate limit, token limit exceeded"}}
    ),
    Refusal("GLM's rate", {"error": {"code": "1302", "message": "请求频率超过最大限制"}}),
    Refusal(
        "a quota", said("You exceeded your current quota: token limit exceeded", code="insufficient_quota"), status=429
    ),
    Refusal("Gemini's quota", gemini("Quota exceeded for input_token_count, limit: 250000", 429, "RESOURCE_EXHAUSTED")),
    Refusal("no key", said("Incorrect API key; the prompt is too long"), status=401),
    Refusal("not allowed", said("not allowed above the maximum context length is 8 tokens"), status=403),
    Refusal("unknown model", said("The model `gpt-0` does not exist", code="model_not_found"), status=404),
    Refusal(
        "an output limit above the model's",
        said("max_tokens is too large: 5500. This model supports at most 4096 completion tokens"),
    ),
    Refusal(
        "Anthropic's output limit",
        claude("max_tokens: 65000 > 64000, which is the maximum allowed number of output tokens for claude-x"),
    ),
    Refusal("Qwen's output limit", said("Range of max_tokens should be [1, 8192]")),
    Refusal("bad JSON", said("We could not parse the JSON body of your request.")),
    Refusal("a bad tool schema", said("Invalid schema for function 'f': [] is not of type 'object'", param="tools[0]")),
    Refusal(
        "a large image", claude("messages.0.content.1.image: image exceeds 5 MB maximum: 7340032 bytes > 5242880 bytes")
    ),
    Refusal("an image body", {"message": "image too large"}, status=413),
    Refusal(
        "a thinking signature",
        claude(
            "messages.5.content.0: Invalid `signature` in `thinking` block: it is bound to a different conversation;"
            " the system prompt is not what it was"
        ),
    ),
    Refusal("overloaded", claude("Overloaded", "overloaded_error"), status=529),
    Refusal(
        "a string above a length",
        said("Invalid 'messages[0].content': string too long", code="string_above_max_length"),
    ),
)


def facts(found: Overflow | None) -> tuple[int | None, int | None, bool] | None:
    return None if found is None else (found.tokens, found.limit, found.about_output)


def expected(refusal: Refusal) -> tuple[int | None, int | None, bool]:
    return (refusal.tokens, refusal.limit, refusal.about_output)


def named(refusal: Refusal) -> str:
    return refusal.name


# The real SDKs against a real server


class Answering(ThreadingHTTPServer):
    status, kind, body = 200, "application/json", b""


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Answering)
        self.rfile.read(int(self.headers.get("content-length") or 0))
        self.send_response(self.server.status)
        self.send_header("content-type", self.server.kind)
        self.send_header("content-length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def server() -> Iterator[Answering]:
    with Answering(("127.0.0.1", 0), Handler) as serving:
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        yield serving
        serving.shutdown()
        thread.join()


Ask = Callable[[bool], object]


@pytest.fixture(scope="module")
def sdks(server: Answering) -> Iterator[dict[str, Ask]]:
    """Ask each SDK, streaming or not; what comes back whole is returned, streams as lists of events."""
    url = f"http://127.0.0.1:{server.server_port}"
    with (
        openai.OpenAI(base_url=f"{url}/v1", api_key="key", max_retries=0) as chat,
        anthropic.Anthropic(base_url=url, api_key="key", max_retries=0) as messages,
        genai.Client(api_key="key", http_options={"base_url": url}) as google,
    ):

        def ask_openai(stream: bool) -> object:
            answer = chat.chat.completions.create(model="m", messages=[], stream=stream)
            return list(answer) if stream else answer

        def ask_responses(stream: bool) -> object:
            answer = chat.responses.create(model="m", input="x", stream=stream)
            return list(answer) if stream else answer

        def ask_anthropic(stream: bool) -> object:
            answer = messages.messages.create(model="m", max_tokens=5, messages=[], stream=stream)
            return list(answer) if stream else answer

        def ask_google(stream: bool) -> object:
            if stream:
                return list(google.models.generate_content_stream(model="m", contents="x"))
            return google.models.generate_content(model="m", contents="x")

        yield {"openai": ask_openai, "responses": ask_responses, "anthropic": ask_anthropic, "google": ask_google}


def answer_with(server: Answering, status: int, body: object, kind: str = "application/json") -> None:
    server.status, server.kind = status, kind
    server.body = body if isinstance(body, bytes) else json.dumps(body).encode()


ERRORS = (openai.APIError, anthropic.APIError, genai.errors.APIError)


@pytest.mark.parametrize("refusal", REFUSALS, ids=named)
def test_h25_a_refusal_is_read_from_its_body_in_any_form(refusal: Refusal) -> None:
    text = json.dumps(refusal.body)
    for body in (refusal.body, text, text.encode(), json.dumps(refusal.body, ensure_ascii=False), [refusal.body]):
        assert facts(overflow(body, status=refusal.status)) == expected(refusal)
    assert facts(overflow(httpx2.Response(refusal.status, json=refusal.body))) == expected(refusal)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("refusal", REFUSALS, ids=named)
def test_h25_a_refusal_is_read_from_the_error_of_the_real_sdk(
    refusal: Refusal, stream: bool, server: Answering, sdks: dict[str, Ask]
) -> None:
    answer_with(server, refusal.status, refusal.body)
    with pytest.raises(ERRORS) as caught:
        sdks[refusal.sdk](stream)
    assert facts(overflow(caught.value)) == expected(refusal)


@pytest.mark.parametrize("refusal", REFUSALS, ids=named)
def test_h25_a_refusal_is_read_from_the_text_that_a_gateway_made_of_it(refusal: Refusal) -> None:
    if refusal.status != 400 or refusal.name == "llama.cpp fields":
        pytest.skip("says it by its status or by fields, which no text carries on")
    sentence = f"litellm.BadRequestError: SomeException - {json.dumps(refusal.body)} Received Model Group=m"
    assert facts(overflow(RuntimeError(sentence))) == expected(refusal)
    assert facts(overflow({"error": {"message": sentence, "code": 500}}, status=500)) == expected(refusal)


@pytest.mark.parametrize("refusal", OTHERS, ids=named)
def test_h25_h26_another_error_is_no_overflow(refusal: Refusal, server: Answering, sdks: dict[str, Ask]) -> None:
    text = json.dumps(refusal.body)
    for body in (refusal.body, text, text.encode(), [refusal.body]):
        assert overflow(body, status=refusal.status) is None
    assert overflow(httpx2.Response(refusal.status, json=refusal.body)) is None
    answer_with(server, refusal.status, refusal.body)
    for stream in (False, True):
        for name in ("openai", "responses", "anthropic", "google"):
            with pytest.raises(ERRORS) as caught:
                sdks[name](stream)
            assert overflow(caught.value) is None, name


def test_h25_a_refusal_in_the_middle_of_a_stream_is_read(server: Answering, sdks: dict[str, Ask]) -> None:
    for name, refusal in (("openai", REFUSALS[0]), ("anthropic", REFUSALS[7])):
        answer_with(server, 200, f"event: error\ndata: {json.dumps(refusal.body)}\n\n".encode(), "text/event-stream")
        with pytest.raises(ERRORS) as caught:
            sdks[name](True)
        assert facts(overflow(caught.value)) == expected(refusal)
        assert facts(overflow(server.body)) == expected(refusal)


FAILED = {
    "type": "response.failed",
    "sequence_number": 3,
    "response": {
        "id": "resp_1",
        "object": "response",
        "status": "failed",
        "error": {"code": "context_length_exceeded", "message": "Your input exceeds the context window of this model."},
        "output": [],
    },
}
ERROR_EVENT = {"type": "error", "code": "context_length_exceeded", "message": "Too long.", "sequence_number": 1}


@pytest.mark.parametrize("event", [FAILED, ERROR_EVENT], ids=["response.failed", "error"])
def test_h25_a_failed_event_of_the_responses_api_is_read(
    event: dict[str, object], server: Answering, sdks: dict[str, Ask]
) -> None:
    answer_with(server, 200, f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode(), "text/event-stream")
    events = sdks["responses"](True)
    assert isinstance(events, list)
    for thing in (event, events[0], events, server.body):
        assert facts(overflow(thing)) == (None, None, False)


def test_h25_an_error_in_an_answer_with_status_200_is_read(server: Answering, sdks: dict[str, Ask]) -> None:
    for code in (2013, 1039):
        body = {"base_resp": {"status_code": code, "status_msg": "context window exceeds limit"}, "choices": None}
        answer_with(server, 200, body)
        for thing in (body, json.dumps(body), sdks["openai"](False)):
            assert facts(overflow(thing)) == (None, None, False)
    answer_with(server, 200, REFUSALS[0].body)
    assert facts(overflow(sdks["openai"](False))) == (9001, 8192, False)


CLAUDE_ANSWER = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [{"type": "text", "text": "so far"}],
    "stop_reason": "model_context_window_exceeded",
    "usage": {"input_tokens": 90_000, "cache_read_input_tokens": 100_000, "output_tokens": 9_000},
}


def test_h25_a_stop_reason_that_names_the_window_is_read(server: Answering, sdks: dict[str, Ask]) -> None:
    answer_with(server, 200, CLAUDE_ANSWER)
    for thing in (CLAUDE_ANSWER, json.dumps(CLAUDE_ANSWER), sdks["anthropic"](False)):
        assert facts(overflow(thing, capacity=200_000)) == (190_000, 200_000, False)
    delta = {"type": "message_delta", "delta": {"stop_reason": "model_context_window_exceeded"}, "usage": {}}
    assert overflow(delta) is not None
    assert overflow({"choices": [{"finish_reason": "model_length", "message": {"content": ""}}]}) is not None


def chat_answer(prompt: int, output: int, reason: str = "length", content: str = "") -> dict[str, object]:
    message = {"role": "assistant", "content": content}
    usage = {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output}
    return {"object": "chat.completion", "choices": [{"message": message, "finish_reason": reason}], "usage": usage}


def test_h25_an_answer_without_room_is_an_overflow_when_the_window_is_known(
    server: Answering, sdks: dict[str, Ask]
) -> None:
    body = chat_answer(8_100, 12)
    answer_with(server, 200, body)
    for thing in (body, sdks["openai"](False)):
        assert facts(overflow(thing, capacity=8_192, max_output=4_000)) == (8_100, 8_192, False)
        assert overflow(thing) is None
    short = {"candidates": [{"finishReason": "MAX_TOKENS"}], "usageMetadata": {"promptTokenCount": 8_180}}
    answer_with(server, 200, short)
    for thing in (short, sdks["google"](False)):
        assert overflow(thing, capacity=8_192) is not None
    whole = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}, "output": []}
    assert overflow({**whole, "usage": {"input_tokens": 8_180, "output_tokens": 2}}, capacity=8_192) is not None


def test_h25_an_ordinary_end_by_length_is_no_overflow() -> None:
    assert overflow(chat_answer(8_000, 2_000), capacity=10_000) is None
    assert overflow(chat_answer(100, 12), capacity=8_192, max_output=4_000) is None
    assert overflow(chat_answer(8_100, 12), capacity=8_192, max_output=12) is None
    assert overflow(chat_answer(8_100, 12, "stop"), capacity=8_192) is None


def test_h25_a_prompt_cut_to_the_configured_window_is_an_overflow() -> None:
    assert facts(overflow(chat_answer(4_096, 200, "stop"), capacity=4_096)) == (4_096, 4_096, False)
    native = {"message": {"role": "assistant", "content": "hm"}, "done_reason": "stop", "prompt_eval_count": 4_096}
    assert overflow(native, capacity=4_096) is not None
    assert overflow(native) is None


def test_h25_what_an_answer_says_is_never_searched(server: Answering, sdks: dict[str, Ask]) -> None:
    words = "The log says: prompt is too long: 208310 tokens > 200000 maximum (context_length_exceeded)."
    body = chat_answer(100, 30, "stop", words)
    claude_body = {**CLAUDE_ANSWER, "stop_reason": "end_turn", "content": [{"type": "text", "text": words}]}
    gemini_body = {"candidates": [{"content": {"role": "model", "parts": [{"text": words}]}, "finishReason": "STOP"}]}
    output = [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": words}]}]
    responses_body = {"object": "response", "status": "completed", "error": None, "output": output}
    answers = (("openai", body), ("anthropic", claude_body), ("google", gemini_body), ("responses", responses_body))
    for name, answer in answers:
        answer_with(server, 200, answer)
        text = json.dumps(answer)
        for thing in (answer, text, text[:-2], f"data: {text}\n\n", sdks[name](False)):
            assert overflow(thing, capacity=200_000) is None
    assert overflow({"role": "user", "content": words}) is None


def test_h25_causes_contexts_and_groups_are_followed() -> None:
    refused = RuntimeError("prompt is too long: 9 tokens > 8 maximum")
    caused = ValueError("the model call failed")
    caused.__cause__ = refused
    around = KeyError("x")
    around.__context__ = caused
    grouped = ExceptionGroup("two tasks failed", [TypeError("no"), ExceptionGroup("inner", [around])])
    for error in (refused, caused, around, grouped):
        assert facts(overflow(error)) == (9, 8, False)
    refused.__context__ = refused.__cause__ = grouped
    assert overflow(grouped) is not None
    hidden = ValueError("another thing")
    hidden.__context__, hidden.__suppress_context__ = refused, True
    assert overflow(hidden) is None


def test_h25_a_later_error_with_its_own_answer_speaks_for_itself(server: Answering, sdks: dict[str, Ask]) -> None:
    answer_with(server, 401, said("Incorrect API key"))
    try:
        raise RuntimeError("prompt is too long")
    except RuntimeError:
        with pytest.raises(openai.AuthenticationError) as caught:
            sdks["openai"](False)
    assert caught.value.__context__ is not None
    assert overflow(caught.value) is None


class ClientError(Exception):
    """The shape of the error that the AWS SDK raises."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"An error occurred ({code}) when calling the Converse operation: {message}")
        self.response = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": 400}}


class ContextWindowOverflowException(Exception):
    """The name that agents built on Bedrock give it."""


def test_h25_the_errors_of_bedrock_are_read() -> None:
    assert overflow(ClientError("ValidationException", "Input is too long for requested model.")) is not None
    assert overflow(ClientError("ThrottlingException", "Too many tokens, please wait before trying again.")) is None
    assert overflow(ContextWindowOverflowException("no more room")) is not None


def test_h25_our_own_refusal_is_an_overflow_with_its_numbers() -> None:
    error = ContextWindowExceeded("too large", estimated_tokens=9, capacity=8, breakdown={})
    assert facts(overflow(error)) == (9, 8, False)


def test_h25_a_page_of_html_is_read() -> None:
    page = "<html><body><h1>Bad Request</h1><p>prompt is too&nbsp;long:\n <b>9,001</b> tokens &gt; 8,192</p></body>"
    assert facts(overflow(page)) == (9001, 8192, False)
    assert overflow("<html><head><title>413 Request Entity Too Large</title></head></html>", status=413) is not None
    assert overflow("<html><head><title>502 Bad Gateway</title></head></html>", status=502) is None


def test_h25_a_response_whose_stream_was_not_read_is_judged_by_its_status() -> None:
    def chunks() -> Iterator[bytes]:
        yield b"{}"

    assert overflow(httpx2.Response(413, content=chunks())) is not None
    assert overflow(httpx2.Response(400, content=chunks())) is None


def test_h25_about_output_needs_an_input_that_fits() -> None:
    for fed, about in ((4_000, True), (4_096, False), (5_000, False)):
        text = f"input length and `max_tokens` exceed context limit: {fed} + 2000 > 4096"
        found = overflow(text)
        assert found is not None
        assert (found.about_output, found.input, found.output) == (about, fed, 2000)


@pytest.mark.parametrize(
    "piece",
    ["9,999", "maximum context length is 5 tokens ", "{", '["', "<a", "prompt is too long: 1", "输入超", "max_tokens",
     "\\", "&am", " ", "input (", "too many tokens: total ", "range of input length should be [1,", "data: {\n"],
)  # fmt: skip
def test_h25_ten_megabytes_of_anything_are_judged_by_a_bounded_part(piece: str) -> None:
    text = piece * (10_000_000 // len(piece))
    for thing in (text, text.encode(), {"error": {"message": text}}, RuntimeError(text)):
        found = overflow(thing)
        assert found is None or len(found.message) <= 300


def test_h25_the_words_at_the_end_of_a_long_text_are_found() -> None:
    echo = "x " * 3_000_000
    assert overflow(f"{echo} prompt is too long: 9 tokens > 8 maximum") == overflow(
        {"error": {"message": f"{echo} prompt is too long: 9 tokens > 8 maximum"}}
    )


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
    | st.sampled_from(["prompt is too long", "context_length_exceeded", '{"error": "prompt is too long"}', "429"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
        st.sampled_from(
            ["error", "message", "code", "type", "detail", "choices", "usage", "prompt_tokens", "response", "status",
             "finish_reason", "metadata", "raw", "base_resp", "n_ctx", "delta", "content", "x"]
        )
        | st.integers(),
        inner,
        max_size=5,
    ),
    max_leaves=30,
)  # fmt: skip


@given(json_like, st.none() | st.integers(0, 600), st.none() | st.integers(0, 10_000))
def test_h25_nothing_that_looks_like_json_makes_it_raise(
    thing: object, status: int | None, capacity: int | None
) -> None:
    for form in (thing, [thing], repr(thing), Exception(thing), ExceptionGroup("g", [ValueError(str(thing))])):
        found = overflow(form, status=status, capacity=capacity)
        assert found is None or isinstance(found, Overflow)


@given(st.text(max_size=200))
def test_h25_an_answer_is_no_overflow_whatever_it_says(content: str) -> None:
    assert overflow(chat_answer(10, 5, "stop", content), capacity=1_000) is None
    assert overflow(json.dumps(chat_answer(10, 5, "stop", content)), capacity=1_000) is None
