"""A small net with every kind of group, compiled without a search: legal candidates picked by a seed."""
from __future__ import annotations

import random
from functools import lru_cache

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from aoec.artifact.compiled import Artifact, Compiled, Port
from aoec.frontend.translate.onnx import load
from aoec.ir.graph.graph import Graph
from aoec.ir.program import Program
from aoec.jobs.choose.model_tasks import tasks
from aoec.jobs.tune.tuning import Problem, problem
from aoec.lowering.arrange.fuse import fuse
from aoec.target.machine import load as load_machine

MACHINE = load_machine("Ascend910B3")


def net() -> onnx.ModelProto:
    """Channels and sides that fill no fractal: convolutions, pooling, a residual, both conversions, host nodes, matrices, softmax."""
    r = np.random.default_rng(5)

    def constant(name: str, *shape: int) -> onnx.TensorProto:
        fan_in = int(np.prod(shape[1:])) or 1
        return numpy_helper.from_array((r.standard_normal(shape) / np.sqrt(fan_in)).astype(np.float32), name)

    constants = [constant("w1", 20, 3, 3, 3), constant("b1", 20), constant("w2", 20, 20, 1, 1), constant("w3", 10, 20), constant("b3", 10)]
    pads = {"pads": [1, 1, 1, 1], "kernel_shape": [3, 3], "strides": [2, 2]}
    nodes = [
        helper.make_node("Conv", ["data", "w1", "b1"], ["c1"], name="c1", **pads),
        helper.make_node("Relu", ["c1"], ["r1"], name="r1"),
        helper.make_node("MaxPool", ["r1"], ["p1"], name="p1", **pads),
        helper.make_node("Conv", ["p1", "w2"], ["c2"], name="c2"),
        helper.make_node("Add", ["c2", "p1"], ["a1"], name="a1"),
        helper.make_node("Relu", ["a1"], ["r2"], name="r2"),
        helper.make_node("GlobalAveragePool", ["r2"], ["g1"], name="g1"),
        helper.make_node("Flatten", ["g1"], ["f1"], name="f1"),
        helper.make_node("Gemm", ["f1", "w3", "b3"], ["scores"], name="gemm", transB=1),
        helper.make_node("Softmax", ["scores"], ["probabilities"], name="softmax"),
        helper.make_node("Cast", ["scores"], ["wide"], name="wide", to=TensorProto.DOUBLE),  # which only the host has
        helper.make_node("Neg", ["wide"], ["turned"], name="turned"),
        helper.make_node("Cast", ["turned"], ["marked"], name="marked", to=TensorProto.FLOAT)]
    inputs = [helper.make_tensor_value_info("data", TensorProto.FLOAT, [2, 3, 13, 11])]
    outputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 10]) for n in ("scores", "probabilities", "marked")]
    graph = helper.make_graph(nodes, "net", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def legal(p: Problem, seed: int) -> Program:
    """A legal candidate's program, picked by the seed."""
    pick = random.Random(seed)
    for _ in range(40):
        candidates = [p.space.at(pick.randrange(p.space.size)) for _ in range(50)]
        for candidate, ticks in zip(candidates, p.cost(candidates)):
            if ticks is not None:
                return p.program(candidate)
    raise AssertionError(f"no legal candidate of {p.func.name} among 2,000")


def fused(precision: str) -> tuple[Graph, dict[str, np.ndarray]]:
    graph, weights, _ = load(net(), {}, precision)
    return fuse(graph, weights)


@lru_cache(maxsize=4)
def compiled(precision: str, seed: int = 0) -> Artifact:
    """The net as an artifact."""
    graph, weights = fused(precision)
    plan = {t.group.name: t for t in tasks(graph, MACHINE)}
    groups = tuple(Compiled(g.name, program=legal(problem(t.func, MACHINE), seed), bindings=t.bindings)
                   if (t := plan.get(g.name)) else Compiled(g.name) for g in graph.groups)
    tensors = {t.name: t for t in graph.tensors}
    ports = [tuple(Port(n, n, "fp32", tensors[n].shape) for n in names) for names in (graph.inputs, graph.outputs)]
    figures = (("latency_ns", 21000), ("throughput_period_ns", 20000))
    return Artifact("net", MACHINE.name, MACHINE.hash, "1", precision, graph, *ports, groups, weights, figures)


def feeds(seed: int = 0) -> dict[str, np.ndarray]:
    return {"data": np.random.default_rng(seed).standard_normal((2, 3, 13, 11), np.float32)}
