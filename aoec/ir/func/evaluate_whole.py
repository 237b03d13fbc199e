"""Values of an unscheduled func a block at a time, in NumPy: what evaluate.py does point by point, for sizes at which that takes hours.

Sums run in NumPy's order, so that they are those of evaluate.py only where they are exact, as they are of small whole numbers. Sums of
products of two tensors at loops alone are matrix products, which NumPy hands to BLAS: thousands of millions of points a second.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from math import prod
from typing import Any

import numpy as np

from aoec.base.errors import CheckError
from aoec.ir.func.evaluate import IDENTITY, numpy_dtype
from aoec.ir.func.tir import Block, Func, Loop, Node
from aoec.ir.index import Binary, Call, Cast, Expr, Float, Int, Read, Var, reads, variables
from aoec.ir.text.show import show

Array = np.ndarray
Grid = dict[str, Array]  # loop -> its values, along an axis of their own
PRODUCTS = 64  # points of a matrix product that take as long as one of other work
POINTS = 1 << 22  # evaluated together: some 16 MiB for each part of an expression
COMBINE: dict[str, Any] = {"+=": np.add, "max=": np.maximum, "min=": np.minimum}


def takes(func: Func) -> bool:
    """Return whether each block has its loops to itself, with fixed extents: then blocks can run one after the other."""
    return all(_nest(n) is not None for n in func.body)


def evaluate_whole(func: Func, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Return output name -> array, for inputs by name; CheckError for a func that `takes` refuses."""
    arrays = {b.name: np.zeros(_shape(b.shape), numpy_dtype(b.dtype)) for b in func.buffers}
    arrays |= {b.name: np.asarray(inputs[b.name]).astype(numpy_dtype(b.dtype)) for b in func.inputs}
    with np.errstate(all="ignore"):
        for node in func.body:
            nest = _nest(node)
            if nest is None:
                raise CheckError(f"func {func.name} has loops around several blocks, or open extents; it is evaluated point by point")
            _run(*nest, arrays)
    return {b.name: arrays[b.name] for b in func.outputs}


def _nest(node: Node) -> tuple[Block, dict[str, int]] | None:
    """Return the one block under a node, and the extents of its loops, outermost first; None where there is no such block."""
    loops: dict[str, int] = {}
    while isinstance(node, Loop):
        if len(node.body) != 1 or not isinstance(node.extent, Int):
            return None
        loops[node.var] = node.extent.value
        (node,) = node.body
    return node, loops


def _shape(shape: tuple[Expr, ...]) -> tuple[int, ...]:
    if not all(isinstance(e, Int) for e in shape):
        raise CheckError(f"a buffer of shape [{', '.join(map(show, shape))}] has no values before its holes are filled")
    return tuple(e.value for e in shape if isinstance(e, Int))


