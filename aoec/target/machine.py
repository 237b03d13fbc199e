"""The machine model: what a target is and costs, read from TOML (each number with source and confidence; files extend files).

Meaning is code, cost is data: counts, sizes, rates and the timing formulas are in the file and can be changed without
touching Python. What a formula may name is said at the head of family_2201.toml.
"""
from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path as FilePath
from typing import Any

import numpy as np

from aoec.base.errors import AoecError, TargetError
from aoec.base.ticks import TICKS_PER_CYCLE
from aoec.ir.func.tir import SCOPES
from aoec.ir.index import DTYPES, Expr, Int, substitute, variables
from aoec.ir.program import CORE_KINDS, PIPES
from aoec.ir.text.parse import parse_expr
from aoec.target.inherit import (
    CONFIDENCE,
    Merged,
    is_path,
    near,
    read_file,
    read_merged,
    shipped_machines,
    shipped_texts,
    show_machine_file,
)
from aoec.target.isa.instructions import INSTRUCTIONS, Instruction
from aoec.target.legality.placement import placed_names
from aoec.target.parts import MAX_QUEUE_DEPTH, QUEUE_DEPTH, CoreKind, Form, Number, Path, Scope, Timing, content_hash, spelt_out, unit_of

DEFAULT = "Ascend910B3"
PARTS = {"copy_ub_gm": ("parts",)}  # what `lacks` may say of an instruction besides its fields: parts=1, bursts that are no whole blocks
MAX_CORES, MAX_SCOPE_BYTES = 4096, 1 << 30  # of one kind; of one core
FORMULA_LIMIT = 8192  # characters, and words when terms stand in their places
FRACTAL_PLACES = 256  # of a 16 x 16 result, each of which the cube adds kf products to in a cycle
# the plain numbers that every machine has, by table
TABLES = ("name", "clock_mhz", "cores", "scopes", "paths", "tables", "numbers", "units", "terms", "timing", "lacks")
REQUIRED = {
    "flags": ("ids", "hop_cycles", "cross_ids", "cross_count", "cross_cycles"),
    "scalar": ("issue_cycles",),
    "shared": ("hbm_bytes_per_s", "l2_bytes_per_s", "l2_size_bytes", "l2_usable_bytes"),
    "launch": ("fixed_us", "per_core_us", "stream_us", "queue_gap_us", "enqueue_us"),
}
# not known of every part
OPTIONAL = {"scalar": ("loop_cycles",), "launch": ("tiling_runtime_us", "tiling_constant_us"),
            "shared": ("hbm_nominal_bytes_per_s", "memory_bytes", "same_address_bytes_per_cycle", "hbm_turnaround")}
# what a formula may name besides fields, tables and numbers
GIVEN = ("size", "dst_size", "gm_bytes", "hbm_bytes", "l2_bytes", "past_l2", "crowding", "cores")


