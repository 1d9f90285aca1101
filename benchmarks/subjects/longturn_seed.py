"""`longturn.Fitter` with the preset `seed`: results cleared in fours, no lower target."""

import longturn

NAME, VERSION = 'longturn.Fitter, policy="seed"', lambda: f"longturn {longturn.__version__}"


def prepare(messages):
    return messages


def apply(messages, budget):
    return longturn.fit(messages, budget=budget, policy="seed")


def export(window):
    return window.messages


def session(budget):
    fitter = longturn.Fitter(budget=budget, policy="seed")

    def step(history):
        window = fitter.fit(history)
        _ = window.messages  # what is sent; part of the cost
        return window

    return step
