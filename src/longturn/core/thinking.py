"""What a model on Anthropic's wire asks of the thinking that is sent back to it, told from its name (B23, B24)."""

import re
from typing import Literal

ThinkingRule = Literal["preserved", "turn", "free"]

# The first version of each family whose thinking is bound to all that came before it (autumn 2026).
_PRESERVED_SINCE = {"fable": (5, 1), "mythos": (5, 1), "opus": (5, 5), "sonnet": (5, 5), "haiku": (5, 5)}
_FAMILIES = "|".join(_PRESERVED_SINCE)
# "opus-4-6", "fable-5.1", "opus-4-20250514", and the older order "3-7-sonnet"; a version has one or two digits, a
# date has eight.
_VERSION = r"v?(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)"
_FAMILY_FIRST = re.compile(rf"claude[-.]({_FAMILIES})[-.]{_VERSION}")
_VERSION_FIRST = re.compile(rf"claude[-.]{_VERSION}[-.]({_FAMILIES})")
_BEFORE_THE_FAMILIES = re.compile(r"claude[-.](?:instant|v?[12](?!\d))")


def thinking_rule(model: str | None) -> ThinkingRule:
    """The rule for thinking blocks that are sent back in Anthropic's format.

    model: a name in any spelling ("claude-fable-5-1", "anthropic:claude-opus-5.5", "us.anthropic.claude-...-v1:0",
        "claude-3-7-sonnet-20250219"), or None when it is not known.

    "preserved": a block is refused when anything before it changed (B23); so every newer, unknown or unnamed model.
    "turn": while a tool turn runs, its first kept round starts with its thinking (B24): older Claude models.
    "free": a model of another maker; thinking may be left out.
    """
    name = "claude" if model is None else model.strip().lower().replace("_", "-")
    if "claude" not in name:
        return "free"
    if _BEFORE_THE_FAMILIES.search(name):
        return "turn"
    if found := _FAMILY_FIRST.search(name):
        family, major, minor = found.groups()
    elif found := _VERSION_FIRST.search(name):
        major, minor, family = found.groups()
    else:
        return "preserved"
    return "preserved" if (int(major), int(minor or 0)) >= _PRESERVED_SINCE[family] else "turn"


def preserves_thinking(model: str | None) -> bool:
    """Whether `model` refuses thinking whose prefix changed (B23)."""
    return thinking_rule(model) == "preserved"
