"""postpone: what becomes of a buffer is done an iteration later."""
from __future__ import annotations

from dataclasses import dataclass, replace

from aoec.base.errors import ScheduleError
from aoec.ir.func.tir import Func
from aoec.ir.index import Int
from aoec.primitives.nest import find_buffer, replace_buffer
from aoec.primitives.primitive import Primitive


@dataclass(frozen=True)
class Postpone(Primitive):
    """Issues all that touches an on-chip buffer one iteration late, of the loop around the buffer's life: before what else of that
    iteration touches what it touches, and behind the loop for the last.

    What waits for other cores then does so while there is work of the next iteration. The func stays as it is; emission moves the pieces.

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
        postpone(buffer=X_UB)
    after:
        func f(X: fp32[10]) -> (Y: fp32[10]) {
          local X_UB: fp32[1] in UB ahead -1
          for i in 10 {
            for X_UB_0 in 1 tensor {
              X_UB: X_UB[X_UB_0] = X[i + X_UB_0] as copy
            }
            b: Y[i] = exp(X_UB[0])
          }
        }
    """

    word = "postpone"
    buffer: str

    def apply(self, func: Func) -> Func:
        buffer = find_buffer(func, self.buffer)
        if buffer.scope != "UB":
            raise ScheduleError(f"{self.buffer} lies in {buffer.scope}; what touches a buffer in UB can be postponed")
        return replace_buffer(func, replace(buffer, ahead=Int(-1)))
