"""Concats of slices as one group: what its pieces are, against NumPy; what its program writes; and what is no such group."""
from __future__ import annotations

import numpy as np
import onnx
import pytest

from aoec.frontend.translate.onnx import load
from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import Graph, OpNode
from aoec.ir.text.show import show
from aoec.jobs.tune.tuning import problem, start
from aoec.lowering.arrange.fuse import fuse, halve_groups
from aoec.lowering.arrange.pieces import Piece, Walk, laid_out, pieces_of
from aoec.ops.run import evaluate
from aoec.target.machine import load as load_machine
from tests.frontend.models import model, node, run
from tests.lowering.groups import case

END = 2**62


class Written:
    """Nodes as exporters write them, of one input x."""

    def __init__(self, *shape: int) -> None:
        self.shape, self.nodes = shape, list[onnx.NodeProto]()
        self.constants = dict[str, np.ndarray]()

    def cut(self, x: str, axis: int, start: int, end: int, step: int = 1) -> str:
        names = [f"c{len(self.constants) + i}" for i in range(4)]
        self.constants |= {name: np.array([v]) for name, v in zip(names, (start, end, axis, step))}
        return self.add("Slice", " ".join((x, *names)))

    def add(self, op: str, inputs: str, **attributes: object) -> str:
        self.nodes.append(node(op, inputs, f"t{len(self.nodes)}", **attributes))
        return f"t{len(self.nodes) - 1}"

    def joined(self, axis: int, *parts: str) -> str:
        return self.add("Concat", " ".join(parts), axis=axis)

    def rolled(self, x: str, axis: int, at: int) -> str:
        return self.joined(axis, self.cut(x, axis, at, END), self.cut(x, axis, 0, at))

    def proto(self, *results: str) -> onnx.ModelProto:
        return model(self.nodes, {"x": self.shape}, results, self.constants)


def roll() -> onnx.ModelProto:
    """torch.roll of shifted windows."""
    w = Written(2, 14, 14, 32)
    return w.proto(w.rolled(w.rolled("x", 1, 3), 2, 3))


def short_roll() -> onnx.ModelProto:
    """Of rows of no whole blocks: all pieces are moved together, for a row of the result is short."""
    w = Written(6, 9, 7)
    return w.proto(w.rolled(w.rolled("x", 0, 2), 1, 5))


def one_axis() -> onnx.ModelProto:
    w = Written(3, 40, 48)
    return w.proto(w.rolled("x", 1, 11))


def reflected() -> onnx.ModelProto:
    """An image padded with its own rows, the outermost not among them."""
    w = Written(1, 5, 12, 32)
    return w.proto(w.joined(2, w.cut("x", 2, 2, 0, -1), "x", w.cut("x", 2, -2, -4, -1)))


def merged() -> onnx.ModelProto:
    """Patches of Swin: every second pixel down and across, side by side as channels."""
    w = Written(1, 8, 10, 48)
    parts = [w.cut(w.cut("x", 1, i, END, 2), 2, j, END, 2) for i, j in ((0, 0), (1, 0), (0, 1), (1, 1))]
    return w.proto(w.joined(3, *parts))


def swapped() -> onnx.ModelProto:
    """The halves of each head."""
    w = Written(1, 4, 50, 64)
    return w.proto(w.joined(3, w.cut("x", 3, 32, END), w.cut("x", 3, 0, 32)))


def bytes_rolled() -> onnx.ModelProto:
    w = Written(4, 30, 40)
    truths = w.add("Greater", "x c0")
    w.constants["c0"] = np.float32(0)
    return w.proto(w.add("Cast", w.rolled(truths, 1, 7), to=1))


MODELS = (roll, short_roll, one_axis, reflected, merged, swapped)


