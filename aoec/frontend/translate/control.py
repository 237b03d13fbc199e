"""Translates control flow whose course is known at compile time into plain nodes: the branch of an If, the rounds of a Loop or Scan.

Conditions and counts that are read must be constants, in every round. Names of a body become names of the model, new ones in each round. A
node whose course is not known, or that would take too many nodes, stays one node of the host.
"""
from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
import onnx
from onnx import helper

from aoec.base.errors import AoecError, UnsupportedError
from aoec.frontend.read.values import captured_names, shape_of, subgraphs
from aoec.frontend.read.weights import array_of
from aoec.frontend.translate.constants import Constants
from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import OPAQUE
from aoec.ops.host import host

MOST_NODES = 4096  # of bodies, in a model: each is translated, and compiled where no equal one is
MOST_BYTES = 256 << 20  # of constants in bodies: each round has its own


class Walk(Protocol):
    """A translation on its way: what a node of ONNX is added to."""

    draft: Draft
    constants: Constants
    types: dict[str, onnx.TypeProto]
    wanted: set[str]
    refused: Counter[str]
    notices: list[str]
    opset: int

    def translate(self, proto: onnx.NodeProto) -> None: ...


class Control:
    """Spells control flow out in a translation."""

    def __init__(self, walk: Walk) -> None:
        self.walk, self.left, self.left_bytes = walk, MOST_NODES, MOST_BYTES

    def spelled_out(self, proto: onnx.NodeProto) -> bool:
        """Return True after nodes that are not all the host's have replaced this one. Return False, with the attempt undone, where this
        fails."""
        ways: Mapping[str, Callable[[onnx.NodeProto], bool]] = {"If": self._if, "Loop": self._loop, "Scan": self._scan}
        if proto.op_type not in ways or proto.domain not in host.OWN_DOMAIN:
            return False
        with _unless_whole(self.walk) as attempt:
            attempt.done = ways[proto.op_type](proto)
        return attempt.done

    # ------------------------------------------------------------ the three

    def _if(self, proto: onnx.NodeProto) -> bool:
        taken = self._constant_element(proto.input[0])
        if taken is None:
            return False
        branch = _attribute(proto, "then_branch" if taken else "else_branch")
        self._finish(proto, self._body(branch, {}))
        return True

    def _loop(self, proto: onnx.NodeProto) -> bool:
        body, (count, condition, *carried) = _attribute(proto, "body"), [*proto.input, "", ""][:max(2, len(proto.input))]
        limit, going = self._constant_element(count), self._constant_element(condition) if condition else np.True_
        if count and limit is None or going is None or not count and not condition or self._any_on_host(carried):
            return False
        rows: list[list[str]] = [[] for _ in body.output[1 + len(carried):]]
        done = 0
        while going and (limit is None or done < int(limit)):
            given = [self._constant(np.array(done, np.int64)), self._constant(np.array(True)), *carried]
            go, *results = self._body(body, dict(zip([i.name for i in body.input], given)))
            going = self._constant_element(go)
            if going is None:
                return False
            carried = results[:len(carried)]
            for row, value in zip(rows, results[len(carried):]):
                row.append(value)
            done += 1
        if rows and not done:  # what shape a row would have, nothing says
            return False
        self._finish(proto, [*carried, *(self._stack(row, 0) for row in rows)])
        return True

    def _scan(self, proto: onnx.NodeProto) -> bool:
        body, many = _attribute(proto, "body"), int(_attribute(proto, "num_scan_inputs", 0))
        old = self.walk.opset < 9
        inputs = list(proto.input)[old:]
        if old and proto.input[0] or self._any_on_host(inputs):
            return False
        states, xs = inputs[:len(inputs) - many], inputs[len(inputs) - many:]
        names = ("", "directions") if old else ("scan_input_axes", "scan_input_directions")
        axes, backward = (list(_attribute(proto, name, [0] * many)) for name in names)
        if not old:
            self._finish(proto, self._rounds(body, states, xs, axes, backward, proto))
            return True
        results = [self._rounds(body, [self._piece(s, 0, b) for s in states], [self._piece(x, 0, b) for x in xs], axes, backward, proto)
                   for b in range(self._shape(xs[0])[0])]
        self._finish(proto, [self._stack(list(each), 0) for each in zip(*results)])
        return bool(results)

    def _rounds(self, body: onnx.GraphProto, states: list[str], xs: list[str], axes: Sequence[int], backward: Sequence[int],
                proto: onnx.NodeProto) -> list[str]:
        """Return the last states and what the rounds of a scan give, a round for each place along the axes of `xs`."""
        many = len(body.output) - len(states)
        rows: list[list[str]] = [[] for _ in range(many)]
        length = self._shape(xs[0])[axes[0]]
        self.left -= 1  # a scan without any round has a cost too
        if length * _size(body) > self.left:  # known before one of them is made
            raise UnsupportedError(f"control flow would be more than {MOST_NODES:,} nodes when spelled out")
        for at in range(length):
            pieces = [self._piece(x, axis, length - 1 - at if back else at) for x, axis, back in zip(xs, axes, backward)]
            results = self._body(body, dict(zip([i.name for i in body.input], [*states, *pieces])))
            states = results[:len(states)]
            for row, value in zip(rows, results[len(states):]):
                row.append(value)
        along, turned = (list(_attribute(proto, f"scan_output_{what}", [0] * many)) for what in ("axes", "directions"))
        return [*states, *(self._stack(row[::-1] if back else row, axis) for row, axis, back in zip(rows, along, turned))]

    # ------------------------------------------------------------ bodies

    def _body(self, graph: onnx.GraphProto, names: dict[str, str]) -> list[str]:
        """Return the body's results by their names in the model, after its nodes were translated; `names`: those of its inputs."""
        for w in graph.initializer:
            array = array_of(w)
            names[w.name] = self._constant(array)
            self.left_bytes -= array.nbytes
            if self.left_bytes < 0:
                raise UnsupportedError(f"control flow would hold more than {MOST_BYTES:,} bytes of constants when spelled out")
        nodes = []
        for n in graph.node:
            copy = rename_inputs(n, names)
            names.update((o, self.walk.draft.fresh(o)) for o in n.output if o)
            copy.output[:] = [names.get(o, "") for o in n.output]
            self.walk.wanted.update((*copy.input, *captured_names(copy)))
            nodes.append(copy)
        results = [names.get(o.name, o.name) for o in graph.output]
        self.walk.wanted.update(results)
        self.left -= _size(graph)
        if self.left < 0:
            raise UnsupportedError(f"control flow would be more than {MOST_NODES:,} nodes when spelled out")
        for copy in nodes:
            self.walk.translate(copy)
        return results

    def _finish(self, proto: onnx.NodeProto, made: Sequence[str]) -> None:
        """Make the node's results from these values, with the types of the values: types that were inferred for a loop may not hold."""
        for result, value in zip(proto.output, made, strict=True):
            if result:
                self._typed_as(result, value)
                self.walk.translate(helper.make_node("Identity", [value], [result]))

    def _typed_as(self, result: str, value: str) -> None:
        known = self.walk.types.get(value)
        if known is not None and shape_of(known) is not None:
            self.walk.types[result] = known

    # ------------------------------------------------------------ values

    def _constant_element(self, name: str) -> np.generic | None:
        """Return the one element of a constant. Return None for anything else."""
        if not name or name not in self.walk.constants or self.walk.constants.size(name) != 1:
            return None
        return self.walk.constants.array(name).reshape(-1)[0]  # type: ignore[no-any-return]

    def _any_on_host(self, names: Sequence[str]) -> bool:
        """Return whether one of the values is of a kind that only the host holds."""
        tensors = self.walk.draft.tensors
        return any(not i or i in self.walk.constants.held or i in tensors and tensors[i].dtype == OPAQUE for i in names)

    def _shape(self, name: str) -> tuple[int, ...]:
        return self.walk.draft.tensors[name].shape

    def _constant(self, array: np.ndarray) -> str:
        name = self.walk.draft.fresh("control_constant")
        self.walk.constants.put(name, array)
        return name

    def _add_node(self, op: str, inputs: Sequence[str], **attributes: Any) -> str:
        """Add a node of the model's own operator set, and return its result."""
        out = self.walk.draft.fresh(f"{inputs[0]}_{op.lower()}")
        self.walk.wanted.update((*inputs, out))
        self.walk.translate(helper.make_node(op, list(inputs), [out], **attributes))
        return out

    def _by_axis(self, op: str, x: str, axis: int) -> str:
        """Squeeze or Unsqueeze of one axis, which is an attribute before version 13."""
        if self.walk.opset < 13:
            return self._add_node(op, [x], axes=[axis])
        return self._add_node(op, [x, self._constant(np.array([axis], np.int64))])

    def _piece(self, x: str, axis: int, at: int) -> str:
        """Return what lies at one place of an axis, without the axis; the places of a slice are attributes before version 10."""
        axis %= len(self._shape(x))
        if self.walk.opset < 10:
            one = self._add_node("Slice", [x], starts=[at], ends=[at + 1], axes=[axis])
        else:
            one = self._add_node("Slice", [x, *(self._constant(np.array([v], np.int64)) for v in (at, at + 1, axis))])
        return self._by_axis("Squeeze", one, axis)

    def _stack(self, rows: Sequence[str], axis: int) -> str:
        """Stack the values along a new axis."""
        axis %= len(self._shape(rows[0])) + 1
        return self._add_node("Concat", [self._by_axis("Unsqueeze", row, axis) for row in rows], axis=axis)


