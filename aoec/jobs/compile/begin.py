"""The first step of a compile, which a user waits for: what is read, for which machine, where the bank is.

What the later steps need (the kernels' compiler above all) takes seconds to import, and is imported after this has been said.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from aoec.base.errors import CheckError
from aoec.base.files.files import check_writable, write_text
from aoec.frontend.read.read import open_model
from aoec.frontend.rewrites.law import read_own
from aoec.frontend.rewrites.library import digest_rules
from aoec.frontend.translate.gears import Asked, Gear, dimension_names, gears
from aoec.jobs import kernels
from aoec.jobs.compile.models import Pool, import_model, refers_elsewhere
from aoec.jobs.plans.entered import Entered, read_plan
from aoec.jobs.stages import manifest
from aoec.jobs.voice import Voice
from aoec.ops.narrowed import table
from aoec.ops.own import read_files
from aoec.options.compile import CompileOptions, DemoOptions
from aoec.target.machine import Machine, load, targets

if TYPE_CHECKING:
    from onnx import ModelProto

    from aoec.ir.graph.graph import Graph
    from aoec.jobs.compile.models import Applied, Weights
    from aoec.jobs.context import Context
    from aoec.jobs.kind import Kind
    from aoec.jobs.stages.stage import Stage


def compile_model(options: CompileOptions, voice: Voice | None = None, kinds: Sequence[Kind] = ()) -> int:
    """Compile `options.model` (an ONNX file, a folder that --dump wrote, or a model in memory) to `options.output`. Return 0, or 1 where
    values are wrong. `kinds`: those of a tuning job, each of which has a result file."""
    voice = voice or voice_of(options)
    _refuse_gears(options)
    if not isinstance(options.model, (str, Path)):
        machine = _begin(Path(options.name), options, voice)
        return _compile(options.model, options.name, machine, options, voice, kinds)
    source = Path(options.model)
    if source.is_dir():
        return _enter(source, options, voice, kinds)
    if source.suffix == ".tir":
        raise CheckError(f"{source} is a func, not a model: aoec search {source} -o g.sched tunes it, and aoec run {source} --with g.sched "
                         "--random runs it for values")
    if options.start != "import":
        raise CheckError(f"--from {options.start} enters a folder that --dump wrote; {source} is none")
    if options.embed:
        _check_copy(str(options.embed), source)
    machine = _begin(source, options, voice)
    return _compile(str(source), source.stem, machine, options, voice, kinds)


def _refuse_gears(options: CompileOptions) -> None:
    """Raise an error where a plan, or its text, cannot belong to the model that is asked for. This is checked before anything else is
    read."""
    if options.plan is None:
        return
    if gears_asked(options):
        raise CheckError(f"{options.plan} is a plan of one gear, and several are asked for: compile each of them alone with --input-shape "
                         "and a plan of its own")
    read_plan(str(options.plan))


def voice_of(options: CompileOptions) -> Voice:
    """Return the voice that the options of a command ask for."""
    return Voice(options.json, options.progress, options.events == "-")


def _check_copy(path: str, source: Path) -> None:
    """Raise an error where no copy of the model can be at `path`."""
    check_writable(path)
    if source.is_file() and source.stat().st_size and refers_elsewhere(str(source)) and \
            Path(path).absolute().parent.resolve() != source.absolute().parent.resolve():
        raise CheckError(f"--embed {path}: constants of {source} lie in files beside it, so the copy must be in the same directory")


def _enter(folder: Path, options: CompileOptions, voice: Voice, kinds: Sequence[Kind]) -> int:
    """Run the job from a stage of a dump on, for the dump's own machine unless --target names another."""
    if gears_asked(options):
        raise CheckError(f"{folder} is a dump, whose shapes are fixed: --dynamic-batch and --dynamic-dims are for an ONNX model")
    if options.rewrite_files:
        raise CheckError(f"{folder} is a dump, whose graph is rewritten already: --rewrites is for an ONNX model")
    if options.embed:
        raise CheckError(f"{folder} is a dump, which holds no ONNX model: --embed is for one")
    if options.training is not None:
        raise CheckError(f"{folder} is a dump, whose graph is a training graph or none: --loss and --gradients are for an ONNX model")
    folders = manifest.folders(folder)
    said = [manifest.read(f) for f in folders]
    how = "--target" if options.target else "of the dump; --target"
    target = options.target or _own_target(folders[0], said[0]["target"])
    options, machine = replace(options, target=target), load(target)
    voice.reading(folder, machine, how)
    begin_kernels(options, voice)
    _say_replaced(options.path, machine, voice)
    voice.bank_at(options.bank_path)
    from aoec.jobs.compile.compile import finish
    from aoec.jobs.context import Context
    from aoec.jobs.stages import dump
    if options.plan is not None and len(folders) > 1:
        raise CheckError(f"{options.plan} is a plan of one gear, and {folder} has {len(folders)}: enter one of its folders, "
                         f"such as {folders[0]}")
    voice.watch.begin("reading")
    stages = [dump.load(f, options.start, words, machine) for f, words in zip(folders, said)]
    if options.plan is not None:
        stages = [replace(s, entered=read_plan(str(options.plan))) for s in stages]
    if off := [s.entered.at.source for s in stages if s.entered and s.entered.plan.declined]:
        voice.say(f"{off[0]}: rewrites that are off change no graph that is imported already: compile the ONNX model with --plan")
    if len(stages) == 1:
        stages = [stages[0].for_one_shape()]
    for stage in stages:
        voice.read(stage.graph, stage.precision, [], stage.gear)
    return finish(stages, Context(machine, options, voice), kinds)


