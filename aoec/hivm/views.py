"""Views of buffers: what an op reads or writes, as a memref with an offset, sizes and strides."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aoec.hivm.body import TYPES, Body
from aoec.ir.index import DTYPES, Expr, Int, as_expr, evaluate
from aoec.ir.program import Ref, Space, Tensor

ADDRESS_SPACES = {"GM": "gm", "L1": "cbuf", "L0C": "cc", "UB": "ub"}  # of the scopes that HIVM text names


@dataclass(frozen=True)
class Base:
    """A whole buffer: the name of its value, its dtype, its elements, and where it lies."""

    value: str
    dtype: str
    elements: int
    scope: str

    @property
    def type(self) -> str:
        """Return its type: elements one behind the other."""
        return f"memref<{self.elements}x{TYPES[self.dtype]}, {space(self.scope)}>"


@dataclass(frozen=True)
class View:
    """Part of a buffer as an operand: the name of its value, and its type."""

    value: str
    type: str


def space(scope: str) -> str:
    """Return an address space as MLIR writes it."""
    return f"#hivm.address_space<{ADDRESS_SPACES[scope]}>"


def offset_of(ref: Ref, buffer: Tensor | Space) -> Expr:
    """Return the element that an operand begins at, counted from the start of the buffer's first slot."""
    if isinstance(buffer, Space) and ref.slot != Int(0):
        return ref.slot * (int(evaluate(buffer.size_bytes, {})) // DTYPES[buffer.dtype]) + ref.offset
    return ref.offset


def view(body: Body, base: Base, offset: Expr, sizes: Sequence[Expr | int], strides: Sequence[Expr | int], word: str = "view",
         is_open: bool = False) -> View:
    """Return the view of a buffer from an element on; sizes and strides in elements. `is_open`: its type does not say its first size."""
    def each(items: Sequence[Expr | int], first: bool = False) -> tuple[list[str], list[str]]:
        exprs = [as_expr(i) for i in items]
        said = [isinstance(e, Int) and not (first and n == 0) for n, e in enumerate(exprs)]
        return ([str(e.value) if isinstance(e, Int) and known else body.index(e) for e, known in zip(exprs, said)],
                [str(e.value) if isinstance(e, Int) and known else "?" for e, known in zip(exprs, said)])
    (at,), (static_at,) = each([offset])
    (long, static_long), (steps, static_steps) = each(sizes, is_open), each(strides)
    kind = (f"memref<{'x'.join(static_long)}x{TYPES[base.dtype]}, strided<[{', '.join(static_steps)}], offset: {static_at}>, "
            f"{space(base.scope)}>")
    made = body.value(f"memref.reinterpret_cast {base.value} to offset: [{at}], sizes: [{', '.join(long)}], strides: [{', '.join(steps)}]"
                      f" : {base.type} to {kind}", word)
    return View(made, kind)


def op(body: Body, word: str, ins: Sequence[tuple[str, str]], outs: Sequence[View], attributes: str = "", behind: str = "") -> None:
    """Write the line of an op. `ins` holds names of values and their types."""
    values, types = ", ".join(v for v, _ in ins), ", ".join(t for _, t in ins)
    made, kinds = ", ".join(v.value for v in outs), ", ".join(v.type for v in outs)
    head = f"hivm.hir.{word} {attributes}".rstrip()
    body.line(f"{head} ins({values} : {types}) outs({made} : {kinds})" + (f" {behind}" if behind else ""))
