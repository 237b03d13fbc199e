"""Chooses the dtype of the reals, by one of the modes that the vendor's tools have, under short names.

- fp16, bf16 and fp32 apply to all tensors. Biases of cube operators, scales and the tensors that wide.py names stay fp32.
- `keep` takes what the model declares, tensor by tensor.
- `mixed` is fp16 except for sensitive operators (sensitive.py) and for what lies only between such operators.
- `cube16` is fp32 except for the operands of products.

In the last three a node calculates in one dtype. Inputs of another dtype are cast before it, once for all readers. The model's own dtype
stays in `Tensor.declared`, so that a graph itself says where precision was lowered (ops/narrowed.py).

A number that guards against a pole, and that 16 bits do not hold, keeps its nodes in fp32 (vanishing.py). A number beyond the range of its
dtype, in a constant or an attribute, becomes half the largest. Masks that hide words add the lowest number of fp32. Where they hide a whole
row, infinities would make NaN of its softmax. Half the largest leaves room for the scores that are added.
"""
from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace
from math import copysign, inf

import numpy as np

from aoec.frontend.passes.sensitive import reason
from aoec.frontend.passes.vanishing import Vanishing, vanishing
from aoec.frontend.passes.wide import wide_tensors
from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import Attribute, OpNode
from aoec.ops.host.host import PREFIX
from aoec.ops.narrowed import DECLARED, WIDER
from aoec.ops.run import NUMPY

CUBE = ("conv2d", "matmul", "interpolate")
FACTORS = {"conv2d": 2, "matmul": 2, "interpolate": 2, "attention": 3}  # word -> how many of its arguments are multiplied by others
# operators with constants that stay fp32: biases and scales
SCALES = {**dict.fromkeys(CUBE, slice(2, None)), **dict.fromkeys(("dequantise", "quantise", "requantise"), slice(1, 2)),
          "dequantise_range": slice(4, None)}
EXACT = ("range_high", "range_low", "range_step")  # operators whose results stay fp32
FAR = {"fp16": 65504.0 / 2, "bf16": 3.3895313892515355e38 / 2}  # half of the largest
BEYOND = {"fp16": 65520.0, "bf16": 3.3961775292304601e38}  # half a step above the largest: from here on numbers round to infinity
Dtypes = dict[str, str]  # tensor -> dtype


def choose_precision(draft: Draft, precision: str, own: Mapping[str, str] | None = None) -> list[str]:
    """Return notices for the user, after the draft's tensors and constants took the precision. `own`: tensor -> the dtype that the model
    declares for those reals that it names."""
    _split_bias(draft)
    kept = _model_dtypes(draft, own or {})
    exact = {i for n in draft.nodes for i in n.inputs[SCALES.get(n.op, slice(0, 0))] if draft.is_constant(i)}
    exact |= {o for n in draft.nodes if n.op in EXACT for o in n.outputs}
    lost: list[str] = []
    short = "bf16" if precision == "bf16" else "fp16"
    held = vanishing(draft, short, wide_tensors(draft)) if precision in ("fp16", "bf16", "mixed") else Vanishing()
    if precision in ("keep", "mixed", "cube16"):
        chosen = kept if precision == "keep" else _mixed_dtypes(draft, held.nodes) if precision == "mixed" else dict.fromkeys(kept, "fp32")
        lost = _cast_between(draft, chosen, exact, "fp16" if precision == "cube16" else "")
    elif precision != "fp32" and (wide := wide_tensors(draft, held.nodes)):
        lost = _cast_between(draft, dict.fromkeys(kept, precision) | wide, exact, "")
    elif precision != "fp32":
        lost = [name for name, t in [*draft.tensors.items()] if t.dtype == "fp32" and name not in exact and _round(draft, name, precision)]
    for name, dtype in kept.items():
        if name not in draft.weights:
            draft.tensors[name] = replace(draft.tensors[name], declared=DECLARED[dtype])
    bounded = [_clamp_numbers(draft, n) for n in draft.nodes]
    lost += [n.name for n, new in zip(draft.nodes, bounded) if n is not new]
    draft.nodes = bounded
    kind = precision if precision in FAR else "16 bits"
    far = [f"{len(lost)} constant{'s' * (len(lost) > 1)} exceed the range of {kind} and became half its largest number "
           f"(first: {lost[0]}); --precision fp32 keeps them"] if lost else []
    return [*held.notices(short), *far]


def _real_tensors(draft: Draft, names: tuple[str, ...]) -> list[str]:
    return [name for name in names if name and draft.tensors[name].dtype == "fp32"]


def _model_dtypes(draft: Draft, own: Mapping[str, str]) -> Dtypes:
    """Return the model's own dtype of every real tensor. Where it names none, the dtype is the widest of what the tensor is made of."""
    out = {name: own.get(name, "fp32") for name in (*draft.inputs, *draft.weights) if draft.tensors[name].dtype == "fp32"}
    for node in draft.nodes:
        read = [out[i] for i in _real_tensors(draft, node.inputs)]
        for name in _real_tensors(draft, node.outputs):
            out[name] = own.get(name) or max(read, key=WIDER.index, default="fp32")
    return out


# ---------------------------------------------------------------- a dtype a node

