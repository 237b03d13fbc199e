"""How many groups of networks become kernels in Ascend C, and why the others do not.

    python bench/ascendc.py --network resnet50 bert-base ... [--target Ascend910B3 Ascend310P3] [--cann 8.5]

Compiles networks of the zoo in fp16 with an empty bank, batch 1, default schedules and one launch a group, and writes each program as a
kernel. It prints a row for each network and target, and a line for each reason of a refusal. Nothing is compiled by CANN or run.
"""
from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import aoec
from aoec.artifact.artifact import load
from aoec.ascendc.calls import DEFAULT_RELEASE, table
from aoec.ascendc.kernel import write_kernel
from aoec.base.errors import CapacityError, UnsupportedError
from aoec.ir.program import Program
from aoec.ir.text.simplify import simplify
from aoec.target.machine import load as load_machine
from bench.networks import NETWORKS

HEAD = ("| network | target | groups | kernels | distinct sources |", "|---|---|---:|---:|---:|")
NAMES = ("resnet50", "bert-base", "gpt2", "yolov5s", "mobilenet-v2", "llama-1b-block")


def programs(network: str, target: str) -> Iterator[Program]:
    """The programs of a network's groups, as they are shown."""
    with TemporaryDirectory() as folder:
        made = Path(folder) / "network.aoec"
        aoec.compile(NETWORKS[network](1, 0).model, made, target=target, precision="fp16", tune=False, bank=Path(folder) / "bank",
                     base="none", verify=False)
        found = load(made).groups
    yield from (simplify(g.program) for g in found if g.program)


def rows(network: str, target: str, release: str) -> Iterator[str]:
    """The row of a network, and a line for each reason."""
    total, sources, refused = 0, list[str](), Counter[str]()
    for program in programs(network, target):
        total += 1
        try:
            kernel = write_kernel(program, load_machine(target), release)
            sources.append(kernel.source.replace(kernel.name, ""))
        except (UnsupportedError, CapacityError) as e:
            refused[str(e)] += 1
    yield f"| {network} | {target} | {total} | {len(sources)} | {len(set(sources))} |"
    yield from (f"    {count} {why}" for why, count in refused.most_common())


def main(argv: Sequence[str] | None = None) -> int:
    """0, after the rows that were asked for are printed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--network", nargs="+", choices=sorted(NETWORKS), default=NAMES, metavar="NAME")
    parser.add_argument("--target", nargs="+", default=["Ascend910B3"], metavar="NAME")
    parser.add_argument("--cann", default=DEFAULT_RELEASE, choices=tuple(table().releases))
    args = parser.parse_args(argv)
    print("\n".join(HEAD), flush=True)
    for network in args.network:
        for target in args.target:
            print("\n".join(rows(network, target, args.cann)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
