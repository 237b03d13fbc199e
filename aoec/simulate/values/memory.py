"""Memory of a program that runs for values: GM as one byte array with every tensor in it, and where tensors and spaces lie."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from aoec.base.errors import CheckError, UnsupportedError
from aoec.ir.index import DTYPES, Expr, evaluate
from aoec.ir.program import Program, Tensor
from aoec.kernels import tile
from aoec.target.isa.instructions import added_to
from aoec.target.isa.meaning import NUMPY_DTYPES
from aoec.target.isa.scales import bring_words, word_tensors

GM_ALIGN_BYTES = 64
MOST_BYTES = 1 << 40  # of all tensors


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tensor or space lies: byte base in its array, bytes and number of slots."""

    dtype: str
    scope: str
    base: int
    slot_bytes: int
    depth: int


class Memory:
    """GM as one byte array with every tensor in it, and where each tensor and space lies."""

    def __init__(self, program: Program) -> None:
        self.program, self.added, self.own = program, added_to(program), {t.name: t for t in program.tensors}
        self.words = word_tensors(program)  # name -> zero point
        self.views: dict[str, np.ndarray] = {}  # of tensors that have been asked for
        self.places: dict[str, Place] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        at = 0
        for t in program.tensors:
            self.shapes[t.name] = shape = tuple(number(d) for d in t.shape)
            if min(shape, default=0) < 0:
                raise CheckError(f"tensor {t.name} has the shape {list(shape)}; no dimension may be negative")
            size = prod(shape) * DTYPES[t.dtype]
            self.places[t.name] = Place(t.dtype, "GM", at, size, 1)
            at += -(-size // GM_ALIGN_BYTES) * GM_ALIGN_BYTES
        if at > MOST_BYTES:
            raise CheckError(f"the tensors of program {program.name} take {at:,} bytes; at most {MOST_BYTES:,} can be run")
        self.gm = np.empty(max(at, GM_ALIGN_BYTES), np.uint8)
        self._place_spaces(program)

    def _place_spaces(self, program: Program) -> None:
        """Place the scopes one after the other in a core's memory, each as large as its spaces need."""
        self.scope_bytes: dict[str, int] = {}
        spaces = [(s, number(s.address), number(s.size_bytes), number(s.depth)) for s in program.spaces]
        for s, address, size, depth in spaces:
            end = -(-(address + size * depth) // 512) * 512
            self.scope_bytes[s.scope] = max(self.scope_bytes.get(s.scope, 0), end)
        bases, at = {}, 0
        for scope, size in self.scope_bytes.items():
            bases[scope] = at
            at += size
        self.mem_bytes = max(at, 512)
        ends = [(bases[scope], bases[scope] + size) for scope, size in self.scope_bytes.items()]
        self.spans = np.array(ends, np.int64).reshape(-1, 2)  # where each scope begins and ends
        for s, address, size, depth in spaces:
            if min(address, size, depth) < 0:
                raise CheckError(f"space {s.name} has address {address}, size {size} and depth {depth}; none may be negative")
            self.places[s.name] = Place(s.dtype, s.scope, bases[s.scope] + address, size, depth)

    def put(self, tensors: Mapping[str, np.ndarray]) -> None:
        """Write tensors, given by name, to their places. Scales in fp32 are written as the words that FIXPIPE reads. Raise CheckError for a
        name, a dtype or a number of elements that the program does not state."""
        for name, array in tensors.items():
            if name not in self.own:
                raise CheckError(f"program {self.program.name} has no tensor {name}; it has {', '.join(self.own)}")
            view, x = self.view(self.own[name]), bring_words(np.ascontiguousarray(array), name, self.words)
            if x.dtype != view.dtype or x.size != view.size:
                raise CheckError(f"tensor {name} is {x.dtype}{list(x.shape)} ({x.size} elements) where program says "
                                 f"{self.own[name].dtype}{list(self.shapes[name])} ({view.size} elements)")
            view.reshape(-1)[:] = x.reshape(-1)

    def clear(self, tensors: Sequence[Tensor]) -> None:
        """Fill results with the pattern of memory that nobody has written (POISON), or with zeros where writes add to them. Raise
        CheckError for inputs: they are missing."""
        for t in tensors:
            if t.role == "input":
                raise CheckError(f"input {t.name} ({t.dtype}{list(self.shapes[t.name])}) is missing")
            self.view(t).reshape(-1).view(np.uint8)[:] = 0 if t.name in self.added else tile.POISON

    def view(self, t: Tensor) -> np.ndarray:
        """Return the tensor where it lies, in its own shape: what it holds until the next run."""
        if t.name not in self.views:
            if t.dtype not in NUMPY_DTYPES:
                raise UnsupportedError(f"tensor {t.name} is {t.dtype}; programs run on {', '.join(NUMPY_DTYPES)}")
            p = self.places[t.name]
            self.views[t.name] = self.gm[p.base:p.base + p.slot_bytes].view(NUMPY_DTYPES[t.dtype]).reshape(self.shapes[t.name])
        return self.views[t.name]


def number(e: Expr) -> int:
    """Return the value of an expression without variables; CheckError names a hole that is still open."""
    try:
        return int(evaluate(e, {}))
    except KeyError as error:
        raise CheckError(f"{error.args[0]} is open in a size of the program; fill its holes before it is executed") from None
