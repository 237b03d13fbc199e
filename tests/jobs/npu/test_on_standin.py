"""A model through the whole chain: kernels, the stand-in's compiler, its library of ACL, a worker, and numbers that are onnxruntime's."""
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import aoec
from aoec.base.errors import CheckError
from aoec.base.npu_errors import DeviceBusy, KernelHang
from aoec.cli import main
from bench import npu
from tests.frontend.models import normal, run
from tests.jobs.npu.kit import LIMIT, use_kit, write_untuned
from tests.jobs.npu.nets import block, cnn
from tests.standin.need import needs_compiler

pytestmark = needs_compiler
NEAR = 2e-2  # relative to the largest number: what tests of compiled models in fp16 allow (tests/jobs/test_execute.py)


def assert_near(got: np.ndarray, wanted: np.ndarray) -> None:
    np.testing.assert_allclose(got, wanted, rtol=NEAR, atol=NEAR * float(np.abs(wanted).max()))


def run_there(proto: onnx.ModelProto, folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    """What `aoec run --on npu` says of a model whose values are onnxruntime's."""
    path, x = write_untuned(proto, folder), normal(*[d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim])
    np.savez(folder / "in.npz", x=x)
    done = main(["run", path, "--inputs", str(folder / "in.npz"), "--on", "npu", "-o", str(folder / "out.npz"), "--json", *LIMIT, *words])
    said = json.loads(capsys.readouterr().out)
    assert done == 0, said
    assert_near(np.load(folder / "out.npz")["y"], run(proto, {"x": x})[0])
    facts: dict[str, Any] = said
    return facts


def test_a_cnn(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    use_kit(monkeypatch, tmp_path, 91)
    said = run_there(cnn(), tmp_path, capsys, "--check", "groups", "--runs", "2")
    assert said["launches"] >= said["kernels"] > 3 and said["on_host"] == [] and said["stand_in"]
    assert said["check"]["groups"] == said["launches"] and not said["check"]["wrong"] and "first" not in said["check"]
    assert said["check"]["largest_of_groups"]["relative"] == 0  # the stand-in rounds as the model machine does
    assert said["measured"]["kind"] == "measured" and said["measured"]["rows"] == 1 and said["measured"]["launches_us"] > 0


def test_a_transformer_block_and_a_session(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    use_kit(monkeypatch, tmp_path, 85)
    proto = block()
    said = run_there(proto, tmp_path, capsys, "--check", "outputs")
    assert [d["wrong"] for d in said["check"]["outputs"]] == [False]
    with aoec.Session(tmp_path / "model.aoec", on="npu:0", limit=60) as session:
        for seed in range(2):
            x = normal(1, 32, 64, seed=seed)
            assert_near(session.run(None, {"x": x})[0], run(proto, {"x": x})[0])
        with pytest.raises(CheckError, match=r"input x has shape \[1, 32, 64\], and an array of shape \[2, 2\]"):
            session.run(None, {"x": np.zeros((2, 2), np.float32)})
        with pytest.raises(DeviceBusy, match="device 0 is taken by process"):
            aoec.Session(tmp_path / "model.aoec", on="npu")
    session.close()
    with aoec.Session(tmp_path / "model.aoec", on="npu") as again:
        assert [i.name for i in again.get_inputs()] == ["x"]


@pytest.mark.slow
@pytest.mark.parametrize("release", [81, 85])
def test_a_cnn_on_other_releases(release: int, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    use_kit(monkeypatch, tmp_path, release)
    run_there(cnn(), tmp_path, capsys, "--check", "groups")


@pytest.mark.slow
@pytest.mark.parametrize("seed", ["1", "2", "3"])
def test_any_order_of_the_pipes_gives_the_same(seed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                               monkeypatch: pytest.MonkeyPatch) -> None:
    use_kit(monkeypatch, tmp_path, 91, AOEC_STANDIN_SEED=seed)
    for name, proto in (("cnn", cnn()), ("block", block())):
        (tmp_path / name).mkdir()
        assert run_there(proto, tmp_path / name, capsys, "--check", "groups")["check"]["largest_of_groups"]["relative"] == 0


WHOLE = [("resnet50", "Ascend910B3", "9.1"), ("bert-base", "Ascend910B3", "9.1"), ("resnet50-64", "Ascend910B3", "8.1"),
         ("resnet50-64", "Ascend910B3", "8.5"), ("bert-layer", "Ascend910B3", "8.1"), ("bert-layer", "Ascend910B3", "8.5"),
         ("resnet50-64", "Ascend310P3", "8.5"), ("bert-layer", "Ascend310P3", "8.5")]


@pytest.mark.slow
@pytest.mark.parametrize("network, target, cann", WHOLE, ids=map("-".join, WHOLE))
def test_networks_whole(network: str, target: str, cann: str) -> None:
    """Each launch is the model machine's, and the results are onnxruntime's within the zoo's tolerance. Printed with -s."""
    row = npu.measure(network, target, cann, groups=True)
    print(row)
    assert row.wrong == "" and row.launches >= row.kernels > 0 and row.host <= (target == "Ascend310P3")


def test_a_session_says_which_kernel_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_kit(monkeypatch, tmp_path, 91, AOEC_STANDIN_FAULT="launch=hang@4")
    with aoec.Session(write_untuned(cnn(), tmp_path), on="npu", limit=0.3) as session, pytest.raises(KernelHang, match="launch 2"):
        session.run(None, {"x": normal(1, 3, 16, 16)})
