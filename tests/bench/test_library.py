"""Rows of vendor kernels whose schedule is not published: what lies in L2 before them, and operators that tables name in their own way."""
from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from aoec.base.errors import TargetError, UnsupportedError
from aoec.ir.text.parse import parse_definitions
from aoec.ops import evaluate, interpret, own
from aoec.simulate.timing.state import CLEARED
from aoec.target.machine import load
from bench.cases.case import Case, parse_cases, read_cases
from bench.cases.chips import machine_of
from bench.cases.draft import Net
from bench.cases.graphs import graph_of
from bench.cases.kernels import TEXT, gelu_grad
from bench.cases.library import plan, tuned
from bench.cases.moves import MOVES
from bench.cases.operators import operator_of
from bench.cases.profilers import profiler_of
from bench.cases.time import modelled

PUBLISHED = {c.id: c for c in read_cases([Path(__file__).parents[2] / "bench/cases/published.csv"])}


def published(name: str) -> Case:
    """The published case of that id."""
    return PUBLISHED[name]


@pytest.mark.parametrize("name, within", [("m0537", 0.02), ("m0664", 0.08)])
def test_what_streams_through_910a_takes_as_long_as_measured(name: str, within: float) -> None:
    """Of the first, a third of it written, follows the rate of HBM without turnaround; the other is an Add of another network."""
    assert tuned(published(name), 0, "previous").ratio == pytest.approx(1, abs=within)


# ---------------------------------------------------------------- what ran before

def test_profiles_of_models_are_known_by_their_source() -> None:
    """Two rows of one report are one kernel in the model and alone, and say so themselves."""
    told = {name: profiler_of(published(name)) for name in ("m0080", "m0173", "m0537", "m0167", "m0166", "m0234", "m0494")}
    assert told == {"m0080": "model", "m0173": "model", "m0537": "model", "m0167": "model", "m0166": "other", "m0234": "msopprof",
                    "m0494": "other"}


def test_in_a_model_weights_come_from_memory_and_what_was_just_made_does_not() -> None:
    machine = load("Ascend910_9392")
    product, = plan(graph_of(published("m0080")), machine, "model")
    assert [size for _, size in product.state] == [16 * 5120 * 2]
    rows, = plan(graph_of(published("m0142"), True), machine, "model")  # of two operands the first was made last
    assert [(name, size) for name, size in rows.state] == [(n, 16 * 151936 * 4) for n in reversed([b.name for b in rows.func.inputs])]
    pair, = plan(graph_of(published("m0527")), load("Ascend910A"), "model")  # neither matrix of a batch is weights; L2 holds a part of one
    assert sum(size for _, size in pair.state) == load("Ascend910A").l2_usable_bytes and len(pair.state) == 1
    cold, cleared, equal = (plan(graph_of(published("m0080")), machine, s)[0].state for s in ("cold", "cleared", "previous"))
    assert not cold and cleared == CLEARED and {name for name, _ in product.state} < {name for name, _ in equal}


def test_a_product_takes_longer_in_its_model_than_alone() -> None:
    """Of 4.2 MB of weights, 12.2 us for 6.9 alone (msModeling's gap analysis): here at least what HBM takes longer than L2 for them."""
    alone, beside = (tuned(published(name), 0) for name in ("m0166", "m0167"))
    assert alone.modelled is not None and beside.modelled is not None and published("m0167").value > 1.5 * published("m0166").value
    machine = load("Ascend910_9392")
    longer = 512 * 4096 * 2 * (1 / machine.hbm_bytes_per_cycle - 1 / machine.l2_bytes_per_cycle) / machine.clock_mhz
    assert beside.modelled > alone.modelled + 0.8 * longer


# ---------------------------------------------------------------- operators by the tables' names

