"""Func -> program: instructions with addresses, slots and flags; loops kept, holes kept.

A buffer lives within one iteration of its *home*, the innermost loop around every block that touches it. In the body of
the home its accesses form a chain of pipes P1 -> P2 -> ... ; each hand-over is a flag from one pipe to the next, and the
last pipe gives the slot back to the first. A buffer with depth d has d slots and d ids a flag, chosen by a counter that
advances once an iteration; give-back flags are set before the outermost loop and drained after it, for any trip count.
"""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

from aoec.base.errors import CheckError, UnsupportedError
from aoec.ir.index import DTYPES, Expr, Int, Var, le, normalise, reads, round_up, substitute, variables
from aoec.ir.program import (
    Advance,
    For,
    Item,
    Program,
    SetFlag,
    Stream,
    Tensor,
    WaitFlag,
)
from aoec.ir.rewrite import drop_counters, map_items
from aoec.ir.tir import Block, Buffer, Constraint, Func, Loop, Node, blocks
from aoec.lowering import (
    emit_ahead,
    emit_copy,
    emit_coupled,
    emit_cube,
    emit_fixpipe,
    emit_gather,
    emit_pixels,
    emit_transpose,
    emit_vector,
)
from aoec.lowering.emit_place import place, share
from aoec.lowering.tile import Access, Emitter, Home, Piece, TileOp, product
from aoec.target.machine import Machine


def emit(func: Func, machine: Machine) -> Program:
    """The program of a scheduled func; raises CheckError or UnsupportedError where a block has no instruction."""
    grid, body = split_grid(func.body)
    ops = [tile_op(b, above) for b, above in blocks(func.body)]
    homes = find_homes(func, ops)
    counters = {name: f"{name}_slot" for name in homes}
    em = Emitter(func, machine, counters)
    for op in ops:
        emit_pixels.whole_pixels(em, op)
    em.halves = {op.block.name: emit_transpose.whole_transposes(em, op) for op in ops if emit_transpose.is_transpose(em, op)}
    flags = Flags()
    pieces = Body(em, ops, homes, flags)
    items = pieces.emit(body, tuple(lp.var for lp in grid))
    spaces, capacity = place(em, share(em, homes, pieces.order, flags.counted), machine)
    core = "aic" if any(b.scope.startswith("L") for b in func.locals) else "aiv"
    core = "core" if "core" in machine.cores else core
    stream = Stream(core, core, tuple((lp.var, lp.extent) for lp in grid),
                    (*((counters[n], em.buffers[n].depth) for n in flags.counted), *flags.loads.items()),
                    tuple(unique_loops([*flags.before(), *items, *flags.after()], {lp.var for lp in grid})))
    stream = drop_counters(stream, [c for n, c in counters.items() if n not in flags.counted])
    limits = [Constraint(le(flags.ids(pair), machine.flag_ids),
                         f"flags {pair[0]} to {pair[1]} have {machine.flag_ids} ids; use fewer buffer slots") for pair in flags.pairs]
    count = machine.core(core).count
    cores = Constraint(le(product([lp.extent for lp in grid]), count), f"the grid takes more than the {count} {core} cores")
    constraints = [Constraint(normalise(c.condition), c.reason) for c in [*func.constraints, cores, *limits, *capacity, *em.constraints]]
    return Program(func.name, machine.name, tuple(tensors(func)), spaces, (stream,),
                   tuple(c for c in dict.fromkeys(constraints) if c.condition != Int(1)))


def split_grid(body: tuple[Node, ...]) -> tuple[list[Loop], tuple[Node, ...]]:
    """The core loops, outermost first, and what they enclose."""
    grid: list[Loop] = []
    while len(body) == 1 and isinstance(body[0], Loop) and body[0].kind == "core":
        grid.append(body[0])
        body = body[0].body
    return grid, body


def tile_op(block: Block, above: tuple[Loop, ...]) -> TileOp:
    """The block with its tensor loops apart from the others; every block must be tensorized."""
    outer = tuple(lp for lp in above if lp.kind != "tensor")
    inner = tuple(lp for lp in above if lp.kind == "tensor")
    if block.instr is None:
        raise CheckError(f"block {block.name} is not tensorized: it has no instruction; use tensorize, or a default schedule")
    if above != outer + inner:
        raise CheckError(f"block {block.name}: a serial loop lies inside its tensor loops")
    return TileOp(block, inner, outer)


