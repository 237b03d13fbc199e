"""Rewrites in ONNX's own operators those that onnxruntime accepts in the default domain although ONNX does not define them, or no longer
does.

`SimplifiedLayerNormalization` is x / sqrt(mean(x^2) + epsilon) * scale over the dimensions that `scale` has. From operator set 23 on it
becomes RMSNormalization. Before, it becomes its single steps, which the clean-up passes find again.

`SkipLayerNormalization` and `SkipSimplifiedLayerNormalization` are of onnxruntime's own domain. They add two tensors, and perhaps a bias,
and normalise the rows of the sum. The sum is a result of its own beside the norm.

`ThresholdedRelu` was an experiment of operator set 1, which ONNX took back and defined as the same since 10. onnxruntime runs it in the
sets between, too, in fp32: x where x > alpha, else 0.

`GroupNormalization` of operator sets 18 to 20 has a scale and a bias for each group. ONNX took it back, since frameworks have them for each
channel, and so has ONNX from 21 on. ONNX's checker refuses models with the former; onnxruntime runs them. Here, groups become the channels
of an InstanceNormalization. From 21 on they do, too, followed by a scale and a bias for each channel. ONNX defines the variance there as a
difference of large means, E(x^2) - E(x)^2, which loses digits where values are far from 0.
"""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

NORM, THRESHOLDED, BY_GROUP = "SimplifiedLayerNormalization", "ThresholdedRelu", "GroupNormalization"
SKIPS = {"SkipLayerNormalization": "LayerNormalization", "SkipSimplifiedLayerNormalization": NORM}
FIRST_NORM = 17  # the first operator set with LayerNormalization
FIRST_GROUPED, FIRST_BY_CHANNEL = 18, 21  # operator sets: the first with GroupNormalization, and the first with scales of channels
FIRST_SET, DEFINED_SET, WHERE_SET = 7, 10, 9  # of ThresholdedRelu: where numbers broadcast, where ONNX defines it; of Where


def spell_out(proto: onnx.ModelProto, version: int) -> None:
    """Rewrite every such node of the model, in subgraphs too, in operators that ONNX defines, where this is possible: a norm must have a
    constant scale."""
    _spell_out(proto.graph, version, {}, set())


def _spell_out(graph: onnx.GraphProto, version: int, around: dict[str, onnx.TensorProto], taken: set[str]) -> None:
    """Rewrite such nodes of a graph. `around` holds the constants of the graphs around it, `taken` the names in use, to which its own are
    added."""
    scales = {**around, **{i.name: i for i in graph.initializer}}
    nodes = list(graph.node)
    taken |= {name for n in nodes for name in (*n.input, *n.output)} | scales.keys() | {i.name for i in graph.input}
    for n in nodes:
        for a in n.attribute:
            for inner in (*([a.g] if a.HasField("g") else []), *a.graphs):
                _spell_out(inner, version, scales, taken)
    if not any(_is_known(n, scales, version) for n in nodes):
        return
    del graph.node[:]
    for n in nodes:
        if not _is_known(n, scales, version):
            graph.node.append(n)
        elif n.op_type in SKIPS:
            graph.node.extend(_skip(n, scales, version, taken, graph))
        elif n.op_type == NORM:
            graph.node.extend(_norm(n, scales[n.input[1]], version, taken, graph))
        elif n.op_type == BY_GROUP:
            by_group = version < FIRST_BY_CHANNEL
            graph.node.extend(_by_group(n, taken, graph) if by_group else _by_channel(n, scales[n.input[1]], taken, graph))
        else:
            graph.node.extend(_expand_thresholded(n, version, taken, graph))


