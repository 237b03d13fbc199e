"""Operators of the user's own, from a file of definitions and a model with nodes of a custom domain to values, each against NumPy."""
from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import aoec
from aoec.artifact.artifact import load
from aoec.base.errors import CheckError, UnsupportedError
from aoec.cli import main
from aoec.frontend.own import own_taps
from aoec.frontend.translate import onnx as frontend
from aoec.ir.text.parse import parse_func, parse_graph
from aoec.ir.text.show import show
from aoec.lowering.arrange.fuse import fuse
from aoec.ops import evaluate, interpret
from aoec.ops.own import read_definitions, read_files

pytestmark = pytest.mark.usefixtures("few")

OPS = str(Path(__file__).parent / "own.op")
Arrays = Sequence[np.ndarray]


def model_of(op: str, shapes: Sequence[tuple[int, ...]], results: int = 1, attributes: Mapping[str, float] | None = None,
             dtype: int = TensorProto.FLOAT) -> onnx.ModelProto:
    """A model of one node of a custom domain."""
    inputs = [helper.make_tensor_value_info(f"x{i}", dtype, s) for i, s in enumerate(shapes)]
    outputs = [helper.make_tensor_value_info(f"y{i}", dtype, None) for i in range(results)]
    node = helper.make_node(op, [i.name for i in inputs], [o.name for o in outputs], op, domain="my.own", **(attributes or {}))
    versions = [helper.make_opsetid("", 18), helper.make_opsetid("my.own", 1)]
    return helper.make_model(helper.make_graph([node], "net", inputs, outputs), opset_imports=versions)


def data(shapes: Sequence[tuple[int, ...]]) -> dict[str, np.ndarray]:
    return {f"x{i}": np.random.default_rng(i).standard_normal(s).astype(np.float32) for i, s in enumerate(shapes)}


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def scale_bias_gelu(x: np.ndarray, s: np.ndarray, b: np.ndarray) -> Arrays:
    t = x * s + b
    return [t / (1 + np.exp(-1.702 * t))]


def banded(d: np.ndarray, x: np.ndarray) -> Arrays:
    wide = np.pad(x, ((2, 2), (0, 0)))
    return [sum(d[:, i:i + 1] * wide[i:i + len(x)] for i in range(5))]  # type: ignore[list-item]


def depthwise(x: np.ndarray, w: np.ndarray) -> Arrays:
    return [np.array([[np.convolve(row, w[c][::-1], "same") for c, row in enumerate(image)] for image in x])]


def row_quantised(x: np.ndarray) -> Arrays:
    most = np.abs(x).max(1, keepdims=True)
    return [np.rint(x * (np.float32(127) / most)).astype(np.int8), most[:, 0] / 127]


# operator -> shapes, attributes, the same in NumPy, how many results
CASES: dict[str, tuple[list[tuple[int, ...]], dict[str, float], Callable[..., Arrays], int]] = {
    "scale_bias_gelu": ([(33, 80), (80,), (80,)], {"alpha": 1.702}, scale_bias_gelu, 1),
    "row_norm": ([(17, 96)], {"eps": 1e-5}, lambda x: [x / (np.abs(x).sum(1, keepdims=True) + 1e-5)], 1),
    "batched": ([(2, 32, 48), (2, 48, 33), (33,)], {}, lambda a, b, c: [np.maximum(a @ b + c, 0)], 1),
    "banded": ([(40, 5), (40, 64)], {"half": 2}, banded, 1),
    "depthwise": ([(2, 16, 48), (16, 3)], {"pad": 1}, depthwise, 1),
    "row_quantised": ([(40, 96)], {}, row_quantised, 2),
    "weighted": ([(48, 160), (160,)], {}, lambda x, w: [x @ w], 1),
    "centred": ([(24, 64)], {}, lambda x: [x.max(1), x - x.max(1, keepdims=True)], 2),
    "my_attention": ([(2, 32, 64), (2, 48, 64), (2, 48, 32)], {"scale": 0.125},
                  lambda q, k, v: [softmax(q @ k.swapaxes(1, 2) * 0.125) @ v], 1),
}


@pytest.mark.parametrize("op", CASES)
def test_values_from_the_artifact_alone(op: str, tmp_path: Path) -> None:
    shapes, attributes, wanted, results = CASES[op]
    onnx.save(model_of(op, shapes, results, attributes), tmp_path / "net.onnx")
    definitions = tmp_path / "mine.op"
    definitions.write_text(Path(OPS).read_text())
    aoec.compile(tmp_path / "net.onnx", tmp_path / "net.aoec", ops=definitions, bank=tmp_path / "bank.db", jobs=1)
    definitions.unlink()
    session, feeds = aoec.Session(tmp_path / "net.aoec"), data(shapes)
    assert session.on_host == ()
    for got, right in zip(session.run(None, feeds), wanted(*(feeds[i].astype(np.float64) for i in feeds)), strict=True):
        assert got.dtype == (np.int8 if right.dtype == np.int8 else np.float32) and got.shape == right.shape
        step = 1 if right.dtype == np.int8 else 4e-3 * np.abs(right).max()  # fp16: 2^-10 an operation
        np.testing.assert_allclose(got.astype(float), right.astype(float), rtol=0, atol=step)
    assert parse_graph(show(load(tmp_path / "net.aoec").graph)) == load(tmp_path / "net.aoec").graph


