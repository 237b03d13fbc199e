"""AOE's own command line (`aoec aoe ...`, `python -m aoec.aoe`): its options become those of `aoec tune`, which is said, and its places,
names and closing lines are kept. Nothing is written under a name that CANN would read."""
from __future__ import annotations

import difflib
import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from aoec.bank.place import chosen
from aoec.base.errors import CheckError
from aoec.base.files import check_writable, read_json
from aoec.cli.aoe_words import ONNX, SHORT, WORDS, Use

JOBS = {"1": "sgat", "2": "opat", "4": "gdat", "3": "gdat"}
NAMES = {"sgat": "subgraph tuning", "opat": "operator tuning", "gdat": "gradient tuning"}
FRAMEWORKS = {"0": "Caffe", "1": "MindSpore", "3": "TensorFlow"}
SEARCHES = {"bayesian": "bayes", "bayes": "bayes", "genetic": "genetic", "ga": "genetic", "random": "random", "rl": "portfolio"}
LEVELS = {"O1": 10_000, "O2": 2_000}  # trials an operator: O1 is documented to take several times as long
DEEPER = 20_000  # --Fdeeper_opat
SAME = {"dynamic_batch_size": "--dynamic-batch", "dynamic_dims": "--dynamic-dims", "dynamic_image_size": "--dynamic-dims",
        "precision_mode": "--precision", "precision_mode_v2": "--precision", "tune_ops_file": "--only"}  # with the same values
Options = dict[str, str]
Note = Callable[[str], None]


@dataclass(frozen=True)
class Asked:
    """One model to tune: where it is, what `aoec tune` is told of it, and where AOE would put the compiled model."""

    model: Path
    words: tuple[str, ...]
    result: Path
    output: Path | None


def main(words: Sequence[str], tune: Callable[[Sequence[str]], int], note: Note) -> int:
    """The exit code of AOE's command line; `tune` runs a command of aoec's. CheckError for what is not to be had here."""
    given = parse(words)
    if "help" in given:
        return told_help()
    for name in given:
        if WORDS[name].use is Use.NOTED:
            note(f"aoe: --{name} changes nothing: {WORDS[name].said}")
    job_of(given, note)
    work = Path(os.environ.get("ASCEND_WORK_PATH") or ".")
    code = 0
    for asked in asked_for(given, work, datetime.now(), note):
        note(f"aoe: aoec {shlex.join(asked.words)}")
        asked.result.parent.mkdir(parents=True, exist_ok=True)
        code = tune(asked.words) or code
        if code in (0, 1) and asked.result.exists():
            close(asked, work, note)
    return code


def parse(words: Sequence[str]) -> Options:
    """Name -> value of AOE's options; CheckError for what is none, without a value, or given twice."""
    out: Options = {}
    left = list(words)
    while left:
        word = left.pop(0)
        name, equals, value = word[2:].partition("=") if word.startswith("--") else (SHORT.get(word, ""), "", "")
        if name not in WORDS:
            near = difflib.get_close_matches(name, WORDS, 1)
            help_ = f"did you mean --{near[0]}?" if near else "see aoec aoe --help"
            raise CheckError(f"aoe has no option {word.partition('=')[0]}; {help_}")
        if not equals and left and not left[0].startswith("-") and name != "help":
            value, equals = left.pop(0), "="
        if not equals and not WORDS[name].bare:
            raise CheckError(f"--{name} needs a value")
        if name in out:
            raise CheckError(f"--{name} is given twice")
        if WORDS[name].use is Use.REFUSED:
            raise CheckError(f"--{name} is not to be had here: {WORDS[name].said}")
        out[name] = value
    return out


def job_of(given: Mapping[str, str], note: Note) -> None:
    """Nothing, where the job is operator tuning, whose name is said; CheckError for jobs that do not exist yet, or that nobody names."""
    asked = given.get("job_type", "").lower()
    job = JOBS.get(asked, asked)
    if job not in NAMES:
        raise CheckError("--job_type is 1 (sgat, subgraph tuning), 2 (opat, operator tuning) or 4 (gdat, gradient tuning)")
    if asked == "3":
        note("aoe: job type 3 is documented nowhere; it is taken as 4, gradient tuning")
    if job != "opat":
        raise CheckError(f"job {job}, {NAMES[job]}, is not there yet; operator tuning is --job_type=2 (some tutorials swap 1 and 2)")
    note("aoe: job opat, operator tuning")


def asked_for(given: Mapping[str, str], work: Path, now: datetime, note: Note) -> list[Asked]:
    """What is to be tuned, a model or all of a directory."""
    stamp = f"{now:%Y%m%d%H%M%S}{now.microsecond // 1000:03d}"
    common = translated(given, note)
    out = []
    for model in models(given):
        result = work / "aoe_workspace" / f"{model.stem}_{stamp}" / "tunespace" / "result" / f"{model.stem}_{stamp}_tune.aoec"
        words = ("tune", str(model), "--job", "opat", *common, "--results", str(work), "-o", str(result))
        out.append(Asked(model, words, result, output_of(given, model, note)))
    return out


