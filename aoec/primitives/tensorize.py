"""tensorize: loops become one instruction (or a few of one kind)."""
from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Self

from aoec.base.errors import ScheduleError
from aoec.ir.func.tir import Block, Func, Node
from aoec.primitives.nest import chain, find_loop, replace_node, wrap
from aoec.primitives.patterns import MATCHERS
from aoec.primitives.primitive import Primitive, near
from aoec.primitives.samples import Names


@dataclass(frozen=True)
class Tensorize(Primitive):
    """Gives a loop, and all below it, to an instruction that computes the same: mmad, copy, fixpipe, load3d, vector, or padded
    (vector, on whole tiles with what pads their rows).

    before:
        func f(X: fp32[10]) -> (Y: fp32[10]) {
          local T: fp32[10] in UB
          local U: fp32[10] in UB
          for i in 10 {
            c: T[i] = X[i]
          }
          for j in 10 {
            e: U[j] = exp(T[j])
          }
          for k in 10 {
            d: Y[k] = U[k]
          }
        }
    call:
        tensorize(loop=j, instr=vector)
    after:
        func f(X: fp32[10]) -> (Y: fp32[10]) {
          local T: fp32[10] in UB
          local U: fp32[10] in UB
          for i in 10 {
            c: T[i] = X[i]
          }
          for j in 10 tensor {
            e: U[j] = exp(T[j]) as vector
          }
          for k in 10 {
            d: Y[k] = U[k]
          }
        }
    """

    word = "tensorize"
    loop: str
    instr: str

    @classmethod
    def sample(cls, func: Func, random: Random) -> Self:
        return cls(Names(func, random).loop, random.choice(("vector", "copy")))

    def apply(self, func: Func) -> Func:
        loop, _ = find_loop(func, self.loop)
        if self.instr not in MATCHERS:
            raise ScheduleError(f"no instruction {self.instr}{near(self.instr, MATCHERS)}")
        loops, body = chain(loop)
        if len(body) != 1 or not isinstance(body[0], Block):
            raise ScheduleError(f"{self.loop} holds more than one block; an instruction is one block in perfectly nested loops")
        if any(x.kind != "serial" for x in loops):
            raise ScheduleError(f"a loop of {self.loop} is a core or tensor loop already")
        MATCHERS[self.instr](func, body[0], loops)
        nest: Node = wrap(replace(body[0], instr=self.instr), [replace(x, kind="tensor") for x in loops])
        return replace(func, body=replace_node(func.body, self.loop, lambda n: (nest,)))
