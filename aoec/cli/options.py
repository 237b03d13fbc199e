"""Options that several commands share, each said once; `values.py` reads what stands behind them."""
from __future__ import annotations

import argparse
import re
import shutil
import sys
from typing import Any, NoReturn

from aoec.base.files.files import say
from aoec.base.text import nearest
from aoec.cli import values
from aoec.cli.declared import READ, declared, fills, holds_bank, reads, writes

DEFAULT_TARGET = "Ascend910B3"
CHOICE = re.compile(r"invalid choice: '([^']*)' \(choose from (.*)\)$")  # as argparse says it, with all that could be meant
WIDEST, COLUMN = 110, 30  # of help: longer lines are hard to follow; where what an option does begins
Container = argparse._ActionsContainer


class Help(argparse.HelpFormatter):
    """Help as wide as the terminal allows, with options to the left and what they do to the right."""

    def __init__(self, prog: str, **how: Any) -> None:
        super().__init__(prog, max_help_position=COLUMN, width=min(shutil.get_terminal_size().columns, WIDEST) - 2)

    def add_argument(self, action: argparse.Action) -> None:
        """Takes the action in; commands are as long as they stand, further in than options, which argparse does not count."""
        super().add_argument(action)
        if isinstance(action, argparse._SubParsersAction):
            longest = max(map(len, action.choices), default=0)
            self._action_max_length = max(self._action_max_length, self._current_indent + self._indent_increment + longest)


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are one line in the style of every other error, and that takes no abbreviations. `page`: what its help
    says to read further."""

    page = ""

    def __init__(self, *words: Any, **more: Any) -> None:
        super().__init__(*words, **{"formatter_class": Help, **more})

    def format_help(self) -> str:
        """The help, whose first line names what must be given; what may be given is listed below it."""
        self.usage = self.usage or " ".join([self.prog.replace("%", "%%"), "[options]", *self._needed()])
        return super().format_help() + (f"{READ} {self.page}\n" if self.page else "")

    def _needed(self) -> list[str]:
        """What must be given, as the line of usage has it."""
        either = {id(a): g for g in self._mutually_exclusive_groups if g.required for a in g._group_actions}
        out: list[str] = []
        for a in self._actions:
            if id(a) in either:
                words = " | ".join(f"{b.option_strings[0]} {b.metavar or ''}".strip() for b in either[id(a)]._group_actions)
                out += [f"({words})"] if f"({words})" not in out else []
            elif a.option_strings:
                out += [f"{a.option_strings[0]} {a.metavar}"] * a.required
            else:
                name = str(a.metavar or a.dest)
                more = " ..." * isinstance(a, argparse._SubParsersAction)
                out.append({"?": f"[{name}]", "+": f"{name} ..."}.get(str(a.nargs), name + more))
        return out

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """What argparse gives; what is left over is refused here, where the command and its options are known. A command that is nothing
        but a choice of others shows them where none is chosen."""
        words = sys.argv[1:] if args is None else list(args)
        if not words and self._subparsers is not None:
            self.print_help(sys.stderr)
            self.exit(2)
        if bare := next((w for w in words if not w or re.fullmatch(r"--[a-z-]+=", w)), None):
            self.error(f"{bare} says nothing behind its =; is a variable of the shell not set?")
        if "" in words:
            self.error(f"word {words.index('') + 1} behind {self.prog} is empty; is a variable of the shell not set?")
        found, rest = super().parse_known_args(words, namespace)
        found.files_of = {**getattr(found, "files_of", {}), **declared(self)}
        if unknown := [word for word in rest if word.startswith("-") and word != "-"]:
            known = [s for action in self._actions for s in action.option_strings]
            self.error(f"there is no option {unknown[0]}{nearest(unknown[0].partition('=')[0], known)}".rstrip("?"))
        if rest:
            self.error(f"{rest[0]!r} is one word too many")
        return found, rest

    def print_help(self, file: Any = None) -> None:
        """Nothing; argparse's own says nothing of what could not be written."""
        if file is None:
            say(self.format_help())
        else:
            super().print_help(file)

    def error(self, message: str) -> NoReturn:
        if found := CHOICE.search(message):
            words = [word.strip("' ") for word in found[2].split(",")]
            message = f"{message[:found.start()]}{found[1]!r} is unknown{nearest(found[1], words)}".rstrip("?")
        self.exit(2, f"aoec: error: {message}; see {self.prog} --help\n")


def model_options(p: Parser) -> Container:
    """The group of options that say what the model is."""
    g = p.add_argument_group("model")
    g.add_argument("--input-shape", action="append", default=[], type=values.input_shape, metavar="NAME:1,3,224,224",
                   help="bind the free dimensions of an input; -1 leaves one free")
    precision(g)
    ops(g)
    return g


def gears(g: Container) -> None:
    either = g.add_mutually_exclusive_group()
    either.add_argument("--dynamic-batch", type=values.batches, default=(), metavar="1,8,16",
                        help="compile for each of these batches, into one file. The batch is the first dimension of every input, where it "
                             "is free")
    either.add_argument("--dynamic-dims", type=values.dims, default=(), metavar='"1,224,224;8,448,448"',
                        help="compile for each of these lists of values, into one file. A list has a value for each -1 of --input-shape, "
                             "in order")


