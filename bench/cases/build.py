"""Case -> filled program: what the row states is pinned, what it leaves open is what aoec's own search finds best."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import ceil, prod
from pathlib import Path

from aoec import primitives
from aoec.base.errors import AoecError, ScheduleError, UnsupportedError
from aoec.base.files.files import read_text
from aoec.ir.func.tir import Func
from aoec.ir.index import Int
from aoec.ir.program import Program
from aoec.ir.rewrite import fill, normalise
from aoec.ir.rewrite import holes as holes_of
from aoec.ir.schedule import Trace
from aoec.ir.text.parse import parse_trace
from aoec.jobs.tune.tuning import Problem, Sketch
from aoec.lowering.emit.emit import emit
from aoec.lowering.lower.lower import lower
from aoec.search.default.default import default
from aoec.search.sketches.nests import output_nest
from aoec.search.sketches.sketches import sketches
from aoec.search.space.grid import Grid, Space
from aoec.simulate.encode.encode import encode
from aoec.simulate.timing.state import PREVIOUS_LAUNCH, State
from aoec.target.machine import Machine
from bench.cases.case import Case
from bench.cases.cube import cube_trace, in_order
from bench.cases.graphs import graph_of
from bench.cases.micro import copy_program, core_kind, instruction_program, nd2nz_program, reduce_program

Builder = Callable[[Case, Machine], Program]
CUBE_TILES = ("base", "single", "l1", "cores", "grid", "splitk")  # any of them says how a product is cut
BUILDERS: tuple[tuple[str, Builder], ...] = (
    ("copy_gm_to", copy_program), ("nd2nz", nd2nz_program), ("reduce_sum_instr", instruction_program),
    ("reduce_max_instr", instruction_program), ("reduce", reduce_program))


# words of what is no schedule of ours
UNSAID = {
    "mix": "the cube core is driven by messages of vector cores: its time is scalar work of the vendor's framework, which is no schedule",
    "ibshare": "L1 is shared between the calls of two vector cores that drive the cube core, whose time is the framework's",
    "prepack": "vector cores bring ND into NZ in a pass before, a program of two kinds of core that emission does not make"}
# words that leave our program as it is -> why
UNCHANGED = {"tail": "the last block is not cut smaller"}


def unchanged(case: Case) -> str:
    """Return the words of a case that do not change its program, with the reason."""
    return "; ".join(f"{word} changes nothing here: {why}" for word, why in UNCHANGED.items() if word in case.tile)


def build(case: Case, machine: Machine, folder: Path = Path()) -> Program:
    """Return the program of a case. Raise AoecError with the reason where the case cannot be expressed."""
    if unsaid := [why for word, why in UNSAID.items() if word in case.tile]:
        raise UnsupportedError(unsaid[0])
    program = built(case, machine, folder)
    if "bypass" in case.tile:
        tensors = tuple(replace(t, uncached=t.role == "input") for t in program.tensors)
        return replace(program, tensors=tensors)
    return program


def built(case: Case, machine: Machine, folder: Path) -> Program:
    """Return the program, whatever its inputs do to L2."""
    if case.tile.trace:
        return traced(case, machine, folder)
    for start, builder in BUILDERS:
        if case.operator.startswith(start):
            return builder(case, machine)
    func = only_func(case)
    if case.family == "attention":
        return attention_program(case, func, machine)
    if case.family != "matmul":
        return vector_program(case, func, machine)
    return tiled_product(case, func, machine) if any(w in case.tile for w in CUBE_TILES) else open_product(case, func, machine)


def only_func(case: Case) -> Func:
    """Return the func of a case whose operator is one group."""
    graph = graph_of(case, flat=True)
    work = [g for g in graph.groups if g.kind in ("cube", "vector")]
    if len(work) != 1:
        raise UnsupportedError(f"{case.operator} is {len(work)} groups in aoec; tile words are of one")
    return lower(graph, work[0])


def tiled_product(case: Case, func: Func, machine: Machine) -> Program:
    """Return a product with the row's tiling; what that says nothing of, as how results leave a core of cube and vector both, as found
    best."""
    trace = cube_trace(case, func, machine)
    if holes_of(trace):
        return in_order(case, pinned_best(func, [trace], {}, machine, PREVIOUS_LAUNCH), machine)
    return in_order(case, normalise(emit(primitives.apply(func, trace), machine)), machine)


def open_product(case: Case, func: Func, machine: Machine) -> Program:
    """Return a product whose tile is left open: the best that our default finds, with the L2 blocks that are said, or without any."""
    count = case.tile.one("l2", 1)
    traces = [t for t in sketches(func, machine) if ("lm" in holes_of(t) or "ln" in holes_of(t)) == (count > 1)]
    return pinned_best(func, traces, {"lm": count, "ln": count}, machine, PREVIOUS_LAUNCH)


def attention_program(case: Case, func: Func, machine: Machine) -> Program:
    """Return attention in one pass by the best that our default finds. The rows of one sequence and head are on the given number of
    cores."""
    cores = case.tile.one("cores", 0)
    pinned = {"gm": cores, "gb": 1} if cores and func.inputs[0].shape[0] == Int(1) else {}
    return pinned_best(func, sketches(func, machine), pinned, machine, PREVIOUS_LAUNCH)


def traced(case: Case, machine: Machine, folder: Path) -> Program:
    """Return the program of a trace in our own words, inline or in a file beside the cases."""
    text = case.tile.trace
    source = "tile"
    if text.startswith("@"):
        source = str(folder / text[1:])
        text = read_text(source)
    trace = parse_trace(text, source)
    if open_holes := sorted(holes_of(trace)):
        raise UnsupportedError(f"the trace leaves {', '.join(open_holes)} open")
    return normalise(emit(primitives.apply(only_func(case), trace), machine))


def vector_program(case: Case, func: Func, machine: Machine) -> Program:
    """Return an elementwise operator by tiles: the run or the rows in UB, cores, slots; the rest as found best."""
    pinned: dict[str, int] = {}
    kind = core_kind(machine, False)
    limit = machine.core(kind).count
    programs = case.tile.one("programs", 0)
    if programs or "cores" in case.tile:
        pinned["g0"] = min(programs or limit, case.tile.one("cores", limit), limit)
    if tile := case.tile.numbers("tile") or case.tile.numbers("sub"):
        pinned["t0"] = first = tile[0] if len(tile) > 1 and len(output_nest(func).loops) > 1 else prod(tile)
        pinned |= {"g0": with_work(func, first, pinned["g0"])} if "g0" in pinned else {}
    pinned |= dict.fromkeys(("di", "do"), case.tile.one("buffers", 1)) if "buffers" in case.tile or tile else {}
    traces = sketches(func, machine)
    try:
        return pinned_best(func, traces, pinned, machine)
    except ScheduleError:  # slots that fill UB leave no room to move them apart
        return pinned_best(func, [Trace(tuple(s for s in t.steps if s.primitive != "place")) for t in traces], pinned, machine)


def with_work(func: Func, tile: int, cores: int) -> int:
    """Return how many of the cores have work where each takes as many whole tiles of the outermost axis: the grid that a trace can
    state."""
    tiles = ceil(output_nest(func).extent(output_nest(func).loops[0].var) / tile)
    return ceil(tiles / ceil(tiles / cores))


def pinned_best(func: Func, traces: Sequence[Trace], pinned: Mapping[str, int], machine: Machine, state: State = ()) -> Program:
    """Return the program of the best candidate among sketches with some holes at stated values."""
    kept, reasons = [], []
    for number, trace in enumerate(traces):
        own = {n: v for n, v in pinned.items() if n in holes_of(trace)}
        try:
            told = fill(trace, own)
            program = emit(primitives.apply(func, told), machine)
            kept.append(Sketch(told, program, encode(program, machine), number))
        except AoecError as e:
            reasons.append(str(e))
    if not kept:
        raise UnsupportedError(reasons[0] if reasons else "no sketch of it")
    grids = tuple(Grid(tuple(h), tuple(h.values())) for h in (holes_of(s.trace) for s in kept))
    problem = Problem(func, machine, state, kept, reasons, Space(grids))
    _, best = default(problem.space, problem.cost, problem.constraints)
    return problem.program(best)
