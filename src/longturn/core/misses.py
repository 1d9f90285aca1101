"""What was needed later: which results an answer quotes, so that a window without them would have missed them."""

from longturn.core.transcript import Transcript


def needs_of(transcript: Transcript) -> dict[int, tuple[int, ...]]:
    """By border, the rows of the results that the answer behind it quotes: to be replaced."""
    return {}
