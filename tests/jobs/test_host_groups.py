"""Moves behind a node on the host: one group with it, one launch, and the values of onnxruntime."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import aoec
from aoec.artifact.artifact import load
from aoec.ir.graph.graph import Graph
from aoec.ir.text.parse import parse_graph
from aoec.jobs.choose.host_groups import join_on_host
from aoec.jobs.choose.model_tasks import host_times

HEAD = """graph g {
  input a: fp32[8, 4]
  tensor k: opaque[] as "tensor(int64)[2,?]"
  tensor t: opaque[] as "tensor(int64)[?,2]"
  tensor u: opaque[] as "tensor(int64)[?]"
  tensor e: fp32[8, 4]
  tensor v: opaque[] as "tensor(float)[?,4]"
  tensor w: opaque[] as "tensor(float)[?,4]"
  k: host.NonZero(a; onnx_opset=17) -> k
  t: host.Transpose(k; onnx_opset=17) -> t
"""


def graph(*rest: str) -> Graph:
    return parse_graph(HEAD + "".join(f"  {line}\n" for line in rest) + "}\n")


def shown(g: Graph) -> list[tuple[str, ...]]:
    return [p.nodes for p in g.groups]


def test_moves_behind_a_node_on_the_host_are_one_group_with_it() -> None:
    """What reads the core's results too is one, as far as these are there by then; what calculates is none."""
    late = graph("u: host.Squeeze(t; onnx_opset=17) -> u", "e: exp(a) -> e", "v: host.Gather(e, u; axis=0, onnx_opset=17) -> v",
                 "w: host.Erf(v; onnx_opset=17) -> w", "output w",
                 "group g0 host [k]", "group g1 host [t]", "group g2 host [u]", "group g3 vector [e]", "group g4 host [v]",
                 "group g5 host [w]")
    joined = join_on_host(late)
    assert shown(joined) == [("k", "t", "u"), ("e",), ("v",), ("w",)]
    assert join_on_host(joined) == joined
    early = graph("e: exp(a) -> e", "u: host.Squeeze(t; onnx_opset=17) -> u", "v: host.Gather(e, u; axis=0, onnx_opset=17) -> v",
                  "w: host.Erf(v; onnx_opset=17) -> w", "output w",
                  "group g3 vector [e]", "group g0 host [k]", "group g1 host [t]", "group g2 host [u]", "group g4 host [v]",
                  "group g5 host [w]")
    assert shown(join_on_host(early)) == [("e",), ("k", "t", "u", "v"), ("w",)]


def test_a_joined_move_costs_its_bytes_alone() -> None:
    """20 us for each launch and a microsecond for 4,000 bytes: of a, of e and of values without a known size."""
    g = graph("e: exp(a) -> e", "u: host.Squeeze(t; onnx_opset=17) -> u", "v: host.Gather(e, u; axis=0, onnx_opset=17) -> v",
              "w: host.Erf(v; onnx_opset=17) -> w", "output w",
              "group g3 vector [e]", "group g0 host [k, t, u, v]", "group g5 host [w]")
    assert host_times(g) == pytest.approx({"g0": 20 + 2 * 8 * 4 * 4 / 4000, "g5": 20})
    apart = graph("u: host.Squeeze(t; onnx_opset=17) -> u", "output u", "group g0 host [k]", "group g1 host [t, u]")
    assert host_times(apart) == pytest.approx({"g0": 20 + 8 * 4 * 4 / 4000, "g1": 20})  # a move that is first has a launch


def detections() -> onnx.ModelProto:
    """Boxes that are kept, as detectors have them: NonMaxSuppression, its third column, and the boxes of these numbers."""
    constants = {"most": np.array([4], np.int64), "overlap": np.array([0.5], np.float32), "score": np.array([0.2], np.float32),
                 "column": np.array([2], np.int64), "flat": np.array([-1], np.int64)}
    nodes = [helper.make_node("Relu", ["scores"], ["s"], name="relu"),
             helper.make_node("NonMaxSuppression", ["boxes", "s", "most", "overlap", "score"], ["k"], name="nms"),
             helper.make_node("Gather", ["k", "column"], ["c"], axis=1, name="gather"),
             helper.make_node("Reshape", ["c", "flat"], ["i"], name="reshape"),
             helper.make_node("Gather", ["boxes", "i"], ["kept"], axis=1, name="take")]
    given = [helper.make_tensor_value_info("boxes", TensorProto.FLOAT, [1, 32, 4]),
             helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 2, 32])]
    made = [helper.make_tensor_value_info("kept", TensorProto.FLOAT, [1, None, 4])]
    found = helper.make_graph(nodes, "detections", given, made, [numpy_helper.from_array(v, k) for k, v in constants.items()])
    return helper.make_model(found, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_boxes_that_are_kept_cost_one_launch_of_the_host(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    corner = random.random((1, 32, 2), np.float32)
    feeds = {"boxes": np.concatenate([corner, corner + random.random((1, 32, 2), np.float32)], axis=2),
             "scores": random.random((1, 2, 32), np.float32)}
    session = aoec.compile(detections(), tmp_path / "d.aoec", target="Ascend310P3", precision="fp32", base="none", bank=tmp_path / "bank")
    hosts = [g for g in session.report["groups"] if g["runs_on"] == "host"]
    assert [(g["what"], g["count"]) for g in hosts] == [("host.NonMaxSuppression, host.Gather x2, host.Reshape", 1)]
    assert 20 < hosts[0]["tuned_us"] < 21
    assert [g.nodes for g in load(tmp_path / "d.aoec").graph.groups if g.kind == "host"] == [("nms", "gather", "reshape", "take")]
    wanted = onnxruntime.InferenceSession(detections().SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feeds)
    (got,) = session.run(None, feeds)
    assert got.shape[1] > 1 and np.array_equal(got, wanted[0])
