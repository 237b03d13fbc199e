"""The machines as facts and as text: what `aoec targets` prints."""
from __future__ import annotations

from typing import Any

from aoec.ir.show import show
from aoec.target.machine import Machine, load, targets


def machines() -> list[dict[str, Any]]:
    """One line of facts for each machine that comes with aoec."""
    return [_summary(load(name)) for name in targets()]


def machine_facts(name: str) -> dict[str, Any]:
    """Everything that a machine's file says: each number with source and confidence, each timing formula."""
    m = load(name)
    numbers = {key: {"value": n.value, "source": n.source, "confidence": n.confidence} for key, n in m.sources.items()}
    formulas = {op: {"busy": show(t.busy), "latency": show(t.latency)} for op, t in m.timing.items()}
    return _summary(m) | {"numbers": numbers, "formulas": formulas}


def _summary(m: Machine) -> dict[str, Any]:
    return {
        "name": m.name, "cores": {k: c.count for k, c in m.cores.items()}, "clock_mhz": m.clock_mhz,
        "hbm_bytes_per_s": m.hbm_bytes_per_s, "l2_bytes_per_s": m.l2_bytes_per_s, "l2_size_bytes": m.l2_size_bytes,
        "scopes_bytes": {s.name: s.size_bytes for s in m.scopes.values()}, "hash": m.hash,
    }


def show_machines(facts: list[dict[str, Any]]) -> str:
    """One line a machine."""
    return "".join(f"{f['name']:14} {_cores(f):22} {f['clock_mhz']:,.0f} MHz, HBM {f['hbm_bytes_per_s'] / 1e9:,.4g} GB/s, "
                   f"L2 {f['l2_size_bytes'] / 2**20:,.4g} MiB\n" for f in facts)


def _cores(facts: dict[str, Any]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in facts["cores"].items())


def show_machine(facts: dict[str, Any]) -> str:
    """The numbers as a table with sources, then the formulas."""
    rows = [(key, f"{n['value']:,}", n["confidence"], n["source"]) for key, n in facts["numbers"].items()]
    widths = [max(len(r[i]) for r in rows) for i in range(3)]
    lines = [f"{facts['name']}: {_cores(facts)}, {facts['clock_mhz']:,.0f} MHz, hash {facts['hash'][:12]}", "",
             *(f"{k:{widths[0]}}  {v:>{widths[1]}}  {c:{widths[2]}}  {s}" for k, v, c, s in rows), "",
             "cycles of instructions: pipe taken | result later"]
    width = max(len(op) for op in facts["formulas"])
    return "\n".join(lines + [f"{op:{width}}  {t['busy']} | {t['latency']}" for op, t in facts["formulas"].items()]) + "\n"
