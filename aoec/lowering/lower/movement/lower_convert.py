"""Funcs of the layout conversions between NCHW and NC1HWC0: load channel rows, transpose in UB, store; and of images to rows of channels.

Sixteen channels at a time: one C1 plane of a 2-byte type, two of a 4-byte type; of bytes the 32 of a plane. Images of few channels are
one block that reads them where they lie; the vector unit makes its pixels of four channels by two transpositions.
"""
from __future__ import annotations

from aoec.base.errors import UnsupportedError
from aoec.ir.func.tir import Block, Buffer, Func, Loop, Node
from aoec.ir.graph.graph import OpNode, Tensor
from aoec.ir.index import Expr, Float, Int, Read, Var, lt, minimum, select
from aoec.lowering.lower.physical import buffer_of
from aoec.ops.words.layout import FEW, FIVE, PIXEL, c0_of, stored_shape

ROWS = 16


def lower_conversion(name: str, node: OpNode, tensors: dict[str, Tensor]) -> Func:
    """Return the func of `to_nc1hwc0` or `from_nc1hwc0`."""
    x, y = tensors[node.inputs[0]], tensors[node.outputs[0]]
    if (x.layout, y.layout) == ("ND", FEW):
        return to_pixels(name, x, y)
    if {x.layout, y.layout} != {"ND", FIVE}:
        raise UnsupportedError(f"group {name}: no conversion from {x.layout} to {y.layout}; {FIVE} goes to and from ND, and ND to {FEW}")
    return to_fractal(name, x, y) if node.op == "to_nc1hwc0" else from_fractal(name, x, y)


