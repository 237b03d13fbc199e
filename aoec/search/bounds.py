"""Lower bounds: what no schedule of a func can beat on a machine. Admissible: never above the modelled time of any candidate.

The bound of a group is launch (one core at least) plus the largest of
- its products at the peak of all cube cores,
- its vector elements at the peak of all vector cores,
- its compulsory bytes at the chip's HBM rate (inputs that are not resident in L2; outputs as far as L2 cannot hold them),
- all of its inputs at the rate at which all cores together can load, and its outputs likewise at what they can store.
"""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aoec.ir.index import DTYPES, Call, Int, Read, reads
from aoec.ir.tir import Block, Buffer, Func, Loop, blocks
from aoec.target.machine import Machine

TICKS_PER_CYCLE = 1024
REPEAT_BYTES = 256


@dataclass(frozen=True, slots=True)
class Bound:
    """Cycles that each resource needs at least, and the launch; all modelled."""

    compute_cycles: float
    hbm_cycles: float
    load_cycles: float
    store_cycles: float
    launch_cycles: float

    @property
    def ticks(self) -> int:
        """Launch plus the largest part, in ticks of 1/1024 cycle, rounded down."""
        parts = max(self.compute_cycles, self.hbm_cycles, self.load_cycles, self.store_cycles)
        return int((parts + self.launch_cycles) * TICKS_PER_CYCLE)


def bound(func: Func, machine: Machine, resident: Mapping[str, int]) -> Bound:
    """The bound of an unscheduled func; `resident`: bytes of each input that are in L2 at the start."""
    cube = any(is_product(b) for b, _ in blocks(func.body))
    kind = machine.core("core" if "core" in machine.cores else "aic" if cube else "aiv")
    inputs = {b.name: size_bytes(b) for b in func.inputs}
    outputs = sum(size_bytes(b) for b in func.outputs)
    cold = sum(max(size - resident.get(name, 0), 0) for name, size in inputs.items())
    keep = min(1.0, machine.l2_usable_bytes / max(sum(inputs.values()) + outputs, 1))
    load = machine.paths["gm_l1" if cube else "gm_ub"]
    store = machine.paths["l0c_gm" if cube else "ub_gm"]
    rate = max(load.bytes_per_cycle, load.l2_bytes_per_cycle) * kind.count
    return Bound(
        compute_cycles=sum(block_cycles(func, b, above, machine) for b, above in blocks(func.body)) / kind.count,
        hbm_cycles=(cold + outputs * (1.0 - keep)) / machine.hbm_bytes_per_cycle,
        load_cycles=sum(inputs.values()) / rate,
        store_cycles=outputs / (max(store.bytes_per_cycle, store.l2_bytes_per_cycle) * kind.count),
        launch_cycles=machine.launch_us(1) * machine.clock_mhz)


def size_bytes(b: Buffer) -> int:
    n = DTYPES[b.dtype]
    for e in b.shape:
        assert isinstance(e, Int), "the tensors of an unscheduled func have fixed shapes"
        n *= e.value
    return n


def is_product(b: Block) -> bool:
    v = b.value
    return b.op == "+=" and len(reads(v)) == 2 and getattr(v, "op", "") == "*"


def block_cycles(func: Func, b: Block, above: tuple[Loop, ...], machine: Machine) -> float:
    """Cycles of one block at peak, on one core: products on the cube, half a cycle a whole repeat on the vector unit.

    Half, because no vector instruction is faster than that (casts are the fastest); blocks that only move data cost nothing here,
    nor does the epilogue of a product, which FIXPIPE does beside the cube.
    """
    points = 1
    for lp in above:
        points *= lp.extent.value if isinstance(lp.extent, Int) else 1
    if is_product(b):
        return points / (256 * machine.tables["kf"][func.buffer(reads(b.value)[0].buffer).dtype])
    moves = isinstance(b.value, Read) or isinstance(b.value, Call) and b.value.fn == "select"
    if moves or any(is_product(x) for x, _ in blocks(func.body)):
        return 0.0
    return points * DTYPES[func.buffer(b.target.buffer).dtype] / REPEAT_BYTES / 2
