"""How time and memory grow: with the shapes of a product, the rows that are timed, the layers of a model, and the cores of a machine.

    python bench/scale.py [--only shapes,rows,layers,residual,diamonds,...] [--more] [--first N] [--json]

Every line is a child process. It imports, and does a small job of its kind first. Then it reports the CPU seconds of the work, and the most
memory that it held beyond the memory before the work. Beside each figure are its ratio to the line before, and the ratio of the sizes. A
ratio below that of the sizes is growth that is less than linear. Ratios compare between computers, seconds do not.
"""
from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

HERE = str(Path(__file__).resolve())
sys.path.insert(0, str(Path(HERE).parents[1]))

Work = Callable[[], dict[str, float]]  # done once; what it counted, by name
# kind -> sizes, the first of which is what a child does before it measures; --more adds the last
SIZES = {"shapes": (64, 256, 1024, 4096, 16384), "rows": (100, 1_000, 10_000, 100_000, 1_000_000), "layers": (2, 8, 32, 128, 512),
         "distinct": (2, 4, 8, 16, 32),
         "residual": (60, 1_250, 2_500, 5_000, 10_000), "diamonds": (60, 1_250, 2_500, 5_000, 10_000), "cores": (1, 4, 20, 100, 400)}
SAYS = {"shapes": "m = k = n of a product: its space laid out, its default found",
        "rows": "legal candidates of 1024^3 timed in one call",
        "layers": "equal layers of a model: imported, fused, lowered, compiled with defaults",
        "distinct": "the same of layers that all differ",
        "residual": "nodes of a residual multilayer perceptron with equal blocks: the same, and one run of what was compiled",
        "diamonds": "nodes of elementwise operators, each result read twice: the same, and one run",
        "cores": "cube cores of a machine: the default of 4096^3 found for them, and measured"}


def shapes(n: int) -> Work:
    """Return the default schedule of a product of n x n x n."""
    from aoec.jobs.stages.stages import lower_operator
    from aoec.jobs.tune.tuning import problem, start
    from aoec.target.machine import load

    def work() -> dict[str, float]:
        p = problem(lower_operator(f"matmul(m={n}, k={n}, n={n}, fp16)"), load("Ascend910B3"))
        start(p)
        return {"space": p.space.size, "timed": len(p.costs)}

    return work


def rows(count: int) -> Work:
    """Return the work of timing `count` candidates of one space in one call. They are legal and new."""
    import numpy as np

    from aoec.jobs.stages.stages import lower_operator
    from aoec.jobs.tune.tuning import problem, start
    from aoec.simulate.timing.time import time_rows
    from aoec.target.machine import load

    p = problem(lower_operator("matmul(m=1024, k=1024, n=1024, fp16)"), load("Ascend910B3"))
    grid = max(range(len(p.space.grids)), key=lambda g: p.space.grids[g].size)
    legal = [values for g, values in start_costs(p, start) if g == grid]
    names, encoded = p.space.grids[grid].names, p.sketches[grid].encoded
    table = np.array([legal[i % len(legal)] for i in range(count)], np.int64)

    def work() -> dict[str, float]:
        times = time_rows(encoded, {name: table[:, i] for i, name in enumerate(names)}, p.state)
        return {"legal": int((times.status == 0).sum())}

    return work


def start_costs(p: Any, start: Callable[[Any], object]) -> list[tuple[int, tuple[int, ...]]]:
    """Return the legal candidates that a default is chosen from."""
    start(p)
    return [c for c, ticks in p.costs.items() if ticks is not None]


def layers(count: int, distinct: bool = False) -> Work:
    """Return a model of `count` linear layers with relu, compiled without a search into an empty bank."""
    widths = [64 + 16 * (i + 1 if distinct else 0) for i in range(count + 1)]
    nodes = [n for i in range(count) for n in (("MatMul", (f"x{i}", f"w{i}"), f"y{i}"), ("Relu", (f"y{i}",), f"x{i + 1}"))]
    return compiled(nodes, {f"w{i}": shape for i, shape in enumerate(pairwise(widths))}, (widths[0], widths[-1]))


