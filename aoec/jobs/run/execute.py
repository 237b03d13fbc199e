"""Execute: run a compiled model on data. AI Core groups run their programs, the others NumPy. Every array is stored as the graph says.

A program's tensor may be declared larger than what is stored (a bias padded to whole fractals, columns of padding). It is then filled with
zeros behind the stored elements.
"""
from __future__ import annotations

from collections import ChainMap, Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod
from threading import Lock
from typing import Any

import numpy as np

from aoec.artifact.compiled import Artifact, Compiled, Port
from aoec.base.errors import CheckError
from aoec.ir.graph.bodies import MAIN, Place, groups_by_place, place
from aoec.ir.graph.graph import OPAQUE, Graph, Group, OpNode, Tensor
from aoec.ir.index import evaluate
from aoec.ir.program import Program
from aoec.ir.program import Tensor as ProgramTensor
from aoec.ops import typed
from aoec.ops.run import NUMPY, Bodies, step
from aoec.ops.words.layout import stored_shape, to_logical, to_physical
from aoec.simulate.values.account import Account
from aoec.simulate.values.values import Executable

Arrays = Mapping[str, np.ndarray]
Same = tuple[int, tuple[tuple[str, str], ...]]  # a program, and its inputs that are constants with their names in the graph
Values = Mapping[str, Any]  # arrays, and what else only the host holds: sequences, texts


def run_model(artifact: Artifact, feeds: Values) -> dict[str, Any]:
    """Return output name -> value, by the model's own names and dtypes. Raise CheckError where the feeds are not the model's inputs."""
    return Runner(artifact).run(feeds)


class Runner:
    """A compiled model that runs repeatedly. Each program is encoded when it first runs. The model's constants are then in the program's
    own memory, and stay there."""

    def __init__(self, artifact: Artifact, threads: int = 0) -> None:
        """Prepare to run a compiled model. `threads`: those of each program; 0: one for each processor."""
        self.artifact, self.threads = artifact, threads
        self.account: Account | None = None  # of what programs take, where somebody asks
        self.tensors = {t.name: t for t in artifact.graph.tensors}
        self.members = _members(artifact.graph)
        compiled = {c.group: c for c in artifact.groups}
        self.groups = {at: [compiled[g.name] for g in groups] for at, groups in groups_by_place(artifact.graph).items()}
        self.outputs = {MAIN: [p.tensor for p in artifact.outputs], **{place(b): list(b.outputs) for b in artifact.graph.bodies}}
        self.readers = {at: _readers(groups, self.outputs[at], self.members) for at, groups in self.groups.items()}
        self.bodies = Bodies(artifact.graph, self._run_body)
        self.bound: dict[str, BoundProgram] = {}
        self.executables: dict[Same, Executable] = {}
        self.encoded: dict[int, Executable] = {}  # a program -> the first of them, whose code those with other constants share
        self.users = Counter(self._same(c) for c in artifact.groups if c.program is not None)
        self.lock = Lock()  # what programs have made lies in their memory until they run again

    def run(self, feeds: Values) -> dict[str, Any]:
        """Return output name -> value, by the model's own names and dtypes. Raise CheckError where the feeds are not the model's inputs."""
        with self.lock:
            return self._run(feeds)

    def _run(self, feeds: Values) -> dict[str, Any]:
        known = self._run_place(MAIN, _stored_inputs(self.artifact, feeds, self.tensors))
        return {p.name: _as_declared(to_logical(known[p.tensor], self.tensors[p.tensor]), p) for p in self.artifact.outputs}

    def _run_body(self, at: Place, given: Values) -> dict[str, Any]:
        """Return the outputs of a body, logical and in memory of their own: its programs run again and write where they lie."""
        known = self._run_place(at, {name: to_physical(x, self.tensors[name]) for name, x in given.items()})
        made = {name: to_logical(known[name], self.tensors[name]) for name in self.outputs[at]}
        return {name: x.copy() if isinstance(x, np.ndarray) else x for name, x in made.items()}

    def _run_place(self, at: Place, values: dict[str, Any]) -> Values:
        """Return its outputs, as stored, among constants and perhaps others."""
        known: Values = ChainMap(values, self.artifact.weights)  # type: ignore[arg-type]  # of which only the first is written to
        left = self.readers[at].copy()
        for compiled in self.groups[at]:
            made = self._run_group(compiled, known)
            values.update(made)
            _drop(values, left, _tensors_read(compiled, self.members[compiled.group]), made)
        return known

    def _run_group(self, compiled: Compiled, known: Values) -> Values:
        """Return the tensors that a group makes, as stored."""
        if compiled.program is None:
            return run_nodes(self.members[compiled.group], self.tensors, known, self.bodies)
        if compiled.group not in self.bound:
            same = self._same(compiled)
            if same not in self.executables:
                self.executables[same] = executable(compiled.program, same[1], self.artifact.weights, self.encoded.get(same[0]))
                self.encoded.setdefault(same[0], self.executables[same])
            self.bound[compiled.group] = BoundProgram(self.executables[same], compiled.bindings, self.tensors, self.users[same] == 1)
        return self.bound[compiled.group].run(known, self.threads, self.account)

    def _same(self, compiled: Compiled) -> Same:
        """Return what groups have in common that run one executable, as the steps of a recurrent layer do."""
        return id(compiled.program), tuple(sorted((p, g) for p, g in compiled.bindings if g in self.artifact.weights))


