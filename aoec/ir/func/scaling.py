"""Sums of int8 products that leave as int8: what a block says for it."""
from __future__ import annotations

from dataclasses import dataclass

from aoec.ir.index import Binary, Call, Cast, Expr, Float, Read, call


@dataclass(frozen=True, slots=True)
class Scaled:
    """`int8(round(fp32(sums) * scale) + zero)`; the cast limits to int8."""

    sums: Expr
    scale: Read
    zero: float = 0.0

    def value(self) -> Expr:
        """Return the expression."""
        e = call("round", Cast("fp32", self.sums) * self.scale)
        return Cast("int8", e + Float(self.zero) if self.zero else e)


def match_scale(value: Expr) -> Scaled | None:
    """Return what a value scales, and how; None where it is something else."""
    if not isinstance(value, Cast) or value.dtype != "int8":
        return None
    e, zero = value.value, 0.0
    if isinstance(e, Binary) and e.op == "+" and isinstance(e.right, Float):
        zero = e.right.value
        e = e.left
    product = e.args[0] if isinstance(e, Call) and e.fn == "round" else None
    if isinstance(product, Binary) and product.op == "*" and isinstance(product.left, Cast) and isinstance(product.right, Read):
        return Scaled(product.left.value, product.right, zero)
    return None
