"""Each clean-up pass keeps the values of a graph and does what it is for."""
from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto

from aoec import ops
from aoec.frontend import passes
from aoec.frontend.translate.onnx import load
from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import Tensor

from .models import model, node, normal, run


def draft(*nodes: tuple[str, str, str, dict[str, object]], shape: tuple[int, ...] = (2, 3, 4, 5), outputs: tuple[str, ...] = ("y",),
          **constants: np.ndarray) -> Draft:
    """A draft in fp32 over an input x; shapes follow from the operators."""
    d = Draft("test", ["x"], outputs, [Tensor("x", "fp32", shape)])
    for name, array in constants.items():
        d.constant(name, array.astype(np.float32), "fp32")
    for op, inputs, output, attributes in nodes:
        result = ops.shape(op, [d.tensors[i].shape for i in inputs.split()], attributes)  # type: ignore[arg-type]
        d.put(Tensor(output, "fp32", result))
        d.nodes.append(d.node(op, inputs.split(), output, attributes))  # type: ignore[arg-type]
    return d


def values(d: Draft) -> list[np.ndarray]:
    graph, weights = d.finish()
    return list(ops.evaluate(graph, {"x": normal(*d.tensors["x"].shape)}, weights).values())


def kept(run_pass: Callable[[Draft], object], d: Draft) -> list[str]:
    """The operators that are left, in order, after the pass was seen to keep the values."""
    before = values(d)
    run_pass(d)
    for a, b in zip(before, values(d)):
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-5)
    return [n.op for n in d.nodes]


def test_dead_nodes_go() -> None:
    d = draft(("relu", "x", "a", {}), ("exp", "a", "b", {}), ("abs", "a", "y", {}))
    assert kept(passes.drop_dead, d) == ["relu", "abs"]


def test_constants_are_computed() -> None:
    d = draft(("transpose", "w", "t", {"perm": (1, 0)}), ("muls", "t", "s", {"scalar": 3.0}), ("matmul", "x s", "y", {}),
              shape=(2, 4), w=normal(5, 4))
    assert kept(passes.fold_constants, d) == ["matmul"]


def test_identities_go() -> None:
    d = draft(("reshape", "x", "a", {"shape": (2, 3, 4, 5)}),
              ("transpose", "a", "b", {"perm": (0, 1, 2, 3)}), ("muls", "b", "c", {"scalar": 1.0}),
              ("adds", "c", "d", {"scalar": 0.0}), ("relu", "d", "e", {}), ("reshape", "e", "f", {"shape": (6, 20)}),
              ("reshape", "f", "g", {"shape": (120,)}), ("clip", "g", "y", {"lo": -np.inf, "hi": np.inf}))
    assert kept(passes.drop_identities, d) == ["relu", "reshape"]
    assert d.outputs == ("y",) and d.nodes[-1].outputs == ("y",)


def test_reductions_of_one_element_are_views() -> None:
    d = draft(("reduce_mean", "x", "a", {"axes": (0, 2)}), ("relu", "a", "b", {}), ("reduce_sum", "b", "c", {"axes": (1, 3)}),
              ("reduce_max", "c", "y", {"axes": (0,)}), shape=(1, 3, 1, 5))
    assert kept(passes.drop_identities, d) == ["relu", "reduce_sum"]
    assert d.nodes[1].attribute("axes") == (1, 2, 3)  # what lies between is of one element, and all is one row


def test_a_result_that_is_the_input_stays_a_node() -> None:
    d = draft(("muls", "x", "y", {"scalar": 1.0}))
    assert kept(passes.drop_identities, d) == ["muls"]


@pytest.mark.parametrize(("op", "constant_first", "expected"), [
    ("add", False, ["adds"]), ("mul", True, ["muls"]), ("sub", False, ["adds"]), ("sub", True, ["muls", "adds"]), ("div", False, ["muls"]),
    ("div", True, ["reciprocal", "muls"]), ("maximum", False, ["clip"]), ("minimum", True, ["clip"])])
def test_numbers_become_scalars(op: str, constant_first: bool, expected: list[str]) -> None:
    d = draft(("exp", "x", "e", {}), (op, "c e" if constant_first else "e c", "y", {}), c=np.array([0.7]))
    assert kept(passes.use_scalars, d) == ["exp", *expected]


def test_a_number_that_widens_the_result_stays() -> None:
    d = draft(("add", "x c", "y", {}), shape=(3,), c=np.ones((1, 1)))
    assert kept(passes.use_scalars, d) == ["add"]
    d = draft(("div", "x c", "y", {}), c=np.array(1e-45))
    assert kept(passes.use_scalars, d) == ["div"]


