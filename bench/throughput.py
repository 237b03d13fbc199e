"""How fast programs are timed: instructions and flag operations a second of the kernel, and as a ratio to the slow simulator.

    python bench/throughput.py [--rows 2000] [--json]

The ratio is of one machine to itself, so it may be compared between computers; the rates may not.
"""
from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from aoec.simulate.encode import encode
from aoec.simulate.time import time_rows
from aoec.target.machine import load
from tests.oracle.pipelines import cube_program, filled, vector_program
from tests.oracle.slow_timeline import Simulator, simulate


def workload(name: str):
    """(program, choices of its holes)"""
    if name == "cube":
        tiles = {"pm": (512, 256), "pn": (512, 1024), "tm": (64, 128), "tn": (64, 128, 256), "tk": (64, 128, 256)}
        return cube_program("Ascend910B3", 2048, 2048, 1024), tiles | {"da": (1, 2), "dc": (1, 2)}
    choices = {"p": (26215, 32768), "t": (512, 1024, 2048), "d": (1, 2)}
    return vector_program("Ascend910B3", 1 << 20, halo=False, repeats=1, op="vadd"), choices


def columns(choices, count):
    random = np.random.default_rng(0)
    return {name: random.choice(values, count) for name, values in choices.items()}


def operations(program, machine) -> int:
    """Instructions and flag operations of all cores of a filled program, counted by the slow simulator's own unrolling."""
    return sum(sum(item is not None for item, *_ in core.items)
               for cores in Simulator(program, machine, ()).cores.values() for core in cores)


def seconds(work, times: int = 3) -> float:
    best = float("inf")
    for _ in range(times):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def bench(name: str, count: int) -> dict[str, float | str]:
    program, choices = workload(name)
    machine = load(program.target)
    encoded, table = encode(program, machine), columns(choices, count)
    time_rows(encoded, {n: v[:1] for n, v in table.items()})  # compiles
    rows = [{n: int(v[i]) for n, v in table.items()} for i in range(0, count, max(1, count // 3))][:3]
    sample = [filled(program, row) for row in rows]
    slow = seconds(lambda: [simulate(p, machine) for p in sample], 1)
    ticks = time_rows(encoded, {n: np.array([row[n] for row in rows]) for n in table}).ticks
    assert [simulate(p, machine).ticks for p in sample[:1]] == list(ticks[:1])
    work = sum(operations(p, machine) for p in sample) / len(sample)  # of all cores: the kernel walks one of each class
    fast = seconds(lambda: time_rows(encoded, table)) / count
    return {"program": name, "operations": work, "kernel_rows_per_s": 1 / fast, "kernel_operations_per_s": work / fast,
            "oracle_operations_per_s": work * len(sample) / slow, "ratio": slow / len(sample) / fast}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    results = [bench(name, args.rows) for name in ("cube", "vector")]
    if args.json:
        print(json.dumps(results, indent=1))
        return
    for r in results:
        print(f"{r['program']:7} {r['operations']:>10,.0f} operations a row on all cores: kernel {r['kernel_rows_per_s']:>9,.0f} rows/s, "
              f"{r['kernel_operations_per_s'] / 1e6:>8,.0f} M/s; slow simulator {r['oracle_operations_per_s'] / 1e6:.3f} M/s; "
              f"ratio {r['ratio']:,.0f}")


if __name__ == "__main__":
    main()
