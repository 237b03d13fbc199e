"""What each command does: read, call one job, write. Imports stand in the functions, so that a command loads only what it uses."""
from __future__ import annotations

import json
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from aoec.bank.place import check_base
from aoec.base.errors import CheckError
from aoec.base.files.files import check_file, check_writable, note, read_text, write_bytes, write_text
from aoec.base.regions import Slices
from aoec.base.text import plural
from aoec.cli.options import DEFAULT_TARGET
from aoec.cli.outputs import ready_output

NO_NAME = {"show": f"which machine? For example: aoec targets show {DEFAULT_TARGET}",
           "import": f"which file? For example: aoec targets import {DEFAULT_TARGET}.ini -o my.toml"}


def run_command(options: Namespace) -> int:
    """Run the command that parsed words name. Return its exit code."""
    function: Callable[[Namespace], int] = globals()[f"run_{options.command}"]
    return int(function(options) or 0)


def ready_kernels() -> None:
    """Says so where the kernels that time programs are not compiled yet, and waits until they are."""
    from aoec.jobs import kernels
    from aoec.jobs.progress import shown
    if notice := kernels.start(tuple(kernels.TIMES)):
        note(notice)
        with shown("compiling kernels", len(kernels.TIMES)) as line:
            kernels.wait(tuple(kernels.TIMES), line)


def bank_path(options: Namespace) -> Path:
    """--bank, else what the environment and the system say."""
    from aoec.bank.place import choose_path
    return choose_path(options.bank)


def as_json(facts: Any) -> str:
    """Facts as a program reads them."""
    return json.dumps(facts, indent=2) + "\n"


def write_noun(path: str, text: str) -> None:
    """Nothing; a noun's text, which ends without a line break, goes to a file or pipe with one."""
    write_text(path, text + "\n")


def ready_tuning(options: Namespace) -> None:
    """Nothing, or CheckError; afterwards it is known where the bank is."""
    if options.events not in (None, "-"):
        check_writable(options.events)
    if options.json and options.events == "-":
        raise CheckError("--json and --events - would both write to standard output; give --events a file")
    ready_output(options)
    if options.counts:
        check_file(options.counts, "a file of counts", pipes=True)
    check_base(options.base)
    options.bank = bank_path(options)


# ---------------------------------------------------------------- models

def run_compile(options: Namespace) -> int:
    from aoec.frontend.read.read import open_model
    from aoec.jobs.compile.begin import compile_model
    model = options.model
    if model.endswith(".aoec") and os.path.exists(model) and not os.path.isdir(model) and not Path(model).is_fifo():
        open_model(model)  # says what it is (compiled already, or a device) before it could be said that it would be written over
    options.output = options.output or Path(options.model).absolute().stem + ".aoec"
    ready_tuning(options)
    return compile_model(options)


def run_tune(options: Namespace) -> int:
    if options.job == "sgat":
        if options.slices.regions or not options.slices.plan:
            raise CheckError("--job sgat finds the groups that run in slices; --slices is for compile, and for --job opat")
        if options.effort not in (None, "none"):
            raise CheckError("--job sgat searches no schedules, so --effort says nothing: aoec tune --job opat does, with the plan")
        options.slices, options.effort, options.untuned = Slices(plan="search"), "none", ""
        options.verify = options.verify is not False
        options.kept = "what was timed so far is kept in the cache folder; the same command goes on from there"
    return run_compile(options)


def run_demo(options: Namespace) -> int:
    from aoec.jobs.compile.begin import compile_demo
    options.output = options.output or "resnet50.aoec"
    ready_tuning(options)
    return compile_demo(options)


def run_aoe(options: Namespace) -> int:
    from aoec.cli.vendor.aoe import main
    return _translated(main, options, "")


def run_atc(options: Namespace) -> int:
    from aoec.cli.vendor.atc import main
    return _translated(main, options, "not tuned: aoec aoe --job_type=2 searches for faster schedules")


