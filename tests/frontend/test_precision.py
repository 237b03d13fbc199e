"""Modes of precision: which node calculates in what, casts between them, values against fp32, and what is said of it."""
from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import aoec
from aoec.artifact.artifact import load as load_artifact
from aoec.base.errors import CheckError, UnsupportedError
from aoec.base.precision import PRECISIONS, SPELLINGS
from aoec.cli import main
from aoec.frontend import zoo
from aoec.frontend.translate.onnx import load
from aoec.ir.graph.graph import Graph
from aoec.ir.text.parse import parse_graph
from aoec.ir.text.show import show
from aoec.lowering.arrange.fuse import fuse
from aoec.ops import OPS, evaluate
from aoec.ops.narrowed import find_narrowed, summary
from aoec.ops.own import read_definitions
from aoec.target.machine import load as load_machine
from tests.frontend.models import model, node, normal, run
from tests.models.bert import small_bert, words

SENSITIVE = frozenset(op.name for op in OPS.values() if op.sensitive)
# of results, relative to the largest, against fp32: what 10 and 7 bits of a fraction make of some dozens of operations; "keep" leaves
# attention in single operators, whose sums a library may take in another order
TOLERANCE = {"fp32": 0.0, "keep": 1e-6, "fp16": 3e-3, "mixed": 3e-3, "cube16": 3e-3, "bf16": 3e-2}
HALF = TensorProto.FLOAT16


def dtypes(graph: Graph) -> dict[str, set[str]]:
    """Operator -> the dtypes of its results."""
    tensors, out = {t.name: t for t in graph.tensors}, dict[str, set[str]]()
    for n in graph.nodes:
        out.setdefault(n.op, set()).add(tensors[n.outputs[0]].dtype)
    return out


@pytest.mark.parametrize("mode", PRECISIONS)
@pytest.mark.parametrize("name", ["bert", "cnn"])
def test_values_against_fp32(name: str, mode: str) -> None:
    proto = small_bert(1) if name == "bert" else zoo.tiny_resnet()
    graph, weights, _ = load(proto, precision=mode)
    wide, wide_weights, _ = load(proto, precision="fp32")
    tensors = {t.name: t for t in graph.tensors}
    feeds = words() if name == "bert" else {i: normal(*tensors[i].shape, seed=1) for i in graph.inputs}
    for (got, wanted) in zip(evaluate(graph, feeds, weights).values(), evaluate(wide, feeds, wide_weights).values(), strict=True):
        assert np.abs(got.astype(np.float64) - wanted).max() <= TOLERANCE[mode] * np.abs(wanted).max()
    assert parse_graph(show(graph)) == graph
    made = dtypes(graph)
    if mode == "mixed":
        assert made.pop("matmul") == {"fp16"} and all(made[op] == {"fp32"} for op in SENSITIVE if op in made)
    elif mode == "cube16":
        assert made.pop("cast") == {"fp16"} and set().union(*made.values()) == {"fp32"}
        assert {n.op for n in find_narrowed(graph)} == {"matmul", "attention" if name == "bert" else "conv2d"}
    else:
        assert set().union(*made.values()) == {"fp32" if mode == "keep" else mode}


def test_casts_are_few_and_stand_in_the_groups_that_need_them() -> None:
    """No cast of a cast, no two of one tensor to one dtype, and in a BERT none that is a group of its own."""
    graph, weights, _ = load(small_bert(2), precision="mixed")
    casts = [n for n in graph.nodes if n.op == "cast"]
    tensors = {t.name: t for t in graph.tensors}
    made = {n.outputs[0] for n in casts}
    assert len({(n.inputs[0], tensors[n.outputs[0]].dtype) for n in casts}) == len(casts) and made.isdisjoint(n.inputs[0] for n in casts)
    sensitive = sum(n.op in SENSITIVE for n in graph.nodes)
    assert len(casts) == 2 * sensitive
    fused, _ = fuse(graph, weights)
    kinds = {n.name: n.op for n in fused.nodes}
    assert all({kinds[n] for n in g.nodes} != {"cast"} for g in fused.groups)


def test_what_lies_between_sensitive_nodes_stays_wide() -> None:
    """A softmax that is spelt out: the product between exponential and sum is not rounded; a matrix product is, whatever reads it."""
    proto = model([node("Exp", "x", "e"), node("Mul", "e k", "m"), node("ReduceSum", "m", "s", keepdims=1), node("Relu", "s", "r"),
                   node("MatMul", "x w", "p"), node("Log", "p", "l")], {"x": (4, 32)}, ["r", "l"], {"k": normal(32), "w": normal(32, 16)})
    made = dtypes(load(proto, precision="mixed")[0])
    assert made["exp"] == made["mul"] == made["reduce_sum"] == made["log"] == {"fp32"} and made["relu"] == made["matmul"] == {"fp16"}


