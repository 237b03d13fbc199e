"""A convolution without tuning, by proxy: the rules of Conv3DV2 (docs/stock.md). Conv2D's own on 910B and 310P are not public."""
from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from aoec.search.stock.sizes import Chip, align, parts
from aoec.search.vendor.vendor_conv import Axes, ConvTiling

BIAS_TABLE = 1024  # bytes
MOST_K = 4096  # columns of an L0 block
MOST_AL1 = 65535  # columns of the image in L1
L2_RATE = {"910B": 110, "310P": 114}  # bytes a cycle and core (platform_config: l2_read_rate)
FRACTAL = 16


@dataclass(frozen=True, slots=True)
class Convolution:
    """What the rules read of a convolution. `axes`: of its results; `image`: rows and columns of what it reads; `kernel`, `stride`: along
    rows; `groups` beside each other."""

    axes: Axes
    image: tuple[int, int]
    kernel: int
    stride: int
    groups: int = 1
    size_bytes: int = 2

    @property
    def columns(self) -> int:
        """Return columns of img2col: k of the product."""
        return self.axes.chunk * self.axes.planes


@dataclass(frozen=True, slots=True)
class Split:
    """Parts over cores: of the batch, of rows (pixels of a point-wise one), of channels, of groups."""

    batch: int
    rows: int
    channels: int
    groups: int


def conv_tiling(c: Convolution, chip: Chip) -> ConvTiling:
    """Return the tiling by the proxy's rules."""
    split = best_split(c, chip)
    m = parts(c.axes.height, split.rows) * c.axes.width if not c.axes.point else parts(c.axes.width, split.rows)
    n = parts(c.axes.channels, split.channels)
    rows, columns = l0_block(c, chip, m, n)
    a, b, whole_a, whole_b = l1_chunks(c, chip, rows, columns)
    k = common_k(c, chip, rows, columns, a, b)
    height, width = (1, min(rows, c.axes.width)) if rows < c.axes.width or c.axes.point else (rows // c.axes.width, c.axes.width)
    double = 2 * rows * columns * 4 <= chip.l0c
    return ConvTiling(hoL1=height, woL1=width, hoL0=height, woL0=width, kL0=k, nL0=columns, kAL1=a, kBL1=b, nBL1=columns,
                      batchDim=split.batch, hoDim=split.rows, nDim=split.channels, groupDim=split.groups,
                      pbAL1=1 if whole_a and whole_b else 2, pbBL1=1 if whole_b else 2, pbCL0=2 if double else 1,
                      al1FullLoad=int(whole_a), bl1FullLoad=int(whole_b))


def divisors(extent: int, cores: int) -> list[int]:
    """Return parts of an axis: what divides it, or the number of cores, up to these."""
    return [d for d in range(1, min(extent, cores) + 1) if extent % d == 0 or cores % d == 0]


def best_split(c: Convolution, chip: Chip) -> Split:
    """Return rule 2: parts over cores with the least cost of a core; of equal ones the most parts of the batch, then of groups."""
    a = c.axes
    along = a.width if a.point else a.height
    options = product(divisors(a.batch, chip.cores), divisors(along, chip.cores), divisors(parts(a.channels, FRACTAL), chip.cores),
                      divisors(c.groups, chip.cores))
    found = [Split(*s) for s in options if s[0] * s[1] * s[2] * s[3] <= chip.cores]
    return min(found, key=lambda s: (core_cost(c, chip, s), -s.batch, -s.groups))


def core_cost(c: Convolution, chip: Chip, s: Split) -> float:
    """Return cycles of a core: elements that it moves through L2, and fractals that its cube multiplies."""
    a = c.axes
    batch, groups, channels = parts(a.batch, s.batch), parts(c.groups, s.groups), parts(a.channels, s.channels)
    pixels = parts(a.height * a.width, s.rows)
    image = c.image[0] * c.image[1] / s.rows * c.columns / (a.chunk / a.unit) * batch * groups
    weight, results = channels * c.columns * batch * groups, pixels * channels * batch * groups
    fractals = parts(pixels, FRACTAL) * parts(channels, FRACTAL) * parts(c.columns, a.unit) * batch * groups
    return (image + weight + results) / (L2_RATE[chip.product] / c.size_bytes) + fractals


def l0_block(c: Convolution, chip: Chip, m: int, n: int) -> tuple[int, int]:
    """Return rule 3: rows and columns, doubled in turn from one fractal as long as they fit in two slots and a core has as many."""
    rows = columns = FRACTAL

    def fits(m0: int, n0: int) -> bool:
        loaded = max(m0, n0) * c.axes.unit * c.size_bytes * 2 <= chip.l0
        small = (slab(c, m0) * c.axes.unit + n0 * c.axes.chunk) * c.size_bytes * 2 <= chip.l1
        return loaded and small and m0 * n0 * 4 <= chip.l0c and n0 * 4 <= BIAS_TABLE

    most_m, most_n = align(m), align(n)
    while True:
        taller, wider = rows < most_m and fits(2 * rows, columns), columns < most_n and fits(rows, 2 * columns)
        if rows <= columns and taller or not wider and taller and columns >= most_n:
            rows = min(2 * rows, most_m)
        elif wider and (rows > columns or rows >= most_m):
            columns = min(2 * columns, most_n)
        else:
            return rows, columns


def slab(c: Convolution, rows: int) -> int:
    """Return pixels of the image that so many results read: whole rows of it, two more than they fill."""
    if c.axes.point:
        return rows
    return min((rows // c.axes.width + 2 - 1) * c.stride + c.kernel, c.image[0]) * c.image[1]


def l1_chunks(c: Convolution, chip: Chip, rows: int, columns: int) -> tuple[int, int, bool, bool]:
    """Return rule 4: (columns of k of the image in L1, of the weights, whether all of the image's k lies there, of the weights')."""
    planes, chunk, e = c.axes.planes, c.axes.chunk, c.size_bytes
    image, weight = slab(c, rows) * c.axes.unit * e, columns * chunk * e  # bytes of one C1 plane
    if planes * (image + weight) <= chip.l1:
        return c.columns, c.columns, True, True
    order = (True, False) if image >= weight else (False, True)
    for left in order:
        kept, other = (image, weight) if left else (weight, image)
        if planes * kept + 2 * other <= chip.l1:
            room = max(1, min(planes, (chip.l1 - planes * kept) // (2 * other)))
            return (c.columns, room * chunk, True, False) if left else (room * chunk, c.columns, False, True)
    a, b = (max(1, min(planes, chip.l1 // 4 // x)) for x in (image, weight))
    return min(a * chunk, MOST_AL1), b * chunk, False, False


def common_k(c: Convolution, chip: Chip, rows: int, columns: int, a: int, b: int) -> int:
    """Return rule 5: the largest part of both chunks in L1 whose two slots fit in L0A and L0B."""
    unit, most = c.axes.unit, min(chip.l0 // 2 // c.size_bytes // max(rows, columns), MOST_K)
    return max((k for k in range(unit, most + 1, unit) if a % k == 0 and b % k == 0), default=unit)
