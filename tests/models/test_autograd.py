"""The backward graphs of networks as PyTorch exports them give the gradients of PyTorch's autograd.

PyTorch is some 3 GB to fetch, so `make test-all` alone installs it, with the group `exporters` of pyproject.toml.
"""
from __future__ import annotations

from functools import cache

import numpy as np
import onnx
import pytest

from aoec import ops
from aoec.frontend.training.differentiate import differentiate
from aoec.frontend.translate.onnx import load
from aoec.ir.graph.draft import Draft
from aoec.lowering.arrange.fuse import fuse
from aoec.target.machine import load as load_machine

pytest.importorskip("torch", reason="PyTorch is not installed; make test-all does that")
from .trained import NETWORKS, Trained, trained

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # the exporter warns of much, of itself too
TOLERANCE = 1e-4  # max|a - b| / max|b|, of each gradient


class Gradients:
    """Parameters of a model as inputs, and their gradients as results of its graph beside the loss."""

    def __init__(self, parameters: list[str]) -> None:
        self.parameters = parameters
        self.found: dict[str, str] = {}

    def prepare(self, proto: onnx.ModelProto, arrays: dict[str, np.ndarray]) -> list[str]:
        kept = []
        for w in proto.graph.initializer:
            if w.name in self.parameters:
                proto.graph.input.append(onnx.helper.make_tensor_value_info(w.name, w.data_type, list(w.dims)))
            else:
                kept.append(w)
        del proto.graph.initializer[:]
        proto.graph.initializer.extend(kept)
        return []

    def extend(self, draft: Draft) -> list[str]:
        self.found = differentiate(draft, draft.outputs[0], self.parameters)
        named = {p: draft.tensor(f"{p}_grad", "fp32", draft.tensors[p].shape) for p in self.found}
        draft.nodes += [draft.node("reshape", [self.found[p]], out, {"shape": draft.tensors[p].shape}) for p, out in named.items()]
        self.found = named
        draft.outputs = (draft.outputs[0], *named.values())
        return []

    def settle(self, draft: Draft) -> None: ...
    def finish(self, draft: Draft) -> None: ...


@cache
def made(name: str) -> Trained:
    return trained(name)


@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_are_those_of_autograd(name: str) -> None:
    """Of the cleaned graph, and of the one in layouts and groups."""
    t = made(name)
    assert t.values.keys() <= {w.name for w in t.proto.graph.initializer}
    gradients = Gradients(list(t.values))
    graph, weights, _ = load(t.proto, precision="fp32", additions=gradients)
    assert gradients.found.keys() == t.gradients.keys()
    assert [n.op for n in graph.nodes if n.op.startswith("host.")] == []
    fused = fuse(graph, weights, load_machine("Ascend910B3"))
    for made_graph, constants in ((graph, weights), fused):
        values = ops.evaluate(made_graph, {**t.feeds, **t.values}, constants)
        assert float(values["loss"]) == pytest.approx(t.loss, rel=1e-5)
        for p, wanted in t.gradients.items():
            assert np.abs(values[gradients.found[p]] - wanted).max() <= TOLERANCE * np.abs(wanted).max(), p
