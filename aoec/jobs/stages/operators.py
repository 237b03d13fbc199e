"""A graph of one operator from its name and sizes, so that a kernel can be studied without a model."""
from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

from aoec.base.errors import ParseError
from aoec.base.text import nearest
from aoec.ir.graph.graph import Attribute, Graph, OpNode, Tensor
from aoec.ir.index import DTYPES as DTYPE_BYTES
from aoec.ir.index import reads
from aoec.ir.text.parse import parse_meaning
from aoec.ops.own import NO_DEFINITIONS, Definitions
from aoec.ops.run import NUMPY

SIZE_LIMIT = 1 << 20
CONSTANT_LIMIT_BYTES = 1 << 30
NUMBER = r"-?\d{1,18}(?:\.\d{1,18})?(?:[eE][+-]?\d{1,3})?"
WORD = re.compile(rf"\s*(?:([A-Za-z_]\w*)(?:\s*=\s*({NUMBER}))?|([(),]))")
IMAGE = ("n", "c", "h", "w")
# operator -> sizes that must be given, sizes with a default, flags besides the dtype
KNOWN: dict[str, tuple[tuple[str, ...], dict[str, int], tuple[str, ...]]] = {
    "matmul": (("m", "k", "n"), {}, ("int8", "relu", "bias", "trans_a", "trans_b", "nd", "nz")),
    "conv2d": ((*IMAGE, "co", "kh", "kw"), {"stride": 1, "pad": 0, "dilation": 1}, ("relu", "bias")),
    "max_pool": ((*IMAGE, "kh", "kw"), {"stride": 1, "pad": 0, "dilation": 1}, ()),
    "global_avg_pool": (IMAGE, {}, ()), "softmax": (("m", "n"), {}, ()), "add": (("m", "n"), {}, ("relu",)), "relu": (("m", "n"), {}, ()),
    **{name: (("m", "n"), {}, ()) for name in ("log_softmax", "gelu", "gelu_tanh", "silu", "swiglu")},
    "attention": (("b", "m", "n", "d"), {"e": 0}, ("bias", "mask")),  # e of 0: as d
    "layer_norm": (("m", "n"), {}, ("bias",)), "rms_norm": (("m", "n"), {}, ()),
}
DTYPES = ("fp16", "fp32")
OWN_DOMAIN = "own"  # of the model that stands for one operator of the user's own
NORMS = ("layer_norm", "rms_norm")


@dataclass(frozen=True)
class Call:
    """`conv2d(n=1, c=64, ..., fp16, relu)` taken apart; `numbers` are the parameters of an operator of the user's own."""

    name: str
    sizes: dict[str, int]
    flags: frozenset[str]
    numbers: dict[str, int | float] = field(default_factory=dict)

    @property
    def dtype(self) -> str:
        """Of what is read."""
        return next((dtype for dtype in ("fp32", "int8") if dtype in self.flags), "fp16")

    @property
    def result(self) -> str:
        """Of what is written: sums of products of int8 are of int32, as MatMulInteger has them."""
        return "int32" if self.dtype == "int8" else self.dtype


def graph_of(text: str, own: Definitions = NO_DEFINITIONS) -> tuple[Graph, dict[str, np.ndarray]]:
    """A graph with the one operator, and zeros for its constants (a schedule depends on shapes only). One of the user's `own` may
    become several nodes."""
    call = parse_call(text, own)
    if call.name in own:
        return _own_graph(call, own)
    tensors, attributes = {"matmul": _matmul, "conv2d": _window, "max_pool": _window, "global_avg_pool": _image,
                           "attention": _attention}.get(call.name, _rows)(call)
    return _assemble(call, tensors, attributes)


def parse_call(text: str, own: Definitions = NO_DEFINITIONS) -> Call:
    """The call that the text spells; ParseError with the place where it does not."""
    words, name = _words(text), _known(text, own)
    required, optional, extra = _takes(name, own)
    params = parse_meaning(own[name]).params if name in own else ()
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
    """The sizes that the operator of a call takes; ParseError where it is no call of a known one."""
    required, optional, _ = _takes(_known(text, own), own)
    return (*required, *optional)


