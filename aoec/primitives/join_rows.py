"""join_rows: copies of parts of rows become rows that are put together in UB, through their columns."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random
from typing import Self

from aoec.base.errors import ScheduleError
from aoec.ir.func.tir import Block, Buffer, Func, Loop, Node, blocks
from aoec.ir.index import DTYPES, Expr, Int, Read, Var, affine, normalise, substitute
from aoec.primitives.nest import Path, check_new, find_block, remove_node, wrap
from aoec.primitives.primitive import NAMES, Primitive

MOST_BYTES = 4  # of an element that is turned


@dataclass(frozen=True)
class Part:
    """A copy of some elements of each row: its block, what it reads, how many rows and elements, and where in a row they begin on either
    side."""

    block: Block
    source: Buffer
    rows: int
    width: int
    first: int
    there: int


@dataclass(frozen=True)
class JoinRows(Primitive):
    """Puts rows together whose parts several blocks copy, each some elements of every row, one behind the other. Stored one by one, parts
    that are no whole blocks of 32 bytes would go by way of the scalar unit, and by one core, where MTE3 writes whole blocks alone.

    Each part goes to a new local <block>_part, and its columns to one that all share, <target>_columns, from the last part to the first.
    Rows of another, <target>_rows, are made of these, and the block <target>_joined stores them. Loops are named after their blocks.

    before:
        func f(X: fp16[20, 5], Z: fp16[20, 3]) -> (Y: fp16[20, 8]) {
          for p in 2 {
            for r in 10 {
              for c in 5 {
                a: Y[p*10 + r, c] = X[p*10 + r, c]
              }
            }
            for s in 10 {
              for t in 3 {
                b: Y[p*10 + s, t + 5] = Z[p*10 + s, t]
              }
            }
          }
        }
    call:
        join_rows(block=[a, b])
    after:
        func f(X: fp16[20, 5], Z: fp16[20, 3]) -> (Y: fp16[20, 8]) {
          local Y_columns: fp16[8, 20]
          local Y_rows: fp16[20, 8]
          local b_part: fp16[20, 3]
          local a_part: fp16[20, 5]
          for b_r in 20 {
            for b_w in 3 {
              b: b_part[b_r, b_w] = Z[b_r, b_w]
            }
          }
          for b_turn_w in 3 {
            for b_turn_r in 20 {
              b_turn: Y_columns[b_turn_w + 5, b_turn_r] = b_part[b_turn_r, b_turn_w]
            }
          }
          for a_r in 20 {
            for a_w in 5 {
              a: a_part[a_r, a_w] = X[a_r, a_w]
            }
          }
          for a_turn_w in 5 {
            for a_turn_r in 20 {
              a_turn: Y_columns[a_turn_w, a_turn_r] = a_part[a_turn_r, a_turn_w]
            }
          }
          for Y_rows_r in 20 {
            for Y_rows_w in 8 {
              Y_rows: Y_rows[Y_rows_r, Y_rows_w] = Y_columns[Y_rows_w, Y_rows_r]
            }
          }
          for Y_joined_r in 20 {
            for Y_joined_w in 8 {
              Y_joined: Y[Y_joined_r, Y_joined_w] = Y_rows[Y_joined_r, Y_joined_w]
            }
          }
        }
    """

    word = "join_rows"
    block: NAMES

    @classmethod
    def sample(cls, func: Func, random: Random) -> Self:
        names = [b.name for b, _ in blocks(func.body) if b.target.buffer == random.choice(func.outputs).name]
        return cls(tuple(names))

    def apply(self, func: Func) -> Func:
        parts = self._parts(func)
        target, dtype = func.buffer(parts[0].block.target.buffer).name, parts[0].source.dtype
        columns, rows, joined = (f"{target}_{stem}" for stem in ("columns", "rows", "joined"))
        many, width = Int(parts[0].rows), Int(sum(p.width for p in parts))
        local = [Buffer(columns, dtype, (width, many)), Buffer(rows, dtype, (many, width))]
        made: list[Node] = []
        for p in reversed(parts):  # a turn writes whole blocks of columns, also behind its own: those in front come after it
            own, turn = f"{p.block.name}_part", f"{p.block.name}_turn"
            there, here = Read(p.source.name, (R, normalise(W + p.there))), Read(columns, (normalise(W + p.first), R))
            if p.width == 1:  # elements of a run are a column as they are
                there, here = (Read(r.buffer, tuple(normalise(substitute(i, {"w": Int(0)})) for i in r.indices)) for r in (there, here))
                made += [copy_nest(p.block.name, {"r": many}, Read(own, (R,)), there), copy_nest(turn, {"r": many}, here, Read(own, (R,)))]
            else:
                sizes = {"r": many, "w": Int(p.width)}
                made += [copy_nest(p.block.name, sizes, Read(own, (R, W)), there),
                         copy_nest(turn, dict(reversed(sizes.items())), here, Read(own, (R, W)))]
            local.append(Buffer(own, dtype, (many,) if p.width == 1 else (many, Int(p.width))))
        whole: dict[str, Expr] = {"r": many, "w": width}
        made += [copy_nest(rows, whole, Read(rows, (R, W)), Read(columns, (W, R))),
                 copy_nest(joined, whole, Read(target, (R, W)), Read(rows, (R, W)))]
        body = func.body
        for p in parts:
            body = remove_node(body, p.block.name)
        done = replace(func, body=body, locals=func.locals)
        check_new(done, *[b.name for b in local], *[n for node in made for n in names_of(node) if n not in {b.name for b in local}])
        return replace(done, body=(*body, *made), locals=(*func.locals, *local))

    def _parts(self, func: Func) -> list[Part]:
        """Return the copies, in the order of what they write, which no other block writes or reads, nor writes what they read."""
        parts = sorted([self._part(func, *find_block(func, name)) for name in dict.fromkeys(self.block)], key=lambda p: p.first)
        if len(parts) < 2:
            raise ScheduleError("parts of rows are copied by two blocks or more")
        target = parts[0].block.target.buffer
        if any(p.block.target.buffer != target or p.rows != parts[0].rows for p in parts):
            raise ScheduleError(f"{', '.join(self.block)} write parts of different rows")
        if parts[0].first or any(b.first != a.first + a.width for a, b in pairwise(parts)):
            raise ScheduleError(f"{', '.join(self.block)} do not write all of a row, each what another leaves")
        if len(blocks(func.body)) > len(parts):
            raise ScheduleError(f"there are other blocks than {', '.join(self.block)}")
        whole = func.buffer(target).shape
        if whole != (Int(parts[0].rows), Int(parts[-1].first + parts[-1].width)):
            raise ScheduleError(f"{', '.join(self.block)} do not write all of {target}")
        return parts

    def _part(self, func: Func, block: Block, above: Path) -> Part:
        """Return what a block copies, in loops over rows and, the last of them, a row's elements."""
        read, gm = block.value, {b.name for b in (*func.inputs, *func.outputs)}
        if block.op != "=" or block.instr is not None or not isinstance(read, Read) or not {read.buffer, block.target.buffer} <= gm:
            raise ScheduleError(f"{block.name} copies no input to an output; join rows before other steps")
        source, target = func.buffer(read.buffer), func.buffer(block.target.buffer)
        if source.dtype != target.dtype or DTYPES[source.dtype] > MOST_BYTES or len(read.indices) != 2 or len(block.target.indices) != 2:
            raise ScheduleError(f"{block.name} copies no parts of a matrix of at most {MOST_BYTES} bytes an element")
        rows = span_of(block.target.indices[0], above[:-1])
        if rows is None or span_of(read.indices[0], above[:-1]) != rows or rows[1] != 0:
            raise ScheduleError(f"{block.name} does not copy all rows, one after the other")
        (first, there) = (span_of(i, above[-1:]) for i in (block.target.indices[1], read.indices[1]))
        if first is None or there is None or above[-1].kind != "serial":
            raise ScheduleError(f"{block.name} does not copy elements of a row, one after the other")
        return Part(block, source, rows[0], first[0], first[1], there[1])


