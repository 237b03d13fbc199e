"""The keys of the files that say what a machine is: found by asking the readers of these files, with words for each.

    python bench/pages.py --write

A key is known where the reader's refusal of an unknown one lists it. It is needed where the reader refuses a machine without it.
"""
from __future__ import annotations

import configparser
import os
import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

from aoec.base.errors import TargetError
from aoec.cli.vendor.aoe_places import RANGES, environment, work_folder
from aoec.report.words.reference import grid
from aoec.target.inherit import CONFIDENCE, DIRECTIVES, is_number, show_machine_file
from aoec.target.machine import Machine, load, parse_machine, targets
from aoec.target.platform import FAMILIES, import_platform

Raw = dict[str, Any]
UNKNOWN, PLACEHOLDER = "unknown key that no file has", "key of a section that has no other yet"
WORDS = {
    "name": "what --target calls it; a family has none",
    "clock_mhz": "clock of the cores; it turns cycles into microseconds",
    "cores": "a table for each kind of cores", "scopes": "a table for each on-chip memory", "paths": "a table for each way for data",
    "tables": "numbers by dtype; a formula names a table and gets the number of its source's dtype",
    "numbers": "numbers that formulas name", "units": "the units of these numbers", "terms": "formulas that stand for a name in others",
    "timing": "a table for each instruction: how long it takes", "lacks": "instructions that this machine does not have",
    "flags": "flags between pipes, and between cores", "scalar": "the scalar unit, which issues to the other pipes",
    "shared": "what all cores share: HBM and L2", "launch": "what a launch takes besides its instructions",
    "flags.ids": "flags between two pipes", "flags.hop_cycles": "from setting a flag to the end of a wait for it",
    "flags.cross_ids": "flags between cores", "flags.cross_count": "signals that such a flag counts at most",
    "flags.cross_cycles": "from setting such a flag to the end of a wait for it",
    "scalar.issue_cycles": "to issue an instruction or a flag", "scalar.loop_cycles": "of an iteration of a loop (default: 0)",
    "shared.hbm_bytes_per_s": "what all cores together reach of HBM or DRAM",
    "shared.l2_bytes_per_s": "what all cores together reach of L2",
    "shared.l2_size_bytes": "size of L2", "shared.l2_usable_bytes": "so much stays in L2 before anything is evicted",
    "shared.hbm_nominal_bytes_per_s": "the nominal rate of HBM or DRAM; for readers alone",
    "shared.memory_bytes": "size of HBM or DRAM; for readers alone",
    "shared.same_address_bytes_per_cycle": "what all cores together get that read one address past L2 (default: no limit)",
    "shared.hbm_turnaround": "the share of their time that HBM's bytes take besides where as much is written as read (default: 0)",
    "launch.fixed_us": "of a launch, whatever it has of cores", "launch.per_core_us": "for each core",
    "launch.stream_us": "for each stream besides the first", "launch.queue_gap_us": "between tasks of a queue that are all ready",
    "launch.enqueue_us": "to put a task into a queue; for readers alone",
    "launch.tiling_runtime_us": "of the vendor's Matmul API before its first MTE2, its tiling read at run time; for readers alone",
    "launch.tiling_constant_us": "the same, with a tiling that is known when it is compiled; for readers alone",
    "cores.<kind>.count": "cores of the kind (aic: cube, aiv: vector, core: both)",
    "cores.<kind>.pipes": "the pipes of such a core; S is one of them",
    "cores.<kind>.queue_depth": "instructions that wait before a pipe (default: 32)",
    "cores.<kind>.bus_bytes_per_cycle": "what MTE2 and MTE3 of a core move together (default: no common limit)",
    "cores.<kind>.heads": "a table for each pipe that does not run from the start of a launch",
    "cores.<kind>.heads.<pipe>.fixed_cycles": "before the pipe runs (default: 0)",
    "cores.<kind>.heads.<pipe>.core_cycles": "besides, for each core of the launch (default: 0)",
    "scopes.<scope>.core": "the kind of cores of which each has one, or a list of kinds",
    "scopes.<scope>.size_bytes": "its size", "scopes.<scope>.align_bytes": "buffers start at multiples of this",
    "paths.<path>.from": "the scope that is read", "paths.<path>.to": "the scope that is written",
    "paths.<path>.pipe": "the pipe that moves",
    "paths.<path>.bytes_per_cycle": "of one core; formulas name it <path>_rate",
    "paths.<path>.l2_bytes_per_cycle": "of one core, of what hits L2; formulas name it <path>_l2_rate (default: bytes_per_cycle)",
    "paths.<path>.latency_cycles": "until the first byte is there; formulas name it <path>_latency",
    "timing.<instruction>.busy": "how long the pipe is taken",
    "timing.<instruction>.latency": "how much later the result can be signalled (default: 0)",
    "timing.<instruction>.granule": "with unit = 1: from its start to the first granule of L0C (default: 0)",
    "timing.<instruction>.memory": "how much longer HBM is held than by its bytes, a factor (default: 1)",
    "timing.<instruction>.source": "where the rule is from; for readers alone",
    "timing.<instruction>.confidence": "how far to believe the rule; for readers alone",
    "numbers.<number>.value": "the number", "numbers.<number>.source": "where it is from",
    "numbers.<number>.confidence": f"how far to believe it: {', '.join(CONFIDENCE)}, best first",
    "numbers.<number>.unit": "its unit, where neither its name nor `units` says it",
}
DIRECTIVE_WORDS = {
    "extends": "the machine or family that this file changes, by name or path, or a list of them; a later one overrides",
    "drops": "places of what is extended that this machine has not, such as \"scopes.FB\"",
    "carries_as": "the confidence that inherited numbers have at most, where they were found on another core generation"}
