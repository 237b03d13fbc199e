"""The words of the command line: one parser, a few lines a command; `commands.py` holds what each of them does."""
from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

from aoec.base.errors import ParseError

if TYPE_CHECKING:
    from aoec.base.ranges import Axis

DEFAULT_TARGET = "Ascend910B3"
STAGES = ("import", "fuse", "lower", "schedule", "emit")  # of a dump, in order
Command = Callable[[argparse.Namespace], int]


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are one line in the style of every other error, and that takes no abbreviations."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"aoec: error: {message}; see {self.prog} --help\n")


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
    def call(options: argparse.Namespace) -> int:
        from aoec.cli import commands
        function: Command = getattr(commands, f"run_{name}")
        return function(options)
    return call


# ---------------------------------------------------------------- models

def _model_commands(commands: argparse._SubParsersAction) -> None:
    p = _add(commands, "compile", "compile an ONNX model, with --tune after a search for fast schedules", "aoec compile --tune model.onnx")
    p.add_argument("model", metavar="MODEL.onnx|DIR", help="an ONNX model, or a folder that --dump wrote")
    p.add_argument("--from", dest="start", choices=STAGES, default="import", help="where to enter a dumped folder (default: import)")
    _model_options(p)
    _gears(p)
    p.add_argument("--tune", action="store_true", help="search for fast schedules; without it bank and default schedules are used")
    _tuning_options(p)
    p.add_argument("-o", "--output", metavar="FILE", help="the compiled model (default: <model>.aoec in the current directory)")
    p = _add(commands, "tune", "tune a model's operators as AOE's operator tuning does, with its result file and the compiled model",
             "aoec tune model.onnx --job opat")
    p.add_argument("model", metavar="MODEL.onnx|DIR", help="an ONNX model, or a folder that --dump wrote")
    p.add_argument("--job", choices=("opat",), default="opat", help="opat: tiles and structure of each operator (default: opat)")
    p.add_argument("--from", dest="start", choices=STAGES, default="import", help="where to enter a dumped folder (default: import)")
    _model_options(p)
    _gears(p)
    _tuning_options(p)
    p.set_defaults(tune=True)
    p.add_argument("--results", default="", metavar="DIR", help="where aoe_result_opat_*.json goes (default: $ASCEND_WORK_PATH, else here)")
    p.add_argument("-o", "--output", metavar="FILE", help="the compiled model (default: <model>.aoec in the current directory)")
    p = _add(commands, "tasks", "list what tuning a model would have to do: its different groups, their weight, what the bank has",
             "aoec tasks model.onnx")
    p.add_argument("model", metavar="MODEL.onnx")
    _model_options(p)
    _target(p)
    _trials(p, "for each group of operators ")
    _bank(p)
    p.add_argument("--json", action="store_true", help="print as JSON")
    _output(p)
    _add(commands, "aoe", "take the options of AOE's own command line, and tune as it does", "aoec aoe --job_type=2 --model=model.onnx")
    p = _add(commands, "run", "run a compiled model, or a func, on the model machine", "aoec run model.aoec --random -o out.npz")
    p.add_argument("model", metavar="MODEL.aoec|G.tir")
    p.add_argument("--with", dest="trace", metavar="G.sched", help="of a func: its schedule (default: what a search would begin with)")
    p.add_argument("--target", metavar="NAME|FILE.toml", help=f"of a func: the machine (default: {DEFAULT_TARGET})")
    feeds = p.add_mutually_exclusive_group(required=True)
    feeds.add_argument("--inputs", metavar="FILE.npz", help="arrays by the model's input names")
    feeds.add_argument("--random", action="store_true", help="seeded random inputs")
    p.add_argument("--seed", type=_seed, default=0, metavar="N", help="of --random (default: 0)")
    p.add_argument("--gear", metavar="NAME", help="which one --random is for (default: the first); --inputs say it by their shapes")
    p.add_argument("--json", action="store_true", help="print the figures as JSON")
    p.add_argument("-o", "--output", metavar="FILE.npz", help="arrays by the model's output names")
    p = _add(commands, "demo", "tune a full-size ResNet-50 with seeded random weights", "aoec demo")
    p.add_argument("--batch", type=_positive, default=1, metavar="N", help="(default: 1)")
    _precision(p)
    _tuning_options(p)
    p.set_defaults(tune=True, ops=[])
    p.add_argument("-o", "--output", metavar="FILE", help="the compiled model (default: resnet50.aoec in the current directory)")


