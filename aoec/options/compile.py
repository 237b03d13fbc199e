"""The options of commands that compile or tune models: compile, tune, demo, and what `tasks` says of them."""
from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Union

from aoec.base import regions
from aoec.base.errors import CheckError
from aoec.base.files.bank_place import check_base
from aoec.base.files.files import check_file
from aoec.base.regions import Slices
from aoec.options import readers
from aoec.options.gdat import GradientOptions
from aoec.options.option import File, Options, Place, argument, option, options, redeclare, switch
from aoec.options.shared import (
    BankOptions,
    BudgetOption,
    GearOptions,
    JsonOption,
    ModelOptions,
    OutputOption,
    SearchEffort,
    TargetOption,
    WithinOption,
)
from aoec.options.training import TrainingOptions

if TYPE_CHECKING:
    from onnx import ModelProto

STAGES = ("import", "plan", "fuse", "lower", "schedule", "emit")  # of a dump, in order
QUICK, FULL = 200, 20_000  # trials of --effort
FULL_GAP = 1.0  # per cent of the bound at which --effort full ends


@options
class ModelTuning(Options):
    """How the search of a model differs from that of one func. `until`: "gain" or "gap" -> per cent."""

    effort: str | None = option(
        "--effort", default=None, choices=("none", "quick", "full"), one_of="effort",
        help=f"a budget in a word. none: search nothing. quick: --budget {QUICK}. full: --budget {FULL} --until gap={FULL_GAP:g}")
    until: Mapping[str, float] = option(
        "--until", factory=dict, metavar="gain=P,gap=P", read=readers.until,
        help="end the search of a group as soon as it is P % faster than its default, or within P % of its bound")
    metric: str = option("--metric", default="latency", choices=("latency", "throughput"), help="what to tune for (default: latency)")
    only: Place | None = option(
        "--only", default=None, metavar="NAMES|FILE", file=File.READ, vendor=("tune_ops_file",),
        help="tune only the groups with these nodes or types of operators (MatMul,conv_*), or those in AOE's tune_ops_file. The others "
             "keep what they have")
    repeat: bool = switch(
        "--repeat", one_of="again", help="search again what the bank has already; what is faster replaces it")
    frozen: bool = switch(
        "--frozen", one_of="again", help="search nothing; stop with an error that names them, if groups are not in the bank")
    resume: bool = switch(
        "--resume", help="go on where the same command was broken off by Ctrl-C, a kill or a full disk. The result is that of an "
                         "undisturbed run")
    slices: Union[Slices, str, None] = option(
        "--slices", default=None, metavar="auto|none|bank|G..G/N,..", read=regions.parse_slices,
        help="run groups in parts, one after the other, so that what lies between them stays in L2. auto: find those that are faster so, "
             "and keep them in the bank. bank: those that the bank has kept. g3..g12/4: from g3 to g12, in four parts. none: no slices "
             "(default: auto with aoec compile --tune, else bank)")
    plans: str | None = option(
        "--plans", default=None, choices=("auto", "bank", "rules"),
        help="how the model is put together. auto: look for a faster plan than that of the rules, and keep it in the bank. bank: take "
             "what the bank has kept. rules: by the rules (default: auto with aoec compile --tune, else bank)")
    jobs: int | None = option(
        "--jobs", default=None, metavar="N", read=readers.positive, help="processes (default: one for each core, fewer for little work)")

    @property
    def slicing(self) -> Slices:
        """Return which groups are to run in slices."""
        return self.slices if isinstance(self.slices, Slices) else regions.parse_slices(self.slices or self.default_slices())

    @property
    def planning(self) -> str:
        """Return where the plan of a model comes from, in the words of --plans."""
        return self.plans or self.default_slices()

    def default_slices(self) -> str:
        """Return the default of --slices and --plans, in their words."""
        return "bank"


@options
class TuningOptions(TargetOption, SearchEffort, ModelTuning):
    """How the groups of a model are tuned."""

    title = "target and search"


@options
class CheckOptions(Options):
    title = "checks"
    verify: bool | None = switch(
        "--verify", default=None, negatable=True, help="check values against the reference (default: with --tune)")
    no_host: bool = switch("--no-host", help="stop with an error that names them, if nodes would run on the host")


@options
class WrittenOptions(WithinOption, JsonOption):
    title = "what is written"
    report: Place | None = option(
        "--report", default=None, metavar="DIR", file=File.FOLDER, with_it=("index.html", "report.json"),
        help="write a page for any browser, DIR/index.html, and its figures as DIR/report.json")
    dump: Place | None = option(
        "--dump", default=None, metavar="DIR", file=File.FOLDER, help="write the text of every stage there")
    events: Place | None = option(
        "--events", default=None, metavar="FILE|-", file=File.WRITTEN,
        help="write progress as lines of JSON; with - they go to standard output, and no table is printed (docs/events.md)")
    stock: bool | None = switch(
        "--stock", default=None, negatable=True,
        help="time the model as CANN would run it without tuning too, by its public rules (docs/stock.md; default: with --tune)")
    every: bool = switch("--all", help="print all rows of the table, and those of the stock model, not only the heaviest")
    progress: bool = switch(
        "--progress", default=True, negatable=True, help="a bar on a terminal, elsewhere a line every ten seconds (default)")


