"""The nouns of an artifact, and the check that its parts agree."""
from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np

from aoec.base.errors import CheckError
from aoec.ir.graph.graph import OPAQUE, Graph
from aoec.ir.index import DTYPES
from aoec.ir.program import Program
from aoec.ir.schedule import Trace
from aoec.ops.run import NUMPY
from aoec.ops.words.layout import stored_shape


@dataclass(frozen=True)
class Port:
    """An input or output by the model's own name; dtype and shape are the model's, `tensor` is the graph's name for it.

    `dims`, of a gear: the names that the model has for the dimensions, "" for none."""

    name: str
    tensor: str
    dtype: str
    shape: tuple[int, ...]
    dims: tuple[str, ...] = ()


@dataclass(frozen=True)
class Compiled:
    """A group of the graph, by name, ready to run; a host or view group has neither trace nor program.

    `bindings`: (tensor of the program, tensor of the graph). Times are modelled, in the machine's ticks, in the group's place.
    """

    group: str
    label: str = ""
    func_key: str = ""
    trace: Trace | None = None
    program: Program | None = None
    bindings: tuple[tuple[str, str], ...] = ()
    default_ticks: int = 0
    ticks: int = 0
    bound_ticks: int = 0


@dataclass(frozen=True)
class Artifact:
    """A model compiled for one shape of each input. `figures` are whole-model numbers by name with their unit in it, all modelled;
    `machine` is the text of the machine that it was compiled for, so that one of the user's own is never lost; `gear` is what tells it
    from the others of a model that is compiled for several shapes, such as "8,448,448"."""

    name: str
    target: str
    machine_hash: str
    model_version: str
    precision: str
    graph: Graph
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    groups: tuple[Compiled, ...]
    weights: Mapping[str, np.ndarray] = field(default_factory=dict)
    figures: tuple[tuple[str, int], ...] = ()
    machine: str = ""
    gear: str = ""

    @property
    def on_host(self) -> tuple[str, ...]:
        """Return the operators of the nodes that run on the host, in order, one for each node."""
        host = {name for g in self.graph.groups if g.kind == "host" for name in g.nodes}
        return tuple(n.op for n in self.graph.nodes if n.name in host)


def check(artifact: Artifact, source: str = "", constants: bool = True) -> None:
    """Raise CheckError where names in the parts do not meet or, if asked for, a constant is not what its hash says."""
    faults = (*_port_faults(artifact), *_group_faults(artifact), *_name_faults(artifact))
    for fault in faults or (_weight_faults(artifact) if constants else ()):
        raise CheckError(f"this artifact contradicts itself: {fault}; compile the model again", source=source)


def check_gears(artifacts: Sequence[Artifact], source: str = "") -> None:
    """Raise CheckError where several are not one model for different shapes of its inputs."""
    for fault in _gear_faults(artifacts):
        raise CheckError(f"the gears of this artifact contradict each other: {fault}; compile the model again", source=source)


def _gear_faults(artifacts: Sequence[Artifact]) -> list[str]:
    first, *others = artifacts
    other = [a.gear for a in others if _common(a) != _common(first)]
    faults = [f"{gear} is of another model, machine or precision than {first.gear}" for gear in other]
    if others and not all(a.gear for a in artifacts):
        faults.append("one has no name")
    for what, each in (("name", [a.gear for a in artifacts]), ("shape of inputs", [[p.shape for p in a.inputs] for a in artifacts])):
        faults += [f"{artifacts[i].gear} has the {what} of another" for i, x in enumerate(each) if x in each[:i]]
    return faults


def _common(a: Artifact) -> tuple[object, ...]:
    """Return the part that all gears of a model have in common."""
    ends = [[(p.name, p.dtype if p.dtype in DTYPES else "", p.dims) for p in ports] for ports in (a.inputs, a.outputs)]
    return a.name, a.target, a.machine_hash, a.model_version, a.precision, a.machine, ends


