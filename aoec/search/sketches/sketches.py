"""Sketch rules: the design space of a func as traces with holes. A structural choice is another sketch; holes are numeric."""
from __future__ import annotations

from aoec.ir.func.tir import Func
from aoec.ir.schedule import Trace
from aoec.search.sketches.nests import (
    find_product,
)
from aoec.target.machine import Machine


def sketches(func: Func, machine: Machine) -> list[Trace]:
    """Return every sketch of the func, in a fixed order; UnsupportedError where no rule fits."""
    from aoec.search.sketches.sketches_attention import attention_sketches, second_product
    from aoec.search.sketches.sketches_columns import columns_sketches
    from aoec.search.sketches.sketches_cube import cube_sketches
    from aoec.search.sketches.sketches_reduce import chunked_sketches
    from aoec.search.sketches.sketches_sum import sum_sketches
    from aoec.search.sketches.sketches_vector import vector_sketches

    product = find_product(func)
    if product and second_product(func):
        return attention_sketches(func, machine)
    if product:
        return cube_sketches(func, product, machine)
    rules = (vector_sketches, columns_sketches, chunked_sketches, sum_sketches) if len(func.outputs) == 1 else (vector_sketches,)
    return [trace for rule in rules for trace in rule(func, machine)]


# ---------------------------------------------------------------- choices


