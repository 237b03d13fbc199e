"""Vector work split into single operations of the vector unit, with windows staged through padded copies."""
from __future__ import annotations

from collections.abc import Collection
from math import inf

from aoec.base.errors import UnsupportedError
from aoec.ir.func.meaning import Statement
from aoec.ir.index import (
    DTYPES,
    Binary,
    Call,
    Cast,
    Expr,
    Float,
    Int,
    Read,
    Var,
    call,
    is_zero,
    normalise,
    reads,
    rebuild,
    rename_reads,
    variables,
    walk,
)
from aoec.ir.text.show import show
from aoec.lowering.lower.physical import guard_read, interval
from aoec.lowering.lower.vector.lower_functions import rewrite
from aoec.lowering.lower.vector.lower_smooth import in_fp32, smooth
from aoec.lowering.lower.vector.lower_typed import is_typed, take_apart_typed
from aoec.lowering.lower.work import Work, axes_of, hold, own_axes, variables_of
from aoec.target.isa.words import cut_off_sum, is_selection

LEAST = {"int8": Float(-128.0), "uint8": Float(0.0)}  # of whole numbers that fp16 has, in which the unit finds the greatest of them
ACCUMULATE = {"+=": "fp32"}  # sums of 16-bit values are kept in fp32
SPREAD = ".spread"  # ends the names of locals that hold one element a row of an input
LONG_ROW = 6144  # elements: seven rows of fp32 fill UB (192 KB on 2201): two slots in and out, and what lies between
ROW_BYTES = 7 * 4 * LONG_ROW  # of all that a row needs at a time


def stage_windows(work: Work, inputs: list[str]) -> Work:
    """Stage guarded window reads through a local tensor that holds the padding too."""
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
    """Return the read from a padded copy of its tensor, whose axes start where the window does. Copies for windows that begin or end
    elsewhere have axes and a name of their own."""
    number = sum(1 for name in work.shapes if name.startswith(f"{read.buffer}.window"))
    name = f"{read.buffer}.window{number or ''}"
    lows = [interval(i, work.extents) if not isinstance(i, Var) else (0, work.extents[i.name] - 1) for i in read.indices]
    shape = tuple(hi - lo + 1 for lo, hi in lows)
    axes = own_axes(work, "pad", shape)
    work.shapes[name], work.dtypes[name] = shape, work.dtypes[read.buffer]
    source = Read(read.buffer, tuple(normalise(Var(a) + lo) for a, (lo, _) in zip(axes, lows)))
    least = LEAST.get(work.dtypes[read.buffer])
    otherwise = least if least is not None and otherwise == Float(-inf) else otherwise
    value = guard_read(source, work.shapes[read.buffer], work.extents, otherwise)
    work.statements.append(Statement(Read(name, tuple(Var(a) for a in axes)), "=", value, None))
    return Read(name, tuple(normalise(i - lo) for i, (lo, _) in zip(read.indices, lows)))


def single_operations(work: Work, inputs: list[str], stored: Collection[str] = ()) -> Work:
    """Return the work with one vector operation for each statement, and local tensors between. `stored`: results beside the last one."""
    out = Work([], work.extents, work.shapes, work.dtypes)
    statements = [part for s in work.statements for part in value_first(out, s)]
    typed = [s for s in statements if is_typed(out, s)]
    for s in statements:
        if isinstance(s.value, Call) and s.value.fn == "select" and isinstance(s.value.args[1], Read) and not is_selection(s.value):
            out.statements.append(s)  # a padded copy
        else:
            try:
                (take_apart_typed if is_typed(out, s) else take_apart)(out, s)
            except UnsupportedError as e:
                raise UnsupportedError(str(e), at=s.target.buffer) from e
    return sums_cut_off(unread_dropped(out, stored) if typed else out)


def value_first(work: Work, s: Statement) -> list[Statement]:
    """Return the statement. Where it reduces the result of a comparison or selection, that is calculated in a local first."""
    axes = axes_of(s)
    dtype = next((d for r in reads(s.value) if (d := work.dtypes.get(r.buffer, "")) in ("fp16", "bf16", "fp32")), "")
    value = Read(f"{s.target.buffer}.value", tuple(Var(v) for v in axes))
    if s.op == "=" or not dtype or not any(is_selection(e) for e in walk(s.value)):
        return [s]
    work.shapes[value.buffer], work.dtypes[value.buffer] = tuple(work.extents[v] for v in axes), dtype
    return [Statement(value, "=", s.value), Statement(s.target, s.op, value, s.init)]


