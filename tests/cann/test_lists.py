"""Files that say which operators to tune and which fusions to leave, as the documents of CANN have them."""
from __future__ import annotations

import json
from pathlib import Path

import pytest

from aoec.base.errors import CheckError
from aoec.cann import fusion_switch, tune_ops
from aoec.cann.tune_ops import TuneOps


def test_a_tune_ops_file_is_the_documented_object(tmp_path: Path) -> None:
    """aoepar_16_047: an object of the two lists, by these names."""
    text = tune_ops.text(TuneOps(("MatMul_12", "Conv_0Relu_1"), ("MatMulV3",)))
    assert json.loads(text) == {"tune_ops_name": ["MatMul_12", "Conv_0Relu_1"], "tune_ops_type": ["MatMulV3"]}
    path = tmp_path / "ops.json"
    path.write_text(text)
    assert tune_ops.read(path) == TuneOps(("MatMul_12", "Conv_0Relu_1"), ("MatMulV3",))
    assert json.loads(tune_ops.text(TuneOps((), ("Conv2D",)))) == {"tune_ops_type": ["Conv2D"]}


@pytest.mark.parametrize("said", ["{}", "[]", '{"tune_ops_name": "a"}', '{"tune_ops": []}', '{"tune_ops_type": [""]}'])
def test_another_file_is_refused(tmp_path: Path, said: str) -> None:
    path = tmp_path / "ops.json"
    path.write_text(said)
    with pytest.raises(CheckError, match="no list of operators"):
        tune_ops.read(path)


def test_the_types_are_those_of_the_documents() -> None:
    """aoepar_16_072: 27 of cubes and pooling, 69 of vectors; what they leave out is not tuned."""
    assert len(tune_ops.TYPES) == 96
    assert {"MatMulV3", "Conv2D", "ReduceMeanD"} <= tune_ops.TYPES and not {"SoftmaxV2", "LayerNorm", "Transpose"} & tune_ops.TYPES


def test_a_fusion_switch_file_is_the_documented_object() -> None:
    """atlasatcparam_16_0053: {"Switch": {"GraphFusion": {pass: off}, "UBFusion": {pass: off}}}."""
    assert json.loads(fusion_switch.text({"TbeConv2DEltwisePass"})) == {
        "Switch": {"GraphFusion": {}, "UBFusion": {"TbeConv2DEltwisePass": "off"}}}
