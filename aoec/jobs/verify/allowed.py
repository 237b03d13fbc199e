"""How much a result of a group may differ from the reference on normal data.

Let u be the distance of neighbouring numbers of the result's dtype, relative to them (fp32 2^-23, fp16 2^-10, bf16 2^-7). An element may
differ by the sum of these terms:

- u * |result|. Two fp32 sums that differ in their last bits can round to different sides of a boundary.
- 2 k 2^-24 * M for sums over k products, where M is the same sum over magnitudes. This is the bound of fp32 summation in two orders. It
  stays meaningful where products cancel.
- u * |sum| where more is done to such a sum in its group. The sum itself may round to either side of a boundary, and an addition may cancel
  most of it.
- The errors of values inside a vector group, as far as later operators carry them to the result. An addition may cancel most of a value and
  leave its error. A reduction that sums has the summation bound above. For each other operator that is not exact, the error is
  8 u (|value| + min(1, largest value)). For each value in bf16 between nodes, it is u * |value|: the reference rounds the value, and a
  vector group keeps it in fp32.
- The error of the roundings of an attention in fp32 (`attention_error`).
- 8 u * nodes * (|result| + min(1, largest result)) where a vector group is not exact. It rounds after each instruction of a sigmoid, tanh
  or softmax, and the reference only once for each node. Here, u is that of the group's roughest dtype.
- A step of a quantiser, as later operators carry it, where the difference allowed before it reaches the middle between two steps
  (`halfway.py`).
- 8 u (|result| + largest result) for each operation of an operator of the user's own. The program rounds after each operation, and the
  interpreted definition only once. The data of such operators have no large values, which would hide what they are added to.
- The smallest subnormal, 2^-24 in fp16.

Infinity counts as the first power of two beyond the dtype. So a value within a rounding of overflow may be finite or infinite.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from aoec.ir.graph.graph import Graph, OpNode, Tensor
from aoec.ir.index import Binary, Call, Cast, walk
from aoec.ir.text.parse import parse_meaning
from aoec.jobs.verify.halfway import QUANTISING, either_way
from aoec.lowering.lower.access import main_node
from aoec.ops.run import REALS, run_node
from aoec.ops.words.movement import MOVES

Arrays = Mapping[str, np.ndarray]

SUMS = ("conv2d_packed", "matmul", "interpolate", "avg_pool", "global_avg_pool")  # sums of products in fp32, rounded once
EXACT = frozenset(("conv2d_packed", "matmul", "interpolate", "add", "sub", "mul", "maximum", "minimum", "abs", "relu", "clip", "max_pool",
                   "concat", "transpose", "to_nc1hwc0", "from_nc1hwc0", "to_nz", "from_nz", "reshape", "slice"))
ADDING = ("reduce_sum", "reduce_mean")  # sums whose terms may be anything, rounded once
CARRYING = ("add", "adds", "sub", "relu", "abs", "clip", "maximum", "minimum")  # a result is off by no more than what it is made of
SPACING = {"fp32": 2.0**-23, "fp16": 2.0**-10, "bf16": 2.0**-7}
SMALLEST = {"fp32": 2.0**-149, "fp16": 2.0**-24, "bf16": 2.0**-133}
BEYOND = {"fp32": 2.0**128, "fp16": 2.0**16, "bf16": 2.0**128}
ROUNDING = 2.0**-24  # of one fp32 addition


def tolerance(alone: Graph, data: Arrays, wanted: Arrays, t: Tensor) -> np.ndarray:
    """Return how much each element of a result may differ: see the head of this file. `wanted`: what the reference makes of each tensor."""
    size, u = sizes(wanted[t.name], t.dtype), SPACING.get(t.dtype, 0.0)
    first = main_node(alone.nodes)
    allowed: np.ndarray = u * size + SMALLEST.get(t.dtype, 0.0)
    if first.op in SUMS and {**wanted, **data}[first.inputs[0]].dtype.kind not in "iu":  # sums of whole numbers are exact
        total = next(x for x in alone.tensors if x.name == first.outputs[0])
        rounded = SPACING.get(total.dtype, 0.0) * sizes(wanted[total.name], total.dtype) if total.name != t.name else 0.0
        error = 2 * products_summed(first, alone) * ROUNDING * magnitude(first, {**wanted, **data}) + rounded
        behind = [n for n in alone.nodes[alone.nodes.index(first) + 1:] if n.op in MOVES]
        allowed = allowed + move_error(behind, error, {**wanted, **data})
    if any(n.op not in EXACT and n.op not in SUMS for n in alone.nodes):
        made = {o for n in alone.nodes for o in n.outputs}
        rough = max(SPACING.get(x.dtype, 0.0) for x in alone.tensors if x.name in made) if t.dtype in REALS else u
        allowed = allowed + 8 * rough * len(alone.nodes) * (size + min(1.0, float(size.max(initial=0.0))))
    inexact = any(n.op not in EXACT for n in alone.nodes[:-1]) or any(n.op in (*ADDING, "attention") for n in alone.nodes)
    if t.dtype == "bf16" or inexact and t.dtype in REALS:
        allowed = allowed + carried_rounding(alone, {**data, **wanted}, t)
    if any(n.op in QUANTISING for n in alone.nodes):
        allowed = allowed + either_way(alone, {**data, **wanted}, t, lambda part, made: tolerance(part, data, wanted, made))
    own = sum(operations(n) for n in alone.nodes)
    return allowed + 8 * u * own * (size + float(size.max(initial=0.0))) if own else allowed


def carried_rounding(alone: Graph, values: Arrays, t: Tensor) -> np.ndarray:
    """Return how far the roundings of values between nodes to bf16, and of sums in another order, may change a result. Operators that are
    not listed carry no errors on."""
    errors: dict[str, np.ndarray] = {}
    dtypes = {x.name: x.dtype for x in alone.tensors}
    for n in alone.nodes:
        of = [(sizes(values[i], "bf16"), errors.get(i, np.zeros(()))) for i in n.inputs if i]
        if n.op == "mul":
            (a, error_a), (b, error_b) = of
            error = a * error_b + b * error_a
        elif n.op == "muls":
            error = of[0][1] * abs(float(n.attribute("scalar", 1.0)))  # type: ignore[arg-type]
        elif n.op in ("div", "sqrt"):
            (a, error_a), (b, error_b) = of if n.op == "div" else (of[0], (2 * sizes(values[n.outputs[0]], "bf16"), np.zeros(())))
            error = np.nan_to_num((error_a + a * error_b / np.where(b > 0, b, 1.0)) / np.where(b > 0, b, np.inf))
        elif n.op in ADDING:
            ((terms, off),) = of
            (error,) = run_node(n, [np.broadcast_to(off, terms.shape)])
            error = error + 2 * products_summed(n, alone) * ROUNDING * magnitude(n, values) * (dtypes[n.inputs[0]] in REALS)
        elif n.op == "attention" and dtypes[n.outputs[0]] == "fp32":
            error = attention_error(n, values)
        elif n.op in MOVES:
            error = move_error([n], of[0][1], values)
        else:
            error = sum((e for _, e in of), np.zeros(())) if n.op in CARRYING else np.zeros(())
        made, dtype = n.outputs[0], dtypes[n.outputs[0]]
        if made == t.name:
            return error
        if dtype == "bf16":
            error = error + SPACING["bf16"] * sizes(values[made], "bf16")
        if n.op not in EXACT and n.op not in SUMS and dtype in REALS:
            size = sizes(values[made], dtype)
            error = error + 8 * SPACING[dtype] * (size + min(1.0, float(size.max(initial=0.0))))
        errors[made] = error
    return np.zeros(())


def move_error(moves: Sequence[OpNode], error: np.ndarray, values: Arrays) -> np.ndarray:
    """Return the error of each element where moves leave the element."""
    for n in moves:
        (error,) = run_node(n, [np.broadcast_to(error, values[n.inputs[0]].shape)])
    return error


def attention_error(node: OpNode, values: Arrays) -> np.ndarray:
    """Return how far two results of an attention in fp32 may be apart. The bounds are the standard ones of rounded sums, with e = 2^-24 and
    p the shares:

    - A score of d products is off by (d + 1) e * scale * |q| |k|. It is also off by 4 e (|score| + |maximum|). That is e for each of scale,
      bias, shift by the row's maximum, and further shifts where the keys are worked on in parts.
    - An exponential is off by as much, relative to it, and by 4 e of its own.
    - Relative errors r_n of the exponentials make their weighted mean y off by sum_n p_n r_n (|v_n| + |y|).
    - The two sums over n keys are off by (n + 1) e * (sum_n p_n |v_n| + |y|).

    The result is twice the sum of all that, as both sides are rounded."""
    q, k, v, *bias = (values[i].astype(np.float32) for i in node.inputs if i)
    v = v if node.attribute("trans_v", 0) else v.swapaxes(-1, -2)
    scale = float(node.attribute("scale", 1.0))  # type: ignore[arg-type]
    lead = q.shape[:-2]
    added = [np.broadcast_to(b, (*lead, q.shape[-2], k.shape[-2])) for b in bias]
    out = np.empty((*lead, q.shape[-2], v.shape[-2]))
    with np.errstate(all="ignore"):
        for at in np.ndindex(lead):  # one matrix of scores at a time
            scores = q[at] @ k[at].T * scale + sum(b[at] for b in added)
            top = scores.max(axis=-1, keepdims=True)
            shares = np.exp(scores - top)
            shares /= shares.sum(axis=-1, keepdims=True)
            size = abs(scale) * (np.abs(q[at]) @ np.abs(k[at]).T)
            off = shares * ((q.shape[-1] + 1) * size + 4 * (np.abs(np.nan_to_num(scores)) + np.abs(top)) + 4)
            y, weight = np.abs(shares @ v[at].T), shares @ np.abs(v[at]).T
            out[at] = off @ np.abs(v[at]).T + off.sum(axis=-1, keepdims=True) * y + (k.shape[-2] + 1) * (weight + y)
    return np.nan_to_num(2 * ROUNDING * out)


def operations(node: OpNode) -> int:
    """Return how often a node of the user's own operator rounds. Return 0 for any other."""
    if not node.definition:
        return 0
    values = [v for s in parse_meaning(node.definition).statements for v in (s.value, s.init) if v is not None]
    return sum(isinstance(e, (Binary, Call, Cast)) for v in values for e in walk(v)) + 1


