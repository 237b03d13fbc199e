"""`aoec sweep`: every combination of sizes, schedules, machines and hole values timed, a row each. One page of named steps."""
from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from aoec.base.errors import AoecError, CheckError
from aoec.base.files import write_text
from aoec.ir.tir import Func
from aoec.jobs import interrupt
from aoec.jobs.sweep_plan import Plan, plan
from aoec.jobs.sweep_time import Cell, How, Make, Row, refused
from aoec.report.chart import chart
from aoec.report.sweep import Sheet, csv_text, json_text, skipped, summary, table
from aoec.search.trials import Status
from aoec.simulate.state import NAMED
from aoec.target.machine import Machine

if TYPE_CHECKING:
    from aoec.jobs.sweep_values import Values

SLAB = 1024  # rows that are kept together
WORDS = {"cold": "cold inputs", "previous": "after a launch of the same program", "cleared": "L2 cleared"}
Told = Callable[[int], None]


def sweep(options: Namespace) -> int:
    """Times all combinations and writes them; 1 where values were checked and are wrong, else 0."""
    what = plan(options.input, options.traces, options.axes, options.targets, options.tune is not None)
    if options.plot and not what.x:
        raise CheckError("there is nothing to draw along: --plot needs a --set with more than one value")
    how = How(NAMED[options.state], options.brief, options.search, options.tune or 0, options.seed)
    sheet = empty(what, options)
    with interrupt.noted():
        with progress(what.rows) as told:
            fill_sheet(sheet, what, how, options.verify, told)
        write(sheet, what, options)
    return int(any(row["status"] == Status.WRONG_VALUE.value for row in sheet.rows(["status"])))


def empty(what: Plan, options: Namespace) -> Sheet:
    """The sheet before its first row."""
    sizes = [a.name for a in what.shapes]
    apart = [a.name for a in what.shapes if len(a.values or ()) > 1 and a.name != what.x]
    return Sheet(what.title, WORDS[options.state], (*sizes, *(f"?{h}" for h in what.holes)), what.x, tuple(apart))


def fill_sheet(sheet: Sheet, what: Plan, how: How, verify: bool, told: Told) -> None:
    """Adds all rows, or those up to a Ctrl-C."""
    slab: list[Row] = []
    for row in rows(what, how, verify):
        slab.append(row)
        told(1)
        if len(slab) == SLAB:
            sheet.add(slab)
            slab = []
        if interrupt.asked():
            break
    sheet.add(slab)


def rows(what: Plan, how: How, verify: bool) -> Iterator[Row]:
    """Each combination's row: sizes vary slowest, then schedules, machines, and fastest the values of holes."""
    for sizes in what.sizes():
        func = func_of(what, sizes)
        cells = {} if isinstance(func, AoecError) else {m.hash: Cell(func, m, how) for m in what.machines}
        values = None if isinstance(func, AoecError) or not verify else reference(what, sizes, func)
        for c in what.contenders:
            for machine in what.machines:
                first = {**sizes, "schedule": c.name, "target": machine.name}
                if isinstance(func, AoecError):
                    yield from (first | row | refused(func) for row in c.settings())
                else:
                    yield from (first | checked(row, make, machine, values) for row, make in cells[machine.hash].rows(c))


def func_of(what: Plan, sizes: dict[str, int]) -> Func | AoecError:
    """The func at some sizes, or why there is none."""
    try:
        return what.subject.func(sizes)
    except AoecError as e:
        return e


def reference(what: Plan, sizes: dict[str, int], func: Func) -> Values:
    """What values are held against at some sizes."""
    from aoec.jobs.sweep_values import Values
    return Values(what.subject, sizes, func)


def checked(row: Row, make: Make | None, machine: Machine, values: Values | None) -> Row:
    """The row with what was found of its values, where that is asked for."""
    if values is None or make is None:
        return row
    found = values.finding(make(), machine)
    kept = {name: v for name, v in row.items() if name.startswith("?")} if found.status == Status.ILLEGAL.value else row
    return kept | found._asdict()


@contextmanager
def progress(total: int) -> Iterator[Told]:
    """What is told of rows that are done; a bar on a terminal, gone at the end whatever ends it."""
    if not sys.stderr.isatty():
        yield lambda n: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    columns = (TextColumn("timing"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        line = bar.add_task("", total=total)
        yield lambda n: bar.update(line, advance=n)


def write(sheet: Sheet, what: Plan, options: Namespace) -> None:
    """Nothing; the files, each whole, of the rows that there are; a table for people where standard output is free; a count."""
    write_text(options.output, json_text(sheet) if options.json else csv_text(sheet))
    if options.plot:
        write_text(options.plot, chart(sheet))
    if options.output != "-":
        write_text("-", table(sheet))
        options.kept = f"the {sheet.count:,} of {what.rows:,} rows that were done are in {options.output}"
    for line in (summary(sheet, what.rows), skipped(row["verified"] for row in sheet.rows(["verified"]))):
        if line:
            print(line, file=sys.stderr, flush=True)
