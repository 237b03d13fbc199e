"""ATC's own command line (`aoec atc ...`, `python -m aoec.atc`): a model is compiled from the bank, without tuning.

What becomes of each option is said, with the line of `aoec compile` that does the same, and the one for the real atc, which `--exec` runs
with a delivered bank.
"""
from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from aoec.base.errors import AoecError, CheckError
from aoec.base.files.files import check_folder, check_writable, write_bytes
from aoec.cli.vendor.aoe_models import FRAMEWORKS, as_ours, cut_model
from aoec.cli.vendor.atc_exec import chip, program, real_command, run
from aoec.cli.vendor.atc_places import Fates, Note, banks_of, need_delivered
from aoec.cli.vendor.atc_words import ONNX, SHAPES, SHORT, VALUES, WORDS
from aoec.cli.vendor.vendor_words import Options, Use, help_lines, read_options
from aoec.options.option import vendor_words
from aoec.options.shared import DEFAULT_TARGET, GearOptions
from aoec.report.deliver import LABEL

STARTED = "ATC start working now, please wait for a moment."  # and how it ends: what atc prints
DONE = "ATC run success, welcome to the next use."
FAILED = "ATC run failed, Please check the detail log, Try 'atc --help' for more information"
MODES = {"1": "aoec import MODEL.onnx -o net.graph writes a model as text", "3": "aoec tasks MODEL.onnx says what it would be compiled to",
         "5": "it reads what CANN dumps, and writes JSON", "6": "aoec run MODEL.aoec --random --json says what a compiled model takes",
         "7": "OM2 is CANN's own form", "30": "it is for nano chips, which aoec does not know"}
GEARS = vendor_words(GearOptions)  # name of an option of ATC's -> ours, with the same values
Compile = Callable[[Sequence[str]], int]


@dataclass(frozen=True)
class Job:
    """One model to compile, and where to."""

    model: Path
    output: Path


def main(words: Sequence[str], compile_: Compile, note: Note) -> int:
    """Return the exit code of ATC's command line; `compile_` runs a command of aoec's. Raise CheckError for what is not available here."""
    if not {"-h", "--help"}.isdisjoint(words):
        print(help_lines(WORDS, "aoec atc --model=model.onnx --framework=5 --soc_version=Ascend310P3 --output=model"))
        return 0
    print(STARTED, flush=True)
    try:
        given = parse(words)
        code = convert_models(given, compile_, note)
    except (AoecError, SystemExit):
        print(FAILED, flush=True)
        raise
    if "exec" not in given or code:
        print(FAILED if code else DONE, flush=True)
        return code
    return run(real_command(given), note)  # which says how it ended


def parse(words: Sequence[str]) -> Options:
    """Return name -> value of ATC's options, which may be written with one dash, and with dashes inside. Raise CheckError for what ATC
    would refuse."""
    given = read_options("atc", [_spelt(w) for w in words], WORDS, SHORT)
    for name, allowed in VALUES.items():
        if name in given and given[name] not in allowed:
            raise CheckError(f"--{name} is one of {', '.join(allowed)}, not {given[name][:40]!r}")
    return given


def _spelt(word: str) -> str:
    name, equals, value = word.partition("=")
    if not re.match("--?[A-Za-z]{2}", name):
        return word
    return "--" + name.lstrip("-").replace("-", "_") + equals + value


def convert_models(given: Options, compile_: Compile, note: Note) -> int:
    """Return the exit code of compiling what is asked for, after all that could be wrong with the rest was looked at."""
    fates: Fates = {name: (WORDS[name].use, WORDS[name].said) for name in given}
    for name, default in (("soc_version", DEFAULT_TARGET), ("framework", "5")):
        if name not in given and not (name == "framework" and "singleop" in given):
            note(f"atc: --{name}={default} is taken; atc wants it said")
            given[name] = default
    target = given["soc_version"]
    common = ["--target", target, *shapes(given), *precision(given, target, fates), *banks_of(given, fates, note)]
    if "exec" in given:
        need_delivered(given, chip(target))
        program()
    jobs = models_to_compile(given, fates)
    for name, (use, said) in fates.items():
        note(f"atc: --{name}{'=' * bool(given[name])}{given[name]}: {use.value}{(' ' if use is Use.REPLACED else ': ') * bool(said)}{said}")
    code = max(compile_one(job, common, compile_, note, len(jobs) > 1) for job in jobs)
    note(f"atc: for the real atc ({LABEL}): {real_command(given).line}")
    return code


