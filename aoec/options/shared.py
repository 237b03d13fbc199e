"""Groups of options that several commands have. Each group is said once."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from aoec.base.files import bank_place
from aoec.base.files.files import read_text
from aoec.options import readers
from aoec.options.option import File, Options, Place, argument, option, options, switch

DEFAULT_TARGET = "Ascend910B3"
STATES = ("what is in L2 at the start. cold: what another model left. previous: what a launch of the same program left. cleared: "
          "nothing, as where a profiler clears it")
STRATEGIES = ("portfolio", "proof", "pool", "genetic", "bayes", "annealing", "random", "exhaustive")


@options
class TargetOption(Options):
    target: str | None = option(
        "--target", default=None, metavar="NAME|FILE.toml", file=File.READ,
        help=f"the machine (default: {DEFAULT_TARGET}; aoec targets lists them)")


@options
class OwnOperators(Options):
    ops: Sequence[Place] = option(
        "--ops", default=(), many=True, metavar="FILE.op", file=File.READ,
        help="operators of your own, in index notation: for nodes of a custom domain, and for calls by name (docs/tutorial.md)")

    @property
    def operator_files(self) -> list[str]:
        """Return the files of the user's own operators."""
        return [str(path) for path in self.ops]


@options
class OwnRewrites(Options):
    rewrites: Sequence[Place] = option(
        "--rewrites", default=(), many=True, metavar="FILE.rules", file=File.READ,
        help="rewrites of your own for the graph: patterns, and what stands in their place. Each is tried on random graphs first "
             "(docs/rewrites.md)")

    @property
    def rewrite_files(self) -> list[str]:
        """Return the files of the user's own rewrites."""
        return [str(path) for path in self.rewrites]


@options
class ModelOptions(OwnOperators, OwnRewrites):
    """What an ONNX model is read as. `input_shape`: name of an input -> its dimensions."""

    title = "model"
    input_shape: Mapping[str, Sequence[int]] = option(
        "--input-shape", factory=dict, many=True, metavar="NAME:1,3,224,224", read=readers.input_shape,
        help="bind the free dimensions of an input; -1 leaves one free")
    precision: str = option(
        "--precision", default="fp16", metavar="MODE", read=readers.mode, vendor=("precision_mode", "precision_mode_v2"),
        help="dtype of tensors: fp16, bf16, mixed, cube16, keep or fp32 (default: fp16). Sums are kept in fp32. keep: what the model "
             "declares. mixed: fp16, but norms, softmax, exponentials, logarithms and reductions in fp32. cube16: fp32, but products are "
             "multiplied in fp16. ATC's names work too")
    lowered: Place | None = option(
        "--lowered", default=None, metavar="FILE.csv", file=File.WRITTEN,
        help="write a row for each node that gets less precision than the model declares")

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return name of an input -> its dimensions."""
        return {name: tuple(dims) for name, dims in self.input_shape.items()}


@options
class GearOptions(Options):
    title = "model"
    dynamic_batch: Sequence[int] = option(
        "--dynamic-batch", default=(), metavar="1,8,16", read=readers.batches, one_of="gears", vendor=("dynamic_batch_size",),
        help="compile for each of these batches, into one file. The batch is the first dimension of every input, where it is free")
    dynamic_dims: Sequence[Sequence[int]] = option(
        "--dynamic-dims", default=(), metavar='"1,224,224;8,448,448"', read=readers.dims, one_of="gears",
        vendor=("dynamic_dims", "dynamic_image_size"),
        help="compile for each of these lists of values, into one file. A list has a value for each -1 of --input-shape, in order")


@options
class OwnBank(Options):
    title = "knowledge bank"
    bank: Place | None = option(
        "--bank", default=None, metavar="FILE", file=File.BANK,
        help="the bank (default: $TUNE_BANK_PATH, $ASCEND_CACHE_PATH, or the user data directory)")

    @property
    def bank_path(self) -> Path:
        """Return where the bank is, named or not."""
        return bank_place.bank_path(self.bank)


@options
class BaseBank(Options):
    title = "knowledge bank"
    base: str | None = option(
        "--base", default=None, metavar="FILE|DIR|none", file=File.READ,
        help="a second bank, or the results folder of a tuning. It is only read, and is asked for what the bank lacks (default: "
             "$AOEC_BASE_BANK, else the built-in one, see aoec bank list --builtin; for demo: none)")


@options
class BankOptions(BaseBank, OwnBank):
    """The user's bank and the one beneath it."""