@dataclass(frozen=True, eq=False)
class Machine:
    """A target. Rates are per core and cycle, except `hbm_bytes_per_s` and `l2_bytes_per_s`, which all cores share."""

    name: str
    clock_mhz: float
    cores: dict[str, CoreKind]
    scopes: dict[str, Scope]
    paths: dict[str, Path]
    tables: dict[str, dict[str, float]]  # table -> dtype -> value
    constants: dict[str, float]  # what formulas name, path rates included
    timing: dict[str, Timing]  # of the instructions that it has
    without: tuple[Form, ...]  # forms of these that it lacks
    flag_ids: int
    flag_hop_cycles: float
    cross_ids: int
    cross_count: int
    cross_cycles: float
    issue_cycles: float
    loop_cycles: float
    hbm_bytes_per_s: float
    l2_bytes_per_s: float
    hbm_nominal_bytes_per_s: float | None
    memory_bytes: float | None
    same_address_bytes_per_cycle: float | None  # of all cores that read one address
    hbm_turnaround: float | None  # of the time of HBM's bytes, what it takes besides where as much is written as read
    l2_size_bytes: int
    l2_usable_bytes: int
    launch_fixed_us: float
    launch_per_core_us: float
    launch_stream_us: float
    queue_gap_us: float
    enqueue_us: float
    # what the vendor's high-level Matmul API takes before its first MTE2: tiling read at run time, tiling known when compiled
    tiling_runtime_us: float | None
    tiling_constant_us: float | None
    hash: str
    sources: dict[str, Number] = field(repr=False)
    merged: Merged = field(repr=False)

    @property
    def us_per_tick(self) -> float:
        """Return microseconds of a tick, in which the timeline counts."""
        return 1.0 / (TICKS_PER_CYCLE * self.clock_mhz)

    @property
    def hbm_bytes_per_cycle(self) -> float:
        """Return bytes a cycle between HBM and all cores together."""
        return self.hbm_bytes_per_s / (self.clock_mhz * 1e6)

    @property
    def l2_bytes_per_cycle(self) -> float:
        """Return bytes a cycle between L2 and all cores together."""
        return self.l2_bytes_per_s / (self.clock_mhz * 1e6)

    def peak_ops_per_s(self, dtype: str) -> float | None:
        """Return multiplications and additions a second of all cube cores at that dtype, or None where the cube does not support it."""
        cube = next((c for c in self.cores.values() if "M" in c.pipes), None)
        rate = self.tables.get("kf", {}).get(dtype)
        return 2 * FRACTAL_PLACES * rate * cube.count * self.clock_mhz * 1e6 if cube and rate else None

    def l2_keeps(self, window_bytes: Any) -> Any:
        """Return the share (0 to 1) of data that L2 still holds when it is accessed again after `window_bytes` of other data. This
        works on columns.

        The share is 1 within usable L2 (ops-nn matmul_v3_base_tiling: 100 of 192 MB). It is 0 from the size of L2 on (asc-devkit
        DataCopy sample: 302 MB read four times, no hits). It is linear between the two. One measurement lies there: 75 of 128 MB on a
        950PR, read four times, hit 66.6 %. So 89 % of what is read again stays (88 % by this line).
        """
        falling = (self.l2_size_bytes - window_bytes) / np.maximum(self.l2_size_bytes - self.l2_usable_bytes, 1)
        return np.where(window_bytes <= self.l2_usable_bytes, 1.0, np.clip(falling, 0.0, 1.0))

    def l2_ends_with(self, window_bytes: Any) -> Any:
        """Return the share (0 to 1) of the bytes that a launch accesses which L2 still holds at its end. This works on columns.

        After the last bytes no other data follow; after the first bytes all of `window_bytes` follow. So the share is the mean of
        `l2_keeps` from 0 to `window_bytes`.
        """
        least, most = self.l2_usable_bytes, np.maximum(self.l2_size_bytes, self.l2_usable_bytes + 1)
        beyond = np.clip(window_bytes, least, most) - least
        held = np.minimum(window_bytes, least) + beyond - beyond**2 / (2 * (most - least))
        return held / np.maximum(window_bytes, 1)

    @property
    def text(self) -> str:
        """Return all that the machine's files say, as one machine file."""
        return show_machine_file(self.merged.raw)

    def core(self, kind: str) -> CoreKind:
        """Return the core kind of that name; TargetError where this machine has none."""
        return _lookup(self.cores, kind, f"{self.name}: core kind")

    def scope(self, name: str) -> Scope:
        """Return the on-chip scope of that name; TargetError where this machine has none."""
        return _lookup(self.scopes, name, f"{self.name}: scope")

    def has(self, op: str, *dtypes: str, **numbers: int) -> bool:
        """Return True where a core of this machine has the instruction: for these dtypes of its operands and these numbers, where given."""
        return op in self.timing and not any(f.fits(op, dtypes, numbers) for f in self.without)

    def cost(self, op: str) -> Timing:
        """Return the timing of an instruction; TargetError where this machine has none."""
        return _lookup(self.timing, op, f"{self.name}: instruction")

    def launch_us(self, cores: Any, streams: int = 1) -> Any:
        """Return microseconds from a ready task to its first instruction plus from its last to its end, nothing hidden; works on
        columns."""
        return self.launch_fixed_us + self.launch_per_core_us * cores + self.launch_stream_us * (streams - 1)


def targets() -> list[str]:
    """Return the names of the machines that come with aoec, sorted."""
    return sorted(shipped_machines())