def rename_inputs(node: onnx.NodeProto, names: Mapping[str, str]) -> onnx.NodeProto:
    """Return the node with other names for what it reads, in its subgraphs too."""
    out = onnx.NodeProto()
    out.CopyFrom(node)
    out.input[:] = [names.get(i, i) for i in node.input]
    for graph in subgraphs(out):
        own = {i.name for i in (*graph.input, *graph.initializer)} | {o for n in graph.node for o in n.output}
        around = {old: new for old, new in names.items() if old not in own}
        for n in graph.node:
            n.CopyFrom(rename_inputs(n, around))
        for o in graph.output:
            o.name = around.get(o.name, o.name)
    return out


def _attribute(proto: onnx.NodeProto, name: str, default: Any = None) -> Any:
    return next((helper.get_attribute_value(a) for a in proto.attribute if a.name == name), default)


def _size(graph: onnx.GraphProto) -> int:
    """Return how many nodes a body has, with those of the bodies in it: each of its rounds has its own. An empty body counts as one."""
    return max(1, len(graph.node)) + sum(_size(g) for n in graph.node for g in subgraphs(n))


# ---------------------------------------------------------------- attempts

class _Attempt:
    done = False


@contextmanager
def _unless_whole(walk: Walk) -> Iterator[_Attempt]:
    """Yield an attempt, and undo it where it is not done, where it raises an error, or where it gave work to the host alone."""
    attempt, draft = _Attempt(), walk.draft
    known: list[Any] = [draft.tensors, draft.weights, walk.constants.held, walk.types, walk.refused]
    before, nodes, wanted, said = [dict(d) for d in known], list(draft.nodes), set(walk.wanted), len(walk.notices)
    try:
        yield attempt
    except (AoecError, LookupError, ValueError, TypeError, ArithmeticError):  # of a body too that contradicts what is around it
        attempt.done = False
    added = draft.nodes[len(nodes):]
    attempt.done &= not added or any(not n.op.startswith(host.PREFIX) for n in added)
    if not attempt.done:
        for now, then in zip(known, before):
            now.clear()
            now.update(then)
        draft.nodes[:], walk.wanted = nodes, wanted
        del walk.notices[said:]