def _is_known(n: onnx.NodeProto, scales: dict[str, onnx.TensorProto], version: int) -> bool:
    """Return whether a node is one of these, as far as it can be spelt out."""
    if n.domain == "com.microsoft" and n.op_type in SKIPS:
        simple = SKIPS[n.op_type] == NORM
        has_scale = len(n.input) > 2 and all(n.input[:3])
        return has_scale and (n.input[2] in scales and not any(n.output[1:3]) if simple else version >= FIRST_NORM)
    if n.domain not in ("", "ai.onnx") or len(n.output) != 1:
        return False
    if n.op_type == THRESHOLDED:
        return FIRST_SET <= version < DEFINED_SET and len(n.input) == 1
    if n.op_type == BY_GROUP:
        given = {a.name: a.i for a in n.attribute}
        if version < FIRST_GROUPED or len(n.input) != 3 or given.get("num_groups", 0) < 1:
            return False
        return version < FIRST_BY_CHANNEL or n.input[1] in scales and given.get("stash_type", 1) == 1
    return n.op_type == NORM and len(n.input) > 1 and n.input[1] in scales


def _expand_thresholded(n: onnx.NodeProto, version: int, taken: set[str], graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """Yield the nodes in place of a ThresholdedRelu; `graph` gets their constants. Before there was Where, what passes is multiplied by 1
    and the rest, which is alpha then and so finite, by 0."""
    x, alpha = n.input[0], next((a.f for a in n.attribute if a.name == "alpha"), 1.0)
    names = {label: _fresh(f"{n.output[0]}_{label}", taken) for label in ("passes", "alpha", "zero", "factor", "clipped")}
    graph.initializer.append(numpy_helper.from_array(np.array(alpha, np.float32), names["alpha"]))
    yield helper.make_node("Greater", [x, names["alpha"]], [names["passes"]])
    if version >= WHERE_SET:
        graph.initializer.append(numpy_helper.from_array(np.array(0, np.float32), names["zero"]))
        yield helper.make_node("Where", [names["passes"], x, names["zero"]], list(n.output), n.name)
        return
    yield helper.make_node("Cast", [names["passes"]], [names["factor"]], to=onnx.TensorProto.FLOAT)
    yield helper.make_node("Clip", [x], [names["clipped"]], min=alpha)
    yield helper.make_node("Mul", [names["clipped"], names["factor"]], list(n.output), n.name)


def _by_group(n: onnx.NodeProto, taken: set[str], graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """Yield the nodes in place of a GroupNormalization with scales of groups; `graph` gets the shape [batch, groups, the rest]."""
    x, scale, bias = n.input
    groups = next(a.i for a in n.attribute if a.name == "num_groups")
    epsilon = next((a.f for a in n.attribute if a.name == "epsilon"), 1e-5)
    names = {label: _fresh(f"{n.output[0]}_{label}", taken) for label in ("shape", "to_groups", "groups", "normal")}
    graph.initializer.append(numpy_helper.from_array(np.array([0, groups, -1], np.int64), names["to_groups"]))
    yield helper.make_node("Shape", [x], [names["shape"]])
    yield helper.make_node("Reshape", [x, names["to_groups"]], [names["groups"]])
    yield helper.make_node("InstanceNormalization", [names["groups"], scale, bias], [names["normal"]], n.name, epsilon=epsilon)
    yield helper.make_node("Reshape", [names["normal"], names["shape"]], list(n.output))


def _by_channel(n: onnx.NodeProto, factor: onnx.TensorProto, taken: set[str], graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """Yield the nodes in place of a GroupNormalization with scales of channels, of the type of `factor`; `graph` gets their constants."""
    x, scale, bias = n.input
    groups = next(a.i for a in n.attribute if a.name == "num_groups")
    epsilon = next((a.f for a in n.attribute if a.name == "epsilon"), 1e-5)
    names = {label: _fresh(f"{n.output[0]}_{label}", taken) for label in (
        "shape", "to_channels", "to_groups", "to_columns", "channels", "channels_shape", "groups", "one", "zero", "normal", "parts",
        "scale", "bias", "scaled", "shifted")}
    shapes = {"to_channels": [0, 0, -1], "to_groups": [0, groups, -1], "to_columns": [-1, 1]}
    graph.initializer.extend(numpy_helper.from_array(np.array(shape, np.int64), names[label]) for label, shape in shapes.items())
    graph.initializer.extend(helper.make_tensor(names[label], factor.data_type, [groups], [value] * groups)
                             for label, value in (("one", 1.0), ("zero", 0.0)))

    def step(op: str, inputs: str, result: str, **attributes: Any) -> onnx.NodeProto:
        return helper.make_node(op, [names[i] for i in inputs.split()], [names[result]], **attributes)
    yield helper.make_node("Shape", [x], [names["shape"]])
    yield helper.make_node("Reshape", [x, names["to_channels"]], [names["channels"]])
    yield step("Shape", "channels", "channels_shape")
    yield step("Reshape", "channels to_groups", "groups")
    yield step("InstanceNormalization", "groups one zero", "normal", name=n.name, epsilon=epsilon)
    yield step("Reshape", "normal channels_shape", "parts")
    for label, given in (("scale", scale), ("bias", bias)):
        yield helper.make_node("Reshape", [given, names["to_columns"]], [names[label]])
    yield step("Mul", "parts scale", "scaled")
    yield step("Add", "scaled bias", "shifted")
    yield helper.make_node("Reshape", [names["shifted"], names["shape"]], list(n.output))


def _skip(n: onnx.NodeProto, scales: dict[str, onnx.TensorProto], version: int, taken: set[str],
          graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """Yield the nodes in place of a sum and its norm; `graph` gets their constants. The fourth result is the sum."""
    simple = SKIPS[n.op_type] == NORM
    given, (y, *rest) = [*n.input, "", ""], list(n.output)
    biases, bias = ([], given[3]) if simple else (given[3:4], given[4])
    total = rest[2] if len(rest) > 2 and rest[2] else _fresh(f"{y}_sum", taken)
    added = _fresh(f"{y}_added", taken) if bias else total
    yield helper.make_node("Add", list(n.input[:2]), [added], f"{n.name}_add" if n.name else "")
    if bias:
        yield helper.make_node("Add", [added, bias], [total])
    epsilon = next((a.f for a in n.attribute if a.name == "epsilon"), 1e-12)
    norm = helper.make_node(SKIPS[n.op_type], [total, given[2], *filter(None, biases)], [y, *([] if simple else rest[:2])], n.name,
                            epsilon=epsilon)
    yield from _norm(norm, scales[given[2]], version, taken, graph) if simple else [norm]


def _norm(n: onnx.NodeProto, scale: onnx.TensorProto, version: int, taken: set[str], graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """Yield the nodes in place of a norm; `graph` gets their constants."""
    x, epsilon = n.input[0], next((a.f for a in n.attribute if a.name == "epsilon"), 1e-5)
    axes = list(range(-len(scale.dims), 0))
    if version >= 23:
        yield helper.make_node("RMSNormalization", [x, scale.name], list(n.output), n.name, axis=axes[0], epsilon=epsilon)
        return
    names = {label: _fresh(f"{n.output[0]}_{label}", taken) for label in ("square", "mean", "shifted", "root", "unit", "epsilon", "axes")}
    small = np.array(epsilon, helper.tensor_dtype_to_np_dtype(scale.data_type))
    graph.initializer.append(numpy_helper.from_array(small, names["epsilon"]))
    given: dict[str, Any] = {"axes": axes} if version < 18 else {}
    if version >= 18:
        graph.initializer.append(numpy_helper.from_array(np.array(axes, np.int64), names["axes"]))
    yield helper.make_node("Mul", [x, x], [names["square"]])
    yield helper.make_node("ReduceMean", [names["square"], *([names["axes"]] if version >= 18 else [])], [names["mean"]], **given)
    yield helper.make_node("Add", [names["mean"], names["epsilon"]], [names["shifted"]])
    yield helper.make_node("Sqrt", [names["shifted"]], [names["root"]])
    yield helper.make_node("Div", [x, names["root"]], [names["unit"]])
    yield helper.make_node("Mul", [names["unit"], scale.name], list(n.output), n.name)


def _fresh(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name
