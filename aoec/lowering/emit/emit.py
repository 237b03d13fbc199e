"""Func -> program: instructions with addresses, slots and flags; loops kept, holes kept.

A buffer lives within one iteration of its *home*, the innermost loop around every block that touches it. In the body of the home its
accesses form a chain of pipes P1 -> P2 -> ... . A flag from each pipe to the next hands the buffer over, and the last pipe gives the
slot back to the first. A buffer with depth d has d slots, and d ids for each flag. A counter that advances once an iteration chooses
among them. The flags that give slots back are set before the outermost loop and waited for after it, which is right for any trip count.
"""
from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from aoec.base.errors import CheckError, UnsupportedError
from aoec.ir.func.tir import Block, Buffer, Constraint, Func, Loop, Node, blocks
from aoec.ir.index import DTYPES, Expr, Int, Var, ceildiv, le, minimum, normalise, reads, round_up, substitute, variables
from aoec.ir.program import (
    Advance,
    For,
    Item,
    Program,
    SetFlag,
    Space,
    Stream,
    Tensor,
    WaitFlag,
)
from aoec.ir.rewrite import drop_counters, map_items
from aoec.lowering.emit import emit_ahead
from aoec.lowering.emit.copy import emit_copy, emit_gather, emit_pixels
from aoec.lowering.emit.cube import emit_coupled, emit_cube, emit_fixpipe
from aoec.lowering.emit.emit_flags import Flags
from aoec.lowering.emit.emit_place import place, share
from aoec.lowering.emit.emit_runs import when
from aoec.lowering.emit.emit_streams import Meeting, Part, meetings, parts
from aoec.lowering.emit.narrow import emit_ends, emit_narrow, emit_pack, emit_unpack
from aoec.lowering.emit.tile import Access, Emitter, Home, Piece, TileOp, c0, product
from aoec.lowering.emit.vector import emit_exact, emit_laid, emit_offsets, emit_transpose, emit_vector
from aoec.target.machine import Machine


def emit(func: Func, machine: Machine) -> Program:
    """Return the program of a scheduled func; raises CheckError or UnsupportedError where a block has no instruction."""
    func = emit_fixpipe.widen_scales(func)
    found = parts(func, machine)
    meet = meetings(func, found, machine)
    made = [emit_part(p, machine, meet) for p in found]
    constraints = [Constraint(normalise(c.condition), c.reason) for c in [*func.constraints, *[c for _, _, own in made for c in own]]]
    spaces = tuple(s for _, own, _ in made for s in own)
    return Program(func.name, machine.name, (*tensors(func), *[m.tensor for m in meet.values()]), spaces,
                   tuple(stream for stream, _, _ in made), tuple(c for c in dict.fromkeys(constraints) if c.condition != Int(1)))


def emit_part(part: Part, machine: Machine, meet: dict[str, Meeting]) -> tuple[Stream, tuple[Space, ...], list[Constraint]]:
    """Return the stream of one kind of cores, its buffers on chip, and its constraints."""
    func, grid, core = part.func, part.grid, part.core
    ops = [tile_op(b, above) for b, above in blocks(wrap_in_grid(func, grid).body)]
    meet = {n: m for n, m in meet.items() if n in {b.name for b in func.locals}}
    axes = tuple(lp.var for lp in grid)
    homes = find_homes(func, ops, {n: (*axes, *[v for v in m.home if v not in axes]) for n, m in meet.items()})
    counters = {name: f"{name}_slot" for name in homes}
    em = Emitter(func, machine, counters)
    em.shared = {n: m.start for n, m in meet.items()}
    emit_coupled.columns_apart(em, ops)
    emit_laid.lay_out_rows(em, ops)
    for op in ops:
        emit_pixels.whole_pixels(em, op)
        if emit_offsets.is_indexed(em, op):
            emit_offsets.whole_offsets(em, op)
        elif emit_unpack.is_unpacking(em, op):
            emit_unpack.whole_shares(em, op)
        elif emit_narrow.is_narrow(em, op):
            emit_narrow.whole_groups(em, op)
        elif emit_ends.is_end(em, op):
            emit_ends.whole_rows_of_ends(em, op)
        elif emit_transpose.is_transpose(em, op):
            em.halves[op.block.name] = emit_transpose.whole_transposes(em, op)
        elif emit_pack.is_packing(em, op):
            emit_pack.whole_repeats(em, op)
    flags = Flags()
    pieces = Body(em, ops, homes, flags, core, meet)
    items = pieces.emit(func.body, axes, True)
    own = {n: h for n, h in homes.items() if n not in meet}
    spaces, capacity = place(em, share(em, own, pieces.order, flags.counted), machine)
    stream = Stream(core, core, tuple((lp.var, lp.extent) for lp in grid),
                    (*((counters[n], em.buffers[n].depth) for n in flags.counted), *flags.loads.items()),
                    tuple(unique_loops([*flags.before(), *items, *flags.after()], {lp.var for lp in grid})))
    stream = drop_counters(stream, [c for n, c in counters.items() if n not in flags.counted])
    limits = [Constraint(le(flags.ids(pair), machine.flag_ids),
                         f"flags {pair[0]} to {pair[1]} have {machine.flag_ids} ids; use fewer buffer slots") for pair in flags.pairs]
    limits += [Constraint(le(m.buffer.depth, machine.cross_count), f"{n} has more slots than a flag between streams counts")
               for n, m in meet.items()]
    count = machine.core(core).count
    cores = Constraint(le(product([lp.extent for lp in grid]), count), f"the grid takes more than the {count} {core} cores")
    return stream, spaces, [cores, *limits, *capacity, *em.constraints]