def compile_one(job: Job, common: Sequence[str], compile_: Compile, note: Note, one_of_many: bool) -> int:
    """Compile one model, and return the exit code. Where it is one of several, an error is noted, and the others still run."""
    words = ["compile", str(job.model), *common, "-o", str(job.output)]
    note(f"atc: aoec {shlex.join(words)}")
    try:
        return compile_(words)
    except AoecError as e:
        if not one_of_many:
            raise
        note(f"atc: {job.model.stem}: {e}")
        return 2


# ---------------------------------------------------------------- what is compiled

def models_to_compile(given: Options, fates: Fates) -> list[Job]:
    """Return the models to compile, ready to be read. Raise CheckError where there are none, or where one is not available."""
    if given.get("mode", "0") != "0":
        raise CheckError(f"--mode={given['mode']} compiles nothing: {MODES[given['mode']]}")
    if ("model" in given) == ("singleop" in given):
        raise CheckError("give --model FILE.onnx, or --singleop FILE.json" + " and not both" * ("model" in given))
    if (framework := given.get("framework", "5")) != "5":
        raise CheckError(f"--framework={framework} is {FRAMEWORKS[framework]}; {ONNX}")
    return operators(given) if "singleop" in given else [model(given, fates)]


def model(given: Options, fates: Fates) -> Job:
    """Return the model that is given, or a copy that ends where --out_nodes says."""
    path = Path(given["model"])
    if path.suffix == ".om":
        raise CheckError(f"{path} is compiled already: give --model the ONNX file that it was made from")
    output = as_ours(Path(given.get("output") or path.stem))
    check_writable(output)
    if "output" in given:
        fates["output"] = Use.REPLACED, f"{output}: only atc makes a .om"
    if "out_nodes" in given:
        path = cut_model(path, given["out_nodes"], output.with_name(f"{output.stem}_out_nodes.onnx"))
        fates["out_nodes"] = Use.HONOURED, f"{path} is the model up to there"
    return Job(path, output)


def operators(given: Options) -> list[Job]:
    """Return a model for each operator of a description, written into the directory --output."""
    from aoec.frontend.vendor import singleop
    folder, jobs = Path(given.get("output") or "."), []
    described = singleop.read(given["singleop"])
    check_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for o in described:
        jobs.append(Job(folder / f"{o.label}.onnx", folder / f"{o.label}.aoec"))
        write_bytes(jobs[-1].model, singleop.model(o).SerializeToString())
    return jobs


# ---------------------------------------------------------------- how

def shapes(given: Options) -> list[str]:
    """Return the words for shapes and gears. Raise CheckError for what is no shape of an ONNX model here."""
    if given.get("input_format", "NCHW").upper() not in ("NCHW", "ND", "NCDHW"):
        raise CheckError(f"--input_format={given['input_format']}: an ONNX model says its own; images are NCHW")
    if "~" in given.get("input_shape", ""):
        raise CheckError(f"--input_shape={given['input_shape'][:80]} holds ranges; {SHAPES}")
    if len(both := [name for name in GEARS if name in given]) > 1:
        raise CheckError(f"--{both[0]} and --{both[1]} exclude each other")
    words = [w for shape in filter(None, given.get("input_shape", "").split(";")) for w in ("--input-shape", shape)]
    return [*words, *(w for name, option in GEARS.items() if name in given for w in (option, given[name]))]


def precision(given: Options, target: str, fates: Fates) -> list[str]:
    """Return the words for precision. Where ATC chooses by what its operators support, aoec takes the mode that comes to the same on the
    target: vector work has fp32 everywhere, products where the cube takes it."""
    if "precision_mode" in given and "precision_mode_v2" in given:
        raise CheckError("--precision_mode and --precision_mode_v2 exclude each other")
    name = "precision_mode_v2" if "precision_mode_v2" in given else "precision_mode"
    if name not in given:
        return ["--precision", "keep"] if "singleop" in given else []  # types are part of what an operator is
    mode = given[name]
    if mode.endswith("hif8"):
        raise CheckError(f"--{name}={mode}: no chip here calculates in hif8")
    if mode in ("allow_mix_precision_bf16", "mixed_bfloat16"):
        fates[name], mode = (Use.REPLACED, "--precision bf16, which is of all tensors"), "bf16"
    if mode in ("allow_fp32_to_fp16", "allow_fp32_to_bf16"):
        from aoec.target.machine import load
        whole = load(target).peak_ops_per_s("fp32") is not None
        if not whole and mode.endswith("bf16"):
            raise CheckError(f"--{name}={mode}: {target} has neither products of fp32 nor bf16")
        mode = "keep" if whole else "cube16"
        fates[name] = Use.REPLACED, f"--precision {mode}: {target} has {'products of fp32 too' if whole else 'fp32, but for products'}"
    return ["--precision", mode]
