"""Exact token counts for OpenAI's models, offline (the `exact` extra); everything else in longturn only estimates."""

from functools import partial

from longturn.core.families import Family
from longturn.core.tokens import Estimator, estimator_for, exact
from longturn.errors import ConfigError

try:
    from toktok import batch_count  # type: ignore[import-untyped]
except ImportError as error:
    raise ConfigError("exact token counts need the package toktok-rs: pip install 'longturn[exact]'") from error

_ENCODINGS = {Family.OPENAI: "o200k_base", Family.OPENAI_OLD: "cl100k_base"}


def openai(model: str) -> Estimator:
    """The exact estimator of an OpenAI model; special tokens are read as text and a lone surrogate as U+FFFD (L14).

    Raises ConfigError for a model of another family, whose vocabulary is not at hand.
    """
    family = estimator_for(model).name
    encoding = next((name for known, name in _ENCODINGS.items() if known == family), None)
    if encoding is None:
        raise ConfigError(
            f"no exact tokenizer for {model!r}: only OpenAI's vocabularies are at hand. "
            "Use longturn.core.tokens.exact(count) with a tokenizer of your own."
        )
    return exact(partial(_count, encoding), name=encoding)


def _count(encoding: str, text: str) -> int:
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return int(batch_count([whole], encoding)[0])
