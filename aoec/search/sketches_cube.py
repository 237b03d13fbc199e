"""Sketches of cube funcs: tiles at core, L1 and L0 level; which operand stays in L1; loop order; slots.

Names of holes: tm tn tk (L0 tile; n1: its column fractals), sk (L0 tiles of k in an L1 chunk, or C1 planes of an image), gm gn gb
(parts over cores), da db (slots of A and B in L1), d0 (slots of L0A and L0B), dc (slots of L0C); for convolutions th tw (L1 tile of
output rows and columns), h0 w0 (L0 tile of them), gh gw.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from aoec.ir.index import Binary, Expr, Int, Read, walk
from aoec.ir.schedule import Step, Trace
from aoec.ir.tir import Func
from aoec.search.sketches import Nest, dtype_bytes, hole, ladder, nests, parts, step, writer
from aoec.target.machine import Machine

SLOTS = (1, 2)


def cores_of(machine: Machine) -> int:
    return machine.core("aic" if "aic" in machine.cores else "core").count


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


def cube_sketches(func: Func, mm: Nest, machine: Machine) -> list[Trace]:
    """Sketches of a matrix product, or of a convolution where the left operand is an img2col local."""
    left, _ = factors(mm)
    gather = writer(func, left.buffer)
    if gather is None:
        return [matmul_sketch(func, mm, machine, *s) for s in MATMUL]
    point = mm.extent(mm.loops[-4].var) == 1
    widths = (True,) if point else (False, True)
    kept = ("none", "image", "weight", "both")
    return [conv_sketch(func, mm, gather, machine, resident, wide, point) for resident in kept for wide in widths]


# ---------------------------------------------------------------- matmul

# (operand that stays in L1 for all of k, serial loop that runs inside)
MATMUL = (("none", "n"), ("none", "m"), ("left", "n"), ("right", "m"))


def matmul_sketch(func: Func, mm: Nest, machine: Machine, resident: str, inside: str) -> Trace:
    """One sketch: A [.., m, k] x B [.., k, n]; `inside` says which of m and n runs faster."""
    p = Plan(func, machine)
    *lead, m, n, k = [lp.var for lp in mm.loops]
    a, b = factors(mm)
    size = dtype_bytes(func, a.buffer)
    cores = cores_of(machine)
    tile_axis(p, mm, m, "m", "tm", "gm", cores)
    tile_axis(p, mm, n, "n", "tn", "gn", cores)
    reduce_axis(p, mm, k, 32 // size, "tk", "sk")
    batch_serial = batch_axes(p, mm, lead, cores)
    order = ["m_s", "n_s"] if inside == "n" else ["n_s", "m_s"]
    grid = [*[f"{v}_c" for v in lead], "m_c", "n_c"]
    p.add("reorder", loops=(*grid, *batch_serial, *order, "k_1", "k_0", "m_i", "n_i", "k_i"))
    p.add("compute_at", block=_out(func, mm), loop=order[1])
    p.add("set_scope", buffer=mm.block.target.buffer, scope="L0C", layout="NZ")
    at = {"left": ("m_s", "k_1"), "right": ("k_1", "n_s")}.get(resident, ("k_1", "k_1"))
    load_operand(p, mm, a, at[0], "NZ", "L0A", "ZZ", "k_0")
    load_operand(p, mm, b, at[1], func.buffer(b.buffer).layout if func.buffer(b.buffer).layout == "ZN" else "NZ", "L0B", "ZN", "k_0")
    load_bias(p, mm, order[1])
    finish(p, mm, "m_i", a.buffer, b.buffer)
    p.add("double_buffer", buffer=f"{a.buffer}_L0A", depth=hole("d0", ()))
    bind(p, grid)
    return Trace(tuple(p.steps))


def tile_axis(p: Plan, mm: Nest, loop: str, x: str, tile: str, grid: str, cores: int) -> None:
    """loop -> <x>_c (cores), <x>_s (serial), <x>_i (tile)."""
    extent = mm.extent(loop)
    p.split(loop, hole(tile, ladder(extent, 16, 512)), f"{x}_t", f"{x}_i")
    p.share(f"{x}_t", hole(grid, parts(-(-extent // 16), cores)), f"{x}_c", f"{x}_s")


def reduce_axis(p: Plan, mm: Nest, loop: str, unit: int, tile: str, chunks: str, chunk: int = 1) -> None:
    """k -> k_1 (L1 chunks of sk tiles, or of sk units of `chunk`), k_0 (L0 tiles), k_i."""
    extent = mm.extent(loop)
    if chunk == 1:
        count = ladder(-(-extent // unit), 1, 64)
        p.split(loop, hole(tile, ladder(extent, unit, 1024)) * hole(chunks, count), "k_1", "k_r")
    else:
        p.split(loop, hole(chunks, ladder(extent // chunk, 1, 128)) * chunk, "k_1", "k_r")
    p.split("k_r", hole(tile, ladder(extent, unit, 1024)), "k_0", "k_i")


def batch_axes(p: Plan, mm: Nest, lead: Sequence[str], cores: int) -> list[str]:
    for v in lead:
        p.share(v, hole("gb" if v == "n" else f"g{v}", parts(mm.extent(v), cores)), f"{v}_c", f"{v}_s")
    return [f"{v}_s" for v in lead]


def _out(func: Func, mm: Nest) -> str:
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
    out = _out(p.func, mm)
    p.add("tensorize", loop=tile_loop, instr="mmad")
    p.add("tensorize", loop=_first_loop(p.func, out), instr="fixpipe")
    p.add("double_buffer", buffer=f"{a}_L1", depth=hole("da", SLOTS))
    p.add("double_buffer", buffer=f"{b}_L1", depth=hole("db", SLOTS))
    p.add("double_buffer", buffer=f"{b}_L0B", depth=hole("d0", SLOTS))
    p.add("double_buffer", buffer=mm.block.target.buffer, depth=hole("dc", SLOTS))


def _first_loop(func: Func, block: str) -> str:
    return next(n.loops[0].var for n in nests(func) if n.block.name == block)


def bind(p: Plan, grid: list[str]) -> None:
    for loop in grid:
        p.add("bind", loop=loop)


# ---------------------------------------------------------------- convolution

def conv_sketch(func: Func, mm: Nest, gather: Nest, machine: Machine, resident: str, wide: bool, point: bool) -> Trace:
    """One sketch over rectangles th x tw of output pixels.

    `resident`: the image tile, the weight tile, both or none stay in L1 for all of k. `wide`: the width is tiled too; otherwise a
    tile is whole rows. With a resident image an L1 tile holds several L0 tiles: of rows, or of pixels where the image is one row.
    """
    p = Plan(func, machine)
    n, *group, ho, wo, co, k = [lp.var for lp in mm.loops]
    cols, weight = factors(mm)
    image = next(iter({r.buffer for r in walk(gather.block.value) if isinstance(r, Read)}))
    unit = 32 // dtype_bytes(func, image)
    cores = cores_of(machine)
    inner_tile = resident in ("image", "both")
    width = mm.extent(wo)
    p.split(co, hole("n1", ladder(-(-mm.extent(co) // 16), 1, 32)) * 16, "o_t", "o_i")
    p.share("o_t", hole("gn", parts(-(-mm.extent(co) // 16), cores)), "o_c", "o_s")
    row_loops = ["h_c", "h_s", "h_0", "h_i"] if inner_tile and not point else ["h_c", "h_s", "h_i"]
    p.split(ho, hole("th", ladder(mm.extent(ho), 1, 512)), "h_t", "h_r" if "h_0" in row_loops else "h_i")
    p.share("h_t", hole("gh", parts(mm.extent(ho), cores)), "h_c", "h_s")
    if "h_0" in row_loops:
        p.split("h_r", hole("h0", ladder(mm.extent(ho), 1, 512)), "h_0", "h_i")
    col_loops: list[str] = []
    if wide:
        step_w = 16 if point else 1
        w0 = inner_tile and point
        p.split(wo, hole("tw", ladder(width, step_w, 1024)), "w_t", "w_r" if w0 else "w_i")
        p.share("w_t", hole("gw", parts(-(-width // step_w), cores)), "w_c", "w_s")
        if w0:
            p.split("w_r", hole("w0", ladder(width, 16, 512)), "w_0", "w_i")
        col_loops = ["w_c", "w_s", *(["w_0"] if w0 else []), "w_i"]
    reduce_axis(p, mm, k, unit, "tk", "sk", kernel_columns(gather, unit))
    batch = batch_axes(p, mm, [n, *group], cores)
    spatial = [*batch, "h_s", *(["w_s"] if wide else [])]
    small = [v for v in ("h_0", "w_0") if v in row_loops + col_loops]
    order = [*spatial, "o_s"] if resident in ("none", "image") else ["o_s", *spatial]
    if resident == "both":
        order = [*batch[1:], "o_s", batch[0], *spatial[len(batch):]]
    if resident == "weight":
        order = [*batch[1:], "o_s", batch[0], *spatial[len(batch):]]
    grid = [*[f"{v}_c" for v in [n, *group]], "h_c", *(["w_c"] if wide else []), "o_c"]
    w_i = "w_i" if wide else wo
    p.add("reorder", loops=(*grid, *order, *small, "k_1", "k_0", "h_i", w_i, "o_i", "k_i"))
    tile = small[-1] if small else order[-1]
    p.add("compute_at", block=_out(func, mm), loop=tile)
    p.add("set_scope", buffer=mm.block.target.buffer, scope="L0C", layout="NZ")
    p.add("compute_at", block=gather.block.name, loop="k_0")
    p.add("set_scope", buffer=cols.buffer, scope="L0A", layout="ZZ")
    image_at = spatial[-1] if inner_tile and resident == "image" else order[-1] if inner_tile else "k_1"
    p.add("cache_read", block=gather.block.name, buffer=image, scope="L1", at=image_at)
    weight_at = "o_s" if resident in ("weight", "both") else "k_1"
    load_operand(p, mm, weight, weight_at, "ZN", "L0B", "ZN", "k_0")
    load_bias(p, mm, tile)
    p.add("tensorize", loop=gather.loops[-3].var, instr="load3d")
    finish(p, mm, "h_i", image, weight.buffer)
    p.add("double_buffer", buffer=cols.buffer, depth=hole("d0", ()))
    bind(p, grid)
    return Trace(tuple(p.steps))


def kernel_columns(gather: Nest, unit: int) -> int:
    """Columns of img2col that one C1 plane makes: filter_h * filter_w * C0, from the channel index k // that."""
    reads = [r for r in walk(gather.block.value) if isinstance(r, Read)]
    for e in walk(reads[0].indices[1]):
        if isinstance(e, Binary) and e.op == "//" and isinstance(e.right, Int):
            return e.right.value
    return unit
