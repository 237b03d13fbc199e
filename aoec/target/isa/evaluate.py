"""Whole programs by the meanings of their instructions: the slow oracle of `aoec.simulate.values.values.execute`."""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from types import SimpleNamespace
from typing import Any

import numpy as np

from aoec.ir.index import DTYPES, Expr, evaluate
from aoec.ir.program import Advance, CrossSet, CrossWait, For, Instr, Item, Program, Ref, Stream
from aoec.target.isa.instructions import INSTRUCTIONS, added_to
from aoec.target.isa.meaning import MEANINGS, NUMPY_DTYPES, POISON, up
from aoec.target.isa.scales import bring_words, word_tensors


class Core:
    """One core of a stream while a program is evaluated: its scopes, filled with NaN, and its environment."""

    def __init__(self, program: Program, stream: Stream, index: int) -> None:
        extents = [int(evaluate(e, {})) for _, e in stream.grid]
        self.stream, self.index = stream, index
        self.env = dict(zip((a for a, _ in stream.grid), map(int, np.unravel_index(index, extents)))) if extents else {}
        self.env |= {c: 0 for c, _ in stream.counters}
        self.depths = {c: int(evaluate(d, {})) for c, d in stream.counters}
        ends: dict[str, int] = {}
        for s in program.spaces:
            address, size, depth = (int(evaluate(e, {})) for e in (s.address, s.size_bytes, s.depth))
            ends[s.scope] = max(ends.get(s.scope, 0), address + size * depth)
        self.scopes = {scope: np.full(up(end, 32), POISON, np.uint8) for scope, end in ends.items()}


def evaluate_program(program: Program, tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return outputs and temps by name: run the meaning of every instruction in order. This is the test oracle of
    simulate.values.execute. The program must have no holes, and its every access must be legal (nothing is checked here)."""
    gm: dict[str, np.ndarray] = {}
    added, words = added_to(program), word_tensors(program)
    for t in program.tensors:
        shape = tuple(int(evaluate(d, {})) for d in t.shape)
        gm[t.name] = np.full(prod(shape) * DTYPES[t.dtype], POISON, np.uint8).view(NUMPY_DTYPES[t.dtype]).reshape(shape)
        if t.name in added:
            gm[t.name][...] = 0
        if t.name in tensors:
            gm[t.name][...] = np.reshape(bring_words(tensors[t.name], t.name, words), shape)
    cores = [Core(program, s, i) for s in program.streams for i in range(prod(int(evaluate(e, {})) for _, e in s.grid))]
    tokens: dict[tuple[str, int, str, int, int], int] = {}
    running = [_walk(program, c, c.stream.body, gm, tokens) for c in cores]
    while running:  # every core runs until it has to wait; a round in which none moves would never end
        moved = [next(w, None) for w in running]
        running = [w for w, m in zip(running, moved) if m is not None]
        assert not moved or any(m is None or m for m in moved), "every core waits for another"
    return {t.name: gm[t.name] for t in program.tensors if t.role != "input"}


def _walk(program: Program, core: Core, body: tuple[Item, ...], gm: dict[str, np.ndarray], tokens: dict[Any, int]) -> Iterator[bool]:
    """Runs a core; yields whether it moved, wherever it has to wait."""
    for item in body:
        if isinstance(item, For):
            for i in range(int(evaluate(item.trips, core.env))):
                core.env[item.var] = i
                yield from _walk(program, core, item.body, gm, tokens)
        elif isinstance(item, Instr):
            run_instruction(program, core, item, gm)
        elif isinstance(item, Advance):
            core.env[item.counter] = (core.env[item.counter] + 1) % core.depths[item.counter]
        elif isinstance(item, CrossSet):
            for key in meets(program, core, item.to, item.id, True):
                tokens[key] = tokens.get(key, 0) + 1
        elif isinstance(item, CrossWait):
            keys = meets(program, core, item.source, item.id, False)
            moved = True
            while not all(tokens.get(k, 0) for k in keys):
                yield moved
                moved = False
            for key in keys:
                tokens[key] -= 1


def meets(program: Program, core: Core, peer: str, flag: Expr, sets: bool) -> list[tuple[str, int, str, int, int]]:
    """Return keys (setter stream, core, waiter stream, core, id) of the flags between a core and the cores of another stream."""
    counts = {s.name: prod(int(evaluate(e, {})) for _, e in s.grid) for s in program.streams}
    mine, theirs, number = counts[core.stream.name], counts[peer], int(evaluate(flag, core.env))
    if theirs >= mine:
        peers = range(core.index * (theirs // mine), (core.index + 1) * (theirs // mine))
    else:
        peers = range(core.index // (mine // theirs), core.index // (mine // theirs) + 1)
    if sets:
        return [(core.stream.name, core.index, peer, p, number) for p in peers]
    return [(peer, p, core.stream.name, core.index, number) for p in peers]


def run_instruction(program: Program, core: Core, item: Instr, gm: dict[str, np.ndarray]) -> None:
    """Runs one instruction by its meaning."""
    word, fields, operands = INSTRUCTIONS[item.op], {}, []
    for n in word.numbers:
        fields[n.name] = evaluate(item[n.name], core.env)  # type: ignore[arg-type]
    spaces = {s.name: s for s in program.spaces}
    for o in word.operands:
        ref = item[o.name]
        assert isinstance(ref, Ref)
        offset = int(evaluate(ref.offset, core.env))
        if ref.buffer in gm:
            operands.append(gm[ref.buffer].reshape(-1)[offset:])
            continue
        s = spaces[ref.buffer]
        address, slot, slot_bytes = (int(evaluate(e, core.env)) for e in (s.address, ref.slot, s.size_bytes))
        start, memory = address + slot * slot_bytes + offset * DTYPES[s.dtype], core.scopes[s.scope]
        operands.append(memory[start:len(memory) - (len(memory) - start) % DTYPES[s.dtype]].view(NUMPY_DTYPES[s.dtype]))
    MEANINGS[item.op](SimpleNamespace(**fields), *operands)
