"""Functions of a source: one for each instruction that a program uses. It has the instruction's name, and makes its public calls.

So the text of a kernel has one line for each instruction, with the instruction's fields in their order. The public calls of an
instruction are written once, before the kernel. The files copies, cube, vector and casts write these functions.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from aoec.ascendc.calls import Release
from aoec.ascendc.expressions import CPP_TYPES
from aoec.ir.index import DTYPES
from aoec.target.isa.instructions import BLOCK_BYTES, INSTRUCTIONS, REPEAT_BYTES

# fields that no line of a kernel has: UnitFlag stays off, since the program's flags order the same accesses; a sum is another function; a
# zero point is in the words of scales
UNWRITTEN = ("unit", "atomic", "zero")
DEFAULTS = ("pad_value", "dst_high", "src_high")  # fields that a line leaves out where they are 0
REALS = ("scalar", "pad")
ROOM = "room"  # the name of what a kernel has of UB for what its calls need besides the program's buffers
MASKED = ("vcmp", "vcmps", "vsel", "vsels")  # instructions that need room for the bits of a comparison
WIDTH = 120  # characters, at which parameters are broken into lines


@dataclass(frozen=True)
class Site:
    """What a function is written for: an instruction, the dtypes of its operands, the product, and how a release spells."""

    op: str
    dtypes: tuple[str, ...]
    product: str
    release: Release
    atomic: bool = False  # whether it adds to what GM holds
    padded: bool = False  # whether it leaves a number behind each burst
    is_ragged: bool = False  # whether its bursts into GM may be no whole blocks, where copies move these alone
    side: str = ""  # of such bursts shorter than a block: what is written back with them (bursts.py)

    @property
    def name(self) -> str:
        """Return the name of the function."""
        marks = {"atomic": self.atomic, "padded": self.padded, "parts": self.is_ragged, self.side: bool(self.side)}
        return "_".join([self.op, *(mark for mark, there in marks.items() if there)])

    @property
    def operands(self) -> tuple[str, ...]:
        """Return names of its operands, in order."""
        return tuple(o.name for o in INSTRUCTIONS[self.op].operands)

    @property
    def fields(self) -> tuple[str, ...]:
        """Return names of its numbers, in order, as a line of the kernel gives them."""
        return tuple(n.name for n in INSTRUCTIONS[self.op].numbers if n.name not in UNWRITTEN and (n.name != "pad" or self.padded))

    def kind(self, operand: str) -> str:
        """Return the C++ type of an operand's elements."""
        return CPP_TYPES[self.dtypes[self.operands.index(operand)]]

    def size(self, operand: str) -> int:
        """Return bytes of an operand's element."""
        return DTYPES[self.dtypes[self.operands.index(operand)]]

    def block(self, operand: str) -> int:
        """Return elements of an operand in a block."""
        return BLOCK_BYTES // self.size(operand)

    @property
    def lanes(self) -> int:
        """Return lanes of a whole repeat: elements of the widest operand in it."""
        return REPEAT_BYTES // max(DTYPES[d] for d in (self.dtypes[:2] if self.op == "vgather" else self.dtypes))

    @property
    def takes_room(self) -> bool:
        """Return whether its calls need room in UB: bits of a comparison or of what is kept, pairs of a value and an index, words of
        numbers that are taken apart, parts of blocks on their way to GM, or a block of one number."""
        if self.is_ragged:
            return True
        if self.op in MASKED or self.product == "2201":
            return self.op in MASKED
        if self.op in ("vcmax", "vcmin", "vreducev2") or self.op == "vconv" and self.dtypes[1] == "int64":
            return True
        wide = self.op in ("vnchwconv", "vrelu") and DTYPES[self.dtypes[0]] == 4
        return self.product == "1001" and (wide or self.op in ("vmaxs", "vmins", "vbrcb"))


Writer = Callable[[Site], str]


def u8(name: str) -> str: return f"static_cast<uint8_t>({name})"
def u16(name: str) -> str: return f"static_cast<uint16_t>({name})"
def u32(name: str) -> str: return f"static_cast<uint32_t>({name})"


def parameters(site: Site) -> str:
    """Return the parameters of a function: tensors, then numbers; a scalar is of the dtype of the source, or of the target where there is
    none."""
    kinds = {o.name: "GlobalTensor" if "GM" in o.scopes else "LocalTensor" for o in INSTRUCTIONS[site.op].operands}
    out = [f"const {kinds[o]}<{site.kind(o)}>& {o}" for o in site.operands]
    for name in site.fields:
        if name in REALS:
            out.append(f"{scalar_kind(site)} {name}")
        elif name == "mode":
            out.append("CMPMODE mode")
        else:
            out.append(f"int64_t {name}{' = 0' if name in DEFAULTS and not site.takes_room else ''}")
    return ", ".join(out)


def scalar_dtype(site: Site) -> str:
    """Return the dtype of a scalar operand: of what is chosen by vsels, else of the source, or of the target of vdup."""
    return site.dtypes[0] if site.op in ("vdup", "vsels") else site.dtypes[1]


def scalar_kind(site: Site) -> str:
    """Return the C++ type of a scalar operand."""
    return CPP_TYPES[scalar_dtype(site)]


def function(site: Site, lines: Sequence[str]) -> str:
    """Return a function of the instruction's name with these lines; room is its last parameter where it takes some."""
    given = parameters(site) + (f", const LocalTensor<uint8_t>& {ROOM}" if site.takes_room else "")
    head = f"__aicore__ inline void {site.name}({given})"
    return "\n".join([*wrap(head), "{", *[each for line in lines for each in wrap(f"    {line}")], "}"])


def wrap(line: str) -> list[str]:
    """Return a line of C++, broken at commas where it is too long."""
    start, out, now = "    " * (len(line) - len(line.lstrip()) + 8 >> 2), [], ""
    for part in line.split(", "):
        if now and len(now) + len(part) + 2 > WIDTH:
            out.append(f"{now},")
            now = f"{start}{part}"
        else:
            now = f"{now}, {part}" if now else part
    return [*out, now]
