"""`longturn.Fitter`, which remembers, with the default policy."""

import time

import workload

import longturn

NAME, VERSION = "longturn.Fitter", lambda: f"longturn {longturn.__version__}"
POLICY = "default"
SYSTEMS = ("Be brief.", "Be thorough. " * 1_500)  # more than a 32nd of the budget apart, so a change refolds everything


def prepare(messages):
    return messages


def apply(messages, budget):
    return longturn.Fitter(budget=budget, policy=POLICY).fit(messages)


def export(window):
    return window.messages


def session(budget):
    fitter = longturn.Fitter(budget=budget, policy=POLICY)

    def step(history):
        window = fitter.fit(history)
        _ = window.messages  # what is sent; part of the cost
        return window

    return step


def refold(history):
    """Everything decided anew on remembered counts: the system prompt grew by more than a step (B7)."""
    fitter = longturn.Fitter(budget=workload.BUDGET, policy=POLICY)
    fitter.fit(history, system=SYSTEMS[0])
    return timed(lambda: fitter.fit(history, system=SYSTEMS[1]))


def loaded(history):
    """A new `Fitter` that took up the counts of another one."""
    first = longturn.Fitter(budget=workload.BUDGET, policy=POLICY)
    first.fit(history)
    second = longturn.Fitter(budget=workload.BUDGET, policy=POLICY).load(first.dump())
    return timed(lambda: second.fit(history))


def timed(call):
    start = time.process_time()
    call()
    return {"seconds": time.process_time() - start}
