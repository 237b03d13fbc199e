"""`aoec sweep`: every combination of sizes, schedules, machines and hole values timed, a row each. One page of named steps."""
from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from aoec.base.errors import AoecError, CheckError
from aoec.base.files.files import note, write_text
from aoec.ir.func.tir import Func
from aoec.jobs import interrupt
from aoec.jobs.progress import show_progress
from aoec.jobs.sweep.sweep_plan import Contender, Plan, plan
from aoec.jobs.sweep.sweep_time import Cell, How, Made, Row, refused_row
from aoec.ops.own import read_files
from aoec.options.func import SweepOptions
from aoec.report.pictures.chart import chart
from aoec.report.sweep import Sheet, csv_text, json_text, skipped_words, summary, table
from aoec.search.space.trials import Status
from aoec.simulate.timing.state import NAMED
from aoec.target.machine import Machine

if TYPE_CHECKING:
    from aoec.jobs.sweep.sweep_values import References

SLAB = 1024  # rows that are kept together
MOST_FILES = 10_000
WORDS = {"cold": "cold inputs", "previous": "after a launch of the same program", "cleared": "L2 cleared"}
Told = Callable[[int], None]


def sweep(options: SweepOptions) -> int:
    """Time all combinations and write them. Return 1 where values were checked and are wrong, else 0."""
    what = plan(options.input, options.traces, options.axes, options.targets, options.tune is not None, read_files(options.operator_files))
    if options.plot and not what.x:
        raise CheckError("there is nothing to draw along: --plot needs a --set with more than one value")
    if options.dump and what.rows > MOST_FILES:
        raise CheckError(f"--dump would write {what.rows:,} files, and at most {MOST_FILES:,} are written; sweep fewer values")
    how = How(NAMED[options.state], options.brief, options.search, options.tune or 0, options.seed, options.verify, str(options.dump or ""))
    sheet = empty(what, options)
    with interrupt.note_interrupts() as noted:
        with progress(what.rows) as told:
            fill_sheet(sheet, what, how, told)
        noted.left_behind = write(sheet, what, options)
    return int(any(row["status"] == Status.WRONG_VALUE.value for row in sheet.rows(["status"])))


def empty(what: Plan, options: SweepOptions) -> Sheet:
    """Return the sheet before its first row."""
    sizes = [a.name for a in what.shapes]
    apart = [a.name for a in what.shapes if len(a.values or ()) > 1 and a.name != what.x]
    return Sheet(what.title, WORDS[options.state], (*sizes, *(f"?{h}" for h in what.holes)), what.x, tuple(apart))


def fill_sheet(sheet: Sheet, what: Plan, how: How, told: Told) -> None:
    """Add all rows, or those up to a Ctrl-C."""
    slab: list[Row] = []
    for row in rows(what, how):
        slab.append(row)
        told(1)
        if len(slab) == SLAB:
            sheet.add(slab)
            slab = []
        if interrupt.is_asked():
            break
    sheet.add(slab)


def rows(what: Plan, how: How) -> Iterator[Row]:
    """Yield each combination's row: sizes vary slowest, then schedules, machines, and fastest the values of holes."""
    for sizes in what.sizes():
        func = func_of(what, sizes)
        if isinstance(func, AoecError):
            for first, c, _ in contests(what, sizes):
                yield from (first | row | refused_row(func) for row in c.settings())
        else:
            yield from at_size(what, sizes, func, how)


def func_of(what: Plan, sizes: dict[str, int]) -> Func | AoecError:
    """Return the func at some sizes, or why there is none."""
    try:
        return what.subject.func(sizes)
    except AoecError as e:
        return e


def contests(what: Plan, sizes: dict[str, int]) -> Iterator[tuple[Row, Contender, Machine]]:
    """Yield (what all rows have in common, schedule, machine) at some sizes."""
    for c in what.contenders:
        for machine in what.machines:
            yield {**sizes, "schedule": c.name, "target": machine.name}, c, machine


def at_size(what: Plan, sizes: dict[str, int], func: Func, how: How) -> Iterator[Row]:
    """Yield the rows at some sizes; schedules of the same machine share what is searched."""
    cells = {m.hash: Cell(func, m, how) for m in what.machines}
    held = references(what, sizes, func) if how.verify else None
    for first, c, machine in contests(what, sizes):
        for row, made in cells[machine.hash].rows(c):
            done = first | (row if made is None or held is None else check_row(row, made, machine, held))
            yield done | dump_schedule(done, made, (*sizes, *(name for name in row if name[0] == "?")), how.folder)


def references(what: Plan, sizes: dict[str, int], func: Func) -> References:
    """Return what values are held against at some sizes."""
    from aoec.jobs.sweep.sweep_values import References
    return References(what.subject, sizes, func)


def check_row(row: Row, made: Made, machine: Machine, held: References) -> Row:
    """Return the row with what was found of its values; of one that breaks a rule after all nothing else."""
    found = held.at(row).finding(made.program(), machine)
    kept = {name: v for name, v in row.items() if name.startswith("?")} if found.status == Status.ILLEGAL.value else row
    return kept | found._asdict()


def dump_schedule(row: Row, made: Made | None, swept: Sequence[str], folder: str) -> Row:
    """Return the name of the file in `folder` that holds a row's schedule, where that is asked for and there is one."""
    text = made.schedule() if folder and made and row["status"] != Status.ILLEGAL.value else ""
    if not text:
        return {}
    words = [row["schedule"], row["target"], *(f"{name.removeprefix('?')}={row[name]}" for name in swept)]
    name = re.sub(r"[^\w=.-]", "_", ".".join(words)) + ".sched"
    Path(folder).mkdir(parents=True, exist_ok=True)
    write_text(Path(folder) / name, text + "\n")
    return {"file": name}


@contextmanager
def progress(total: int) -> Iterator[Told]:
    """Yield a function to call with the number of rows that were just timed."""
    done, began = 0, time.monotonic()
    with show_progress("timing", total) as line:
        def tell(n: int) -> None:
            nonlocal done
            done += n
            line("", done, (time.monotonic() - began) * (total - done) / done if done else None)
        yield tell


def write(sheet: Sheet, what: Plan, options: SweepOptions) -> str:
    """Write the files, each whole, of the rows that there are. Print a table for people where standard output is free, and a count. Return
    in words what remains after a Ctrl-C."""
    write_text(options.output, json_text(sheet) if options.json else csv_text(sheet))
    if options.plot:
        write_text(options.plot, chart(sheet))
    if options.output != "-":
        write_text("-", table(sheet))
    for line in (summary(sheet, what.rows), skipped_words(row["verified"] for row in sheet.rows(["verified"]))):
        if line:
            note(line)
    return "" if options.output == "-" else f"the {sheet.count:,} of {what.rows:,} rows that were done are in {options.output}"
