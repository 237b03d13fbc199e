"""Translates nodes of the user's own domain, whose operators are defined in index notation (ops/own.py). It gives the types of their
results, which ONNX's inference asks for, and the nodes that they become in a graph.

Most become one node of that name. A definition that sums products of rows and columns, or that has several results, is taken apart:
- Products become matrix products, which run on the cube and which fusion handles.
- Images under filters become convolutions (own_images.py).
- Other windows with weights of their own become the sums of their taps (own_taps.py).
- Reads at places that data give become gathers (own_moves.py).
- The rest becomes one operator for each tensor that is needed.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import prod

import numpy as np
import onnx
from onnx import TensorProto, helper

from aoec.base.errors import CheckError, UnsupportedError
from aoec.frontend.own.own_images import image_of, make_convolution
from aoec.frontend.own.own_moves import add_moves, moves, replace_parts
from aoec.frontend.own.own_taps import find_cut, make_slice, sum_taps, taps
from aoec.frontend.read.values import DTYPES, MOST_ELEMENTS, shape_of
from aoec.frontend.rules.einsum import Term, arrange, product
from aoec.frontend.translate.node import Node, title_of
from aoec.ir.func.meaning import Argument, Dim, Meaning, Statement
from aoec.ir.graph.graph import OPAQUE, OpNode
from aoec.ir.index import Call, Cast, Expr, Int, Read, Var, children, is_zero, reads, variables
from aoec.ir.text.parse import parse_meaning
from aoec.ir.text.show import show
from aoec.ops import own as words
from aoec.ops.host.host import OWN_DOMAIN
from aoec.ops.interpret import interpret
from aoec.ops.meanings import loops
from aoec.ops.own import Definitions, word

Attributes = dict[str, int | float]
ELEMENTS = {dtype: elem for elem, dtype in reversed(DTYPES.items())}  # our dtype -> ONNX's element type, float of reals
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=", "and", "or")


def is_own(proto: onnx.NodeProto, definitions: Definitions) -> bool:
    """Return True for a node whose operator is one of the definitions."""
    return proto.domain not in OWN_DOMAIN and proto.op_type in definitions


@lru_cache(maxsize=1024)
def parse_definition(definition: str) -> Meaning:
    """Parse the canonical text of a definition."""
    return parse_meaning(definition, "a definition")


def call_of(proto: onnx.NodeProto, m: Meaning) -> Attributes:
    """Return the parameters that a node gives to its operator. Raise CheckError where arguments, results or attributes are not the
    definition's."""
    for what, given, wanted in (("argument", proto.input, m.inputs), ("result", proto.output, m.outputs)):
        if len(given) > len(wanted) or what == "argument" and (len(given) < len(wanted) or not all(given)):
            said = ", ".join(a.name for a in wanted)
            raise CheckError(f"{m.name} has the {what}s {said}, and the node has {len([g for g in given if g])}")
    given = {a.name: helper.get_attribute_value(a) for a in proto.attribute}
    for name, value in given.items():
        if name not in m.params or type(value) not in (int, float):
            known = f"its parameters are {', '.join(m.params)}, each a number" if m.params else "it has no parameters"
            raise CheckError(f"attribute {name} is no number that {m.name} takes; {known}")
    if missing := [p for p in m.params if p not in given]:
        raise CheckError(f"{m.name} needs the attribute {missing[0]}, a number")
    return {p: given[p] if isinstance(given[p], int) else float(str(np.float32(given[p]))) for p in m.params}  # as it was written, likely


# ---------------------------------------------------------------- types

