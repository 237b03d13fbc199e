"""The words of the command line: one parser, a few lines a command; what several share is in `options.py`, what each of
them does in `commands.py`."""
from __future__ import annotations

import argparse
from typing import NoReturn

from aoec.base.files.files import say
from aoec.cli import bank, options, values
from aoec.cli.declared import File, fills, reads, writes
from aoec.cli.options import DEFAULT_TARGET, Parser
from aoec.cli.vendor import vendor_words

STAGES = ("import", "fuse", "lower", "schedule", "emit")  # of a dump, in order
SHELLS = ("bash", "zsh", "tcsh")  # whose words `aoec completion` can complete


def parser() -> Parser:
    """The parser of `aoec`; `command` of what it returns is the name of the command, which `commands.run_command` runs."""
    p = Parser(prog="aoec", allow_abbrev=False, description=(
        "Open Ascend Optimization Engine. It tunes ONNX models for Ascend NPUs on a model of the machine, and shows why."),
        epilog="Begin with: aoec compile --tune model.onnx. All times are modelled: they come from the machines that aoec targets lists, "
               "not from a device.")
    p.add_argument("--version", action=Version)
    p.add_argument("--traceback", action="store_true", help="after an internal fault, show where it happened")
    commands = p.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=Parser)
    _model_commands(commands)
    _stage_commands(commands)
    _shelf_commands(commands)
    _word_commands(commands)
    return p


class Version(argparse.Action):
    """Prints the version and leaves; the package's data are read only when it is asked for."""

    def __init__(self, option_strings: list[str], dest: str) -> None:
        super().__init__(option_strings, dest, nargs=0, help="print the version")

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from aoec import __version__
        say(f"aoec {__version__}\n")
        parser.exit()


def _add(commands: argparse._SubParsersAction, name: str, page: str, text: str, example: str = "") -> Parser:
    """The parser of one command, whose help names its page under docs/; it calls the function of its name in `commands.py`, which is
    imported only then."""
    p: Parser = commands.add_parser(name, help=text.partition(". ")[0], description=f"{text[0].upper()}{text[1:]}.".replace("%", "%%"),
                                    allow_abbrev=False, epilog=f"example: {example}" if example else None)
    p.page = f"docs/{page}.md"
    p.set_defaults(command=name)
    return p


# ---------------------------------------------------------------- models