def _model_options(p: Parser) -> None:
    p.add_argument("--input-shape", action="append", default=[], type=_input_shape, metavar="NAME:1,3,224,224",
                   help="bind free dimensions; -1 leaves one as the model has it, or to the options of gears")
    _ops(p)
    _precision(p)


def _gears(p: Parser) -> None:
    either = p.add_mutually_exclusive_group()
    either.add_argument("--dynamic-batch", type=_batches, default=(), metavar="1,8,16",
                        help="compile for each of these batches, into one file: the first dimension of inputs where it is free")
    either.add_argument("--dynamic-dims", type=_dims, default=(), metavar='"1,224,224;8,448,448"',
                        help="the same for each of these lists of values, in the order in which --input-shape has -1")


def _ops(p: Parser) -> None:
    p.add_argument("--ops", action="append", default=[], metavar="FILE.op",
                   help="operators of your own in index notation, for nodes of a custom domain and for calls (docs/tutorial.md)")


def _precision(p: Parser) -> None:
    p.add_argument("--precision", type=_mode, default="fp16", metavar="fp16|bf16|mixed|cube16|keep|fp32",
                   help="of tensors; sums are kept in fp32. keep: what the model declares; mixed: fp16, but norms, softmax, exponentials, "
                        "logarithms and reductions in fp32; cube16: fp32, but products of "
                        "fp16; ATC's names of these modes are taken too (default: fp16)")
    p.add_argument("--lowered", metavar="FILE.csv", help="write a row for each node with less precision than the model declares")


def _tuning_options(p: Parser) -> None:
    p.set_defaults(uses_bank=True)
    _target(p)
    _search_options(p, "for each group of operators ")
    _bank(p)
    p.add_argument("--verify", action=argparse.BooleanOptionalAction, default=None,
                   help="check values against the reference (default: with --tune)")
    p.add_argument("--metric", choices=("latency", "throughput"), default="latency", help="what to tune for (default: latency)")
    p.add_argument("--jobs", type=_positive, metavar="N", help="processes (default: one per core, or fewer where there is little to do)")
    again = p.add_mutually_exclusive_group()
    again.add_argument("--repeat", action="store_true", help="search again what the bank has; what is faster takes its place")
    again.add_argument("--frozen", action="store_true", help="search nothing: an error, with their names, where groups are not in the bank")
    p.set_defaults(results=None)
    p.add_argument("--only", metavar="NAMES|FILE", help="tune the groups with these nodes or types of operators (MatMul,conv_*), or those "
                   "that AOE's tune_ops_file lists; others keep what they have")
    p.add_argument("--no-host", action="store_true", help="an error, with their names, where nodes would run on the host")
    p.add_argument("--dump", metavar="DIR", help="write the text of every stage there")
    p.add_argument("--json", action="store_true", help="print the result as JSON")


def _search_options(p: Parser, per: str = "") -> None:
    _trials(p, per)
    _strategy(p)
    p.add_argument("--robust", action="store_true",
                   help="of the best ten pick the one that holds best on 32 machines whose numbers vary within their confidence")


def _trials(p: Parser, per: str) -> None:
    p.add_argument("--budget", type=_budget, default=("trials", 2000), metavar="N|Ts",
                   help=f"trials, or seconds as in 30s, {per}(default: 2000)")


def _strategy(p: Parser) -> None:
    p.add_argument("--search", choices=("portfolio", "proof", "pool", "genetic", "bayes", "annealing", "random", "exhaustive"),
                   default="portfolio", help="proof: decide the whole space by bounds, as far as the budget reaches (default: portfolio)")
    p.add_argument("--seed", type=_seed, default=0, metavar="N", help="same seed, same result (default: 0)")


