"""AOE's own command line (`aoec aoe ...`, `python -m aoec.aoe`): its options become those of `aoec tune`, which is said, and its places,
names and closing lines are kept. Nothing is written under a name that CANN would read."""
from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from aoec.base.errors import AoecError, CheckError
from aoec.base.files.files import read_json, read_text
from aoec.cli.vendor.aoe_models import Asked, Note, asked_for
from aoec.cli.vendor.aoe_places import bank_words, environment, ini, work_folder
from aoec.cli.vendor.aoe_words import SHORT, WORDS, Use
from aoec.cli.vendor.vendor_words import Options, help_lines, read_options
from aoec.jobs import kinds
from aoec.options.compile import TuneOptions
from aoec.options.option import vendor_words
from aoec.report.reasons import table
from aoec.report.results.opat import improvement
from aoec.report.results.results import Job, jobs

JOBS = {**{kinds.load(name).number: name for name in kinds.names()}, "3": "gdat"}
NAMES = {name: kinds.load(name).title for name in kinds.names()}
MODE = "AOE_MODE"  # the variable by which AOE's adapters are told the job
OF_GRADIENTS = {"loss_name": "--loss", "system": "--system", "hccl_test": "--hccl-test"}  # option -> that of aoec tune, with the same value
SEARCHES = {"bayesian": "bayes", "bayes": "bayes", "genetic": "genetic", "ga": "genetic", "random": "random", "rl": "portfolio"}
LEVELS = {"O1": 10_000, "O2": 2_000}  # trials an operator: O1 is documented to take several times as long
DEEPER = 20_000  # --Fdeeper_opat
SAME = vendor_words(TuneOptions)  # name of an option of AOE's -> ours, with the same values
Tune = Callable[[Sequence[str]], int]


def main(words: Sequence[str], tune: Tune, note: Note) -> int:
    """Return the exit code of AOE's command line; `tune` runs a command of aoec's. Raise CheckError for what is not available here."""
    given = parse(words)
    if "help" in given:
        return told_help()
    for name in given:
        if WORDS[name].use is Use.NOTED:
            note(f"aoe: --{name} changes nothing: {WORDS[name].said}")
    job = job_of(given, note)
    said, now = ini(note), datetime.now()
    common = ["--job", job, *translate_options(given, note, job), *bank_words(given.get("base_result")), *environment(said, note)]
    work = work_folder(said)
    wanted = asked_for(given, work, f"{now:%Y%m%d%H%M%S}{now.microsecond // 1000:03d}", note)
    if len(wanted) == 1:
        return tune_model(wanted[0], common, work, tune, note)[0]
    ended = [(asked, *one_of_many(asked, common, work, tune, note)) for asked in wanted]
    print(summary([(asked.name, job) for asked, _, job in ended]))
    return max(code for _, code, _ in ended)


def one_of_many(asked: Asked, common: Sequence[str], work: Path, tune: Tune, note: Note) -> tuple[int, Job | None]:
    """Tune one of several models, as `tune_model` does. Where that fails, note the error and return 2, so that the others still run."""
    try:
        return tune_model(asked, common, work, tune, note)
    except AoecError as e:
        note(f"aoe: {asked.name}: {e}")
        return 2, None


def tune_model(asked: Asked, common: Sequence[str], work: Path, tune: Tune, note: Note) -> tuple[int, Job | None]:
    """Return the exit code of tuning one model, and what its result file says."""
    words = ["tune", str(asked.source), *common, "--results", str(work), "-o", str(asked.result)]
    note(f"aoe: aoec {shlex.join(words)}")
    before = results_in(work)
    try:
        asked.ready()
        code = tune(words)
    finally:
        if not asked.result.exists():
            asked.tidy()
    if code not in (0, 1) or not asked.result.exists():
        return code, None
    job, = (j for path in results_in(work) - before for j in jobs(read_text(path), str(path)))
    close(asked, job)
    return code, job


def results_in(work: Path) -> set[Path]:
    """Return the result files that this process has written there."""
    return set(work.glob(f"aoe_result_[gos]*_pid{os.getpid()}.json"))


def parse(words: Sequence[str]) -> Options:
    """Return name -> value of AOE's options. Raise CheckError for an option that is unknown, without a value, or given twice."""
    return read_options("aoe", words, WORDS, SHORT)


def job_of(given: Mapping[str, str], note: Note) -> str:
    """Return the job that is asked for: opat, sgat or gdat. Raise CheckError for one that does not exist, or where none is named."""
    asked = given.get("job_type", "").lower()
    if not asked and (mode := os.environ.get(MODE)):
        asked = mode.lower()
        note(f"aoe: {MODE}={mode[:40]} says the job")
    job = JOBS.get(asked, asked)
    if job not in NAMES:
        raise CheckError("--job_type is 1 (sgat, subgraph tuning), 2 (opat, operator tuning) or 4 (gdat, gradient tuning)")
    if asked == "3":
        note("aoe: job type 3 is documented nowhere; it is taken as 4, gradient tuning")
    if job != "opat" and (of_operators := sorted({"singleop", "tune_ops_file"} & given.keys())):
        raise CheckError(f"--{of_operators[0]} is of operator tuning, --job_type=2 (some tutorials swap 1 and 2)")
    note(f"aoe: job {job}, {NAMES[job]}")
    return job


