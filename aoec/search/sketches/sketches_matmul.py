"""Sketches of a matrix product: what about its schedule is structure, and the trace with holes that each structure makes.

Names of holes are those of sketches_cube.py, and these:
- pm, pn: L0 tiles in an L1 tile; lm, ln: L2 blocks, each of so many L1 tiles of a core; pl: chunks of k that loads are ahead.
- Where shares are said by extents, sm, sn: extent of a core's block; cores: number of cores that blocks are dealt to.
- Also there, so: rows of blocks, or columns, that are walked together; bm, bn: blocks of m and n in an L2 tile of a walk.
"""
from __future__ import annotations

from dataclasses import dataclass
from math import prod

from aoec.ir.func.tir import Func, blocks
from aoec.ir.index import DTYPES, Expr, Int, Read, ceildiv, variables
from aoec.ir.schedule import Trace
from aoec.search.sketches.nests import AHEAD, Nest, dtype_bytes, fine, hole, ladder, step
from aoec.search.sketches.plan import (
    SLOTS,
    Plan,
    batch_axes,
    begin,
    bind,
    cores_of,
    factors,
    finish,
    load_bias,
    load_operand,
    output_block,
)
from aoec.target.machine import Machine

RATIOS = (1, 2, 3, 4, 6, 8, 16)  # of the larger chunk of k in L1 to the smaller
STEPS = (1, 2, 3, 4)  # L0 tiles in an L1 tile
L2_TILES = (1, 2, 4, 8, 16)
OFFSETS = (1, 2, 3, 4, 6, 8)


@dataclass(frozen=True, slots=True)
class Form:
    """The structure of a schedule: whatever is another sketch rather than another number.

    `resident`: the operand that lies in L1 along all of k (none, left, right, both). `inside`: the serial loop of m and n that runs faster.
    `larger`: the operand whose L1 chunk is ?rk chunks of the other's; "": they are equal, and loaded ?pl of them ahead. `steps`: axes of
    which an L1 tile holds several L0 tiles. The operand of such an axis must be resident. `l2`: axes with an outer loop over L2 blocks, the
    outermost first. Every core does its part of a block before any core goes on.

    `spread`: how cores share m x n.
    - parts: a grid, so many shares of each axis, as even as whole fractals allow. Of all shares of so many parts, the largest of these is
      least, so uneven ones are not laid out.
    - single: a grid, a block of stated extents to each core.
    - deal m, deal n: equal blocks of stated extents in one numbering, dealt out to the cores in turn. The numbers run through groups
      of ?so rows (or columns) of blocks, down each column (or along each row) of a group.
    - turn m, turn n: the same for single L1 tiles, to all cores.
    - walk diagonal, walk rows, walk columns: blocks of stated extents, the last of an axis shorter, walked by L2 tiles of ?bm x ?bn
      blocks. Tiles are walked along n first, every other row of tiles backwards. In a tile blocks are dealt to the cores in turn along its
      diagonals, or each core has a run of them by rows or by columns (`swizzle`). What is walked must be numbers when the
      sketch is applied.

    `rotated`: each core starts its loop over chunks of k elsewhere. Chunks must be equal and no operand resident. `parts_of_k`: cores share
    k too, ?sc of it to each, and add their parts in GM.
    """

    resident: str = "none"
    inside: str = "n"
    larger: str = "left"
    steps: str = ""
    l2: str = ""
    spread: str = "parts"
    rotated: bool = False
    parts_of_k: bool = False

    def keeps(self, side: str) -> bool:
        """Return whether an operand lies in L1 along all of k."""
        return self.resident in (side, "both")

    @property
    def ratio(self) -> bool:
        """Return whether chunks of the operands along k may differ in size."""
        return self.resident == "none" and self.larger != ""

    @property
    def walk(self) -> str:
        """Return the order in which the blocks of an L2 tile are walked; "" where they are not."""
        return self.spread.split()[1] if self.spread.startswith("walk") else ""

    @property
    def in_turn(self) -> bool:
        """Return whether the cores take blocks of one numbering in turn."""
        return bool(self.dealt or self.walk)

    @property
    def dealt(self) -> str:
        """Return the axis that a dealt numbering walks in groups; "" on a grid."""
        return self.spread.split()[1] if self.spread.startswith(("deal", "turn")) else ""

    def block(self, axis: str) -> Expr:
        """Return the extent of a core's block."""
        if not self.spread.startswith("turn"):
            return hole(f"s{axis}", ())
        tile = hole(f"t{axis}", ())
        return tile * hole(f"p{axis}", ()) if axis in self.steps else tile


