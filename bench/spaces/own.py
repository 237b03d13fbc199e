"""Spaces of our own: a part of the design space of an operator, timed in full on the machine model.

The part: the sketch that the default schedule is of, beside others with the same holes; slots and switches of products as the default has
them, but for the slots of L0C; and of each other hole as many of its choices, evenly spread, as keep the grid within GRID candidates. Legal
candidates are the configurations; times are modelled, from cold inputs.
"""
from __future__ import annotations

from collections.abc import Callable
from math import prod
from pathlib import Path

import numpy as np

from aoec.ir.tir import Func
from aoec.jobs.stages import lower_operator
from aoec.jobs.tuning import Problem, problem, start
from aoec.lowering.lower import lower
from aoec.search.grid import Grid
from aoec.simulate.tables import first_false
from aoec.simulate.time import time_rows
from aoec.target.machine import load
from bench.cases.net import Model
from bench.spaces.case import Case, read, write

GRID = 400_000
FEW = 6  # holes, of which all stay open
FIXED = ("da", "db", "d0a", "d0b", "uf", "pl", "du", "do", "di")
SKETCHES = 3
SLAB = 4096


def fused_gelu(target: str, m: int, k: int, n: int) -> Func:
    """A matrix product with bias and GELU, as one group of that machine."""
    net = Model("fused", "fp16")
    net.machine = load(target)
    graph = net.graph(net.dense(net.input("x", (m, k)), n, "gelu"))
    return lower(graph, max(graph.groups, key=lambda g: len(g.nodes)))


def operator(text: str) -> Callable[[], Func]:
    return lambda: lower_operator(text)


OPERATORS: dict[str, tuple[str, Callable[[], Func]]] = {
    "own_matmul_1024": ("Ascend910B3", operator("matmul(m=1024, k=1024, n=1024, fp16)")),
    "own_matmul_bert": ("Ascend910B3", operator("matmul(m=128, k=768, n=3072, fp16)")),
    "own_matmul_long": ("Ascend910B3", operator("matmul(m=256, k=8192, n=512, fp16)")),
    "own_matmul_310p": ("Ascend310P3", operator("matmul(m=512, k=512, n=2048, fp16)")),
    "own_conv_56": ("Ascend910B3", operator("conv2d(n=1, c=64, h=56, w=56, co=64, kh=3, kw=3, pad=1, bias, relu)")),
    "own_conv_7": ("Ascend910B3", operator("conv2d(n=1, c=512, h=7, w=7, co=512, kh=3, kw=3, pad=1, bias, relu)")),
    "own_conv_310p": ("Ascend310P3", operator("conv2d(n=1, c=256, h=14, w=14, co=256, kh=3, kw=3, pad=1, bias, relu)")),
    "own_softmax": ("Ascend910B3", operator("softmax(m=4096, n=1000)")),
    "own_layer_norm": ("Ascend910B3", operator("layer_norm(m=4096, n=768)")),
    "own_matmul_gelu": ("Ascend310P3", lambda: fused_gelu("Ascend310P3", 256, 768, 3072)),
}


def own(name: str, folder: Path) -> Case:
    """One of our own spaces, from the folder, where it is put when it is timed for the first time."""
    path = folder / f"{name}.csv.gz"
    if not path.exists():
        target, func = OPERATORS[name]
        folder.mkdir(parents=True, exist_ok=True)
        write(timed(name, problem(func(), load(target))), path)
    return read(path)


def timed(name: str, p: Problem) -> Case:
    """The part of a problem's space that the module's head describes, with the time of every legal candidate."""
    number, default = start(p).default
    leading = p.space.grids[number]
    alike = [i for i, g in enumerate(p.space.grids) if (g.names, g.choices) == (leading.names, leading.choices)][:SKETCHES]
    fixed = {n: v for n, v in zip(leading.names, default) if n in FIXED and len(leading.names) > FEW}
    choices = tuple((fixed[n],) if n in fixed else c for n, c in zip(leading.names, leading.choices))
    grid = thinned(Grid(leading.names, choices), GRID // len(alike))
    values, times = [], []
    for sketch in alike:
        for at in range(0, grid.size, SLAB):
            rows = grid.rows(at, at + SLAB)
            table = np.column_stack([np.full(len(next(iter(rows.values()))), sketch), *rows.values()])
            legal = np.array([not s for s in first_false(p.sketches[sketch].encoded, rows, len(table))], dtype=bool)
            if legal.any():
                found = time_rows(p.sketches[sketch].encoded, {n: np.ascontiguousarray(v[legal]) for n, v in rows.items()}, p.state)
                values.append(table[legal])
                times.append(np.where(found.status == 0, found.total_ticks * p.machine.us_per_tick / 1000, np.nan))
    return Case(name, ("sketch", *grid.names), np.concatenate(values), np.concatenate(times))


def thinned(grid: Grid, size: int) -> Grid:
    """The grid with the same holes and at most so many candidates: the hole with the most choices loses some first, evenly."""
    counts = [len(c) for c in grid.choices]
    while prod(counts) > size:
        counts[counts.index(max(counts))] -= 1
    kept = [tuple(c[round(i * (len(c) - 1) / max(n - 1, 1))] for i in range(n)) for c, n in zip(grid.choices, counts)]
    return Grid(grid.names, tuple(kept))