def with_sizes(text: str, sizes: Mapping[str, int], without: Collection[str] = (), own: Definitions = NO_DEFINITIONS) -> str:
    """The call with these sizes, whether it states others or none: `matmul(k=64, n=64)` with m=16 is `matmul(k=64, n=64, m=16)`.

    `without`: sizes that are not written at all, for people who read it.
    """
    stated = {word: value for word, value, _ in _words(text)[1:] if word not in without} | {s: str(n) for s, n in sizes.items()}
    return f"{_known(text, own)}({', '.join(word if value is None else f'{word}={value}' for word, value in stated.items())})"


def _takes(name: str, own: Definitions) -> tuple[tuple[str, ...], dict[str, int], tuple[str, ...]]:
    """(sizes that must be given, those with a default, flags) of an operator: of the user's own, the dimensions of its arguments."""
    if name not in own:
        return KNOWN[name]
    return tuple(dict.fromkeys(d.name for a in parse_meaning(own[name]).inputs for d in a.dims)), {}, ()


def _known(text: str, own: Definitions) -> str:
    """The name of the operator that is called."""
    name, _, at = _words(text)[0]
    if name not in KNOWN and name not in own:
        raise _error(text, at, f"unknown operator {name}{nearest(name, (*own, *KNOWN))}" + " (--ops gives others)" * (not own))
    return name


def _own_graph(call: Call, own: Definitions) -> tuple[Graph, dict[str, np.ndarray]]:
    """The graph of a model whose one node is the operator; arguments that say where others are read are whole numbers."""
    from onnx import TensorProto, helper

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
    model = helper.make_model(helper.make_graph([node], call.name, given, made), opset_imports=versions)
    graph, weights, _ = load(model, None, call.dtype, own)
    return graph, weights


def _words(text: str) -> list[tuple[str, str | None, int]]:
    """(word, value or None, position) of the name and each argument; the shape `name(word, ...)` is checked here."""
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


Parts = tuple[list[Tensor], tuple[tuple[str, Attribute], ...]]  # inputs and then the output; attributes


def _matmul(call: Call) -> Parts:
    """Of `a` and a constant weight `b`; with nd, or stored as [n, k] (trans_b), `b` is an input that stays as it is. With nz what is read
    and written at run time lies in fractals, as between matrix products on chips whose MTE2 does not reorder."""
    s, layout = call.sizes, "NZ" if "nz" in call.flags else "ND"
    turned = [(f"trans_{x}", 1) for x in "ab" if f"trans_{x}" in call.flags]
    left = (s["k"], s["m"]) if "trans_a" in call.flags else (s["m"], s["k"])
    right = Tensor("b", call.dtype, (s["n"], s["k"]) if "trans_b" in call.flags else (s["k"], s["n"]), layout)
    if not call.flags & {"nd", "trans_b"}:
        right = _zeros("b", call.dtype, right.shape)
    a, y = Tensor("a", call.dtype, left, layout), Tensor("y", call.result, (s["m"], s["n"]), layout)
    return [a, right, *_bias(call, s["n"]), y], tuple(turned)


