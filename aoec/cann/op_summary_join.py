"""Matches operators of two profiles by their work and sizes: a device's rows with ours, or those of two profiles.

Two profiles spell one operator differently: types (MatMulV2 or matmul), layouts ([m, k] or its fractals), leading dimensions folded or not.
So each operator is turned into its `Work`. In it, every size that may be in fractals is a multiple of 16. The other differences decide
which of several matches is nearest.
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from statistics import median

from aoec.cann.op_summary import Operand
from aoec.cann.op_summary_read import Profile, Row
from aoec.cann.op_types import plain

FRACTAL = 16
IMAGES = ("NCHW", "NHWC", "NC1HWC0", "NC1HWC0_C04")
CUBES = ("matmul", "conv2d")


@dataclass(frozen=True)
class Work:
    """What an operator does, whoever says it: `sizes` are (batch, m, k, n) of a product, (n, h, w, c, ho, wo, co, k) of a convolution, else
    the dimensions above 1 of its first input and first output, with a 0 between."""

    kind: str
    dtype: str
    sizes: tuple[int, ...]

    def __str__(self) -> str:
        ends, sizes = [list[int]()], self.sizes[self.sizes[0] == 1:] if self.kind == "matmul" else self.sizes
        for size in sizes:
            ends[-1].append(size) if size else ends.append([])
        return f"{self.kind} {'->'.join('x'.join(map(str, e)) for e in ends if e)} {self.dtype}".replace("  ", " ")


@dataclass(frozen=True)
class Timed:
    """An operator of some shapes with its time: the median of its calls, in µs. `kind`: measured or modelled; `lines`: of its file."""

    types: tuple[str, ...]
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    us: float
    kind: str
    names: tuple[str, ...] = ()
    lines: tuple[int, ...] = ()
    least_us: float = 0.0
    most_us: float = 0.0
    core_us: float | None = None
    cores: int | None = None

    @property
    def calls(self) -> int:
        return max(len(self.lines), 1)

    @property
    def work(self) -> Work | None:
        """Return what the operator does. Return None where types or shapes do not say it."""
        return work(self.types, self.inputs, self.outputs)


@dataclass(frozen=True)
class Joined:
    """An operator of one side, and the nearest of those of the other that do the same."""

    theirs: Timed
    ours: Timed

    @property
    def ratio(self) -> float:
        """Return their time divided by ours: 2 is twice as long."""
        return self.theirs.us / self.ours.us

    @property
    def off_us(self) -> float:
        """Return how far apart they are, over all calls of theirs."""
        return abs(self.theirs.us - self.ours.us) * self.theirs.calls


def list_timed(profile: Profile) -> list[Timed]:
    """Return the different operators of a profile, in order: rows of one type, shapes, types and formats are calls of one."""
    found: dict[tuple[object, ...], list[Row]] = {}
    for row in profile.rows:
        found.setdefault((row.type, row.inputs, row.outputs), []).append(row)
    return [_calls(rows, profile.kind) for rows in found.values()]


def _calls(rows: Sequence[Row], kind: str) -> Timed:
    first, times = rows[0], [r.duration_us for r in rows]
    cores = [r.core_us for r in rows if r.core_us is not None]
    return Timed(tuple(first.type.split("+")), first.inputs, first.outputs, median(times), kind, tuple(dict.fromkeys(r.name for r in rows)),
                 tuple(r.line for r in rows), min(times), max(times), median(cores) if len(cores) == len(rows) else None, first.cores)


def join(theirs: Sequence[Timed], ours: Sequence[Timed]) -> list[tuple[int, int]]:
    """Return (place in theirs, place in ours) of each of theirs that ours have too, by equal work, and of several the nearest in what else
    they say; in the order of theirs."""
    known: dict[Work, list[int]] = {}
    for i, one in enumerate(ours):
        if (does := one.work) is not None:
            known.setdefault(does, []).append(i)
    out = []
    for i, one in enumerate(theirs):
        does = one.work
        equal = [j for j in known.get(does, ()) if _may_be(one, ours[j])] if does is not None else []
        if equal:
            out.append((i, min(equal, key=lambda j: (_difference(one, ours[j]), j))))
    return out


def _may_be(one: Timed, other: Timed) -> bool:
    """Return False where both give rows without padding, and not as many elements."""
    plain_rows = all(t.outputs[0].layout not in ("NZ", "ZN", *IMAGES[2:]) for t in (one, other))
    return not plain_rows or prod(one.outputs[0].shape) == prod(other.outputs[0].shape)


def _difference(one: Timed, other: Timed) -> int:
    """Return how much two of equal work differ in: what they give, how it lies, how many inputs and tails they have."""
    faces = [[(o.dtype, o.layout in ("NZ", "ZN"), prod(o.shape)) for o in side] for side in (
        [*one.inputs, *one.outputs], [*other.inputs, *other.outputs])]
    ends = one.outputs[0].dtype != other.outputs[0].dtype
    return 4 * ends + 2 * (faces[0] != faces[1]) + abs(len(one.inputs) - len(other.inputs)) + abs(len(one.types) - len(other.types))


def work(types: Iterable[str], inputs: Sequence[Operand], outputs: Sequence[Operand]) -> Work | None:
    """Return what an operator does. Return None where that is unknown."""
    words = tuple(map(plain, types))
    if not words or not inputs or not outputs:
        return None
    if "attention" in words:
        return Work("attention", inputs[0].dtype, (*_above_one(inputs[0]), 0, *_above_one(outputs[0])))
    cube = next((w for w in words if w in CUBES), "")
    if cube and len(inputs) > 1:
        sizes = (_product if cube == "matmul" else _window)(inputs[0], inputs[1], outputs[0])
        return Work(cube, inputs[0].dtype, sizes) if sizes else None
    return Work("+".join(words), inputs[0].dtype, (*_above_one(inputs[0]), 0, *_above_one(outputs[0])))


def _above_one(o: Operand) -> tuple[int, ...]:
    """Return the dimensions above 1, of images in the order of NCHW with channels in whole blocks."""
    return tuple(n for n in (image(o) if o.layout in IMAGES and len(o.shape) in (4, 5) else logical(o)) if n != 1)


def logical(o: Operand) -> tuple[int, ...]:
    """Return the dimensions of a tensor in rows; of one in fractals those of its padded matrix."""
    if o.layout in ("NZ", "ZN") and len(o.shape) >= 4:
        *lead, one, other, rows, c0 = o.shape
        return (*lead, other * rows, one * c0) if o.layout == "NZ" else (*lead, one * c0, other * rows)
    return o.shape


def image(o: Operand) -> tuple[int, ...]:
    """Return (n, c, h, w) of an image, c in whole blocks of 16."""
    if o.layout == "NHWC":
        n, h, w, c = o.shape
    elif len(o.shape) == 5:
        n, c1, h, w, c0 = o.shape
        c = c1 * c0
    else:
        n, c, h, w = o.shape
    return n, _up(c), h, w


def _up(size: int) -> int:
    return -(-size // FRACTAL) * FRACTAL


@dataclass(frozen=True)
class Product:
    """A matrix product's sizes, of operands in fractals with their padding; `turned`: which operands lie as [k, m] and [n, k]."""

    batch: int
    m: int
    k: int
    n: int
    turned: tuple[bool, bool]


