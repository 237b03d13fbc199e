"""`aoec calibrate` at the command line: what it is given, what it says, and when it writes nothing."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from textwrap import wrap
from typing import Any

from aoec.bank.bank import Bank
from aoec.base.text import plural
from aoec.cann.op_summary_read import Profile, read
from aoec.jobs.bank.row_funcs import Known, known_records
from aoec.jobs.bank.shelf import beneath
from aoec.jobs.calibrate.calibrate import UNFELT, UNREAD, Calibrated, Number, calibrate_machine, machine_file
from aoec.options.exchange import CalibrateOptions
from aoec.options.shared import BankOptions
from aoec.report.reasons import table
from aoec.simulate.timing.state import NAMED
from aoec.target.machine import DEFAULT, Machine, load

ASSUMED = {"default": "aoec's default schedule of each operator", "bank": "the bank's schedule of each operator, else aoec's default"}
HEADS = ("number", "before", "after", "unit", "was")
LISTED, WIDTH = 12, 120


def calibrate(options: CalibrateOptions) -> tuple[dict[str, Any], str, str, str]:
    """Return (facts, words for people, machine file, why none is to be written: "" where it is)."""
    machine = load(options.target) if options.target else load()
    profile = read(options.read)
    made = calibrate_machine(profile, machine, banks(options, machine), options.schedule == "bank", NAMED[options.state], options.seed)
    refusal = why_not(made)
    said = facts(made, machine, profile, options)
    text = "" if refusal else machine_file(made, machine, options.target or DEFAULT, profile, str(options.output))
    return said, describe_fit(made, said), text, refusal


def banks(options: BankOptions, machine: Machine) -> list[Known]:
    """Return the records of the user's bank and of the one beneath it."""
    own = Bank.open(options.bank_path, create=False, writable=False) if options.bank_path.exists() else None
    return known_records([r for shelf in (own, beneath(options.base, machine.name)) if shelf for r in shelf.list(machine.name)], machine)


def why_not(made: Calibrated) -> str:
    """Return why no machine file comes of a fit. Return "" where one does."""
    before, after = made.held_error
    if not made.holds:
        return f"the fit does not hold for operators that it has not seen: held-out error {before:.2%} before, {after:.2%} after"
    if not made.changes:
        sure = [n.place for n in made.numbers if n.outcome == "confirmed"]
        said = f"they confirm {', '.join(sure[:4])}" + " and others" * (len(sure) > 4) if sure else "they identify none"
        return f"these rows change no number of the machine: {said}"
    return ""


def facts(made: Calibrated, machine: Machine, profile: Profile, options: CalibrateOptions) -> dict[str, Any]:
    """Return all of it as plain values."""
    errors = {name: dict(zip(("before", "after"), pair)) for name, pair in (("fitted", made.fitted_error), ("held_out", made.held_error))}
    return {
        "target": machine.name, "machine_hash": machine.hash, "profile": profile.source, "sha256": profile.digest, "kind": profile.kind,
        "assumed": {"schedule": ASSUMED[options.schedule], "state": options.state}, "seed": options.seed,
        "operators": {"fitted": [s.what for s in made.fitted], "held_out": [s.what for s in made.held],
                      "without_program": [{"operator": what, "why": reason} for what, reason in made.left]},
        "mean_error": errors, "noise": made.noise, "numbers": [asdict(n) for n in made.numbers], "notes": notes(made, machine, profile),
    }


def notes(made: Calibrated, machine: Machine, profile: Profile) -> list[str]:
    """Return what may be wrong with the profile, or is not used of it."""
    most = max(kind.count for kind in machine.cores.values())
    beyond = [s for s in (*made.fitted, *made.held) if (s.timed.cores or 0) > most]
    other = [f"{beyond[0].what} ran on {beyond[0].timed.cores} cores (line {beyond[0].timed.lines[0]}), and {machine.name} has {most} of a "
             "kind: is this the profile of another chip?"] if beyond else []
    return [*other, *profile.notes]


def describe_fit(made: Calibrated, said: dict[str, Any]) -> str:
    """Return the fit for people."""
    names = {o: [n for n in made.numbers if n.outcome == o] for o in ("changed", "confirmed", "refused")}
    unread, unfelt = ([n.place for n in names["refused"] if n.why.startswith(words)] for words in (UNREAD, UNFELT))
    names["refused"] = [n for n in names["refused"] if n.place not in {*unread, *unfelt}]
    lines = [f"{said['profile']} ({said['kind']}) against {said['target']} (modelled): {plural(len(made.fitted), 'operator')} to fit to, "
             f"{len(made.held)} held out (seed {said['seed']}), {len(made.left)} without a program",
             f"taken to have run: {said['assumed']['schedule']}; in L2 before: {said['assumed']['state']}",
             *(f"mean error, {name.replace('_', ' ')}: {e['before']:.2%} before, {e['after']:.2%} after"
               for name, e in said["mean_error"].items()),
             f"noise of a time, from what the fit leaves: {made.noise:.2%}"]
    for outcome, listed in names.items():
        lines += ["", f"{outcome}: {len(listed)}", *(f"  {line}" for line in rows(listed))]
    for words, places in ((UNFELT, unfelt), (UNREAD, unread)):
        lines += ["", *wrap(f"refused, {words}: {', '.join(places)}", WIDTH, subsequent_indent="  ")] if places else []
    return "\n".join([*lines, *without(made.left)]) + "\n"


def rows(listed: Sequence[Number]) -> list[str]:
    """Return a line a number, under headings; none of none."""
    cells = [(n.place, f"{n.before:,.6g}", f"{n.after:,.6g}", n.unit, n.confidence) for n in listed]
    return [f"{line}  {why}" for line, why in zip(table(HEADS, cells), ["why", *(n.why for n in listed)])] if listed else []


def without(left: Sequence[tuple[str, str]]) -> list[str]:
    """Return the operators without a program, and why."""
    more = [f"  and {len(left) - LISTED} more"] if len(left) > LISTED else []
    return ["", f"without a program: {len(left)}", *(f"  {what}: {why}" for what, why in left[:LISTED]), *more] if left else []
