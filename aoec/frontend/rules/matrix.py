"""Products of matrices."""
from __future__ import annotations

from aoec.frontend.node import Node
from aoec.frontend.rules.rule import Rule


def _gemm(n: Node) -> bool:
    a = n.step("transpose", [n.input(0)], {"perm": (1, 0)}) if n.integer("transA", 0) else n.input(0)
    turned = bool(n.integer("transB", 0))
    given = {"trans_b": 1} if turned and not n.is_constant(1) else {}  # a constant is turned once, here
    b = n.step("transpose", [n.input(1)], {"perm": (1, 0)}) if turned and not given else n.input(1)
    alpha, beta = n.real("alpha", 1.0), n.real("beta", 1.0)
    if not n.has(2):
        y = n.step("matmul", [a, b], given)
        return n.emit("muls", [y], {"scalar": alpha})
    c = n.step("muls", [n.input(2)], {"scalar": beta})
    y = n.step("muls", [n.step("matmul", [a, b], given)], {"scalar": alpha})
    return n.emit("add", [y, c])


def _matmul(n: Node) -> bool:
    """Rows of any leading dimensions by a matrix, or matrices of equal leading dimensions."""
    a, b = n.shape_of(0), n.shape_of(1)
    if len(a) < 2 or len(b) < 2 or (len(b) > 2 and a[:-2] != b[:-2]):
        return False
    return n.emit("matmul", [n.input(0), n.input(1)])


RULES: dict[str, Rule] = {
    "Gemm": _gemm, "MatMul": _matmul,
}
