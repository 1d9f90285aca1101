"""The words in which providers refuse a request that is too long, as tables; `overflow` reads them, no logic is here.

To teach it another phrasing, add a row, and a line to the table in tests/test_overflow.py.
"""

import re
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, slots=True)
class Phrasing:
    """One way to refuse: who says it, the text, and whether it speaks of the output limit only."""

    provider: str
    text: str
    about_output: bool = False


@cache
def compiled(text: str) -> re.Pattern[str]:
    """The text of a row as a regular expression with its numbers as named groups; bounded, so linear on any input."""
    pattern = re.sub(r"<(\w+)>", lambda place: f"(?P<{place[1]}>{_NUMBER})", text)
    return re.compile(pattern.replace("...", ".{0,160}?"), re.IGNORECASE)


# One row a phrasing; the first that states the most numbers counts. In a text, <input>, <output>, <sent>, <limit> and
# <more> (further input) stand for a number, `...` for at most 160 characters, the rest is a regular expression.
PHRASINGS = (
    Phrasing("openai", r"maximum context length is <limit> tokens... resulted in (?:approximately )?<sent> tokens"),
    Phrasing("openai", r"exceed the configured limit of <limit> tokens... resulted in <sent> tokens"),
    Phrasing("openai", r"input exceeds the context window of this model"),
    # DeepSeek, vLLM, Azure and the old completions API: A in the messages (or prompt), B in (for) the completion.
    Phrasing(
        "deepseek",
        r"maximum context length is <limit> tokens... requested (?:about )?<sent> tokens"
        r" \(<input> in (?:the|your) (?:messages|prompt)(?:[,;] <more> in the (?:functions|tools))?"
        r"(?:[,;] (?:and )?<output> (?:in|for) the completion)?",
    ),
    Phrasing(
        "openrouter",
        r"maximum context length is <limit> tokens... requested (?:about )?<sent> tokens"
        r" \(<input> of text input(?:, <more> of \w+ input)?(?:, <output> in the output)?",
    ),
    Phrasing("openrouter", r"maximum context length is <limit> tokens... requested (?:about )?<sent> tokens"),
    Phrasing("groq", r"reduce the length of the messages or completion... length is <sent> while limit is <limit>"),
    Phrasing("anthropic", r"prompt is too long: <sent> tokens > <limit>"),
    Phrasing("anthropic", r"input length and .?max_tokens.? exceed context limit: <input> \+ <output> > <limit>", True),
    Phrasing("anthropic", r"input length and .?max_tokens.? exceed (?:the )?context limit", True),
    Phrasing("fireworks", r"prompt is too long: <sent>, model maximum context length: <limit>"),
    Phrasing("mistral", r"prompt contains <sent> tokens... too large for model with <limit> maximum context length"),
    Phrasing(
        "vllm",
        r"is too large: <output>... maximum context length is <limit> tokens and your request has <input> input tokens",
        True,
    ),
    Phrasing(
        "vllm",
        r"maximum context length is <limit> tokens... requested <output> output tokens and your prompt contains"
        r" (?:at least )?<input> input tokens",
    ),
    Phrasing("vllm", r"maximum context length is <limit>(?: tokens)?... request has <sent> input tokens"),
    Phrasing("vllm", r"input prompt \(<sent> tokens\) is too long and exceeds (?:the )?limit of <limit>"),
    Phrasing("vllm", r"\(length <sent>\) is longer than the maximum model length of <limit>"),
    Phrasing("vllm", r"longer than the maximum model length of <limit>"),
    # No context length is named here: the window less the input is what was too small for it.
    Phrasing("vllm", r"max_(?:completion_)?tokens\W{0,3} is too large... context length", True),
    Phrasing(
        "sglang",
        r"maximum context length of <limit> tokens... total of <sent> tokens: <input> tokens from the input messages"
        r" and <output> tokens for the completion",
    ),
    Phrasing("sglang", r"input \(<sent> tokens\) is longer than the model.s context length \(<limit> tokens\)"),
    Phrasing("sglang", r"input length \(<sent>(?: tokens)?\) exceeds [^()]{0,60}\(<limit>(?: tokens)?\)"),
    Phrasing("tgi", r"inputs\W{1,3}must have less than <limit> tokens. given: <sent>"),
    Phrasing(
        "tgi",
        r"max_new_tokens\W{1,3}must be <= <limit>. given: <input> \W?inputs\W? tokens and <output> \W?max_new",
        True,
    ),
    Phrasing("tgi", r"max_new_tokens\W{1,3}must be <= <limit>", True),
    Phrasing("llama.cpp", r"request \(<sent> tokens\) exceeds the available context size \(<limit> tokens\)"),
    Phrasing("llama.cpp", r"exceeds the available context size"),
    Phrasing("lm studio", r"keep the first <sent> tokens... loaded with context length of only <limit> tokens"),
    Phrasing("lm studio", r"initial prompt is greater than the context length"),
    Phrasing("qwen", r"range of input length should be \[\d+, ?<limit>\]"),
    Phrasing("moonshot", r"exceeded model token limit: <limit>(?: \(requested: <sent>\))?"),
    Phrasing("minimax", r"context window exceeds limit"),  # the 2013 behind it is a code, no number of tokens
    Phrasing("glm", r"prompt exceeds max(?:imum)? length"),
    Phrasing(
        "glm", r"(?:prompt|输入|上下文|提示词?)[^。]{0,20}?(?:超长|超[过出限][^。]{0,20}?(?:上限|最大|长度|限制))"
    ),
    Phrasing("gemini", r"input token count \(?<sent>\)? exceeds the maximum number of tokens allowed \(?<limit>\)?"),
    Phrasing("gemini", r"input token count is <sent> but model only supports up to <limit>"),
    Phrasing("gemini", r"input token count exceeds the maximum number of tokens allowed(?: \(?<limit>)?"),
    Phrasing("xai", r"maximum prompt length is <limit> but the request contains <sent> tokens"),
    Phrasing("bedrock", r"input is too long for (?:the )?requested model"),
    Phrasing("bedrock", r"number of input tokens exceeds maximum length"),
    Phrasing("cohere", r"too many tokens: total[^\d]{0,60}<sent>[^\d]{0,40} cannot exceed <limit>"),
    Phrasing("cohere", r"too many tokens: total[^\d]{0,60} cannot exceed <limit>(?: - received <sent>)?"),
    Phrasing("cohere", r"too many tokens: size limit exceeded... limit for this model is <limit> tokens"),
    Phrasing("copilot", r"prompt token count of <sent> exceeds the limit of <limit>"),
    # A rate, but a request that alone is above it never gets through: shorter is the only cure.
    Phrasing("rate", r"tokens per min[^\d]{0,40}limit:? <limit>,(?: used:? \d+,)? requested:? <sent>"),
    # Without numbers, in the words that several providers and gateways share.
    Phrasing("any", r"maximum context length (?:is|of) <limit>"),
    Phrasing("any", r"prompt is too long"),
    Phrasing("any", r"exceeds? (?:the |this )?(?:model.s )?(?:maximum )?context (?:window|length)"),
    Phrasing("any", r"context[ _](?:length|window)[ _](?:is |was )?exceeded"),
    Phrasing("any", r"token limit exceeded"),
)

