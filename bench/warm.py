"""What a second `compile --tune` of one model takes, beside `onnx.load` and an onnxruntime session of the same file in the same run.

    python bench/warm.py [--model resnet50|bert-base|...] [--target Ascend910B3] [--budget 200] [--repeat 3] [--json]

A model of the zoo, or one of the networks of bench/zoo.py, is compiled with an empty bank and an empty cache. Then it is compiled again in
the same process. Verified schedules are remembered, and equal weights are not written again. Beside that is the time of the same compile in
a fresh process after its imports. Each figure is the least of `--repeat` runs. The ratio is of one computer to itself, so it may be
compared between computers. The exit code is 1 where it is above --limit.
"""
from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

HERE = str(Path(__file__).resolve())
sys.path.insert(0, str(Path(HERE).parents[1]))

from aoec.options.shared import DEFAULT_TARGET  # noqa: E402

# steps of a compile: (module, function) -> what it is called here, in the order in which they come
STEPS = {
    ("aoec.jobs.compile.begin", "import_model"): "import", ("aoec.jobs.compile.models", "fuse_model"): "layouts and groups",
    ("aoec.jobs.compile.steps.group_model", "place_groups"): "lower", ("aoec.jobs.compile.steps.group_model", "tasks"): "memory states",
    ("aoec.jobs.compile.steps.search_groups", "solve"): "bank and search",
    ("aoec.jobs.compile.steps.assemble", "choose_programs"): "programs and trust",
    ("aoec.jobs.compile.steps.assemble", "model_lines"): "whole model",
    ("aoec.jobs.compile.steps.check_values", "verify"): "verify",
    ("aoec.jobs.compile.compile", "write"): "artifact",
    ("aoec.report.table", "print_table"): "table",
}
Taken = tuple[float, float]  # CPU seconds of all threads, and seconds by the clock


def taken(work: Callable[[], object]) -> Taken:
    cpu, clock = time.process_time(), time.perf_counter()
    work()
    return time.process_time() - cpu, time.perf_counter() - clock


@contextlib.contextmanager
def stopped_clocks(spent: dict[str, float]) -> Iterator[None]:
    """Add the CPU seconds of each step to `spent` while this lasts."""
    from importlib import import_module

    with contextlib.ExitStack() as stack:
        for (module, name), step in STEPS.items():
            real = getattr(import_module(module), name)

            def timed(*args: Any, real: Any = real, step: str = step, **more: Any) -> Any:
                start = time.process_time()
                try:
                    return real(*args, **more)
                finally:
                    spent[step] = spent.get(step, 0.0) + time.process_time() - start

            stack.enter_context(patch(f"{module}.{name}", timed))
        yield


def compiled(budget: int, target: str) -> None:
    """Compile and tune m.onnx of the current folder. Its output is not shown."""
    from aoec.cli import main

    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        code = main(["compile", "--tune", "--budget", str(budget), "--target", target, "m.onnx", "--bank", "bank.db", "--base", "none",
                     "-o", "m.aoec"])
    assert code == 0, out.getvalue()


def opened() -> None:
    import onnx
    import onnxruntime

    onnx.load("m.onnx")
    onnxruntime.InferenceSession("m.onnx", providers=["CPUExecutionProvider"])


def again(budget: int, target: str, repeat: int) -> dict[str, Any]:
    """Return the figures of a compile of which all is known, and of what is held against it, in turn in this process."""
    import aoec.jobs.compile.compile
    import aoec.jobs.verify.verify  # noqa: F401

    opened()  # imports both
    runs: list[tuple[Taken, Taken, dict[str, float]]] = []
    for _ in range(repeat):
        spent: dict[str, float] = {}
        reference = taken(opened)
        with stopped_clocks(spent):
            runs.append((reference, taken(lambda: compiled(budget, target)), spent))
    compile_, steps = min((c, s) for _, c, s in runs)
    reference = tuple(min(r[i] for r, _, _ in runs) for i in (0, 1))
    clock = min(c[1] for _, c, _ in runs)
    return {"opened_cpu_s": reference[0], "opened_s": reference[1], "compile_cpu_s": compile_[0], "compile_s": clock,
            "ratio_cpu": compile_[0] / reference[0], "ratio": clock / reference[1], "steps_cpu_s": steps}


def model_bytes(model: str) -> bytes:
    """Return a model by its name, serialised."""
    from aoec.frontend.zoo import MODELS
    from bench.networks import NETWORKS

    made = MODELS[model](1, 0) if model in MODELS else NETWORKS[model](1, 0).model
    return made.SerializeToString(deterministic=True)


def bench(model: str, budget: int, repeat: int, target: str = DEFAULT_TARGET) -> dict[str, Any]:
    """Return all figures, in a folder of their own."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), patch.dict(os.environ, AOEC_CACHE_DIR=f"{folder}/cache"):
        Path("m.onnx").write_bytes(model_bytes(model))
        first = taken(lambda: compiled(budget, target))
        before = Path("m.aoec").stat().st_mtime_ns
        here = again(budget, target, repeat)
        assert Path("m.aoec").stat().st_mtime_ns == before, "the artifact was written again"
        words = [sys.executable, HERE, "--child", "--budget", str(budget), "--target", target]
        fresh = [json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout) for _ in range(repeat)]
        return {"model": model, "target": target, "bytes": Path("m.onnx").stat().st_size, "first_s": first[1], "same_process": here,
                "fresh_process": min(fresh, key=lambda f: f["ratio"])}


def show(r: dict[str, Any]) -> str:
    lines = [f"{r['model']} for {r['target']}, {r['bytes']:,} bytes; first compile {r['first_s']:.1f} s by the clock"]
    for where in ("same_process", "fresh_process"):
        f = r[where]
        lines += [f"{where.replace('_', ' ')}: compile {f['compile_cpu_s']:.3f} CPU s ({f['compile_s']:.3f} by the clock), onnx.load and "
                  f"session {f['opened_cpu_s']:.3f} ({f['opened_s']:.3f}): ratio {f['ratio_cpu']:.2f} ({f['ratio']:.2f})"]
        lines += [f"  {seconds:7.3f}  {step}" for step, seconds in f["steps_cpu_s"].items()]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--target", default=DEFAULT_TARGET)
    parser.add_argument("--budget", type=int, default=200, help="trials of the first compile, for each group")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--limit", type=float, default=3.0, help="the most that the ratio by the clock may be in the same process")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(again(args.budget, args.target, 1)))
        return 0
    result = bench(args.model, args.budget, args.repeat, args.target)
    print(json.dumps(result, indent=1) if args.json else show(result))
    return int(result["same_process"]["ratio"] > args.limit)


if __name__ == "__main__":
    raise SystemExit(main())
