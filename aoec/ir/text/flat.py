"""Graphs, rules, traces, programs and expressions as plain values and back. This is many times faster than their texts. It serves what
aoec keeps for itself (base/files/memo.py), never what people or other programs read.

A value is a list of rows, one for each different node, children first: [number of its class, fields...]. In the row of a leaf, fields
are plain. In any other row, an integer is the number of a row, and a list is a tuple.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from aoec.ir import program, schedule
from aoec.ir.func.tir import Constraint
from aoec.ir.graph import graph, rule
from aoec.ir.index import Binary, Call, Cast, Float, Hole, Int, Read, Var

LEAVES = (Int, Float, Hole, Var, graph.Tensor, graph.OpNode, graph.Group, graph.Body, rule.Name, rule.Number,
          rule.Perhaps, rule.Spread, rule.Test)
CLASSES: tuple[Any, ...] = (
    *LEAVES, graph.Graph, Binary, Call, Read, Cast, Constraint, schedule.Step, schedule.Trace, program.Tensor, program.Space, program.Ref,
    program.Instr, program.SetFlag, program.WaitFlag, program.CrossSet, program.CrossWait, program.Advance, program.For, program.Stream,
    program.Program, rule.Apply, rule.Chain, rule.Equation, rule.Declaration, rule.Rule)
NAMES = {kind: tuple(f.name for f in fields(kind)) for kind in CLASSES}
NUMBERS = {kind: number for number, kind in enumerate(CLASSES)}


def flat(noun: object) -> list[Any]:
    """Return the rows of a noun, its own the last."""
    rows: dict[str, int] = {}
    out: list[Any] = []

    def number(node: object) -> int:
        row = [NUMBERS[type(node)], *[_plain(v) if isinstance(node, LEAVES) else value(v) for v in _values(node)]]
        text = repr(row)  # and not the row itself: 0.0 and -0.0, 1 and True are equal and not the same
        if text not in rows:
            rows[text] = len(out)
            out.append(row)
        return rows[text]

    def value(v: object) -> Any:
        if isinstance(v, tuple):
            return [value(x) for x in v]
        return v if v is None or isinstance(v, (str, bool)) else number(v)

    number(noun)
    return out


def noun(rows: Sequence[Any]) -> Any:
    """Return the noun of rows that `flat` made; ValueError, TypeError, IndexError or AttributeError for others."""
    made: list[Any] = []

    def value(v: Any) -> Any:
        if type(v) is list:
            return tuple([value(x) for x in v])
        return made[v] if type(v) is int else v

    for number, *values in rows:
        made.append(CLASSES[number](*map(_tuples if number < len(LEAVES) else value, values)))
    return made[-1]


def _plain(v: object) -> object:
    return [_plain(x) for x in v] if isinstance(v, tuple) else v


def _tuples(v: object) -> object:
    return tuple([_tuples(x) for x in v]) if type(v) is list else v


def _values(node: object) -> list[object]:
    return [getattr(node, name) for name in NAMES[type(node)]]
