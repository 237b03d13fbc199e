"""Results of a gradient tuning job as a part of a delivery: its result file, and the files of its run. They are checked against each
other."""
from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aoec.base.errors import CheckError
from aoec.base.files.files import read_json, read_text
from aoec.cann.gradient_fusion import file_name, parse_record
from aoec.ir.training import MOST_GRADIENTS, SCHEMES, BucketPlan, StepTrace
from aoec.jobs.gdat.gradient_outputs import FOLDER as OF_RUN
from aoec.jobs.gdat.gradient_outputs import LINES, TRACE
from aoec.jobs.gdat.tell import TITLES
from aoec.jobs.gdat.trace_files import read_trace
from aoec.report.gradients.gradient_part import FOLDER, GradientPart
from aoec.report.results.folder import FOLDER as RUNS

PREFIX, PLAN, HOOK = "aoe_result_gdat_", "plan.json", "ddp_hook.py"
FORMAT = "aoec gradient plan 1"


@dataclass(frozen=True)
class Gradients:
    """The part, the chip that the job was for, and the texts of its files by name in the delivery."""

    part: GradientPart
    target: str
    texts: Mapping[str, str]


def is_result(path: str) -> bool:
    """Return whether a file is named as the result of a gradient tuning job is."""
    return Path(path).name.startswith(PREFIX) and path.endswith(".json")


def read_gradients(path: str) -> Gradients:
    """Return what the job of a result file left. Raise CheckError or BackendError where it is none, where a file of its run is not beside
    it, or where they do not belong together."""
    if not is_result(path):
        raise CheckError(f"give the result file of aoec tune --job gdat, {PREFIX}*.json", source=path)
    said = _result(read_json(path), path)
    folder = Path(path).parent / (RUNS + Path(path).name.removeprefix(PREFIX).removesuffix(".json")) / OF_RUN
    if not (folder / TRACE).is_file():
        raise CheckError(f"the files of this run are not beside it: {folder / TRACE} is missing", source=path)
    trace = read_trace(str(folder / TRACE)).trace
    plan = _plan(said["plan"], trace, path)
    record, listed = file_name(said["target"]), {TRACE: read_text(folder / TRACE), LINES: read_text(folder / LINES)}
    listed[record] = read_text(folder / record)
    held = parse_record(read_json(folder / record), str(folder / record), MOST_GRADIENTS)
    if list(held.sizes) != [g.size for g in trace.gradients]:
        raise CheckError("the record's sizes are not those of the trace", source=str(folder / record))
    if (folder / HOOK).is_file():
        listed[HOOK] = read_text(folder / HOOK)
    listed |= {Path(path).name: read_text(path), PLAN: plan_text(said, plan, trace)}
    what = {f"{FOLDER}/{name}": _what(name) for name in listed}
    return Gradients(_part(said, trace, plan, what), said["target"], {f"{FOLDER}/{name}": text for name, text in listed.items()})


def _what(name: str) -> str:
    known = {TRACE: "the sizes and ready times that the plan is for; aoec tune --job gdat --trace takes it again",
             LINES: "the lines for AOE's strategies, MindSpore and PyTorch, to copy",
             PLAN: "the buckets with the names of their gradients, for programs",
             HOOK: "a communication hook for a DDP without bucket_cap_mb_list"}
    if name.startswith(PREFIX):
        return "the result file of the job, in the form of AOE's others"
    return known.get(name, "AOE's record of sizes and times. CANN finds no model by its hash, so do not copy it into CANN's bank")


def _result(said: Any, path: str) -> dict[str, Any]:
    """Return the job of a parsed result file. Raise CheckError where it has not ended, or where a part is not as it must be."""
    of = said[-1].get("GDAT") if isinstance(said, list) and said and isinstance(said[-1], dict) else None
    if not isinstance(of, dict):
        raise CheckError("this result file says nothing of a gradient tuning that has ended", source=path)
    for place, kind in (("target", str), ("plan", dict), ("lines", dict), ("system", dict), ("other_plans", dict), ("baseline", str),
                        ("times", str), ("notes", list)):
        if not isinstance(of.get(place), kind):
            raise CheckError(f"GDAT.{place} is missing or not as aoec writes it", source=path)
    for place in ("lines", "notes"):
        texts = of[place].values() if place == "lines" else of[place]
        if not all(isinstance(t, str) for t in texts):
            raise CheckError(f"GDAT.{place} must be texts", source=path)
    if not of["target"].replace("_", "").isalnum():
        raise CheckError("GDAT.target is no name of a chip", source=path)
    return {**of, "name": _name(said[0], path)}


def _name(basic: Any, path: str) -> str:
    name = basic.get("basic", {}).get("tuning_name") if isinstance(basic, dict) and isinstance(basic.get("basic"), dict) else None
    if not isinstance(name, str):
        raise CheckError("basic.tuning_name is missing", source=path)
    return name


def _plan(said: Mapping[str, Any], trace: StepTrace, path: str) -> BucketPlan:
    ends, scheme, channels = said.get("ends"), said.get("scheme"), said.get("channels")
    if not isinstance(ends, list) or not all(type(e) is int for e in ends) or scheme not in SCHEMES or type(channels) is not int:
        raise CheckError("GDAT.plan has no ends, scheme and channels", source=path)
    plan = BucketPlan(tuple(ends), scheme, channels)
    try:
        plan.check(len(trace.gradients))
    except CheckError as e:
        raise CheckError(f"the plan is not of the trace beside it: {e.message}", source=path) from e
    return plan


def _part(said: Mapping[str, Any], trace: StepTrace, plan: BucketPlan, what: Mapping[str, str]) -> GradientPart:
    system, before = said["system"], said["other_plans"].get(said["baseline"])
    steps = [p.get("step_us") if isinstance(p, dict) else None for p in (before, said["plan"])]
    ranks = system.get("ranks")
    if not all(isinstance(us, (int, float)) and not isinstance(us, bool) for us in steps) or type(ranks) is not int:
        raise CheckError("GDAT says no step before and after, or no ranks")
    title = TITLES.get(said["baseline"], said["baseline"])
    return GradientPart(said["name"], str(system.get("title") or system.get("name")), ranks, said["times"], len(trace.gradients),
                        trace.size, title, float(steps[0] or 0.0), float(steps[1] or 0.0), len(plan.ends), plan.scheme, said["lines"], what,
                        tuple(said["notes"]))


def plan_text(said: Mapping[str, Any], plan: BucketPlan, trace: StepTrace) -> str:
    """Return the text of `plan.json`: the buckets, by the names of their gradients."""
    buckets = [{"gradients": [trace.gradients[n].name for n in numbers], "bytes": sum(trace.gradients[n].size for n in numbers)}
               for numbers in plan.ranges()]
    return json.dumps({"format": FORMAT, "model": said["name"], "scheme": plan.scheme, "channels": plan.channels, "ends": list(plan.ends),
                       "buckets": buckets}, indent=1) + "\n"