# the search's: each order with each larger chunk, or with none; each operand resident with its own axis outermost
FORMS = (Form("none", "n", ""), Form("none", "n", "left"), Form("none", "n", "right"),
         Form("none", "m", ""), Form("none", "m", "left"), Form("none", "m", "right"), Form("left", "n"), Form("right", "m"))
# where the operands and the result do not stay in L2 together: L2 blocks, and chunks of k that cores do not all ask for at once
LARGE = (Form("none", "n", "", l2="m"), Form("none", "m", "", l2="n"), Form("none", "n", "", rotated=True))
# where there are more blocks than cores: single tiles in turn, in groups of rows or of columns
TURNS = (Form("none", "n", "", spread="turn m"), Form("none", "n", "", spread="turn n"))
STOCK_TILE = (128, 256)  # the vendor's, by which blocks are counted
PARTS_OF_K = Form("none", "n", "", parts_of_k=True)
LEAST_K = 2048  # along which a sum is worth parting


def forms(func: Func, mm: Nest, machine: Machine) -> list[Form]:
    """Return the structures that the search lays out for a product."""
    tensors = (*func.inputs, *func.outputs)
    size = sum(DTYPES[b.dtype] * prod(e.value for e in b.shape if isinstance(e, Int)) for b in tensors)
    k, unit = mm.extent(mm.loops[-1].var), 32 // dtype_bytes(func, factors(mm)[0].buffer)
    large = [f for f in LARGE if size > machine.l2_usable_bytes and not (f.rotated and k % unit)]  # chunks are equal or none is legal
    return [*FORMS, *large, *(TURNS if stock_tiles(mm) > cores_of(machine) else ()), *[PARTS_OF_K] * parts_of_k_pay(func, mm, machine)]


