"""Products of matrices."""
from __future__ import annotations

from aoec.frontend.rules.rule import Rule
from aoec.frontend.translate.node import Node
from aoec.ir.graph.graph import Attribute
from aoec.ops.run import REALS


def _gemm(n: Node) -> bool:
    a = n.step("transpose", [n.input(0)], {"perm": (1, 0)}) if n.integer("transA", 0) else n.input(0)
    turned = bool(n.integer("transB", 0))
    given = {"trans_b": 1} if turned and not n.is_constant(1) else {}  # a constant is turned once, here
    b = n.step("transpose", [n.input(1)], {"perm": (1, 0)}) if turned and not given else n.input(1)
    alpha, beta = n.number("alpha", 1.0), n.number("beta", 1.0)
    if not n.has(2):
        y = n.step("matmul", [a, b], given)
        return n.emit("muls", [y], {"scalar": alpha})
    c = n.step("muls", [n.input(2)], {"scalar": beta})
    y = n.step("muls", [n.step("matmul", [a, b], given)], {"scalar": alpha})
    return n.emit("add", [y, c])


def _matmul(n: Node) -> bool:
    """Translate MatMul of matrices whose leading dimensions broadcast. Where the left has one column and the right one row, there are no
    sums, and it becomes `mul`. A vector is a row on the left and a column on the right. The result does not have that dimension."""
    a, b = n.shape_of(0), n.shape_of(1)
    if not a or not b or 0 in (*a, *b):
        return False
    if len(a) > 1 and len(b) > 1 and a[-1] == 1 and n.dtype_of(0) in REALS:
        return n.emit("mul", [n.input(0), n.input(1)])
    if len(a) > 1 and len(b) > 1:
        return n.emit("matmul", [n.input(0), n.input(1)])
    given: dict[str, Attribute] = {"trans_b": 1} if len(b) == 1 else {}
    left = n.step("reshape", [n.input(0)], {"shape": (1, *a)}) if len(a) == 1 else n.input(0)
    right = n.step("reshape", [n.input(1)], {"shape": (1, *b)}) if given else n.input(1)
    return n.emit("reshape", [n.step("matmul", [left, right], given)], {"shape": n.shape()})


RULES: dict[str, Rule] = {
    "Gemm": _gemm, "MatMul": _matmul,
}
