"""The knowledge bank at the command line: list, best, show, export, import, merge."""
from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from aoec.bank.bank import Bank, statuses
from aoec.bank.builtin import built_in
from aoec.bank.claims import kept_model_plans
from aoec.bank.measurements import Measured
from aoec.bank.model_plans import ModelPlan
from aoec.bank.plans import SlicePlan
from aoec.bank.record import DEFAULT, IMPORTED, Record, flat
from aoec.base.errors import BankError
from aoec.base.ticks import TICKS_PER_CYCLE
from aoec.target.inherit import shipped_clock_mhz

Plan = SlicePlan | ModelPlan
Times = Mapping[tuple[str, str, str], Sequence[Measured]]
NOTHING: Times = {}
SHOWN_DIGITS = 16  # of a func key: enough to name a record
COLUMNS = 80
NO_PLAN = "no plan was found that is faster than that of the rules"


def measured_of(path: Path, target: str | None, key: str = "") -> tuple[Measured, ...]:
    """Return the measured times of a bank, of funcs whose key begins so; none where there is no bank."""
    return Bank.open(path, create=False, writable=False).measurements.list(target, key) if path.exists() else ()


def records_of(path: Path, target: str | None, key: str = "", builtin: bool = False) -> tuple[Record, ...]:
    """Return the records of a bank, or of the built-in ones, whose key begins so, sorted by key."""
    if builtin:
        return tuple(r for shelf in built_in() for r in shelf.list(target, key))
    return Bank.open(path, create=False, writable=False).list(target, key)


def plans_of(path: Path, target: str | None, key: str = "", builtin: bool = False) -> tuple[Plan, ...]:
    """Return the plans of slices of a bank and then its plans of models, where their key begins with `key`. The built-in banks have plans
    of models alone. Return none where there is no bank."""
    if builtin:
        return tuple(p for shelf in built_in() for p in kept_model_plans(shelf, target, key))
    bank = Bank.open(path, create=False, writable=False) if path.exists() else None
    return (*bank.plans.list(target, key), *bank.model_plans.list(target, key)) if bank else ()


def list_plans(found: Sequence[Plan]) -> str:
    """Return the plans of slices as a table, and those of models as another. Return "" where there are none."""
    cut, whole = ([p for p in found if isinstance(p, kind)] for kind in (SlicePlan, ModelPlan))
    head = f"{'key':{SHOWN_DIGITS}}  {'whole':>12} {'in slices':>12}  plans of slices: target, label: groups (us of a subgraph, modelled)\n"
    slices = head + "".join(f"{p.graph_key[:SHOWN_DIGITS]}  {p.before_ns / 1e3:12,.1f} {p.after_ns / 1e3:12,.1f}  {p.target}, {p.label}: "
                            f"{p.regions or 'nothing is faster in slices'}\n" for p in cut if isinstance(p, SlicePlan))
    return "\n".join(filter(None, (slices * bool(cut), table_of_models([p for p in whole if isinstance(p, ModelPlan)]))))


def table_of_models(found: Sequence[ModelPlan]) -> str:
    """Return the plans of models as a table of 80 columns, "" of none; a long label is cut off there."""
    if not found:
        return ""
    rows = [(p.graph_key[:SHOWN_DIGITS], f"{p.before_ns / 1e3:,.1f}", f"{p.after_ns / 1e3:,.1f}" if p.plan else "none", p.metric,
             f"{p.target}, {p.label}") for p in found]
    head = ("key", "rules", "plan", "by", "plans of models (modelled us)")
    return "".join(f"{key:{SHOWN_DIGITS}} {before:>10} {after:>10}  {metric:10} {cut_off(what, COLUMNS - SHOWN_DIGITS - 35)}\n"
                   for key, before, after, metric, what in (head, *rows))


def cut_off(text: str, width: int) -> str:
    """Return a text in so many columns."""
    return text if len(text) <= width else text[:width - 3] + "..."


def list_records(found: tuple[Record, ...], as_json: bool, plans: Sequence[Plan] = ()) -> str:
    """Return the records as a table, and plans as others; or all as JSON."""
    if as_json:
        return json.dumps([flat(r) for r in found] + [asdict(p) for p in plans], indent=2) + "\n"
    return "\n".join(filter(None, (table_of(found), list_plans(plans))))