VERSIONS = {"AIC_version": "the core generation, whose family file is extended", "SoC_version": "`name`"}
AOE_WORDS = {"WORK_PATH": "the folder of workspace and results"}


# ---------------------------------------------------------------- machine files

def chips() -> list[Machine]:
    """Return the machines that come with aoec."""
    return [load(name) for name in targets()]


def at(raw: Raw, place: str) -> Any:
    """Return what stands at a dotted place. Raise KeyError where there is nothing."""
    found: Any = raw
    for key in place.split(".") if place else []:
        found = found[key]
    return found


def real(pattern: str, raw: Raw) -> Iterator[str]:
    """Return the places of a machine that a pattern with <names> stands for."""
    head, open_, rest = pattern.partition("<")
    if not open_:
        yield pattern
        return
    table, tail = head.rstrip("."), rest.partition(">")[2]
    try:
        names = list(at(raw, table))
    except KeyError:
        return
    for name in names:
        yield from real(f"{table}.{name}{tail}", raw)


def refusal(raw: Raw) -> str:
    """Return what is said of a machine of this content. Return "" where it is taken."""
    try:
        parse_machine(show_machine_file(raw))
    except TargetError as e:
        return str(e)
    return ""


def known(pattern: str) -> list[str]:
    """Return the keys of a table, as the refusal of an unknown one lists them; of instructions those of all of them."""
    found: dict[str, None] = {}
    raw = load("toy").merged.raw if "heads" not in pattern else load("Ascend910B3").merged.raw
    places = list(real(pattern, raw))
    for place in places if pattern.startswith("timing") else places[:1]:
        changed = deepcopy(raw)
        at(changed, place)[UNKNOWN] = 0
        listed = re.search(rf"unknown key {UNKNOWN}; known: (.*)$", refusal(changed))
        assert listed, f"{place}: {refusal(changed)}"
        found |= dict.fromkeys(listed[1].split(", "))
    return list(found)


def needed(pattern: str, machines: list[Machine]) -> bool:
    """Return True where a machine is refused, at this place, once the key is gone."""
    raw, place = next((m.merged.raw, place) for m in machines for place in real(pattern, m.merged.raw) if stands(m.merged.raw, place))
    changed, (table, _, key) = deepcopy(raw), place.rpartition(".")
    del at(changed, table)[key]
    said = refusal(changed)
    return f": {place}: " in said or f": {table}: " in said


def stands(raw: Raw, place: str) -> bool:
    """Return True where something stands at a place."""
    try:
        at(raw, place)
    except (KeyError, TypeError):
        return False
    return True