def _target(p: Parser) -> None:
    p.add_argument("--target", metavar="NAME|FILE.toml", help=f"machine (default: {DEFAULT_TARGET}; see aoec targets)")


def _bank(p: Parser) -> None:
    p.add_argument("--bank", metavar="FILE", help="knowledge bank (default: $TUNE_BANK_PATH, else in the user data directory)")


# ---------------------------------------------------------------- stages

def _stage_commands(commands: argparse._SubParsersAction) -> None:
    p = _add(commands, "import", "turn an ONNX model into a graph", "aoec import net.onnx -o net.graph")
    p.add_argument("model", metavar="NET.onnx")
    _model_options(p)
    _weights(p, "write the constants there (default: beside -o, as <output>.npz)")
    _output(p)
    p = _add(commands, "fuse", "lay out a graph and divide it into groups", "aoec fuse net.graph -o fused.graph")
    _input(p, "NET.graph")
    _weights(p, "the constants of the graph (default: <input>.npz)")
    _target(p)
    _output(p)
    p = _add(commands, "lower", "turn a group, or an operator given by name, into a func",
             'aoec lower "matmul(m=1024, k=1024, n=1024, fp16)"')
    _input(p, "FUSED.graph|OPERATOR")
    p.add_argument("--group", metavar="NAME", help="the group to lower")
    _ops(p)
    _output(p)
    p = _add(commands, "schedule", "apply a schedule to a func", "aoec schedule g.tir --with g.sched")
    _input(p, "G.tir")
    p.add_argument("--with", dest="trace", required=True, metavar="G.sched", help="the schedule")
    _set(p)
    _output(p)
    p = _add(commands, "emit", "turn a scheduled func into a program of AI Core instructions", "aoec emit scheduled.tir -o g.prog")
    _input(p, "SCHEDULED.tir")
    _set(p)
    _target(p)
    _output(p)
    p = _add(commands, "simulate", "time a program on the model machine", "aoec simulate g.prog --json")
    _input(p, "G.prog")
    _set(p)
    _target(p)
    _state(p)
    p.add_argument("--json", action="store_true", help="print the measure as JSON")
    _timeline_options(p)
    _output(p)
    p = _add(commands, "explain", "say where a candidate's time goes, or what changed between two and what it cost",
             "aoec explain a.prog b.prog")
    _input(p, "A.prog|A.tir|A.sched")
    p.add_argument("other", nargs="?", metavar="B", help="a second candidate, to compare")
    p.add_argument("--func", metavar="G.tir", help="the func of candidates that are schedules")
    _set(p)
    _target(p)
    _state(p)
    p.add_argument("--json", action="store_true", help="print the facts as JSON")
    _output(p)
    p = _add(commands, "search", "search the design space of a func for a fast schedule", "aoec search g.tir --budget 2000 -o g.sched")
    _input(p, "G.tir")
    _target(p)
    _search_options(p)
    _space_options(p)
    p.add_argument("--json", action="store_true", help="print the result as JSON instead of the schedule")
    _output(p)
    _sweep_command(commands)


def _sweep_command(commands: argparse._SubParsersAction) -> None:
    p = _add(commands, "sweep", "time schedules over ranges of sizes, holes and machines, a row each",
             'aoec sweep g.tir --with a.sched --with b.sched --set "m=128..8192*2" -o out.csv --plot out.svg')
    p.add_argument("input", metavar="G.tir|OPERATOR", help="a func, - for standard input, or an operator by name and sizes")
    p.add_argument("--with", dest="traces", action="append", default=[], metavar="G.sched|default|tuned",
                   help="a schedule to compare, as often as there are; default: what compile takes without a search, and what is timed "
                        "without --with; tuned: the best of a search")
    p.add_argument("--set", dest="axes", action="append", default=[], type=_axis, metavar="NAME=RANGE",
                   help='values of a size or hole: "m=64,128", "m=128..8192*2", "m=128..1024+128"; "?tm=..." is a hole and nothing else, '
                        '"?tm=all" takes all of its choices')
    p.add_argument("--target", dest="targets", action="append", default=[], metavar="NAME|FILE.toml",
                   help=f"machine, as often as there are (default: {DEFAULT_TARGET})")
    _ops(p)
    _state(p)
    p.add_argument("--tune", type=_positive, metavar="N",
                   help="let a search of N trials fill, for each row, the holes that no --set names; without --with, find the schedule")
    _strategy(p)
    p.add_argument("--verify", action="store_true", help="check the values of each program against the reference, where it is small enough")
    p.add_argument("--brief", action="store_true", help="times without busy pipes and bytes: many more rows a second")
    p.add_argument("--dump", metavar="DIR", help="write the schedule of each row that was timed there, its holes filled")
    p.add_argument("--plot", metavar="FILE.svg", help="draw time along the first --set that has several values")
    p.add_argument("--json", action="store_true", help="write JSON instead of CSV")
    _output(p)