# ---------------------------------------------------------------- one group

def run_program(program: Program, bindings: Iterable[tuple[str, str]], tensors: Mapping[str, Tensor],
                stored: Arrays) -> dict[str, np.ndarray]:
    """Return graph tensor -> stored array, for everything that the program writes. `bindings`: (tensor of the program, of the graph)."""
    return BoundProgram(Executable(program), bindings, tensors).run(stored)


def executable(program: Program, bindings: Iterable[tuple[str, str]], constants: Arrays, like: Executable | None = None) -> Executable:
    """Return a program with those of its inputs in place that are constants; `bindings`: (tensor of the program, constant). `like`: one
    made of it before."""
    own = {t.name: t for t in program.tensors}
    return Executable(program, {p: pad_array(own[p], constants[g]) for p, g in bindings if own[p].role == "input"}, like)


class BoundProgram:
    """An executable on tensors of a graph. `bindings`: (tensor of the program, of the graph). Where it is `alone` in running the executable
    and no two runs overlap, results stay where the program made them, until it runs again."""

    def __init__(self, made: Executable, bindings: Iterable[tuple[str, str]], tensors: Mapping[str, Tensor], alone: bool = False) -> None:
        self.executable, self.tensors, self.alone = made, tensors, alone
        self.own, bound = {t.name: t for t in made.program.tensors}, dict(bindings)
        self.inputs = [(p, g) for p, g in bound.items() if self.own[p].role == "input" and p not in made.constants]
        self.outputs = [(p, g) for p, g in bound.items() if self.own[p].role == "output"]

    def run(self, stored: Values, threads: int = 0, account: Account | None = None) -> dict[str, np.ndarray]:
        """Return graph tensor -> stored array, for everything that the program writes."""
        work = self.executable.run_in_place if self.alone else self.executable.run
        results = work({p: pad_array(self.own[p], stored[g]) for p, g in self.inputs}, threads, account)
        return {g: take_output(results[p], self.tensors[g], self.executable.program) for p, g in self.outputs}


def pad_array(t: ProgramTensor, array: np.ndarray) -> np.ndarray:
    """Return the elements of a stored array with zeros behind them up to what the program declares. Raise CheckError where they are
    more."""
    flat = np.ascontiguousarray(array).reshape(-1)
    size = prod(int(evaluate(d, {})) for d in t.shape)
    if flat.size > size:
        raise CheckError(f"tensor {t.name} of the program has {size:,} elements, and {flat.size:,} are stored; compile the model again")
    if flat.size == size:
        return flat
    out = np.zeros(size, flat.dtype)
    out[:flat.size] = flat
    return out


def take_output(array: np.ndarray, t: Tensor, program: Program) -> np.ndarray:
    """Return what a program wrote, in the stored shape of the graph tensor."""
    shape = stored_shape(t)
    if array.size < prod(shape) or array.dtype != NUMPY[t.dtype]:
        raise CheckError(f"program {program.name} writes {array.size:,} elements of {array.dtype} where {t.name} has {prod(shape):,} "
                         f"of {t.dtype}; compile the model again")
    return array.reshape(-1)[:prod(shape)].reshape(shape)


def run_nodes(nodes: Sequence[OpNode], tensors: Mapping[str, Tensor], stored: Values, bodies: Bodies | None = None) -> dict[str, Any]:
    """Return graph tensor -> stored array, for nodes that run as NumPy on the host. Each result is rounded to its tensor's dtype. `bodies`:
    those of the graph's control flow."""
    made: dict[str, Any] = {}
    for node in nodes:
        logical = {i: to_logical(made[i] if i in made else stored[i], tensors[i]) for i in node.inputs if i}
        made.update({name: to_physical(x, tensors[name]) for name, x in step(node, tensors, logical, bodies).items()})
    return made