@pytest.mark.parametrize("op", CASES)
def test_the_graph_means_what_the_definition_says(op: str) -> None:
    shapes, attributes, wanted, results = CASES[op]
    graph, weights, _ = frontend.load(model_of(op, shapes, results, attributes), None, "fp32", read_files([OPS]))
    again = parse_graph(show(graph))
    assert again == graph
    made = evaluate(again, data(shapes), weights)
    for got, right in zip(made.values(), wanted(*(x.astype(np.float64) for x in data(shapes).values())), strict=True):
        np.testing.assert_allclose(got, right, rtol=1e-5, atol=1e-5 * np.abs(right).max())


def test_what_products_are_made_of() -> None:
    """Products are the cube's, a bias and relu behind one are words that are fused with it, and the rest is an operator a tensor."""
    shapes, attributes, _, _ = CASES["my_attention"]
    graph, weights, _ = frontend.load(model_of("my_attention", shapes, 1, attributes), None, "fp16", read_files([OPS]))
    fused, _ = fuse(graph, weights)
    assert [n.op for n in fused.nodes] == ["matmul", "my_attention.W", "matmul"]
    assert [g.kind for g in fused.groups] == ["cube", "vector", "cube"]
    shapes, attributes, _, _ = CASES["batched"]
    graph, _, _ = frontend.load(model_of("batched", shapes, 1, attributes), None, "fp16", read_files([OPS]))
    assert [n.op for n in graph.nodes] == ["matmul", "add", "relu"]


def test_own_operators_join_groups_between_others(tmp_path: Path) -> None:
    """An elementwise one stands in a chain like a word of aoec's, and its shape is inferred for what follows it."""
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, s) for name, s in (("x", ["rows", 48]), ("s", [48]))]
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("scale_bias_gelu", ["a", "s", "s"], ["b"], domain="my", alpha=1.0),
             helper.make_node("Softmax", ["b"], ["c"], axis=-1), helper.make_node("ReduceMax", ["c"], ["y"], keepdims=0)]
    proto = helper.make_model(helper.make_graph(nodes, "net", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]),
                              opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("my", 1)])
    session = aoec.compile(proto, tmp_path / "n.aoec", ops=[OPS], bank=tmp_path / "bank.db", input_shape={"x": (24, 48)}, precision="fp32")
    first = load(tmp_path / "n.aoec").graph.groups[0]
    assert len(first.nodes) == 3 and session.on_host == ()
    x, s = np.random.default_rng(0).standard_normal((24, 48)), np.random.default_rng(1).standard_normal(48)
    t = np.maximum(x, 0) * s + s
    wanted = softmax(t / (1 + np.exp(-t))).max()
    np.testing.assert_allclose(session.run(None, {"x": x.astype(np.float32), "s": s.astype(np.float32)})[0], wanted, rtol=1e-4)


@pytest.mark.parametrize("definition, complaint", [
    ("relu(X[n]) -> Y[n] { Y[n] = X[n] }", r"m.op:1:1: operator relu has the name of a word of aoec's own"),
    ("f(X[n]) -> Y[n] { Y[n] = X[n] +* 2.0 }", r"m.op:1:32: expected"),
    ("f(X[n]) -> Y[n] { Y[n] = Z[n] }", r"m.op:1:26: meaning of f: unknown buffer Z"),
    ("f(X[n]) -> Y[n] {\n  Y[n] = sigmod(X[n]) }", r"m.op:2:10: unknown function sigmod; did you mean sigmoid"),
    ("f(X[m, n]) -> Y[m] { Y[m] = X[m, n] }", "given a value for each n, which is none of its indices"),
    ("f(X[n]) -> Y[n] { Z[n] = X[n] }", "operator f writes no Y"),
    ("f(X[n], Z[n]) -> Y[n] { Y[n] = X[n] }", "does not read its argument Z"),
    ("f(X[n]) -> Y[k: 2*n] { Y[2*n] = X[n] }", "written at loops alone"),
    ("f(X[n]) -> Y[n] { Y[n] = X[n] }\nf(X[n]) -> Y[n] { Y[n] = X[n] }", r"operator f is declared twice"),
    ("", "it defines 0 operators"), ("# " + "x" * (1 << 20), "are too many"),
    ("f(X[n]) -> Y[n] { Y[n] += " + "exp(" * 200 + "X[n]" + ")" * 200 + " }", "nested more than 100 levels"),
])
def test_definitions_that_are_none(definition: str, complaint: str) -> None:
    with pytest.raises(CheckError.__mro__[1], match=complaint):
        read_definitions(definition, "m.op")


