"""The options of commands that work on one func: search, sweep, and run."""
from __future__ import annotations

from collections.abc import Sequence

from aoec.base import ranges
from aoec.base.ranges import Axis
from aoec.options import readers
from aoec.options.device import DeviceRunOptions
from aoec.options.option import File, Options, argument, option, options, redeclare, switch
from aoec.options.shared import (
    DEFAULT_TARGET,
    JsonOption,
    OneInput,
    OutputOption,
    OwnOperators,
    SearchEffort,
    SeedOption,
    StateOption,
    StepLimit,
    StrategyOptions,
    TargetOption,
    WithinOption,
)

Choices = tuple[str, tuple[int, ...]]  # a hole and the values that are meant


@options
class SpaceOptions(Options):
    """What is left of the space of a func."""

    title = "the space"
    space: bool = switch(
        "--space", help="show the space and search nothing: sketches, holes, and how many candidates each constraint leaves")
    pin: Sequence[Choices] = option(
        "--pin", default=(), many=True, metavar="HOLE=N,..", read=readers.choices,
        help="leave a hole only these choices: --pin tm=64,128. A sketch without the hole stays as it is")
    exclude: Sequence[Choices] = option(
        "--exclude", default=(), many=True, metavar="HOLE=N,..", read=readers.choices, help="take these choices from a hole")
    where: Sequence[str] = option(
        "--where", default=(), many=True, metavar="CONDITION",
        help='keep candidates that fulfil this: --where "tm*tn <= 32768 and gm*gn >= 20". A sketch that lacks one of the holes stays as it '
             'is')
    sketch: Sequence[int] = option(
        "--sketch", default=(), many=True, metavar="N", read=readers.sketch, help="search only this sketch")
    trials: str | None = option(
        "--trials", default=None, metavar="FILE.csv|FILE.jsonl|..", file=File.WRITTEN,
        help="write a row for each candidate: holes, status, modelled time, why it is illegal. The ending says the form")


@options
class SearchOptions(OneInput, TargetOption, SearchEffort, SpaceOptions, WithinOption, OutputOption):
    """What `aoec search` is asked for."""

    input: str = redeclare(OneInput, "input", metavar="G.tir")
    json: bool = switch("--json", help="print the result as JSON instead of the schedule")


@options
class SweepOptions(OwnOperators, StateOption, StrategyOptions, OutputOption):
    """What `aoec sweep` is asked for. `tune`: trials for each row."""

    input: str = argument("G.tir|OPERATOR", file=File.READ,
                          help="a func (- for standard input), or an operator by name and sizes")
    traces: Sequence[str] = option(
        "--with", default=(), many=True, metavar="G.sched|default|tuned", file=File.READ,
        help="a schedule to compare; may be repeated. default: what compile takes without a search (timed if there is no --with). tuned: "
             "the best of a search")
    axes: Sequence[Axis] = option(
        "--set", default=(), many=True, metavar="NAME=RANGE", read=ranges.axis,
        help='values of a size or hole: "m=64,128", "m=128..8192*2", "m=128..1024+128". "?tm=..." is always a hole; "?tm=all" takes all of '
             'its choices')
    targets: Sequence[str] = option(
        "--target", default=(), many=True, metavar="NAME|FILE.toml", file=File.READ,
        help=f"a machine; may be repeated (default: {DEFAULT_TARGET})")
    tune: int | None = option(
        "--tune", default=None, metavar="N", read=readers.positive,
        help="for each row, search N trials for the holes that no --set names; without --with, for the schedule")
    verify: bool = switch("--verify", help="check the values of each program that is small enough against the reference")
    brief: bool = switch("--brief", help="times only, without busy pipes and bytes: many more rows a second")
    dump: str | None = option(
        "--dump", default=None, metavar="DIR", file=File.FOLDER,
        help="write the schedule of each timed row there, with its holes filled")
    plot: str | None = option(
        "--plot", default=None, metavar="FILE.svg", file=File.WRITTEN, help="draw time along the first --set that has several values")
    json: bool = switch("--json", help="write JSON instead of CSV")


@options
class RunOptions(StepLimit, SeedOption, JsonOption, DeviceRunOptions):
    """What `aoec run` is asked for. `model`: a compiled model, a func, or a program of a func."""

    model: str = argument("MODEL.aoec|G.tir|G.prog", file=File.READ,
                          help="a compiled model, a func, or a program of a func (--func)")
    func: str | None = option(
        "--func", default=None, metavar="G.tir", file=File.READ, help="the func of a program, whose values it is held against")
    trace: str | None = option(
        "--with", default=None, metavar="G.sched", file=File.READ,
        help="the schedule of a func (default: what a search would begin with)")
    target: str | None = option(
        "--target", default=None, metavar="NAME|FILE.toml", file=File.READ,
        help=f"the machine of a func (default: {DEFAULT_TARGET}), or of a program (default: its own)")
    inputs: str | None = option(
        "--inputs", default=None, metavar="FILE.npz", file=File.READ, one_of="feeds", required=True,
        help="arrays by the model's input names")
    random: bool = switch("--random", one_of="feeds", required=True, help="seeded random inputs")
    gear: str | None = option(
        "--gear", default=None, metavar="NAME",
        help="the gear that --random is for (default: the first). With --inputs, shapes say which")
    output: str | None = option(
        "-o", "--output", default=None, metavar="FILE.npz", file=File.WRITTEN, help="arrays by the model's output names")