def _model_commands(commands: argparse._SubParsersAction) -> None:
    p = _add(commands, "compile", "deploy",
             "compile an ONNX model; with --tune search fast schedules first", "aoec compile --tune model.onnx")
    reads(p.add_argument("model", metavar="MODEL.onnx|DIR", help="an ONNX model, or a folder that --dump wrote"))
    p.add_argument("--tune", action="store_true", help="search fast schedules; without it the bank and default schedules are used")
    _model(p)
    options.tuning_options(p)
    options.embed(p)
    writes(p.add_argument("-o", "--output", metavar="FILE", help="the compiled model (default: <model>.aoec in the current directory)"))
    p = _add(commands, "tune", "deploy",
             "tune as AOE does, operators or subgraphs, and write AOE's result files. It compiles the model too",
             "aoec tune model.onnx --job opat")
    reads(p.add_argument("model", metavar="MODEL.onnx|DIR", help="an ONNX model, or a folder that --dump wrote"))
    _model(p)
    options.tuning_options(p)
    options.embed(p)
    p.set_defaults(tune=True)
    p.add_argument("--job", choices=("opat", "sgat"), default="opat", help="opat: tune the tiles and structure of each operator. sgat: "
                   "find groups that run faster in slices that stay in L2, with the schedules of the bank and the defaults (default: opat)")
    fills(p.add_argument("--results", default="", metavar="DIR",
                   help="where aoe_result_opat_*.json or aoe_result_sgat_*.json goes (default: $ASCEND_WORK_PATH, or here)"), File.ADDED)
    writes(p.add_argument("-o", "--output", metavar="FILE", help="the compiled model (default: <model>.aoec in the current directory)"))
    p = _add(commands, "tasks", "deploy",
             "list what tuning a model would have to do. It shows the different groups, their weight, and what the "
             "bank has",
             "aoec tasks model.onnx")
    reads(p.add_argument("model", metavar="MODEL.onnx", help="an ONNX model"))
    options.model_options(p)
    options.target(p)
    options.trials(p, "for each group of operators")
    options.bank(p)
    p.add_argument("--json", action="store_true", help="print as JSON")
    options.output(p)
    p = _add(commands, "aoe", vendor_words.PAGE, "take AOE's own command line",
             "aoec aoe --job_type=2 --model=model.onnx")
    p.set_defaults(kept="what was found so far is kept in the bank; the same command with --reload goes on from there")
    p = _add(commands, "atc", vendor_words.PAGE, "take ATC's own command line: compile from the bank, without a search",
             "aoec atc --model=model.onnx --framework=5 --soc_version=Ascend310P3 --output=model")
    p.set_defaults(kept="a model that was compiled is kept; nothing is left running")
    p = _add(commands, "results", "deploy", "show result files of tuning, aoec's or AOE's of any release; several side by side",
             "aoec results aoe_result_opat_20260901120000000_pid1.json")
    reads(p.add_argument("files", nargs="+", metavar="FILE.json|DIR",
                         help="aoe_result_opat_*.json or aoe_result_sgat_*.json, - for standard input"))
    p.add_argument("--json", action="store_true", help="print as JSON")
    options.output(p)
    _deliver_command(commands)
    p = _add(commands, "run", "deploy", "run a compiled model, a func or a program, and print its modelled time",
             "aoec run model.aoec --random -o out.npz")
    reads(p.add_argument("model", metavar="MODEL.aoec|G.tir|G.prog", help="a compiled model, a func, or a program of a func (--func)"))
    reads(p.add_argument("--func", metavar="G.tir", help="the func of a program, whose values it is held against"))
    reads(p.add_argument("--with", dest="trace", metavar="G.sched",
                         help="the schedule of a func (default: what a search would begin with)"))
    reads(p.add_argument("--target", metavar="NAME|FILE.toml",
                         help=f"the machine of a func (default: {DEFAULT_TARGET}), or of a program (default: its own)"))
    feeds = p.add_mutually_exclusive_group(required=True)
    reads(feeds.add_argument("--inputs", metavar="FILE.npz", help="arrays by the model's input names"))
    feeds.add_argument("--random", action="store_true", help="seeded random inputs")
    p.add_argument("--seed", type=values.seed, default=0, metavar="N", help="the seed of --random (default: 0)")
    options.most_steps(p)
    p.add_argument("--gear", metavar="NAME", help="the gear that --random is for (default: the first). With --inputs, shapes say which")
    p.add_argument("--json", action="store_true", help="print the figures as JSON")
    writes(p.add_argument("-o", "--output", metavar="FILE.npz", help="arrays by the model's output names"))
    p = _add(commands, "demo", "deploy", "tune a full-size ResNet-50 with seeded random weights", "aoec demo")
    p.add_argument("--batch", type=values.positive, default=1, metavar="N", help="images at a time (default: 1)")
    options.precision(p)
    options.tuning_options(p)
    p.set_defaults(tune=True, ops=[], base="none")  # the built-in bank knows it, and nothing would be tuned
    writes(p.add_argument("-o", "--output", metavar="FILE", help="the compiled model (default: resnet50.aoec in the current directory)"))


def _model(p: Parser) -> None:
    """What a compile is made of: a model with its shapes and gears, or a dump."""
    g = options.model_options(p)
    options.gears(g)
    g.add_argument("--from", dest="start", choices=STAGES, default="import", metavar="STAGE",
                   help=f"where to enter a folder that --dump wrote: {', '.join(STAGES)} (default: import)")


