"""Execute: a compiled model on data. AI Core groups run their programs, the others NumPy; every array lies as the graph says.

A program's tensor may be declared larger than what is stored (a bias padded to whole fractals, columns of padding): it is
filled with zeros behind the stored elements.
"""
from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from aoec.artifact.compiled import Artifact, Compiled, Port
from aoec.base.errors import CheckError
from aoec.ir.graph import OPAQUE, Graph, Group, OpNode, Tensor
from aoec.ir.index import evaluate
from aoec.ir.program import Program
from aoec.ir.program import Tensor as ProgramTensor
from aoec.ops import typed
from aoec.ops.layout import stored_shape, to_logical, to_physical
from aoec.ops.run import NUMPY, step
from aoec.simulate.values import execute

Arrays = Mapping[str, np.ndarray]
Values = Mapping[str, Any]  # arrays, and what else only the host holds: sequences, texts


def run_model(artifact: Artifact, feeds: Values) -> dict[str, Any]:
    """Output name -> value, by the model's own names and dtypes; CheckError where the feeds are not the model's inputs."""
    tensors = {t.name: t for t in artifact.graph.tensors}
    values = _stored_inputs(artifact, feeds, tensors)
    members = _members(artifact.graph)
    left = _readers(artifact, members)
    for compiled in artifact.groups:
        nodes = members[compiled.group]
        values.update(_run_group(artifact, compiled, nodes, tensors, values))
        _drop(values, left, _touched(artifact, compiled, nodes))
    made = {p.tensor: values[p.tensor] if p.tensor in values else artifact.weights[p.tensor] for p in artifact.outputs}
    return {p.name: _returned(to_logical(made[p.tensor], tensors[p.tensor]), p) for p in artifact.outputs}


def _run_group(artifact: Artifact, compiled: Compiled, nodes: Sequence[OpNode], tensors: Mapping[str, Tensor], values: Values) -> Values:
    """The tensors that a group makes, as stored."""
    known = {**artifact.weights, **values}
    if compiled.program is not None:
        return run_program(compiled.program, compiled.bindings, tensors, known)
    return run_nodes(nodes, tensors, known)


# ---------------------------------------------------------------- one group

def run_program(program: Program, bindings: Iterable[tuple[str, str]], tensors: Mapping[str, Tensor],
                stored: Arrays) -> dict[str, np.ndarray]:
    """Graph tensor -> stored array, of everything that the program writes; `bindings`: (tensor of the program, of the graph)."""
    own, bound = {t.name: t for t in program.tensors}, dict(bindings)
    inputs = {p: placed(own[p], stored[g]) for p, g in bound.items() if own[p].role == "input"}
    results = execute(program, inputs)
    return {g: taken(results[p], tensors[g], program) for p, g in bound.items() if own[p].role == "output"}


def placed(t: ProgramTensor, array: np.ndarray) -> np.ndarray:
    """The elements of a stored array with zeros behind them up to what the program declares; CheckError where they are more."""
    flat = np.ascontiguousarray(array).reshape(-1)
    size = prod(int(evaluate(d, {})) for d in t.shape)
    if flat.size > size:
        raise CheckError(f"tensor {t.name} of the program has {size:,} elements, and {flat.size:,} are stored; compile the model again")
    if flat.size == size:
        return flat
    out = np.zeros(size, flat.dtype)
    out[:flat.size] = flat
    return out


def taken(array: np.ndarray, t: Tensor, program: Program) -> np.ndarray:
    """What a program wrote, in the stored shape of the graph tensor."""
    shape = stored_shape(t)
    if array.size < prod(shape) or array.dtype != NUMPY[t.dtype]:
        raise CheckError(f"program {program.name} writes {array.size:,} elements of {array.dtype} where {t.name} has {prod(shape):,} "
                         f"of {t.dtype}; compile the model again")
    return array.reshape(-1)[:prod(shape)].reshape(shape)


def run_nodes(nodes: Sequence[OpNode], tensors: Mapping[str, Tensor], stored: Values) -> dict[str, Any]:
    """Graph tensor -> stored array, of nodes that run as NumPy on the host: each result is rounded to its tensor's dtype."""
    made: dict[str, Any] = {}
    for node in nodes:
        logical = {i: to_logical(made[i] if i in made else stored[i], tensors[i]) for i in node.inputs if i}
        made.update({name: to_physical(x, tensors[name]) for name, x in step(node, tensors, logical).items()})
    return made