def _mixed_dtypes(draft: Draft, apart: Set[str]) -> Dtypes:
    """Return fp16 for every real tensor, but fp32 for what sensitive nodes make, or those `apart`, and for what lies between such nodes
    alone."""
    users = draft.users()
    held = wide_tensors(draft, apart)
    wide = {n.name for n in draft.nodes if reason(n) or n.op.startswith(PREFIX) or held.keys() & set(n.outputs)}
    wanted = set(wide)
    for n in reversed(draft.nodes):
        readers = [u.name for o in n.outputs for u in users.get(o, [])]
        if readers and n.op not in CUBE and wanted.issuperset(readers) and not set(n.outputs) & set(draft.outputs):
            wanted.add(n.name)
    out: Dtypes = {}
    for name in _real_tensors(draft, draft.inputs):
        readers = [u.name for u in users.get(name, [])]
        out[name] = "fp32" if wide.intersection(readers) or name in draft.outputs else "fp16"
    for n in draft.nodes:
        read = [out[i] for i in _real_tensors(draft, n.inputs) if not draft.is_constant(i)]
        between = n.name in wanted and bool(read) and set(read) == {"fp32"}
        out.update({name: "fp32" if n.name in wide or between else "fp16" for name in _real_tensors(draft, n.outputs)})
    return out


def _cast_between(draft: Draft, dtypes: Dtypes, exact: set[str], products: str) -> list[str]:
    """Return the constants that overflowed, after tensors took their dtypes and nodes read all reals in the dtype of what they make,
    products in `products` where that is given."""
    nodes, draft.nodes = draft.nodes, []
    reals = {name for name, t in draft.tensors.items() if t.dtype == "fp32"} - {o for n in nodes if n.op in EXACT for o in n.outputs}
    for name in reals & dtypes.keys() - draft.weights.keys():  # some of a draft's tensors are nobody's by now
        draft.tensors[name] = replace(draft.tensors[name], dtype=dtypes[name])
    made: dict[tuple[str, str], str] = {}
    lost: list[str] = []
    for node in [_cast_or(draft, n) for n in nodes]:
        read = [dtypes.get(i, "fp32") for i in node.inputs if i in reals and i not in draft.weights]
        given = [dtypes[o] for o in node.outputs if o in reals] or read or ["fp32"]
        dtype = max(given, key=WIDER.index)
        factors = node.inputs[:FACTORS.get(node.op, 0)] if products else ()
        if node.op != "cast" and not node.op.startswith(PREFIX):
            cast = {i: _as(draft, i, products if i in factors else dtype, made, lost) for i in node.inputs if i in reals - exact}
            node = replace(node, inputs=tuple(cast.get(i, i) for i in node.inputs))
        draft.nodes.append(node)
    return lost


def _cast_or(draft: Draft, node: OpNode) -> OpNode:
    """Return the node; a view of the same shape in another dtype, which a cast of the model has become, is a cast."""
    if node.op != "reshape":
        return node
    x, y = draft.tensors[node.inputs[0]], draft.tensors[node.outputs[0]]
    return replace(node, op="cast", attributes=()) if x.shape == y.shape and x.dtype != y.dtype else node


def _as(draft: Draft, name: str, dtype: str, made: dict[tuple[str, str], str], lost: list[str]) -> str:
    """Return the tensor in that dtype: itself, or its cast, of a constant made here, else by a node; one for all who read it so."""
    if draft.tensors[name].dtype == dtype:
        return name
    if (name, dtype) not in made:
        t, label = draft.tensors[name], f"{name}_{dtype}"
        if draft.is_constant(name):
            made[name, dtype] = draft.constant(label, draft.weights[name], "fp32")
            lost += [name] * _round(draft, made[name, dtype], dtype)
        else:
            made[name, dtype] = cast = draft.tensor(label, dtype, t.shape)
            draft.tensors[cast] = replace(draft.tensors[cast], declared=DECLARED[dtype])  # of no node of the model, which declares nothing
            draft.nodes.append(draft.node("cast", [name], cast))
    return made[name, dtype]


def _round(draft: Draft, name: str, dtype: str) -> bool:
    """Return True where the tensor, which is of the dtype from now on, is a constant with numbers beyond that."""
    draft.tensors[name] = replace(draft.tensors[name], dtype=dtype)
    if dtype == "fp32" or name not in draft.weights:
        return False
    wide = draft.weights[name]
    beyond = np.isfinite(wide) & (np.abs(wide) >= BEYOND[dtype])
    draft.weights[name] = np.where(beyond, np.copysign(FAR[dtype], wide), wide).astype(NUMPY[dtype])
    return bool(beyond.any())


def _clamp_numbers(draft: Draft, node: OpNode) -> OpNode:
    """Return the node with its numbers in the range of its result's dtype; the same node where they already are."""
    t = draft.tensors.get(node.outputs[0])
    most = BEYOND.get(t.dtype, inf) if t is not None else inf

    def beyond(value: Attribute) -> bool:
        return isinstance(value, float) and most <= abs(value) < inf

    if t is None or not any(beyond(value) for _, value in node.attributes):
        return node
    given = tuple((k, copysign(FAR[t.dtype], v) if beyond(v) else v) for k, v in node.attributes)  # type: ignore[arg-type]
    return replace(node, attributes=given)


def _split_bias(draft: Draft) -> None:
    """Give a bias that something else reads, too, a copy of its own, which can stay fp32."""
    nodes, draft.nodes = draft.nodes, []
    others = {i for n in nodes for i in (n.inputs[:2] if n.op in CUBE else n.inputs)}
    copies: dict[str, str] = {}
    for node in nodes:
        if node.op in CUBE and len(node.inputs) > 2 and node.inputs[2] in others and draft.is_constant(node.inputs[2]):
            name = node.inputs[2]
            copies[name] = copies.get(name) or draft.constant(f"{name}_bias", draft.weights[name], "fp32")
            node = _with_bias(node, copies[name])
        draft.nodes.append(node)


def _with_bias(node: OpNode, bias: str) -> OpNode:
    return replace(node, inputs=(*node.inputs[:2], bias))
