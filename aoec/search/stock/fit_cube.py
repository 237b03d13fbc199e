"""Stock tilings of products and convolutions as schedules of ours: what can be said as it is, then what is nearest, and how it differs.

The caller asks for one schedule after the other until one is legal on its machine.
"""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

from aoec.base.errors import AoecError
from aoec.ir.func.tir import Func
from aoec.ir.index import DTYPES, Int, Read, variables
from aoec.ir.rewrite import fill, holes
from aoec.ir.schedule import Trace
from aoec.search.sketches.nests import Nest
from aoec.search.sketches.plan import cores_of, factors, ways
from aoec.search.sketches.sketches_cube import conv_sketch, image_of, stored_channels
from aoec.search.stock.batch_rules import batch_tiling
from aoec.search.stock.conv_rules import Convolution, conv_tiling
from aoec.search.stock.depths import needs_fractals
from aoec.search.stock.sizes import Chip, Product, align, parts
from aoec.search.vendor.vendor import MatmulTiling, matmul_choice, product
from aoec.search.vendor.vendor_back import make_schedule, plainest
from aoec.search.vendor.vendor_conv import ConvTiling, axes_of, conv_choice, convolution, even_parts
from aoec.target.machine import Machine

# bishengir's one block of a product, as it was observed for shapes from 128 to 512 x 50257 x 768 (docs/stock.md)
FIXED = MatmulTiling(baseM=128, baseN=256, baseK=64, stepKa=4, stepKb=4)
FIXED_RULE, CONV_RULE = "bishengir's fixed block", "Conv3DV2's rules"
UB_COLUMNS = 4  # of fractals that leave L0C for UB together


@dataclass(frozen=True, slots=True)
class Fitted:
    """A schedule for a stock tiling: the rule that it is of, and how it differs from it; () where it does not."""

    trace: Trace
    rule: str
    differs: tuple[str, ...] = ()


# ---------------------------------------------------------------- products

def product_of(func: Func, mm: Nest) -> Product:
    """Return what the rules read of a product's func."""
    *lead, m, n, k = mm.loops
    a, b = factors(mm)
    at = {name: func.buffer(name) for name in (a.buffer, b.buffer)}
    used = {v for i in b.indices for v in variables(i)}
    sizes = {x: mm.extent(loop.var) for x, loop in zip("mnk", (m, n, k))}
    return Product(
        sizes["m"], sizes["n"], sizes["k"], DTYPES[at[a.buffer].dtype], DTYPES[func.outputs[0].dtype], m.var in variables(a.indices[-1]),
        k.var in variables(b.indices[-1]), at[a.buffer].layout != "ND", at[b.buffer].layout != "ND", isinstance(mm.block.init, Read),
        prod(mm.extent(lp.var) for lp in lead), any(lp.var in used for lp in lead))


def product_schedules(func: Func, machine: Machine, chip: Chip) -> Iterator[Fitted]:
    """Yield the schedules of a product by its stock tiling, the nearest first. The last one is bishengir's fixed block."""
    mm = product(func)
    p = product_of(func, mm)
    found = batch_tiling(p, chip)
    notes = (*["several matrices at once in L1"] * (found.at_once > 1),
             *[f"vector cores lay {side.upper()} out in fractals first" for side in "ab"
               if not chip.is_coupled and needs_fractals(p, side)],
             *["the batch is folded into m"] * (p.batch > 1 and not (p.b_batched or p.trans_a or chip.is_coupled)))
    whole = replace(p, m=p.m * p.batch, batch=1) if notes and notes[-1].endswith("into m") else p
    for t, more in variants(found.tiling, whole):
        yield from schedule(func, machine, p, t, found.rule, (*notes, *more))
    for t, more in variants(FIXED, p) if not chip.is_coupled else ():  # bishengir has no 310P
        yield from schedule(func, machine, p, t, FIXED_RULE, more)


