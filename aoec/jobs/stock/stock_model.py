"""A model as CANN would run it without tuning, modelled: its groupings, its tilings by rules and proxies, the same machine model.

What has no rule takes our default schedule, so that it is the same on both sides of a comparison. Nothing here ran on an NPU.
"""
from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from aoec.bank.record import Record
from aoec.base.errors import AoecError, ScheduleError, UnsupportedError
from aoec.ir.graph.graph import Graph, OpNode
from aoec.ir.text.show import show
from aoec.jobs.choose.model_tasks import Task, on_host, place_groups, tasks
from aoec.jobs.choose.refusal import refusal
from aoec.jobs.choose.rounds import counts
from aoec.jobs.compile.compiled_model import Choice, Model
from aoec.jobs.compile.lines import model_lines
from aoec.jobs.known import recall
from aoec.jobs.stock.cover import BLOCK, COVERS, NOTHING, PROXY, vector_cover
from aoec.jobs.stock.fuse_stated import fuse_stated
from aoec.jobs.tune.made import Schedule, realise
from aoec.jobs.tune.order import Order, Solved, keys
from aoec.jobs.tune.solve import attempt
from aoec.jobs.tune.tuning import bound_in, problem
from aoec.jobs.verify.legal import legal
from aoec.lowering.lower.access import main_node
from aoec.ops.run import NUMPY
from aoec.report.table import StockRow
from aoec.search.sketches.nests import find_product, output_nest
from aoec.search.sketches.rows import cores_of
from aoec.search.stock.fit_cube import FIXED_RULE, Fitted, convolution_schedules, product_schedules
from aoec.search.stock.fit_vector import nearest
from aoec.search.stock.fusions import fusions_of, product_of
from aoec.search.stock.sizes import chip_of
from aoec.target.machine import Machine

MOST_TRIED = 40  # schedules of a cube group, until one is legal


@dataclass(frozen=True)
class StockModel:
    """A whole model as CANN would run it, all modelled: microseconds of one inference, between inferences, and of groups timed alone.
    `product`: the column of the table of fusions; `seconds`: what it took to find, 0 where it was looked up."""

    product: str
    latency_us: float
    throughput_us: float
    sum_us: float
    groups: tuple[StockRow, ...]
    seconds: float = 0.0

    @property
    def shares(self) -> dict[str, float]:
        """Return cover -> its share of the AI Core's time, with each group timed alone."""
        whole = sum(g.count * g.us for g in self.groups) or 1.0
        return {c: sum(g.count * g.us for g in self.groups if g.cover == c) / whole for c in COVERS}


@dataclass(frozen=True)
class Picked:
    """A schedule for a group, and what stands behind it."""

    trace: str
    schedule: Schedule
    cover: str
    rule: str = ""
    differs: tuple[str, ...] = ()


def stock_model(graph: Graph, machine: Machine, warm: bool = False,
                defaults: Mapping[tuple[str, str], str] | None = None) -> StockModel | None:
    """Return the stock model of an imported graph. Return None where the machine is of no product with public rules. `warm`: from the state
    that an inference before leaves; `defaults`: default schedules that are known, by func key and state."""
    product = product_of(machine.name)
    if not product:
        return None
    started = time.monotonic()
    at = ("stock", show(graph), machine.name, machine.hash, str(warm), str(fusions_of(product)))
    made: list[StockModel] = []

    def make() -> StockModel:
        made.append(find(graph, machine, product, warm, defaults or {}))
        return made[0]
    found = recall(at, make, asdict, read_back)
    return replace(found, seconds=time.monotonic() - started if made else 0.0)


def read_back(kept: dict[str, Any]) -> StockModel:
    """Return the model from plain values."""
    groups = tuple(StockRow(**{**g, "differs": tuple(g["differs"])}) for g in kept["groups"])
    return StockModel(**{**kept, "groups": groups})


def find(graph: Graph, machine: Machine, product: str, warm: bool, defaults: Mapping[tuple[str, str], str]) -> StockModel:
    """Return the stock model, made."""
    zeros = {t.name: np.broadcast_to(np.zeros((), NUMPY[t.dtype]), t.shape) for t in graph.tensors if t.data}
    placed = place_groups(fuse_stated(graph, zeros, machine, fusions_of(product)))
    fused = placed.graph
    nodes = {n.name: n for n in fused.nodes}
    plan, picked, reasons = tasks(fused, machine, warm, placed.funcs), dict[tuple[str, str], Picked](), dict[str, str]()
    for task in plan:
        key = task.func_key, task.state_text
        if key not in picked and task.group.name not in reasons:
            try:
                picked[key] = pick(task, [nodes[n] for n in task.group.nodes], machine, product, defaults)
            except Exception as e:  # one group is no reason to have no stock time: it counts as on the host
                why = refusal(e)
                reasons |= {t.group.name: why for t in plan if (t.func_key, t.state_text) == key}
    if reasons:
        fused = on_host(fused, reasons)
        plan = [t for t in plan if t.group.name not in reasons]
    choices = [choice(t, picked[t.func_key, t.state_text], machine) for t in plan]
    line = model_lines(Model(fused.name, "", fused, {}, (), ()), choices, machine).default
    return StockModel(product, line.latency_us, line.throughput_us, line.sum_us, groups_of(fused, plan, picked, machine))


