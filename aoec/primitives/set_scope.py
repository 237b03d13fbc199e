"""set_scope: a local buffer moves on chip, and shrinks to what is alive."""
from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Self

from aoec.base.errors import ScheduleError
from aoec.ir.func.regions import Interval, shift
from aoec.ir.func.tir import LAYOUTS, MATRICES, SCOPES, Func
from aoec.ir.index import Expr, Read, normalise
from aoec.primitives.nest import alive, find_buffer, map_nodes, map_reads, replace_buffer
from aoec.primitives.primitive import Primitive, near
from aoec.primitives.samples import Names

# what a scope can hold; the second of L0A and L0B is the same bytes seen as the operand's transpose: a[k, m], b[n, k]
HELD = {"GM": MATRICES, "L1": MATRICES, "L0A": ("ZZ", "NN"), "L0B": ("ZN", "NZ"), "L0C": ("NZ",), "UB": ("ND", "NZ", "RUN"), "BT": ("ND",),
        "FB": ("ND",)}


@dataclass(frozen=True)
class SetScope(Primitive):
    """Puts a local buffer into a scope, with a layout. It keeps only what lives in one iteration of the loop around all its uses;
    with `pad`, rows in UB lie so many elements further apart, so that the blocks of a column lie in as many banks as they can.

    before:
        func f(X: fp32[10]) -> (Y: fp32[10]) {
          local T: fp32[10]
          for i in 10 {
            a: T[i] = exp(X[i])
            b: Y[i] = T[i] + 1.0
          }
        }
    call:
        set_scope(buffer=T, scope=UB)
    after:
        func f(X: fp32[10]) -> (Y: fp32[10]) {
          local T: fp32[1] in UB
          for i in 10 {
            a: T[0] = exp(X[i])
            b: Y[i] = T[0] + 1.0
          }
        }
    """

    word = "set_scope"
    buffer: str
    scope: str
    layout: str = "ND"
    pad: Expr | None = None

    @classmethod
    def sample(cls, func: Func, random: Random) -> Self:
        return cls(Names(func, random).local, "UB")

    def apply(self, func: Func) -> Func:
        buffer = find_buffer(func, self.buffer)
        if buffer not in func.locals:
            raise ScheduleError(f"{self.buffer} is an input or output and stays in GM; use cache_read or cache_write")
        check_scope(self.scope, self.layout)
        box = alive(func, self.buffer)
        shape = tuple(b.largest for b in box)
        if self.pad is not None:
            if (self.scope, self.layout) != ("UB", "ND") or len(shape) < 2:
                raise ScheduleError(f"{self.buffer} has no rows that lie apart: pad is for matrices in UB, layout ND")
            shape = (*shape[:-1], normalise(shape[-1] + self.pad))
        return replace_buffer(relative(func, self.buffer, box), replace(buffer, scope=self.scope, layout=self.layout, shape=shape))


def relative(func: Func, buffer: str, box: tuple[Interval, ...]) -> Func:
    """Return the func with every access to `buffer` counted from the start of the box."""
    def shift_reads(e: Expr) -> Expr:
        return map_reads(e, buffer, lambda r: Read(buffer, shift(r.indices, box)))
    return replace(func, body=map_nodes(func.body, shift_reads))


def check_scope(scope: str, layout: str) -> None:
    """Raise ScheduleError for a scope or layout that is none, or a layout that the scope cannot hold."""
    if scope not in SCOPES:
        raise ScheduleError(f"no scope {scope}{near(scope, SCOPES)}")
    if layout not in LAYOUTS:
        raise ScheduleError(f"no layout {layout}{near(layout, LAYOUTS)}")
    if layout not in HELD.get(scope, LAYOUTS):
        raise ScheduleError(f"{scope} holds layout {' or '.join(HELD[scope])}, not {layout}")
