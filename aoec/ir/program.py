"""Program: AI Core instructions on pipes, loops kept. Sizes, offsets, trip counts and flag ids are index expressions."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from aoec.ir.func.tir import Constraint
from aoec.ir.index import Expr, Int

PIPES = ("S", "V", "M", "MTE1", "MTE2", "MTE3", "FIXP")
CORE_KINDS = ("aic", "aiv", "core")
# fields of an instruction that are 0 where they are not written; of a pad, which is a real, that says that there is none
OPTIONAL = ("unit", "atomic", "pad_value", "dst_high", "src_high", "pad")


@dataclass(frozen=True, slots=True)
class Tensor:
    """A GM tensor. `role`: input, output, or temp (written and read by streams of this program).

    `uncached`: its transfers bypass L2 (Ascend C: the cache mode of a GlobalTensor), so that what streams through once evicts nothing.
    """

    name: str
    dtype: str
    shape: tuple[Expr, ...]  # of the stored elements: padded to whole fractals where the layout is fractal
    role: str
    uncached: bool = False


@dataclass(frozen=True, slots=True)
class Space:
    """A buffer in an on-chip scope: `depth` slots of `size_bytes` each from `address` (bytes)."""

    name: str
    dtype: str
    scope: str
    address: Expr
    size_bytes: Expr
    depth: Expr = Int(1)


@dataclass(frozen=True, slots=True)
class Ref:
    """An operand: element `offset` of a tensor or of slot `slot` of a space (slot: an expression over counters)."""

    buffer: str
    offset: Expr
    slot: Expr = Int(0)


@dataclass(frozen=True, slots=True)
class Instr:
    """One ISA instruction; its name is a word of the instruction dictionary, which says fields, pipe and limits.

    An optional field of 0 is the same as none: it is not kept, so that an instruction has one text.
    """

    op: str
    fields: tuple[tuple[str, Union[Ref, Expr]], ...]

    def __post_init__(self) -> None:
        if any(k in OPTIONAL and v == Int(0) for k, v in self.fields):
            object.__setattr__(self, "fields", tuple([(k, v) for k, v in self.fields if k not in OPTIONAL or v != Int(0)]))

    def __getitem__(self, name: str) -> Union[Ref, Expr]:
        fields = dict(self.fields)
        return fields[name] if name in fields or name not in OPTIONAL else Int(0)


@dataclass(frozen=True, slots=True)
class SetFlag:
    """Runs on `source` when all before it on that pipe is done; one bit keyed by (source, target, id)."""

    source: str
    target: str
    id: Expr


@dataclass(frozen=True, slots=True)
class WaitFlag:
    """Blocks `target` until the bit is set, then clears it. Its set stands earlier in the stream."""

    source: str
    target: str
    id: Expr


@dataclass(frozen=True, slots=True)
class CrossSet:
    """Adds one to the counting flag `id` of stream `to`, for every core of it, when `pipe` of this stream is done with all before it."""

    pipe: str
    to: str
    id: Expr


@dataclass(frozen=True, slots=True)
class CrossWait:
    """Blocks `pipe` of this stream until flag `id` is above zero, then takes one.

    The cores of stream B see a set by a core of stream A of the same group. B has r cores for each core of A, or A has r for each of B.
    Where several cores set a flag for one waiting core, a wait needs one set from each.
    """

    pipe: str
    source: str  # the setting stream
    id: Expr


@dataclass(frozen=True, slots=True)
class Advance:
    """counter = (counter + 1) % depth; free of cost (the scalar unit's ping-pong variable)."""

    counter: str


@dataclass(frozen=True, slots=True)
class For:
    var: str
    trips: Expr
    body: tuple[Item, ...]


Item = Union[Instr, SetFlag, WaitFlag, CrossSet, CrossWait, Advance, For]


@dataclass(frozen=True, slots=True)
class Stream:
    """What each core of a kind runs. `grid`: (axis variable, extent); cores used = product; core index is row-major.

    `counters`: (name, depth), each starting at 0 on every core.
    """

    name: str
    core: str
    grid: tuple[tuple[str, Expr], ...]
    counters: tuple[tuple[str, Expr], ...]
    body: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Program:
    name: str
    target: str
    tensors: tuple[Tensor, ...]
    spaces: tuple[Space, ...]
    streams: tuple[Stream, ...]
    constraints: tuple[Constraint, ...] = ()
