"""An instruction where it stands: its fields, what is known of them there, views of its operands, and the lines that it becomes."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from aoec.base.errors import CapacityError, UnsupportedError
from aoec.hivm.body import TYPES, Body
from aoec.hivm.views import Base, View, offset_of, space, view
from aoec.hivm.words import table
from aoec.ir.index import DTYPES, Expr, Float, Int, binary
from aoec.ir.program import Instr, Ref, Space, Tensor
from aoec.ir.text.show import show
from aoec.ir.text.simplify import Scope
from aoec.target.isa.instructions import INSTRUCTIONS


@dataclass
class Site:
    """`bases`: the buffers that the text names. `scope`: the loops around it, with their ranges. `room_at`: where in UB, of `most_ub`
    bytes, the buffers end."""

    item: Instr
    body: Body
    buffers: Mapping[str, Tensor | Space]
    bases: Mapping[str, Base]
    scope: Scope
    room_at: int
    most_ub: int

    @property
    def op(self) -> str:
        """Return the instruction's name."""
        return self.item.op

    @property
    def operands(self) -> tuple[str, ...]:
        """Return names of its operands, in order."""
        return tuple(o.name for o in INSTRUCTIONS[self.op].operands)

    @property
    def fields(self) -> tuple[str, ...]:
        """Return names of its numbers, in order."""
        return tuple(n.name for n in INSTRUCTIONS[self.op].numbers)

    # ------------------------------------------------------------ what its fields are

    def ref(self, operand: str) -> Ref:
        """Return an operand of a buffer."""
        found = self.item[operand]
        assert isinstance(found, Ref)
        return found

    def expr(self, name: str) -> Expr:
        """Return a number."""
        found = self.item[name]
        assert isinstance(found, Expr)
        return found

    def constant(self, name: str) -> int:
        """Return a number that must be known; UnsupportedError where it is not."""
        found = self.expr(name)
        if not isinstance(found, Int):
            raise self.refusal(f"{name} = {show(found)} is known only when the kernel runs")
        return found.value

    def dtype(self, operand: str) -> str:
        """Return the dtype of an operand."""
        return self.buffers[self.ref(operand).buffer].dtype

    def size(self, operand: str) -> int:
        """Return bytes of an operand's element."""
        return DTYPES[self.dtype(operand)]

    def least(self, e: Expr) -> int:
        """Return the least value that an expression has here."""
        return self.scope.least(e)

    def simplify(self, e: Expr) -> Expr:
        """Return an expression in its shortest form here."""
        return self.scope(e)

    def refusal(self, why: str) -> UnsupportedError:
        """Return what is said of an instruction that no op carries."""
        return UnsupportedError(f"{self.op} is not carried by the words of HIVM ({table().words[self.op].op or 'no op'}): {why}")

    # ------------------------------------------------------------ what it becomes

    def view(self, operand: str, at: Expr, sizes: Sequence[Expr | int], strides: Sequence[Expr | int], is_open: bool = False) -> View:
        """Return a view of an operand, `at` elements behind where it begins; see views.py."""
        ref = self.ref(operand)
        start = self.simplify(offset_of(ref, self.buffers[ref.buffer]) + at)
        return view(self.body, self.bases[ref.buffer], start, sizes, strides, ref.buffer, is_open)

    def scalar(self, dtype: str) -> str:
        """Return the name of its scalar as a constant of a dtype."""
        e = self.expr("scalar")
        if not isinstance(e, (Int, Float)):
            raise self.refusal(f"scalar = {show(e)} is known only when the kernel runs")
        if dtype.startswith("uint") or dtype == "bool" and e.value not in (0, 1):
            raise self.refusal(f"HIVM has no constant of {dtype}")
        return self.body.number(e, dtype)

    def barrier(self) -> None:
        """Write a barrier on the vector pipe, because instructions run in order there in the program: later lines wait for all earlier
        ones."""
        self.body.line("hivm.hir.pipe_barrier[<PIPE_V>]")

    def room(self, dtype: str, size: int) -> str:
        """Return an op's operand for the room of its routine: so many bytes of UB behind all buffers. CapacityError where none are left."""
        if size and self.room_at + size > self.most_ub:
            raise CapacityError(f"{self.op} ({table().words[self.op].op}) needs {size} bytes of UB besides the buffers, and the program "
                                f"leaves {max(self.most_ub - self.room_at, 0)}; a smaller tile leaves more")
        kind = f"memref<{size // DTYPES[dtype]}x{TYPES[dtype]}, {space('UB')}>"
        at = self.body.constant(self.room_at if size else 0, "i64")
        made = self.body.value(f"hivm.hir.pointer_cast({at}) : {kind}", "room" if size else "no_room")
        return f"temp_buffer({made} : {kind})"

    def guard(self, when: Expr | None, write: Callable[[], None]) -> None:
        """Call `write`, with its lines in a condition that `when` is above 0. With `when` None the lines always run."""
        if when is None:
            write()
            return
        above = self.body.truth(binary(">", when, 0))
        with self.body.region(f"scf.if {above} {{"):
            write()

    def cast_mode(self) -> str:
        """Return the rounding of a cast of its dtypes; UnsupportedError where vcast does not take them."""
        pair = f"{self.dtype('dst')} {self.dtype('src')}"
        if pair not in table().casts:
            raise self.refusal(table().no_casts.get(pair, f"vcast takes no {self.dtype('src')} to {self.dtype('dst')}"))
        return table().casts[pair]

    def adds(self) -> bool:
        """Return whether it adds to what GM holds; UnsupportedError where that is not known, or it adds what the op does not."""
        atomic = self.item["atomic"]
        if atomic not in (Int(0), Int(1)):
            raise self.refusal("whether it adds is known only when the kernel runs")
        if atomic == Int(1) and self.dtype("dst") not in ("fp32", "fp16", "bf16", "int32"):
            raise self.refusal(f"an atomic store adds no {self.dtype('dst')}")
        return bool(atomic == Int(1))