def cost(func: Func) -> int:
    """Return how long a func takes that `takes` takes and has no holes, in points of loops done one by one: a product's are done PRODUCTS
    at a time."""
    return sum(prod(loops.values()) // (PRODUCTS if factors(block) else 1) for block, loops in filter(None, map(_nest, func.body)))


def factors(block: Block) -> tuple[Read, Read] | None:
    """Return the two reads of a sum of products at loops alone, each loop once in a read and some in the target; None of any other
    block."""
    e = block.value
    if block.op != "+=" or not isinstance(e, Binary) or e.op != "*" or not isinstance(e.left, Read) or not isinstance(e.right, Read):
        return None
    found = [tuple(i.name for i in r.indices if isinstance(i, Var)) for r in (e.left, e.right, block.target)]
    plain = all(len(set(names)) == len(names) == len(r.indices) for names, r in zip(found, (e.left, e.right, block.target)))
    return (e.left, e.right) if plain and set(found[2]) <= {*found[0], *found[1]} else None


def _multiply(block: Block, loops: Mapping[str, int], arrays: Mapping[str, Array]) -> Array | None:
    """Return the sum of products over all of a block's loops, with an axis for each index of its target, in the dtype of the
    arithmetic. Return None for any other block, and where the loops do not cover everything that is read."""
    found = factors(block)
    if found is None or any(arrays[r.buffer].shape != tuple(loops[v] for v in _names(r)) for r in found):
        return None
    if set(loops) != {v for r in found for v in _names(r)}:
        return None
    labels = {v: at for at, v in enumerate(loops)}
    a, b = ((_wide(arrays[r.buffer]), [labels[v] for v in _names(r)]) for r in found)
    return np.asarray(np.einsum(*a, *b, [labels[v] for v in _names(block.target)], optimize=True))


def _names(r: Read) -> list[str]:
    return [i.name for i in r.indices if isinstance(i, Var)]


def _run(block: Block, loops: Mapping[str, int], arrays: dict[str, Array]) -> None:
    """Run a block: write its results into its target. The outermost loop runs a part at a time, so that memory is bounded."""
    out = arrays[block.target.buffer]
    if block.op != "=":
        grid = _grid({v: range(n) for v, n in loops.items() if v in variables(block.target)})
        start = _value(block.init, grid, arrays) if block.init is not None else IDENTITY[block.op]
        _store(out, block.target, grid, start, arrays)
        if (summed := _multiply(block, loops, arrays)) is not None:
            order = [v for v in loops if v in variables(block.target)]
            summed = np.transpose(summed, [_names(block.target).index(v) for v in order])
            _store(out, block.target, grid, _wide(out[_places(block.target, grid, arrays)]) + summed, arrays)
            return
    first = next(iter(loops), None)
    inner = int(np.prod([n for v, n in loops.items() if v != first], dtype=np.int64))
    step = max(1, POINTS // max(inner, 1))
    for at in range(0, loops[first] if first is not None else 1, step):
        part = {v: range(at, min(at + step, n)) if v == first else range(n) for v, n in loops.items()}
        _part(block, part, out, arrays)


def _part(block: Block, part: dict[str, range], out: Array, arrays: dict[str, Array]) -> None:
    """Run the block for a part of its loops."""
    grid = _grid(part)
    value = np.broadcast_to(_value(block.value, grid, arrays), tuple(len(r) for r in part.values()))
    if block.op == "=":
        _store(out, block.target, grid, value, arrays)
        return
    kept = {v: r for v, r in part.items() if v in variables(block.target)}
    summed = COMBINE[block.op].reduce(value, axis=tuple(i for i, v in enumerate(part) if v not in kept))
    own = _grid(kept)
    _store(out, block.target, own, COMBINE[block.op](_wide(out[_places(block.target, own, arrays)]), summed), arrays)


def _grid(part: Mapping[str, range]) -> Grid:
    return dict(zip(part, np.ix_(*[np.array(r) for r in part.values()])))


def _store(out: Array, target: Read, grid: Grid, value: Any, arrays: Mapping[str, Array]) -> None:
    """Store the value, rounded once, at the indices of the target."""
    out[_places(target, grid, arrays)] = np.asarray(value).astype(out.dtype)


def _places(read: Read, grid: Grid, arrays: Mapping[str, Array]) -> tuple[Array, ...]:
    """Return indices into the buffer, kept inside it: what lies outside is behind a guard. One from data counts from the end where it is
    negative."""
    return tuple(_place(e, n, grid, arrays) for e, n in zip(read.indices, arrays[read.buffer].shape, strict=True))


def _place(e: Expr, extent: int, grid: Grid, arrays: Mapping[str, Array]) -> Array:
    found = np.asarray(_value(e, grid, arrays)).astype(np.int64)
    return np.clip(np.where(found < 0, found + extent, found) if reads(e) else found, 0, extent - 1)


def _wide(x: Array) -> Array:
    """Return elements as arithmetic sees them: fp32, or int64."""
    return x.astype(np.int64 if x.dtype.kind in "iub" else np.float32)


def _value(e: Expr, grid: Grid, arrays: Mapping[str, Array]) -> Any:
    """Return the value of an expression at all points of a grid, where they differ."""
    if isinstance(e, Int): return e.value
    if isinstance(e, Float): return np.float32(e.value)
    if isinstance(e, Var): return grid[e.name]
    if isinstance(e, Read): return _wide(arrays[e.buffer][_places(e, grid, arrays)])
    if isinstance(e, Cast): return _cast(e.dtype, _value(e.value, grid, arrays))
    if isinstance(e, Binary): return BINARY[e.op](_value(e.left, grid, arrays), _value(e.right, grid, arrays))
    if isinstance(e, Call): return CALLS[e.fn](*[_value(a, grid, arrays) for a in e.args])
    raise CheckError(f"{show(e)} has no value before its holes are filled")


def _cast(dtype: str, x: Any) -> Any:
    to = numpy_dtype(dtype)
    return np.trunc(x).astype(to).astype(np.int64) if to.kind in "iub" else np.asarray(x).astype(to).astype(np.float32)


def _fp32(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: np.asarray(f(*[np.asarray(a, np.float32) for a in args]), np.float32)


def _quotient(a: Any, b: Any) -> Any:
    """Return a / b of whole numbers, rounded toward zero, or 0 where b is 0."""
    safe = np.where(b == 0, 1, b)
    return np.where(b == 0, 0, (a - np.fmod(a, safe)) // safe)


def _power(a: Any, b: Any) -> Any:
    if all(np.asarray(x).dtype.kind in "iu" for x in (a, b)):
        return np.power(a, b)
    return np.asarray(np.power(np.asarray(a, np.float32), np.asarray(b, np.float32)), np.float32)


def _erf(x: Array) -> Any:
    from scipy.special import erf  # here, since little needs it and it takes a while to load
    return erf(x)


def _truth(f: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda a, b: np.asarray(f(a, b)).astype(np.int64)


BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": _fp32(np.divide),
    "//": lambda a, b: a // b, "%": lambda a, b: a % b, "==": _truth(np.equal), "!=": _truth(np.not_equal), "<": _truth(np.less),
    "<=": _truth(np.less_equal), ">": _truth(np.greater), ">=": _truth(np.greater_equal), "and": _truth(np.logical_and),
    "or": _truth(np.logical_or),
}
CALLS: dict[str, Callable[..., Any]] = {
    "min": lambda *a: reduce(np.minimum, a), "max": lambda *a: reduce(np.maximum, a), "ceildiv": lambda a, b: -(-a // b),
    "select": lambda c, a, b: np.where(np.asarray(c) != 0, a, b), "not": lambda a: np.asarray(a == 0).astype(np.int64), "abs": np.abs,
    "exp": _fp32(np.exp), "log": _fp32(np.log), "sqrt": _fp32(np.sqrt), "rsqrt": _fp32(lambda x: 1 / np.sqrt(x)), "tanh": _fp32(np.tanh),
    "erf": _fp32(_erf), "sigmoid": _fp32(lambda x: 1 / (1 + np.exp(-x))), "reciprocal": _fp32(lambda x: 1 / x),
    "floor": _fp32(np.floor), "ceil": _fp32(np.ceil), "round": _fp32(np.rint), "pow": _power,
    "sin": _fp32(np.sin), "cos": _fp32(np.cos), "tan": _fp32(np.tan), "asin": _fp32(np.arcsin), "acos": _fp32(np.arccos),
    "atan": _fp32(np.arctan), "sinh": _fp32(np.sinh), "cosh": _fp32(np.cosh), "asinh": _fp32(np.arcsinh), "acosh": _fp32(np.arccosh),
    "atanh": _fp32(np.arctanh), "trunc": _fp32(np.trunc), "fmod": _fp32(np.fmod),
    "sign": np.sign, "idiv": _quotient, "bitand": np.bitwise_and, "bitor": np.bitwise_or, "bitxor": np.bitwise_xor, "bitnot": np.invert,
    "shl": np.left_shift, "shr": np.right_shift,
}
