"""Operators that gather whole rows, or planes: softmax, norms."""
from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from aoec.frontend.rules.reduce import reduce_axes
from aoec.frontend.rules.rule import Rule
from aoec.frontend.translate.node import Node
from aoec.ir.graph.graph import Attribute

LONGEST = 1024  # elements along an axis with others behind it: more do not fit UB in columns, and are turned into rows
MOST_CHANNELS = 31  # in a window of LRN: each is an addition
SQUARED_SHARE = 2.0 ** -4  # of what LRN squares: fp16 holds the squares of numbers up to 4,096 so
LEAST_NORM = 2.0 ** -24  # the smallest number of fp16: a norm that is less counts as this, so that zeros over zero are zeros


def _softmax(word: str) -> Rule:
    """Return the rule of a softmax word. Before version 13 all dimensions from `axis` on are one row."""
    def rule(n: Node) -> bool:
        shape, old = n.shape(), n.opset < 13
        axis = n.integer("axis", 1 if old else -1) % len(shape)
        if not old or prod(shape[axis + 1:]) == 1:
            return _softmax_along(n, word, axis)
        rows = n.step("reshape", [n.input(0)], {"shape": (prod(shape[:axis]), prod(shape[axis:]))})
        return n.emit("reshape", [n.step(word, [rows], {"axis": 1})], {"shape": shape})
    return rule


def _softmax_along(n: Node, word: str, axis: int) -> bool:
    """Translate a softmax along an axis in place, or transpose the axis to the end where it is long. For one element, take the difference
    of the element and itself, which is its logarithm."""
    shape = n.shape()
    if shape[axis] == 1:
        zero = [n.input(0), n.input(0)]
        return n.emit("sub", zero) if word == "log_softmax" else n.emit("exp", [n.step("sub", zero)])
    if prod(shape[axis + 1:]) == 1 or shape[axis] <= LONGEST:
        return n.emit(word, [n.input(0)], {"axis": axis})
    perm = tuple(range(len(shape)))
    perm = (*perm[:axis], *perm[axis + 1:], axis)
    back = tuple(perm.index(at) for at in range(len(shape)))
    rows = n.step(word, [n.step("transpose", [n.input(0)], {"perm": perm})], {"axis": len(shape) - 1})
    return n.emit("transpose", [rows], {"perm": back})


def _row_norm(word: str) -> Rule:
    """Return the rule of a norm over rows: all dimensions from `axis` on are one row, with a scale, and perhaps a bias, for each
    element."""
    def rule(n: Node) -> bool:
        shape = n.shape()
        axis = n.integer("axis", -1) % len(shape)
        width = prod(shape[axis:])
        factors = [_row_factor(n, at, shape[axis:]) for at in range(1, len(n.inputs()))]
        if None in factors:
            return False
        rows = n.input(0) if axis == len(shape) - 1 else n.step("reshape", [n.input(0)], {"shape": (*shape[:axis], width)})
        given = {"epsilon": n.number("epsilon", 1e-5)}
        if n.has_second_result():
            _statistics(n, rows, given["epsilon"])
        if width == 1:
            return n.emit("reshape", [_of_one(n, word, rows, factors, given["epsilon"])], {"shape": shape})  # type: ignore[arg-type]
        if rows == n.input(0):
            return n.emit(word, [rows, *factors], given)  # type: ignore[list-item]
        return n.emit("reshape", [n.step(word, [rows, *factors], given)], {"shape": shape})  # type: ignore[list-item]
    return rule


def _of_one(n: Node, word: str, x: str, factors: Sequence[str], epsilon: float) -> str:
    """Return rows of one element, normalised: its distance to itself, or it over its magnitude; with what is multiplied and added."""
    if word == "rms_norm":
        over = n.step("rsqrt", [n.step("adds", [n.step("mul", [x, x])], {"scalar": epsilon})])
    y = n.step("sub", [x, x]) if word == "layer_norm" else n.step("mul", [x, over])
    for op, factor in zip(("mul", "add"), factors):
        y = n.step(op, [y, factor])
    return y


def _statistics(n: Node, rows: str, epsilon: float) -> None:
    """Make the second and third results: the mean of each row, and one over its deviation."""
    last = len(n.draft.tensors[rows].shape) - 1
    words: tuple[tuple[str, dict[str, Attribute]], ...] = (("reduce_mean", {"axes": (last,)}), ("inverse_deviation", {"epsilon": epsilon}))
    for at, (word, given) in enumerate(words, 1):
        if n.has_result(at):
            n.emit("reshape", [n.step(word, [rows], given)], {"shape": n.shape(at)}, at=at)


def _moments(n: Node, x: str, axes: tuple[int, ...]) -> tuple[str, str]:
    """Return (mean, variance) over axes, which stay with one element."""
    mean = reduce_axes(n, "reduce_mean", x, axes)
    far = n.step("sub", [x, mean])
    return mean, reduce_axes(n, "reduce_mean", n.step("mul", [far, far]), axes)


