"""Sketches of cube funcs: tiles at core, L1 and L0 level; which operand stays in L1; loop order; slots.

Names of holes:
- tm, tn, tk: the L0 tile; n1: column fractals of the L0 tile, or units of 32 channels where these leave as int8.
- sk: L0 tiles of k in the smaller L1 chunk, or C1 planes of an image; rk: smaller chunks in the larger one.
- gm, gn, gb: parts over cores.
- da, db: slots of A and B in L1; d0a, d0b: slots of L0A and L0B; dc: slots of L0C.
- do, du: slots of results and of operands in UB, where they go through it; uc: column fractals that leave L0C for UB together.
- For convolutions, th, tw: L1 tile of output rows and columns; h0, w0: L0 tile of them; gh, gw: their parts over cores.
"""
from __future__ import annotations

from aoec.ir.func.tir import Func
from aoec.ir.index import Binary, Int, normalise, reads, walk
from aoec.ir.schedule import Trace
from aoec.search.sketches.nests import Nest, dtype_bytes, fine, hole, ladder, parts, writer
from aoec.search.sketches.plan import SLOTS, batch_axes, begin, bind, cores_of, factors, finish, load_bias, load_operand, output_block, ways
from aoec.search.sketches.sketches_matmul import RATIOS, forms, matmul_sketch
from aoec.target.machine import Machine


def cube_sketches(func: Func, mm: Nest, machine: Machine) -> list[Trace]:
    """Return sketches of a matrix product, or of a convolution where the left operand is an img2col local."""
    left, _ = factors(mm)
    gather = writer(func, left.buffer)
    if gather is None:
        return [matmul_sketch(func, mm, machine, form, through) for through in ways(func, mm, machine) for form in forms(func, mm, machine)]
    point = mm.extent(mm.loops[-4].var) == 1
    widths = (True,) if point else (False,) if narrow(func, gather) else (False, True)
    kept = ("none", "image", "weight", "both")
    return [conv_sketch(func, mm, gather, machine, resident, wide, point, through=through)
            for through in ways(func, mm, machine) for resident in kept for wide in widths]


# ---------------------------------------------------------------- convolution

def conv_sketch(func: Func, mm: Nest, gather: Nest, machine: Machine, resident: str, wide: bool, point: bool, larger: str = "",
                pixels_inside: bool = False, through: tuple[str, ...] = ()) -> Trace:
    """Return one sketch over rectangles th x tw of output pixels.

    `resident`: the image tile, the weight tile, both or none stay in L1 for all of k. `wide`: the width is tiled too; otherwise a
    tile is whole rows. With a resident image an L1 tile holds several L0 tiles: of rows, or of pixels where the image is one row.
    `larger`: where nothing is resident, the operand (image, weight) whose chunk of k in L1 is ?rk chunks of the other's.
    `pixels_inside`: where nothing is resident, output pixels run faster than output channels. `through`: operands that go through UB.
    """
    p = begin(func, mm, machine)
    p.through = through
    n, *group, ho, wo, co, k = [lp.var for lp in mm.loops]
    cols, weight = factors(mm)
    image = image_of(gather)
    unit = 32 // dtype_bytes(func, image)
    cores = cores_of(machine)
    inner_tile = resident in ("image", "both")
    width = mm.extent(wo)
    columns = max(16, stored_channels(func))
    p.split(co, hole("n1", ladder(-(-mm.extent(co) // columns), 1, 512 // columns)) * columns, "o_t", "o_i")
    p.share("o_t", hole("gn", parts(-(-mm.extent(co) // columns), cores)), "o_c", "o_s")
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
    chunk = kernel_columns(gather, unit)
    part = hole("sk", fine(mm.extent(k) // chunk, 1, 128)) * chunk
    if larger:
        p.split(k, part * hole("rk", RATIOS), "k_2", "k_u")
    p.split("k_u" if larger else k, part, "k_1", "k_r")
    p.split("k_r", hole("tk", ladder(mm.extent(k), unit, 1024)), "k_0", "k_i")
    batch = batch_axes(p, mm, [n, *group], cores)
    spatial = [*batch, "h_s", *(["w_s"] if wide else [])]
    small = [v for v in ("h_0", "w_0") if v in row_loops + col_loops]
    order = [*spatial, "o_s"] if resident in ("none", "image") and not pixels_inside else ["o_s", *spatial]
    if resident == "both":
        order = [*batch[1:], "o_s", batch[0], *spatial[len(batch):]]
    if resident == "weight":
        order = [*batch[1:], "o_s", batch[0], *spatial[len(batch):]]
    grid = [*[f"{v}_c" for v in [n, *group]], "h_c", *(["w_c"] if wide else []), "o_c"]
    w_i = "w_i" if wide else wo
    p.add("reorder", loops=(*grid, *order, *small, *["k_2"] * bool(larger), "k_1", "k_0", "h_i", w_i, "o_i", "k_i"))
    tile = small[-1] if small else order[-1]
    p.add("compute_at", block=output_block(func, mm), loop=tile)
    p.add("set_scope", buffer=mm.block.target.buffer, scope="L0C", layout="NZ")
    p.add("compute_at", block=gather.block.name, loop="k_0")
    p.add("set_scope", buffer=cols.buffer, scope="L0A", layout="ZZ")
    image_at = spatial[-1] if inner_tile and resident == "image" else order[-1] if inner_tile else "k_2" if larger == "image" else "k_1"
    p.add("cache_read", block=gather.block.name, buffer=image, scope="L1", at=image_at)
    weight_at = "o_s" if resident in ("weight", "both") else "k_2" if larger == "weight" else "k_1"
    packed = "ZN" if func.buffer(weight.buffer).layout == "ZN" else "NZ"  # rows [co, k] in NZ are the bytes of [k, co] in ZN
    load_operand(p, mm, weight, weight_at, packed, "L0B", packed, "k_0")
    load_bias(p, mm, tile)
    p.add("tensorize", loop=gather.loops[-3].var, instr="load3d")
    finish(p, mm, "h_i", image, weight.buffer, tile, grid[-1])
    p.add("double_buffer", buffer=cols.buffer, depth=hole("d0a", SLOTS))
    bind(p, grid)
    return Trace(tuple(p.steps))


def stored_channels(func: Func) -> int:
    """Return channels side by side in what a convolution stores: tiles are whole units of them."""
    (out,) = func.outputs
    return out.shape[-1].value if isinstance(out.shape[-1], Int) else 16


def image_of(gather: Nest) -> str:
    """Return the image that an img2col block reads."""
    return reads(gather.block.value)[0].buffer


def narrow(func: Func, gather: Nest) -> bool:
    """Return True for an image whose pixels are less than a block (NC1HWC0_C04): its tiles are whole rows, which are whole blocks."""
    image = func.buffer(image_of(gather))
    return normalise(image.shape[-1] * dtype_bytes(func, image.name)) != Int(32)


def kernel_columns(gather: Nest, unit: int) -> int:
    """Return columns of img2col that one C1 plane makes: filter_h * filter_w * channels to a pixel, from the channel index k // that."""
    for e in walk(reads(gather.block.value)[0].indices[1]):
        if isinstance(e, Binary) and e.op == "//" and isinstance(e.right, Int):
            return e.right.value
    return unit
