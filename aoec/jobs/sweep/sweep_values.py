"""Values of a sweep's programs against the reference. An operator by name has its NumPy reference, and a func its own evaluation.

Inputs are small whole numbers, whose sums of products are exact in any order. Programs of an operator are also compared with its reference
on normal data (jobs/verify/verify.py).
"""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple

import numpy as np

from aoec.base.errors import AoecError
from aoec.ir.func.evaluate import evaluate_func
from aoec.ir.func.evaluate_whole import cost, evaluate_whole, takes
from aoec.ir.func.tir import Buffer, Func, blocks
from aoec.ir.graph.graph import Graph, Group, Tensor
from aoec.ir.index import Call, Expr, Float, Int, walk
from aoec.ir.program import Program
from aoec.ir.rewrite import fill
from aoec.ir.text.keys import key
from aoec.jobs.run.execute import run_program
from aoec.jobs.stages.operators import graph_of
from aoec.jobs.stages.stages import operator_group
from aoec.jobs.sweep.sweep_plan import Subject
from aoec.jobs.verify.allowed import SMALLEST, SPACING, finite
from aoec.jobs.verify.verify import differences, verify_group
from aoec.lowering.arrange.fuse import fuse
from aoec.lowering.lower.lower import operands
from aoec.ops.own import Definitions
from aoec.ops.run import NUMPY, REALS
from aoec.ops.words.layout import to_logical, to_physical
from aoec.search.space.trials import Status
from aoec.target.legality.check import check
from aoec.target.machine import Machine

MOST_POINTS = {"whole": 1 << 27, "by point": 1 << 18}  # of all loops: NumPy does 10^8 a second, the plain evaluation some 300,000; of
# matrix products many more, which count as few (evaluate_whole)
EXACT_CALLS = ("min", "max", "select", "abs", "ceil", "floor")


class Finding(NamedTuple):
    """The status of a row whose program was looked at; `verified`: yes, no, or why it was skipped."""

    status: str
    verified: str
    reason: str = ""


@dataclass
class References:
    """The references of one subject at some sizes: one for each choice of the holes in its func's own text."""

    subject: Subject
    sizes: Mapping[str, int]
    func: Func
    _latest: tuple[dict[str, int], Values] | None = None

    def at(self, row: Mapping[str, object]) -> Values:
        """Return the reference of a row of a sweep; only the latest is kept, for its arrays are large."""
        own = {name: int(str(row[f"?{name}"])) for name in self.subject.holes}
        if self._latest is None or self._latest[0] != own:
            self._latest = own, Values(self.subject, self.sizes, fill(self.func, own))
        return self._latest[1]


@dataclass
class Values:
    """The reference of one func without holes; `seen`: what was found of each distinct program."""

    subject: Subject
    sizes: Mapping[str, int]
    func: Func
    seen: dict[tuple[str, str], Finding] = field(default_factory=dict)
    _operator: tuple[Graph, Group, tuple[tuple[str, str], ...], dict[str, np.ndarray]] | None = None
    _data: tuple[dict[str, np.ndarray], dict[str, np.ndarray]] | None = None

    def finding(self, program: Program, machine: Machine) -> Finding:
        """Return what is found of a program's values, if its func is small enough; equal programs are run once."""
        plain = self.subject.read is not None and not takes(self.func)
        points, most = points_of(self.func), MOST_POINTS["by point" if plain else "whole"]
        if points > most:
            return Finding(Status.TIMED.value, f"skipped: {points:,} points of loops, and at most {most:,} are checked")
        at = key(program), machine.hash
        if at not in self.seen:
            self.seen[at] = self.find(program, machine)
        return self.seen[at]

    def find(self, program: Program, machine: Machine) -> Finding:
        """Return what is found: a program that breaks a rule of the machine is not run."""
        try:
            check(program, machine)
        except AoecError as e:
            return Finding(Status.ILLEGAL.value, "no", str(e))
        faults = self.against_func(program) if self.subject.read else self.against_operator(program)
        return Finding(Status.WRONG_VALUE.value, "no", "; ".join(faults)) if faults else Finding(Status.TIMED.value, "yes")

    def against_operator(self, program: Program) -> list[str]:
        """Compare a program with the operator's reference in NumPy, with seeded constants."""
        if self._operator is None:
            self._operator = operator(self.subject.call(self.sizes), self.func, self.subject.own)
        graph, group, bindings, weights = self._operator
        return verify_group(graph, group, program, bindings, weights)

    def against_func(self, program: Program) -> list[str]:
        """Compare a program with the func's own evaluation."""
        if self._data is None:
            feeds = whole_numbers(self.func)
            self._data = feeds, (evaluate_whole if takes(self.func) else evaluate_func)(self.func, feeds)
        feeds, wanted = self._data
        tensors = {b.name: tensor(b) for b in (*self.func.inputs, *self.func.outputs)}
        stored = {name: to_physical(x, tensors[name]) for name, x in feeds.items()}
        results = run_program(program, tuple((name, name) for name in tensors), tensors, stored)
        out: list[str] = []
        for name, x in wanted.items():
            logical = to_logical(to_physical(x, tensors[name]), tensors[name])
            limit = allowed_difference(self.func, x, tensors[name])
            out += differences(self.func.name, tensors[name], results[name], logical, limit, "whole numbers")
        return out


