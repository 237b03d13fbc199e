"""The words of the command line: one parser, a few lines a command; what several share is in `options.py`, what each of
them does in `commands.py`."""
from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import NoReturn

from aoec.cli import bank, options, values
from aoec.cli.options import DEFAULT_TARGET, Parser

STAGES = ("import", "fuse", "lower", "schedule", "emit")  # of a dump, in order
Command = Callable[[argparse.Namespace], int]


def parser() -> Parser:
    """The parser of `aoec`; `command_function` of what it returns is the function to call."""
    p = Parser(prog="aoec", allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter, description=(
        "Open Ascend Optimization Engine: tunes ONNX models for Ascend NPUs on a model of the machine, and shows why."),
        epilog="Times are modelled: they come from the machine model that `aoec targets` lists, not from a device.")
    p.add_argument("--version", action=Version)
    p.add_argument("--traceback", action="store_true", help="show where an internal fault happened")
    commands = p.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=Parser)
    _model_commands(commands)
    _stage_commands(commands)
    _shelf_commands(commands)
    return p


class Version(argparse.Action):
    """Prints the version and leaves; the package's data are read only when it is asked for."""

    def __init__(self, option_strings: list[str], dest: str) -> None:
        super().__init__(option_strings, dest, nargs=0, help="print the version")

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from importlib.metadata import version
        print(f"aoec {version('aoec')}")
        parser.exit()


def _add(commands: argparse._SubParsersAction, name: str, text: str, example: str = "") -> Parser:
    """The parser of one command; it calls the function of its name in `commands.py`, which is imported only then."""
    p: Parser = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".", allow_abbrev=False,
                                    epilog=f"example: {example}" if example else None)
    p.set_defaults(command_function=_late(name), command=name)
    return p


def _late(name: str) -> Command:
    def call(given: argparse.Namespace) -> int:
        from aoec.cli import commands
        function: Command = getattr(commands, f"run_{name}")
        return function(given)
    return call


# ---------------------------------------------------------------- models

