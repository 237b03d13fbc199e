"""Funcs of one key may call their loops otherwise: the schedule that a bank keeps of one is also the other's."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from aoec import cli
from aoec.artifact.artifact import load
from aoec.bank.bank import Bank
from aoec.bank.record import Key, Record
from aoec.ir.func.tir import Func
from aoec.ir.text.keys import key
from aoec.ir.text.parse import parse_func
from aoec.ir.text.show import show
from aoec.jobs.stages.stages import lower_operator
from aoec.jobs.tune.made import func_as_recorded
from tests.jobs.small import small_searches


@pytest.fixture(autouse=True)
def few() -> Iterator[None]:
    with small_searches():
        yield


def with_other_loops(text: str) -> str:
    """A func or schedule whose loops have other names, as lowering gives them behind other operators."""
    return text.replace("_i0", "_i11")


def record_of(func: Func, of_key: str = "") -> Record:
    return Record(Key(of_key or key(func), "Ascend910B3", "m", "v", ""), "silu", "sched {\n}", 2, 2, 1, func=show(replace(func, name="f")))


def test_only_a_func_of_the_same_key_and_tensors_is_taken() -> None:
    func = lower_operator("silu(m=8, n=64, fp16)")
    other = parse_func(with_other_loops(show(replace(func, name="f"))))
    assert other != func and key(other) == key(func)
    assert func_as_recorded(func, record_of(other)) == other
    assert func_as_recorded(func, record_of(func)) == func
    larger = lower_operator("silu(m=8, n=128, fp16)")
    assert func_as_recorded(func, record_of(larger)) == func
    assert func_as_recorded(func, record_of(larger, key(func))) == func  # a stranger's
    assert func_as_recorded(func, replace(record_of(other), func="no func")) == func
    moved = parse_func(show(other).replace("X", "Z"))
    assert key(moved) == key(func) and func_as_recorded(func, record_of(moved)) == func


def test_a_schedule_found_with_other_names_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    nodes = [helper.make_node("Sigmoid", ["x"], ["s"]), helper.make_node("Mul", ["x", "s"], ["y"])]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [512, 512]) for n in ("x", "y")]
    graph = helper.make_graph(nodes, "gates", ends[:1], ends[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "gates.onnx")
    how = ["compile", "gates.onnx", "--tune", "--base", "none", "--jobs", "1", "--no-verify", "--no-stock", "--target", "Ascend910B3"]
    assert cli.main([*how, "--budget", "20", "--bank", "own.db", "-o", "own.aoec"]) == 0
    kept = Bank.open(Path("own.db")).list()
    assert any("_i0" in r.trace for r in kept)
    others = Bank.open(Path("others.db"))
    others.put_all([replace(r, func=with_other_loops(r.func), trace=with_other_loops(r.trace)) for r in kept])
    assert cli.main([*how, "--budget", "20", "--frozen", "--bank", "others.db", "-o", "others.aoec"]) == 0
    assert dict(load("others.aoec").figures)["latency_ns"] == dict(load("own.aoec").figures)["latency_ns"]