def products_summed(node: OpNode, graph: Graph) -> int:
    """Return how many products each sum of the node has."""
    shapes = [next(t.shape for t in graph.tensors if t.name == i) for i in node.inputs if i]
    if node.op in ("conv2d_packed", "matmul"):
        return shapes[1][-1 if node.attribute("trans_b", 0) else -2] + 1
    if node.op == "interpolate":
        return shapes[1][-1] + 1
    if node.op in ADDING:
        axes = node.attribute("axes")
        assert isinstance(axes, tuple)
        return prod(shapes[0][int(a)] for a in axes) + 1
    kernel = node.attribute("kernel")
    return prod(kernel) + 1 if isinstance(kernel, tuple) else prod(shapes[0][2:]) + 1  # type: ignore[return-value]


def magnitude(node: OpNode, data: Arrays) -> np.ndarray:
    """Return the node's sums over magnitudes, in fp32 and never infinite."""
    (out,) = run_node(node, [np.abs(data[i]) if i else None for i in node.inputs])
    return np.nan_to_num(out.astype(np.float64), posinf=BEYOND["fp32"])


def sizes(x: np.ndarray, dtype: str) -> np.ndarray:
    """Return the magnitudes as float64, infinities as in `finite`, 0 for what is no number."""
    return np.nan_to_num(np.abs(finite(x, dtype)), nan=0.0)


def finite(x: np.ndarray, dtype: str) -> np.ndarray:
    """Return the values as float64, infinities as the first power of two beyond the dtype."""
    wide = x.astype(np.float64)
    return np.where(np.isinf(wide), np.copysign(BEYOND.get(dtype, 0.0), wide), wide)
