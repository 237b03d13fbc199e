"""Several processes tune into one bank at once: all records are there, and nobody fails."""
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from aoec.bank.bank import Bank
from aoec.bank.record import DEFAULT

PROCESSES = 8


def net(n: int, path: Path) -> None:
    """A product of its own for each n, and a softmax that all have."""
    shapes = {"x": (32, 16 * n), "w": (16 * n, 32), "y": (32, 32), "z": (16, 16), "s": (16, 16)}
    of = {k: helper.make_tensor_value_info(k, TensorProto.FLOAT, v) for k, v in shapes.items()}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"]), helper.make_node("Softmax", ["z"], ["s"])]
    onnx.save(helper.make_model(helper.make_graph(nodes, f"net{n}", [of["x"], of["w"], of["z"]], [of["y"], of["s"]]),
                                opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


@pytest.mark.slow
def test_eight_processes_tune_into_one_bank(tmp_path: Path) -> None:
    running = []
    for n in range(1, PROCESSES + 1):
        net(n, tmp_path / f"net{n}.onnx")
        words = ["tune", f"net{n}.onnx", "--budget", "16", "--jobs", "1", "--bank", "shared.db", "--no-verify", "-o", f"net{n}.aoec",
                 "--results", f"out{n}"]
        running.append(subprocess.Popen([sys.executable, "-m", "aoec", *words], cwd=tmp_path, stderr=subprocess.PIPE, text=True,
                                        stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}))
    said = [p.communicate()[1] for p in running]
    assert [p.returncode for p in running] == [0] * PROCESSES, said
    found = Bank.open(tmp_path / "shared.db", create=False).list()
    best = [r for r in found if not r.key.state.endswith(DEFAULT)]
    assert sum(r.label.startswith("matmul") for r in best) == PROCESSES and sum("softmax" in r.label for r in best) == 1
    assert len(found) == 2 * len(best)
