"""place: where a buffer starts in its scope."""
from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Self

from aoec.base.errors import ScheduleError
from aoec.ir.func.tir import Func
from aoec.ir.index import Expr, Int
from aoec.primitives.nest import find_buffer, replace_buffer
from aoec.primitives.primitive import Primitive
from aoec.primitives.samples import Names


@dataclass(frozen=True)
class Place(Primitive):
    """Lets an on-chip buffer start `skew` bytes after a multiple of `align` bytes, so that operands of one instruction meet in no bank.

    Both are multiples of a block of 32 bytes. What lies between buffers is lost: a scope holds less.

    before:
        func f(X: fp32[10]) -> (Y: fp32[10]) {
          local X_UB: fp32[1] in UB
          for i in 10 {
            for X_UB_0 in 1 tensor {
              X_UB: X_UB[X_UB_0] = X[i + X_UB_0] as copy
            }
            b: Y[i] = exp(X_UB[0])
          }
        }
    call:
        place(buffer=X_UB, align=512, skew=256)
    after:
        func f(X: fp32[10]) -> (Y: fp32[10]) {
          local X_UB: fp32[1] in UB align 512 skew 256
          for i in 10 {
            for X_UB_0 in 1 tensor {
              X_UB: X_UB[X_UB_0] = X[i + X_UB_0] as copy
            }
            b: Y[i] = exp(X_UB[0])
          }
        }
    """

    word = "place"
    buffer: str
    align: Expr = Int(512)
    skew: Expr = Int(0)

    @classmethod
    def sample(cls, func: Func, random: Random) -> Self:
        return cls(Names(func, random).local, skew=Int(256))

    def apply(self, func: Func) -> Func:
        buffer = find_buffer(func, self.buffer)
        if buffer.scope == "GM":
            raise ScheduleError(f"{self.buffer} is in GM, where the caller places it; use set_scope first")
        return replace_buffer(func, replace(buffer, align=self.align, skew=self.skew))
