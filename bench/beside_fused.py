"""What a peer needs for fused chains: AccelForge (PyPI `accelforge`, Python 3.12 or later), whose mapper proves the best mapping too.

It runs in a process of its own, perhaps of another interpreter, for its dependencies are not ours: a question in JSON on stdin, an answer
in JSON on stdout. It is told a memory without end, a buffer and a rate of computation. A case is a chain of equal products, or a workload
that its package ships, by the name of its file.
"""
from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SECONDS = 1800.0  # after which the peer is stopped
MISSING = 3  # exit code of a process that finds no package


def run(question: dict[str, Any], python: str = sys.executable) -> dict[str, Any] | None:
    """The peer's version, and for each case its latency, the size of its space, what it evaluated and CPU seconds. None where the
    interpreter does not have it; RuntimeError where it fails."""
    try:
        done = subprocess.run([python, str(Path(__file__).resolve())], input=json.dumps(question), text=True, capture_output=True,
                              timeout=SECONDS)
    except (OSError, subprocess.TimeoutExpired) as e:
        raise RuntimeError(f"{python}: {e}") from e
    if done.returncode == MISSING:
        return None
    if done.returncode:
        raise RuntimeError(f"{python}: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
    return dict(json.loads(done.stdout))


# ---------------------------------------------------------------- its side: no import of ours from here on

def memory(name: str, size: str, keep: str, rate: float) -> str:
    """A memory that reads and writes so many bits a second. The peer wants an energy of every action; it is asked for latency alone."""
    return (f"  - !Memory\n    name: {name}\n    size: {size}\n    leak_power: 0\n    area: 0\n"
            f"    tensors: {{keep: {keep}, may_keep: All}}\n    actions:\n"
            + "".join(f"    - {{name: {action}, energy: 1, throughput: {rate!r}}}\n" for action in ("read", "write")))


def architecture(told: dict[str, Any]) -> str:
    """The machine in the peer's words. What lies between operators need not go through the outer memory."""
    return ("arch:\n  nodes:\n" + memory("MainMemory", "inf", "~Intermediates", told["gm_rate"])
            + memory("L2", str(told["buffer_bits"]), "~MainMemory", told["buffer_rate"])
            + "  - !Compute\n    name: MAC\n    leak_power: 0\n    area: 0\n    actions:\n"
            f"    - {{name: compute, energy: 1, throughput: {told['step_rate']!r}}}\n")


def products(count: int, m: int, n: int, bits: int) -> str:
    """A chain of equal products."""
    text = f"workload:\n  iteration_space_shape:\n    m: 0 <= m < {m}\n"
    text += "".join(f"    n{i}: 0 <= n{i} < {n}\n" for i in range(count + 1))
    text += f"  bits_per_value: {{All: {bits}}}\n  einsums:\n"
    for i in range(count):
        text += (f"  - name: Product{i}\n    tensor_accesses:\n    - {{name: T{i}, projection: [m, n{i}]}}\n"
                 f"    - {{name: W{i}, projection: [n{i}, n{i + 1}]}}\n    - {{name: T{i + 1}, projection: [m, n{i + 1}], output: True}}\n"
                 f"    renames: {{weight: W{i}, input: T{i}, output: T{i + 1}}}\n")
    return text


def shipped(name: str) -> Path:
    """A workload of the package. FileNotFoundError where it has none of this name."""
    import accelforge  # type: ignore[import-not-found]
    home = Path(accelforge.__file__).resolve().parents[1]
    for path in (home / "examples").rglob(name):
        return path
    raise FileNotFoundError(f"accelforge ships no {name}")


def mapped(package: Any, folder: Path, told: dict[str, Any], case: dict[str, Any]) -> dict[str, Any]:
    """The peer's row of one case."""
    from accelforge.mapper.FFM.main import join_pmappings, make_pmappings  # type: ignore[import-not-found]
    started = time.process_time()
    (folder / "arch.yaml").write_text(architecture(told), "utf-8")
    workload = folder / "workload.yaml"
    if "example" in case:
        workload = shipped(case["example"])
    else:
        workload.write_text(products(case["products"], case["m"], case["n"], case["bits"]), "utf-8")
    spec = package.Spec.from_yaml(folder / "arch.yaml", workload)
    spec.mapper.metrics = package.mapper.Metrics.LATENCY
    made = make_pmappings(spec, print_progress=False)
    best = join_pmappings(made, metrics=package.mapper.Metrics.LATENCY, print_progress=False)
    return {"seconds": float(best.data["Total<SEP>latency"].astype(float).min()), "space": float(made.n_total_pmappings()),
            "evaluated": float(made.n_evaluated_pmappings()), "cpu_s": time.process_time() - started}


def main() -> int:
    """Answers one question on stdin with JSON on stdout."""
    sys.path = [p for p in sys.path if Path(p or ".").resolve() != Path(__file__).resolve().parent]
    started = time.process_time()
    try:
        import accelforge as package
    except ImportError:
        return MISSING
    imported = time.process_time() - started
    told = json.load(sys.stdin)
    package.set_n_parallel_jobs(1)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        rows = [mapped(package, Path(folder), told, case) for case in told["cases"]]
    from importlib.metadata import version
    print(json.dumps({"version": version("accelforge"), "import_s": imported, "rows": rows}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
