"""Tile operations: the blocks of a scheduled func with the tensor loops around them, and where their operands lie."""
from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from aoec.base.errors import UnsupportedError
from aoec.ir.func.regions import lift
from aoec.ir.func.tir import Block, Buffer, Constraint, Func, Loop, blocks
from aoec.ir.index import (
    DTYPES,
    Binary,
    Expr,
    Int,
    Read,
    Var,
    affine,
    ceildiv,
    either,
    eq,
    le,
    normalise,
    reads,
    round_up,
    substitute,
    variables,
)
from aoec.ir.program import Instr, Item, Ref
from aoec.target.machine import Machine

TABLE_BYTES = {"BT": 64, "FB": 128}  # that slots of tables are whole numbers of

BLOCK_BYTES = 32
NONE = Int(0)
FRACTAL_ROWS = 16
Home = tuple[str, ...]  # names of the loops around a buffer's life, outermost first
SLOT_BYTES = 512  # sizes of slots are multiples of it, and so are addresses but where `place` says otherwise


@dataclass(frozen=True, slots=True)
class Access:
    """That a piece of program touches a buffer, on which pipe, and whether it writes."""

    buffer: str
    pipe: str
    writes: bool


@dataclass(frozen=True, slots=True)
class Piece:
    """Program items that stay together, with the buffers they touch."""

    items: tuple[Item, ...]
    accesses: tuple[Access, ...]


@dataclass(frozen=True, slots=True)
class TileOp:
    """A block with its tensor loops (outermost first) and the serial and core loops above them."""

    block: Block
    loops: tuple[Loop, ...]
    above: tuple[Loop, ...]

    def extent(self, var: str) -> Expr:
        return next(lp.extent for lp in self.loops if lp.var == var)

    def size(self, names: Iterable[str]) -> Expr:
        """Return iterations of some tensor loops together."""
        return product([self.extent(v) for v in names])

    @property
    def names(self) -> frozenset[str]:
        return frozenset(lp.var for lp in self.loops)


class Emitter:
    """What the emission of tile operations shares: the machine, the func's buffers, slot counters, and the constraints it asks for."""

    def __init__(self, func: Func, machine: Machine, counters: Mapping[str, str]) -> None:
        self.func = func
        self.machine = machine
        self.buffers = {b.name: b for b in func.buffers}
        self.counters = counters
        self.constraints: list[Constraint] = []
        self.scratch: list[Buffer] = []
        self.shared: dict[str, Expr] = {}  # GM locals, in which streams meet -> the element of GM where this core's slot begins
        self.spread: set[str] = set()  # buffers of one element a row that fill its block with it, so that lanes read it as it is
        self.worked = {  # buffers that are worked on in place
            b.target.buffer for b, _ in blocks(func.body) if b.op == "=" and b.target.buffer in {r.buffer for r in reads(b.value)}}
        self.along: set[tuple[str, str]] = set()  # (target, source) of what is done element by element, and so in place too
        self.behind: dict[str, Expr] = {}  # buffer -> elements behind its last row that instructions read with it, and do nothing with
        self.laid: set[str] = set()  # rows that lie there several times, one behind the other
        self.apart: set[str] = set()  # buffers in fractals that have a row between their columns
        self.halves: dict[str, int] = {}  # block that transposes -> halves of its sixteen channels that exist
        self._fresh = 0

    def fresh(self, stem: str) -> str:
        """Return a loop variable that nothing else in the program has."""
        self._fresh += 1
        return f"{stem}_{self._fresh}"

    def ref(self, buffer: str, offset: Expr) -> Ref:
        """Return operand at element `offset` of a buffer, in the slot its counter points at."""
        if buffer in self.shared:
            return Ref(buffer, normalise(self.shared[buffer] + offset))
        slot = Var(self.counters[buffer]) if buffer in self.counters else Int(0)
        return Ref(buffer, normalise(offset), slot)

    def add_scratch(self, dtype: str, elements: int | Expr, skew_bytes: int = 0, rows: Expr | None = None) -> str:
        """Return the name of a new UB buffer for one instruction sequence, `skew_bytes` after the start of a slot; with `rows`, of
        so many elements each."""
        name = f"scratch_{len(self.scratch)}"
        size = Int(elements) if isinstance(elements, int) else elements
        shape = (size,) if rows is None else (rows, size)
        b = Buffer(name, dtype, shape, "UB", align=Int(SLOT_BYTES if skew_bytes else 1), skew=Int(skew_bytes))
        self.scratch.append(b)
        self.buffers[name] = b
        return name

    def require(self, condition: Expr, reason: str) -> None:
        c = Constraint(normalise(condition), reason)
        if c.condition != Int(1) and c not in self.constraints:
            self.constraints.append(c)

    def require_aligned(self, offset: Expr, unit: int, op: TileOp, what: str) -> None:
        """Require that `offset` is a multiple of `unit` for every value of the loops above."""
        extents = {lp.var: largest(lp.extent, op.above) for lp in op.above}
        atoms: dict[str, Expr] = {}  # quotients and remainders of loops and their products, where blocks are numbered: any whole number
        parts = affine(lift(lift_products(normalise(offset), frozenset(extents), atoms), frozenset(extents), atoms),
                       frozenset(extents) | atoms.keys())
        if parts is None:
            raise UnsupportedError(f"{what}: its offset is not affine in the loops")
        coefficients, constant = parts
        self.require(eq(constant % unit, 0), f"{what} must start at a multiple of {unit}")
        for var, c in coefficients.items():
            once = le(extents[var], 1) if var in extents else Int(0)
            self.require(either(eq(c % unit, 0), once), f"{what} must step by multiples of {unit}")


