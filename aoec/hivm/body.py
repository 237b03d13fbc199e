"""The lines of a function in the making: values by what computes them, constants at its head, regions of loops and conditions."""
from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from aoec.base.errors import UnsupportedError
from aoec.ir.index import Binary, Call, Expr, Float, Int, Var
from aoec.ir.text.show import show
from aoec.target.isa.meaning import NUMPY_DTYPES, cast

TYPES = {"fp32": "f32", "fp16": "f16", "bf16": "bf16", "int8": "i8", "uint8": "ui8", "int16": "i16", "uint16": "ui16", "int32": "i32",
         "uint32": "ui32", "int64": "i64", "uint64": "ui64", "bool": "i8"}
ARITHMETIC = {"+": "addi", "-": "subi", "*": "muli", "//": "floordivsi"}
CALLS = {"min": "minsi", "max": "maxsi", "ceildiv": "ceildivsi"}
COMPARISONS = {"==": "eq", "!=": "ne", "<": "slt", "<=": "sle", ">": "sgt", ">=": "sge"}
PAD = "  "


class Body:
    """A function's lines. A value has one name in a region: what computes it is written where it is first asked for."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 2
        self.constants: dict[tuple[str, str], str] = {}  # (value, type) -> name
        self.known: list[dict[str, str]] = [{}]  # what computes a value -> its name, by region
        self.taken: dict[str, int] = {}
        self.vars: dict[str, str] = {}  # variables of the program -> names of values

    # ------------------------------------------------------------ lines and names

    def line(self, text: str) -> None:
        """Write a line."""
        self.lines.append(PAD * self.depth + text)

    def name(self, word: str) -> str:
        """Return a name for a value that no other has."""
        plain = re.sub(r"\W", "_", word, flags=re.ASCII)
        plain = plain if plain[:1].isalpha() or plain[:1] == "_" else f"v{plain}"
        while True:
            number = self.taken[plain] = self.taken.get(plain, 0) + 1
            made = plain if number == 1 else f"{plain}_{number}"
            if number == 1 or made not in self.taken:
                self.taken.setdefault(made, 1)
                return f"%{made}"

    def value(self, computed: str, word: str = "v") -> str:
        """Return the name of the value that `computed` is, which is written if no line around this one has it."""
        for region in reversed(self.known):
            if computed in region:
                return region[computed]
        made = self.name(word)
        self.line(f"{made} = {computed}")
        self.known[-1][computed] = made
        return made

    @contextmanager
    def region(self, head: str, tail: str = "}") -> Iterator[None]:
        """Put the lines that are written within this context into a region between `head` and `tail`."""
        self.line(head)
        self.depth += 1
        self.known.append({})
        yield
        self.known.pop()
        self.depth -= 1
        self.line(tail)

    def constant(self, value: int, kind: str = "index") -> str:
        """Return the name of a whole number, or of a truth value."""
        if kind == "i1":
            return self._constant("true" if value else "false", kind, "yes" if value else "no")
        return self._constant(str(value), kind, f"c{value}".replace("-", "m") + ("" if kind == "index" else f"_{kind}"))

    def _constant(self, text: str, kind: str, word: str) -> str:
        if (text, kind) not in self.constants:
            self.constants[text, kind] = self.name(word)
        return self.constants[text, kind]

    def number(self, e: Expr, dtype: str) -> str:
        """Return the name of a scalar operand, as its dtype rounds it; UnsupportedError where it is no constant."""
        if not isinstance(e, (Int, Float)):
            raise UnsupportedError(f"a scalar operand of HIVM is a constant here, and {show(e)} is none")
        kind = TYPES[dtype]
        if kind.startswith("ui"):
            raise UnsupportedError(f"HIVM has no constant of {dtype}")
        if dtype not in ("fp32", "fp16", "bf16"):
            return self.constant(int(e.value), kind)
        rounded = cast(np.asarray(e.value, np.float64), np.dtype(NUMPY_DTYPES[dtype]))
        return self._constant(real(float(rounded), dtype), kind, f"real_{kind}")

    def head(self) -> list[str]:
        """Return lines that say the constants."""
        return [f"{PAD * 2}{name} = arith.constant {value}" + ("" if kind == "i1" else f" : {kind}")
                for (value, kind), name in self.constants.items()]

    # ------------------------------------------------------------ index expressions

    def index(self, e: Expr) -> str:
        """Return the name of an index expression's value."""
        if isinstance(e, Int):
            return self.constant(e.value)
        if isinstance(e, Var):
            return self.vars[e.name]
        if isinstance(e, Binary) and e.op in ARITHMETIC:
            return self.value(f"arith.{ARITHMETIC[e.op]} {self.index(e.left)}, {self.index(e.right)} : index")
        if isinstance(e, Binary) and e.op == "%":
            return self.index(e.left - e.left // e.right * e.right)
        if isinstance(e, Call) and e.fn in CALLS:
            found = self.index(e.args[0])
            for a in e.args[1:]:
                found = self.value(f"arith.{CALLS[e.fn]} {found}, {self.index(a)} : index")
            return found
        if isinstance(e, Call) and e.fn == "select":
            return self.value(f"arith.select {self.truth(e.args[0])}, {self.index(e.args[1])}, {self.index(e.args[2])} : index")
        if isinstance(e, Call) and e.fn == "abs":
            return self.index(Call("max", (e.args[0], Int(0) - e.args[0])))
        if isinstance(e, Binary) and (e.op in COMPARISONS or e.op in ("and", "or")) or isinstance(e, Call) and e.fn == "not":
            return self.value(f"arith.index_castui {self.truth(e)} : i1 to index")
        raise UnsupportedError(f"an index of HIVM text cannot be {show(e)}")

    def truth(self, e: Expr) -> str:
        """Return the name of a condition's value: whether an index expression is not 0."""
        if isinstance(e, Int):
            return self.constant(int(e.value != 0), "i1")
        if isinstance(e, Binary) and e.op in COMPARISONS:
            return self.value(f"arith.cmpi {COMPARISONS[e.op]}, {self.index(e.left)}, {self.index(e.right)} : index")
        if isinstance(e, Binary) and e.op in ("and", "or"):
            return self.value(f"arith.{e.op}i {self.truth(e.left)}, {self.truth(e.right)} : i1")
        if isinstance(e, Binary) and e.op == "*":
            return self.value(f"arith.andi {self.truth(e.left)}, {self.truth(e.right)} : i1")
        if isinstance(e, Call) and e.fn == "not":
            return self.value(f"arith.xori {self.truth(e.args[0])}, {self.constant(1, 'i1')} : i1")
        return self.value(f"arith.cmpi ne, {self.index(e)}, {self.constant(0)} : index")

    def wide(self, e: Expr) -> str:
        """Return the name of an index expression's value as i64: a flag's number."""
        return self.constant(e.value, "i64") if isinstance(e, Int) else self.value(f"arith.index_cast {self.index(e)} : index to i64")


def real(value: float, dtype: str) -> str:
    """Return a real number as MLIR reads it: in decimals, or by its bits where it is not finite."""
    if not np.isfinite(value):
        kind = np.dtype(NUMPY_DTYPES[dtype])
        return f"0x{int(np.asarray(value).astype(kind).view(f'u{kind.itemsize}')):0{2 * kind.itemsize}X}"
    whole, _, rest = repr(value).partition("e")
    return (whole if "." in whole else f"{whole}.0") + (f"e{rest}" if rest else "")
