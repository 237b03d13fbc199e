"""Funcs of vector groups on matrices in NZ: conversions, which move whole fractals, and elementwise operators, which take any layout."""
from __future__ import annotations

from dataclasses import replace

from aoec.base.errors import UnsupportedError
from aoec.ir.func.tir import Func
from aoec.ir.graph.graph import OpNode, Tensor
from aoec.lowering.arrange.layout import family
from aoec.lowering.lower.movement.lower_movement import lower_movement
from aoec.lowering.lower.vector.lower_vector import lower_vector
from aoec.ops.words.layout import FRACTAL_ROWS, c0_of, stored_shape

CONVERSIONS = ("to_nz", "from_nz")


def lower_nz(name: str, nodes: list[OpNode], tensors: dict[str, Tensor], kept: tuple[str, ...]) -> Func:
    """Return the func of a group that reads or writes NZ; UnsupportedError for what is neither a conversion nor elementwise on NZ alone."""
    if nodes[0].op in CONVERSIONS:
        return conversion(name, nodes[0], tensors)
    used = [tensors[t] for n in nodes for t in (*n.inputs, *n.outputs) if t]
    if any(family(n) != "elementwise" for n in nodes) or {(t.layout, t.shape) for t in used} != {("NZ", used[0].shape)}:
        raise UnsupportedError(f"group {name}: only matrix products, with bias and relu, and elementwise operators whose tensors are all "
                               "NZ read and write NZ; give it ND tensors")
    flat = {t.name: replace(t, layout="ND", shape=stored_shape(t)) for t in used}
    return lower_vector(name, nodes, flat, kept)


def conversion(name: str, node: OpNode, tensors: dict[str, Tensor]) -> Func:
    """Return a transposition of rows and columns of fractals, [.., m, n / C0, C0] to [.., n / C0, m, C0] or back: of whole fractals NZ is
    that."""
    x, y = tensors[node.inputs[0]], tensors[node.outputs[0]]
    (*lead, m, n), unit = x.shape, c0_of(x.dtype)
    if m % FRACTAL_ROWS or n % unit:
        raise UnsupportedError(f"group {name}: {x.name} is {m} x {n}, and only whole fractals of {FRACTAL_ROWS} x {unit} are converted")
    rows, columns = (*lead, m, n // unit, unit), (*lead, n // unit, m, unit)
    shapes = (rows, columns) if node.op == "to_nz" else (columns, rows)
    flat = {t.name: replace(t, layout="ND", shape=shape) for t, shape in zip((x, y), shapes)}
    axes = len(lead)
    turned = OpNode(node.name, "transpose", node.inputs, node.outputs, (("perm", (*range(axes), axes + 1, axes, axes + 2)),))
    return lower_movement(name, [turned], flat)