def translate_options(given: Mapping[str, str], note: Note, job: str) -> list[str]:
    """Return the words for `aoec tune` that follow from options and environment, whatever the model."""
    words = ["--target", given["soc_version"]] if "soc_version" in given else []
    for shape in filter(None, given.get("input_shape", "").split(";")):
        words += ["--input-shape", shape]
    for name, option in SAME.items():
        if given.get(name):
            words += [option, given[name]]
    if given.get("progress_bar", "on") not in ("on", "off"):
        raise CheckError(f"--progress_bar is on or off, not {given['progress_bar']}")
    if given.get("progress_bar") == "off":
        words.append("--no-progress")
    if given.get("input_format", "NCHW").upper() not in ("NCHW", "ND", "NCDHW"):
        raise CheckError(f"--input_format={given['input_format']}: an ONNX model says its own; images are NCHW")
    if "reload" in given:
        words += ["--resume"]
        if given["reload"]:
            note(f"aoe: --reload={given['reload']}: what was broken off is found in the bank, whatever folder it worked in")
    if "singleop" in given and not {"precision_mode", "precision_mode_v2"} & given.keys():
        words += ["--precision", "keep"]  # types are part of what an operator is
    return [*words, *gradient_words(given, note, job), *(effort(given, note) if job == "opat" else time_words(given, note))]


def gradient_words(given: Mapping[str, str], note: Note, job: str) -> list[str]:
    """Return the words for options of gradient tuning. For another job they change nothing, and a note says so."""
    found = [name for name in OF_GRADIENTS if name in given]
    if job != "gdat":
        for name in found:
            note(f"aoe: --{name} changes nothing: it is of gradient tuning, --job_type=4")
        return []
    return [word for name in found for word in (OF_GRADIENTS[name], given[name])]


def time_words(given: Mapping[str, str], note: Note) -> list[str]:
    """Return the words for the time of the job. Options of the search of schedules have no effect on slices, and a note says so."""
    for name in ("tune_optimization_level", "Fdeeper_opat", "config"):
        if name in given:
            note(f"aoe: --{name} changes nothing: it is of operator tuning, --job_type=2 (some tutorials swap 1 and 2)")
    return ["--time", time_limit(given)] if "tuning_time_limit" in given else []


def effort(given: Mapping[str, str], note: Note) -> list[str]:
    """Return how much is searched, and how: AOE's levels in trials, the spellings of tutorials, a JSON of theirs."""
    level = given.get("tune_optimization_level", "O2")
    if level not in LEVELS:
        raise CheckError(f"--tune_optimization_level is O1 or O2, not {level}")
    budget = str(max(LEVELS[level], DEEPER if "Fdeeper_opat" in given else 0))
    words: list[str] = []
    if "config" in given:
        said = config(given["config"], note)
        budget = said.pop("budget", budget)
        words = [word for option, value in said.items() for word in (f"--{option}", value)]
    if "tuning_time_limit" in given:
        return ["--time", time_limit(given), *words]
    return ["--budget", budget, *words]


def time_limit(given: Mapping[str, str]) -> str:
    """Return --tuning_time_limit in the form of --time: seconds of the whole job. Raise CheckError where it is no whole number."""
    if not re.fullmatch(r"[1-9][0-9]{0,6}", given["tuning_time_limit"]):
        raise CheckError("--tuning_time_limit is a whole number of seconds")
    return given["tuning_time_limit"] + "s"


def config(path: str, note: Note) -> Options:
    """Return option of `aoec tune` -> value, from a tutorial's JSON."""
    said = read_json(path)
    if not isinstance(said, dict):
        raise CheckError(f"{path} is no JSON object")
    out: Options = {}
    for name, value in said.items():
        if name == "search_algorithm" and str(value).lower() in SEARCHES:
            out["search"] = SEARCHES[str(value).lower()]
        elif name == "max_tuning_count" and type(value) is int and 0 < value < 10**9:
            out["budget"] = str(value)
        elif name == "target_metric" and value in ("latency", "throughput"):
            out["metric"] = str(value)
        elif name in ("search_algorithm", "max_tuning_count", "target_metric"):
            raise CheckError(f"{path}: {name} cannot be {str(value)[:40]!r}")
        else:
            note(f"aoe: {path}: {name[:40]} changes nothing")
    return out


def close(asked: Asked, job: Job) -> None:
    """Copy the compiled model to the wanted place. Print AOE's closing line, with the meaning of its percentage."""
    if asked.output is not None:
        shutil.copyfile(asked.result, asked.output)
    print(f"{asked.name} process finished. Performance improved by {improvement(job.baseline_ms or 0.0, job.result_ms or 0.0)}")
    gdat = job.job == "gdat"
    against = "a training step with DDP's buckets" if gdat else "a build with the bank as it was before"
    print(f"modelled, as throughput gains over {against}: no device was used")
    if job.baseline_ms == job.result_ms if gdat else not any(job.counters.get(name, 0) for name in ("add", "update")):
        print("nothing new was found in this run")
    sys.stdout.flush()


def summary(ended: Sequence[tuple[str, Job | None]]) -> str:
    """Return a line for each of several models, tuned or not, under a line of headings."""
    rows = [(name, job.status or "nothing to tune", *(f"{t:,.6g}" if t is not None else "-" for t in (job.baseline_ms, job.result_ms)),
             improvement(job.baseline_ms or 0.0, job.result_ms or 0.0)) if job else (name, "failed", "-", "-", "-") for name, job in ended]
    done = sum(job is not None for _, job in ended)
    return "\n".join(["", *table(("model", "result", "before, ms", "after, ms", "improved by"), rows),
                      f"{done} of {len(ended)} were tuned; all times are modelled"])


def told_help() -> int:
    """Print each option with its effect, and return 0."""
    print(help_lines(WORDS, "aoec aoe --job_type=2 --framework=5 --model=model.onnx --output=model"))
    return 0