def _space_options(p: Parser) -> None:
    p.add_argument("--space", action="store_true",
                   help="show the space and search nothing: sketches, holes, and how many candidates each constraint leaves")
    p.add_argument("--trials", type=_table, metavar="FILE.csv|FILE.jsonl",
                   help="write a row for each candidate that was looked at: holes, status, modelled time, why it is illegal")
    p.add_argument("--pin", action="append", default=[], type=_values, metavar="HOLE=N,..",
                   help="leave a hole only these choices, as in --pin tm=64,128; a sketch without the hole stays as it is")
    p.add_argument("--exclude", action="append", default=[], type=_values, metavar="HOLE=N,..", help="take these choices from a hole")
    p.add_argument("--where", action="append", default=[], metavar="CONDITION",
                   help='keep candidates for which this holds, as in --where "tm*tn <= 32768 and gm*gn >= 20"; a sketch that has '
                        "not all of the holes stays as it is")
    p.add_argument("--sketch", action="append", default=[], type=_number, metavar="N", help="search only this sketch")


def _state(p: Parser) -> None:
    p.add_argument("--state", choices=("cold", "previous", "cleared"), default="cold",
                   help="what is in L2 at the start: what another model left (default), what a previous launch of the same program leaves, "
                        "or nothing at all, as where a profiler clears it")


def _timeline_options(p: Parser) -> None:
    p.add_argument("--trace", metavar="FILE.json", help="write the timeline as a Chrome trace, for Perfetto and chrome://tracing")
    p.add_argument("--svg", metavar="FILE.svg", help="draw the timeline")
    p.add_argument("--core", action="append", default=[], metavar="STREAM.N", help="a core to show (default: the last of each stream)")
    p.add_argument("--from", dest="start", type=_cycles, metavar="CYCLE", help="show from here (default: beginning, middle and end)")
    p.add_argument("--to", dest="stop", type=_cycles, metavar="CYCLE", help="show up to here")
    p.add_argument("--events", type=_events, default=100_000, metavar="N", help="of a core in the trace at most (default: 100000)")


def _input(p: Parser, what: str) -> None:
    p.add_argument("input", metavar=what, help="a file, or - for standard input")


def _output(p: Parser) -> None:
    p.add_argument("-o", "--output", default="-", metavar="FILE", help="(default: standard output)")


def _weights(p: Parser, text: str) -> None:
    p.add_argument("--weights", metavar="FILE.npz", help=text)


def _set(p: Parser) -> None:
    p.add_argument("--set", dest="holes", action="append", default=[], type=_hole, metavar="HOLE=N", help="fill a hole, as in --set tm=64")


# ---------------------------------------------------------------- targets, bank, doctor

