"""Operators that move elements and change none: reshape (a view of a row-major tensor), transpose, concat, slice (either way), expand, pad
with a constant, upsample (nearest), depth_to_space."""
from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import prod

import numpy as np

from aoec.ops.declare import Attributes, Onnx, Op, Shape, names, tensor
from aoec.ops.samples import sample
from aoec.ops.sizes import rows

MOVES = ("reshape", "transpose", "slice")  # of which a reader can do the work, by where it reads


def _reshape_text(shapes: Sequence[Shape], attributes: Attributes) -> str:
    """Return the element at the same place in row-major order."""
    shape: Shape = attributes["shape"]  # type: ignore[assignment]
    loops = names("o", len(shape))
    flat = " + ".join(f"{loop} * {prod(shape[at + 1:])}" for at, loop in enumerate(loops)) or "0"
    reads = [f"({flat}) // {prod(shapes[0][at + 1:])} % {extent}" for at, extent in enumerate(shapes[0])]
    dims = [f"{loop}: {extent}" for loop, extent in zip(loops, shape)]
    x, y = tensor("X", names("i", len(shapes[0]))), tensor("Y", dims)
    return f"reshape({x}) -> {y} {{\n  {tensor('Y', loops)} = {tensor('X', reads)}\n}}"


def _transpose_text(shapes: Sequence[Shape], attributes: Attributes) -> str:
    loops = names("i", len(shapes[0]))
    y = tensor("Y", [loops[axis] for axis in attributes["perm"]])  # type: ignore[union-attr, index]
    return f"transpose({tensor('X', loops)}) -> {y} {{\n  {y} = {tensor('X', loops)}\n}}"


def _concat_text(shapes: Sequence[Shape], attributes: Attributes) -> str:
    """Return the text of a concat: one statement for each argument X0, X1, ..., which writes at its offset along the axis."""
    axis = int(attributes["axis"])  # type: ignore[arg-type]
    loops = names("i", len(shapes[0]))
    offsets = [0, *accumulate(shape[axis] for shape in shapes)]
    arguments, statements = [], []
    for at in range(len(shapes)):
        own = [*loops[:axis], f"a{at}", *loops[axis + 1:]]
        arguments.append(tensor(f"X{at}", own))
        statements.append(f"  {tensor('Y', [*loops[:axis], f'a{at} + {offsets[at]}', *loops[axis + 1:]])} = {arguments[-1]}")
    y = tensor("Y", [*loops[:axis], f"i{axis}: {offsets[-1]}", *loops[axis + 1:]])
    return f"concat({', '.join(arguments)}) -> {y} {{\n" + "\n".join(statements) + "\n}"


def _slice_text(shapes: Sequence[Shape], attributes: Attributes) -> str:
    """Return the text of a slice: `sizes` elements of each axis from `starts` on, `steps` apart."""
    starts, sizes, steps = (_whole_numbers(attributes, name) for name in ("starts", "sizes", "steps"))
    for at, n, by, extent in zip(starts, sizes, steps, shapes[0], strict=True):
        if n and not (0 <= at < extent and 0 <= at + (n - 1) * by < extent):
            raise ValueError("the slice leaves its tensor")
    loops = names("o", len(shapes[0]))
    reads = [f"{o} * {by} + {at}" for o, at, by in zip(loops, starts, steps)]
    x, y = tensor("X", names("i", len(loops))), tensor("Y", [f"{o}: {n}" for o, n in zip(loops, sizes)])
    return f"slice({x}) -> {y} {{\n  {tensor('Y', loops)} = {tensor('X', reads)}\n}}"


def _whole_numbers(attributes: Attributes, name: str) -> tuple[int, ...]:
    """Return an attribute that is a list of whole numbers."""
    value = attributes[name]
    assert isinstance(value, tuple)
    return tuple(int(v) for v in value)


def _slice(x: np.ndarray, *, starts: Sequence[int], sizes: Sequence[int], steps: Sequence[int]) -> np.ndarray:
    return x[np.ix_(*[at + by * np.arange(n) for at, n, by in zip(starts, sizes, steps)])] if x.ndim else x


def _expand_text(shapes: Sequence[Shape], attributes: Attributes) -> str:
    """Return the text of a tensor of shape `shape`. Axes of extent 1 are read repeatedly, and leading axes may be new."""
    shape, own = _whole_numbers(attributes, "shape"), shapes[0]
    if len(own) > len(shape) or any(n not in (1, to) for n, to in zip(own, shape[len(shape) - len(own):])):
        raise ValueError(f"{list(own)} does not expand to {list(shape)}")
    loops = names("o", len(shape))
    reads = ["0" if n == 1 else loop for n, loop in zip(own, loops[len(shape) - len(own):])]
    x, y = tensor("X", names("i", len(own))), tensor("Y", [f"{o}: {n}" for o, n in zip(loops, shape)])
    return f"expand({x}) -> {y} {{\n  {tensor('Y', loops)} = {tensor('X', reads)}\n}}"


