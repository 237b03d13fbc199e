"""What a peer needs for fused chains: AccelForge (PyPI `accelforge`, Python 3.12 or later), whose mapper proves the best mapping too.

It runs in a process of its own (bench/peer.py). It is told a memory without end, a buffer and a rate of computation. A case is a chain of
equal products, or a workload that its package ships, by the name of its file.
"""
from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))

from bench.peer import answer, ask, map_workload


def run(question: dict[str, Any], python: str = sys.executable) -> dict[str, Any] | None:
    """Return the peer's version, and for each case its latency, the size of its space, what it evaluated and CPU seconds. None where the
    interpreter does not have it. Raise RuntimeError where it fails."""
    return ask(Path(__file__), question, python)


# ---------------------------------------------------------------- its side: nothing of aoec is imported here

def memory(name: str, size: str, keep: str, rate: float) -> str:
    """Return a memory that reads and writes so many bits a second. The peer wants an energy of every action; it is asked for latency
    alone."""
    return (f"  - !Memory\n    name: {name}\n    size: {size}\n    leak_power: 0\n    area: 0\n"
            f"    tensors: {{keep: {keep}, may_keep: All}}\n    actions:\n"
            + "".join(f"    - {{name: {action}, energy: 1, throughput: {rate!r}}}\n" for action in ("read", "write")))


def architecture(told: dict[str, Any]) -> str:
    """Return the machine in the peer's words. What lies between operators need not go through the outer memory."""
    return ("arch:\n  nodes:\n" + memory("MainMemory", "inf", "~Intermediates", told["gm_rate"])
            + memory("L2", str(told["buffer_bits"]), "~MainMemory", told["buffer_rate"])
            + "  - !Compute\n    name: MAC\n    leak_power: 0\n    area: 0\n    actions:\n"
            f"    - {{name: compute, energy: 1, throughput: {told['step_rate']!r}}}\n")


def products(count: int, m: int, n: int, bits: int) -> str:
    """Return a chain of equal products."""
    text = f"workload:\n  iteration_space_shape:\n    m: 0 <= m < {m}\n"
    text += "".join(f"    n{i}: 0 <= n{i} < {n}\n" for i in range(count + 1))
    text += f"  bits_per_value: {{All: {bits}}}\n  einsums:\n"
    for i in range(count):
        text += (f"  - name: Product{i}\n    tensor_accesses:\n    - {{name: T{i}, projection: [m, n{i}]}}\n"
                 f"    - {{name: W{i}, projection: [n{i}, n{i + 1}]}}\n    - {{name: T{i + 1}, projection: [m, n{i + 1}], output: True}}\n"
                 f"    renames: {{weight: W{i}, input: T{i}, output: T{i + 1}}}\n")
    return text


def shipped(name: str) -> Path:
    """Return a workload of the package. Raise FileNotFoundError where it has none of this name."""
    import accelforge  # type: ignore[import-not-found]
    home = Path(accelforge.__file__).resolve().parents[1]
    for path in (home / "examples").rglob(name):
        return path
    raise FileNotFoundError(f"accelforge ships no {name}")


def mapped(package: Any, folder: Path, told: dict[str, Any], case: dict[str, Any]) -> dict[str, Any]:
    """Return the peer's row of one case."""
    (folder / "arch.yaml").write_text(architecture(told), "utf-8")
    workload = folder / "workload.yaml"
    if "example" in case:
        workload = shipped(case["example"])
    else:
        workload.write_text(products(case["products"], case["m"], case["n"], case["bits"]), "utf-8")
    return map_workload(package, folder / "arch.yaml", workload)


def rows(package: Any, folder: Path, told: dict[str, Any]) -> dict[str, Any]:
    """Return the peer's rows of all cases."""
    return {"rows": [mapped(package, folder, told, case) for case in told["cases"]]}


if __name__ == "__main__":
    raise SystemExit(answer(rows))
