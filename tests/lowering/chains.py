"""Random chains of operators as ONNX models, by seed: images and tensors of any rank, at sizes that no network of the zoo has."""
from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np
import onnx
from onnx import helper, numpy_helper, shape_inference

SIZES = (1, 1, 2, 3, 4, 5, 7, 8, 9, 11, 13, 15, 16, 17, 20, 24, 31, 32, 33, 40, 48, 56, 64, 65, 77, 85, 96, 100, 112, 127, 128, 129, 143,
         150, 197, 224, 255, 256, 257, 300)
MOST = 300_000  # elements of a tensor
MOST_PRODUCTS = 2e8


class Chain:
    """Nodes one after the other, each of the last one's result, perhaps with an earlier tensor, an input or a constant beside it."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.inputs: dict[str, tuple[int, ...]] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}

    def pick(self, values):
        return values[int(self.random.integers(len(values)))]

    def chance(self, share: float) -> bool:
        return bool(self.random.random() < share)

    def constant(self, array: np.ndarray | list[int]) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(array), f"c{len(self.constants)}"))
        return self.constants[-1].name

    def weight(self, *shape: int) -> str:
        fan_in = prod(shape[1:]) if len(shape) > 1 else 1
        return self.constant((self.random.standard_normal(shape) / fan_in**0.5).astype(np.float32))

    def input(self, shape: tuple[int, ...]) -> str:
        name = f"x{len(self.inputs)}"
        self.inputs[name] = self.shapes[name] = tuple(shape)
        return name

    def other(self, shape: tuple[int, ...]) -> str:
        """An earlier tensor of a shape, an input or a constant."""
        same = [name for name, s in self.shapes.items() if s == tuple(shape)]
        return self.pick(same) if same and self.chance(0.5) else self.input(shape) if self.chance(0.6) else self.weight(*shape)

    def add(self, op: str, *inputs: str, **attributes: object) -> str:
        """The first result of a new node; ValueError where a shape is none, or too large."""
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        try:
            made = shape_inference.infer_shapes(self.model(name), strict_mode=True, data_prop=True)
        except shape_inference.InferenceError as e:
            raise ValueError from e
        (shape,) = [tuple(d.dim_value for d in o.type.tensor_type.shape.dim) for o in made.graph.output]
        if min(shape, default=1) < 1 or prod(shape) > MOST:
            raise ValueError(f"{op} gives {shape}")
        self.shapes[name] = shape
        return name

    def model(self, result: str) -> onnx.ModelProto:
        read = {i for n in self.nodes for i in n.input}
        infos = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, s) for n, s in self.inputs.items() if n in read]
        out = helper.make_tensor_value_info(result, onnx.TensorProto.FLOAT, self.shapes.get(result))
        graph = helper.make_graph(self.nodes, "chain", infos, [out], [c for c in self.constants if c.name in read])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


Step = Callable[[Chain, str, tuple[int, ...]], str]


def axis(c: Chain, s: tuple[int, ...]) -> int:
    return int(c.random.integers(len(s)))


def unary(c: Chain, x: str, s: tuple[int, ...]) -> str:
    return c.add(c.pick(("Relu", "Sigmoid", "Tanh", "Abs", "Neg", "Erf", "HardSwish", "LeakyRelu", "Elu", "Softplus", "HardSigmoid")), x)


def square(c: Chain, x: str, s: tuple[int, ...]) -> str:
    return c.add("Mul", x, x)


def binary(c: Chain, x: str, s: tuple[int, ...]) -> str:
    return c.add(c.pick(("Add", "Mul", "Sub", "Max")), x, c.other(s if c.chance(0.4) else tuple(d if c.chance(0.6) else 1 for d in s)))


def softmax(c: Chain, x: str, s: tuple[int, ...]) -> str:
    return c.add("Softmax", x, axis=axis(c, s) if c.chance(0.4) else -1)


def reduction(c: Chain, x: str, s: tuple[int, ...]) -> str:
    axes = sorted({axis(c, s) for _ in range(int(c.random.integers(1, len(s) + 1)))})
    return c.add(c.pick(("ReduceMean", "ReduceMax", "ReduceL2")), x, axes=axes, keepdims=int(len(axes) == len(s) or c.chance(0.5)))


def transpose(c: Chain, x: str, s: tuple[int, ...]) -> str:
    return c.add("Transpose", x, perm=[int(a) for a in c.random.permutation(len(s))])


def part(c: Chain, x: str, s: tuple[int, ...]) -> str:
    first = [int(c.random.integers(0, d // 2 + 1)) for d in s]
    last = [int(c.random.integers(a + 1, d + 1)) if a < d else d for a, d in zip(first, s)]
    return c.add("Slice", x, *map(c.constant, (first, last, list(range(len(s))), [c.pick((1, 1, 1, 2)) for _ in s])))


def concat(c: Chain, x: str, s: tuple[int, ...]) -> str:
    at = axis(c, s)
    others = [c.other((*s[:at], s[at] if c.chance(0.5) else c.pick(SIZES[:20]), *s[at + 1:])) for _ in range(c.pick((1, 1, 2, 3)))]
    return c.add("Concat", *(others + [x] if c.chance(0.5) else [x, *others]), axis=at)


def pad(c: Chain, x: str, s: tuple[int, ...]) -> str:
    return c.add("Pad", x, c.constant([int(c.random.integers(0, 4)) if c.chance(0.35) else 0 for _ in range(2 * len(s))]))


def gather(c: Chain, x: str, s: tuple[int, ...]) -> str:
    at = axis(c, s)
    return c.add("Gather", x, c.constant(c.random.integers(0, s[at], c.pick((1, 5, 64)))), axis=at)


def product(c: Chain, x: str, s: tuple[int, ...]) -> str:
    n = c.pick(SIZES)
    if len(s) < 2 or prod(s) * n > MOST_PRODUCTS:
        raise ValueError
    y = c.add("MatMul", x, c.weight(s[-1], n) if c.chance(0.7) else c.other((*s[:-2], s[-1], n)))
    return c.add("Add", y, c.weight(n)) if c.chance(0.5) else y


def norm(c: Chain, x: str, s: tuple[int, ...]) -> str:
    return c.add("LayerNormalization", x, c.weight(s[-1]), c.weight(s[-1]), axis=-1)


def convolution(c: Chain, x: str, s: tuple[int, ...]) -> str:
    if len(s) not in (3, 4):
        raise ValueError
    rank, k, stride = len(s) - 2, c.pick((1, 3, 3, 5, 7)), c.pick((1, 1, 2, 3))
    group = s[1] if c.chance(0.2) else 1
    co = s[1] if group > 1 else c.pick(SIZES)
    if s[0] * co * s[1] // group * k**rank * prod(s[2:]) > MOST_PRODUCTS:
        raise ValueError
    return c.add("Conv", x, c.weight(co, s[1] // group, *[k] * rank), c.weight(co), group=group, strides=[stride] * rank,
                 pads=[k // 2 if c.chance(0.8) else 0] * 2 * rank)


def pool(c: Chain, x: str, s: tuple[int, ...]) -> str:
    k, stride = c.pick((1, 2, 3, 5)), c.pick((1, 2, 2, 3))
    return c.add(c.pick(("MaxPool", "AveragePool")), x, kernel_shape=[k, k], strides=[stride] * 2, pads=[(k - 1) // 2] * 4)


def pool_all(c: Chain, x: str, s: tuple[int, ...]) -> str:
    y = c.add(c.pick(("GlobalAveragePool", "GlobalMaxPool")), x)
    return c.add("Mul", x, c.add("Sigmoid", y)) if c.chance(0.6) else y


def resize(c: Chain, x: str, s: tuple[int, ...]) -> str:
    to = [*s[:2], *(2 * d if c.chance(0.4) else max(1, int(d * c.random.uniform(0.5, 2.5))) for d in s[2:])]
    return c.add("Resize", x, "", "", c.constant(to), mode=c.pick(("nearest", "linear")))


def norm_of_image(c: Chain, x: str, s: tuple[int, ...]) -> str:
    return c.add("InstanceNormalization", x, c.weight(s[1]), c.weight(s[1]))


ANY: tuple[Step, ...] = (unary, square, binary, binary, softmax, reduction, transpose, part, concat, pad, gather)
STEPS: dict[bool, tuple[Step, ...]] = {True: (*ANY, *[convolution] * 5, pool, pool_all, resize, resize, norm_of_image),
                                       False: (*ANY, *[product] * 3, norm, norm, convolution)}


def chain(seed: int) -> onnx.ModelProto:
    """A model of one to six operators, or a few more."""
    c = Chain(seed)
    image, shape = c.chance(0.5), (MOST,) * 2
    while not 32 < prod(shape) < MOST:
        shape = tuple(c.pick(SIZES) for _ in range(4 if image else c.pick((1, 2, 3, 3, 4))))
    x, wanted = c.input(shape), c.pick((1, 2, 3, 4, 5, 6))
    for _ in range(40):
        before = list(c.nodes)
        try:
            x = c.pick(STEPS[image and len(c.shapes[x]) == 4])(c, x, c.shapes[x])
            wanted -= 1
        except ValueError:
            c.nodes = before
        if not wanted:
            break
    return c.model(x)