def _port_faults(a: Artifact) -> list[str]:
    faults, held = [], {t.name: t for t in a.graph.tensors}
    for what, ports, tensors in (("input", a.inputs, a.graph.inputs), ("output", a.outputs, a.graph.outputs)):
        if sorted(p.tensor for p in ports) != sorted(tensors):
            faults.append(f"its {what}s are {_some(p.tensor for p in ports)} and the graph's are {_some(tensors)}")
        if len({p.name for p in ports}) < len(ports):
            faults.append(f"two {what}s have one name")
        faults += [f"{what} {p.name} has the shape {list(p.shape)}, and tensor {p.tensor} of the graph {list(held[p.tensor].shape)}"
                   for p in ports if p.tensor in held and held[p.tensor].dtype != OPAQUE and p.dtype in NUMPY
                   and prod(p.shape) != prod(held[p.tensor].shape)]
    return faults


def _group_faults(a: Artifact) -> list[str]:
    names, kinds = [g.name for g in a.graph.groups], {g.name: g.kind for g in a.graph.groups}
    if [g.group for g in a.groups] != names:
        return [f"it has the groups {_some(g.group for g in a.groups)} and the graph's are {_some(names)}"]
    tensors = {t.name for t in a.graph.tensors}
    return [f"group {g.group} {fault}" for g in a.groups for fault in _compiled_faults(g, kinds[g.group], a.target, tensors)]


def _compiled_faults(g: Compiled, kind: str, target: str, tensors: set[str]) -> list[str]:
    if g.program is None:
        return [f"is of kind {kind} and has no program"] if kind in ("cube", "vector") else []
    faults = [f"is bound to {graph}, which the graph does not have" for _, graph in g.bindings if graph not in tensors]
    wanted = {t.name for t in g.program.tensors if t.role != "temp"}
    if {p for p, _ in g.bindings} != wanted or len(g.bindings) != len(wanted):
        faults.append(f"binds {_some(p for p, _ in g.bindings)} and its program has {_some(wanted)}")
    if g.program.target != target:
        faults.append(f"has a program for {g.program.target}, and the artifact is for {target}")
    return faults


def _name_faults(a: Artifact) -> list[str]:
    wrong = {t.name for t in a.graph.tensors if t.data} ^ set(a.weights)
    return [f"its constants {_some(wrong)} are not the graph's"] if wrong else []


def _weight_faults(a: Artifact) -> list[str]:
    constants = [(t, a.weights[t.name]) for t in a.graph.tensors if t.data]
    sizes = [f"constant {t.name} is {x.dtype}{list(x.shape)}, and the graph stores it as {t.dtype}{list(stored_shape(t))}"
             for t, x in constants if t.dtype not in NUMPY or x.dtype != NUMPY[t.dtype] or x.size != prod(stored_shape(t))]
    return sizes or [f"constant {t.name} is not the {t.data[:12]}... of the graph" for t, x in constants if digest(x) != t.data]


def digest(array: np.ndarray) -> str:
    """Return the sha256, in hex, of the array's little-endian bytes in row-major order: a constant's name in graph and artifact."""
    return hashlib.sha256(elements(array)).hexdigest()


def elements(array: np.ndarray) -> memoryview:
    """Return the array's little-endian bytes in row-major order, copied only where they lie otherwise."""
    return little_endian(array).reshape(-1).view(np.uint8).data


def little_endian(array: np.ndarray) -> np.ndarray:
    """Return the array in row-major order, its elements in little-endian bytes."""
    flat = np.ascontiguousarray(array).reshape(array.shape)  # ascontiguousarray makes a scalar a vector
    return flat.astype(flat.dtype.newbyteorder("<"), copy=False)


def _some(names: Iterable[str]) -> str:
    """Return a few names, in words."""
    listed = sorted(names)
    return ", ".join(listed[:4]) + (f" and {len(listed) - 4} more" if len(listed) > 4 else "") if listed else "none"
