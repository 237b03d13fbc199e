"""Vector work taken apart into single operations of the vector unit, windows staged through padded copies."""
from __future__ import annotations

from aoec.base.errors import UnsupportedError
from aoec.ir.index import (
    Binary,
    Call,
    Cast,
    Expr,
    Float,
    Int,
    Read,
    Var,
    call,
    normalise,
    reads,
    rebuild,
    rename_reads,
    variables,
    walk,
)
from aoec.ir.meaning import Statement
from aoec.lowering.physical import guarded, interval
from aoec.lowering.work import Work, axes_of, variables_of

ACCUMULATE = {"+=": "fp32"}  # sums of 16-bit values are kept in fp32
LONG_ROW = 6144  # elements: seven rows of fp32 fill UB (192 KB on 2201): two slots in and out, and what lies between


def stage_windows(work: Work, inputs: list[str]) -> Work:
    """Guarded window reads go through a local tensor that holds the padding too."""
    out = Work([], dict(work.extents), dict(work.shapes), dict(work.dtypes))
    for s in work.statements:
        guards = [e for e in walk(s.value) if isinstance(e, Call) and e.fn == "guard"]
        value = s.value
        for g in guards:
            read, otherwise = g.args
            assert isinstance(read, Read)
            value = _replace(value, g, _stage(out, read, otherwise))
        out.statements.append(Statement(s.target, s.op, value, s.init))
    return out


def _replace(e: Expr, old: Expr, new: Expr) -> Expr:
    return new if e == old else rebuild(e, lambda c: _replace(c, old, new))


def _stage(work: Work, read: Read, otherwise: Expr) -> Read:
    """The read from a padded copy of its tensor, whose axes start where the window does."""
    name = f"{read.buffer}.window"
    lows = [interval(i, work.extents) if not isinstance(i, Var) else (0, work.extents[i.name] - 1) for i in read.indices]
    shape = tuple(hi - lo + 1 for lo, hi in lows)
    axes = [f"pad{d}" for d in range(len(shape))]
    work.extents.update(zip(axes, shape))
    work.shapes[name], work.dtypes[name] = shape, work.dtypes[read.buffer]
    source = Read(read.buffer, tuple(normalise(Var(a) + lo) for a, (lo, _) in zip(axes, lows)))
    value = guarded(source, work.shapes[read.buffer], work.extents, otherwise)
    work.statements.append(Statement(Read(name, tuple(Var(a) for a in axes)), "=", value, None))
    return Read(name, tuple(normalise(i - lo) for i, (lo, _) in zip(read.indices, lows)))


def single_operations(work: Work, inputs: list[str]) -> Work:
    """Every statement one vector operation, with local tensors between."""
    out = Work([], work.extents, work.shapes, work.dtypes)
    for s in work.statements:
        if isinstance(s.value, Call) and s.value.fn == "select" and isinstance(s.value.args[1], Read):
            out.statements.append(s)  # a padded copy
            continue
        take_apart(out, s)
    return out


def take_apart(work: Work, s: Statement) -> None:
    """Adds a statement as single operations; sums of 16-bit values are cast first and kept in fp32."""
    source = next((work.dtypes[r.buffer] for r in reads(s.value) if r.buffer in work.dtypes), "fp16")
    wide = s.op in ACCUMULATE and source in ("fp16", "bf16")
    dtype = work.dtypes.setdefault(s.target.buffer, "fp32" if wide else source)
    if s.op == "=":
        value, mixed = rewrite(s.value), {work.dtypes[r.buffer] for r in reads(s.value) if r.buffer in work.dtypes} - {dtype}
        parts = narrowed(work, value, s.target, dtype) if "fp32" in mixed else operation(work, value, s.target, dtype)
        work.statements.append(Statement(s.target, "=", parts, None))
        return
    axes = axes_of(s)
    value = atom(work, rewrite(s.value), axes, source)
    if wide:
        value = cast_window(work, value) if isinstance(value, Read) else store(work, Cast("fp32", value), axes, "fp32")
    target = s.target
    if wide and dtype != "fp32":
        target = Read(f"{s.target.buffer}.sum", s.target.indices)
        work.shapes[target.buffer], work.dtypes[target.buffer] = work.shapes[s.target.buffer], "fp32"
    work.statements.append(Statement(target, s.op, value, s.init))
    if target is not s.target:
        work.statements.append(Statement(s.target, "=", Cast(dtype, target), None))


