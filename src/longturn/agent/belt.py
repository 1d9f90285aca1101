"""Asks Claude models with preserved thinking to drop a thought that no longer fits, instead of refusing (B23)."""

from collections.abc import Mapping
from typing import cast

from pydantic_ai.models import Model
from pydantic_ai.settings import ModelSettings

_BINDING = {"prefix_mismatch_behavior": "drop_block"}


def with_belt(model: Model, settings: ModelSettings | None) -> ModelSettings | None:
    """The settings, with the thinking binding where the model has one and the caller said nothing of it.

    Windows keep to the rule by themselves; this is for what an agent changes on its own, such as instructions with a
    date. Pydantic AI sends the beta header along. The API takes the binding beside adaptive thinking only (2026-11).
    """
    if not model.profile.get("anthropic_binds_thinking_blocks", False):
        return settings
    given: Mapping[str, object] = cast(Mapping[str, object], settings or {})
    body, thinking = given.get("extra_body"), given.get("anthropic_thinking")
    is_spoken_for = given.get("thinking") is not None or (isinstance(body, Mapping) and "thinking" in body)
    asked = thinking if isinstance(thinking, Mapping) else {"type": "adaptive"}
    if is_spoken_for or "block_binding" in asked or asked.get("type") != "adaptive":
        return settings
    return cast(ModelSettings, {**given, "anthropic_thinking": {**asked, "block_binding": _BINDING}})
