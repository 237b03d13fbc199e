"""ONNX's optimisers (`ai.onnx.preview.training`), which ONNX defines in words alone, as functions of its own operators.

A node of several tensors is a node for each: R, T, X1, X2, G1, G2, V1, V2 are two of R, T, X, G, V.
"""
from __future__ import annotations

from collections.abc import Iterator

import onnx
from onnx import parser

from aoec.base.errors import ParseError

DOMAIN = "ai.onnx.preview.training"
OLDEST = 13  # operator set: of the functions, whose constants have their values as attributes
# (arguments of each tensor, attributes with their defaults, body) of X' and states; r: learning rate, t: how often it was updated before
BOTH = "alpha = Constant <value_float: float = @alpha> ()\n beta = Constant <value_float: float = @beta> ()\n"
REGULAR = BOTH + "norm = Constant <value_float: float = @norm_coefficient> ()\n pull = Mul (norm, x)\n whole = Add (pull, g)\n"
FALL = "zero = Constant <value_int: int = 0> ()\n later = Greater (t, zero)\n"
MOMENTUM = REGULAR + FALL + """one = Constant <value_float: float = 1.0> ()
 share = Where (later, beta, one)
 kept = Mul (alpha, v)
 taken = Mul (share, whole)
 v_new = Add (kept, taken)
"""
FUNCTIONS: dict[str, tuple[int, str, str]] = {
    "Momentum_standard": (3, "x, g, v => x_new, v_new", MOMENTUM + "down = Mul (r, v_new)\n x_new = Sub (x, down)\n"),
    "Momentum_nesterov": (3, "x, g, v => x_new, v_new", MOMENTUM + """ahead = Mul (alpha, v_new)
 far = Add (whole, ahead)
 down = Mul (r, far)
 x_new = Sub (x, down)
"""),
    "Adam": (4, "x, g, v, h => x_new, v_new, h_new", REGULAR + FALL + """one = Constant <value_float: float = 1.0> ()
 last = Constant <value_float: float = @norm_coefficient_post> ()
 epsilon = Constant <value_float: float = @epsilon> ()
 times = Cast <to: int = 1> (t)
 powered = Pow (alpha, times)
 squared = Pow (beta, times)
 rest = Sub (one, powered)
 rest_squared = Sub (one, squared)
 root = Sqrt (rest_squared)
 scaled = Mul (r, root)
 corrected = Div (scaled, rest)
 rate = Where (later, corrected, r)
 kept = Mul (alpha, v)
 others = Sub (one, alpha)
 taken = Mul (others, whole)
 v_new = Add (kept, taken)
 kept_squares = Mul (beta, h)
 others_squared = Sub (one, beta)
 square = Mul (whole, whole)
 taken_squares = Mul (others_squared, square)
 h_new = Add (kept_squares, taken_squares)
 deviation = Sqrt (h_new)
 below = Add (deviation, epsilon)
 over = Div (v_new, below)
 down = Mul (rate, over)
 moved = Sub (x, down)
 shrunk = Sub (one, last)
 x_new = Mul (shrunk, moved)
"""),
}
DEFAULTS = {"Adam": {"alpha": 0.9, "beta": 0.999, "epsilon": 1e-6, "norm_coefficient": 0.0, "norm_coefficient_post": 0.0}}


def add_functions(name: str, proto: onnx.ModelProto, version: int) -> None:
    """Turn a model's optimisers into nodes of functions, and add these functions to the model. Raise ParseError where a node has other
    arguments than its operator takes."""
    found = [n for n in proto.graph.node if n.domain == DOMAIN and n.op_type in ("Momentum", "Adam")]
    if not found or version < OLDEST:
        return
    nodes = [other for n in proto.graph.node for other in (_one_by_one(name, n) if n in found else [_copy_node(n)])]
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    for word in sorted({n.op_type for n in nodes if n.domain == DOMAIN and n.op_type in FUNCTIONS}):
        _, ends, body = FUNCTIONS[word]
        given, made = ends.split(" => ")
        attributes = [a for a in ("alpha", "beta", "epsilon", "norm_coefficient", "norm_coefficient_post") if f"@{a}>" in body]
        proto.functions.append(parser.parse_function(
            f'<opset_import: ["" : {version}], domain: "{DOMAIN}">\n{word} <{", ".join(attributes)}> (r, t, {given}) => ({made})\n'
            f"{{\n {body}}}"))


def _one_by_one(name: str, n: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
    """Yield a node for each tensor that a node updates."""
    values = {a.name: a for a in n.attribute}
    mode = values.pop("mode", None)
    word = n.op_type if mode is None else f"{n.op_type}_{mode.s.decode(errors='replace')}"
    size = FUNCTIONS[word][0] if word in FUNCTIONS else 0
    count = (len(n.input) - 2) // size if size else 0
    if not size or count < 1 or len(n.input) != 2 + count * size or len(n.output) != count * (size - 1):
        raise ParseError(f"the ONNX graph is invalid: node {n.name or n.op_type}: {len(n.input)} arguments and {len(n.output)} results are "
                         "none of its optimiser", source=name)
    given = {**DEFAULTS.get(word, {}), **{key: a.f for key, a in values.items()}}
    for k in range(count):
        inputs = [*n.input[:2], *(n.input[2 + k + count * j] for j in range(size))]
        yield onnx.helper.make_node(word, inputs, [n.output[k + count * j] for j in range(size - 1)], f"{n.name}_{k}" if n.name else "",
                                    domain=DOMAIN, **given)


def _copy_node(n: onnx.NodeProto) -> onnx.NodeProto:
    out = onnx.NodeProto()
    out.CopyFrom(n)
    return out