@pytest.mark.parametrize("mode", ["fp16", "mixed", "bf16"])
def test_lengths_of_vectors_whose_squares_are_beyond_fp16(mode: str) -> None:
    """A sum of 35,840 squares of 9, whose root is 568: in fp16 it was infinite, and what is divided by it nothing."""
    proto = model([node("ReduceL2", "x", "t", axes=[1, 2], keepdims=1), node("Div", "x t", "y")], {"x": (2, 56, 640)}, ["y"])
    graph, weights, _ = load(proto, precision=mode)
    made = dtypes(graph)
    assert made["reduce_sum"] == made["sqrt"] == {"fp32"} and made["div"] == {"bf16" if mode == "bf16" else "fp16"}
    x = 3 * normal(2, 56, 640)
    wanted, got = run(proto, {"x": x})[0], evaluate(graph, {"x": x}, weights)[graph.outputs[0]].astype(np.float32)
    assert np.abs(got - wanted).max() < TOLERANCE[mode] * np.abs(wanted).max()
    (first, *_) = fuse(graph, weights)[0].groups
    assert [n.split("_0")[0] for n in first.nodes][-2:] == ["mul", "reduce_sum"]  # a square's one reader reads it twice


def test_normalisations_are_sensitive() -> None:
    assert {op.name for op in OPS.values() if op.family in ("softmax", "row_norm", "normalise")} < SENSITIVE


def test_own_operators_are_sensitive_by_what_they_do() -> None:
    own = read_definitions("total(X[m, n]) -> Y[m] { Y[m] += X[m, n] }\ntwice(X[m, n]) -> Y[m, n] { Y[m, n] = X[m, n] * 2.0 }")
    nodes = [helper.make_node("twice", ["x"], ["t"], domain="my"), helper.make_node("total", ["t"], ["y"], domain="my")]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", [4, 8]), ("y", [4]))]
    proto = helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:]),
                              opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("my", 1)])
    made = dtypes(load(proto, precision="mixed", definitions=own)[0])
    assert made["total"] == {"fp32"} and made["twice"] == {"fp16"}


# ---------------------------------------------------------------- keep

def halves(bf16: bool = True) -> onnx.ModelProto:
    """fp16, but for a norm that the model calculates in fp32, and one result of bf16."""
    return model([node("MatMul", "x w", "p"), node("Cast", "p", "wide", to=1), node("LayerNormalization", "wide scale", "n"),
                  node("Cast", "n", "back", to=HALF), node("Add", "back x", "y"),
                  *[node("Cast", "x", "b", to=TensorProto.BFLOAT16)] * bf16],
                 {"x": (4, 32)}, ["y", "b"][:1 + bf16], {"w": normal(32, 32).astype(np.float16), "scale": normal(32)},
                 types={"x": HALF, "y": HALF, "b": TensorProto.BFLOAT16})


def test_keep_is_what_the_model_says() -> None:
    graph, weights, _ = load(halves(), precision="keep")
    made, tensors = dtypes(graph), {t.name: t for t in graph.tensors}
    assert made["matmul"] == made["add"] == {"fp16"} and made["layer_norm"] == {"fp32"} and find_narrowed(graph) == []
    assert (tensors["x"].dtype, tensors["y"].dtype, tensors["b"].dtype) == ("fp16", "fp16", "bf16")
    assert sorted(tensors[n.outputs[0]].dtype for n in graph.nodes if n.op == "cast") == ["bf16", "fp16", "fp32"]
    x = normal(4, 32, seed=2).astype(np.float16)
    got, wanted = evaluate(graph, {"x": x}, weights), run(halves(bf16=False), {"x": x})[0]
    np.testing.assert_allclose(got["y"].astype(np.float32), wanted.astype(np.float32), rtol=0, atol=4e-3 * np.abs(wanted).max())


def test_what_a_model_has_less_of_is_not_counted() -> None:
    """A node of fp16 in the model is not lowered by fp16, and by bf16 it is; conversions and casts are no nodes of the model."""
    graph, _, _ = load(halves(), precision="fp16")
    assert [(n.op, n.model, n.run) for n in find_narrowed(graph)] == [("layer_norm", "fp32", "fp16")]
    assert summary(graph, find_narrowed(graph)).startswith("1 of ")
    graph, _, _ = load(halves(), precision="bf16")
    assert {(n.op, n.model) for n in find_narrowed(graph)} == {("matmul", "fp16"), ("layer_norm", "fp32"), ("add", "fp16")}