R, W = Var("r"), Var("w")


def span_of(index: Expr, loops: Sequence[Loop]) -> tuple[int, int] | None:
    """Return (how many, the first) of the values that an index takes in loops, if it takes them one after the other."""
    parts = affine(index, frozenset(lp.var for lp in loops))
    if parts is None or not isinstance(parts[1], Int) or len(parts[0]) < len([lp for lp in loops if lp.extent != Int(1)]):
        return None
    step = 1
    for lp in reversed(loops):
        if not isinstance(lp.extent, Int) or lp.extent != Int(1) and parts[0].get(lp.var) != Int(step):
            return None
        step *= lp.extent.value
    return step, parts[1].value


def copy_nest(name: str, sizes: Mapping[str, Expr], to: Read, value: Read) -> Node:
    """Return a copy in loops of these sizes, which are named after it."""
    new: dict[str, Expr] = {v: Var(f"{name}_{v}") for v in sizes}
    sides = [Read(r.buffer, tuple(normalise(substitute(i, new)) for i in r.indices)) for r in (to, value)]
    return wrap(Block(name, sides[0], "=", sides[1]), [Loop(f"{name}_{v}", n, ()) for v, n in sizes.items()])


def names_of(node: Node) -> list[str]:
    """Return the names of a loop or block and of all in it."""
    return [node.name] if isinstance(node, Block) else [node.var, *[n for inner in node.body for n in names_of(inner)]]
