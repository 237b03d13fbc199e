"""The vendor's own tilings as traces: convolutions, by the fields of a run-time knowledge bank (Conv2DV2)."""
from __future__ import annotations

from dataclasses import dataclass

from aoec.base.errors import UnsupportedError
from aoec.ir.func.tir import Func
from aoec.ir.index import DTYPES
from aoec.ir.rewrite import fill
from aoec.ir.schedule import Trace
from aoec.search.sketches.nests import Nest, find_product, writer
from aoec.search.sketches.plan import factors
from aoec.search.sketches.sketches_cube import conv_sketch, image_of, kernel_columns, narrow
from aoec.search.vendor.vendor import ratio, up
from aoec.target.machine import Machine

M_FIRST, N_FIRST = 0, 1  # iterateMNOrder: what runs inside, pixels or channels


@dataclass(frozen=True, slots=True)
class ConvTiling:
    """A tiling of a convolution; extents in elements, 0 for all of an axis.

    hoL1 x woL1: output pixels whose image lies in L1; hoL0 x woL0: those of an L0 block. nL0, nBL1: output channels of an L0 block,
    and of the weights in L1. kL0: columns of img2col of an L0 block; kAL1, kBL1: those in L1, of the image and of the weights.
    batchDim, hoDim, woDim, nDim, groupDim: parts over cores. pb...: slots, 1 or 2. al1FullLoad, bl1FullLoad: all of k in L1.
    Not in a bank record, but a choice of the vendor's kernels: unitFlag (L0C is drained in granules).
    """

    hoL1: int = 0
    woL1: int = 0
    hoL0: int = 0
    woL0: int = 0
    kL0: int = 64
    nL0: int = 128
    kAL1: int = 0
    kBL1: int = 0
    nBL1: int = 0
    batchDim: int = 1
    hoDim: int = 1
    woDim: int = 1
    nDim: int = 1
    groupDim: int = 1
    pbAL1: int = 2
    pbBL1: int = 2
    pbAL0: int = 2
    pbBL0: int = 2
    pbCL0: int = 1
    iterateMNOrder: int = N_FIRST
    al1FullLoad: int = 0
    bl1FullLoad: int = 0
    unitFlag: int = 0


@dataclass(frozen=True, slots=True)
class Axes:
    """What of a conv func a tiling is laid on: extents of batch, rows, width and channels; columns of a C1 plane, and planes."""

    batch: int
    height: int
    width: int
    channels: int
    chunk: int
    planes: int
    unit: int
    narrow: bool  # pixels of less than a block: tiles are whole rows

    @property
    def point(self) -> bool:
        """Return whether the image is one row of pixels, as a 1x1 filter of stride 1 sees it."""
        return self.height == 1


@dataclass(frozen=True, slots=True)
class ConvForm:
    """The structure of a convolution's schedule, as `conv_sketch` takes it."""

    resident: str
    wide: bool
    larger: str
    pixels_inside: bool


def conv_trace(func: Func, machine: Machine, tiling: ConvTiling) -> Trace:
    """Return the trace of a tiling, legalised to the func; it has no holes. UnsupportedError where the func is no convolution."""
    mm, gather = convolution(func)
    form, values = conv_choice(func, tiling)
    point = axes_of(func, mm, gather).point
    return fill(conv_sketch(func, mm, gather, machine, form.resident, form.wide, point, form.larger, form.pixels_inside), values)


def convolution(func: Func) -> tuple[Nest, Nest]:
    """Return the product block of a convolution, and its img2col block."""
    mm = find_product(func)
    gather = None if mm is None else writer(func, factors(mm)[0].buffer)
    if mm is None or gather is None:
        raise UnsupportedError(f"func {func.name} is no convolution")
    return mm, gather


