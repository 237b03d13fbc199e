"""Entries of a delivery, with the best schedule of each. They are the different groups of a model, compiled or not, or the funcs of a
bank."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from aoec.artifact.artifact import Port, load_gears
from aoec.bank import store
from aoec.bank.bank import Bank, read_records
from aoec.bank.record import DEFAULT, ROBUST, Record
from aoec.base.errors import AoecError, BackendError, BankError, CheckError
from aoec.base.files.files import open_plain
from aoec.base.regions import Slices
from aoec.cann.op_summary import Operand
from aoec.ir.func.tir import Buffer, Func
from aoec.ir.graph.graph import Attribute, Graph, OpNode, Tensor
from aoec.ir.index import Int
from aoec.ir.text.show import show
from aoec.jobs.bank.bank import SHOWN_DIGITS
from aoec.jobs.bank.bank_verify import func_of
from aoec.jobs.bank.embedded import below
from aoec.jobs.bank.shelf import age
from aoec.jobs.choose import rounds, slices
from aoec.jobs.choose.model_tasks import Task, host_times, tasks
from aoec.jobs.compile.begin import read_stages
from aoec.jobs.compile.steps.group_model import group_model
from aoec.jobs.compile.steps.search_groups import search_groups
from aoec.jobs.context import Context, Job
from aoec.jobs.deliver.profile import operands
from aoec.jobs.states import state_of
from aoec.jobs.tune.order import Order, Solved
from aoec.jobs.voice import Voice
from aoec.lowering.arrange.layout import family
from aoec.lowering.arrange.slices import pieces
from aoec.lowering.lower.access import main_node
from aoec.lowering.lower.lower import Indexed
from aoec.options.compile import CompileOptions
from aoec.options.exchange import DeliverOptions
from aoec.search.sketches.nests import find_product
from aoec.simulate.timing.state import State
from aoec.target.machine import Machine, load, parse_machine

Say = Callable[[str], None]


@dataclass(frozen=True)
class Entry:
    """Equal groups, or a func of a bank: what it is, how often it runs, and its schedules. Times are modelled, of one of them alone in its
    place, launch included; `why`: it is no work of the AI Core. `names`: the first node of each group; `attributes` and `shapes`: of that
    node, its inputs and then its result, without layouts. `default`: the default schedule, "" where it is not known. `sliced`: none of them
    is an operator of the model, all are slices of some."""

    name: str
    what: str
    kind: str
    names: tuple[str, ...]
    types: tuple[str, ...]
    count: float = 1.0
    default_us: float = 0.0
    us: float = 0.0
    bound_us: float = 0.0
    inputs: tuple[Operand, ...] = ()
    outputs: tuple[Operand, ...] = ()
    attributes: tuple[tuple[str, Attribute], ...] = ()
    shapes: tuple[tuple[int, ...], ...] = ()
    func: Func | None = None
    func_key: str = ""
    trace: str = ""
    default: str = ""
    state: State = ()
    why: str = ""
    sliced: bool = False

    @property
    def is_faster(self) -> bool:
        """Return whether its schedule is faster than the default one."""
        return self.us < self.default_us

    @property
    def all_us(self) -> float:
        return self.us * self.count


@dataclass(frozen=True)
class Source:
    """Everything to deliver for one machine. `precision` and `inputs`: the precision of a model and the shapes of its inputs, where each
    has one; a bank has neither. `apart`: (operator or family, the next one's) where a result's only reader is another group. `cut`: what of
    the model runs in slices, in words. `figures`: those of each gear of a compiled model."""

    name: str
    machine: Machine
    entries: tuple[Entry, ...]
    precision: str = ""
    inputs: tuple[tuple[str, tuple[int, ...]], ...] = ()
    apart: tuple[tuple[str, str], ...] = ()
    cut: tuple[str, ...] = ()
    figures: tuple[tuple[str, Mapping[str, int]], ...] = ()


def source(path: str, options: DeliverOptions, voice: Voice) -> Source:
    """Return what a file holds that is to be delivered, by what it is."""
    if path.endswith(".aoec"):
        return of_artifact(path, options)
    if is_bank(path):
        return of_bank(path, options, voice.say)
    return of_model(path, options, voice)


def is_bank(path: str) -> bool:
    """Return whether a file is a bank, or an export of one."""
    if path.endswith((".jsonl", ".db")):
        return True
    try:
        with open_plain(path) as f:
            return f.read(len(store.HEADER)) == store.HEADER
    except (OSError, BackendError):  # what reads it next says it better
        return False


# ---------------------------------------------------------------- models

def of_model(path: str, options: DeliverOptions, voice: Voice) -> Source:
    """Return the source of an ONNX model. Its schedules are those of the banks, else default ones; nothing is searched."""
    machine = load(options.target) if options.target else load()
    voice.reading(Path(path), machine, "--target" if options.target else "default; --target, see aoec targets")
    context = Context(machine, options.into(CompileOptions, model=path, tune=False, slices=Slices()), voice)
    stages = read_stages(context)
    voice.bank_at(options.bank_path)
    ready = [group_model(s, context) for s in stages]
    listed = [t for r in ready for t in r.tasks]
    bank = Bank.open(options.bank_path).over(below(path, listed, machine, False, options.base, voice.say))
    job = Job.begin(context, bank, Order(False), stages[0].name)
    found = search_groups(ready, job.runs[0], job)
    models = [Model(r.stage.gear, r.model.graph, r.tasks, solved_groups(solved), shapes(r.stage.inputs)) for r, solved in found]
    return together(stages[0].name, machine, options.precision, models)


def of_artifact(path: str, options: DeliverOptions) -> Source:
    """Return the source of a compiled model: its own schedules, for the machine that it was compiled for. Raise CheckError where
    `options.target` is another machine."""
    gears = load_gears(path)
    machine = parse_machine(gears[0].machine, path) if gears[0].machine else load(gears[0].target)
    if options.target and load(options.target).hash != machine.hash:
        raise CheckError(f"{path} was compiled for {machine.name}; without --target, or give the ONNX model")
    models = []
    for a in gears:
        known = {g.group: Found(show(g.trace), "", g.default_ticks, g.ticks, g.bound_ticks, g.func_key) for g in a.groups if g.trace}
        models.append(Model(a.gear, a.graph, tasks(a.graph, machine), known, shapes(a.inputs)))
    found = together(gears[0].name, machine, gears[0].precision, models)
    return replace(found, figures=tuple((a.gear, dict(a.figures)) for a in gears))


@dataclass(frozen=True)
class Model:
    """A model in groups for one shape of each input, with what is known of its tasks' schedules, by group."""

    gear: str
    graph: Graph
    tasks: list[Task]
    known: Mapping[str, Found]
    inputs: tuple[tuple[str, tuple[int, ...]], ...]


def shapes(ports: Sequence[Port]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return tuple((p.name, p.shape) for p in ports)


def together(name: str, machine: Machine, precision: str, models: Sequence[Model]) -> Source:
    """Return one source of a model, or of its gears."""
    cut = tuple(dict.fromkeys(said for m in models for said in slices.describe_slices(m.graph)))
    parts = [replace(e, name=f"{m.gear}/{e.name}" if m.gear else e.name)
             for m in models for e in groups(m.graph, machine, m.tasks, m.known)]
    apart = tuple(dict.fromkeys(pair for m in models for pair in split_pairs(m.graph)))
    return Source(name, machine, merge_entries(parts), precision, models[0].inputs if len(models) == 1 else (), apart, cut)


@dataclass(frozen=True)
class Found:
    """A group's schedule and the default one ("": not known), with ticks of both and of the bound. `func_key`: the key of their func."""

    trace: str
    default: str
    default_ticks: int
    ticks: int
    bound_ticks: int
    func_key: str


def solved_groups(solved: Mapping[str, Solved]) -> dict[str, Found]:
    """Return what a job found of each group."""
    return {name: Found(s.best.trace, s.default.trace, s.default.ticks, s.best.ticks, s.best.bound_ticks, s.best.key.func_key)
            for name, s in solved.items()}


def groups(graph: Graph, machine: Machine, plan: Iterable[Task], known: Mapping[str, Found]) -> Iterator[Entry]:
    """Yield an entry for each group that takes time."""
    planned, nodes, often = {t.group.name: t for t in plan}, {n.name: n for n in graph.nodes}, rounds.passes_of_groups(graph)
    tensors, off_core, us, indexed = {t.name: t for t in graph.tensors}, host_times(graph), machine.us_per_tick, Indexed(graph)
    sliced = pieces(graph)
    for g in graph.groups:
        of = [nodes[n] for n in g.nodes]
        ops = tuple(n.op for n in of)
        bare = Entry(g.name, ", ".join(ops), g.kind, g.nodes[:1], ops, often[g.name], **seen_of(of, tensors), sliced=g.name in sliced)
        task, found = planned.get(g.name), known.get(g.name)
        if task is not None and found is not None and task.func_key == found.func_key:
            ins, outs = indexed.operands(g)
            yield replace(with_times(bare, found, us), what=task.label, inputs=operands(ins), outputs=operands(outs), func=task.func,
                          func_key=task.func_key, trace=found.trace, default=found.default, state=task.state)
        elif found is not None:
            yield replace(with_times(bare, found, us), why="another version of aoec compiled it: compile it again")
        elif g.kind == "host":
            host_us = off_core[g.name]
            yield replace(bare, default_us=host_us, us=host_us, bound_us=host_us, why="it runs on the host, as an AI CPU operator would")


def seen_of(nodes: Sequence[OpNode], tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """Return attributes of the first node, and shapes of its inputs and of its result."""
    if not nodes:
        return {}
    first = main_node(nodes)
    return {"attributes": first.attributes, "shapes": tuple(tensors[name].shape for name in (*first.inputs, first.outputs[0]) if name)}


def with_times(entry: Entry, found: Found, us: float) -> Entry:
    """Return the entry with the times of its schedules; `us`: of a tick."""
    return replace(entry, default_us=found.default_ticks * us, us=found.ticks * us, bound_us=found.bound_ticks * us)


def merge_entries(parts: Iterable[Entry]) -> tuple[Entry, ...]:
    """Return equal groups as one entry, in order. They may have several schedules where L2 holds different data before them. CANN keeps one
    schedule for a shape: the one that accounts for most of the time."""
    equal: dict[object, list[Entry]] = {}
    for e in parts:
        equal.setdefault((e.func_key, e.types) if e.func_key else (e.what, e.why), []).append(e)
    return tuple(map(_one, equal.values()))


def _one(alike: Sequence[Entry]) -> Entry:
    count = sum(e.count for e in alike)
    heavy = max(alike, key=lambda e: sum(o.all_us for o in alike if o.trace == e.trace))
    default_us, us, bound_us = (sum(e.count * t for e, t in zip(alike, times)) / count if count else 0.0 for times in (
        [e.default_us for e in alike], [e.us for e in alike], [e.bound_us for e in alike]))
    names = tuple(name for e in alike for name in e.names)
    return replace(heavy, name=alike[0].name, names=names, count=count, default_us=default_us, us=us, bound_us=bound_us,
                   sliced=all(e.sliced for e in alike))


def split_pairs(graph: Graph) -> Iterator[tuple[str, str]]:
    """Yield (family of a producer, family of its only reader) where the two are in different groups."""
    nodes, home = {n.name: n for n in graph.nodes}, {name: g.name for g in graph.groups for name in g.nodes}
    readers: dict[str, list[str]] = {}
    for n in graph.nodes:
        for i in n.inputs:
            readers.setdefault(i, []).append(n.name)
    for n in graph.nodes:
        after = [r for o in n.outputs for r in readers.get(o, ())]
        if len(after) == 1 and home.get(after[0]) != home.get(n.name) and not {*n.outputs} & {*graph.outputs}:
            yield _word(n), _word(nodes[after[0]])


def _word(node: OpNode) -> str:
    """Return the operator of a cube node, else the family."""
    return node.op.removesuffix("_packed") if family(node) == "cube" else family(node)


# ---------------------------------------------------------------- banks

def of_bank(path: str, options: DeliverOptions, say: Say) -> Source:
    """Return the source of a bank, or of an export of one, for one machine. It has the best and the default schedule of each func in each
    memory state. Stale records are passed over."""
    records = [r for r in read_records(path) if r.key.kind == "modelled" and not r.key.state.endswith(ROBUST)]
    machine = load(options.target) if options.target else load(_target(path, records))
    mine = [r for r in records if r.key.target == machine.name]
    fresh = [r for r in mine if not age(r, {machine.name: machine})]
    if len(mine) > len(fresh):
        say(f"{len(mine) - len(fresh)} of {len(mine)} records are stale (of another machine file or model version) and are left out: "
            "aoec bank verify lists them")
    pairs: dict[tuple[str, str], list[Record]] = {}
    for r in sorted(fresh, key=lambda r: r.ticks):
        pairs.setdefault((r.key.func_key, r.key.state.removesuffix(DEFAULT)), []).append(r)
    entries = [e for listed in pairs.values() if (e := _of_records(listed, machine, say)) is not None]
    if not entries:
        raise BankError(f"{path} has no fresh record of {machine.name} with a func: nothing to deliver; see aoec bank list")
    return Source(Path(path).stem, machine, merge_entries(entries))


def _target(path: str, records: Sequence[Record]) -> str:
    """Return the machine of all records. Raise CheckError where there are several."""
    found = sorted({r.key.target for r in records})
    if len(found) > 1:
        raise CheckError(f"{path} has records of {', '.join(found)}: --target says which are meant")
    if not found:
        raise CheckError(f"{path} has no modelled records")
    return found[0]


def _of_records(listed: Sequence[Record], machine: Machine, say: Say) -> Entry | None:
    """Return the entry of the records of one func, fastest first; None, and why is said, where the func cannot be read."""
    r = listed[0]
    try:
        func = func_of(next((x.func for x in listed if x.func), ""), r.key.func_key)
    except AoecError as e:
        say(f"{r.key.func_key[:SHOWN_DIGITS]} ({r.label}) is left out: {str(e).splitlines()[0]}")
        return None
    types = tuple(part.split()[0] for part in r.label.rsplit(" ", 1)[0].split("+") if part.split())
    kind = "cube" if find_product(func) is not None else "vector"
    ins, outs = (operands(map(_tensor, buffers)) for buffers in (func.inputs, func.outputs))
    default = next((x.trace for x in listed if x.key.state.endswith(DEFAULT)), "")
    found = Found(r.trace, default, r.default_ticks, r.ticks, r.bound_ticks, r.key.func_key)
    bare = Entry(r.key.func_key[:SHOWN_DIGITS], r.label, kind, (), types, 1.0)
    return replace(with_times(bare, found, machine.us_per_tick), inputs=ins, outputs=outs, func=func, func_key=r.key.func_key,
                   trace=r.trace,
                   default=default, state=state_of(r.key.state))


def _tensor(b: Buffer) -> Tensor:
    """Return a buffer of a func as a tensor: of an image its indices are those of its planes already."""
    shape = tuple(e.value if isinstance(e, Int) else 0 for e in b.shape)
    return Tensor(b.name, b.dtype, shape, "ND" if len(shape) == 5 else b.layout or "ND")