def residual(count: int) -> Work:
    """Return a model of `count` nodes, compiled so and run once: blocks x + (relu(x @ v + b) @ w), all alike except for their constants."""
    nodes, constants, blocks = [], {}, max(1, count // 5)
    for i in range(blocks):
        constants |= {f"v{i}": (32, 32), f"b{i}": (32,), f"w{i}": (32, 32)}
        nodes += [("MatMul", (f"x{i}", f"v{i}"), f"p{i}"), ("Add", (f"p{i}", f"b{i}"), f"q{i}"), ("Relu", (f"q{i}",), f"r{i}"),
                  ("MatMul", (f"r{i}", f"w{i}"), f"s{i}"), ("Add", (f"s{i}", f"x{i}"), f"x{i + 1}")]
    return compiled(nodes, constants, (32, 32), run=True)


def diamonds(count: int) -> Work:
    """Return a model of `count` nodes, compiled so and run once: x' = relu(x) - sigmoid(x)."""
    nodes = [n for i in range(max(1, count // 3)) for n in (
        ("Relu", (f"x{i}",), f"l{i}"), ("Sigmoid", (f"x{i}",), f"r{i}"), ("Sub", (f"l{i}", f"r{i}"), f"x{i + 1}"))]
    return compiled(nodes, {}, (64, 64), run=True)


def compiled(steps: Sequence[tuple[str, tuple[str, ...], str]], shapes: Mapping[str, tuple[int, ...]], widths: tuple[int, int],
             run: bool = False) -> Work:
    """Return a model of x0[16, width] through these operators, with seeded constants, compiled without a search into an empty bank."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    random = np.random.default_rng(0)
    constants = [numpy_helper.from_array(random.standard_normal(shape).astype(np.float32) / 8, name) for name, shape in shapes.items()]
    nodes = [helper.make_node(op, inputs, [output]) for op, inputs, output in steps]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [16, n]) for name, n in zip(("x0", steps[-1][2]), widths)]
    model = helper.make_model(helper.make_graph(nodes, "layers", ends[:1], ends[1:], constants), ir_version=8,
                              opset_imports=[helper.make_opsetid("", 17)])

    def work() -> dict[str, float]:
        import contextlib
        import io

        from aoec.cli import main

        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()) as out:
            onnx.save(model, "m.onnx")
            with contextlib.redirect_stderr(io.StringIO()):
                assert main(["compile", "m.onnx", "--bank", "b.db", "--base", "none", "-o", "m.aoec", "--json", "--jobs", "1",
                             "--no-verify"]) == 0
            said = out.getvalue()
            if run:
                assert main(["run", "m.aoec", "--random", "--json"]) == 0
        return {"groups": sum(g["count"] for g in json.loads(said)["groups"])}

    return work


def cores(count: int) -> Work:
    """Return a product of 4096^3 on a machine of so many cube cores, all else as it is: its default found and one program measured."""
    from aoec.jobs.stages.stages import lower_operator
    from aoec.jobs.tune.tuning import problem, start
    from aoec.simulate.timing.time import measure
    from aoec.target.machine import parse_machine

    source = 'source = "bench/scale.py", confidence = "estimate"'
    machine = parse_machine(f'name = "of{count}"\nextends = "Ascend910B3"\ncores.aic.count = {{value = {count}, {source}}}\n', "of.toml")

    def work() -> dict[str, float]:
        p = problem(lower_operator("matmul(m=4096, k=4096, n=4096, fp16)"), machine)
        return {"cores_used": measure(p.program(start(p).best), machine).cores}

    return work


KINDS: dict[str, Callable[[int], Work]] = {
    "shapes": shapes, "rows": rows, "layers": layers, "distinct": lambda n: layers(n, distinct=True), "residual": residual,
    "diamonds": diamonds, "cores": cores}


def child(kind: str, size: int) -> dict[str, float]:
    """Return the text of one line."""
    with tempfile.TemporaryDirectory() as cache, patch.dict(os.environ, AOEC_CACHE_DIR=cache):
        KINDS[kind](SIZES[kind][0])()
        work = KINDS[kind](size)
        before, start = peak_bytes(), time.process_time()
        counted = work()
        taken = time.process_time() - start
        return {"size": size, "cpu_s": taken, "grown_bytes": peak_bytes() - before, "peak_bytes": peak_bytes(), **counted}


def peak_bytes() -> int:
    """Return the most memory that this process has held so far."""
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used if sys.platform == "darwin" else used * 1024


def measured(kind: str, more: bool, first: int | None = None) -> list[dict[str, float]]:
    """Return a line for each size, each in its own process."""
    sizes = SIZES[kind][1:] if more else SIZES[kind][1:-1]
    return [json.loads(subprocess.run([sys.executable, HERE, "--child", kind, str(n)], capture_output=True, text=True, check=True).stdout)
            for n in sizes[:first]]


def show(kind: str, lines: list[dict[str, float]]) -> str:
    out, before = [f"{kind}: {SAYS[kind]}"], None
    for line in lines:
        told = ", ".join(f"{name} {value:,.0f}" for name, value in list(line.items())[4:])
        ratio = f"x{line['size'] / before['size']:<4.1f} size, x{line['cpu_s'] / max(before['cpu_s'], 1e-3):<6.2f} time" if before else ""
        out.append(f"  {line['size']:>9,.0f}  {line['cpu_s']:8.3f} CPU s  {line['grown_bytes'] / 2**20:7.1f} MiB more, "
                   f"{line['peak_bytes'] / 2**20:5.0f} in all  {ratio:32} {told}")
        before = line
    return "\n".join(out)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", default=",".join(SIZES), metavar="KIND,...", help=f"of {', '.join(SIZES)}")
    parser.add_argument("--more", action="store_true", help="the largest sizes as well")
    parser.add_argument("--first", type=int, metavar="N", help="only the N smallest sizes (default: all)")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(child(args.child[0], int(args.child[1]))))
        return 0
    if unknown := set(args.only.split(",")) - set(SIZES):
        parser.error(f"{', '.join(sorted(unknown))}: not one of {', '.join(SIZES)}")
    results = {}
    for kind in args.only.split(","):
        results[kind] = measured(kind, args.more, args.first)
        if not args.json:
            print(show(kind, results[kind]), flush=True)
    if args.json:
        print(json.dumps(results, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
