"""A graph of one operator from its name and sizes, so that a kernel can be studied without a model."""
from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Collection, Mapping

import numpy as np

from aoec.base.errors import ParseError
from aoec.base.text import nearest
from aoec.ir.graph.graph import Graph, OpNode, Tensor
from aoec.ir.index import DTYPES as DTYPE_BYTES
from aoec.ir.index import reads
from aoec.ir.text.parse import parse_meaning
from aoec.ops import OPS, shape
from aoec.ops.own import NO_DEFINITIONS, Definitions
from aoec.ops.run import NUMPY
from aoec.ops.sizes import Call, Made, Sizes

SIZE_LIMIT = 1 << 20
CONSTANT_LIMIT_BYTES = 1 << 30
NUMBER = r"-?\d{1,18}(?:\.\d{1,18})?(?:[eE][+-]?\d{1,3})?"
WORD = re.compile(rf"\s*(?:([A-Za-z_]\w*)(?:\s*=\s*({NUMBER}))?|([(),]))")
DTYPES = ("fp16", "fp32")
OWN_DOMAIN = "own"  # of the model that stands for one operator of the user's own


def graph_of(text: str, own: Definitions = NO_DEFINITIONS) -> tuple[Graph, dict[str, np.ndarray]]:
    """Return a graph with the one operator, and zeros for its constants (a schedule depends on shapes only). One of the user's `own` may
    become several nodes."""
    call = parse_call(text, own)
    if call.name in own:
        return _own_graph(call, own)
    return _assemble(call, _sizes(call.name).make(call))


def parse_call(text: str, own: Definitions = NO_DEFINITIONS) -> Call:
    """Return the call that the text spells. Raise ParseError with the place where it does not."""
    words, name = _words(text), _operator_called(text, own)
    takes = _takes(name, own)
    required, optional, extra, params = takes.required, takes.optional, takes.flags, takes.numbers
    sizes, flags, numbers = dict(optional), set(), {}
    for word, value, at in words[1:]:
        if value is None:
            if word not in DTYPES + extra:
                raise _error(text, at, f"unknown flag {word}; {name} has {', '.join(DTYPES + extra)}")
            flags.add(word)
        elif word in params:
            numbers[word] = int(value) if value.lstrip("-").isdigit() else float(value)
        else:
            sizes[word] = _size(text, (*required, *optional, *params), word, value, at)
    missing = [r for r in (*required, *params) if r not in sizes and r not in numbers]
    if missing:
        raise _error(text, len(text.rstrip()) - 1, f"{name} needs {', '.join(f'{m}=...' for m in missing)} too")
    if len(several := [f for f in (*DTYPES, "int8") if f in flags]) > 1:
        raise _error(text, 0, f"{' and '.join(several)} exclude each other")
    return Call(name, sizes, frozenset(flags), numbers)


def sizes_of(text: str, own: Definitions = NO_DEFINITIONS) -> tuple[str, ...]:
    """Return the sizes that the operator of a call takes. Raise ParseError where it is no call of a known one."""
    takes = _takes(_operator_called(text, own), own)
    return (*takes.required, *takes.optional)


def with_sizes(text: str, sizes: Mapping[str, int], without: Collection[str] = (), own: Definitions = NO_DEFINITIONS) -> str:
    """Return the call with these sizes, whether it states others or none: `matmul(k=64, n=64)` with m=16 is `matmul(k=64, n=64, m=16)`.

    `without`: sizes that are not written at all, for people who read it.
    """
    stated = {word: value for word, value, _ in _words(text)[1:] if word not in without} | {s: str(n) for s, n in sizes.items()}
    return f"{_operator_called(text, own)}({', '.join(word if value is None else f'{word}={value}' for word, value in stated.items())})"


def sized_operators() -> tuple[str, ...]:
    """Return the operators that can be called by sizes."""
    return tuple(name for name, op in OPS.items() if op.sizes is not None)


def _sizes(name: str) -> Sizes:
    found = OPS[name].sizes
    assert found is not None  # _known has looked
    return found


def _takes(name: str, own: Definitions) -> Sizes:
    """Return what a call of an operator says: of the user's own, the dimensions of its arguments and its parameters."""
    if name not in own:
        return _sizes(name)
    said = parse_meaning(own[name])
    return Sizes(tuple(dict.fromkeys(d.name for a in said.inputs for d in a.dims)), lambda call: Made(()), numbers=said.params)


def _operator_called(text: str, own: Definitions) -> str:
    """Return the name of the operator that is called."""
    name, _, at = _words(text)[0]
    if name in own or name in OPS and OPS[name].sizes is not None:
        return name
    if name in OPS:
        raise _error(text, at, f"{name} cannot be called by sizes; write a graph with it, for aoec fuse")
    raise _error(text, at, f"unknown operator {name}{nearest(name, (*own, *sized_operators()))}" + " (--ops gives others)" * (not own))


