"""Small model files that stand for more than can be worked on are refused at once, with a sentence."""
from __future__ import annotations

import random
import resource
import subprocess
import sys
import time
from contextlib import suppress
from itertools import pairwise

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import helper, numpy_helper

from aoec.base.errors import ParseError, UnsupportedError
from aoec.frontend.read.bounds import MOST_CALLS, MOST_NODES
from aoec.frontend.read.inference import steps_are_small
from aoec.frontend.translate.control import MOST_BYTES
from aoec.frontend.translate.onnx import load
from aoec.ir.index import Binary, Int, Var, evaluate
from aoec.jobs.compile.untuned import compile_untuned
from aoec.search.sketches.padding import Inside
from aoec.target import machine

LOWEST, HIGHEST = -2**63, 2**63 - 1


def of_functions(levels: int, each: int, inner: str = "Relu") -> onnx.ModelProto:
    """Return a model of functions, each of which calls the one before it `each` times."""
    versions = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    functions = []
    for level in range(levels):
        op, where = (f"F{level - 1}", "own") if level else (inner, "" if inner == "Relu" else "own")
        names = ["x", *(f"t{i}" for i in range(each - 1)), "y"]
        nodes = [helper.make_node(op, [a], [b], domain=where) for a, b in pairwise(names)]
        functions.append(helper.make_function("own", f"F{level}", ["x"], ["y"], nodes, versions))
    ends = [helper.make_tensor_value_info(name, 1, [4]) for name in "xy"]
    graph = helper.make_graph([helper.make_node(f"F{levels - 1}", ["x"], ["y"], domain="own")], "net", ends[:1], ends[1:])
    return helper.make_model(graph, opset_imports=versions, functions=functions)


def test_functions_that_stand_for_too_many_nodes_are_refused_at_once() -> None:
    began = time.monotonic()
    with pytest.raises(UnsupportedError, match=f"1,111,111,111,110 nodes, and at most {MOST_NODES:,} are taken"):
        load(of_functions(12, 10))
    with pytest.raises(UnsupportedError, match=r"more than 10\^15 nodes"):
        load(of_functions(60, 9))
    with pytest.raises(UnsupportedError, match="calls within each other"):
        load(of_functions(MOST_CALLS + 1, 1))
    with pytest.raises(UnsupportedError, match="calls within each other"):
        load(of_functions(5000, 1))  # which a walk that calls itself would not survive
    assert time.monotonic() - began < 20
    assert len(load(of_functions(3, 3))[0].nodes) in (1, 27)  # clean-up may join them


def test_functions_that_call_themselves_are_refused() -> None:
    with pytest.raises(ParseError, match=r"its function F\d calls itself"):
        load(of_functions(3, 1, inner="F2"))


SLICE = """
import resource, sys, onnx
from onnx import helper, numpy_helper
import numpy as np
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
from aoec.frontend.translate.onnx import load
from aoec.ops.run import evaluate
for start, end, step in ((2**63 - 1, -2**63, -2**63), (0, 4, 2**63 - 1), (1, 4, 2**62), (3, -2**63, -2), (0, 2**63 - 1, 3)):
    known = [numpy_helper.from_array(np.array([v]), k) for k, v in zip("abcd", (start, end, 0, step))]
    graph = helper.make_graph([helper.make_node("Slice", ["x", *"abcd"], ["y"])], "net", [helper.make_tensor_value_info("x", 7, [4])],
                              [helper.make_tensor_value_info("y", 7, None)], known)
    graph, weights, _ = load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))
    x = np.array([5, 6, 7, 8])
    made = evaluate(graph, {"x": x}, weights)["y"]
    wanted = x[slice(start, end if end >= -4 else None, step)]
    assert made.tolist() == wanted.tolist(), (start, end, step, made, wanted)
print("same")
"""


