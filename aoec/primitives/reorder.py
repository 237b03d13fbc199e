"""reorder: perfectly nested loops change places."""
from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Self

from aoec.base.errors import ScheduleError
from aoec.ir.func.evaluate import block_reads, lifetimes
from aoec.ir.func.tir import Func, Loop, blocks
from aoec.ir.index import variables
from aoec.primitives.nest import chain, find_loop, replace_node
from aoec.primitives.primitive import Primitive
from aoec.primitives.samples import Names


@dataclass(frozen=True)
class Reorder(Primitive):
    """Puts perfectly nested loops into the given order, outermost first; loops between them that are not named keep their places.

    before:
        func f(X: fp32[8, 4]) -> (Y: fp32[8, 4]) {
          for i in 8 {
            for j in 4 {
              b: Y[i, j] = X[i, j]
            }
          }
        }
    call:
        reorder(loops=[j, i])
    after:
        func f(X: fp32[8, 4]) -> (Y: fp32[8, 4]) {
          for j in 4 {
            for i in 8 {
              b: Y[i, j] = X[i, j]
            }
          }
        }
    """

    word = "reorder"
    loops: tuple[str, ...]

    @classmethod
    def sample(cls, func: Func, random: Random) -> Self:
        names = Names(func, random)
        return cls(names.some(names.around))

    def apply(self, func: Func) -> Func:
        if len(set(self.loops)) != len(self.loops) or not self.loops:
            raise ScheduleError("name each loop once")
        found = {name: find_loop(func, name) for name in self.loops}
        top = min(self.loops, key=lambda name: len(found[name][1]))
        nest, body = chain(found[top][0])
        names = [loop.var for loop in nest]
        for name in self.loops:
            if name not in names:
                raise ScheduleError(f"{name} is not nested perfectly with {top}: other nodes stand between them or beside them")
        order = self._order(nest)
        _check(nest, order)
        check_values(func, top, nest, self.loops)
        last: tuple = body
        for loop in reversed(order):
            last = (replace(loop, body=last),)
        return replace(func, body=replace_node(func.body, top, lambda n: last))

    def _order(self, nest: list[Loop]) -> list[Loop]:
        """Return the nest with the named loops in their new order, in the places that named loops had."""
        by_name = {loop.var: loop for loop in nest}
        named = iter(self.loops)
        return [by_name[next(named)] if loop.var in self.loops else loop for loop in nest]


def _check(nest: list[Loop], order: list[Loop]) -> None:
    position = {loop.var: i for i, loop in enumerate(order)}
    for i, loop in enumerate(order):
        for v in variables(loop.extent):
            if position.get(v, -1) > i:
                raise ScheduleError(f"the extent of {loop.var} depends on {v}, which would be inside it; keep {v} outside {loop.var}")
    tensor = [loop.var for loop, old in zip(order, nest) if loop.kind != old.kind]
    if tensor:
        raise ScheduleError(f"{', '.join(tensor)} would leave the place of core or tensor loops; reorder before binding or tensorizing")


def check_values(func: Func, top: str, nest: list[Loop], moved: tuple[str, ...]) -> None:
    """Raise ScheduleError where the order of the iterations is part of the meaning."""
    lives = lifetimes(func)
    inside = [b for b, above in blocks(func.body) if top in {loop.var for loop in above}]
    written = {b.target.buffer for b in inside}
    def private(buffer: str) -> bool:
        """Return whether what is alive of a buffer lies within one iteration of all moved loops."""
        return set(moved) <= {loop.var for loop in lives.get(buffer, ())}
    for b in inside:
        free = set(moved) - frozenset().union(*[variables(i) for i in b.target.indices])
        if b.op == "=" and free & variables(b.value) and not private(b.target.buffer):
            raise ScheduleError(f"{b.name} writes the same elements in every iteration of {', '.join(sorted(free))}: the last one counts")
        for r in block_reads(b):
            if r.buffer in written and not private(r.buffer):
                raise ScheduleError(f"{b.name} reads {r.buffer}, which is written in the same loops: the order of iterations counts")