def product(a: Operand, b: Operand, y: Operand) -> Product | None:
    """Return the sizes of a b = y; a batch whose products share their right operand is more rows of one. None where shapes do not meet;
    where both ways to lie are possible an operand is taken not to be turned."""
    left, right, out = map(logical, (a, b, y))
    if min(map(len, (left, right, out))) < 1 or len(left) < 2 < len(out) or len(right) < 2:
        return None
    one = prod(right[:-2]) == 1
    batch, m = (1, prod(out[:-1])) if one or len(out) < 2 else (prod(out[:-2]), out[-2])
    first, n = prod(left[:-1]) if batch == 1 else left[-2], out[-1]
    for lie, rows, k in ((False, first, left[-1]), (True, left[-1], first)):
        for side, depth, columns in ((False, right[-2], right[-1]), (True, right[-1], right[-2])):
            if (_up(rows), _up(k), _up(columns)) == (_up(m), _up(depth), _up(n)):
                return Product(batch, m, min(k, depth), n, (lie, side))
    return None


def _product(a: Operand, b: Operand, y: Operand) -> tuple[int, ...] | None:
    """Return (batch, m, k, n) in multiples of 16."""
    p = product(a, b, y)
    return (p.batch, _up(p.m), _up(p.k), _up(p.n)) if p else None


def _window(x: Operand, w: Operand, y: Operand) -> tuple[int, ...] | None:
    """Return (n, h, w, c, ho, wo, co, k): k is how many products a result sums up; of an image of one block of channels, which is held in
    several ways, it is not told (0)."""
    if not all(len(o.shape) in (4, 5) for o in (x, y)):
        return None
    (n, c, height, width), (_, co, ho, wo) = image(x), image(y)
    return n, height, width, c, ho, wo, co, 0 if c == FRACTAL else _count_products(w, c)


def _count_products(w: Operand, c: int) -> int:
    """Return products of a result: of a filter by its format, of a packed one (ZN) by its rows."""
    if w.layout == "ZN" and len(w.shape) >= 4:
        return logical(w)[-2]
    if len(w.shape) != 4:
        return 0
    planes = {"HWCN": w.shape[:2], "NHWC": w.shape[1:3]}.get(w.layout, w.shape[2:])
    return c * prod(planes)


def share(of: Sequence[Timed], places: Iterable[int]) -> float:
    """Return the share of the time of all calls that those at these places take."""
    total = sum(t.us * t.calls for t in of)
    return sum(of[i].us * of[i].calls for i in set(places)) / total if total else 0.0