def _translated(main: Callable[..., int], options: Namespace, untuned: str) -> int:
    """The exit code of a vendor's command line, which runs commands of ours; `untuned`: what these say of a model that nothing tuned."""
    from aoec.cli.arguments import parser

    def command(words: Sequence[str]) -> int:
        own = parser().parse_args(words)
        own.untuned = untuned
        return run_command(own)

    try:
        return main(options.words, command, note)
    except SystemExit as e:  # argparse has said what is wrong with a value
        return int(e.code or 0)


def run_tasks(options: Namespace) -> int:
    from aoec.jobs.stages.tasks import list_tasks
    ready_output(options)
    options.bank = bank_path(options)
    write_text(options.output, list_tasks(options))
    return 0


def run_deliver(options: Namespace) -> int:
    options.bank = bank_path(options)
    if bool(options.model) == bool(options.read) or options.before and not options.read:
        raise CheckError("deliver writes of a model (aoec deliver MODEL --to DIR), or reads what a device says, without one (aoec deliver "
                         "--read FILE.csv, and --before FILE.csv for what was before)")
    if options.read:
        return deliver_read(options)
    from aoec.jobs.deliver.deliver import deliver
    write_text("-", deliver(options))
    return 0


def deliver_read(options: Namespace) -> int:
    from aoec.jobs.deliver.read_back import read_back
    facts, told, notes = read_back(options)
    for line in notes:
        note(f"note: {line}")
    write_text("-", as_json(facts) if options.json else told)
    return 0


def run_results(options: Namespace) -> int:
    from aoec.report.results import results
    ready_output(options)
    found = [job for given in options.files for path in results.files_of(given) for job in results.jobs(read_text(path), path)]
    write_text(options.output, as_json(results.facts(found)) if options.json else results.show(found))
    return 0


def run_run(options: Namespace) -> int:
    if options.output:
        ready_output(options)
    program = options.model.endswith(".prog")
    if program and not options.func:
        raise CheckError("a program does not say what it should calculate: give its func, --func G.tir", source=options.model)
    if options.func and (not program or options.trace):
        raise CheckError("--func is the func of a program (G.prog), which is scheduled already; a func of its own is run as aoec run G.tir")
    if program or options.model.endswith(".tir"):
        from aoec.jobs.run.run_func import run_func
        return run_func(options)
    if options.trace or options.target:
        raise CheckError("--with and --target are of a func (G.tir); a compiled model has its schedules and its machine")
    from aoec.jobs.run.run import run_artifact
    return run_artifact(options)


# ---------------------------------------------------------------- stages

def run_import(options: Namespace) -> int:
    from aoec.ir.text.show import show
    from aoec.jobs.stages.stages import import_model, save_weights
    from aoec.ops.narrowed import table
    ready_output(options)
    graph, weights, notices = import_model(options.model, dict(options.input_shape), options.precision, options.ops)
    for line in notices:
        note(line)
    if options.lowered:
        write_text(options.lowered, table({"": graph}, options.precision))
    weights_path = options.weights or _beside(options.output)
    if weights_path:
        save_weights(graph, weights, weights_path)
    elif weights:
        note(f"{plural(len(weights), 'constant')} not written; give -o, or --weights FILE.npz")
    write_noun(options.output, show(graph))
    return 0


def _beside(path: str) -> str:
    """Where the constants of a graph at `path` lie; "" for the standard streams."""
    return "" if path == "-" else path + ".npz"


def run_fuse(options: Namespace) -> int:
    from aoec.ir.text.show import show
    from aoec.jobs.stages.stages import fuse_text, save_weights
    ready_output(options)
    given = options.weights or _beside(options.input)
    graph, weights = fuse_text(read_text(options.input), options.input, given, options.target or DEFAULT_TARGET)
    if options.output != "-":
        save_weights(graph, weights, _beside(options.output))
    write_noun(options.output, show(graph))
    return 0