def infer_types(proto: onnx.ModelProto, definitions: Definitions, infer: Callable[[onnx.ModelProto], onnx.ModelProto]) -> onnx.ModelProto:
    """Infer the model's types, with what the definitions give.
    Inference is run again after each definition whose arguments it has typed."""
    proto = infer(proto)
    while any(is_own(n, definitions) for n in proto.graph.node):
        types = {w.name: helper.make_tensor_type_proto(w.data_type, w.dims) for w in proto.graph.initializer}
        stated = {i.name: i for i in (*proto.graph.value_info, *proto.graph.output)}
        types |= {i.name: i.type for i in (*proto.graph.input, *stated.values())}
        found = [(name, t) for n in proto.graph.node if is_own(n, definitions) and any(_open(types, o) for o in n.output if o)
                 for name, t in result_types(n, definitions, types).items()]
        if not found:
            break
        for name, t in found:
            (stated[name] if name in stated else proto.graph.value_info.add(name=name)).type.CopyFrom(t)
        proto = infer(proto)
    return proto


def _open(types: Mapping[str, onnx.TypeProto], name: str) -> bool:
    return name not in types or shape_of(types[name]) is None


def result_types(proto: onnx.NodeProto, definitions: Definitions, types: Mapping[str, onnx.TypeProto]) -> dict[str, onnx.TypeProto]:
    """Return result -> type for a node of a defined operator. Return none where the types of its arguments are not known yet. Raise
    CheckError where they do not fit."""
    if any(_open(types, i) or types[i].tensor_type.elem_type not in DTYPES for i in proto.input):
        return {}
    m = parse_definition(definitions[proto.op_type])
    try:
        bound = words.bound(m, [shape_of(types[i]) or () for i in proto.input], call_of(proto, m))
    except CheckError as e:
        raise CheckError(f"node {title_of(proto)}: {e.message}") from e
    elements = {a.name: types[i].tensor_type.elem_type for a, i in zip(m.inputs, proto.input)}
    for s in m.statements:
        elements.setdefault(s.target.buffer, _element(s.value, elements))
    out = {}
    for name, o in zip(proto.output, bound.outputs):
        shape = words.extents(o)
        if prod(shape) > MOST_ELEMENTS:
            raise CheckError(f"node {title_of(proto)}: {o.name} of shape {list(shape)} has more than {MOST_ELEMENTS:,} elements")
        out[name] = helper.make_tensor_type_proto(elements[o.name], shape)
    return out


def _element(e: Expr, elements: Mapping[str, int]) -> int:
    """Return ONNX's element type of an expression's value: what it is cast to, a truth, reals where it reads any, else what it reads
    first."""
    if isinstance(e, Cast):
        return ELEMENTS.get(e.dtype, TensorProto.FLOAT)
    if getattr(e, "op", "") in COMPARISONS or isinstance(e, Call) and e.fn == "not":
        return TensorProto.BOOL
    parts = [c for c in children(e) if not (isinstance(e, Call) and e.fn == "select" and c is e.args[0])]
    found = [elements[e.buffer]] if isinstance(e, Read) else [_element(c, elements) for c in parts if reads(c)]
    reals = [f for f in found if DTYPES[f] == "fp32"]
    return (reals or found or [TensorProto.FLOAT])[0]


# ---------------------------------------------------------------- nodes

@dataclass
class Words:
    """The operators of a draft that definitions made: one text a name, so that the graph's text can say them all."""

    definitions: Definitions
    taken: dict[str, str] = field(default_factory=dict)

    def name_meaning(self, m: Meaning) -> tuple[str, str]:
        """Return (name, definition) of a meaning: under its own name, or that with a number where another meaning has it."""
        number, name = 0, m.name
        while True:
            text = show(Meaning(name, m.inputs, m.params, m.outputs, m.statements, m.loops))
            if self.taken.setdefault(name, text) == text:
                return name, text
            number, name = number + 1, f"{m.name}_{number + 1}"


