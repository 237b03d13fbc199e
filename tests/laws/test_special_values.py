"""Zeros of either sign, ones, NaN, infinities, ends of ranges, subnormals and large numbers through every elementwise operator.

A law in three ways: our references are NumPy or onnxruntime, programs are our references, and what differs from onnxruntime is in the
table of frontend/differences.py. Signs of zeros are not compared.
"""
from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from aoec import backend
from aoec.frontend.differences import DIFFERENCES
from aoec.frontend.rules import declared_words as declared
from aoec.frontend.rules import vector
from aoec.frontend.translate.onnx import load
from aoec.jobs.compile.untuned import compile_untuned
from aoec.jobs.run.execute import Runner
from aoec.target import machine
from tests.frontend.models import model, node, run

FLOAT, HALF, BOOL = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BOOL
F = np.float32
MOST, TINY, LEAST = np.finfo(F).max, np.finfo(F).tiny, np.finfo(F).smallest_subnormal
SOME = np.array([0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 7.0, 10.0, 88.0, 100.0, 1e4, 1e8, 1e20, 1e-20, MOST, TINY, TINY / 4, LEAST, np.inf], F)
VALUES = np.array([*SOME, *-SOME, np.nan], F)
A, B = (x.ravel() for x in np.meshgrid(VALUES, VALUES, indexing="ij"))



def list_declared(count: int) -> list[str]:
    """ONNX operators of so many reals that a declaration names; those of truths and whole numbers are in lowering/test_typed.py."""
    return [name for name, words in declared.WORDS.items() if name not in vector.RULES and (of := words[0].elements)
            and of.count(words[0].onnx.attributes) == count and of.domain(0).dtype == "fp32"]  # type: ignore[union-attr]


UNARY = (*list_declared(1), "Abs", "Neg", "HardSwish", "Swish", "Clip")
BINARY = (*list_declared(2), "Div", "Sum", "Mean", "Pow", "Mod")
TRUTHS = {"IsNaN", "IsInf", "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"}
# operator -> arguments of which the table says that we differ from onnxruntime
KNOWN: dict[str, Callable[..., np.ndarray]] = {
    "Sin": lambda x: np.abs(x) > 1e5, "Cos": lambda x: np.abs(x) > 1e5, "Tan": lambda x: np.abs(x) > 1e4, "Gelu": lambda x: x == -np.inf,
    "Clip": lambda x: x == np.inf, "Mod": lambda a, b: np.abs(a.astype(np.float64) / b) >= 2.0**48,
    "Mean": lambda a, b: np.isfinite(a) & np.isfinite(b) & ~np.isfinite(a + b)}
OF_HALVES = KNOWN | {"Softplus": lambda x: x > 11, "Sign": np.isnan}
CLOSE = 3e-5  # of a result: what the worst function (a power) states
LEAST = 1e-7  # of results near 0


def net(op: str, kind: int = FLOAT) -> onnx.ModelProto:
    """The operator on the values, or on all pairs of them."""
    inputs = {"a": A.shape, "b": B.shape} if op in BINARY else {"a": VALUES.shape}
    given: dict[str, object] = {"fmod": 1} if op == "Mod" else {}
    opset = {"HardSwish": 14, "Gelu": 20, "IsInf": 20, "Swish": 24}.get(op, 18)
    names = "a b" if op in BINARY else "a c" if op == "Clip" else "a"
    constants = {"c": np.array(-2, F if kind == FLOAT else np.float16)} if op == "Clip" else {}
    types = {**dict.fromkeys(inputs, kind), "y": BOOL if op in TRUTHS else kind}
    return model([node(op, names, "y", **given)], inputs, ["y"], constants, opset=opset, types=types)


def near(got: np.ndarray, wanted: np.ndarray, least: np.ndarray | float) -> np.ndarray:
    if wanted.dtype.kind != "f":
        return np.asarray(got == wanted)
    a, b = got.astype(np.float64), wanted.astype(np.float64)
    with np.errstate(all="ignore"):
        close = np.isfinite(a) & np.isfinite(b) & (np.abs(a - b) <= CLOSE * np.abs(b) + least)
        return np.asarray((a == b) | np.isnan(a) & np.isnan(b) | close)


def test_every_elementwise_operator_is_under_the_law() -> None:
    assert {*UNARY, *BINARY} | {"Xor"} >= set(vector.RULES) and len({*UNARY, *BINARY}) >= 57
    assert {op for d in DIFFERENCES for op in d.operators if d.values} >= set(OF_HALVES)


@pytest.mark.parametrize("op", [*UNARY, *BINARY])
def test_programs_give_what_onnxruntime_does(op: str) -> None:
    feeds = {"a": A, "b": B} if op in BINARY else {"a": VALUES}
    proto = net(op)
    (got,) = backend.run_model(proto, feeds)
    wanted = swish(VALUES) if op == "Swish" else run(proto, feeds, as_it_is=True)[0]
    with np.errstate(all="ignore"):
        apart = ~near(got, wanted, LEAST) & ~(KNOWN[op](*feeds.values()) if op in KNOWN else np.zeros(got.shape, bool))
    first = [(float(got[at]), *(float(v[at]) for v in feeds.values()), float(wanted[at])) for at in np.flatnonzero(apart)[:8]]
    assert not apart.any(), first


