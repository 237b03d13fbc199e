"""The bytes that each operand of an instruction touches: what hazards and bounds are checked on."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple

from aoec.ir.index import DTYPES
from aoec.target.isa.instructions import ADDED, BLOCK_BYTES, REPEAT_BYTES, pixel_bytes
from aoec.target.isa.meaning import up

F = Any  # the fields by name


class Box(NamedTuple):
    """`runs` runs of `length` bytes, `stride` bytes from start to start, the first at `start` from the operand's own start."""

    start: int
    length: int
    stride: int
    runs: int

    @property
    def stop(self) -> int:
        """Return where the last run ends."""
        return self.start + (self.runs - 1) * self.stride + self.length


def box(length: int, stride: int = 0, count: int = 1, start: int = 0) -> list[Box]:
    """Return one box, or none where it is empty; runs that touch or overlap are one run."""
    if length <= 0 or count <= 0:
        return []
    if stride <= length and count > 1:
        whole = (count - 1) * stride + length
        return [Box(start, whole, whole, 1)]
    return [Box(start, length, stride, count)]


def footprints(name: str, fields: Mapping[str, int], dtypes: tuple[str, ...]) -> list[list[Box]]:
    """Return the bytes that each operand of an instruction accesses, in the order of its operands. On chip these are whole blocks, in
    GM just the elements. A run of a vector operand is a block or a whole repeat. For `load3d`, the planes of the image that its columns
    name count as read whole."""
    f, sizes = SimpleNamespace(**fields), [DTYPES[d] for d in dtypes]
    if name.startswith("v"):
        return _vector_footprints(name, f, sizes)
    return _FOOTPRINTS[name](f, *sizes)


def relation(name: str, fields: Mapping[str, int], dtypes: tuple[str, ...]) -> int:
    """Return 0, or the number in RELATIONS of what the fields of an instruction break together."""
    f, sizes = SimpleNamespace(**fields), [DTYPES[d] for d in dtypes]
    if name == "copy_gm_l1_nd2nz":
        return 1 if f.rows > f.dst_rows else 0
    if name in ("load_l0a", "load_l0b"):
        return 2 if f.transpose and sizes[1] != 2 else 0
    if name == "load3d":
        if f.k_start * sizes[1] % BLOCK_BYTES or f.k_start * sizes[1] + up(f.k_size * sizes[1], BLOCK_BYTES) > _image_columns(f, sizes[1]):
            return 3
        wide, high = f.w + f.pad_left + f.pad_right, f.h + f.pad_top + f.pad_bottom
        if f.pad_value and sizes[1] != 1:
            return 10
        return 4 if wide < f.dilation_w * (f.filter_w - 1) + 1 or high < f.dilation_h * (f.filter_h - 1) + 1 else 0
    if getattr(f, "atomic", 0) and dtypes[0] not in ADDED:
        return 8
    if name == "copy_ub_gm":
        return 9 if f.atomic and (f.length % sizes[0] or f.dst_gap % sizes[0]) else 0
    if name.startswith("fixpipe") and f.m and f.n:
        return 5 if f.src_rows < f.m else 7 if name.startswith("fixpipe_nz") and f.n * sizes[0] % 32 else 0
    if name == "vreducev2" and sizes[0] == 1 and f.lanes % 2:
        return 11
    widest = sizes[0] if name == "vgather" else max(sizes)
    return 6 if hasattr(f, "lanes") and name != "vreducev2" and f.lanes * widest > REPEAT_BYTES else 0


