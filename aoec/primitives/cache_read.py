"""cache_read: what a block reads is first copied into a nearer scope."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from random import Random
from typing import Self

from aoec.base.errors import ScheduleError
from aoec.ir.func.evaluate import block_reads, common, lifetime
from aoec.ir.func.regions import Interval, clip, same, shift, union
from aoec.ir.func.tir import Block, Buffer, Func, Loop, Node, blocks
from aoec.ir.index import Binary, Call, Expr, Int, Read, Var, children, normalise, reads
from aoec.primitives.nest import (
    Path,
    check_new,
    child,
    find_block,
    find_buffer,
    insert,
    map_block,
    map_reads,
    path_region,
    precedes,
    replace_node,
    wrap,
    writers,
)
from aoec.primitives.patterns import conjuncts
from aoec.primitives.primitive import Primitive
from aoec.primitives.samples import Names
from aoec.primitives.set_scope import check_scope


@dataclass(frozen=True)
class CacheRead(Primitive):
    """Copies what the blocks read of a buffer in one iteration of loop `at` into a new local buffer, and lets them read that.

    `block` may be a list of blocks that read the same part. The copy is a block with the new buffer's name, put under `at`
    before the first of them (without `at`: at the top); its loops are tensor loops and its instruction is copy. Where a read
    is guarded by a select on the buffer's bounds, only what exists is copied. The new name is <buffer>_<scope> unless `name` is given.

    before:
        func f(X: fp32[10]) -> (Y: fp32[10]) {
          for io in ceildiv(10, ?t) {
            for ii in min(?t, 10 - io*?t) {
              b: Y[io*?t + ii] = exp(X[io*?t + ii])
            }
          }
        }
    call:
        cache_read(block=b, buffer=X, scope=UB, at=io)
    after:
        func f(X: fp32[10]) -> (Y: fp32[10]) {
          local X_UB: fp32[min(?t, 10)] in UB
          for io in ceildiv(10, ?t) {
            for X_UB_0 in min(?t, 10 - io*?t) tensor {
              X_UB: X_UB[X_UB_0] = X[io*?t + X_UB_0] as copy
            }
            for ii in min(?t, 10 - io*?t) {
              b: Y[io*?t + ii] = exp(X_UB[ii])
            }
          }
        }
    """

    word = "cache_read"
    block: tuple[str, ...]
    buffer: str
    scope: str
    at: str | None = None
    layout: str = "ND"
    name: str | None = None

    @classmethod
    def sample(cls, func: Func, random: Random) -> Self:
        names = Names(func, random)
        return cls((names.block,), names.read, "UB", names.loop, name=names.new("r"))

    def apply(self, func: Func) -> Func:
        source = find_buffer(func, self.buffer)
        check_scope(self.scope, self.layout)
        order = [b.name for b, _ in blocks(func.body)]
        found = sorted((find_block(func, name) for name in self.block), key=lambda f: order.index(f[0].name))
        depth = self._depth(found)
        self._check(func, found, depth)
        boxes = [box for block, above in found for box in guarded_regions(block, above, depth, source)]
        box = union(boxes, self.buffer)
        name = self.name or cached_name(source, self.scope)
        loops = copy_loops(name, box)
        point = tuple(Var(x.var) for x in loops)
        copy = Block(name, Read(name, point), "=", Read(self.buffer, offset(point, box)), instr="copy")
        check_new(func, name, *[x.var for x in loops])
        below = found[0][1]
        body = func.body
        for block, _ in found:
            reading = redirect(block, self.buffer, name, box)
            body = replace_node(body, block.name, partial(_instead, reading))
        body = insert(body, child(func, self.at, below, found[0][0].name), (wrap(copy, loops),))
        new = Buffer(name, source.dtype, tuple(b.largest for b in box), self.scope, self.layout)
        return replace(func, body=body, locals=func.locals + (new,))

    def _depth(self, found: list[tuple[Block, Path]]) -> int:
        """Return how many loops enclose the copy: those down to `at`."""
        shared = [loop.var for loop in reduce(common, [above for _, above in found])]
        if self.at is None:
            return 0
        if self.at not in shared:
            raise ScheduleError(f"{self.at} is not a loop around {' and '.join(self.block)}; around it: {', '.join(shared) or 'none'}")
        return shared.index(self.at) + 1

    def _check(self, func: Func, found: list[tuple[Block, Path]], depth: int) -> None:
        for block, above in found:
            if not any(r.buffer == self.buffer for r in block_reads(block)):
                raise ScheduleError(f"{block.name} does not read {self.buffer}")
            if block.target.buffer == self.buffer:
                raise ScheduleError(f"{block.name} writes {self.buffer} too; use cache_write or set_scope")
            if block.instr is not None and any(loop.kind == "tensor" for loop in above[:depth]):
                raise ScheduleError(f"{self.at} belongs to the instruction of {block.name}; a copy cannot stand inside it")
        anchor = child(func, self.at, found[0][1], found[0][0].name)
        for writer, above in writers(func, self.buffer):
            if anchor in (writer.name, *[loop.var for loop in above]) or not precedes(func, writer.name, found[0][0].name):
                raise ScheduleError(f"{writer.name} writes {self.buffer} where the copy would read it; cache it further inside")
        alive = lifetime(func, self.buffer)
        if depth < len(alive):
            raise ScheduleError(f"{self.buffer} lives in one iteration of {alive[-1].var} only; cache it there or further inside")


def cached_name(source: Buffer, scope: str) -> str:
    """Return <buffer>_<scope>, without the scope that the buffer's own name ends in."""
    return source.name.removesuffix(f"_{source.scope}") + f"_{scope}"


