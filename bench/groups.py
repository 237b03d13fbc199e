"""The distinct groups of models, and operators given by name, as a tuning run meets them; a clock of CPU seconds, and peaks of memory."""
from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from aoec.base.process.heap import give_back
from aoec.frontend.translate.onnx import load
from aoec.ir.graph.graph import Graph
from aoec.jobs.choose.model_tasks import tasks
from aoec.jobs.stages.stages import lower_operator
from aoec.lowering.arrange.fuse import fuse
from aoec.simulate.timing.state import State
from aoec.target.machine import Machine
from bench.networks import NETWORKS

Case = tuple[str, Any, State]  # label, func, memory state


class Clock:
    """CPU seconds by name."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}

    def __call__(self, name: str, work: Callable[..., Any], *given: Any) -> Any:
        """Return the result of the work."""
        started = time.process_time()
        out = work(*given)
        self.spent[name] = self.spent.get(name, 0.0) + time.process_time() - started
        return out


def cases(words: Sequence[str], batch: int, machine: Machine, clock: Clock) -> Iterator[Case]:
    """Yield the distinct groups of models, and operators."""
    for word in words:
        if "(" in word:
            yield word, lower_operator(word), ()
            continue
        seen: set[tuple[str, str]] = set()
        for task in clock("lower", tasks, fused(word, batch, machine, clock), machine):
            if (task.func_key, task.state_text) not in seen:
                seen.add((task.func_key, task.state_text))
                yield task.label, task.func, task.state


def fused(word: str, batch: int, machine: Machine, clock: Clock) -> Graph:
    """Return a model's graph with its groups. The model and its weights go back to the system: they are several times what a search
    needs."""
    graph, weights, *_ = clock("import", load, NETWORKS[word](batch, 0).model if word in NETWORKS else word)
    graph, weights = clock("fuse", fuse, graph, weights, machine)
    del weights
    gc.collect()
    give_back()
    return graph


def peak_mib() -> float:
    """Return the most memory that this process has held at once, in MiB, since `forget_peak`."""
    line, = (x for x in Path("/proc/self/status").read_text("utf-8").splitlines() if x.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


def forget_peak() -> None:
    """Reset the memory peak of this process to the memory that it holds now, where the system allows it."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", "utf-8")
