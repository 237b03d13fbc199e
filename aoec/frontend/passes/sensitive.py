"""What stays in fp32 where precision is mixed: words whose results lose their meaning in 16 bits, each with its reason.

The list follows PyTorch's operators that autocast to float32 (pytorch.org/docs/stable/amp.html) as far as our words go; all others,
products on the cube first of all, whose sums are kept in fp32 in any case, are taken to be safe in fp16.
"""
from __future__ import annotations

from aoec.ir.graph.graph import OpNode
from aoec.ir.index import Call, walk
from aoec.ir.text.parse import parse_meaning

GROWS = "it grows past what fp16 holds for small arguments"
STEEP = "small changes of its argument change it without bound"
SMALL = "it divides by what can be too small for fp16"
ANGLE = "an error of its argument is its own, however large that is"
STATISTICS = "a mean and a variance are small differences of large sums"
SENSITIVE: dict[str, str] = {
    "softmax": "a sum of exponentials, and shares of it near zero", "log_softmax": "the logarithm of a sum of exponentials",
    "layer_norm": STATISTICS, "rms_norm": "a mean of squares", "batch_norm": STATISTICS, "lrn": "a sum of squares and a power of it",
    "reduce_sum": "a sum of many can leave the range of fp16", "reduce_mean": "a sum of many can leave the range of fp16",
    "exp": GROWS, "power": GROWS, "sinh": GROWS, "cosh": GROWS, "log": STEEP, "tan": STEEP, "asin": STEEP, "acos": STEEP, "atanh": STEEP,
    "sqrt": "a sum of squares can leave the range of fp16 where its root does not",
    "sin": ANGLE, "cos": ANGLE, "softplus": "the logarithm of an exponential", "reciprocal": SMALL, "rsqrt": SMALL,
}
PERIODIC = ("sin", "cos", "tan")  # what they read stays in fp32 whatever the precision of all others is (wide.py)
CALLS = frozenset(("exp", "pow", "log", "rsqrt", "reciprocal"))  # of a definition of the user's own, as of the words above


def reason(node: OpNode) -> str:
    """Why a node stays in fp32; "" where it need not."""
    if not node.definition:
        return SENSITIVE.get(node.op, "")
    statements = parse_meaning(node.definition).statements
    found = sorted({e.fn for s in statements for e in walk(s.value) if isinstance(e, Call)} & CALLS)
    return "its definition sums" if any(s.op == "+=" for s in statements) else f"its definition has {found[0]}" if found else ""
