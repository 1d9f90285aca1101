"""B23, B24: what a model asks of the thinking sent back to it, told from its name in any spelling."""

import pytest

from longturn.core.thinking import preserves_thinking, thinking_rule

PRESERVED = (
    None,
    "claude-fable-5-1",
    "claude-fable-5-2-20261015",
    "anthropic:claude-fable-5.1",
    "claude-mythos-5-1",
    "claude-mythos-6",
    "claude-opus-5-5",
    "CLAUDE-OPUS-5-5",
    "claude-5-5-opus",
    "claude-5.5-sonnet",
    "claude-sonnet-5-5@20260801",
    "claude-haiku-5-5-20260801",
    "us.anthropic.claude-opus-5-5-v1:0",
    "bedrock/global.anthropic.claude-sonnet-5-5-v1:0",
    "openrouter/anthropic/claude-opus-6",
    "claude-opus-10-1",
    "claude-saga-1",
    "claude",
    "claude-latest",
    "my-claude-proxy",
)
TURN = (
    "claude-fable-5",
    "claude-fable-5-20260301",
    "claude-mythos-5-0",
    "claude-opus-5",
    "claude-opus-5-20260301",
    "claude-opus-5-4",
    "claude-5-sonnet",
    "claude-opus-4-6",
    "claude-opus-4-20250514",
    "claude-sonnet-4@20250514",
    "claude-sonnet-4-5@20250929",
    "anthropic/claude-sonnet-4.5",
    "claude-haiku-4-5",
    "claude-4-opus",
    "claude-3-7-sonnet-20250219",
    "claude-3-7-sonnet-latest",
    "claude-3.5-haiku",
    "claude-3-opus-20240229",
    "claude-3-5-sonnet-v2@20241022",
    "anthropic.claude-3-5-sonnet-20241022-v2:0",
    "us.anthropic.claude-sonnet-4-20250514-v1:0",
    "claude-2.1",
    "claude-2",
    "claude-v2",
    "anthropic.claude-v2:1",
    "claude-instant-1.2",
    "anthropic.claude-instant-v1",
)
FREE = ("MiniMax-M2", "kimi-k2", "glm-4.6", "deepseek-chat", "anthropic:my-model", "gpt-5", "")


@pytest.mark.parametrize("model", PRESERVED)
def test_b23_newer_unknown_and_unnamed_models_preserve_thinking(model: str | None) -> None:
    assert thinking_rule(model) == "preserved"
    assert preserves_thinking(model)


@pytest.mark.parametrize("model", TURN)
def test_b24_older_claude_models_bind_thinking_to_the_running_turn(model: str) -> None:
    assert thinking_rule(model) == "turn"
    assert not preserves_thinking(model)


@pytest.mark.parametrize("model", FREE)
def test_b24_models_of_other_makers_leave_thinking_free(model: str) -> None:
    assert thinking_rule(model) == "free"
    assert not preserves_thinking(model)