def sums_cut_off(work: Work) -> Work:
    """Return the work where a sum of reals that is read as what of it lies above 0, and no more, is one operation with that."""
    made, readers = {s.target.buffer: s for s in work.statements}, [r.buffer for s in work.statements for r in reads(s.value)]
    gone: set[str] = set()
    out = Work([], work.extents, dict(work.shapes), dict(work.dtypes))
    for s in work.statements:
        read = s.value.args[0] if isinstance(s.value, Call) and s.value.fn == "max" and is_zero(s.value.args[1]) else None
        if isinstance(read, Read) and s.op == "=" and readers.count(read.buffer) == 1 and (known := made.get(read.buffer)) is not None:
            whole = call("max", known.value, Float(0.0))
            alike = {work.dtypes.get(r.buffer) for r in [s.target, read, *reads(known.value)]}
            if known.op == "=" and known.target == read and cut_off_sum(whole) and len(alike) == 1 and alike <= {"fp16", "fp32"}:
                gone.add(read.buffer)
                s = Statement(s.target, "=", whole, None)
        out.statements.append(s)
    out.statements = [s for s in out.statements if s.target.buffer not in gone]
    for name in gone:
        del out.shapes[name], out.dtypes[name]
    return out


def take_apart(work: Work, s: Statement) -> None:
    """Add a statement as single operations.

    Sums of 16-bit values are made and kept in fp32, and so is all that depends on them. So are values in bf16, as the vector unit
    calculates in fp16 and fp32, and values that have no accurate form in fp16. The result is rounded once, where it is stored."""
    found = {work.dtypes[r.buffer]: None for r in reads(s.value) if r.buffer in work.dtypes}
    source = next(iter(found), "fp32" if "fp32" in work.dtypes.values() else "fp16")  # of a number alone that of what it will meet
    sums = s.op in ACCUMULATE and source in ("fp16", "bf16")
    wide = sums or "fp32" in found or "bf16" in found or in_fp32(s.value)
    kind = "fp32" if wide else "fp16" if source in LEAST and s.op != "=" else source
    dtype = work.dtypes.setdefault(s.target.buffer, kind)
    if s.op == "=":
        value = in_forms(work, s, kind, dtype)
        work.statements.append(Statement(s.target, "=", single(work, rewrite(value), s.target, kind, dtype), None))
        return
    axes = axes_of(s)
    value = rewrite(in_forms(work, s, kind, kind))
    if kind != source and isinstance(value, Read) and not all(isinstance(i, Var) for i in value.indices):
        value = cast_window(work, value, kind)
    value = atom(work, widen_reads(work, value, kind) if kind != source else value, axes, kind)
    target = s.target
    if kind != dtype:
        target = Read(f"{s.target.buffer}.sum", s.target.indices)
        work.shapes[target.buffer], work.dtypes[target.buffer] = work.shapes[s.target.buffer], kind
    work.statements.append(Statement(target, s.op, value, s.init))
    if target is not s.target:
        work.statements.append(Statement(s.target, "=", Cast(dtype, target), None))


def in_forms(work: Work, s: Statement, kind: str, dtype: str) -> Expr:
    """Return the value of a statement whose result has a dtype, in forms that are exact enough for it and take few cycles."""
    axes = axes_of(s) if s.op != "=" else [v for i in s.target.indices for v in sorted(variables(i))]

    def keep(e: Expr) -> Expr:
        return atom(work, widen_reads(work, rewrite(e), kind), axes, kind)

    value = smooth(keep, s.value, dtype)
    return over_rows(value, s, kind) if s.op == "=" and DTYPES[dtype] == 2 else value


def over_rows(value: Expr, s: Statement, kind: str) -> Expr:
    """Return a quotient by one element a row as a product with its reciprocal, where that is calculated in fp32 for a result of 16 bits.
    Return any other value unchanged. A product takes half the cycles of a quotient. The second rounding in fp32 does not show in 16
    bits."""
    by_row = isinstance(value, Binary) and value.op == "/" and isinstance(value.right, Read) and across_lanes(s, value.right)
    return value.left * call("reciprocal", value.right) if by_row and kind == "fp32" else value  # type: ignore[attr-defined]


def single(work: Work, value: Expr, target: Read, kind: str, dtype: str) -> Expr:
    """Return the one operation that gives `value`, computed in `kind`, as `dtype`."""
    read = value.value if isinstance(value, Cast) else value
    if isinstance(read, Read):
        return convert_read(work, read, target, dtype)
    if kind != dtype:
        return round_once(work, value, target, dtype)
    return operation(work, widen_reads(work, value) if kind == "fp32" else value, target, dtype)