def wrap_in_grid(func: Func, grid: tuple[Loop, ...]) -> Func:
    """Wrap the func in the loops of its grid."""
    body = func.body
    for lp in reversed(grid):
        body = (replace(lp, body=body),)
    return replace(func, body=body)


def tile_op(block: Block, above: tuple[Loop, ...]) -> TileOp:
    """Return the block with its tensor loops apart from the others; every block must be tensorized."""
    outer = tuple(lp for lp in above if lp.kind != "tensor")
    inner = tuple(lp for lp in above if lp.kind == "tensor")
    if block.instr is None:
        raise CheckError(f"block {block.name} is not tensorized: it has no instruction; use tensorize, or a default schedule")
    if above != outer + inner:
        raise CheckError(f"block {block.name}: a serial loop lies inside its tensor loops")
    return TileOp(block, inner, outer)


def touched_buffers(op: TileOp) -> list[str]:
    init = reads(op.block.init) if op.block.init is not None else []
    return [op.block.target.buffer] + [r.buffer for r in [*reads(op.block.value), *init]]


def find_homes(func: Func, ops: list[TileOp], known: Mapping[str, Home]) -> dict[str, Home]:
    """Return local buffer -> the loops around its life; `known`: of those that others touch too."""
    out: dict[str, Home] = dict(known)
    for b in (b for b in func.locals if b.name not in known):
        paths = [tuple(lp.var for lp in op.above) for op in ops if b.name in touched_buffers(op)]
        if not paths:
            continue
        common = paths[0]
        for p in paths[1:]:
            common = common[:next((i for i, (x, y) in enumerate(zip(common, p)) if x != y), min(len(common), len(p)))]
        out[b.name] = common
    return out


MOST_APART = 5  # buffers that are brought once, from which on one flag says that all are there: there are few flags


class LoopError(CheckError):
    """A loop that cannot be emitted; `loop` is its name, so that a caller with the text can show the place."""

    def __init__(self, loop: str, message: str) -> None:
        super().__init__(message)
        self.loop = loop


