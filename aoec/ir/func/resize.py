"""A func with one of its dimensions made longer or shorter: the loop named, and every buffer dimension that it walks.

A loop walks a dimension where an index of a read or write is the loop's variable alone. Loops that walk the same dimension go with it,
and their dimensions too. Whatever else hangs on the extent (an index made of several loops, a mean's 1/n) is not in the text to be
found, so that such a func is refused.
"""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import isclose, sqrt

from aoec.base.errors import CheckError
from aoec.ir.func.tir import Block, Buffer, Func, Loop, Node, blocks, walk
from aoec.ir.index import Expr, Float, Int, Read, Var, children, reads, variables
from aoec.ir.index import walk as parts
from aoec.ir.text.show import show

BY_NAME = 'an operator given by name and sizes, as in "matmul(m=64, k=64, n=64)", can be swept over all of its sizes'
Dim = tuple[str, int]  # buffer, dimension


@dataclass(frozen=True)
class Walk:
    """What has one extent: loops and the dimensions that they walk."""

    loops: frozenset[str]
    dims: frozenset[Dim]


def loops_of(func: Func) -> dict[str, Loop]:
    """Return loop name -> loop, in program order."""
    return {n.var: n for n, _ in walk(func.body) if isinstance(n, Loop)}


def tied_loops(func: Func, loop: str) -> frozenset[str]:
    """Return the loops whose extents change together with that of `loop`, which is one of them."""
    return _walk_ties(func, loop).loops


def resize(func: Func, loop: str, extent: int) -> Func:
    """Return the func in which `loop` has the given extent, and so does everything that walks the same dimensions. Raise CheckError, in
    a sentence, in three cases: there is no such loop, it is already scheduled, or more may depend on the extent."""
    loops = loops_of(func)
    if loop not in loops:
        raise CheckError(f"func {func.name} has no loop {loop}; its loops are {', '.join(loops) or 'none'}")
    old = loops[loop].extent
    if not isinstance(old, Int):
        raise CheckError(f"loop {loop} of func {func.name} has the extent {show(old)}, which is no number; sweep its hole instead")
    if extent < 1:
        raise CheckError(f"loop {loop} of func {func.name} cannot have an extent of {extent}; it is at least 1")
    _check_unscheduled(func, loops)
    walked = _walk_ties(func, loop)
    _check_extents(func, walked, loop, old)
    _check_uses(func, walked, loop)
    if _is_reduced(func, walked):
        _check_constants(func, loop, old.value)
    return _resize_func(func, walked, Int(extent))


def _check_unscheduled(func: Func, loops: dict[str, Loop]) -> None:
    made = [f"loop {v} of kind {n.kind}" for v, n in loops.items() if n.kind != "serial"]
    made += [f"buffer {b.name} in {b.scope}" for b in func.locals if b.scope != "GM"]
    if made:
        raise CheckError(f"func {func.name} is scheduled already ({made[0]}), and tiles do not follow its loops; sweep it unscheduled")


def accesses(func: Func) -> Iterator[tuple[Block, Read]]:
    """Yield every read and write of every block, with those inside indices."""
    for block, _ in blocks(func.body):
        for e in (block.target, block.value, *([] if block.init is None else [block.init])):
            for read in reads(e):
                yield block, read


def _walk_ties(func: Func, loop: str) -> Walk:
    """Return the loops and dimensions tied to a loop, directly or through each other."""
    ties = {(read.buffer, i, index.name) for _, read in accesses(func) for i, index in enumerate(read.indices) if isinstance(index, Var)}
    loops, dims, before = {loop}, set[Dim](), 0
    while len(loops) + len(dims) > before:
        before = len(loops) + len(dims)
        dims |= {(buffer, i) for buffer, i, var in ties if var in loops}
        loops |= {var for buffer, i, var in ties if (buffer, i) in dims}
    return Walk(frozenset(loops), frozenset(dims))


