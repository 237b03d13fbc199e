"""Emission of sums over rows: many rows of a buffer, one below the other, are added to one row of the target.

Rows of whole blocks that follow each other are one run. One instruction adds sixteen or sixty-four of them to as many sums, which are
then added by halves. So the startup cost of an instruction is paid once for many rows. Rows may be a few blocks and lie in many planes,
such as the pixels of images. Then a repeat takes a few rows of a plane, and the repeats step over planes.
"""
from __future__ import annotations

from dataclasses import dataclass

from aoec.ir.func.tir import Loop, blocks
from aoec.ir.index import Expr, Int, Read, Var, affine, ceildiv, le, minimum, normalise, reads, select, substitute, variables
from aoec.ir.program import For, Item
from aoec.lowering.emit.emit_runs import BLOCKS, MAX_REPEAT, MAX_STRIDE, lanes_of, make, nest, product_sum, run, when
from aoec.lowering.emit.tile import Emitter, TileOp, base_offset, c0, dtype_size, largest, loop_strides
from aoec.lowering.emit.vector.emit_lanes import require_rows
from aoec.target.isa.words import VectorOp

FEW, MANY = 16, 64  # rows an instruction takes: multiples of sixteen, since sixteen blocks are a period of the banks
PITCH = 9  # blocks from one plane's sums to the next's
HALF_PERIOD = 256  # bytes: two sources of one instruction that start so far apart come together (2201)


@dataclass(frozen=True, slots=True)
class Rows:
    """`count` rows, `pitch` elements from start to start without gaps, at `at` of a buffer; `outer`: loops around, reduced or not."""

    count: Expr
    pitch: Expr
    at: Expr
    to: Expr
    outer: tuple[Loop, ...]
    source: Read
    target: Read


def rows_of(em: Emitter, op: TileOp, read: Read, reduced: list[Loop]) -> Rows | None:
    """Return the rows that a reduction adds up, if the source and the target lay out alike what lies within a row; else None."""
    src, dst = em.buffers[read.buffer], em.buffers[op.block.target.buffer]
    places = {v: d for d, i in enumerate(read.indices) for v in single_loop(i, op.names)}
    if not all(lp.var in places for lp in op.loops):
        return None
    row = max(reduced, key=lambda lp: places[lp.var])
    within = len(src.shape) - 1 - places[row.var]
    inner = [lp for lp in op.loops if places[lp.var] > places[row.var]]
    s_src, s_dst = loop_strides(src, read.indices, op), loop_strides(dst, op.block.target.indices, op)
    same = all(s_src[lp.var] == s_dst.get(lp.var) for lp in inner)
    if not inner or not within or not same or shape(src.shape[-within:]) != shape(dst.shape[-within:]):
        return None
    outer = [lp for lp in op.loops if lp is not row and lp not in inner]
    for name, s in ((src.name, s_src), (dst.name, s_dst)):
        require_rows(em, op, name, s, [(lp.var, lp.extent) for lp in outer])
    at = base_offset(src, read.indices, op.names) + product_sum(s_src, [lp.var for lp in outer])
    to = base_offset(dst, op.block.target.indices, op.names) + product_sum(s_dst, [lp.var for lp in outer if lp.var in s_dst])
    return Rows(row.extent, s_src[row.var], at, to, tuple(outer), read, op.block.target)


def single_loop(index: Expr, names: frozenset[str]) -> list[str]:
    """Return the one loop that an index steps with, by ones; an empty list where there is none."""
    parts = affine(index, names)
    found = list(parts[0].items()) if parts else []
    return [found[0][0]] if len(found) == 1 and found[0][1] == Int(1) else []


def shape(extents: tuple[Expr, ...]) -> list[Expr]:
    return [normalise(e) for e in extents]


def fold_rows(em: Emitter, op: TileOp, rows: Rows, fold: str, one_by_one: list[Item], parts: bool) -> list[Item]:
    """Add groups of rows plane by plane, then the rows left over, then halves, then the last row to the target."""
    n = rows.count
    if not parts and not lanes_move(em, rows.source.buffer) and (planes := Planes.of(em, op, rows, fold)) is not None:
        return planes.fold_rows()
    if not parts and isinstance(n, Int) and n.value < FEW:
        return one_by_one
    repeats = ceildiv(rows.pitch, lanes_of(dtype_size(em.buffers[rows.source.buffer])))
    least = (1 + repeats) * MANY  # rows: for fewer the halves of more sums cost more than fewer heads save
    sums = sums_buffer(em, rows.source.buffer, select(le(least, largest(n, op.above)), MANY, FEW) * rows.pitch)
    body = fold_groups(em, rows, sums, le(least, n), fold)
    return [*when(em, le(n, FEW - 1), one_by_one), *when(em, le(FEW, n), nest([(lp.var, lp.extent) for lp in rows.outer], body))]