def nothing(path: Path, target: str | None, builtin: bool) -> str:
    """Return what there is to say where a list has no row: default schedules have none of their own."""
    named, found = "the built-in banks" if builtin else f"the bank {path}", len(records_of(path, target, "", builtin))
    where = f" for {target}" if target else ""
    if not found:
        return f"{named} {'have' if builtin else 'has'} nothing{where}" if target else f"{named} {'are' if builtin else 'is'} empty"
    return f"nothing was tuned that is in {named}{where}; default schedules that a compile took: {found:,} (--json lists them)"


def table_of(found: Sequence[Record]) -> str:
    """Return the records as a table. Return "" where there are none."""
    found = tuple(r for r in found if not r.key.state.endswith(DEFAULT))  # every row says its default anyway
    if not found:
        return ""
    columns = " ".join(f"{name:>12}" for name in ("default", "tuned", "bound"))
    head = f"{'key':{SHOWN_DIGITS}}  {columns} {'gap':>7} {'trials':>7}  target, label (us, by kind)\n"
    unknown = sorted({r.key.target for r in found if shipped_clock_mhz(r.key.target) is None})
    note = f"cyc: cycles, since no machine of that name comes with aoec ({', '.join(unknown)})\n" if unknown else ""
    return head + "".join(_row(r) for r in found) + note


def _row(r: Record) -> str:
    times = " ".join(f"{said_time(t, r.key.target):>12}" for t in (r.default_ticks, r.ticks, r.bound_ticks))
    if r.key.state.endswith(IMPORTED):
        times = f"{'-':>12}{times[12:]}"  # nothing is known of the default
    return f"{r.key.func_key[:SHOWN_DIGITS]}  {times} {r.gap:7.1%} {r.trials:7,}  {r.key.target}, {r.label} ({r.key.kind})\n"


def said_time(ticks: int, target: str) -> str:
    """Return ticks as microseconds, or as cycles ("cyc") of a machine whose clock is not known here."""
    cycles, clock_mhz = ticks / TICKS_PER_CYCLE, shipped_clock_mhz(target)
    return f"{cycles / clock_mhz:,.2f}" if clock_mhz else f"{cycles:,.0f} cyc"


def of_one_func(found: tuple[Record, ...], key: str, measured: Times = NOTHING) -> tuple[Record, ...]:
    """Return the records, preferred ones first. Raise BankError where there are none, or of several funcs or targets."""
    if not found:
        raise BankError(f"there is no record whose key begins with {key}; see aoec bank list")
    if len({(r.key.func_key, r.key.target) for r in found}) > 1:
        names = ", ".join(sorted({f"{r.key.func_key[:SHOWN_DIGITS]} on {r.key.target}" for r in found})[:5])
        raise BankError(f"{len(found)} records have a key that begins with {key} ({names}); give more of it, or --target, "
                        "or use bank list --json")
    return tuple(sorted(found, key=lambda r: (*measured_first(r, measured), *_preference(r))))


def of_one_graph(found: Sequence[Plan], key: str) -> Sequence[Plan]:
    """Return the plans, fastest for what it was held against first. Raise BankError where they are of several subgraphs, models or
    targets."""
    if len({(p.graph_key, p.target) for p in found}) > 1:
        kinds = " and ".join(name for kind, name in ((SlicePlan, "of slices"), (ModelPlan, "of models"))
                             if any(isinstance(p, kind) for p in found))
        raise BankError(f"{len(found)} plans {kinds} have a key that begins with {key}; give more of it, or --target")
    return sorted(found, key=lambda p: (not p.is_faster, p.after_ns / p.before_ns, str(p)))


def best_plan(found: Sequence[Plan], key: str, as_json: bool) -> str:
    """Return what the plan whose key begins so says: regions of groups g0, g1, ... in order, or the text of a model's; or all of it as
    JSON."""
    plan = of_one_graph(found, key)[0]
    if as_json:
        return json.dumps(asdict(plan), indent=2) + "\n"
    if isinstance(plan, SlicePlan):
        return (plan.regions or "nothing is faster in slices") + "\n"
    return (plan.plan or NO_PLAN) + "\n"


def show_plans(found: Sequence[Plan], key: str, as_json: bool) -> str:
    """Return all that is kept of how a subgraph runs in slices, or of how a model is put together; or that as JSON."""
    plans = of_one_graph(found, key)
    if as_json:
        return json.dumps([asdict(p) for p in plans], indent=2) + "\n"
    return "\n".join("\n".join(filter(None, (f"{title_of(p)} {p.graph_key}", *map(_field, fields_of(p).items()), text_of(p)))) + "\n"
                     for p in plans)


def title_of(p: Plan) -> str:
    """Return what kind of plan it is."""
    return "plan of slices" if isinstance(p, SlicePlan) else "plan of the model"