def load(name_or_path: str | FilePath = DEFAULT) -> Machine:
    """Return the machine of that name, or of that TOML file (a name that ends in .toml or holds a separator)."""
    text = str(name_or_path)
    if is_path(text):
        return parse_machine(read_file(FilePath(text)), text, FilePath(text).parent)
    names = {n.lower(): n for n in targets()}
    if text.lower() not in names:
        raise TargetError(f"target {text} is unknown; {near(text, targets())}")
    return _load_shipped(shipped_machines()[names[text.lower()]])


def parse_machine(text: str, source: str = "machine", folder: FilePath | None = None) -> Machine:
    """Return the machine that a TOML text describes, together with what it extends. Raise TargetError that names what is missing,
    unknown or inconsistent."""
    return _Reader(source, read_merged(text, source, folder)).machine()


def with_numbers(machine: Machine, raw: dict[str, Any]) -> Machine:
    """Return a machine of the same formulas whose numbers are those of `raw`, merged content in the form of a machine file."""
    return _Reader(machine.name, Merged(raw, machine.merged.origins), machine.timing).machine()


@lru_cache(maxsize=64)
def _load_shipped(stem: str) -> Machine:
    return parse_machine(shipped_texts()[stem], f"{stem}.toml")


def _lookup(table: Mapping[str, Any], name: str, what: str) -> Any:
    if name not in table:
        raise TargetError(f"{what} {name} is unknown; {near(name, table)}")
    return table[name]


