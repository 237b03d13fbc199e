"""Work by the range of a tensor, and norms of planes: what programs give is what operators mean, held in UB or brought for each tile."""
from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from aoec.ir.graph.graph import Graph, Group, OpNode, Tensor
from aoec.jobs.tune.tuning import problem
from aoec.lowering.arrange.fuse import fuse
from aoec.lowering.arrange.wide_sums import find_tails, join_tails
from aoec.ops.run import NUMPY, evaluate
from aoec.ops.words.layout import to_logical
from aoec.target.machine import load
from tests.lowering.groups import case, legal

MACHINES = ("Ascend910B3", "Ascend310P3")
Data = dict[str, np.ndarray]


def one_group(nodes: tuple[OpNode, ...], tensors: tuple[Tensor, ...], outputs: tuple[str, ...]) -> Graph:
    """A graph of one vector group."""
    made = {o for n in nodes for o in n.outputs}
    inputs = tuple(dict.fromkeys(i for n in nodes for i in n.inputs if i not in made))
    return Graph("ranged", inputs, outputs, tensors, nodes, (Group("g0", "vector", tuple(n.name for n in nodes)),))


def quantised(rows: int, columns: int, dtype: str) -> Graph:
    """A tensor in steps of its range."""
    ends = tuple(Tensor(n, "fp32", (rows,)) for n in ("high", "low"))
    return one_group((OpNode("q", "quantise_range", ("x", "high", "low"), ("y",)),),
                     (Tensor("x", dtype, (rows, columns)), *ends, Tensor("y", "int8", (rows, columns))), ("y",))


def reals(rows: int, columns: int, dtype: str) -> Graph:
    """What sums stand for, with a bias, a residual and a norm of rows behind: seven tensors that are brought once."""
    whole, row = (rows, columns), (columns,)
    tensors = [Tensor("s", "int32", whole), *(Tensor(n, "fp32", (rows,)) for n in ("high", "low")), Tensor("zeros", "int32", row),
               Tensor("scale", "fp32", row), *(Tensor(n, dtype, row) for n in ("bias", "factor", "shift")),
               *(Tensor(n, dtype, whole) for n in ("residual", "r", "b", "a", "y"))]
    nodes = (OpNode("r", "dequantise_range", ("s", "high", "low", "zeros", "scale"), ("r",)), OpNode("b", "add", ("r", "bias"), ("b",)),
             OpNode("a", "add", ("b", "residual"), ("a",)),
             OpNode("y", "layer_norm", ("a", "factor", "shift"), ("y",), (("epsilon", 1e-5),)))
    return one_group(nodes, tuple(tensors), ("y",))


def feeds(graph: Graph) -> Data:
    """Numbers that fit the arguments of these words."""
    random = np.random.default_rng(11)

    def numbers(t: Tensor) -> np.ndarray:
        if t.dtype == "int32":
            return random.integers(-3000, 3000, t.shape).astype(np.int32)
        found = random.standard_normal(t.shape).astype(np.float32)
        found = {"high": np.abs(found) + 1, "low": -np.abs(found) - 0.5, "scale": np.abs(found) * 0.01 + 0.001}.get(t.name, found)
        return found.astype(NUMPY[t.dtype]).astype(np.float32)
    return {t.name: numbers(t) for t in graph.tensors if t.name in graph.inputs}


