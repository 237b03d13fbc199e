"""How fast programs are timed: instructions and flag operations a second of the kernel, and as a ratio to the slow simulator.

It also measures the CPU time of random rows of whole spaces and of default schedules, and the share of them that is skipped.

    python bench/throughput.py [--rows 2000] [--only cube vector] [--spaces] [--defaults] [--json]

Rates over the distinct groups of models: bench/rates.py. The ratio is of one machine to itself, so it may be compared between computers.
The rates may not.
"""
from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from aoec.jobs.stages.stages import lower_operator
from aoec.jobs.tune.tuning import Problem, problem, start
from aoec.search.space.grid import Candidate
from aoec.simulate.encode.encode import encode
from aoec.simulate.reasons.detail import walk
from aoec.simulate.timing.state import COLD
from aoec.simulate.timing.time import time_rows
from aoec.target.machine import load
from tests.oracle.pipelines import cube_program, filled, vector_program
from tests.oracle.slow_timeline import Simulator, simulate

# groups of ResNet-50, and products whose loops are long
SPACES = ("conv2d(n=1, c=64, h=56, w=56, co=64, kh=3, kw=3, pad=1, bias, relu)",
          "conv2d(n=1, c=512, h=7, w=7, co=512, kh=3, kw=3, pad=1, bias, relu)",
          "conv2d(n=1, c=256, h=56, w=56, co=64, kh=1, kw=1, bias, relu)", "matmul(m=1, k=2048, n=1000, bias)", "add(m=256, n=3136, relu)",
          "matmul(m=4096, k=4096, n=4096, fp16)")
PROGRAMS = ("cube", "vector")
PRODUCTS = ("matmul(m=4096, k=4096, n=4096, fp16)", "matmul(m=8192, k=8192, n=8192, fp16)")


def workload(name: str):
    """Return (program, choices of its holes)"""
    if name == "cube":
        tiles = {"pm": (512, 256), "pn": (512, 1024), "tm": (64, 128), "tn": (64, 128, 256), "tk": (64, 128, 256)}
        return cube_program("Ascend910B3", 2048, 2048, 1024), tiles | {"da": (1, 2), "dc": (1, 2)}
    choices = {"p": (26215, 32768), "t": (512, 1024, 2048), "d": (1, 2)}
    return vector_program("Ascend910B3", 1 << 20, halo=False, repeats=1, op="vadd"), choices


def columns(choices, count):
    random = np.random.default_rng(0)
    return {name: random.choice(values, count) for name, values in choices.items()}


def operations(program, machine) -> int:
    """Return instructions and flag operations of all cores of a filled program, counted by the slow simulator's own unrolling."""
    return sum(sum(item is not None for item, *_ in core.items)
               for cores in Simulator(program, machine, ()).cores.values() for core in cores)


def seconds(work, times: int = 3) -> float:
    best = float("inf")
    for _ in range(times):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def cpu_seconds(work) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def skipped(programs, machine) -> float:
    """Return the share of operations, of one core of each class, that stand in skipped iterations."""
    told = sum(walk(encode(p, machine), COLD).told.operations for p in programs)
    return 1 - told[1] / max(told[0], 1)


def drawn(p: Problem, count: int) -> list[Candidate]:
    """Return about `count` random candidates of all sketches that keep every constraint."""
    random = np.random.default_rng(0)
    tried = [(s, tuple(int(random.choice(v)) for v in grid.choices)) for s, grid in enumerate(p.space.grids) for _ in range(4 * count)]
    legal = [c for c, good in zip(tried, p.legal(tried), strict=True) if good]
    return [legal[i] for i in sorted(random.choice(len(legal), min(count, len(legal)), replace=False))]


def bench_space(text: str, count: int) -> dict[str, float | str]:
    p = problem(lower_operator(text), load("Ascend910B1"))
    rows = drawn(p, count)
    p.cost(rows)  # compiles
    p.costs.clear()
    taken = cpu_seconds(lambda: p.cost(rows))
    sample = [p.program(c) for c in rows[::max(1, len(rows) // 5)]]
    return {"space": text, "rows": len(rows), "cpu_ms_per_row": taken / len(rows) * 1e3, "skipped": skipped(sample, p.machine)}


def bench_default(text: str) -> dict[str, float | str]:
    p = problem(lower_operator(text), load("Ascend910B1"))
    taken = cpu_seconds(lambda: start(p))
    return {"default": text, "rows": len(p.costs), "cpu_s": taken, "skipped": skipped([p.program(start(p).default)], p.machine)}


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
            "oracle_operations_per_s": work * len(sample) / slow, "ratio": slow / len(sample) / fast,
            "skipped": skipped(sample, machine)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--only", nargs="+", choices=PROGRAMS, default=PROGRAMS, metavar="PROGRAM", help=f"of {', '.join(PROGRAMS)}")
    parser.add_argument("--spaces", action="store_true", help="random rows of whole spaces as well, a tenth as many of each")
    parser.add_argument("--defaults", action="store_true", help="the default schedules of large products as well")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    results = [bench(name, args.rows) for name in args.only]
    spaces = [bench_space(text, args.rows // 10) for text in SPACES if args.spaces]
    defaults = [bench_default(text) for text in PRODUCTS if args.defaults]
    if args.json:
        print(json.dumps(results + spaces + defaults, indent=1))
        return
    for r in results:
        print(f"{r['program']:7} {r['operations']:>10,.0f} operations a row on all cores: kernel {r['kernel_rows_per_s']:>9,.0f} rows/s, "
              f"{r['kernel_operations_per_s'] / 1e6:>8,.0f} M/s; slow simulator {r['oracle_operations_per_s'] / 1e6:.3f} M/s; "
              f"ratio {r['ratio']:,.0f}; skipped {r['skipped']:.0%}")
    for r in spaces:
        print(f"{r['cpu_ms_per_row']:7.3f} CPU ms a row of {r['rows']}, skipped {r['skipped']:.0%}: {r['space']}")
    for r in defaults:
        print(f"{r['cpu_s']:7.2f} CPU s for the default of {r['rows']} rows, skipped {r['skipped']:.0%}: {r['default']}")


if __name__ == "__main__":
    main()