def _pad_text(shapes: Sequence[Shape], attributes: Attributes) -> str:
    """Return the text of a pad: `before` and `after` elements of `value` at the two ends of each axis."""
    before, after = _whole_numbers(attributes, "before"), _whole_numbers(attributes, "after")
    loops = names("o", len(shapes[0]))
    sizes = [f"{o}: {b + n + a}" for o, b, n, a in zip(loops, before, shapes[0], after, strict=True)]
    x, y = tensor("X", names("i", len(loops))), tensor("Y", sizes)
    read = tensor("X", [f"{o} - {b}" for o, b in zip(loops, before)])
    return f"pad({x}) -> {y} {{\n  {tensor('Y', loops)} = {read} else {attributes['value']}\n}}"


def _pad(x: np.ndarray, *, before: Sequence[int], after: Sequence[int], value: float) -> np.ndarray:
    return np.pad(x, list(zip(before, after)), constant_values=x.dtype.type(value))


def _upsample_text(shapes: Sequence[Shape], attributes: Attributes) -> str:
    """Return the text of an upsampling: each pixel `scale` times down and across, by one statement for each place that it is written to."""
    (down, across), (height, width) = _whole_numbers(attributes, "scale"), shapes[0][2:]
    places = [(i, j) for i in range(down) for j in range(across)]
    statements = [f"  Y[n, c, h * {down} + {i}, w * {across} + {j}] = X[n, c, h, w]" for i, j in places]
    y = f"Y[n, c, y: {height * down}, x: {width * across}]"
    return f"upsample(X[n, c, h, w]) -> {y} {{\n" + "\n".join(statements) + "\n}"


BY_PHASE = (0, 3, 4, 1, 5, 2)  # [n, phases down, across, c, h, w] as [n, c, h, phase, w, phase]


def _depth_to_space_text(shapes: Sequence[Shape], attributes: Attributes) -> str:
    """Return the text of depth_to_space, with one statement for each phase. There are `scale` phases down and across. Each phase has the
    channels of the result, and each pixel becomes one pixel for each phase."""
    (down, across), (_, channels, height, width) = _whole_numbers(attributes, "scale"), shapes[0]
    if channels % (down * across):
        raise ValueError(f"{channels} channels are not {down} x {across} phases")
    each, phases = channels // (down * across), [(i, j) for i in range(down) for j in range(across)]
    statements = [f"  Y[n, c, h * {down} + {i}, w * {across} + {j}] = X[n, c + {at * each}, h, w]" for at, (i, j) in enumerate(phases)]
    y = f"Y[n, c: {each}, y: {height * down}, x: {width * across}]"
    return f"depth_to_space(X[n, k, h, w]) -> {y} {{\n" + "\n".join(statements) + "\n}"


def spelt_out(shape: Shape, scale: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Return (shape, permutation, shape): what an image of a shape is reshaped to, transposed and reshaped to by depth_to_space."""
    (n, c, h, w), (down, across) = shape, scale
    each = c // (down * across)
    return (n, down, across, each, h, w), BY_PHASE, (n, each, h * down, w * across)


def _depth_to_space(x: np.ndarray, *, scale: Sequence[int]) -> np.ndarray:
    apart, perm, shape = spelt_out(x.shape, scale)
    return np.ascontiguousarray(x.reshape(apart).transpose(perm).reshape(shape))


OPS = (
    Op("depth_to_space", _depth_to_space_text, _depth_to_space, "movement", cann=("DepthToSpace",),
       samples=(sample((1, 12, 2, 2), scale=(2, 3)),)),
    Op("reshape", _reshape_text, lambda x, *, shape: x.reshape(shape), "view", cann=("Reshape",),
       samples=(sample((2, 6), shape=(3, 4)), sample((2, 6), shape=(12,)))),
    Op("transpose", _transpose_text, lambda x, *, perm: np.ascontiguousarray(x.transpose(perm)), "movement",
       rows(attributes={"perm": (1, 0)}), cann=("TransposeD",), onnx=Onnx("Transpose", {"perm": ()})),
    Op("concat", _concat_text, lambda *xs, axis: np.concatenate(xs, axis=axis), "movement", cann=("ConcatD",),
       onnx=Onnx("Concat", {"axis": 0}, types=("own",)), samples=(sample((2, 3), (2, 1), (2, 2), axis=1),)),
    Op("slice", _slice_text, _slice, "movement", cann=("StridedSliceD",),
       samples=(sample((7, 5), starts=(5, 1), sizes=(3, 2), steps=(-2, 3)),)),
    Op("expand", _expand_text, lambda x, *, shape: np.ascontiguousarray(np.broadcast_to(x, shape)), "movement", cann=("ExpandD",),
       samples=(sample((3, 1), shape=(2, 3, 4)),)),
    Op("pad", _pad_text, _pad, "movement", cann=("PadD",), samples=(sample((2, 3), before=(1, 0), after=(0, 2), value=3.0),)),
    Op("upsample", _upsample_text, lambda x, *, scale: x.repeat(scale[0], axis=2).repeat(scale[1], axis=3), "movement",
       samples=(sample((1, 2, 2, 3), scale=(2, 3)),)),
)