def translate(n: Node, known: Words) -> bool:
    """Add the nodes that a node of a defined operator stands for, and return True."""
    m = parse_definition(known.definitions[n.proto.op_type])
    params = call_of(n.proto, m)
    if any(n.draft.tensors[i].dtype == OPAQUE for i in n.inputs()):
        raise UnsupportedError(f"node {n.title()}: {m.name} is calculated on tensors of fixed shape and of dtypes that the AI Core has")
    bound = words.bound(m, [n.shape_of(at) for at in range(len(m.inputs))], params)
    reals = all(n.dtype_of(at) == "fp32" for at in range(len(m.inputs)))
    turned = len(m.statements) == 1 and _transposes(m.statements[0])
    pairs = list(zip(m.statements, bound.statements))
    apart = any(moves(b) for _, b in pairs) or reals and any(
        _rows_and_columns(m, s) or image_of(b, loops(bound, b)) or taps(b, loops(bound, b)) for s, b in pairs)
    if len(m.outputs) == 1 and not turned and not apart:
        _node(n, known, m, n.inputs(), params, n.dtypes[n.proto.output[0]], n.proto.output[0])
        return True
    parts = _Parts(n, known, m, bound, params)
    for at, o in enumerate(m.outputs[:n.results()]):
        if n.has_result(at):
            n.emit("reshape", [parts.result(o.name)], {"shape": n.shape(at)}, at)
    return True


def _node(n: Node, known: Words, m: Meaning, inputs: Sequence[str], params: Attributes, dtype: str, result: str = "") -> str:
    """Return the tensor that a node of the operator with this meaning makes: the result named, or a new one."""
    name, definition = known.name_meaning(m)
    label = n.proto.name if result else f"{n.proto.name}_{m.name}" if n.proto.name else ""
    node = OpNode(n.draft.fresh(label or f"{name}_0", "node"), name, tuple(inputs), (), tuple(params.items()), definition)
    shape = words.shape_of(node, [n.made_shape(i) for i in inputs])
    if result:
        n.draft.put(n.tensor_of(result, dtype, shape))
    out = result or n.draft.tensor(f"{n.proto.output[0]}_{m.name}", dtype, shape)
    n.draft.nodes.append(replace(node, outputs=(out,)))
    return out


def _rows_and_columns(m: Meaning, s: Statement) -> bool:
    """Return True for a sum of products of two tensors, each with loops of its own that the result keeps: what the cube multiplies."""
    found = words.factors(s)
    if found is None or [t.target.buffer for t in m.statements].count(s.target.buffer) > 1:
        return False
    a, b, y = (_at_loops(r) for r in (*found, s.target))
    return all((a, b, y)) and bool(a & b - y) and bool(a - b) and bool(b - a) and a ^ b <= y <= a | b


def _at_loops(r: Read) -> frozenset[str]:
    """Return the loops of an access at loops alone, each once. Return none for any other access."""
    found = frozenset().union(*[variables(i) for i in r.indices])
    return found if all(isinstance(i, Var) for i in r.indices) and len(found) == len(r.indices) else frozenset()


def _transposes(s: Statement) -> bool:
    """Return True for a copy whose only change is another order of the tensor's dimensions."""
    e, y = s.value, s.target
    return s.op == "=" and isinstance(e, Read) and bool(_at_loops(e)) and _at_loops(e) == _at_loops(y) and e.indices != y.indices