def to_pixels(name: str, x: Tensor, y: Tensor) -> Func:
    """Return planes of at most four channels to pixels of four, the missing ones zero: block u of the result is some pixels in a row."""
    n, c, h, w = x.shape
    each, lanes = PIXEL[FEW], c0_of(x.dtype)
    size, count = h * w, h * w * each // lanes
    X, Y = buffer_of(x, "X", (n, c, size)), buffer_of(y, "Y", (n, count, lanes))
    image, u, lane = (Var(v) for v in ("n", "u", "l"))
    value: Expr = Read("X", (image, lane % each, u * (lanes // each) + lane // each))
    if c < each:
        value = select(lt(lane % each, c), value, Float(0.0))
    return Func(name, (X,), (Y,), (), (
        _nest([("n", n), ("u", count), ("l", lanes)], Block("turn", Read("Y", (image, u, lane)), "=", value)),))


def _nest(loops: list[tuple[str, Expr | int]], body: Node) -> Node:
    for var, extent in reversed(loops):
        body = Loop(var, extent if isinstance(extent, Expr) else Int(extent), (body,))
    return body


def whole_planes(c0: int) -> int:
    """C1 planes that are turned together: those of sixteen channels, or one that has more."""
    return max(ROWS // c0, 1)


def planes_of(group: Expr, planes: int, c1: int) -> Expr:
    """C1 planes of a group of channels; a plain number where the last group is as full as the others, so that cores may share
    the groups (an extent that hangs on a loop keeps that loop on one core)."""
    return Int(planes) if c1 % planes == 0 else minimum(planes, c1 - group * planes)


def to_fractal(name: str, x: Tensor, y: Tensor) -> Func:
    n, c, h, w = x.shape
    _, c1, _, _, c0 = stored_shape(y)
    size, planes = h * w, whole_planes(c0)
    each = planes * c0
    groups = -(-c // each)
    X, Y = buffer_of(x, "X", (n, c, size)), buffer_of(y, "Y", (n, c1, size, c0))
    rows = Buffer("rows", x.dtype, tuple(Int(d) for d in (n, groups, planes, c0, size)))
    pixels = Buffer("pixels", x.dtype, tuple(Int(d) for d in (n, groups, planes, size, c0)))
    a, b, p = ([Var(f"{s}_{v}") for v in ("n", "c", "i", "x", "c0")] for s in ("load", "turn", "store"))
    channel = a[1] * each + a[2] * c0 + a[4]
    read: Expr = Read("X", (a[0], channel, a[3]))
    if c % each:
        read = select(lt(channel, c), read, Float(0.0))
    load = Block("load", Read("rows", (a[0], a[1], a[2], a[4], a[3])), "=", read)
    turn = Block("turn", Read("pixels", tuple(b)), "=", Read("rows", (b[0], b[1], b[2], b[4], b[3])))
    store = Block("store", Read("Y", (p[0], p[1] * planes + p[2], p[3], p[4])), "=", Read("pixels", tuple(p)))
    present = planes_of(p[1], planes, c1)
    return Func(name, (X,), (Y,), (rows, pixels), (
        _nest([("load_n", n), ("load_c", groups), ("load_i", planes), ("load_c0", c0), ("load_x", size)], load),
        _nest([("turn_n", n), ("turn_c", groups), ("turn_i", planes), ("turn_x", size), ("turn_c0", c0)], turn),
        _nest([("store_n", n), ("store_c", groups), ("store_i", present), ("store_x", size), ("store_c0", c0)], store)))


def from_fractal(name: str, x: Tensor, y: Tensor) -> Func:
    n, c, h, w = y.shape
    _, c1, _, _, c0 = stored_shape(x)
    planes = whole_planes(c0) if c % (whole_planes(c0) * c0) == 0 else 1  # planes that fill no group are turned and stored by themselves
    size, rows_each = h * w, planes * c0
    groups = -(-c // rows_each)
    X, Y = buffer_of(x, "X", (n, c1, size, c0)), buffer_of(y, "Y", (n, c, size))
    rows = Buffer("rows", x.dtype, tuple(Int(d) for d in (n, groups, planes, c0, size)))
    pixels = Buffer("pixels", x.dtype, tuple(Int(d) for d in (n, groups, planes, size, c0)))
    a, b, p = ([Var(f"{s}_{v}") for v in ("n", "c", "i", "x", "c0")] for s in ("load", "turn", "store"))
    load = Block("load", Read("pixels", tuple(a)), "=", Read("X", (a[0], a[1] * planes + a[2], a[3], a[4])))
    turn = Block("turn", Read("rows", (b[0], b[1], b[2], b[4], b[3])), "=", Read("pixels", tuple(b)))
    p[4] = Var("store_c0_i")
    lanes = Int(c0) if c % c0 == 0 else minimum(c0, c - p[1] * rows_each)
    store = Block("store", Read("Y", (p[0], p[1] * rows_each + p[2] * c0 + p[4], p[3])), "=", Read("rows", (p[0], p[1], p[2], p[4], p[3])))
    return Func(name, (X,), (Y,), (rows, pixels), (
        _nest([("load_n", n), ("load_c", groups), ("load_i", planes), ("load_x", size), ("load_c0", c0)], load),
        _nest([("turn_n", n), ("turn_c", groups), ("turn_i", planes), ("turn_c0", c0), ("turn_x", size)], turn),
        _nest([("store_n", n), ("store_c", groups), ("store_i", planes), ("store_c0_i", lanes), ("store_x", size)], store)))


def pixels_to_rows(name: str, x: Tensor, y: Tensor) -> Func:
    """NC1HWC0 to a row of channels for each pixel [n, h, w, c]: blocks of channels move, none is taken apart.

    Whole blocks are put in order in UB, all of a pixel, and stored in rows; where the last block is not full, each C1 plane is stored as
    it comes.
    """
    n, c1, h, w, c0 = stored_shape(x)
    c, size = y.shape[3], h * w
    X = buffer_of(x, "X", (n, c1, size, c0))
    p: list[Expr] = [Var(f"store_{v}") for v in ("n", "c", "x", "c0")]
    if c % c0:
        Y, lane = buffer_of(y, "Y", (n, size, c)), Var("store_c0_i")
        store = Block("store", Read("Y", (p[0], p[2], p[1] * c0 + lane)), "=", Read("X", (*p[:3], lane)))
        return Func(name, (X,), (Y,), (), (
            _nest([("store_n", n), ("store_c", c1), ("store_x", size), ("store_c0_i", minimum(c0, c - p[1] * c0))], store),))
    Y = buffer_of(y, "Y", (n, size, c1, c0))
    planes, rows = (Buffer(b, x.dtype, tuple(Int(d) for d in shape)) for b, shape in (
        ("planes", (n, c1, size, c0)), ("rows", (n, size, c1, c0))))
    a, b = (tuple(Var(f"{s}_{v}") for v in ("n", "c", "x", "c0")) for s in ("load", "turn"))
    load = Block("load", Read("planes", a), "=", Read("X", a))
    turn = Block("turn", Read("rows", (b[0], b[2], b[1], b[3])), "=", Read("planes", b))
    p[1] = Var("store_c_i")
    store = Block("store", Read("Y", (p[0], p[2], p[1], p[3])), "=", Read("rows", (p[0], p[2], p[1], p[3])))
    return Func(name, (X,), (Y,), (planes, rows), (
        _nest([("load_n", n), ("load_c", c1), ("load_x", size), ("load_c0", c0)], load),
        _nest([("turn_n", n), ("turn_c", c1), ("turn_x", size), ("turn_c0", c0)], turn),
        _nest([("store_n", n), ("store_x", size), ("store_c_i", c1), ("store_c0", c0)], store)))


def rows_to_pixels(name: str, x: Tensor, y: Tensor) -> Func:
    """Return a row of whole blocks of channels for each pixel [n, h, w, c] to NC1HWC0: rows are loaded, put in order of planes in UB,
    stored."""
    n, c1, h, w, c0 = stored_shape(y)
    size = h * w
    X, Y = buffer_of(x, "X", (n, size, c1, c0)), buffer_of(y, "Y", (n, c1, size, c0))
    rows, planes = (Buffer(b, x.dtype, tuple(Int(d) for d in shape)) for b, shape in (
        ("rows", (n, size, c1, c0)), ("planes", (n, c1, size, c0))))
    a, b = (tuple(Var(f"{s}_{v}") for v in ("n", "c", "x", "c0")) for s in ("load", "turn"))
    load = Block("load", Read("rows", (a[0], a[2], a[1], a[3])), "=", Read("X", (a[0], a[2], a[1], a[3])))
    turn = Block("turn", Read("planes", b), "=", Read("rows", (b[0], b[2], b[1], b[3])))
    p = (Var("store_n"), Var("store_c_i"), Var("store_x"), Var("store_c0"))
    store = Block("store", Read("Y", p), "=", Read("planes", p))
    return Func(name, (X,), (Y,), (rows, planes), (
        _nest([("load_n", n), ("load_x", size), ("load_c", c1), ("load_c0", c0)], load),
        _nest([("turn_n", n), ("turn_c", c1), ("turn_x", size), ("turn_c0", c0)], turn),  # a repeat is eight pixels of a plane
        _nest([("store_n", n), ("store_c_i", c1), ("store_x", size), ("store_c0", c0)], store)))
