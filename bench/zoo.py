"""Writes a model of the zoo as an ONNX file, or checks what aoec makes of it against onnxruntime.

    python bench/zoo.py bert-base [--batch 1] [--seed 0] [-o bert.onnx]
    python bench/zoo.py bert-base gpt2 ... | all  --check [--tune 50] [--precision fp16] [--target Ascend910B3] [--write docs/zoo.md]

The models are real architectures at full size with seeded weights, exported as common tools do it. With --check each is compiled and
run once. It prints the largest difference of each result from onnxruntime's, relative to its largest number, beside the allowed difference
(networks/tolerances.py). For a quantised network, each tensor is compared with one made from those before it (networks/steps.py). It also
prints what ran on the host, the modelled latency and CPU seconds. The exit code is 1 where a difference is larger than allowed. With
--tune it searches first, with so many trials for each distinct group. With --write it puts the row of each network into a table of a file
with other text.
"""
from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from aoec.jobs.version import model_version
from bench.networks import NETWORKS
from bench.networks.net import Network, parameters
from bench.networks.reference import apart, results
from bench.networks.rounded import rounded
from bench.networks.steps import Steps, held, quantised, watched
from bench.networks.tolerances import STEP, Tolerance, tolerance
from bench.networks.unrolled import unrolled

HEAD = ("| network | precision | nodes | largest difference | allowed | on the host | default | tuned | model version |",
        "|---|---|---|---|---|---|---|---|---|")


@dataclass(frozen=True)
class Checked:
    """What a check found: differences by result, what storing in 16 bits alone makes of them, tensors of eight bits where there are such,
    nodes on the host, modelled latencies in us, trials for each group, the version of the model that they are of, CPU seconds."""

    name: str
    precision: str
    nodes: int
    errors: dict[str, float]
    rounding: float
    steps: Steps | None
    on_host: Counter[str]
    default_us: float
    tuned_us: float
    trials: int
    version: str
    compile_s: float
    run_s: float

    @property
    def worst(self) -> float:
        return max(self.errors.values())

    @property
    def allowed(self) -> Tolerance:
        return tolerance(self.precision, self.rounding)

    @property
    def fits(self) -> bool:
        return self.worst <= self.allowed.relative if self.steps is None else self.steps.most <= STEP

    @property
    def host(self) -> str:
        return ", ".join(f"{op} x {count}" for op, count in sorted(self.on_host.items())) or "nothing"

    def line(self) -> str:
        """Return the whole row in words."""
        errors = ", ".join(f"{n} {e:.1e}" for n, e in self.errors.items())
        fits = "within" if self.fits else "beyond"
        held = (f"{errors} ({fits} {self.allowed.relative:.2g}, {self.allowed.reason})" if self.steps is None
                else f"{self.steps} ({fits} {STEP}); whole results {errors}")
        return (f"{self.name:14} {self.precision}: {held}; "
                f"latency {self.default_us:,.1f} us" + (f", tuned {self.tuned_us:,.1f}" if self.trials else "") + ", modelled; "
                f"compiled in {self.compile_s:.1f} CPU s, run in {self.run_s:.1f}; on the host: {self.host}")

    def row(self) -> str:
        """Return a row of the table."""
        tuned = f"{self.tuned_us:,.0f} µs ({self.trials} trials)" if self.trials else "–"
        found, allowed = ((f"{self.worst:.1e}", f"{self.allowed.relative:.1e}") if self.steps is None
                          else (f"{self.steps.size}: {self.steps.different:,} of {self.steps.elements:,}", f"{STEP} step"))
        return (f"| {self.name} | {self.precision} | {self.nodes:,} | {found} | {allowed} | {self.host} | {self.default_us:,.0f} µs "
                f"| {tuned} | {self.version} |")


def write(name: str, network: Network, path: Path) -> str:
    """Return a line on the file that was written."""
    data = network.model.SerializeToString(deterministic=True)
    path.write_bytes(data)
    return f"{path}: {name}, {len(data):,} bytes, {parameters(network.model):,} real parameters, {len(network.model.graph.node)} nodes"