def touched(op: TileOp) -> list[str]:
    init = reads(op.block.init) if op.block.init is not None else []
    return [op.block.target.buffer] + [r.buffer for r in [*reads(op.block.value), *init]]


def find_homes(func: Func, ops: list[TileOp]) -> dict[str, Home]:
    """Local buffer -> the loops around its life."""
    out: dict[str, Home] = {}
    for b in func.locals:
        paths = [tuple(lp.var for lp in op.above) for op in ops if b.name in touched(op)]
        if not paths:
            continue
        if b.scope == "GM":
            raise UnsupportedError(f"buffer {b.name} lies in GM between blocks of one func: give it a scope on the core")
        common = paths[0]
        for p in paths[1:]:
            common = common[:next((i for i, (x, y) in enumerate(zip(common, p)) if x != y), min(len(common), len(p)))]
        out[b.name] = common
    return out


class Flags:
    """Ids of the flags between pipe pairs; which hand-backs to set before and drain after."""

    def __init__(self) -> None:
        self.used: dict[tuple[str, str], Expr] = {}
        self.free: list[tuple[str, str, Expr, Expr]] = []
        self.counted: list[str] = []
        self.loads: dict[str, Expr] = {}  # counters of loads that are issued ahead, and their depths

    @property
    def pairs(self) -> list[tuple[str, str]]:
        return list(self.used)

    def ids(self, pair: tuple[str, str]) -> Expr:
        return self.used[pair]

    def take(self, source: str, target: str, depth: Expr) -> Expr:
        """The first of `depth` new ids of a pipe pair."""
        base = self.used.get((source, target), Int(0))
        self.used[source, target] = base + depth
        return base

    def before(self) -> list[Item]:
        """Sets every hand-back flag."""
        return [For(v, depth, (SetFlag(s, t, id),)) for v, s, t, id, depth in self._each("preset")]

    def after(self) -> list[Item]:
        """Waits for every hand-back flag, so that none is left set."""
        return [For(v, depth, (WaitFlag(s, t, id),)) for v, s, t, id, depth in self._each("drain")]

    def _each(self, stem: str) -> list[tuple[str, str, str, Expr, Expr]]:
        return [(f"{stem}_{i}", s, t, normalise(base + Var(f"{stem}_{i}")), depth) for i, (s, t, base, depth) in enumerate(self.free)]


