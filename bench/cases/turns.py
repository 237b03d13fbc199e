"""The order of loads in the vendor's MDL template: at each step along k it loads the tiles of A that it needs, then those of B.

Source: asc-devkit impl/adv_api/detail/matmul/scheduler/base/scheduler_mdl_base.h, CopyIn, in loops of the smaller of stepKa and stepKb."""
from __future__ import annotations

from dataclasses import replace

from aoec.ir.index import Expr, Int, Var, normalise, substitute
from aoec.ir.program import For, Instr, Item, Program, Ref

LOAD = 4  # statements of a load: wait for a slot, copy, set, wait for the set


def left_first(program: Program) -> Program:
    """Return the program with the load of A that comes first behind a load of B put before it.

    Our loops have the larger chunk outside, so that B's comes first where it is the larger one. Behind A's it waits for a slot of A,
    though it has one of its own: of a loop over chunks of A inside one over chunks of B the first iteration is taken out, with the load
    of B behind that of A.
    """
    return replace(program, streams=tuple(replace(s, body=turned(s.body)) for s in program.streams))


def turned(body: tuple[Item, ...]) -> tuple[Item, ...]:
    """Return statements with their loops turned so."""
    out: list[Item] = []
    for item in body:
        if isinstance(item, For):
            peeled = first_out(item.body)
            item = replace(item, body=peeled or turned(item.body))
        out.append(item)
    return tuple(out)


def first_out(body: tuple[Item, ...]) -> tuple[Item, ...]:
    """Return the body of a loop over chunks of B with the first chunk of A taken out of the loop inside; nothing where it is none."""
    if len(body) <= LOAD or not (loads(body) and isinstance(body[LOAD], For) and loads(body[LOAD].body)):
        return ()
    right, inner, rest = body[:LOAD], body[LOAD], body[LOAD + 1:]
    first = tuple(at(x, {inner.var: Int(0)}, "_first") for x in inner.body)
    others = replace(inner, trips=normalise(inner.trips - Int(1)),
                     body=tuple(at(x, {inner.var: Var(inner.var) + Int(1)}) for x in inner.body))
    left, work = first[:LOAD], first[LOAD:]
    return (*left[:-1], *right[:-1], left[-1], right[-1], *work, others, *rest)


def loads(body: tuple[Item, ...]) -> bool:
    """Return whether statements begin with a load into L1."""
    return len(body) > LOAD and isinstance(body[1], Instr) and body[1].op.startswith("copy_gm_l1")


def at(item: Item, values: dict[str, Expr], suffix: str = "") -> Item:
    """Return a statement with values for variables; loops in it have the suffix behind their names, so that each name stands once."""
    if isinstance(item, For):
        inside = values | ({item.var: Var(item.var + suffix)} if suffix else {})
        return For(item.var + suffix, expr(item.trips, values), tuple(at(x, inside, suffix) for x in item.body))
    if isinstance(item, Instr):
        return Instr(item.op, tuple((k, ref(v, values) if isinstance(v, Ref) else expr(v, values)) for k, v in item.fields))
    return item


def ref(r: Ref, values: dict[str, Expr]) -> Ref:
    return replace(r, offset=expr(r.offset, values))


def expr(e: Expr, values: dict[str, Expr]) -> Expr:
    return normalise(substitute(e, values))