def cast_window(work: Work, read: Read) -> Read:
    """The read from an fp32 copy of its tensor: windows overlap, so the tensor is cast once, not every window."""
    axes = [f"cast{d}" for d in range(len(read.indices))]
    work.extents.update(zip(axes, work.shapes[read.buffer]))
    point: tuple[Expr, ...] = tuple(Var(a) for a in axes)
    copy = store(work, Cast("fp32", Read(read.buffer, point)), axes, "fp32")
    return Read(copy.buffer, read.indices)


def narrowed(work: Work, e: Expr, target: Read, dtype: str) -> Expr:
    """`e` computed in fp32, as a sum is kept, and cast once: a vector instruction takes operands of one type."""
    axes = [v for i in target.indices for v in sorted(variables(i))]
    value = e.value if isinstance(e, Cast) and e.dtype == dtype else e
    return Cast(dtype, atom(work, widened(work, value), axes, "fp32"))


def widened(work: Work, e: Expr) -> Expr:
    """`e` with what it reads of narrower types cast to fp32 first."""
    if not isinstance(e, Read):
        return rebuild(e, lambda c: widened(work, c))
    if work.dtypes.get(e.buffer) in (None, "fp32"):
        return e
    return store(work, Cast("fp32", e), [v for i in e.indices for v in sorted(variables(i))], "fp32")


def rewrite(e: Expr) -> Expr:
    """The expression in operations that the vector unit has."""
    e = rebuild(e, rewrite) if not isinstance(e, Read) else e
    if isinstance(e, Call) and e.fn == "sigmoid":
        return call("reciprocal", call("exp", e.args[0] * Float(-1.0)) + Float(1.0))
    if isinstance(e, Call) and e.fn == "tanh":
        return call("reciprocal", call("exp", e.args[0] * Float(-2.0)) + Float(1.0)) * Float(2.0) + Float(-1.0)
    if isinstance(e, Binary) and e.op == "-" and isinstance(e.right, (Float, Int)):
        return e.left + Float(-float(e.right.value))
    if isinstance(e, Binary) and e.op == "-" and isinstance(e.left, (Float, Int)):
        return e.right * Float(-1.0) + e.left
    if isinstance(e, Binary) and e.op == "/" and isinstance(e.right, (Float, Int)):
        return e.left * Float(1.0 / float(e.right.value))
    if isinstance(e, Binary) and e.op == "/" and e.left in (Float(1.0), Int(1)):
        return call("reciprocal", e.right)
    return e


def operation(work: Work, e: Expr, target: Read, dtype: str) -> Expr:
    """`e` with every operand a read or number, after statements for what is nested."""
    if isinstance(e, (Read, Float, Int)):
        return e
    axes = [v for i in target.indices for v in sorted(variables(i))]
    supported = isinstance(e, Cast) or isinstance(e, Binary) and e.op in "+-*/" or isinstance(e, Call) and e.fn in (
        "max", "min", "exp", "log", "sqrt", "rsqrt", "reciprocal", "abs")
    if not supported:
        raise UnsupportedError(f"the vector unit has no operation for {type(e).__name__.lower()} {getattr(e, 'fn', getattr(e, 'op', ''))}")
    return rebuild(e, lambda c: atom(work, c, axes, dtype))


def atom(work: Work, e: Expr, axes: list[str], dtype: str) -> Expr:
    """A read or number equal to `e`."""
    if isinstance(e, (Read, Float, Int)):
        return e
    own = [v for v in axes if v in frozenset().union(*[variables_of(r) for r in reads(e)])]
    return store(work, e, own, dtype)


def store(work: Work, e: Expr, axes: list[str], dtype: str) -> Read:
    """A new local tensor that holds `e`."""
    target = Read(f"t{sum(1 for n in work.shapes if n.startswith('t.'))}", tuple(Var(v) for v in axes))
    target = Read("t." + target.buffer[1:], target.indices)
    work.shapes[target.buffer], work.dtypes[target.buffer] = tuple(work.extents[v] for v in axes), dtype
    work.statements.append(Statement(target, "=", operation(work, e, target, dtype), None))
    return target