def _foot_mmad(f: F, c: int, a: int, b: int, bias: int = 4) -> list[list[Box]]:
    if not (f.m and f.n and f.k):
        return [[], [], [], []]
    rows, cols, deep = -(-f.m // 16), -(-f.n // 16), -(-f.k * a // 32)
    return [box(rows * cols * 1024), box(rows * deep * 512), box(deep * cols * 512), box(f.n * 4 if f.init else 0)]


def _foot_load3d(f: F, dst: int, src: int) -> list[list[Box]]:
    width, pixel = up(f.k_size * src, BLOCK_BYTES), pixel_bytes(f.channels, src)
    each, plane = f.filter_h * f.filter_w * pixel, f.h * f.w * pixel  # bytes of a row of columns, and of the image, for one plane
    low, high = f.k_start * src // each, (f.k_start * src + width - 1) // each
    if pixel < BLOCK_BYTES:
        low, high = 0, 0
    return [box(up(f.m_size, 16) * width), box((high - low + 1) * plane, start=low * plane)]


def _image_columns(f: F, size: int) -> int:
    """Return bytes of all columns that load3d makes of an image, whole blocks."""
    pixel = pixel_bytes(f.channels, size)
    return up(-(-f.channels * size // pixel) * f.filter_h * f.filter_w * pixel, BLOCK_BYTES)


def _foot_fixpipe(f: F, dst: int, src: int, nz: bool) -> list[list[Box]]:
    read = box(f.m * 64, f.src_rows * 64, -(-f.n // 16)) if f.m else []
    if nz:
        return [box(f.m * 32, f.dst_stride * dst, f.n * dst // 32), read]
    return [box(f.n * dst, f.dst_stride * dst, f.m), read]


_FOOTPRINTS: dict[str, Callable[..., list[list[Box]]]] = {
    "copy_gm_l1": lambda f, d, s: [box(f.length * 32, (f.length + g) * 32, f.bursts) for g in (f.dst_gap, f.src_gap)],
    "copy_gm_l1_nd2nz": lambda f, d, s: [
        box(f.rows * 32, f.dst_rows * 32, -(-f.cols * s // 32)), box(f.cols * s, f.src_stride * s, f.rows)],
    "load_l0a": lambda f, d, s: [box(512, (1 + f.dst_gap) * 512, f.repeat), box(512, f.src_stride * 512, f.repeat)],
    "load_l0b": lambda f, d, s: [box(512, (1 + f.dst_gap) * 512, f.repeat), box(512, f.src_stride * 512, f.repeat)],
    "load3d": _foot_load3d,
    "load_bt": lambda f, d, s: [box(f.length * 32), box(f.length * 32)],
    "load_fb": lambda f, d, s: [box(f.length * 32), box(f.length * 32)],
    "mmad": lambda *x: _foot_mmad(*x)[:3],
    "mmad_bias": _foot_mmad,
    "fixpipe_nd": lambda f, d, s: _foot_fixpipe(f, d, s, False),
    "fixpipe_nz": lambda f, d, s: _foot_fixpipe(f, d, s, True),
    "fixpipe_nd_scale": lambda f, d, s, k: [*_foot_fixpipe(f, d, s, False), box(f.n * k if f.m else 0)],
    "fixpipe_nz_scale": lambda f, d, s, k: [*_foot_fixpipe(f, d, s, True), box(f.n * k if f.m else 0)],
    "copy_l0c_ub": lambda f, d, s: [
        box(f.length * 256 * d, f.length * 256 * d + f.dst_gap * 32, f.bursts),
        box(f.length * 256 * s, (f.length + f.src_gap) * 256 * s, f.bursts)],
    "copy_ub_l1": lambda f, d, s: [box(f.length * 32, (f.length + g) * 32, f.bursts) for g in (f.dst_gap, f.src_gap)],
    "copy_gm_ub": lambda f, d, s: [
        box(up(f.length, 32), up(f.length, 32) + f.dst_gap * 32, f.bursts), box(f.length, f.length + f.src_gap, f.bursts)],
    "copy_gm_ub_at": lambda f, d, s, i: [box(up(f.length, 32)), box(f.length, f.pitch, f.extent), box(i)],
    "copy_ub_gm": lambda f, d, s: [
        box(f.length, f.length + f.dst_gap, f.bursts), box(up(f.length, 32), up(f.length, 32) + f.src_gap * 32, f.bursts)],
}


def _vector_footprints(name: str, f: F, sizes: list[int]) -> list[list[Box]]:
    if name == "vbrcb":
        return [_blocks(8, f.dst_blk, f.dst_rep, f.repeat), box(f.repeat * 8 * sizes[1])]
    if name == "vreducev2":
        return [box(f.lanes * f.repeat * sizes[0]), box(f.lanes * sizes[1], f.src_rep * 32, f.repeat)]
    if name == "vgather":
        elements = (f.repeat - 1) * (REPEAT_BYTES // sizes[0]) + f.lanes if f.repeat else 0
        return [_repeats(f, sizes[0], sizes[0], 1, f.dst_rep), box(f.reach if f.repeat else 0), box(elements * sizes[2])]
    if name == "vnchwconv":
        if sizes[0] == 1:  # half a block a row
            return [[b for row in range(16) for b in box(16, rep * 32, f.repeat, row * stride * 32 + high * 16)]
                    for stride, rep, high in ((f.dst_stride, f.dst_rep, f.dst_high), (f.src_stride, f.src_rep, f.src_high))]
        rows = 32 // sizes[0]
        halves = (0, f.dst_half) if sizes[0] == 4 else (0,)
        dst = [b._replace(start=b.start + h * 32) for h in halves for b in _blocks(rows, f.dst_stride, f.dst_rep, f.repeat)]
        return [dst, _blocks(16, f.src_stride, f.src_rep, f.repeat)]
    if name in ("vcmax", "vcmin", "vcadd"):
        return [box(sizes[0], f.dst_rep * sizes[0], f.repeat), _repeats(f, sizes[1], sizes[1], f.src_blk, f.src_rep)]
    if name in ("vcgmax", "vcgmin", "vcgadd"):
        last = [*box(-(-f.lanes * sizes[1] // 32) * sizes[0], start=(f.repeat - 1) * f.dst_rep * 8 * sizes[0])] if f.repeat else []
        return [[*box(8 * sizes[0], f.dst_rep * 8 * sizes[0], max(f.repeat - 1, 0)), *last],
                _repeats(f, sizes[1], sizes[1], f.src_blk, f.src_rep)]
    names = ("dst", *[f"src{i}" for i in range(len(sizes) - 1)]) if len(sizes) > 2 else ("dst", "src")
    return [_repeats(f, s, max(sizes), getattr(f, f"{n}_blk"), getattr(f, f"{n}_rep")) for n, s in zip(names, sizes)]


def _repeats(f: F, size: int, widest: int, blk: int, rep: int) -> list[Box]:
    """Return what a vector operand touches: whole repeats, then the lanes of the last one."""
    if not f.repeat:
        return []
    whole = REPEAT_BYTES // widest * size
    head = box(whole, rep * 32, f.repeat - 1) if blk == 1 else _blocks(whole // 32, blk, rep, f.repeat - 1)
    last, width = (f.repeat - 1) * rep * 32, f.lanes * size
    if blk == 1:
        return head + box(width, start=last)
    return head + [b for i in range(-(-width // 32)) for b in box(min(32, width - i * 32), start=last + i * blk * 32)]


def _blocks(count: int, blk: int, rep: int, repeat: int) -> list[Box]:
    """Return the boxes of `count` blocks in each of `repeat` repeats. Blocks start `blk` blocks apart, repeats `rep` blocks apart."""
    return [b for i in range(count) for b in box(32, rep * 32, repeat, start=i * blk * 32)]