class _Parts:
    """A definition taken apart. `held`: tensor of the definition -> tensor of the draft; `left`: statements that are in no node yet."""

    def __init__(self, n: Node, known: Words, m: Meaning, bound: Meaning, params: Attributes) -> None:
        self.n, self.known, self.m, self.params = n, known, m, params
        self.extents = {v: e for s in bound.statements for v, e in loops(bound, s).items()}
        self.dims = {a.name: tuple(d.name for d in a.dims) for a in (*m.inputs, *m.outputs)}
        self.held = dict(zip([a.name for a in m.inputs], n.inputs()))
        self.left: list[Statement] = []
        for s, with_numbers in zip(m.statements, bound.statements):
            self.dims.setdefault(s.target.buffer, tuple(i.name for i in s.target.indices if isinstance(i, Var)))
            if s.target.buffer in self.held:
                raise CheckError(f"{m.name}: {s.target.buffer} is written again behind a product that reads it; give it another name there")
            if moves(with_numbers):
                s = with_numbers = self.move(with_numbers)
            reals = all(self.is_real(r) for r in reads(s.value))
            if reals and _rows_and_columns(m, s):
                self.multiply(s)
            elif not (reals and (self.convolve(with_numbers) or taps(with_numbers, self.extents) and self.tap(with_numbers))):
                self.left.append(s)

    def move(self, s: Statement) -> Statement:
        """Return the statement with what moves and constants make of it read from tensors of the draft."""
        real = not reads(s.value) or any(self.is_real(r) for r in reads(s.value))
        made = add_moves(self.n, s, self.extents, real, self.tensor)
        new: dict[Expr, Read] = {}
        for part, found in made.items():
            name = f"{s.target.buffer}_part{len(self.held)}"
            self.held[name], self.dims[name] = found.tensor, found.labels
            new[part] = Read(name, tuple(Var(v) for v in found.labels))
        return replace_parts(s, new)

    def node(self, m: Meaning, inputs: list[str], dtype: str) -> str:
        """Return the tensor that a node of a part of the definition makes."""
        return _node(self.n, self.known, replace(m, name=f"{self.m.name}.{m.name}"), inputs, {}, dtype)

    def convolve(self, s: Statement) -> bool:
        """Return True where the sum of an image under a filter is a tensor of the draft now."""
        found = image_of(s, self.extents)
        if found is None or self.times(s) > 1:
            return False
        made = make_convolution(self.n, found, {r.buffer: self.tensor(r.buffer) for r in reads(s.value)})
        if made:
            self.held[s.target.buffer] = made
        return bool(made)

    def times(self, s: Statement) -> int:
        """Return how often the definition writes what a statement does."""
        return [t.target.buffer for t in self.m.statements].count(s.target.buffer)

    def multiply(self, s: Statement) -> None:
        """Make the sum of products by a matrix product. Leave the addition of its initial value for later, behind the product."""
        a, b = [Term(self.tensor(r.buffer), _labels(r)) for r in words.factors(s) or ()]
        made = arrange(self.n, product(self.n, a, b, set(_labels(s.target))), _labels(s.target))
        if s.init is None:
            self.held[s.target.buffer] = made.tensor
            return
        sums = f"{s.target.buffer}_sums"
        self.held[sums], self.dims[sums] = made.tensor, _labels(s.target)
        self.left.append(Statement(s.target, "=", Read(sums, s.target.indices) + s.init))

    def tap(self, s: Statement) -> bool:
        """Return True where the window, its taps cut out, is a tensor of the draft now."""
        if self.times(s) > 1:
            return False
        dtype = self.dtype(s.target.buffer)
        held = {r.buffer: self.tensor(r.buffer) for r in reads(s.value)}
        made = sum_taps(self.n, s, held, self.extents, lambda m, inputs: self.node(m, inputs, dtype))
        if made:
            self.held[s.target.buffer] = made
        return bool(made)

    def tensor(self, name: str) -> str:
        """Return the draft's tensor for one of the definition, made now where there is none yet."""
        if name not in self.held:
            self.held[name] = self.make_tensor(name)
        return self.held[name]

    def result(self, name: str) -> str:
        """Return the draft's tensor for a result. Others are made of what it is made of, not of what it is rounded to, where they can be
        one launch with it, which makes what they share once."""
        if name in self.held:
            return self.held[name]
        made = self.make_tensor(name)
        maker = next(n for n in reversed(self.n.draft.nodes) if made in n.outputs) if made not in self.n.draft.weights else None
        if maker is None or word(maker).family == "own":
            self.held[name] = made
        return made

    def make_tensor(self, name: str) -> str:
        needed = self.needed_statements(name)
        if len(needed) == 1 and (done := self.by_our_words(needed[0])):
            return done
        inputs = list(dict.fromkeys(r.buffer for s in needed for e in (s.value, s.init) if e is not None for r in reads(e)
                                    if r.buffer in self.held))
        bound = {d for i in inputs for d in self.dims[i]}
        own = tuple(Dim(d, None if d in bound else Int(self.extents[d])) for d in self.dims[name])
        used = dict.fromkeys(v for s in needed for e in (s.target, s.value, s.init) if e is not None for v in _variables(e))
        other = tuple(Dim(v, Int(self.extents[v])) for v in used if v in self.extents and v not in bound and v not in self.dims[name])
        params = {p: v for p, v in self.params.items() if p in used}
        args = tuple(Argument(i, tuple(Dim(d) for d in self.dims[i])) for i in inputs)
        m = Meaning(f"{self.m.name}.{name}", args, tuple(params), (Argument(name, own),), tuple(needed), other)
        if not inputs:  # nothing is read on the way to it
            return self.n.constant(name, interpret(words.bound(m, [], params), [])[0], self.dtype(name))
        return _node(self.n, self.known, m, [self.held[i] for i in inputs], params, self.dtype(name))

    def dtype(self, name: str) -> str:
        """Return the dtype of the node's result that this tensor is. Intermediate tensors are real and take fp32."""
        outputs = [o.name for o in self.m.outputs]
        return self.n.dtypes[self.n.proto.output[outputs.index(name)]] if name in outputs[:self.n.results()] else "fp32"

    def needed_statements(self, name: str) -> list[Statement]:
        """Return the statements in no node yet from which a tensor follows, in order."""
        wanted = {name}
        out: list[Statement] = []
        for s in reversed(self.left):
            if s.target.buffer in wanted:
                out.insert(0, s)
                wanted |= {r.buffer for e in (s.value, s.init) if e is not None for r in reads(e)} - self.held.keys()
        return out

    def by_our_words(self, s: Statement) -> str:
        """Return the tensor of a statement that adds a vector, applies relu, or both, by the words that products are fused with, or that
        only transposes or reads a part. Return "" for others."""
        e, point, relu = s.value, s.target.indices, False
        if _transposes(s) and isinstance(e, Read):
            return self.n.step("transpose", [self.held[e.buffer]], {"perm": tuple(e.indices.index(i) for i in point)})
        own = tuple(self.extents[v] for v in _labels(s.target))
        if s.op == "=" and isinstance(e, Read) and (e.indices, self.n.made_shape(self.held[e.buffer])) != (point, own):
            cut = find_cut(e, self.n.made_shape(self.held[e.buffer]), variables(s.target), self.extents, False)
            return make_slice(self.n, self.held[e.buffer], cut, None) if cut and (*filter(None, cut.labels),) == _labels(s.target) else ""
        if isinstance(e, Call) and e.fn == "max" and len(e.args) == 2 and (is_zero(e.args[1]) or e.args[1] == Int(0)):
            e, relu = e.args[0], True
        terms = [getattr(e, "left", e), getattr(e, "right", None)] if getattr(e, "op", "") == "+" else [e, None]
        x, y = terms
        if not (isinstance(x, Read) and x.buffer in self.held and x.indices == point and s.op == "=" and self.is_real(x)):
            return ""
        at = self.tensor(x.buffer)
        if self.n.made_shape(at) != own:
            return ""
        if y is not None:
            if not (isinstance(y, Read) and y.buffer in self.held and y.indices in (point, point[-1:]) and self.is_real(y)):
                return ""
            at = self.n.step("add", [at, self.held[y.buffer]])
        return self.n.step("relu", [at]) if relu else at

    def is_real(self, r: Read) -> bool:
        """Return whether a read is of reals, as what no node makes yet will be made."""
        return (self.n.made_dtype(self.held[r.buffer]) if r.buffer in self.held else self.dtype(r.buffer)) == "fp32"


def _labels(r: Read) -> tuple[str, ...]:
    return tuple(i.name for i in r.indices if isinstance(i, Var))


def _variables(e: Expr) -> Iterable[str]:
    """Return the variables of an expression, in order of mention."""
    return [e.name] if isinstance(e, Var) else [v for c in children(e) for v in _variables(c)]
