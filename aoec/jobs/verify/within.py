"""Funcs that people wrote: parsed, and none of them reads or writes beside its tensors."""
from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from aoec.base.errors import CheckError
from aoec.ir.func.tir import Block, Func, blocks
from aoec.ir.index import Binary, Call, Expr, Int, Read, Var, children, normalise
from aoec.ir.text.parse import parse_func
from aoec.ir.text.show import show
from aoec.jobs.stages.nouns import need

Range = tuple[int, int]


def read_func(text: str, source: str) -> Func:
    """Return the func that a text says. Raise CheckError at the block that reads or writes beyond an axis of a tensor in GM.

    Only sums of loops times numbers are checked, for they reach both of their ends. Indices that are chosen (select) or cut (min) are left
    to the author of the text.
    """
    need("func", text, source)
    func = parse_func(text, source)
    shapes = {b.name: b.shape for b in func.buffers if b.scope == "GM" and b.layout == "ND"}
    for block, above in blocks(func.body):
        ranges = {lp.var: (0, lp.extent.value - 1) for lp in above if isinstance(lp.extent, Int) and lp.extent.value > 0}
        for read in _accesses(block):
            for axis, (index, extent) in enumerate(zip(read.indices, shapes.get(read.buffer, ()))):
                found = _value_range(normalise(index), ranges)
                if found and isinstance(extent, Int) and not 0 <= found[0] <= found[1] < extent.value:
                    said = f"{show(index)} runs from {found[0]:,} to {found[1]:,}, and axis {axis} of {read.buffer} has {extent.value:,}"
                    raise _beyond(func, block, f"{show(read)}: {said}", text, source)
    return func


def _beyond(func: Func, block: Block, said: str, text: str, source: str) -> CheckError:
    """Return the error at the block in its text."""
    found = re.search(rf"^[ \t]*({re.escape(block.name)})[ \t]*:", text, re.MULTILINE)
    line, column = (text.count("\n", 0, found.start(1)) + 1, found.start(1) - text.rfind("\n", 0, found.start(1))) if found else (0, 0)
    return CheckError(f"func {func.name}: block {block.name}: {said}; change the loop or the shape", text, line, column, source)


def _accesses(block: Block) -> Iterator[Read]:
    """Yield what a block writes, and what it reads whatever the data and the place are."""
    stack: list[Expr] = [block.target, block.value]
    while stack:
        e = stack.pop()
        if isinstance(e, Read):
            yield e
        elif not isinstance(e, Call) or e.fn not in ("select", "guard"):
            stack += children(e)


def _value_range(e: Expr, ranges: Mapping[str, Range]) -> Range | None:
    """Return the least and the greatest value of a sum in which each loop stands once. Return None for anything else."""
    terms = [(1, e)]
    low = high = 0
    seen: set[str] = set()
    while terms:
        sign, t = terms.pop()
        if isinstance(t, Binary) and t.op in ("+", "-"):
            terms += [(sign, t.left), (sign if t.op == "+" else -sign, t.right)]
            continue
        factor, name = _term(t)
        if name in seen or name and name not in ranges or factor is None:
            return None
        seen |= {name} - {""}
        ends = [sign * factor * v for v in (ranges[name] if name else (1, 1))]
        low, high = low + min(ends), high + max(ends)
    return low, high


def _term(e: Expr) -> tuple[int | None, str]:
    """Return (factor, loop) of a loop times a number, or of a number ("" for its loop); (None, "") of anything else."""
    if isinstance(e, Int):
        return e.value, ""
    if isinstance(e, Var):
        return 1, e.name
    if isinstance(e, Binary) and e.op == "*" and isinstance(e.left, Var) and isinstance(e.right, Int):
        return e.right.value, e.left.name
    return None, ""
