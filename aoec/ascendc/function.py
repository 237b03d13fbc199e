"""Functions of a source: for each instruction that a program uses, one of its own name, which makes the public calls that it stands for.

So the text of a kernel has one line an instruction, with the instruction's fields in their order, and what that line means on the chip is
said once, before the kernel. The files copies, cube, vector and casts write these functions.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from aoec.ascendc.calls import Release
from aoec.ascendc.expressions import CPP_TYPES
from aoec.ir.index import DTYPES
from aoec.target.isa.instructions import BLOCK_BYTES, INSTRUCTIONS, REPEAT_BYTES

UNWRITTEN = ("unit",)  # fields that no line of a kernel has: UnitFlag stays off, since the program's flags order the same accesses
DEFAULTS = ("atomic", "pad_value", "dst_high", "src_high")  # fields that a line leaves out where they are 0
MASKS = "masks"  # the name of the room for bits that comparisons leave


@dataclass(frozen=True)
class Site:
    """What a function is written for: an instruction, the dtypes of its operands in order, the product, and the spelling of a release."""

    op: str
    dtypes: tuple[str, ...]
    product: str
    release: Release

    @property
    def operands(self) -> tuple[str, ...]:
        """Names of its operands, in order."""
        return tuple(o.name for o in INSTRUCTIONS[self.op].operands)

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of its numbers, in order, as a line of the kernel gives them."""
        return tuple(n.name for n in INSTRUCTIONS[self.op].numbers if n.name not in UNWRITTEN)

    def kind(self, operand: str) -> str:
        """The C++ type of an operand's elements."""
        return CPP_TYPES[self.dtypes[self.operands.index(operand)]]

    def size(self, operand: str) -> int:
        """Bytes of an operand's element."""
        return DTYPES[self.dtypes[self.operands.index(operand)]]

    def block(self, operand: str) -> int:
        """Elements of an operand in a block."""
        return BLOCK_BYTES // self.size(operand)

    @property
    def whole(self) -> int:
        """Lanes of a whole repeat: elements of the widest operand in it."""
        return REPEAT_BYTES // max(DTYPES[d] for d in self.dtypes)


Writer = Callable[[Site], str]


def u8(name: str) -> str: return f"static_cast<uint8_t>({name})"
def u16(name: str) -> str: return f"static_cast<uint16_t>({name})"
def u32(name: str) -> str: return f"static_cast<uint32_t>({name})"


def parameters(site: Site) -> str:
    """The parameters of a function: tensors, then numbers; a scalar is of the dtype of the source, or of the target where there is none."""
    kinds = {o.name: "GlobalTensor" if "GM" in o.scopes else "LocalTensor" for o in INSTRUCTIONS[site.op].operands}
    out = [f"const {kinds[o]}<{site.kind(o)}>& {o}" for o in site.operands]
    for name in site.fields:
        if name == "scalar":
            out.append(f"{scalar_kind(site)} scalar")
        elif name == "mode":
            out.append("CMPMODE mode")
        else:
            out.append(f"int64_t {name}{' = 0' if name in DEFAULTS else ''}")
    return ", ".join(out)


def scalar_dtype(site: Site) -> str:
    """The dtype of a scalar operand: of what is chosen by vsels, else of the source, or of the target of vdup."""
    return site.dtypes[0] if site.op in ("vdup", "vsels") else site.dtypes[1]


def scalar_kind(site: Site) -> str:
    """The C++ type of a scalar operand."""
    return CPP_TYPES[scalar_dtype(site)]


def function(site: Site, lines: Sequence[str], more: str = "") -> str:
    """A function of the instruction's name with these lines; `more`: parameters behind those of the instruction."""
    given = parameters(site) + (f", {more}" if more else "")
    return "\n".join([f"__aicore__ inline void {site.op}({given})", "{", *[f"    {line}" if line else "" for line in lines], "}"])