def _deliver_command(commands: argparse._SubParsersAction) -> None:
    p = _add(commands, "deliver", "deliver",
             "write what was found as files for CANN and kernel writers, or read a device's profile back. The "
             "folder's APPLY.md says what to type on the board. Written for CANN, not yet run on a device by us",
             "aoec deliver model.onnx --to delivery")
    reads(p.add_argument("model", nargs="?", metavar="MODEL.onnx|MODEL.aoec|BANK", help="what --to writes of: a model (with the schedules "
                   "that the bank has, so tune it before), a compiled model, or a bank or an export of one"))
    way = p.add_mutually_exclusive_group(required=True)
    reads(way.add_argument("--read", metavar="FILE.csv",
                           help="keep a device's op_summary_*.csv in the bank as measured times. Say which records "
                     "were hit, which operators won and lost, and where model and chip differ most"))
    reads(p.add_argument("--before", metavar="FILE.csv", help="with --read: the profile from before the delivery was applied"))
    fills(way.add_argument("--to", metavar="DIR", help="a new or empty folder; it is written whole or not at all"), File.NEW)
    theirs = p.add_mutually_exclusive_group()
    reads(theirs.add_argument("--op-summary", metavar="FILE.csv",
                              help="msprof's op_summary of this model on your device. It shows operators as "
                        "your CANN has them, so that keys are exact"))
    reads(theirs.add_argument("--graph", metavar="FILE", help="the same, from a graph that your CANN dumped with DUMP_GE_GRAPH=2: "
                        "ge_onnx_*_Build.pbtxt or ge_proto_*_Build.txt"))
    p.add_argument("--tune", type=values.positive, metavar="N", help="search among the schedules that a CANN tiling can express, N trials "
                   "for each product and convolution (default: search nothing)")
    p.add_argument("--all", action="store_true", help="also write records whose tiling is modelled more than 5 %% slower than the "
                   "default schedule")
    p.add_argument("--soc", metavar="NAME", help="CANN's name of the chip, for file names (default: the target's)")
    options.gears(options.model_options(p))
    options.target(p)
    options.bank(p)
    p.add_argument("--json", action="store_true", help="print the table as JSON")


# ---------------------------------------------------------------- stages