def conv_choice(func: Func, tiling: ConvTiling) -> tuple[ConvForm, dict[str, int]]:
    """Return (form, values of its holes) of a tiling.

    An L1 tile of several L0 blocks needs all of its k there: else each block has an L1 tile of its own (hoL1 = hoL0, nBL1 = nL0),
    which moves the same bytes. Chunks of k are whole C1 planes, the larger a multiple of the smaller.
    """
    mm, gather = convolution(func)
    axes = axes_of(func, mm, gather)
    chunks = _chunks(tiling, axes)
    whole = (bool(tiling.al1FullLoad) or chunks[0] >= axes.planes, bool(tiling.bl1FullLoad) or chunks[1] >= axes.planes)
    rectangle, wide = _rectangle(tiling, axes, whole[0])
    resident = {(False, False): "none", (True, False): "image", (False, True): "weight", (True, True): "both"}[whole]
    larger = "" if resident != "none" or chunks[0] == chunks[1] else "image" if chunks[0] > chunks[1] else "weight"
    if resident != "none":
        chunks = (chunks[1],) * 2 if whole[0] else (chunks[0],) * 2
    inside = resident == "none" and tiling.iterateMNOrder == M_FIRST
    values = rectangle | _channels(tiling, axes) | _parts_of_batch(mm, tiling, axes) | {
        "sk": min(chunks), "rk": max(chunks) // min(chunks), "tk": min(up(tiling.kL0, axes.unit), axes.chunk * axes.planes),
        "da": tiling.pbAL1, "db": tiling.pbBL1, "d0a": tiling.pbAL0, "d0b": tiling.pbBL0, "dc": tiling.pbCL0, "uf": tiling.unitFlag}
    return ConvForm(resident, wide, larger, inside), values


def axes_of(func: Func, mm: Nest, gather: Nest) -> Axes:
    """Return what of a convolution's func a tiling is laid on."""
    n, *_, ho, wo, co, k = [mm.extent(lp.var) for lp in mm.loops]
    unit = 32 // DTYPES[func.buffer(image_of(gather)).dtype]
    chunk = kernel_columns(gather, unit)
    return Axes(n, ho, wo, co, chunk, -(-k // chunk), unit, narrow(func, gather))


def _chunks(t: ConvTiling, axes: Axes) -> tuple[int, int]:
    """Return the C1 planes in an L1 chunk of the image, and of the weights."""
    a, b = (min(max(1, k // axes.chunk), axes.planes) if k else axes.planes for k in (t.kAL1, t.kBL1))
    return (a, b) if max(a, b) == axes.planes else ratio(a, b)


def even_parts(count: int, wanted: int) -> int:
    """Return parts over cores, at most as many as wanted, so that no core is left without work."""
    each = -(-count // max(1, min(wanted, count)))
    return -(-count // each)


def _rectangle(t: ConvTiling, axes: Axes, kept: bool) -> tuple[dict[str, int], bool]:
    """Return (values of the holes of an image's tiles, whether the width is tiled). `kept`: all of k of the image in L1."""
    if axes.point:
        pixels = up(min((t.hoL0 or 1) * (t.woL0 or axes.width), axes.width), 16)
        lot = max(pixels, up(min((t.hoL1 or 1) * (t.woL1 or axes.width), axes.width), 16)) if kept else pixels
        tiles = -(-axes.width // lot)
        return {"th": 1, "h0": 1, "gh": 1, "tw": lot, "w0": pixels, "gw": even_parts(tiles, t.hoDim * t.woDim)}, True
    rows, columns = min(t.hoL0 or axes.height, axes.height), axes.width if axes.narrow else min(t.woL0 or axes.width, axes.width)
    lot = max(rows, min(t.hoL1 or axes.height, axes.height))
    aligned = all(rows * w % 16 == 0 for w in (columns, axes.width % columns))  # load3d starts a block at a multiple of 16 pixels
    lot = lot // rows * rows if aligned and kept else rows
    wide = columns < axes.width
    return {"th": lot, "h0": rows, "gh": even_parts(-(-axes.height // lot), t.hoDim), "tw": columns, "w0": columns,
            "gw": even_parts(-(-axes.width // columns), t.woDim)}, wide


def _channels(t: ConvTiling, axes: Axes) -> dict[str, int]:
    fractals = min(-(-t.nL0 // 16), -(-axes.channels // 16))
    return {"n1": fractals, "gn": even_parts(-(-axes.channels // (fractals * 16)), t.nDim)}


def _parts_of_batch(mm: Nest, t: ConvTiling, axes: Axes) -> dict[str, int]:
    """Return parts of the batch, and of groups where the func has them."""
    groups = {f"g{lp.var}": even_parts(mm.extent(lp.var), t.groupDim) for lp in mm.loops[1:-4]}
    return {"gb": even_parts(axes.batch, t.batchDim), **groups}
