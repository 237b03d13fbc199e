"""A machine file from the `platform_config` file of a user's own CANN (docs/languages.md, machine).

What such a file says of counts, sizes and clock is taken over with its place as source. Of its rates only those are that hold for the
generation: the files of AIC-C-220 repeat the rates of 910A, which newer official tables and every measurement contradict.
"""
from __future__ import annotations

import configparser
import re
from dataclasses import dataclass, field
from pathlib import Path

from aoec.base.errors import TargetError
from aoec.target.inherit import near, read_file, shipped_machines
from aoec.target.machine import parse_machine

MOST = 1 << 50  # above any count, size or rate
USABLE = 100 / 192  # of L2 before eviction: ops-nn matmul_v3_base_tiling on 910B


Rates = dict[str, tuple[str, ...]]  # key of AICoreMemoryRates -> places in the machine file


@dataclass(frozen=True)
class Family:
    """A core generation: its file, which core kinds its counts are, and which of its rates hold (key -> places)."""

    file: str
    cores: dict[str, str]  # core kind -> key of SoCInfo
    rates: Rates
    kept: str = ""  # why the other rates are the family's


_TO_L0: Rates = {"l1_to_l0_a_rate": ("l1_l0a.bytes_per_cycle",), "l1_to_l0_b_rate": ("l1_l0b.bytes_per_cycle",)}
_L2: Rates = {"l2_read_rate": ("gm_l1.l2_bytes_per_cycle", "gm_ub.l2_bytes_per_cycle")}
_DDR: Rates = {"ddr_read_rate": ("gm_l1.bytes_per_cycle", "gm_ub.bytes_per_cycle")}
_COUPLED: Rates = _TO_L0 | _L2 | {"l0_c_to_ub_rate": ("l0c_ub.bytes_per_cycle",), "ub_to_l1_rate": ("ub_l1.bytes_per_cycle",)}
_SPLIT = {"aic": "cube_core_cnt", "aiv": "vector_core_cnt"}
FAMILIES = {
    "AIC-C-220": Family("family_2201", _SPLIT, {}, "they repeat those of 910A; L1 to L0A and L0B is 256 and 128 B/cycle by newer official "
                        "tables and on boards (the file says 512 and 256), and one core alone reads GM faster than ddr_rate says"),
    "AIC-C-310": Family("family_3510", _SPLIT, _TO_L0 | {"l2_read_rate": ("gm_l1.l2_bytes_per_cycle",)},
                        "its ddr_rate is a core's share of the chip, not what one core can read"),
    "AIC-C-100": Family("family_c100", {"core": "ai_core_cnt"}, _COUPLED | {"ub_to_ddr_rate": ("ub_gm.bytes_per_cycle",)},
                        "operators were measured above its ddr_rate"),
    "AIC-M-200": Family("family_m200", {"core": "ai_core_cnt", "aiv": "vector_core_cnt"},
                        _COUPLED | _DDR | {"ub_to_l2_rate": ("ub_gm.bytes_per_cycle",)}),
    "AIC-M-300": Family("family_m300", {"core": "ai_core_cnt"}, _COUPLED | _DDR | {"ub_to_ddr_rate": ("ub_gm.bytes_per_cycle",)}),
    "AIC-M-100": Family("family_m100", {"core": "ai_core_cnt"}, _COUPLED | _DDR | {"ub_to_ddr_rate": ("ub_gm.bytes_per_cycle",)}),
}
SCOPES = {"L1": "l1_size", "L0A": "l0_a_size", "L0B": "l0_b_size", "L0C": "l0_c_size", "UB": "ub_size"}


@dataclass
class _File:
    """A platform_config file; every refusal names the file, the section and the key."""

    source: str
    config: configparser.RawConfigParser
    lines: list[str] = field(default_factory=list)

    def fail(self, where: str, message: str) -> TargetError:
        return TargetError(f"{self.source}: {where}: {message}")

    def text(self, section: str, key: str) -> str:
        """Return the words of a key; TargetError where they are missing."""
        if not self.config.has_section(section):
            raise self.fail(f"[{section}]", f"this section is missing; {near(section, self.config.sections())}")
        value = self.config[section].get(key, "").strip()
        if not value:
            raise self.fail(f"[{section}] {key}", f"this key is missing or empty; {near(key, self.config[section])}")
        return value

    def integer(self, section: str, key: str) -> int:
        """Return the whole number of a key, above zero."""
        value = self.text(section, key)
        if not re.fullmatch(r"[0-9]{1,16}", value) or not 0 < int(value) < MOST:
            raise self.fail(f"[{section}] {key}", f"is {value[:40]!r} and must be a whole number above zero")
        return int(value)

    def has(self, section: str, key: str) -> bool:
        return bool(self.config.get(section, key, fallback="").strip())

    def first(self, section: str, *keys: str) -> str:
        """Return the first of some keys that the file has; the first of all where it has none, which is then missed by name."""
        return next((key for key in keys if self.has(section, key)), keys[0])

    def put(self, place: str, value: int | float, source: str, confidence: str = "official") -> None:
        """Adds a number to the machine file."""
        plain = int(value) if value == int(value) else value
        self.lines.append(f'{place} = {{value = {plain}, source = "{source}", confidence = "{confidence}"}}')

    def take(self, place: str, section: str, key: str) -> None:
        """Takes a number over, with its place as source."""
        self.put(place, self.integer(section, key), self.cite(key))

    def cite(self, key: str) -> str:
        return f"platform_config {Path(self.source).name} {key}".replace("\\", "/").replace('"', "'")