@options
class CompileOptions(ModelOptions, GearOptions, TrainingOptions, TuningOptions, CheckOptions, BankOptions, WrittenOptions):
    """What `aoec compile` and `aoec.compile` are asked for.

    `model`: a file, a folder that a dump was written to, or a model at hand. `results`: a folder for AOE's result files.
    `advice`: what is said of a model that nothing tuned, in place of what aoec's own command line says.
    """

    model: Union[str, Path, ModelProto] = argument(
        "MODEL.onnx|DIR", kw_only=False, file=File.READ, help="an ONNX model, or a folder that --dump wrote")
    output: Place | None = option(
        "-o", "--output", default=None, metavar="FILE", file=File.WRITTEN, kw_only=False,
        help="the compiled model (default: <model>.aoec in the current directory)")
    tune: bool = switch("--tune", help="search fast schedules; without it the bank and default schedules are used")
    start: str = option(
        "--from", default="import", choices=STAGES, metavar="STAGE",
        help=f"where to enter a folder that --dump wrote: {', '.join(STAGES)} (default: import)")
    plan: Place | None = option(
        "--plan", default=None, metavar="FILE", file=File.READ,
        help="put the model together as this plan says, and look for no layouts and slices. --dump writes one. An edited one is checked")
    embed: Place | None = option(
        "--embed", default=None, metavar="FILE.onnx", file=File.WRITTEN,
        help="write the model there with its schedules in its metadata. A compile of that file for the same machine takes them like those "
             "of a bank")
    results: Place | None = option(
        "--results", default=None, metavar="DIR", file=File.ADDED,
        help="write AOE's result files into this folder, and what is in the compiled model")
    advice: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.effort is not None:
            object.__setattr__(self, "tune", self.effort != "none")
        if self.effort in ("quick", "full"):
            object.__setattr__(self, "budget", QUICK if self.effort == "quick" else FULL)
        if self.effort == "full":
            object.__setattr__(self, "until", {"gap": FULL_GAP})
        if self.output is None:
            object.__setattr__(self, "output", Path(self.name).absolute().stem + ".aoec")

    @property
    def name(self) -> str:
        """Return the path of the model, or the name of one at hand."""
        return str(self.model) if isinstance(self.model, (str, Path)) else self.model.graph.name or "model"

    def default_slices(self) -> str:
        """Return "auto" where --tune decides the whole model. Return "bank" for a part of it, a plan, a dump's stage, or with --frozen."""
        whole = self.only is None and self.plan is None and self.start == "import"
        return "auto" if self.tune and whole and not self.frozen else "bank"

    @property
    def path(self) -> str:
        """Return where the compiled model is written."""
        return str(self.output)

    def check(self) -> None:
        """Raise CheckError or BankError where the request is impossible. Only names are read."""
        if self.json and self.events == "-":
            raise CheckError("--json and --events - would both write to standard output; give --events a file")
        if self.plan is not None and self.slicing != Slices(source="bank"):
            raise CheckError("--plan says which groups run in slices, and so does --slices: write them as slices lines of the plan")
        if self.plan is not None and self.start != "import":
            raise CheckError(f"--plan puts an imported model together, and --from {self.start} enters a folder behind that: leave one out; "
                             "--from plan enters the folder's own model.plan")
        if self.counts:
            check_file(self.counts, "a file of counts", pipes=True)
        check_base(self.base)

    def left_behind(self) -> str:
        if self.bank_path.exists():
            return f"schedules found so far are kept in the bank {self.bank_path}; the same command with --resume goes on from there"
        return super().left_behind()


@options
class TuneOptions(GradientOptions, CompileOptions):
    """What `aoec tune` is asked for. `job`: names of `aoec/jobs/kinds/`. The model may be left out, where a trace says what it would."""

    model: Union[str, Path, ModelProto] = redeclare(CompileOptions, "model", default="", kw_only=False)

    tune: bool = True
    results: Place | None = redeclare(
        CompileOptions, "results", default="",
        help="where aoe_result_*.json goes, and what is in the compiled model (default: $ASCEND_WORK_PATH, "
             "or here)")

    def __post_init__(self) -> None:
        if not self.model and self.output is None:
            object.__setattr__(self, "output", "")  # nothing is compiled
        super().__post_init__()

    def default_slices(self) -> str:
        """Return those of the bank: operators and subgraphs are jobs of their own, as AOE has them."""
        return "bank"


@options
class DemoOptions(CompileOptions):
    """What `aoec demo` is asked for: a ResNet-50 that is built, and tuned without the bank that knows it."""

    hidden = ("input_shape", "ops", "start", "dynamic_batch", "dynamic_dims", "embed", "plan")
    model: Union[str, Path, ModelProto] = "resnet50"
    tune: bool = True
    base: str | None = redeclare(BankOptions, "base", default="none")
    batch: int = option("--batch", default=1, metavar="N", read=readers.positive, help="images at a time (default: 1)")


@options
class TasksOptions(ModelOptions, TargetOption, BudgetOption, BankOptions, JsonOption, OutputOption):
    """What `aoec tasks` is asked for."""

    model: str = argument("MODEL.onnx", file=File.READ, help="an ONNX model")
