"""The machines as facts and as text: what `aoec targets` prints and imports."""
from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from aoec.base.errors import CheckError
from aoec.base.files.files import read_text
from aoec.base.keys import digest
from aoec.ir.text.show import show
from aoec.jobs.known import recall
from aoec.target.inherit import shipped_texts
from aoec.target.machine import Machine, load, targets
from aoec.target.platform import import_platform


def machines() -> list[dict[str, Any]]:
    """Return what can be compared of each machine that comes with aoec. It follows from their files, whose formulas take longest to read:
    equal ones are read once."""
    said = digest("\n".join(f"{stem}\n{text}" for stem, text in sorted(shipped_texts().items())))
    return recall(("targets", said), lambda: [_summary(load(name)) for name in targets()], lambda made: made, lambda kept: kept)


def machine_facts(name: str) -> dict[str, Any]:
    """Return everything that a machine's files say: each number with unit, source, confidence and file, each timing formula."""
    m = load(name)
    formulas = {op: {"busy": show(t.busy), "latency": show(t.latency)} for op, t in m.timing.items()}
    return _summary(m) | {"numbers": {key: asdict(n) for key, n in m.sources.items()}, "formulas": formulas}


def import_machine(path: str) -> tuple[str, list[str]]:
    """Return (machine file, notes) from a platform_config file of CANN."""
    text = "\n".join(line for line in read_text(path).splitlines() if line.strip() and line.lstrip()[0] not in "#;")
    if not text.lstrip("\ufeff").startswith("["):
        raise CheckError("this is no platform_config file of CANN, such as Ascend910B3.ini: it does not begin with a [section]",
                         source=path)
    return import_platform(Path(path))


def _summary(m: Machine) -> dict[str, Any]:
    return {
        "name": m.name, "cores": {k: c.count for k, c in m.cores.items()}, "clock_mhz": m.clock_mhz,
        "peak_ops_per_s": {t: m.peak_ops_per_s(t) for t in ("fp16", "int8")}, "memory_bytes": m.memory_bytes,
        "hbm_bytes_per_s": m.hbm_bytes_per_s, "hbm_nominal_bytes_per_s": m.hbm_nominal_bytes_per_s, "l2_bytes_per_s": m.l2_bytes_per_s,
        "l2_size_bytes": m.l2_size_bytes, "l2_usable_bytes": m.l2_usable_bytes,
        "scopes_bytes": {s.name: s.size_bytes for s in m.scopes.values()}, "hash": m.hash,
    }


COLUMNS = ("target", "cores", "MHz", "fp16", "int8", "DRAM GB", "GB/s", "L2 MB", "usable", "L1", "L0A", "L0B", "L0C", "UB KB")

LEGEND = ("fp16, int8: peak of the cube, 1e12 operations a second, from cores, clock and products a cycle.  GB/s: what DRAM reaches",
          "for all cores, and its nominal rate.  Each number with its source: aoec targets show NAME")


def show_machines(facts: list[dict[str, Any]]) -> str:
    """Return one line a machine under a line of headings; then what the columns say."""
    rows = [COLUMNS, *(_row(f) for f in facts)]
    widths = [max(len(r[i]) for r in rows) for i in range(len(COLUMNS))]
    lines = ["  ".join(f"{c:<{w}}" if i < 2 else f"{c:>{w}}" for i, (c, w) in enumerate(zip(r, widths))).rstrip() for r in rows]
    return "\n".join([*lines, "", *LEGEND]) + "\n"


def _row(f: dict[str, Any]) -> tuple[str, ...]:
    peaks = [f["peak_ops_per_s"][t] for t in ("fp16", "int8")]
    nominal = f["hbm_nominal_bytes_per_s"]
    rate = f"{f['hbm_bytes_per_s'] / 1e9:,.4g}" + (f" of {nominal / 1e9:,.4g}" if nominal else "")
    scopes = (f"{f['scopes_bytes'].get(s, 0) / 1024:,.4g}" for s in ("L1", "L0A", "L0B", "L0C", "UB"))
    return (f["name"], _cores(f), f"{f['clock_mhz']:,.0f}", *(f"{p / 1e12:,.4g}" if p else "-" for p in peaks),
            f"{f['memory_bytes'] / 2**30:,.3g}" if f["memory_bytes"] else "-", rate, f"{f['l2_size_bytes'] / 2**20:,.3g}",
            f"{f['l2_usable_bytes'] / 2**20:,.3g}", *scopes)


def _cores(facts: dict[str, Any]) -> str:
    return " + ".join(f"{count} {kind}" for kind, count in facts["cores"].items())


def show_machine(facts: dict[str, Any]) -> str:
    """Return the numbers as a table with units, sources and files, then the formulas."""
    rows = [(key, f"{n['value']:,}", n["unit"], n["confidence"], n["file"], n["source"]) for key, n in facts["numbers"].items()]
    widths = [max(len(r[i]) for r in rows) for i in range(5)]
    lines = [f"{facts['name']}: {_cores(facts)}, {facts['clock_mhz']:,.0f} MHz, hash {facts['hash'][:12]}", ""]
    for key, value, unit, *rest in rows:
        words = "  ".join(f"{x:{w}}" for x, w in zip(rest, widths[3:]))
        lines.append(f"{key:{widths[0]}}  {value:>{widths[1]}} {unit:{widths[2]}}  {words}  {rest[-1]}")
    lines += ["", "cycles of instructions: pipe taken | result later"]
    width = max(len(op) for op in facts["formulas"])
    return "\n".join(lines + [f"{op:{width}}  {t['busy']} | {t['latency']}" for op, t in facts["formulas"].items()]) + "\n"
