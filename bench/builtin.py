"""Makes the built-in bank: schedules of well-known networks for the main targets, as files of text in aoec/bank/.

    python bench/builtin.py [--networks resnet50 bert-base ...] [--targets Ascend910B3 ...] [--budget 2000] [--jobs N] [-o aoec/bank]

Every different group of each network (fp16, batch 1) is searched with seed 0 and no bank, and its values are checked; the same sources
make the same bytes, on any machine and with any number of jobs. Prints what each network took; exit code 1 where a value is wrong.
"""
from __future__ import annotations

import argparse
import os
import resource
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from aoec.bank.bank import Bank
from aoec.bank.builtin import write
from aoec.jobs import models
from aoec.jobs.attention import apart
from aoec.jobs.made import emitted
from aoec.jobs.plan import lowered, on_host, tasks
from aoec.jobs.solve import Order, keys, solve
from aoec.jobs.verify import verify_group
from aoec.target.machine import Machine, load
from bench.networks import NETWORKS

TARGETS = ("Ascend910B3", "Ascend310P3")
TUTORIALS = ("resnet50", "bert-base", "gpt2", "yolov5s")  # the networks of AOE's tutorials


def tune(name: str, machine: Machine, bank: Bank, order: Order) -> tuple[int, list[str]]:
    """(different groups of a network, sentences on wrong values); the bank then has their schedules, verified."""
    graph, weights, _ = models.imported(NETWORKS[name](1, 0).model, {}, "fp16")
    graph, weights = models.fused(graph, weights, machine, apart=apart(graph, machine))
    funcs, reasons = lowered(graph)
    plan = tasks(on_host(graph, reasons), machine, funcs=funcs)
    solved, _ = solve(plan, machine, machine.name, bank, order, lambda task, solved: None)
    faults: list[str] = []
    for task in {keys(t, machine)[1]: t for t in plan}.values():
        found = solved.get(keys(task, machine)[1])
        if found is None or found.best.verified:
            continue
        _, program = emitted(task.func, found.best.trace, machine)
        wrong = verify_group(graph, task.group, program, task.bindings, weights)
        faults += [f"{name}, {machine.name}: {task.group.name}: {line}" for line in wrong]
        bank.put(replace(found.best, verified=not wrong))
    return len(solved), faults


def cpu_s() -> float:
    """CPU seconds of this process and of those it has waited for."""
    return sum(r.ru_utime + r.ru_stime for r in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--networks", nargs="+", choices=sorted(NETWORKS), default=list(TUTORIALS), metavar="NAME")
    parser.add_argument("--targets", nargs="+", default=list(TARGETS), metavar="NAME")
    parser.add_argument("--budget", type=int, default=2000, help="trials for each group (default: 2000, as aoec tune's)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("-o", "--output", type=Path, help="the folder (default: aoec/bank)")
    args = parser.parse_args(argv)
    faults: list[str] = []
    for target in args.targets:
        machine = load(target)
        with TemporaryDirectory() as folder:
            bank = Bank.open(Path(folder) / "bank.db")
            for name in args.networks:
                before = cpu_s()
                count, wrong = tune(name, machine, bank, Order(True, budget=("trials", args.budget), jobs=args.jobs))
                faults += wrong
                print(f"{name} on {target}: {count} different groups, {cpu_s() - before:.0f} CPU s", flush=True)
            path = write(target, bank.list(target), args.output)
        print(f"{path}: {path.stat().st_size:,} bytes, {len(path.read_text().splitlines()) - 1} records")
    print(*faults, sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