def _model_commands(commands: argparse._SubParsersAction) -> None:
    p = _add(commands, "compile", "compile an ONNX model, with --tune after a search for fast schedules", "aoec compile --tune model.onnx")
    p.add_argument("model", metavar="MODEL.onnx|DIR", help="an ONNX model, or a folder that --dump wrote")
    p.add_argument("--from", dest="start", choices=STAGES, default="import", help="where to enter a dumped folder (default: import)")
    options.model_options(p)
    options.gears(p)
    p.add_argument("--tune", action="store_true", help="search for fast schedules; without it bank and default schedules are used")
    options.tuning_options(p)
    options.embed(p)
    p.add_argument("-o", "--output", metavar="FILE", help="the compiled model (default: <model>.aoec in the current directory)")
    p = _add(commands, "tune", "tune a model's operators or subgraphs as AOE does, with its result file and the compiled model",
             "aoec tune model.onnx --job opat")
    p.add_argument("model", metavar="MODEL.onnx|DIR", help="an ONNX model, or a folder that --dump wrote")
    p.add_argument("--from", dest="start", choices=STAGES, default="import", help="where to enter a dumped folder (default: import)")
    options.model_options(p)
    options.gears(p)
    options.tuning_options(p)
    options.embed(p)
    p.set_defaults(tune=True)
    p.add_argument("--job", choices=("opat", "sgat"), default="opat", help="opat: tiles and structure of each operator; sgat: which groups "
                   "of the model run in slices that stay in L2, by the schedules that bank and defaults have (default: opat)")
    p.add_argument("--results", default="", metavar="DIR",
                   help="where aoe_result_opat_*.json or aoe_result_sgat_*.json goes (default: $ASCEND_WORK_PATH, else here)")
    p.add_argument("-o", "--output", metavar="FILE", help="the compiled model (default: <model>.aoec in the current directory)")
    p = _add(commands, "tasks", "list what tuning a model would have to do: its different groups, their weight, what the bank has",
             "aoec tasks model.onnx")
    p.add_argument("model", metavar="MODEL.onnx")
    options.model_options(p)
    options.target(p)
    options.trials(p, "for each group of operators ")
    options.bank(p)
    p.add_argument("--json", action="store_true", help="print as JSON")
    options.output(p)
    p = _add(commands, "aoe", "take the options of AOE's own command line, and tune as it does",
             "aoec aoe --job_type=2 --model=model.onnx")
    p.set_defaults(kept="what was found so far is kept in the bank; the same command with --reload goes on from there")
    p = _add(commands, "atc", "take the options of ATC, the vendor's model compiler, and compile from the bank, without tuning",
             "aoec atc --model=model.onnx --framework=5 --soc_version=Ascend310P3 --output=model")
    p.set_defaults(kept="a model that was compiled is kept; nothing is left running")
    p = _add(commands, "results", "show what result files of tuning say, aoec's or AOE's of any release; several side by side",
             "aoec results aoe_result_opat_20260901120000000_pid1.json")
    p.add_argument("files", nargs="+", metavar="FILE.json", help="aoe_result_opat_*.json or aoe_result_sgat_*.json, - for standard input")
    p.add_argument("--json", action="store_true", help="print as JSON")
    options.output(p)
    _deliver_command(commands)
    p = _add(commands, "run", "run a compiled model, or a func, on the model machine", "aoec run model.aoec --random -o out.npz")
    p.add_argument("model", metavar="MODEL.aoec|G.tir")
    p.add_argument("--with", dest="trace", metavar="G.sched", help="of a func: its schedule (default: what a search would begin with)")
    p.add_argument("--target", metavar="NAME|FILE.toml", help=f"of a func: the machine (default: {DEFAULT_TARGET})")
    feeds = p.add_mutually_exclusive_group(required=True)
    feeds.add_argument("--inputs", metavar="FILE.npz", help="arrays by the model's input names")
    feeds.add_argument("--random", action="store_true", help="seeded random inputs")
    p.add_argument("--seed", type=values.seed, default=0, metavar="N", help="of --random (default: 0)")
    p.add_argument("--gear", metavar="NAME", help="which one --random is for (default: the first); --inputs say it by their shapes")
    p.add_argument("--json", action="store_true", help="print the figures as JSON")
    p.add_argument("-o", "--output", metavar="FILE.npz", help="arrays by the model's output names")
    p = _add(commands, "demo", "tune a full-size ResNet-50 with seeded random weights", "aoec demo")
    p.add_argument("--batch", type=values.positive, default=1, metavar="N", help="(default: 1)")
    options.precision(p)
    options.tuning_options(p)
    p.set_defaults(tune=True, ops=[], base="none")  # the built-in bank knows it, and nothing would be tuned
    p.add_argument("-o", "--output", metavar="FILE", help="the compiled model (default: resnet50.aoec in the current directory)")


def _deliver_command(commands: argparse._SubParsersAction) -> None:
    p = _add(commands, "deliver", "write what was found in the files that CANN and kernel writers take, with what to type on the board; or "
             "read what the board says back", "aoec deliver model.onnx --to delivery")
    p.add_argument("model", nargs="?", metavar="MODEL.onnx|MODEL.aoec|BANK", help="with --to: a model (its schedules are those of the "
                   "bank: tune it before), a compiled model, or a bank or an export of one")
    way = p.add_mutually_exclusive_group(required=True)
    way.add_argument("--read", metavar="FILE.csv", help="keep a device's op_summary_*.csv in the bank as measured times, and say what was "
                     "hit, won and lost, and where model and chip differ most; it is joined with the bank's records")
    p.add_argument("--before", metavar="FILE.csv", help="with --read: the profile before what was delivered was applied")
    way.add_argument("--to", metavar="DIR", help="a new folder, or an empty one; it is written whole or not at all")
    theirs = p.add_mutually_exclusive_group()
    theirs.add_argument("--op-summary", metavar="FILE.csv", help="msprof's op_summary of this model on your device: operators as your CANN "
                        "has them, so that keys are exact")
    theirs.add_argument("--graph", metavar="FILE", help="the same from a graph that your CANN dumped (DUMP_GE_GRAPH=2): "
                        "ge_onnx_*_Build.pbtxt or ge_proto_*_Build.txt")
    p.add_argument("--tune", type=values.positive, metavar="N", help="search, N trials for each product and convolution, among the "
                   "schedules that a tiling can say (default: what is known is delivered)")
    p.add_argument("--all", action="store_true", help="write records too whose tiling is modelled more than 5 %% slower than the default "
                   "schedule")
    p.add_argument("--soc", metavar="NAME", help="CANN's name of the chip, by which it names files (default: the target's)")
    options.model_options(p)
    options.gears(p)
    options.target(p)
    options.bank(p)
    p.add_argument("--json", action="store_true", help="print the table as JSON")