class Body:
    """Emission of loop bodies: pieces in order, with the flags of the buffers that live there around them."""

    def __init__(self, em: Emitter, ops: list[TileOp], homes: dict[str, Home], flags: Flags, stream: str,
                 meet: Mapping[str, Meeting]) -> None:
        self.em, self.homes, self.flags, self.stream, self.meet = em, homes, flags, stream, meet
        self.ops = {op.block.name: op for op in ops}
        self.order: dict[str, list[int]] = {}  # buffer -> positions of the pieces that touch it in its home
        self.emitted: dict[str, list[Piece]] = {}  # block -> its pieces
        self.extents: dict[str, Expr] = {}  # of the loops that are being emitted
        self.ahead: dict[Home, emit_ahead.Parts] = {}  # loops whose loads run ahead of them
        self.late: dict[Home, Item] = {}  # loops behind which something of their last iterations is done
        self.biases = frozenset(r.buffer for op in ops if op.block.instr == "epilogue" for r in reads(op.block.value)[1:])
        self._position = 0

    def emit(self, body: tuple[Node, ...], path: Home, outermost: bool = False) -> list[Item]:
        """Return the items of a body in loops; `outermost`: it is all that a core does."""
        pieces: list[Piece] = []
        for node in body:
            if isinstance(node, Loop) and node.kind != "tensor":
                self.extents[node.var] = normalise(node.extent)
                inner = self.emit(node.body, (*path, node.var))
                parts = self.ahead.pop((*path, node.var), None)
                whole = parts.items(inner) if parts else (For(node.var, self.extents[node.var], tuple(inner)),)
                rest = (self.late.pop((*path, node.var)),) if (*path, node.var) in self.late else ()
                pieces.append(Piece((*whole, *rest), self.below(node)))
            else:
                pieces += self.tile(innermost(node), path)
        single = [n for n, home in self.homes.items() if home == path and self.em.buffers[n].depth == Int(1)]
        once = loaded_once(pieces, single) if outermost else []
        once = once if len(once) >= MOST_APART else []
        pieces = [*(p for p in pieces if p.accesses in once), *(p for p in pieces if p.accesses not in once)]
        self.note(pieces, path)
        return self.with_flags(pieces, path, len(once))

    def below(self, node: Loop) -> tuple[Access, ...]:
        """Return accesses of everything under a loop to buffers that live outside it."""
        return tuple(a for a in self._accesses(node.body) if node.var not in self.homes[a.buffer])

    def _accesses(self, body: tuple[Node, ...]) -> list[Access]:
        out: list[Access] = []
        for n in body:
            out += self._accesses(n.body) if isinstance(n, Loop) else [a for p in self.emitted[n.name] for a in p.accesses]
        return [a for a in dict.fromkeys(out) if a.buffer in self.homes]

    def tile(self, block: Block, path: Home) -> list[Piece]:
        """Return the pieces of a block; what vector instructions need for themselves lives in them alone."""
        before = len(self.em.scratch)
        try:
            pieces = self.instruction(self.ops[block.name])
        except UnsupportedError as e:
            named = str(e).startswith("block ")
            raise UnsupportedError(str(e) if named else f"block {block.name}: {e}", at=block.name) from e
        alone = [{a.pipe for a in p.accesses} for p in pieces] == [{"V"}]
        pieces = emit_exact.with_others(self.em, pieces) if alone else pieces
        own = [b.name for b in self.em.scratch[before:]]
        if alone:
            self.homes.update(dict.fromkeys(own, path))
            pieces = [replace(p, accesses=(*p.accesses, *[Access(n, "V", True) for n in own])) for p in pieces]
        self.emitted[block.name] = pieces
        return pieces

    def instruction(self, op: TileOp) -> list[Piece]:
        """Return the pieces of a tile operation, by the scopes it moves between."""
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
        """Return (C1, H, W) extents of the image that the copy into `buffer` leaves there."""
        writer = next(op for op in self.ops.values() if op.block.target.buffer == buffer)
        dims = [product([lp.extent for lp in writer.loops if lp.var in variables(i)]) for i in writer.block.target.indices]
        return dims[1], dims[2], dims[3]

    def note(self, pieces: list[Piece], path: Home) -> None:
        """Note when each buffer of this loop is in use. Pieces may run an iteration late. A buffer that only they touch is then in use
        from the place where they run. A buffer that they share with others is in use from the start of an iteration to its end."""
        start, late = self._position + 1, self.late_pieces([n for n, home in self.homes.items() if home == path], pieces)
        for p in pieces:
            self._position += 1
            for a in p.accesses:
                if self.homes.get(a.buffer) == path:
                    self.order.setdefault(a.buffer, []).append(self._position)
        for name in {a.buffer for i in late for a in pieces[i].accesses if self.homes.get(a.buffer) == path}:
            own = emit_ahead.touching([name], pieces) <= late
            more = [start + emit_ahead.place(pieces, late)] if own else [start, self._position]
            self.order[name] = sorted([*self.order[name], *more])
        self._position += 1

    def late_pieces(self, names: list[str], pieces: list[Piece]) -> set[int]:
        """Return the pieces that are done an iteration late."""
        return emit_ahead.touching([n for n in names if self.em.buffers[n].ahead == emit_ahead.LATE], pieces)

    def with_flags(self, pieces: list[Piece], path: Home, once: int = 0) -> list[Item]:
        """Return the items of pieces with the flags of what lives there. The first `once` are loads that one flag says are done."""
        before: list[list[Item]] = [[] for _ in pieces]
        after: list[list[Item]] = [[] for _ in pieces]
        names = [n for n, home in self.homes.items() if home == path]
        together = {a.buffer for p in pieces[:once] for a in p.accesses}
        handed = [n for n in names if n not in together and self.hand_over(n, pieces, before, after)]
        if once:
            flag = self.flags.take("MTE2", "V", Int(1))
            after[once - 1].append(SetFlag("MTE2", "V", flag))
            before[min(i for i, p in enumerate(pieces[once:], once) if any(a.buffer in together for a in p.accesses))].append(
                WaitFlag("MTE2", "V", flag))
            self.flags.counted += sorted(together)
            handed += sorted(together)
        whole = [[*b, *p.items, *a] for b, p, a in zip(before, pieces, after)]
        early = {n: self.early(n, pieces) for n in names if self.is_early(n)}
        late = self.late_pieces(names, pieces)
        if any(0 < len(emit_ahead.touching([n], pieces) & late) < len(emit_ahead.touching([n], pieces))
               and self.em.buffers[n].depth != Int(1) for n in handed):
            raise UnsupportedError("what is done an iteration late takes what it needs from one slot")
        apart = {i for found in early.values() for i in found} | late
        gone = {n: found for found in (*early.values(), late) for n in emit_ahead.private_buffers(handed, pieces, found)}
        counted = {i: [*whole[i], *[Advance(self.em.counters[n]) for n, found in gone.items() if max(found) == i]] for i in apart}
        rest = {i: [] if i in apart else items for i, items in enumerate(whole)}
        if late:
            at = emit_ahead.place(pieces, late)
            rest[at] = [*self.issued_late([item for i in sorted(late) for item in counted[i]], path), *rest.get(at, [])]
        advance: list[Item] = [Advance(self.em.counters[n]) for n in handed if n not in gone]
        first = {found[0]: (n, found) for n, found in early.items()}
        out: list[Item] = []
        for i, items in sorted(rest.items()):
            if i in first:
                name, found = first[i]
                out += self.load_ahead(name, tuple(item for j in found for item in counted[j]), path, name not in gone)
            out += items
        if early:
            self.ahead[path].last += [*(item for _, items in sorted(rest.items()) for item in items), *advance]
        return out + advance

    def is_early(self, name: str) -> bool:
        """Return whether the pieces that fill a buffer are issued ahead. For a buffer that several streams share, the one that fills it
        decides."""
        ahead = self.em.buffers[name].ahead
        return ahead is not None and ahead != emit_ahead.LATE and (name not in self.meet or self.meet[name].writer == self.stream)

    def early(self, name: str, pieces: list[Piece]) -> list[int]:
        """Return the pieces that fill a buffer ahead of its use: of one in which streams meet, or in L0C, all that lead to it."""
        buffer, chain = self.em.buffers[name], runs(name, pieces)
        assert buffer.ahead is not None
        whole = name in self.meet or buffer.scope == "L0C"
        found = list(range(chain[0][2] + 1)) if whole else emit_ahead.filling(chain)
        if self.homes[name][-1] not in self.extents or not found:
            raise UnsupportedError(f"buffer {name} is not filled by one load in the loop around its life, so none can be issued ahead")
        if name not in self.meet:
            self.em.require(le(buffer.ahead + 1, buffer.depth), f"{name} has more slots than loads issued ahead; use double_buffer")
        return found

    def load_ahead(self, name: str, items: tuple[Item, ...], path: Home, counts: bool) -> list[Item]:
        """Return the items that replace a load that is issued ahead. `counts`: the load counts slots of its own."""
        buffer, own = self.em.buffers[name], f"{name}_load"
        assert buffer.ahead is not None
        parts = self.ahead.setdefault(path, emit_ahead.Parts(path[-1], self.extents[path[-1]], buffer.ahead))
        if parts.ahead != buffer.ahead:
            raise UnsupportedError(f"buffer {name}: all loads in loop {path[-1]} are as far ahead; give preload the same distance")
        if counts:
            self.flags.loads[own] = buffer.depth
        return parts.load(items, self.em.counters[name] if counts else "", own)

    def issued_late(self, items: list[Item], path: Home) -> list[Item]:
        """Return the work of the previous iteration, where there is one. The work of the last iteration stands behind the loop."""
        loop, extent = path[-1], self.extents[path[-1]]
        self.late[path] = For(f"{loop}_rest", normalise(minimum(1, extent)), emit_ahead.items_at(items, loop, extent - 1))
        return when(self.em, le(1, Var(loop)), list(emit_ahead.items_at(items, loop, Var(loop) - 1)))

    def hand_over(self, name: str, pieces: list[Piece], before: list[list[Item]], after: list[list[Item]]) -> bool:
        """Put the flags of one buffer around the pieces. Return False where one pipe does all, so that order suffices."""
        chain = runs(name, pieces)
        if name in self.meet:
            return self.across(self.meet[name], chain, before, after)
        if len({pipe for pipe, _, _ in chain}) < 2:
            return False
        depth, slot = self.em.buffers[name].depth, Var(self.em.counters[name])
        ring = chain[0][0] != chain[-1][0]
        for (source, _, end), (target, start, _) in pairwise(chain):
            given, waits, _ = self.flags.between(source, target, depth, slot)
            after[end].append(given)
            before[start] += waits
        if ring:
            source, target = chain[-1][0], chain[0][0]
            given, waits, base = self.flags.between(source, target, depth, slot)
            before[chain[0][1]][:0] = waits
            end = chain[-1][2]
            pieces[end] = emit_coupled.given_back(self.em, pieces[end], name, given)
            self.flags.free.append((given.source, given.target, base, depth))
        self.flags.counted.append(name)
        return True


    def across(self, meet: Meeting, chain: list[tuple[str, int, int]], before: list[list[Item]], after: list[list[Item]]) -> bool:
        """Put the flags of a buffer that several streams share around the pieces that touch it. Return True."""
        if len(chain) != 1:
            raise UnsupportedError(f"buffer {meet.buffer.name} is touched by several pipes of {self.stream}, or by one at several times")
        ((pipe, start, end),) = chain
        wait, set_ = meet.around(self.stream, pipe)
        before[start].insert(0, wait)
        after[end].append(set_)
        self.flags.begin += meet.begin(self.stream, pipe)
        self.flags.end += meet.end(self.stream, pipe)
        self.flags.counted.append(meet.buffer.name)
        return True


