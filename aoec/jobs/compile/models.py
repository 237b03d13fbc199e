"""Models as imported and as fused. The result for an equal model is looked up. Its constants are only made when they are needed: to verify
a group, or to write what is not written yet. So a second compile of a model hashes its file and reads nothing else of it."""
from __future__ import annotations

import mmap
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np

from aoec.base.errors import BackendError
from aoec.base.files.arrays import Lazy
from aoec.base.files.files import open_plain
from aoec.frontend.rewrites.apply import Rewriting
from aoec.frontend.translate import onnx as frontend
from aoec.ir.graph.graph import Graph, Tensor
from aoec.ir.graph.rule import Rule
from aoec.ir.text.flat import flat, noun
from aoec.ir.text.show import show
from aoec.jobs.known import recall
from aoec.jobs.plans.entered import Entered
from aoec.ops.own import NO_DEFINITIONS, Definitions
from aoec.options.training import Training
from aoec.target.machine import Machine

if TYPE_CHECKING:
    from onnx import ModelProto

Weights = Mapping[str, np.ndarray]
Applied = list[tuple[str, str]]  # (rule, the tensor that its pattern makes), each once, in the order in which they were made
Pool = dict[tuple[object, ...], np.ndarray]  # constants of several graphs by what they are, so that equal ones are held once
ELSEWHERE = b"\n\x08location"  # how an ONNX file says that data of a constant lie in another file


def import_model(model: str | ModelProto, shapes: Mapping[str, tuple[int, ...]], precision: str,
             pool: Pool | None = None, own: Definitions = NO_DEFINITIONS,
             rules: Sequence[Rule] = (), entered: Entered | None = None,
             training: Training | None = None) -> tuple[Graph, Weights, list[str], Applied]:
    """Return (graph, constants, notices, the rewrites that were made and where) of an ONNX model, by path or as a proto. `own` and `rules`
    are the user's operators and rewrites. Raise the frontend's errors. `entered`: a plan, whose declined rewrites are not made. `training`:
    the graph is a step of training by these options."""
    declined = entered.plan.declined if entered else ()

    @cache
    def load() -> tuple[Graph, Weights, list[str], Applied]:
        rewriting = Rewriting(rules, declined)
        graph, weights, notices = load_graph(model, shapes, precision, own, rewriting, training)
        applied: Applied = list(dict.fromkeys(rewriting.applied))
        if entered:
            entered.refuse_unmet(rewriting.met, applied)
        return graph, _share_constants(graph, weights, pool), notices, applied

    content = file_digest(model) if isinstance(model, str) else ""
    if not content:
        return load()
    at = ("import", content, repr(sorted(shapes.items())), precision, frontend.onnx.__version__, repr(sorted(own.items())),
          *map(show, rules), *([repr(training)] if training else []), *(f"{rule} at {tensor} off" for rule, tensor in sorted(declined)))

    def read_again(kept: Any) -> tuple[Graph, list[str], Applied]:
        return noun(kept[0]), kept[1], [(str(rule), str(tensor)) for rule, tensor in kept[2]]

    graph, notices, applied = recall(
        at, lambda: (load()[0], load()[2], load()[3]),
        lambda made: None if refers_elsewhere(model) else [flat(made[0]), made[1], made[2]], read_again)
    return graph, _constants(graph, lambda: load()[1], pool), notices, applied


def load_graph(model: str | ModelProto, shapes: Mapping[str, Sequence[int]], precision: str, own: Definitions, rewriting: Rewriting,
               training: Training | None) -> tuple[Graph, dict[str, np.ndarray], list[str]]:
    """Return (graph, constants, notices) of a model, or of a step of its training."""
    if training is None:
        return frontend.load(model, dict(shapes), precision, own, rewriting)
    from aoec.frontend.training.training import load_training
    made = load_training(model, training, shapes, precision, own, rewriting)
    return made.graph, dict(made.weights), made.notices


def fuse_model(graph: Graph, weights: Weights, machine: Machine, pool: Pool | None = None,
          apart: frozenset[str] = frozenset()) -> tuple[Graph, Weights, frozenset[str]]:
    """Return (the graph in layouts and groups for a machine, its constants as stored, the names that fusion asked for). `apart`: the
    exceptions of fusion."""
    @cache
    def make() -> tuple[Graph, Weights, frozenset[str]]:
        from aoec.lowering.arrange.fuse import fuse
        from aoec.lowering.arrange.planned.enter import Asked
        names = Asked(apart)
        made, stored = fuse(graph, weights, machine, names)
        return made, _share_constants(made, stored, pool), frozenset(names.asked)

    out, asked = recall(("fuse", show(graph), machine.name, machine.hash, *sorted(apart)), lambda: (make()[0], make()[2]),
                       lambda made: [flat(made[0]), sorted(made[1])], lambda kept: (noun(kept[0]), frozenset(map(str, kept[1]))))
    return out, _constants(out, lambda: make()[1], pool), asked


def _constants(graph: Graph, make: Callable[[], Weights], pool: Pool | None) -> Weights:
    """Return the constants of a graph, made when one is asked for; what the pool has is not made."""
    def take() -> Weights:
        wanted = {t.name: _what(t) for t in graph.tensors if t.data}
        if pool is None or any(what not in pool for what in wanted.values()):
            return make()
        return {name: pool[what] for name, what in wanted.items()}

    return Lazy([t.name for t in graph.tensors if t.data], take)


def _share_constants(graph: Graph, weights: Weights, pool: Pool | None) -> Weights:
    """Return the constants, those that the pool has already in its memory; the others are in it then."""
    return weights if pool is None else {t.name: pool.setdefault(_what(t), weights[t.name]) for t in graph.tensors if t.data}


def _what(t: Tensor) -> tuple[object, ...]:
    return t.data, t.dtype, t.layout, t.shape


def file_digest(path: str) -> str:
    """Return the sha256 of a file's bytes. Return "" where it cannot be read, which its reader says better."""
    try:
        with open_plain(path) as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return sha256(data).hexdigest()
    except (OSError, ValueError, BackendError):  # an empty file cannot be mapped
        return ""


def refers_elsewhere(path: str) -> bool:
    """Return True for a model whose file does not say all of it."""
    with open_plain(path) as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return data.find(ELSEWHERE) >= 0