def lift_products(e: Expr, names: frozenset[str], atoms: dict[str, Expr]) -> Expr:
    """Return `e` with products of what varies replaced by fresh variables, collected in `atoms`."""
    if not (isinstance(e, Binary) and e.op in "+-*"):
        return e
    if e.op == "*" and variables(e.left) & names and variables(e.right) & names:
        name = next((n for n, a in atoms.items() if a == e), f"%{len(atoms)}")
        atoms[name] = e
        return Var(name)
    return Binary(e.op, lift_products(e.left, names, atoms), lift_products(e.right, names, atoms))


def dtype_size(b: Buffer) -> int:
    return DTYPES[b.dtype]


def c0(b: Buffer) -> int:
    """Return columns of a fractal of the buffer's dtype: 16 in L0C and for what UB has from there, one block elsewhere."""
    return 16 if b.scope == "L0C" or b.scope == "UB" and b.layout == "NZ" else BLOCK_BYTES // dtype_size(b)


def largest(extent: Expr, loops: tuple[Loop, ...]) -> Expr:
    """Return the largest value of an extent over the loops: these extents shrink with their loops, so all at 0."""
    return normalise(substitute(extent, {lp.var: Int(0) for lp in loops}))


def product(items: tuple[Expr, ...] | list[Expr]) -> Expr:
    out: Expr = Int(1)
    for e in items:
        out = out * e
    return out


def pitches(b: Buffer) -> tuple[Expr, ...]:
    """Return element stride of each dimension of a row-major buffer; in UB the last dimension is padded to whole blocks, but in a RUN."""
    last = round_up(b.shape[-1], c0(b)) if b.scope == "UB" and len(b.shape) > 1 and b.layout != "RUN" else b.shape[-1]
    out: list[Expr] = [Int(1)]
    for extent in reversed((*b.shape[1:-1], last) if len(b.shape) > 1 else ()):
        out.append(out[-1] * extent)
    return tuple(reversed(out))