def stock_tiles(mm: Nest) -> int:
    """Return blocks of the stock size in one product, where it is alone (a batch is shared by a grid) and parts into equal blocks."""
    *lead, m, n, _ = [mm.extent(lp.var) for lp in mm.loops]
    return 0 if prod(lead) > 1 or m % 16 or n % 16 else -(-m // STOCK_TILE[0]) * -(-n // STOCK_TILE[1])


def parts_of_k_pay(func: Func, mm: Nest, machine: Machine) -> bool:
    """Return whether parts of k are worth a sketch: a long sum, results that leave half of the cores idle, and nothing done to a whole sum,
    not even a cast."""
    block, *extents = mm.block, *[mm.extent(lp.var) for lp in mm.loops]
    *lead, m, n, k = extents
    out = next(b for b, _ in blocks(func.body) if b.target.buffer in {x.name for x in func.outputs})
    plain = isinstance(out.value, Read) and block.init is None
    tiles = prod(lead) * -(-m // STOCK_TILE[0]) * -(-n // STOCK_TILE[1])
    return plain and machine.has("fixpipe_nd") and k >= LEAST_K and tiles <= cores_of(machine) // 2


def matmul_sketch(func: Func, mm: Nest, machine: Machine, form: Form, through: tuple[str, ...] = ()) -> Trace:
    """Return one sketch: A [.., m, k] x B [.., k, n], either perhaps transposed in GM; `through`: operands that go through UB."""
    p = begin(func, mm, machine)
    p.through = through
    *lead, m, n, k = [lp.var for lp in mm.loops]
    a, b = factors(mm)
    cores = cores_of(machine)
    for axis, loop in (("m", m), ("n", n)):
        tile_axis(p, mm, loop, axis, form, cores)
    depth_axis(p, mm, k, 32 // dtype_bytes(func, a.buffer), form)
    batch = batch_axes(p, mm, lead, cores)
    order = serial_loops(form)
    chunks = ["k_2", "k_1", "k_0"] if form.ratio else ["k_1", "k_0"]
    grid = ["k_c"] * form.parts_of_k + [f"{v}_c" for v in lead] + ([] if form.in_turn else ["m_c", "n_c"])
    p.add("reorder", loops=(*grid, *batch, *order, *chunks, "m_i", "n_i", "k_i"))
    if form.parts_of_k:
        p.add("add_parts", block=output_block(func, mm), loop="k_c")
    p.add("compute_at", block=output_block(func, mm), loop=order[-1])
    p.add("set_scope", buffer=mm.block.target.buffer, scope="L0C", layout="NZ")
    load_operand(p, mm, a, loaded_at(form, "left", "m"), "NZ", "L0A", "NN" if is_transposed(a, m) else "ZZ", "k_0")
    layout = func.buffer(b.buffer).layout
    load_operand(p, mm, b, loaded_at(form, "right", "n"), layout if layout == "ZN" else "NZ", "L0B",
                 "NZ" if is_transposed(b, k) else "ZN", "k_0")
    load_bias(p, mm, order[-1])
    finish(p, mm, "m_i", a.buffer, b.buffer, order[-1], order[-1] if form.in_turn else grid[-1])
    p.add("double_buffer", buffer=f"{a.buffer}_L0A", depth=hole("d0a", SLOTS))
    if form.resident == "none" and not form.ratio:
        for operand in (x for x in (a, b) if x.buffer not in through):
            p.add("preload", buffer=f"{operand.buffer}_L1", ahead=hole("pl", AHEAD))
    if form.in_turn:
        number_blocks(p, form, {"m": mm.extent(m), "n": mm.extent(n)}, cores)
        grid += deal(p, form, batch, cores)
    bind(p, grid)
    if form.rotated:
        rotate(p, form, mm.extent(k), grid)
    return Trace(tuple(p.steps))


def is_transposed(read: Read, last: str) -> bool:
    """Return whether an operand is stored transposed: its last index is the loop that would be the one before."""
    return last in variables(read.indices[-1])


def tile_axis(p: Plan, mm: Nest, loop: str, x: str, form: Form, cores: int) -> None:
    """Split a loop into <x>_c (cores; <x>_t where blocks are dealt), [<x>_2 (L2 blocks)], <x>_s (serial), [<x>_0 (L0 tiles)] and <x>_i
    (tile)."""
    extent = mm.extent(loop)
    tile: Expr = hole(f"t{x}", fine(extent, 16, 512))
    stepped = tile * hole(f"p{x}", STEPS) if x in form.steps else tile
    inner = f"{x}_r" if x in form.steps else f"{x}_i"
    if form.spread == "parts":
        share = ceildiv(Int(extent), hole(f"g{x}", shares(extent, cores)) * 16) * 16
        p.split(loop, share, f"{x}_c", f"{x}_u")
        if x in form.l2:
            p.split(f"{x}_u", stepped * hole(f"l{x}", L2_TILES), f"{x}_2", f"{x}_v")
        p.add("split", loop=f"{x}_v" if x in form.l2 else f"{x}_u", factor=stepped, outer=f"{x}_s", inner=inner, most=share)
    else:
        block: Expr = stepped if form.spread.startswith("turn") else hole(f"s{x}", ladder(extent, 16, 1 << 20))
        p.split(loop, block * hole(f"l{x}", L2_TILES) if x in form.l2 else block, f"{x}_t" if form.in_turn else f"{x}_c", f"{x}_u")
        if x in form.l2:
            p.split(f"{x}_u", block, f"{x}_2", f"{x}_v")
        p.split(f"{x}_v" if x in form.l2 else f"{x}_u", stepped, f"{x}_s", inner)
    if x in form.steps:
        p.split(f"{x}_r", tile, f"{x}_0", f"{x}_i")


def shares(extent: int, cores: int) -> tuple[int, ...]:
    """Return the numbers of cores over which an axis can be split into shares of whole fractals, as even as fractals allow."""
    fractals = -(-extent // 16)
    return tuple(n for n in range(1, min(fractals, cores) + 1) if -(-fractals // -(-fractals // n)) == n)


def depth_axis(p: Plan, mm: Nest, loop: str, unit: int, form: Form) -> None:
    """Split k into [k_2 (larger L1 chunks)], k_1 (smaller ones), k_0 (L0 tiles) and k_i."""
    extent = mm.extent(loop)
    if form.parts_of_k:
        p.split(loop, hole("sc", shares_of_k(extent, cores_of(p.machine))), "k_c", "k_v")
        loop = "k_v"
    tile = hole("tk", ladder(extent, unit, 1024))
    chunk = tile * hole("sk", fine(-(-extent // unit), 1, 64))
    if form.ratio:
        p.split(loop, chunk * hole("rk", RATIOS), "k_2", "k_u")
        loop = "k_u"
    p.split(loop, chunk, "k_1", "k_r")
    p.split("k_r", tile, "k_0", "k_i")


def shares_of_k(extent: int, cores: int) -> tuple[int, ...]:
    """Return extents of k for a core, in whole fractals, where 1, 2, .. cores share it."""
    return tuple(sorted({-(-extent // (parts * 16)) * 16 for parts in range(1, cores + 1)}))


def serial_loops(form: Form) -> list[str]:
    """Return the serial loops over m and n, outermost first; dealt blocks are serial until they are dealt."""
    axes = ["m", "n"] if form.inside == "n" else ["n", "m"]
    dealt = ["m_t", "n_t"] if form.in_turn else []
    return [*dealt, *[f"{x}_2" for x in form.l2], *[f"{x}_s" for x in axes], *[f"{x}_0" for x in axes if x in form.steps]]


def number_blocks(p: Plan, form: Form, sizes: dict[str, int], cores: int) -> None:
    """Join m_t and n_t into one numbering t: by L2 tiles of ?bm x ?bn blocks, or in groups of ?so rows (columns) of blocks."""
    if form.walk:
        tile = {field: hole(name, tuple(range(1, max(1, -(-sizes[x] // 16)) + 1)))
                for field, name, x in (("rows", "bm", "m"), ("columns", "bn", "n"))}
        p.add("swizzle", outer="m_t", inner="n_t", fused="t", order=form.walk, **tile,
              **({} if form.walk == "diagonal" else {"cores": hole("cores", tuple(range(1, cores + 1)))}))
        return
    x, y = ("m", "n") if form.dealt == "m" else ("n", "m")
    for axis, extent in sizes.items():
        p.add("even", loop=f"{axis}_t", extent=extent, factor=form.block(axis))
    p.split(f"{x}_t", hole("so", OFFSETS), "t_g", "t_o")
    p.add("even", loop="t_g", extent=Int(sizes[x]) // form.block(x), factor=hole("so", ()))
    p.add("reorder", loops=("t_g", f"{y}_t", "t_o"))
    p.add("fuse", outer="t_g", inner=f"{y}_t", fused="t_1")
    p.add("fuse", outer="t_1", inner="t_o", fused="t")


def deal(p: Plan, form: Form, batch: list[str], cores: int) -> list[str]:
    """Deal t out into t_c (core) and t_s. Return the loops to bind."""
    count: Expr = Int(cores) if form.spread.startswith("turn") else hole("cores", tuple(range(1, cores + 1)))
    p.steps.append(step("split", loop="t", parts=count, outer="t_c", inner="t_s", deal="cyclic"))
    p.add("reorder", loops=("t_c", *batch, "t_s"))
    return ["t_c"]


def rotate(p: Plan, form: Form, extent: int, grid: list[str]) -> None:
    """Make the loop over the larger chunks of k start at a chunk that depends on the core's number."""
    chunk = hole("tk", ()) * hole("sk", ()) * (hole("rk", ()) if form.ratio else Int(1))
    share: Expr = hole("sc", ()) if form.parts_of_k else Int(extent)
    if form.parts_of_k:
        p.add("even", loop="k_c", extent=Int(extent), factor=share)
    loop = "k_2" if form.ratio else "k_1"
    p.add("even", loop=loop, extent=share, factor=chunk)
    p.add("rotate", loop=loop, by=tuple(v for v in grid if v != "k_c"))


def loaded_at(form: Form, side: str, axis: str) -> str:
    """Return the loop in whose iterations an operand is brought into L1."""
    if form.keeps(side):
        return f"{axis}_s"
    return "k_2" if form.ratio and form.larger == side else "k_1"
