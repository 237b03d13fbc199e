"""bind: the iterations of a loop run on different cores."""
from __future__ import annotations

from dataclasses import dataclass, replace

from aoec.base.errors import ScheduleError
from aoec.ir.func.evaluate import lifetimes
from aoec.ir.func.tir import Block, Func, blocks
from aoec.ir.index import variables
from aoec.primitives.nest import find_loop, replace_node
from aoec.primitives.primitive import Primitive


@dataclass(frozen=True)
class Bind(Primitive):
    """Spreads an outermost loop over cores. No iteration may need what another makes: no buffer that outlives it, no sum over the loop
    but one whose parts are added to the output (add_parts).

    before:
        func f(X: fp32[10]) -> (Y: fp32[10]) {
          for i in 10 {
            b: Y[i] = exp(X[i])
          }
        }
    call:
        bind(loop=i, axis=core)
    after:
        func f(X: fp32[10]) -> (Y: fp32[10]) {
          for i in 10 core {
            b: Y[i] = exp(X[i])
          }
        }
    """

    word = "bind"
    loop: str
    axis: str = "core"

    def apply(self, func: Func) -> Func:
        loop, above = find_loop(func, self.loop)
        if self.axis != "core":
            raise ScheduleError(f"no axis {self.axis}; there is core")
        outside = [x.var for x in above if x.kind != "core"]
        if outside or any(len(x.body) > 1 for x in above):
            raise ScheduleError(f"{self.loop} is not an outermost loop; reorder it outside {', '.join(outside) or 'its neighbours'}")
        if loop.kind != "serial":
            raise ScheduleError(f"{self.loop} is a {loop.kind} loop already")
        if len(func.body) > 1:
            raise ScheduleError(f"{self.loop} is not around everything: nodes stand beside it; use compute_at to bring them inside")
        if variables(loop.extent):
            raise ScheduleError(f"the extent of {self.loop} differs between cores")
        self._check(func)
        return replace(func, body=replace_node(func.body, self.loop, lambda n: (replace(loop, kind="core"),)))

    def _check(self, func: Func) -> None:
        for buffer, path in lifetimes(func).items():
            if self.loop not in [x.var for x in path]:
                raise ScheduleError(f"{buffer} outlives an iteration of {self.loop}, so cores would share it; use compute_at first")
        outputs = {b.name for b in func.outputs}
        for block, _ in blocks(func.body):
            if block.target.buffer in outputs:
                self._check_output(block)

    def _check_output(self, block: Block) -> None:
        if block.op == "+=" and block.instr in ("fixpipe", "copy"):
            return  # parts that are added in GM: in any order, by any core
        if self.loop not in frozenset().union(*[variables(i) for i in block.target.indices]):
            raise ScheduleError(f"{block.name} writes the same elements of {block.target.buffer} in every iteration of {self.loop}")
