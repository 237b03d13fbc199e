"""Rows of results and inputs that are no whole blocks of 32 bytes: in what ways they leave UB and come into it.

Where MTE3 writes whole blocks alone, the rest of a row goes through the scalar unit, and cores may not share a block. Each burst that is
not whole blocks is then a call of its own. On such chips short rows are packed in UB, and taken apart. The ends of longer rows are stored
as blocks of their own.
"""
from __future__ import annotations

from collections.abc import Collection
from math import gcd, prod

from aoec.ir.func.narrow import copied_whole, run_of
from aoec.ir.func.pixels import pixels_of
from aoec.ir.func.tir import Func
from aoec.ir.index import DTYPES, Call, Expr, Int, Read, Var, affine, reads, variables
from aoec.search.sketches.nests import Nest, dtype_bytes, nests
from aoec.search.sketches.padding import own_name
from aoec.target.isa.words import is_selection
from aoec.target.machine import Machine

PACKED = (16, 8192)  # bytes of rows between which packing pays: an instruction a repeat, beside 2 bytes a cycle of at most 512 (2201)
PACK, ENDS = "pack", "end_blocks"  # the primitives by which rows that are no whole blocks leave UB in whole ones
TURNED = 256  # bytes of rows up to which they are packed by turns, of which sixteen times sixteen lie in UB
MASKED = 1024  # bytes of rows up to which it pays whatever else is done to them, where each repeat of them has a mask


def cores_of(machine: Machine) -> int:
    return machine.core("core" if "core" in machine.cores else "aiv").count


def turns(func: Func) -> bool:
    """Return True where a block in UB only turns what lies there: its rows run over other elements than those that it reads."""
    held = {b.name for b in func.locals}
    moves = [(n.block.target, n.block.value) for n in nests(func) if n.block.op == "=" and n.block.target.buffer in held]
    return any(isinstance(v, Read) and v.buffer in held and v.indices[-1] != to.indices[-1] and to.indices[-1] != Int(0)
               and not reads(v.indices[-1]) for to, v in moves)


def rows_read(out: Nest) -> bool:
    """Return True where an output is a copy of one element a row, each in a block of its own: no row of the output lies in UB."""
    return isinstance(out.block.value, Read) and bool(out.block.value.indices) and out.block.value.indices[-1] == Int(0)


def copies_only(func: Func) -> bool:
    """Return True for a copy, or one through a local that is filled by another."""
    found = nests(func)
    return len(found) <= 2 and all(from_gm(func, n) or isinstance(n.block.value, Read) for n in found)


def from_gm(func: Func, n: Nest) -> bool:
    """Return True where a block only moves a part of a GM tensor, perhaps with padding; elements of a run that go one to a row go through
    UB."""
    if n.block.op != "=" or n.block.target.indices[-1] == Int(0):
        return False
    if pixels_of(n.block):
        return False
    value: Expr = n.block.value
    source = value.args[1] if isinstance(value, Call) and value.fn == "select" and not is_selection(value) else value
    return isinstance(source, Read) and source.buffer in {b.name for b in func.inputs}


def narrow_runs(func: Func, machine: Machine) -> frozenset[str]:
    """Return the buffers of narrow rows that blocks transpose; none where there is none. Rows may have elements of two or four bytes, which
    the unit transposes. Bytes are transposed as 16 bits, where bursts of less than a block are slow. Copies between these buffers and GM
    take whole runs, since one row begins where no block does."""
    held, there = {b.name for b in func.locals}, {b.name: b.shape for b in (*func.inputs, *func.outputs)}
    sizes = (2, 4) if machine.has("copy_ub_gm", parts=1) else (1, 2, 4)
    if not turns(func) or (size := DTYPES[func.outputs[-1].dtype]) not in sizes:
        return frozenset()
    found = [(n, {lp.var: lp.extent.value for lp in n.loops if isinstance(lp.extent, Int)}) for n in nests(func)]
    runs = frozenset(b for n, extents in found if (b := run_of(n.block, extents, size)) in held)
    copies = [(n.block, extents, run, names) for n, extents in found for run in runs
              if run in (names := {n.block.target.buffer, *(r.buffer for r in reads(n.block.value))})]
    apart = any(not copied_whole(b, run, extents, there[name], size) for b, extents, run, names in copies for name in names & set(there))
    return frozenset() if apart else runs


def ruled_axes(out: Nest) -> list[str]:
    """Return the loops up to the last that the extents of others depend on: they stay serial, since the loops of one instruction have no
    corners cut."""
    names, ruling = [lp.var for lp in out.loops], {v for lp in out.loops for v in variables(lp.extent)}
    return names[:max((names.index(v) + 1 for v in ruling), default=0)]


def row_after_row(out: Nest, around: Collection[str] = ()) -> bool:
    """Return True where a block's loops, but for those `around` an instruction, walk its target in order, without a gap: each index is one
    of them, or counts some, such as blocks of channels and the channels in each. Only the outermost may be cut short."""
    loops = [lp for lp in out.loops if lp.var not in around and lp.extent != Int(1)]
    first = loops[:1]
    for index in out.block.target.indices:
        parts = affine(index, frozenset(lp.var for lp in out.loops))
        if parts is None or parts[1] != Int(0):
            return False
        count = sum(lp.var in parts[0] for lp in loops)
        if loops[:1] != first and not parts[0].keys().isdisjoint(around):
            return False
        own, loops = loops[:count], loops[count:]
        step = 1
        for lp in reversed(own):
            if parts[0].get(lp.var) != Int(step) or not isinstance(lp.extent, Int) and [lp] != first:
                return False
            step *= lp.extent.value if isinstance(lp.extent, Int) else 1
    return not loops


