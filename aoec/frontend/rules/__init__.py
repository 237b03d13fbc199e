"""Translates ONNX operators into our words: one small function for each operator, which makes nodes of the draft from a node at hand. Each
family has a file. An operator that a word's own declaration names (declared_words.py) has no function, unless one does more.

A function returns False where our words do not cover the case (a dtype that the AI Core does not have, a tensor without elements, ...). The
node then runs on the host.
"""
from aoec.frontend.rules import (
    attention,
    casts,
    choice,
    convolution,
    declared_words,
    einsum,
    matrix,
    movement,
    quantised,
    recurrent,
    reduce,
    resize,
    rotary,
    rows,
    sample,
    scatter,
    top,
    transposed,
    vector,
    window,
)

HAND = (vector.RULES | casts.RULES | movement.RULES | choice.RULES | resize.RULES | reduce.RULES | rows.RULES | matrix.RULES
         | einsum.RULES | window.RULES | convolution.RULES | transposed.RULES | recurrent.RULES | quantised.RULES | attention.RULES
         | rotary.RULES | sample.RULES | scatter.RULES | top.RULES)
RULES = declared_words.RULES | HAND
# operators whose rules look at dtypes themselves, or move elements whatever they are; those of all others are asked where all is real
ANY_DTYPE = (vector.ANY_DTYPE | casts.ANY_DTYPE | movement.ANY_DTYPE | choice.ANY_DTYPE | reduce.ANY_DTYPE | resize.ANY_DTYPE
             | window.ANY_DTYPE | recurrent.ANY_DTYPE | quantised.ANY_DTYPE | attention.ANY_DTYPE | rotary.ANY_DTYPE | scatter.ANY_DTYPE
             | top.ANY_DTYPE | (declared_words.ANY_DTYPE - HAND.keys()))
# operators that know elements of few bits, or move their bytes
TAKES_SMALL = frozenset(casts.RULES) | movement.MOVES | {"DequantizeLinear", "QuantizeLinear"}
