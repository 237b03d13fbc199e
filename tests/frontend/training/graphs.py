"""Drafts for tests of gradients, run in fp64, and finite differences of them."""
from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from aoec.frontend.training.differentiate import differentiate
from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import Attribute, OpNode
from aoec.ops.check import check
from aoec.ops.own import shape_of
from aoec.ops.run import NUMPY, run_node

STEP = 1e-6
Arrays = Mapping[str, np.ndarray]


class Sketch:
    """A draft that grows node by node; reals among `given` are its inputs, and others constants."""

    def __init__(self, **given: np.ndarray) -> None:
        self.draft = Draft("test", [], [])
        self.values: dict[str, np.ndarray] = {}
        for name, array in given.items():
            self.input(name, array)

    def input(self, name: str, array: np.ndarray) -> str:
        """The name of a new input, or constant, with this value."""
        array = np.asarray(array)
        if array.dtype.kind == "f":
            self.draft.tensor(name, "fp32", array.shape)
            self.draft.inputs = (*self.draft.inputs, name)
            self.values[name] = array.astype(np.float64)
        else:
            dtype = "bool" if array.dtype == bool else str(array.dtype)
            self.draft.constant(name, array, dtype)
        return name

    def add(self, op: str, *inputs: str, dtype: str = "fp32", attributes: Mapping[str, Attribute] | None = None, **more: Attribute) -> str:
        """The result of a new node."""
        given = {**(attributes or {}), **more}
        node = OpNode(self.draft.fresh(f"{op}_node", "node"), op, inputs, (), tuple(given.items()))
        out = self.draft.tensor(f"{op}_0", dtype, shape_of(node, [self.draft.tensors[i].shape for i in inputs if i]))
        self.draft.nodes.append(OpNode(node.name, op, inputs, (out,), node.attributes))
        return out

    def weighted(self, y: str, seed: int = 1) -> str:
        """The sum of a result, each element with a weight of its own."""
        shape = self.draft.tensors[y].shape
        w = self.draft.constant("weights", np.random.default_rng(seed).standard_normal(shape).astype(np.float32), "fp32")
        product = self.add("mul", y, w)
        return self.add("reduce_sum", product, axes=tuple(range(len(shape)))) if shape else product


def run(draft: Draft, values: Arrays, wanted: Sequence[str]) -> dict[str, np.ndarray]:
    """Tensors of a draft, calculated in fp64; whole numbers and truths as their tensors are."""
    held = {**{k: v.astype(np.float64) if v.dtype.kind == "f" else v for k, v in draft.weights.items()}, **values}
    for n in draft.nodes:
        dtype = draft.tensors[n.outputs[0]].dtype
        made = run_node(n, [held[i] if i else None for i in n.inputs])[0]
        assert made.shape == draft.tensors[n.outputs[0]].shape, n
        held[n.outputs[0]] = made.astype(np.float64 if dtype == "fp32" else NUMPY[dtype])
    return {name: held[name] for name in wanted}


def agrees(sketch: Sketch, loss: str, parameters: Sequence[str] = (), rel: float = 1e-5, absolute: float = 1e-6) -> dict[str, str]:
    """The gradients by parameter, after each was held against finite differences along a direction. A parameter without one has none by
    finite differences either."""
    draft = sketch.draft
    parameters = parameters or draft.inputs
    random = np.random.default_rng(3)
    grown = {}
    for p in parameters:
        along = random.standard_normal(sketch.values[p].shape)
        up, down = (float(run(draft, {**sketch.values, p: sketch.values[p] + sign * STEP * along}, [loss])[loss].sum()) for sign in (1, -1))
        grown[p] = along, (up - down) / (2 * STEP)
    found = differentiate(draft, loss, parameters)
    draft.outputs = (loss, *dict.fromkeys(found.values()))
    check(draft.finish()[0])
    made = run(draft, sketch.values, list(found.values()))
    for p, (along, wanted) in grown.items():
        if p in found:
            assert draft.tensors[found[p]].shape == sketch.values[p].shape and draft.tensors[found[p]].dtype == "fp32"
        told = float((made[found[p]] * along).sum()) if p in found else 0.0
        np.testing.assert_allclose(told, wanted, rtol=rel, atol=absolute, err_msg=p)
    return found
