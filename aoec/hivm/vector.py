"""Vector instructions as ops on views. Lanes, repeats and strides become the sizes and strides of one memref. Where the last repeat has
fewer lanes, there is one memref for whole repeats and one for the last. A source that does not advance becomes a dimension of 1 that
the op broadcasts."""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from aoec.hivm.body import TYPES
from aoec.hivm.site import Site
from aoec.hivm.views import View, op
from aoec.ir.index import DTYPES, Expr, Float, Int, Var, maximum, multiple
from aoec.target.isa.instructions import BLOCK_BYTES, REPEAT_BYTES

WORDS = {"vadd": "vadd", "vsub": "vsub", "vmul": "vmul", "vdiv": "vdiv", "vmax": "vmax", "vmin": "vmin", "vadds": "vadd", "vmuls": "vmul",
         "vmaxs": "vmax", "vmins": "vmin", "vexp": "vexp", "vln": "vln", "vsqrt": "vsqrt", "vrsqrt": "vrsqrt", "vrec": "vrec",
         "vabs": "vabs", "vrelu": "vrelu", "vand": "vand", "vor": "vor", "vnot": "vnot", "vaddrelu": "vadd"}
ROUNDING = {"vfloor": "floor", "vceil": "ceil", "vrint": "rint", "vtrunc": "trunc"}
REDUCTIONS = {"vcadd": "sum", "vcmax": "max", "vcmin": "min", "vcgadd": "sum", "vcgmax": "max", "vcgmin": "min"}
BLOCKS = 8  # of a repeat
ROWS = 16  # of blocks that vnchwconv turns


@dataclass(frozen=True)
class Operand:
    """An operand's strides in elements: between blocks, and between repeats."""

    name: str
    dtype: str
    blk: int
    rep: int

    @property
    def block(self) -> int:
        """Return elements of a block."""
        return BLOCK_BYTES // DTYPES[self.dtype]


@dataclass(frozen=True)
class Piece:
    """A part of an instruction that is one op: sizes, and of each operand the first element and strides; 0 is a dimension that stays.

    `when`: a number that must be above 0 for the part to run; None where it always is.
    """

    sizes: tuple[Expr, ...]
    at: tuple[Expr, ...]
    strides: tuple[tuple[int, ...], ...]
    when: Expr | None = None