def fused_of(proto: onnx.ModelProto, target: str) -> tuple[Graph, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """(fused graph, values of all its tensors, constants) for whole numbers that 16 bits hold."""
    graph, weights, _ = load(proto, {}, "fp16")
    shape = next(t.shape for t in graph.tensors if t.name == "x")
    x = np.random.default_rng(0).integers(-2000, 2000, shape).astype(np.float32)
    fused, packed = fuse(graph, weights, load_machine(target))
    values = evaluate(fused, {"x": x}, packed, every=True)
    (wanted,) = run(proto, {"x": x})
    assert np.array_equal(np.asarray(values[fused.outputs[0]], np.float32), wanted)
    return fused, values, packed


@pytest.mark.parametrize("target", ["Ascend910B3", "Ascend310P3", "Ascend910A"])
@pytest.mark.parametrize("written", MODELS)
def test_a_concat_of_slices_is_one_launch_and_moves_what_they_say(written: object, target: str) -> None:
    fused, values, _ = fused_of(written(), target)  # type: ignore[operator]
    (group,) = [g for g in fused.groups if g.kind != "view"]  # three to nine before
    made = case(written.__name__, fused, group.name, values)  # type: ignore[attr-defined]
    p = problem(made.func, load_machine(target))
    assert np.array_equal(made.evaluated(made.func).reshape(-1), made.wanted.reshape(-1))
    assert made.agrees(made.run(p.program(start(p).best)))


def test_truths_are_rolled_as_bytes() -> None:
    fused, values, _ = fused_of(bytes_rolled(), "Ascend910B3")
    (group,) = [g for g in fused.groups if len(g.nodes) == 3]
    made = case("bytes", fused, group.name, values)
    p = problem(made.func, load_machine("Ascend910B3"))
    assert made.agrees(made.run(p.program(start(p).best)))


def test_an_index_of_an_outer_axis_is_found_where_it_is_needed() -> None:
    """A row of the result is two pieces, whatever rows of the image it is made of."""
    fused, values, _ = fused_of(roll(), "Ascend910B3")
    made = case("roll", fused, fused.groups[0].name, values)
    assert "% 14" in show(made.func)
    graph, *_ = load(roll(), {}, "fp16")
    laid = laid_out(graph.nodes, {t.name: t for t in graph.tensors})
    assert len(laid.pieces) == 2 and set(laid.along) == {1}


def test_what_its_maker_writes_where_it_belongs_is_not_copied() -> None:
    """Half of a tensor and work on the other half: that is written in its place by who makes it, and a slice copies the rest."""
    w = Written(2, 64, 512)
    worked = w.add("Exp", w.cut("x", 0, 1, 2))
    fused, *_ = fused_shape(w.proto(w.joined(0, w.cut("x", 0, 0, 1), worked)))
    assert all(len(g.nodes) == 1 for g in fused.groups)


def test_a_slice_that_others_read_too_stays() -> None:
    w = Written(4, 8, 64)
    first = w.cut("x", 1, 3, END)
    rolled = w.joined(1, first, w.cut("x", 1, 0, 3))
    fused, *_ = fused_shape(w.proto(w.add("Relu", rolled), first))
    assert sorted(len(g.nodes) for g in fused.groups if g.kind != "view") == [1, 1, 2]


def test_vector_work_reads_a_slice_of_its_own() -> None:
    """So that the other reader, a concat, has its own too."""
    w = Written(4, 8, 64)
    first = w.cut("x", 1, 3, END)
    rolled = w.joined(1, first, w.cut("x", 1, 0, 3))
    fused, *_ = fused_shape(w.proto(w.add("Relu", rolled), w.add("Exp", first)))
    assert sorted(len(g.nodes) for g in fused.groups if g.kind != "view") == [1, 2, 3]


def test_more_pieces_than_flags_are_moved_axis_by_axis() -> None:
    """Nine of an image that is padded with its own pixels all around; there are six flags."""
    w = Written(1, 6, 10, 16)
    rows = w.joined(2, w.cut("x", 2, 1, 2), "x", w.cut("x", 2, 8, 9))
    fused, *_ = fused_shape(w.proto(w.joined(3, w.cut(rows, 3, 1, 2), rows, w.cut(rows, 3, 14, 15))))
    assert [len(g.nodes) for g in fused.groups if g.kind != "view"] == [3, 3]


def test_a_group_that_has_no_schedule_comes_apart_operator_by_operator() -> None:
    fused, *_ = fused_shape(roll())
    apart = halve_groups(fused, {g.name for g in fused.groups})
    assert all(len(g.nodes) == 1 for g in apart.groups) and {n for g in apart.groups for n in g.nodes} == {n.name for n in fused.nodes}


def fused_shape(proto: onnx.ModelProto) -> tuple[Graph, dict[str, np.ndarray]]:
    graph, weights, _ = load(proto, {}, "fp16")
    return fuse(graph, weights, load_machine("Ascend910B3"))


# ---------------------------------------------------------------- pieces

def test_pieces_of_random_slices_and_concats_are_what_numpy_makes() -> None:
    random = np.random.default_rng(7)
    for _ in range(300):
        nodes, arrays = drawn(random)
        pieces = pieces_of(nodes, {k: v.shape for k, v in arrays.items()})
        assert np.array_equal(put_together(pieces, arrays, arrays[nodes[-1].outputs[0]].shape), arrays[nodes[-1].outputs[0]])


def drawn(random: np.random.Generator) -> tuple[list[OpNode], dict[str, np.ndarray]]:
    """Slices, forwards and backwards, and concats of what was made before, and the values of all of it."""
    rank = int(random.integers(1, 4))
    arrays = {f"x{i}": random.integers(0, 99, random.integers(1, 7, rank)) for i in range(2)}
    nodes: list[OpNode] = []
    for at in range(int(random.integers(1, 7))):
        names = list(arrays)
        x = names[int(random.integers(len(names)))]
        shape = arrays[x].shape
        if random.random() < 0.6:
            starts = [int(random.integers(n)) for n in shape]
            steps = [int(random.choice([-2, -1, 1, 2, 3])) for _ in shape]
            counts = [int(random.integers(1, (n - 1 - a if s > 0 else a) // abs(s) + 2)) for n, a, s in zip(shape, starts, steps)]
            given = {"starts": tuple(starts), "sizes": tuple(counts), "steps": tuple(steps)}
            op = OpNode(f"n{at}", "slice", (x,), (f"y{at}",), tuple(given.items()))
            made = arrays[x][np.ix_(*[a + s * np.arange(n) for a, s, n in zip(starts, steps, counts)])]
        else:
            axis = int(random.integers(rank))
            fits = [n for n in names if np.delete(arrays[n].shape, axis).tolist() == np.delete(shape, axis).tolist()]
            chosen = [fits[int(random.integers(len(fits)))] for _ in range(int(random.integers(1, 4)))]
            op = OpNode(f"n{at}", "concat", tuple(chosen), (f"y{at}",), (("axis", axis),))
            made = np.concatenate([arrays[n] for n in chosen], axis)
        nodes.append(op)
        arrays[f"y{at}"] = made
    return nodes, arrays


def put_together(pieces: list[Piece], arrays: dict[str, np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    out = np.full(shape, -1)
    for p in pieces:
        assert p.source.startswith("x")
        to, of = ([at + step * np.arange(w.count) for w in p.walks for at, step in [pick(w)]] for pick in (
            lambda w: (w.to, 1), lambda w: (w.start, w.step)))
        assert (out[np.ix_(*to)] == -1).all()  # no element is written twice
        out[np.ix_(*to)] = arrays[p.source][np.ix_(*of)]
    return out


def test_a_walk_is_cut_to_nothing_where_a_slice_takes_none_of_it() -> None:
    assert Walk(4, 3, 10).slice(0, 4, 1, 0) is None
    assert Walk(4, 3, 10).slice(6, 4, -1, 5) == Walk(5, 3, 12, -1)


def test_finding_takes_time_that_grows_as_the_graph_does() -> None:
    """A concat of a thousand slices is no group, and is not looked at again and again."""
    from aoec.lowering.arrange.pieces import MOST_NODES, find_pieces
    draft = Draft("g", ["x"], ["y"])
    draft.tensor("x", "fp16", (1000, 64))
    names = []
    for at in range(1000):
        names.append(draft.tensor(f"s{at}", "fp16", (1, 64)))
        draft.nodes.append(draft.node("slice", ["x"], names[-1], {"starts": (999 - at, 0), "sizes": (1, 64), "steps": (1, 1)}))
    draft.tensor("y", "fp16", (1000, 64))
    draft.nodes.append(draft.node("concat", names, "y", {"axis": 0}))
    assert find_pieces(draft, 6) == {} and MOST_NODES < 1000