def _shelf_commands(commands: argparse._SubParsersAction) -> None:
    p = _add(commands, "targets", "compare the machines, show one with the source of each number, or make one from a file of CANN",
             "aoec targets show Ascend910B3")
    p.add_argument("action", nargs="?", choices=("list", "show", "import"), default="list",
                   help="list: one line a machine; show: each number; import: a machine file from CANN's platform_config/*.ini")
    p.add_argument("name", nargs="?", metavar="NAME|FILE")
    p.add_argument("--json", action="store_true", help="print as JSON")
    _output(p)
    p = _add(commands, "bank", "look into a knowledge bank, or exchange records with another", "aoec bank list")
    p.add_argument("action", choices=("list", "best", "export", "import", "merge"),
                   help="list records; best: the schedule of a KEY; export to, import from JSON lines; merge another bank")
    p.add_argument("argument", nargs="?", metavar="KEY|FILE")
    p.add_argument("--target", metavar="NAME", help="records of this machine only")
    _bank(p)
    p.add_argument("--json", action="store_true", help="print as JSON")
    _output(p)
    p = _add(commands, "doctor", "print versions, cores, cache and bank state, and whether CANN is seen")
    _bank(p)
    p.add_argument("--json", action="store_true", help="print as JSON")


# ---------------------------------------------------------------- values of options

def _positive(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def _cycles(text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,15}(\.[0-9]{1,6})?", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of cycles")
    return float(text)


def _events(text: str) -> int:
    if not 1 <= (number := _positive(text)) <= 2_000_000:
        raise argparse.ArgumentTypeError(f"{text} events are more than 2000000")
    return number


def _seed(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to 999999999")
    return int(text)


def _mode(text: str) -> str:
    from aoec.base.precision import PRECISIONS, SPELLINGS
    if text not in (*PRECISIONS, *SPELLINGS):
        raise argparse.ArgumentTypeError(f"{text!r} is not one of {', '.join(PRECISIONS)}, nor ATC's {', '.join(SPELLINGS)}")
    return SPELLINGS.get(text, text)


def _input_shape(text: str) -> tuple[str, tuple[int, ...]]:
    name, colon, dims = text.rpartition(":")  # the last colon: names may hold some themselves
    if not (colon and name and re.fullmatch(r"(-1|[1-9][0-9]{0,8})(,(-1|[1-9][0-9]{0,8}))*", dims)):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form NAME:1,3,224,224")
    return name, tuple(int(d) for d in dims.split(","))


def _batches(text: str) -> tuple[int, ...]:
    if not re.fullmatch(r"[1-9][0-9]{0,8}(,[1-9][0-9]{0,8})*", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form 1,8,16")
    return tuple(int(d) for d in text.split(","))


def _dims(text: str) -> tuple[tuple[int, ...], ...]:
    try:
        return tuple(_batches(gear) for gear in text.split(";"))
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form 1,224,224;8,448,448") from None


def _budget(text: str) -> tuple[str, float]:
    """("trials", n) or ("seconds", s)."""
    if re.fullmatch(r"[0-9]{1,9}", text):
        return "trials", int(text)
    if re.fullmatch(r"[0-9]{1,7}(\.[0-9]{1,3})?s", text) and float(text[:-1]) > 0:
        return "seconds", float(text[:-1])
    raise argparse.ArgumentTypeError(f"{text!r} is neither a number of trials (2000) nor of seconds (30s)")


def _number(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,6}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not the number of a sketch")
    return int(text)


def _values(text: str) -> tuple[str, tuple[int, ...]]:
    match = re.fullmatch(r"\??([A-Za-z_][A-Za-z0-9_]*)=([0-9]{1,12}(?:,[0-9]{1,12})*)", text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form tm=64 or tm=64,128")
    return match[1], tuple(dict.fromkeys(map(int, match[2].split(","))))


def _table(text: str) -> str:
    if not text.endswith((".csv", ".jsonl")):
        raise argparse.ArgumentTypeError(f"{text!r} ends in neither .csv nor .jsonl, which say how the table is written")
    return text


def _axis(text: str) -> Axis:
    from aoec.base.ranges import axis
    try:
        return axis(text)
    except ParseError as e:
        raise argparse.ArgumentTypeError(e.message) from None


def _hole(text: str) -> tuple[str, int]:
    match = re.fullmatch(r"\??([A-Za-z_][A-Za-z0-9_]*)=([0-9]{1,12})", text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form tm=64")
    return match[1], int(match[2])
