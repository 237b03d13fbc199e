"""The stages one by one, as `aoec import | fuse | lower | schedule | emit | simulate` call them: text in, noun out.

Each function is a step between two nouns of design section 3, with the checks that text from outside needs. An edit that is refused is
shown with its place in the text. The whole job at once is `jobs/compile/compile.py`.
"""
from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from aoec.base.errors import AoecError, CapacityError, CheckError, ScheduleError, TargetError, UnsupportedError
from aoec.base.files import arrays
from aoec.base.text import plural, quote
from aoec.ir.func.tir import Func, blocks
from aoec.ir.graph.graph import Graph, Group
from aoec.ir.program import Program
from aoec.ir.rewrite import fill, normalise
from aoec.ir.rewrite import holes as holes_of
from aoec.ir.schedule import Trace
from aoec.ir.text import parse
from aoec.jobs.stages.nouns import need
from aoec.jobs.stages.places import blocks_shown, shown_definition, step_places, with_place
from aoec.jobs.verify.within import read_func

if TYPE_CHECKING:
    import numpy as np

    from aoec.ops.own import Definitions
    from aoec.options.training import Training
    from aoec.target.machine import Machine

CONVERSIONS = ("to_nc1hwc0", "from_nc1hwc0", "transpose")
Weights = dict[str, "np.ndarray"]
Holes = Mapping[str, int]
T = TypeVar("T", Func, Trace, Program)


def import_model(path: str, input_shapes: Mapping[str, tuple[int, ...]], precision: str,
                 ops: Sequence[str] = (), rewrites: Sequence[str] = (),
                 training: Training | None = None) -> tuple[Graph, Weights, list[str]]:
    """Return the graph of an ONNX model, its constants by tensor name, and notices for the user. `ops`: files of definitions. `rewrites`:
    files of rules. `training`: the graph is a step of training by these options."""
    from aoec.frontend.rewrites.apply import Rewriting
    from aoec.frontend.rewrites.law import read_own
    from aoec.jobs.compile.models import load_graph
    from aoec.ops.own import read_files
    graph, weights, notices = load_graph(path, dict(input_shapes), precision, read_files(ops), Rewriting(read_own(rewrites)), training)
    return graph, weights, list(notices)


def graph_of(text: str, source: str) -> Graph:
    """Return the graph that a text says, checked against the dictionary; a node that is refused is shown."""
    from aoec.ops.check import NodeError, check
    need("graph", text, source)
    graph = parse.parse_graph(text, source)
    try:
        check(graph)
    except NodeError as e:
        line, column = _node_place(text, e.node)
        raise CheckError(str(e), text, line, column, source) from e
    return graph


def _node_place(text: str, node: str) -> tuple[int, int]:
    """Return line and column (from 1) of a node's name in the text of a graph, quoted perhaps; 0, 0 where it is written in another way."""
    return _place(text, rf"^[ \t]*({re.escape(node)}|{re.escape(quote(node))})[ \t]*:")


def _place(text: str, pattern: str) -> tuple[int, int]:
    """Return line and column (from 1) of the first group of a pattern; 0, 0 where it is not found."""
    found = re.search(pattern, text, re.MULTILINE)
    return (text.count("\n", 0, found.start(1)) + 1, found.start(1) - text.rfind("\n", 0, found.start(1))) if found else (0, 0)


def fuse_text(text: str, source: str, weights_path: str, target: str) -> tuple[Graph, Weights]:
    """Return the graph in layouts and groups as the target has them, and its packed constants."""
    from aoec.lowering.arrange.fuse import fuse
    graph = graph_of(text, source)
    if graph.groups:
        raise CheckError(f"graph {graph.name} is fused already: it has {plural(len(graph.groups), 'group')}", source=source)
    return fuse(graph, load_weights(graph, weights_path), _machine(target))


def slice_text(text: str, source: str, regions: Sequence[tuple[str, str, int]]) -> Graph:
    """Return the fused graph with regions, (first group, last group, slices), in slices."""
    from aoec.lowering.arrange.slices import Region, slice_graph
    graph = graph_of(text, source)
    if not graph.groups:
        raise CheckError(f"graph {graph.name} has no groups; run aoec fuse first", source=source)
    return slice_graph(graph, [Region(*r) for r in regions])


