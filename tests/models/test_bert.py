"""A small BERT by the command that users have, on cores of both kinds, against onnxruntime."""
from __future__ import annotations

from pathlib import Path

import pytest

from aoec.jobs.run.execute import run_model
from tests.frontend.models import run
from tests.models.bert import small_bert, words
from tests.models.compiled import TOLERANCE, compiled, distance, operators_on_host


# its groups' kinds are tried on coupled cores, one by one, in laws/test_coupled.py, and a whole model in lowering/test_nz.py
# by schedules that are found soon: values are the same by any
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("target, layers", [("Ascend910B3", 2), pytest.param("Ascend310P3", 1, marks=pytest.mark.slow)])
def test_a_small_bert_compiles_and_matches(target: str, layers: int, tmp_path: Path) -> None:
    """Nothing runs on the host, words are looked up on the AI Core too; biases are their products' own, keys are turned by the products
    that read them."""
    proto = small_bert(layers)
    artifact = compiled(proto, "fp16", tmp_path, "--target", target)
    assert not operators_on_host(artifact)
    nodes = artifact.graph.nodes
    assert sum(n.op == "matmul" and len(n.inputs) == 3 for n in nodes) == 4 * layers + 1  # queries, keys and values are one
    assert sum(n.op == "matmul" and n.attribute("trans_b") == 1 for n in nodes) == layers
    assert all(n.attribute("perm") == (0, 2, 1, 3) for n in nodes if n.op == "transpose")
    (expected,) = run(proto, words())
    assert distance(run_model(artifact, words())["answers"], expected) < TOLERANCE["fp16"]