@pytest.mark.parametrize("name, ops", [
    ("m0093", "slice"), ("m0104", "slice"), ("m0108", "expand"), ("m0135", "gather"), ("m0146", "gather"), ("m0158", "where"),
    ("m0540", "from_nz"), ("m0543", "to_nz"), ("m0644", "transpose"), ("m0666", "concat"), ("m0091", "quantise"), ("m0434", "cast"),
    ("m0519", "matmul gelu_tanh"), ("m0520", "matmul add"), ("m0523", "matmul muls"), ("m0067", "matmul dequantise"),
    ("m0097", "dynamic_quant"), ("m0603", "matmul"), ("m0606", "bn_relu"), ("m0533", "layernorm_grad")])
def test_the_operators_of_a_vendor_kernel(name: str, ops: str) -> None:
    """Its result has the shape that the row says, where it says one."""
    row = published(name)
    graph = graph_of(row, machine=machine_of(row.chip))
    assert " ".join(n.op for n in graph.nodes) == ops
    result = next(t for t in graph.tensors if t.name == graph.outputs[0])
    if row.shape.output and row.operator in MOVES and row.operator != "trans_data":
        assert result.shape == row.shape.output


@pytest.mark.parametrize("name, words", [
    ("m0094", "is not stated"), ("m0111", "order of the axes is not stated"), ("m0113", "which layouts"), ("m0555", "no order of the axes"),
    ("m0096", "change places"), ("m0138", "sorting instructions"), ("m0549", "packed bits"), ("m0599", "packed bits")])
def test_what_a_row_leaves_open_is_said(name: str, words: str) -> None:
    with pytest.raises(UnsupportedError, match=words):
        graph_of(published(name))


@pytest.mark.parametrize("operator, shape", [("gather", "8x16"), ("concat", "8x16 + 8x16"), ("broadcast", "8x16 -> 9x16"),
                                             ("slice", "8x16 -> 9x16"), ("trans_data", "8x16 -> 9x16")])
def test_shapes_that_do_not_fit_are_a_reason_and_no_failure(operator: str, shape: str) -> None:
    head = "id,chip,operator,shape,dtype,metric,value,unit,source,class"
    row, = parse_cases(f"{head}\nx,910B3,{operator},{shape},fp16,time,5,us,me,lib\n")
    assert "not" in tuned(row, 0).reason


@pytest.mark.parametrize("shape, op", [("2x3x5x7x16 -> 2x40x5x7", "from_nc1hwc0"), ("2x40x5x7 -> 2x3x5x7x16", "to_nc1hwc0"),
                                       ("2x3x16x16 -> 48x32", "from_nz"), ("48x32 -> 2x3x16x16", "to_nz")])
def test_conversions_of_layouts_are_known_by_their_shapes(shape: str, op: str) -> None:
    head = "id,chip,operator,shape,dtype,metric,value,unit,source,class"
    row, = parse_cases(f"{head}\nx,910A,trans_data,{shape},fp16,time,5,us,me,lib\n")
    graph = graph_of(row)
    work = [n for g in graph.groups if g.kind == "vector" for n in g.nodes]
    assert [n.op for n in graph.nodes if n.name in work] == [op] and tuned(row, 0).modelled


def test_an_order_of_axes_follows_from_the_shapes() -> None:
    row = published("m0663")
    node, = graph_of(row).nodes
    assert dict(node.attributes)["perm"] == (0, 3, 4, 1, 2) and row.shape.output == (32, 80, 80, 3, 85)
    same = replace(row, shape=replace(row.shape, output=(80, 80, 85, 3, 32)))
    node, = graph_of(same).nodes
    assert dict(node.attributes)["perm"] == (3, 4, 2, 1, 0)


def test_a_bound_is_of_the_operator_however_many_programs_of_ours_do_it() -> None:
    """A product of int8 and its scales are two programs: what another may do in one cannot take less than the longer of them."""
    r = tuned(published("m0070"), 0)
    assert r.bound is not None and r.modelled is not None
    weights = 2304 * 7168 / load("Ascend910_9392").hbm_bytes_per_s * 1e6
    assert weights < r.bound < r.modelled and r.bound < weights + 3


# ---------------------------------------------------------------- kernels by their definitions