def run_slice(options: Namespace) -> int:
    from aoec.ir.text.show import show
    from aoec.jobs.stages.stages import load_weights, save_weights, slice_text
    ready_output(options)
    graph = slice_text(read_text(options.input), options.input, options.regions)
    if options.output != "-":
        save_weights(graph, load_weights(graph, options.weights or _beside(options.input)), _beside(options.output))
    write_noun(options.output, show(graph))
    return 0


def run_export(options: Namespace) -> int:
    from aoec.jobs.run.export import exported
    ready_output(options)
    text = "" if options.input.endswith(".aoec") else read_text(options.input)
    proto = exported(options.input, text, options.weights or _beside(options.input))
    data = proto.SerializeToString(deterministic=True)
    if options.output == "-":
        sys.stdout.buffer.write(data)
    else:
        write_bytes(options.output, data)
    return 0


def run_lower(options: Namespace) -> int:
    from aoec.ir.text.show import show
    from aoec.jobs.stages.stages import lower_call, lower_text
    ready_output(options)
    if "(" in options.input and not Path(options.input).exists():
        func = lower_call(options.input, options.ops, options.group)
    else:
        func = lower_text(read_text(options.input), options.input, options.group)
    write_noun(options.output, show(func))
    return 0


def run_schedule(options: Namespace) -> int:
    from aoec.ir.text.show import show
    from aoec.ir.text.simplify import simplify
    from aoec.jobs.stages.stages import schedule_text
    ready_output(options)
    if options.input == options.trace == "-":
        raise CheckError("the func and the schedule cannot both come from standard input")
    func = schedule_text(read_text(options.input), options.input, read_text(options.trace), options.trace, dict(options.holes))
    write_noun(options.output, show(func if options.raw else simplify(func)))
    return 0


def run_emit(options: Namespace) -> int:
    from aoec.ir.text.show import show
    from aoec.ir.text.simplify import simplify, without_single
    from aoec.jobs.stages.stages import emit_text
    ready_output(options)
    program = emit_text(read_text(options.input), options.input, options.target or DEFAULT_TARGET, dict(options.holes))
    write_noun(options.output, show(program if options.raw else without_single(program) if options.short else simplify(program)))
    return 0


def run_simulate(options: Namespace) -> int:
    from aoec.jobs.stages.stages import program_text
    from aoec.jobs.states import measured_facts, of_program
    from aoec.report.reasons import lines
    from aoec.simulate.timing.time import measure
    ready_output(options)
    ready_kernels()
    program, machine = program_text(read_text(options.input), options.input, options.target, dict(options.holes))
    state = of_program(options.state, program)
    facts = measured_facts(measure(program, machine, state), state)
    if options.trace or options.svg:
        from aoec.jobs.stages.timeline import View, export
        export(program, machine, View(options.core, options.start, options.stop, options.most_events, state), options.trace, options.svg)
    write_text(options.output, as_json(facts) if options.json else lines(facts))
    return 0


def run_explain(options: Namespace) -> int:
    from aoec.jobs.stages.explain import candidate, facts
    from aoec.jobs.states import of_program
    from aoec.report import explain
    ready_output(options)
    if options.op_summary:
        return explain_profiles(options)
    if options.input == options.other == "-":
        raise CheckError("the two candidates cannot both come from standard input")
    made = [(*candidate(path, options.func, options.target, dict(options.holes)), path) for path in (options.input, options.other) if path]
    ready_kernels()
    said = [facts(*m, of_program(options.state, m[0])) for m in made]
    if len(said) == 1:
        text = as_json(said[0]) if options.json else explain.one(said[0])
    else:
        both = explain.compare(*said)
        text = as_json(both) if options.json else explain.two(both)
    write_text(options.output, text)
    return 0


