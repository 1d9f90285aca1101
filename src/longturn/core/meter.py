"""What providers report of a call, in one shape, and what a session has seen of it so far."""

from dataclasses import dataclass, replace

LEAST_FACTOR, MOST_FACTOR, FACTOR_STEPS = 0.5, 5.0, 16
"""A calibration factor is kept within these and rounded to a sixteenth (L15, B5)."""


@dataclass(frozen=True, slots=True)
class Usage:
    """One call's reported tokens.

    input_tokens: everything it read, whether fresh, from its prefix cache or written to it. cached_tokens,
    written_tokens: the parts that were read from and written to it. output_tokens: everything it wrote;
    reasoning_tokens is a part of it.
    """

    input_tokens: int
    output_tokens: int = 0
    cached_tokens: int = 0
    written_tokens: int = 0
    reasoning_tokens: int = 0

    @staticmethod
    def of(reported: object) -> "Usage | None":
        """From a usage object or dict as OpenAI, Anthropic, Gemini and their likes report it; None where it is none.

        Anthropic's `input_tokens` leaves out what was cached; all others' counts include it.
        """
        if isinstance(reported, Usage):
            return reported
        read = _number(reported, "input_tokens", "prompt_tokens", "prompt_token_count", "promptTokenCount")
        if read is None:
            return None
        cached = _number(reported, "cache_read_input_tokens")
        written = _number(reported, "cache_creation_input_tokens") or 0
        if cached is not None or written:
            read += (cached or 0) + written
        else:
            details = _field(reported, "input_tokens_details") or _field(reported, "prompt_tokens_details")
            cached = _number(details, "cached_tokens")
            if cached is None:
                cached = _number(reported, "cached_content_token_count", "cachedContentTokenCount")
        names = ("output_tokens", "completion_tokens", "candidates_token_count", "candidatesTokenCount")
        thoughts = _number(reported, "thoughts_token_count", "thoughtsTokenCount") or 0
        details = _field(reported, "output_tokens_details") or _field(reported, "completion_tokens_details")
        reasoning = _number(details, "reasoning_tokens") or thoughts
        return Usage(read, (_number(reported, *names) or 0) + thoughts, cached or 0, written, reasoning)


@dataclass(frozen=True, slots=True)
class Meter:
    """What a `Fitter` has seen: the last window, and the totals of what was reported; in tokens.

    calls: reports taken in. window: the last window; budget: its limit, 0 when off; capacity: None when unknown.
    factor: how many tokens the provider counts for one of the estimate, as last reported (L15).
    """

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    window: int = 0
    budget: int = 0
    capacity: int | None = None
    factor: float = 1.0

    def plus(self, usage: Usage) -> "Meter":
        """The meter after one more call."""
        return replace(
            self,
            calls=self.calls + 1,
            input_tokens=self.input_tokens + usage.input_tokens,
            output_tokens=self.output_tokens + usage.output_tokens,
            cached_tokens=self.cached_tokens + usage.cached_tokens,
        )


def factor_of(reported: int, estimated: int) -> float:
    """The calibration that a report stands for: reported over estimated, bounded and rounded (L15, B5)."""
    if reported <= 0 or estimated <= 0:
        return 1.0
    factor = round(reported / estimated * FACTOR_STEPS) / FACTOR_STEPS
    return min(MOST_FACTOR, max(LEAST_FACTOR, factor))


def _field(value: object, name: str) -> object:
    return value.get(name) if isinstance(value, dict) else getattr(value, name, None)


def _number(value: object, *names: str) -> int | None:
    for name in names:
        found = _field(value, name)
        if isinstance(found, int) and not isinstance(found, bool):
            return found
    return None
