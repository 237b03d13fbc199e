"""Runs control flow on the host: If, Loop and Scan, given something that runs a body.

Two kinds of nodes run here. Where a node's bodies are parts of the graph (ir/graph/graph.py: Body), whoever runs the graph runs the bodies.
Where the host runs a node whole, ONNX's reference runs its body (host_reference.py). Behind its own inputs, a body takes what it reads from
around it. These are the last inputs of its node, and `AROUND` says how many there are.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from aoec.base.errors import CheckError, UnsupportedError
from aoec.ir.graph.graph import OpNode

Values = list[Any]
Body = Callable[[Values], Values]
Run = Callable[[str, Sequence[Any]], Values]  # kind of a body, values of its inputs -> values of its outputs
Nothing = Callable[[str], Values]  # kind of a body -> for each of its outputs, what no round makes of it: an array of no rows
BODIES = {"host.If": ("then_branch", "else_branch"), "host.Loop": ("body",), "host.Scan": ("body",)}
AROUND, ROUNDS = "around", "rounds"  # attributes of a node with bodies; ROUNDS: how many there are at most, where that is known
MOST_ROUNDS = 100_000  # of a Loop: some ten seconds of a body of a few small operators


def walk(node: OpNode, inputs: Sequence[Any], run: Run, nothing: Nothing) -> Values:
    """Return the results of a node with bodies. Raise CheckError where it is none, and UnsupportedError for a loop that does not end."""
    around = node.attribute(AROUND, 0)
    if node.op not in BODIES or not isinstance(around, int) or not 0 <= around <= len(inputs):
        raise CheckError(f"node {node.name} ({node.op}) has a body, and is no If, Loop or Scan")
    cut = len(inputs) - around
    own, rest = list(inputs[:cut]), list(inputs[cut:])
    try:
        if node.op == "host.If":
            return run("then_branch" if true(own[0]) else "else_branch", rest)
        way = _loop if node.op == "host.Loop" else _scan
        return way(node, own, lambda values: run("body", [*values, *rest]), nothing("body"))
    except (ValueError, IndexError, TypeError) as e:  # values that do not fit where a body takes them
        raise CheckError(f"node {node.name}: {node.op.removeprefix('host.')} cannot be walked: {e}") from e


def _loop(node: OpNode, inputs: Values, body: Body, nothing: Values) -> Values:
    limit, going, *carried = [*inputs, None, None][:max(2, len(inputs))]
    return run_loop(limit, going, carried, body, nothing[1 + len(carried):])


def _scan(node: OpNode, inputs: Values, body: Body, nothing: Values) -> Values:
    def axes_of(name: str) -> Sequence[int]:
        value = node.attribute(name, ())
        return value if isinstance(value, tuple) else ()  # type: ignore[return-value]

    cut = len(inputs) - int(node.attribute("num_scan_inputs", 0))  # type: ignore[arg-type]
    return run_scan(inputs[:cut], inputs[cut:], body, nothing[cut:], axes_of)


# ---------------------------------------------------------------- of values alone

def run_loop(limit: Any, going: Any, carried: Values, body: Body, nothing: Values) -> Values:
    """Return what a Loop carries at its end, then its rows stacked. `body` takes the round's number, true and what is carried. `nothing`
    takes the place of rows where there are none."""
    on, done = going is None or true(going), 0
    rows: list[Values] = [[] for _ in nothing]
    most = None if limit is None else int(np.asarray(limit).reshape(()))
    while on and (most is None or done < most):
        if done == MOST_ROUNDS:
            raise UnsupportedError(f"a Loop has more than {MOST_ROUNDS:,} rounds")
        go, *results = body([np.array(done, np.int64), np.array(True), *carried])
        on, carried = true(go), results[:len(carried)]
        for row, value in zip(rows, results[len(carried):]):
            row.append(value)
        done += 1
    return [*carried, *map(stack_rows, rows, nothing)]


def run_scan(states: Values, xs: Values, body: Body, nothing: Values, axes_of: Callable[[str], Sequence[int]]) -> Values:
    """Return the last states of a Scan, then its rows stacked, `nothing` where there are none; `axes_of`: its axes and directions by ONNX's
    names, nothing where they are 0."""
    pieces = [np.moveaxis(x, at(axes_of("scan_input_axes"), i), 0) for i, x in enumerate(xs)]
    states, made = rounds(states, pieces, body, axes_of("scan_input_directions"), len(nothing))
    along, turns = axes_of("scan_output_axes"), axes_of("scan_output_directions")
    whole = map(stack_rows, made, nothing)
    return [*states, *(np.moveaxis(read_order(x, at(turns, i)), 0, at(along, i)) for i, x in enumerate(whole))]


def rounds(states: Values, xs: Values, body: Body, directions: Any, rows: int) -> tuple[Values, list[Values]]:
    """Return (last states, the rows of each result) of a body that takes states and, of each x, what lies at one place of its first
    axis."""
    made: list[Values] = [[] for _ in range(rows)]
    for step in _steps(xs, directions):
        results = body([*states, *step])
        for row, value in zip(made, results[len(states):]):
            row.append(value)
        states = results[:len(states)]
    return states, made


def _steps(xs: Values, directions: Any) -> Iterator[tuple[Any, ...]]:
    return zip(*(read_order(x, at(directions, i)) for i, x in enumerate(xs)))


def true(condition: Any) -> bool:
    """Return whether a condition holds."""
    return bool(np.asarray(condition).all())


def stack_rows(rows: Values, nothing: Any) -> Any:
    """Return the rows along a new first axis; `nothing` of none."""
    return np.stack(rows) if rows else nothing


def read_order(x: np.ndarray, backward: int) -> np.ndarray:
    """Return the array, from its end where it is read backward."""
    return x[::-1] if backward else x


def at(given: Any, i: int) -> int:
    """Return the i-th of an attribute that holds numbers, 0 where it is absent."""
    return int(given[i]) if given is not None and i < len(given) else 0
