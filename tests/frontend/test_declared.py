"""Law: an ONNX operator that a declaration names becomes that word, and gives what ONNX's own evaluator does."""
from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from aoec import ops
from aoec.frontend.rules import HAND
from aoec.frontend.rules import declared_words as declared
from aoec.frontend.translate.onnx import load
from aoec.ops.declare import Op
from tests.laws.operators import draw_arrays, samples_of

NAMES = "abcdefgh"
NAMED = [w for name, words in declared.WORDS.items() if name not in HAND for w in words]


def model_of(op: Op, arrays: list[np.ndarray], attributes: dict[str, object], opset: int) -> onnx.ModelProto:
    """A model of the one node; the type of its result is inferred."""
    assert op.onnx is not None
    fixed = {name: value for name, (value, _) in op.onnx.fixed.items()}
    node = helper.make_node(op.onnx.name, [*NAMES[:len(arrays)]], ["y"], **fixed, **attributes)
    inputs = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in zip(NAMES, arrays)]
    bare = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", 0, None)])
    proto = helper.make_model(bare, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    proto.graph.output[0].CopyFrom(onnx.shape_inference.infer_shapes(proto).graph.output[0])
    return proto


@pytest.mark.parametrize("op", NAMED, ids=lambda op: op.name)
@pytest.mark.parametrize("stated", [True, False])
def test_a_node_becomes_the_word_that_names_it(op: Op, stated: bool) -> None:
    """With attributes that a node states, and those that it has where it states none."""
    assert op.onnx is not None
    sample = samples_of(op)[0]
    arrays = draw_arrays(sample, np.random.default_rng(3))
    attributes = {name: sample.attributes.get(name, value) for name, value in op.onnx.attributes.items()}
    proto = model_of(op, arrays, attributes if stated else {}, max(op.onnx.since, 18))
    graph, weights, _ = load(proto, precision="fp32")
    assert [n.op for n in graph.nodes] == [op.name]
    assert dict(graph.nodes[0].attributes) == pytest.approx(attributes if stated else op.onnx.attributes)
    feeds = dict(zip(NAMES, arrays))
    with np.errstate(all="ignore"):
        (wanted,) = ReferenceEvaluator(proto).run(None, feeds)
        got = ops.evaluate(graph, feeds, weights)["y"]
    np.testing.assert_allclose(got.astype(wanted.dtype), wanted, rtol=3e-5, atol=1e-6)


def test_attributes_that_no_word_fixes_are_of_no_word() -> None:
    """An infinity of neither sign is found on the host."""
    node = helper.make_node("IsInf", ["a"], ["y"], detect_negative=0, detect_positive=0)
    given, made = (helper.make_tensor_value_info(n, t, (3,)) for n, t in (("a", onnx.TensorProto.FLOAT), ("y", onnx.TensorProto.BOOL)))
    bare = helper.make_graph([node], "g", [given], [made])
    proto = helper.make_model(bare, opset_imports=[helper.make_opsetid("", 20)], ir_version=8)
    assert [n.op for n in load(proto, precision="fp32")[0].nodes] == ["host.IsInf"]
