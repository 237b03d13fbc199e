"""The distinct groups of models, and operators given by name, as a tuning run meets them; and a clock of CPU seconds."""
from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from aoec.frontend.onnx import load
from aoec.jobs.plan import tasks
from aoec.jobs.stages import lower_operator
from aoec.lowering.fuse import fuse
from aoec.simulate.state import State
from aoec.target.machine import Machine
from bench.networks import NETWORKS

Case = tuple[str, Any, State]  # label, func, memory state


class Clock:
    """CPU seconds by name."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}

    def __call__(self, name: str, work: Callable[..., Any], *given: Any) -> Any:
        """What the work gives."""
        started = time.process_time()
        out = work(*given)
        self.spent[name] = self.spent.get(name, 0.0) + time.process_time() - started
        return out


def cases(words: Sequence[str], batch: int, machine: Machine, clock: Clock) -> Iterator[Case]:
    """The distinct groups of models, and operators."""
    for word in words:
        if "(" in word:
            yield word, lower_operator(word), ()
            continue
        graph, weights, *_ = clock("import", load, NETWORKS[word](batch, 0).model if word in NETWORKS else word)
        graph, _ = clock("fuse", fuse, graph, weights, machine)
        seen: set[tuple[str, str]] = set()
        for task in clock("lower", tasks, graph, machine):
            if (task.func_key, task.state_text) not in seen:
                seen.add((task.func_key, task.state_text))
                yield task.label, task.func, task.state