def row_results(work: Work, gm: set[str]) -> Work:
    """Local tensors with one element a row get a last dimension of 1: each then lies in a block of its own in UB."""
    single: set[str] = set()
    for s in work.statements:
        axes = axes_of(s)
        across = s.op != "=" and bool(axes) and axes[-1] not in variables_of(s.target)
        derived = s.op == "=" and reads(s.value) and all(r.buffer in single for r in reads(s.value)) and \
            all(variables_of(r) == variables_of(s.target) for r in reads(s.value))
        if s.target.buffer not in gm and (across or derived):
            single.add(s.target.buffer)
    work = stored_rows(work, gm, single)

    def widen(e: Expr) -> Expr:
        if isinstance(e, Read):
            return Read(e.buffer, (*e.indices, Int(0))) if e.buffer in single else e
        return rebuild(e, widen)

    statements = [Statement(widen(s.target), s.op, widen(s.value), s.init) for s in work.statements]  # type: ignore[arg-type]
    return Work(statements, work.extents, {n: (*d, 1) if n in single else d for n, d in work.shapes.items()}, work.dtypes)


def stored_rows(work: Work, gm: set[str], single: set[str]) -> Work:
    """The work where what is stored of one element a row is computed in a local of its own first, which joins `single`."""
    out = Work([], work.extents, dict(work.shapes), dict(work.dtypes))
    for s in work.statements:
        found = reads(s.value)
        if s.op == "=" and s.target.buffer in gm and found and all(r.buffer in single for r in found) and not isinstance(s.value, Read):
            row = Read(f"{s.target.buffer}.row", s.target.indices)
            out.shapes[row.buffer], out.dtypes[row.buffer] = work.shapes[s.target.buffer], work.dtypes[s.target.buffer]
            single.add(row.buffer)
            out.statements.append(Statement(row, "=", s.value, None))
            s = Statement(s.target, "=", row, None)
        out.statements.append(s)
    return out


def recomputed(work: Work) -> Work:
    """The work where what feeds a reduction of long rows is made for it alone: UB does not hold such a row, so nothing waits there
    for a second reader. Rows that fit are left as they are."""
    heads = [s for s in work.statements if s.op != "=" and long_rows(work, s)]
    out = Work([], work.extents, dict(work.shapes), dict(work.dtypes))
    for s in work.statements:
        if s in heads:
            names: dict[str, str] = {}
            for f in feeders(work, s):
                names[f.target.buffer] = copy = f"{f.target.buffer}.{s.target.buffer}"
                out.shapes[copy], out.dtypes[copy] = work.shapes[f.target.buffer], work.dtypes[f.target.buffer]
                out.statements.append(Statement(Read(copy, f.target.indices), f.op, rename_reads(f.value, names), f.init))
            s = Statement(s.target, s.op, rename_reads(s.value, names), s.init)
        out.statements.append(s)
    return unread_dropped(out) if heads else work


def long_rows(work: Work, s: Statement) -> bool:
    """True for a reduction over lanes of which too few rows fit UB beside what is made of them."""
    axes = axes_of(s)
    return bool(axes) and axes[-1] not in variables_of(s.target) and work.extents[axes[-1]] > LONG_ROW


def feeders(work: Work, s: Statement) -> list[Statement]:
    """The elementwise statements that make what a reduction reads, row by row, in order."""
    wanted = {r.buffer for r in reads(s.value)}
    found: list[Statement] = []
    for f in reversed(work.statements[:work.statements.index(s)]):
        if f.target.buffer in wanted and f.op == "=" and variables_of(f.target) == frozenset(axes_of(s)):
            found.insert(0, f)
            wanted |= {r.buffer for r in reads(f.value)}
    return found


def unread_dropped(work: Work) -> Work:
    """The work without statements whose target nobody reads; the last one's is the result."""
    last = work.statements[-1].target.buffer
    read = {last} | {r.buffer for s in work.statements for r in reads(s.value)}
    kept = [s for s in work.statements if s.target.buffer in read]
    if len(kept) < len(work.statements):
        return unread_dropped(Work(kept, work.extents, work.shapes, work.dtypes))
    used = read | {s.target.buffer for s in kept}
    return Work(kept, work.extents, {n: d for n, d in work.shapes.items() if n in used}, work.dtypes)
