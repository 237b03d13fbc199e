"""ONNX operators that a word of the dictionary names in its declaration (`Op.onnx`): their attributes and arguments are those of the word.

Where several words name one, the attributes that each of them fixes tell which is meant.
"""
from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from aoec.frontend.rules.rule import Rule, all_known, chain
from aoec.frontend.translate.node import Node
from aoec.ir.graph.graph import Attribute
from aoec.ops import OPS, Op


def node_attribute(n: Node, name: str, default: Attribute) -> Attribute:
    """Return the attribute of a node, in the type of its default."""
    if isinstance(default, float):
        return n.number(name, default)
    if isinstance(default, str):
        return n.text(name, default)
    return n.integer(name, default) if isinstance(default, int) else n.integers(name, tuple(map(int, default)))


def is_meant(n: Node, op: Op) -> bool:
    """Return whether a node has the attributes that a word fixes."""
    fixed = op.onnx.fixed if op.onnx else {}
    return all(node_attribute(n, name, default) == value for name, (value, default) in fixed.items())


def rule_of(words: Sequence[Op]) -> Rule:
    """Return the rule of an ONNX operator that words name: what it makes of more than two arguments, or of one, a word of two makes one by
    one."""
    def rule(n: Node) -> bool:
        op = next((w for w in words if is_meant(n, w)), None)
        if op is None or op.onnx is None or op.onnx.whole and not all_known(n):
            return False
        attributes = {name: node_attribute(n, name, default) for name, default in op.onnx.attributes.items()}
        if op.elements and op.elements.count(attributes) == 2:
            return chain(op.name)(n)
        return n.emit(op.name, n.inputs(), attributes)
    return rule


def words_by_name() -> dict[str, list[Op]]:
    """ONNX operator -> the words that name it."""
    out = defaultdict(list)
    for op in OPS.values():
        if op.onnx:
            out[op.onnx.name].append(op)
    return dict(out)


WORDS = words_by_name()
RULES: dict[str, Rule] = {name: rule_of(words) for name, words in WORDS.items()}
ANY_DTYPE = frozenset(name for name, words in WORDS.items() if any(w.onnx and w.onnx.whole for w in words))
