"""Moves beside a product: graphs with them folded and as nodes of their own give the same, and no fold is left without a schedule."""
from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aoec.ir.func.evaluate import evaluate_func
from aoec.ir.func.tir import Func
from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import Graph, Group, Tensor
from aoec.ir.text.parse import parse_func
from aoec.ir.text.show import show
from aoec.jobs.choose.alone import time_groups
from aoec.jobs.choose.moves import kept_moves
from aoec.lowering.arrange.folds import OPERANDS, RESULT, exception
from aoec.lowering.arrange.fuse import fuse
from aoec.lowering.lower.lower import lower, operands
from aoec.ops.run import NUMPY, evaluate
from aoec.ops.words.movement import MOVES
from aoec.target.machine import load
from tests.laws.turns import SAME, examples

MACHINES = "Ascend910B3", "Ascend310P3"


class Net:
    """A graph in the making: moves of one input, and a product of what they make with itself, transposed."""

    def __init__(self, shape: tuple[int, ...], dtype: str = "fp16") -> None:
        self.draft = Draft("net", ("x",), ("y",), [Tensor("x", dtype, shape)])
        self.last, self.dtype = "x", dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.draft.tensors[self.last].shape

    def add(self, op: str, inputs: tuple[str, ...], to: tuple[int, ...], **attributes: object) -> str:
        made = self.draft.tensor(f"{op}_made", self.dtype, to)
        self.draft.nodes.append(self.draft.node(op, inputs, made, attributes))  # type: ignore[arg-type]
        self.last = made
        return made

    def reshape(self, *shape: int) -> str:
        return self.add("reshape", (self.last,), shape, shape=shape)

    def transpose(self, *perm: int) -> str:
        return self.add("transpose", (self.last,), tuple(self.shape[a] for a in perm), perm=perm)

    def slice(self, axis: int, start: int, count: int) -> str:
        sizes = tuple(count if a == axis else n for a, n in enumerate(self.shape))
        starts = tuple(start if a == axis else 0 for a in range(len(sizes)))
        return self.add("slice", (self.last,), sizes, starts=starts, sizes=sizes, steps=(1,) * len(sizes))

    def square(self, other: str) -> str:
        """The product of the last tensor with another of its shape, transposed."""
        return self.add("matmul", (self.last, other), (*self.shape[:-1], self.shape[-2]), trans_b=1)

    def graph(self) -> Graph:
        self.draft.outputs = (self.last,)
        return self.draft.finish()[0]


