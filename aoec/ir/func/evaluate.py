"""Values of a func, the plain way: loops and blocks run point by point. Slow and obviously right; an oracle for tests.

Element arithmetic is done in fp32 (integers exactly) and rounded once, when stored. A local buffer lives for one
iteration of the innermost loop that encloses every block that touches it, and starts as NaN, so a value that
was never written shows. A reducer starts from `init` (or its identity) where all its reduction loops inside that lifetime are 0.
"""
from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from aoec.base.errors import CheckError
from aoec.ir import index
from aoec.ir.func.tir import Block, Func, Loop, Node, blocks
from aoec.ir.index import Binary, Call, Cast, Expr, Float, Hole, Int, Read, Var

Env = dict[str, int]
Value = Callable[[Env], Any]
Action = Callable[[Env], None]
Order = Callable[[range], Iterable[int]]

IDENTITY = {"+=": 0.0, "max=": -math.inf, "min=": math.inf}


def numpy_dtype(dtype: str) -> np.dtype:
    """Return the NumPy dtype of an IR dtype (bf16 from ml_dtypes)."""
    if dtype == "bf16":
        import ml_dtypes
        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype({"fp32": "float32", "fp16": "float16"}.get(dtype, dtype))


def evaluate_func(func: Func, inputs: Mapping[str, np.ndarray], core_order: Order = iter) -> dict[str, np.ndarray]:
    """Return output name -> array, for inputs by name. `core_order` permutes the iterations of core loops. Raise CheckError for a hole
    that is not filled, an input of another shape, or an index out of range."""
    with np.errstate(all="ignore"):
        return _Run(func, inputs, core_order).outputs()


def lifetime(func: Func, buffer: str) -> tuple[Loop, ...]:
    """Return the loops around every block that touches `buffer`, outermost first; none for inputs and outputs."""
    return lifetimes(func).get(buffer, ())


def lifetimes(func: Func) -> dict[str, tuple[Loop, ...]]:
    """Return local buffer -> the loops around every block that touches it, for those that are touched."""
    out: dict[str, tuple[Loop, ...]] = {}
    local = {b.name for b in func.locals}
    for block, above in blocks(func.body):
        for name in touched_buffers(block) & local:
            out[name] = common(out.get(name, above), above)
    return out


def common(a: tuple[Loop, ...], b: tuple[Loop, ...]) -> tuple[Loop, ...]:
    """Return the loops that both paths begin with."""
    same = 0
    while same < min(len(a), len(b)) and a[same].var == b[same].var:
        same += 1
    return a[:same]


def block_reads(block: Block) -> list[Read]:
    """Return every read of a block: of its value, its init and inside its indices."""
    exprs = (block.value, *([block.init] if block.init is not None else []), *block.target.indices)
    return [r for e in exprs for r in index.reads(e)]


def touched_buffers(block: Block) -> frozenset[str]:
    """Return the buffers that a block reads or writes."""
    return frozenset([block.target.buffer, *[r.buffer for r in block_reads(block)]])


def nearest(place: int, extent: int) -> int:
    """Return the element of an axis that an index from data names: counted from the end where it is negative, and the nearest that there
    is."""
    return min(max(place + extent if place < 0 else place, 0), extent - 1)


