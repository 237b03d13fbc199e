"""Views: slices and concats that move nothing. Models run in one memory, where each tensor has its place, and give onnxruntime's values."""
from __future__ import annotations

from math import prod
from pathlib import Path

import numpy as np
import onnx
import pytest

import aoec
from aoec.artifact.artifact import load_gears
from aoec.artifact.compiled import Artifact, Compiled
from aoec.base.errors import UnsupportedError
from aoec.frontend.translate.onnx import load
from aoec.ir.graph.graph import Graph, Group, OpNode, Tensor
from aoec.ir.index import evaluate
from aoec.jobs.choose.model_tasks import size_bytes
from aoec.jobs.run.execute import pad_array, run_nodes
from aoec.lowering.arrange.fuse import fuse
from aoec.lowering.arrange.views import places
from aoec.ops.run import NUMPY
from aoec.ops.words.layout import stored_shape, to_logical, to_physical
from aoec.simulate.values.values import Executable
from aoec.target.machine import load as load_machine
from tests.frontend.models import feeds_of, model, node, normal, run

W = {"w": normal(32, 32, 3, 3, seed=1), "p": normal(32, 32, 1, 1, seed=2), "h": np.array([16, 16]), "v": normal(32, 64, 1, 1, seed=3),
     "u": normal(32, 48, 1, 1, seed=4), "r": normal(64, 64, seed=5), "z": np.array([0]), "e": np.array([16]),
     "k": normal(24, 32, 1, 1, seed=6), "l": normal(24, 24, 1, 1, seed=7), "m": normal(32, 48, 1, 1, seed=8)}
SAME = {"pads": [1, 1, 1, 1]}
ACROSS = [node("Conv", "x w", "a", **SAME), node("Relu", "a", "b"), node("Conv", "b w", "c", **SAME),
          node("Concat", "b c", "d", axis=1), node("Conv", "d v", "y")]
# nodes, shape of x, kinds of the groups that are concats and slices (v: view, c: copy), results
pytestmark = pytest.mark.usefixtures("small")  # that parts harm no other hangs on no long search
NETS = {
    "across": (ACROSS, [1, 32, 16, 16], "v"),
    "split": ([node("Conv", "x p", "a"), node("Split", "a h", "b c", axis=1), node("Sigmoid", "c", "d"),
               node("Concat", "b c d", "f", axis=1), node("Conv", "f u", "y")], [1, 32, 8, 8], "vv"),
    "twice": ([node("Conv", "x p", "a"), node("Concat", "a a", "b", axis=1), node("Conv", "b v", "y")], [1, 32, 8, 8], "cv"),
    "grown": ([node("Conv", "x p", "a"), node("Conv", "a p", "b"), node("Concat", "a b", "c", axis=1), node("Conv", "c v", "d"),
               node("Concat", "a b d", "f", axis=1), node("Relu", "f", "g"), node("MaxPool", "g", "y", kernel_shape=[2, 2])],
              [1, 32, 8, 8], "vv"),
    "ragged": ([node("Conv", "x k", "a"), node("Conv", "a l", "b"), node("Concat", "a b", "c", axis=1), node("Conv", "c m", "y")],
               [1, 32, 8, 8], "v"),  # 24 channels are no whole blocks: parts lie in ND
    "batch": (ACROSS, [2, 32, 8, 8], "c"),
    "odd": ([node("Conv", "x p", "a"), node("Conv", "a p", "b"), node("Concat", "a b", "c", axis=1), node("Conv", "c v", "y")],
            [1, 32, 5, 5], "cv"),  # the second part would begin at 1,600 bytes: it is copied
    "rows": ([node("MatMul", "x r", "a"), node("Relu", "x", "b"), node("MatMul", "b r", "c"), node("Concat", "c a b", "d", axis=0),
              node("Slice", "d z e z", "f"), node("Softmax", "f", "y"), node("Sigmoid", "d", "t")], [16, 64], "vv", ("y", "t")),
    "results": ([node("Exp", "x", "y"), node("Neg", "y", "a"), node("Concat", "a y", "t", axis=0)], [16, 64], "cv", ("y", "t"))}


def of(name: str) -> tuple[onnx.ModelProto, str]:
    nodes, shape, kinds, *outputs = NETS[name]
    constants = {k: v for k, v in W.items() if any(k in n.input for n in nodes)}
    return model(nodes, {"x": shape}, outputs[0] if outputs else ["y"], constants), kinds


@pytest.mark.parametrize("name", NETS)
def test_concats_and_slices_that_move_nothing(name: str) -> None:
    proto, kinds = of(name)
    graph, weights, _ = load(proto, {}, "fp16")
    fused, _ = fuse(graph, weights, load_machine("Ascend310P3"))
    nodes = {n.name: n for n in fused.nodes}
    assert "".join("v" if g.kind == "view" else "c" for g in fused.groups if nodes[g.nodes[0]].op in ("concat", "slice")) == kinds


@pytest.mark.parametrize("name, target", [("across", "Ascend310P3"), ("split", "Ascend910B3"), ("grown", "Ascend310P3"),
                                          ("twice", "Ascend910B3"), ("rows", "Ascend310P3"), ("odd", "Ascend910B3"),
                                          pytest.param("odd", "Ascend310P3", marks=pytest.mark.slow)])
