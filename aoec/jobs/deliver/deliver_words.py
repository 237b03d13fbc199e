"""The tiles of a delivered group in the words of kernel writers, out of its schedule."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from math import prod
from typing import TypeAlias

from aoec.base.errors import AoecError
from aoec.cann.kernel_words import Sizes, Value, convolution_words, product_words, vector_words
from aoec.ir.func.tir import Func
from aoec.ir.index import Int
from aoec.ir.schedule import Step, Trace
from aoec.ir.text.parse import parse_trace
from aoec.jobs.deliver.deliver_entries import Entry
from aoec.search.sketches.nests import find_product
from aoec.search.vendor.vendor import MatmulTiling
from aoec.search.vendor.vendor_back import Delivery, Refusal, choice_of, tiling_in
from aoec.search.vendor.vendor_conv import ConvTiling
from aoec.target.machine import Machine

Said: TypeAlias = Delivery | Refusal | None  # a schedule as the vendor's tiling; None of what is no product


def words(entry: Entry, said: Said, machine: Machine) -> list[Value]:
    """Return what a kernel writer takes from a group; where there is nothing, one value with the reason."""
    apart = "aic" in machine.cores
    if entry.func is None:
        return [Value("all", "", None, "all", entry.why)]
    if said is None:
        return vector_words(*_tiles(parse_trace(entry.trace)), apart)
    tiling = said.tiling if isinstance(said, Delivery) else product_tiling(entry.func, entry.trace, machine)
    if tiling is None:
        assert isinstance(said, Refusal)
        return [Value("all", "", None, "all", said.why)]
    fields = {name: int(value) for name, value in asdict(tiling).items()}
    return convolution_words(fields) if isinstance(tiling, ConvTiling) else product_words(fields, sizes(entry.func), apart)


def product_tiling(func: Func, trace: str, machine: Machine) -> MatmulTiling | None:
    """Return the tiling of a matrix product of which a bank has no record, such as one of a batch. Return None for what is none."""
    mm = find_product(func)
    try:
        choice = choice_of(func, mm, machine, parse_trace(trace)) if mm is not None else None
    except AoecError:
        return None
    if mm is None or choice is None:
        return None
    tiling = tiling_in(func, *choice, machine)
    shares = prod(choice[1].get(f"g{loop.var}", 1) for loop in mm.loops[:-3])  # of a batch
    return replace(tiling, usedCoreNum=tiling.usedCoreNum * shares)


def sizes(func: Func) -> Sizes:
    """Return the sizes of a func's matrix product."""
    mm = find_product(func)
    assert mm is not None
    *lead, m, n, k = [mm.extent(loop.var) for loop in mm.loops]
    return Sizes(prod(lead), m, n, k, any(b.name == "bias" for b in func.inputs))


def _tiles(trace: Trace) -> tuple[dict[str, int], int, dict[str, int]]:
    """Return (tile of each axis that is cut, cores, slots of each buffer) of a vector schedule, or of attention."""
    tiles, programs, slots = dict[str, int](), 1, dict[str, int]()
    bound = {str(s["loop"]) for s in trace.steps if s.primitive == "bind"}
    for s in trace.steps:
        said = dict(s.fields)
        if s.primitive == "online":
            tiles |= {"M": _number(s, "rows"), "N": _number(s, "keys"), "D": _number(s, "columns")}
        elif s.primitive == "split" and str(said.get("inner", "")).endswith("_i") and "factor" in said:
            tiles[str(said["loop"]).removeprefix("out_")] = _number(s, "factor")
        elif s.primitive == "split" and said.get("outer") in bound and "parts" in said:
            programs *= _number(s, "parts")
        elif s.primitive == "double_buffer":
            slots[str(said["buffer"])] = _number(s, "depth")
    return tiles, programs, slots


def _number(step: Step, field: str) -> int:
    value: object = step[field]
    return value.value if isinstance(value, Int) else 1


def facts(values: list[Value]) -> dict[str, Mapping[str, int | str | None]]:
    """Return words -> field -> value, for programs."""
    out: dict[str, dict[str, int | str | None]] = {}
    for v in values:
        if v.field:
            out.setdefault(v.words, {})[v.field] = v.value
    return dict(out)