def kind(value: Any) -> str:
    """Return what a value of a machine file is."""
    if is_number(value):
        return "number"
    return {dict: "table", list: "list", str: "text"}.get(type(value), "number")


def spread(pattern: str, machines: list[Machine]) -> tuple[str, str]:
    """Return (unit, least and largest) of a number in the machines of chips. Return "" where it is none."""
    of_chips = [m for m in machines if m.name != "toy"]
    found = [m.sources[p] for m in of_chips for p in real(pattern, m.merged.raw) if p in m.sources]
    if not found:
        return "", ""
    low, high = min(n.value for n in found), max(n.value for n in found)
    unit = found[0].unit
    if unit == "B/s":
        low, high, unit = low / 1e9, high / 1e9, "GB/s"
    return unit, f"{low:,.13g}" if low == high else f"{low:,.13g} to {high:,.13g}"


def places_of(table: str) -> list[str]:
    """Return the places of a table that the reader of machine files knows, in the order of WORDS."""
    found = {f"{table}.{key}" if table else key for key in known(table)}
    return [*(p for p in WORDS if p in found), *sorted(found - WORDS.keys())]


def rows(table: str, machines: list[Machine]) -> list[list[str]]:
    """Return the rows of one table of the page."""
    out = []
    for place in places_of(table):
        value = next((at(m.merged.raw, p) for m in machines for p in real(place, m.merged.raw) if stands(m.merged.raw, p)), "")
        unit, values = spread(place, machines)
        is_needed = place.startswith("numbers.<number>") and not place.endswith("unit") or value != "" and needed(place, machines)
        out.append([f"`{place.rpartition('.')[2]}`", kind(value), "needed" if is_needed else "", unit, values, WORDS[place]])
    return out


# ---------------------------------------------------------------- aoe.ini and platform_config

class Asked(dict[str, str]):
    """Stands for a file that says some keys, and notes for which it is asked."""

    def __init__(self, said: Mapping[str, str]) -> None:
        super().__init__(said)
        self.names: dict[str, None] = {}

    def get(self, name: str, default: Any = None) -> Any:
        self.names[name] = None
        return super().get(name, default)


def aoe_rows() -> list[list[str]]:
    """Return each key of aoe.ini that is asked for, with what becomes of it."""
    with mock.patch.dict(os.environ, clear=True):
        asked = Asked({})
        environment(asked, lambda _: None)
        work_folder(asked)
        return [[f"`{name}`", f"1 to {RANGES[name]:,}" if name in RANGES else "a path", fate(name)] for name in sorted(asked.names)]


def fate(name: str) -> str:
    """Return what becomes of a key of aoe.ini: the option that it is, or what is said of it."""
    notes: list[str] = []
    words = environment({name: "1"}, notes.append) if name in RANGES else []
    option = f"`{words[0]}` of `aoec tune`" if words else ""
    return option or "; ".join(n.removeprefix(f"aoe: {name} ") for n in notes) or AOE_WORDS[name]


def platform_rows() -> list[list[str]]:
    """Return each key of a platform_config file that some core generation asks for: section, key, generations, the places that it
    fills."""
    found: dict[tuple[str, str], dict[str, list[str]]] = {}
    for arch in FAMILIES:
        for (section, key), filled in imported(arch).items():
            found.setdefault((section, key), {})[arch] = filled
    return [[f"[{section}]", f"`{key}`", "all" if len(of) == len(FAMILIES) else ", ".join(of),
             ", ".join(dict.fromkeys(f"`{p}`" for places in of.values() for p in places))
             or VERSIONS.get(key, "only where another is missing")]
            for (section, key), of in sorted(found.items())]


def imported(arch: str) -> dict[tuple[str, str], list[str]]:
    """Return (section, key) -> places in the machine file, of a file of that generation that has all that it is asked for."""
    said: dict[tuple[str, str], str] = {("version", "AIC_version"): arch, ("version", "SoC_version"): "Chip"}
    asked: dict[tuple[str, str], None] = {}
    get = configparser.RawConfigParser.get

    def noted(self: Any, section: str, option: str, **more: Any) -> Any:
        asked[section, option] = None
        return get(self, section, option, **more)

    with TemporaryDirectory() as folder, mock.patch.object(configparser.RawConfigParser, "get", noted):
        while True:
            before = dict(said)
            text = imported_text(Path(folder) / "chip.ini", said, asked)
            if before == said:
                assert text, f"no file of {arch} is taken"
                return {which: filled(text, which[1]) for which in said if which[1] != PLACEHOLDER}


