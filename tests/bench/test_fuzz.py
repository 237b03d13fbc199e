"""Damaged models, a few each time: a result equal to onnxruntime's or one sentence; and that what is wrong is seen to be."""
from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx.parser
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

import fuzz

pytestmark = pytest.mark.filterwarnings("ignore")  # of ONNX, as it makes its data; of forks, whose children end without returning
COUNT, STEP = 15, 67


def test_a_few_damaged_models() -> None:
    command = [sys.executable, "-W", "ignore", fuzz.__file__, "-n", str(COUNT), "--step", str(STEP)]
    done = subprocess.run(command, capture_output=True, text=True)  # of its own, since it forks, and this process may have threads
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{COUNT} models: " in done.stdout and "refused" in done.stdout and "same" in done.stdout


def test_equal_numbers_damage_alike_and_every_edit_finds_its_place() -> None:
    gemm = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 13]>
        gemm (float[4,3] a, float[5,4] b, float[1,5] c) => (float[3,5] y) {
            y = Gemm<alpha=0.25, beta=0.35, transA=1, transB=1>(a, b, c)
        }""")
    data = gemm.SerializeToString()
    assert fuzz.damaged(data, np.random.default_rng(3)) == fuzz.damaged(data, np.random.default_rng(3))
    for edit in set(fuzz.EDITS) - {fuzz.edit_constant}:  # it has none
        changed = []
        for seed in range(8):
            model = onnx.ModelProto()
            model.CopyFrom(gemm)
            edit(model, np.random.default_rng(seed))
            changed.append(model.SerializeToString() != data)
        assert any(changed), edit


def test_what_is_wrong_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def loop() -> dict[str, str]:
        while True:
            pass

    def large() -> dict[str, str]:
        try:
            return {"status": str(np.ones(fuzz.LIMIT_BYTES, np.uint8)[0])}
        except MemoryError:
            return {"status": "refused"}
    monkeypatch.setattr(fuzz, "SECONDS", 0.2)
    assert fuzz.guarded(loop, tmp_path / "a")[0]["status"] == "hang"
    monkeypatch.undo()
    assert fuzz.guarded(large, tmp_path / "b")[0]["status"] == "refused"
    assert fuzz.guarded(lambda: 1 / 0, tmp_path / "c")[0]["status"] == "died"  # type: ignore[arg-type, return-value]
    assert fuzz.differs(np.ones(3), np.ones(4)) and fuzz.differs(np.ones(3), np.array([1, 1, 1.01])) and fuzz.differs(None, np.ones(3))
    assert not fuzz.differs(np.array([1, np.nan, np.inf]), np.array([1 + 1e-6, np.nan, np.inf]))
