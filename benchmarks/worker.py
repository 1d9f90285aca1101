"""A subject in a process of its own: reads an order a line (JSON), answers with a line, and times by CPU, not by clock.

`python worker.py SUBJECT.py`. A subject is a file with NAME, VERSION(), prepare, apply and export; the scripts in
../shared/peers have that shape, and those in subjects/. Only shaping is timed, never a conversion between formats. A
script with STEP is one whose edits persist: it is handed what it made, and what has arrived. One with `session(budget)`
remembers by itself: that gives a callable from the whole history to the window.
"""

import contextlib
import copy
import gc
import importlib.util
import json
import os
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import workload

Order = dict[str, Any]


class Subject:
    """The loaded script, and the conversation it was last given."""

    def __init__(self, path: Path) -> None:
        sys.path.insert(0, str(path.parent))
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        self.script = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.script)
        self.history: list[workload.Message] = []
        self.native: Any = None
        self.session: Callable[[Any], Any] | None = None
        self.sent: list[str] = []

    def hello(self, _order: Order) -> Order:
        """Who it is."""
        return {"name": self.script.NAME, "version": self.script.VERSION()}

    def load(self, order: Order) -> Order:
        """Take a history of `rounds` rounds; with `settle` it is shaped once before anything is timed."""
        self.history = workload.history(order["rounds"])
        self.native = self.script.prepare(copy.deepcopy(self.history))
        self.sent = []
        self.session = self.script.session(workload.BUDGET) if hasattr(self.script, "session") else None
        if order.get("settle"):
            self._advance()
        gc.collect()
        return {"bytes": workload.bytes_of(self.history), "tokens": workload.tokens_of(self.history)}

    def apply(self, _order: Order) -> Order:
        """Shape the loaded history from scratch."""
        start = time.process_time()
        self.script.apply(self.native, workload.BUDGET)
        return {"seconds": time.process_time() - start}

    def more(self, order: Order) -> Order:
        """One more round, then shape; with `front`, how much of the window stood in the last one."""
        arrived = workload.round_of((len(self.history) - 2) // 2)
        self.history += arrived
        # A new list, since some shape in place.
        self.native = [*self.native, *self.script.prepare(arrived)]
        start = time.process_time()
        shaped = self._advance()
        seconds = time.process_time() - start
        return {"seconds": seconds, **(self._front(shaped) if order.get("front") else {})}

    def _advance(self) -> Any:
        if self.session is not None:
            return self.session(self.history)
        shaped = self.script.apply(self.native, workload.BUDGET)
        if hasattr(self.script, "STEP"):
            self.native = shaped
        return shaped

    def _front(self, shaped: Any) -> Order:
        window = self.script.export(shaped)
        sent = [json.dumps(message, sort_keys=True) for message in window]
        pairs = zip(sent, self.sent, strict=False)
        same = next(
            (place for place, (now, before) in enumerate(pairs) if now != before), min(len(sent), len(self.sent))
        )
        self.sent = sent
        return {"tokens": workload.tokens_of(window), "cached": workload.tokens_of(window[:same])}

    def window(self, _order: Order) -> Order:
        """The shaped messages of the loaded history."""
        return {"messages": self.script.export(self.script.apply(self.native, workload.BUDGET))}

    def memory(self, _order: Order) -> Order:
        """The most that shaping the loaded history takes on top of it, in bytes."""
        gc.collect()
        tracemalloc.start()
        shaped = self.script.apply(self.native, workload.BUDGET)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        del shaped
        return {"peak": peak}

    def extra(self, order: Order) -> Order:
        """A measurement that only this subject has, by name."""
        answer: Order = getattr(self.script, order["name"])(self.history)
        return answer


def main() -> None:
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever a library prints is no answer
    subject = Subject(Path(sys.argv[1]))
    for line in sys.stdin:
        order = json.loads(line)
        answer = getattr(subject, order["op"])(order)
        out.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        main()