class _Run:
    """One evaluation: the arrays, and the func compiled to closures over the loop variables."""

    def __init__(self, func: Func, inputs: Mapping[str, np.ndarray], core_order: Order) -> None:
        self.func, self.core_order = func, core_order
        self.arrays = {b.name: _poison_array(b.dtype, _shape(b.shape, f"buffer {b.name}")) for b in func.buffers}
        for b in func.inputs:
            array = np.asarray(inputs[b.name])
            if array.shape != self.arrays[b.name].shape:
                raise CheckError(f"input {b.name} has shape {array.shape} where the func says {self.arrays[b.name].shape}")
            self.arrays[b.name] = array.astype(numpy_dtype(b.dtype))
        self.lifetimes = {name: tuple(loop.var for loop in path) for name, path in lifetimes(func).items()}

    def outputs(self) -> dict[str, np.ndarray]:
        self.nodes(self.func.body, ())({})
        return {b.name: self.arrays[b.name] for b in self.func.outputs}

    def nodes(self, body: tuple[Node, ...], above: tuple[str, ...]) -> Action:
        actions = [self.loop(n, above) if isinstance(n, Loop) else self.block(n, above) for n in body]
        born = [self.arrays[name] for name, at in self.lifetimes.items() if at == above]

        def run(env: Env) -> None:
            for array in born:
                array[...] = _poison(array.dtype)
            for action in actions:
                action(env)
        return run

    def loop(self, loop: Loop, above: tuple[str, ...]) -> Action:
        extent, body, name = self.expr(loop.extent), self.nodes(loop.body, above + (loop.var,)), loop.var
        order: Order = self.core_order if loop.kind == "core" else iter

        def run(env: Env) -> None:
            for i in order(range(int(extent(env)))):
                env[name] = i
                body(env)
            env.pop(name, None)
        return run

    def block(self, block: Block, above: tuple[str, ...]) -> Action:
        array, place = self.arrays[block.target.buffer], self.place(block.target, f"block {block.name} writes")
        value = self.expr(block.value)
        if block.op == "=":
            fit = _fitting(array.dtype)

            def assign(env: Env) -> None:
                array[place(env)] = fit(value(env))
            return assign
        names = frozenset().union(*[index.variables(i) for i in block.target.indices])
        born = len(self.lifetimes.get(block.target.buffer, ()))
        reduction = [v for v in above[born:] if v not in names]
        start = self.expr(block.init) if block.init is not None else _constant(IDENTITY[block.op])
        combine = {"+=": lambda a, b: a + b, "max=": _maximum, "min=": _minimum}[block.op]

        element = _element(array)

        def update(env: Env) -> None:
            at = place(env)
            old = start(env)
            for v in reduction:
                if env[v]:
                    old = element(at)
                    break
            array[at] = combine(old, value(env))
        return update

    def place(self, read: Read, what: str) -> Callable[[Env], tuple[int, ...]]:
        indices, shape = [self.expr(i) for i in read.indices], self.arrays[read.buffer].shape
        said = [bool(index.reads(i)) for i in read.indices]
        if len(indices) != len(shape):
            raise CheckError(f"{what} {read.buffer} with {len(indices)} indices; it has {len(shape)} dimensions")

        def at(env: Env) -> tuple[int, ...]:
            point = tuple([nearest(int(i(env)), n) if by_data else int(i(env)) for i, n, by_data in zip(indices, shape, said)])
            for p, n in zip(point, shape):
                if not 0 <= p < n:
                    raise CheckError(f"{what} {read.buffer}{list(point)}, outside its shape {list(shape)}, at {env}")
            return point
        return at

    def expr(self, e: Expr) -> Value:
        if isinstance(e, Int): return _constant(e.value)
        if isinstance(e, Float): return _constant(np.float32(e.value))
        if isinstance(e, Var): return _variable(e.name)
        if isinstance(e, Hole): raise CheckError(f"hole ?{e.name} is not filled; fill the func before evaluating it")
        if isinstance(e, Cast): return _cast(e.dtype, self.expr(e.value))
        if isinstance(e, Read): return self.read(e)
        if isinstance(e, Call) and e.fn == "select": return _select(*[self.expr(a) for a in e.args])
        if isinstance(e, Binary): return _of_variable(e) or _apply2(e.op, self.expr(e.left), self.expr(e.right))
        if isinstance(e, Call): return _apply(FUNCTIONS[e.fn], [self.expr(a) for a in e.args])
        raise CheckError(f"not an expression: {e!r}")

    def read(self, e: Read) -> Value:
        element, place = _element(self.arrays[e.buffer]), self.place(e, "a block reads")
        return lambda env: element(place(env))


def _shape(shape: tuple[Expr, ...], what: str) -> tuple[int, ...]:
    try:
        return tuple(int(index.evaluate(s, {})) for s in shape)
    except KeyError as e:
        raise CheckError(f"{what} has a shape that depends on {e.args[0]}, which is not filled") from None


def _poison(dtype: np.dtype) -> Any:
    return np.iinfo(dtype).min if dtype.kind in "iu" else True if dtype.kind == "b" else np.nan


