"""Finds what 16 bits cannot hold, and so stays in fp32 whatever the precision of all others is; a few tensors of a model, if any.

- Angles: the error of a sine's argument is the error of the sine itself, however large the angle is. Rotary places and steps of a diffusion
  have angles of 4,000 radians. 16 bits hold these to within 1 (fp16) or 8 (bf16). Whole numbers beyond 2,048 (fp16) or 256 (bf16) are not
  exact.
- Sums of whole numbers: the sums of an int8 product exceed fp16 until their scale is multiplied in. That scale is often below fp16's range.
- Whole numbers that are compared as reals: places and lengths may exceed what 16 bits count to.
- Values that grow and are reduced again: a square, a power, an exponential or a sum may exceed fp16. Its root, its logarithm or its
  quotient by a sum may not. A variance that is the difference of two means is lost in the rounding of either.
- Numbers that keep a divisor from 0 (vanishing.py): 16 bits make 0 of them.
- Places in an image (`Draft.wide`): whole pixels are subtracted from them, and the fraction that is left has their error.
"""
from __future__ import annotations

from collections.abc import Set

from aoec.frontend.passes.sensitive import PERIODIC
from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import OpNode
from aoec.ops.host.host import PREFIX
from aoec.ops.run import REALS

PRODUCTS = ("conv2d", "matmul", "interpolate", "attention")
CHOOSING = ("reduce_max", "reduce_min")  # give one of what they read, whatever it is kept in
SUMS = ("int32", "int64")
COMPARING = ("less", "less_equal", "greater", "greater_equal", "equal")
SCALING = ("mul", "muls", "div")
GROWING = ("reduce_sum", "reduce_mean", "exp", "power")  # and squares
BACK = ("sqrt", "rsqrt", "log")
CARRYING = ("add", "adds", "sub", "mul", "muls", "div", "clip", "maximum", "minimum", "reshape")  # what grew is still large behind these


def wide_tensors(draft: Draft, apart: Set[str] = frozenset()) -> dict[str, str]:
    """Return tensor -> fp32 for the reals that stay wide, with the tensors that only nodes making such tensors read. The search stops where
    products or the host begin. A sine stays narrow where it is a result of the graph, or where its argument has other readers. `apart`:
    nodes whose results are fp32 whatever reads them (vanishing.py)."""
    users = draft.users()
    compared = {n.outputs[0] for n in draft.nodes if n.op == "cast" and draft.tensors[n.inputs[0]].dtype in SUMS
                and {u.op for u in users.get(n.outputs[0], [])} <= {*COMPARING}}
    seeds = _scaled_sums(draft) | compared | _brought_back(draft) | draft.wide
    nodes: set[str] = set()

    def read_by_them(name: str) -> bool:
        readers = [u.name for u in users.get(name, [])]
        return bool(readers) and nodes.issuperset(readers) and name not in draft.outputs

    for n in reversed(draft.nodes):
        between = n.op not in PRODUCTS + CHOOSING and not n.op.startswith(PREFIX) and all(map(read_by_them, n.outputs))
        if between or not seeds.isdisjoint(n.outputs) or n.op in PERIODIC and not set(n.outputs) & set(draft.outputs):
            nodes.add(n.name)
    made = [i for i in draft.inputs if i in draft.wide or read_by_them(i)]
    for n in draft.nodes:
        if n.name in nodes and (n.op not in PERIODIC or n.inputs[0] in made or read_by_them(n.outputs[0])) or n.name in apart:
            made += n.outputs
    return {name: "fp32" for name in made if draft.tensors[name].dtype == "fp32"}


def _brought_back(draft: Draft) -> set[str]:
    """Return the tensors that grow and are reduced again, and those in between. A root or a logarithm reduces them, or, for sums, a factor
    or a quotient."""
    makers: dict[str, OpNode] = {}  # what grew -> the node that makes it
    summed: set[str] = set()  # of these, sums and what is made of them
    back: list[OpNode] = []
    for n in draft.nodes:
        varying = [i for i in n.inputs if i and not draft.is_constant(i)]
        if n.op in BACK and not makers.keys().isdisjoint(varying) or n.op in SCALING and not summed.isdisjoint(varying):
            back.append(n)
        squared = n.op == "mul" and n.inputs[0] == n.inputs[1]
        if n.op in GROWING or squared or n.op in CARRYING and varying and makers.keys() >= set(varying):
            makers[n.outputs[0]] = n
            if n.op == "reduce_sum" or n.op in CARRYING and summed.issuperset(varying):
                summed.add(n.outputs[0])
    out: set[str] = set()
    while back:
        node = back.pop()
        out.add(node.outputs[0])
        back += [makers[i] for i in node.inputs if i in makers and i not in out]
    return out


def _scaled_sums(draft: Draft) -> set[str]:
    """Return sums of products of whole numbers as reals, and what they are once they are scaled."""
    sums: set[str] = set()
    reals: set[str] = set()
    for n in draft.nodes:
        dtype = draft.tensors[n.outputs[0]].dtype
        if dtype in SUMS and (n.op in PRODUCTS or _keeps_sums(n, sums)):
            sums.add(n.outputs[0])
        elif dtype in REALS and (n.op == "cast" and n.inputs[0] in sums or n.op in SCALING and not reals.isdisjoint(n.inputs)):
            reals.add(n.outputs[0])
    return reals


def _keeps_sums(node: OpNode, sums: set[str]) -> bool:
    """Return whether a node gives sums again: moved, or with what zero points add."""
    return node.op in ("add", "sub", "adds", "reshape", "transpose") and not sums.isdisjoint(node.inputs)
