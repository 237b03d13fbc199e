"""What the sketch rules of the cube share: a sketch in the making, axes, loads, slots. Names of holes: sketches_cube.py."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from aoec.ir.func.scaling import match_scale
from aoec.ir.func.tir import COLUMNS, Block, Func, blocks
from aoec.ir.index import DTYPES, Binary, Cast, Expr, Int, Read, eq, reads, select, walk
from aoec.ir.schedule import Step
from aoec.search.sketches.nests import SKEW, Nest, hole, nests, output_nest, parts, skewed_buffers, step
from aoec.target.machine import Machine

SLOTS = (1, 2)
L1_SLOTS = (1, 2, 3, 4)
PARTS = (1, 2, 3, 4, 6, 8, 12, 16, 32)  # columns of fractals that are worked on in UB together


def cores_of(machine: Machine) -> int:
    return machine.core("core" if "core" in machine.cores else "aic").count


@dataclass
class Plan:
    """A sketch in the making: steps, loops over cores, serial loops and tensor loops in order. `through`: operands that go through UB."""

    func: Func
    machine: Machine
    steps: list[Step] = field(default_factory=list)
    through: tuple[str, ...] = ()

    def split(self, loop: str, factor: Expr, outer: str, inner: str) -> None:
        self.steps.append(step("split", loop=loop, factor=factor, outer=outer, inner=inner))

    def share(self, loop: str, count: Expr, outer: str, inner: str) -> None:
        self.steps.append(step("split", loop=loop, parts=count, outer=outer, inner=inner))

    def add(self, primitive: str, **fields: object) -> None:
        self.steps.append(step(primitive, **fields))  # type: ignore[arg-type]


def factors(mm: Nest) -> tuple[Read, Read]:
    """Return the two reads that a product block multiplies."""
    v = mm.block.value
    assert isinstance(v, Binary) and isinstance(v.left, Read) and isinstance(v.right, Read)
    return v.left, v.right


# ---------------------------------------------------------------- axes

def batch_axes(p: Plan, mm: Nest, lead: Sequence[str], cores: int) -> list[str]:
    for v in lead:
        p.share(v, hole("gb" if v == "n" else f"g{v}", parts(mm.extent(v), cores)), f"{v}_c", f"{v}_s")
    return [f"{v}_s" for v in lead]


def output_block(func: Func, mm: Nest) -> str:
    """Return the block that takes the accumulator out."""
    return next(n.block.name for n in nests(func) if any(
        isinstance(e, Read) and e.buffer == mm.block.target.buffer for e in walk(n.block.value)))


def by_fixpipe(func: Func, sums: str, machine: Machine) -> bool:
    """Return whether FIXPIPE takes the sums in a buffer to GM: where there is one, and nothing is done to them but what it does on the way.
    Else they go through UB."""
    out = {b.name for b in func.outputs}
    stores = [b for b, _ in blocks(func.body) if b.target.buffer in out]
    return machine.has("fixpipe_nd") and any(isinstance(e, Read) and e.buffer == sums for b in stores for e in walk(b.value))


def unit_flag(func: Func, mm: Nest, machine: Machine) -> int:
    """Return 1 where the vendor's kernels let a product's results leave L0C in granules: where FIXPIPE takes them out."""
    return int(by_fixpipe(func, mm.block.target.buffer, machine))


def begin(func: Func, mm: Nest, machine: Machine) -> Plan:
    """Return an empty sketch; where the cube has no bias table the bias is left to the way out."""
    p = Plan(func, machine)
    if isinstance(mm.block.init, Read) and not machine.has("mmad_bias"):
        p.add("postpone_init", block=mm.block.name)
    return p


def load_operand(p: Plan, mm: Nest, read: Read, at: str, layout: str, scope: str, inner: str, at0: str) -> None:
    source = read.buffer
    if source in p.through:
        load_rows(p, mm, read, at)
        source = f"{source}_UB"
    p.add("cache_read", block=mm.block.name, buffer=source, scope="L1", at=at, layout=layout)
    p.add("cache_read", block=mm.block.name, buffer=f"{read.buffer}_L1", scope=scope, at=at0, layout=inner)


def load_bias(p: Plan, mm: Nest, at: str) -> None:
    """Load the bias through L1 into the bias table, once an output tile."""
    if isinstance(mm.block.init, Read) and p.machine.has("mmad_bias"):
        name = mm.block.init.buffer
        p.add("cache_read", block=mm.block.name, buffer=name, scope="L1", at=at)
        p.add("cache_read", block=mm.block.name, buffer=f"{name}_L1", scope="BT", at=at)


def load_scales(p: Plan, mm: Nest, at: str) -> None:
    """Load the scales of a result's columns through L1 into FIXPIPE's buffer, once an output tile."""
    out, sums = output_block(p.func, mm), mm.block.target.buffer
    value = next(n.block.value for n in nests(p.func) if n.block.name == out)
    for name in dict.fromkeys(r.buffer for r in reads(value) if r.buffer != sums):
        p.add("cache_read", block=out, buffer=name, scope="L1", at=at)
        p.add("cache_read", block=out, buffer=f"{name}_L1", scope="FB", at=at)


def finish(p: Plan, mm: Nest, tile_loop: str, a: str, b: str, tile: str, core: str) -> None:
    """Add the instructions and slots. `tile` is the loop over output tiles. `core` is the innermost loop over cores, where it is known."""
    p.add("tensorize", loop=tile_loop, instr="mmad")
    if by_fixpipe(p.func, mm.block.target.buffer, p.machine):
        load_scales(p, mm, tile)
        p.add("tensorize", loop=first_loop(p.func, output_block(p.func, mm)), instr="fixpipe")
        p.add("unit_flag", buffer=mm.block.target.buffer, on=hole("uf", (0, 1)))
    else:
        take_out(p, mm, tile, core)
    p.add("double_buffer", buffer=f"{a}_L1", depth=hole("da", L1_SLOTS))
    p.add("double_buffer", buffer=f"{b}_L1", depth=hole("db", L1_SLOTS))
    p.add("double_buffer", buffer=f"{b}_L0B", depth=hole("d0b", SLOTS))
    p.add("double_buffer", buffer=mm.block.target.buffer, depth=hole("dc", SLOTS))


# ---------------------------------------------------------------- cores that hold cube and vector both

def take_out(p: Plan, mm: Nest, tile: str, core: str) -> None:
    """Move the result out through UB, a part of an output tile's columns at a time. Where it stays in fractals, it leaves L0C in its final
    form. Else it is worked on in UB.

    UB is as small as L0C, and work in UB takes up to ten bytes an element. Since UB holds a part alone, a tile may fill all of L0C, and UB
    has room for slots: one part is stored while the next is worked on. A core's part of the bias is loaded once. A load for each tile would
    hold MTE2 back until pipe V is done with an earlier one.
    """
    first, sums = output_block(p.func, mm), mm.block.target.buffer
    out = output_nest(p.func).block
    bias = mm.block.init if isinstance(mm.block.init, Read) and not p.machine.has("mmad_bias") else None
    channels = any(isinstance(e, Binary) and e.op == "%" for e in walk(out.target.indices[-1]))
    planes = p.func.buffer(out.target.buffer).layout in COLUMNS or channels
    turned = not planes and first != out.name and rows_at_the_end(p.func, first, out)
    scales = scales_of(out)
    layout = "ND" if scales else "NZ" if planes or turned else "ND"
    even = channels and columns_of(p.func, first) % 16 == 0
    part = in_parts(p, first, tile, even) if not scales else in_planes(p, first)
    if first == out.name:
        made = block = f"{out.target.buffer}_UB"
        p.add("stage", block=first, scope="UB", layout=layout, at=part)
    else:
        block, made = first, work_in_place(p, first, out, layout, part, turned)
    if layout == "ND" or bias:
        p.add("cache_read", block=block, buffer=sums, scope="UB", at=part, layout="NZ")
    for name in [*([bias.buffer] if bias else []), *scales]:
        p.add("cache_read", block=block, buffer=name, scope="UB", at=core)
    p.add("tensorize", loop=f"{made}_0" if first == out.name else first_loop(p.func, first),
          instr="epilogue" if bias or layout == "ND" else "drain")
    p.add("tensorize", loop=first_loop(p.func, out.name), instr="store")
    p.add("double_buffer", buffer=made, depth=hole("do", SLOTS))
    if even and part != tile:  # sizes of even parts hang on rows alone, so that a row's tables are short
        p.add("even", loop=part, factor=Int(32) if scales else hole("uc", ()) * 16)


def scales_of(out: Block) -> list[str]:
    """Return the buffer of the scales by which a block makes int8 of sums, if it does."""
    scaled = match_scale(out.value)
    return [scaled.scale.buffer] if scaled else []


def in_planes(p: Plan, block: str) -> str:
    """Return the loop over the planes of 32 channels of int8 that a block makes of sums, around its other loops."""
    *rows, column = [lp.var for lp in next(n for n in nests(p.func) if n.block.name == block).loops]
    p.split(column, Int(32), "u_p", column)
    p.add("reorder", loops=("u_p", *rows, column))
    return "u_p"


def columns_of(func: Func, block: str) -> int:
    """Return columns of a block's result. Blocks of 8 channels may end within a fractal."""
    found = next(n for n in nests(func) if n.block.name == block)
    return found.extent(found.loops[-1].var)


