"""Names of chips in published tables -> targets: which machine stands for a row, and what about that is a reading of ours."""
from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, replace
from functools import lru_cache

from aoec.base.errors import TargetError
from aoec.target.machine import Machine, load, targets


@dataclass(frozen=True)
class Chip:
    """A target, how many of them share the work, cores that the chip has fewer or more of, and what the name leaves open."""

    target: str
    devices: int = 1
    cores: int = 0
    remark: str = ""


UNNAMED = "sub-chip not named by the source"
INFERRED_B4 = "sub-chip not named by the source; inferred: its nine rows that HBM holds run at half of a 910B3's 1.6 TB/s"
CHIPS = {
    "910B-24c": Chip("Ascend910B1", remark=UNNAMED), "910B-20c": Chip("Ascend910B3", remark=UNNAMED),
    "910B": Chip("Ascend910B1", remark=UNNAMED),
    "910B1": Chip("Ascend910B1"), "910B2": Chip("Ascend910B2"), "910B3": Chip("Ascend910B3"), "910B4": Chip("Ascend910B4"),
    "A2/A3-40aiv": Chip("Ascend910B4", remark=INFERRED_B4), "A3-24c": Chip("Ascend910_9392", remark="one die"),
    "910C-die": Chip("Ascend910_9392", remark="one die"), "910C": Chip("Ascend910_9392", 2, remark="two dies"),
    "910A-class": Chip("Ascend910A"), "910A": Chip("Ascend910A"), "310P3": Chip("Ascend310P3"), "310B1": Chip("Ascend310B1"),
    "310B4": Chip("Ascend310B4"), "310": Chip("Ascend310"), "310x4": Chip("Ascend310", 4, remark="a card of four"),
    "Atlas 300I Pro": Chip("Ascend310P3"), "Atlas 300I Duo": Chip("Ascend310P3", 2, remark="a card of two"),
    "Atlas 200I DK A2": Chip("Ascend310B4"), "950PR": Chip("Ascend950PR_958x"), "950PR-28c": Chip("Ascend950PR_957x")}


def chip_of(name: str) -> Chip:
    """Return the chip of a name in a table, or of a target's own name. Raise TargetError where neither is known."""
    if name in CHIPS:
        return CHIPS[name]
    known = {plain(n): chip for n, chip in (*((t, Chip(t)) for t in targets()), *CHIPS.items())}
    if found := known.get(plain(name)) or known.get(plain(name).removeprefix("ascend")):
        return found
    near = difflib.get_close_matches(name, [*CHIPS, *targets()], n=1, cutoff=0.6)
    raise TargetError(f"chip {name[:40]} is unknown; " + (f"did you mean {near[0]}? " if near else "")
                      + f"known: {', '.join(CHIPS)}, or a target's name")


def plain(name: str) -> str:
    """Return a name in small letters and digits alone."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


@lru_cache(maxsize=32)
def machine_of(name: str) -> Machine:
    """Return the machine that stands for a chip. Raise TargetError where this build has none."""
    chip = chip_of(name)
    machine = load(chip.target)
    return fewer(machine, chip.cores) if chip.cores else machine


def fewer(machine: Machine, cores: int) -> Machine:
    """Return the machine with another number of cube cores, and as many vector cores to each as before."""
    first = machine.core("aic" if "aic" in machine.cores else "core").count
    kinds = {k: replace(c, count=c.count * cores // first) for k, c in machine.cores.items()}
    return replace(machine, cores=kinds, hash=f"{machine.hash}-{cores}")