# (from, to) -> dtypes between, where the vector unit has no conversion of its own. Whole numbers of eight bits come from int32, so that
# fractions are cut off before fp16 could round them
BETWEEN = {("int8", "fp32"): ("fp16",), ("uint8", "fp32"): ("fp16",),
           ("fp32", "int8"): ("int32", "fp16"), ("fp32", "uint8"): ("int32", "fp16"), ("bf16", "fp16"): ("fp32",),
           ("fp16", "bf16"): ("fp32",), ("bf16", "int32"): ("fp32",), ("int32", "bf16"): ("fp32",),
           ("bf16", "int8"): ("fp32", "int32", "fp16"), ("bf16", "uint8"): ("fp32", "int32", "fp16"), ("int8", "bf16"): ("fp16", "fp32"),
           ("uint8", "bf16"): ("fp16", "fp32")}


def convert_read(work: Work, read: Read, target: Read, dtype: str) -> Expr:
    """Return the read, converted by all casts that lie between its dtype and `dtype`."""
    axes = [v for i in target.indices for v in sorted(variables(i))]
    for between in BETWEEN.get((work.dtypes.get(read.buffer, dtype), dtype), ()):
        read = store(work, Cast(between, read), axes, between)
    return read if work.dtypes.get(read.buffer, dtype) == dtype else Cast(dtype, read)


def cast_window(work: Work, read: Read, kind: str) -> Read:
    """Return the read from a wider copy of its tensor: windows overlap, so the tensor is cast once, not every window."""
    axes = own_axes(work, "cast", work.shapes[read.buffer])
    point: tuple[Expr, ...] = tuple(Var(a) for a in axes)
    copy = store(work, Cast(kind, Read(read.buffer, point)), axes, kind)
    return Read(copy.buffer, read.indices)


def round_once(work: Work, e: Expr, target: Read, dtype: str) -> Expr:
    """Compute `e` in fp32, as a sum is, and cast it once: a vector instruction takes operands of one type."""
    axes = [v for i in target.indices for v in sorted(variables(i))]
    value = e.value if isinstance(e, Cast) and e.dtype == dtype else e
    return Cast(dtype, atom(work, widen_reads(work, value), axes, "fp32"))


def widen_reads(work: Work, e: Expr, kind: str = "fp32") -> Expr:
    """Cast the reads of narrower types in `e` first."""
    if not isinstance(e, Read):
        return rebuild(e, lambda c: widen_reads(work, c, kind))
    if work.dtypes.get(e.buffer) in (None, kind):
        return e
    return store(work, Cast(kind, e), [v for i in e.indices for v in sorted(variables(i))], kind)


def operation(work: Work, e: Expr, target: Read, dtype: str) -> Expr:
    """Return `e` with every operand a read or number, after statements for what is nested."""
    if isinstance(e, (Read, Float, Int)):
        return e
    axes = [v for i in target.indices for v in sorted(variables(i))]
    supported = isinstance(e, Cast) or isinstance(e, Binary) and e.op in "+-*/" or isinstance(e, Call) and e.fn in (
        "max", "min", "exp", "log", "sqrt", "rsqrt", "reciprocal", "abs")
    if not supported:
        raise UnsupportedError(f"the vector unit has no operation for {show(e)}")
    return rebuild(e, lambda c: atom(work, c, axes, dtype))


def atom(work: Work, e: Expr, axes: list[str], dtype: str) -> Expr:
    """Return a read or number equal to `e`."""
    if isinstance(e, (Read, Float, Int)):
        return e
    own = [v for v in axes if v in frozenset().union(*[variables_of(r) for r in reads(e)])]
    return store(work, e, own, dtype)


def store(work: Work, e: Expr, axes: list[str], dtype: str) -> Read:
    """Return a local tensor that holds `e`, after statements for what is nested."""
    return hold(work, e, axes, dtype, lambda e, target: operation(work, e, target, dtype))


def spread_rows(work: Work, inputs: list[str]) -> Work:
    """Return the work where tensors of one element a row are copied to a local of their own before lanes read them. These are inputs, or
    tensors made of inputs alone."""
    out = Work([], work.extents, dict(work.shapes), dict(work.dtypes))
    made = set(inputs)
    for s in work.statements:
        names = {r.buffer: f"{r.buffer}{SPREAD}" for r in reads(s.value) if r.buffer in made and across_lanes(s, r)}
        for r in [r for r in reads(s.value) if r.buffer in names and names[r.buffer] not in out.shapes]:
            local = names[r.buffer]
            out.shapes[local], out.dtypes[local] = work.shapes[r.buffer], work.dtypes[r.buffer]
            out.statements.append(Statement(Read(local, r.indices), "=", r, None))
        out.statements.append(Statement(s.target, s.op, rename_reads(s.value, names), s.init))
        if s.op == "=" and made.issuperset(r.buffer for r in reads(s.value)):
            made.add(s.target.buffer)
    return out


