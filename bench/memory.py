"""How much memory a model of large constants takes: compiled and run, beside the bytes of its constants.

    python bench/memory.py [--gib 2.3] [--precision fp32,fp16] [--json]

The model is a row of products of 4096 x 4096 fp32 matrices and relu. Its constants are in a file beside it, which models of more than 2 GiB
need. Each line is one process: the most memory that it ever held, and the ratio of that to the constants. `own` leaves out pages of mapped
files, which the system takes back when it needs them (on Linux; sampled 50 times a second). The folder is removed at the end.
"""
from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper

WIDTH = 4096
EACH_BYTES = WIDTH * WIDTH * 4
POLL_S = 0.02


def model(layers: int) -> ModelProto:
    """Return the model, without its constants' file."""
    nodes, constants = [], []
    for i in range(layers):
        w = TensorProto(name=f"w{i}", data_type=TensorProto.FLOAT, dims=(WIDTH, WIDTH), data_location=TensorProto.EXTERNAL)
        for key, value in (("location", "weights.bin"), ("offset", str(i * EACH_BYTES)), ("length", str(EACH_BYTES))):
            w.external_data.add(key=key, value=value)
        constants.append(w)
        nodes += [helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"y{i}"]), helper.make_node("Relu", [f"y{i}"], [f"x{i + 1}"])]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [16, WIDTH]) for name in ("x0", f"x{layers}")]
    graph = helper.make_graph(nodes, "large", ends[:1], ends[1:], constants)
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


def write(folder: Path, layers: int) -> int:
    """Return the bytes of the constants, after the model was written; one matrix is in memory at a time."""
    random = np.random.default_rng(0)
    with open(folder / "weights.bin", "wb") as f:
        for _ in range(layers):
            f.write(((random.random((WIDTH, WIDTH), np.float32) - np.float32(0.5)) / np.float32(np.sqrt(WIDTH / 24))).data)
    (folder / "model.onnx").write_bytes(model(layers).SerializeToString())
    return layers * EACH_BYTES


def measured(command: list[str], folder: Path) -> dict[str, float]:
    """Return what one process held at most, in bytes, and the CPU seconds that it took."""
    with open(folder / "said", "w+") as said:
        child = subprocess.Popen(command, cwd=folder, stdout=said, stderr=said)
        own = 0
        while os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            own = max(own, own_bytes(child.pid))
            time.sleep(POLL_S)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            said.seek(0)
            raise SystemExit(f"{' '.join(command)} ended with {child.returncode}:\n{said.read()}")
    peak = used.ru_maxrss if sys.platform == "darwin" else used.ru_maxrss * 1024
    return {"peak_bytes": peak, "own_bytes": own, "cpu_s": used.ru_utime + used.ru_stime}


def own_bytes(pid: int) -> int:
    """Return the memory that a process holds now without the pages of mapped files; 0 where the system does not tell."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon")), 0)


def lines(gib: float, precisions: list[str]) -> Iterator[dict[str, Any]]:
    """Yield a line for each process."""
    aoec = [sys.executable, "-m", "aoec"]
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        constants = write(folder, max(1, round(gib * 2**30 / EACH_BYTES)))
        for precision in precisions:
            compile_ = [*aoec, "compile", "model.onnx", "--precision", precision, "--bank", "bank.db", "--base", "none", "--no-verify",
                        "-o", "model.aoec"]
            for name, command in (("compile", compile_), ("run", [*aoec, "run", "model.aoec", "--random"])):
                yield {"step": name, "precision": precision, "constants_bytes": constants, **measured([*command], folder)}


def show(line: dict[str, Any]) -> str:
    size = line["constants_bytes"]
    held = [f"{name} {line[f'{name}_bytes'] / 2**30:.2f} GiB x{line[f'{name}_bytes'] / size:.2f}" for name in ("peak", "own")]
    return f"{line['step']:8} {line['precision']}  constants {size / 2**30:.2f} GiB  {'  '.join(held)}  {line['cpu_s']:.1f} CPU s"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--gib", type=float, default=2.3, help="of constants (default: 2.3)")
    parser.add_argument("--precision", default="fp32,fp16")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    for line in lines(args.gib, args.precision.split(",")):
        print(json.dumps(line) if args.json else show(line), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
