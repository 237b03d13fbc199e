"""The funcs of tests/funcs with their schedules, the programs they become, and what they mean in NumPy."""
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from aoec import primitives
from aoec.ir import index, rewrite
from aoec.ir.func.tir import Func
from aoec.ir.program import Program
from aoec.ir.schedule import Trace
from aoec.ir.text.parse import parse_func, parse_trace
from aoec.lowering.emit.emit import emit
from aoec.target.machine import Machine

FUNCS = Path(__file__).parents[1] / "funcs"
SCHEDULES = sorted(p.name.removesuffix(".sched") for p in FUNCS.glob("*.sched"))
Arrays = dict[str, np.ndarray]


def load(schedule: str) -> tuple[Func, Trace]:
    """The func and the trace of a schedule `func[.variant]`."""
    func = parse_func((FUNCS / f"{schedule.split('.')[0]}.tir").read_text())
    return func, parse_trace((FUNCS / f"{schedule}.sched").read_text())


def emitted(schedule: str, machine: Machine) -> Program:
    """The program of a schedule on a machine, its holes kept."""
    return emit(primitives.apply(*load(schedule)), machine)


def random_rows(program: Program) -> Arrays:
    """20,000 rows of values for the holes, the same at every call; not all are legal."""
    random = np.random.default_rng(0)
    return {hole: random.choice(choices or (1, 2, 4, 8, 16, 32, 64), 20_000) for hole, choices in rewrite.holes(program).items()}


def random_inputs(func: Func, seed: int) -> Arrays:
    """Small integers, so that sums are exact in any order."""
    rng = np.random.default_rng(seed)
    return {b.name: rng.integers(-3, 4, [int(index.evaluate(s, {})) for s in b.shape]).astype(np.float32) for b in func.inputs}


def _conv2d(a: Arrays) -> np.ndarray:
    n, c1, h, w, c0 = a["X"].shape
    x = np.zeros((n, c1, h + 2, w + 2, c0), np.float32)
    x[:, :, 1:-1, 1:-1] = a["X"]
    weights = a["W"].reshape(c1, 3, 2, c0, -1)
    taps = [[x[:, :, 2 * i:2 * i + 3, 2 * j:2 * j + 2] for j in range(2)] for i in range(3)]
    out = np.array([[np.einsum("nchwd,chwdo->no", t, weights) for t in row] for row in taps])
    out = np.maximum(out + a["bias"], 0)
    return out.reshape(3, 2, n, -1, 16).transpose(2, 3, 0, 1, 4)


def _max_pool(a: Arrays) -> np.ndarray:
    n, c1, h, w, c0 = a["X"].shape
    x = np.full((n, c1, h + 2, w + 2, c0), -np.inf, np.float32)
    x[:, :, 1:-1, 1:-1] = a["X"]
    return np.stack([np.stack([x[:, :, 2 * i:2 * i + 3, 2 * j:2 * j + 3].max((2, 3)) for j in range(3)], 2) for i in range(4)], 2)


def _softmax(a: Arrays) -> np.ndarray:
    e = np.exp(a["X"] - a["X"].max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


REFERENCE: dict[str, Callable[[Arrays], np.ndarray]] = {
    "matmul": lambda a: np.maximum(a["A"] @ a["B"] + a["bias"], 0),
    "elementwise": lambda a: np.maximum(a["A"] + a["B"], 0),
    "global_avg_pool": lambda a: a["X"].sum((2, 3), keepdims=True) * np.float32(0.05),
    "conv2d": _conv2d, "max_pool": _max_pool, "softmax": _softmax,
}
