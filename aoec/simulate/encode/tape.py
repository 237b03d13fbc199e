"""Calculations on columns, noted once and replayed by a kernel for any number of rows.

`Traced` stands for an array of columns: what is done to it with operators and NumPy's functions is noted on its tape, and not done. So a
formula that is written for NumPy's arrays says, called with these, what a kernel has to do (kernels/columns.py).
"""
from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from aoec.base.errors import UnsupportedError
from aoec.kernels import columns as kernel
from aoec.kernels.registers import settle

Array = Any  # np.ndarray, or an np.int32 where it is one register
WHOLE = {"add": kernel.ADD, "subtract": kernel.SUB, "multiply": kernel.MUL, "floor_divide": kernel.FLOORDIV, "remainder": kernel.MOD,
         "minimum": kernel.MIN, "maximum": kernel.MAX, "fmin": kernel.MIN, "fmax": kernel.MAX, "gcd": kernel.GCD,
         "bitwise_and": kernel.AND, "bitwise_or": kernel.OR, "absolute": kernel.ABS}
REAL = {"add": kernel.REAL_ADD, "subtract": kernel.REAL_SUB, "multiply": kernel.REAL_MUL, "divide": kernel.REAL_DIV,
        "floor_divide": kernel.REAL_FLOORDIV, "minimum": kernel.REAL_MIN, "maximum": kernel.REAL_MAX, "fmin": kernel.REAL_FMIN,
        "fmax": kernel.REAL_FMAX, "power": kernel.REAL_POW, "absolute": kernel.REAL_ABS, "ceil": kernel.CEIL, "floor": kernel.FLOOR,
        "rint": kernel.RINT}
COMPARED = {"less": (kernel.LESS, kernel.REAL_LESS, False), "less_equal": (kernel.LESS_EQUAL, kernel.REAL_LESS_EQUAL, False),
            "greater": (kernel.LESS, kernel.REAL_LESS, True), "greater_equal": (kernel.LESS_EQUAL, kernel.REAL_LESS_EQUAL, True),
            "equal": (kernel.EQUAL, kernel.REAL_EQUAL, False), "not_equal": (kernel.UNEQUAL, kernel.REAL_UNEQUAL, False)}
MOST = 1 << 17  # registers of a tape
NONE = np.int32(-1)  # an operand that there is not
ALWAYS_REAL = ("divide", "power", "ceil", "floor", "rint")
NEUTRAL = {"add": 0, "multiply": 1, "divide": 1}  # what changes nothing, on either side, or of reals as a divisor


class Traced:
    """An array of columns: the registers in which they are, and whether they hold reals."""

    __slots__ = ("real", "regs", "tape")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, tape: Tape, regs: Array, real: bool) -> None:
        self.tape, self.regs, self.real = tape, regs, real

    @property
    def shape(self) -> tuple[int, ...]:
        """Return how many columns along each axis."""
        return self.regs.shape

    @property
    def register(self) -> int:
        """Return the register of a single column."""
        return int(self.regs.reshape(()))

    def __getitem__(self, index: Any) -> Traced:
        return Traced(self.tape, self.regs[index], self.real)

    def reshape(self, *shape: int) -> Traced:
        """Return the same columns in another shape."""
        return Traced(self.tape, self.regs.reshape(*shape), self.real)

    def astype(self, dtype: Any) -> Traced:
        """Convert to reals, or to whole numbers by cutting off the fraction."""
        real = np.dtype(dtype).kind == "f"
        if real == self.real:
            return self
        return self.tape.note(kernel.TO_REAL if real else kernel.TO_INT, real, self.regs)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *given: Any, **options: Any) -> Any:
        return self.tape.apply(ufunc.__name__, given) if method == "__call__" and not options else NotImplemented

    def __array_function__(self, function: Callable[..., Any], types: Any, given: Any, options: Any) -> Any:
        if function is np.where:
            return self.tape.where(*given)
        if function is np.clip:
            value, low, high = given
            return self.tape.apply("minimum", (self.tape.apply("maximum", (value, low)), high))
        return NotImplemented

    def __neg__(self) -> Any: return self.tape.apply("subtract", (0, self))
    def __abs__(self) -> Any: return self.tape.apply("absolute", (self,))


def _operator(name: str, turned: bool) -> Callable[[Traced, Any], Any]:
    """Return an operator, which is `Tape.apply`; of columns of one kind, and of one and a whole number, with less ado."""
    whole, real, swapped = COMPARED[name] if name in COMPARED else (WHOLE.get(name), REAL.get(name), False)
    compared, behind, neutral = name in COMPARED, turned != swapped, NEUTRAL.get(name)

    def unlike(self: Traced, other: Any) -> Any:
        return self.tape.apply(name, (other, self) if turned else (self, other))

    def alike(self: Traced, other: Any) -> Any:
        kind = type(other)
        if kind is Traced and other.real is self.real:
            regs = other.regs
        elif kind is int and other != neutral:
            regs = self.tape.column(other, self.real)
        else:
            return unlike(self, other)
        a, b = (regs, self.regs) if behind else (self.regs, regs)
        return self.tape.note(real if self.real else whole, self.real and not compared, a, b)  # type: ignore[arg-type]

    return unlike if whole is None or real is None or name in ALWAYS_REAL else alike


