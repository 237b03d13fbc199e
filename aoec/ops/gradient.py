"""Derives the gradient of a meaning, as a meaning: it takes the gradients of the results and gives those of the arguments.

Statements are visited backwards. Where one reads an element, that element's gradient grows by the gradient of what the statement writes,
times the slope of the value by the element (`SLOPES`). It is summed over all loops of the statement except those that index the element. An
index that is a loop over the whole dimension names the element directly. Any other index (a window's, an offset, one that data give) is
compared with a loop over the dimension, and counts where the two are equal. So no sum is written to a computed place. Locals of the meaning
that the slopes read are computed again.

At a tie every greatest element, and of `max(a, b)` the first, has the whole gradient. A cast is taken as exact.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from math import pi, prod, sqrt

from aoec.base.errors import UnsupportedError
from aoec.ir.func.meaning import Argument, Dim, Meaning, Statement
from aoec.ir.graph.graph import Attribute
from aoec.ir.index import Binary, Call, Cast, Expr, Float, Int, Read, Var, call, children, eq, le, lt, reads, select, variables
from aoec.ops.declare import Attributes, Op, Shape
from aoec.ops.meanings import loops, meaning

Slope = Callable[..., Sequence[Expr]]
NONE, ONE = Int(0), Int(1)
REALS = ("fp32", "fp16", "bf16")
# function -> of its value and arguments, how much the value grows with each argument
SLOPES: dict[str, Slope] = {
    "exp": lambda y, a: (y,), "log": lambda y, a: (call("reciprocal", a),), "sqrt": lambda y, a: (call("reciprocal", y) * 0.5,),
    "rsqrt": lambda y, a: (y * y * y * -0.5,), "reciprocal": lambda y, a: (y * y * -1.0,), "tanh": lambda y, a: (1.0 - y * y,),
    "erf": lambda y, a: (call("exp", a * a * -1.0) * (2.0 / sqrt(pi)),), "sigmoid": lambda y, a: (y * (1.0 - y),),
    "sin": lambda y, a: (call("cos", a),), "cos": lambda y, a: (call("sin", a) * -1.0,), "tan": lambda y, a: (y * y + 1.0,),
    "asin": lambda y, a: (call("rsqrt", 1.0 - a * a),), "acos": lambda y, a: (call("rsqrt", 1.0 - a * a) * -1.0,),
    "atan": lambda y, a: (call("reciprocal", a * a + 1.0),), "sinh": lambda y, a: (call("cosh", a),),
    "cosh": lambda y, a: (call("sinh", a),), "asinh": lambda y, a: (call("rsqrt", a * a + 1.0),),
    "acosh": lambda y, a: (call("rsqrt", a * a - 1.0),), "atanh": lambda y, a: (call("reciprocal", 1.0 - a * a),),
    "abs": lambda y, a: (call("sign", a),), "pow": lambda y, a, b: (b * call("pow", a, b - 1.0), y * call("log", a)),
    "max": lambda y, a, b: (select(le(b, a), ONE, NONE), select(lt(a, b), ONE, NONE)),
    "min": lambda y, a, b: (select(le(a, b), ONE, NONE), select(lt(b, a), ONE, NONE)),
    "select": lambda y, c, a, b: (NONE, select(c, ONE, NONE), select(c, NONE, ONE)),
    **dict.fromkeys(("floor", "ceil", "round", "trunc", "sign", "not"), lambda y, a: (NONE,)),  # steps: level but at the steps
    "+": lambda y, a, b: (ONE, ONE), "-": lambda y, a, b: (ONE, Float(-1.0)), "*": lambda y, a, b: (b, a),
    "/": lambda y, a, b: (call("reciprocal", b), y / b * -1.0), "%": lambda y, a, b: (ONE, call("floor", a / b) * -1.0),
    "fmod": lambda y, a, b: (ONE, call("trunc", a / b) * -1.0),
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">=", "and", "or", "//"), lambda y, a, b: (NONE, NONE)),
}


def gradient(op: str | Op, shapes: Sequence[Shape], attributes: Attributes | Sequence[tuple[str, Attribute]] = ()) -> Meaning:
    """Return the gradient of an operator for arguments of these shapes: see `derived`."""
    return derive_gradient(meaning(op, shapes, attributes))


def derive_gradient(m: Meaning) -> Meaning:
    """Return the meaning <name>_gradient.

    Its arguments are those of `m`, whose extents are bound, and dY for each result Y. It gives dX for each argument X on which a result
    depends smoothly. Raise UnsupportedError where there is no such argument. Raise it, too, where a statement has no slope: whole numbers,
    or a tensor that is written over.
    """
    return _Backwards(m).meaning()


class _Backwards:
    """A gradient in the making."""

    def __init__(self, m: Meaning) -> None:
        self.m = m
        self.names = {a.name for a in (*m.inputs, *m.outputs)} | {s.target.buffer for s in m.statements}
        self.dims = {a.name: a.dims for a in (*m.inputs, *m.outputs)}
        self.loops = list(m.loops)
        self.made: list[Statement] = []
        self.results = {o.name: self.fresh(f"d{o.name}") for o in m.outputs}
        self.parts: dict[str, list[str]] = {o.name: [self.results[o.name]] for o in m.outputs}  # tensor -> whose sum its gradient is
        self.totals: dict[str, str] = {}

    def fresh(self, name: str) -> str:
        """Return a name that no tensor has."""
        while name in self.names:
            name += "_"
        self.names.add(name)
        return name

    def meaning(self) -> Meaning:
        m = self.m
        for s in m.statements:
            if s.target.buffer not in self.dims:
                self.dims[s.target.buffer] = self.local_dims(s)
        for s in reversed(m.statements):
            if s.target.buffer in {r.buffer for e in (s.value, s.init or NONE) for r in reads(e)}:
                raise UnsupportedError(f"{m.name} has no gradient: {s.target.buffer} is written over with what is made of itself")
            if s.target.buffer in self.parts:
                self.statement(s)
        given = [a for a in m.inputs if a.name in self.parts]
        if not given:
            raise UnsupportedError(f"{m.name} has no gradient: no result depends smoothly on an argument")
        out = tuple(Argument(self.total(a.name), a.dims) for a in given)
        inputs = (*m.inputs, *(Argument(self.results[o.name], o.dims) for o in m.outputs))
        return Meaning(f"{m.name}_gradient", inputs, (), out, (*self.again(), *self.made), tuple(self.loops))

    def local_dims(self, s: Statement) -> tuple[Dim, ...]:
        """Return the dimensions of a local tensor: the loops at which it is written."""
        extents = loops(self.m, s)
        if not all(isinstance(i, Var) for i in s.target.indices):
            raise UnsupportedError(f"{self.m.name} has no gradient: the local {s.target.buffer} is written at computed places")
        return tuple(Dim(i.name, Int(extents[i.name])) for i in s.target.indices if isinstance(i, Var))

    def again(self) -> list[Statement]:
        """Return the statements of the meaning that the gradient reads results of."""
        wanted = {r.buffer for s in self.made for r in _read(s)}
        out: list[Statement] = []
        for s in reversed(self.m.statements):
            if s.target.buffer in wanted:
                self.local_dims(s)  # which it is now, also where it was a result
                out.append(s)
                wanted |= {r.buffer for r in _read(s)}
        return out[::-1]

    def total(self, name: str) -> str:
        """Return the gradient of a tensor: its one part under that name, or a statement that adds its parts."""
        parts = self.parts[name]
        if name not in self.totals and parts == [self.results.get(name)]:
            self.totals[name] = parts[0]
        elif name not in self.totals:
            self.totals[name] = self.fresh(f"d{name}")
            at = tuple(Var(d.name) for d in self.dims[name])
            if len(parts) > 1:
                terms: list[Expr] = [Read(p, at) for p in parts]
                self.made.append(Statement(Read(self.totals[name], at), "=", reduce(lambda a, b: a + b, terms)))
            else:
                only = next(i for i, s in enumerate(self.made) if s.target.buffer == parts[0])
                self.made[only] = replace(self.made[only], target=replace(self.made[only].target, buffer=self.totals[name]))
        return self.totals[name]

    def statement(self, s: Statement) -> None:
        """Add what a statement contributes to the gradients of what it reads. Raise UnsupportedError where a maximum or minimum starts from
        an argument."""
        grown: Expr = Read(self.total(s.target.buffer), s.target.indices)
        if s.op in ("max=", "min="):
            if s.init is not None and reads(s.init):
                raise UnsupportedError(f"{self.m.name} has no gradient: a greatest or least element that starts from an argument")
            grown = select(eq(s.value, s.target), grown, NONE)
        known = s.target if s.op == "=" and all(isinstance(i, Var) for i in s.target.indices) else s.value
        for read, by in slopes(s.value, grown, self.m.name, known):
            self.grow(s, read, by, loops(self.m, s))
        if s.init is not None:
            kept = {v: n for v, n in loops(self.m, s).items() if any(v in variables(i) for i in s.target.indices)}
            for read, by in slopes(s.init, grown, self.m.name):
                self.grow(s, read, by, kept)

    def grow(self, s: Statement, read: Read, by: Expr, extents: Mapping[str, int]) -> None:
        """Add the statement that sums what each element receives from one read in a statement, over all loops of that statement."""
        at: list[Var] = []
        for index, dim in zip(read.indices, self.dims[read.buffer], strict=True):
            if isinstance(index, Var) and Int(extents[index.name]) == dim.extent and index not in at:
                at.append(index)
            else:
                at.append(Var(self.loop(dim)))
                by = by if dim.extent == ONE and index == NONE else select(eq(at[-1], index), by, NONE)
        seen = frozenset().union(*map(variables, (*at, by)))
        times = prod(n for v, n in extents.items() if v not in seen)  # iterations that differ in nothing that is looked at
        parts = self.parts.setdefault(read.buffer, [])
        part = self.fresh(f"d{read.buffer}_{len(parts) + 1}")
        parts.append(part)
        self.made.append(Statement(Read(part, tuple(at)), "+=", by if times == 1 else by * float(times)))

    def loop(self, dim: Dim) -> str:
        """Return a new loop over a dimension."""
        taken = {d.name for d in self.loops} | {d.name for dims in self.dims.values() for d in dims}
        name = next(n for n in (f"{dim.name}_{k}" for k in range(len(taken) + 1)) if n not in taken)
        self.loops.append(replace(dim, name=name))
        return name


def slopes(e: Expr, by: Expr, name: str, known: Expr | None = None) -> Iterator[tuple[Read, Expr]]:
    """Yield (read, how much it is given) of each element that a value reads, where the value, which may be `known`, is given `by`."""
    if isinstance(e, Read):
        yield e, by
    elif isinstance(e, Cast):
        yield from slopes(e.value, by, name) if e.dtype in REALS else ()
    elif isinstance(e, Call) and e.fn == "guard":
        assert isinstance(e.args[0], Read)
        yield e.args[0], by  # what lies outside is met by no loop over the dimension
    elif isinstance(e, (Binary, Call)):
        word, parts = e.op if isinstance(e, Binary) else e.fn, children(e)
        if word not in SLOPES or (word in ("min", "max") and len(parts) != 2):
            raise UnsupportedError(f"{name} has no gradient: {word} has no slope")
        for part, slope in zip(parts, SLOPES[word](e if known is None else known, *parts), strict=True):
            if slope != NONE:
                yield from slopes(part, by * slope, name)


def _read(s: Statement) -> tuple[Read, ...]:
    """Return all that a statement reads, indices among it, but what it writes."""
    return tuple(r for e in (s.value, *s.target.indices, *(() if s.init is None else (s.init,))) for r in reads(e))