def swish(x: np.ndarray) -> np.ndarray:
    """onnxruntime does not have it."""
    with np.errstate(all="ignore"):
        return x / (1 + np.exp(-x))


@pytest.mark.parametrize("a, b, rest", [(1e8, 7.0, 2.0), (-1e8, 7.0, -2.0), (1e14, 3.0, float(np.fmod(F(1e14), F(3)))), (5.0, np.inf, 5.0),
                                        (MOST, 2.0**100, 0.0), (TINY * 3, TINY * 2, TINY), (65504.0, 2.0**-24, 0.0)])
def test_remainders_are_exact(a: float, b: float, rest: float) -> None:
    """Of a quotient with more bits than fp32 has, of the largest numbers and of the least."""
    proto = model([node("Mod", "a b", "y", fmod=1)], {"a": (1,), "b": (1,)}, ["y"], opset=13)
    assert backend.run_model(proto, [np.array([a], F), np.array([b], F)])[0].tolist() == [F(rest)]


def test_remainders_of_all_kinds_are_exact() -> None:
    random = np.random.default_rng(2)
    a, b = (random.standard_normal(4000).astype(F) * np.exp2(random.integers(-40, 40, 4000)).astype(F) for _ in range(2))
    b = np.where(np.abs(a / b) < 2.0**47, b, a)
    proto = model([node("Mod", "a b", "y", fmod=1)], {"a": a.shape, "b": b.shape}, ["y"], opset=13)
    np.testing.assert_array_equal(backend.run_model(proto, [a, b])[0], np.fmod(a, b))


def in_halves(proto: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The values of a model of fp16 in the dtypes that it states."""
    graph, weights, _ = load(proto, {}, "keep")
    return Runner(compile_untuned(graph, weights, "keep", machine.load(machine.DEFAULT))[0]).run(feeds)


@pytest.mark.slow
@pytest.mark.parametrize("op", [*UNARY, *BINARY])
def test_halves_give_what_onnxruntime_does(op: str) -> None:
    """Within a rounding or two of fp16, which onnxruntime has between its steps, and of its arguments where they cancel."""
    f = np.finfo(np.float16)
    some = np.array([0, 0.5, 1, 1.5, 2, 2.5, 7, 10, 100, 1e4, f.max, f.tiny, f.tiny / 4, f.smallest_subnormal, np.inf], np.float16)
    x = np.array([*some, *-some, np.nan], np.float16)
    a, b = (v.ravel() for v in np.meshgrid(x, x, indexing="ij"))
    feeds = {"a": a, "b": b} if op in BINARY else {"a": x}
    if op == "Celu":
        pytest.skip("ONNX has it of fp32 alone")
    proto = net(op, HALF)
    for i in proto.graph.input:
        i.type.tensor_type.shape.dim[0].dim_value = feeds["a"].size
    got = in_halves(proto, feeds)["y"]
    wanted = swish(x.astype(F)).astype(np.float16) if op == "Swish" else run(proto, feeds, as_it_is=True)[0]
    with np.errstate(all="ignore"):
        size = np.max([np.nan_to_num(np.abs(v.astype(np.float64)), nan=0, posinf=0) for v in feeds.values()], axis=0)
        apart = ~near(got, wanted, 2e-3 * np.maximum(1.0, size)) & ~near(got, wanted, 4e-3 * np.abs(wanted.astype(np.float64)) + 1e-3)
        apart &= ~(OF_HALVES[op](*(v.astype(F) for v in feeds.values())) if op in OF_HALVES else np.zeros(got.shape, bool))
    first = [(float(got[at]), *(float(v[at]) for v in feeds.values()), float(wanted[at])) for at in np.flatnonzero(apart)[:8]]
    assert not apart.any(), first


def test_halves() -> None:
    """Every fp16, NaN and infinities too, through operators that choose or compare."""
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    ops = ("Abs", "Neg", "Relu", "Sign", "Floor", "Ceil", "Round", "Sqrt", "Acosh")
    proto = helper.make_model(helper.make_graph(
        [node(op, "x", f"y{at}") for at, op in enumerate(ops)], "halves", [helper.make_tensor_value_info("x", HALF, x.shape)],
        [helper.make_tensor_value_info(f"y{at}", HALF, None) for at in range(len(ops))]), opset_imports=[helper.make_opsetid("", 18)],
        ir_version=8)
    got = in_halves(proto, {"x": x})
    with np.errstate(all="ignore"):
        for at, op in enumerate(ops):
            named = {"Neg": np.negative, "Relu": lambda a: np.maximum(a, 0), "Round": np.rint, "Acosh": np.arccosh}
            f = named[op] if op in named else getattr(np, op.lower())
            np.testing.assert_allclose(got[f"y{at}"].astype(F), f(x.astype(F)), rtol=1e-3, atol=1e-7, err_msg=op)
