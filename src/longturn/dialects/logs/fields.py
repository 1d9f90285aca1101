"""Reading fields of parsed JSON whose types nobody promised: each function gives its type, or an empty value."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from longturn.core.meter import Usage

# Later than any second that a log can hold, earlier than any millisecond: the year 5138 and March 1973.
MILLISECONDS_FROM = 1e11


def obj(value: object) -> dict[str, object]:
    """`value` if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def array(value: object) -> list[object]:
    """`value` if it is an array, else an empty one."""
    return value if isinstance(value, list) else []


def objects(value: object) -> list[dict[str, object]]:
    """The objects in `value`, if it is an array."""
    return [item for item in array(value) if isinstance(item, dict)]


def text(value: object) -> str:
    """`value` if it is text, else an empty one."""
    return value if isinstance(value, str) else ""


def count(value: object) -> int:
    """`value` if it is a whole number above 0, else 0."""
    return value if type(value) is int and value > 0 else 0


def seconds(value: object) -> float | None:
    """A time stamp (ISO 8601, unix seconds or milliseconds) as unix seconds; one without a zone is taken as UTC."""
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number / 1000 if number > MILLISECONDS_FROM else number


def first_text(*values: object) -> str:
    """The first of `values` that is text and not empty."""
    return next((value for value in values if isinstance(value, str) and value), "")


def tally(labels: Mapping[str, int]) -> str:
    """Counted labels in words: `3 progress, 1 summary`."""
    return ", ".join(f"{number} {label}" for label, number in sorted(labels.items()))


def some(places: Iterable[str], shown: int = 5) -> str:
    """The first few places in words: `line 3, line 9 and 4 more`."""
    listed = list(places)
    rest = len(listed) - shown
    return ", ".join(listed[:shown]) + (f" and {rest} more" if rest > 0 else "")


def anthropic_usage(value: object) -> Usage | None:
    """Usage as Anthropic reports it: `input_tokens` is only what was neither read from nor written to the cache."""
    raw = obj(value)
    cached, written = count(raw.get("cache_read_input_tokens")), count(raw.get("cache_creation_input_tokens"))
    return _known(
        Usage(count(raw.get("input_tokens")) + cached + written, count(raw.get("output_tokens")), cached, written)
    )


def openai_usage(value: object) -> Usage | None:
    """Usage in the words of OpenAI, litellm, Codex and LangChain: the input includes what was cached."""
    raw = obj(value)
    inputs = _nested(raw, "prompt_tokens_details", "input_tokens_details", "input_token_details")
    outputs = _nested(raw, "completion_tokens_details", "output_tokens_details", "output_token_details")
    return _known(
        Usage(
            input_tokens=_first(raw, "prompt_tokens", "input_tokens"),
            output_tokens=_first(raw, "completion_tokens", "output_tokens"),
            cached_tokens=_first(raw, "cached_input_tokens", "cache_read_input_tokens")
            or _first(inputs, "cached_tokens", "cache_read"),
            written_tokens=_first(raw, "cache_write_input_tokens", "cache_creation_input_tokens")
            or _first(inputs, "cache_creation"),
            reasoning_tokens=_first(raw, "reasoning_output_tokens") or _first(outputs, "reasoning_tokens", "reasoning"),
        )
    )


def gemini_usage(value: object) -> Usage | None:
    """Usage as Gemini reports it (either spelling): thoughts and tool prompts are counted beside output and input."""
    raw = obj(value)
    thoughts = _first(raw, "thoughtsTokenCount", "thoughts_token_count")
    return _known(
        Usage(
            input_tokens=_first(raw, "promptTokenCount", "prompt_token_count")
            + _first(raw, "toolUsePromptTokenCount", "tool_use_prompt_token_count"),
            output_tokens=_first(raw, "candidatesTokenCount", "candidates_token_count") + thoughts,
            cached_tokens=_first(raw, "cachedContentTokenCount", "cached_content_token_count"),
            reasoning_tokens=thoughts,
        )
    )


def _known(usage: Usage) -> Usage | None:
    return usage if usage.input_tokens else None


def _first(raw: Mapping[str, object], *keys: str) -> int:
    return next((number for number in (count(raw.get(key)) for key in keys) if number), 0)


def _nested(raw: Mapping[str, object], *keys: str) -> dict[str, object]:
    return next((inner for inner in (obj(raw.get(key)) for key in keys) if inner), {})