def operands_of(site: Site) -> list[Operand]:
    """Return the operands of an instruction; UnsupportedError where a stride is known only when the kernel runs."""
    return [Operand(n, site.dtype(n), site.constant(f"{n}_blk") * (BLOCK_BYTES // site.size(n)),
                    site.constant(f"{n}_rep") * (BLOCK_BYTES // site.size(n))) for n in site.operands]


def pieces(site: Site, operands: Sequence[Operand]) -> Iterator[Piece]:
    """Yield the parts of an instruction."""
    full = REPEAT_BYTES // max(DTYPES[o.dtype] for o in operands)
    lanes, repeat, none = site.expr("lanes"), site.expr("repeat"), tuple(Int(0) for _ in operands)
    if all(o.blk == o.block and o.rep == full for o in operands):
        total = site.simplify((repeat - 1) * full + lanes)
        yield Piece((total if site.least(repeat) > 0 else maximum(total, 0),), none, tuple((1,) for _ in operands),
                    None if site.least(total) > 0 else total)
        return
    if repeat == Int(1):
        yield from one_repeat(site, operands, lanes, none, None)
        return
    if operands[0].rep == 0:
        raise site.refusal("each repeat writes over the one before, and an op has no order of its rows")
    whole = repeat if lanes == Int(full) else site.simplify(repeat - 1)
    if whole != Int(0):
        sizes, strides = whole_repeats(site, operands, full)
        yield Piece((whole, *sizes), none, tuple((o.rep, *s) for o, s in zip(operands, strides)),
                    None if site.least(whole) > 0 else whole)
    if lanes != Int(full):
        yield from one_repeat(site, operands, lanes, tuple(whole * o.rep for o in operands), None if site.least(repeat) > 0 else repeat)


def whole_repeats(site: Site, operands: Sequence[Operand], full: int) -> tuple[tuple[Expr, ...], list[tuple[int, ...]]]:
    """Return sizes and strides of a whole repeat: a row, or eight blocks apart."""
    if all(o.blk == o.block for o in operands):
        return (Int(full),), [(1,)] * len(operands)
    return blocks_of(site, operands, Int(full))


def blocks_of(site: Site, operands: Sequence[Operand], lanes: Expr) -> tuple[tuple[Expr, ...], list[tuple[int, ...]]]:
    """Return sizes and strides of lanes that are whole blocks apart."""
    if len({o.block for o in operands}) > 1:
        raise site.refusal("blocks apart have other numbers of elements in operands of other sizes, and a view has one shape")
    return (lanes // operands[0].block, Int(operands[0].block)), [(o.blk, 1) for o in operands]


def one_repeat(site: Site, operands: Sequence[Operand], lanes: Expr, at: tuple[Expr, ...], when: Expr | None) -> Iterator[Piece]:
    """Yield the parts of one repeat: a row, or whole blocks and what is left of the last."""
    if all(o.blk == o.block for o in operands):
        yield Piece((lanes,), at, tuple((1,) for _ in operands), when)
        return
    block = operands[0].block
    if multiple(lanes) % block == 0:
        sizes, strides = blocks_of(site, operands, lanes)
        yield Piece(sizes, at, tuple(strides), when)
        return
    whole = lanes // block
    sizes, strides = blocks_of(site, operands, whole * block)
    if whole != Int(0):
        yield Piece(sizes, at, tuple(strides), whole if when is None else when * whole)
    left = site.simplify(lanes - whole * block)
    yield Piece((left,), tuple(a + whole * o.blk for a, o in zip(at, operands)), tuple((1,) for _ in operands),
                left if when is None else when * left)


def each_piece(site: Site, operands: Sequence[Operand], write: Callable[[Sequence[View], str], None]) -> None:
    """Write the op of each part by `write`, which gets the part's views and the dimensions that it broadcasts."""
    for piece in pieces(site, operands):
        def write_piece(piece: Piece = piece) -> None:
            views, stays = [], set[int]()
            for o, at, strides in zip(operands, piece.at, piece.strides):
                stays |= {d for d, s in enumerate(strides) if s == 0}
                sizes = [Int(1) if s == 0 else e for e, s in zip(piece.sizes, strides)]
                views.append(site.view(o.name, at, sizes, [1 if s == 0 else s for s in strides]))
            write(views, f"[{', '.join(map(str, sorted(stays)))}]" if stays else "")
        site.guard(piece.when, write_piece)


def elementwise(site: Site) -> None:
    """Write dst = op(sources), or with a number as an operand."""
    numbers = [site.scalar(site.dtype(site.operands[-1]))] if "scalar" in site.fields else []

    def write(views: Sequence[View], stays: str) -> None:
        ins = [(v.value, v.type) for v in views[1:]] + [(n, TYPES[site.dtype(site.operands[-1])]) for n in numbers]
        site.barrier()
        op(site.body, WORDS[site.op], ins, views[:1], behind=f"broadcast = {stays}" if stays else "")
        if site.op == "vaddrelu":
            site.barrier()
            op(site.body, "vrelu", [(views[0].value, views[0].type)], views[:1])
    each_piece(site, operands_of(site), write)


def convert(site: Site) -> None:
    """Write a cast by the dtypes of its operands, or a rounding of fp32."""
    mode = ROUNDING.get(site.op) or site.cast_mode()

    def write(views: Sequence[View], stays: str) -> None:
        if stays:
            raise site.refusal("a cast of HIVM broadcasts nothing")
        site.barrier()
        op(site.body, "vcast", [(views[1].value, views[1].type)], views[:1], behind=f"round_mode = #hivm.round_mode<{mode}>")
    each_piece(site, operands_of(site), write)


def copy(site: Site) -> None:
    """Write a copy of elements as they are."""
    def write(views: Sequence[View], stays: str) -> None:
        site.barrier()
        word, behind = ("vbrc", f"broadcast_dims = {stays}") if stays else ("copy", "")
        op(site.body, word, [(views[1].value, views[1].type)], views[:1], behind=behind)
    each_piece(site, operands_of(site), write)


def fill(site: Site) -> None:
    """Write an op that fills its target with one number."""
    number = site.scalar(site.dtype("dst"))

    def write(views: Sequence[View], stays: str) -> None:
        site.barrier()
        op(site.body, "vbrc", [(number, TYPES[site.dtype("dst")])], views)
    each_piece(site, operands_of(site), write)


def reduce(site: Site) -> None:
    """Write a reduction with one result a repeat: rows of a view become rows of one element. The wheel calls a routine with or without
    a temporary buffer, depending on the sizes that it knows. So it is told no count of rows, and always given the buffer, which the
    routine uses for rows that are shorter than a block."""
    src, full, block = site.operands[1], REPEAT_BYTES // site.size("src"), BLOCK_BYTES // site.size("src")
    if site.constant("src_blk") != 1:
        raise site.refusal("the blocks of a repeat lie apart, and the rows that vreduce takes are whole")
    lanes, repeat, step, apart = site.expr("lanes"), site.expr("repeat"), site.constant("src_rep") * block, site.constant("dst_rep")
    rows = repeat if lanes == Int(full) else site.simplify(repeat - 1)
    if (step == 0 or apart == 0) and repeat != Int(1):
        raise site.refusal("repeats that stay where they are have no place in a view")
    parts: list[tuple[Expr, Expr, Expr]] = [(rows, Int(full), Int(0))] if rows != Int(0) else []
    parts += [] if lanes == Int(full) else [(Int(1), lanes, rows)]
    for count, long, at in parts:
        def write(count: Expr = count, long: Expr = long, at: Expr = at) -> None:
            given = site.view(src, at * step, (count, long), (step or full, 1), True)
            made = site.view("dst", at * apart, (count, Int(1)), (apart or 1, 1), True)
            room = site.room(site.dtype("src"), 0 if site.least(long) >= block else BLOCK_BYTES)
            site.barrier()
            op(site.body, f"vreduce <{REDUCTIONS[site.op]}>", [(given.value, given.type)], [made], behind=f"{room} reduce_dims = [1]")
        need = count if count != Int(1) else repeat
        site.guard(None if site.least(need) > 0 else need, write)


def reduce_blocks(site: Site) -> None:
    """Write a reduction with one result a block, in contiguous order. Blocks are rows of a view, which need no temporary buffer.
    Repeats that lie apart become views of their own."""
    src, block, full = site.operands[1], BLOCK_BYTES // site.size("src"), REPEAT_BYTES // site.size("src")
    lanes, repeat, each = site.expr("lanes"), site.expr("repeat"), site.constant("src_blk") * block
    step, apart = site.constant("src_rep") * block, site.constant("dst_rep") * BLOCKS
    if multiple(lanes) % block or each == 0:
        raise site.refusal("its blocks are no rows of one length")
    if repeat != Int(1) and 0 in (step, apart):
        raise site.refusal("repeats that stay where they are have no place in a view")

    def write(rows: Expr, at: Expr) -> None:
        given = site.view(src, at * step, (rows, block), (each, 1), True)
        made = site.view("dst", at * apart, (rows, Int(1)), (1, 1), True)
        site.barrier()
        op(site.body, f"vreduce <{REDUCTIONS[site.op]}>", [(given.value, given.type)], [made],
           behind=f"{site.room(site.dtype('src'), 0)} reduce_dims = [1]")
    if repeat == Int(1):
        write(lanes // block, Int(0))
    elif step == BLOCKS * each and apart == BLOCKS:
        rows = site.simplify((repeat - 1) * BLOCKS + lanes // block)
        site.guard(None if site.least(rows) > 0 else repeat, lambda: write(rows, Int(0)))
    else:
        def write_last() -> None:
            if lanes != Int(full):
                write(lanes // block, repeat - 1)
        body = site.body
        at = body.name("at")
        whole = repeat if lanes == Int(full) else maximum(repeat - 1, 0)
        site.scope.variable(at, 0, max(site.scope.most(whole) - 1, 0))
        body.vars[at] = at
        with body.region(f"scf.for {at} = {body.constant(0)} to {body.index(whole)} step {body.constant(1)} {{"):
            write(Int(BLOCKS), Var(at))
        site.guard(None if site.least(repeat) > 0 else repeat, write_last)


def fill_blocks(site: Site) -> None:
    """Write an op in which each of 8 elements a repeat fills a block."""
    block, count = BLOCK_BYTES // site.size("dst"), site.expr("repeat") * BLOCKS
    blk, rep = site.constant("dst_blk"), site.constant("dst_rep")
    if rep != BLOCKS * blk and site.expr("repeat") != Int(1):
        raise site.refusal("the blocks of one repeat and of the next are not one row of blocks")

    def write() -> None:
        made, given = site.view("dst", Int(0), (count, block), (blk * block, 1)), site.view("src", Int(0), (count, 1), (1, 1))
        site.barrier()
        op(site.body, "vbrc", [(given.value, given.type)], [made], behind=f"{site.room(site.dtype('dst'), 0)} broadcast_dims = [1]")
    site.guard(None if site.least(count) > 0 else count, write)


def turn(site: Site) -> None:
    """Write the transpose of rows of 16 blocks, one matrix a repeat. For 4 bytes there are two of eight rows where the halves of a row
    lie apart."""
    if site.size("dst") == 1:
        raise site.refusal("it turns halves of blocks of bytes, and vtranspose whole blocks")
    block, repeat = BLOCK_BYTES // site.size("dst"), site.expr("repeat")
    to, half, given, to_rep, from_rep = (site.constant(n) for n in ("dst_stride", "dst_half", "src_stride", "dst_rep", "src_rep"))
    if repeat != Int(1) and 0 in (to_rep, from_rep):
        raise site.refusal("repeats that stay where they are have no place in a view")
    halves = 1 if block == ROWS or half == 1 else 2
    rows = ROWS // halves
    for h in range(halves):
        def write(h: int = h) -> None:
            sizes, turned = (Int(rows), Int(block)), (Int(block), Int(rows))
            strides, steps = (given * block, 1), (to * block, 1)
            if repeat != Int(1):
                sizes, turned = (repeat, *sizes), (repeat, *turned)  # type: ignore[assignment]
                strides, steps = (from_rep * block, *strides), (to_rep * block, *steps)  # type: ignore[assignment]
            src = site.view("src", Int(h * rows * given * block), sizes, strides)
            dst = site.view("dst", Int(h * half * block), turned, steps)
            site.barrier()
            op(site.body, "vtranspose", [(src.value, src.type)], [dst],
               behind=f"permutation = {'[1, 0]' if repeat == Int(1) else '[0, 2, 1]'}")
        site.guard(None if site.least(repeat) > 0 else repeat, write)


def pack(site: Site) -> None:
    """Write a copy of the first lanes of each row to contiguous places, where rows are whole blocks."""
    lanes, repeat, block = site.expr("lanes"), site.expr("repeat"), BLOCK_BYTES // site.size("src")
    if multiple(lanes) % block:
        raise site.refusal("its rows do not end on blocks, and no page says that a copy within UB may begin between them")

    def write() -> None:
        src = site.view("src", Int(0), (repeat, lanes), (site.constant("src_rep") * block, 1))
        dst = site.view("dst", Int(0), (repeat, lanes), (lanes, 1))
        site.barrier()
        op(site.body, "copy", [(src.value, src.type)], [dst])
    site.guard(None if site.least(repeat) > 0 else repeat, write)


def shift(site: Site) -> None:
    """Write a shift of bits by a number."""
    amount = site.expr("scalar")
    if not isinstance(amount, (Int, Float)):
        raise site.refusal("how far it shifts is known only when the kernel runs")
    kind = TYPES[site.dtype("src")]
    number = site.body.constant(int(amount.value), kind)

    def write(views: Sequence[View], stays: str) -> None:
        site.barrier()
        op(site.body, {"vshls": "vshl", "vshrs": "vshr"}[site.op], [(views[1].value, views[1].type), (number, kind)], views[:1],
           behind=f"broadcast = {stays}" if stays else "")
    each_piece(site, operands_of(site), write)


FUNCTIONS: dict[str, Callable[[Site], None]] = {
    **dict.fromkeys(WORDS, elementwise), **dict.fromkeys(ROUNDING, convert), "vconv": convert, "vcopy": copy, "vdup": fill,
    **{n: reduce_blocks if n.startswith("vcg") else reduce for n in REDUCTIONS},
    "vbrcb": fill_blocks, "vnchwconv": turn, "vreducev2": pack, "vshls": shift, "vshrs": shift}