def points_of(func: Func) -> int:
    """Return how often the blocks of a func without holes run in all, matrix products' points as far as they take as long."""
    if takes(func):
        return cost(func)
    return sum(prod(lp.extent.value for lp in above if isinstance(lp.extent, Int)) for _, above in blocks(func.body))


def operator(call: str, func: Func, own: Definitions) -> tuple[Graph, Group, tuple[tuple[str, str], ...], dict[str, np.ndarray]]:
    """Return the operator's fused graph, its own group, (tensor of the func, of the graph), and constants of seeded normal values."""
    graph, zeros = graph_of(call, own)
    random = np.random.default_rng(0)
    weights = {name: random.standard_normal(x.shape).astype(x.dtype) for name, x in zeros.items()}
    fused, stored = fuse(graph, weights)
    group = operator_group(fused)
    ins, outs = operands(fused, group)
    names = [b.name for b in (*func.inputs, *func.outputs)]
    return fused, group, tuple(zip(names, [t.name for t in (*ins, *outs)], strict=True)), stored


def tensor(b: Buffer) -> Tensor:
    """Return a buffer of fixed shape as a tensor of a graph, whose layout says how it is stored."""
    return Tensor(b.name, b.dtype, tuple(e.value for e in b.shape if isinstance(e, Int)), b.layout)


def whole_numbers(func: Func) -> dict[str, np.ndarray]:
    """Return seeded whole numbers of -2 to 2 for each input."""
    random = np.random.default_rng(0)
    return {b.name: random.integers(-2 if b.dtype in REALS else 0, 3, tensor(b).shape).astype(NUMPY[b.dtype]) for b in func.inputs}


def allowed_difference(func: Func, wanted: np.ndarray, t: Tensor) -> np.ndarray:
    """Return how much each element may differ: nothing where whole numbers stay whole. Else it is the bound that jobs/verify/allowed.py has
    for inexact nodes, for as many nodes as the func has blocks."""
    size = np.nan_to_num(np.abs(finite(wanted, t.dtype)))
    if t.dtype not in REALS or all(exact(e) for b, _ in blocks(func.body) for e in (b.value, *([] if b.init is None else [b.init]))):
        return np.zeros(t.shape)
    u = SPACING[t.dtype]
    out: np.ndarray = 8 * u * len(blocks(func.body)) * (size + min(1.0, float(size.max(initial=0.0)))) + SMALLEST[t.dtype]
    return out


def exact(e: Expr) -> bool:
    """Return whether an expression makes whole numbers of whole numbers."""
    return not any(isinstance(n, Float) and n.value != round(n.value) or isinstance(n, Call) and n.fn not in EXACT_CALLS
                   or getattr(n, "op", "") == "/" for n in walk(e))