def statistics(channels: int) -> dict[str, np.ndarray]:
    return {"scale": normal(channels, seed=1), "bias": normal(channels, seed=2), "mean": normal(channels, seed=3),
            "variance": np.abs(normal(channels, seed=4)) + 0.1}


BN = ("batch_norm", "a scale bias mean variance", "b", {"epsilon": 1e-5})
CONV = {"stride": (1, 1), "pad": (1, 1, 1, 1), "dilation": (1, 1), "group": 1}


def test_affine_chains_fold_into_convolutions() -> None:
    d = draft(("conv2d", "x w cb", "a", CONV), BN, ("mul", "k b", "c", {}), ("adds", "c", "e", {"scalar": 0.5}), ("sub", "e m", "f", {}),
              ("muls", "f", "g", {"scalar": -2.0}), ("relu", "g", "y", {}), w=normal(6, 3, 3, 3), cb=normal(6), k=normal(6, 1, 1),
              m=normal(1, 6, 1, 1), **statistics(6))
    assert kept(passes.fold_affine, d) == ["conv2d", "relu"]


def test_affine_chains_fold_into_matrices() -> None:
    d = draft(("matmul", "x w", "a", {}), ("add", "k a", "b", {}), ("mul", "b s", "y", {}), shape=(4, 6), w=normal(6, 5),
              k=normal(5), s=normal(1, 5))
    assert kept(passes.fold_affine, d) == ["matmul"]


def test_affine_chains_alone_become_short() -> None:
    d = draft(("relu", "x", "a", {}), BN, ("mul", "b k", "c", {}), ("add", "c k", "y", {}), k=normal(3, 1, 1), **statistics(3))
    assert kept(passes.fold_affine, d) == ["relu", "mul", "add"]
    d = draft(("relu", "x", "a", {}), ("muls", "a", "b", {"scalar": 2.0}), ("muls", "b", "y", {"scalar": 0.5}))
    assert kept(passes.fold_affine, d) == ["relu", "reshape"]


def test_what_others_read_is_not_folded() -> None:
    d = draft(("conv2d", "x w", "a", CONV), BN, ("add", "a b", "y", {}), w=normal(3, 3, 3, 3), **statistics(3))
    assert kept(passes.fold_affine, d) == ["conv2d", "mul", "add", "add"]
    d = draft(("conv2d", "x w", "a", CONV), ("muls", "a", "y", {"scalar": 2.0}), outputs=("a", "y"), w=normal(3, 3, 3, 3))
    assert kept(passes.fold_affine, d) == ["conv2d", "muls"]


def test_other_axes_are_not_folded() -> None:
    d = draft(("conv2d", "x w", "a", CONV), ("mul", "a k", "y", {}), w=normal(3, 3, 3, 3), k=normal(5))
    assert kept(passes.fold_affine, d) == ["conv2d", "mul"]


def test_biases_stay_fp32_and_overflow_is_said() -> None:
    d = draft(("conv2d", "x w b", "a", CONV), ("add", "a c", "e", {}), ("add", "e b", "y", {}), shape=(1, 3, 4, 3), w=normal(3, 3, 3, 3),
              b=np.array([1e5, 0, 0]), c=np.full((3, 1, 1), 1e6))
    notices = passes.choose_precision(d, "fp16")
    graph, weights = d.finish()
    bias = graph.nodes[0].inputs[2]
    dtypes = {t.name: t.dtype for t in graph.tensors}
    assert dtypes.pop(bias) == "fp32" and set(dtypes.values()) == {"fp16"} and weights[bias].dtype == np.float32
    assert len(notices) == 1 and notices[0].startswith("2 constants exceed the range of fp16")


@pytest.mark.parametrize("form", ["added", "a factor", "chosen"])
def test_what_hides_words_is_a_number_in_fp16_too(form: str) -> None:
    """The lowest of fp32, as exporters write it, hides some words of a row and is the same for all where it hides them all."""
    nodes = {"added": [node("Add", "x hidden", "s")],
             "a factor": [node("Sub", "one seen", "m"), node("Mul", "m lowest", "h"), node("Add", "x h", "s")],
             "chosen": [node("Cast", "seen", "k", to=TensorProto.BOOL), node("Where", "k zero lowest", "h"), node("Add", "x h", "s")]}
    seen = np.array([[1, 1, 0, 0], [0, 0, 0, 0]], np.float32)
    lowest = np.finfo(np.float32).min
    proto = model([*nodes[form], node("Softmax", "s", "y", axis=-1)], {"x": (2, 4), "seen": (2, 4)}, ["y"],
                  {"hidden": (1 - seen) * lowest, "lowest": lowest, "one": np.float32(1), "zero": np.float32(0)})
    graph, weights, notices = load(proto)
    assert len(notices) == 1
    feeds = {"x": (normal(2, 4) - 99).astype(np.float16).astype(np.float32), "seen": seen}
    got = ops.evaluate(graph, feeds, weights)["y"]
    np.testing.assert_allclose(got, run(proto, feeds)[0], atol=2e-3)