class Body:
    """Emission of loop bodies: pieces in order, with the flags of the buffers that live there around them."""

    def __init__(self, em: Emitter, ops: list[TileOp], homes: dict[str, Home], flags: Flags) -> None:
        self.em, self.homes, self.flags = em, homes, flags
        self.ops = {op.block.name: op for op in ops}
        self.order: dict[str, list[int]] = {}  # buffer -> positions of the pieces that touch it in its home
        self.emitted: dict[str, list[Piece]] = {}  # block -> its pieces
        self.extents: dict[str, Expr] = {}  # of the loops that are being emitted
        self.ahead: dict[Home, emit_ahead.Parts] = {}  # loops whose loads run ahead of them
        self.biases = frozenset(r.buffer for op in ops if op.block.instr == "epilogue" for r in reads(op.block.value)[1:])
        self._position = 0

    def emit(self, body: tuple[Node, ...], path: Home) -> list[Item]:
        pieces: list[Piece] = []
        for node in body:
            if isinstance(node, Loop) and node.kind != "tensor":
                self.extents[node.var] = normalise(node.extent)
                inner = self.emit(node.body, (*path, node.var))
                parts = self.ahead.pop((*path, node.var), None)
                whole = parts.items(inner) if parts else (For(node.var, self.extents[node.var], tuple(inner)),)
                pieces.append(Piece(whole, self.below(node)))
            else:
                pieces += self.tile(innermost(node), path)
        self.note(pieces, path)
        return self.with_flags(pieces, path)

    def below(self, node: Loop) -> tuple[Access, ...]:
        """Accesses of everything under a loop to buffers that live outside it."""
        return tuple(a for a in self._accesses(node.body) if node.var not in self.homes[a.buffer])

    def _accesses(self, body: tuple[Node, ...]) -> list[Access]:
        out: list[Access] = []
        for n in body:
            out += self._accesses(n.body) if isinstance(n, Loop) else [a for p in self.emitted[n.name] for a in p.accesses]
        return [a for a in dict.fromkeys(out) if a.buffer in self.homes]

    def tile(self, block: Block, path: Home) -> list[Piece]:
        """The pieces of a block; what vector instructions need for themselves lives in them alone."""
        before = len(self.em.scratch)
        pieces = self.instruction(self.ops[block.name])
        own = [b.name for b in self.em.scratch[before:]]
        if [{a.pipe for a in p.accesses} for p in pieces] == [{"V"}]:
            self.homes.update(dict.fromkeys(own, path))
            pieces = [replace(p, accesses=(*p.accesses, *[Access(n, "V", True) for n in own])) for p in pieces]
        self.emitted[block.name] = pieces
        return pieces

    def instruction(self, op: TileOp) -> list[Piece]:
        """The pieces of a tile operation, by the scopes it moves between."""
        em, block = self.em, op.block
        sources = [r for r in reads(block.value) if r.buffer in em.buffers]
        to = em.buffers[block.target.buffer].scope
        scopes = {em.buffers[r.buffer].scope for r in sources}
        if (own := emit_coupled.pieces(em, op, scopes, to, self.biases)) is not None:
            return own
        if block.instr == "mmad":
            return [emit_cube.mmad(em, op, frozenset(self.homes[block.target.buffer]))]
        if scopes in ({"L0C"}, {"L0C", "FB"}) and to == "GM":
            return [emit_fixpipe.fixpipe(em, op)]
        if scopes == {"GM"} and to == "L1":
            return [emit_cube.load_l1(em, op, sources[0])]
        if scopes == {"L1"} and block.instr == "load3d":
            src = sources[0]
            return [emit_cube.load3d(em, op, src, frozenset(self.homes[src.buffer]), self.image(src.buffer))]
        if scopes == {"L1"}:
            return [emit_cube.load_l0(em, op, sources[0])]
        if scopes == {"GM", "UB"} and to == "UB" and (index := emit_gather.index_of(op)) is not None:
            return [emit_gather.gather(em, op, index)]
        if scopes == {"GM"} and to == "UB" or scopes == {"UB"} and to == "GM":
            return emit_copy.copy(em, op, sources[0])
        if to == "UB" and scopes <= {"UB"}:
            return [emit_vector.vector(em, op, frozenset(self.homes[block.target.buffer]))]
        raise UnsupportedError(f"block {block.name}: no instruction from {', '.join(sorted(scopes))} to {to}")

    def image(self, buffer: str) -> tuple[Expr, Expr, Expr]:
        """(C1, H, W) extents of the image that the copy into `buffer` leaves there."""
        writer = next(op for op in self.ops.values() if op.block.target.buffer == buffer)
        dims = [product([lp.extent for lp in writer.loops if lp.var in variables(i)]) for i in writer.block.target.indices]
        return dims[1], dims[2], dims[3]

    def note(self, pieces: list[Piece], path: Home) -> None:
        for p in pieces:
            self._position += 1
            for a in p.accesses:
                if self.homes.get(a.buffer) == path:
                    self.order.setdefault(a.buffer, []).append(self._position)
        self._position += 1

    def with_flags(self, pieces: list[Piece], path: Home) -> list[Item]:
        before: list[list[Item]] = [[] for _ in pieces]
        after: list[list[Item]] = [[] for _ in pieces]
        advance: list[Item] = []
        for name, home in self.homes.items():
            if home == path and self.hand_over(name, pieces, before, after):
                advance.append(Advance(self.em.counters[name]))
        early = {n: self.early(n, pieces) for n, home in self.homes.items() if home == path and self.em.buffers[n].ahead is not None}
        first = {found[0]: (n, found) for n, found in early.items()}
        apart = {i for found in early.values() for i in found}
        whole = [(*b, *p.items, *a) for b, p, a in zip(before, pieces, after)]
        out: list[Item] = []
        for i, items in enumerate(whole):
            if i in first:
                name, found = first[i]
                out += self.load_ahead(name, tuple(item for j in found for item in whole[j]), path)
            elif i not in apart:
                out += items
        if early:
            self.ahead[path].last += [*(item for i, items in enumerate(whole) if i not in apart for item in items), *advance]
        return out + advance

    def early(self, name: str, pieces: list[Piece]) -> list[int]:
        """The pieces that fill a buffer ahead of its use."""
        buffer = self.em.buffers[name]
        assert buffer.ahead is not None
        found = emit_ahead.filling(runs(name, pieces))
        if self.homes[name][-1] not in self.extents or not found:
            raise UnsupportedError(f"buffer {name} is not filled by one load in the loop around its life, so none can be issued ahead")
        self.em.require(le(buffer.ahead + 1, buffer.depth), f"{name} has more slots than loads issued ahead; use double_buffer")
        return found

    def load_ahead(self, name: str, items: tuple[Item, ...], path: Home) -> list[Item]:
        """What stands in place of a load that is issued ahead."""
        buffer, own = self.em.buffers[name], f"{name}_load"
        assert buffer.ahead is not None
        parts = self.ahead.setdefault(path, emit_ahead.Parts(path[-1], self.extents[path[-1]], buffer.ahead))
        if parts.ahead != buffer.ahead:
            raise UnsupportedError(f"buffer {name}: all loads in loop {path[-1]} are as far ahead; give preload the same distance")
        self.flags.loads[own] = buffer.depth
        return parts.load(items, self.em.counters[name], own)

    def hand_over(self, name: str, pieces: list[Piece], before: list[list[Item]], after: list[list[Item]]) -> bool:
        """Puts the flags of one buffer around the pieces; False where one pipe does all and order suffices."""
        chain = runs(name, pieces)
        if len({pipe for pipe, _, _ in chain}) < 2:
            return False
        depth, slot = self.em.buffers[name].depth, Var(self.em.counters[name])
        ring = chain[0][0] != chain[-1][0]
        for (source, _, end), (target, start, _) in pairwise(chain):
            flag = normalise(self.flags.take(source, target, depth) + slot)
            after[end].append(SetFlag(source, target, flag))
            before[start].append(WaitFlag(source, target, flag))
        if ring:
            source, target = chain[-1][0], chain[0][0]
            base = self.flags.take(source, target, depth)
            flag = normalise(base + slot)
            before[chain[0][1]].insert(0, WaitFlag(source, target, flag))
            end = chain[-1][2]
            pieces[end] = emit_coupled.given_back(self.em, pieces[end], name, SetFlag(source, target, flag))
            self.flags.free.append((source, target, base, depth))
        self.flags.counted.append(name)
        return True


