"""compute_at: a block moves into the loops of the block that it feeds, or that feeds it, or that writes another output beside it."""
from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from random import Random
from typing import Self

from aoec.base.errors import ScheduleError
from aoec.ir.func.evaluate import block_reads, common
from aoec.ir.func.regions import Interval, interval, known_range, same, union
from aoec.ir.func.tir import Block, Func, Loop, Node, blocks
from aoec.ir.index import Expr, Int, Read, Var, affine, normalise, substitute, variables
from aoec.primitives.nest import (
    Path,
    check_lifetimes,
    extents,
    find_block,
    find_loop,
    insert,
    map_nodes,
    node_name,
    own_nest,
    path_region,
    readers,
    reductions,
    remove_node,
    tidy,
    writers,
)
from aoec.primitives.primitive import Primitive
from aoec.primitives.samples import Names
from aoec.primitives.whole_parts import check_whole_part


@dataclass(frozen=True)
class ComputeAt(Primitive):
    """Moves a block, with its loops, under a loop of its readers (before the first) or of its writers (after the last).

    The loops shrink to the part that one iteration of `loop` needs or has made, and keep their names. A block that
    reads an accumulator can only go where it is complete: outside the loops over which it is accumulated. A block that writes an output
    may also go, before anything it reads does, to the front of a loop around a block that writes another output of the same shape, or of
    that with more dimensions, of which the loop leaves the others whole: it writes the same part.

    before:
        func f(X: fp32[10]) -> (Y: fp32[10]) {
          local T: fp32[10]
          for i in 10 {
            a: T[i] = exp(X[i])
          }
          for jo in ceildiv(10, ?t) {
            for ji in min(?t, 10 - jo*?t) {
              b: Y[jo*?t + ji] = T[jo*?t + ji] + 1.0
            }
          }
        }
    call:
        compute_at(block=a, loop=jo)
    after:
        func f(X: fp32[10]) -> (Y: fp32[10]) {
          local T: fp32[10]
          for jo in ceildiv(10, ?t) {
            for i in min(?t, 10 - jo*?t) {
              a: T[jo*?t + i] = exp(X[jo*?t + i])
            }
            for ji in min(?t, 10 - jo*?t) {
              b: Y[jo*?t + ji] = T[jo*?t + ji] + 1.0
            }
          }
        }
    """

    word = "compute_at"
    block: str
    loop: str

    @classmethod
    def sample(cls, func: Func, random: Random) -> Self:
        names = Names(func, random)
        return cls(names.block, random.choice(names.elsewhere))

    def apply(self, func: Func) -> Func:
        block, above = find_block(func, self.block)
        loop, outside = find_loop(func, self.loop)
        nest, shared = own_nest(func, self.block)
        path = (*outside, loop)
        if block.instr is not None:
            raise ScheduleError(f"{self.block} belongs to an instruction already; move it before tensorizing it")
        if self.loop in [x.var for x in above]:
            raise ScheduleError(f"{self.block} is under {self.loop} already")
        if [x.var for x in common(shared, path)] != [x.var for x in shared]:
            raise ScheduleError(f"{self.block} would leave its loop {shared[-1].var}; only its own loops may change")
        uses = readers(func, block.target.buffer)
        if block.target.buffer in {b.name for b in func.locals} and uses and all(_under(p, self.loop) for _, p in uses):
            return _Move(func, block, above, nest, shared, path).to_readers(uses)
        sources = [(b, p) for r in block_reads(block) for b, p in writers(func, r.buffer) if _under(p, self.loop)]
        beside = [(b, p) for b, p in blocks(func.body) if _under(p, self.loop) and _parts(func, block, b, p, len(path))]
        if not sources and beside:
            return _Move(func, block, above, nest, shared, path).to_front(*beside[-1])
        if not sources:
            raise ScheduleError(f"{self.loop} is neither around every reader of {block.target.buffer} "
                                f"nor around a writer of what {self.block} reads")
        return _Move(func, block, above, nest, shared, path).to_writers(sources)