def import_platform(path: Path) -> tuple[str, list[str]]:
    """Return (machine file, notes) of a platform_config file: what is not taken over and what no file says is in the notes."""
    ini = _File(str(path), _parse_config(path))
    arch = ini.text("version", "AIC_version")
    if arch not in FAMILIES:
        raise ini.fail("[version] AIC_version", f"is {arch[:40]!r}, a core generation that has no machine here; {near(arch, FAMILIES)}")
    family, name = FAMILIES[arch], re.sub(r"\W", "_", ini.text("version", "SoC_version"), flags=re.ASCII)
    own = f"{name}_imported"  # other numbers than a shipped machine of that name may have
    if not name.isidentifier():
        raise ini.fail("[version] SoC_version", f"is {name[:40]!r}, which cannot be a target's name")
    parent = name if name in shipped_machines() else family.file
    _counts(ini, family)
    _rates(ini, family)
    notes = _memory(ini, family, parent)
    if family.kept and ini.config.has_section("AICoreMemoryRates"):
        which = "other rates" if family.rates else "the rates"
        notes.append(f"{which} of [AICoreMemoryRates] are not taken over: {family.kept}")
    text = "\n".join([f"# {own}, made by `aoec targets import` from {path.name}; the core generation is {arch}.", f'name = "{own}"',
                      f'extends = "{parent}"', *ini.lines, ""])
    parse_machine(text, f"{path} as a machine file")
    return text, notes


def _parse_config(path: Path) -> configparser.RawConfigParser:
    config = configparser.RawConfigParser(strict=True, delimiters=("=",), inline_comment_prefixes=None)
    config.optionxform = str  # type: ignore[method-assign,assignment]  # keys are told apart by case
    try:
        config.read_string(read_file(path), str(path))
    except configparser.Error as e:
        raise TargetError(f"{path}: no platform_config file: {' '.join(str(e).split())}") from None
    return config


def _counts(ini: _File, family: Family) -> None:
    """Take the clock, cores and sizes from the file."""
    ini.take("clock_mhz", "AICoreSpec", "cube_freq")
    for kind, key in family.cores.items():
        ini.take(f"cores.{kind}.count", "SoCInfo", key if ini.has("SoCInfo", key) or kind == "aiv" else "ai_core_cnt")
    for scope, key in SCOPES.items():
        section = "VectorCoreSpec" if scope == "UB" and "aic" in family.cores and ini.has("VectorCoreSpec", key) else "AICoreSpec"
        ini.take(f"scopes.{scope}.size_bytes", section, key)
    if "FB" in _scopes(family) and ini.has("AICoreSpec", "fb0_size"):
        parts = [f"fb{i}_size" for i in range(4) if ini.has("AICoreSpec", f"fb{i}_size")]
        ini.put("scopes.FB.size_bytes", sum(ini.integer("AICoreSpec", p) for p in parts), ini.cite(" + ".join(parts)))
    if "BT" in _scopes(family) and ini.has("AICoreSpec", "bt_size"):
        ini.take("scopes.BT.size_bytes", "AICoreSpec", "bt_size")


def _scopes(family: Family) -> tuple[str, ...]:
    """Return the scopes beside those of every generation."""
    return ("BT", "FB") if family.file in ("family_2201", "family_3510", "family_m300") else ()


def _rates(ini: _File, family: Family) -> None:
    for key, places in family.rates.items():
        for place in places:
            ini.take(f"paths.{place}", "AICoreMemoryRates", key)


def _memory(ini: _File, family: Family, parent: str) -> list[str]:
    """Take L2 and DRAM from the file. Return notes on what no platform_config file says."""
    l2 = ini.integer("SoCInfo", "l2_size")
    ini.put("shared.l2_size_bytes", l2, ini.cite("l2_size"))
    ini.put("shared.l2_usable_bytes", int(l2 * USABLE), "100 of 192 MB, as ops-nn takes on 910B, by the size", "estimate")
    if ini.has("SoCInfo", "memory_size"):
        ini.take("shared.memory_bytes", "SoCInfo", "memory_size")
    if parent != family.file:
        return []
    cores = ini.integer("SoCInfo", next(iter(family.cores.values())) if ini.has("SoCInfo", "cube_core_cnt") else "ai_core_cnt")
    cycles = cores * ini.integer("AICoreSpec", "cube_freq") * 1e6
    ddr_key, l2_key = ini.first("AICoreMemoryRates", "ddr_rate", "ddr_read_rate"), ini.first("AICoreMemoryRates", "l2_rate", "l2_read_rate")
    ddr = ini.integer("AICoreMemoryRates", ddr_key) * cycles
    ini.put("shared.hbm_bytes_per_s", ddr, f"{ini.cite(ddr_key)} x {cores} cores x clock", "estimate")
    ini.put("shared.hbm_nominal_bytes_per_s", ddr / 0.85, "the rate that cores reach is about 85 % of nominal on 910B", "estimate")
    l2_rate = ini.integer("AICoreMemoryRates", l2_key) * cycles
    ini.put("shared.l2_bytes_per_s", l2_rate, f"{ini.cite(l2_key)} x {cores} cores x clock", "estimate")
    return ["what DRAM and L2 of the whole chip reach is not in the file: estimated from a core's rates; put a measured value in its place"]
