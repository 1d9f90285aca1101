"""`longturn.fit` from scratch."""

import gc
import sys
import time
import tracemalloc

import workload

import longturn

NAME, VERSION = "longturn.fit", lambda: f"longturn {longturn.__version__}"


def prepare(messages):
    return messages


def apply(messages, budget):
    return longturn.fit(messages, budget=budget)


def export(window):
    return window.messages


def beside_estimate(history):
    """Both from scratch, one after the other in one process, so that a slow moment slows both."""
    texts = list(workload.texts_of(history))
    start = time.process_time()
    for text in texts:
        longturn.estimate(text)
    between = time.process_time()
    longturn.fit(history, budget=workload.BUDGET)
    return {"estimate": between - start, "seconds": time.process_time() - between}


def one_huge_string(_history):
    """A result of 100 million characters."""
    history = workload.history(1)
    history[-1]["content"] = "The river froze, and 12 of us crossed it on foot. " * 2_000_000
    size = sys.getsizeof(history[-1]["content"])
    start = time.process_time()
    longturn.fit(history, budget=200_000_000)
    seconds = time.process_time() - start
    gc.collect()
    tracemalloc.start()
    longturn.fit(history, budget=200_000_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {"seconds": seconds, "bytes": size, "peak": peak}