def lanes_move(em: Emitter, name: str) -> bool:
    """Return whether a buffer in UB holds a tile of rows: loops around it move along the rows in GM. Its last tile may be shorter then,
    and the distance between rows may depend on a hole."""
    for b, above in blocks(em.func.body):
        own = {lp.var for lp in above if lp.kind == "tensor"}
        for r in reads(b.value) if b.target.buffer == name else ():
            if em.buffers[r.buffer].scope == "GM" and variables(r.indices[-1]) - own:
                return True
            if em.buffers[r.buffer].scope == "UB" and r.buffer != name and lanes_move(em, r.buffer):
                return True
    return False


def sums_buffer(em: Emitter, source: str, elements: Expr) -> str:
    """Return a buffer for sums, half a period of the banks from where the source starts."""
    skewed = em.buffers[source].skew != Int(0)
    return em.add_scratch(em.buffers[source].dtype, normalise(elements), 0 if skewed else HALF_PERIOD)


def fold_groups(em: Emitter, rows: Rows, sums: str, wide: Expr, fold: str) -> list[Item]:
    """Copy the first FEW rows (MANY where `wide`) and add all others to them, so many at a time.
    Then fold halves, and write the last row to the target."""
    v, source, width = em.fresh("fold"), rows.source.buffer, normalise(select(wide, MANY, FEW))
    start = (Var(v) + 1) * width
    first = run(em, VectorOp("vcopy", ()), (sums, Int(0)), [(source, rows.at)], width * rows.pitch)
    count = minimum(width, rows.count - start)
    add = run(em, VectorOp(fold, ()), (sums, Int(0)), [(sums, Int(0)), (source, rows.at + start * rows.pitch)], count * rows.pitch)
    out: list[Item] = [first, For(v, normalise(ceildiv(rows.count, width) - 1), (add,))]
    half = MANY
    while half > 1:
        half //= 2
        these = select(wide, half, 0) if half >= FEW else Int(half)
        out.append(run(em, VectorOp(fold, ()), (sums, Int(0)), [(sums, Int(0)), (sums, half * rows.pitch)], normalise(these * rows.pitch)))
    target = rows.target.buffer
    return [*out, run(em, VectorOp(fold, ()), (target, rows.to), [(target, rows.to), (sums, Int(0))], rows.pitch)]


