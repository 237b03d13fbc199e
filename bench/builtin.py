"""Makes the built-in bank: schedules of well-known networks for the main targets, as files of text in aoec/bank/.

    python bench/builtin.py [--networks resnet50 bert-base ...] [--targets Ascend910B3 ...] [--budget 2000] [--jobs N] [-o aoec/bank]

Each network (fp16, batch 1) is tuned and checked as `aoec compile --tune` does it, with seed 0 and an empty bank: the same sources make the
same bytes, on any machine and with any number of jobs. Prints what each took.
"""
from __future__ import annotations

import argparse
import os
import resource
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import aoec
from aoec.bank.bank import Bank
from aoec.bank.builtin import write
from bench.networks import NETWORKS

TARGETS = ("Ascend910B3", "Ascend310P3")
USUAL = ("resnet50", "bert-base", "gpt2")  # of AOE's tutorials' networks; YOLOv5s alone would double time and size


def tune(name: str, target: str, folder: Path, budget: int, jobs: int) -> Bank:
    """The bank of a target in a folder, after a network was tuned into it; CheckError where a value is wrong."""
    aoec.compile(NETWORKS[name](1, 0).model, folder / "network.aoec", target=target, tune=True, budget=budget, jobs=jobs,
                 bank=folder / "bank.db", base="none")
    return Bank.open(folder / "bank.db")


def cpu_s() -> float:
    """CPU seconds of this process and of those it has waited for."""
    return sum(r.ru_utime + r.ru_stime for r in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--networks", nargs="+", choices=sorted(NETWORKS), default=list(USUAL), metavar="NAME")
    parser.add_argument("--targets", nargs="+", default=list(TARGETS), metavar="NAME")
    parser.add_argument("--budget", type=int, default=2000, help="trials for each group (default: 2000, as aoec tune's)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("-o", "--output", type=Path, help="the folder (default: aoec/bank)")
    args = parser.parse_args(argv)
    for target in args.targets:
        with TemporaryDirectory() as folder:
            for name in args.networks:
                before = cpu_s()
                bank = tune(name, target, Path(folder), args.budget, args.jobs)
                print(f"{name} on {target}: {cpu_s() - before:.0f} CPU s", flush=True)
            path = write(target, bank.list(target), args.output)
        print(f"{path}: {path.stat().st_size:,} bytes, {len(path.read_text().splitlines()) - 1} records", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
