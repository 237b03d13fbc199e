"""Signs of halves that are put together and multiplied go to their factor, exactly; rotary embedding is one launch."""
from __future__ import annotations

import numpy as np
import onnx
import pytest

from aoec.frontend.translate.onnx import load
from aoec.ir.text.show import show
from aoec.lowering.arrange.fuse import fuse
from aoec.lowering.lower.lower import lower
from aoec.ops.run import evaluate
from aoec.target.machine import load as load_machine

from .models import model, node, normal, operators, run

SHAPE = (1, 4, 24, 64)
CUTS = {"h": np.array([32]), "e": np.array([64]), "z": np.array([0]), "l": np.array([3])}


def rotary(constant: bool) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """x * cos + (-x2, x1) * sin, as exporters write it."""
    angles = {"c": normal(1, 1, 24, 64, seed=1), "s": normal(1, 1, 24, 64, seed=2)}
    nodes = [node("Slice", "x h e l", "a"), node("Slice", "x z h l", "b"), node("Neg", "a", "n"), node("Concat", "n b", "t", axis=-1),
             node("Mul", "t s", "u"), node("Mul", "x c", "v"), node("Add", "v u", "y")]
    proto = model(nodes, {"x": SHAPE, **({} if constant else {k: v.shape for k, v in angles.items()})}, ["y"],
                  {**CUTS, **(angles if constant else {})})
    return proto, {"x": normal(*SHAPE), **({} if constant else angles)}


@pytest.mark.parametrize("constant", [True, False])
def test_rotary_embedding_is_one_group(constant: bool) -> None:
    proto, feeds = rotary(constant)
    graph, weights, _ = load(proto, {}, "fp32")
    (wanted,) = run(proto, feeds)
    assert np.array_equal(evaluate(graph, feeds, weights)["y"], wanted)  # signs are exact
    assert "muls" not in operators(graph)
    fused, _ = fuse(*load(proto, {}, "fp16")[:2], load_machine("Ascend910B3"))
    nodes = {n.name: n.op for n in fused.nodes}
    made = [[nodes[n] for n in g.nodes] for g in fused.groups if g.kind != "view"]  # six before: slices, negation, concat, mul, mul + add
    assert sorted(made[-1]) == ["add", "mul", "mul", "slice"] and len(made) == (1 if constant else 2)


def test_rotary_embedding_shows_its_halves() -> None:
    """A row has two halves, and each is read with the other."""
    fused, _ = fuse(*load(rotary(True)[0], {}, "fp16")[:2], load_machine("Ascend910B3"))
    (group,) = [g for g in fused.groups if g.kind != "view"]
    assert "1 - " in show(lower(fused, group))


def test_a_sign_stays_where_its_factor_is_as_large_or_something_else_reads_it() -> None:
    wide = model([node("Slice", "x h e l", "a"), node("Slice", "x z h l", "b"), node("Neg", "a", "n"), node("Concat", "n b", "t", axis=-1),
                  node("Mul", "t x", "y")], {"x": SHAPE}, ["y"], CUTS)
    assert "muls" in operators(load(wide, {}, "fp32")[0])
    read = model([node("Slice", "x h e l", "a"), node("Slice", "x z h l", "b"), node("Neg", "a", "n"), node("Concat", "n b", "t", axis=-1),
                  node("Mul", "t s", "y"), node("Exp", "n", "w")], {"x": SHAPE}, ["y", "w"], {**CUTS, "s": normal(64)})
    assert "muls" in operators(load(read, {}, "fp32")[0])