@options
class SeedOption(Options):
    seed: int = option("--seed", default=0, metavar="N", read=readers.seed, help="same seed, same result (default: 0)")


@options
class StrategyOptions(SeedOption):
    search: str = option(
        "--search", default="portfolio", metavar="NAME", choices=STRATEGIES,
        help="portfolio (default), proof, pool, genetic, bayes, annealing, random or exhaustive. proof: decide the whole space by bounds, "
             "as far as the budget reaches (docs/search.md)")


@options
class BudgetOption(Options):
    budget: int = option(
        "--budget", default=2000, metavar="N", read=readers.budget, one_of="effort",
        help="candidates that are tried, for each group of operators (default: 2000). What proofs and the choice of a default look at is "
             "counted apart")


@options
class TimeOptions(Options):
    """A time for all searches, or what a run with one searched."""

    seconds: float | None = option(
        "--time", default=None, metavar="90s|15m|2h", read=readers.seconds, one_of="effort",
        help="the time of all searches together, in place of a budget; each group has a share by what it may save. What schedules, checks "
             "and files take comes on top")
    counts: Place | None = option(
        "--counts", default=None, metavar="FILE.json", file=File.READ, one_of="effort",
        help="search as much as a run with --time did, for the same result: its report.json (--report), summary.json (aoec tune), or "
             "what --json printed")


@options
class RobustOption(Options):
    robust: bool = switch(
        "--robust", help="of the best ten, pick the one that does best on 32 machines whose numbers vary within their confidence")


@options
class WithinOption(Options):
    within: bool = switch(
        "--within", help="show how far each modelled time may be off: nine in ten of 32 machines whose numbers vary within their "
                         "confidence, and for small kernels what published ones took")


@options
class SearchEffort(BudgetOption, TimeOptions, StrategyOptions, RobustOption):
    """How schedules are searched, and how much."""

    title = "search"


@options
class HoleOptions(Options):
    holes: Mapping[str, int] = option(
        "--set", factory=dict, many=True, metavar="HOLE=N", read=readers.hole, help="fill a hole: --set tm=64")


@options
class StateOption(Options):
    state: str = option("--state", default="cold", choices=("cold", "previous", "cleared"), help=f"{STATES} (default: cold)")


@options
class ProgramState(Options):
    """The memory state of one program, which may be told by its tensors."""

    state: str = option(
        "--state", default="cold", metavar="STATE", read=readers.state,
        help=f"{STATES}. TENSOR=BYTES,...: so much of these tensors, oldest first, as DIR/reasons/*.json of --dump says it (default: cold)")


@options
class StepLimit(Options):
    most_steps: int | None = option(
        "--most-steps", default=None, metavar="N", read=readers.steps,
        help="steps that a program may take at most: instructions, flags and iterations of loops (default: 250 million)")


@options
class RawText(Options):
    raw: bool = switch("--raw", help="write the text as it was made, without simplifying it")


@options
class JsonOption(Options):
    json: bool = switch("--json", help="print as JSON")


@options
class OutputOption(Options):
    output: str = option(
        "-o", "--output", default="-", metavar="FILE", file=File.WRITTEN, help="where to write (default: standard output)")


@options
class OneInput(Options):
    """A command that works on one text. `input`: its file, - for standard input."""

    input: str = argument("FILE", file=File.READ, help="a file, or - for standard input")

    @property
    def text(self) -> str:
        """Return the text of the input."""
        return read_text(self.input)
