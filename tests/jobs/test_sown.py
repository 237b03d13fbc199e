"""Special rows that verification sows: where they are, what they find, and that nothing right is refused; what it allows an attention."""
from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from aoec.ir.graph.graph import Graph, Group, OpNode, Tensor
from aoec.ir.index import Int
from aoec.ir.program import Program
from aoec.jobs.tune.tuning import problem
from aoec.jobs.verify import verify
from aoec.jobs.verify.allowed import attention_error, tolerance
from aoec.jobs.verify.sown import few_rows, normal, sow
from aoec.jobs.verify.verify import verify_group
from aoec.lowering.lower.lower import lower, operands
from aoec.ops import shape
from aoec.ops.run import NUMPY, evaluate
from aoec.target.machine import load
from tests.frontend.models import normal as values
from tests.jobs.test_verify import rewrite, with_field
from tests.lowering.groups import legal

MACHINE = load("Ascend910B3")
Nodes = list[tuple[str, tuple[str, ...], dict[str, object]]]


def group_of(nodes: Nodes, inputs: dict[str, tuple[int, ...]], dtype: str) -> Graph:
    """A graph of one vector group."""
    shapes, made = dict(inputs), []
    for at, (op, given, attributes) in enumerate(nodes):
        shapes[f"t{at}"] = shape(op, [shapes[i] for i in given], attributes)  # type: ignore[arg-type]
        made.append(OpNode(f"n{at}", op, given, (f"t{at}",), tuple(attributes.items())))  # type: ignore[arg-type]
    tensors = tuple(Tensor(name, dtype, dims) for name, dims in shapes.items())
    return Graph("g", tuple(inputs), made[-1].outputs, tensors, tuple(made), (Group("g0", "vector", tuple(n.name for n in made)),))


def verified(graph: Graph, change: Callable[[Program], Program] = lambda p: p, seed: int = 0) -> list[str]:
    """What is said of a group's program, perhaps changed."""
    func = lower(graph, "g0")
    ins, outs = operands(graph, graph.groups[0])
    bindings = tuple(zip([b.name for b in (*func.inputs, *func.outputs)], [t.name for t in (*ins, *outs)]))
    p = problem(func, MACHINE)
    program = p.program(legal(p, 0, 1)[0])
    return verify_group(graph, graph.groups[0], change(program), bindings, {}, seed)


SCALED: Nodes = [("abs", ("n",), {}), ("clip", ("t0",), {"lo": 1e-3, "hi": float("inf")}), ("div", ("x", "t1"), {})]


def test_rows_are_special_in_all_inputs_that_have_as_many() -> None:
    """64 rows, of which the same are of zeros, of equal numbers, with a NaN and of the ends of fp16; but for 4, all others stay."""
    graph = group_of([("div", ("x", "n"), {})], {"x": (8, 8, 33), "n": (8, 8, 1)}, "fp16")
    inputs, random = list(graph.tensors[:2]), np.random.default_rng(0)
    data = normal(inputs, {}, random, large=False)
    before = {name: x.copy() for name, x in data.items()}
    assert not few_rows(inputs, {}) and few_rows([Tensor("x", "fp16", (1, 1000))], {})
    sow(graph, inputs, {}, data, random)
    x, n = data["x"].reshape(64, 33), data["n"].reshape(64)
    changed = np.argwhere((x != before["x"].reshape(64, 33)).any(axis=1)).reshape(-1)
    kinds = {"zero": (x == 0).all(axis=1), "equal": (x == x[:, :1]).all(axis=1) & (x[:, 0] != 0), "nan": np.isnan(x).sum(axis=1) == 1,
             "ends": (np.abs(x) == 65504).any(axis=1) & (np.abs(x) == 2.0**-24).any(axis=1)}
    assert len(changed) == 4 and {k: int(v.sum()) for k, v in kinds.items()} == dict.fromkeys(kinds, 1)
    assert n[kinds["zero"]] == 0 and np.isnan(n[kinds["nan"]])


def test_a_reduction_has_its_rows_along_its_own_axes() -> None:
    graph = group_of([("softmax", ("x",), {"axis": 1})], {"x": (4, 20, 30)}, "fp32")
    data = normal([graph.tensors[0]], {}, np.random.default_rng(0), large=False)
    sow(graph, [graph.tensors[0]], {}, data, np.random.default_rng(1))
    assert (data["x"] == 0).all(axis=1).sum() == 1 and np.isnan(data["x"]).any(axis=1).sum() == 1