def _stage_commands(commands: argparse._SubParsersAction) -> None:
    p = _add(commands, "import", "tutorial", "turn an ONNX model into a graph", "aoec import net.onnx -o net.graph")
    reads(p.add_argument("model", metavar="NET.onnx", help="an ONNX model"))
    options.model_options(p)
    options.weights(p, "write the constants there (default: beside -o, as <output>.npz)", written=True)
    options.output(p)
    p = _add(commands, "fuse", "research", "lay out a graph and divide it into groups", "aoec fuse net.graph -o fused.graph")
    options.source(p, "NET.graph")
    options.weights(p, "the constants of the graph (default: <input>.npz)")
    options.target(p)
    options.output(p)
    p = _add(commands, "slice", "research", "run groups of a fused graph in slices that stay in L2",
             "aoec slice fused.graph --regions g3..g12/4 -o sliced.graph")
    options.source(p, "FUSED.graph")
    p.add_argument("--regions", required=True, type=values.regions, metavar="G..G/N,..", help="from which group to which, and in how many "
                   "parts; one part runs through all of them before the next")
    options.weights(p, "the constants of the graph, which go beside -o as they are (default: <input>.npz)")
    options.output(p)
    p = _add(commands, "export", "research", "write a compiled model or a graph as an ONNX model, slices spelled out",
             "aoec export model.aoec -o sliced.onnx")
    options.source(p, "MODEL.aoec|NET.graph")
    options.weights(p, "the constants of a graph (default: <input>.npz)")
    writes(p.add_argument("-o", "--output", required=True, metavar="FILE.onnx",
                          help="the ONNX model, - for standard output. Its reals are float; "
                   "precision is chosen when it is compiled"))
    p = _add(commands, "lower", "tutorial", "turn a group, or an operator given by name, into a func",
             'aoec lower "matmul(m=1024, k=1024, n=1024, fp16)"')
    options.source(p, "FUSED.graph|OPERATOR")
    p.add_argument("--group", metavar="NAME", help="the group to lower")
    options.ops(p)
    options.output(p)
    p = _add(commands, "schedule", "tutorial", "apply a schedule to a func", "aoec schedule g.tir --with g.sched")
    options.source(p, "G.tir")
    reads(p.add_argument("--with", dest="trace", required=True, metavar="G.sched", help="the schedule"))
    options.raw(p)
    options.holes(p)
    options.output(p)
    p = _add(commands, "emit", "tutorial",
             "turn a scheduled func into a program of AI Core instructions", "aoec emit scheduled.tir -o g.prog")
    options.source(p, "SCHEDULED.tir")
    how = p.add_mutually_exclusive_group()
    how.add_argument("--short", action="store_true", help="also leave out loops that run once. The values are the same; the modelled time "
                     "may differ a little")
    options.raw(how)
    options.holes(p)
    options.target(p)
    options.output(p)
    p = _add(commands, "simulate", "explain", "time a program on the model machine", "aoec simulate g.prog --json")
    options.source(p, "G.prog")
    options.holes(p)
    options.target(p)
    options.state_of_program(p)
    p.add_argument("--json", action="store_true", help="print the measure as JSON")
    options.most_steps(p)
    options.timeline_options(p)
    options.output(p)
    p = _add(commands, "explain", "explain",
             "say where a candidate's time goes, or what changed between two. It can also join a device's profile "
             "with ours", "aoec explain a.prog b.prog")
    options.source(p, "A.prog|A.tir|A.sched")
    reads(p.add_argument("other", nargs="?", metavar="B", help="a second candidate, to compare"))
    reads(p.add_argument("--func", metavar="G.tir", help="the func of candidates that are schedules"))
    p.add_argument("--op-summary", action="store_true", help="A is msprof's op_summary_*.csv, B ours (a compiled model, or "
                   "tuning_results_*/profiling/.../op_summary.csv). Shows the operators of both side by side, largest difference first")
    options.holes(p)
    options.target(p)
    options.state_of_program(p)
    p.add_argument("--json", action="store_true", help="print the facts as JSON")
    options.most_steps(p)
    options.output(p)
    p = _add(commands, "search", "research",
             "search the design space of a func for a fast schedule", "aoec search g.tir --budget 2000 -o g.sched")
    options.source(p, "G.tir")
    options.target(p)
    options.search_options(p)
    options.space_options(p)
    p.add_argument("--json", action="store_true", help="print the result as JSON instead of the schedule")
    options.output(p)
    _sweep_command(commands)


def _sweep_command(commands: argparse._SubParsersAction) -> None:
    p = _add(commands, "sweep", "sweep", "time schedules over ranges of sizes, holes and machines",
             'aoec sweep g.tir --with a.sched --with b.sched --set "m=128..8192*2" -o out.csv --plot out.svg')
    reads(p.add_argument("input", metavar="G.tir|OPERATOR", help="a func (- for standard input), or an operator by name and sizes"))
    reads(p.add_argument("--with", dest="traces", action="append", default=[], metavar="G.sched|default|tuned",
                   help="a schedule to compare; may be repeated. default: what compile takes without a search (timed if there is no "
                        "--with). tuned: the best of a search"))
    p.add_argument("--set", dest="axes", action="append", default=[], type=values.axis, metavar="NAME=RANGE",
                   help='values of a size or hole: "m=64,128", "m=128..8192*2", "m=128..1024+128". "?tm=..." is always a hole; "?tm=all" '
                        'takes all of its choices')
    reads(p.add_argument("--target", dest="targets", action="append", default=[], metavar="NAME|FILE.toml",
                   help=f"a machine; may be repeated (default: {DEFAULT_TARGET})"))
    options.ops(p)
    options.state(p)
    p.add_argument("--tune", type=values.positive, metavar="N",
                   help="for each row, search N trials for the holes that no --set names; without --with, for the schedule")
    options.strategy(p)
    p.add_argument("--verify", action="store_true", help="check the values of each program that is small enough against the reference")
    p.add_argument("--brief", action="store_true", help="times only, without busy pipes and bytes: many more rows a second")
    fills(p.add_argument("--dump", metavar="DIR", help="write the schedule of each timed row there, with its holes filled"))
    writes(p.add_argument("--plot", metavar="FILE.svg", help="draw time along the first --set that has several values"))
    p.add_argument("--json", action="store_true", help="write JSON instead of CSV")
    options.output(p)