def fields_of(p: Plan) -> dict[str, Any]:
    """Return the fields of a plan that are shown a line each: not the text of a model's."""
    return {n: v for n, v in asdict(p).items() if n != "plan"}


def text_of(p: Plan) -> str:
    """Return the text of a plan that is shown below its fields."""
    return "" if isinstance(p, SlicePlan) else p.plan or NO_PLAN


def _field(item: tuple[str, Any]) -> str:
    """Return a field as a line."""
    name, value = item
    return f"  {name.replace('_', ' '):14} {value:,}" if type(value) is int else f"  {name.replace('_', ' '):14} {value or 'none'}"


def best(found: tuple[Record, ...], key: str, as_json: bool, measured: Sequence[Measured] = ()) -> str:
    """Return the schedule of the record whose key begins so, as text or with the whole record as JSON."""
    record = of_one_func(found, key, by_schedule(measured))[0]
    return json.dumps(flat(record), indent=2) + "\n" if as_json else record.trace + "\n"


def show(found: tuple[Record, ...], key: str, as_json: bool, measured: Sequence[Measured] = ()) -> str:
    """Return everything that is kept of a func, as text or as JSON: its text, the fields of each record with its schedule, and times on
    devices."""
    times = by_schedule(measured)
    records = of_one_func(found, key, times)
    if as_json:
        return json.dumps([flat(r) | as_values(of_record(r, times)) for r in records], indent=2) + "\n"
    func = max(r.func for r in records)
    return "\n".join([func or "(its func is not kept: an older schema wrote it)",
                      *(_in_full(r, of_record(r, times)) for r in records), *theirs(measured)]) + "\n"


def _in_full(r: Record, measured: Sequence[Measured]) -> str:
    """Return the fields of a record, a line each, what devices took, and its schedule."""
    fields = {n: v for n, v in flat(r).items() if n not in ("trace", "func", "func_key") and v != ""}
    return "\n".join(["", f"record {r.key.func_key}", *map(_field, fields.items()), *(f"  {in_words(m)}" for m in measured), r.trace])


# ---------------------------------------------------------------- what devices took

def by_schedule(measured: Iterable[Measured]) -> Times:
    """Return (target, func key, schedule) -> the measured times, fastest first; of the vendor's own schedule under ""."""
    out: dict[tuple[str, str, str], list[Measured]] = {}
    for m in sorted(measured, key=lambda m: m.time_ns):
        out.setdefault((m.target, m.func_key, m.trace), []).append(m)
    return out


def of_record(r: Record, times: Times) -> Sequence[Measured]:
    """Return what devices of its target took by a record's schedule."""
    return times.get((r.key.target, r.key.func_key, r.trace), ())


def measured_first(r: Record, times: Times) -> tuple[bool, int]:
    """Return how a measured time ranks, which is above all that is modelled: fastest first, then what no device has run."""
    found = of_record(r, times)
    return not found, found[0].time_ns if found else 0


def theirs(measured: Iterable[Measured]) -> list[str]:
    """Return lines for times of the vendor's own schedules."""
    found = [f"  {in_words(m)}" for m in measured if not m.trace]
    return ["", "the vendor's own schedule, which is not known", *found] if found else []


def as_values(found: Sequence[Measured]) -> dict[str, Any]:
    """Return what devices took, as a field of a record's plain values; none of none."""
    return {"measured": [asdict(m) for m in found]} if found else {}


def in_words(m: Measured) -> str:
    """Return a measured time for people."""
    often = f"{m.calls:,} calls, {m.least_ns / 1e3:,.2f} to {m.most_ns / 1e3:,.2f}" if m.calls > 1 else "1 call"
    when = f" {m.when}" if m.when else ""
    return f"measured       {m.us:,.2f} us{when} ({often}; {m.op_type}, {m.source} line {m.line}): ranks above what is modelled"


def _preference(r: Record) -> tuple[bool, bool, int]:
    """Return a key to sort records by: searched before default, cold inputs before other memory states, faster before slower."""
    return r.key.state.endswith(DEFAULT), r.key.state != "cold inputs", r.ticks


def export(path: Path, file: str, times: bool) -> str:
    """Write all records to `file` as JSON lines, with or without the times at which they were made. Return "": there is nothing to
    print."""
    Bank.open(path, create=False, writable=False).export(file, times)
    return ""


def take(path: Path, file: str) -> str:
    """Return what became of the records of another bank, or of an exported file (`-`: standard input)."""
    return f"{statuses(Bank.open(path).import_(file))} ({path})\n"