def across_lanes(s: Statement, r: Read) -> bool:
    """Return True where an elementwise statement reads one element for all lanes of a row."""
    alone = bool(variables_of(r)) and variables_of(r).isdisjoint(axes_of(s)[-1:])
    return s.op == "=" and alone and all(isinstance(i, Var) for i in r.indices)


def row_results(work: Work, gm: set[str]) -> Work:
    """Give local tensors with one element a row a last dimension of 1. Each element then lies in a block of its own in UB."""
    single = {n for n in work.shapes if n.endswith(SPREAD)}
    for s in work.statements:
        axes = axes_of(s)
        across = s.op != "=" and bool(axes) and axes[-1] not in variables_of(s.target)
        derived = s.op == "=" and reads(s.value) and all(r.buffer in single for r in reads(s.value)) and \
            all(variables_of(r) == variables_of(s.target) for r in reads(s.value))
        if s.target.buffer not in gm and (across or derived):
            single.add(s.target.buffer)
    work = stored_rows(work, gm, single)

    def widen(e: Expr) -> Expr:
        e = rebuild(e, widen)
        return Read(e.buffer, (*e.indices, Int(0))) if isinstance(e, Read) and e.buffer in single else e

    statements = [Statement(widen(s.target), s.op, widen(s.value), s.init) for s in work.statements]  # type: ignore[arg-type]
    return Work(statements, work.extents, {n: (*d, 1) if n in single else d for n, d in work.shapes.items()}, work.dtypes)


def stored_rows(work: Work, gm: set[str], single: set[str]) -> Work:
    """Return the work where what is stored of one element a row is computed in a local of its own first, which joins `single`."""
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


def recompute_feeders(work: Work, stored: Collection[str] = ()) -> Work:
    """Compute the operands of a reduction of long rows for that reduction alone. `stored`: results beside the last one. UB cannot hold
    such a row, so nothing can wait there for a second reader. Rows that fit are left as they are."""
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
    return unread_dropped(out, stored) if heads else work


def long_rows(work: Work, s: Statement) -> bool:
    """Return whether this reduces over lanes, and too few rows fit UB beside the tensors that are made of them."""
    axes = axes_of(s)
    across = bool(axes) and axes[-1] not in variables_of(s.target)
    return across and (work.extents[axes[-1]] > LONG_ROW or row_bytes(work, axes[-1]) * work.extents[axes[-1]] > ROW_BYTES)


def row_bytes(work: Work, lane: str) -> int:
    """Return bytes for each element of a row, where tensors of the group are there all the time and locals while they are used."""
    places: dict[str, list[int]] = {}
    for at, s in enumerate(work.statements):
        for r in [s.target, *reads(s.value)]:
            if lane in variables_of(r):
                places.setdefault(r.buffer, []).append(at)
    made = {s.target.buffer for s in work.statements[:-1]}
    size = {b: DTYPES[work.dtypes[b]] for b in places}
    live = [sum(size[b] for b, at in places.items() if b in made and at[0] <= now <= at[-1]) for now in range(len(work.statements))]
    return max(live) + sum(n for b, n in size.items() if b not in made)


def feeders(work: Work, s: Statement) -> list[Statement]:
    """Return the elementwise statements that make what a reduction reads, row by row, in order."""
    wanted = {r.buffer for r in reads(s.value)}
    found: list[Statement] = []
    for f in reversed(work.statements[:work.statements.index(s)]):
        if f.target.buffer in wanted and f.op == "=" and variables_of(f.target) == frozenset(axes_of(s)):
            found.insert(0, f)
            wanted |= {r.buffer for r in reads(f.value)}
    return found


def unread_dropped(work: Work, stored: Collection[str] = ()) -> Work:
    """Return the work without statements whose target nobody reads. The target of the last statement is the result; targets in `stored`
    are results too."""
    last = work.statements[-1].target.buffer
    read = {last, *stored} | {r.buffer for s in work.statements for r in reads(s.value)}
    kept = [s for s in work.statements if s.target.buffer in read]
    if len(kept) < len(work.statements):
        return unread_dropped(Work(kept, work.extents, work.shapes, work.dtypes), stored)
    used = read | {s.target.buffer for s in kept}
    return Work(kept, work.extents, {n: d for n, d in work.shapes.items() if n in used}, work.dtypes)
