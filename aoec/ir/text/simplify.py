"""Scheduled funcs and programs, simplified for people: a condition that the ranges of the surrounding loops decide is left out.

`min(min(512 - m_c * 128, 128) - m_s * 128, 128)` is 128 where it always is. Values and modelled times stay those of the original text,
and so do decisions that follow from it:

- In programs all expressions are simplified, and the variable of a loop that runs once no longer occurs in them. The loop itself stays.
  The model counts its step, and it looks at the loops around a transfer to find reuse.
- In funcs, only extents are simplified, and only where every block has its instruction. Indices stay, since emission reads the axes of
  a tile from their form. The axes of vector instructions stay, too: they are emitted in another way where a tile may be cut.
- An unfinished func stays as it is, because a split is undone and made even by the form of its extents. What has open holes stays as
  well.

`without_single` also leaves out the loops of a program that run once, for callers that read it but time another program.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from aoec.ir.func.tir import Block, Func, Loop, Node, blocks
from aoec.ir.index import INT_CALLS, INT_OPS, Expr, Int, Var, binary, call, is_element, normalise, reads, rebuild, substitute
from aoec.ir.program import For, Instr, Item, Program, Stream
from aoec.ir.ranges import CONSTANT, MOST, Ranges, Sum, Term
from aoec.ir.rewrite import holes, map_items
from aoec.ir.text.show import expr

Noun = TypeVar("Noun", Func, Program)


def simplify(noun: Noun) -> Noun:
    """Return the noun as it is shown, never longer than before; itself where it is unfinished. Simplified once more it is the same."""
    if holes(noun):
        return noun
    if isinstance(noun, Program):
        streams = tuple([_stream(s) for s in noun.streams])
        return Program(noun.name, noun.target, noun.tensors, noun.spaces, streams, noun.constraints)
    if not is_finished(noun):
        return noun
    ub = frozenset(b.name for b in noun.locals if b.scope == "UB")

    def on_ub(loop: Loop) -> bool:
        return any(r.buffer in ub for b, _ in blocks(loop.body) for e in (b.target, b.value) for r in reads(e))
    return Func(noun.name, noun.inputs, noun.outputs, noun.locals, _nodes(noun.body, Scope(), on_ub), noun.constraints)


def is_finished(func: Func) -> bool:
    """Return whether every block has its instruction, so that the func can be emitted."""
    return all(b.instr for b, _ in blocks(func.body))


# ---------------------------------------------------------------- expressions

class _Written(Ranges[Expr]):
    """Terms as expressions."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []  # of each place

    def write_sum(self, total: Sum) -> Expr:
        out: Expr = Int(total.get(CONSTANT, 0))
        for v, c in total.items():
            out = out if v == CONSTANT else out + Var(self.names[v]) * c
        return out

    def write_operation(self, op: str, given: Sequence[Term[Expr]]) -> Expr:
        runs = [t.run for t in given]
        return binary(op, *runs) if op in INT_OPS else call(op, *runs)

    def knows(self, op: str) -> bool:
        return op in INT_CALLS or op in INT_OPS and op != "/"

    def other(self, e: Expr, scope: Mapping[str, int]) -> Term[Expr]:
        return Term(None, -MOST, MOST, rebuild(e, lambda c: self.term(c, scope).run))

    def term(self, e: Expr, scope: Mapping[str, int]) -> Term[Expr]:
        """Return what is known of an expression. Of an element expression, only its indices are simplified."""
        return self.other(e, scope) if is_element(e) else super().term(e, scope)

    def apply(self, op: str, given: list[Term[Expr]]) -> Term[Expr]:
        """Apply an operation, as `Ranges.apply` does. Return a constant where the result can be one number only, and leave out a
        condition that always holds."""
        if op in ("and", "or"):
            for side, other in ((given[0], given[1]), (given[1], given[0])):
                known = bool(side.low) if side.low == side.high else True if side.low > 0 or side.high < 0 else None
                if known == (op == "or"):
                    return self.of({CONSTANT: int(known)})
                if known is not None and 0 <= other.low <= other.high <= 1:
                    return other
        found = super().apply(op, given)
        return self.of({CONSTANT: found.low}) if found.low == found.high and found.number is None else found


