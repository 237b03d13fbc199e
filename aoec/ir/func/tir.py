"""Func: the tensor IR. Loops and blocks over buffers in scopes; extents and indices are index expressions."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Union

from aoec.ir.index import Expr, Int, Read

SCOPES = ("GM", "L1", "L0A", "L0B", "L0C", "UB", "BT", "FB")
MATRICES = ("ND", "NZ", "ZZ", "ZN", "NN")
COLUMNS = ("NZ", "NC1HWC0")  # of a matrix in GM: a column of C0 elements behind the other
LAYOUTS = (*MATRICES, "NC1HWC0", "RUN")  # RUN: as ND, but rows in UB follow each other, whatever their length
ASSIGN = ("=", "+=", "max=", "min=")  # the last three are reducers over the loops that the left side does not name
LOOP_KINDS = ("serial", "core", "tensor")


@dataclass(frozen=True, slots=True)
class Buffer:
    """A tensor of a func. `shape` holds the largest extents; what is alive of it lies within one iteration of the
    loop that encloses every block that touches it. `depth` counts its rotating slots (double_buffer).
    On chip its first slot starts `skew` bytes after a multiple of `align` bytes (place). `unit` 1: an accumulator in L0C is
    handed over to FIXPIPE in granules, not as a whole tile (unit_flag). `ahead`: of the loop around its life, how many iterations before
    the one that uses it its load is issued (preload).

    Layout ND: element order is row-major over `shape` (an NC1HWC0 tensor has five plain dimensions and layout ND).
    NZ, ZZ, ZN: a matrix in 16 x C0 fractals (C0 = 32 bytes of dtype; 16 x 16 in L0C): the last dimension is the columns, the
    others, flattened, the rows. NZ: [column fractal][row][16 or C0]. ZZ (L0A): [row fractal][column fractal][16][C0].
    ZN (L0B, packed weights; rows are k, columns n): [row fractal of C0 rows][column fractal of 16][16 columns][C0 rows].
    NN (L0A of an operand held as [k, m], 16 bits): [column fractal][row fractal][16 columns][16 rows], the bytes of ZZ of [m, k];
    NZ in L0B holds [n, k] in the bytes of ZN of [k, n].
    NC1HWC0 (in GM): as NZ, a column of C0 behind the other, but its rows are no whole fractals: pixels of so many planes of channels.
    Indices are logical in every layout.
    """

    name: str
    dtype: str
    shape: tuple[Expr, ...]
    scope: str = "GM"
    layout: str = "ND"
    depth: Expr = Int(1)
    align: Expr = Int(1)
    skew: Expr = Int(0)
    unit: Expr = Int(0)
    ahead: Expr | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """One statement, `target op value`, run for every point of the enclosing loops.

    `init` is what a reducer starts from, evaluated per target element before its first update (an expression without
    the reduced loops; None: the reducer's identity). `instr` is set by `tensorize`: the tensor loops around the block
    are then the extents of that instruction ("copy" means: by the scopes of target and source).
    """

    name: str
    target: Read
    op: str
    value: Expr
    init: Expr | None = None
    instr: str | None = None


@dataclass(frozen=True, slots=True)
class Loop:
    """`for var in extent`; kind `core` runs iterations on different cores, `tensor` loops belong to an instruction."""

    var: str
    extent: Expr
    body: tuple[Node, ...]
    kind: str = "serial"


Node = Union[Loop, Block]


@dataclass(frozen=True, slots=True)
class Constraint:
    """A condition on holes (1: legal) that a primitive or emission asks for; `reason` is a sentence for people."""

    condition: Expr
    reason: str


@dataclass(frozen=True, slots=True)
class Func:
    """`inputs`, `outputs`: GM buffers in call order (packed weights are inputs); `locals`: the others.

    Loop, block and buffer names are unique in a func; loop names and buffer names do not meet.
    """

    name: str
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    locals: tuple[Buffer, ...] = ()
    body: tuple[Node, ...] = ()
    constraints: tuple[Constraint, ...] = field(default=())

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        return self.inputs + self.outputs + self.locals

    def buffer(self, name: str) -> Buffer:
        """Return the buffer of that name; KeyError where there is none."""
        for b in self.buffers:
            if b.name == name:
                return b
        raise KeyError(name)


def walk(body: tuple[Node, ...], above: tuple[Loop, ...] = ()) -> list[tuple[Node, tuple[Loop, ...]]]:
    """Return every node of a body with the loops above it, outermost first, in program order."""
    found: list[tuple[Node, tuple[Loop, ...]]] = []
    _gather(body, above, found)
    return found


def _gather(body: tuple[Node, ...], above: tuple[Loop, ...], found: list[tuple[Node, tuple[Loop, ...]]]) -> None:
    for n in body:
        found.append((n, above))
        if isinstance(n, Loop):
            _gather(n.body, (*above, n), found)


def blocks(body: tuple[Node, ...]) -> list[tuple[Block, tuple[Loop, ...]]]:
    """Return every block with the loops above it, in program order."""
    return [(n, above) for n, above in walk(body) if isinstance(n, Block)]