def _own_graph(call: Call, own: Definitions) -> tuple[Graph, dict[str, np.ndarray]]:
    """Return the graph of a model whose one node is the operator. Arguments that are indices into others are integers. Filters of
    convolutions are constants, as in models; they are zeros."""
    from onnx import TensorProto, helper, numpy_helper

    from aoec.frontend.own.own_images import filters_of
    from aoec.frontend.translate.onnx import load
    said = parse_meaning(own[call.name])
    inputs, outputs = ([a.name for a in s] for s in (said.inputs, said.outputs))
    every = [x for s in said.statements for e in (s.value, s.init) if e is not None for x in reads(e)]
    places = {r.buffer for x in every for i in x.indices for r in reads(i)}
    given = [helper.make_tensor_value_info(a.name, TensorProto.INT32 if a.name in places else TensorProto.FLOAT,
                                           [call.sizes[d.name] for d in a.dims]) for a in said.inputs]
    made = [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in outputs]
    node = helper.make_node(call.name, inputs, outputs, call.name, domain=OWN_DOMAIN, **call.numbers)  # type: ignore[arg-type]
    versions = [helper.make_opsetid("", 18), helper.make_opsetid(OWN_DOMAIN, 1)]
    filters = filters_of(said, [[call.sizes[d.name] for d in a.dims] for a in said.inputs], call.numbers)
    zeros = [numpy_helper.from_array(np.zeros([call.sizes[d.name] for d in a.dims], np.float32), a.name)
             for a in said.inputs if a.name in filters]
    model = helper.make_model(helper.make_graph([node], call.name, [x for x in given if x.name not in filters], made, zeros),
                              opset_imports=versions)
    graph, weights, _ = load(model, None, call.dtype, own)
    return graph, weights


def _words(text: str) -> list[tuple[str, str | None, int]]:
    """Return (word, value or None, position) of the name and each argument; the shape `name(word, ...)` is checked here."""
    out: list[tuple[str, str | None, int]] = []
    expected: tuple[str, ...] = ("name",)
    at = 0
    follow: dict[str, tuple[str, ...]] = {"name": ("(",), "(": ("name",), ",": ("name",), ")": ()}
    while text[at:].strip():
        match = WORD.match(text, at)
        kind = (match[3] or "name") if match else ""
        start = at + len(text[at:]) - len(text[at:].lstrip())
        if match is None or kind not in expected:
            raise _error(text, start, f"expected {_human(expected)}")
        if kind == "name":
            out.append((match[1], match[2], start))
        expected = (",", ")") if kind == "name" and len(out) > 1 else follow[kind]
        at = match.end()
    if expected:
        raise _error(text, len(text), f"expected {_human(expected)}")
    return out


def _human(expected: tuple[str, ...]) -> str:
    return " or ".join("a name" if e == "name" else f"'{e}'" for e in expected) or "nothing more"


def _size(text: str, known: Collection[str], word: str, value: str, at: int) -> int:
    if word not in known:
        raise _error(text, at, f"{_words(text)[0][0]} has no size {word}; it has {', '.join(known)}")
    if not value.isdigit() or not (word == "pad" or int(value) > 0) or int(value) > SIZE_LIMIT:
        raise _error(text, at, f"{word} must lie between 1 and {SIZE_LIMIT:,}")
    return int(value)


def _error(text: str, at: int, message: str) -> ParseError:
    return ParseError(message, text, 1, at + 1, "operator")


def _assemble(call: Call, made: Made) -> tuple[Graph, dict[str, np.ndarray]]:
    """Return the graph of a call: its operator, and relu behind it where that is asked for."""
    tensors = [_zeros(a.name, a.dtype, a.shape) if a.constant else Tensor(a.name, a.dtype, a.shape, a.layout) for a in made.arguments]
    attributes = tuple(made.attributes.items())
    out = Tensor("y", made.dtype or call.dtype, shape(call.name, [t.shape for t in tensors], attributes), tensors[0].layout)
    nodes = [OpNode(call.name, call.name, tuple(t.name for t in tensors), (out.name,), attributes)]
    tensors.append(out)
    if "relu" in call.flags:
        tensors = [*tensors, Tensor("z", out.dtype, out.shape, out.layout)]
        nodes.append(OpNode("activation", "relu", (out.name,), ("z",)))
    weights = {t.name: np.zeros(t.shape, NUMPY[t.dtype]) for t in tensors if t.data}
    inputs = tuple(i for i in nodes[0].inputs if i not in weights)
    return Graph(call.name, inputs, (tensors[-1].name,), tuple(tensors), tuple(nodes)), weights


def _zeros(name: str, dtype: str, shape: tuple[int, ...]) -> Tensor:
    """Return a constant of zeros, with the hash of its bytes."""
    size_bytes = math.prod(shape) * DTYPE_BYTES[dtype]
    if size_bytes > CONSTANT_LIMIT_BYTES:
        raise ParseError(f"the constant {name} would have {size_bytes:,} bytes; at most {CONSTANT_LIMIT_BYTES:,} are allowed here",
                         source="operator")
    return Tensor(name, dtype, shape, data=hashlib.sha256(bytes(size_bytes)).hexdigest())
