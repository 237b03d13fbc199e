"""What sketch rules share: the nests of a func, choices for holes, and steps of a trace."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from aoec.base.errors import UnsupportedError
from aoec.ir.func.tir import Block, Func, Loop, blocks
from aoec.ir.index import DTYPES, Binary, Expr, Hole, Int, Read, reads, variables
from aoec.ir.schedule import Step, Value

AHEAD = (0, 1)  # iterations by which a load may be issued ahead of its use


def step(primitive: str, **fields: Value | int) -> Step:
    return Step(primitive, tuple((k, Int(v) if isinstance(v, int) else v) for k, v in fields.items()))


@dataclass(frozen=True, slots=True)
class Nest:
    """A block with its loops, outermost first."""

    block: Block
    loops: tuple[Loop, ...]

    def extent(self, var: str) -> int:
        e = next(lp.extent for lp in self.loops if lp.var == var)
        if not isinstance(e, Int):
            raise UnsupportedError(f"loop {var} of an unscheduled func has no fixed extent")
        return e.value

    def loop_of(self, e: Expr) -> str:
        """Return the one loop an index uses."""
        found = [lp.var for lp in self.loops if lp.var in variables(e)]
        if len(found) != 1:
            raise UnsupportedError(f"block {self.block.name}: an index uses {len(found)} loops where a sketch rule expects one")
        return found[0]


def nests(func: Func) -> list[Nest]:
    return [Nest(b, above) for b, above in blocks(func.body)]


def find_product(func: Func) -> Nest | None:
    """Return the block that sums products of two reads: the work of the cube unit."""
    for n in nests(func):
        v = n.block.value
        if n.block.op == "+=" and isinstance(v, Binary) and v.op == "*" and isinstance(v.left, Read) and isinstance(v.right, Read):
            return n
    return None


def writer(func: Func, buffer: str) -> Nest | None:
    return next((n for n in nests(func) if n.block.target.buffer == buffer), None)


def output_nest(func: Func) -> Nest:
    """Return the block that writes the func's output: of several the last one, which the others stand beside."""
    return next(n for n in nests(func) if n.block.target.buffer == func.outputs[-1].name)


def is_beside(func: Func, n: Nest) -> bool:
    """Return whether a block writes an output that is not the last one."""
    return n.block.target.buffer in {b.name for b in func.outputs[:-1]}


SKEW = 256  # bytes: half a period of the 16 bank groups of 32 bytes (2201)


def skewed_buffers(pairs: Sequence[tuple[str, str]]) -> list[str]:
    """Return the buffers that start half a period of the banks further on.
    Of each pair that one instruction reads, one buffer is among them, as far as can be."""
    found: dict[str, bool] = {}
    for a, b in pairs:
        found.setdefault(a, not found[b] if b in found else False)
        found.setdefault(b, not found[a])
    return [name for name, yes in found.items() if yes]


def ladder(limit: int, unit: int, most: int, least: int = 0) -> tuple[int, ...]:
    """Return multiples of `unit` from `least` up to `limit` (rounded up) and `most`: dense at first, then by eighths of a power of two."""
    top = min(-(-limit // unit) * unit, most)
    out, v = [], unit
    while v < top:
        out.append(v)
        v += max(unit, (1 << max((v // unit).bit_length() - 3, 0)) * unit)
    return tuple(sorted(s for s in {*out, top, *even_shares(limit, unit, top)} if s >= min(least, top)))


def fine(limit: int, unit: int, most: int) -> tuple[int, ...]:
    """Return the same with every multiple up to 16 units, as the vendor's tilings may have."""
    return tuple(sorted({*range(unit, min(-(-limit // unit), 16) * unit + 1, unit), *ladder(limit, unit, most)}))


def even_shares(limit: int, unit: int, top: int) -> set[int]:
    """Return tile sizes that cut `limit` into equal parts, 1 to 64 of them, rounded up to the unit."""
    sizes = {ceil(limit / parts) for parts in range(1, 65)}
    shares = {ceil(s / unit) * unit for s in sizes}
    return {s for s in shares if s <= top}


def parts(limit: int, cores: int) -> tuple[int, ...]:
    return tuple(range(1, max(1, min(limit, cores)) + 1))


def hole(name: str, choices: tuple[int, ...]) -> Hole:
    return Hole(name, choices)


def tiles_over_cores(v: str, number: int, tiles: tuple[int, ...], most: int, cores: int) -> list[Step]:
    """Return axis `v` in tiles v_i (hole t<number>), and these, of which at most `most` shares are made, over cores v_c, one after the
    other v_s (hole g<number>)."""
    return [step("split", loop=v, factor=hole(f"t{number}", tiles), outer=f"{v}_t", inner=f"{v}_i"),
            step("split", loop=f"{v}_t", parts=hole(f"g{number}", parts(most, cores)), outer=f"{v}_c", inner=f"{v}_s")]


def dtype_bytes(func: Func, buffer: str) -> int:
    return DTYPES[func.buffer(buffer).dtype]


def gm_reads(func: Func, b: Block) -> list[str]:
    """Return the GM inputs that a block reads, in order."""
    names = {x.name for x in func.inputs}
    exprs = [b.value, *([b.init] if b.init is not None else [])]
    return list(dict.fromkeys(r.buffer for e in exprs for r in reads(e) if r.buffer in names))
