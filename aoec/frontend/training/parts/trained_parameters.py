"""Finds the trainable parameters of an inference model: real constants that nodes read as weights, biases, scales or embeddings.

ONNX does not record whether a constant was trained. So this follows from its readers: WEIGHTS says which arguments of which operators are
weights. Constants behind nodes that only move elements or cast them count, too. The running mean and variance of a BatchNormalization do
not count; the step itself updates them (batch_norms.py). Shapes, epsilons and single numbers do not count either.
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import prod

import numpy as np
import onnx
from onnx import TensorProto, helper

from aoec.base.errors import CheckError
from aoec.base.text import nearest
from aoec.frontend.read.read import Shapes, read
from aoec.frontend.read.weights import REALS, Arrays, array_of
from aoec.frontend.rules import RULES
from aoec.ops.own import Definitions

# operator -> which of its arguments are weights
WEIGHTS: dict[str, tuple[int, ...]] = {
    "Conv": (1, 2), "ConvTranspose": (1, 2), "Gemm": (0, 1, 2), "MatMul": (0, 1), "Gather": (0,), "PRelu": (1,),
    "BatchNormalization": (1, 2), "InstanceNormalization": (1, 2), "LayerNormalization": (1, 2), "GroupNormalization": (1, 2),
    "RMSNormalization": (1,), "LSTM": (1, 2, 3, 7), "GRU": (1, 2, 3), "RNN": (1, 2, 3)}
FACTORS = ("Add", "Mul")  # of which a constant of several elements is a bias or a scale
MOVING = ("Transpose", "Reshape", "Identity", "Squeeze", "Unsqueeze", "Cast", "Expand", "Flatten", "Slice")  # their first argument counts
RUNNING = (3, 4)  # arguments of a BatchNormalization: running mean and variance


@dataclass(frozen=True)
class Parameter:
    """A trainable parameter: its name, shape and values, in fp32 whatever the model declares."""

    name: str
    values: np.ndarray

    @property
    def size(self) -> int:
        """Return its number of elements."""
        return int(self.values.size)


def free_parameters(proto: onnx.ModelProto, arrays: Arrays, patterns: Sequence[str] = ()) -> tuple[list[Parameter], list[Parameter]]:
    """Turn parameters and running statistics of a model into inputs of the same names, in fp32, and return (parameters, running
    statistics).

    They are in the order in which nodes read them. Their data are taken from `arrays`, the large constants. `patterns` are patterns of the
    names that are trained. Raise CheckError where there are no parameters, or where a pattern matches none.
    """
    g = proto.graph
    _name_constants(g)
    constants = {w.name: w for w in g.initializer if w.data_type in REALS}
    found = _find_parameters(g, constants)
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in found):
            raise CheckError(f"--trained {pattern} is the name of no parameter{nearest(pattern, found)}; the parameters are "
                             f"{', '.join(found) or 'none'}"[:600])
    found = [name for name in found if not patterns or any(fnmatchcase(name, p) for p in patterns)]
    if not found:
        raise CheckError("the model has no parameters that can be trained: no constant of reals is a weight, bias, scale or embedding of "
                         "one of its nodes")
    running = list(dict.fromkeys(n.input[at] for n in g.node if n.op_type == "BatchNormalization" and not _trains(n) for at in RUNNING
                                 if n.input[at] in constants))
    return tuple(_free(g, [constants[name] for name in names], arrays) for names in (found, running))  # type: ignore[return-value]


def _trains(n: onnx.NodeProto) -> bool:
    return any(a.name == "training_mode" and a.i for a in n.attribute)


def _find_parameters(g: onnx.GraphProto, constants: Iterable[str]) -> list[str]:
    """Return the names of constants that are parameters, in the order in which nodes read them."""
    makers = {o: n for n in g.node for o in n.output}
    sizes = {w.name: prod(w.dims) for w in g.initializer}
    known, out = set(constants), dict[str, None]()
    for n in g.node:
        places = WEIGHTS.get(n.op_type, range(len(n.input)) if n.op_type in FACTORS else ())
        for name in (n.input[at] for at in places if at < len(n.input)):
            while name in makers and makers[name].op_type in MOVING:
                name = makers[name].input[0]
            if name in known and (n.op_type not in FACTORS or sizes[name] > 1):
                out[name] = None
    return list(out)


def _name_constants(g: onnx.GraphProto) -> None:
    """Turn real constants that nodes make into initialisers."""
    kept = []
    for n in g.node:
        value = next((a.t for a in n.attribute if a.name == "value"), None) if n.op_type == "Constant" else None
        if value is None or value.data_type not in REALS:
            kept.append(n)
        else:
            g.initializer.add().CopyFrom(value)
            g.initializer[-1].name = n.output[0]
    if len(kept) < len(g.node):
        nodes = [_copy_node(n) for n in kept]
        del g.node[:]
        g.node.extend(nodes)


def _copy_node(n: onnx.NodeProto) -> onnx.NodeProto:
    out = onnx.NodeProto()
    out.CopyFrom(n)
    return out


def _free(g: onnx.GraphProto, chosen: Sequence[TensorProto], arrays: Arrays) -> list[Parameter]:
    """Return the constants as parameters, which are inputs of the graph now."""
    made = [Parameter(w.name, np.asarray(arrays.pop(w.name) if w.name in arrays else array_of(w), np.float32)) for w in chosen]
    gone = {p.name for p in made}
    for field in (g.initializer, g.input, g.value_info):
        for at in reversed(range(len(field))):
            if field[at].name in gone:
                del field[at]
    g.input.extend(helper.make_tensor_value_info(p.name, TensorProto.FLOAT, p.values.shape) for p in made)
    return made


def initial_values(model: str | onnx.ModelProto, shapes: Shapes, definitions: Definitions,
                   patterns: Sequence[str] = ()) -> dict[str, np.ndarray]:
    """Return the values that a model has for its parameters and running statistics, by name."""
    proto, arrays = read(model, shapes, frozenset(RULES), [], definitions)
    return {p.name: p.values for listed in free_parameters(proto, arrays, patterns) for p in listed}