def check(name: str, network: Network, precision: str, target: str, trials: int) -> Checked:
    """Return how a compiled network's results lie to onnxruntime's."""
    import aoec

    model, feeds = network.model, network.feeds
    names = [o.name for o in model.graph.output]
    wanted = results(model, feeds, names)
    started = time.process_time()
    with TemporaryDirectory() as folder:
        compiled = aoec.compile(model, Path(folder) / "network.aoec", target=target, precision=precision, tune=trials > 0,
                                budget=max(trials, 1), base="none")
    made = time.process_time()
    got = dict(zip(names, compiled.run(names, feeds)))
    ran = time.process_time()
    steps = inside(network, precision, target, got) if quantised(model) else None
    rounding = 0.0 if precision == "fp32" or steps else stored(network, precision, wanted)
    latency = compiled.report["latency"]
    return Checked(name, precision, len(model.graph.node), apart(got, wanted), rounding, steps, Counter(compiled.on_host),
                   latency["default_us"], latency["tuned_us"], trials, model_version(), made - started, ran - made)


def stored(network: Network, precision: str, wanted: Mapping[str, np.ndarray]) -> float:
    """Return the largest difference of results that are calculated in fp32 from tensors that a precision's 16 bits hold."""
    model = rounded(unrolled(network.model), precision)
    return max(apart(results(model, network.feeds, list(wanted), optimised=False), wanted).values())


def inside(network: Network, precision: str, target: str, got: Mapping[str, np.ndarray]) -> Steps:
    """Return how each tensor of eight bits lies to those before it, by the schedules that the bank has: of a model that gives them too, and
    must give the same results besides."""
    import aoec

    names = [*got, *quantised(network.model)]
    with TemporaryDirectory() as folder:
        compiled = aoec.compile(watched(network.model), Path(folder) / "watched.aoec", target=target, precision=precision, base="none")
    found = dict(zip(names, compiled.run(names, network.feeds)))
    if any(not np.array_equal(found[name], result) for name, result in got.items()):
        raise SystemExit(f"{network.model.graph.name}: gives other results where its tensors of eight bits are looked at")
    return held(network.model, network.feeds, found)


def put(found: Checked, path: Path) -> None:
    """Write the row into the file's table. It replaces the row of the same network and precision. Rows are in the order of their names."""
    lines = path.read_text(encoding="utf-8").splitlines()
    start = lines.index(HEAD[0])
    end = next((i for i in range(start, len(lines)) if not lines[i].startswith("|")), len(lines))
    own = found.row()
    rows = [r for r in lines[start + 2:end] if r.split("|")[1:3] != own.split("|")[1:3]]
    path.write_text("\n".join([*lines[:start], *HEAD, *sorted([*rows, own]), *lines[end:]]) + "\n", encoding="utf-8")


def main(argv: list[str] | None = None) -> int:
    """Return 0, after what was asked for was printed; 1 where a result differs by more than its tolerance."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    known = [*sorted(NETWORKS), "all"]
    parser.add_argument("models", nargs="+", choices=known, metavar="MODEL", help=", ".join(known))
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--tune", type=int, default=0, metavar="TRIALS", help="with --check: search so many trials for each distinct group")
    parser.add_argument("--write", type=Path, metavar="FILE", help="with --check: the file whose table takes the rows")
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--target", default="Ascend910B3")
    parser.add_argument("-o", "--output", type=Path, help="of one model; default: MODEL.onnx in the current directory")
    args = parser.parse_args(argv)
    names = sorted(NETWORKS) if "all" in args.models else args.models
    if args.output and len(names) > 1:
        parser.error("-o is for one model")
    fits = True
    for name in names:
        network = NETWORKS[name](args.batch, args.seed)
        if args.check:
            found = check(name, network, args.precision, args.target, args.tune)
            print(found.line(), flush=True)
            fits &= found.fits
            if args.write:
                put(found, args.write)
        else:
            print(write(name, network, args.output or Path(f"{name}.onnx")), flush=True)
    return 0 if fits else 1


if __name__ == "__main__":
    raise SystemExit(main())