def test_in_one_memory_no_part_harms_another(name: str, target: str, tmp_path: Path) -> None:
    proto, _ = of(name)
    aoec.compile(proto, tmp_path / "x.aoec", target=target)
    (made,) = load_gears(tmp_path / "x.aoec")
    feeds = feeds_of(proto)
    for got, wanted in zip(Memory(made).run(feeds), run(proto, feeds)):
        np.testing.assert_allclose(got.astype(np.float32), wanted, rtol=2e-2, atol=2e-2 * float(np.abs(wanted).max()))


class Memory:
    """A model's run as a device has it: one memory, in which programs write all that they declare, right or wrong."""

    def __init__(self, made: Artifact) -> None:
        self.made, self.graph = made, made.graph
        self.tensors = {t.name: t for t in made.graph.tensors}
        self.places, self.bytes = places(made.graph), dict[str, np.ndarray]()
        for t in made.graph.tensors:
            if t.name not in self.places:
                self.bytes[t.name] = np.full(size_bytes(t), 0x7E, np.uint8)  # of halves: NaN
        for name, array in made.weights.items():
            self.put(name, array)

    def put(self, name: str, array: np.ndarray) -> None:
        whose, start = self.places.get(name, (name, 0))
        flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        into = self.bytes[whose][start:start + flat.size]
        into[:] = flat[:into.size]

    def get(self, name: str) -> np.ndarray:
        whose, start = self.places.get(name, (name, 0))
        t = self.tensors[name]
        return self.bytes[whose][start:start + size_bytes(t)].view(NUMPY[t.dtype]).reshape(stored_shape(t))

    def run(self, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
        for p in self.made.inputs:
            t = self.tensors[p.tensor]
            self.put(p.tensor, to_physical(feeds[p.name].astype(NUMPY[t.dtype]), t))
        for c in self.made.groups:
            self.group(c)
        return [to_logical(self.get(p.tensor), self.tensors[p.tensor]) for p in self.made.outputs]

    def group(self, c: Compiled) -> None:
        group = next(g for g in self.graph.groups if g.name == c.group)
        if group.kind == "view":
            return
        if c.program is None:
            nodes = [n for n in self.graph.nodes if n.name in group.nodes]
            known = {i: self.get(i) for n in nodes for i in n.inputs if i in self.tensors}
            for name, array in run_nodes(nodes, self.tensors, known).items():
                self.put(name, array)
            return
        own = {t.name: t for t in c.program.tensors}
        results = Executable(c.program).run({p: pad_array(own[p], self.get(g)) for p, g in c.bindings if own[p].role == "input"})
        for p, g in c.bindings:
            if own[p].role == "output":
                assert prod(int(evaluate(d, {})) for d in own[p].shape) == results[p].size
                self.put(g, results[p])


def test_views_that_move_elements_are_refused() -> None:
    """Of a graph that somebody wrote: a part that is given to it, and what lies in several runs."""
    tensors = [Tensor(n, "fp16", s) for n, s in (("x", (4, 16)), ("a", (4, 16)), ("y", (8, 16)), ("b", (4, 8)), ("z", (4, 32)))]
    relu = OpNode("r", "relu", ("x",), ("a",))

    def graph(*nodes: OpNode) -> Graph:
        return Graph("g", ("x",), ("y",), tuple(tensors), (relu, *nodes),
                     (Group("g0", "vector", ("r",)), Group("g1", "view", tuple(n.name for n in nodes))))

    with pytest.raises(UnsupportedError, match="x cannot lie in what it joins"):
        places(graph(OpNode("c", "concat", ("x", "a"), ("y",), (("axis", 0),))))
    with pytest.raises(UnsupportedError, match="a cannot lie in what it joins"):
        places(graph(OpNode("c", "concat", ("a", "x"), ("z",), (("axis", 1),))))
    with pytest.raises(UnsupportedError, match="does not lie in one run"):
        places(graph(OpNode("s", "slice", ("a",), ("b",), (("starts", (0, 8)), ("sizes", (4, 8)), ("steps", (1, 1))))))


def test_what_slices_take_is_not_copied_twice() -> None:
    """Channels that a shuffle keeps, beside those that it works on, of 14 x 14 pixels: both are copied at once."""
    half = normal(48, 48, 1, 1, seed=9)
    nodes = [node("Conv", "x w", "a"), node("Split", "a h", "b c", axis=1), node("Conv", "c p", "d"), node("Concat", "b d", "e", axis=1),
             node("Conv", "e w", "y")]
    proto = model(nodes, {"x": [1, 96, 14, 14]}, ["y"], {"w": normal(96, 96, 1, 1), "p": half, "h": np.array([48, 48])})
    graph, weights, _ = load(proto, {}, "fp16")
    fused, _ = fuse(graph, weights, load_machine("Ascend910B3"))
    ops = {n.name: n.op for n in fused.nodes}
    assert [g.kind for g in fused.groups if "concat" in {ops[n] for n in g.nodes}] == ["vector"]
