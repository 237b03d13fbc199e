"""Spaces of our own: a part of the design space of an operator, timed in full on the machine model.

The part has the sketch of the default schedule, beside others with the same holes. Slots and switches of products are those of the default,
except for the slots of L0C. Each other hole has some of its choices, evenly spread. Their number is chosen so that LEAST legal candidates
or somewhat more are left (fewer where all choices leave fewer). The configurations are the legal candidates. Times are modelled, from cold
inputs.
"""
from __future__ import annotations

from collections.abc import Callable
from math import prod
from pathlib import Path

import numpy as np

from aoec.ir.func.tir import Func
from aoec.jobs.stages.operators import graph_of
from aoec.jobs.stages.stages import operator_group
from aoec.jobs.tune.tuning import Problem, problem, start
from aoec.lowering.arrange.fuse import fuse
from aoec.lowering.lower.lower import lower
from aoec.search.space.grid import Grid
from aoec.simulate.encode.tables import first_false
from aoec.simulate.timing.time import time_rows
from aoec.target.machine import load
from bench.cases.net import Model
from bench.spaces.case import Case, read, write

LEAST = 10_000  # legal candidates
GRIDS = tuple(100_000 * 2**i for i in range(7))  # candidates, legal or not, of which the first with LEAST legal ones is the part
FEW = 6  # holes, of which all stay open
FIXED = ("da", "db", "d0a", "d0b", "uf", "pl", "du", "do", "di")
SKETCHES = 3
SLAB = 4096


def fused_gelu(target: str, m: int, k: int, n: int) -> Func:
    """Return a matrix product with bias and GELU, as one group of that machine."""
    net = Model("fused", "fp16")
    net.machine = load(target)
    graph = net.graph(net.dense(net.input("x", (m, k)), n, "gelu"))
    return lower(graph, max(graph.groups, key=lambda g: len(g.nodes)))


def operator(text: str) -> Callable[[str], Func]:
    """Return an operator given by name and sizes, as that target's own group."""
    def func(target: str) -> Func:
        graph, constants = graph_of(text)
        fused, _ = fuse(graph, constants, load(target))
        return lower(fused, operator_group(fused))
    return func


OPERATORS: dict[str, tuple[str, Callable[[str], Func]]] = {
    "own_matmul_1024": ("Ascend910B3", operator("matmul(m=1024, k=1024, n=1024, fp16)")),
    "own_matmul_long": ("Ascend910A", operator("matmul(m=256, k=8192, n=512, fp16)")),
    "own_matmul_int8": ("Ascend910B4", operator("matmul(m=512, k=1024, n=3072, int8)")),
    "own_matmul_gelu": ("Ascend310P3", lambda target: fused_gelu(target, 256, 768, 3072)),
    "own_conv_56": ("Ascend910B2", operator("conv2d(n=1, c=64, h=56, w=56, co=64, kh=3, kw=3, pad=1, bias, relu)")),
    "own_conv_14": ("Ascend310P3", operator("conv2d(n=1, c=256, h=14, w=14, co=256, kh=3, kw=3, pad=1, bias, relu)")),
    "own_conv_7": ("Ascend910A", operator("conv2d(n=1, c=512, h=7, w=7, co=512, kh=3, kw=3, pad=1, bias, relu)")),
    "own_softmax": ("Ascend910B1", operator("softmax(m=24576, n=128)")),
    "own_layer_norm": ("Ascend910B3", operator("layer_norm(m=50176, n=96)")),
    "own_attention": ("Ascend910_9392", operator("attention(b=48, m=384, n=384, d=64, mask)")),
}


def own(name: str, folder: Path) -> Case:
    """Return one of our own spaces, from the folder, where it is put when it is timed for the first time."""
    path = folder / f"{name}.csv.gz"
    if not path.exists():
        target, func = OPERATORS[name]
        folder.mkdir(parents=True, exist_ok=True)
        write(timed(name, problem(func(target), load(target))), path)
    return read(path)


def timed(name: str, p: Problem) -> Case:
    """Return the part of a problem's space that the module's head describes, with the time of every legal candidate."""
    number, default = start(p).default
    leading = p.space.grids[number]
    alike = [i for i, g in enumerate(p.space.grids) if (g.names, g.choices) == (leading.names, leading.choices)][:SKETCHES]
    fixed = {n: v for n, v in zip(leading.names, default) if n in FIXED and len(leading.names) > FEW}
    choices = tuple((fixed[n],) if n in fixed else c for n, c in zip(leading.names, leading.choices))
    legal = np.empty((0, 0))
    for size in GRIDS:
        if len(legal) < LEAST:
            grid = thinned(Grid(leading.names, choices), size // len(alike))
            legal = np.concatenate([legal_rows(p, sketch, grid) for sketch in alike])
    return Case(name, ("sketch", *grid.names), legal, np.concatenate([times_ms(p, s, grid.names, legal[legal[:, 0] == s]) for s in alike]))


def legal_rows(p: Problem, sketch: int, grid: Grid) -> np.ndarray:
    """Return the legal candidates of one sketch in a grid: its number, then the holes' values."""
    out = []
    for at in range(0, grid.size, SLAB):
        rows = grid.rows(at, at + SLAB)
        table = np.column_stack([np.full(len(next(iter(rows.values()))), sketch), *rows.values()])
        out.append(table[[not s for s in first_false(p.sketches[sketch].encoded, rows, len(table))]])
    return np.concatenate(out)


def times_ms(p: Problem, sketch: int, names: tuple[str, ...], legal: np.ndarray) -> np.ndarray:
    """Return modelled times of legal candidates; NaN where one cannot be timed."""
    out = [np.empty(0)]
    for at in range(0, len(legal), SLAB):
        found = time_rows(p.sketches[sketch].encoded, dict(zip(names, np.ascontiguousarray(legal[at:at + SLAB, 1:].T))), p.state)
        out.append(np.where(found.status == 0, found.total_ticks * p.machine.us_per_tick / 1000, np.nan))
    return np.concatenate(out)


def thinned(grid: Grid, size: int) -> Grid:
    """Return the grid with the same holes and at most so many candidates: the hole with the most choices loses some first, evenly."""
    counts = [len(c) for c in grid.choices]
    while prod(counts) > size:
        counts[counts.index(max(counts))] -= 1
    kept = [tuple(c[round(i * (len(c) - 1) / max(n - 1, 1))] for i in range(n)) for c, n in zip(grid.choices, counts)]
    return Grid(grid.names, tuple(kept))
