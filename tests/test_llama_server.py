"""H25: the refusals of a real server, in three formats, are recognised with the numbers that the server meant."""

import anthropic
import openai
import pytest

from longturn.overflow import Overflow, overflow
from tests.llama import Llama, llama, serving

__all__ = ["llama"]

WORDS = "word " * 3_000
LONG = [{"role": "user", "content": WORDS}]
BODIES: dict[str, dict[str, object]] = {
    "/v1/chat/completions": {"model": "any", "messages": LONG},
    "/v1/messages": {"model": "any", "messages": LONG, "max_tokens": 16},
    "/v1/responses": {"model": "any", "input": LONG},
}


def expect(found: Overflow | None, llama: Llama) -> None:
    assert found is not None
    assert (found.tokens, found.limit, found.about_output) == (llama.count(LONG), llama.n_ctx, False)
    assert found.phrasing == "llama.cpp"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("path", BODIES)
def test_h25_the_refusal_of_a_real_server_is_recognised_with_its_numbers(path: str, stream: bool, llama: Llama) -> None:
    reply = llama.post(path, {**BODIES[path], "stream": stream})
    assert reply.status == 400
    expect(overflow(reply.body, status=reply.status), llama)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_h25_the_real_sdks_raise_what_is_recognised(stream: bool, llama: Llama) -> None:
    with (
        openai.OpenAI(base_url=f"{llama.url}/v1", api_key="none", max_retries=0) as chat,
        anthropic.Anthropic(base_url=llama.url, api_key="none", max_retries=0) as messages,
    ):
        with pytest.raises(openai.BadRequestError) as refused:
            chat.chat.completions.create(model="any", messages=LONG, stream=stream)
        expect(overflow(refused.value), llama)
        with pytest.raises(openai.BadRequestError) as refused:
            chat.responses.create(model="any", input=LONG, stream=stream)
        expect(overflow(refused.value), llama)
        with pytest.raises(anthropic.BadRequestError) as told:
            messages.messages.create(model="any", max_tokens=16, messages=LONG, stream=stream)
        expect(overflow(told.value), llama)


def test_h25_an_answer_of_a_real_server_is_no_overflow(llama: Llama) -> None:
    asked = {"model": "any", "messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 4}
    reply = llama.post("/v1/chat/completions", asked)
    assert reply.status == 200
    assert overflow(reply.body, status=200, capacity=llama.n_ctx, max_output=4) is None


def test_h25_an_answer_that_the_window_cut_short_is_an_overflow(llama: Llama) -> None:
    with serving(n_ctx=256) as small:
        filled = "word " * (small.n_ctx - small.count([{"role": "user", "content": ""}]) - 8)
        messages = [{"role": "user", "content": filled}]
        assert small.n_ctx - 12 < small.count(messages) < small.n_ctx
        reply = small.post(
            "/v1/chat/completions", {"model": "any", "messages": messages, "max_tokens": 500, "ignore_eos": True}
        )
        assert reply.status == 200
        found = overflow(reply.body, status=200, capacity=small.n_ctx, max_output=500)
        assert found is not None
        assert (found.tokens, found.limit) == (small.count(messages), small.n_ctx)


def test_h25_another_error_of_a_real_server_is_no_overflow(llama: Llama) -> None:
    wrong = llama.post("/v1/chat/completions", {"model": "any", "messages": "prompt is too long"})
    assert wrong.status >= 400
    assert overflow(wrong.body, status=wrong.status) is None


def test_h21_the_server_counts_what_its_template_adds(llama: Llama) -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "one two three"}]
    prompt = llama.post("/apply-template", {"messages": messages}).body["prompt"]
    assert isinstance(prompt, str)
    assert llama.count(messages) == llama.tokenize(prompt) > llama.tokenize("Be brief.one two three")
