"""Products and convolutions of what is no constant, of broadcast batches and of whole numbers of eight bits, as programs: exact, or within
the rounding of their sums."""
from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from aoec import backend
from aoec.base.errors import UnsupportedError
from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import Tensor
from aoec.lowering.arrange.fuse import fuse
from aoec.lowering.lower.lower import lower
from aoec.ops.words.cube import convolve

from .models import model, node, normal, run


def on_core(proto: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> np.ndarray:
    """The result of a model that runs wholly on the AI Core."""
    prepared = backend.prepare(proto)
    assert not prepared.on_host
    return np.asarray(prepared.run(list(feeds.values()))[0])


def whole(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-128, 128, shape).astype(np.int8)


FLOATS = {
    "batches": ("MatMul", {"a": (2, 1, 3, 5), "b": (3, 5, 20)}, {}), "columns": ("MatMul", {"a": (4, 7), "b": (2, 7, 3)}, {}),
    "turned": ("Gemm", {"a": (5, 19), "b": (6, 5), "c": (19, 1)}, {"transA": 1, "transB": 1}),
    "weights": ("Conv", {"x": (1, 9, 6, 7), "w": (20, 9, 3, 2), "b": (20,)}, {"pads": [1, 0, 1, 1]}),
    "groups": ("Conv", {"x": (1, 6, 5, 5), "w": (4, 3, 3, 3), "b": (4,)}, {"group": 2, "strides": [2, 1]}),
    "phases": ("ConvTranspose", {"x": (1, 3, 4, 5), "w": (3, 2, 3, 3)}, {"strides": [2, 2], "pads": [1, 0, 0, 1]}),
}


@pytest.mark.parametrize("name", FLOATS)
def test_operands_that_are_inputs(name: str) -> None:
    op, shapes, attributes = FLOATS[name]
    proto = model([node(op, " ".join(shapes), "y", **attributes)], shapes, ["y"])
    feeds = {i: normal(*shape, seed=at) for at, (i, shape) in enumerate(shapes.items())}
    np.testing.assert_allclose(on_core(proto, feeds), run(proto, feeds)[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("constant", [True, False])
def test_products_of_bytes_are_exact(constant: bool) -> None:
    """The largest sums that 300 products can have are far beyond what fp32 holds exactly beside small ones."""
    a, b = whole(0, 5, 300), whole(1, 300, 18)
    a[0], b[:, 0] = -128, -128
    kinds = {"a": TensorProto.INT8, "b": TensorProto.INT8, "y": TensorProto.INT32}
    feeds = {"a": a} if constant else {"a": a, "b": b}
    shapes, constants = {k: x.shape for k, x in feeds.items()}, {"b": b} if constant else {}
    proto = model([node("MatMulInteger", "a b", "y")], shapes, ["y"], constants, types=kinds)
    assert (on_core(proto, feeds) == a.astype(np.int64) @ b.astype(np.int64)).all()


def test_convolutions_of_bytes_are_exact() -> None:
    x, w = whole(0, 1, 5, 6, 7), whole(1, 20, 5, 3, 2)
    kinds = {"x": TensorProto.INT8, "y": TensorProto.INT32}
    proto = model([node("ConvInteger", "x w z", "y", pads=[1, 1, 0, 1])], {"x": x.shape}, ["y"],
                  {"w": w, "z": np.array(-7, np.int8)}, types=kinds)
    wanted = convolve(x.astype(np.int64) + 7, w.astype(np.int64), pad=(1, 1, 0, 1))
    assert (on_core(proto, {"x": x}) == wanted).all()


def test_what_has_no_elements_has_no_program() -> None:
    draft = Draft("g", ["x"], ["y"], [Tensor("x", "fp32", (2, 4, 8)), Tensor("y", "fp32", (2, 4, 0))])
    draft.nodes.append(draft.node("slice", ["x"], "y", {"starts": (0, 0, 8), "sizes": (2, 4, 0), "steps": (1, 1, 1)}))
    graph, _ = fuse(*draft.finish())
    with pytest.raises(UnsupportedError, match="y has no elements"):
        lower(graph, graph.groups[0])