@pytest.mark.parametrize("definition, shapes, attributes, complaint", [
    ("f(X[m, n]) -> Y[m] { Y[m] += X[m, n] }", [(4,)], {}, r"node f \(f\): f: arguments of shapes \[4\] do not fit X\[m, n\]"),
    ("f(X[n], Z[n]) -> Y[n] { Y[n] = X[n] + Z[n] }", [(4,), (5,)], {}, "dimension n is 4 and, in Z, 5"),
    ("f(X[n], Z[n]) -> Y[n] { Y[n] = X[n] + Z[n] }", [(4,)], {}, "f has the arguments X, Z, and the node has 1"),
    ("f(X[n]; a) -> Y[n] { Y[n] = X[n] * a }", [(4,)], {}, "f needs the attribute a, a number"),
    ("f(X[n]) -> Y[n] { Y[n] = X[n] }", [(4,)], {"a": 1.0}, "attribute a is no number that f takes; it has no parameters"),
    ("f(X[n]; a) -> Y[n] { Y[n] = X[n] / a }", [(4,)], {"a": 0.0}, "divides by zero"),
    ("f(X[n]) -> Y[n] { Y[n] = X[n + 1] }", [(4,)], {}, r"reads from 1 to 4 of 4; say what lies outside, as in X\[n \+ 1\] else 0.0"),
    ("f(X[n]) -> Y[n] { Y[n] = X[n // 0] }", [(4,)], {}, "divides by zero"),
    ("f(X[n]) -> Y[k: n - 9] { Y[k] = X[0] }", [(4,)], {}, "the extent of k is not a whole number"),
    ("f(X[n]) -> Y[k: n*1000000000000] { Y[k] = X[0] }", [(4,)], {}, "more than 1,099,511,627,776 elements"),
    ("f(X[n]) -> Y[k: n//2] { T[n] = X[n]\n Y[n] = T[n] }", [(4,)], {}, r"writes \[4\] elements of Y, which has \[2\]"),
    ("f(X[m, k], W[k, n]) -> Y[m, n] { T[m, k] = X[m, k]\n Y[m, n] += T[m, k] * W[k, n]\n T[m, k] = T[m, k] + 1.0 }", [(4, 4), (4, 4)], {},
     "T is written again behind a product that reads it"),
    ("g(X[n]) -> Y[n] { Y[n] = X[n] }", [(4,)], {}, r"my.own.f \(1 node\): neither ONNX nor aoec.*--ops \(given: g\)"),
])
def test_nodes_that_do_not_fit(definition: str, shapes: list[tuple[int, ...]], attributes: dict[str, float], complaint: str) -> None:
    with pytest.raises((CheckError.__mro__[1], UnsupportedError), match=complaint):
        frontend.load(model_of("f", shapes, 1, attributes), None, "fp16", read_definitions(definition))


# what the vector unit has no instruction or no layout for, and what a schedule of it would have to hold whole
STRANGE = ("f(X[m, n]) -> Y[m, n] { Y[m, n] = max(X[m, n], 0.0, X[m, 0]) }",
           "f(X[m, n]) -> Y[m, r: m] { Y[m, r] += X[m, n] * X[r, n] init 0.5 }",
           "f(X[m, n]) -> Y[q: m, r: m] { Y[q, r] += X[q, n] * X[r, m] }",
           "f(X[m, n]) -> Y[n, m] { Y[n, m] = exp(X[m, n]) }", "f(X[m, n]) -> Y[m, h: n//2] { Y[m, h] = X[m, 2*h] }",
           "f(X[m, n]) -> Y[m, r: n] { Y[m, r] = X[m, 31 - r] + 1.0 }", "f(X[m, n]) -> Y[m, n] { Y[m, n] = select(m < n, X[m, n], 0.0) }",
           "f(X[m, n]) -> Y[m, k: 3] { Y[m, k] = X[m, k + n - n - 1] else 2.0 }",
           "f(X[m, n]) -> Y[n] { Y[n] += X[m, n] * X[m, n] init 1.0 }",
           "f(X[m, n]) -> Y[m, n] { Y[m, n] = X[m, n]\n Y[m, n] max= X[m, n] * 2.0 init X[m, 0] }")