def choice(task: Task, p: Picked, machine: Machine) -> Choice:
    """Return a group with its stock schedule in place of default and best."""
    record = Record(keys(task, machine)[0], task.label, p.trace, p.schedule.measure.ticks, p.schedule.measure.ticks, 0)
    return Choice(task, Solved(record, record, True), p.schedule, p.schedule)


def groups_of(graph: Graph, plan: Sequence[Task], picked: Mapping[tuple[str, str], Picked], machine: Machine) -> tuple[StockRow, ...]:
    """Return equal groups as one row, in order."""
    often, out = counts(graph), dict[tuple[str, str], StockRow]()
    for t in plan:
        key = t.func_key, t.state_text
        if key not in out:
            p, floor = picked[key], bound_in(t.func, machine, t.state)
            out[key] = StockRow(t.group.name, t.label, 0, p.schedule.measure.time_us, floor.cycles / machine.clock_mhz, p.cover, p.rule,
                                  p.differs)
        out[key] = replace(out[key], count=out[key].count + often[t.group.name])
    return tuple(out.values())


def pick(task: Task, nodes: list[OpNode], machine: Machine, product: str, defaults: Mapping[tuple[str, str], str]) -> Picked:
    """Return the stock schedule of a group; the default one where no rule stands for it. Raise UnsupportedError or ScheduleError where it
    has none."""
    found = pick_cube(task, nodes, machine, product) if task.group.kind == "cube" else pick_vector(task, nodes, machine, product)
    if found is not None:
        return found
    trace = defaults.get((task.func_key, task.state_text))
    if trace is None:
        solved = attempt(task, machine, Order(tune=False))
        if isinstance(solved, str):
            raise UnsupportedError(solved)
        trace = solved.default.trace
    return Picked(trace, realise(task.func, trace, machine, task.state), NOTHING)


def pick_cube(task: Task, nodes: list[OpNode], machine: Machine, product: str) -> Picked | None:
    """Return the first legal schedule of a product or convolution by its rules."""
    for f, _ in zip(cube_schedules(task, nodes, machine, product), range(MOST_TRIED)):
        text = show(f.trace)
        try:
            made = realise(task.func, text, machine, task.state)
            legal(made.program, machine)
        except AoecError:
            continue
        return Picked(text, made, BLOCK if f.rule == FIXED_RULE else PROXY, f.rule, f.differs)
    return None


def cube_schedules(task: Task, nodes: list[OpNode], machine: Machine, product: str) -> Iterable[Fitted]:
    """Return schedules of a cube group, the nearest to its rule first."""
    main, chip = main_node(nodes), chip_of(machine, product)
    if find_product(task.func) is None:
        return ()
    if main.op.startswith("conv"):
        return convolution_schedules(task.func, machine, chip, _along_rows(main, "kernel"), _along_rows(main, "strides"))
    return product_schedules(task.func, machine, chip)


def _along_rows(node: OpNode, name: str) -> int:
    value = node.attribute(name, (1, 1))
    return value[0] if isinstance(value, tuple) and isinstance(value[0], int) else 1


def pick_vector(task: Task, nodes: list[OpNode], machine: Machine, product: str) -> Picked | None:
    """Return the candidate nearest to what the rule of a vector group wants."""
    cover = vector_cover(nodes)
    if cover is None:
        return None
    try:
        p = problem(task.func, machine, task.state)
    except (UnsupportedError, ScheduleError):
        return None
    out = output_nest(task.func)
    wanted = cover.wants(task.func, cores_of(machine), machine.scope("UB").size_bytes, out.extent(out.loops[-1].var))
    candidate = nearest(task.func, [s.trace for s in p.sketches], p.space.grids, p.constraints, wanted)
    if candidate is None:
        return None
    text = show(p.trace(candidate))
    made = realise(task.func, text, machine, task.state)
    differs = (f"{made.measure.cores} cores for {wanted.cores}",) if made.measure.cores != wanted.cores else ()
    return Picked(text, made, cover.cover[product], wanted.rule, differs)
