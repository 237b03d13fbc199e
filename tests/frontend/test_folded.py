"""Constants that follow each other, factors of columns, and work on lines between convolutions: fewer nodes and launches, equal values."""
from __future__ import annotations

import numpy as np
import onnx
import pytest

from aoec.frontend.translate.onnx import load
from aoec.ir.graph.graph import Graph
from aoec.lowering.arrange.fuse import fuse
from aoec.ops.run import evaluate
from aoec.target.machine import load as load_machine

from .models import model, node, normal, operators, run

LOWEST = float(np.finfo(np.float32).min)


def agrees(proto: onnx.ModelProto, shape: tuple[int, ...], precision: str = "fp32") -> Graph:
    """The graph, whose values are onnxruntime's."""
    graph, weights, _ = load(proto, {}, precision)
    x = normal(*shape, seed=9)
    (wanted,) = run(proto, {"x": x})
    got = evaluate(graph, {"x": x}, weights)[graph.outputs[0]]
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5 * float(np.abs(wanted[np.isfinite(wanted)]).max()))
    return graph


def kinds(proto: onnx.ModelProto, target: str = "Ascend910B3") -> list[list[str]]:
    """Operators of the groups that are launches."""
    graph, weights, _ = load(proto, {}, "fp16")
    fused, _ = fuse(graph, weights, load_machine(target))
    nodes = {n.name: n.op for n in fused.nodes}
    return [[nodes[n] for n in g.nodes] for g in fused.groups if g.kind != "view"]


# ---------------------------------------------------------------- sums

def test_constants_that_are_added_one_after_the_other_are_one() -> None:
    random = np.random.default_rng(0)
    for _ in range(20):
        rank = int(random.integers(1, 5))
        shape = tuple(int(n) for n in random.integers(2, 6, rank))
        held = {}
        for name in "abc":
            lead = int(random.integers(0, rank))
            held[name] = normal(*[int(random.choice([1, n])) for n in shape[lead:-1]], shape[-1], seed=ord(name))
        proto = model([node("Add", "x a", "p"), node("Add", "b p", "q"), node("Add", "q c", "y")], {"x": shape}, ["y"], held)
        assert operators(agrees(proto, shape)) == ["add"]


def test_a_shifted_window_has_one_mask_and_its_attention_is_found() -> None:
    """Scores of [windows, heads, words, words] with a bias for each head and, through a view, a mask for each window."""
    bias, mask = normal(1, 3, 16, 16), np.where(normal(1, 4, 1, 16, 16, seed=1) > 0, 0.0, -100.0).astype(np.float32)
    shapes = {"s": np.array([1, 4, 3, 16, 16]), "t": np.array([4, 3, 16, 16]), "d": np.float32(0.25)}
    nodes = [node("Transpose", "x", "k", perm=[0, 1, 3, 2]), node("Mul", "x d", "q"), node("MatMul", "q k", "a"), node("Add", "a b", "e"),
             node("Reshape", "e s", "f"), node("Add", "f m", "g"), node("Reshape", "g t", "h"), node("Softmax", "h", "i", axis=-1),
             node("MatMul", "i x", "y")]
    proto = model(nodes, {"x": (4, 3, 16, 32)}, ["y"], {"b": bias, "m": mask, **shapes})
    assert operators(agrees(proto, (4, 3, 16, 32))) == ["attention"]


@pytest.mark.parametrize("first, second, kept", [(-100.0, -100.0, 1), (LOWEST, LOWEST, 2), (-np.inf, -1.0, 1), (-np.inf, np.inf, 2)])
def test_a_sum_that_is_no_number_is_not_made(first: float, second: float, kept: int) -> None:
    """Twice the lowest number would be -inf, beside which a row of masks alone has no shares."""
    one, other = np.zeros((4, 8), np.float32), np.zeros((8,), np.float32)
    one[:, 3], other[3] = first, second
    proto = model([node("Add", "x a", "p"), node("Add", "p b", "y")], {"x": (4, 8)}, ["y"], {"a": one, "b": other})
    graph, *_ = load(proto, {}, "fp32")
    assert operators(graph) == ["add"] * kept


def test_a_sum_that_is_far_larger_than_its_parts_is_not_made() -> None:
    proto = model([node("Add", "x a", "p"), node("Add", "p b", "y")], {"x": (300, 400)}, ["y"], {"a": normal(300, 1), "b": normal(400)})
    assert operators(agrees(proto, (300, 400))) == ["add", "add"]