def ops(p: Container) -> None:
    reads(p.add_argument("--ops", action="append", default=[], metavar="FILE.op",
                   help="operators of your own, in index notation: for nodes of a custom domain, and for calls by name (docs/tutorial.md)"))


def precision(p: Container) -> None:
    p.add_argument("--precision", type=values.mode, default="fp16", metavar="MODE",
                   help="dtype of tensors: fp16, bf16, mixed, cube16, keep or fp32 (default: fp16). Sums are kept in fp32. keep: what "
                        "the model "
                        "declares. mixed: fp16, but norms, softmax, exponentials, logarithms and reductions in fp32. cube16: fp32, but "
                        "products are multiplied in fp16. ATC's names work too")
    writes(p.add_argument("--lowered", metavar="FILE.csv",
                          help="write a row for each node that gets less precision than the model declares"))


def tuning_options(p: Parser) -> None:
    p.set_defaults(uses_bank=True, results=None, embed=None, job="opat")
    g = p.add_argument_group("target and search")
    target(g)
    search_options(g, "for each group of operators", effort=True)
    g.add_argument("--until", type=values.until, default=(), metavar="gain=P,gap=P",
                   help="end the search of a group as soon as it is P %% faster than its default, or within P %% of its bound")
    g.add_argument("--metric", choices=("latency", "throughput"), default="latency", help="what to tune for (default: latency)")
    reads(g.add_argument("--only", metavar="NAMES|FILE",
                         help="tune only the groups with these nodes or types of operators (MatMul,conv_*), or "
                   "those in AOE's tune_ops_file. The others keep what they have"))
    again = g.add_mutually_exclusive_group()
    again.add_argument("--repeat", action="store_true", help="search again what the bank has already; what is faster replaces it")
    again.add_argument("--frozen", action="store_true", help="search nothing; stop with an error that names them, if groups are not in "
        "the bank")
    g.add_argument("--resume", action="store_true",
                   help="go on where the same command was broken off by Ctrl-C, a kill or a full disk. The result is that of an "
                        "undisturbed run")
    g.add_argument("--slices", type=values.slices, default="bank", metavar="auto|none|G..G/N,..",
                   help="run groups in parts, one after the other, so that what lies between them stays in L2. auto: find those that are "
                        "faster so, and keep them in the bank. g3..g12/4: from g3 to g12, in four parts. none: no slices (default: what "
                        "the bank has kept)")
    g.add_argument("--jobs", type=values.positive, metavar="N", help="processes (default: one for each core, fewer for little work)")
    g = p.add_argument_group("checks")
    g.add_argument("--verify", action=argparse.BooleanOptionalAction, default=None,
                   help="check values against the reference (default: with --tune)")
    g.add_argument("--no-host", action="store_true", help="stop with an error that names them, if nodes would run on the host")
    bank(p.add_argument_group("knowledge bank"))
    g = p.add_argument_group("what is written")
    fills(g.add_argument("--report", metavar="DIR",
                         help="write a page for any browser, DIR/index.html, and its figures as DIR/report.json"))
    fills(g.add_argument("--dump", metavar="DIR", help="write the text of every stage there"))
    g.add_argument("--json", action="store_true", help="print the result as JSON")
    writes(g.add_argument("--events", metavar="FILE|-",
                          help="write progress as lines of JSON; with - they go to standard output, and no table is "
                               "printed (docs/events.md)"))
    g.add_argument("--progress", action=argparse.BooleanOptionalAction, default=True,
                   help="a bar on a terminal, elsewhere a line every ten seconds (default)")


def embed(p: Container) -> None:
    writes(p.add_argument("--embed", metavar="FILE.onnx",
                          help="write the model there with its schedules in its metadata. A compile of that "
                   "file for the same machine takes them like those of a bank"))


def search_options(p: Container, per: str = "", effort: bool = False) -> None:
    either = p.add_mutually_exclusive_group()
    trials(either, per)
    either.add_argument("--time", dest="seconds", type=values.seconds, metavar="90s|15m|2h",
                        help="the time of all searches together, in place of a budget; each group has a share by what it may save. What "
                             "schedules, checks and files take comes on top")
    reads(either.add_argument("--counts", metavar="FILE.json", help="search as much as a run with --time did, for the same result: its "
                        "report.json (--report), summary.json (aoec tune), or what --json printed"))
    if effort:
        either.add_argument("--effort", choices=("none", "quick", "full"),
                            help="a budget in a word. none: search nothing. quick: --budget 200. full: --budget 20000 --until gap=1")
    strategy(p)
    p.add_argument("--robust", action="store_true",
                   help="of the best ten, pick the one that does best on 32 machines whose numbers vary within their confidence")


def trials(p: Container, per: str) -> None:
    p.add_argument("--budget", type=values.budget, default=("trials", 2000), metavar="N",
                   help=f"candidates that are tried{f', {per}' * bool(per)} (default: 2000). What proofs and the choice of a "
                        "default look at is counted apart")


