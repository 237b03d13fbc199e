"""Meaning: what an operator computes, in index notation (docs/languages.md). Loops are implied by names.

Every name in an index is a loop: over the dimension of an argument that carries the name, or a loop of its own
(`loops`). Loops that a statement's target does not name are reduced. A read with a stated value outside of its tensor,
`X[i] else 0.0`, is `Call("guard", (Read, constant))`.
"""
from __future__ import annotations

from dataclasses import dataclass

from aoec.ir.index import Call, Expr, Float, Int, Read


@dataclass(frozen=True, slots=True)
class Dim:
    """A dimension, and the loop over it. `extent` None: bound by the argument's shape, or by another dimension of this name."""

    name: str
    extent: Expr | None = None


@dataclass(frozen=True, slots=True)
class Argument:
    name: str
    dims: tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class Statement:
    """`target op value`; `init` is what a reducer starts from (None: its identity). A target that is no output is a local tensor."""

    target: Read
    op: str  # one of tir.ASSIGN
    value: Expr
    init: Expr | None = None


@dataclass(frozen=True, slots=True)
class Meaning:
    """`params`: numbers from the attributes. `loops`: those over no dimension of an argument (`kh: kernel_h`)."""

    name: str
    inputs: tuple[Argument, ...]
    params: tuple[str, ...]
    outputs: tuple[Argument, ...]
    statements: tuple[Statement, ...]
    loops: tuple[Dim, ...] = ()


def guard_read(read: Read, otherwise: Int | Float) -> Call:
    """Return the node of `read else otherwise`."""
    return Call("guard", (read, otherwise))