class _Reader:
    """Reads one machine, its file and what that extends; every refusal names the file and the key."""

    def __init__(self, source: str, merged: Merged, known: dict[str, Timing] | None = None) -> None:
        """Create a reader of a merged machine file. `known` holds the formulas if they were read before."""
        self.source, self.merged, self.known = source, merged, known
        self.numbers: dict[str, Number] = {}
        self.terms: dict[str, Expr] = {}
        self.units = {f"numbers.{k}": str(v) for k, v in self.table(merged.raw, "units").items()} if "units" in merged.raw else {}

    def file(self, where: str) -> str:
        """Return the file that the value at a place comes from."""
        return self.merged.origins.get(where, self.source)

    def fail(self, where: str, message: str) -> TargetError:
        return TargetError(f"{self.file(where)}: {where}: {message}")

    def table(self, raw: Mapping[str, Any], key: str, where: str = "") -> dict[str, Any]:
        at = f"{where}.{key}" if where else key
        if key not in raw:
            raise self.fail(at, "this table is missing")
        if not isinstance(raw[key], dict):
            raise self.fail(at, "must be a table")
        return raw[key]

    def only(self, raw: Mapping[str, Any], allowed: Iterable[str], where: str) -> None:
        """Refuses keys that nothing reads: a misspelt number must not be passed over."""
        names = tuple(allowed)
        for key in raw:
            if key not in names:
                raise TargetError(f"{self.file(f'{where}.{key}')}: {where}: unknown key {key}; {near(key, names)}")

    def number(self, raw: Mapping[str, Any], key: str, where: str = "", low: float | None = 0) -> int | float:
        at = f"{where}.{key}" if where else key
        entry = self.table(raw, key, where)
        self.only(entry, ("value", "source", "confidence", "unit"), at)
        value, source, confidence, unit = (entry.get(k) for k in ("value", "source", "confidence", "unit"))
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e18:
            raise self.fail(at, "needs a finite `value`")
        if low is not None and value < low:
            raise self.fail(at, f"is {value} and must be at least {low:g}")
        if not isinstance(source, str) or not source or confidence not in CONFIDENCE:
            raise self.fail(at, f"needs a `source` and a `confidence` of {', '.join(CONFIDENCE)}")
        if not isinstance(unit, str | None):
            raise self.fail(at, "`unit` must be text in quotes")
        self.numbers[at] = Number(value, source, confidence, self.file(at), unit or self.units.get(at) or unit_of(at))
        return value

    def integer(self, raw: Mapping[str, Any], key: str, where: str, low: int = 1) -> int:
        value = self.number(raw, key, where, low)
        if value != int(value):
            raise self.fail(f"{where}.{key}", f"is {value} and must be a whole number")
        self.numbers[f"{where}.{key}"] = replace(self.numbers[f"{where}.{key}"], whole=True)
        return int(value)

    def rate(self, raw: Mapping[str, Any], key: str, where: str = "") -> float:
        value = self.number(raw, key, where)
        if not value > 0:
            raise self.fail(f"{where}.{key}", "must be above zero")
        return float(value)

    def word(self, raw: Mapping[str, Any], key: str, where: str, allowed: Iterable[str]) -> str:
        value = raw.get(key)
        if value not in tuple(allowed):
            raise self.fail(where, f"{key} is {value!r}; one of {', '.join(allowed)} is needed")
        return str(value)

    def machine(self) -> Machine:
        raw = self.merged.raw
        self.only(raw, (*TABLES, *REQUIRED), "machine")
        if not isinstance(raw.get("name"), str) or not raw["name"].isidentifier():
            raise self.fail("name", "must be a name of letters, digits and underscores")
        for group, keys in REQUIRED.items():
            self.only(self.table(raw, group), keys + OPTIONAL.get(group, ()), group)
        cores = {k: self.core(k, raw) for k in self.table(raw, "cores")}
        paths = {k: self.path(k, raw) for k in self.table(raw, "paths")}
        tables = {k: self.dtype_table(k, raw) for k in self.table(raw, "tables")}
        constants = self.constants(raw, paths)
        scopes = {k: self.scope(k, raw, cores) for k in self.table(raw, "scopes")}
        return Machine(
            name=raw["name"], clock_mhz=self.rate(raw, "clock_mhz"), cores=cores, paths=paths, tables=tables, constants=constants,
            scopes=scopes, timing=self.timing(raw, cores, scopes, tables, constants),
            without=tuple(f for f in self.lacks(raw) if f.dtypes or f.numbers),
            **self.flags(raw["flags"]), **self.scalar(raw["scalar"]), **self.shared_memory(raw["shared"]),
            **self.launch(raw["launch"]), hash=content_hash(raw), sources=dict(self.numbers), merged=self.merged)

    def core(self, kind: str, raw: dict[str, Any]) -> CoreKind:
        at = f"cores.{kind}"
        entry = self.table(raw["cores"], kind, "cores")
        if kind not in CORE_KINDS:
            raise self.fail("cores", f"unknown core kind {kind}; {near(kind, CORE_KINDS)}")
        self.only(entry, ("count", "pipes", "queue_depth", "bus_bytes_per_cycle", "heads"), at)
        pipes = entry.get("pipes")
        if not isinstance(pipes, list) or "S" not in pipes or [p for p in pipes if p not in PIPES]:
            raise self.fail(at, f"pipes must be a list of {', '.join(PIPES)} with S in it")
        depth = self.integer(entry, "queue_depth", at) if "queue_depth" in entry else QUEUE_DEPTH
        if depth > MAX_QUEUE_DEPTH:
            raise self.fail(f"{at}.queue_depth", f"is {depth:,} and may be {MAX_QUEUE_DEPTH:,} at most")
        bus = self.rate(entry, "bus_bytes_per_cycle", at) if "bus_bytes_per_cycle" in entry else None
        count = self.integer(entry, "count", at)
        if count > MAX_CORES:
            raise self.fail(f"{at}.count", f"is {count:,} and may be {MAX_CORES:,} at most")
        return CoreKind(kind, count, tuple(pipes), depth, bus, self.heads(entry, at))

    def heads(self, core: dict[str, Any], at: str) -> tuple[tuple[str, float, float], ...]:
        """Return (pipe, cycles, cycles a core) of the pipes of a core that do not run from the start of a launch."""
        entries = self.table(core, "heads", at) if "heads" in core else {}
        self.only(entries, core["pipes"], f"{at}.heads")
        keys = ("fixed_cycles", "core_cycles")
        for pipe in entries:
            self.only(self.table(entries, pipe, f"{at}.heads"), keys, f"{at}.heads.{pipe}")
        return tuple((p, *(float(self.number(e, k, f"{at}.heads.{p}")) if k in e else 0.0 for k in keys))  # type: ignore[misc]
                     for p, e in entries.items())

    def scalar(self, raw: dict[str, Any]) -> dict[str, Any]:
        loop = self.number(raw, "loop_cycles", "scalar") if "loop_cycles" in raw else 0
        return {"issue_cycles": self.number(raw, "issue_cycles", "scalar"), "loop_cycles": float(loop)}

    def scope(self, name: str, raw: dict[str, Any], cores: Mapping[str, CoreKind]) -> Scope:
        at = f"scopes.{name}"
        entry = self.table(raw["scopes"], name, "scopes")
        if name not in SCOPES or name == "GM":
            raise self.fail("scopes", f"unknown scope {name}; {near(name, SCOPES[1:])}")
        self.only(entry, ("core", "size_bytes", "align_bytes"), at)
        named = entry.get("core") if isinstance(entry.get("core"), list) else [entry.get("core")]
        kinds = tuple(self.word({"core": kind}, "core", at, cores) for kind in named or [None])
        size = self.integer(entry, "size_bytes", at)
        if size > MAX_SCOPE_BYTES:
            raise self.fail(f"{at}.size_bytes", f"is {size:,} and may be {MAX_SCOPE_BYTES:,} at most")
        return Scope(name, kinds, size, self.integer(entry, "align_bytes", at))

    def path(self, name: str, raw: dict[str, Any]) -> Path:
        at = f"paths.{name}"
        entry = self.table(raw["paths"], name, "paths")
        self.only(entry, ("from", "to", "pipe", "bytes_per_cycle", "l2_bytes_per_cycle", "latency_cycles"), at)
        rate = self.rate(entry, "bytes_per_cycle", at)
        l2_rate = self.rate(entry, "l2_bytes_per_cycle", at) if "l2_bytes_per_cycle" in entry else rate
        return Path(name, self.word(entry, "from", at, SCOPES), self.word(entry, "to", at, SCOPES), self.word(entry, "pipe", at, PIPES),
                    rate, l2_rate, float(self.number(entry, "latency_cycles", at)))

    def dtype_table(self, name: str, raw: dict[str, Any]) -> dict[str, float]:
        entry = self.table(raw["tables"], name, "tables")
        self.only(entry, DTYPES, f"tables.{name}")
        return {d: self.number(entry, d, f"tables.{name}") for d in entry}

    def constants(self, raw: dict[str, Any], paths: Mapping[str, Path]) -> dict[str, float]:
        named = {k: self.number(self.table(raw, "numbers"), k, "numbers", low=None) for k in self.table(raw, "numbers")}
        named["clock_mhz"] = self.rate(raw, "clock_mhz")
        for p in paths.values():
            named |= {f"{p.name}_rate": p.bytes_per_cycle, f"{p.name}_l2_rate": p.l2_bytes_per_cycle, f"{p.name}_latency": p.latency_cycles}
        return named

    def timing(self, raw: dict[str, Any], cores: Mapping[str, CoreKind], scopes: Mapping[str, Scope],
               *named: Iterable[str]) -> dict[str, Timing]:
        """Return the timing of every instruction that a core of this machine can run; formulas may use what is `named`."""
        if self.known is not None:
            return self.known
        entries = self.table(raw, "timing")
        self.only(entries, INSTRUCTIONS, "timing")
        lacks = {f.op for f in self.lacks(raw) if not f.dtypes and not f.numbers}
        words = set(GIVEN).union(*named)
        terms = self.table(raw, "terms") if "terms" in raw else {}
        self.terms = {k: self.formula(v, f"terms.{k}", None) for k, v in terms.items()}
        reach = [(c.pipes, [s.name for s in scopes.values() if c.name in s.cores]) for c in cores.values()]
        had = [i for i in INSTRUCTIONS.values() if i.name not in lacks and any(i.runs_on(*r) for r in reach)]
        return {i.name: self.formulas(i, self.table(entries, i.name, "timing"), words) for i in had}

    def lacks(self, raw: dict[str, Any]) -> tuple[Form, ...]:
        """Return what the file says that the machine lacks: instructions, or forms of them ("vconv int32 fp32", "load3d channels=4")."""
        given = raw.get("lacks", [])
        if not isinstance(given, list) or not all(isinstance(g, str) and g.strip() for g in given):
            raise self.fail("lacks", "must be a list of instructions that this machine does not have")
        return tuple(self.form(text) for text in given)

    def form(self, text: str) -> Form:
        """Return an entry of `lacks`: an instruction, dtypes of its operands in order, numbers as name=value."""
        op, *words = text.split()
        self.only({op: None}, INSTRUCTIONS, "lacks")
        dtypes, numbers = [w for w in words if "=" not in w], dict(w.split("=", 1) for w in words if "=" in w)
        self.only(dict.fromkeys(dtypes), DTYPES, f"lacks: {op}")
        self.only(numbers, [*(n.name for n in INSTRUCTIONS[op].numbers if not n.real), *PARTS.get(op, ())], f"lacks: {op}")
        if len(dtypes) > len(INSTRUCTIONS[op].operands) or not all(v.isdecimal() for v in numbers.values()):
            raise self.fail("lacks", f"{text}: an entry is an instruction, dtypes of its operands in order, and numbers as name=value")
        return Form(op, tuple(dtypes), tuple((n, int(v)) for n, v in numbers.items()))

    def formulas(self, instruction: Instruction, entry: dict[str, Any], words: set[str]) -> Timing:
        at = f"timing.{instruction.name}"
        optional = ("granule",) * ("unit" in instruction.fields()) + ("memory",) * (instruction.gm_bytes != Int(0))
        self.only(entry, ("busy", "latency", *optional, "source", "confidence"), at)
        if "busy" not in entry:
            raise self.fail(at, "needs a formula `busy`")
        known = words | {n.name for n in instruction.numbers if not n.real} | set(placed_names(instruction))
        return Timing(self.formula(entry["busy"], f"{at}.busy", known), *(
            self.formula(entry[k], f"{at}.{k}", known) if k in entry else Int(k == "memory") for k in ("latency", "granule", "memory")))

    def formula(self, text: Any, at: str, known: set[str] | None) -> Expr:
        """Return the formula of a text, terms put in their places; it may name what is `known` (None: a term, whose users check it)."""
        if not isinstance(text, str):
            raise self.fail(at, "must be a formula in quotes")
        if len(text) > FORMULA_LIMIT:
            raise self.fail(at, f"is {len(text):,} characters long; a formula has at most {FORMULA_LIMIT:,}")
        try:
            formula = parse_expr(text, f"{self.file(at)}: {at}")
            if known is None:
                return formula
            if (size := spelt_out(formula, self.terms, {})) > FORMULA_LIMIT:
                raise self.fail(at, f"is {size:,} words long with its terms in place; a formula has at most {FORMULA_LIMIT:,}")
            for _ in self.terms:  # a term may name others; after as many rounds as there are terms none is left
                if variables(formula).isdisjoint(self.terms):
                    break
                formula = substitute(formula, self.terms)
        except RecursionError:
            raise self.fail(at, "is nested too deeply, or a term stands for itself") from None
        except AoecError as e:
            raise TargetError(str(e)) from None
        for name in sorted(variables(formula) - known):
            raise self.fail(at, f"unknown name {name}; {near(name, {*known, *self.terms})}")
        return formula

    def flags(self, raw: dict[str, Any]) -> dict[str, Any]:
        hop = self.rate(raw, "hop_cycles", "flags")  # above zero: a signal may not arrive at the instant that it is sent
        return {"flag_ids": self.integer(raw, "ids", "flags"), "flag_hop_cycles": hop, "cross_ids": self.integer(raw, "cross_ids", "flags"),
                "cross_count": self.integer(raw, "cross_count", "flags"), "cross_cycles": self.rate(raw, "cross_cycles", "flags")}

    def shared_memory(self, raw: dict[str, Any]) -> dict[str, Any]:
        size, usable = self.integer(raw, "l2_size_bytes", "shared"), self.integer(raw, "l2_usable_bytes", "shared")
        if usable > size:
            raise self.fail("shared.l2_usable_bytes", f"is {usable:,} and more than the {size:,} of l2_size_bytes")
        rates: dict[str, float | None] = {k: self.rate(raw, k, "shared") for k in ("hbm_bytes_per_s", "l2_bytes_per_s")}
        rates |= {k: self.rate(raw, k, "shared") if k in raw else None for k in OPTIONAL["shared"]}
        return {**rates, "l2_size_bytes": size, "l2_usable_bytes": usable}

    def launch(self, raw: dict[str, Any]) -> dict[str, Any]:
        plain = {f"launch_{k}": float(self.number(raw, k, "launch")) for k in ("fixed_us", "per_core_us", "stream_us")}
        tiling = {k: float(self.number(raw, k, "launch")) if k in raw else None for k in OPTIONAL["launch"]}
        return plain | tiling | {k: float(self.number(raw, k, "launch")) for k in ("queue_gap_us", "enqueue_us")}
