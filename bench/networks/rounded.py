"""What it costs to keep tensors in 16 bits and nothing else: a model calculated in fp32, each of its reals rounded where it is stored."""
from __future__ import annotations

import onnx
from onnx import TensorProto, helper

DTYPES = {"bf16": TensorProto.BFLOAT16}  # of precisions; fp16 of the others


def rounded(model: onnx.ModelProto, precision: str = "fp16") -> onnx.ModelProto:
    """Return the model with its real constants, its inputs and what its nodes give to others rounded to a precision's 16 bits.

    Run without optimisations (which might take a conversion there and back away) it says how far these bits themselves are from fp32,
    whoever calculates: no product, sum or function of it is calculated in them, and nothing of aoec is asked.
    """
    graph, dtype = model.graph, DTYPES.get(precision, TensorProto.FLOAT16)
    types = {v.name: v.type.tensor_type.elem_type for v in (*graph.input, *onnx.shape_inference.infer_shapes(model).graph.value_info)}
    types |= {c.name: c.data_type for c in graph.initializer}
    kept: dict[str, str] = {}  # tensor -> the same, rounded

    def there_and_back(names: list[str]) -> list[onnx.NodeProto]:
        nodes = []
        for name in (n for n in names if types.get(n) == TensorProto.FLOAT):
            kept[name] = f"{name}_rounded"
            nodes += [helper.make_node("Cast", [name], [f"{name}_half"], to=dtype),
                      helper.make_node("Cast", [f"{name}_half"], [kept[name]], to=TensorProto.FLOAT)]
        return nodes

    nodes = there_and_back([v.name for v in (*graph.initializer, *graph.input)])
    for node in graph.node:
        step = onnx.NodeProto()
        step.CopyFrom(node)
        step.input[:] = [kept.get(i, i) for i in node.input]
        nodes += [step, *there_and_back(list(node.output))]
    made = helper.make_graph(nodes, graph.name, graph.input, graph.output, graph.initializer)
    return helper.make_model(made, opset_imports=model.opset_import, ir_version=model.ir_version)