# ---------------------------------------------------------------- what users see

NET = [node("MatMul", "x w", "p"), node("Softmax", "p", "s", axis=-1), node("MatMul", "s v", "y")]


def net(tmp_path: Path, half: bool = False, columns: int = 32) -> Path:
    kind = np.float16 if half else np.float32
    types = {"x": HALF, "y": HALF} if half else None
    proto = model(NET, {"x": (16, 64)}, ["y"], {"w": normal(64, 48).astype(kind), "v": normal(48, columns).astype(kind)}, types=types)
    onnx.save(proto, tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


@pytest.mark.parametrize("mode, half", [("mixed", False), ("keep", True), ("bf16", False)])
def test_a_model_runs_in_its_mode_and_keeps_its_types(mode: str, half: bool, tmp_path: Path) -> None:
    path = net(tmp_path, half)
    session = aoec.compile(path, tmp_path / "net.aoec", precision=mode, bank=tmp_path / "bank.db", verify=True)
    assert session.on_host == () and load_artifact(tmp_path / "net.aoec").precision == mode
    kind = "tensor(float16)" if half else "tensor(float)"
    assert [a.type for a in (*session.get_inputs(), *session.get_outputs())] == [kind, kind]
    x = normal(16, 64, seed=3).astype(np.float16 if half else np.float32)
    (got,), (wanted,) = session.run(None, {"x": x}), run(onnx.load(path), {"x": x})
    assert got.dtype == wanted.dtype
    assert np.abs(got.astype(np.float64) - wanted).max() <= max(TOLERANCE[mode], 3e-3) * np.abs(wanted).max()
    assert session.report["lowered"] == ({} if half else {"matmul": 2} if mode == "mixed" else {"matmul": 2, "softmax": 1})


@pytest.mark.parametrize("target", ["Ascend910B3", "Ascend310P3"])
def test_products_of_halves_with_results_of_fp32(target: str, tmp_path: Path) -> None:
    """On chips whose cubes lack fp32 too; five columns are half a fractal's in fp32."""
    path = net(tmp_path, columns=5)
    session = aoec.compile(path, tmp_path / "net.aoec", precision="force_fp32", target=target, bank=tmp_path / "bank.db")
    x = normal(16, 64, seed=3)
    wanted = run(onnx.load(path), {"x": x})[0]
    assert session.on_host == () and session.report["lowered"] == {"matmul": 2} and session.report["precision"] == "cube16"
    assert np.abs(session.run(None, {"x": x})[0] - wanted).max() <= TOLERANCE["cube16"] * np.abs(wanted).max()


def test_attention_apart_casts_its_shares(tmp_path: Path) -> None:
    graph, weights, _ = load(small_bert(1), precision="cube16")
    fused, _ = fuse(graph, weights, load_machine("Ascend310P3"))
    tensors = {t.name: t.dtype for t in fused.tensors}
    assert all({tensors[i] for i in n.inputs[:2]} == {"fp16"} for n in fused.nodes if n.op == "matmul")


def test_the_report_of_what_was_lowered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, table, graph = net(tmp_path), tmp_path / "lowered.csv", tmp_path / "net.graph"
    command = ["import", str(path), "--precision", "allow_mix_precision", "--lowered", str(table), "-o", str(graph)]
    assert main(command) == 0
    rows = [list(r.values()) for r in csv.DictReader(table.open())]
    assert rows == [["", n, "matmul", "fp32", "fp16"] for n in ("matmul_0", "matmul_0_1")]
    assert "fp32[16, 48]" in graph.read_text()
    assert main(["import", str(path), "--precision", "allow_fp32_to_fp16"]) == 2 and "nor ATC's force_fp16" in capsys.readouterr().err


@pytest.mark.parametrize("name", SPELLINGS)
def test_the_vendors_names(name: str) -> None:
    proto = model(NET, {"x": (16, 64)}, ["y"], {"w": normal(64, 48), "v": normal(48, 32)})
    assert load(proto, precision=name)[0] == load(proto, precision=SPELLINGS[name])[0]


def test_bf16_where_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="bf16, which Ascend310P3 does not calculate in; take --precision fp16"):
        aoec.compile(net(tmp_path), tmp_path / "net.aoec", precision="bf16", target="Ascend310P3", bank=tmp_path / "bank.db")
    graph, weights, _ = load(halves(), precision="keep")
    with pytest.raises(UnsupportedError, match="tensor b is bf16"):
        fuse(graph, weights, load_machine("Ascend910A"))
    with pytest.raises(CheckError, match="precision half is not one of fp16, bf16, mixed, cube16, keep, fp32"):
        load(halves(), precision="half")
