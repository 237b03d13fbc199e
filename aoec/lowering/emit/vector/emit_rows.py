"""Emission of reductions of many short rows at once: blocks of all rows are folded lane by lane, then transposed so that lanes become rows.

Rows of a known length are folded to one block each, block by block, with eight rows a repeat. Where rows are too far apart for that, a
repeat takes eight blocks of one row. Sixteen rows of a block are transposed into lanes of sixteen elements, one a row, and these are folded
by halves. The elements of a row in its last block are transposed apart from the rest, so that lanes behind the row take no part. The sums
of a few rows are made by a whole reduce instead, with a repeat for each row. Where the core reduces blocks, rows of fp32 that are a repeat
each become eight elements, then one, and nothing is transposed.

Long rows that follow each other are parts of eight blocks, the same number in each row. First that many neighbouring parts become one,
for all rows in one instruction. Then the few parts that are left of each row are folded. So the startup cost of an instruction is paid
less often.
"""
from __future__ import annotations

from dataclasses import dataclass, replace

from aoec.ir.index import Expr, Int, Var, ceildiv, le, minimum, normalise, select
from aoec.ir.program import For, Item, Ref
from aoec.lowering.emit.emit_runs import BLOCKS, MAX_REPEAT, MAX_STRIDE, either_of, make, nest, one_of, operand_names
from aoec.lowering.emit.tile import Emitter, c0, dtype_size, instr
from aoec.target.isa.words import VectorOp

SIXTEEN = 16  # rows that are turned at once
PITCH = 9  # blocks from row to row of eight blocks of sums: odd, so that one block of eight rows is in eight bank groups
TURNED = 17  # blocks from one sixteen of rows to the next, turned: odd for the same reason
FEW = 24  # rows up to which a whole reduce's seven cycles a repeat are less than the instructions that turn
FEW_BLOCKS = 6  # the same beside two reductions of blocks
BY_BLOCKS = {"vadd": "vcgadd", "vmax": "vcgmax", "vmin": "vcgmin"}
MOST_PARTS = 64  # parts of rows, of 256 bytes, that are kept between two foldings

Place = tuple[str, Expr, int]  # buffer, element, blocks from row to row


