"""Reads result files of aoec, and of AOE in every release. It shows the outcome of each job, and several jobs side by side.

AOE has written three forms ("tuning results" of its guides). Since CANN 7 the file is a list, in which `repo_modified_operators` is a list
of operators with their kinds of tuning. Before that it was an object of `add_repo_operators` and `update_repo_operators`. For single
operators, CANN 6.0 wrote an object of such reports by `report_<time>_<thread>`, whose field names have tune_ in place of tuning_.
Subgraph tuning (`SGAT`) has the older form, with times in ms and a `repo_key` as the name. A published sample lacks a comma, so files
that lack it are read too.
"""
from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from aoec.base.errors import CheckError
from aoec.base.files.files import read_json
from aoec.report.reasons import table

COMMAS = 8  # that may lack
MOST_FILES = 100  # of a folder
NAME_LIMIT = 200  # characters of what a file calls something
JOBS = {"OPAT": "operators", "SGAT": "subgraphs", "GDAT": "gradients"}
COUNTERS = {**{name: f"repo_{name}_num" for name in ("add", "update", "reserved", "unsatisfied", "hit")}, "total": "total_num"}
SHARES = ("default_us", "after_opat_us", "after_sgat_us", "opat_gain_us", "sgat_gain_us", "gain_us", "opat_share", "sgat_share")
UNIT_US = {"us": 1.0, "ms": 1e3}
HEADS = ("operator", "kind", "before, µs", "after, µs", "times as fast", "bank")
Fields = Mapping[str, Any]


@dataclass(frozen=True)
class Entry:
    """What a bank took up of one operator or subgraph; `mode`: add or update. Times are None where a file, which may be abbreviated, says
    none."""

    name: str
    types: tuple[str, ...]
    kind: str
    before_us: float | None
    after_us: float | None
    mode: str


@dataclass(frozen=True)
class Job:
    """One tuning job as a file tells it. `job`: opat, sgat, gdat, or "" where nothing could be tuned; what is None or empty is not said.

    `times`: "modelled" where the file says so; AOE's own say nothing."""

    source: str
    name: str
    job: str = ""
    status: str = ""
    times: str = ""
    seconds: float | None = None
    baseline_ms: float | None = None
    result_ms: float | None = None
    entries: tuple[Entry, ...] = ()
    counters: Mapping[str, int] = field(default_factory=dict)
    failed: tuple[str, ...] = ()
    shares: Mapping[str, Any] = field(default_factory=dict)  # of aoec's own files: what of the compiled model's gain is whose


# ---------------------------------------------------------------- reading

def files_of(path: str) -> list[str]:
    """Return the result files that a path says: itself, or where it is a folder those in it, oldest first, or of a folder that aoec tune
    wrote the one that its summary names. CheckError of a folder without any."""
    folder = Path(path)
    if not folder.is_dir():
        return [path]
    found = sorted(map(str, folder.glob("aoe_result_*.json")))
    if (folder / "summary.json").is_file():
        said = read_json(folder / "summary.json")
        named = said.get("result_file") if isinstance(said, dict) else None
        found += [str(folder.parent / named)] if isinstance(named, str) and Path(named).name == named else []
    if not found:
        raise CheckError(f"{path} is a folder without result files of tuning: aoe_result_*.json")
    return found[:MOST_FILES]


def jobs(text: str, source: str) -> list[Job]:
    """Return the jobs of a result file. Raise CheckError where it is none."""
    said = lenient(text, source)
    try:
        found = [job(report, source) for report in (said.values() if isinstance(said, dict) else [said])]
    except (TypeError, ValueError, LookupError, AttributeError, OverflowError, RuntimeError):
        found = []
    if not found:
        raise CheckError(f"{source} is no result file of tuning, which is a list of an object `basic` and an object {', '.join(JOBS)}")
    return found


def lenient(text: str, source: str) -> Any:
    """Return the value of JSON text that may lack a few commas. Raise CheckError where it is not JSON."""
    for _ in range(COMMAS + 1):
        try:
            return json.loads(text)
        except RecursionError:
            break
        except json.JSONDecodeError as e:
            if not e.msg.startswith("Expecting ',' delimiter") or e.pos >= len(text):
                break
            text = f"{text[:e.pos]},{text[e.pos:]}"
        except ValueError:  # a number of more than 4,300 digits
            break
    raise CheckError(f"{source} is not JSON")


def job(report: Sequence[Fields], source: str) -> Job:
    """Return a job of a list of objects; where it is of another form an error that `jobs` knows."""
    said = {name: value for part in report for name, value in part.items()}
    kind = next((k for k in JOBS if k in said), "")
    of: Fields = said[kind] if kind else {}
    counted = of.get("repo_summary", said.get("repo_summary", {}))  # CANN 6.2 closes OPAT before it
    status = of.get("gdat_tuning_result") or either(of, "opat_tuning_result", "opat_tune_result", "")
    return Job(source, word(said["basic"]["tuning_name"]), kind.lower(), word(status),
               word(of.get("times", "")), number(said["basic"].get("tuning_time(s)")), number(of.get("model_baseline_performance(ms)")),
               number(of.get("model_result_performance(ms)")), tuple(entries(of.get(f"repo_modified_{JOBS[kind]}", ()))) if kind else (),
               {name: int(counted[at]) for name, at in COUNTERS.items() if at in counted},
               tuple(map(word, either(of, "tuning_failed_operators", "tune_failed_operators", ()))), shares(of.get("shares", {})))


