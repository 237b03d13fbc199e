"""Run a single func, as `aoec run f.tir` and `aoec run f.prog --func f.tir` do. A given schedule or program is executed on data, and the
results are compared with the func's own meaning."""
from __future__ import annotations

import json
import time
from math import prod

import numpy as np

from aoec.artifact.compiled import Port
from aoec.base.errors import CheckError
from aoec.base.files import arrays
from aoec.base.files.files import read_text, write_text
from aoec.ir.func.evaluate_whole import evaluate_whole, takes
from aoec.ir.func.tir import Func, blocks
from aoec.ir.index import DTYPES, evaluate
from aoec.ir.program import Program
from aoec.ir.rewrite import holes, normalise
from aoec.ir.schedule import Trace
from aoec.ir.text.parse import parse_trace
from aoec.jobs.run.execute import check_feeds, run_program
from aoec.jobs.run.run import lines, plain_arrays, random_array, summary
from aoec.jobs.stages.nouns import need
from aoec.jobs.stages.places import blocks_shown
from aoec.jobs.stages.stages import apply_shown, check_program, program_text
from aoec.jobs.sweep.sweep_values import allowed_difference, points_of, tensor
from aoec.jobs.tune.tuning import problem, start
from aoec.jobs.verify.allowed import finite
from aoec.jobs.verify.within import read_func
from aoec.lowering.emit.emit import emit
from aoec.ops.words.layout import stored_shape, to_logical, to_physical
from aoec.options.func import RunOptions
from aoec.simulate.timing.time import measure
from aoec.target.machine import Machine, load

MOST_POINTS = 1 << 31  # of the func's loops, as `points_of` counts them: some 20 seconds, of matrix products some 10^11 points
MOST_BYTES = 4 << 30  # of its buffers, which are all held
MOST_BEHIND = 512  # elements that a program may declare behind those that are stored: what fills a fractal, or a block of each column
ROUNDED = 2.0**-9  # of the largest: sums of products in another order, rounded to 16 bits


def run_func(options: RunOptions) -> int:
    """Run a func, write its outputs where -o says, and print a summary. Return 0, or 1 where values differ from the func's meaning."""
    source = options.func or options.model
    text = read_text(source)
    func = read_func(text, source)
    if holes(func):
        raise CheckError(f"func {func.name} has open holes: {', '.join(f'?{h}' for h in holes(func))}", source=source)
    if options.func:
        program, machine = given_program(func, options)
        how = options.model
    else:
        machine = load(options.target) if options.target else load()
        with blocks_shown(text, source):
            program, how = program_of(func, machine, options)
    ports = [Port(b.name, b.name, b.dtype, tensor(b).shape) for b in func.inputs]
    feeds = arrays.load(options.inputs) if options.inputs else {
        p.name: random_array(p, np.random.default_rng([options.seed, i])) for i, p in enumerate(ports)}
    check_feeds(ports, feeds)
    tensors = {b.name: tensor(b) for b in (*func.inputs, *func.outputs)}
    started = time.monotonic()
    stored = {p.name: to_physical(np.asarray(feeds[p.name]), tensors[p.name]) for p in ports}
    made = run_program(program, tuple((name, name) for name in tensors), tensors, stored)
    outputs = {name: to_logical(x, tensors[name]) for name, x in made.items()}
    seconds = time.monotonic() - started
    if options.output:
        arrays.save(options.output, plain_arrays(outputs))
    wrong, said = against(func, feeds, outputs)
    facts = {"model": func.name, "target": machine.name, "schedule": how, "outputs": {name: summary(x) for name, x in outputs.items()},
             "modelled": {"latency_us": measure(program, machine).time_us}, "values": said, "seconds_on_this_computer": round(seconds, 3)}
    write_text("-", json.dumps(facts, indent=2) + "\n" if options.json else lines(facts, options) + said + "\n")
    return int(wrong)


