"""double_buffer: a buffer gets slots that take turns."""
from __future__ import annotations

from dataclasses import dataclass, replace

from aoec.base.errors import ScheduleError
from aoec.ir.func.evaluate import lifetime
from aoec.ir.func.tir import Func
from aoec.ir.index import Expr
from aoec.primitives.nest import find_buffer, replace_buffer
from aoec.primitives.primitive import Primitive


@dataclass(frozen=True)
class DoubleBuffer(Primitive):
    """Gives a local buffer `depth` slots, used in turn, so that one can be filled while another is read.

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
        double_buffer(buffer=X_UB, depth=2)
    after:
        func f(X: fp32[10]) -> (Y: fp32[10]) {
          local X_UB: fp32[1] in UB depth 2
          for i in 10 {
            for X_UB_0 in 1 tensor {
              X_UB: X_UB[X_UB_0] = X[i + X_UB_0] as copy
            }
            b: Y[i] = exp(X_UB[0])
          }
        }
    """

    word = "double_buffer"
    buffer: str
    depth: Expr

    def apply(self, func: Func) -> Func:
        buffer = find_buffer(func, self.buffer)
        if buffer.scope == "GM" and not lifetime(func, self.buffer):  # a local within a loop may be a ring, in which streams meet
            raise ScheduleError(f"{self.buffer} is in GM, which has no slots; use set_scope first")
        return replace_buffer(func, replace(buffer, depth=self.depth))