def test_a_sum_that_somebody_else_reads_stays() -> None:
    proto = model([node("Add", "x a", "p"), node("Add", "p b", "q"), node("Mul", "p q", "y")], {"x": (6, 8)}, ["y"],
                  {"a": normal(8), "b": normal(8, seed=1)})
    assert operators(agrees(proto, (6, 8))) == ["add", "add", "mul"]


# ---------------------------------------------------------------- columns

@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(2, 5, 7, 12), (3, 4, 12)])
def test_factors_of_columns_are_in_the_product(shape: tuple[int, ...], bias: bool) -> None:
    """Layer scale of ConvNeXt."""
    nodes = [node("MatMul", "x w", "a"), *([node("Add", "b a", "c")] if bias else []), node("Mul", "g c" if bias else "g a", "y")]
    held = {"w": normal(12, 20), "g": normal(20, seed=2), **({"b": normal(20, seed=1)} if bias else {})}
    assert operators(agrees(model(nodes, {"x": shape}, ["y"], held), shape)) == ["matmul"]


def test_factors_of_rows_or_of_a_product_that_is_read_twice_stay() -> None:
    rows = model([node("MatMul", "x w", "a"), node("Mul", "a g", "y")], {"x": (2, 20, 12)}, ["y"],
                 {"w": normal(12, 20), "g": normal(20, 1)})
    assert operators(agrees(rows, (2, 20, 12))) == ["matmul", "mul"]
    twice = model([node("MatMul", "x w", "a"), node("Mul", "a g", "b"), node("Add", "a b", "y")], {"x": (2, 5, 12)}, ["y"],
                  {"w": normal(12, 20), "g": normal(20)})
    assert operators(agrees(twice, (2, 5, 12))) == ["matmul", "mul", "add"]


# ---------------------------------------------------------------- images

def block() -> onnx.ModelProto:
    """A block of ConvNeXt, between an image and an image."""
    nodes = [node("Conv", "x p", "i"), node("Conv", "i d", "a", group=32, pads=[3, 3, 3, 3]),
             node("Transpose", "a", "b", perm=[0, 2, 3, 1]),
             node("LayerNormalization", "b s", "c"), node("MatMul", "c w", "e"), node("Relu", "e", "f"), node("MatMul", "f v", "g"),
             node("Mul", "g s", "h"), node("Transpose", "h", "k", perm=[0, 3, 1, 2]), node("Add", "i k", "l"), node("Conv", "l p", "y")]
    return model(nodes, {"x": (1, 32, 9, 10)}, ["y"], {"p": normal(32, 32, 1, 1) / 6, "d": normal(32, 1, 7, 7) / 7, "s": normal(32),
                                                       "w": normal(32, 64) / 6, "v": normal(64, 32) / 8})


def test_rows_become_an_image_by_whole_blocks() -> None:
    agrees(block(), (1, 32, 9, 10))
    launches = kinds(block())
    assert sum(ops[0] in ("transpose", "to_nc1hwc0", "from_nc1hwc0") for ops in launches) == 4  # in and out, to rows and back: six before
    assert ["mul"] not in launches


def listened() -> onnx.ModelProto:
    """Two convolutions of lines with GELU, whose channels become rows, as in speech models."""
    gelu = [[node("Div", f"{x} r", f"{x}1"), node("Erf", f"{x}1", f"{x}2"), node("Add", f"{x}2 o", f"{x}3"),
             node("Mul", f"{x} {x}3", f"{x}4"), node("Mul", f"{x}4 h", f"{x}5")] for x in "ab"]
    nodes = [node("Conv", "x p", "a", pads=[1, 1]), *gelu[0], node("Conv", "a5 q", "b", pads=[1, 1], strides=[2]), *gelu[1],
             node("Transpose", "b5", "t", perm=[0, 2, 1]), node("Add", "t e", "y")]
    return model(nodes, {"x": (1, 16, 40)}, ["y"], {"p": normal(32, 16, 3) / 7, "q": normal(48, 32, 3) / 10, "e": normal(20, 48),
                                                    "r": np.float32(2**0.5), "o": np.float32(1), "h": np.float32(0.5)})


def test_work_on_lines_between_convolutions_is_done_on_images() -> None:
    agrees(listened(), (1, 16, 40))
    assert [ops[0] for ops in kinds(listened())] == ["to_nc1hwc0", "conv2d_packed", "gelu", "conv2d_packed", "gelu", "transpose"]
