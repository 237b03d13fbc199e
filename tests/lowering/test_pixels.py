"""Products of images take them in NC1HWC0 as they lie, as matrices in NZ of a row for each pixel."""
from __future__ import annotations

import numpy as np
import pytest

from aoec import ops
from aoec.frontend import passes
from aoec.frontend.training.differentiate import differentiate
from aoec.ir.graph.graph import Graph
from aoec.lowering.arrange.fuse import fuse
from aoec.target.machine import load
from tests.frontend.training.graphs import Sketch


def weight_gradient(channels: int, size: tuple[int, int], kernel: int, through: str = "relu") -> tuple[Graph, Graph]:
    """(the graph of a convolution's weight gradient between two others, the same in layouts and groups), with equal values."""
    random = np.random.default_rng(0)
    s = Sketch(x=random.standard_normal((2, channels, *size)), w=random.standard_normal((32, channels, kernel, kernel)),
               v=random.standard_normal((16, 32, 1, 1)), u=random.standard_normal((channels, channels, 1, 1)))
    plain = {"stride": (1, 1), "pad": (0, 0, 0, 0), "dilation": (1, 1), "group": 1}
    x = s.add(through, s.add("conv2d", "x", "u", attributes=plain))
    y = s.add("conv2d", s.add("relu", s.add("conv2d", x, "w", attributes={**plain, "pad": (kernel // 2,) * 4})), "v", attributes=plain)
    loss = s.weighted(y)
    found = differentiate(s.draft, loss, ["w"])
    s.draft.outputs = (found["w"],)
    passes.clean(s.draft, "fp16")
    passes.choose_precision(s.draft, "fp16", {})
    graph, weights = s.draft.finish()
    fused, stored = fuse(graph, weights, load("Ascend910B3"))
    (a,), (b,) = (ops.evaluate(g, s.values, w).values() for g, w in ((graph, weights), (fused, stored)))
    assert np.abs(a.astype(float)).max() > 0
    np.testing.assert_allclose(a.astype(float), b.astype(float), rtol=2e-3, atol=2e-3 * float(np.abs(a.astype(float)).max()))
    return graph, fused


def operands(graph: Graph) -> list[str]:
    """The layouts of what the products read."""
    tensors = {t.name: t for t in graph.tensors}
    return [tensors[i].layout for n in graph.nodes if n.op == "matmul" for i in n.inputs]


def test_single_taps_read_both_images_as_they_lie() -> None:
    _, fused = weight_gradient(16, (4, 8), 1)
    assert operands(fused) == ["NZ", "NZ"]
    assert not [n.op for n in fused.nodes if n.op == "from_nc1hwc0"]


def test_of_many_taps_the_result_gradient_lies_so() -> None:
    _, fused = weight_gradient(16, (4, 8), 3)
    assert sorted(operands(fused)) == ["ND", "NZ"]


@pytest.mark.parametrize("channels, size", [(16, (3, 5)), (24, (4, 4))])
def test_not_where_fractals_are_not_whole(channels: int, size: tuple[int, int]) -> None:
    _, fused = weight_gradient(channels, size, 1)
    assert "NZ" not in operands(fused)[1:]
