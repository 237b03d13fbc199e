"""Where the time of a walk went: an account of every pipe, bytes by path, work by instruction, and the resource that binds."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aoec.ir.index import DTYPES, evaluate
from aoec.ir.program import PIPES, CrossWait, Instr, Program, Ref, SetFlag, WaitFlag
from aoec.kernels import timeline as kernel
from aoec.simulate.encode.sizes import Array
from aoec.simulate.encode.tables import TICKS
from aoec.simulate.reasons.detail import Walked
from aoec.simulate.reasons.guards import Guard, guards
from aoec.target.isa.instructions import INSTRUCTIONS


@dataclass(frozen=True)
class Account:
    """Cycles of one pipe of the core that ends last: they add up to `total`, when that core ends.

    `busy`: its own work (of the scalar unit: issuing); `memory`: longer, because the chip's memory is shared; `issue`: the scalar
    unit had not come so far; `queue`: the scalar unit stalled on a full queue; `flags`, `cross`: waits for flags of the core and of
    other cores; `head`: what the launch takes before the pipe first runs; `idle`: no more work.
    `mean_busy` is busy and memory as the mean over the stream's cores.
    """

    busy: float
    memory: float
    issue: float
    queue: float
    flags: float
    cross: float
    head: float
    idle: float
    total: float
    mean_busy: float

    @property
    def held_share(self) -> float:
        """Return the share of the time that the pipe holds work."""
        return (self.busy + self.memory) / self.total if self.total else 0.0


@dataclass(frozen=True)
class Wait:
    """Cycles that `pipe` waits for flags from `source` which guard `buffer` ("" where the text does not tell): see guards.Guard."""

    pipe: str
    source: str
    buffer: str
    why: str
    depth: int
    cycles: float
    times: int


@dataclass(frozen=True)
class Work:
    """An instruction of the program as the core that ends last runs it: `times`, `cycles` in all; sizes are those of the first time.

    `gm_bytes`: between GM and the core each time; `path` such as L1->L0A; `buffer`: what it writes on chip, else what it reads;
    `shape`: in words, such as "128 rows of 512 bytes".
    """

    op: str
    pipe: str
    path: str
    buffer: str
    times: int
    cycles: float
    gm_bytes: int
    fields: dict[str, int]
    shape: str


@dataclass(frozen=True)
class Reasons:
    """All of it; `accounts` by pipe (`stream.pipe` where there are several streams), as busy_cycles of a Measure.

    `last_core`: by stream; `imbalance`: end of the slowest core over the mean end, of the stream that ends last; `cores`: used and there
    by stream; `hbm_held`, `l2_held`: shares of the run for which the chip's memory is held, at its full rate; `flags`: (set, waited
    for) by the last core, by stream.
    """

    accounts: dict[str, Account]
    waits: tuple[Wait, ...]
    work: tuple[Work, ...]
    bytes_by_path: dict[str, dict[str, float]]
    l2_hit_rate: float
    hbm_held: float
    l2_held: float
    last_core: dict[str, int]
    imbalance: float
    cores: dict[str, tuple[int, int]]
    flags: dict[str, tuple[int, int]]


def reasons(walked: Walked, texts: bool = True) -> Reasons:
    """Return the reasons of a walk. Without `texts` no single waits and instructions, which only a program without holes has."""
    program, machine, told = walked.encoded.program, walked.encoded.machine, walked.told
    moved = walked.moved_bytes
    hbm, l2 = (float(x) for x in moved.sum(axis=0)) if len(moved) else (0.0, 0.0)
    run = max(walked.ticks, 1) / TICKS
    latest = int(np.argmax(told.ends[:, 0]))
    mean = told.ends[latest, 2] / walked.cores[latest]
    return Reasons(
        _accounts(walked), _waits(walked) if texts else (), _work(walked) if texts else (), _paths(walked, moved),
        l2 / (hbm + l2) if hbm + l2 else 0.0,
        _hbm_cycles(walked, moved) / run, l2 / machine.l2_bytes_per_cycle / run,
        {s.name: int(told.ends[i, 1]) for i, s in enumerate(program.streams)}, float(told.ends[latest, 0] / mean) if mean else 1.0,
        {s.name: (int(walked.cores[i]), machine.core(s.core).count) for i, s in enumerate(program.streams)},
        {s.name: (_operations(walked, i, SetFlag), _operations(walked, i, WaitFlag)) for i, s in enumerate(program.streams)})


def _operations(walked: Walked, stream: int, kind: type) -> int:
    """Return how often the last core of a stream does something of a kind."""
    places = [i for i, place in enumerate(walked.encoded.places) if place.stream == stream and isinstance(place.item, kind)]
    return int(walked.told.at[stream, places, 1].sum())


def pipe_name(program: Program, stream: int, pipe: str) -> str:
    """Return the pipe's name: with its stream's where there are several."""
    return f"{program.streams[stream].name}.{pipe}" if len(program.streams) > 1 else pipe


def _accounts(walked: Walked) -> dict[str, Account]:
    """Return the account of every pipe that does anything, by its name."""
    program, told = walked.encoded.program, walked.told
    out = {}
    for s in range(len(program.streams)):
        end, cores = int(told.ends[s, 0]), int(walked.cores[s])
        for p, pipe in enumerate(PIPES):
            spent = told.spent[s, p]
            if spent.any():
                held = told.sum_spent[s, p, [kernel.BUSY, kernel.MEMORY]].sum() / cores
                parts = [float(x) / TICKS for x in (*spent, end - spent.sum(), end, held)]
                out[pipe_name(program, s, pipe)] = Account(*parts)
    return out


def _waits(walked: Walked) -> tuple[Wait, ...]:
    """Return the waits that held up their pipe, the longest first. Waits of the same pipes for the same buffers are joined."""
    program, found = walked.encoded.program, dict[tuple[str, str, Guard], Array]()
    known = [guards(program, s) for s in program.streams]
    for i, place in enumerate(walked.encoded.places):
        item, at = place.item, walked.told.at[place.stream, i]
        if isinstance(item, WaitFlag) and at[0]:
            guard = known[place.stream][item.source, item.target, item.id]
            key = (pipe_name(program, place.stream, item.target), item.source, guard)
        elif isinstance(item, CrossWait) and at[0]:
            key = (pipe_name(program, place.stream, item.pipe), item.source, Guard((), "cross", 0))
        else:
            continue
        found[key] = found.get(key, 0) + at
    waits = [Wait(pipe, source, " ".join(guard.buffers), guard.why, guard.depth, float(at[0]) / TICKS, int(at[1]))
             for (pipe, source, guard), at in found.items()]
    return tuple(sorted(waits, key=lambda w: -w.cycles))


def _work(walked: Walked) -> tuple[Work, ...]:
    """Return every instruction that runs, the longest in all first."""
    program = walked.encoded.program
    dtypes = {t.name: t.dtype for t in program.tensors} | {s.name: s.dtype for s in program.spaces}
    tensors = {t.name for t in program.tensors}
    found = [_instruction(walked, i, dtypes, tensors) for i, place in enumerate(walked.encoded.places)
             if isinstance(place.item, Instr) and walked.told.at[place.stream, i, 1]]
    return tuple(sorted(found, key=lambda w: -w.cycles))


def _instruction(walked: Walked, index: int, dtypes: dict[str, str], tensors: set[str]) -> Work:
    place, program = walked.encoded.places[index], walked.encoded.program
    item = place.item
    assert isinstance(item, Instr)
    word = INSTRUCTIONS[item.op]
    names = [r.buffer for r in (item[o.name] for o in word.operands) if isinstance(r, Ref)]
    first = dict.fromkeys([a for a, _ in program.streams[place.stream].grid] + list(walked.encoded.register_of[place.stream]), 0)
    fields = {n.name: int(evaluate(item[n.name], first)) for n in word.numbers if not n.real}  # type: ignore[arg-type]
    gm = next((n for n in names if n in tensors), "")
    size = DTYPES[dtypes[names[1] if len(names) > 1 else names[0]]]
    moved = int(evaluate(word.gm_bytes, {**fields, "size": DTYPES[dtypes[gm]]})) if gm else 0
    scopes = ["/".join(o.scopes) for o in word.operands]
    path = f"{scopes[1]}->{scopes[0]}" if len(scopes) == 2 and scopes[0] != scopes[1] else ""
    on_chip = next((n for n in names if n not in tensors), "")
    ticks, times = (int(x) for x in walked.told.at[place.stream, index])
    words = shape(item.op, fields, size, moved)
    return Work(item.op, pipe_name(program, place.stream, word.pipe), path, on_chip, times, ticks / TICKS, moved, fields, words)


def shape(op: str, fields: dict[str, int], size: int, gm_bytes: int) -> str:
    """Return what an instruction does once, in words: rows, bursts, sizes; of elements of `size` bytes."""
    if "rows" in fields and "cols" in fields:
        return f"{fields['rows']} rows of {fields['cols'] * size:,} bytes"
    if op in ("mmad", "mmad_bias"):
        return " x ".join(str(fields[n]) for n in "mnk")
    if fields.get("bursts", 1) > 1 and gm_bytes:
        return f"{fields['bursts']} bursts of {gm_bytes // fields['bursts']:,} bytes"
    if "m" in fields and "n" in fields:
        return f"{fields['m']} x {fields['n']}"
    return f"{gm_bytes:,} bytes" if gm_bytes else f"{fields['repeat']} repeats" if "repeat" in fields else "one piece"


def _hbm_cycles(walked: Walked, moved: Array) -> float:
    """Return cycles that HBM takes for its bytes, and to turn between reads and writes (reuse.both_ways)."""
    machine, ways = walked.encoded.machine, [0.0, 0.0]
    for site, (hbm, _) in zip(walked.encoded.sites, moved, strict=True):
        ways[site.path.endswith("->GM")] += float(hbm)
    return (sum(ways) + 2.0 * (machine.hbm_turnaround or 0.0) * min(ways)) / machine.hbm_bytes_per_cycle


def _paths(walked: Walked, moved: Array) -> dict[str, dict[str, float]]:
    """Return, for each path, the bytes that cross HBM and the bytes that hit L2, over all cores."""
    out: dict[str, dict[str, float]] = {}
    for site, (hbm, l2) in zip(walked.encoded.sites, moved, strict=True):
        if site.path:
            path = out.setdefault(site.path, {"hbm": 0.0, "l2": 0.0})
            path["hbm"] += float(hbm)
            path["l2"] += float(l2)
    return out
