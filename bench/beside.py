"""What a peer takes for the same products: AccelForge (PyPI `accelforge`, Python 3.12 or later), which proves the best mapping too.

    python bench/proofs.py resnet50 --beside accelforge [--beside-python /path/to/a/venv/bin/python]

It runs in a process of its own (bench/peer.py). It is asked twice. The *core* has the scopes, the paths and the fractal of one core of our
machine file, each path at the rate of data that hits L2. The *chip* is the same with HBM, L2 and all cube cores. Our own proofs decide the
chip. Each product is given by its extents in whole fractals. The peer models no flags, queues, heads, epilogues or images: a convolution
is the product that img2col makes of it. It sums each level's traffic. So one of its candidates costs less than one of ours. Its spaces
hold every order of the loops at each level. Ours hold some of these orders, with an argument that the best one is among them.
"""
from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.append(str(Path(__file__).resolve().parents[1]))

from bench.peer import answer, ask, map_workload

if TYPE_CHECKING:
    from aoec.ir.func.tir import Func
    from aoec.target.machine import Machine

FRACTAL = 16


# ---------------------------------------------------------------- our side

def products(func: Func) -> list[tuple[int, int, int, int]]:
    """Return (how many, m, k, n) of each product of a func; batches and groups of a convolution are so many of one."""
    from aoec.ir.index import reads, variables
    from aoec.search.sketches.nests import nests
    out = []
    for nest in nests(func):
        factors = reads(nest.block.value)
        if nest.block.op != "+=" or len(factors) != 2:
            continue
        in_left, in_right, kept = ({v for i in r.indices for v in variables(i)} for r in (*factors, nest.block.target))
        sizes = dict.fromkeys(((True, True, True), (True, False, True), (True, True, False), (False, True, True)), 1)
        for loop in nest.loops:
            role = loop.var in in_left, loop.var in in_right, loop.var in kept
            sizes[role] = sizes.get(role, 1) * nest.extent(loop.var)
        count, *rest = sizes.values()
        m, k, n = rest[:3]
        out.append((count, m, k, n))
    return out


def question(machine: Machine, layers: Sequence[tuple[int, int, int]]) -> dict[str, Any]:
    """Return what the peer's process is told: a core of the machine, the chip around it, and the extents (m, k, n) of each product."""
    clock = machine.clock_mhz * 1e6
    rates = {name: path.l2_bytes_per_cycle * clock for name, path in machine.paths.items()}
    sizes = {name: machine.scope(name).size_bytes for name in ("L1", "L0A", "L0B", "L0C")}
    out = next((rates[name] for name in ("l0c_gm", "l0c_ub") if name in rates), max(rates.values()))
    chip = {"cores": next(core.count for core in machine.cores.values() if "M" in core.pipes), "l2_size_bytes": machine.l2_size_bytes,
            "hbm_bytes_per_s": machine.hbm_bytes_per_s, "l2_bytes_per_s": machine.l2_bytes_per_s}
    return {"sizes_bytes": sizes, "chip": chip, "clock_hz": clock, "layers": [list(x) for x in layers],
            "depth": int(machine.tables["kf"]["fp16"]),
            "rates_bytes_per_s": {"GM": rates["gm_l1"], "L0A": rates["l1_l0a"], "L0B": rates["l1_l0b"], "L0C": out}}


def run(machine: Machine, layers: Sequence[tuple[int, int, int]], python: str = sys.executable) -> dict[str, Any] | None:
    """Return what the peer says of the products: its version, and for `core` and `chip` a row for each with the size of its space, how many
    mappings it evaluated, CPU seconds and the least cycles. None where the interpreter does not have it. Raise RuntimeError where it
    fails."""
    return ask(Path(__file__), question(machine, layers), python)


# ---------------------------------------------------------------- its side: nothing of aoec is imported here