def _check_extents(func: Func, walked: Walk, loop: str, old: Int) -> None:
    """Raise CheckError unless all loops and dimensions that must have the extent `old` have it."""
    loops = loops_of(func)
    said: dict[str, Expr] = {f"loop {v}": loops[v].extent for v in sorted(walked.loops)}
    said |= {f"dimension {i} of {name}": func.buffer(name).shape[i] for name, i in sorted(walked.dims)}
    for what, extent in said.items():
        if extent != old:
            raise CheckError(f"what {loop} walks is ambiguous in func {func.name}: its extent is {old.value}, {what} is {show(extent)}; "
                             + BY_NAME)


def _check_uses(func: Func, walked: Walk, loop: str) -> None:
    """Raise CheckError unless each use of the loops is plain. An index that uses one must be that loop alone, no other index may walk
    their dimensions, and no block may calculate with them."""
    for block, read in accesses(func):
        for i, index in enumerate(read.indices):
            mixed = not isinstance(index, Var) and (variables(index) & walked.loops or (read.buffer, i) in walked.dims)
            if mixed and index != Int(0):
                raise CheckError(f"what {loop} walks is ambiguous in func {func.name}: block {block.name} names {show(read)}, whose index "
                                 f"{show(index)} does not say how the dimension follows; " + BY_NAME)
    for block, _ in blocks(func.body):
        for e in (block.value, *([] if block.init is None else [block.init])):
            if used := _outside_reads(e) & walked.loops:
                raise CheckError(f"block {block.name} of func {func.name} calculates with loop {min(used)} itself; " + BY_NAME)
    for var, found in loops_of(func).items():
        if variables(found.extent) & walked.loops:
            raise CheckError(f"the extent of loop {var} in func {func.name} follows another loop's; " + BY_NAME)


def _outside_reads(e: Expr) -> frozenset[str]:
    """Return the variables of an expression that are no part of an index."""
    if isinstance(e, Read):
        return frozenset()
    return variables(e) if isinstance(e, Var) else frozenset().union(*[_outside_reads(c) for c in children(e)])


def _is_reduced(func: Func, walked: Walk) -> bool:
    """Return whether a block sums (or takes the largest) over what is resized. Only then do constants such as a mean's follow the
    extent."""
    return any(b.op != "=" and ({lp.var for lp in above} - variables(b.target)) & walked.loops for b, above in blocks(func.body))


def _check_constants(func: Func, loop: str, old: int) -> None:
    """Raise CheckError if a constant is the extent, its square root, or the reciprocal of either."""
    follow = (old, 1 / old, sqrt(old), 1 / sqrt(old))
    for block, _ in blocks(func.body):
        for n in (n for e in (block.value, *([] if block.init is None else [block.init])) for n in parts(e)):
            if isinstance(n, (Int, Float)) and any(isclose(abs(n.value), s, rel_tol=1e-6) for s in follow):
                raise CheckError(f"the constant {show(n)} in block {block.name} of func {func.name} may follow from {loop}, whose extent "
                                 f"is {old}; " + BY_NAME)


def _resize_func(func: Func, walked: Walk, extent: Int) -> Func:
    inputs, outputs, local = (tuple(_buffer(b, walked, extent) for b in bs) for bs in (func.inputs, func.outputs, func.locals))
    return replace(func, inputs=inputs, outputs=outputs, locals=local, body=_nodes(func.body, walked, extent))


def _buffer(b: Buffer, walked: Walk, extent: Int) -> Buffer:
    return replace(b, shape=tuple(extent if (b.name, i) in walked.dims else e for i, e in enumerate(b.shape)))


def _nodes(body: tuple[Node, ...], walked: Walk, extent: Int) -> tuple[Node, ...]:
    return tuple(Loop(n.var, extent if n.var in walked.loops else n.extent, _nodes(n.body, walked, extent), n.kind)
                 if isinstance(n, Loop) else n for n in body)
