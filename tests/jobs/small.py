"""Searches that are small enough for laws about jobs, and a model to be tuned by them."""
from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from unittest import mock

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from aoec.ir.func.tir import Func
from aoec.ir.program import Program
from aoec.ir.schedule import Trace
from aoec.jobs import known
from aoec.jobs.tune import made, trust, tuning
from aoec.search.default import default, shortlist
from aoec.simulate.encode.encode import Encoded
from aoec.target.machine import Machine

ENCODED = 300  # programs of sketches that tests of one file share


@contextmanager
def kept_apart(name: str) -> Iterator[None]:
    """What is kept of runs here is kept apart from what other tests' runs keep."""
    known.memo.cache_clear()
    with mock.patch.dict(os.environ, AOEC_CACHE_DIR=os.path.join(os.environ["AOEC_CACHE_DIR"], name)):
        yield
    known.memo.cache_clear()


@contextmanager
def poor_defaults() -> Iterator[None]:
    """A default is the best of one legal candidate of each sketch, and nothing of it settled: what needs a search that finds better does
    not hang on how good defaults are."""
    with (mock.patch.object(default, "TILES", (("uf",),)), mock.patch.object(default, "LAST", (("uf",),)),
          mock.patch.object(shortlist, "LIST", 1), mock.patch.object(shortlist, "LIKE", 1), mock.patch.object(shortlist, "FEW", 1),
          mock.patch.object(shortlist, "stock", lambda grid, number, conditions: []), kept_apart("poor")):
        yield


def encoded_once() -> Callable[[Program, Machine], Encoded]:
    """`encode` that gives for a program what it gave before, and so with the plans of its tables: jobs that follow each other in a test
    search the same sketches."""
    made: OrderedDict[tuple[Program, int], Encoded] = OrderedDict()  # an Encoded keeps its machine, whose id so stays its own

    def encode(program: Program, machine: Machine, make: Callable[[Program, Machine], Encoded] = tuning.encode) -> Encoded:
        key = program, id(machine)
        if key not in made:
            made[key] = make(program, machine)
        made.move_to_end(key)
        if len(made) > ENCODED:
            made.popitem(last=False)
        return made[key]

    return encode


@contextmanager
def few_sketches() -> Iterator[None]:
    """A space has the first, the fourth, the seventh ... of its sketches: of a matrix product's eight, three."""
    def some(func: Func, machine: Machine, lay: Callable[[Func, Machine], list[Trace]] = tuning.sketches) -> list[Trace]:
        return lay(func, machine)[::3]

    with mock.patch.object(tuning, "sketches", some), kept_apart("few"):
        yield


@contextmanager
def small_searches() -> Iterator[None]:
    """A short list is short, and how far a schedule holds is asked of two machines: the others tell nothing about jobs. Sketches are
    encoded and planned once for all jobs of the file."""
    trust.seeded_machines.cache_clear()
    with (mock.patch.object(trust, "MACHINES", 2), mock.patch.object(made, "MACHINES", 2), mock.patch.object(shortlist, "LIST", 60),
          mock.patch.object(tuning, "encode", encoded_once()), kept_apart("small")):
        yield
    trust.seeded_machines.cache_clear()


def layers(*widths: int) -> onnx.ModelProto:
    """Matrix products one after the other, and a softmax."""
    draw, nodes, constants, last = np.random.default_rng(0), [], [], "x"
    for i, (k, n) in enumerate(pairwise(widths)):
        constants.append(numpy_helper.from_array(draw.standard_normal((k, n)).astype(np.float32), f"w{i}"))
        nodes.append(helper.make_node("MatMul", [last, f"w{i}"], [f"y{i}"], name=f"layer{i}"))
        last = f"y{i}"
    nodes.append(helper.make_node("Softmax", [last], ["z"], name="shares"))
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [16, w]) for n, w in (("x", widths[0]), ("z", widths[-1]))]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