def models(given: Mapping[str, str]) -> list[Path]:
    """The models named; CheckError where there are none, or of another framework."""
    if ("model" in given) == ("model_path" in given):
        raise CheckError("give either --model FILE.onnx or --model_path DIRECTORY")
    framework = given.get("framework", "5")
    if framework != "5":
        raise CheckError(f"--framework={framework} is {FRAMEWORKS.get(framework, 'none of 0, 1, 3 and 5')}; {ONNX}")
    if "model" in given:
        path = Path(given["model"])
        if path.suffix == ".om":
            raise CheckError(f"{path} is compiled already: give --model the ONNX file that it was made from")
        return [path]
    folder = Path(given["model_path"])
    found = sorted(folder.glob("*.onnx")) if folder.is_dir() else []
    if not found:
        raise CheckError(f"--model_path: there are no ONNX models in {folder}" if folder.is_dir() else f"there is no directory {folder}")
    return found


def output_of(given: Mapping[str, str], model: Path, note: Note) -> Path | None:
    """Where --output wants the compiled model: never a .om, which CANN would read; a directory for many models."""
    if "output" not in given:
        return None
    path = Path(given["output"])
    if "model_path" in given:
        path = path / f"{model.stem}.aoec"
        path.parent.mkdir(parents=True, exist_ok=True)
    elif path.suffix == ".om":
        note(f"aoe: only atc makes a .om; the compiled model is {path.with_suffix('.aoec')}")
        path = path.with_suffix(".aoec")
    elif path.suffix != ".aoec":
        path = path.with_name(path.name + ".aoec")
    check_writable(path)
    return path


def translated(given: Mapping[str, str], note: Note) -> list[str]:
    """The words for `aoec tune` that follow from options and environment, whatever the model."""
    words = ["--target", given["soc_version"]] if "soc_version" in given else []
    for shape in filter(None, given.get("input_shape", "").strip('"').split(";")):
        words += ["--input-shape", shape]
    for name, option in SAME.items():
        if given.get(name):
            words += [option, given[name].strip('"')]
    if given.get("input_format", "NCHW").upper() not in ("NCHW", "ND", "NCDHW"):
        raise CheckError(f"--input_format={given['input_format']}: an ONNX model says its own; images are NCHW")
    return [*words, *effort(given, note), *bank_words(given), *environment(note)]


def effort(given: Mapping[str, str], note: Note) -> list[str]:
    """How much is searched, and how: AOE's levels in trials, the spellings of tutorials, a JSON of theirs."""
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
        if not re.fullmatch(r"[1-9][0-9]{0,6}", given["tuning_time_limit"]):
            raise CheckError("--tuning_time_limit is a whole number of seconds")
        budget = given["tuning_time_limit"] + "s"
        note(f"aoe: --tuning_time_limit is taken for each operator (--budget {budget})")
    return ["--budget", budget, *words]


def config(path: str, note: Note) -> Options:
    """Option of `aoec tune` -> value, of a tutorial's JSON."""
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


def bank_words(given: Mapping[str, str]) -> list[str]:
    """Where the bank is: --base_result, else where aoec's own commands look for it; AOE asks for a directory in $TUNE_BANK_PATH."""
    root = os.environ.get("TUNE_BANK_PATH")
    if root and "base_result" not in given and not (Path(root).is_dir() and os.access(root, os.R_OK | os.W_OK | os.X_OK)):
        raise CheckError(f"TUNE_BANK_PATH={root} must be a directory that can be read and written")
    return ["--bank", str(chosen(given.get("base_result")))]


def environment(note: Note) -> list[str]:
    """What other variables of AOE's ask for."""
    words = []
    if os.environ.get("REPEAT_TUNE", "").lower() == "true":
        words.append("--repeat")
    if count := os.environ.get("TE_PARALLEL_COMPILER"):
        if not re.fullmatch(r"[1-9]|[12][0-9]|3[0-2]", count):
            raise CheckError(f"TE_PARALLEL_COMPILER={count} is not from 1 to 32")
        words += ["--jobs", str(min(int(count), os.cpu_count() or 1))]
    if "ASCEND_DEVICE_ID" in os.environ:
        note("aoe: ASCEND_DEVICE_ID changes nothing: no device is used, times are modelled")
    return words


def close(asked: Asked, work: Path, note: Note) -> None:
    """Nothing; the compiled model is where it was wanted, and AOE's closing line is said, with what the percentage is."""
    if asked.output is not None:
        shutil.copyfile(asked.result, asked.output)
    found = max(work.glob(f"aoe_result_opat_*_pid{os.getpid()}.json"), default=None)
    said = json.loads(found.read_text())[1:] if found else []
    gain = said[0]["OPAT"]["model_performance_improvement"] if said else "0.00%"
    print(f"{asked.model.stem} process finished. Performance improved by {gain}")
    print("modelled, as throughput gains: no device was used")
    sys.stdout.flush()


def told_help() -> int:
    """0, after each option was listed with what becomes of it."""
    for w in WORDS.values():
        print(f"--{w.name:28}{w.use.value}{': ' + w.said if w.said else ''}")
    print("\nexample: aoec aoe --job_type=2 --framework=5 --model=model.onnx --output=model")
    return 0