def imported_text(path: Path, said: dict[tuple[str, str], str], asked: Mapping[tuple[str, str], None]) -> str:
    """Return the machine file of what is said so far, "" where it is refused. What was asked for in vain is said from now on."""
    sections = dict.fromkeys(section for section, _ in said)
    path.write_text("\n".join(line for s in sections for line in (f"[{s}]", *(f"{k} = {v}" for (at, k), v in said.items() if at == s))))
    text = ""
    try:
        text, _ = import_platform(path)
    except TargetError as e:
        if missing := re.search(r": \[(\w+)\](?: (\w+))?: this", str(e)):
            said[missing[1], missing[2] or PLACEHOLDER] = str(len(said) + 2)
    for which in asked:
        said.setdefault(which, str(len(said) + 2))
    return text


def filled(text: str, key: str) -> list[str]:
    """Return the places of a machine file whose source names a key."""
    return [m[1] for m in re.finditer(r'^(\S+) = \{.*?source = "([^"]*)"', text, re.MULTILINE) if re.search(rf"\b{key}\b", m[2])]


# ---------------------------------------------------------------- the page

HEADS = ("key", "is a", "", "unit", "in the chips' files", "says")
TITLES = {
    "": "The whole file", "cores.<kind>": "[cores.KIND]", "cores.<kind>.heads.<pipe>": "[cores.KIND.heads.PIPE]",
    "scopes.<scope>": "[scopes.SCOPE]", "paths.<path>": "[paths.PATH]", "flags": "[flags]", "scalar": "[scalar]", "shared": "[shared]",
    "launch": "[launch]", "timing.<instruction>": "[timing.INSTRUCTION]", "numbers.<number>": "A number"}


def page() -> str:
    """Return docs/machine-keys.md."""
    machines = chips()
    lines = [INTRODUCTION]
    for table, title in TITLES.items():
        lines += ["", f"## {title}", "", *NOTES.get(table, ()), *grid(HEADS, rows(table, machines))]
        if not table:
            lines += ["", "What a file says of another file that it extends:", "",
                      *grid(("key", "says"), [[f"`{d}`", DIRECTIVE_WORDS[d]] for d in DIRECTIVES])]
    lines += ["", "## platform_config of CANN", "", PLATFORM, "", *grid(("section", "key", "core generations", "becomes"), platform_rows()),
              "", "## aoe.ini of CANN", "", AOE, "", *grid(("key", "values", "becomes"), aoe_rows())]
    return "\n".join(lines) + "\n"


INTRODUCTION = """# The keys of machine files

This page is for those who write a machine file of their own, and for those who want to know what a number of one means.
It is made from the code, by `python bench/pages.py --write`.

A machine is a TOML file. Those that come with aoec are in `aoec/target/`; a file of your own goes to `--target`. It should extend one of
them and change what is different ([adding/chip.md](adding/chip.md)). `aoec targets show NAME` prints each number of a machine with its
source.

*needed* says that a machine is refused without the key; it may stand in a file that is extended. A key that is not listed here is
refused. The column of the chips' files has the least and the largest value in the machines that come with aoec."""
NOTES = {
    "numbers.<number>": ["Each number is a table: `{value = 20, source = \"...\", confidence = \"official\"}`.", ""],
    "timing.<instruction>": ["Formulas are in the notation of [languages.md](languages.md), in cycles. [instructions.md](instructions.md) "
                             "has the rules of all chips, and the names that a formula may use.", ""]}
PLATFORM = """`aoec targets import FILE.ini` makes a machine file from a file of CANN's `platform_config`. It reads these keys. Other
keys are passed over. Some are read where the file has them; the import names what it misses."""
AOE = """`aoec aoe` reads `conf/aoe.ini` or `tools/aoe/conf/aoe.ini` below `$ASCEND_HOME_PATH` or `$ASCEND_TOOLKIT_HOME`. An
environment variable of the same name (for WORK_PATH: ASCEND_WORK_PATH) goes before. It takes these keys:"""
