"""Casts: among reals, whole numbers and truths by the vector unit's own, from and to elements of few bits by what stands for them."""
from __future__ import annotations

import numpy as np

from aoec.frontend.rules.rule import KNOWN, Rule, view
from aoec.frontend.translate.node import Node
from aoec.ir.graph.graph import Attribute
from aoec.ops import typed
from aoec.ops.words.coded import POWERS

BITS = {"int4": 4, "uint4": 4, "int2": 2, "uint2": 2}


def _cast(n: Node) -> bool:
    """Translate Cast. Reals have one dtype here, so that a cast among them changes nothing."""
    if not {n.dtype_of(0), n.dtype()} <= {*KNOWN}:
        return False
    source, result = n.element_of(0), n.element()
    if source == result and n.dtype_of(0) == n.dtype():
        return view(n)
    if source in typed.CODED and n.dtype() == "fp32":
        return n.emit("decode", [n.input(0)], {"of": source})
    x = decode(n, n.input(0), source)
    if result in typed.CODED:
        given: dict[str, Attribute] = {"of": result, "saturate": n.integer("saturate", 1)}
        if result == POWERS:
            given["round_mode"] = n.text("round_mode", "up")
        return n.emit("encode", [as_real(n, x)], given)
    if result:
        return n.emit("cast", [low_bits(n, x, result)])
    return view(n) if n.made_dtype(x) == n.dtype() else n.emit("cast", [x])


def decode(n: Node, x: str, element: str) -> str:
    """Return the reals that codes stand for. Other elements of few bits are what they say."""
    return n.step("decode", [x], {"of": element}, dtype="fp32") if element in typed.CODED else x


def as_real(n: Node, x: str) -> str:
    return x if n.made_dtype(x) == "fp32" else n.step("cast", [x], dtype="fp32")


def low_bits(n: Node, x: str, element: str) -> str:
    """Return the low bits of whole numbers, of reals the nearest ones (of two the even one), in int32: with the sign that the highest of
    them is, or without one."""
    x = n.step("round", [x]) if n.made_dtype(x) == "fp32" else x
    wide = x if n.made_dtype(x) == "int32" else n.step("cast", [x], dtype="int32")
    mask = n.constant("mask", np.array((1 << BITS[element]) - 1), "int32")
    if element.startswith("u"):
        return n.step("bit_and", [wide, mask])
    half = n.constant("half", np.array(1 << BITS[element] - 1), "int32")
    return n.step("sub", [n.step("bit_and", [n.step("add", [wide, half]), mask]), half])


RULES: dict[str, Rule] = {"Cast": _cast, "CastLike": _cast}
ANY_DTYPE = frozenset(RULES)