def innermost(node: Node) -> Block:
    while isinstance(node, Loop):
        if len(node.body) != 1:
            raise CheckError(f"tensor loop {node.var} encloses more than one statement")
        node = node.body[0]
    return node


def runs(name: str, pieces: list[Piece]) -> list[tuple[str, int, int]]:
    """(pipe, first piece, last piece) of a buffer's accesses, neighbours on one pipe taken together."""
    out: list[tuple[str, int, int]] = []
    for i, p in enumerate(pieces):
        pipes = list(dict.fromkeys(a.pipe for a in p.accesses if a.buffer == name))
        if len(pipes) > 1:
            raise UnsupportedError(f"buffer {name} is used by pipes {' and '.join(pipes)} in one loop inside its own")
        for pipe in pipes:
            if out and out[-1][0] == pipe:
                out[-1] = (pipe, out[-1][1], i)
            else:
                out.append((pipe, i, i))
    return out


# ---------------------------------------------------------------- tidying

def unique_loops(items: Iterable[Item], taken: set[str]) -> list[Item]:
    """Items with every loop variable named once in the stream."""
    out: list[Item] = []
    for it in items:
        if isinstance(it, For):
            name, n = it.var, 1
            while name in taken:
                name, n = f"{it.var}_{n}", n + 1
            taken.add(name)
            body = it.body if name == it.var else rename_loop(it.body, it.var, name)
            it = For(name, it.trips, tuple(unique_loops(body, taken)))
        out.append(it)
    return out


def rename_loop(body: tuple[Item, ...], old: str, new: str) -> tuple[Item, ...]:
    return map_items(body, lambda e: substitute(e, {old: Var(new)}))


def tensors(func: Func) -> list[Tensor]:
    """The GM tensors of a func, as stored."""
    return [Tensor(b.name, b.dtype, tuple(normalise(s) for s in stored_shape(b)), role)
            for role, buffers in (("input", func.inputs), ("output", func.outputs)) for b in buffers]


def stored_shape(b: Buffer) -> tuple[Expr, ...]:
    """The shape of what is stored: whole fractals for ZN and NZ."""
    if b.layout not in ("ZN", "NZ"):
        return b.shape
    unit = 32 // DTYPES[b.dtype]
    deep, wide = b.shape[-2:] if b.layout == "ZN" else (b.shape[-1], b.shape[-2])
    return (*b.shape[:-2], round_up(deep, unit) // unit, round_up(wide, 16) // 16, Int(16), Int(unit))
