"""Operators that gather whole rows: reductions, softmax, norms."""
from __future__ import annotations

from math import prod

from aoec.frontend.node import Node
from aoec.frontend.rules.rule import Rule
from aoec.ir.graph import Attribute


def _softmax(word: str) -> Rule:
    """Before version 13 all dimensions from `axis` on are one row."""
    def rule(n: Node) -> bool:
        shape, old = n.shape(), n.opset < 13
        axis = n.integer("axis", 1 if old else -1) % len(shape)
        if not old or prod(shape[axis + 1:]) == 1:
            return n.emit(word, [n.input(0)], {"axis": axis})
        rows = n.step("reshape", [n.input(0)], {"shape": (prod(shape[:axis]), prod(shape[axis:]))})
        return n.emit("reshape", [n.step(word, [rows], {"axis": 1})], {"shape": shape})
    return rule


def _row_norm(word: str) -> Rule:
    """All dimensions from `axis` on are one row, with a scale, and perhaps a bias, for each element."""
    def rule(n: Node) -> bool:
        if n.has_second_result():
            return False
        shape = n.shape()
        axis = n.integer("axis", -1) % len(shape)
        width = prod(shape[axis:])
        factors = [_row_factor(n, at, shape[axis:]) for at in range(1, len(n.inputs()))]
        rows = n.input(0) if axis == len(shape) - 1 else n.step("reshape", [n.input(0)], {"shape": (*shape[:axis], width)})
        given = {"epsilon": n.real("epsilon", 1e-5)}
        if None in factors:
            return False
        if rows == n.input(0):
            return n.emit(word, [rows, *factors], given)  # type: ignore[list-item]
        return n.emit("reshape", [n.step(word, [rows, *factors], given)], {"shape": shape})  # type: ignore[list-item]
    return rule


def _row_factor(n: Node, at: int, row: tuple[int, ...]) -> str | None:
    """An argument as one number for each element of a row; None where it is broadcast from some."""
    shape = n.shape_of(at)
    if shape == row[-1:] == row:
        return n.input(at)
    kept = tuple(d for i, d in enumerate(shape) if d != 1 or i >= len(shape) - len(row))
    return n.step("reshape", [n.input(at)], {"shape": (prod(row),)}) if kept == row else None


def _reduce(word: str) -> Rule:
    """Over stated axes, or all; the mean over both dimensions of an image is pooling, which takes channels in blocks."""
    def rule(n: Node) -> bool:
        rank = len(n.shape_of(0))
        if n.has(1) and not n.is_constant(1) or rank == 0:
            return False
        given = n.integers("axes", n.constant_integers(1) if n.has(1) else ())
        if not given and n.integer("noop_with_empty_axes", 0):
            return False
        axes = tuple(sorted(a % rank for a in given)) or tuple(range(rank))
        if word == "reduce_mean" and (rank, axes) == (4, (2, 3)):
            return n.emit("reshape", [n.step("global_avg_pool", [n.input(0)])], {"shape": n.shape()})
        return n.emit("reshape", [n.step(word, [n.input(0)], {"axes": axes})], {"shape": n.shape()})
    return rule


def _batch_norm(n: Node) -> bool:
    if n.integer("training_mode", 0) or n.has_second_result() or not all(n.is_constant(i) for i in range(1, 5)):
        return False
    return n.emit("batch_norm", n.inputs(), {"epsilon": n.real("epsilon", 1e-5)})


def _lrn(n: Node) -> bool:
    attributes: dict[str, Attribute] = {"size": n.integer("size", 1), "alpha": n.real("alpha", 1e-4), "beta": n.real("beta", 0.75),
                                        "bias": n.real("bias", 1.0)}
    return len(n.shape_of(0)) == 4 and n.emit("lrn", [n.input(0)], attributes)


RULES: dict[str, Rule] = {
    "BatchNormalization": _batch_norm, "LRN": _lrn, "LayerNormalization": _row_norm("layer_norm"), "LogSoftmax": _softmax("log_softmax"),
    "ReduceMax": _reduce("reduce_max"), "ReduceMean": _reduce("reduce_mean"), "RMSNormalization": _row_norm("rms_norm"),
    "ReduceMin": _reduce("reduce_min"), "ReduceSum": _reduce("reduce_sum"), "Softmax": _softmax("softmax"),
}
