"""Knowledge of how CANN runs a group without tuning: the rule for its operator, and how good that rule is."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from aoec.ir.func.tir import Func
from aoec.ir.graph.graph import OpNode
from aoec.lowering.arrange.layout import family
from aoec.search.stock import vector_rules
from aoec.search.stock.vector_rules import Wanted

RULE, PROXY, BLOCK, NOTHING = "rule", "proxy", "fixed block", "no stock rule"
COVERS = (RULE, PROXY, BLOCK, NOTHING)
VectorRule = Callable[[Func, int, int, int], Wanted]  # (func, cores, bytes of UB, columns of a row)


@dataclass(frozen=True)
class VectorCover:
    """The rule of a vector operator: `operators` or families in the order of the group, how good it is by product, what is wanted."""

    operators: tuple[str, ...]
    cover: dict[str, str]
    wants: VectorRule


def _elementwise(func: Func, cores: int, ub: int, columns: int) -> Wanted:
    return vector_rules.elementwise(func, cores, ub)


OPEN_910B = {"910B": RULE, "310P": PROXY}  # its tiling is public for 910B
CLOSED = {"910B": PROXY, "310P": PROXY}  # its kernel is closed, the rule is that of a newer generation
VECTOR = (
    VectorCover(("add", "layer_norm"), OPEN_910B, vector_rules.add_layer_norm),
    VectorCover(("add", "rms_norm"), OPEN_910B, vector_rules.add_rms_norm),
    VectorCover(("layer_norm",), CLOSED, vector_rules.layer_norm),
    VectorCover(("rms_norm",), CLOSED, vector_rules.add_rms_norm),
    VectorCover(("softmax",), CLOSED, vector_rules.rows_rule),
    VectorCover(("reduce",), CLOSED, vector_rules.rows_rule),
    VectorCover(("global_avg_pool",), CLOSED, vector_rules.rows_rule),  # ReduceMean
    VectorCover(("swiglu",), OPEN_910B, vector_rules.swiglu),
    VectorCover(("elementwise",), CLOSED, _elementwise),
    VectorCover(("layout",), CLOSED, _elementwise),  # TransData
    VectorCover(("transpose",), CLOSED, _elementwise),
)


def vector_cover(nodes: list[OpNode]) -> VectorCover | None:
    """Return the rule of a vector group: that of all its operators, or of the last kind where it is a chain of one kind. Return None where
    there is none."""
    words = [{n.op, family(n)} for n in nodes]
    for c in VECTOR:
        if len(c.operators) == len(words) and all(op in own for op, own in zip(c.operators, words)):
            return c
        if len(c.operators) == 1 and all(c.operators[0] in own for own in words):
            return c
    return None