def test_slices_with_steps_that_would_wrap_give_what_numpy_does() -> None:
    done = subprocess.run([sys.executable, "-c", SLICE], capture_output=True, text=True)  # ONNX's own inference is ended by a signal here
    assert done.stdout == "same\n", (done.returncode, done.stderr)


def test_long_vectors_cost_nothing_when_shapes_are_inferred() -> None:
    """ONNX's inference takes 1.4 GB and 10 s for 10^7 elements of an input."""
    began = time.monotonic()
    for op, extra in (("Add", ["x"]), ("Cast", [])):
        node = helper.make_node(op, ["x", *extra], ["y"], **({} if extra else {"to": 10}))
        ends = [helper.make_tensor_value_info("x", 1, [10**10]), helper.make_tensor_value_info("y", 1 if extra else 10, [10**10])]
        load(helper.make_model(helper.make_graph([node], "net", ends[:1], ends[1:]), opset_imports=[helper.make_opsetid("", 17)]))
    assert time.monotonic() - began < 20


def test_steps_are_found_wherever_they_stand() -> None:
    def model(step: int, body: bool, steps: str = "d") -> onnx.GraphProto:
        nodes = [helper.make_node("Slice", ["x", "a", "b", "c", steps], ["y"])]
        known = [numpy_helper.from_array(np.array([v]), k) for k, v in zip("abcd", (0, HIGHEST, 0, step))]
        inner = helper.make_graph(nodes, "inner", [], [helper.make_tensor_value_info("y", 7, None)])
        around = [helper.make_node("If", ["q"], ["y"], then_branch=inner, else_branch=inner)]
        return helper.make_graph(around if body else nodes, "net", [helper.make_tensor_value_info("x", 7, [4])], [], known)
    for body in (False, True):
        assert steps_are_small(model(1, body)) and steps_are_small(model(-7, body)) and steps_are_small(model(HIGHEST, body, ""))
        assert not steps_are_small(model(HIGHEST, body)) and not steps_are_small(model(LOWEST, body))
        assert not steps_are_small(model(1, body, "x"))  # which is not known
    made = helper.make_node("Constant", [], ["e"], value_ints=[1])
    graph = model(1, False, "e")
    graph.node.insert(0, made)
    assert steps_are_small(graph)


