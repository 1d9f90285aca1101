"""H10, H15: a window is known for the names that the data spells, and never borrowed for any other."""

import subprocess
import sys

import pytest
from genai_prices import data_snapshot
from hypothesis import given
from hypothesis import strategies as st

from longturn.catalog import provider_of, window_of

SPELLINGS = (
    ("gpt-5", 400_000),
    ("GPT-5", 400_000),
    ("gpt-5-2025-08-07", 400_000),
    ("gpt-5-nano-2025-08-07", 400_000),
    ("openai:gpt-4o", 128_000),
    ("openai/gpt-4o", 128_000),
    ("openai-responses:gpt-5", 400_000),
    ("azure:gpt-4o", 128_000),
    ("claude-sonnet-4-5", 200_000),
    ("claude-sonnet-4-5-20250929", 200_000),
    ("claude-sonnet-4-20250514", 200_000),
    ("claude-3-5-sonnet-v2@20241022", 200_000),
    ("anthropic:claude-opus-4-6", 1_000_000),
    ("anthropic/claude-sonnet-4.5", 200_000),
    ("us.anthropic.claude-opus-5-5-v1:0", 1_000_000),
    ("bedrock:us.anthropic.claude-sonnet-4-5-20250929-v1:0", 200_000),
    ("vertex_ai/claude-sonnet-4-5@20250929", 200_000),
    ("openrouter/openai/gpt-4o", 128_000),
    ("gemini-2.5-pro", 1_048_576),
    ("gemini-2.5-pro-preview-05-06", 1_048_576),
    ("models/gemini-3-pro-preview", 1_048_576),
    ("publishers/google/models/gemini-3.1-pro-preview", 1_048_576),
    ("google-gla:gemini-2.5-flash", 1_048_576),
    ("xai/grok-4", 256_000),
    ("MiniMax-M2", 204_800),
)
# Names that begin with, hold or look like a known model's; the data alone would give some of them its window.
STRANGERS = (
    "gpt-5-my-finetune",
    "gpt-5-nano-mine",
    "claude-opus-4-10",
    "claude-opus-4-1-mine",
    "my-claude-opus-5.5",
    "google:my-claude-sonnet-4-5-tuned",
    "deepseek-chat-mine",
    "claude-opus-9",
    "my-llama",
    "llama3:8b",
    "foo/gpt-4o",
    "openai/my-model",
    "ft:gpt-4-0613:acme",
    "1" * 5_000,
    "claude-opus-4-1" + "-2025" * 2_000 + "x",
    *("", " ", ":", "/", "a:", ":a", "openai:", "openai"),
)


@pytest.mark.parametrize(("name", "window"), SPELLINGS)
def test_h10_a_window_is_found_under_the_names_that_people_write(name: str, window: int) -> None:
    assert window_of(name) == window


@pytest.mark.parametrize("name", STRANGERS, ids=lambda name: name[:40])
def test_h15_the_window_of_another_model_is_never_borrowed(name: str) -> None:
    assert window_of(name) is None


def test_h15_a_router_and_a_maker_may_give_one_model_different_windows() -> None:
    routed, made = window_of("openrouter/anthropic/claude-sonnet-4.5"), window_of("anthropic/claude-sonnet-4.5")
    assert None not in (routed, made)
    assert routed != made


def test_h15_every_name_that_the_data_lists_keeps_its_window() -> None:
    snapshot = data_snapshot.get_snapshot()
    lost = [
        f"{provider.id}:{model.id}"
        for provider in snapshot.providers
        for model in provider.models
        for found in [provider.find_model(model.id, all_providers=snapshot.providers)]
        if found is not None and found.context_window is not None
        if window_of(f"{provider.id}:{model.id}") != found.context_window
    ]
    assert lost == []


def test_h10_no_model_has_no_window_and_the_caller_knows_better() -> None:
    assert window_of(None) is None
    assert window_of("my-llama", overrides={"my-llama": 8_192}) == 8_192
    assert window_of("gpt-5", overrides={"gpt-5": 8_192}) == 8_192
    assert window_of("gpt-5", overrides={"gpt-5-mini": 8_192}) == 400_000


@pytest.mark.parametrize(
    ("name", "provider"),
    [
        ("gpt-5", "openai"),
        ("gpt-5-my-finetune", "openai"),
        ("o3", "openai"),
        ("openai:anything", "openai"),
        ("claude-opus-9", "anthropic"),
        ("us.anthropic.claude-opus-5-5-v1:0", "anthropic"),
        ("bedrock/anthropic.claude-opus-4-6-v1", "anthropic"),
        ("vertex_ai/claude-sonnet-4-5@20250929", "anthropic"),
        ("us.amazon.nova-pro-v1:0", "aws"),
        ("gemini-2.5-pro", "google"),
        ("models/gemini-2.5-pro", "google"),
        ("openrouter/anthropic/claude-sonnet-4.5", "openrouter"),
        ("groq:llama-3.3-70b-versatile", "groq"),
        ("my-llama", None),
        ("llama3:8b", None),
        ("", None),
        (None, None),
    ],
)
def test_b29_the_provider_that_a_name_speaks_of_is_told(name: str | None, provider: str | None) -> None:
    assert provider_of(name) == provider


@given(st.text(max_size=40) | st.text(max_size=9).map("models/{}".format) | st.text(max_size=9).map("openai:{}".format))
def test_h10_any_text_at_all_can_be_asked_for(name: str) -> None:
    assert window_of(name) is None or isinstance(window_of(name), int)
    assert provider_of(name) is None or isinstance(provider_of(name), str)


def test_importing_the_catalog_loads_no_data() -> None:
    program = "import sys, longturn.catalog; print(*[name for name in sys.modules if name.startswith('genai_prices')])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
