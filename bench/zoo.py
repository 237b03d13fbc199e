"""Writes a model of the zoo as an ONNX file: `python bench/zoo.py resnet50 --batch 1 -o resnet50.onnx`."""
from __future__ import annotations

import argparse
import time
from pathlib import Path

from aoec.frontend.zoo import MODELS


def main(argv: list[str] | None = None) -> int:
    """0, after the file was written and its size and the seconds that it took were printed."""
    parser = argparse.ArgumentParser(description="Build a model with seeded random weights.")
    parser.add_argument("model", choices=sorted(MODELS))
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path, help="default: MODEL.onnx in the current directory")
    args = parser.parse_args(argv)
    start = time.perf_counter()
    data = MODELS[args.model](args.batch, args.seed).SerializeToString(deterministic=True)
    path = args.output or Path(f"{args.model}.onnx")
    path.write_bytes(data)
    print(f"{path}: {len(data):,} bytes, built in {time.perf_counter() - start:.1f} s")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
