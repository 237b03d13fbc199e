"""preload: a buffer is filled iterations before it is used."""
from __future__ import annotations

from dataclasses import dataclass, replace

from aoec.base.errors import ScheduleError
from aoec.ir.func.tir import Func
from aoec.ir.index import Expr, Int
from aoec.primitives.nest import find_buffer, replace_buffer
from aoec.primitives.primitive import Primitive


@dataclass(frozen=True)
class Preload(Primitive):
    """Issues the load of an on-chip buffer `ahead` iterations before the one that uses it, of the loop around the buffer's life.

    The scalar unit issues in program order and stalls where a queue is full: a load that stands behind the work of its own iteration
    comes late, however many slots are free. The loads of the first iterations stand before the loop. Slots must be more than `ahead`.

    before:
        func f(X: fp32[10]) -> (Y: fp32[10]) {
          local X_UB: fp32[1] in UB depth 2
          for i in 10 {
            for X_UB_0 in 1 tensor {
              X_UB: X_UB[X_UB_0] = X[i + X_UB_0] as copy
            }
            b: Y[i] = exp(X_UB[0])
          }
        }
    call:
        preload(buffer=X_UB, ahead=?p)
    after:
        func f(X: fp32[10]) -> (Y: fp32[10]) {
          local X_UB: fp32[1] in UB depth 2 ahead ?p
          for i in 10 {
            for X_UB_0 in 1 tensor {
              X_UB: X_UB[X_UB_0] = X[i + X_UB_0] as copy
            }
            b: Y[i] = exp(X_UB[0])
          }
        }
    """

    word = "preload"
    buffer: str
    ahead: Expr = Int(1)

    def apply(self, func: Func) -> Func:
        buffer = find_buffer(func, self.buffer)
        if buffer.scope not in ("L1", "UB", "L0C") and (buffer.scope != "GM" or buffer not in func.locals):
            raise ScheduleError(f"{self.buffer} lies in {buffer.scope}; loads from GM into L1 or UB are issued ahead")
        return replace_buffer(func, replace(buffer, ahead=self.ahead))