def test_infinities_stay() -> None:
    proto = model([node("Add", "x c", "y")], {"x": (3,)}, ["y"], {"c": np.array([-np.inf, 1e9, -7], np.float32)})
    graph, weights, _ = load(proto)
    np.testing.assert_array_equal(weights[graph.nodes[0].inputs[1]], np.array([-np.inf, 32752, -7], np.float16))


def test_a_whole_model() -> None:
    s = statistics(8)
    proto = model(
        [node("Conv", "x w", "a", pads=[1, 1, 1, 1]), node("BatchNormalization", "a scale bias mean variance", "b"),
         node("Identity", "b", "i"),
         node("Relu", "i", "r"), node("Dropout", "r", "d mask", ratio=0.5), node("Shape", "d", "s"), node("Gather", "s zero", "n"),
         node("Concat", "n minus", "to", axis=0), node("Reshape", "d to", "f"), node("Gemm", "f g h", "y", transB=1)],
        {"x": (2, 3, 4, 4)}, ["y"], {"w": normal(8, 3, 3, 3), "g": normal(5, 128), "h": normal(5),
                                      "zero": np.array([0]), "minus": np.array([-1]), **s}, opset=11)
    graph, weights, _ = load(proto, precision="fp32")
    assert [n.op for n in graph.nodes] == ["conv2d", "relu", "reshape", "matmul"]
    x = normal(2, 3, 4, 4)
    np.testing.assert_allclose(ops.evaluate(graph, {"x": x}, weights)["y"], run(proto, {"x": x})[0], rtol=1e-4, atol=1e-4)


def test_results_that_no_node_makes() -> None:
    proto = model([node("Relu", "x", "y"), node("Neg", "c", "z"), node("Shape", "x", "s")], {"x": (2, 3)}, ["y", "x", "z", "s"],
                  {"c": normal(3)}, types={"s": TensorProto.INT64})
    graph, weights, _ = load(proto, precision="fp32")
    assert [n.op for n in graph.nodes] == ["relu"] and graph.outputs == ("y", "x", "z", "s")
    x = normal(2, 3)
    for got, expected in zip(ops.evaluate(graph, {"x": x}, weights).values(), run(proto, {"x": x})):
        np.testing.assert_array_equal(got, expected)


def test_names_are_kept() -> None:
    proto = model([node("Relu", "in/put:0", "mid"), node("Exp", "mid", "out-put")], {"in/put:0": (2,)}, ["out-put"])
    graph, _, _ = load(proto)
    assert graph.inputs == ("in/put:0",) and graph.outputs == ("out-put",)



