"""Run of a compiled model on a device of this computer (`aoec run model.aoec --on npu`): its outputs and measured times."""
from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from aoec.artifact.artifact import load_gears
from aoec.base.files import arrays
from aoec.base.files.files import note, write_text
from aoec.base.text import plural
from aoec.jobs.npu.against import GroupWatch, differ_outputs
from aoec.jobs.npu.device_runner import DeviceRunner
from aoec.jobs.npu.open_board import kernel_machine, open_board
from aoec.jobs.npu.said import device_words, difference_facts, place_words, say_difference
from aoec.jobs.run.execute import check_feeds, run_model
from aoec.jobs.run.run import check_programs, facts_of, machine_of, modelled_line, output_line, plain_arrays, read_feeds
from aoec.options.func import RunOptions

HOW = "by this computer's clock, from the first launch of a row to the end of the wait for it; launches and messages are in it"
SHOWN = 6  # groups on this computer in a line


def run_on_device(options: RunOptions) -> int:
    """Return 0, or 1 where --check finds values that differ; outputs are written where -o says, and what they are is printed.

    NpuError where there is no device, or where a kernel or the device fails; nothing is written then.
    """
    assert options.device is not None
    gears = load_gears(options.model)
    aside = check_programs(gears, options.model)
    machine = kernel_machine(gears[0], machine_of(gears[0], options.model)[0])
    artifact, feeds = read_feeds(gears, options)
    check_feeds(artifact.inputs, feeds)
    if aside:
        note(f"note: {aside}")
    with open_board(options.device, machine) as opened:
        runner = DeviceRunner(artifact, opened.board, machine, opened.release, options.limit).ready()
        outputs, times = repeat_runs(runner, feeds, options.runs)
        facts = {**facts_of(artifact, outputs), **opened.facts, **runner_facts(runner), "measured": times}
        if options.check:
            facts["check"] = check_run(runner, feeds, outputs, options.check == "groups")
    if aside:
        facts["note"] = aside
    if options.output:
        arrays.save(options.output, plain_arrays(outputs))
    write_text("-", json.dumps(facts, indent=2) + "\n" if options.json else lines(facts, options))
    return int(bool(options.check) and facts["check"]["wrong"])


def repeat_runs(runner: DeviceRunner, feeds: Mapping[str, Any], count: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return (the outputs of the last of so many runs, what was measured): the least of each figure where there are several runs."""
    spent = []
    for _ in range(count):
        outputs = runner.run(feeds)
        spent.append(runner.spent)
    least = {f"{what}_us": round(1e6 * min(getattr(s, f"{what}_s") for s in spent), 1) for what in ("launches", "copies", "host")}
    return outputs, {"kind": "measured", "how": HOW, "runs": count, "rows": spent[-1].rows, **least}


def runner_facts(runner: DeviceRunner) -> dict[str, Any]:
    """Return what of a model runs where."""
    calls, host = runner.plan.calls, runner.plan.on_host
    return {"launches": len(calls), "kernels": len({c.written.binary for c in calls}),
            "on_host": [{"group": s.compiled.group, "label": s.compiled.label, "why": s.why or "it is the host's in this model"}
                        for s in host],
            "arena_bytes": runner.plan.arena_bytes, "constants_bytes": runner.plan.constants_bytes}


def check_run(runner: DeviceRunner, feeds: Mapping[str, Any], outputs: Mapping[str, Any], groups: bool) -> dict[str, Any]:
    """Return what differs from the model machine: outputs, and on request each group on what it read, in a further run."""
    found = differ_outputs(runner.artifact, outputs, run_model(runner.artifact, feeds))
    out: dict[str, Any] = {"outputs": [difference_facts(d) for d in found], "wrong": any(d.wrong for d in found)}
    if groups:
        watch = GroupWatch(runner.tensors)
        runner.watch = watch
        runner.run(feeds)
        out["groups"] = watch.seen
        out["largest_of_groups"] = watch.worst and difference_facts(watch.worst)
        if watch.first:
            compiled, d = watch.first
            out |= {"first": {"group": compiled.group, "label": compiled.label, **difference_facts(d)}, "wrong": True}
    return out


def lines(facts: Mapping[str, Any], options: RunOptions) -> str:
    """Return the facts for people."""
    out = [output_line(name, s) for name, s in facts["outputs"].items()]
    out.append(f"ran on {facts['device']}, {place_words(facts)}: {facts['launches']:,} launches of {plural(facts['kernels'], 'kernel')}")
    out += host_lines(facts["on_host"])
    m = facts["measured"]
    least = f"; the least of {m['runs']} runs" if m["runs"] > 1 else ""
    out.append(f"measured on {device_words(facts)}: {m['launches_us']:,.1f} µs of launches, {m['copies_us']:,.1f} µs of copies, "
               f"{m['host_us']:,.1f} µs of groups on this computer ({HOW}{least})")
    out += modelled_line(facts)
    if options.check:
        out += check_lines(facts["check"])
    return "\n".join([*out, *([f"wrote {options.output}"] if options.output else [])]) + "\n"


def host_lines(on_host: Sequence[Mapping[str, str]]) -> list[str]:
    """Return what runs on this computer, and why."""
    if not on_host:
        return []
    shown = [f"{g['group']} ({g['label'] or 'no label'}): {g['why']}" for g in on_host[:SHOWN]]
    more = [f"and {plural(len(on_host) - SHOWN, 'more group')}"] if len(on_host) > SHOWN else []
    return [f"on this computer, not on the device: {plural(len(on_host), 'group')}", *[f"  {s}" for s in [*shown, *more]]]


def check_lines(check: Mapping[str, Any]) -> list[str]:
    """Return what --check found, in words."""
    of = "max|a-b| / max|b|"
    out = [f"{'wrong values' if d['wrong'] else 'values'}: {d['tensor']} differs from the model machine by {say_difference(d)}, allowed "
           f"{d['allowed']:.1e} ({of})" for d in check["outputs"]]
    if first := check.get("first"):
        out.append(f"wrong values: the first group that differs is {first['group']} ({first['label']}): {first['tensor']} by "
                   f"{say_difference(first)}, allowed {first['allowed']:.1e}")
    elif "groups" in check:
        worst = check["largest_of_groups"]
        out.append(f"groups: all {check['groups']} that were launched agree with the model machine on what they read"
                   + (f"; the largest difference is {worst['tensor']}, {say_difference(worst)}" if worst else ""))
    return out
