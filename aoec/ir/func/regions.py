"""Regions: what part of a buffer a block touches within one iteration of a loop, as index expressions.

Everything here is structural: holes are positive numbers that nobody looks at, so a region found before holes are
filled is the region found after. Loops are given as ordered mappings from variable to extent, outermost first;
*inner* ones vary, all others stand still.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product

from aoec.base.errors import ScheduleError
from aoec.ir.index import (
    Binary,
    Call,
    Expr,
    Hole,
    Int,
    Read,
    Var,
    affine,
    call,
    ceildiv,
    children,
    maximum,
    minimum,
    normalise,
    reads,
    rebuild,
    variables,
    walk,
)

Extents = Mapping[str, Expr]


@dataclass(frozen=True, slots=True)
class Interval:
    """[offset, offset + extent); `largest` is the greatest extent over all iterations, free of loop variables."""

    offset: Expr
    extent: Expr
    largest: Expr


@dataclass(frozen=True, slots=True)
class Term:
    """`coefficient * x` for x in [0, extent); `var` names the loop where x is one."""

    coefficient: Expr
    extent: Expr
    largest: Expr
    var: str = ""


def region(read: Read, inner: Extents, outer: Extents, shape: Sequence[Expr]) -> tuple[Interval, ...]:
    """Return the box of `read`'s buffer, of that shape, that it covers while the inner loops run. Raise ScheduleError where no rule
    gives one. A dimension whose index depends on data is covered whole."""
    try:
        return tuple(Interval(Int(0), n, n) if reads(i) else interval(i, inner, outer) for i, n in zip(read.indices, shape, strict=True))
    except ScheduleError as e:
        raise ScheduleError(f"the region of {read.buffer} is not a box with a known offset: {e}") from None


def union(regions: Sequence[tuple[Interval, ...]], what: str) -> tuple[Interval, ...]:
    """Return the common box of several accesses to one buffer; they must start at equal offsets, or be known parts that meet."""
    first, others = regions[0], list(regions[1:])
    while others:
        found = next((n for n, other in enumerate(others) if all(_meet(a, b) for a, b in zip(first, other))), None)
        if found is None:
            raise ScheduleError(f"the accesses to {what} start at different offsets; stage them one by one")
        first = tuple(_widest(a, b) for a, b in zip(first, others.pop(found)))
    return first


def _meet(a: Interval, b: Interval) -> bool:
    """Return True for intervals that start at equal offsets, and for known ones with nothing between them."""
    one, other = known_range(a), known_range(b)
    return same(a.offset, b.offset) or bool(one and other and one.start <= other.stop and other.start <= one.stop)


def _widest(a: Interval, b: Interval) -> Interval:
    if same(a.offset, b.offset):
        return a if same(a.extent, b.extent) else Interval(a.offset, maximum(a.extent, b.extent), maximum(a.largest, b.largest))
    one, other = known_range(a), known_range(b)
    assert one and other
    start, stop = min(one.start, other.start), max(one.stop, other.stop)
    return Interval(Int(start), Int(stop - start), Int(stop - start))


def known_range(a: Interval) -> range | None:
    """Return the places of an interval between two numbers; None for any other."""
    offset, extent = normalise(a.offset), normalise(a.extent)
    return range(offset.value, offset.value + extent.value) if isinstance(offset, Int) and isinstance(extent, Int) else None


def clip(box: Interval, size: Expr) -> Interval:
    """Return `box` cut to [0, size): the part of it that exists, where reads outside are guarded."""
    low = maximum(0, box.offset)
    return Interval(low, minimum(size, box.offset + box.extent) - low, minimum(size, box.largest))


def same(a: Expr, b: Expr) -> bool:
    """Return True where the two are structurally equal numbers."""
    return normalise(a - b) == Int(0)


def interval(e: Expr, inner: Extents, outer: Extents) -> Interval:
    """Return the values of `e` while the inner loops run, as one interval."""
    e = normalise(e)
    if not variables(e) & inner.keys():
        return Interval(e, Int(1), Int(1))
    return _interval(e, tuple(inner.items()), tuple(outer.items()))


@lru_cache(maxsize=1 << 13)
def _interval(e: Expr, inner_loops: tuple[tuple[str, Expr], ...], outer_loops: tuple[tuple[str, Expr], ...]) -> Interval:
    """Return `interval` of what varies: sketches of one func ask for the same ones again and again."""
    inner, outer = dict(inner_loops), dict(outer_loops)
    coefficients, offset, atoms = _parts(e, inner)
    terms = []
    for v in [*inner, *atoms]:
        if v not in coefficients:
            continue
        box = _atom(atoms[v], inner, outer) if v in atoms else Interval(Int(0), inner[v], largest(inner[v], {**outer, **inner}))
        if not _positive(coefficients[v]):
            if v in atoms or not isinstance(coefficients[v], Int) or not isinstance(inner[v], Int):
                raise ScheduleError(f"an index runs backwards along {v}, and only a loop that no step splits may do that")
            offset = offset + coefficients[v] * (inner[v] - 1)  # its last iteration is where the box begins
            coefficients[v] = normalise(0 - coefficients[v])
        offset = offset + coefficients[v] * box.offset
        terms.append(Term(coefficients[v], box.extent, box.largest, v))
    terms = [_together(t, {v: n for v, n in inner.items() if v not in coefficients}) for t in _collapse(terms, outer)]
    ragged = sorted(v for t in terms for v in variables(t.extent) & inner.keys())
    if ragged:
        raise ScheduleError(f"the extent of a loop in it depends on {ragged[0]}, which varies too; put the split that deals {ragged[0]} "
                            "out behind this step, or say that tiles are even")
    extent, most = _span(terms, outer)
    if varying := sorted(variables(most) & outer.keys()):
        raise ScheduleError(f"its extent depends on {varying[0]} in a way that has no known largest value")
    return Interval(normalise(offset), extent, most)


def _together(t: Term, beside: Extents) -> Term:
    """Return the term as it is in the iteration of loops that the index does not use in which it is largest: they make one box together."""
    return replace(t, extent=largest(t.extent, beside)) if variables(t.extent) & beside.keys() else t


def _parts(e: Expr, inner: Extents) -> tuple[dict[str, Expr], Expr, dict[str, Expr]]:
    """Return (coefficient by inner loop or atom, what stands still, atoms) of an index.

    Where a quotient x//c is added to loops, they are taken into it: normal form takes whole multiples of c out of
    x//c, and which are whole multiples depends on holes being filled or not.
    """
    atoms: dict[str, Expr] = {}
    parts = affine(lift(e, frozenset(inner), atoms), frozenset(inner) | atoms.keys())
    if parts is None:
        raise ScheduleError(f"an index multiplies loop variables ({', '.join(sorted(variables(e) & inner.keys()))})")
    coefficients, offset = parts
    (name, atom), = atoms.items() if len(atoms) == 1 else [("", Int(0))]
    if not (isinstance(atom, Binary) and atom.op == "//" and coefficients[name] == Int(1)) or variables(atom.right) & inner.keys():
        return coefficients, offset, atoms
    x = atom.left
    for v, c in coefficients.items():
        x = x + Var(v) * c * atom.right if v != name else x
    return {name: Int(1)}, offset, {name: Binary("//", x, atom.right)}


def _span(terms: list[Term], outer: Extents) -> tuple[Expr, Expr]:
    """Return (extent, largest extent) of a sum of terms."""
    if len(terms) == 1 and terms[0].coefficient == Int(1):
        return terms[0].extent, terms[0].largest
    extent: Expr = Int(1)
    most: Expr = Int(1)
    for t in terms:
        extent = extent + t.coefficient * (t.extent - 1)
        most = most + largest(t.coefficient, outer) * (t.largest - 1)
    return normalise(extent), normalise(most)


def lift(e: Expr, inner: frozenset[str], atoms: dict[str, Expr]) -> Expr:
    """Return `e` with what is not a sum or product replaced by fresh variables, collected in `atoms`, where it varies."""
    if not variables(e) & inner or isinstance(e, Var):
        return e
    if isinstance(e, Binary) and e.op in "+-*":
        return Binary(e.op, lift(e.left, inner, atoms), lift(e.right, inner, atoms))
    name = next((n for n, a in atoms.items() if a == e), f"%{len(atoms)}")
    atoms[name] = e
    return Var(name)


def _atom(e: Expr, inner: Extents, outer: Extents) -> Interval:
    """Return the range of a quotient or remainder by a number that the inner loops do not change."""
    if not (isinstance(e, Binary) and e.op in ("//", "%") and not variables(e.right) & inner.keys()):
        raise ScheduleError(f"an index uses {e.fn if isinstance(e, Call) else 'an operation'} of a loop that varies")
    c = e.right
    if e.op == "%":
        # a loop whose extent is a plain number was never split, so this is the same before and after filling
        extent = inner[e.left.name] if isinstance(e.left, Var) else c
        within = isinstance(extent, Int) and isinstance(c, Int) and extent.value <= c.value
        return Interval(Int(0), extent, extent) if within else Interval(Int(0), c, largest(c, outer))
    box = interval(e.left, inner, outer)
    first = normalise(box.offset // c)
    if normalise(box.offset % c) == Int(0):
        return Interval(first, _ceildiv(box.extent, c), _ceildiv(box.largest, c))
    last = (box.offset + box.extent - 1) // c
    return Interval(first, normalise(last - first + 1), normalise((box.largest + c - 2) // c + 1))


def _ceildiv(e: Expr, c: Expr) -> Expr:
    """Return the ceildiv, taken inside a minimum so that min(tile, rest) keeps its form."""
    if isinstance(e, Call) and e.fn == "min":
        return minimum(*[_ceildiv(a, c) for a in e.args])
    return normalise(ceildiv(e, c))


@lru_cache(maxsize=1 << 14)
def _positive(e: Expr) -> bool:
    """Return True where `e` is built without subtraction or negative numbers: never below 0 for holes and loops."""
    return all(not (isinstance(n, Int) and n.value < 0) and not (isinstance(n, Binary) and n.op == "-") for n in walk(e))


# ---------------------------------------------------------------- split loops put together

def _collapse(terms: list[Term], outer: Extents) -> list[Term]:
    """Return the terms with each pair `outer*f + inner` of a split replaced by the loop that was split."""
    while True:
        merged = _merge_one(terms, outer)
        if merged is None:
            return terms
        terms = merged


def _merge_one(terms: list[Term], outer: Extents) -> list[Term] | None:
    for i in reversed(terms):
        if any(i.var in variables(t.extent) for t in terms):
            continue  # another loop's extent depends on this one: put that one together first
        for o in reversed(terms):
            whole = _parent(i, o, outer) if o is not i else None
            if whole is not None:
                return [whole if t is o else t for t in terms if t is not i]
    return None


def _parent(i: Term, o: Term, outer: Extents) -> Term | None:
    """Return the loop that was split into `o` (outer) and `i` (inner: extent min(f, rest - o*f)), or None."""
    if not (isinstance(i.extent, Call) and i.extent.fn == "min" and o.var in variables(i.extent)):
        return None
    for f in i.extent.args:
        others = [a for a in i.extent.args if a is not f]
        if o.var in variables(f) or not same(o.coefficient, i.coefficient * f):
            continue
        rest = [normalise(a + Var(o.var) * f) for a in others]
        if not any(o.var in variables(r) for r in rest):
            extent = _least_args(o.extent, f, minimum(*rest) if len(rest) > 1 else rest[0])
            return Term(i.coefficient, extent, largest(extent, outer), o.var)
    return None


def _least_args(count: Expr, f: Expr, rest: Expr) -> Expr:
    """Return min(count * f, rest) without the arguments that can never be the least."""
    if _covers(normalise(count * f), normalise(rest)):
        return rest
    args = [x for a in (*_min_args(count * f), *_min_args(rest)) for x in _min_args(normalise(a))]
    kept: list[Expr] = []
    for i, a in enumerate(args):
        if not any(_covers(a, b) and (j > i or not _covers(b, a)) for j, b in enumerate(args) if j != i):
            kept.append(a)
    kept = [a for i, a in enumerate(kept) if not _above_minimum(a, kept[:i] + kept[i + 1:])]
    return kept[0] if len(kept) == 1 else minimum(*kept)


def _above_minimum(a: Expr, others: list[Expr]) -> bool:
    """Return True where `a` is a rounded-up minimum, ceildiv(min(x, y), d) * d, and each of x and y is some other or more."""
    for low in _lower(a):
        parts = _min_args(low)
        if len(parts) > 1 and all(any(_covers(normalise(x), b) for b in others) for x in parts):
            return True
    return False


def _min_args(e: Expr) -> tuple[Expr, ...]:
    """Return expressions whose minimum is `e`: a minimum taken apart, also where it is multiplied by what is positive."""
    if isinstance(e, Call) and e.fn == "min":
        return tuple(x for a in e.args for x in _min_args(a))
    factors = _factors(e)
    inner = next((f for f in factors if isinstance(f, Call) and f.fn == "min"), None)
    rest = [f for f in factors if f is not inner]
    if inner is None or not rest or not all(_positive(f) for f in rest):
        return (e,)
    return tuple(_product([*rest, x]) for x in _min_args(inner))


def _covers(a: Expr, b: Expr) -> bool:
    """Return True where a >= b follows from the form: ceildiv(x, d) * d >= x, and constants."""
    difference = normalise(a - b)
    if isinstance(difference, Int):
        return difference.value >= 0
    return any(_covers(lower, b) for lower in _lower(a))


def _lower(e: Expr) -> list[Expr]:
    """Return expressions at most `e`: a product ceildiv(x, d) * d in a positive term replaced by x."""
    if isinstance(e, Binary) and e.op in "+-":
        out: list[Expr] = [Binary(e.op, low, e.right) for low in _lower(e.left)]
        return out + ([Binary("+", e.left, low) for low in _lower(e.right)] if e.op == "+" else [])
    factors = _factors(e)
    out = []
    for i, q in enumerate(factors):
        if isinstance(q, Call) and q.fn == "ceildiv":
            for x, divisors in _cancel_number(normalise(q.args[0]), _factors(normalise(q.args[1]))):
                rest = _divide_factors(factors[:i] + factors[i + 1:], divisors)
                if rest is not None and all(_positive(r) for r in rest):
                    out.append(normalise(_product([x, *rest])))
    return out


def _cancel_number(x: Expr, divisors: list[Expr]) -> list[tuple[Expr, list[Expr]]]:
    """Return (x, d) and, where the number in d divides x, both without it: ceildiv(x*c, d*c) is ceildiv(x, d)."""
    number = next((d for d in divisors if isinstance(d, Int)), None)
    if number is None or normalise(x % number) != Int(0):
        return [(x, divisors)]
    return [(x, divisors), (normalise(x // number), [d for d in divisors if d is not number])]


def _divide_factors(factors: list[Expr], divisors: list[Expr]) -> list[Expr] | None:
    """Return the factors without the divisors; None where they do not divide."""
    rest = list(factors)
    for d in divisors:
        if d in rest:
            rest.remove(d)
            continue
        number = next((x for x in rest if isinstance(x, Int)), None)
        if number is None or not isinstance(d, Int) or number.value % d.value:
            return None
        rest[rest.index(number)] = Int(number.value // d.value)
    return rest


def _factors(e: Expr) -> list[Expr]:
    return _factors(e.left) + _factors(e.right) if isinstance(e, Binary) and e.op == "*" else [e]


def _product(items: list[Expr]) -> Expr:
    out = items[0]
    for x in items[1:]:
        out = out * x
    return out


# ---------------------------------------------------------------- largest values

def largest(e: Expr, loops: Extents) -> Expr:
    """Return an upper bound of `e` over all iterations of the loops, free of their variables; exact for min(f, E - o*f)."""
    e = normalise(e)
    if not variables(e) & loops.keys():
        return e
    if isinstance(e, Call):
        return _largest_call(e, loops)
    if isinstance(e, Binary) and e.op in ("//", "%"):
        return _largest_div(e, loops)
    bounds = []
    for choice in _choices(e):
        try:
            bounds.append(_largest_sum(choice, loops))
        except ScheduleError:
            continue  # one bound is enough: min(a, b) is at most either
    if not bounds:
        raise ScheduleError(f"an extent has no largest value in a form that is known (loops {', '.join(sorted(variables(e)))})")
    return minimum(*bounds) if len(bounds) > 1 else bounds[0]


def _largest_call(e: Call, loops: Extents) -> Expr:
    if e.fn == "ceildiv" and not variables(e.args[1]) & loops.keys():
        return _ceildiv(largest(e.args[0], loops), e.args[1])
    if e.fn in ("min", "max"):
        return call(e.fn, *[largest(a, loops) for a in e.args])
    raise ScheduleError(f"an extent uses {e.fn} of a loop variable")


def _largest_div(e: Binary, loops: Extents) -> Expr:
    if variables(e.right) & loops.keys():
        raise ScheduleError("an extent divides by a loop variable")
    return e.right - 1 if e.op == "%" else normalise(largest(e.left, loops) // e.right)


@lru_cache(maxsize=1 << 14)
def _choices(e: Expr) -> tuple[Expr, ...]:
    """Return sums whose minimum is `e`. In them each min that is added, and each max that is subtracted, is replaced by one argument."""
    signed = _signed_terms(e)
    options = []
    for sign, term in signed:
        wanted = "min" if sign > 0 else "max"
        args = term.args if isinstance(term, Call) and term.fn == wanted else (term,)
        options.append([a if sign > 0 else Int(0) - a for a in args])
    sums = []
    for pick in product(*options):
        total: Expr = Int(0)
        for p in pick:
            total = total + p
        sums.append(normalise(total))
    return tuple(sums)


def _signed_terms(e: Expr, sign: int = 1) -> list[tuple[int, Expr]]:
    """Return the terms of a sum with their signs."""
    if isinstance(e, Binary) and e.op in "+-":
        return _signed_terms(e.left, sign) + _signed_terms(e.right, sign if e.op == "+" else -sign)
    if isinstance(e, Binary) and e.op == "*" and isinstance(e.right, Int) and e.right.value == -1:
        return [(-sign, e.left)]
    return [(sign, e)]


def _largest_sum(e: Expr, loops: Extents) -> Expr:
    """Return the bound of a sum: variables at their ends, whichever makes it larger."""
    atoms: dict[str, Expr] = {}
    parts = affine(lift(e, frozenset(loops), atoms), frozenset(loops) | atoms.keys())
    if parts is None:
        raise ScheduleError("an extent multiplies loop variables")
    coefficients, total = parts
    for v, c in coefficients.items():
        if _positive(c):
            total = total + c * (largest(atoms[v], loops) if v in atoms else largest(loops[v], loops) - 1)
        elif v in atoms or not _positive(normalise(Int(0) - c)):
            raise ScheduleError("an extent subtracts something with no known least value")
    return normalise(total)


# ---------------------------------------------------------------- small conveniences for those who shift indices

def shift(indices: Sequence[Expr], box: Sequence[Interval]) -> tuple[Expr, ...]:
    """Return the indices relative to the start of a box."""
    return tuple(normalise(i - b.offset) for i, b in zip(indices, box))


def plain(e: Expr) -> Expr:
    """Return `e` with the choices of its holes left out: inside a func a hole is only named."""
    if isinstance(e, Hole):
        return replace(e, choices=())
    return rebuild(e, plain) if children(e) else e