def _parts(func: Func, block: Block, other: Block, at: Path, depth: int) -> tuple[Interval, ...]:
    """Return which part of its output a block writes beside the part that another block writes of another output in one iteration of the
    loop at `depth - 1`. Return () where the outputs have no common dimensions, or the loop does not leave the others whole. Each element is
    written by loops of its own."""
    shapes = {b.name: b.shape for b in func.outputs}
    a, b = block.target, other.target
    plain = all(isinstance(i, Var) for i in a.indices) and block.op == other.op == "=" and len(set(a.indices)) == len(a.indices)
    if not plain or a.buffer == b.buffer or not {a.buffer, b.buffer} <= shapes.keys():
        return ()
    own, shape = shapes[a.buffer], shapes[b.buffer]
    box = path_region(b, at, depth, func.buffer(b.buffer))
    for dims in combinations(range(len(shape)), len(own)):
        rest = [d for d in range(len(shape)) if d not in dims]
        if tuple(shape[d] for d in dims) == own and all(same(box[d].offset, Int(0)) and same(box[d].extent, shape[d]) for d in rest):
            return tuple(box[d] for d in dims)
    return ()


def _under(path: Path, loop: str) -> bool:
    return loop in [x.var for x in path]


@dataclass(frozen=True)
class _Move:
    """A block (alone in `nest`, which lies in the loops `shared`) on its way to the body of the last loop of `path`."""

    func: Func
    block: Block
    above: Path
    nest: Node
    shared: Path
    path: Path

    @property
    def own(self) -> dict[str, Expr]:
        """Return the block's own loops."""
        return extents(self.above[len(self.shared):])

    def to_readers(self, uses: list[tuple[Block, Path]]) -> Func:
        buffer, depth = self.block.target.buffer, len(self.path)
        boxes = [path_region(r, p, depth, self.func.buffer(buffer)) for b, p in uses for r in block_reads(b) if r.buffer == buffer]
        first, box = uses[0], union(boxes, buffer)
        part = self.part_axis(box) if len(writers(self.func, buffer)) > 1 else None
        self.check_between(first[0].name, parts=part is not None)
        moved = self.shrunk(self.block.target, box, partition=False, whole=part)
        anchor = first[1][depth].var if depth < len(first[1]) else first[0].name
        return self.place_nest(moved, anchor, after=False, made=buffer)

    def to_writers(self, sources: list[tuple[Block, Path]]) -> Func:
        depth = len(self.path)
        passed = [loop.var for loop in self.path[len(self.shared):]]
        for b, p in sources:
            held = _free(b, [v for v in passed if _under(p, v)])
            if held:
                raise ScheduleError(f"{b.target.buffer} is not complete inside {held[0]}, which {b.name} accumulates or repeats over; "
                                    f"move {self.block.name} further out")
            check_whole_part(b, p, depth)
        last = max(sources, key=lambda s: [b.name for b, _ in blocks(self.func.body)].index(s[0].name))
        self.check_between(last[0].name)
        read = next(r for r in block_reads(self.block) if r.buffer == last[0].target.buffer)
        made = self.func.buffer(read.buffer)
        boxes = [path_region(b.target, p, depth, made) for b, p in sources if b.target.buffer == read.buffer]
        whole = [path_region(b.target, p, len(self.shared), made) for b, p in sources if b.target.buffer == read.buffer]
        self.check_partition(read, union(whole, read.buffer))
        moved = self.shrunk(read, union(boxes, read.buffer), partition=True)
        anchor = last[1][depth].var if depth < len(last[1]) else last[0].name
        return self.place_nest(moved, anchor, after=True)

    def to_front(self, other: Block, at: Path) -> Func:
        """Move to the front of the loop: the part of an output that another block's is there."""
        self.check_between(other.name)
        box = _parts(self.func, self.block, other, at, len(self.path))
        moved = self.shrunk(self.block.target, box, partition=True)
        return self.place_nest(moved, node_name(self.path[-1].body[0]), after=False)

    def part_axis(self, box: tuple[Interval, ...]) -> int:
        """Return the dimension of the block's target along which its writers make parts that do not meet, all of them in the box. Raise
        ScheduleError where there is none."""
        target = self.func.buffer(self.block.target.buffer)
        made = [path_region(b.target, p, 0, target) for b, p in writers(self.func, target.name)]
        for d, (n, b) in enumerate(zip(target.shape, box)):
            found = [known_range(m[d]) for m in made]
            ranges = sorted((r for r in found if r), key=lambda r: r.start)
            apart = all(a.stop <= c.start for a, c in pairwise(ranges))
            if len(ranges) == len(found) and apart and same(b.offset, Int(0)) and same(b.extent, n):
                return d
        raise ScheduleError(f"{target.name} has several writers; they cannot move apart")

    def shrunk(self, access: Read, box: tuple[Interval, ...], partition: bool, whole: int | None = None) -> Node:
        """Return the nest with its loops over the box of what it accesses, but along the dimension `whole`."""
        values: dict[str, Expr] = {}
        sizes: dict[str, Expr] = {}
        for i, b in [(i, b) for d, (i, b) in enumerate(zip(access.indices, box)) if d != whole]:
            base, v = self.loop_of(i, access.buffer)
            if not v:
                if partition and not (same(i, b.offset) and b.extent == Int(1)):
                    raise ScheduleError(f"{self.block.name} reads one part of {access.buffer}, and {self.path[-1].var} makes another")
                continue
            if v in sizes:
                raise ScheduleError(f"{self.block.name} uses loop {v} in two dimensions of {access.buffer}")
            if v in reductions(self.block, self.above) and not same(self.own[v], b.extent):
                raise ScheduleError(f"{self.block.name} accumulates over {v}, of which {self.path[-1].var} makes only a part at a time")
            sizes[v] = b.extent
            values[v] = normalise(b.offset + Var(v) - base)
        return _resize_nest(self.nest, sizes, values)

    def loop_of(self, i: Expr, buffer: str) -> tuple[Expr, str]:
        """Return (base, own loop) of an index that is base + loop; ("" where it has none)."""
        inside = sorted(variables(i) & self.own.keys())
        if not inside:
            return i, ""
        parts = affine(i, frozenset(inside))
        if len(inside) > 1 or parts is None or parts[0].get(inside[0]) != Int(1):
            raise ScheduleError(f"an index of {self.block.name} into {buffer} is more than one loop ({', '.join(inside)}); "
                                "move the block before splitting its loops")
        return parts[1], inside[0]

    def check_partition(self, read: Read, whole: tuple[Interval, ...]) -> None:
        """Raise ScheduleError unless the pieces that one iteration makes add up to exactly what the block reads."""
        for i, b in zip(read.indices, whole):
            mine = interval(i, self.own, extents(self.shared))
            if not (same(mine.offset, b.offset) and same(mine.extent, b.extent)):
                raise ScheduleError(f"{self.block.name} does not read exactly what is written to {read.buffer} in all")

    def check_between(self, other: str, parts: bool = False) -> None:
        """Raise ScheduleError where a block between here and there, or beside it in the loops, makes or overwrites what the block touches.
        `parts`: others that write the same buffer make other parts of it."""
        order = [b.name for b, _ in blocks(self.func.body)]
        low, high = sorted((order.index(self.block.name), order.index(other)))
        target = self.block.target.buffer
        for b, p in blocks(self.func.body):
            at = order.index(b.name)
            if b.name == self.block.name or not (low <= at <= high or _under(p, self.path[-1].var)):
                continue
            feeds = b.target.buffer in {r.buffer for r in block_reads(self.block)} and not _under(p, self.path[-1].var)
            if feeds or b.target.buffer == target and not parts:
                raise ScheduleError(f"{b.name} writes {b.target.buffer} between {self.block.name} and {other}")

    def place_nest(self, moved: Node, anchor: str, after: bool, made: str = "") -> Func:
        body = insert(remove_node(self.func.body, node_name(self.nest)), anchor, (moved,), after)
        result = replace(self.func, body=body)
        check_lifetimes(self.func, result, self.block, made)
        return result


def _free(b: Block, loops: list[str]) -> list[str]:
    """Return the loops that the target of `b` does not name."""
    named = frozenset().union(*[variables(i) for i in b.target.indices])
    return [v for v in loops if v not in named]


def _resize_nest(node: Node, sizes: dict[str, Expr], values: dict[str, Expr]) -> Node:
    """Return the nest with new extents, and every use of its variables shifted."""
    def f(e: Expr) -> Expr:
        return tidy(substitute(e, values)) if variables(e) & values.keys() else e
    if not isinstance(node, Loop):
        return map_nodes((node,), f)[0]
    body = tuple(_resize_nest(n, sizes, values) for n in node.body)
    return replace(node, extent=sizes.get(node.var, f(node.extent)), body=body)
