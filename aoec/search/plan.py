"""What the sketch rules of the cube share: a sketch in the making, axes, loads, slots. Names of holes: sketches_cube.py."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from aoec.ir.index import Binary, Expr, Read, walk
from aoec.ir.schedule import Step
from aoec.ir.tir import Func
from aoec.search.sketches import Nest, hole, nests, parts, step
from aoec.target.machine import Machine

SLOTS = (1, 2)
L1_SLOTS = (1, 2, 4)


def cores_of(machine: Machine) -> int:
    return machine.core("core" if "core" in machine.cores else "aic").count


@dataclass
class Plan:
    """A sketch in the making: steps, loops over cores, serial loops and tensor loops in order."""

    func: Func
    machine: Machine
    steps: list[Step] = field(default_factory=list)

    def split(self, loop: str, factor: Expr, outer: str, inner: str) -> None:
        self.steps.append(step("split", loop=loop, factor=factor, outer=outer, inner=inner))

    def share(self, loop: str, count: Expr, outer: str, inner: str) -> None:
        self.steps.append(step("split", loop=loop, parts=count, outer=outer, inner=inner))

    def add(self, primitive: str, **fields: object) -> None:
        self.steps.append(step(primitive, **fields))  # type: ignore[arg-type]


def factors(mm: Nest) -> tuple[Read, Read]:
    """The two reads that a product block multiplies."""
    v = mm.block.value
    assert isinstance(v, Binary) and isinstance(v.left, Read) and isinstance(v.right, Read)
    return v.left, v.right


# ---------------------------------------------------------------- axes

def batch_axes(p: Plan, mm: Nest, lead: Sequence[str], cores: int) -> list[str]:
    for v in lead:
        p.share(v, hole("gb" if v == "n" else f"g{v}", parts(mm.extent(v), cores)), f"{v}_c", f"{v}_s")
    return [f"{v}_s" for v in lead]


def output_block(func: Func, mm: Nest) -> str:
    """The block that takes the accumulator out."""
    return next(n.block.name for n in nests(func) if any(
        isinstance(e, Read) and e.buffer == mm.block.target.buffer for e in walk(n.block.value)))


def load_operand(p: Plan, mm: Nest, read: Read, at: str, layout: str, scope: str, inner: str, at0: str) -> None:
    p.add("cache_read", block=mm.block.name, buffer=read.buffer, scope="L1", at=at, layout=layout)
    p.add("cache_read", block=mm.block.name, buffer=f"{read.buffer}_L1", scope=scope, at=at0, layout=inner)


def load_bias(p: Plan, mm: Nest, at: str) -> None:
    """Bias through L1 into the bias table, once an output tile."""
    if isinstance(mm.block.init, Read):
        name = mm.block.init.buffer
        p.add("cache_read", block=mm.block.name, buffer=name, scope="L1", at=at)
        p.add("cache_read", block=mm.block.name, buffer=f"{name}_L1", scope="BT", at=at)


def finish(p: Plan, mm: Nest, tile_loop: str, a: str, b: str) -> None:
    """Instructions and slots."""
    out = output_block(p.func, mm)
    p.add("tensorize", loop=tile_loop, instr="mmad")
    p.add("tensorize", loop=first_loop(p.func, out), instr="fixpipe")
    p.add("double_buffer", buffer=f"{a}_L1", depth=hole("da", L1_SLOTS))
    p.add("double_buffer", buffer=f"{b}_L1", depth=hole("db", L1_SLOTS))
    p.add("double_buffer", buffer=f"{b}_L0B", depth=hole("d0b", SLOTS))
    p.add("double_buffer", buffer=mm.block.target.buffer, depth=hole("dc", SLOTS))


def first_loop(func: Func, block: str) -> str:
    return next(n.loops[0].var for n in nests(func) if n.block.name == block)


def bind(p: Plan, grid: list[str]) -> None:
    for loop in grid:
        p.add("bind", loop=loop)
