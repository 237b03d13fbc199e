"""The report of a compile as a folder: index.html, report.json with the same figures, and pictures of the timelines that take the most."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from aoec.base.errors import BackendError
from aoec.base.files.files import reason, write_text
from aoec.ir.text.show import show
from aoec.jobs.compile.compiled_model import Choice, Made
from aoec.jobs.compile.structure import structure_of
from aoec.jobs.stages import manifest
from aoec.jobs.stages.roofline import roofline
from aoec.jobs.stages.timeline import View, observe
from aoec.jobs.tune.story import Story, recall_story
from aoec.jobs.version import model_version
from aoec.report.page import About, Detail, as_json, facts, pages
from aoec.report.pictures.plots import STRIP, strips
from aoec.report.pictures.svg import picture
from aoec.report.pictures.timeline import Core
from aoec.report.reasons import held_share, wait_words
from aoec.report.table import Report
from aoec.target.machine import Machine

PICTURE_BYTES, PICTURES_BYTES = 300_000, 3_000_000  # of one picture, and of all: those of the groups that take the most
WAITS = 4  # the longest, of each schedule


def write_report(folder: Path, made: Sequence[Made], reports: Sequence[Report], machine: Machine, beside: Mapping[str, str]) -> None:
    """Write the report into the folder. A model for several shapes has a report for each gear, in a folder of its own. `beside`: names of
    other pages in the folder, by title."""
    names = [folder_of(number, r.gear) for number, r in enumerate(reports)]
    for name, one, report in zip(names, made, reports):
        gears = {r.gear: f"../{n}/index.html" for n, r in zip(names, reports)} if report.gear else {}
        _write(folder / name, one, report, machine, gears, beside if not report.gear else {title: f"../{n}" for title, n in beside.items()})
    if reports[0].gear:
        first = f'<meta http-equiv="refresh" content="0; url={names[0]}/index.html">'
        write_text(folder / "index.html", f'<!doctype html><meta charset="utf-8">{first}<a href="{names[0]}/index.html">report</a>\n')


def folder_of(number: int, gear: str) -> str:
    """Return the name of a gear's folder. It has the gear's number where a dump names the gear by something else than a list of sizes.
    Return "." for a model without gears."""
    name = f"gear_{gear.replace(',', 'x')}"
    return "." if not gear else name if manifest.NAME.fullmatch(name) else f"gear_{number}"


def _write(folder: Path, made: Made, report: Report, machine: Machine, gears: dict[str, str], beside: Mapping[str, str]) -> None:
    """Write the report of one model into the folder. Raise BackendError where the folder cannot be made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise BackendError(f"cannot write the report to {folder}: {reason(e)}") from e
    about = About("aoec " + version("aoec"), model_version(), machine.hash, machine.clock_mhz)
    details = _details(folder, made, report, machine)
    said = facts(report, details, about, structure_of(made, machine))
    write_text(folder / "report.json", as_json(said))
    for name, text in pages(said, details, gears, beside).items():
        write_text(folder / name, text)


def _details(folder: Path, made: Made, report: Report, machine: Machine) -> dict[str, Detail]:
    """Return group -> its detail, for the first of each row of the table; pictures are written while there is room for them."""
    equal: dict[tuple[str, str], list[Choice]] = {}
    for c in made.choices:
        equal.setdefault((c.task.func_key, c.task.state_text), []).append(c)
    heavy = sorted(equal.values(), key=lambda alike: -len(alike) * alike[0].best.measure.time_us)
    out, room = {}, PICTURES_BYTES
    for number, alike in enumerate(heavy):
        detail, drawn = _detail(alike, machine, room >= 2 * PICTURE_BYTES)
        for side, text in drawn.items():
            (folder / "pictures").mkdir(exist_ok=True)
            write_text(folder / "pictures" / f"{number}-{side}.svg", text)
            room -= len(text)
        pictures = {side: f"pictures/{number}-{side}.svg" for side in drawn}
        out[alike[0].task.group.name] = replace(detail, pictures=pictures)
    return out


def _detail(alike: Sequence[Choice], machine: Machine, pictures: bool) -> tuple[Detail, dict[str, str]]:
    """Return (detail of equal groups, texts of their pictures by side)."""
    c, us = alike[0], machine.us_per_tick
    measures: dict[str, dict[str, Any]] = {}
    cores: dict[str, tuple[Core, ...]] = {}
    drawn: dict[str, str] = {}
    for side, schedule in (("default", c.default), ("tuned", c.best)):
        seen = observe(schedule.program, machine, View(state=c.task.state))
        measures[side] = _figures(seen.facts)
        cores[side] = seen.strips(STRIP).cores
        if pictures:
            drawn[side] = picture(seen.picture(), PICTURE_BYTES)
    until = max(core.end for both in cores.values() for core in both)
    story = c.solved.story or recall_story(c.solved.best)
    search = None if story is None else _search(story, c, us)
    return Detail(c.task.group.nodes, tuple(o.task.group.name for o in alike[1:]), c.solved.outcome.value, c.solved.trials,
                  {"default": show(c.default.trace), "tuned": show(c.best.trace)}, measures,
                  roofline(c.task.func, machine, measures), search, {}, {side: strips(both, until) for side, both in cores.items()},
                  until / machine.clock_mhz, _results(c)), drawn


def _results(c: Choice) -> tuple[str, ...]:
    """Return the tensors of the model that a group makes for others."""
    made = {b.name for b in c.task.func.outputs}
    return tuple(tensor for name, tensor in c.task.bindings if name in made)


def _figures(m: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the page says of one run of a schedule, out of the facts of its measure; times are modelled."""
    figures = {name: m[name] for name in ("time_us", "launch_us", "cycles", "cores", "hbm_bytes", "bound_by")}
    return {**figures, "gm_bytes": m["hbm_bytes"] + m["l2_bytes"],
            "verdict": m["verdict"]["sentence"], "advice": list(m["verdict"]["advice"]),
            "pipes": [{"pipe": pipe, "held": held_share(a)} for pipe, a in m["reasons"]["accounts"].items()],
            "waits": [{"cycles": w["cycles"], "what": wait_words(w)} for w in m["reasons"]["waits"][:WAITS]]}


def _search(story: Story, c: Choice, us: float) -> dict[str, Any]:
    """Return a story in µs; `now`: it is this run's, and else that of the run which found the schedule."""
    best = c.solved.best
    return {"now": c.solved.story is not None, "strategy": best.search, "seed": best.seed, "trials": story.trials,
            "size": story.size, "sketches": story.sketches, "candidates": dict(c.solved.candidates),
            "improvements": [{"trials": n, "us": ticks * us} for n, ticks in story.improvements],
            "best": [{"sketch": x.sketch, "structure": x.structure, "holes": dict(x.holes), "us": x.ticks * us} for x in story.leaders]}