class Scope:
    """The variables around a place, with their ranges."""

    def __init__(self) -> None:
        self.written = _Written()
        self.places: dict[str, int] = {}

    def variable(self, name: str, low: int, high: int) -> None:
        """Add a variable that is known from here on, with its least and greatest value."""
        self.places[name] = self.written.place(low, high)
        self.written.names.append(name)

    def __call__(self, e: Expr) -> Expr:
        """Return the expression simplified, as long as that makes it shorter."""
        while len(expr(shorter := normalise(self.written.term(e, self.places).run))) < len(expr(e)):
            e = shorter
        return e

    def most(self, e: Expr) -> int:
        """Return the greatest value of an expression; MOST where it is not known."""
        return self.written.term(e, self.places).high

    def above(self, name: str, low: int) -> Scope:
        """Return a copy of the scope in which one variable is at least `low`."""
        out = Scope()
        out.written.ranges, out.written.names, out.places = [*self.written.ranges], [*self.written.names], {**self.places}
        out.variable(name, low, self.written.ranges[self.places[name]][1])
        return out

    def least(self, e: Expr) -> int:
        """Return the least value of an expression; -MOST where it is not known."""
        return self.written.term(e, self.places).low


# ---------------------------------------------------------------- programs

def _stream(s: Stream) -> Stream:
    scope = Scope()
    for name, count in (*s.grid, *s.counters):
        scope.variable(name, 0, scope.most(count) - 1)
    return Stream(s.name, s.core, s.grid, s.counters, _items(s.body, scope))


def _items(body: tuple[Item, ...], scope: Scope) -> tuple[Item, ...]:
    return tuple([_loop(i, scope) if isinstance(i, For) else map_items((i,), scope)[0] for i in body])


def _loop(loop: For, scope: Scope) -> For:
    trips = scope(loop.trips)
    scope.variable(loop.var, 0, scope.most(trips) - 1)
    return For(loop.var, trips, _items(loop.body, scope))


def without_single(program: Program) -> Program:
    """Return the simplified program without loops and axes of the grid of one iteration. Its values are the same; its time may differ a
    little."""
    return simplify(replace(program, streams=tuple([_single(s) for s in simplify(program).streams])))


def _single(s: Stream) -> Stream:
    zero: dict[str, Expr] = {name: Int(0) for name, extent in s.grid if extent == Int(1)}
    grid = tuple([axis for axis in s.grid if axis[0] not in zero])
    return Stream(s.name, s.core, grid, s.counters, _splice_items(s.body, zero, False))


def _splice_items(body: tuple[Item, ...], zero: Mapping[str, Expr], within: bool) -> tuple[Item, ...]:
    """Replace loops of one iteration by their items. `zero` maps the variables of such loops around them to 0. The first loop of a nest
    stays, since the model needs it to know which transfers run at once."""
    out: list[Item] = []
    for i in body:
        if not isinstance(i, For):
            out += map_items((i,), lambda e: substitute(e, zero))
        elif i.trips == Int(1) and (within or not _works(i.body)):
            out += _splice_items(i.body, {**zero, i.var: Int(0)}, within)
        else:
            out.append(For(i.var, substitute(i.trips, zero), _splice_items(i.body, zero, True)))
    return tuple(out)


def _works(body: tuple[Item, ...]) -> bool:
    """Return True where a body has an instruction."""
    return any(_works(i.body) if isinstance(i, For) else isinstance(i, Instr) for i in body)


# ---------------------------------------------------------------- funcs

def _nodes(body: tuple[Node, ...], scope: Scope, on_ub: Callable[[Loop], bool]) -> tuple[Node, ...]:
    out: list[Node] = []
    for n in body:
        if isinstance(n, Block):
            out.append(n)
            continue
        extent = n.extent if n.kind == "tensor" and on_ub(n) else scope(n.extent)
        scope.variable(n.var, 0, scope.most(extent) - 1)
        out.append(Loop(n.var, extent, _nodes(n.body, scope, on_ub), n.kind))
    return tuple(out)

