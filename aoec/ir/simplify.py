"""Scheduled funcs and programs as people read them: what the ranges of the loops around an expression decide is not asked again.

`min(min(512 - m_c * 128, 128) - m_s * 128, 128)` is 128 where it always is, and what runs once in a program is no loop. Values and
modelled times stay those of the text as it was made. Which texts are simplified:

- programs: extents, sizes, offsets and flags; a loop or an axis of the grid of one iteration is left out, its variable being 0.
- funcs of which every block has its instruction: extents and indices. Their loops stay, since a further step may name any of them, and
  so do the variables of tensor loops, by which an instruction knows its axes.
- no func that is unfinished, for a split is undone and made even by the form of its extents, and nothing with open holes.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from aoec.ir.index import INT_CALLS, INT_OPS, Binary, Call, Expr, Int, Read, Var, binary, call, is_element, normalise, rebuild, substitute
from aoec.ir.program import For, Item, Program, Stream
from aoec.ir.ranges import CONSTANT, MOST, Ranges, Sum, Term
from aoec.ir.rewrite import holes, map_items
from aoec.ir.show import expr
from aoec.ir.tir import Block, Func, Loop, Node, blocks

Noun = TypeVar("Noun", Func, Program)


def simplified(noun: Noun) -> Noun:
    """The noun as it is shown, never longer than before; itself where it is unfinished. Simplified once more it is the same."""
    if holes(noun):
        return noun
    if isinstance(noun, Program):
        streams = tuple([_stream(s) for s in noun.streams])
        return Program(noun.name, noun.target, noun.tensors, noun.spaces, streams, noun.constraints)
    if not finished(noun):
        return noun
    return Func(noun.name, noun.inputs, noun.outputs, noun.locals, _nodes(noun.body, _Scope()), noun.constraints)


def finished(func: Func) -> bool:
    """True where every block has its instruction, so that the func can be emitted."""
    return all(b.instr for b, _ in blocks(func.body))


# ---------------------------------------------------------------- expressions

class _Written(Ranges[Expr]):
    """Terms as expressions."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []  # of each place

    def summed(self, total: Sum) -> Expr:
        out: Expr = Int(total.get(CONSTANT, 0))
        for v, c in total.items():
            out = out if v == CONSTANT else out + Var(self.names[v]) * c
        return out

    def made(self, op: str, given: Sequence[Term[Expr]]) -> Expr:
        runs = [t.run for t in given]
        return binary(op, *runs) if op in INT_OPS else call(op, *runs)

    def knows(self, op: str) -> bool:
        return op in INT_CALLS or op in INT_OPS and op != "/"

    def other(self, e: Expr, scope: Mapping[str, int]) -> Term[Expr]:
        return Term(None, -MOST, MOST, rebuild(e, lambda c: self.term(c, scope).run))

    def term(self, e: Expr, scope: Mapping[str, int]) -> Term[Expr]:
        """An expression as far as it is known; of elements only what stands in their indices is."""
        return self.other(e, scope) if is_element(e) else super().term(e, scope)

    def applied(self, op: str, given: list[Term[Expr]]) -> Term[Expr]:
        """As `Ranges.applied`; what can be one number only is that number, and a condition that always holds is not asked."""
        if op in ("and", "or"):
            deciding = [t for t in given if t.low > 0 or t.high < 0] if op == "or" else [t for t in given if t.low == t.high == 0]
            if deciding:
                return self.of({CONSTANT: int(op == "or")})
        found = super().applied(op, given)
        return self.of({CONSTANT: found.low}) if found.low == found.high and found.number is None else found


class _Scope:
    """The variables of the loops around a place: their ranges, or 0 where they are left out."""

    def __init__(self) -> None:
        self.written = _Written()
        self.places: dict[str, int] = {}

    def variable(self, name: str, low: int, high: int) -> None:
        """Nothing; the variable is known from here on."""
        self.places[name] = self.written.place(low, high)
        self.written.names.append(name)

    def __call__(self, e: Expr) -> Expr:
        """The expression simplified, as long as that makes it shorter."""
        while len(expr(shorter := normalise(self.written.term(e, self.places).run))) < len(expr(e)):
            e = shorter
        return e

    def most(self, e: Expr) -> int:
        """The greatest value of an expression; MOST where it is not known."""
        return self.written.term(e, self.places).high


# ---------------------------------------------------------------- programs

def _stream(s: Stream) -> Stream:
    scope, zero, grid = _Scope(), dict[str, Expr](), []
    for name, extent in s.grid:
        if extent == Int(1):
            zero[name] = Int(0)
        else:
            grid.append((name, extent))
            scope.variable(name, 0, scope.most(extent) - 1)
    for name, depth in s.counters:
        scope.variable(name, 0, scope.most(depth) - 1)
    return Stream(s.name, s.core, tuple(grid), s.counters, _items(s.body, scope, zero))


def _items(body: tuple[Item, ...], scope: _Scope, zero: Mapping[str, Expr]) -> tuple[Item, ...]:
    out: list[Item] = []
    for i in body:
        if not isinstance(i, For):
            out += map_items((i,), lambda e: scope(_at_zero(e, zero)))
            continue
        trips = scope(_at_zero(i.trips, zero))
        if trips == Int(1):
            out += _items(i.body, scope, {**zero, i.var: Int(0)})
        else:
            scope.variable(i.var, 0, scope.most(trips) - 1)
            out.append(For(i.var, trips, _items(i.body, scope, zero)))
    return tuple(out)


def _at_zero(e: Expr, zero: Mapping[str, Expr]) -> Expr:
    """`e` where variables that are left out are 0, in normal form unless that is longer."""
    still = substitute(e, zero)
    if still is e:
        return e
    normal = normalise(still)
    return normal if len(expr(normal)) <= len(expr(still)) else still


# ---------------------------------------------------------------- funcs

def _nodes(body: tuple[Node, ...], scope: _Scope) -> tuple[Node, ...]:
    out: list[Node] = []
    for n in body:
        if isinstance(n, Block):
            out.append(_block(n, scope))
            continue
        extent = scope(n.extent)
        scope.variable(n.var, 0, max(scope.most(extent) - 1, int(n.kind == "tensor")))  # what may be 1 is not taken for 0
        out.append(Loop(n.var, extent, _nodes(n.body, scope), n.kind))
    return tuple(out)


def _block(b: Block, scope: _Scope) -> Block:
    target = scope(b.target)
    assert isinstance(target, Read)
    return Block(b.name, target, b.op, scope(b.value), None if b.init is None else scope(b.init), b.instr)