def strategy(p: Container) -> None:
    p.add_argument("--search", choices=("portfolio", "proof", "pool", "genetic", "bayes", "annealing", "random", "exhaustive"),
                   default="portfolio", metavar="NAME",
                   help="portfolio (default), proof, pool, genetic, bayes, annealing, random or exhaustive. proof: decide the whole "
                        "space by bounds, as far as the budget reaches (docs/search.md)")
    p.add_argument("--seed", type=values.seed, default=0, metavar="N", help="same seed, same result (default: 0)")


def target(p: Container) -> None:
    reads(p.add_argument("--target", metavar="NAME|FILE.toml", help=f"the machine (default: {DEFAULT_TARGET}; aoec targets lists them)"))


def bank(p: Container) -> None:
    own_bank(p)
    base(p)


def base(p: Container) -> None:
    reads(p.add_argument("--base", metavar="FILE|DIR|none",
                         help="a second bank, or the results folder of a tuning. It is only read, and is "
                   "asked for "
                   "what the bank lacks (default: $AOEC_BASE_BANK, else the built-in one, see aoec bank list --builtin; for demo: none)"))


def own_bank(p: Container) -> None:
    holds_bank(p.add_argument("--bank", metavar="FILE",
                              help="the bank (default: $TUNE_BANK_PATH, $ASCEND_CACHE_PATH, or the user data directory)"))


def space_options(p: Parser) -> None:
    g = p.add_argument_group("the space")
    g.add_argument("--space", action="store_true",
                   help="show the space and search nothing: sketches, holes, and how many candidates each constraint leaves")
    g.add_argument("--pin", action="append", default=[], type=values.choices, metavar="HOLE=N,..",
                   help="leave a hole only these choices: --pin tm=64,128. A sketch without the hole stays as it is")
    g.add_argument("--exclude", action="append", default=[], type=values.choices, metavar="HOLE=N,..",
                   help="take these choices from a hole")
    g.add_argument("--where", action="append", default=[], metavar="CONDITION",
                   help='keep candidates that fulfil this: --where "tm*tn <= 32768 and gm*gn >= 20". A sketch that lacks one of the holes '
                        "stays as it is")
    g.add_argument("--sketch", action="append", default=[], type=values.sketch, metavar="N", help="search only this sketch")
    writes(g.add_argument("--trials", type=values.table, metavar="FILE.csv|FILE.jsonl",
                   help="write a row for each candidate: holes, status, modelled time, why it is illegal"))


STATES = ("what is in L2 at the start. cold: what another model left. previous: what a launch of the same program left. cleared: "
          "nothing, as where a profiler clears it")


def state(p: Container, default: str = "cold") -> None:
    p.add_argument("--state", choices=("cold", "previous", "cleared"), default=default, help=f"{STATES} (default: {default})")


def state_of_program(p: Container) -> None:
    """--state where one program is timed: so also by its tensors."""
    p.add_argument("--state", type=values.state, default="cold", metavar="STATE",
                   help=f"{STATES}. TENSOR=BYTES,...: so much of these tensors, oldest first, as DIR/reasons/*.json of --dump says it "
                        "(default: cold)")


def timeline_options(p: Parser) -> None:
    g = p.add_argument_group("timeline")
    writes(g.add_argument("--trace", metavar="FILE.json", help="write the timeline as a Chrome trace, for Perfetto and chrome://tracing"))
    writes(g.add_argument("--svg", metavar="FILE.svg", help="draw the timeline"))
    g.add_argument("--core", action="append", default=[], metavar="STREAM.N", help="a core to show (default: the last of each stream)")
    g.add_argument("--from", dest="start", type=values.cycles, metavar="CYCLE", help="show from here (default: beginning, middle and end)")
    g.add_argument("--to", dest="stop", type=values.cycles, metavar="CYCLE", help="show up to here")
    g.add_argument("--events", dest="most_events", type=values.events, default=100_000, metavar="N",
                   help="the most events of a core in the trace (default: 100000)")


def source(p: Container, what: str) -> None:
    reads(p.add_argument("input", metavar=what, help="a file, or - for standard input"))


def output(p: Container) -> None:
    writes(p.add_argument("-o", "--output", default="-", metavar="FILE", help="where to write (default: standard output)"))


def most_steps(p: Container) -> None:
    p.add_argument("--most-steps", type=values.steps, metavar="N", help="steps that a program may take at most: instructions, flags and "
                   "iterations of loops (default: 250 million)")


def weights(p: Container, text: str, written: bool = False) -> None:
    (writes if written else reads)(p.add_argument("--weights", metavar="FILE.npz", help=text))


def raw(p: Container) -> None:
    p.add_argument("--raw", action="store_true", help="write the text as it was made, without simplifying it")


def holes(p: Container) -> None:
    p.add_argument("--set", dest="holes", action="append", default=[], type=values.hole, metavar="HOLE=N",
                   help="fill a hole: --set tm=64")