def loaded_once(pieces: list[Piece], names: Sequence[str]) -> list[tuple[Access, ...]]:
    """Return accesses of the pieces that bring one of the named buffers to UB once, for the vector unit alone."""
    out = []
    for name in names:
        chain = runs(name, pieces)
        if [(pipe, start == end) for pipe, start, end in chain[:1]] == [("MTE2", True)] and [pipe for pipe, _, _ in chain[1:]] == ["V"]:
            own = pieces[chain[0][1]].accesses
            out += [own] if [a.buffer for a in own] == [name] else []
    return out


def innermost(node: Node) -> Block:
    while isinstance(node, Loop):
        if len(node.body) != 1:
            raise LoopError(node.var, f"tensor loop {node.var} encloses more than one statement; one instruction does one block")
        node = node.body[0]
    return node


def runs(name: str, pieces: list[Piece]) -> list[tuple[str, int, int]]:
    """Return (pipe, first piece, last piece) of a buffer's accesses, neighbours on one pipe taken together."""
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
    """Return items with every loop variable named once in the stream."""
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
    """Return the GM tensors of a func, as stored."""
    return [Tensor(b.name, b.dtype, tuple(normalise(s) for s in stored_shape(b)), role)
            for role, buffers in (("input", func.inputs), ("output", func.outputs)) for b in buffers]


def stored_shape(b: Buffer) -> tuple[Expr, ...]:
    """Return the shape of what is stored: whole fractals for ZN and NZ, planes of channels for NC1HWC0."""
    if b.layout == "NC1HWC0":
        return (*b.shape[:-2], ceildiv(b.shape[-1], c0(b)), b.shape[-2], Int(c0(b)))
    if b.layout not in ("ZN", "NZ"):
        return b.shape
    unit = 32 // DTYPES[b.dtype]
    deep, wide = b.shape[-2:] if b.layout == "ZN" else (b.shape[-1], b.shape[-2])
    return (*b.shape[:-2], round_up(deep, unit) // unit, round_up(wide, 16) // 16, Int(16), Int(unit))