def memory(name: str, size: str, tensors: str, rate: float, filled: float = 0.0) -> str:
    """Return a level of the hierarchy, read at a rate and filled at that or another. The peer wants an energy of every action; any will do,
    for it is asked for latency alone."""
    rates = {"read": rate, "write": filled or rate}
    actions = "\n".join(f"    - {{name: {a}, energy: 1e-12, throughput: {8 * r}}}" for a, r in rates.items())
    return (f"  - !Memory\n    name: {name}\n    size: {size}\n    leak_power: 0\n    area: 0\n"
            f"    tensors: {{keep: {tensors}}}\n    actions:\n{actions}\n")


def around(told: dict[str, Any], whole: bool) -> list[str]:
    """Return what lies around a core's scopes in the peer's words: GM, or of the whole chip HBM, L2 and its cores; and L1."""
    sizes, rates, chip = told["sizes_bytes"], told["rates_bytes_per_s"], told["chip"]
    if not whole:
        return [memory("GM", "inf", "All", rates["GM"]), memory("L1", str(8 * sizes["L1"]), "input | weight", rates["L0A"])]
    return [memory("HBM", "inf", "All", chip["hbm_bytes_per_s"]),
            memory("L2", str(8 * chip["l2_size_bytes"]), "All", chip["l2_bytes_per_s"]),
            f"  - !Container\n    name: Chip\n    spatial:\n    - {{name: core, fanout: {chip['cores']}}}\n",
            memory("L1", str(8 * sizes["L1"]), "input | weight", rates["L0A"], rates["GM"])]


def architecture(told: dict[str, Any], whole: bool) -> str:
    """Return the core, or the whole chip, in the peer's words. L0 buffers feed the cube as fast as it takes what they hold, so that paths
    bound it alone."""
    sizes, rates, clock = told["sizes_bytes"], told["rates_bytes_per_s"], told["clock_hz"]
    fast = clock * FRACTAL * told["depth"] * 2
    levels = [*around(told, whole), memory("L0A", str(8 * sizes["L0A"]), "input", fast),
              memory("L0B", str(8 * sizes["L0B"]), "weight", fast), memory("L0C", str(8 * sizes["L0C"]), "output", max(fast, rates["L0C"]))]
    places = [("row", FRACTAL, "weight"), ("column", FRACTAL, "input"), ("depth", told["depth"], "output")]
    cube = "".join(f"    - {{name: {n}, fanout: {f}, reuse: {r}, min_usage: 1}}\n" for n, f, r in places)
    return ("arch:\n  nodes:\n" + "\n".join(levels) + f"\n  - !Container\n    name: Cube\n    spatial:\n{cube}"
            f"\n  - !Compute\n    name: MAC\n    leak_power: 0\n    area: 0\n    actions:\n"
            f"    - {{name: compute, energy: 1e-12, throughput: {clock}}}\n")


def workload(m: int, k: int, n: int) -> str:
    """Return one product in whole fractals."""
    shape = "".join(f"    {axis}: 0 <= {axis} < {-(-size // FRACTAL) * FRACTAL}\n" for axis, size in (("m", m), ("k", k), ("n", n)))
    return (f"workload:\n  iteration_space_shape:\n{shape}  bits_per_value: {{All: 16}}\n  einsums:\n  - name: Product\n"
            "    tensor_accesses:\n    - {name: A, projection: [m, k]}\n    - {name: B, projection: [k, n]}\n"
            "    - {name: C, projection: [m, n], output: True}\n    renames: {weight: B, input: A, output: C}\n")


def mapped(package: Any, folder: Path, told: dict[str, Any], layer: Sequence[int], whole: bool) -> dict[str, Any]:
    """Return the peer's row of one product."""
    (folder / "arch.yaml").write_text(architecture(told, whole), "utf-8")
    (folder / "workload.yaml").write_text(workload(*layer), "utf-8")
    found = map_workload(package, folder / "arch.yaml", folder / "workload.yaml")
    return {"layer": list(layer), **found, "cycles": found["seconds"] * told["clock_hz"]}


def rows(package: Any, folder: Path, told: dict[str, Any]) -> dict[str, Any]:
    """Return the peer's rows of all products, for a core and for the chip."""
    return {name: [mapped(package, folder, told, layer, name == "chip") for layer in told["layers"]] for name in ("core", "chip")}


if __name__ == "__main__":
    raise SystemExit(answer(rows))