def explain_profiles(options: Namespace) -> int:
    from aoec.jobs.deliver.joined import describe_join, facts, operators
    if options.other is None or options.input == options.other == "-":
        raise CheckError("--op-summary takes two files: the device's op_summary_*.csv, and ours or a compiled model")
    sources = options.input, options.other
    (theirs, unused), (ours, ours_unused) = map(operators, sources)
    for line in (*unused, *ours_unused):
        note(f"note: {line}")
    write_text(options.output, as_json(facts(theirs, ours, sources)) if options.json else describe_join(theirs, ours, sources))
    return 0


def run_search(options: Namespace) -> int:
    from aoec.jobs.stages.search import search_func
    ready_output(options)
    if options.space and options.trials:
        raise CheckError("--space searches nothing, so there are no trials to write; leave out one of them")
    return search_func(options)


def run_sweep(options: Namespace) -> int:
    from aoec.jobs.sweep.sweep import sweep
    ready_output(options)
    ready_kernels()
    return sweep(options)


# ---------------------------------------------------------------- targets, bank, doctor

def run_targets(options: Namespace) -> int:
    from aoec.jobs.stages import targets
    if options.action == "list" and options.name:
        raise CheckError(f"to see one machine: aoec targets show {options.name}")
    if options.action != "list" and not options.name:
        raise CheckError(NO_NAME[options.action])
    if options.output != "-" and options.action != "import":
        raise CheckError("-o says where `aoec targets import` writes; list and show print")
    if options.action == "import":
        ready_output(options)
        text, notes = targets.imported(options.name)
        write_text(options.output, text)
        for line in notes:
            note(f"note: {line}")
    elif options.action == "show":
        machine = targets.machine_facts(options.name)
        write_text("-", as_json(machine) if options.json else targets.show_machine(machine))
    else:
        machines = targets.machines()
        write_text("-", as_json(machines) if options.json else targets.show_machines(machines))
    return 0


def run_primitives(options: Namespace) -> int:
    from aoec.report.words import primitives
    return _write_words(options, primitives.facts(options.name), primitives.show, primitives.show_one)


def run_instructions(options: Namespace) -> int:
    from aoec.report.words import instructions
    return _write_words(options, instructions.facts(options.name, options.target), instructions.show, instructions.show_one)


def run_holes(options: Namespace) -> int:
    from aoec.jobs.stages import holes
    return _write_words(options, holes.facts(options.name), holes.show, holes.show_one)


def _write_words(options: Namespace, found: list[dict[str, Any]], show: Callable[[list[dict[str, Any]]], str],
                 show_one: Callable[[dict[str, Any]], str]) -> int:
    """0, after facts of words were written: all of them as a list, or the one that is asked for."""
    if options.name is None:
        write_text("-", as_json(found) if options.json else show(found))
    else:
        write_text("-", as_json(found[0]) if options.json else show_one(found[0]))
    return 0


def run_calibrate(options: Namespace) -> int:
    from aoec.jobs.calibrate.calibrate_say import calibrate
    ready_output(options)
    options.bank = bank_path(options)
    ready_kernels()
    facts, told, text, refusal = calibrate(options)
    for line in facts["notes"]:
        note(f"note: {line}")
    if options.output != "-":
        write_text("-", as_json(facts) if options.json else told)
    if refusal:
        raise CheckError(f"{refusal}; nothing is written", source=options.read)
    write_text(options.output, text)
    return 0


def run_bank(options: Namespace) -> int:
    from aoec.cli.bank import ACTIONS
    ready_output(options)
    options.bank = bank_path(options)
    return ACTIONS[options.action](options)


def run_completion(options: Namespace) -> int:
    from aoec.cli.arguments import parser
    from aoec.cli.completion import script
    ready_output(options)
    write_text(options.output, script(options.shell, parser()))
    return 0


def run_doctor(options: Namespace) -> int:
    from aoec.jobs import doctor
    facts = doctor.examine(bank_path(options))
    write_text("-", as_json(facts) if options.json else doctor.show(facts))
    return 0