@dataclass(frozen=True, slots=True)
class Planes:
    """Rows of `blocks` blocks in planes `step` blocks apart: a repeat takes the rows that eight blocks hold."""

    em: Emitter
    rows: Rows
    fold: str
    plane: Loop
    blocks: int
    step: int
    to_step: int
    above: tuple[Loop, ...]

    @classmethod
    def of(cls, em: Emitter, op: TileOp, rows: Rows, fold: str) -> Planes | None:
        """Return the planes, where there is one loop over them and all sizes are known and fit an instruction; else None."""
        src, dst = em.buffers[rows.source.buffer], em.buffers[rows.target.buffer]
        if len(rows.outer) != 1 or not isinstance(rows.count, Int) or not isinstance(rows.pitch, Int):
            return None
        v, unit = rows.outer[0].var, c0(src)
        step = loop_strides(src, rows.source.indices, op).get(v)
        to_step = loop_strides(dst, rows.target.indices, op).get(v)
        if not isinstance(step, Int) or not isinstance(to_step, Int) or step.value % unit or to_step.value % unit:
            return None
        blocks = rows.pitch.value // unit
        fits = BLOCKS % blocks == 0 and step.value // unit <= MAX_STRIDE and rows.count.value * blocks >= 2 * BLOCKS
        return cls(em, rows, fold, rows.outer[0], blocks, step.value // unit, to_step.value // unit, op.above) if fits else None

    def fold_rows(self) -> list[Item]:
        """Return groups of rows added plane by plane, the rows left over, halves, and the last row onto the target."""
        v, width = self.em.fresh("planes"), BLOCKS // self.blocks
        sums = Sums.of(self, Var(v) * MAX_REPEAT)
        groups, left = divmod(self.rows.count.value, width)  # type: ignore[attr-defined]
        more = self.em.fresh("fold")
        body = [sums.full_repeat("vcopy", self.source(Int(0), v)),
                For(more, Int(groups - 1), (sums.full_repeat(self.fold, self.source((Var(more) + 1) * BLOCKS, v)),))]
        for block in range(left * self.blocks):
            body.append(sums.block(Int(block), self.source(Int(groups * BLOCKS + block), v), self.step))
        while width > 2:
            width //= 2
            body.append(sums.full_repeat(self.fold, (sums.name, Int(width * self.blocks * sums.unit))))
        if width == 2:
            body += [sums.block(Int(b), (sums.name, Int((self.blocks + b) * sums.unit)), PITCH) for b in range(self.blocks)]
        body += [sums.out(b, self.to(v, b)) for b in range(self.blocks)]
        return [For(v, normalise(ceildiv(self.plane.extent, MAX_REPEAT)), tuple(body))]

    def source(self, block: Expr, v: str) -> tuple[str, Expr]:
        """Return a block of the first plane that an instruction of loop `v` reads."""
        unit = c0(self.em.buffers[self.rows.source.buffer])
        at = substitute(self.rows.at, {self.plane.var: Int(0)})
        return self.rows.source.buffer, at + block * unit + Var(v) * (MAX_REPEAT * self.step * unit)

    def to(self, v: str, block: int) -> tuple[str, Expr]:
        """Return a block of the first plane's target."""
        unit = c0(self.em.buffers[self.rows.source.buffer])
        at = substitute(self.rows.to, {self.plane.var: Int(0)})
        return self.rows.target.buffer, at + block * unit + Var(v) * (MAX_REPEAT * self.to_step * unit)


@dataclass(frozen=True, slots=True)
class Sums:
    """Eight blocks of sums a plane, PITCH blocks apart: an odd number, so that one block of each of eight planes is in eight groups."""

    planes: Planes
    name: str
    count: Expr
    unit: int

    @classmethod
    def of(cls, planes: Planes, done: Expr) -> Sums:
        em, source = planes.em, planes.rows.source.buffer
        unit = c0(em.buffers[source])
        most = largest(planes.plane.extent, planes.above)
        name = sums_buffer(em, source, (minimum(most, MAX_REPEAT) * PITCH + BLOCKS) * unit)
        return cls(planes, name, normalise(minimum(MAX_REPEAT, planes.plane.extent - done)), unit)

    def full_repeat(self, op: str, source: tuple[str, Expr]) -> Item:
        """Fold eight blocks a plane from the source onto the sums. What lies behind the rows is summed too and never used."""
        em = self.planes.em
        own = source[0] == self.name
        operands = {"dst": em.ref(self.name, Int(0))}
        operands |= {"src": em.ref(*source)} if op == "vcopy" else {"src0": operands["dst"], "src1": em.ref(*source)}
        strides = {f"{n}_blk": 1 for n in operands}
        strides |= {f"{n}_rep": self.planes.step if n in ("src", "src1") and not own else PITCH for n in operands}
        return make(VectorOp(op, ()), operands, Int(BLOCKS * self.unit), self.count, strides)  # type: ignore[arg-type]

    def block(self, block: Expr, source: tuple[str, Expr], step: int) -> Item:
        """Return one block a plane from the source, `step` blocks apart, onto that block of the sums."""
        own = (self.name, block * self.unit)
        return self.spread(own, PITCH, own, PITCH, source, step)

    def out(self, block: int, target: tuple[str, Expr]) -> Item:
        """Return one block of each plane's sums onto the target."""
        return self.spread(target, self.planes.to_step, target, self.planes.to_step, (self.name, Int(block * self.unit)), PITCH)

    def spread(self, dst: tuple[str, Expr], to: int, a: tuple[str, Expr], a_step: int, b: tuple[str, Expr], b_step: int) -> Item:
        """dst = a op b, a block of each plane; eight planes a repeat."""
        em, v = self.planes.em, self.planes.em.fresh("rep")
        places = {"dst": (dst, to), "src0": (a, a_step), "src1": (b, b_step)}
        per = MAX_REPEAT if max(to, a_step, b_step) * BLOCKS <= MAX_STRIDE else 1
        total = ceildiv(self.count, BLOCKS)
        repeat = minimum(per, total - Var(v) * per)
        lanes = minimum(BLOCKS, self.count - (Var(v) * per + repeat - 1) * BLOCKS) * self.unit
        operands = {n: em.ref(x, at + Var(v) * (per * BLOCKS * step * self.unit)) for n, ((x, at), step) in places.items()}
        strides = {f"{n}_blk": step for n, (_, step) in places.items()}
        strides |= {f"{n}_rep": step * BLOCKS if per > 1 else 0 for n, (_, step) in places.items()}
        body = make(VectorOp(self.planes.fold, ()), operands, lanes, repeat, strides)  # type: ignore[arg-type]
        return For(v, normalise(ceildiv(total, per)), (body,))
