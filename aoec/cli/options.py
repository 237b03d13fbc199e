"""Options that several commands share, each said once; `values.py` reads what stands behind them."""
from __future__ import annotations

import argparse
import re
import sys
from typing import Any, NoReturn

from aoec.base.text import nearest
from aoec.cli import values

DEFAULT_TARGET = "Ascend910B3"
CHOICE = re.compile(r"invalid choice: '([^']*)' \(choose from (.*)\)$")  # as argparse says it, with all that could be meant


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are one line in the style of every other error, and that takes no abbreviations."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """What argparse gives; what is left over is refused here, where the command and its options are known. A command that is nothing
        but a choice of others shows them where none is chosen."""
        words = sys.argv[1:] if args is None else list(args)
        if not words and self._subparsers is not None:
            self.print_help(sys.stderr)
            self.exit(2)
        found, rest = super().parse_known_args(words, namespace)
        if unknown := [word for word in rest if word.startswith("-")]:
            known = [s for action in self._actions for s in action.option_strings]
            self.error(f"there is no option {unknown[0]}{nearest(unknown[0].partition('=')[0], known)}".rstrip("?"))
        if rest:
            self.error(f"{rest[0]!r} is one word too many")
        return found, rest

    def error(self, message: str) -> NoReturn:
        if found := CHOICE.search(message):
            words = [word.strip("' ") for word in found[2].split(",")]
            message = f"{message[:found.start()]}{found[1]!r} is unknown{nearest(found[1], words)}".rstrip("?")
        self.exit(2, f"aoec: error: {message}; see {self.prog} --help\n")


def model_options(p: Parser) -> None:
    p.add_argument("--input-shape", action="append", default=[], type=values.input_shape, metavar="NAME:1,3,224,224",
                   help="bind free dimensions; -1 leaves one as the model has it, or to the options of gears")
    ops(p)
    precision(p)


def gears(p: Parser) -> None:
    either = p.add_mutually_exclusive_group()
    either.add_argument("--dynamic-batch", type=values.batches, default=(), metavar="1,8,16",
                        help="compile for each of these batches, into one file: the first dimension of inputs where it is free")
    either.add_argument("--dynamic-dims", type=values.dims, default=(), metavar='"1,224,224;8,448,448"',
                        help="the same for each of these lists of values, in the order in which --input-shape has -1")


def ops(p: Parser) -> None:
    p.add_argument("--ops", action="append", default=[], metavar="FILE.op",
                   help="operators of your own in index notation, for nodes of a custom domain and for calls (docs/tutorial.md)")


def precision(p: Parser) -> None:
    p.add_argument("--precision", type=values.mode, default="fp16", metavar="fp16|bf16|mixed|cube16|keep|fp32",
                   help="of tensors; sums are kept in fp32. keep: what the model declares; mixed: fp16, but norms, softmax, exponentials, "
                        "logarithms and reductions in fp32; cube16: fp32, but products of "
                        "fp16; ATC's names of these modes are taken too (default: fp16)")
    p.add_argument("--lowered", metavar="FILE.csv", help="write a row for each node with less precision than the model declares")


def tuning_options(p: Parser) -> None:
    p.set_defaults(uses_bank=True)
    target(p)
    search_options(p, "for each group of operators ", effort=True)
    p.add_argument("--until", type=values.until, default=(), metavar="gain=P,gap=P",
                   help="end the search of a group as soon as it is P %% faster than its default, or within P %% of its bound")
    bank(p)
    p.add_argument("--verify", action=argparse.BooleanOptionalAction, default=None,
                   help="check values against the reference (default: with --tune)")
    p.add_argument("--metric", choices=("latency", "throughput"), default="latency", help="what to tune for (default: latency)")
    p.add_argument("--jobs", type=values.positive, metavar="N",
                   help="processes (default: one per core, or fewer where there is little to do)")
    again = p.add_mutually_exclusive_group()
    again.add_argument("--repeat", action="store_true", help="search again what the bank has; what is faster takes its place")
    again.add_argument("--frozen", action="store_true", help="search nothing: an error, with their names, where groups are not in the bank")
    p.add_argument("--resume", action="store_true",
                   help="go on where the same command was broken off, by Ctrl-C, a kill or a full disk: the result is that of an "
                        "undisturbed run")
    p.set_defaults(results=None, embed=None, job="opat")
    p.add_argument("--only", metavar="NAMES|FILE", help="tune the groups with these nodes or types of operators (MatMul,conv_*), or those "
                   "that AOE's tune_ops_file lists; others keep what they have")
    p.add_argument("--slices", type=values.slices, default="bank", metavar="auto|none|G..G/N,..", help="run groups in parts one "
                   "after the other, so that what lies between them stays in L2. auto: those that are faster so, which the bank keeps; "
                   "g3..g12/4: from g3 to g12, in four (default: what the bank has kept)")
    p.add_argument("--no-host", action="store_true", help="an error, with their names, where nodes would run on the host")
    p.add_argument("--dump", metavar="DIR", help="write the text of every stage there")
    p.add_argument("--report", metavar="DIR", help="write a page for any browser there, index.html, and its figures as report.json")
    p.add_argument("--progress", action=argparse.BooleanOptionalAction, default=True, help="draw a bar where a terminal is (default)")
    p.add_argument("--events", metavar="FILE|-", help="write how the job comes along as lines of JSON; - is standard output, where then no "
                   "table is printed (docs/events.md)")
    p.add_argument("--json", action="store_true", help="print the result as JSON")


def embed(p: Parser) -> None:
    p.add_argument("--embed", metavar="FILE.onnx", help="write the model there with its schedules in its metadata: a compile of that file "
                   "for the same machine takes them as those of a bank")


def search_options(p: Parser, per: str = "", effort: bool = False) -> None:
    either = p.add_mutually_exclusive_group()
    trials(either, per)
    if effort:
        either.add_argument("--effort", choices=("none", "quick", "full"),
                            help="in place of a budget, in a word. none: nothing is searched, bank and default schedules are used; quick: "
                                 "--budget 200; full: --budget 20000 --until gap=1")
    strategy(p)
    p.add_argument("--robust", action="store_true",
                   help="of the best ten pick the one that holds best on 32 machines whose numbers vary within their confidence")


def trials(p: argparse._ActionsContainer, per: str) -> None:
    p.add_argument("--budget", type=values.budget, default=("trials", 2000), metavar="N|Ts",
                   help=f"trials, or seconds as in 30s, {per}(default: 2000)")


def strategy(p: Parser) -> None:
    p.add_argument("--search", choices=("portfolio", "proof", "pool", "genetic", "bayes", "annealing", "random", "exhaustive"),
                   default="portfolio", help="proof: decide the whole space by bounds, as far as the budget reaches (default: portfolio)")
    p.add_argument("--seed", type=values.seed, default=0, metavar="N", help="same seed, same result (default: 0)")


def target(p: Parser) -> None:
    p.add_argument("--target", metavar="NAME|FILE.toml", help=f"machine (default: {DEFAULT_TARGET}; see aoec targets)")


def bank(p: Parser) -> None:
    own_bank(p)
    base(p)


def base(p: Parser) -> None:
    p.add_argument("--base", metavar="FILE|DIR|none", help="another bank, or the folder of results of a tuning, that is asked for what the "
                   "bank has not, and only read (default: $AOEC_BASE_BANK, else the built-in one, aoec bank list --builtin; of the demo "
                   "none)")


def own_bank(p: Parser) -> None:
    p.add_argument("--bank", metavar="FILE", help="knowledge bank (default: $TUNE_BANK_PATH, $ASCEND_CACHE_PATH, the user data directory)")


def space_options(p: Parser) -> None:
    p.add_argument("--space", action="store_true",
                   help="show the space and search nothing: sketches, holes, and how many candidates each constraint leaves")
    p.add_argument("--trials", type=values.table, metavar="FILE.csv|FILE.jsonl",
                   help="write a row for each candidate that was looked at: holes, status, modelled time, why it is illegal")
    p.add_argument("--pin", action="append", default=[], type=values.choices, metavar="HOLE=N,..",
                   help="leave a hole only these choices, as in --pin tm=64,128; a sketch without the hole stays as it is")
    p.add_argument("--exclude", action="append", default=[], type=values.choices, metavar="HOLE=N,..",
                   help="take these choices from a hole")
    p.add_argument("--where", action="append", default=[], metavar="CONDITION",
                   help='keep candidates for which this holds, as in --where "tm*tn <= 32768 and gm*gn >= 20"; a sketch that has '
                        "not all of the holes stays as it is")
    p.add_argument("--sketch", action="append", default=[], type=values.sketch, metavar="N", help="search only this sketch")


STATES = ("what is in L2 at the start. cold: what another model left; previous: what a previous launch of the same program leaves; "
          "cleared: nothing at all, as where a profiler clears it")


def state(p: Parser, default: str = "cold") -> None:
    p.add_argument("--state", choices=("cold", "previous", "cleared"), default=default, help=f"{STATES} (default: {default})")


def state_of_program(p: Parser) -> None:
    """--state where one program is timed: so also by its tensors."""
    p.add_argument("--state", type=values.state, default="cold", metavar="cold|previous|cleared|TENSOR=BYTES,...",
                   help=f"{STATES}; TENSOR=BYTES: so much of these, oldest first, as DIR/reasons/*.json of --dump and records of the bank "
                        "name what the groups before leave (default: cold)")


def timeline_options(p: Parser) -> None:
    p.add_argument("--trace", metavar="FILE.json", help="write the timeline as a Chrome trace, for Perfetto and chrome://tracing")
    p.add_argument("--svg", metavar="FILE.svg", help="draw the timeline")
    p.add_argument("--core", action="append", default=[], metavar="STREAM.N", help="a core to show (default: the last of each stream)")
    p.add_argument("--from", dest="start", type=values.cycles, metavar="CYCLE", help="show from here (default: beginning, middle and end)")
    p.add_argument("--to", dest="stop", type=values.cycles, metavar="CYCLE", help="show up to here")
    p.add_argument("--events", dest="most_events", type=values.events, default=100_000, metavar="N",
                   help="of a core in the trace at most (default: 100000)")


def source(p: Parser, what: str) -> None:
    p.add_argument("input", metavar=what, help="a file, or - for standard input")


def output(p: Parser) -> None:
    p.add_argument("-o", "--output", default="-", metavar="FILE", help="(default: standard output)")


def weights(p: Parser, text: str) -> None:
    p.add_argument("--weights", metavar="FILE.npz", help=text)


def holes(p: Parser) -> None:
    p.add_argument("--set", dest="holes", action="append", default=[], type=values.hole, metavar="HOLE=N",
                   help="fill a hole, as in --set tm=64")
