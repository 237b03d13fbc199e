"""Parts of a func for cores of different kinds, which exchange data in GM: what each kind of core runs, and how one waits for another.

A block belongs to the cores that have its scopes. A local in GM is a ring of slots for each group of cores. The core that fills a slot
signals its readers by a counting flag. Another flag tells it that a slot is free again. Loops of kind core inside others are cores too:
each core of the outer grid has that many cores of the kind whose blocks they hold.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from aoec.base.errors import UnsupportedError
from aoec.ir.func.evaluate import block_reads, lifetime, touched_buffers
from aoec.ir.func.tir import Block, Buffer, Func, Loop, Node, blocks, walk
from aoec.ir.index import Expr, Int, Read, Var, normalise, rebuild, substitute, variables
from aoec.ir.program import CrossSet, CrossWait, For, Item, Tensor
from aoec.ir.rewrite import map_exprs
from aoec.lowering.emit.tile import Home, product
from aoec.target.machine import Machine

SHARE = "share"  # the axis of cores of one kind within a group


@dataclass(frozen=True, slots=True)
class Part:
    """What cores of one kind run of a func: `func` with their blocks alone, whose body lacks the loops over cores, which are `grid`."""

    core: str
    func: Func
    grid: tuple[Loop, ...]


@dataclass(frozen=True, slots=True)
class Meeting:
    """A local in GM that one stream writes and another reads. It has the loops of its home, the element where a core's slot begins, and
    two flags: that a slot is full, and that it is free."""

    buffer: Buffer
    writer: str
    reader: str
    home: Home
    start: Expr
    cores: tuple[Expr, ...]
    full: Int
    free: Int

    def around(self, stream: str, pipe: str) -> tuple[Item, Item]:
        """Return the items before and behind the pieces of a stream that touch the local on a pipe."""
        if stream == self.writer:
            return CrossWait(pipe, self.reader, self.free), CrossSet(pipe, self.reader, self.full)
        return CrossWait(pipe, self.writer, self.full), CrossSet(pipe, self.writer, self.free)

    def begin(self, stream: str, pipe: str) -> list[Item]:
        """Return the items by which the reader says that all slots are free."""
        free = CrossSet(pipe, self.writer, self.free)
        return [For(f"{self.buffer.name}_free", self.buffer.depth, (free,))] if stream == self.reader else []

    def end(self, stream: str, pipe: str) -> list[Item]:
        """Return the waits for slots that were said to be free and are not used again, so that no flag is left."""
        rest = CrossWait(pipe, self.reader, self.free)
        return [For(f"{self.buffer.name}_rest", self.buffer.depth, (rest,))] if stream == self.writer else []

    @property
    def tensor(self) -> Tensor:
        """Return the ring in GM: of each group of cores, slot after slot."""
        b = self.buffer
        return Tensor(b.name, b.dtype, tuple(normalise(e) for e in (*self.cores, b.depth, *b.shape)), "temp")


def parts(func: Func, machine: Machine) -> list[Part]:
    """Return the func by kinds of cores, cubes first; one part where one kind runs all of it."""
    grid, body = split_grid(func.body)
    kinds = {b.name: _kind(func, b, machine) for b, _ in blocks(func.body)}
    found = [k for k in machine.cores if k in set(kinds.values())]
    if len(found) < 2:
        kind = "aic" if any(b.scope.startswith("L") for b in func.locals) else "aiv"
        return [Part("core" if "core" in machine.cores else kind, replace(func, body=body), tuple(grid))]
    return [_part(func, body, kind, grid, {n for n, k in kinds.items() if k == kind}) for kind in found]


def split_grid(body: tuple[Node, ...]) -> tuple[list[Loop], tuple[Node, ...]]:
    """Return the core loops, outermost first, and what they enclose."""
    grid: list[Loop] = []
    while len(body) == 1 and isinstance(body[0], Loop) and body[0].kind == "core":
        grid.append(body[0])
        body = body[0].body
    return grid, body


def _kind(func: Func, block: Block, machine: Machine) -> str:
    """Return the kind of cores that have all scopes of a block; "" where it touches GM alone."""
    scopes = {func.buffer(b).scope for b in touched_buffers(block)} - {"GM"}
    kinds = [k for k in machine.cores if all(k in machine.scope(s).cores for s in scopes)]
    if not kinds:
        raise UnsupportedError(f"block {block.name}: no core of {machine.name} has {' and '.join(sorted(scopes))}")
    return kinds[0] if scopes else ""


def _part(func: Func, body: tuple[Node, ...], kind: str, grid: Sequence[Loop], own: set[str]) -> Part:
    """Return the blocks of one kind of cores, with the core loops inside others as one more axis of the grid."""
    inner = [n for n, _ in walk(_only(body, own, set())) if isinstance(n, Loop) and n.kind == "core"]
    extents = list(dict.fromkeys(normalise(lp.extent) for lp in inner))
    if len(extents) > 1:
        raise UnsupportedError(f"cores of kind {kind} share loops {inner[0].var} and another that has more or fewer iterations")
    body = _only(body, own, {lp.var for lp in inner})
    axis: dict[str, Expr] = {lp.var: Var(SHARE) for lp in inner}
    used = {b for block, _ in blocks(body) for b in touched_buffers(block)}
    made = replace(func, body=body, locals=tuple(b for b in func.locals if b.name in used))
    made = map_exprs(made, lambda e: normalise(substitute(e, axis)) if variables(e) & axis.keys() else e)
    return Part(kind, _each_its_own(made), (*grid, *[Loop(SHARE, e, (), "core") for e in extents]))


def _only(body: tuple[Node, ...], own: set[str], without: set[str]) -> tuple[Node, ...]:
    """Return the body with these blocks alone, and without some loops around them; loops left empty go too."""
    out: list[Node] = []
    for n in body:
        if isinstance(n, Block):
            out += [n] if n.name in own else []
        elif inside := _only(n.body, own, without):
            out += inside if n.var in without else [replace(n, body=inside)]
    return tuple(out)


def _each_its_own(func: Func) -> Func:
    """Return the func with locals on chip that have an element of their first dimension for each core without that dimension."""
    found: dict[str, set[Expr]] = {}
    for block, _ in blocks(func.body):
        for r in [block.target, *block_reads(block)]:
            found.setdefault(r.buffer, set()).update(r.indices[:1])
    mine = {b.name for b in func.locals if b.scope != "GM" and found[b.name] == {Var(SHARE)}}

    def one(e: Expr) -> Expr:
        return Read(e.buffer, e.indices[1:]) if isinstance(e, Read) and e.buffer in mine else rebuild(e, one)
    func = map_exprs(func, one)
    return replace(func, locals=tuple(replace(b, shape=b.shape[1:]) if b.name in mine else b for b in func.locals))


# ---------------------------------------------------------------- where streams meet

def meetings(func: Func, found: Sequence[Part], machine: Machine) -> dict[str, Meeting]:
    """Return the locals in GM, each made by one stream and read by another."""
    out: dict[str, Meeting] = {}
    for b in (b for b in func.locals if b.scope == "GM"):
        made = {p.core for p in found for block, _ in blocks(p.func.body) if block.target.buffer == b.name}
        read = {p.core for p in found for block, _ in blocks(p.func.body) if b.name in {r.buffer for r in block_reads(block)}}
        if len(made) != 1 or len(read) != 1 or made == read:
            raise UnsupportedError(f"buffer {b.name} lies in GM between blocks of one func: give it a scope on the core, "
                                   "or schedule the func first")
        grid, _ = split_grid(func.body)
        core: Expr = Int(0)
        for lp in grid:
            core = core * lp.extent + Var(lp.var)
        start = (core * b.depth + Var(f"{b.name}_slot")) * product(list(b.shape))
        home = tuple(lp.var for lp in lifetime(func, b.name))
        first = 2 * len(out)
        if first + 2 > machine.cross_ids:
            raise UnsupportedError(f"streams of {machine.name} meet by {machine.cross_ids} flags; {b.name} is one buffer too many")
        out[b.name] = Meeting(b, made.pop(), read.pop(), home, start, tuple(lp.extent for lp in grid), Int(first), Int(first + 1))
    return out
