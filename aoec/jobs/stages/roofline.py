"""Places of a func's default and best schedule under the machine's roofs: operations a second over operations a byte."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aoec.ir.func.tir import Block, Func, blocks
from aoec.ir.index import DTYPES, Binary, Call, Expr, Read, children, reads
from aoec.report.pictures.plots import Point, Roofline
from aoec.search.proof.bounds import is_product, marginal, points
from aoec.target.isa.instructions import REPEAT_BYTES
from aoec.target.machine import Machine


def roofline(func: Func, machine: Machine, measures: Mapping[str, Mapping[str, Any]]) -> Roofline | None:
    """Return the roofs of a func's kind of work, and a point for each schedule. Return None for a func that only moves elements."""
    stated = blocks(func.body)
    done = sum(points(above) * operations(b) for b, above in stated)
    if not done:
        return None
    unit, peak = peak_of(func, machine)
    dots = tuple(Point(name, m["time_us"], m["hbm_bytes"], m["gm_bytes"]) for name, m in measures.items())
    return Roofline(done, unit, peak, machine.hbm_bytes_per_s / 1e6, machine.l2_bytes_per_s / 1e6, dots)


def operations(b: Block) -> int:
    """Return operations on elements for each point of a statement: its own, and one where it reduces. Indices, choices and casts do not
    count."""
    return _operations(b.value) + (b.op != "=")


def _operations(e: Expr) -> int:
    if isinstance(e, Read) or not reads(e):
        return 0
    own = isinstance(e, Binary) or isinstance(e, Call) and e.fn != "select"
    return own + sum(map(_operations, children(e)))


def peak_of(func: Func, machine: Machine) -> tuple[str, float]:
    """Return (unit, operations a µs of all cores). For a func with products, it is the cube's rate of products. Else it is the vector
    unit's rate of additions of a scalar. These read one source, so no operation is faster."""
    product = next((b for b, _ in blocks(func.body) if is_product(b)), None)
    if product is not None:
        dtype = func.buffer(reads(product.value)[1].buffer).dtype
        rate = machine.peak_ops_per_s(dtype)
        if rate:
            return f"cube, {dtype}", rate / 1e6
    dtype = "fp16" if {func.buffer(b.target.buffer).dtype for b, _ in blocks(func.body)} <= {"fp16"} else "fp32"
    kind = machine.core("core" if "core" in machine.cores else "aiv")
    strides = {f"{operand}_{what}": apart for operand in ("dst", "src") for what, apart in (("blk", 1), ("rep", 8))}
    one = {"lanes": REPEAT_BYTES // DTYPES[dtype], "repeat": 1, **strides}
    cycles = marginal(machine, "vadds", dtype, one, {**one, "repeat": 2})
    return f"vector unit, {dtype}", one["lanes"] / cycles * kind.count * machine.clock_mhz