def row_of(operator: str, shape: str, dtype: str = "fp16", chip: str = "910B1", **more: str) -> Case:
    """A row of a vendor kernel."""
    cells = {"id": "x", "chip": chip, "operator": operator, "shape": shape, "dtype": dtype, "metric": "time", "value": "5", "unit": "us",
             "source": "me", "class": "lib"} | more
    return parse_cases(f"{','.join(cells)}\n{','.join(cells.values())}\n")[0]


def values(name: str, **arrays: np.ndarray) -> np.ndarray:
    """What a definition of kernels.py gives."""
    meaning = next(m for m in parse_definitions(TEXT) if m.name == name)
    bound = own.bound(meaning, [a.shape for a in arrays.values()], {"share": 1 / 48} if meaning.params else {})
    return interpret.interpret(bound, list(arrays.values()))[0]


def test_definitions_are_what_kernels_do() -> None:
    """Rows in int8 by the largest of each; the gradient of a norm against finite differences; an image scaled for each channel."""
    random = np.random.default_rng(0)
    x, d, g = random.normal(size=(6, 48)), random.normal(size=(6, 48)), random.normal(size=48)
    assert np.array_equal(values("dynamic_quant", x=x), np.rint(x * (127.0 / np.abs(x).max(1, keepdims=True))))

    def loss(x: np.ndarray) -> float:
        return float((d * ((x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * g)).sum())
    slope = [(loss(x + step) - loss(x - step)) / 2e-5 for step in 1e-5 * np.eye(6 * 48).reshape(-1, 6, 48)]
    assert np.allclose(values("layernorm_grad", d=d, x=x, v=x.var(1), m=x.mean(1), g=g).ravel(), slope, atol=1e-6)
    image, s, b = random.normal(size=(2, 3, 5, 16)), random.normal(size=(3, 16)), random.normal(size=(3, 16))
    assert np.allclose(values("bn_relu", x=image, s=s, b=b), np.maximum(image * s[:, None] + b[:, None], 0))


def test_gradients_of_two_operands() -> None:
    """By NumPy: of ReLU, sigmoid, tanh and softmax from what was calculated."""
    y, d = np.random.default_rng(1).normal(size=(2, 5, 32))
    assert np.array_equal(values("relu_grad", d=d, y=y), np.where(y > 0, d, 0))
    assert np.allclose(values("sigmoid_grad", y=y, d=d), d * y * (1 - y)) and np.allclose(values("tanh_grad", y=y, d=d), d * (1 - y * y))
    assert np.allclose(values("softmax_grad", y=y, d=d), (d - (d * y).sum(1, keepdims=True)) * y)


@pytest.mark.parametrize("operator, shape, dtype, tile", [
    ("relu_grad", "4x512 + 4x512", "fp16", ""), ("SigmoidGrad", "512x1 + 512x1", "fp32", ""),
    ("softmax_grad", "64x256 + 64x256", "fp16", ""),
    ("gelu_grad", "4x512 + 4x512", "fp16", ""), ("AddN", "4x512 + 4x512 + 4x512", "fp16", ""),
    ("silu_and_mul", "4x512 -> 4x256", "bf16", ""),
    ("add", "64", "int32", ""), ("less", "4x64", "int32->bool", ""), ("softmax", "512x256", "fp32", "tile=4x256"),
    ("rms_norm", "512x256", "fp16", "tile=8x256 programs=40")])
def test_rows_that_users_would_write_are_timed(operator: str, shape: str, dtype: str, tile: str) -> None:
    row = row_of(operator, shape, dtype, tile=tile)
    assert (modelled(row) if tile else tuned(row, 0)).modelled


def test_a_tiling_is_of_a_core_of_cube_and_vector_too() -> None:
    """What its words do not say of, how results leave through UB, is found."""
    row = row_of("matmul", "m=256 n=256 k=256", chip="310P3", tile="base=128x128x64 cores=4")
    assert modelled(row).modelled


def test_the_gradient_behind_a_gelu() -> None:
    """Against finite differences of gelu's form with tanh, in one definition and in single operators."""
    net = Net("x", "fp32")
    graph = net.graph(gelu_grad(net, net.input("d", (4, 32)), "ND", "fp32"))
    x, y = (np.random.default_rng(i).normal(size=(4, 32)).astype(np.float32) for i in (1, 2))

    def gelu(x: np.ndarray) -> np.ndarray:
        return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x ** 3)))
    slope = (gelu(x.astype(float) + 1e-5) - gelu(x.astype(float) - 1e-5)) / 2e-5
    got, = evaluate(graph, dict(zip(graph.inputs, (y, x))), {}).values()
    defined = values("gelu_grad", d=y.astype(float), x=x.astype(float))
    assert np.allclose(got, y * slope, atol=1e-5) and np.allclose(defined, y * slope, atol=1e-5)