def test_windows_far_larger_than_their_tensor_are_compiled_or_refused_at_once() -> None:
    def pooled(size: int, kind: str = "MaxPool") -> onnx.ModelProto:
        node = helper.make_node(kind, ["x"], ["y"], kernel_shape=[size, size], pads=[size // 2] * 4)
        return helper.make_model(helper.make_graph([node], "net", [helper.make_tensor_value_info("x", 1, [1, 3, 8, 8])],
                                                   [helper.make_tensor_value_info("y", 1, None)]),
                                 opset_imports=[helper.make_opsetid("", 17)])
    for kind in ("MaxPool", "AveragePool", "LpPool"):
        with pytest.raises(UnsupportedError, match="covers, moves by or is padded by 2,147,483,648 elements"):
            load(pooled(1 << 31, kind))
        graph, weights, _ = load(pooled(1 << 22, kind))
        assert compile_untuned(graph, weights, "fp16", machine.load())[0].groups


def test_places_within_padding_are_those_that_a_walk_over_all_finds() -> None:
    draw = random.Random(3)
    for _ in range(2000):
        extent = draw.randint(1, 20)
        conditions = tuple(Binary(draw.choice(["<", "<=", ">", ">=", "=="]), Binary("*", Var("i"), Int(draw.choice([1, 2, -1, 3])))
                                  if draw.random() < 0.7 else Binary("%", Var("i"), Int(2)), Int(draw.randint(-5, 25)))
                           for _ in range(draw.randint(1, 3)))
        inside = Inside(conditions, "i", range(extent))
        every = [all(evaluate(c, {"i": at}) for c in conditions) for at in range(extent)]
        first, last = draw.randint(-6, 25), draw.randint(-6, 25)
        assert inside.all_of(inside.places[first:last]) == all(every[first:last]), (conditions, extent, first, last)
    assert Inside((Binary(">=", Var("i"), Int(3)),), "i", range(1 << 40)).all_of(range(3, 1 << 40))


@pytest.mark.parametrize("text", [
    """<ir_version: 8, opset_import: ["": 17]> net (float[4] x) => (float[4] y)
       <int64 n = {4611686018427387904}, bool t = {1}>
       { y = Loop (n, t, x) <body = b (int64 i, bool c, float[4] a) => (bool c, float[4] a) {}> }""",
    """<ir_version: 8, opset_import: ["": 17]> net (float[4] x, float[1000000000,1] s) => (float[4] y, float[1000000000,1] z)
       { y, z = Scan <num_scan_inputs = 1, body = b (float[4] a, float[1] e) => (float[4] a, float[1] e) {}> (x, s) }"""])
def test_rounds_of_empty_bodies_are_not_walked_when_a_model_is_read(text: str) -> None:
    began = time.monotonic()
    with suppress(UnsupportedError, ParseError):
        load(onnx.parser.parse_model(text))
    assert time.monotonic() - began < 20


def most_memory() -> int:
    """The most bytes that this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def test_constants_of_bodies_are_not_held_once_a_round_without_end() -> None:
    large = numpy_helper.from_array(np.ones(1 << 20, np.float32), "w")
    ends = [helper.make_tensor_value_info("a", 1, [1 << 20]), helper.make_tensor_value_info("c", 9, [])]
    body = helper.make_graph([helper.make_node("Add", ["a", "w"], ["b"])], "body",
                             [helper.make_tensor_value_info("i", 7, []), ends[1], ends[0]],
                             [ends[1], helper.make_tensor_value_info("b", 1, [1 << 20])], [large])
    node = helper.make_node("Loop", ["n", "t", "x"], ["y"], body=body)
    known = [numpy_helper.from_array(np.array(4000), "n"), numpy_helper.from_array(np.array(True), "t")]
    graph = helper.make_graph([node], "net", [helper.make_tensor_value_info("x", 1, [1 << 20])],
                              [helper.make_tensor_value_info("y", 1, [1 << 20])], known)
    before = most_memory()
    load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))  # 16 GB, were each round to hold its own
    assert most_memory() - before < MOST_BYTES * 12


AXES = {"Compress": "xc", "Concat": "xx", "Flatten": "x", "Gather": "xi", "GatherElements": "xi", "Hardmax": "x",
        "LayerNormalization": "xs", "LogSoftmax": "x", "LpNormalization": "x", "OneHot": "idv", "ScatterElements": "xix",
        "Softmax": "x", "Split": "x", "Unique": "x",
        "ArgMax": "x", "ArgMin": "x", "TopK": "xk"}


@pytest.mark.parametrize("op", sorted(AXES))
def test_axes_that_a_tensor_does_not_have_are_refused(op: str) -> None:
    """ONNX's own inference takes the lower 32 bits of an axis, and looks at no rank at all for some operators."""
    known = [numpy_helper.from_array(np.array(v), k) for k, v in (("d", 4), ("k", [2]))]
    known += [numpy_helper.from_array(np.ones(n, np.float32), k) for k, n in (("v", 2), ("s", 6))]
    ends = [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in
            (("x", 1, [4, 6]), ("i", 7, [4, 6]), ("c", 9, [4]))]
    outputs = ["y", "z"] if op in ("TopK", "Split") else ["y"]

    def model(axis: int) -> onnx.ModelProto:
        more = {"num_outputs": 2} if op == "Split" else {}
        graph = helper.make_graph([helper.make_node(op, list(AXES[op]), outputs, axis=axis, **more)], "net", ends,
                                  [helper.make_empty_tensor_value_info(o) for o in outputs], known)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=8)
    assert load(model(0))[0].nodes
    for axis in (-2**62, 2**62, 2**32, 9, -9):
        with pytest.raises(ParseError, match="invalid"):
            load(model(axis))