def lower_text(text: str, source: str, group: str | None) -> Func:
    """Return the func of one group of a fused graph."""
    from aoec.lowering.lower.lower import lower
    graph = graph_of(text, source)
    return lower(graph, _group(graph, group, source))


def lower_operator(text: str, own: Definitions | None = None, group: str | None = None) -> Func:
    """Return the func of an operator given by name and sizes, `matmul(m=64, k=64, n=64, fp16)`: of its own group, without conversions. One
    of the user's `own` that becomes several groups needs the name of one."""
    from aoec.jobs.stages.operators import graph_of as graph_of_operator
    from aoec.lowering.arrange.fuse import fuse
    from aoec.lowering.lower.lower import lower
    graph, _ = fuse(*graph_of_operator(text, own or {}))
    return lower(graph, operator_group(graph, group))


def lower_call(text: str, paths: Sequence[str], group: str | None = None) -> Func:
    """Return a func as `lower_operator` does, also of operators that files define. An error in a definition is shown at its place in the
    file."""
    from aoec.base.files.files import read_text
    from aoec.ops.own import read_files
    own = read_files(paths)
    try:
        return lower_operator(text, own, group)
    except AoecError as e:
        name = text.partition("(")[0].strip()
        if name not in own:
            raise
        raise shown_definition(e, {p: read_text(p) for p in paths}, name) from e


def operator_group(graph: Graph, name: str | None = None) -> Group:
    """Return the group of the operator that a graph was made for. It is the one named, the one whose node has the graph's name, or the only
    one that does more than change layouts."""
    from aoec.lowering.arrange.joined.results import why_apart
    groups = [g for g in graph.groups if g.kind in ("cube", "vector")]
    ops = {n.name: n.op for n in graph.nodes}
    work = [g for g in groups if not all(ops[n] in CONVERSIONS for n in g.nodes)]
    found = [g for g in groups if (g.name == name if name else graph.name in g.nodes)] or ([] if name else work or groups)
    if len(found) != 1:
        said = ", ".join(f"{g.name} ({' '.join(ops[n] for n in g.nodes)})" for g in groups)
        asked = f"there is no group {name}: " if name else ""
        why = why_apart(graph)
        apart = f", since {why}" if why and len(groups) > 1 else ""
        raise CheckError(f"{asked}{graph.name} becomes {plural(len(groups), 'group')}{apart}; give --group, one of {said}")
    return found[0]


def _group(graph: Graph, name: str | None, source: str) -> str:
    """Return the group's name; refused where it is missing, ambiguous, or nothing to lower."""
    names = {g.name: g.kind for g in graph.groups}
    if not names:
        raise CheckError(f"graph {graph.name} has no groups; run aoec fuse first", source=source)
    if name is None or name not in names:
        asked = f"there is no group {name}" if name else "which group? give --group"
        known = ", ".join(list(names)[:12]) + (", ..." if len(names) > 12 else "")
        raise CheckError(f"{asked}; graph {graph.name} has {known}", source=source)
    if names[name] not in ("cube", "vector"):
        raise UnsupportedError(f"{source}: group {name} is of kind {names[name]} and becomes no func: "
                               + ("it only renames bytes" if names[name] == "view" else "it runs on the host"))
    return name


# ---------------------------------------------------------------- func -> program -> measure

def schedule_text(func_text: str, func_source: str, trace_text: str, trace_source: str, values: Holes) -> Func:
    """Return the func with the schedule applied; a step that is refused is shown in the schedule's text."""
    need("sched", trace_text, trace_source)
    func, trace = read_func(func_text, func_source), parse.parse_trace(trace_text, trace_source)
    return apply_shown(func, fill_some(trace, values, trace_source), trace_text, trace_source)


def apply_shown(func: Func, trace: Trace, text: str, source: str) -> Func:
    """Return the func with the trace applied; refusals carry the place of their step in `text`."""
    from aoec.primitives.primitive import from_step
    places = list(step_places(text))
    for number, step in enumerate(trace.steps):
        try:
            func = from_step(step).apply(func)
        except (ScheduleError, CheckError) as e:
            raise with_place(e, text, source, places[number] if number < len(places) else (0, 0)) from e
    return normalise(func)