for _word, _name in (("add", "add"), ("sub", "subtract"), ("mul", "multiply"), ("truediv", "divide"), ("floordiv", "floor_divide"),
                     ("mod", "remainder"), ("pow", "power"), ("and", "bitwise_and"), ("or", "bitwise_or")):
    setattr(Traced, f"__{_word}__", _operator(_name, False))
    setattr(Traced, f"__r{_word}__", _operator(_name, True))
for _word, _name in (("lt", "less"), ("le", "less_equal"), ("gt", "greater"), ("ge", "greater_equal"), ("eq", "equal"),
                     ("ne", "not_equal")):
    setattr(Traced, f"__{_word}__", _operator(_name, False))


@dataclass(frozen=True)
class Packed:
    """A tape as the kernel replays it; `place` [register of the tape]: where it is then, -1 where nothing needs it; `cuts`: of the code, at
    the marks."""

    code: Array
    pool: Array
    constant_at: Array
    constant: Array
    registers: int
    place: Array
    cuts: Array


class Tape:
    """What is done to columns, in order, equal things once. A register is a number; operations on arrays take one after the other."""

    def __init__(self) -> None:
        self.ops = array("i")  # operation, first register of its results, and so on
        self.operands = array("i"), array("i"), array("i")  # by register; -1: none
        self.constants: dict[tuple[bool, float], int] = {}
        self.known: dict[tuple[Any, ...], Array] = {}  # registers: columns know their tape, which would stay until garbage is looked for
        self.marks: list[int] = []

    def input(self) -> Traced:
        """Return a column of whole numbers that is brought from outside."""
        return Traced(self, np.int32(self._new(kernel.INPUT)), False)

    def mark(self) -> None:
        """Begin a part here: operations from here on can be replayed by themselves. Nothing noted before is reused: even operations on
        constants alone are noted again, since parts are replayed for different numbers of lanes."""
        self.marks.append(len(self.ops) // 2)
        self.known.clear()

    @property
    def columns(self) -> int:
        """Return how many columns are noted."""
        return len(self.operands[0])

    def _new(self, op: int, a: int = -1, b: int = -1, c: int = -1) -> int:
        """Return the register of a single result."""
        of_a, of_b, of_c = self.operands
        first = len(of_a)
        self.ops.append(op)
        self.ops.append(first)
        of_a.append(a)
        of_b.append(b)
        of_c.append(c)
        return first

    def column(self, value: Any, real: bool) -> Array:
        """Return the registers of a number, or of columns, as reals or as whole numbers."""
        if type(value) is Traced:
            return (value.astype(float) if real and not value.real else value).regs
        if type(value) is np.ndarray and value.ndim:
            raise UnsupportedError("a tape takes single numbers and its own columns")
        key = (real, float(value) if real else int(value))
        found = self.constants.get(key)
        if found is None:
            found = self.constants[key] = self._new(kernel.INPUT)
        return np.int32(found)

    def note(self, op: int, real: bool, *operands: Array) -> Traced:
        """Return the result of an operation on registers, which broadcast."""
        key: tuple[Any, ...] = (op, *operands)  # of numbers, which most are
        try:
            regs = self.known.get(key)
            if regs is None:
                regs = self.known[key] = np.int32(self._new(op, *operands))
        except TypeError:  # arrays have no hash
            key = (op, *[(x.shape, x.tobytes()) for x in operands])
            regs = self.known.get(key)
            if regs is None:
                single = not any([x.ndim for x in operands])
                regs = self.known[key] = np.int32(self._new(op, *map(int, operands))) if single else self._many(op, operands)
        return Traced(self, regs, real)

    def _many(self, op: int, operands: Sequence[Array]) -> Array:
        """Return the registers of results of several columns each."""
        shapes = {x.shape for x in operands if x.ndim}
        shape = np.broadcast(*operands).shape if len(shapes) > 1 else next(iter(shapes))
        first, count = len(self.operands[0]), prod(shape)
        if first + count > MOST:
            raise UnsupportedError(f"a tape holds {MOST:,} columns")
        self.ops.extend((op, first))
        for k, own in enumerate(self.operands):
            registers = operands[k] if k < len(operands) else NONE
            if registers.ndim == 0:
                own += array("i", [int(registers)]) * count
            else:
                spread = registers if registers.shape == shape else np.broadcast_to(registers, shape)
                own.frombytes(spread.tobytes() if spread.dtype == np.int32 else spread.astype(np.int32).tobytes())
        return np.arange(first, first + count, dtype=np.int32).reshape(shape)

    def apply(self, name: str, given: Sequence[Any]) -> Any:
        """Return what a function of NumPy, by name, gives of numbers and columns."""
        real = name in ALWAYS_REAL
        for x in given:
            if type(x) is Traced:
                real = real or x.real
                continue
            if name in NEUTRAL and (other := _neutral_operand(name, given)) is not None:
                return other
            if name == "power" and type(given[1]) is int and given[1] == 2:
                return self.apply("multiply", (given[0], given[0]))
            real = real or _is_real(x)
        operands = [x.regs if type(x) is Traced and x.real is real else self.column(x, real) for x in given]
        word = (REAL if real else WHOLE).get(name)
        if word is not None:
            return self.note(word, real, *operands)
        if name not in COMPARED:
            raise UnsupportedError(f"a tape has no {name} of {'reals' if real else 'whole numbers'}")
        whole, of_reals, turned = COMPARED[name]
        return self.note(of_reals if real else whole, False, *(operands[::-1] if turned else operands))

    def where(self, condition: Any, yes: Any, no: Any) -> Any:
        """Return `yes` where the condition is not 0, and `no` elsewhere."""
        real = _is_real(yes) or _is_real(no)
        if not isinstance(condition, Traced):
            return self.either(yes if condition else no, real)
        return self.note(kernel.SELECT, real, condition.regs, self.column(yes, real), self.column(no, real))

    def behind(self, ops: Sequence[int], operands: Sequence[Sequence[int]], constants: Sequence[tuple[bool, float]]) -> list[int]:
        """Return the registers of single columns that are noted behind all others, and of constants. Operands are places in these, -1:
        none."""
        numbers = [int(self.column(value, real)) for real, value in constants]
        first = len(self.operands[0])
        at = [*range(first, first + len(ops)), *numbers]
        self.ops.extend([x for pair in zip(ops, at) for x in pair])
        known = [*at, -1]
        for own, places in zip(self.operands, operands):
            own.extend([known[i] for i in places])
        return at

    def either(self, value: Any, real: bool) -> Traced:
        """Return a number, or columns, as columns."""
        return Traced(self, self.column(value, real), real)

    def any(self, columns: Sequence[Array]) -> Traced | None:
        """Return what is not 0 where any of these registers of whole numbers is not 0. Return None where there are no registers."""
        regs = np.unique(np.concatenate([x.reshape(-1) for x in columns])) if columns else np.zeros(0, np.int32)
        while len(regs) > 1:
            half = len(regs) // 2
            made = self.note(kernel.OR, False, regs[:half], regs[half:2 * half])
            regs = np.concatenate([made.regs, regs[2 * half:]])
        return Traced(self, regs.reshape(()), False) if len(regs) else None

    def pack(self, wanted: Array) -> Packed:
        """Return the tape as the kernel replays it, with only what `wanted` registers need. Registers that are read no more are reused."""
        operands = np.array([np.frombuffer(own, np.int32) for own in self.operands], np.int64)
        ops, first = np.array(self.ops, np.int64).reshape(-1, 2).T
        op_of = np.repeat(ops, np.diff(first, append=operands.shape[1]))  # by register
        kept = np.array(list(self.constants.values()), np.int64)
        place = np.full(operands.shape[1], -1)
        registers = settle(operands, kept, wanted.astype(np.int64), place)
        done = np.flatnonzero((place >= 0) & (op_of != kernel.INPUT))
        pool = np.zeros((max(1, len(done)), 4), np.int32)
        pool[:len(done), 0] = place[done]
        pool[:len(done), 1:] = np.where(operands[:, done] >= 0, place[operands[:, done]], 0).T
        ends = np.searchsorted(done, np.append(first, operands.shape[1]))  # of operations, among what is done
        some = np.flatnonzero(np.diff(ends))
        code = np.stack([ops[some], ends[some], ends[some + 1]], axis=1).astype(np.int32)
        used = [(key, at) for key, at in self.constants.items() if place[at] >= 0]
        bits = [np.float64(v).view(np.int64) if real else np.int64(v) for (real, v), _ in used]
        return Packed(code, pool, np.array([place[at] for _, at in used], np.int32), np.array(bits, np.int64), registers, place,
                      np.searchsorted(some, self.marks))


def _is_real(x: Any) -> bool:
    return x.real if type(x) is Traced else type(x) is not int and isinstance(x, (float, np.floating))


def _neutral_operand(name: str, given: Sequence[Any]) -> Traced | None:
    """Return the columns that a neutral number leaves as they are, as reals where it is one; None where neither is neutral."""
    a, b = given
    number, other = (b, a) if type(a) is Traced else (a, b)
    if type(number) is Traced or number != NEUTRAL[name] or (name == "divide" and (other is b or not other.real)):
        return None
    return other.astype(float) if _is_real(number) else other  # type: ignore[no-any-return]