@pytest.mark.parametrize("definition", STRANGE)
def test_values_are_right_wherever_they_are_made(definition: str, tmp_path: Path) -> None:
    """On the AI Core or, said so, on the host: the first program of a definition is checked before it is written."""
    definition = definition.replace("k + n - n - 1", "k - 1")
    (tmp_path / "f.op").write_text(definition)
    session = aoec.compile(model_of("f", [(16, 32)]), tmp_path / "f.aoec", ops=tmp_path / "f.op", bank=tmp_path / "bank.db")
    graph, weights, _ = frontend.load(model_of("f", [(16, 32)]), None, "fp32", read_definitions(definition))
    (wanted,) = evaluate(graph, data([(16, 32)]), weights).values()
    np.testing.assert_allclose(session.run(None, data([(16, 32)]))[0], wanted, rtol=0, atol=4e-3 * np.abs(wanted).max())


def test_a_program_that_is_wrong_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from aoec.jobs.verify import verify
    monkeypatch.setattr(verify, "verify_group", lambda *_: ["group g0: its values differ"])
    shapes, attributes, _, _ = CASES["row_norm"]
    session = aoec.compile(model_of("row_norm", shapes, 1, attributes), tmp_path / "f.aoec", ops=OPS, bank=tmp_path / "bank.db")
    assert session.on_host == ("row_norm",)
    with pytest.raises(UnsupportedError, match="its values differ"):
        aoec.compile(model_of("row_norm", shapes, 1, attributes), tmp_path / "f.aoec", ops=OPS, bank=tmp_path / "bank.db", no_host=True)


def test_large_statements_are_interpreted_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = [(2, 16, 48), (16, 3)]
    monkeypatch.setattr(own_taps, "MOST_TAPS", 0)
    graph, weights, _ = frontend.load(model_of("depthwise", shapes, 1, {"pad": 1}), None, "fp32", read_files([OPS]))
    whole = evaluate(graph, data(shapes), weights)
    monkeypatch.setattr(interpret, "LIMIT_HELD", 7)
    np.testing.assert_allclose(evaluate(graph, data(shapes), weights)["y0"], whole["y0"], rtol=1e-6, atol=1e-6)
    monkeypatch.setattr(interpret, "LIMIT_POINTS", 2 * 16 * 48)
    with pytest.raises(CheckError, match="points are too many to interpret"):
        evaluate(graph, data(shapes), weights)


def test_calls_by_name_and_sizes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["lower", "row_norm(m=64, n=128, eps=0.5)", "--ops", OPS]) == 0
    func = parse_func(capsys.readouterr().out)
    assert "0.5" in show(func) and [show(d) for d in func.inputs[0].shape] == ["64", "128"]
    call = "batched(b=2, m=32, k=64, n=48, fp16)"
    assert main(["lower", call, "--ops", OPS]) == 2 and "give --group, one of g0 (matmul), g1 (add relu)" in capsys.readouterr().err
    assert main(["lower", call, "--ops", OPS, "--group", "g0"]) == 0 and "mm:" in capsys.readouterr().out
    assert main(["lower", "row_norm(m=64, n=128)", "--ops", OPS]) == 2 and "row_norm needs eps=... too" in capsys.readouterr().err
    assert main(["lower", "row_norm(m=64)"]) == 2 and "unknown operator row_norm" in capsys.readouterr().err
    out = str(tmp_path / "s.csv")
    assert main(["sweep", "row_norm(n=64, eps=1e-5)", "--ops", OPS, "--set", "m=32,64", "--verify", "-o", out]) == 0
    assert [line.split(",").count("yes") for line in Path(out).read_text().splitlines()[1:]] == [1, 1]


def test_parameters_are_as_they_were_written() -> None:
    """ONNX keeps reals in 32 bits; the shortest number that these stand for is what somebody wrote."""
    graph, _, _ = frontend.load(model_of("row_norm", [(2, 2)], 1, {"eps": 1e-5}), None, "fp16", read_files([OPS]))
    assert graph.nodes[0].attributes == (("eps", 1e-5),) and math.isclose(np.float32(1e-5), 1e-5, rel_tol=1e-7)


def test_two_files_with_one_name_and_a_local_function(tmp_path: Path) -> None:
    (tmp_path / "b.op").write_text("row_norm(X[m, n]) -> Y[m, n] { Y[m, n] = X[m, n] * 2.0 }")
    with pytest.raises(CheckError, match=r"b.op: operator row_norm is defined in another file"):
        read_files([OPS, str(tmp_path / "b.op")])
    proto = model_of("row_norm", [(4, 8)])
    body = [helper.make_node("Neg", ["x"], ["y"])]
    proto.functions.append(helper.make_function("my.own", "row_norm", ["x"], ["y"], body, [helper.make_opsetid("", 18)]))
    graph, weights, _ = frontend.load(proto, None, "fp32", read_files([str(tmp_path / "b.op")]))
    feeds = data([(4, 8)])
    np.testing.assert_array_equal(evaluate(graph, feeds, weights)["y0"], feeds["x0"] * 2)  # the user's own stands for the model's