@dataclass(frozen=True, slots=True)
class ShortRows:
    """`count` rows (at most `most`) of `inner` elements, `step` blocks apart, from `at` of a buffer, to be folded with `fold`."""

    em: Emitter
    buffer: str
    at: Expr
    step: int
    count: Expr
    most: Expr
    inner: int
    fold: str

    @property
    def unit(self) -> int:
        return c0(self.em.buffers[self.buffer])

    @property
    def halves(self) -> int:
        """Return the number of blocks that sixteen elements take."""
        return SIXTEEN // self.unit

    @property
    def near(self) -> bool:
        """Return whether a repeat can step over eight rows."""
        return self.step * BLOCKS <= MAX_STRIDE

    @property
    def wide(self) -> bool:
        """Return whether eight blocks of each row are folded at a time. That takes fewer instructions than one block at a time, but
        three foldings by halves afterwards."""
        full = self.inner // self.unit
        return full >= (2 * BLOCKS if self.near else BLOCKS)

    @property
    def least(self) -> int:
        """Return the number of rows from which on this pays. It compares its instructions with two for each row. Each of those two takes
        a whole reduce's seven cycles a repeat."""
        full, tail = divmod(self.inner, self.unit)
        groups = full // BLOCKS
        width = neighbours(groups) if self.folds_neighbours(full) else 1
        eights = width - 1 + max(groups // width - 1, 1) if width > 1 else groups
        folds = eights + full % BLOCKS + 3 if self.wide else full
        tail = tail if full else tail - (1 << tail.bit_length() - 1)
        return max(2, (folds + tail * self.halves + 8) // 3)

    @property
    def batch(self) -> int:
        """Return the number of rows that the repeats of an instruction can take, one or eight a repeat, in whole sixteens."""
        return (MAX_REPEAT if self.wide else MAX_REPEAT * BLOCKS) // SIXTEEN * SIXTEEN

    def reduce_rows(self, result: str) -> list[Item]:
        """Return the items that reduce the rows to a run of elements in `result`, batch after batch. It holds a multiple of sixteen."""
        v, most = self.em.fresh("batch"), normalise(minimum(self.most, self.batch))
        done = Var(v) * self.batch
        count = minimum(self.batch, self.count - done)
        part = replace(self, at=self.at + done * (self.step * self.unit), count=count, most=most)
        return nest([(v, ceildiv(self.count, self.batch))], part.at_once(result, done))

    def at_once(self, result: str, to: Expr) -> list[Item]:
        """Return the items for at most a batch of rows, from element `to` of the result on."""
        pitch, full = PITCH if self.wide else 1, self.inner // self.unit
        one_repeat = self.inner == BLOCKS * self.unit and self.em.buffers[self.buffer].dtype == "fp32"
        if one_repeat and self.em.machine.has(BY_BLOCKS[self.fold]):
            return self.by_blocks(self.source(Int(0)), result, to)
        sums, turned = self.scratch(pitch), self.scratch(0)
        turns = self.across(sums, pitch, turned, result, to)
        if not full:
            return [self.blockwise("vcopy", (sums, Int(0), 1), [self.source(Int(0))], self.count), *turns]
        first = self.fold_blocks(sums, pitch, full)
        if pitch != PITCH:
            return [*first, *turns]
        return [*first, *self.from_eight(sums, turns, result, to)]

    def from_eight(self, sums: str, turns: list[Item], result: str, to: Expr) -> list[Item]:
        """Return the items that fold eight blocks of each row to an element: a whole reduce of a few rows, else onto one block, and
        `turns`."""
        turned = [*self.onto_first(sums, PITCH), *turns]
        if self.em.buffers[sums].dtype != "fp32" or self.inner % self.unit:
            return turned
        by_blocks = self.em.machine.has(BY_BLOCKS[self.fold])
        if by_blocks:
            turned = self.by_blocks((sums, Int(0), PITCH), result, to)
        if self.fold != "vadd":
            return turned
        whole = instr("vcadd", dst=self.em.ref(result, to), src=self.em.ref(sums, Int(0)), lanes=BLOCKS * self.unit, repeat=self.count,
                      dst_rep=1, src_blk=1, src_rep=PITCH)
        return either_of(self.em, le(self.count, FEW_BLOCKS if by_blocks else FEW), [whole], turned)

    def by_blocks(self, sums: Place, result: str, to: Expr) -> list[Item]:
        """Return the items that fold eight blocks of each row to eight elements, and these to one."""
        word, kept, total = BY_BLOCKS[self.fold], self.scratch(1), ceildiv(self.count, BLOCKS)
        whole = instr(word, dst=self.em.ref(kept, Int(0)), src=self.em.ref(sums[0], sums[1]), lanes=BLOCKS * self.unit, repeat=self.count,
                      dst_rep=1, src_blk=1, src_rep=sums[2])
        rest = (self.count - (total - 1) * BLOCKS) * self.unit
        last = instr(word, dst=self.em.ref(result, to), src=self.em.ref(kept, Int(0)), lanes=rest, repeat=total, dst_rep=1, src_blk=1,
                     src_rep=BLOCKS)
        return [whole, last]

    def across(self, sums: str, pitch: int, turned: str, result: str, to: Expr) -> list[Item]:
        """Return the items that fold one block of each row, with `pitch` blocks from row to row, and the rows' last blocks, to one
        element."""
        groups, full = normalise(ceildiv(self.count, SIXTEEN)), self.inner // self.unit
        out, half = [self.turn(sums, pitch, turned, groups)], BLOCKS
        if not full:
            lanes = 1 << self.inner.bit_length() - 1
            out.append(self.onto_lanes((turned, Int(0), 1), (turned, Int(lanes), 1), self.inner - lanes, groups))
            half = lanes * self.halves // 2
        elif self.inner % self.unit:
            out += self.tails(turned, groups, full)
        while half > self.halves:
            out.append(self.full_repeats(self.fold, (turned, Int(0), TURNED), (turned, Int(half * self.unit), TURNED), groups))
            half //= 2
        for h in range(self.halves):
            pair: list[Place] = [(turned, Int((at + h) * self.unit), TURNED) for at in (0, self.halves)]
            out.append(self.blockwise(self.fold, (result, to + h * self.unit, self.halves), pair, groups))
        return out

    def scratch(self, pitch: int) -> str:
        """Return a buffer with `pitch` blocks a row, or, where `pitch` is 0, one for transposed sixteens of rows. The eight blocks
        behind it are read and not used."""
        groups = ceildiv(self.most, SIXTEEN)
        blocks = groups * (SIXTEEN * pitch if pitch else TURNED) + BLOCKS
        return self.em.add_scratch(self.em.buffers[self.buffer].dtype, normalise(blocks * self.unit))

    def source(self, block: Expr) -> Place:
        return self.buffer, self.at + block * self.unit, self.step

    def fold_blocks(self, sums: str, pitch: int, full: int) -> list[Item]:
        """Fold the rows' whole blocks to one each, `pitch` blocks apart, or to eight where that is nine."""
        groups, own = full // BLOCKS if pitch == PITCH else 0, (sums, Int(0), pitch)
        if not groups:
            b = self.em.fresh("fold")
            rest = self.blockwise(self.fold, own, [own, self.source(Var(b) + 1)], self.count)
            return [self.blockwise("vcopy", own, [self.source(Int(0))], self.count), For(b, Int(full - 1), (rest,))]
        if self.folds_neighbours(full) and (width := neighbours(groups)) > 1:
            left = groups // width
            few = normalise(le(self.most * left, MOST_PARTS))
            return one_of(self.em, few, self.fold_neighbours(sums, width, left, few), self.fold_groups(sums, groups, full))
        return self.fold_groups(sums, groups, full)

    def folds_neighbours(self, full: int) -> bool:
        """Return whether rows of so many whole blocks follow each other, so that parts of all rows are folded an instruction."""
        return self.step == full and self.inner % (BLOCKS * self.unit) == 0

    def fold_neighbours(self, sums: str, width: int, left: int, few: Expr) -> list[Item]:
        """Fold so many neighbouring eights of blocks to one, those of all rows an instruction, and what is left of each row to its sums.
        A part starts half a period of the banks from its neighbour, so that both are read at once."""
        each = BLOCKS * self.unit
        kept = self.em.add_scratch(self.em.buffers[self.buffer].dtype, normalise(select(few, self.most * (left * each), each)))
        own, part = (kept, Int(0), BLOCKS), self.em.fresh("part")
        places = [(self.buffer, self.at + n * each, width * BLOCKS) for n in (Int(0), Int(1), Var(part) + 2)]
        count = self.count * left
        first = self.repeats(own, places[:2], count)
        more = For(part, Int(width - 2), (self.repeats(own, [own, places[2]], count),))
        rest = replace(self, buffer=kept, at=Int(0), step=left * BLOCKS, inner=left * each)
        return [first, more, *rest.fold_groups(sums, left, left * BLOCKS)]

    def repeats(self, dst: Place, sources: list[Place], count: Expr) -> Item:
        """Return so many repeats of eight blocks, each side at steps of its own."""
        places = [dst, *sources]
        strides = {n: (1, p[2]) for n, p in zip(operand_names(len(sources)), places)}
        return self.make(self.fold, places, Int(0), Int(BLOCKS * self.unit), count, strides)

    def fold_groups(self, sums: str, groups: int, full: int) -> list[Item]:
        """Fold the rows' whole blocks to eight each, eight of every row an instruction, and those left over a block of every row."""
        own, pitch = (sums, Int(0), PITCH), PITCH
        g, b = self.em.fresh("fold"), self.em.fresh("fold")
        taken = min(groups, 2)  # the first two at once
        rest = self.full_repeats(self.fold, own, self.source((Var(g) + taken) * BLOCKS), self.count)
        out: list[Item] = [self.first(own, taken), For(g, Int(groups - taken), (rest,))]
        one = (sums, Var(b) * self.unit, pitch)
        out.append(For(b, Int(full % BLOCKS), (self.blockwise(self.fold, one, [one, self.source(Var(b) + groups * BLOCKS)], self.count),)))
        return out

    def onto_first(self, sums: str, pitch: int) -> list[Item]:
        """Return eight blocks of each row folded onto its first: four onto four a repeat for each row, the rest a block of eight rows a
        repeat, which takes a quarter of the repeats, or an eighth, for a head more."""
        out = [self.full_repeats(self.fold, (sums, Int(0), pitch), (sums, Int(4 * self.unit), pitch), self.count)]
        for b, half in ((0, 2), (1, 2), (0, 1)):
            one = (sums, Int(b * self.unit), pitch)
            out.append(self.blockwise(self.fold, one, [one, (sums, Int((b + half) * self.unit), pitch)], self.count))
        return out

    def first(self, sums: Place, groups: int) -> Item:
        """Return eight blocks of each row in the sums: the first, or the first two folded."""
        if groups == 1:
            return self.full_repeats("vcopy", sums, self.source(Int(0)), self.count)
        return self.repeats(sums, [self.source(Int(0)), self.source(Int(BLOCKS))], self.count)

    def turn(self, source: str, pitch: int, turned: str, groups: Expr) -> Item:
        """Return the transposition of sixteen rows of one block to lanes of sixteen elements, group after group."""
        return instr("vnchwconv", dst=self.em.ref(turned, Int(0)), src=self.em.ref(source, Int(0)), repeat=groups, dst_stride=self.halves,
                     dst_half=1, src_stride=pitch, dst_rep=TURNED, src_rep=SIXTEEN * pitch)

    def tails(self, turned: str, groups: Expr, full: int) -> list[Item]:
        """Return the items that transpose the rows' last blocks and fold them, lane by lane, onto the first lane."""
        last, lanes = self.scratch(1), self.scratch(0)
        out = [self.blockwise("vcopy", (last, Int(0), 1), [self.source(Int(full))], self.count), self.turn(last, 1, lanes, groups)]
        return [*out, self.onto_lanes((turned, Int(0), 0), (lanes, Int(0), 1), self.inner % self.unit, groups)]

    def onto_lanes(self, to: Place, source: Place, count: int, groups: Expr) -> Item:
        """Return so many lanes of turned rows folded onto others; in a place of lanes the last number is lanes from one to the next."""
        lane, body = self.em.fresh("lane"), []
        for h in range(self.halves):
            own, other = ((b, ((at + Var(lane) * step) * self.halves + h) * self.unit, TURNED) for b, at, step in (to, source))
            body.append(self.blockwise(self.fold, own, [own, other], groups))
        return For(lane, Int(count), tuple(body))

    def full_repeats(self, name: str, dst: Place, source: Place, count: Expr) -> Item:
        """Fold eight blocks a row from the source onto dst, a repeat for each row. What lies behind the rows is never used."""
        places = [dst, source] if name == "vcopy" else [dst, dst, source]
        strides = {n: (1, p[2]) for n, p in zip(operand_names(len(places) - 1), places)}
        return self.make(name, places, Int(0), Int(BLOCKS * self.unit), count, strides)

    def blockwise(self, name: str, dst: Place, sources: list[Place], count: Expr) -> Item:
        """Return an instruction on one block a row, eight rows a repeat."""
        places, total = [dst, *sources], ceildiv(count, BLOCKS)
        names = operand_names(len(sources))
        if max(p[2] for p in places) * BLOCKS <= MAX_STRIDE:
            lanes = (count - (total - 1) * BLOCKS) * self.unit
            return self.make(name, places, Int(0), lanes, total, {n: (p[2], p[2] * BLOCKS) for n, p in zip(names, places)})
        v = self.em.fresh("rows")
        lanes = minimum(BLOCKS, count - Var(v) * BLOCKS) * self.unit
        strides = {n: (p[2], 0) for n, p in zip(names, places)}
        return For(v, normalise(total), (self.make(name, places, Var(v) * BLOCKS, lanes, Int(1), strides),))

    def make(self, name: str, places: list[Place], row: Expr, lanes: Expr, repeat: Expr, strides: dict[str, tuple[int, int]]) -> Item:
        operands: dict[str, Expr | Ref] = {n: self.em.ref(b, at + row * (step * self.unit)) for n, (b, at, step) in zip(strides, places)}
        fields = {f"{n}_blk": blk for n, (blk, _) in strides.items()} | {f"{n}_rep": rep for n, (_, rep) in strides.items()}
        return make(VectorOp(name, ()), operands, lanes, repeat, fields)


def neighbours(groups: int) -> int:
    """Return how many neighbours become one for the fewest instructions; 1 where nothing is saved."""
    found = [n for n in range(2, groups) if groups % n == 0 and n * BLOCKS <= MAX_STRIDE]
    return min(found, key=lambda n: (n + groups // n, -n), default=1)


def short_rows(em: Emitter, buffer: str, at: Expr, step: Expr, count: Expr, most: Expr, inner: Expr, fold: str) -> ShortRows | None:
    """Return the rows, where their length and distance are known and fit an instruction's strides; else None."""
    if not isinstance(step, Int) or not isinstance(inner, Int) or dtype_size(em.buffers[buffer]) not in (2, 4):
        return None
    unit = c0(em.buffers[buffer])
    fits = step.value % unit == 0 and step.value // unit <= MAX_STRIDE and inner.value > 1
    return ShortRows(em, buffer, at, step.value // unit, count, most, inner.value, fold) if fits else None