# `code`, `type` or `status` of an error, or a finish reason, that says it all; lower case.
CODES = frozenset(
    (
        "context_length_exceeded",  # OpenAI, Azure, Groq
        "model_context_window_exceeded",  # Anthropic's stop reason; also GLM's finish reason
        "context_window_exceeded",
        "exceed_context_size_error",  # llama.cpp
        "request_too_large",  # Anthropic, a body above 32 MB
        "contextwindowoverflow",  # Bedrock, and agents built on it
        "contextwindowoverflowexception",
        "model_max_prompt_tokens_exceeded",  # Copilot
        "model_length",  # Mistral's finish reason
        "1261",  # GLM
    )
)
CLASSES = re.compile(r"Context(?:Window|Length)?(?:Overflow|Exceeded)")
# A rate is no overflow unless the refusal states a request above it.
RATE = re.compile(
    r"per[ -](?:min|day|hour|sec)|\bTPM\b|rate.?limit|too many requests|throttl|限流|频率|速率", re.IGNORECASE
)
RATE_CODES = frozenset(("429", "rate_limit_exceeded", "rate_limit_error", "resource_exhausted", "throttlingexception"))
# What is said of other things in words that come close.
OTHER = re.compile(
    r"quota|billing|credit balance|daily|monthly|余额|配额"
    r"|signature"  # thinking that is bound to another conversation; sending it shorter fails the same
    r"|maximum allowed number of output tokens|supports at most \S+ completion tokens|range of max_tokens"
    r"|images?\b.{0,60}?(?:exceed|too large|maximum)",
    re.IGNORECASE,
)
OTHER_STATUS = frozenset((401, 402, 403, 404, 405))
OTHER_CODES = frozenset(
    ("401", "402", "403", "404", "insufficient_quota", "authentication_error", "permission_error", "not_found_error")
)

_NUMBER = r"\d{1,3}(?:[,._'\u00a0\u202f]\d{3}){1,4}(?!\d)|\d{1,12}"
