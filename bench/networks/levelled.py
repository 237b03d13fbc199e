"""A network whose convolutions give results of unit variance, as the batch normalisation does that exporters fold away."""
from __future__ import annotations

import numpy as np
import onnx
from onnx import helper, numpy_helper

from bench.networks.net import Network
from bench.networks.reference import results

PARTS = 256  # of a power of two, in which a factor is given: sums in another order make the same weights


def levelled(network: Network) -> Network:
    """Return the network, the weights and bias of each convolution scaled alike.

    Weights of variance gain / fan-in keep unit variance where the gain of what they read is known. Residual sums, the greatest of
    neighbours and concatenations leave it a little off, an activation that lets large numbers through whole passes it on, and sixty layers
    make a hundred of it, where a trained network has its batch normalisation.
    """
    model = network.model
    convolutions = [n for n in model.graph.node if n.op_type == "Conv"]
    deviations = results(_divided(model), network.feeds, [f"{n.name}_deviation" for n in convolutions])
    constants = {c.name: c for c in model.graph.initializer}
    for node, deviation in zip(convolutions, deviations.values()):
        for name in node.input[1:]:
            scaled = numpy_helper.to_array(constants[name]) * np.float32(factor(float(deviation)))
            constants[name].CopyFrom(numpy_helper.from_array(scaled, name))
    return network


def factor(deviation: float) -> float:
    """Return what makes a deviation one, to so many parts of a power of two."""
    fraction, exponent = np.frexp(1.0 / deviation)
    return float(np.ldexp(np.round(fraction * PARTS) / PARTS, exponent))


def _divided(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with each convolution's results divided by their deviation from 0, which it gives too."""
    nodes, outputs = [], []
    for node in model.graph.node:
        nodes.append(node)
        if node.op_type == "Conv":
            (result,) = node.output
            raw, square, mean, deviation = (f"{node.name}_{part}" for part in ("raw", "square", "mean", "deviation"))
            nodes[-1] = helper.make_node("Conv", node.input, [raw], node.name)
            nodes[-1].attribute.extend(node.attribute)
            nodes += [helper.make_node("Mul", [raw, raw], [square]), helper.make_node("ReduceMean", [square], [mean], keepdims=0),
                      helper.make_node("Sqrt", [mean], [deviation]), helper.make_node("Div", [raw, deviation], [result])]
            outputs.append(helper.make_tensor_value_info(deviation, onnx.TensorProto.FLOAT, []))
    graph = helper.make_graph(nodes, model.graph.name, model.graph.input, outputs, model.graph.initializer)
    return helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
