"""Writes a model of the zoo as an ONNX file, or checks what aoec makes of it against onnxruntime.

    python bench/zoo.py bert-base [--batch 1] [--seed 0] [-o bert.onnx]
    python bench/zoo.py bert-base gpt2 ... | all  --check [--precision fp16] [--target Ascend910B3]

Real architectures at full size with seeded weights, exported as people's tools export them. With --check each is compiled with default
schedules and run once: the largest difference of each result to onnxruntime's, relative to its largest number, what ran on the host, and
CPU seconds. Times are modelled.
"""
from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.networks import NETWORKS
from bench.networks.net import Network, parameters


def write(name: str, network: Network, path: Path) -> str:
    """A line on the file that was written."""
    data = network.model.SerializeToString(deterministic=True)
    path.write_bytes(data)
    return f"{path}: {name}, {len(data):,} bytes, {parameters(network.model):,} real parameters, {len(network.model.graph.node)} nodes"


def check(name: str, network: Network, precision: str, target: str) -> str:
    """A line on how a compiled network's results lie to onnxruntime's."""
    import onnxruntime

    import aoec

    session = onnxruntime.InferenceSession(network.model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    wanted = session.run(names, network.feeds)
    started = time.process_time()
    with TemporaryDirectory() as folder:
        compiled = aoec.compile(network.model, Path(folder) / "network.aoec", target=target, precision=precision)
    made = time.process_time()
    got = compiled.run(names, network.feeds)
    ran = time.process_time()
    errors = {n: float(np.abs(a.astype(np.float64) - b).max() / max(np.abs(b).max(), 1e-30)) for n, a, b in zip(names, got, wanted)}
    host = Counter(compiled.on_host)
    return (f"{name:14} {precision}: " + ", ".join(f"{n} {e:.1e}" for n, e in errors.items())
            + f"; compiled in {made - started:.1f} CPU s, run in {ran - made:.1f}; on the host: "
            + (", ".join(f"{op} x {count}" for op, count in sorted(host.items())) or "nothing"))


def main(argv: list[str] | None = None) -> int:
    """0, after what was asked for was printed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    known = [*sorted(NETWORKS), "all"]
    parser.add_argument("models", nargs="+", choices=known, metavar="MODEL", help=", ".join(known))
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--target", default="Ascend910B3")
    parser.add_argument("-o", "--output", type=Path, help="of one model; default: MODEL.onnx in the current directory")
    args = parser.parse_args(argv)
    names = sorted(NETWORKS) if "all" in args.models else args.models
    if args.output and len(names) > 1:
        parser.error("-o is for one model")
    for name in names:
        network = NETWORKS[name](args.batch, args.seed)
        if args.check:
            print(check(name, network, args.precision, args.target), flush=True)
        else:
            print(write(name, network, args.output or Path(f"{name}.onnx")), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