def _poison_array(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    d = numpy_dtype(dtype)
    return np.full(shape, _poison(d), dtype=d)


def _fitting(dtype: np.dtype) -> Callable[[Any], Any]:
    """Return what makes a value one that an array of this dtype takes: of whole numbers the low bytes."""
    if dtype.kind not in "iu":
        return lambda x: x
    bits, low = 8 * dtype.itemsize, np.iinfo(dtype).min
    return lambda x: (x - low) % (1 << bits) + low if isinstance(x, int) else x


def _element(array: np.ndarray) -> Callable[[tuple[int, ...]], Any]:
    """Return what gives an element of an array as arithmetic sees it: fp32, or a Python integer."""
    if array.dtype == np.float32:
        return array.__getitem__
    return (lambda at: int(array[at])) if array.dtype.kind in "iub" else (lambda at: np.float32(array[at]))


def _constant(x: Any) -> Value: return lambda env: x
def _variable(name: str) -> Value: return lambda env: env[name]
def _select(c: Value, a: Value, b: Value) -> Value: return lambda env: a(env) if c(env) else b(env)
def _apply(f: Callable[..., Any], args: list[Value]) -> Value: return lambda env: f(*[a(env) for a in args])


def _of_variable(e: Binary) -> Value | None:
    """Return a multiple of a variable or a sum of two, which most indices are made of, without calls; None for others."""
    if not isinstance(e.left, Var):
        return None
    a = e.left.name
    if e.op == "*" and isinstance(e.right, Int):
        n = e.right.value
        return lambda env: env[a] * n
    if e.op == "+" and isinstance(e.right, Var):
        b = e.right.name
        return lambda env: env[a] + env[b]
    return None


def _apply2(op: str, a: Value, b: Value) -> Value:
    """Return the commonest ones without a call more: an evaluation is a few million of them."""
    if op == "+": return lambda env: a(env) + b(env)
    if op == "*": return lambda env: a(env) * b(env)
    f = BINARY[op]
    return lambda env: f(a(env), b(env))


def _cast(dtype: str, value: Value) -> Value:
    d = numpy_dtype(dtype)
    if d.kind in "iub":
        return lambda env: int(np.asarray(np.trunc(value(env))).astype(d))
    return lambda env: np.float32(np.asarray(value(env)).astype(d))


def _maximum(*args: Any) -> Any:
    return max(args) if all(isinstance(a, int) for a in args) else np.float32(np.max(np.array(args, dtype=np.float32)))


def _minimum(*args: Any) -> Any:
    return min(args) if all(isinstance(a, int) for a in args) else np.float32(np.min(np.array(args, dtype=np.float32)))


def _quotient(a: int, b: int) -> int:
    """Return a / b, rounded toward zero, or 0 where b is 0."""
    return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _power(a: Any, b: Any) -> Any:
    return a ** b if isinstance(a, int) and isinstance(b, int) and b >= 0 else np.float32(np.power(np.float32(a), np.float32(b)))


def _fp32(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: np.float32(f(*[np.float32(a) for a in args]))


BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": lambda a, b: np.float32(a) / np.float32(b),
    "//": lambda a, b: a // b, "%": lambda a, b: a % b, "==": lambda a, b: int(a == b), "!=": lambda a, b: int(a != b),
    "<": lambda a, b: int(a < b), "<=": lambda a, b: int(a <= b), ">": lambda a, b: int(a > b), ">=": lambda a, b: int(a >= b),
    "and": lambda a, b: int(bool(a) and bool(b)), "or": lambda a, b: int(bool(a) or bool(b)),
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "min": _minimum, "max": _maximum, "ceildiv": lambda a, b: -(-a // b), "not": lambda a: int(not a), "abs": abs,
    "exp": _fp32(np.exp), "log": _fp32(np.log), "sqrt": _fp32(np.sqrt), "rsqrt": _fp32(lambda x: 1 / np.sqrt(x)), "tanh": _fp32(np.tanh),
    "erf": _fp32(math.erf), "sigmoid": _fp32(lambda x: 1 / (1 + np.exp(-x))), "reciprocal": _fp32(lambda x: 1 / x),
    "floor": _fp32(np.floor), "ceil": _fp32(np.ceil), "round": _fp32(np.rint), "pow": _power,
    "sin": _fp32(np.sin), "cos": _fp32(np.cos), "tan": _fp32(np.tan), "asin": _fp32(np.arcsin), "acos": _fp32(np.arccos),
    "atan": _fp32(np.arctan), "sinh": _fp32(np.sinh), "cosh": _fp32(np.cosh), "asinh": _fp32(np.arcsinh), "acosh": _fp32(np.arccosh),
    "atanh": _fp32(np.arctanh), "trunc": _fp32(np.trunc), "fmod": _fp32(np.fmod),
    "sign": lambda a: (a > 0) - (a < 0) if isinstance(a, int) else np.sign(a), "idiv": _quotient, "bitand": operator.and_,
    "bitor": operator.or_, "bitxor": operator.xor, "bitnot": operator.invert, "shl": operator.lshift, "shr": operator.rshift,
}
