"""Funcs that interleave pixels of images in NC1HWC0: depth to space, and upsampling.

Whole blocks of channels are moved. Loads and stores are of whole rows, and pixels are interleaved in UB between them, eight blocks a
repeat. These blocks follow each other along a row of the source. In a row of the result their distance is that of `scale`.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from aoec.ir.func.tir import Buffer, Func, Node
from aoec.ir.graph.graph import OpNode, Tensor
from aoec.ir.index import DTYPES, Int, Read, Var
from aoec.lowering.lower.movement.lower_copy import TURNED_BYTES, lower_copy
from aoec.lowering.lower.physical import buffer_of, stage
from aoec.ops.meanings import meaning
from aoec.ops.words.layout import stored_shape


def lower_interleaved(name: str, node: OpNode, x: Tensor, y: Tensor) -> Func:
    """Lower a node that gives an image in NC1HWC0 `scale` times as many pixels down and across, of phases or of copies."""
    scale = node.attribute("scale")
    assert isinstance(scale, tuple)
    (n, _, h, w, c0), c1, (down, across) = stored_shape(x), stored_shape(y)[1], (int(s) for s in scale)
    sizes = {"n": n, "c1": c1, "h": h, "i": down, "w": w, "j": across, "c0": c0}
    phases = node.op == "depth_to_space"
    taken = ("n", "i", "j", "c1", "h", "w", "c0") if phases else ("n", "c1", "h", "w", "c0")
    if DTYPES[x.dtype] not in TURNED_BYTES:  # which the vector unit does not copy
        return _in_bursts(name, x, y, sizes, taken)
    loops = [v for v in ("n", "c1", "h", "i", "j", "w", "c0") if v in taken or v == "j"]
    held, made = [v for v in loops if v in taken], [v for v in sizes if v in loops]
    rows, turned = (Buffer(b, x.dtype, tuple(Int(sizes[v]) for v in axes)) for b, axes in (("rows", held), ("turned", made)))
    X, Y = (buffer_of(t, b, tuple(sizes[v] for v in axes)) for t, b, axes in ((x, "X", taken), (y, "Y", tuple(sizes))))

    def read(buffer: str, axes: Sequence[str]) -> Read:
        return Read(buffer, tuple(Var(v) for v in axes))

    def block(stem: str, loops: Sequence[str], to: Read, value: Read) -> Node:
        return stage(stem, [(v, sizes[v]) for v in loops], to, value)
    return Func(name, (X,), (Y,), (rows, turned), (
        block("load", held, read("rows", held), read("X", taken)), block("turn", loops, read("turned", made), read("rows", held)),
        block("store", tuple(sizes), read("Y", tuple(sizes)), read("turned", made))))


def _in_bursts(name: str, x: Tensor, y: Tensor, sizes: dict[str, int], taken: Sequence[str]) -> Func:
    """Return the same as a transpose of the stored array, a burst for each block."""
    phases, perm = tuple(sizes[v] for v in taken), tuple(taken.index(v) for v in sizes)
    rows, pixels = (replace(t, shape=shape, layout="ND") for t, shape in ((x, phases), (y, tuple(sizes.values()))))
    return lower_copy(name, rows, pixels, meaning("transpose", [phases], {"perm": perm}))