def variants(t: MatmulTiling, p: Product) -> Iterator[tuple[MatmulTiling, tuple[str, ...]]]:
    """Yield (tiling, how it differs): as it is, then with less of what our sketches or the machine may lack."""
    differs: tuple[str, ...] = ()
    if 0 < t.singleCoreK < p.k:
        share = max(t.singleCoreK, align(parts(p.k, t.usedCoreNum)))
        if t.usedCoreNum * t.singleCoreM * t.singleCoreN >= 2 * p.m * p.n:  # cores share k, each of them several pieces
            yield replace(t, singleCoreK=share, singleCoreM=0, singleCoreN=0, stepM=1, l2MTileBlock=0, l2NTileBlock=0,
                          l2MTileCnt=1, l2NTileCnt=1), ("the pieces of k of a core are one",)
        t = replace(t, singleCoreK=p.k, stepM=1, usedCoreNum=0, l2MTileBlock=0, l2NTileBlock=0, l2MTileCnt=1, l2NTileCnt=1)
        differs = ("all of k is summed in L0C",)
    yield t, differs
    if t.l2MTileBlock:
        t = replace(t, l2MTileBlock=0, l2NTileBlock=0, l2MTileCnt=1, l2NTileCnt=1)
        differs = (*differs, "blocks are shared on a grid, not dealt")
        yield t, differs
    t = replace(t, dbL0C=1)
    for _ in range(6):
        if max(t.stepKa, t.stepKb) > 1:
            t = replace(t, stepKa=max(1, t.stepKa // 2), stepKb=max(1, t.stepKb // 2), depthA1=0, depthB1=0)
        elif t.baseK * p.size_bytes > 32:
            t = replace(t, baseK=t.baseK // 2, depthA1=0, depthB1=0)
        else:
            t = replace(t, baseN=max(16, t.baseN // 2), singleCoreN=0, singleCoreM=0)
        yield t, (*differs, "a smaller block, so that it fits")


def schedule(func: Func, machine: Machine, p: Product, t: MatmulTiling, rule: str, differs: tuple[str, ...]) -> Iterator[Fitted]:
    """Yield the schedule of a tiling, where a form of ours says it."""
    mm = product(func)
    leads = [lp.var for lp in mm.loops[:-3]]
    blocks = parts(p.m, t.singleCoreM or p.m) * parts(p.n, t.singleCoreN or p.n)
    shared = share_batch([mm.extent(v) for v in leads], blocks, cores_of(machine))
    if leads:
        left = cores_of(machine) // prod(shared)
        t = replace(t, usedCoreNum=left, l2MTileBlock=0, l2NTileBlock=0, l2MTileCnt=1, l2NTileCnt=1)
    try:
        form, values = matmul_choice(func, machine, t)
        values |= {f"g{'b' if v == 'n' else v}": n for v, n in zip(leads, shared)}
        sizes = {x: mm.extent(loop.var) for x, loop in zip("mnk", mm.loops[-3:])}
        yield Fitted(make_schedule(func, machine, *plainest(form, values, sizes, cores_of(machine))), rule, differs)
    except AoecError:
        return


def share_batch(extents: list[int], blocks: int, cores: int) -> list[int]:
    """Return parts over cores of each axis of a batch, so that a core has the fewest blocks one after the other; of equal ones the most
    parts."""
    if not extents:
        return []
    every = prod(extents)
    wanted = min(range(1, min(every, cores) + 1), key=lambda g: (parts(every, g) * parts(blocks, cores // g), -g))
    out = []
    for extent in extents:
        out.append(even_parts(extent, wanted))
        wanted = max(1, wanted // out[-1])
    return out


# ---------------------------------------------------------------- convolutions

def convolution_of(func: Func, kernel: int, stride: int) -> Convolution:
    """Return what the rules read of a convolution's func. `kernel`, `stride`: along rows."""
    mm, gather = convolution(func)
    image = func.buffer(image_of(gather))
    rows, columns = (e.value if isinstance(e, Int) else 1 for e in image.shape[-3:-1])
    return Convolution(axes_of(func, mm, gather), (rows, columns), kernel, stride, prod(mm.extent(lp.var) for lp in mm.loops[1:-4]),
                       DTYPES[image.dtype])


def convolution_schedules(func: Func, machine: Machine, chip: Chip, kernel: int, stride: int) -> Iterator[Fitted]:
    """Yield the schedules of a convolution by the proxy's tiling, the nearest first."""
    mm, gather = convolution(func)
    c = convolution_of(func, kernel, stride)
    for t, differs in smaller(conv_tiling(c, chip)):
        for through in ways(func, mm, machine):
            try:
                form, values = conv_choice(func, t)
                values |= channel_tiles(c, t, max(16, stored_channels(func)))
                sketch = conv_sketch(func, mm, gather, machine, form.resident, form.wide, c.axes.point, form.larger, form.pixels_inside,
                                     through)
                yield from (Fitted(fill(sketch, filled), CONV_RULE, differs) for filled in on_the_way_out(sketch, values))
            except AoecError:
                continue


def channel_tiles(c: Convolution, t: ConvTiling, unit: int) -> dict[str, int]:
    """Return channels of a block in units of what is stored side by side, 16 or of int8 32, and parts of these blocks over cores."""
    count = max(1, min(parts(t.nL0, unit), parts(c.axes.channels, unit)))
    return {"n1": count, "gn": even_parts(parts(c.axes.channels, count * unit), t.nDim)}


def on_the_way_out(sketch: Trace, values: dict[str, int]) -> list[dict[str, int]]:
    """Return the values of all holes of a sketch, with those of the way out through UB, which no tiling says: two slots and even parts of a
    tile's columns, or else one slot and one column of fractals."""
    left = {n: c for n, c in holes(sketch).items() if n not in values}
    even = [u for u in left.get("uc", ()) if values["n1"] % u == 0]
    wide, least = ({n: max((v for v in c if v <= slots), default=c[0]) for n, c in left.items()} for slots in (2, 1))
    out = [values | wide, values | least]
    if even:
        out[0]["uc"], out[1]["uc"] = max(u for u in even if u <= UB_COLUMNS), min(even)
    return out[:1 if out[0] == out[1] else 2]


def smaller(t: ConvTiling) -> Iterator[tuple[ConvTiling, tuple[str, ...]]]:
    """Yield (tiling, how it differs): as it is, then with one slot, fewer pixels, shorter chunks and fewer channels in turn."""
    yield t, ()
    said = ("a smaller block, so that it fits",)
    yield replace(t, pbCL0=1), said
    yield fewer_pixels(replace(t, pbCL0=1)), said
    t = replace(t, pbCL0=1, pbAL1=1, pbBL1=1)
    yield t, said
    t = replace(t, al1FullLoad=0, bl1FullLoad=0)
    for _ in range(5):
        t = fewer_pixels(t)
        yield t, said
        t = replace(t, kAL1=max(t.kL0, t.kAL1 // 2), kBL1=max(t.kL0, t.kBL1 // 2))
        yield t, said
        t = replace(t, nL0=max(16, t.nL0 // 2), nBL1=max(16, t.nBL1 // 2))
        yield t, said


def fewer_pixels(t: ConvTiling) -> ConvTiling:
    """Return the tiling with half as many rows in a block; of a block of one row half of its pixels."""
    if t.hoL0 > 1:
        return replace(t, hoL0=t.hoL0 // 2, hoL1=max(1, t.hoL1 // 2))
    half = max(16, align(t.woL0 // 2))
    return replace(t, woL0=half, woL1=half)