def copy_loops(name: str, box: tuple[Interval, ...]) -> list[Loop]:
    """Return the tensor loops <name>_0.. over a box."""
    return [Loop(f"{name}_{d}", b.extent, (), "tensor") for d, b in enumerate(box)]


def _instead(block: Block, _: Node) -> tuple[Node, ...]:
    return (block,)


def offset(point: Sequence[Expr], box: tuple[Interval, ...]) -> tuple[Expr, ...]:
    """Return the point of the buffer that is `point` of the box."""
    return tuple(normalise(b.offset + p) for p, b in zip(point, box))


def redirect(block: Block, old: str, new: str, box: tuple[Interval, ...]) -> Block:
    """Return the block reading `new`, which holds `box` of `old`."""
    return map_block(block, lambda e: map_reads(e, old, lambda r: Read(new, shift(r.indices, box))))


def guarded_regions(block: Block, above: Path, depth: int, buffer: Buffer) -> list[tuple[Interval, ...]]:
    """Return the boxes of `buffer` that a block reads in one iteration of the loop at `depth - 1`, cut where reads are guarded."""
    exprs = [block.value, *([block.init] if block.init is not None else []), *block.target.indices]
    found: dict[Read, tuple[Interval, ...]] = {}
    for e in exprs:
        for read, guards in _guarded_reads(e, buffer.name):
            box = path_region(read, above, depth, buffer)
            found[read] = _clip_box(read, box, buffer, guards)
    return list(found.values())


def _clip_box(read: Read, box: tuple[Interval, ...], buffer: Buffer, guards: list[Expr]) -> tuple[Interval, ...]:
    """Clip the box to the buffer in the dimensions that a guard bounds. A guard must bound one."""
    spoken = [[g for g in guards if _bounds(g, i, size)] for i, size in zip(read.indices, buffer.shape)]
    for g in guards:
        if not any(g in own for own in spoken):
            raise ScheduleError(f"a read of {buffer.name} is guarded by a condition that is not one of its bounds")
    return tuple(clip(b, size) if own else b for b, size, own in zip(box, buffer.shape, spoken))


def _guarded_reads(e: Expr, buffer: str) -> list[tuple[Read, list[Expr]]]:
    """Return the reads of a buffer with the conditions under which they happen."""
    if isinstance(e, Read) and e.buffer == buffer:
        return [(e, [])]
    if isinstance(e, Call) and e.fn == "select" and not reads(e.args[0]):
        yes = [(r, conjuncts(e.args[0]) + g) for r, g in _guarded_reads(e.args[1], buffer)]
        return yes + _guarded_reads(e.args[2], buffer)
    return [found for c in children(e) for found in _guarded_reads(c, buffer)]


def _bounds(guard: Expr, i: Expr, size: Expr) -> bool:
    """Return True where the guard says that index `i` is not below 0, or below `size`."""
    if not isinstance(guard, Binary):
        return False
    op, a, b = guard.op, guard.left, guard.right
    if op in (">", ">="):
        op, a, b = {">": "<", ">=": "<="}[op], b, a
    low = (op == "<=" and same(b - a, i)) or (op == "<" and same(b - a - 1, i))
    high = (op == "<" and same(a - b, i - size)) or (op == "<=" and same(a - b, i - size + Int(1)))
    return low or high
