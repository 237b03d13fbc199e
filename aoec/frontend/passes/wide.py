"""What 16 bits cannot hold, and so stays in fp32 whatever the precision of all others is; a few tensors of a model, if any.

Angles: the error of what a sine reads is the sine's own error, however large the angle is. 16 bits hold one of 4,000 radians, as rotary
places and steps of a diffusion have them, to within 1 (fp16) or 8 (bf16), and whole numbers beyond 2,048 or 256 not at all.
Sums of whole numbers: what an int8 product gives is beyond fp16 until its scale is multiplied in, and that scale is often below it.
Whole numbers that are compared as reals: places and lengths, beyond what 16 bits count to.
Roots of sums, as lengths of vectors are: a sum of squares is beyond fp16 where its root is not.
Numbers that keep a divisor from 0 (vanishing.py): 16 bits make 0 of them.
Places in an image (`Draft.wide`): whole pixels are taken from them, so that what is left has their error.
"""
from __future__ import annotations

from collections.abc import Set

from aoec.frontend.passes.sensitive import PERIODIC
from aoec.ir.draft import Draft
from aoec.ir.graph import OpNode
from aoec.ops.host import PREFIX
from aoec.ops.run import REALS

PRODUCTS = ("conv2d", "matmul", "interpolate", "attention")
CHOOSING = ("reduce_max", "reduce_min")  # give one of what they read, whatever it is kept in
SUMS = ("int32", "int64")
COMPARING = ("less", "less_equal", "greater", "greater_equal", "equal")
SCALING = ("mul", "muls", "div")


def wide_tensors(draft: Draft, apart: Set[str] = frozenset()) -> dict[str, str]:
    """Tensor -> fp32, of those reals, with all that is read by what makes such alone; nothing where products or the host begin, and no sine
    that is a result of the graph, or of what something else reads too. `apart`: nodes whose results are fp32 whatever reads them
    (vanishing.py)."""
    users = draft.users()
    compared = {n.outputs[0] for n in draft.nodes if n.op == "cast" and draft.tensors[n.inputs[0]].dtype in SUMS
                and {u.op for u in users.get(n.outputs[0], [])} <= {*COMPARING}}
    sums = {n.outputs[0] for n in draft.nodes if n.op == "reduce_sum"}
    rooted = {n.outputs[0] for n in draft.nodes if n.op == "sqrt" and n.inputs[0] in sums}
    seeds = _scaled_sums(draft) | compared | rooted | draft.wide
    nodes: set[str] = set()

    def read_by_them(name: str) -> bool:
        readers = [u.name for u in users.get(name, [])]
        return bool(readers) and nodes.issuperset(readers) and name not in draft.outputs

    for n in reversed(draft.nodes):
        between = n.op not in PRODUCTS + CHOOSING and not n.op.startswith(PREFIX) and all(map(read_by_them, n.outputs))
        if between or not seeds.isdisjoint(n.outputs) or n.op in PERIODIC and not set(n.outputs) & set(draft.outputs):
            nodes.add(n.name)
    made = [i for i in draft.inputs if read_by_them(i)]
    for n in draft.nodes:
        if n.name in nodes and (n.op not in PERIODIC or n.inputs[0] in made or read_by_them(n.outputs[0])) or n.name in apart:
            made += n.outputs
    return {name: "fp32" for name in made if draft.tensors[name].dtype == "fp32"}


def _scaled_sums(draft: Draft) -> set[str]:
    """Sums of products of whole numbers as reals, and what they are once they are scaled."""
    sums: set[str] = set()
    reals: set[str] = set()
    for n in draft.nodes:
        dtype = draft.tensors[n.outputs[0]].dtype
        if dtype in SUMS and (n.op in PRODUCTS or _moved(n, sums)):
            sums.add(n.outputs[0])
        elif dtype in REALS and (n.op == "cast" and n.inputs[0] in sums or n.op in SCALING and not reals.isdisjoint(n.inputs)):
            reals.add(n.outputs[0])
    return reals


def _moved(node: OpNode, sums: set[str]) -> bool:
    """Whether a node gives sums again: moved, or with what zero points make added."""
    return node.op in ("add", "sub", "adds", "reshape", "transpose") and not sums.isdisjoint(node.inputs)