# ---------------------------------------------------------------- targets, bank, doctor

def _shelf_commands(commands: argparse._SubParsersAction) -> None:
    p = _add(commands, "targets", "machine-keys", "list the machines, show one with its sources, or import one from CANN",
             "aoec targets show Ascend910B3")
    p.add_argument("action", nargs="?", choices=("list", "show", "import"), default="list",
                   help="list: one line a machine; show: each number; import: a machine file from CANN's platform_config/*.ini")
    reads(p.add_argument("name", nargs="?", metavar="NAME|FILE", help="the machine to show, or the file to import"))
    p.add_argument("--json", action="store_true", help="print as JSON")
    options.output(p)
    p = _add(commands, "calibrate", "research", "fit a machine to a profile of your own chip. The result is a machine file that extends it",
             "aoec calibrate --read op_summary.csv --target Ascend910B3 -o my910b3.toml")
    reads(p.add_argument("--read", required=True, metavar="FILE.csv", help="op_summary_*.csv of msprof; - is standard input"))
    options.target(p)
    p.add_argument("--schedule", choices=("default", "bank"), default="default",
                   help="what is taken to have run: aoec's default schedules, or those of the bank, as after a delivery (default: default)")
    options.state(p, "previous")
    p.add_argument("--seed", type=values.seed, default=0, metavar="N", help="decides which operators are held out (default: 0)")
    options.bank(p)
    p.add_argument("--json", action="store_true", help="print the facts as JSON")
    writes(p.add_argument("-o", "--output", required=True, metavar="FILE.toml", help="the machine file, for --target"))
    bank.words(_add(commands, "bank", "deploy", "look into a knowledge bank, check and clean it, exchange records", "aoec bank list"))
    p = _add(commands, "completion", "deploy", "print the script with which a shell completes aoec's words",
             "aoec completion bash > ~/.local/share/bash-completion/completions/aoec")
    p.add_argument("shell", choices=SHELLS, metavar="|".join(SHELLS), help="the shell")
    options.output(p)
    p = _add(commands, "doctor", "deploy", "show versions, cores, caches, bank, and whether CANN is seen")
    options.own_bank(p)
    p.add_argument("--json", action="store_true", help="print as JSON")


# ---------------------------------------------------------------- words

def _word_commands(commands: argparse._SubParsersAction) -> None:
    p = _add(commands, "primitives", "primitives", "list the primitives of a schedule, or show one with its fields and an example",
             "aoec primitives split")
    _word(p, "the primitive to show (default: list all)")
    p = _add(commands, "instructions", "instructions", "list the instructions of a program, or show one with its fields, limits, chips and "
             "timing", "aoec instructions mmad")
    _word(p, "the instruction to show (default: list all)")
    reads(p.add_argument("--target", metavar="NAME|FILE.toml", help="what this machine has, with its timing (default: all chips)"))
    p = _add(commands, "holes", "holes",
             "list the kinds of holes that sketches have, or show one with what it decides. The holes of one func "
             "are shown by aoec search --space", "aoec holes tm")
    _word(p, "the hole to show (default: list all)")


def _word(p: Parser, text: str) -> None:
    p.add_argument("name", nargs="?", metavar="NAME", help=text)
    p.add_argument("--json", action="store_true", help="print as JSON")