def differences(graph: Graph, machine: str, data: Data) -> list[float]:
    """How far results of programs of each sketch are from what the group means."""
    chip = load(machine)
    values = evaluate(graph, data, {}, every=True)
    out = []
    for g in (g for g in graph.groups if g.kind == "vector"):
        c = case("ranged", graph, g.name, values)
        p = problem(c.func, chip)
        for candidate in [q for i in range(len(p.sketches)) for q in legal(p, i, 2)]:
            got = to_logical(c.run(p.program(candidate)).reshape(-1)[:c.wanted.size], c.result)
            out.append(float(np.abs(got.astype(np.float64) - c.wanted.astype(np.float64)).max()))
    assert out, "nothing was run"
    return out


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("dtype", ["fp16", "fp32"])
@pytest.mark.parametrize("rows, columns", [(37, 96), (1, 200), (9, 1040)])
def test_elements_are_those_of_the_steps(rows: int, columns: int, dtype: str, machine: str) -> None:
    graph = quantised(rows, columns, dtype)
    assert max(differences(graph, machine, feeds(graph))) == 0


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("rows, columns", [(37, 96), (70, 640)])
def test_reals_behind_sums_meet_a_residual_and_a_norm(rows: int, columns: int, machine: str) -> None:
    graph = reals(rows, columns, "fp16")
    assert max(differences(graph, machine, feeds(graph))) <= 4e-3


@pytest.mark.parametrize("machine", MACHINES)
def test_what_is_brought_once_has_one_flag(machine: str) -> None:
    graph = reals(37, 96, "fp16")
    p = problem(case("ranged", graph, "g0", evaluate(graph, feeds(graph), {}, every=True)).func, load(machine))
    assert p.some(), "seven small tensors and two large ones have more flags than there are, one each"


def groups_of_channels(batch: int, groups: int, channels: int, pixels: tuple[int, int], dtype: str) -> Graph:
    """A norm of groups of channels as exporters spell it, with factors of channels and a SiLU behind."""
    shape, rows = (batch, channels, *pixels), (batch, groups, channels * pixels[0] * pixels[1] // groups)
    tensors = [Tensor("x", dtype, shape), *(Tensor(n, dtype, rows) for n in "vn"), *(Tensor(n, dtype, (channels, 1, 1)) for n in "wb"),
               *(Tensor(n, dtype, shape) for n in "umay")]
    nodes = [OpNode("v", "reshape", ("x",), ("v",), (("shape", rows),)), OpNode("n", "layer_norm", ("v",), ("n",), (("epsilon", 1e-5),)),
             OpNode("u", "reshape", ("n",), ("u",), (("shape", shape),)), OpNode("m", "mul", ("u", "w"), ("m",)),
             OpNode("a", "add", ("m", "b"), ("a",)), OpNode("y", "silu", ("a",), ("y",))]
    return Graph("groups", ("x", "w", "b"), ("y",), tuple(tensors), tuple(nodes))


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("dtype", ["fp16", "fp32"])
@pytest.mark.parametrize("batch, groups, channels, pixels", [(1, 4, 20, (8, 8)), (2, 3, 12, (4, 24)), (1, 8, 8, (4, 8)),
                                                             (1, 4, 12, (3, 5))])
def test_a_norm_of_groups_is_done_with_its_factors(batch: int, groups: int, channels: int, pixels: tuple[int, int], dtype: str,
                                                   machine: str) -> None:
    graph = groups_of_channels(batch, groups, channels, pixels, dtype)
    assert [[n.op for n in nodes] for nodes in find_tails(graph).values()] == [["layer_norm", "reshape", "mul", "add", "silu"]]
    data = feeds(graph)
    joined = join_tails(graph, ["n"])
    bound = 4e-3 if dtype == "fp16" else 2e-5
    np.testing.assert_allclose(evaluate(joined, data, {})["y"].astype(np.float32), evaluate(graph, data, {})["y"].astype(np.float32),
                               atol=bound)
    fused, _ = fuse(joined, {}, load(machine))
    ops = {n.name: n.op for n in fused.nodes}
    whole = [g for g in fused.groups if g.kind == "vector"]
    assert [[ops[n] for n in g.nodes] for g in whole] == [["plane_norm", "mul", "add", "silu"]]
    if pixels[0] * pixels[1] % 16 == 0:  # rows of whole blocks lie one behind the other in UB
        assert max(differences(replace(fused, groups=tuple(whole)), machine, data)) <= bound