def test_keys_are_turned_by_the_product_that_reads_them() -> None:
    """(0, 2, 3, 1) leaves (0, 2, 1, 3), which moves rows; a plain exchange of the last two axes leaves nothing."""
    heads = model([node("Transpose", "x", "k", perm=[0, 2, 3, 1]), node("MatMul", "q k", "y")],
                  {"x": (2, 5, 3, 4), "q": (2, 3, 6, 4)}, ["y"])
    plain = model([node("Transpose", "x", "k", perm=[0, 2, 1]), node("MatMul", "q k", "y")], {"x": (2, 5, 4), "q": (2, 6, 4)}, ["y"])
    for proto, left in ((heads, ["transpose", "matmul"]), (plain, ["matmul"])):
        graph, weights, _ = load(proto, precision="fp32")
        assert [n.op for n in graph.nodes] == left and graph.nodes[-1].attribute("trans_b") == 1
        feeds = {t.name: normal(*t.shape, seed=at) for at, t in enumerate(graph.tensors) if t.name in graph.inputs}
        np.testing.assert_allclose(ops.evaluate(graph, feeds, weights)["y"], run(proto, feeds)[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("bias", [(5,), (1, 1, 5), (3, 5), (1,)])
def test_what_is_added_to_the_columns_of_a_product_is_its_bias(bias: tuple[int, ...]) -> None:
    """A vector over the columns, and nothing else."""
    proto = model([node("MatMul", "x w", "p"), node("Add", "b p", "y")], {"x": (2, 3, 4)}, ["y"],
                  {"w": normal(4, 5), "b": normal(*bias, seed=1)})
    graph, weights, _ = load(proto, precision="fp32")
    assert (len(graph.nodes) == 1) == (bias[-1] == 5 and len(bias) != 2)
    feeds = {"x": normal(2, 3, 4, seed=2)}
    np.testing.assert_allclose(ops.evaluate(graph, feeds, weights)["y"], run(proto, feeds)[0], rtol=1e-5, atol=1e-5)


def test_equal_work_is_done_once() -> None:
    d = draft(("muls", "x", "a", {"scalar": 2.0}), ("muls", "x", "b", {"scalar": 2.0}), ("exp", "a", "c", {}), ("exp", "b", "d", {}),
              ("add", "c d", "e", {}), ("mul", "e u", "f", {}), ("add", "f v", "y", {}), u=np.ones(5), v=np.ones(5))
    assert kept(passes.share_equal, d) == ["muls", "exp", "add", "mul", "add"]
    assert {n.inputs[1] for n in d.nodes[-2:]} == {"u"}


def test_equal_results_of_the_graph_keep_their_makers() -> None:
    d = draft(("exp", "x", "y", {}), ("exp", "x", "z", {}), ("abs", "z", "w", {}), outputs=("y", "z", "w"))
    assert kept(passes.share_equal, d) == ["exp", "exp", "abs"]


LAST, FIRST = {"perm": (0, 2, 3, 1)}, {"perm": (0, 3, 1, 2)}  # channels last, and back


def test_transposes_that_put_all_back_go() -> None:
    d = draft(("transpose", "x", "a", LAST), ("relu", "a", "b", {}), ("add", "b bias", "c", {}), ("muls", "c", "d", {"scalar": 0.5}),
              ("transpose", "d", "e", FIRST), ("exp", "e", "y", {}), bias=normal(3))
    kept(passes.sink_transposes, d)
    kept(passes.drop_identities, d)
    assert kept(passes.drop_dead, d) == ["relu", "add", "muls", "exp"]


def test_a_residual_sum_is_taken_before_its_transposes() -> None:
    d = draft(("transpose", "x", "a", LAST), ("exp", "x", "k", {}), ("transpose", "k", "b", LAST), ("add", "a b", "c", {}),
              ("transpose", "c", "y", FIRST))
    kept(passes.sink_transposes, d)
    kept(passes.drop_dead, d)
    assert [n.op for n in d.nodes if n.op != "transpose"] == ["exp", "add"] and len(d.nodes) <= 4


@pytest.mark.parametrize("nodes", [
    [("transpose", "x", "a", LAST), ("relu", "a", "b", {}), ("exp", "a", "c", {}), ("add", "b c", "y", {})],  # read twice
    [("transpose", "x", "a", LAST), ("add", "a wide", "y", {})],  # broadcast by a larger constant
    [("transpose", "x", "a", LAST), ("transpose", "x", "b", {"perm": (0, 3, 2, 1)}), ("reduce_sum", "b", "r", {"axes": (1, 2)}),
     ("add", "a r", "y", {})]])
def test_other_transposes_stay_where_they_are(nodes: list[tuple[str, str, str, dict[str, object]]]) -> None:
    d = draft(*nodes, wide=normal(2, 2, 4, 5, 3))
    before = [n.op for n in d.nodes]
    assert kept(passes.sink_transposes, d) == before


ROWS = {"axis": 3}


def cut(start: int, size: int, step: int = 1) -> dict[str, object]:
    """What of rows of images of which the channels come last is taken."""
    return {"starts": (0, 0, 0, start), "sizes": (2, 4, 5, size), "steps": (1, 1, 1, step)}


def test_rows_are_cut_and_put_together_as_planes() -> None:
    """Parts of a detector's rows, worked on and put together again: one transpose of all is left behind."""
    d = draft(("transpose", "x", "a", LAST), ("slice", "a", "b", cut(0, 2)), ("slice", "a", "c", cut(6, 3, -2)),
              ("muls", "b", "e", {"scalar": 2.0}), ("add", "e grid", "f", {}), ("mul", "c c", "g", {}), ("concat", "f g ends", "y", ROWS),
              shape=(2, 7, 4, 5), grid=normal(2, 4, 5, 2), ends=normal(2, 4, 5, 1))
    kept(passes.sink_transposes, d)
    assert kept(passes.drop_dead, d) == ["slice", "slice", "muls", "add", "mul", "concat", "transpose"]


def test_single_elements_are_put_together_as_rows() -> None:
    """As rotary angles of neighbours are: three parts along a new last axis."""
    one = {"shape": (2, 8, 4, 1)}
    d = draft(("reshape", "x", "a", one), ("exp", "x", "b", {}), ("reshape", "b", "c", one), ("concat", "a c a", "y", ROWS),
              shape=(2, 8, 4))
    assert kept(passes.stack_rows, d) == ["reshape", "exp", "reshape", *["reshape"] * 3, "concat", "transpose", "reshape"]
    d = draft(("exp", "x", "a", {}), ("concat", "a x", "y", ROWS), shape=(2, 8, 4, 2))  # runs of two
    assert kept(passes.stack_rows, d) == ["exp", "concat"]


@pytest.mark.parametrize("nodes", [
    [("transpose", "x", "a", LAST), ("slice", "a", "b", cut(0, 2)), ("exp", "a", "c", {}), ("concat", "b c", "y", ROWS)],  # read whole too
    [("transpose", "x", "a", LAST), ("slice", "a", "b", cut(0, 2)), ("reduce_sum", "a", "c", {"axes": (3,)}),
     ("concat", "b c", "y", ROWS)],
    [("transpose", "x", "a", LAST), ("slice", "a", "b", cut(0, 5)), ("slice", "a", "c", cut(2, 5)), ("concat", "b c", "y", ROWS)],  # twice
    [("transpose", "x", "a", LAST), ("slice", "a", "y", {"starts": (0, 1, 0, 0), "sizes": (2, 2, 5, 7), "steps": (1, 1, 1, 1)})],  # whole
    [("transpose", "x", "a", LAST), ("exp", "x", "k", {}), ("transpose", "k", "b", LAST), ("concat", "a b", "y", {"axis": 1})]])
def test_whole_rows_and_what_is_read_otherwise_stay_transposed(nodes: list[tuple[str, str, str, dict[str, object]]]) -> None:
    d = draft(*nodes, shape=(2, 7, 4, 5))
    assert kept(passes.sink_transposes, d) == [op for op, *_ in nodes]


def exchanged(*steps: tuple[str, tuple[int, ...]]) -> list[str]:
    """The operators that all passes leave of transposes (by their permutation), views (by their shape) and a relu; values are kept."""
    nodes, last, constants = [], "x", {}
    for at, (op, numbers) in enumerate(steps):
        constants[f"s{at}"] = np.array(numbers)
        nodes.append(node("Transpose", last, f"t{at}", perm=list(numbers)) if op == "turn" else node("Reshape", f"{last} s{at}", f"t{at}"))
        last = f"t{at}"
    proto = model([*nodes, node("Relu", last, "y")], {"x": (2, 6, 4, 5)}, ["y"], constants)
    graph, weights, _ = load(proto, precision="fp32")
    x = normal(2, 6, 4, 5)
    np.testing.assert_array_equal(ops.evaluate(graph, {"x": x}, weights)["y"], run(proto, {"x": x})[0])
    return [n.op for n in graph.nodes]


def test_a_transpose_changes_place_with_a_view() -> None:
    """Of axes that stay neighbours, or of parts of one; ones are of no account."""
    assert exchanged(("turn", (0, 2, 1, 3)), ("view", (8, 6, 5)), ("turn", (0, 2, 1)), ("view", (2, 4, 5, 6))) == ["relu", "transpose"]
    assert exchanged(("turn", (2, 3, 0, 1)), ("view", (20, 12)), ("turn", (1, 0))) == ["reshape", "relu"]
    assert exchanged(("turn", (0, 2, 3, 1)), ("view", (2, 20, 1, 2, 3)), ("turn", (0, 3, 4, 2, 1))) == ["reshape", "relu", "reshape"]
    assert exchanged(("view", (2, 6, 20)), ("turn", (0, 2, 1)), ("view", (2, 4, 5, 6)), ("turn", (0, 3, 1, 2))) == ["relu"]


def test_a_view_of_what_a_transpose_brought_together_stays_behind_it() -> None:
    assert exchanged(("turn", (0, 2, 1, 3)), ("view", (2, 4, 30)), ("turn", (1, 0, 2))).count("transpose") == 2


@given(st.data())
@settings(max_examples=40)
def test_any_transposes_and_views(draw: st.DataObject) -> None:
    shapes = [(2, 6, 4, 5), (12, 20), (2, 2, 3, 20), (8, 1, 6, 5), (1, 240), (4, 3, 1, 4, 5), (6, 40)]
    steps: list[tuple[str, tuple[int, ...]]] = []
    rank = 4
    for _ in range(draw.draw(st.integers(1, 5))):
        if draw.draw(st.booleans()):
            steps.append(("turn", tuple(draw.draw(st.permutations(range(rank))))))
        else:
            steps.append(("view", draw.draw(st.sampled_from(shapes))))
            rank = len(steps[-1][1])
    exchanged(*steps)


def test_numbers_wait_behind_transposes_for_their_product() -> None:
    """Of an operand that a product alone reads; what others read is multiplied where it was."""
    heads = {"shape": (2, 3, 2, 10)}
    chain = [("muls", "x", "a", {"scalar": 0.5}), ("reshape", "a", "b", heads), ("transpose", "b", "c", {"perm": (0, 2, 3, 1)})]
    d = draft(*chain, ("matmul", "c w", "y", {}), w=normal(3, 4))
    kept(passes.scale_last, d)
    assert kept(passes.drop_dead, d) == ["reshape", "transpose", "muls", "matmul"]
    kept(passes.sink_transposes, d)
    assert kept(passes.drop_dead, d) == ["reshape", "muls", "transpose", "matmul"]
    d = draft(*chain, ("exp", "c", "e", {}), ("matmul", "c w", "m", {}), ("reduce_sum", "e", "y", {"axes": (0,)}), outputs=("m", "y"),
              w=normal(3, 4))
    assert kept(passes.scale_last, d)[:3] == ["muls", "reshape", "transpose"]


def test_pixels_of_a_convolution_become_rows_by_one_copy() -> None:
    proto = model([node("Conv", "x w", "c"), node("Reshape", "c s", "l"), node("Transpose", "l", "y", perm=[0, 2, 1])],
                  {"x": (1, 3, 6, 5)}, ["y"], {"w": normal(16, 3, 3, 3), "s": np.array([1, 16, -1])})
    graph, weights, _ = load(proto, precision="fp32")
    assert [n.op for n in graph.nodes] == ["conv2d", "transpose", "reshape"] and graph.nodes[1].attribute("perm") == (0, 2, 3, 1)
    x = normal(1, 3, 6, 5)
    np.testing.assert_allclose(ops.evaluate(graph, {"x": x}, weights)["y"], run(proto, {"x": x})[0], rtol=1e-5, atol=1e-5)


SAFE = [node("Softmax", "s", "p", axis=-1), node("IsNaN", "p", "n"), node("Where", "n zero p", "g"), node("Neg", "g", "y")]
LOW, NONE = np.float32(np.finfo(np.float32).min), np.float32(-np.inf)
CAUSAL = np.where(np.tri(4, dtype=bool), np.float32(0), NONE)


@pytest.mark.parametrize("mask, guarded", [
    (None, False), (CAUSAL, False), (np.full((4, 4), LOW), False), (np.full((4, 1), NONE), True),
    (np.where(np.arange(4)[:, None] > 0, np.float32(0), NONE) + np.zeros((4, 4), np.float32), True),
    (np.where(np.eye(4, dtype=bool), -NONE, np.float32(0)), True)])
def test_a_softmax_that_is_always_a_number_needs_no_guard(mask: np.ndarray | None, guarded: bool) -> None:
    """None of rows that see something, by a constant mask; the guard stays where a row sees nothing, or something infinite."""
    scores = [node("MatMul", "x w", "q"), node("Mul", "q half", "s" if mask is None else "k")]
    proto = model([*scores, *([] if mask is None else [node("Add", "k mask", "s")]), *SAFE], {"x": (4, 4)}, ["y"],
                  {"w": normal(4, 4), "half": np.float32(0.5), "zero": np.float32(0), **({} if mask is None else {"mask": mask})})
    graph, weights, _ = load(proto, precision="fp32")
    assert any(n.op == "is_nan" for n in graph.nodes) == guarded
    x = normal(4, 4, seed=2)
    np.testing.assert_allclose(ops.evaluate(graph, {"x": x}, weights)["y"], run(proto, {"x": x})[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("hidden, guarded", [(LOW, False), (NONE, True)])
def test_a_mask_that_is_worked_out_needs_a_guard_if_it_is_infinite(hidden: np.float32, guarded: bool) -> None:
    mask = [node("Greater", "m zero", "k"), node("Where", "k zero hidden", "h"), node("Add", "q h", "s")]
    proto = model([node("MatMul", "x w", "q"), *mask, *SAFE], {"x": (2, 4), "m": (2, 4)}, ["y"],
                  {"w": normal(4, 4), "zero": np.float32(0), "hidden": hidden})
    graph, weights, _ = load(proto, precision="fp32")
    assert any(n.op == "is_nan" for n in graph.nodes) == guarded
    feeds = {"x": normal(2, 4), "m": np.array([[1, 1, 0, 0], [0, 0, 0, 0]], np.float32)}
    np.testing.assert_allclose(ops.evaluate(graph, feeds, weights)["y"], run(proto, feeds)[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mask, left", [(np.zeros((4, 4), np.float32), 0), (np.maximum(CAUSAL, LOW), 0), (None, 1)])
def test_attention_asks_for_rows_that_see_nothing_only_where_there_may_be_any(mask: np.ndarray | None, left: int) -> None:
    """A mask that is given may hide a whole row; one that is constant and does not is known not to."""
    inputs = {"q": (1, 2, 4, 8), "k": (1, 2, 4, 8), **({"mask": (4, 4)} if mask is None else {})}
    known = {} if mask is None else {"mask": mask}
    proto = model([node("Attention", "q k k mask", "a"), node("Neg", "a", "y")], inputs, ["y"], known, opset=23)
    graph, weights, _ = load(proto, precision="fp32")
    assert sum(n.op == "where" for n in graph.nodes) == left
    feeds = {name: normal(*shape, seed=at) for at, (name, shape) in enumerate(inputs.items())}
    np.testing.assert_allclose(ops.evaluate(graph, feeds, weights)["y"], run(proto, feeds)[0], rtol=1e-4, atol=1e-5)


def test_scores_that_may_be_infinite_keep_their_guard() -> None:
    proto = model([node("Relu", "x", "s"), *SAFE], {"x": (2, 4)}, ["y"], {"zero": np.float32(0)})
    assert any(n.op == "is_nan" for n in load(proto)[0].nodes)


@pytest.mark.parametrize("op, value, left", [("Add", 0, ["relu"]), ("Sub", 0, ["relu"]), ("Mul", 1, ["relu"]), ("Div", 1, ["relu"]),
                                             ("Add", 1, ["relu", "add"])])
def test_constants_that_change_nothing_go(op: str, value: float, left: list[str]) -> None:
    proto = model([node("Relu", "x", "r"), node(op, "r c", "y")], {"x": (2, 4)}, ["y"], {"c": np.full((2, 4), value, np.float32)})
    assert [n.op for n in load(proto)[0].nodes] == left


def test_neighbours_are_joined_once() -> None:
    """Slices that follow each other are the tensor that they are of, or one slice; a concat that begins as another reads that."""
    def part(name: str, start: int, size: int, step: int = 1) -> tuple[str, str, str, dict[str, object]]:
        return "slice", "e", name, {"starts": (0, start, 0, 0), "sizes": (2, size, 4, 5), "steps": (1, step, 1, 1)}

    exp, along = ("exp", "x", "e", {}), {"axis": 1}
    d = draft(exp, part("a", 0, 2), part("b", 2, 4), ("abs", "b", "c", {}), ("concat", "a b c", "y", along), shape=(2, 6, 4, 5))
    assert kept(passes.join_neighbours, d) == ["exp", "slice", "slice", "abs", "concat"] and d.nodes[-1].inputs == ("e", "c")
    d = draft(exp, part("a", 0, 2), part("b", 2, 4), ("concat", "a b", "y", along), shape=(2, 6, 4, 5))
    assert kept(passes.join_neighbours, d)[-1] == "reshape"
    d = draft(exp, part("a", 0, 2), part("b", 2, 2), ("concat", "a b", "y", along), shape=(2, 6, 4, 5))
    kept(passes.join_neighbours, d)
    assert kept(passes.drop_dead, d) == ["exp", "slice", "reshape"]
    for second in (part("b", 1, 4), part("b", 2, 2, 2), part("b", 3, 3)):  # what overlaps, lies apart, or has gaps
        d = draft(exp, part("a", 0, 2), second, ("concat", "a b", "y", along), shape=(2, 6, 4, 5))
        assert kept(passes.join_neighbours, d)[-1] == "concat" and d.nodes[-1].inputs == ("a", "b")
    d = draft(exp, ("abs", "x", "a", {}), ("relu", "x", "b", {}), ("concat", "e a", "c", along), ("concat", "e a b", "d", along),
              ("concat", "e a b x", "y", along), ("concat", "b e a", "z", along), ("concat", "e a", "w", {"axis": 0}),
              outputs=("c", "d", "y", "z", "w"))
    assert kept(passes.join_neighbours, d)[3:] == ["concat"] * 5
    assert [n.inputs for n in d.nodes[3:]] == [("e", "a"), ("c", "b"), ("d", "x"), ("b", "e", "a"), ("e", "a")]
    d = draft(exp, part("a", 0, 2), part("b", 2, 4), ("abs", "x", "c", {}), ("relu", "x", "f", {}), ("concat", "a b c", "g", along),
              ("concat", "a b c f", "h", along), ("concat", "a b c f x", "y", along), shape=(2, 6, 4, 5), outputs=("g", "h", "y"))
    kept(passes.join_neighbours, d)  # halves of a split that grow
    assert [n.inputs for n in d.nodes if n.op == "concat"] == [("e", "c"), ("g", "f"), ("h", "x")]


def test_slices_of_slices_are_one() -> None:
    d = draft(("slice", "x", "a", {"starts": (0, 0, 1, 0), "sizes": (2, 3, 2, 5), "steps": (1, 1, 2, 1)}),
              ("slice", "a", "b", {"starts": (0, 1, 0, 4), "sizes": (2, 2, 2, 2), "steps": (1, 1, 1, -2)}),
              ("slice", "a", "c", {"starts": (1, 0, 1, 0), "sizes": (1, 2, 1, 5), "steps": (1, 2, 1, 1)}),
              ("relu", "b", "y", {}), ("relu", "c", "z", {}), outputs=("y", "z"))
    kept(passes.join_slices, d)
    passes.drop_dead(d)
    assert [n.op for n in d.nodes] == ["slice", "slice", "relu", "relu"] and all(n.inputs == ("x",) for n in d.nodes[:2])
    assert dict(d.nodes[0].attributes) == {"starts": (0, 1, 1, 4), "sizes": (2, 2, 2, 2), "steps": (1, 1, 2, -2)}


def test_a_slice_that_others_read_again_and_again_stays() -> None:
    part = {"starts": (0, 0, 0, 0), "sizes": (2, 3, 4, 2), "steps": (1, 1, 1, 2)}
    whole = {"starts": (0, 0, 1, 0), "sizes": (2, 3, 3, 2), "steps": (1, 1, 1, 1)}
    d = draft(("slice", "x", "a", part), ("slice", "a", "b", whole), ("slice", "a", "c", {**whole, "starts": (0, 0, 0, 0)}),
              ("add", "b c", "y", {}))
    kept(passes.join_slices, d)
    assert [n.inputs[0] for n in d.nodes[1:3]] == ["a", "a"]


def test_work_between_views_of_axes_of_one_element_is_done_without_them() -> None:
    """Scores of windows, to which a mask is added with an axis in front for the batch."""
    d = draft(("reshape", "x", "a", {"shape": (1, 2, 3, 4, 5)}), ("add", "a m", "b", {}),
              ("reshape", "b", "c", {"shape": (2, 3, 4, 5)}), ("softmax", "c", "y", {"axis": 3}), m=normal(1, 2, 1, 4, 5))
    kept(passes.work_unsqueezed, d)
    kept(passes.drop_identities, d)
    passes.drop_dead(d)
    assert [n.op for n in d.nodes] == ["add", "softmax"] and d.tensors[d.nodes[0].inputs[1]].shape == (2, 1, 4, 5)


@pytest.mark.parametrize("shape", [(2, 2, 3, 4, 5), (3, 2, 1, 4, 5)])
def test_work_that_makes_more_of_such_an_axis_stays(shape: tuple[int, ...]) -> None:
    d = draft(("reshape", "x", "a", {"shape": (1, 2, 3, 4, 5)}), ("add", "a m", "b", {}), ("reshape", "b", "y", {"shape": (4, 3, 4, 5)}),
              m=normal(*shape)) if shape[2] == 3 else draft(
        ("reshape", "x", "a", {"shape": (2, 3, 1, 4, 5)}), ("add", "m a", "b", {}), ("reshape", "b", "y", {"shape": (2, 9, 4, 5)}),
        m=normal(2, 3, 3, 4, 5)[:1])
    before = [n.op for n in d.nodes]
    assert kept(passes.work_unsqueezed, d) == before


KEYS, MASK = (2, 2, 5, 4), (3, 5)


def grouped(*more: tuple[str, str, str, dict[str, object]], mask: str = "", **constants: np.ndarray) -> Draft:
    """Attention of six heads of three rows, of which three each share keys and values; x are the queries."""
    keys = [(op, i.replace("k", n), o.replace("k", n), a) for n in "kv" for op, i, o, a in (
        ("reshape", "k", "ka", {"shape": (2, 2, 1, 5, 4)}), ("expand", "ka", "kb", {"shape": (2, 2, 3, 5, 4)}),
        ("reshape", "kb", "kc", {"shape": (2, 6, 5, 4)}))]
    return draft(*more, *keys, ("attention", f"x kc vc {mask}", "y", {"scale": 0.5}), shape=(2, 6, 3, 4), k=normal(*KEYS),
                 v=normal(*KEYS, seed=1), **constants)


@pytest.mark.parametrize("shape", [None, (5,), MASK, (2, 1, 1, 5), (2, 6, 3, 5), (1, 1, 3, 5)])
def test_heads_that_share_keys_are_rows_of_one_product(shape: tuple[int, ...] | None) -> None:
    d = grouped() if shape is None else grouped(mask="m", m=normal(*shape))
    kept(passes.share_keys, d)
    passes.drop_dead(d)
    assert "expand" not in [n.op for n in d.nodes]
    found = next(n for n in d.nodes if n.op == "attention")
    assert [d.tensors[i].shape for i in found.inputs[:3]] == [(2, 2, 9, 4), KEYS, KEYS]


def test_heads_stay_where_a_mask_would_be_made_anew() -> None:
    d = grouped(("slice", "x", "s", {"starts": (0, 0, 0, 0), "sizes": (2, 1, 3, 1), "steps": (1, 1, 1, 1)}),
                ("expand", "s", "m", {"shape": (2, 1, 3, 5)}), mask="m")
    before = [n.op for n in d.nodes]
    assert kept(passes.share_keys, d) == before
