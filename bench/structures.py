"""What the structure of a network costs: its latencies, how many launches it takes, and how many of these only move elements.

    python bench/structures.py --network vit-b16 shufflenet-int8 ... | all [--target Ascend910B3 Ascend310P3] [--budget 60] [--write FILE]

It compiles networks of the zoo in fp16 with an empty bank, batch 1 and one launch for each group. It tunes each distinct group with
`--budget` trials (0: none). It prints a row for each network and target. A network in int8 has the time of the same network in fp16 beside
it. --write puts each row into a table of a file with other text. The row replaces that of the same network and target. Every time is
modelled.
"""
from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import aoec
from aoec.artifact.artifact import load
from aoec.ir.graph.graph import Graph
from aoec.jobs.version import model_version
from aoec.lowering.arrange.layout import family
from bench.networks import NETWORKS

TARGETS = ("Ascend910B3", "Ascend310P3")
MOVES = {"movement", "layout", "view"}  # families of operators that calculate nothing
INT8 = "-int8"  # what the name of a quantised network ends with
NAMES = ("bert-base", "gpt2", "yolov5s", "vit-b16", "deberta-base-512", "mobilevit-s", "llama-1b-block", "llama-1b-decode", "shufflenet",
         "shufflenet-int8", "resnet50", "resnet50-int8", "bert-base-int8", "crnn", "gru")
HEAD = ("| network | target | default, µs | tuned, µs | trials | bound, µs | launches | that only move | their time, µs | on the host "
        "| int8 / fp16 | model version |", "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|")


@dataclass(frozen=True)
class Row:
    """A network on a target. Times are in modelled µs, those of the inference from one timeline; `moves_us` adds up groups timed alone.

    `launches` are of the AI Core, `moves` those of them that calculate nothing, `on_host` groups on the host. `real_us`: the tuned time of
    the network in fp16 that this one is quantised from, 0 where there is none.
    """

    network: str
    target: str
    default_us: float
    tuned_us: float
    bound_us: float
    launches: int
    moves: int
    moves_us: float
    on_host: int
    trials: int
    version: str
    real_us: float = 0.0

    def line(self) -> str:
        """Return the row of the table."""
        tuned = f"{self.tuned_us:,.1f}" if self.trials else "–"
        ratio = f"{self.tuned_us / self.real_us:.2f}" if self.real_us else "–"
        return (f"| {self.network} | {self.target} | {self.default_us:,.1f} | {tuned} | {self.trials or '–'} | {self.bound_us:,.1f} "
                f"| {self.launches} | {self.moves} | {self.moves_us:,.1f} | {self.on_host} | {ratio} | {self.version} |")


@cache
def measure(network: str, target: str, trials: int) -> Row:
    """Return the row of a network that is compiled with an empty bank."""
    with TemporaryDirectory() as folder:
        made = Path(folder) / "network.aoec"
        report = aoec.compile(NETWORKS[network](1, 0).model, made, target=target, precision="fp16", tune=trials > 0, budget=max(trials, 1),
                              bank=Path(folder) / "bank", base="none", verify=False).report
        moving = moves(load(made).graph)
    on_core = [g for g in report["groups"] if g["runs_on"] == "AI Core"]
    alike = [g for g in on_core if g["name"] in moving]
    latency, real = report["latency"], network.removesuffix(INT8)
    return Row(network, target, latency["default_us"], latency["tuned_us"], latency["bound_us"], sum(g["count"] for g in on_core),
               sum(g["count"] for g in alike), sum(g["count"] * g["tuned_us"] for g in alike),
               sum(g["count"] for g in report["groups"] if g["runs_on"] == "host"), trials, model_version(),
               measure(real, target, trials).tuned_us if real != network else 0.0)


def moves(graph: Graph) -> set[str]:
    """Return the groups that calculate nothing, by name."""
    nodes = {n.name: n for n in graph.nodes}
    return {g.name for g in graph.groups if all(family(nodes[name]) in MOVES for name in g.nodes)}


def put(row: Row, path: Path) -> None:
    """Write the row into the file's table. It replaces the row of the same network and target. Rows are in the order of their names."""
    lines = path.read_text(encoding="utf-8").splitlines()
    start = lines.index(HEAD[0])
    end = next((i for i in range(start, len(lines)) if not lines[i].startswith("|")), len(lines))
    own = row.line()
    rows = [r for r in lines[start + 2:end] if r.split("|")[1:3] != own.split("|")[1:3]]
    path.write_text("\n".join([*lines[:start], *HEAD, *sorted([*rows, own]), *lines[end:]]) + "\n", encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    """Return 0, after the rows that were asked for are printed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--network", nargs="+", choices=[*sorted(NETWORKS), "all"], default=["all"], metavar="NAME",
                        help=f"all: {', '.join(NAMES)}")
    parser.add_argument("--target", nargs="+", default=TARGETS, metavar="NAME")
    parser.add_argument("--budget", type=int, default=60, metavar="TRIALS", help="for each distinct group; 0: nothing is searched")
    parser.add_argument("--write", type=Path, metavar="FILE", help="the file whose table takes the rows")
    args = parser.parse_args(argv)
    print("\n".join(HEAD), flush=True)
    for network in NAMES if "all" in args.network else args.network:
        for target in args.target:
            row = measure(network, target, args.budget)
            print(row.line(), flush=True)
            if args.write:
                put(row, args.write)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