def group_graph(graph: Graph, group: Group, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Graph:
    """Return a group alone, as a graph whose inputs are all that it reads, constants too."""
    nodes = tuple(n for n in graph.nodes if n.name in set(group.nodes))
    tensors = {t.name: t for t in graph.tensors}
    made = [tensors[o] for n in nodes for o in n.outputs]
    plain = tuple(replace(t, data="") for t in [*inputs, *made])
    return Graph(group.name, tuple(t.name for t in inputs), tuple(t.name for t in outputs), plain, nodes)


# ---------------------------------------------------------------- arrays that are alive

def _tensors_read(compiled: Compiled, nodes: Sequence[OpNode]) -> list[str]:
    """Return the graph tensors that a group reads."""
    if compiled.program is not None:
        roles = {t.name: t.role for t in compiled.program.tensors}
        return [g for p, g in compiled.bindings if roles[p] == "input"]
    return list(dict.fromkeys(i for n in nodes for i in n.inputs if i))


def _members(graph: Graph) -> dict[str, list[OpNode]]:
    """Return group -> its nodes, in order."""
    nodes = {n.name: n for n in graph.nodes}
    return {g.name: [nodes[name] for name in g.nodes] for g in graph.groups}


def _readers(groups: Iterable[Compiled], outputs: Iterable[str], members: Mapping[str, list[OpNode]]) -> Counter[str]:
    """Return how many groups (and outputs) are still to read each tensor."""
    out = Counter(outputs)
    for c in groups:
        out.update(_tensors_read(c, members[c.group]))
    return out


def _drop(values: dict[str, Any], left: Counter[str], read: Iterable[str], made: Iterable[str]) -> None:
    """Drop the arrays that a group read or made and that no later group reads."""
    left.subtract(read)
    for name in {*read, *made}:
        if left[name] <= 0:
            values.pop(name, None)


# ---------------------------------------------------------------- the model's inputs

def _as_declared(value: Any, port: Port) -> Any:
    """Return an output as the model declares it, in memory of its own."""
    if small := typed.small(port.dtype):
        return typed.from_bytes(value, small) if value.dtype != typed.NUMPY[small] else value
    return np.array(value.reshape(port.shape), NUMPY[port.dtype]) if port.dtype in NUMPY else value


def _stored_inputs(artifact: Artifact, feeds: Values, tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """Return the feeds as the graph stores them, after the checks of names, shapes and dtypes."""
    check_feeds(artifact.inputs, feeds)
    out = {}
    for p in artifact.inputs:
        t = tensors[p.tensor]
        if p.dtype not in NUMPY:
            held = typed.read_value(p.name, feeds[p.name], p.dtype)
            out[p.tensor] = held if t.dtype == OPAQUE else to_physical(typed.as_bytes(held, typed.small(p.dtype)), t)
            continue
        with np.errstate(over="ignore"):
            logical = np.asarray(feeds[p.name]).astype(NUMPY[t.dtype]).reshape(t.shape)
        out[p.tensor] = to_physical(logical, t)
    return out


def check_feeds(ports: Sequence[Port], feeds: Values) -> None:
    """Raise CheckError where the inputs are wrong, in a sentence: a missing or unknown input, another shape, another dtype."""
    check_names(ports, feeds)
    for p in ports:
        if p.dtype in NUMPY:
            _check_feed(p, np.asarray(feeds[p.name]))


def check_names(ports: Sequence[Port], feeds: Values) -> None:
    """Raise CheckError where an input is missing or unknown."""
    wanted = {p.name: p for p in ports}
    listed = ", ".join(f"{p.name} ({describe_port(p)})" for p in ports) or "none"
    for name in sorted(set(wanted) - set(feeds)):
        raise CheckError(f"input {name} is missing; the model's inputs are {listed}")
    for name in sorted(set(feeds) - set(wanted)):
        raise CheckError(f"the model has no input {name}; its inputs are {listed}")


def _check_feed(p: Port, given: np.ndarray) -> None:
    if given.shape != tuple(p.shape):
        raise CheckError(f"input {p.name} has shape {list(p.shape)}, and an array of shape {list(given.shape)} is given")
    if not typed.fits(given.dtype, np.dtype(NUMPY[p.dtype])):
        raise CheckError(f"input {p.name} is {np.dtype(NUMPY[p.dtype])}, and an array of {given.dtype} is given; cast it first")


def describe_port(p: Port) -> str:
    """Return the type of an input or output in a sentence."""
    return f"{p.dtype}{list(p.shape)}" if p.dtype in NUMPY else p.dtype
