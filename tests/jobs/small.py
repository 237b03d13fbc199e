"""Searches that are small enough for laws about jobs, and a model to be tuned by them."""
from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from unittest import mock

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from aoec.jobs import known, trust
from aoec.search import default


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
          mock.patch.object(default, "LIST", 1), mock.patch.object(default, "stock", lambda space, conditions: []), kept_apart("poor")):
        yield


@contextmanager
def small_searches() -> Iterator[None]:
    """A short list is short, and how far a schedule holds is asked of two machines: the others tell nothing about jobs."""
    trust.seeded.cache_clear()
    with mock.patch.object(trust, "MACHINES", 2), mock.patch.object(default, "LIST", 60), kept_apart("small"):
        yield
    trust.seeded.cache_clear()


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