def _window(call: Call) -> Parts:
    """A convolution, or max pooling where there are no output channels."""
    s = call.sizes
    kernel = (s["kh"], s["kw"])
    out = tuple((size + 2 * s["pad"] - s["dilation"] * (k - 1) - 1) // s["stride"] + 1 for size, k in zip((s["h"], s["w"]), kernel))
    if min(out) < 1:
        raise ParseError(f"the window {s['kh']}x{s['kw']} does not fit the image {s['h']}x{s['w']} with pad {s['pad']}", source="operator")
    attributes: tuple[tuple[str, Attribute], ...] = (
        ("stride", (s["stride"],) * 2), ("pad", (s["pad"],) * 4), ("dilation", (s["dilation"],) * 2))
    x = _image(call)[0][0]
    if call.name == "max_pool":
        return [x, Tensor("y", call.dtype, (s["n"], s["c"], *out))], (("kernel", kernel), *attributes)
    inputs = [x, _zeros("w", call.dtype, (s["co"], s["c"], *kernel)), *_bias(call, s["co"])]
    return [*inputs, Tensor("y", call.dtype, (s["n"], s["co"], *out))], (*attributes, ("group", 1))


def _attention(call: Call) -> Parts:
    """Of b heads; with bias what is added to each head's scores, with mask one row of it for all."""
    s, scores = call.sizes, {"bias": ("b", "m", "n"), "mask": ("b", "one", "n")}
    sizes = {**s, "one": 1, "e": s["e"] or s["d"]}
    added = {flag: axes for flag, axes in scores.items() if flag in call.flags}
    if len(added) > 1:
        raise ParseError("bias and mask exclude each other", source="operator")
    shapes = {"q": ("b", "m", "d"), "k": ("b", "n", "d"), "v": ("b", "n", "e"), **added, "y": ("b", "m", "e")}
    return [Tensor(name, call.dtype, tuple(sizes[a] for a in axes)) for name, axes in shapes.items()], (("scale", s["d"] ** -0.5),)


def _image(call: Call) -> Parts:
    s = call.sizes
    return [Tensor("x", call.dtype, (s["n"], s["c"], s["h"], s["w"])), Tensor("y", call.dtype, (s["n"], s["c"], 1, 1))], ()


def _rows(call: Call) -> Parts:
    shape = (call.sizes["m"], call.sizes["n"])
    inputs = [Tensor(name, call.dtype, shape) for name in (("a", "b") if call.name == "add" else ("a",))]
    if call.name == "swiglu":  # n is of the result
        inputs = [Tensor("a", call.dtype, (shape[0], 2 * shape[1]))]
    if call.name in NORMS:
        inputs += [_zeros(name, call.dtype, shape[1:]) for name in ("scale", *(["bias"] if "bias" in call.flags else []))]
    attributes: dict[str, Attribute] = {"axis": 1} if call.name.endswith("softmax") else {"epsilon": 1e-5} if call.name in NORMS else {}
    return [*inputs, Tensor("y", call.dtype, shape)], tuple(attributes.items())


def _assemble(call: Call, tensors: list[Tensor], attributes: tuple[tuple[str, Attribute], ...]) -> tuple[Graph, dict[str, np.ndarray]]:
    out = tensors[-1]
    nodes = [OpNode(call.name, call.name, tuple(t.name for t in tensors[:-1]), (out.name,), attributes)]
    if "relu" in call.flags:
        tensors = [*tensors, Tensor("z", out.dtype, out.shape, out.layout)]
        nodes.append(OpNode("activation", "relu", (out.name,), ("z",)))
    weights = {t.name: np.zeros(t.shape, NUMPY[t.dtype]) for t in tensors if t.data}
    inputs = tuple(i for i in nodes[0].inputs if i not in weights)
    return Graph(call.name, inputs, (tensors[-1].name,), tuple(tensors), tuple(nodes)), weights


def _bias(call: Call, size: int) -> list[Tensor]:
    return [_zeros("bias", "int32" if call.dtype == "int8" else "fp32", (size,))] if "bias" in call.flags else []


def _zeros(name: str, dtype: str, shape: tuple[int, ...]) -> Tensor:
    """A constant of zeros, with the hash of its bytes."""
    size_bytes = math.prod(shape) * DTYPE_BYTES[dtype]
    if size_bytes > CONSTANT_LIMIT_BYTES:
        raise ParseError(f"the constant {name} would have {size_bytes:,} bytes; at most {CONSTANT_LIMIT_BYTES:,} are allowed here",
                         source="operator")
    return Tensor(name, dtype, shape, data=hashlib.sha256(bytes(size_bytes)).hexdigest())