def in_parts(p: Plan, block: str, tile: str, even: bool) -> str:
    """Return the loop over parts of the columns that a block takes out of L0C, around the block's other loops; that over tiles where all
    has one column of fractals. `even`: parts will be alike."""
    found = next(n for n in nests(p.func) if n.block.name == block)
    *rows, column = [lp.var for lp in found.loops]
    fractals = -(-found.extent(column) // 16)
    if fractals == 1:
        return tile
    choices = [u for u in range(1, PARTS[-1] + 1) if fractals % u == 0] if even else [min(u, fractals) for u in PARTS]
    p.split(column, hole("uc", tuple(dict.fromkeys(choices))) * 16, "u_p", column)
    p.add("reorder", loops=("u_p", *rows, column))
    return "u_p"


def between_blocks(func: Func, first: str, out: Block) -> tuple[list[Block], list[Block]]:
    """Return (the block that takes the result and those between it and the one that stores, those that bring what they read beside it)."""
    order = [n.block for n in nests(func)]
    names = [b.name for b in order]
    between = order[names.index(first):names.index(out.name)]
    inputs = {b.name for b in func.inputs}
    read = {r.buffer for b in between[1:] for r in reads(b.value)}
    return between, [b for b in order if b.target.buffer in read and {r.buffer for r in reads(b.value)} <= inputs]


def rows_at_the_end(func: Func, first: str, out: Block) -> bool:
    """Return True where fp32 is worked on in fractals, as it leaves L0C, and the cast that ends it turns fractals into rows. Rows of fp32
    would take two instructions a column, and nothing that is brought in rows is laid out so."""
    between, brought = between_blocks(func, first, out)
    kinds = {func.buffer(b.target.buffer).dtype for b in between[:-1]}
    last = between[-1].value
    return not brought and kinds == {"fp32"} and isinstance(last, Cast) and isinstance(last.value, Read) and DTYPES[last.dtype] == 2


def work_in_place(p: Plan, first: str, out: Block, layout: str, part: str, turned: bool) -> str:
    """Return the buffer that is stored, after the vector operations between the block that takes the result and the one that stores. The
    operations work on a part of a tile in UB in its layout, and on parts that are brought there for them. `turned`: the last one turns
    fractals into rows."""
    between, brought = between_blocks(p.func, first, out)
    for b in [*between[1:], out, *brought]:
        p.add("compute_at", block=b.name, loop=part)
    for b in [*brought, *between]:
        rows = layout == "ND" or turned and b is between[-1]
        more = row_padding(part) if rows and brought else {}
        p.add("set_scope", buffer=b.target.buffer, scope="UB", layout="ND" if rows else layout, **more)
    for b in between[1:]:
        word = "epilogue" if turned and b is between[-1] else "vector" if layout == "NZ" else "padded"
        p.add("tensorize", loop=first_loop(p.func, b.name), instr=word)
    for b in brought:
        p.add("tensorize", loop=first_loop(p.func, b.name), instr="copy")
        p.add("double_buffer", buffer=b.target.buffer, depth=hole("du", SLOTS))
    read_together = [[r.buffer for r in reads(b.value)] for b in between]
    for name in skewed_buffers([(names[0], names[1]) for names in read_together if len(set(names)) == 2]):
        p.add("place", buffer=name, skew=SKEW)
    return between[-1].target.buffer


def row_padding(part: str) -> dict[str, Expr]:
    """Return how much further apart rows in UB are placed where their blocks would meet in a bank: rows of a multiple of four columns of
    fractals."""
    return {"pad": select(eq(hole("uc", ()) % 4, 0), 16, 0)} if part == "u_p" else {}


def load_rows(p: Plan, mm: Nest, read: Read, at: str) -> None:
    """Load the rows of a matrix into UB, on their way to L1."""
    p.add("cache_read", block=mm.block.name, buffer=read.buffer, scope="UB", at=at)
    p.add("double_buffer", buffer=f"{read.buffer}_UB", depth=hole("du", SLOTS))


def ways(func: Func, mm: Nest, machine: Machine) -> list[tuple[str, ...]]:
    """Return the choices of operands that go through UB: operands in rows, where MTE2 does not reorder them. Rows that are no whole blocks
    must go through UB."""
    if machine.has("copy_gm_l1_nd2nz"):
        return [()]
    rows = [b for b in (func.buffer(r.buffer) for r in factors(mm)) if b.scope == "GM" and b.layout == "ND"]
    ragged = [b.name for b in rows if not isinstance(n := b.shape[-1], Int) or n.value * DTYPES[b.dtype] % 32]
    every = tuple(b.name for b in rows)
    return list(dict.fromkeys([tuple(ragged), every])) if machine.has("copy_ub_l1") else [()]


def first_loop(func: Func, block: str) -> str:
    return next(n.loops[0].var for n in nests(func) if n.block.name == block)


def bind(p: Plan, grid: list[str]) -> None:
    for loop in grid:
        p.add("bind", loop=loop)
