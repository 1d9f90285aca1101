"""One pass of `estimate` over the texts of the conversation: what any counting costs, the measure of `fit`."""

import workload

import longturn

NAME, VERSION = "one pass of estimate", lambda: f"longturn {longturn.__version__}"


def prepare(messages):
    return list(workload.texts_of(messages))


def apply(texts, _budget):
    for text in texts:
        longturn.estimate(text)


def export(_result):
    return []
