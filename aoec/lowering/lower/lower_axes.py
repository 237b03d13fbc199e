"""Axes of vector work: those of extent 1 go, neighbours that every access walks together become one."""
from __future__ import annotations

from aoec.ir.func.meaning import Statement
from aoec.ir.index import Call, Expr, Int, Read, Var, affine, normalise, reads, rebuild, substitute, variables, walk
from aoec.lowering.lower.vector.lower_operations import variables_of
from aoec.lowering.lower.work import Work, accesses


def with_rows(work: Work) -> Work:
    """Return the work, where something has no axis at all (the sum of a vector), or lanes alone, with one row around everything."""
    if all(s.target.indices for s in work.statements) and not lanes_alone(work):
        return work

    def widen(e: Expr) -> Expr:
        return Read(e.buffer, (Var("row"), *e.indices)) if isinstance(e, Read) else rebuild(e, widen)

    statements = [Statement(widen(s.target), s.op, widen(s.value), s.init) for s in work.statements]  # type: ignore[arg-type]
    return Work(statements, {"row": 1, **work.extents}, {n: (1, *d) for n, d in work.shapes.items()}, work.dtypes)


def lanes_alone(work: Work) -> bool:
    """Return True where a sum leaves lanes and no other axis: to share these out over cores cuts each row that is summed, which does not
    always pay."""
    for s in work.statements:
        long = {v for v in variables_of(s.target) if work.extents[v] > 1}
        if s.op != "=" and len(long) == 1 and any(r.indices and variables(r.indices[-1]) == long < variables_of(r) for r in reads(s.value)):
            return True
    return False


def drop_ones(work: Work) -> Work:
    """Return the work without axes and dimensions of extent 1, but for one axis where all are, one that a sum over all others keeps, and
    one around lanes that are alone; a single number is a row of one."""
    ones = [v for v, n in work.extents.items() if n == 1]
    rows = [s.target.indices[0] for s in work.statements if s.op != "=" and s.target.indices and variables_of(s.target) <= set(ones)]
    saved = {e.name for e in rows if isinstance(e, Var)} or ({ones[-1]} if len(ones) == len(work.extents) else set())
    if rows:  # what leads to a sum of one number has an axis of its own, as every block has one
        bare = [[e.name for e in s.target.indices if isinstance(e, Var)] for s in work.statements
                if variables_of(s.target) <= {*ones} - saved]
        saved |= {names[-1] for names in bare if names}
    if lanes_alone(work) or any(variables_of(s.target) == {"row"} for s in work.statements):
        saved |= {"row"} & set(ones)
    zero: dict[str, Expr] = {v: Int(0) for v in ones if v not in saved}
    guards = [e for s in work.statements for e in walk(s.value) if isinstance(e, Call) and e.fn == "guard"]
    padded = [r for g in guards for r in reads(g.args[0])]  # they leave an axis of one element, too

    def kept_axes(name: str) -> list[int]:
        held = {d for r in accesses(work) if r.buffer == name for d, e in enumerate(r.indices) if variables(e) & saved}
        held |= {d for r in padded if r.buffer == name for d, e in enumerate(r.indices) if variables(e) - zero.keys()}
        return [d for d, n in enumerate(work.shapes[name]) if n > 1 or d in held] or [len(work.shapes[name]) - 1]

    def drop(e: Expr) -> Expr:
        if isinstance(e, Read):
            return Read(e.buffer, tuple(substitute(e.indices[d], zero) for d in kept_axes(e.buffer)) if e.indices else (Int(0),))
        return rebuild(e, drop)

    statements = [Statement(drop(s.target), s.op, drop(s.value), s.init) for s in work.statements]  # type: ignore[arg-type]
    shapes = {n: tuple(d[i] for i in kept_axes(n)) if d else (1,) for n, d in work.shapes.items()}
    return Work(statements, {v: n for v, n in work.extents.items() if v not in zero}, shapes, work.dtypes)


def merge_axes(work: Work) -> Work:
    """Return neighbouring axes that every access walks together, made one, until none are left."""
    while True:
        pair = next((p for p in neighbours(work) if mergeable(work, *p)), None)
        if pair is None:
            return work
        work = merge_pair(work, *pair)


def neighbours(work: Work) -> list[tuple[str, str]]:
    out = []
    for r in accesses(work):
        for a, b in zip(r.indices, r.indices[1:]):
            if isinstance(a, Var) and isinstance(b, Var):
                out.append((a.name, b.name))
    return list(dict.fromkeys(out))


def mergeable(work: Work, a: str, b: str) -> bool:
    """Return True where a and b always stand side by side, or are both read at 0 or left out, and nowhere else; of a dimension that is read
    without a guard, a may be a part."""
    guards = [e for s in work.statements for e in walk(s.value) if isinstance(e, Call) and e.fn == "guard"]
    whole = {r for g in guards for r in reads(g.args[0])}
    walked = {r.buffer for r in accesses(work) if {a, b} <= {v for e in r.indices for v in variables(e)}}
    for r in accesses(work):
        used = [i for i, e in enumerate(r.indices) if variables(e) & {a, b}]
        if not used and r.buffer in walked and any(variables(e) for e in r.indices):
            return False  # other axes walk it elsewhere
        if not used:
            continue
        if len(used) != 2 or used[1] != used[0] + 1 or first(r.indices[used[0]], a) is None or r.indices[used[1]] != Var(b):
            return False
        along, across = (work.shapes[r.buffer][i] for i in used)
        if across != work.extents[b] or r in whole and (along != work.extents[a] or r.indices[used[0]] != Var(a)):
            return False
    return True


def first(index: Expr, axis: str) -> int | None:
    """Return where an index starts that walks an axis from a fixed place on; None for any other."""
    parts = affine(index, frozenset((axis,)))
    plain = parts is not None and parts[0] == {axis: Int(1)} and isinstance(parts[1], Int)
    return parts[1].value if plain else None  # type: ignore[index, union-attr]


def merge_pair(work: Work, a: str, b: str) -> Work:
    shapes = dict(work.shapes)

    def join_axes(e: Expr) -> Expr:
        if not isinstance(e, Read):
            return rebuild(e, join_axes)
        at = next((i for i, x in enumerate(e.indices) if a in variables(x)), None)
        if at is None:
            return e
        old, start = work.shapes[e.buffer], first(e.indices[at], a)
        assert start is not None
        shapes[e.buffer] = (*old[:at], old[at] * old[at + 1], *old[at + 2:])
        return Read(e.buffer, (*e.indices[:at], normalise(Var(a) + start * work.extents[b]), *e.indices[at + 2:]))

    statements = [Statement(join_axes(s.target), s.op, join_axes(s.value), s.init) for s in work.statements]  # type: ignore[arg-type]
    extents = {v: e for v, e in work.extents.items() if v != b} | {a: work.extents[a] * work.extents[b]}
    return Work(statements, extents, shapes, work.dtypes)
