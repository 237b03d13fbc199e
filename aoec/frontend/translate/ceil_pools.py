"""Restates pools of `ceil_mode`. Windows that begin beyond the tensor are dropped, as onnxruntime and frameworks do, and as ONNX says from
operator set 22 on. Inference in older sets counts them. So such pools are written without such windows before shapes are inferred.

In onnxruntime the result of a transposed convolution of auto_pad SAME_* is stride times its image, as ONNX's text says. Inference adds
output_padding to that. So its `output_shape` is stated, too, where it has output_padding.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import onnx
from onnx import helper

from aoec.frontend.read.inference import infer_shapes

POOLS, TRANSPOSED = ("AveragePool", "LpPool", "MaxPool"), "ConvTranspose"
SAID = (*POOLS, TRANSPOSED)  # of which inference and onnxruntime may differ
Infer = Callable[[onnx.ModelProto], onnx.ModelProto]


def as_run(node: onnx.NodeProto, shapes: Sequence[Sequence[int] | None]) -> list[onnx.NodeProto]:
    """Return the nodes that replace a node of SAID with arguments of these shapes, so that inference gives what onnxruntime does. Return
    none where it does so already, or where the shapes are not known."""
    return _same(node, *shapes[:2]) if node.op_type == TRANSPOSED and len(shapes) > 1 else restate_pool(node, shapes[0])


def _same(node: onnx.NodeProto, shape: Sequence[int] | None, weight: Sequence[int] | None) -> list[onnx.NodeProto]:
    """Return the transposed convolution with its `output_shape` where it pads its result too and leaves it to auto_pad."""
    given = {a.name: helper.get_attribute_value(a) for a in node.attribute if a.name}
    more = list(given.get("output_padding", ()))
    if not given.get("auto_pad", b"").startswith(b"SAME") or given.get("output_shape") or not any(more) or shape is None or weight is None:
        return []
    ones, kernel = [1] * len(more), weight[2:]
    strides, dilations = list(given.get("strides", ones)), list(given.get("dilations", ones))
    if not len(more) == len(kernel) == len(shape) - 2 == len(strides) == len(dilations) or min(*shape, *kernel) < 1:
        return []
    whole = [s * (i - 1) + d * (k - 1) + 1 + m for i, k, s, d, m in zip(shape[2:], kernel, strides, dilations, more)]
    return [_with_attributes(node, output_shape=[min(i * s, w) for i, s, w in zip(shape[2:], strides, whole)])]


def restate_pool(node: onnx.NodeProto, shape: Sequence[int] | None) -> list[onnx.NodeProto]:
    """Return the pool of a tensor of this shape, said so that no window begins behind the tensor; none where it is so, or not known.

    Along an axis from which a window is dropped the others lie within the padding that is stated, and rounding down counts these. Of
    another that is rounded up padding says as much, unless it would be counted: then axes are pooled apart.
    """
    given = {a.name: helper.get_attribute_value(a) for a in node.attribute if a.name}
    kernel, auto = list(given.get("kernel_shape", ())), given.get("auto_pad", b"NOTSET")
    if node.op_type not in POOLS or not given.get("ceil_mode", 0) or shape is None or not 0 < len(kernel) == len(shape) - 2:
        return []
    ones = [1] * len(kernel)
    strides, dilations = list(given.get("strides", ones)), list(given.get("dilations", ones))
    pads = [0] * (2 * len(kernel)) if auto == b"VALID" else list(given.get("pads", [0] * (2 * len(kernel))))
    if not len(pads) == 2 * len(strides) == 2 * len(dilations) == 2 * len(kernel) or min(*kernel, *strides, *dilations, *shape) < 1:
        return []
    if auto.startswith(b"SAME"):
        return [_with_attributes(node, ceil_mode=0)]  # there is a window for each stride
    before, after = pads[:len(kernel)], pads[len(kernel):]
    fixed = [size + b - d * (k - 1) - 1 for size, b, d, k in zip(shape[2:], before, dilations, kernel)]  # the last place without `after`
    last = [-(-(f + a) // s) * s for f, a, s in zip(fixed, after, strides)]  # where the last window begins, if they are rounded up
    beyond = [at >= size + b and at > f + a for at, size, b, f, a in zip(last, shape[2:], before, fixed, after)]
    if not any(beyond):
        return []
    if all(b or at == f + a for b, at, f, a in zip(beyond, last, fixed, after)):
        return [_with_attributes(node, ceil_mode=0)]
    if node.op_type == "AveragePool" and given.get("count_include_pad", 0):
        return _split_pool(node, beyond, kernel, strides, dilations, pads)
    ends = [a if b else max(a, at - f) for a, b, at, f in zip(after, beyond, last, fixed)]
    return [_with_attributes(node, ceil_mode=0, pads=[*before, *ends], auto_pad="NOTSET")]


def _split_pool(node: onnx.NodeProto, first: Sequence[bool], *sizes: list[int]) -> list[onnx.NodeProto]:
    """Return the pool as two: over the axes that are rounded down, then over the others."""
    between, names, neutral = f"{node.output[0]}_rounded_down", ("kernel_shape", "strides", "dilations", "pads"), (1, 1, 1, 0)

    def over(chosen: Sequence[bool], **attributes: object) -> onnx.NodeProto:
        own = {name: [v if own else n for v, own in zip(values, [*chosen, *chosen])] for name, values, n in zip(names, sizes, neutral)}
        own = {name: values for name, values in own.items() if name != "dilations" or set(values) != {1}}  # not an attribute of older ones
        return _with_attributes(node, **own, auto_pad="NOTSET", **attributes)
    down, up = over(first, ceil_mode=0), over([not f for f in first])
    down.output[0] = up.input[0] = between
    return [down, up]


def _with_attributes(node: onnx.NodeProto, **attributes: object) -> onnx.NodeProto:
    """Return the node with these attributes in place of its own."""
    out = onnx.NodeProto()
    out.CopyFrom(node)
    del out.attribute[:]
    out.attribute.extend([a for a in node.attribute if a.name not in attributes])
    out.attribute.extend([helper.make_attribute(name, value) for name, value in attributes.items()])
    return out


def infer_restated(proto: onnx.ModelProto, infer: Infer) -> onnx.ModelProto:
    """Return the result of inference on a model after its nodes were restated. For each node, the tensors before it are known by then."""
    marks = ("ceil_mode", "output_padding")
    if not any(n.op_type in SAID and any(a.name in marks and (a.i or any(a.ints)) for a in n.attribute) for n in proto.graph.node):
        return infer(proto)
    changed = onnx.ModelProto()
    changed.CopyFrom(proto)
    while (found := next(_beyond(changed), None)) is not None:
        at, pools = found
        changed.graph.node[at].CopyFrom(pools[-1])
        for pool in pools[:-1]:
            changed.graph.node.insert(at, pool)
    return infer(changed)


def _beyond(proto: onnx.ModelProto) -> Iterator[tuple[int, list[onnx.NodeProto]]]:
    """Yield, by its place, each node of which inference would give something else, with the nodes that restate it."""
    graph = infer_shapes(proto, data_prop=True).graph
    types = {i.name: i.type.tensor_type for i in (*graph.input, *graph.value_info)}
    shapes = {name: [d.dim_value if d.HasField("dim_value") else 0 for d in t.shape.dim] for name, t in types.items()
              if t.HasField("shape")}
    shapes |= {w.name: list(w.dims) for w in graph.initializer}
    for at, node in enumerate(proto.graph.node):
        if node.op_type in SAID and (said := as_run(node, [shapes.get(i) for i in node.input])):
            yield at, said
