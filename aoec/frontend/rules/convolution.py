"""Translates convolutions. Those whose strides or pads exceed what img2col takes are rewritten, such as an STFT's, whose window moves by
160 samples."""
from __future__ import annotations

from dataclasses import replace

from aoec.frontend.rules.rule import Rule
from aoec.frontend.rules.window import Window, convolve, crop, window
from aoec.frontend.translate.node import Node
from aoec.target.isa.instructions import INSTRUCTIONS

MOST = {field.name: field.high for field in INSTRUCTIONS["load3d"].numbers}
STEP, KERNEL, DILATION, PAD = (MOST[name] for name in ("stride_h", "filter_h", "dilation_h", "pad_top"))


def _conv(n: Node) -> bool:
    w = window(n, n.shape_of(1)[2:])
    if w is None:
        return False
    x, w = crop(n, n.input(0), w)
    found = fit_load3d(n, x, n.input(1), w)
    if found is None:
        return False
    x, kernel, w = found
    group = n.integer("group", 1)
    if w.rank == 2:
        return n.emit("conv2d", [x, kernel, *n.inputs()[2:]], {**w.attributes(), "group": group})
    return n.emit("reshape", [convolve(n, [x, kernel, *n.inputs()[2:]], w, group)], {"shape": n.shape()})


def fit_load3d(n: Node, x: str, kernel: str, w: Window) -> tuple[str, str, Window] | None:
    """Return (image, kernel, window) of the same convolution within what load3d takes, as far as it walks the last two dimensions. Return
    None where there is no way."""
    first = max(0, w.rank - 2)
    for axis in range(first, w.rank):
        if w.stride[axis] > STEP and w.dilation[axis] == 1:
            x, kernel, w = _phases(n, x, kernel, w, axis)
        if max(w.before[axis], w.after[axis]) > PAD:
            x = n.pad(x, axis + 2, w.before[axis], w.after[axis])
            w = replace(w, before=_put(w.before, axis, 0), after=_put(w.after, axis, 0))
    return (x, kernel, w) if fits(w) else None


def fits(w: Window) -> bool:
    """Return whether load3d takes a window, as far as it walks the dimensions."""
    def most(values: tuple[int, ...]) -> int:
        return max(values[-2:])
    return (most(w.stride) <= STEP and most(w.kernel) <= KERNEL and most(w.dilation) <= DILATION
            and max(most(w.before), most(w.after)) <= PAD)


def _phases(n: Node, x: str, kernel: str, w: Window, axis: int) -> tuple[str, str, Window]:
    """Return the convolution with all that lies within one step of an axis as channels, so that the step is 1."""
    step, at = w.stride[axis], axis + 2
    size = n.made_shape(x)[at] + w.before[axis] + w.after[axis]
    taps = -(-w.kernel[axis] // step)
    steps = (size - w.kernel[axis]) // step + taps
    x = n.pad(x, at, w.before[axis], max(0, steps * step - size + w.after[axis]))
    x = _as_channels(n, n.piece(x, at, 0, steps * step), at, step)
    kernel = _as_channels(n, n.pad(kernel, at, 0, taps * step - w.kernel[axis]), at, step)
    return x, kernel, Window(*(_put(old, axis, new) for old, new in (
        (w.kernel, taps), (w.stride, 1), (w.dilation, 1), (w.before, 0), (w.after, 0))))


def _as_channels(n: Node, x: str, at: int, step: int) -> str:
    """Return [n, c, ..., steps * step, ...] as [n, c * step, ..., steps, ...]."""
    shape = n.made_shape(x)
    apart = n.step("reshape", [x], {"shape": (*shape[:at], shape[at] // step, step, *shape[at + 1:])})
    rest = [a for a in range(2, len(shape) + 1) if a != at + 1]
    turned = n.step("transpose", [apart], {"perm": (0, 1, at + 1, *rest)})
    return n.step("reshape", [turned], {"shape": (shape[0], shape[1] * step, *shape[2:at], shape[at] // step, *shape[at + 1:])})


def _put(values: tuple[int, ...], at: int, value: int) -> tuple[int, ...]:
    return (*values[:at], value, *values[at + 1:])


RULES: dict[str, Rule] = {"Conv": _conv}