def group_graph(graph: Graph, group: Group, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Graph:
    """A group alone, as a graph whose inputs are all that it reads, constants too."""
    nodes = tuple(n for n in graph.nodes if n.name in set(group.nodes))
    tensors = {t.name: t for t in graph.tensors}
    made = [tensors[o] for n in nodes for o in n.outputs]
    plain = tuple(replace(t, data="") for t in [*inputs, *made])
    return Graph(group.name, tuple(t.name for t in inputs), tuple(t.name for t in outputs), plain, nodes)


# ---------------------------------------------------------------- arrays that are alive

def _touched(artifact: Artifact, compiled: Compiled, nodes: Sequence[OpNode]) -> list[str]:
    """Graph tensors that a group reads."""
    if compiled.program is not None:
        roles = {t.name: t.role for t in compiled.program.tensors}
        return [g for p, g in compiled.bindings if roles[p] == "input"]
    return list(dict.fromkeys(i for n in nodes for i in n.inputs if i))


def _members(graph: Graph) -> dict[str, list[OpNode]]:
    """Group -> its nodes, in order."""
    nodes = {n.name: n for n in graph.nodes}
    return {g.name: [nodes[name] for name in g.nodes] for g in graph.groups}


def _readers(artifact: Artifact, members: Mapping[str, list[OpNode]]) -> Counter[str]:
    """How many groups (and outputs) are still to read each tensor."""
    out = Counter(p.tensor for p in artifact.outputs)
    for c in artifact.groups:
        out.update(_touched(artifact, c, members[c.group]))
    return out


def _drop(values: dict[str, Any], left: Counter[str], read: Iterable[str]) -> None:
    """Nothing; arrays that no later group reads are given back."""
    left.subtract(read)
    for name in [n for n in values if left[n] <= 0]:
        del values[name]


# ---------------------------------------------------------------- the model's inputs

def _returned(value: Any, port: Port) -> Any:
    """An output as the model declares it."""
    return value.reshape(port.shape).astype(NUMPY[port.dtype], copy=False) if port.dtype in NUMPY else value


def _stored_inputs(artifact: Artifact, feeds: Values, tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The feeds as the graph stores them, after the checks of names, shapes and dtypes."""
    check_feeds(artifact.inputs, feeds)
    out = {}
    for p in artifact.inputs:
        t = tensors[p.tensor]
        if t.dtype == OPAQUE:
            out[p.tensor] = typed.given(p.name, feeds[p.name], p.dtype)
            continue
        with np.errstate(over="ignore"):
            logical = np.asarray(feeds[p.name]).astype(NUMPY[t.dtype]).reshape(t.shape)
        out[p.tensor] = to_physical(logical, t)
    return out


def check_feeds(ports: Sequence[Port], feeds: Values) -> None:
    """Nothing, or CheckError in a sentence: a missing or unknown input, another shape, another dtype."""
    wanted = {p.name: p for p in ports}
    listed = ", ".join(f"{p.name} ({said(p)})" for p in ports) or "none"
    for name in sorted(set(wanted) - set(feeds)):
        raise CheckError(f"input {name} is missing; the model's inputs are {listed}")
    for name in sorted(set(feeds) - set(wanted)):
        raise CheckError(f"the model has no input {name}; its inputs are {listed}")
    for name, p in wanted.items():
        if p.dtype in NUMPY:
            _check_feed(p, np.asarray(feeds[name]))


def _check_feed(p: Port, given: np.ndarray) -> None:
    if given.shape != tuple(p.shape):
        raise CheckError(f"input {p.name} has shape {list(p.shape)}, and an array of shape {list(given.shape)} is given")
    if not typed.fits(given.dtype, np.dtype(NUMPY[p.dtype])):
        raise CheckError(f"input {p.name} is {np.dtype(NUMPY[p.dtype])}, and an array of {given.dtype} is given; cast it first")


def said(p: Port) -> str:
    """The type of an input or output in a sentence."""
    return f"{p.dtype}{list(p.shape)}" if p.dtype in NUMPY else p.dtype