# ---------------------------------------------------------------- stages

def _stage_commands(commands: argparse._SubParsersAction) -> None:
    p = _add(commands, "import", "turn an ONNX model into a graph", "aoec import net.onnx -o net.graph")
    p.add_argument("model", metavar="NET.onnx")
    options.model_options(p)
    options.weights(p, "write the constants there (default: beside -o, as <output>.npz)")
    options.output(p)
    p = _add(commands, "fuse", "lay out a graph and divide it into groups", "aoec fuse net.graph -o fused.graph")
    options.source(p, "NET.graph")
    options.weights(p, "the constants of the graph (default: <input>.npz)")
    options.target(p)
    options.output(p)
    p = _add(commands, "slice", "run groups of a fused graph slice by slice, so that what lies between them stays in L2",
             "aoec slice fused.graph --regions g3..g12/4 -o sliced.graph")
    options.source(p, "FUSED.graph")
    p.add_argument("--regions", required=True, type=values.regions, metavar="G..G/N,..", help="groups from one to another, in order, and "
                   "in how many parts they run, one part of all of them after the other")
    options.weights(p, "the constants of the graph, which go beside -o as they are (default: <input>.npz)")
    options.output(p)
    p = _add(commands, "export", "write a compiled model or a graph as an ONNX model, with its slices spelled out",
             "aoec export model.aoec -o sliced.onnx")
    options.source(p, "MODEL.aoec|NET.graph")
    options.weights(p, "the constants of a graph (default: <input>.npz)")
    p.add_argument("-o", "--output", required=True, metavar="FILE.onnx", help="the ONNX model, - for standard output; what reals are in is "
                   "chosen when it is compiled: here they are float")
    p = _add(commands, "lower", "turn a group, or an operator given by name, into a func",
             'aoec lower "matmul(m=1024, k=1024, n=1024, fp16)"')
    options.source(p, "FUSED.graph|OPERATOR")
    p.add_argument("--group", metavar="NAME", help="the group to lower")
    options.ops(p)
    options.output(p)
    p = _add(commands, "schedule", "apply a schedule to a func", "aoec schedule g.tir --with g.sched")
    options.source(p, "G.tir")
    p.add_argument("--with", dest="trace", required=True, metavar="G.sched", help="the schedule")
    options.holes(p)
    options.output(p)
    p = _add(commands, "emit", "turn a scheduled func into a program of AI Core instructions", "aoec emit scheduled.tir -o g.prog")
    options.source(p, "SCHEDULED.tir")
    options.holes(p)
    options.target(p)
    options.output(p)
    p = _add(commands, "simulate", "time a program on the model machine", "aoec simulate g.prog --json")
    options.source(p, "G.prog")
    options.holes(p)
    options.target(p)
    options.state_of_program(p)
    p.add_argument("--json", action="store_true", help="print the measure as JSON")
    options.timeline_options(p)
    options.output(p)
    p = _add(commands, "explain", "say where a candidate's time goes, or what changed between two and what it cost; or join a device's "
             "profile with ours", "aoec explain a.prog b.prog")
    options.source(p, "A.prog|A.tir|A.sched")
    p.add_argument("other", nargs="?", metavar="B", help="a second candidate, to compare")
    p.add_argument("--func", metavar="G.tir", help="the func of candidates that are schedules")
    p.add_argument("--op-summary", action="store_true", help="A is msprof's op_summary_*.csv, B ours (tuning_results_*/profiling/.../"
                   "op_summary.csv, or a compiled model): operators of both side by side, largest difference first")
    options.holes(p)
    options.target(p)
    options.state_of_program(p)
    p.add_argument("--json", action="store_true", help="print the facts as JSON")
    options.output(p)
    p = _add(commands, "search", "search the design space of a func for a fast schedule", "aoec search g.tir --budget 2000 -o g.sched")
    options.source(p, "G.tir")
    options.target(p)
    options.search_options(p)
    options.space_options(p)
    p.add_argument("--json", action="store_true", help="print the result as JSON instead of the schedule")
    options.output(p)
    _sweep_command(commands)


