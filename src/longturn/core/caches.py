"""Prefix caches and prices: what a provider's cache would have served of a request, and what the request costs.

It knows providers' rules by name; which one holds for a model is the catalog's to say.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CacheRule:
    """How a provider's prefix cache works, as its documentation says (autumn 2026).

    least: tokens of the shortest front that is cached. step: a front is served in multiples of so many tokens beyond
    that. lifetime: seconds without use after which it is gone; None where it stays as long as there is room.
    look_back: messages (the documentation says blocks) added since the last call beyond which a marker at the end finds
    no earlier one; None where the cache needs no markers. serves: False for no cache at all.
    """

    name: str
    least: int = 0
    step: int = 1
    lifetime: float | None = None
    look_back: int | None = None
    serves: bool = True

    def served(self, kept: int, *, added: int, age: float, fixed: int) -> int:
        """Tokens of a front of `kept` tokens that the cache serves.

        added: messages behind that front. age: seconds since the last call, 0 where the recording's times say nothing.
        fixed: tokens of system and tools, which have a marker of their own.
        """
        if not self.serves or (self.lifetime is not None and age > self.lifetime):
            return 0
        if self.look_back is not None and added > self.look_back:
            kept = min(kept, fixed)
        return 0 if kept < self.least else self.least + (kept - self.least) // self.step * self.step

    def stores(self, tokens: int) -> bool:
        """Whether a request of so many tokens is written to the cache."""
        return self.serves and tokens >= self.least


NO_CACHE = CacheRule("none", serves=False)
ANTHROPIC = CacheRule("anthropic", least=1_024, lifetime=300.0, look_back=20)
OPENAI = CacheRule("openai", least=1_024, step=128, lifetime=3_600.0)
GEMINI = CacheRule("gemini", least=4_096, lifetime=300.0)
DEEPSEEK = CacheRule("deepseek", least=64, step=64, lifetime=3_600.0)
# Qwen, Moonshot, xAI: what is known of their blocks lies between 64 and 1,024 tokens.
BLOCKS = CacheRule("blocks", least=256, step=256, lifetime=3_600.0)
LONGEST_PREFIX = CacheRule("longest prefix")
RULES = {rule.name: rule for rule in (ANTHROPIC, OPENAI, GEMINI, DEEPSEEK, BLOCKS, LONGEST_PREFIX, NO_CACHE)}


@dataclass(frozen=True, slots=True)
class Prices:
    """Dollars per token: fresh input, input served from the cache, input written to the cache, and output.

    stored: the whole price of a token that is read and written; that of fresh input where writing costs nothing.
    """

    fresh: float
    cached: float
    stored: float
    output: float

    def of(self, tokens: int, cached: int, rule: CacheRule) -> float:
        """What a request of so many tokens costs of which `cached` were served; its answer not counted.

        What is not served is written, for the next call; a request below the rule's minimum is not, at the plain price.
        """
        return cached * self.cached + (tokens - cached) * (self.stored if rule.stores(tokens) else self.fresh)

    def written(self, tokens: int) -> float:
        """What so many tokens of output cost."""
        return tokens * self.output