def _row_factor(n: Node, at: int, row: tuple[int, ...]) -> str | None:
    """Return an argument as one number for each element of a row. Return None where it is broadcast from some."""
    shape = n.shape_of(at)
    if shape == row[-1:] == row:
        return n.input(at)
    kept = tuple(d for i, d in enumerate(shape) if d != 1 or i >= len(shape) - len(row))
    return n.step("reshape", [n.input(at)], {"shape": (prod(row),)}) if kept == row else None


def _instance_norm(n: Node) -> bool:
    """Translate InstanceNormalization: each channel of an image is a row, with one scale and bias."""
    shape = n.shape()
    rows = n.step("reshape", [n.input(0)], {"shape": (*shape[:2], prod(shape[2:]))})
    epsilon = n.number("epsilon", 1e-5)
    y = n.step("layer_norm", [rows], {"epsilon": epsilon}) if prod(shape[2:]) > 1 else _of_one(n, "layer_norm", rows, [], epsilon)
    scale, bias = (n.step("reshape", [n.input(at)], {"shape": (shape[1], 1)}) for at in (1, 2))
    return n.emit("reshape", [n.step("add", [n.step("mul", [y, scale]), bias])], {"shape": shape})


def _lp_norm(n: Node) -> bool:
    """Translate LpNormalization: x over the sum of magnitudes along an axis, or over the root of the sum of squares."""
    x, axis, p = n.input(0), (n.integer("axis", -1) % len(n.shape()),), n.integer("p", 2)
    if p == 1:
        norm = reduce_axes(n, "reduce_sum", n.step("abs", [x]), axis)
    elif p == 2:
        norm = n.step("sqrt", [reduce_axes(n, "reduce_sum", n.step("mul", [x, x]), axis)])
    else:
        return False
    return n.emit("div", [x, n.step("clip", [norm], {"lo": LEAST_NORM, "hi": float("inf")})])


def _batch_norm(n: Node) -> bool:
    if n.integer("training_mode", 0):
        return _batch_norm_in_training(n)
    return not n.has_second_result() and n.emit("batch_norm", n.inputs(), {"epsilon": n.number("epsilon", 1e-5)})


def _batch_norm_in_training(n: Node) -> bool:
    """Normalise by mean and variance of the batch itself. The running mean and variance take a share of these."""
    shape, part = n.shape(), n.number("momentum", 0.9)
    axes = (0, *range(2, len(shape)))
    found = [n.step("reshape", [m], {"shape": shape[1:2]}) for m in _moments(n, n.input(0), axes)]
    for at, now in enumerate(found, 1):
        if at < n.results() and n.proto.output[at]:
            before = n.step("muls", [n.input(at + 2)], {"scalar": part})
            n.emit("add", [before, n.step("muls", [now], {"scalar": 1.0 - part})], at=at)
    return n.emit("batch_norm", [*n.inputs()[:3], *found], {"epsilon": n.number("epsilon", 1e-5)})


def _lrn(n: Node) -> bool:
    """Translate LRN: x over a power of the sum of squares of the channels around it. Each window becomes slices, one for each of its
    places."""
    size, alpha, beta, bias = n.integer("size", 1), n.number("alpha", 1e-4), n.number("beta", 0.75), n.number("bias", 1.0)
    if not 0 < size <= MOST_CHANNELS or not prod(n.shape()):
        attributes: dict[str, Attribute] = {"size": size, "alpha": alpha, "beta": beta, "bias": bias}
        return len(n.shape_of(0)) == 4 and n.emit("lrn", [n.input(0)], attributes)
    before, channels = (size - 1) // 2, n.shape()[1]
    planes = n.step("reshape", [n.input(0)], {"shape": (n.shape()[0], channels, prod(n.shape()[2:]))})
    part = n.step("muls", [planes], {"scalar": SQUARED_SHARE})
    around = n.pad(n.step("mul", [part, part]), 1, before, size - 1 - before)
    total = n.piece(around, 1, 0, channels)
    for at in range(1, size):
        total = n.step("add", [total, n.piece(around, 1, at, channels)])
    scaled = n.step("muls", [total], {"scalar": alpha / size / SQUARED_SHARE ** 2})
    below = n.step("adds", [scaled], {"scalar": bias})
    if beta == 0.75:  # what nets use
        root = n.step("sqrt", [below])
        power = n.step("mul", [root, n.step("sqrt", [root])])
    else:
        power = n.step("power", [below, n.constant("beta", np.array(beta))])
    return n.emit("div", [n.input(0), n.step("reshape", [power], {"shape": n.shape()})])


RULES: dict[str, Rule] = {
    "BatchNormalization": _batch_norm, "InstanceNormalization": _instance_norm, "LRN": _lrn,
    "LayerNormalization": _row_norm("layer_norm"), "LogSoftmax": _softmax("log_softmax"), "LpNormalization": _lp_norm,
    "RMSNormalization": _row_norm("rms_norm"), "Softmax": _softmax("softmax"),
}