@pytest.mark.parametrize("operator, shape, ops, result", [
    ("Conv2DBackpropFilter", "2x4x7x7x16 + 2x3x7x7x16 -> 3x4x16x16", ["matmul"], (64, 48)),
    ("conv2d_dx", "2x4x7x7x16 + 27x4x16x16 -> 2x3x7x7x16", ["conv2d_packed"], (2, 48, 7, 7)),
    ("FlashAttentionScore", "b=2 hq=8 hkv=2 s=64 d=32", ["attention"], (4, 256, 32)),
    ("flash_attention", "sq=64 skv=128 d=64", ["attention"], (1, 64, 64)),
    ("GroupedMatmul", "groups=4 m=32 n=64 k=48", ["matmul"], (4, 32, 64))])
def test_products_that_kernels_are(operator: str, shape: str, ops: list[str], result: tuple[int, ...]) -> None:
    graph = graph_of(row_of(operator, shape))
    work = [n.op for g in graph.groups if g.kind != "host" for n in graph.nodes if n.name in g.nodes]
    assert work == ops and next(t.shape for t in graph.tensors if t.name == graph.outputs[0]) == result


@pytest.mark.parametrize("operator, shape, words", [
    ("conv2d_dw", "2x4x7x7x16 + 2x3x7x7x16 -> 27x4x16x16", "beyond 1 x 1"), ("conv2d_dw", "2x4x7x7x16", "gives no gradient"),
    ("conv2d_dx", "2x4x7x7x16 + 27x4x16x16 -> 2x3x14x14x16", "beyond 1 is"), ("flash_attention", "t=4096 hq=4 d=128", "not stated"),
    ("flash_attention", "hq=4 hkv=3 s=64 d=64", "4 heads on 3"), ("grouped_matmul", "m=4 n=4 k=4", "no groups"),
    ("bn_relu", "8x16 + 16 + 16", "no image"), ("dynamic_quant", "m=3 n=4", "of fp16 and shape"),
    ("softmx", "8x16", "did you mean softmax"), ("layernrom", "8x16", "did you mean layernorm"),
    ("matmull", "m=4 n=4 k=4", "did you mean")])
def test_kernels_that_cannot_be_said_have_a_reason(operator: str, shape: str, words: str) -> None:
    assert words in tuned(row_of(operator, shape), 0).reason


def test_names_as_sources_spell_them() -> None:
    """Operators, dtypes, units and chips of CANN's, PyTorch's and papers' spelling."""
    spelled = row_of("MatMulV3", "m=32 n=64 k=48", "bfloat16->float32", "Ascend 910b3", unit="µs")
    assert spelled.operator == "matmul" and spelled.dtypes == ("bf16", "fp32") and spelled.value == 5 and tuned(spelled, 0).modelled
    assert machine_of("ascend910B3").name == machine_of("910B3").name and machine_of("atlas 300i pro").name == "Ascend310P3"
    assert [operator_of(n) for n in ("ReduceSumD", "SoftmaxV2", "GatherV2", "Conv2D", "AscendQuantV2", "model_mobilenet_v2", "add")] == [
        "reduce_sum", "softmax", "gather", "conv2d", "quantize_static", "model_mobilenet_v2", "add"]
    with pytest.raises(TargetError, match="did you mean 910B-24c"):
        machine_of("910B-4c")