def packs(func: Func, machine: Machine, out: Nest, tiled: list[str], narrow: frozenset[str]) -> bool:
    """Return whether rows of the output are packed in UB. There must be more than two of them a core, and they must be no whole blocks.
    They must be whole rows of tiles of one axis, so that they lie one behind the other in GM. They are not so short that an instruction a
    row costs as much, nor so long that it does not matter."""
    size, column = dtype_bytes(func, func.outputs[-1].name), out.loops[-1].var
    *lead, last = func.outputs[-1].shape
    apart = machine.has("copy_ub_gm", parts=1)
    if apart and not machine.has("vreducev2") or out.block.op != "=" or pixels_of(out.block):
        return False
    if size not in (1, 2, 4) or apart and size == 1 and out.extent(column) % 2:
        return False
    if rows_read(out) and not apart:  # of one element each
        return len(tiled) == 1 and row_after_row(out) and prod(out.extent(lp.var) for lp in out.loops) > 2 * cores_of(machine)
    ruled = ruled_axes(out)
    if len(tiled) > 1 and not set(tiled) <= set(ruled) or column in tiled or narrow & {r.buffer for r in reads(out.block.value)}:
        return False
    if not lead or not row_after_row(out, ruled) or last != Int(out.extent(column)) or rows_read(out):
        return False
    row, rows = out.extent(column) * size, prod(e.value for e in lead if isinstance(e, Int))
    return row % 32 != 0 and (PACKED[0] if apart else 0) < row <= PACKED[1] and rows > 2 * cores_of(machine)


def has_ends(func: Func, machine: Machine, out: Nest, tiled: list[str]) -> bool:
    """Return whether rows of the output, whole ones of a tile, are longer than a block, and no whole blocks; and UB holds as many as are
    turned together."""
    column, size = out.loops[-1].var, dtype_bytes(func, func.outputs[-1].name)
    if size > 4 or out.block.op != "=" or pixels_of(out.block) or column in tiled or rows_read(out):
        return False
    if out.block.target.indices[-1] != Var(column):
        return False
    value = out.block.value
    if isinstance(value, Read) and value.buffer in narrow_runs(func, machine) or not isinstance(out.loops[-1].extent, Int):
        return False
    width, together = out.extent(column), max(16, 32 // size)
    return width > together and width * size % 32 != 0 and width * size * together <= machine.scope("UB").size_bytes


def ways_out(func: Func, machine: Machine, out: Nest, tiled: list[str]) -> list[str]:
    """Return the ways in which rows of the output leave UB, each for a sketch: packed, as whole blocks and their ends, or as they lie.
    Packing long rows has a cost: it takes time on the vector unit, which may be busy already, where each of their repeats has a mask, and
    room in UB where they are transposed."""
    apart = machine.has("copy_ub_gm", parts=1)
    ends = [ENDS] if not apart and has_ends(func, machine, out, tiled) else []
    if not packs(func, machine, out, tiled, narrow_runs(func, machine)):
        return ends or [""]
    row = (1 if rows_read(out) else out.extent(out.loops[-1].var)) * dtype_bytes(func, func.outputs[-1].name)
    if not machine.has("vreducev2"):
        return [PACK, *ends] if row <= TURNED else ends or [""]
    if row > MASKED and "packed_row_bytes" in machine.constants and not copies_only(func):
        return [PACK, *(ends or [""])]
    return [PACK, *ends]


def comes_as_run(func: Func, machine: Machine, n: Nest, read: Read, leading: set[str], tiled: set[str]) -> bool:
    """Return whether a block reads an input as a run. Its rows are short and no whole blocks, and lie one behind the other in each tile.
    Taking the run apart in UB must be faster than bursts of a row each, where the machine has a call for each of these."""
    buffer = func.buffer(read.buffer)
    shape = [e.value for e in buffer.shape if isinstance(e, Int)]
    names = [i.name for i in read.indices if isinstance(i, Var)]
    if machine.has("copy_ub_gm", parts=1) or read.buffer not in {b.name for b in func.inputs} or len(tiled) != 1:
        return False
    if DTYPES[buffer.dtype] not in (1, 2) or len(shape) < 2 or len(set(names)) < len(buffer.shape) or len(shape) < len(buffer.shape):
        return False
    if [lp.extent for v in names for lp in n.loops if lp.var == v] != list(buffer.shape):
        return False
    if shape[-1] * DTYPES[buffer.dtype] % 32 == 0 or own_name(n, names[-1]) in leading | tiled:
        return False
    kinds = ["leading" if a in leading else "tiled" if a in tiled else "whole" for a in (own_name(n, v) for v in names)]
    if "tiled" not in kinds or kinds != sorted(kinds, key=["leading", "tiled", "whole"].index):
        return False
    rows, each = prod(shape[kinds.index("tiled"):-1]), 16 // gcd(shape[-1], 16)
    turns = each * shape[-1] // 16 + each * -(-shape[-1] // 16)
    rows = min(rows // cores_of(machine), 16 * each)
    return turns * 2 * machine.constants["vec_head_block"] < machine.constants["mte2_issue"] * rows