def shares(said: Fields) -> dict[str, Any]:
    """Return the shares of a file. Return {} where it has none."""
    return {"metric": word(said["metric"]), **{name: number(said[name]) for name in SHARES}} if said else {}


def entries(modified: Any) -> Iterator[Entry]:
    """Yield what a bank took up, in either form."""
    if isinstance(modified, list):
        for item in modified:
            for kind, figures in item["tune_performance"].items():
                yield entry(item, word(kind), figures, word(figures["update_mode"]))
        return
    for name, items in dict(modified).items():
        mode = name.partition("_")[0]
        if mode not in ("add", "update"):
            raise ValueError(name)
        for item in items:
            yield entry(item, "", item, mode)


def entry(item: Fields, kind: str, figures: Fields, mode: str) -> Entry:
    """Return an entry. `item` names the operator, `figures` has its times."""
    types = item.get("op_type", ())
    before, after = (next((number(figures[at]) * us for unit, us in UNIT_US.items()
                           if (at := f"performance_{when}_tune({unit})") in figures), None) for when in ("before", "after"))
    return Entry(word(either(item, "op_name", "repo_key", None)), (word(types),) if isinstance(types, str) else tuple(map(word, types)),
                 kind, before, after, mode)


def either(of: Fields, name: str, other: str, default: Any) -> Any:
    """Return a field by one of two names."""
    return of.get(name, of.get(other, default))


def word(said: Any) -> str:
    """Return a text as it may be shown: a file from outside may hold what a terminal obeys."""
    if not isinstance(said, str):
        raise TypeError(said)
    return "".join(c if c.isprintable() else "?" for c in said[:NAME_LIMIT])


def number(said: Any) -> Any:
    """Return a number as it is, or None for none. Raise TypeError for anything else."""
    if said is not None and (isinstance(said, bool) or not isinstance(said, (int, float)) or not math.isfinite(said)):
        raise TypeError(said)
    return said


# ---------------------------------------------------------------- for people and programs

def facts(found: Sequence[Job]) -> list[dict[str, Any]]:
    """Return the jobs as plain values."""
    return [asdict(j) for j in found]


def show(found: Sequence[Job]) -> str:
    """Return each job with a line for each operator; of several jobs also what they have side by side."""
    if len(found) == 1:
        return one(found[0])
    return "\n".join([*(f"{i}: {one(j)}" for i, j in enumerate(found, 1)), side_by_side(found)])


def one(j: Job) -> str:
    """Return a job in words, and its operators."""
    lines = [f"{j.name} ({j.job or 'nothing to tune'}; {j.source})", f"  {outcome(j)}"]
    if j.counters:
        lines.append("  " + ", ".join(f"{name} {n}" for name, n in j.counters.items()))
    if j.shares.get("opat_share") is not None:
        lines.append("  {metric} of the compiled model: {default_us:,.3f} -> {after_opat_us:,.3f} µs by operators (opat, {opat_share:.1%} "
                     "of the gain) -> {after_sgat_us:,.3f} by layouts and slices (sgat, {sgat_share:.1%})".format(**j.shares))
    if j.failed:
        lines.append(f"  failed: {', '.join(j.failed)}")
    rows = [(e.name, e.kind or "-", us(e.before_us), us(e.after_us), times(e.before_us, e.after_us), e.mode) for e in j.entries]
    return "\n".join([*lines, *(f"  {line}" for line in (table(HEADS, rows) if rows else ()))]) + "\n"


def outcome(j: Job) -> str:
    """Return how a job ended, and what the model takes."""
    said = [j.status or "no status", *([f"{j.seconds:,.1f} s"] if j.seconds is not None else [])]
    if j.baseline_ms is not None and j.result_ms is not None:
        said.append(f"model {j.baseline_ms:,.6g} -> {j.result_ms:,.6g} ms, {times(j.baseline_ms, j.result_ms)} times as fast")
    return ", ".join(said) + f"; times are {j.times or 'not labelled, as in files of AOE, which measures them'}"


def us(time_us: float | None) -> str:
    """Return a time as the table has it."""
    return "-" if time_us is None else f"{time_us:,.3f}"


def times(before: float | None, after: float | None) -> str:
    """Return how many times as fast."""
    return f"{before / after:.3f}" if after and before is not None else "-"


def side_by_side(found: Sequence[Job]) -> str:
    """Return times after tuning of whole models, and of the operators that more than one file has. Each file has a column."""
    keys = dict.fromkeys((e.name, e.kind) for j in found for e in j.entries)
    after = [{(e.name, e.kind): e.after_us for e in j.entries} for j in found]
    shared = [k for k in keys if sum(k in a for a in after) > 1]
    rows = [("model, ms", *("-" if j.result_ms is None else f"{j.result_ms:,.6g}" for j in found))]
    rows += [(" ".join(filter(None, k)) + ", µs", *(us(a.get(k)) for a in after)) for k in shared]
    heads = ("", *(f"{i}: {j.name}" for i, j in enumerate(found, 1)))
    return "\n".join(["after tuning", *(f"  {line}" for line in table(heads, rows))]) + "\n"
