"""unit_flag: an accumulator is handed over in granules."""
from __future__ import annotations

from dataclasses import dataclass, replace

from aoec.base.errors import ScheduleError
from aoec.ir.func.tir import Func
from aoec.ir.index import Expr, Int
from aoec.primitives.nest import find_buffer, replace_buffer
from aoec.primitives.primitive import Primitive


@dataclass(frozen=True)
class UnitFlag(Primitive):
    """Lets the products of a tile in L0C and its way out pass each other granule by granule (512 bytes) where `on` is 1.

    FIXPIPE follows the last product and the next tile's first product follows FIXPIPE, so that a tile as large as L0C, which has
    no second slot, is not drained alone.

    before:
        func f(X: fp32[16, 16]) -> (Y: fp32[16, 16]) {
          local C: fp32[16, 16] in L0C NZ
          for i in 16 {
            for j in 16 {
              b: Y[i, j] = X[i, j]
            }
          }
        }
    call:
        unit_flag(buffer=C, on=?u)
    after:
        func f(X: fp32[16, 16]) -> (Y: fp32[16, 16]) {
          local C: fp32[16, 16] in L0C NZ unit ?u
          for i in 16 {
            for j in 16 {
              b: Y[i, j] = X[i, j]
            }
          }
        }
    """

    word = "unit_flag"
    buffer: str
    on: Expr = Int(1)

    def apply(self, func: Func) -> Func:
        buffer = find_buffer(func, self.buffer)
        if buffer.scope != "L0C":
            raise ScheduleError(f"{self.buffer} lies in {buffer.scope}; only an accumulator in L0C is handed over in granules")
        return replace_buffer(func, replace(buffer, unit=self.on))