RIGHT: dict[str, tuple[Nodes, dict[str, tuple[int, ...]]]] = {
    "quotients": (SCALED, {"x": (48, 40), "n": (48, 1)}),
    "few rows": ([("gelu", ("x",), {}), ("mul", ("t0", "x"), {})], {"x": (1, 200)}),
    "0 by 0": ([("div", ("x", "n"), {}), ("abs", ("t0",), {})], {"x": (48, 40), "n": (48, 40)}),
    "beyond": ([("mul", ("x", "x"), {}), ("sub", ("t0", "t0"), {}), ("tanh", ("t1",), {})], {"x": (48, 40)}),
    "a softmax": ([("softmax", ("x",), {"axis": -1}), ("muls", ("t0",), {"scalar": 3.0})], {"x": (48, 41)}),
    "a norm": ([("layer_norm", ("x",), {"epsilon": 1e-12}), ("mul", ("t0", "n"), {})], {"x": (48, 60), "n": (48, 1)}),
    "a norm behind": ([("muls", ("x",), {"scalar": 0.3}), ("layer_norm", ("t0",), {"epsilon": 1e-12})], {"x": (48, 60)}),
    "functions": ([("erf", ("x",), {}), ("softplus", ("t0",), {}), ("silu", ("t1",), {})], {"x": (48, 40)}),
}


@pytest.mark.parametrize("dtype", ["fp16", "fp32", "bf16"])
@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_is_not_refused(name: str, dtype: str) -> None:
    nodes, inputs = RIGHT[name]
    assert [line for seed in range(2) for line in verified(group_of(nodes, inputs, dtype), seed=seed)] == []


def test_a_guard_that_a_program_lacks_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clip's number is 0 in the program alone: only special rows show it."""
    graph = group_of(SCALED, {"x": (48, 40), "n": (48, 1)}, "fp16")

    def unguarded(p: Program) -> Program:
        return rewrite(p, lambda i: with_field(i, "scalar", lambda _: Int(0)) if i.op == "vmaxs" else i)

    assert verified(graph, unguarded)
    monkeypatch.setattr(verify, "sow", lambda *_: None)
    assert verified(graph, unguarded) == []


# ---------------------------------------------------------------- attention

def attention(m: int, n: int, d: int, dtype: str = "fp32") -> tuple[OpNode, dict[str, np.ndarray]]:
    """A node and data, with large values here and there."""
    node = OpNode("a", "attention", ("q", "k", "v"), ("y",), (("scale", d**-0.5),))
    data = {"q": values(2, m, d, seed=1), "k": values(2, n, d, seed=2), "v": values(2, n, d, seed=3)}
    data["k"][0, 3, 5] = data["v"][1, 2, 7] = 3e4
    return node, {name: x.astype(NUMPY[dtype]) for name, x in data.items()}


def test_the_bound_of_an_attention_holds_for_any_order() -> None:
    """What fp32 makes of it in parts of keys, in orders drawn at random, against double precision; the bound is no more than a thousand
    times too large."""
    node, data = attention(33, 197, 64)
    q, k, v = (data[name].astype(np.float64) for name in "qkv")
    scores = q @ k.swapaxes(-1, -2) * 0.125
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    true = shares / shares.sum(axis=-1, keepdims=True) @ v
    bound, random, worst = attention_error(node, data), np.random.default_rng(0), 0.0
    for _ in range(5):
        deep, keys = random.permutation(64), random.permutation(197)
        top, total, out = np.full((2, 33, 1), -np.inf, np.float32), np.zeros((2, 33, 1), np.float32), np.zeros((2, 33, 64), np.float32)
        for part in np.array_split(keys, 7):
            s = np.zeros((2, 33, len(part)), np.float32)
            for at in deep:
                s += data["q"][:, :, at, None] * data["k"][:, None, part, at]
            s *= np.float32(0.125)
            now = np.maximum(top, s.max(axis=-1, keepdims=True))
            e, less = np.exp(s - now), np.exp(top - now)
            total, out, top = total * less + e.sum(axis=-1, keepdims=True), out * less + e @ data["v"][:, part], now
        error = np.abs(out / total - true)
        assert np.all(error <= bound)
        worst = max(worst, float((error / bound).max()))
    assert worst > 1e-3


def test_a_result_behind_an_attention_may_be_off_by_what_that_is() -> None:
    node, data = attention(8, 16, 16)
    tensors = (*(Tensor(name, "fp32", x.shape) for name, x in data.items()), *(Tensor(n, "fp32", (2, 8, 16)) for n in "yz"))
    graph = Graph("g", ("q", "k", "v"), ("z",), tensors, (node, OpNode("b", "muls", ("y",), ("z",), (("scalar", 4.0),))))
    wanted = evaluate(graph, data, {}, every=True)
    allowed = tolerance(graph, data, wanted, tensors[-1])
    assert np.all(allowed >= 4 * attention_error(node, data))
