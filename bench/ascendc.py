"""How many groups of networks become kernels in Ascend C, and why the others do not; with --run, whether the kernels run.

    python bench/ascendc.py --network resnet50 bert-base ... [--target Ascend910B3 Ascend310P3] [--cann 8.5] [--run] [--jobs 2]
    python bench/ascendc.py --mutants [cube image vector mixed] [--most 10] [--jobs 2]

Compiles networks of the zoo in fp16 with an empty bank, batch 1, default schedules and one launch a group, and writes each program as a
kernel. It prints a row for each network and target, and a line for each reason of a refusal. With --run each distinct kernel is compiled
against the stand-in with g++, launched once, and its results are held against those of the model machine, element by element. Blocks that
add to one tensor do so in any order, so that sums of reals may differ by a rounding. With --mutants small faults are put into the programs
of some kernels, and a table says which of them the checker of programs notices, and which the stand-in. No kernel is compiled by CANN, or
runs on an NPU.
"""
from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

import aoec
from aoec.artifact.artifact import load
from aoec.ascendc.calls import DEFAULT_RELEASE, table
from aoec.ascendc.kernel import Kernel, write_kernel
from aoec.base.errors import AoecError, CapacityError, UnsupportedError
from aoec.ir.program import Program
from aoec.ir.text.simplify import simplify
from aoec.simulate.values.values import execute
from aoec.standin import launch
from aoec.standin import programs as on_standin
from aoec.target.machine import load as load_machine
from bench.kernel_mutants import KERNELS, NEITHER, verdicts
from bench.kernel_mutants import table as table_of_mutants
from bench.networks import NETWORKS

HEAD = ("| network | target | groups | kernels | distinct sources |", "|---|---|---:|---:|---:|")
RUN_HEAD = ("| network | target | groups | kernels | distinct sources | run | equal bit for bit | largest difference | faults |",
            "|---|---|---:|---:|---:|---:|---:|---:|---:|")
NAMES = ("resnet50", "bert-base", "gpt2", "yolov5s", "mobilenet-v2", "llama-1b-block")
KERNEL = "kernel"  # the name of every kernel that is run, so that those of one source are one


@dataclass(frozen=True)
class Outcome:
    """What a run of a kernel gave. `same`: every result is that of the model machine, bit for bit; `far`: the largest difference of two
    numbers, as a share of the largest magnitude in its tensor; `fault`: what ended it."""

    name: str
    same: bool = False
    far: float = 0.0
    fault: str = ""


def programs(network: str, target: str) -> Iterator[Program]:
    """Yield the programs of a network's groups, as they are shown."""
    with TemporaryDirectory() as folder:
        made = Path(folder) / "network.aoec"
        aoec.compile(NETWORKS[network](1, 0).model, made, target=target, precision="fp16", tune=False, bank=Path(folder) / "bank",
                     base="none", verify=False)
        found = load(made).groups
    yield from (simplify(g.program) for g in found if g.program)


def source_of(kernel: Kernel) -> str:
    """Return the source of a kernel under the name that all of them have when they are run."""
    return re.sub(rf"\b{kernel.name}\b", KERNEL, kernel.source)


def run(kernel: Kernel) -> Outcome:
    """Return the outcome of a kernel on the stand-in, compared with the model machine."""
    program = kernel.program
    try:
        compiled = launch.Kernel.compile(source_of(kernel), KERNEL, int(kernel.product), int(kernel.release.replace(".", "")))
        given = on_standin.draw(program, real=True)
        got = on_standin.launch(compiled, program, given, kernel.blocks, kernel.reads_on)
        wanted = execute(program, given)
    except AoecError as e:
        return Outcome(kernel.name, fault=str(e))
    same = all(x.tobytes() == wanted[n].tobytes() for n, x in got.items())
    return Outcome(kernel.name, same, max((difference(x, wanted[n]) for n, x in got.items()), default=0.0))


def difference(x: np.ndarray, y: np.ndarray) -> float:
    """Return the largest difference of two arrays as a share of the second's largest finite magnitude; infinite where one has a NaN or an
    infinity that the other has not."""
    a, b = x.reshape(-1).astype(np.float64), y.reshape(-1).astype(np.float64)
    odd = ~(np.isfinite(a) & np.isfinite(b))
    if not np.array_equal(a[odd], b[odd], equal_nan=True):
        return np.inf
    most = np.abs(b[~odd]).max(initial=0.0)
    return float(np.abs(a[~odd] - b[~odd]).max(initial=0.0) / (most or 1.0))


def rows(network: str, target: str, release: str, pool: ProcessPoolExecutor | None = None) -> Iterator[str]:
    """Yield the row of a network, a line for each reason of a refusal, and one for each kernel that gave something else."""
    total, kernels, refused = 0, dict[str, Kernel](), Counter[str]()
    written = 0
    for program in programs(network, target):
        total += 1
        try:
            kernel = write_kernel(program, load_machine(target), release)
            kernels.setdefault(source_of(kernel), kernel)
            written += 1
        except (UnsupportedError, CapacityError) as e:
            refused[str(e)] += 1
    row = f"| {network} | {target} | {total} | {written} | {len(kernels)} |"
    if pool is None:
        yield row
    else:
        done = list(pool.map(run, kernels.values()))
        faults = [o for o in done if o.fault]
        yield (f"{row} {len(done) - len(faults)} | {sum(o.same for o in done)} | {max((o.far for o in done), default=0.0):.2g} | "
               f"{len(faults)} |")
        yield from (f"    {o.name}: {o.fault or f'differs by {o.far:.2g} of the largest magnitude'}" for o in done if not o.same)
    yield from (f"    {count} {why}" for why, count in refused.most_common())


def mutant_rows(names: Sequence[str], most: int, jobs: int) -> Iterator[str]:
    """Yield the table of faults in these kernels, and a line for each that differs on the model machine alone."""
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        parts = {name: [pool.submit(verdicts, name, most, i, jobs) for i in range(jobs)] for name in names}
        judged = {name: [v for part in found for v in part.result()] for name, found in parts.items()}
    yield from table_of_mutants(judged)
    yield from (f"    {name}: {v.mutant.kind}: {v.mutant.what}" for name, found in judged.items() for v in found
                if v.by == NEITHER and not v.same)


def main(argv: Sequence[str] | None = None) -> int:
    """Return 0, after the rows that were asked for are printed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--network", nargs="+", choices=sorted(NETWORKS), default=NAMES, metavar="NAME")
    parser.add_argument("--target", nargs="+", default=["Ascend910B3"], metavar="NAME")
    parser.add_argument("--cann", default=DEFAULT_RELEASE, choices=tuple(table().releases))
    parser.add_argument("--run", action="store_true", help="compile and run each distinct kernel on the stand-in")
    parser.add_argument("--mutants", nargs="*", choices=tuple(KERNELS), metavar="KERNEL",
                        help="faults in programs of kernels, by default of all")
    parser.add_argument("--most", type=int, default=0, metavar="N", help="faults of each kind in a kernel, the same every time; 0: all")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="kernels that are run at once")
    args = parser.parse_args(argv)
    if args.mutants is not None:
        print("\n".join(mutant_rows(args.mutants or tuple(KERNELS), args.most, args.jobs)), flush=True)
        return 0
    print("\n".join(RUN_HEAD if args.run else HEAD), flush=True)
    with ProcessPoolExecutor(args.jobs, get_context("spawn")) as made:
        for network in args.network:
            for target in args.target:
                print("\n".join(rows(network, target, args.cann, made if args.run else None)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