def _sweep_command(commands: argparse._SubParsersAction) -> None:
    p = _add(commands, "sweep", "time schedules over ranges of sizes, holes and machines, a row each",
             'aoec sweep g.tir --with a.sched --with b.sched --set "m=128..8192*2" -o out.csv --plot out.svg')
    p.add_argument("input", metavar="G.tir|OPERATOR", help="a func, - for standard input, or an operator by name and sizes")
    p.add_argument("--with", dest="traces", action="append", default=[], metavar="G.sched|default|tuned",
                   help="a schedule to compare, as often as there are; default: what compile takes without a search, and what is timed "
                        "without --with; tuned: the best of a search")
    p.add_argument("--set", dest="axes", action="append", default=[], type=values.axis, metavar="NAME=RANGE",
                   help='values of a size or hole: "m=64,128", "m=128..8192*2", "m=128..1024+128"; "?tm=..." is a hole and nothing else, '
                        '"?tm=all" takes all of its choices')
    p.add_argument("--target", dest="targets", action="append", default=[], metavar="NAME|FILE.toml",
                   help=f"machine, as often as there are (default: {DEFAULT_TARGET})")
    options.ops(p)
    options.state(p)
    p.add_argument("--tune", type=values.positive, metavar="N",
                   help="let a search of N trials fill, for each row, the holes that no --set names; without --with, find the schedule")
    options.strategy(p)
    p.add_argument("--verify", action="store_true", help="check the values of each program against the reference, where it is small enough")
    p.add_argument("--brief", action="store_true", help="times without busy pipes and bytes: many more rows a second")
    p.add_argument("--dump", metavar="DIR", help="write the schedule of each row that was timed there, its holes filled")
    p.add_argument("--plot", metavar="FILE.svg", help="draw time along the first --set that has several values")
    p.add_argument("--json", action="store_true", help="write JSON instead of CSV")
    options.output(p)


# ---------------------------------------------------------------- targets, bank, doctor

def _shelf_commands(commands: argparse._SubParsersAction) -> None:
    p = _add(commands, "targets", "compare the machines, show one with the source of each number, or make one from a file of CANN",
             "aoec targets show Ascend910B3")
    p.add_argument("action", nargs="?", choices=("list", "show", "import"), default="list",
                   help="list: one line a machine; show: each number; import: a machine file from CANN's platform_config/*.ini")
    p.add_argument("name", nargs="?", metavar="NAME|FILE")
    p.add_argument("--json", action="store_true", help="print as JSON")
    options.output(p)
    p = _add(commands, "calibrate", "fit the numbers of a machine to a profile of your own chip, as a machine file that extends it",
             "aoec calibrate --read op_summary.csv --target Ascend910B3 -o my910b3.toml")
    p.add_argument("--read", required=True, metavar="FILE.csv", help="op_summary_*.csv of msprof; - is standard input")
    options.target(p)
    p.add_argument("--schedule", choices=("default", "bank"), default="default",
                   help="what is taken to have run: aoec's default schedules, or those of the bank, where it has some, as after a delivery "
                        "(default: default)")
    options.state(p, "previous")
    p.add_argument("--seed", type=values.seed, default=0, metavar="N", help="draws the operators that are held out (default: 0)")
    options.bank(p)
    p.add_argument("--json", action="store_true", help="print the facts as JSON")
    p.add_argument("-o", "--output", required=True, metavar="FILE.toml", help="the machine file, for --target")
    bank.words(_add(commands, "bank", "look into a knowledge bank, care for it, or exchange records with another", "aoec bank list"))
    p = _add(commands, "doctor", "print versions, cores, cache and bank state, and whether CANN is seen")
    options.own_bank(p)
    p.add_argument("--json", action="store_true", help="print as JSON")