def emit_text(text: str, source: str, target: str, values: Holes) -> Program:
    """Return the program of a scheduled func for a machine, checked as far as open holes allow."""
    from aoec.lowering.emit.emit import LoopError, emit
    func, machine = fill_some(read_func(text, source), values, source), _machine(target)
    if not any(b.instr for b, _ in blocks(func.body)):
        raise CheckError(f"func {func.name} is not scheduled yet: aoec search finds a schedule for it, aoec schedule applies one",
                         source=source)
    try:
        with blocks_shown(text, source):
            program = normalise(emit(func, machine))
        if not holes_of(program):
            check_program(program, machine)
    except LoopError as e:
        raise CheckError(e.message, text, *_place(text, rf"\bfor[ \t]+({re.escape(e.loop)})\b"), source) from e
    except CheckError as e:
        raise (e if e.source else CheckError(e.message, e.text, e.line, e.column, source)) from e
    return program


def program_text(text: str, source: str, target: str | None, values: Holes) -> tuple[Program, Machine]:
    """Return a filled program, checked, and its own machine (or `target`); programs with open holes are refused."""
    need("program", text, source)
    program = fill_some(parse.parse_program(text, source), values, source)
    open_holes = holes_of(program)
    if open_holes:
        raise CheckError(f"program {program.name} has open holes: " + _settings(open_holes), source=source)
    try:
        machine = _machine(target or program.target)
    except TargetError as e:
        raise CheckError(str(e), source=source) from e
    check_shown(program, machine, text, source)
    return program, machine


def check_shown(program: Program, machine: Machine, text: str, source: str) -> None:
    """Raise CheckError at the line of the text that breaks a rule of the machine."""
    from aoec.target.legality.check import check
    if foreign := sorted({s.core for s in program.streams} - machine.cores.keys()):
        raise CheckError(f"program {program.name} runs on cores of kind {', '.join(foreign)}, and {machine.name} has "
                         f"{', '.join(machine.cores)}: it was made for another chip; emit its func again with --target {machine.name}",
                         source=source)
    try:
        check(program, machine)
    except (CheckError, CapacityError) as e:
        raise with_place(e, text, source) from e


def check_program(program: Program, machine: Machine) -> None:
    """Raise CheckError or CapacityError where the program breaks a rule of the machine."""
    from aoec.target.legality.check import check
    check(program, machine)


def _machine(name: str) -> Machine:
    from aoec.target.machine import load
    return load(name)


def fill_some(noun: T, values: Holes, source: str) -> T:
    """Return the noun with the given holes filled; a name that is no hole of it, or a value outside its choices, is refused."""
    known = holes_of(noun)
    for name, value in values.items():
        if name not in known:
            raise CheckError(f"there is no hole {name}; " + (_settings(known) if known else "none is open"), source=source)
        if known[name] and value not in known[name]:
            raise CheckError(f"hole {name} takes {', '.join(map(str, known[name]))}, not {value}", source=source)
    return fill(noun, dict(values)) if values else noun


def _settings(open_holes: Mapping[str, tuple[int, ...]]) -> str:
    return "fill them with " + " ".join(f"--set {n}={c[0] if c else 'N'}" for n, c in open_holes.items())


# ---------------------------------------------------------------- constants beside a graph's text

def save_weights(graph: Graph, weights: Mapping[str, np.ndarray], path: str | Path) -> None:
    """Write the constants of the graph to a .npz file, under the hashes that the graph's text names."""
    arrays.save(path, {t.data: weights[t.name] for t in graph.tensors if t.data})


def load_weights(graph: Graph, path: str | Path) -> Weights:
    """Return the constants of the graph by tensor name. Raise CheckError where one is missing or its bytes have another hash."""
    wanted = [t for t in graph.tensors if t.data]
    if not wanted:
        return {}
    if str(path) == "-":
        raise CheckError(f"graph {graph.name} has {plural(len(wanted), 'constant')}, and their file is not known when the graph comes from "
                         "standard input; give --weights FILE.npz, as written by aoec import --weights")
    found = arrays.load(path)
    for t in wanted:
        if t.data not in found:
            raise CheckError(f"the constant {t.name} of graph {graph.name} is missing (sha256:{t.data[:12]}...)", source=str(path))
        if hashlib.sha256(found[t.data].tobytes()).hexdigest() != t.data:
            raise CheckError(f"the bytes of constant {t.name} have another hash than the graph names", source=str(path))
    return {t.name: found[t.data] for t in wanted}
