"""Search among the schedules that a tiling of the vendor's can express. The best schedule of all may not be among them."""
from __future__ import annotations

from aoec.base.errors import ScheduleError, UnsupportedError
from aoec.ir.rewrite import holes
from aoec.ir.text.show import show
from aoec.jobs.deliver.deliver_entries import Entry
from aoec.jobs.tune.tuning import problem, search, start
from aoec.search.sketches.nests import find_product
from aoec.search.sketches.sketches import sketches
from aoec.search.space.restrict import Restriction
from aoec.target.machine import Machine

LEADERS = 6  # of those found, that are tried as tilings: what a tiling leaves to the kernel may turn their order


def search_schedules(entry: Entry, machine: Machine, trials: int, seed: int = 0) -> list[str]:
    """Return the fastest schedules found for a product or convolution, within what the vendor's kernels do. In these, results leave L0C in
    granules where FIXPIPE takes them, and no load runs ahead. Buffers in UB have two slots, and cores do not share the width in parts.
    Return none for any other group."""
    func = entry.func
    if func is None or "attention" in entry.types or (mm := find_product(func)) is None:
        return []
    wanted = {"pl": 0, "uf": int(machine.has("fixpipe_nd")), "do": 2, "du": 2}
    if len(mm.loops) > 4 and mm.extent(mm.loops[-4].var) > 1:  # rows of an image that has several
        wanted["gw"] = 1
    known = [holes(s) for s in sketches(func, machine)]
    pins = tuple((name, (value,)) for name, value in wanted.items() if all(value in h.get(name, (value,)) for h in known)
                 and any(name in h for h in known))
    try:
        p = problem(func, machine, entry.state, restriction=Restriction(pins=pins))
        found = search(p, start(p), "portfolio", ("trials", trials), seed)
    except (ScheduleError, UnsupportedError):
        return []
    best = dict.fromkeys([found.best, *(c for _, _, c in p.ledger.best[:LEADERS])])
    return [show(p.trace(c)) for c in best]
