"""Sums and their norms in one node, as onnxruntime's own domain has them: with the values that onnxruntime gives, in one launch."""
from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from aoec import ops
from aoec.base.errors import UnsupportedError
from aoec.frontend.translate.onnx import load
from aoec.lowering.arrange.fuse import fuse
from aoec.target.machine import load as machine

from .models import normal

SHAPE = (2, 7, 48)


def skip_model(op: str, inputs: str, outputs: str, opset: int = 17) -> onnx.ModelProto:
    """A model of one such node: x and r are its inputs, others constants; "_" is an argument or result that is left out."""
    names, made = ([n.replace("_", "") for n in names.split()] for names in (inputs, outputs))
    n = helper.make_node(op, names, made, "norm", domain="com.microsoft", epsilon=1e-3)
    graph = helper.make_graph([n], "net", [helper.make_tensor_value_info(i, TensorProto.FLOAT, SHAPE) for i in "xr"],
                              [helper.make_tensor_value_info(o, TensorProto.FLOAT, SHAPE) for o in made if o],
                              [numpy_helper.from_array(normal(48, seed=at), i) for at, i in enumerate(names[2:]) if i])
    versions = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=versions, ir_version=8)


@pytest.mark.parametrize("op, inputs", [
    ("SkipLayerNormalization", "x r g"), ("SkipLayerNormalization", "x r g b"), ("SkipLayerNormalization", "x r g b c"),
    ("SkipSimplifiedLayerNormalization", "x r g"), ("SkipSimplifiedLayerNormalization", "x r g c"),
])
@pytest.mark.parametrize("outputs", ["y", "y _ _ s"])
def test_values_are_those_of_onnxruntime(op: str, inputs: str, outputs: str) -> None:
    proto = skip_model(op, inputs, outputs)
    feeds = {name: normal(*SHAPE, seed=at + 9) for at, name in enumerate("xr")}
    wanted = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feeds)
    graph, weights, _ = load(proto, {}, "fp32")
    made = ops.evaluate(graph, feeds, weights)
    for name, exact in zip(graph.outputs, wanted, strict=True):
        np.testing.assert_allclose(made[name], exact, rtol=1e-5, atol=1e-5)
    fused, _ = fuse(graph, weights, machine("Ascend910B3"))
    assert len([g for g in fused.groups if g.kind != "view"]) == 1


def test_what_has_no_norm_to_be_spelt_out_with_is_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"com\.microsoft\.SkipLayerNormalization"):
        load(skip_model("SkipLayerNormalization", "x r g", "y", opset=16), {}, "fp32")
