"""longturn keeps long agent turns inside a model's context window.

>>> import longturn
>>> history = [{"role": "user", "content": "Read every chapter."}]
>>> for number in range(200):
...     call = {"id": f"c{number}", "type": "function", "function": {"name": "read", "arguments": "{}"}}
...     history.append({"role": "assistant", "content": None, "tool_calls": [call]})
...     history.append({"role": "tool", "tool_call_id": f"c{number}", "content": "It was a long chapter. " * 90})
>>> window = longturn.fit(history, budget=32_000)
>>> window.tokens <= 32_000
True
>>> window.messages[0] is history[0] and window.messages[-1] is history[-1]
True
"""

from longturn.api import fit, fit_request
from longturn.core.checkpoint import Checkpoint
from longturn.core.edits import bound_result
from longturn.core.policy import Budget, Policy
from longturn.core.texts import AGENT_NOTE, CLEARED, NOTE
from longturn.core.tokens import estimate
from longturn.errors import ConfigError, ContextWindowExceeded, LongturnError, TranscriptError
from longturn.fitter import Fitter
from longturn.overflow import Overflow, overflow
from longturn.shaped import Window
from longturn.summaries import Summary, SummaryRequest

__version__ = "0.1.0"

__all__ = [
    "AGENT_NOTE",
    "CLEARED",
    "NOTE",
    "Budget",
    "Checkpoint",
    "ConfigError",
    "ContextWindowExceeded",
    "Fitter",
    "LongturnError",
    "Overflow",
    "Policy",
    "Summary",
    "SummaryRequest",
    "TranscriptError",
    "Window",
    "bound_result",
    "estimate",
    "fit",
    "fit_request",
    "overflow",
]
