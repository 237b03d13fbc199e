"""The options of commands that exchange files with CANN and with devices, and of questions to a bank."""
from __future__ import annotations

from aoec.options import readers
from aoec.options.option import File, Options, argument, option, options, redeclare, switch
from aoec.options.shared import (
    STATES,
    BankOptions,
    GearOptions,
    JsonOption,
    ModelOptions,
    OutputOption,
    OwnBank,
    SeedOption,
    StateOption,
    TargetOption,
)


@options
class DeliverOptions(ModelOptions, GearOptions, TargetOption, BankOptions, JsonOption):
    """What `aoec deliver` is asked for. `tune`: trials for each product and convolution."""

    model: str | None = argument(
        "MODEL.onnx|MODEL.aoec|BANK|RESULT.json", default=None, file=File.READ,
        help="what --to writes of: a model (with the schedules that the bank has, so tune it before), a compiled model, a bank or an "
             "export of one, or the result file of gradient tuning")
    read: str | None = option(
        "--read", default=None, metavar="FILE.csv", file=File.READ, one_of="way", required=True,
        help="keep a device's op_summary_*.csv in the bank as measured times. Say which records were hit, which operators won and lost, "
             "and where model and chip differ most")
    to: str | None = option(
        "--to", default=None, metavar="DIR", file=File.NEW, one_of="way", required=True,
        help="a new or empty folder; it is written whole or not at all")
    before: str | None = option(
        "--before", default=None, metavar="FILE.csv", file=File.READ,
        help="with --read: the profile from before the delivery was applied")
    op_summary: str | None = option(
        "--op-summary", default=None, metavar="FILE.csv", file=File.READ, one_of="theirs",
        help="msprof's op_summary of this model on your device. It shows operators as your CANN has them, so that keys are exact")
    graph: str | None = option(
        "--graph", default=None, metavar="FILE", file=File.READ, one_of="theirs",
        help="the same, from a graph that your CANN dumped with DUMP_GE_GRAPH=2: ge_onnx_*_Build.pbtxt or ge_proto_*_Build.txt")
    gradient_plan: str | None = option(
        "--gradient-plan", default=None, metavar="RESULT.json", file=File.READ,
        help="add what gradient tuning found: its aoe_result_gdat_*.json, with the tuning_results_* of the run beside it. Such a file in "
             "place of a model is delivered alone")
    tune: int | None = option(
        "--tune", default=None, metavar="N", read=readers.positive,
        help="search among the schedules that a CANN tiling can express, N trials for each product and convolution (default: search "
             "nothing)")
    all: bool = switch(
        "--all", help="also write records whose tiling is modelled more than 5 % slower than the default schedule")
    soc: str | None = option(
        "--soc", default=None, metavar="NAME", help="CANN's name of the chip, for file names (default: the target's)")


@options
class CalibrateOptions(TargetOption, StateOption, SeedOption, BankOptions, JsonOption):
    """What `aoec calibrate` is asked for."""

    read: str = option("--read", required=True, metavar="FILE.csv", file=File.READ, help="op_summary_*.csv of msprof; - is standard input")
    output: str = option(
        "-o", "--output", required=True, metavar="FILE.toml", file=File.WRITTEN, help="the machine file, for --target")
    schedule: str = option(
        "--schedule", default="default", choices=("default", "bank"),
        help="what is taken to have run: aoec's default schedules, or those of the bank, as after a delivery (default: default)")
    state: str = redeclare(StateOption, "state", default="previous", help=f"{STATES} (default: previous)")
    seed: int = redeclare(SeedOption, "seed", help="decides which operators are held out (default: 0)")


@options
class BankAction(OwnBank, JsonOption, OutputOption):
    """What all actions of `aoec bank` have. `target`: the name of a machine, or the file of one."""

    title = ""
    target: str | None = option("--target", default=None, metavar="NAME", help="records of this machine only")


@options
class BuiltinOption(Options):
    builtin: bool = switch("--builtin", help="of the schedules that come with aoec, in place of the bank")


@options
class WhichOptions(BankAction, BankOptions, ModelOptions):
    """What `aoec bank which` is asked for."""

    subject: str = argument("KEY|MODEL", file=File.READ,
                            help="the beginning of a record's key, as list shows it; or an ONNX or compiled model")


@options
class CheckOptions(JsonOption):
    """What `aoec check` is asked for. `limit`: seconds for the verifier."""

    input: str = argument("G.mlir", file=File.READ, help="an HIVM text, such as aoec emit --as hivm writes; - is standard input")
    python: str = option(
        "--check-python", required=True, metavar="PYTHON|DIR", file=File.READ,
        help="a Python interpreter whose environment has the wheel ascendnpu-ir, or the folder of that environment (make vendor-check "
             "makes .vendor)")
    limit: float = option("--time", default=30.0, metavar="90s|15m|2h", read=readers.seconds,
                          help="the most time that the verifier may take (default: 30s)")