def _own_target(folder: Path, name: str) -> str:
    """Return the dump's machine: by name where one that comes with aoec says the same, else the file in the dump."""
    own = folder / "machine.toml"
    return name if not own.is_file() or name in targets() and load(name).hash == load(own).hash else str(own)


def compile_demo(options: DemoOptions) -> int:
    """Compile a full-size ResNet-50 with seeded random weights, built here."""
    voice = voice_of(options)
    machine = _begin(Path(f"resnet50 (seeded random weights, batch {options.batch})"), options, voice)
    from aoec.frontend.zoo import resnet50
    return _compile(resnet50(batch=options.batch), "resnet50", machine, options, voice, ())


def _begin(source: Path, options: CompileOptions, voice: Voice) -> Machine:
    """Return the machine to compile for, after it was said."""
    machine = load(options.target) if options.target else load()
    voice.reading(source, machine, "--target" if options.target else "default; --target, see aoec targets")
    begin_kernels(options, voice)
    _say_replaced(options.path, machine, voice)
    return machine


def begin_kernels(options: CompileOptions, voice: Voice) -> None:
    """Begin to compile those kernels that the job needs and that are not compiled yet, and say so. The job goes on meanwhile."""
    if notice := kernels.start([*kernels.TIMES, *(kernels.VALUES if kernels.values_needed(options) else ())]):
        voice.say(notice)


def _say_replaced(output: str, machine: Machine, voice: Voice) -> None:
    """Say before any work that a compiled model for another machine will be replaced."""
    if not Path(output).is_file():
        return
    from aoec.artifact.artifact import made_for
    target, machine_hash = made_for(output)
    if machine_hash and machine_hash != machine.hash:
        which = target if target != machine.name else f"another machine file of {target}"
        voice.say(f"{output} was compiled for {which} and will be replaced; -o names another file")


def gears_asked(options: CompileOptions) -> Asked:
    """Return the gears that a user asks for."""
    return Asked(tuple(options.dynamic_batch), tuple(tuple(dims) for dims in options.dynamic_dims))


def _gears_of(model: str | ModelProto, options: CompileOptions) -> tuple[list[Gear], dict[str, tuple[str, ...]]]:
    """Return (the gears to compile for, the model's names of dimensions). A model for one shape has one gear without a name, and no
    names."""
    if not gears_asked(options):
        return [Gear((), tuple(options.shapes.items()))], {}
    graph = open_model(model).graph
    return gears(graph, options.shapes, gears_asked(options)), dimension_names(graph)


def _compile(model: str | ModelProto, name: str, machine: Machine, options: CompileOptions, voice: Voice,
             kinds: Sequence[Kind]) -> int:
    """Import the model, for each gear if there are several, report this, and run the rest of the job."""
    voice.watch.begin("reading")
    read = _read(model, options, voice)
    if options.lowered:
        write_text(options.lowered, table({gear.name: made[0] for gear, made in zip(read.wanted, read.graphs)}, options.precision))
    voice.bank_at(options.bank_path)
    voice.watch.begin("start")
    from aoec.jobs.compile.compile import finish
    from aoec.jobs.context import Context
    return finish(_stages(name, read, options), Context(machine, options, voice), kinds, model)


@dataclass(frozen=True)
class _Read:
    """What was imported, for each gear: (graph, constants, notices, rewrites that were made and where)."""

    wanted: list[Gear]
    dims: dict[str, tuple[str, ...]]
    graphs: list[tuple[Graph, Weights, list[str], Applied]]
    entered: Entered | None  # the plan that a user enters
    own_rules: str  # a hash of the user's own rewrites; "" where there are none


def _read(model: str | ModelProto, options: CompileOptions, voice: Voice) -> _Read:
    wanted, dims = _gears_of(model, options)
    pool: Pool | None = {} if len(wanted) > 1 else None
    own, rules, read = read_files(options.operator_files), read_own(options.rewrite_files), []
    entered = read_plan(str(options.plan)) if options.plan is not None else None
    for gear in wanted:
        read.append(import_model(model, dict(gear.shapes), options.precision, pool, own, rules, entered, options.training))
        voice.read(read[-1][0], options.precision, read[-1][2], gear.name)
    return _Read(wanted, dims, read, entered, digest_rules(rules))


def _stages(name: str, read: _Read, options: CompileOptions) -> list[Stage]:
    from aoec.jobs.compile.ports import ports
    from aoec.jobs.stages.stage import Stage
    out = []
    for gear, (graph, weights, _, applied) in zip(read.wanted, read.graphs):
        inputs, outputs = (ports(graph, listed, options.precision, read.dims) for listed in (graph.inputs, graph.outputs))
        out.append(Stage("import", name, options.precision, graph, weights, inputs, outputs, entered=read.entered, gear=gear.name,
                         made=tuple(applied), own_rules=read.own_rules))
    return out


def read_stages(context: Context) -> list[Stage]:
    """Return the ONNX model that a job is of, as imported: a stage for each gear that is asked for."""
    path = context.options.name
    return _stages(Path(path).stem, _read(path, context.options, context.voice), context.options)
