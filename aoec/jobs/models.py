"""Models as imported and as fused. What an equal one became is looked up; its constants are made when somebody asks for them: to verify
a group, to write what is not written yet. A second compile of a model so hashes its file and reads none of it."""
from __future__ import annotations

import mmap
from collections.abc import Callable, Mapping
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np

from aoec.base.arrays import Lazy
from aoec.frontend import onnx as frontend
from aoec.ir.flat import flat, noun
from aoec.ir.graph import Graph
from aoec.ir.show import show
from aoec.jobs.known import known
from aoec.target.machine import Machine

if TYPE_CHECKING:
    from onnx import ModelProto

Weights = Mapping[str, np.ndarray]
ELSEWHERE = b"\n\x08location"  # how an ONNX file says that data of a constant lie in another file


def imported(model: str | ModelProto, shapes: Mapping[str, tuple[int, ...]], precision: str) -> tuple[Graph, Weights, list[str]]:
    """(graph, constants, notices) of an ONNX model, by path or as a proto; what the frontend refuses is refused."""
    @cache
    def load() -> tuple[Graph, dict[str, np.ndarray], list[str]]:
        return frontend.load(model, dict(shapes), precision)

    content = file_digest(model) if isinstance(model, str) else ""
    if not content:
        graph, weights, notices = load()
        return graph, weights, notices
    at = ("import", content, repr(sorted(shapes.items())), precision, frontend.onnx.__version__)
    graph, notices = known(at, lambda: (load()[0], load()[2]), lambda made: None if refers_elsewhere(model) else [flat(made[0]), made[1]],
                           lambda kept: (noun(kept[0]), kept[1]))
    return graph, _constants(graph, lambda: load()[1]), notices


def fused(graph: Graph, weights: Weights, machine: Machine) -> tuple[Graph, Weights]:
    """The graph in layouts and groups for a machine, with its constants as stored."""
    @cache
    def make() -> tuple[Graph, dict[str, np.ndarray]]:
        from aoec.lowering.fuse import fuse
        return fuse(graph, weights, machine)

    out = known(("fuse", show(graph), machine.name, machine.hash), lambda: make()[0], flat, noun)
    return out, _constants(out, lambda: make()[1])


def _constants(graph: Graph, make: Callable[[], Weights]) -> Weights:
    return Lazy([t.name for t in graph.tensors if t.data], make)


def file_digest(path: str) -> str:
    """The sha256 of a file's bytes; "" where it cannot be read, which its reader says better."""
    try:
        with open(path, "rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return sha256(data).hexdigest()
    except (OSError, ValueError):  # an empty file cannot be mapped
        return ""


def refers_elsewhere(path: str) -> bool:
    """True for a model whose file does not say all of it."""
    with open(path, "rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return data.find(ELSEWHERE) >= 0