def base_offset(b: Buffer, indices: tuple[Expr, ...], inner: frozenset[str]) -> Expr:
    """Return element offset of a row-major access with the tensor loops at 0."""
    zero = {v: Int(0) for v in inner}
    out: Expr = Int(0)
    for i, p in zip(indices, pitches(b), strict=True):
        out = out + substitute(i, zero) * p
    return out


def loop_strides(b: Buffer, indices: tuple[Expr, ...], op: TileOp) -> dict[str, Expr]:
    """Return element stride of each tensor loop in a row-major access; loops that the access does not use have none."""
    out: dict[str, Expr] = {}
    for i, p in zip(indices, pitches(b), strict=True):
        parts = affine(i, op.names)
        if parts is None:
            raise UnsupportedError(f"block {op.block.name}: an index of {b.name} is not affine in the tensor loops")
        for v, coefficient in parts[0].items():
            out[v] = normalise(out.get(v, Int(0)) + coefficient * p)
    return out


def column_rows(b: Buffer) -> Expr:
    """Return rows from one column of C0 elements to the next of a matrix in GM: whole fractals of them in NZ."""
    return round_up(b.shape[-2], FRACTAL_ROWS) if b.layout == "NZ" else b.shape[-2]


def size_bytes(b: Buffer, behind: Expr = NONE) -> Expr:
    """Return bytes of one slot, padded to what instructions may touch (fractals; 512 bytes in UB, L1; 64 in BT, 128 in FB); of what lies in
    UB with so many elements more."""
    size = dtype_size(b)
    rows, cols = product(list(b.shape[:-1])), b.shape[-1]
    if b.layout == "ZN":
        return round_up(rows, c0(b)) * round_up(cols, FRACTAL_ROWS) * size
    if b.layout in ("NZ", "ZZ", "NN"):
        whole = round_up(rows, FRACTAL_ROWS) * round_up(cols, c0(b))
        return whole * size if behind == NONE else round_up((whole + behind) * size, 512)
    if len(b.shape) > 1 and b.scope == "UB" and b.layout != "RUN":
        return round_up((rows * round_up(cols, c0(b)) + behind) * size, 512)
    return round_up((rows * cols + behind) * size, TABLE_BYTES.get(b.scope, 512))


def split_index(e: Expr, inner: frozenset[str]) -> tuple[Expr, list[str]]:
    """Return (offset, tensor loops) of an index that is offset + one or more tensor loops with coefficient 1."""
    parts = affine(e, inner)
    if parts is None or any(c != Int(1) for c in parts[0].values()):
        raise UnsupportedError("an index is not an offset plus a tensor loop")
    return parts[1], list(parts[0])


def uses(e: Expr, names: frozenset[str]) -> bool:
    return bool(variables(e) & names)


def fractals(extent: Expr, unit: int) -> Expr:
    return ceildiv(extent, unit)


def instr(op: str, **fields: object) -> Instr:
    """Return an instruction with its fields in normal form."""
    return Instr(op, tuple((k, normalise(v) if isinstance(v, Expr) else Int(v) if isinstance(v, int) else v)  # type: ignore[misc]
                           for k, v in fields.items()))


def piece(em: Emitter, pipe: str, items: list[Item], dst: str, *srcs: str) -> Piece:
    """Return items of one pipe that write `dst` and read `srcs`."""
    local = [Access(dst, pipe, True)] + [Access(s, pipe, False) for s in srcs]
    return Piece(tuple(items), tuple(a for a in local if em.buffers[a.buffer].scope != "GM" or a.buffer in em.shared))


def matrix_index(op: TileOp, read: Read) -> tuple[Expr, Expr, Expr, Expr]:
    """Return (row offset, rows, column offset, columns) of a two-dimensional tile of a matrix access."""
    if len(read.indices) < 2:
        raise UnsupportedError(f"block {op.block.name}: {read.buffer} is not a matrix")
    row, col = (split_index(i, op.names) for i in read.indices[-2:])
    return row[0], op.size(row[1]), col[0], op.size(col[1])
