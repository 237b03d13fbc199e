"""Says what stays in fp32 with mixed precision: words whose results lose their meaning in 16 bits.

The reason is in the word's declaration (`Op.sensitive`). All others are taken to be safe in fp16. This holds above all for products on the
cube, whose sums are fp32 in any case.
"""
from __future__ import annotations

from aoec.ir.graph.graph import OpNode
from aoec.ir.index import Call, walk
from aoec.ir.text.parse import parse_meaning
from aoec.ops import OPS

PERIODIC = ("sin", "cos", "tan")  # what they read stays in fp32 whatever the precision of all others is (wide.py)
CALLS = frozenset(("exp", "pow", "log", "rsqrt", "reciprocal"))  # of a definition of the user's own, as of the words above


def reason(node: OpNode) -> str:
    """Return why a node stays in fp32. Return "" where it need not."""
    if not node.definition:
        return OPS[node.op].sensitive if node.op in OPS else ""
    statements = parse_meaning(node.definition).statements
    found = sorted({e.fn for s in statements for e in walk(s.value) if isinstance(e, Call)} & CALLS)
    return "its definition sums" if any(s.op == "+=" for s in statements) else f"its definition has {found[0]}" if found else ""
