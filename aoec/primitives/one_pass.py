"""The nests of a softmax between two products that is made in one pass (the primitive online): what happens in a part of the keys."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from aoec.base.errors import ScheduleError
from aoec.ir.func.tir import Block, Buffer, Constraint, Func, Loop, Node, blocks
from aoec.ir.index import (
    Binary,
    Expr,
    Float,
    Int,
    Read,
    Var,
    call,
    ceildiv,
    le,
    lt,
    minimum,
    normalise,
    reads,
    rebuild,
    select,
    substitute,
    variables,
)
from aoec.primitives.softmax import COLUMN, KEY, LEAD, ROW, Nest, Softmax

LEAST = Float(-3.0e38)  # of fp32, nearly: exp of how far -inf is below it is 0; below -inf it would be no number


class OnePass:
    """The func in the making: its buffers and loops. Rows are r in what cubes work on, (v, i) in what vector units do; columns are j."""

    def __init__(self, func: Func, found: Softmax, rows: Expr, keys: Expr, shares: Expr | None, columns: Expr | None, tile: str,
                 part: str, whole: bool = False) -> None:
        self.func, self.found, self.rows, self.keys, self.once = func, found, rows, keys, whole
        self.split, self.shares = shares is not None, Int(1) if shares is None else shares  # whether shares have a loop, and how many
        self.tile, self.lead = Var(tile), Var(found.product.loop(LEAD))
        self.part_loop, self.part = part, Int(0) if whole else Var(part)
        self.ahead: list[Node] = []  # what neither a row nor a leading axis changes
        self.result = found.product.extent(COLUMN)
        self.columns = self.result if columns is None else columns
        self.locals: list[Buffer] = []
        self.held: dict[str, str] = {}  # local of the func -> what holds a tile of it
        self.every = found.scores.extent(ROW), found.scores.extent(KEY)

    # ------------------------------------------------------------ sizes

    @property
    def tall(self) -> Expr:
        """Return the number of rows of a tile."""
        return normalise(self.rows * self.shares)

    @property
    def valid(self) -> Expr:
        """Return the number of keys of the part."""
        return normalise(minimum(self.keys, self.every[1] - self.part * self.keys))

    def constraints(self) -> tuple[Constraint, ...]:
        """Return the constraints: each share has rows in every tile, so that no core waits for another in vain. The carried result holds
        every column, and one part holds every key."""
        last = (self.every[0] - 1) % self.tall
        busy = normalise(le((self.shares - 1) * self.rows, last))
        all_keys = (Constraint(normalise(le(self.every[1], self.keys)), "the one part has all keys"),) if self.once else ()
        return (*all_keys, Constraint(busy, "every share of the last tile of rows has some; use smaller tiles"),
                Constraint(normalise(le(self.result, self.columns)), "the result that is carried has all columns"))

    # ------------------------------------------------------------ the whole

    def body(self) -> tuple[Node, ...]:
        f = self.found
        o = f.product.block.target.buffer
        if self.once:
            once = [*self.scores(), *self.shares_of(), self.reduce_part(f.total, "+="), *self.results(), *self.after()]
            around = Loop(self.tile.name, normalise(ceildiv(self.every[0], self.tall)), tuple(once))
            return (*self.ahead, Loop(self.lead.name, f.product.extent(LEAD), (around,)))
        start = [self.rowwise(f.top, "_start", LEAST), self.rowwise(f.total, "_start", Float(0.0)),
                 self.vector(o, f"{o}_start", Float(0.0), self.columns)]
        parts = [*self.scores(), *self.shares_of(), *self.sums(), *self.results()]
        loop = Loop(self.part_loop, normalise(ceildiv(self.every[1], self.keys)), tuple(parts))
        tiles = Loop(self.tile.name, normalise(ceildiv(self.every[0], self.tall)), (*start, loop, *self.after()))
        return (Loop(self.lead.name, f.product.extent(LEAD), (tiles,)),)

    def scores(self) -> list[Node]:
        """Return the product of the part, and what is done to each score before the greatest is known, where the scores lie."""
        f = self.found
        out = self.cube(f.scores, self.valid)
        c = f.scores.block.target.buffer
        sent: Expr = self.sent_element(f"{c}_out", f"{c}_in")
        before = f.before
        if (plain := self.added_to_columns()) is not None:
            self.before_top(plain[0])
            sent, before = sent + Read(self.held[plain[0].block.target.buffer], (Var(f"{c}_in_j"),)), before[2:]
            self.held[plain[1].block.target.buffer] = f"{c}_in"
        copied = select(lt(Var(f"{c}_in_j"), self.valid), sent, LEAST)
        out.append(self.vector(f"{c}_in", f"{c}_in", copied, self.keys, "fp32"))
        self.held[c] = f"{c}_in"
        for n in before:
            out += self.before_top(n)
        return out

    def before_top(self, n: Nest) -> list[Node]:
        """Return the nodes that run before the greatest score is known, with copies of the inputs that they read. Return none where they
        are put before the whole loop."""
        made = [self.brought(r, n) for r in reads(n.block.value) if r.buffer in {b.name for b in self.func.inputs}]
        made.append(self.each(n))
        if not self.once or any(self.moves(node) for node in made):
            return made
        self.ahead += made
        return []

    def added_to_columns(self) -> tuple[Nest, Nest] | None:
        """Return (the nest that makes numbers for all rows alike, the nest that adds them to the scores first), where the product's way out
        can add them. All keys must be one part, and no core may be between."""
        f, local = self.found, self.found.scores.block.target.buffer
        if not self.once or self.split or len(f.before) < 2:
            return None
        made, add = f.before[:2]
        value, name = add.block.value, made.block.target.buffer
        adds = isinstance(value, Binary) and value.op == "+" and isinstance(value.left, Read) and isinstance(value.right, Read)
        if not adds or (value.left.buffer, value.right.buffer) != (local, name):  # type: ignore[attr-defined]
            return None
        fixed = {made.loop(LEAD), made.loop(ROW)} - {""}
        free = not any(fixed & variables(self.without_zeros(substitute(i, {made.loop(LEAD): self.lead})))
                       for r in reads(made.block.value) for i in r.indices)
        moved = any(self.lead.name in variables(self.without_zeros(substitute(i, {made.loop(LEAD): self.lead})))
                    for r in reads(made.block.value) for i in r.indices)
        return (made, add) if free and not moved and not made.loop(ROW) else None

    def moves(self, node: Node) -> bool:
        """Return whether a nest is other work for another row or place along the leading axis."""
        return any({self.tile.name, self.lead.name} & variables(i) for b, _ in blocks((node,)) for r in [b.target, *reads(b.value)]
                   for i in r.indices) or any(self.local(b.target.buffer).shape[:-1] for b, _ in blocks((node,)))

    def shares_of(self) -> list[Node]:
        """Return the nodes that make the maximum so far and its growth. They also make exp of the scores less the maximum, on its way to
        the product."""
        f, m = self.found, self.found.top.block.target.buffer
        greatest = self.reduce_part(f.top, "max=")
        out = [greatest] if self.once else [
               greatest, self.rowwise(f.top, "_new", call("max", self.row(m, f"{m}_new"), self.row(f"{m}_part", f"{m}_new"))),
               self.rowwise(f.top, "_less", self.row(m, f"{m}_less") - self.row(f"{m}_new", f"{m}_less")),
               self.rowwise(f.top, "_scale", call("exp", self.row(f"{m}_less", f"{m}_scale"))),
               self.vector(m, f"{m}_keep", self.row(f"{m}_new", f"{m}_keep"), None)]
        self.held[m] = f"{m}_part" if self.once else f"{m}_new"
        out += [self.each(f.gap), self.each(f.exp)]
        p = f.cast.block.target.buffer if f.cast else f.exp.block.target.buffer
        if f.cast:
            out.append(self.each(f.cast))
        x = f"{p}_out"
        self.add(x, self.func.buffer(p).dtype, (self.tall, self.keys))
        value = Read(self.held[p], self.at(x, self.keys))
        return [*out, self.nest_block(x, Block(x, Read(x, (self.flat(x), Var(f"{x}_j"))), "=", value), self.keys)]

    def sums(self) -> list[Node]:
        """Return the sum of a row's shares so far."""
        total, scale = self.found.total.block.target.buffer, f"{self.found.top.block.target.buffer}_scale"
        old = self.rowwise(self.found.total, "_old", self.row(total, f"{total}_old") * self.row(scale, f"{total}_old"))
        new = self.row(f"{total}_old", f"{total}_new") + self.row(f"{total}_part", f"{total}_new")
        return [self.reduce_part(self.found.total, "+="), old, self.vector(total, f"{total}_new", new, None)]

    def results(self) -> list[Node]:
        """Return the product of the part, added to the result so far."""
        f, o = self.found, self.found.product.block.target.buffer
        out = self.cube(f.product, self.result)
        copied: Expr = self.sent_element(f"{o}_out", f"{o}_in")
        if self.columns != self.result:
            copied = select(lt(Var(f"{o}_in_j"), self.result), copied, Float(0.0))
        out.append(self.vector(f"{o}_in", f"{o}_in", copied, self.columns, "fp32"))
        if self.once:
            return out
        scale = f"{f.top.block.target.buffer}_scale"
        old = Read(o, self.at(f"{o}_old", self.columns)) * self.row(scale, f"{o}_old")
        new = Read(o, self.at(f"{o}_new", self.columns)) + Read(f"{o}_in", self.at(f"{o}_new", self.columns))
        return [*out, self.vector(o, f"{o}_old", old, self.columns), self.vector(o, f"{o}_new", new, self.columns)]

    def after(self) -> list[Node]:
        """Return what follows, on the whole result of a tile; the output is stored from a buffer of its own."""
        o = self.found.product.block.target.buffer
        total = self.found.total.block.target.buffer
        self.held = {o: f"{o}_in", total: f"{total}_part"} if self.once else {o: o, total: total}
        out: list[Node] = []
        for n in self.found.after[:-1]:
            out.append(self.each(n, self.columns))
        last = self.found.after[-1].block
        y = last.target.buffer
        done = f"{y}_tile"
        value = self.translate(last.value, self.found.after[-1], done)
        out.append(self.vector(done, done, value, self.columns, self.func.buffer(y).dtype))
        own = self.found.after[-1]
        new = {own.loop(LEAD): self.lead, own.loop(ROW): self.row_of(last.name), own.loop(COLUMN): Var(f"{last.name}_j")}
        target = Read(y, tuple(normalise(substitute(i, new)) for i in last.target.indices))
        store = replace(last, target=target, value=Read(done, self.at(last.name, self.columns)))
        return [*out, self.nest_block(last.name, store, self.result)]

    # ------------------------------------------------------------ nests of cubes

    def cube(self, n: Nest, columns: Expr) -> list[Node]:
        """Return a product of the part, and its copy on the way out. It is as wide as `columns`; the other axis runs within."""
        block, name = n.block, n.block.name
        along = next(v for v in n.axes if v not in {i.name for i in block.target.indices if isinstance(i, Var)})
        keys = n.loop(KEY)
        new: dict[str, Expr] = {n.loop(LEAD): self.lead, n.loop(ROW): self.tile * self.tall + Var(f"{name}_r")}
        column = next(v for v in n.axes if v not in (along, n.loop(LEAD), n.loop(ROW)))
        new |= {column: Var(f"{name}_j"), along: Var(f"{name}_k")}
        new[keys] = self.part * self.keys + new[keys]
        deep = self.valid if along == keys else n.extent(n.axes[along])
        value = rebuild(block.value, lambda e: self.factor(e, n, new))
        c = block.target.buffer
        part, out = (c if n is self.found.scores else f"{c}_part"), f"{c}_out"
        width = self.keys if column == keys else self.result
        self.add(part, self.func.buffer(c).dtype, (self.tall, width))
        self.add(out, self.func.buffer(c).dtype, (self.tall, width))
        tall = normalise(minimum(self.tall, self.every[0] - self.tile * self.tall))
        made = Block(name, Read(part, (Var(f"{name}_r"), Var(f"{name}_j"))), "+=", value)
        place = (Var(f"{out}_r"), Var(f"{out}_j"))
        copied = Block(out, Read(out, place), "=", Read(part, place))
        return [nest([(f"{name}_r", tall), (f"{name}_j", columns), (f"{name}_k", deep)], made),
                nest([(f"{out}_r", tall), (f"{out}_j", columns)], copied)]

    def factor(self, e: Expr, n: Nest, new: dict[str, Expr]) -> Expr:
        """Return a factor of a product: of an input where it lies there, of what is made here where its copy lies."""
        if not isinstance(e, Read) or e.buffer in {b.name for b in self.func.inputs}:
            return substitute(e, new)
        return Read(f"{e.buffer}_out", (Var(f"{n.block.name}_r"), Var(f"{n.block.name}_k")))

    # ------------------------------------------------------------ nests of vector units

    def at(self, name: str, columns: Expr | None) -> tuple[Expr, ...]:
        """Return indices of a tile in the nest of a name: of an element, or of a row's one where there are no columns."""
        return (*[Var(f"{name}_v")] * self.split, Var(f"{name}_i"), Int(0) if columns is None else Var(f"{name}_j"))

    def flat(self, name: str) -> Expr:
        """Return the row of a tile of cubes that is row i of share v."""
        return Var(f"{name}_v") * self.rows + Var(f"{name}_i") if self.split else Var(f"{name}_i")

    def row_of(self, name: str) -> Expr:
        """Return the row of an input or output that is row i of share v."""
        return self.tile * self.tall + self.flat(name)

    def row(self, buffer: str, name: str) -> Read:
        """Return a row's one element in the nest of a name."""
        return Read(buffer, self.at(name, None))

    def sent_element(self, buffer: str, name: str) -> Read:
        """Return an element of what a cube has sent."""
        return Read(buffer, (self.flat(name), Var(f"{name}_j")))

    def add(self, name: str, dtype: str, shape: Sequence[Expr]) -> None:
        """Add a local, unless there is one of this name already."""
        if name not in {b.name for b in self.locals}:
            self.locals.append(Buffer(name, dtype, tuple(normalise(e) for e in shape)))

    def nest_block(self, name: str, block: Block, columns: Expr | None) -> Node:
        """Return the block in loops over shares, rows and columns."""
        before = self.tile * self.shares + Var(f"{name}_v") if self.split else self.tile
        count = normalise(minimum(self.rows, self.every[0] - before * self.rows))
        loops: list[tuple[str, Expr]] = [(f"{name}_v", self.shares)] * self.split + [(f"{name}_i", count)]
        whole = nest(loops + ([] if columns is None else [(f"{name}_j", normalise(columns))]), block)
        return replace(whole, kind="core") if self.split and isinstance(whole, Loop) else whole

    def vector(self, buffer: str, name: str, value: Expr, columns: Expr | None, dtype: str = "fp32") -> Node:
        """Return a block of that name over a tile of a buffer."""
        self.add(buffer, dtype, (*[self.shares] * self.split, self.rows, Int(1) if columns is None else columns))
        return self.nest_block(name, Block(name, Read(buffer, self.at(name, columns)), "=", value), columns)

    def rowwise(self, n: Nest, suffix: str, value: Expr) -> Node:
        """Return a block over what there is one of a row: `_start` of the state itself, else of a buffer of its own."""
        name = n.block.target.buffer
        return self.vector(name if suffix == "_start" else f"{name}{suffix}", f"{name}{suffix}", value, None)

    def reduce_part(self, n: Nest, op: str) -> Node:
        """Reduce the part's rows."""
        name = f"{n.block.target.buffer}_part"
        self.add(name, "fp32", (*[self.shares] * self.split, self.rows, Int(1)))
        source = Read(self.held[reads(n.block.value)[0].buffer], self.at(name, self.keys))
        return self.nest_block(name, Block(name, Read(name, self.at(name, None)), op, source), self.keys)

    def each(self, n: Nest, columns: Expr | None = None) -> Node:
        """Return a block that works on each element, in the place of what it reads where that is alike."""
        block, wide = n.block, self.keys if columns is None else columns
        target, kind = block.target.buffer, self.func.buffer(block.target.buffer).dtype
        whole = bool(n.loop(ROW))
        alike = [self.held[r.buffer] for r in reads(block.value) if self.is_whole(r) and not self.read_after(r.buffer, n)]
        place = next((b for b in alike if self.local(b).dtype == kind), target) if whole else target
        self.held[target] = place
        value = self.translate(block.value, n, target)
        if whole:
            return self.vector(place, target, value, wide, kind)
        self.add(target, kind, (wide,))
        return nest([(f"{target}_j", wide)], Block(target, Read(target, (Var(f"{target}_j"),)), block.op, value))

    def is_whole(self, r: Read) -> bool:
        """Return whether a read is of an element that a tile holds, not of a row's one."""
        return r.buffer in self.held and r.indices[-1] != Int(0) and len(r.indices) > 2

    def read_after(self, buffer: str, n: Nest) -> bool:
        """Return whether a block behind another reads a local too, which may not be overwritten then."""
        f = self.found
        order = [f.scores, *f.before, f.top, f.gap, f.exp, f.total, *([f.cast] if f.cast else []), f.product, *f.after]
        return any(r.buffer == buffer for m in order[order.index(n) + 1:] for r in reads(m.block.value))

    def local(self, name: str) -> Buffer:
        return next(b for b in self.locals if b.name == name)

    def translate(self, e: Expr, n: Nest, name: str) -> Expr:
        """Return a value with its reads where the tile's parts lie."""
        if not isinstance(e, Read):
            return rebuild(e, lambda c: self.translate(c, n, name))
        if e.buffer not in self.held:
            raise ScheduleError(f"{n.block.name} reads {e.buffer}, which is not made for a part of the keys alone")
        if self.local(self.held[e.buffer]).shape[:-1] == ():
            return Read(self.held[e.buffer], (Var(f"{name}_j"),))
        return Read(self.held[e.buffer], self.at(name, None if e.indices[-1] == Int(0) else self.keys))

    def brought(self, r: Read, n: Nest) -> Node:
        """Return the copy of what a block reads of an input: zeros behind the last key; a row of it where all queries read one."""
        name = f"{r.buffer}_in"
        rows, j = bool(n.loop(ROW)) and any(n.loop(ROW) in variables(i) for i in r.indices), Var(f"{name}_j")
        new: dict[str, Expr] = {n.loop(LEAD): self.lead, n.loop(ROW): self.row_of(name), n.loop(KEY): self.part * self.keys + j}
        indices = tuple(self.without_zeros(normalise(substitute(i, {k: v for k, v in new.items() if k}))) for i in r.indices)
        value = select(lt(j, self.valid), Read(r.buffer, indices), Float(0.0))
        self.held[r.buffer] = name
        dtype = self.func.buffer(r.buffer).dtype
        if rows:
            return self.vector(name, name, value, self.keys, dtype)
        self.add(name, dtype, (self.keys,))
        return nest([(f"{name}_j", self.keys)], Block(name, Read(name, (j,)), "=", value))


    def without_zeros(self, e: Expr) -> Expr:
        """Return an index in which the whole parts of the leading axis that are always 0 are."""
        count = self.found.product.extent(LEAD)
        if isinstance(e, Binary) and e.op == "//" and e.left == self.lead and isinstance(count, Int) and isinstance(e.right, Int):
            return Int(0) if self.once and count.value <= e.right.value else e
        return normalise(rebuild(e, self.without_zeros))


def nest(loops: Sequence[tuple[str, Expr]], block: Node) -> Node:
    """Return the block inside loops, outermost first."""
    for var, extent in reversed(loops):
        block = Loop(var, normalise(extent), (block,))
    return block