def program_of(func: Func, machine: Machine, options: RunOptions) -> tuple[Program, str]:
    """Return (program, what scheduled it): the schedule that --with names, the func's own instructions, or the default of its space."""
    if options.trace:
        text = read_text(options.trace)
        need("sched", text, options.trace)
        trace, how = parse_trace(text, options.trace), options.trace
    elif any(b.instr for b, _ in blocks(func.body)):
        text, trace, how = "", Trace(()), "its own"
    else:
        p = problem(func, machine)
        text, trace, how = "", p.trace(start(p).best), "default"
    scheduled = apply_shown(func, trace, text, options.trace or "")
    if holes(scheduled):
        raise CheckError(f"the schedule leaves holes open: {', '.join(f'?{h}' for h in holes(scheduled))}", source=options.trace or "")
    program = normalise(emit(scheduled, machine))
    check_program(program, machine)
    return program, how


def given_program(func: Func, options: RunOptions) -> tuple[Program, Machine]:
    """Return (the program of a text, legal on its machine or that of --target; the machine). Raise CheckError where its tensors are not the
    func's."""
    program, machine = program_text(read_text(options.model), options.model, options.target, {})
    own = {t.name: t for t in program.tensors}
    for role, buffers in (("input", func.inputs), ("output", func.outputs)):
        for b in buffers:
            t, wanted = own.get(b.name), prod(stored_shape(tensor(b)))
            if t is None or t.role != role or t.dtype != b.dtype:
                there = "no such tensor" if t is None else f"{t.role} {t.name} of {t.dtype}"
                raise CheckError(f"func {func.name} has the {role} {b.name} of {b.dtype}, and the program has {there}: is it a program of "
                                 "this func?", source=options.model)
            size = prod(int(evaluate(d, {})) for d in t.shape)
            if not wanted <= size < wanted + MOST_BEHIND:
                raise CheckError(f"{b.name} of func {func.name} is stored in {wanted:,} elements, and the program has {size:,}: is it a "
                                 "program of this func?", source=options.model)
    known = {b.name for b in (*func.inputs, *func.outputs)}
    if more := next((t for t in program.tensors if t.role != "temp" and t.name not in known), None):
        raise CheckError(f"the program has the {more.role} {more.name}, and func {func.name} has none of that name: is it a program of "
                         "this func?", source=options.model)
    return program, machine


def against(func: Func, feeds: dict[str, np.ndarray], outputs: dict[str, np.ndarray]) -> tuple[bool, str]:
    """Return (whether values are wrong, a sentence on it) from a comparison with the func, block by block. The func is compared if it is
    not scheduled and not too large."""
    if not takes(func):
        return False, "values: not compared, for the func is scheduled already"
    if points_of(func) > MOST_POINTS:
        return False, f"values: not compared, for {points_of(func):,} points of loops are more than {MOST_POINTS:,}; take smaller sizes"
    if (held := sum(prod(tensor(b).shape) * max(4, DTYPES[b.dtype]) for b in func.buffers)) > MOST_BYTES:
        return False, f"values: not compared, for its buffers take {held:,} bytes, more than {MOST_BYTES:,}; take smaller sizes"
    found = []
    for name, wanted in evaluate_whole(func, feeds).items():
        t = next(tensor(b) for b in func.outputs if b.name == name)
        differ = np.abs(finite(outputs[name], t.dtype) - finite(wanted, t.dtype))
        most = float(np.abs(finite(wanted, t.dtype)).max(initial=0.0))
        limit = np.maximum(allowed_difference(func, wanted, t), ROUNDED * most)
        found.append((name, float(np.nan_to_num(differ).max(initial=0.0)) / (most or 1.0), bool((differ > limit).any())))
    said = ", ".join(f"{name} within {error:.1e} of the func itself (max|a-b| / max|b|)" for name, error, _ in found)
    wrong = any(bad for _, _, bad in found)
    return wrong, f"{'wrong values' if wrong else 'values'}: {said}"