@st.composite
def nets(draw: st.DrawFn, unit: int = 1) -> Graph:
    """Slices, reshapes and transposes in any order, of extents that are multiples of `unit`; a product; transposes and reshapes."""
    b, m, h, d = draw(st.integers(1, 3)), unit * draw(st.integers(1, 3)), draw(st.integers(1, 3)), unit * draw(st.integers(1, 3))
    net = Net((b, m, 2 * h * d))
    makers = []
    for part in (0, draw(st.integers(0, 1))):
        net.last = "x"
        if draw(st.booleans()):
            net.slice(2, part * h * d, h * d)
            net.reshape(b, m, h, d)
        else:
            net.reshape(b, m, 2, h, d)
            net.transpose(*draw(st.permutations(range(5))))
            axis = net.shape.index(2) if 2 in net.shape else 0
            net.slice(axis, 0, max(net.shape[axis] // 2, 1))
            rest = [n for a, n in enumerate(net.shape) if a != axis or n > 1]
            net.reshape(*(rest if len(rest) > 1 else [*rest, 1]))
        net.transpose(*draw(st.permutations(range(len(net.shape)))))
        makers.append(net.last)
    one, other = makers if net.draft.tensors[makers[0]].shape == net.draft.tensors[makers[1]].shape else makers[:1] * 2
    net.last = one
    net.square(other)
    if draw(st.booleans()):
        net.transpose(*draw(st.permutations(range(len(net.shape)))))
        at = draw(st.integers(1, len(net.shape)))
        net.reshape(*net.shape[:at - 1], prod(net.shape[at - 1:]))
    return net.graph()


def by_funcs(graph: Graph, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Each AI Core group's results by its func, from what the graph says of its inputs."""
    known = evaluate(graph, feeds, {}, every=True)
    out: dict[str, np.ndarray] = {}
    for g in (g for g in graph.groups if g.kind in ("cube", "vector")):
        func = lower(graph, g)
        ins, outs = operands(graph, g)
        assert parse_func(show(func)) == func
        given = {b.name: known[t.name].reshape(size(func, b.name)) for b, t in zip(func.inputs, ins, strict=True)}
        made = evaluate_func(func, given)
        out |= {t.name: made[b.name].reshape(t.shape) for b, t in zip(func.outputs, outs, strict=True)}
    return out


def size(func: Func, name: str) -> tuple[int, ...]:
    return tuple(e.value for e in func.buffer(name).shape)  # type: ignore[union-attr]


@settings(deadline=None)
@given(nets(), st.integers(0, 2**32))
def test_folded_moves_keep_the_values(graph: Graph, seed: int) -> None:
    shape = next(t for t in graph.tensors if t.name == "x").shape
    x = np.random.default_rng(seed).integers(-3, 4, shape).astype(NUMPY["fp16"])
    wanted = evaluate(graph, {"x": x}, {})
    product = next(n for n in graph.nodes if n.op == "matmul")
    kept = [exception(product, place) for place in (*OPERANDS["matmul"], RESULT)]
    folded, apart = (fuse(graph, {}, load(MACHINES[0]), way)[0] for way in ((), kept))
    for fused in (folded, apart):
        made = by_funcs(fused, {"x": x})
        for name, value in wanted.items():
            np.testing.assert_array_equal(evaluate(fused, {"x": x}, {})[name], value)
            if name in made:
                np.testing.assert_array_equal(made[name], value)
    assert all(len(g.nodes) == 1 for g in apart.groups if g.kind == "cube")


@pytest.mark.parametrize("target", MACHINES)
@pytest.mark.usefixtures("few")  # a part of the sketches must do as well
@settings(deadline=None, max_examples=3 if SAME else 4)
@given(nets(16))
def test_no_fold_is_left_without_a_schedule(target: str, graph: Graph) -> None:
    machine = load(target)
    fused = fuse(graph, {}, machine)[0]
    kept = [name for k in kept_moves(fused, machine) for name in k.exceptions]
    made = fuse(graph, {}, machine, kept)[0]
    assert time_groups(made, machine) < float("inf")


@settings(deadline=None, max_examples=examples(50))
@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 3), st.integers(0, 2), st.sampled_from(["relu", "softmax", "reduce_max"]),
       st.booleans(), st.integers(0, 2**32))
def test_vector_work_reads_slices_where_they_lie(rows: int, blocks: int, behind: int, start: int, op: str, added: bool, seed: int) -> None:
    """A slice of an axis in the middle, in whole blocks of 32 elements, for elementwise work, a softmax or a reduction."""
    net = Net((rows, 32 * (blocks + 3), behind, 2))
    cut = net.slice(1, 32 * start, 32 * blocks)
    if added:
        net.last = "x"
        other = net.slice(1, 32 * (3 - start), 32 * blocks)
        cut = net.add("add", (cut, other), net.shape)
    shape = net.shape if op != "reduce_max" else (*net.shape[:-1], 1)
    given: dict[str, object] = {"softmax": {"axis": 3}, "reduce_max": {"axes": (3,)}}.get(op, {})
    net.add(op, (cut,), shape, **given)
    graph = net.graph()
    x = np.random.default_rng(seed).normal(0, 1, (rows, 32 * (blocks + 3), behind, 2)).astype(np.float16)
    fused = fuse(graph, {}, load(MACHINES[0]))[0]
    if rows > 1:
        assert all(g.kind != "vector" or fused_ops(fused, g) != ["slice"] for g in fused.groups)
    wanted, made = evaluate(graph, {"x": x}, {}), by_funcs(fused, {"x": x})
    for name, value in wanted.items():
        np.testing.assert_allclose(made[name].astype(np.float32), value.astype(np.float32), rtol=2e-3, atol=2e-3)


@settings(deadline=None, max_examples=examples(50))
@given(st.permutations(range(3)), st.integers(1, 3), st.integers(1, 5), st.integers(1, 3),
       st.sampled_from(["relu", "softmax", "reduce_max"]), st.sampled_from(["", "flip", "split"]), st.integers(0, 2**32))
def test_vector_work_reads_transposes_where_they_lie(perm: list[int], a: int, b: int, c: int, op: str, more: str, seed: int) -> None:
    """Rows of whole blocks in another order, backwards perhaps, or a part of them."""
    sizes = (a, b, c)
    net = Net((*sizes, 2, 32))
    net.transpose(*perm, 3, 4)
    if more == "flip":
        net.add("slice", (net.last,), net.shape, starts=(0, 0, 0, 1, 0), sizes=net.shape, steps=(1, 1, 1, -1, 1))
    elif more == "split":
        net.reshape(*net.shape[:3], 64)
        net.slice(3, 32, 32)
        net.reshape(*net.shape[:3], 1, 32)
    shape = net.shape if op != "reduce_max" else (*net.shape[:-1], 1)
    given: dict[str, object] = {"softmax": {"axis": 4}, "reduce_max": {"axes": (4,)}}.get(op, {})
    net.add(op, (net.last,), shape, **given)
    graph = net.graph()
    x = np.random.default_rng(seed).normal(0, 1, (*sizes, 2, 32)).astype(np.float16)
    fused = fuse(graph, {}, load(MACHINES[0]))[0]
    assert [g.kind for g in fused.groups if g.kind != "view"] == ["vector"]
    wanted, made = evaluate(graph, {"x": x}, {}), by_funcs(fused, {"x": x})
    for name, value in wanted.items():
        np.testing.assert_allclose(made[name].astype(np.float32), value.astype(np.float32), rtol=2e-3, atol=2e-3)


def fused_ops(graph: Graph, group: Group) -> list[str]:
    return [n.op for n in graph.nodes if n.name in group.nodes]


def test_heads_are_read_where_they_lie() -> None:
    """One product for queries, keys and values of 2 heads; text shows where each is read and written."""
    net = Net((1, 32, 192))
    heads = []
    for part in range(2):
        net.last = "x"
        net.slice(2, 64 * part, 64)
        net.reshape(1, 32, 2, 32)
        heads.append(net.transpose(0, 2, 1, 3))
    net.last = heads[0]
    net.square(heads[1])
    net.transpose(0, 2, 1, 3)
    net.reshape(1, 32, 64)
    fused, _ = fuse(net.graph(), {}, load(MACHINES[0]))
    (group,) = fused.groups
    said = show(lower(fused, group))
    assert "A[m, k + b0 * 32] * B[n, k + b0 * 32 + 64]" in said and "Y[out_m, out_n + out_b0 * 32]" in said
    assert sum(n.op in MOVES for n in fused.nodes) == len(group.nodes) - 1 == 8
