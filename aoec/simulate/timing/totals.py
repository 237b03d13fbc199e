"""Which reads of GM move the same total of bytes for all choices of the holes that cut their loops finer: found in the expressions, once.

The pieces of an extent N by tiles f, min(f, N - i*f) over ceildiv(N, f) iterations, sum to N. Counted in units of d they sum to ceildiv(N,
d) where f is whole units. So take the sum over a loop of a product in which one such factor varies with the loop. It is the same product
with N in place of the piece. A read's total does not depend on the open holes where these sums over the loops around it leave none of them.
"""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import gcd, prod

from aoec.ir.index import Binary, Call, Expr, Hole, Int, affine, hole_names, normalise, substitute, variables
from aoec.simulate.encode.encode import Encoded, Site
from aoec.simulate.timing.reuse import Access, factors, hangs_on
from aoec.target.isa.instructions import INSTRUCTIONS


@dataclass(frozen=True)
class Opened:
    """Holes that are, or may be, set to choices that stand for all of theirs. `settled` are the accesses whose total bytes, and cores at
    one address, are the same for all choices of the holes that are."""

    holes: frozenset[str] = frozenset()
    settled: frozenset[Access] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.holes)


CLOSED = Opened()


def open_accesses(encoded: Encoded, holes: Mapping[str, int | None]) -> Opened:
    """Return which accesses depend on open holes, found once for an encoded program.
    `holes`: holes by their least choices, None for those that may be open and are not."""
    known, still = encoded.totals, frozenset(name for name, least in holes.items() if least is not None)
    if still not in known:
        found: dict[Access, bool] = {}
        for site in encoded.sites:
            if site.access:
                own = not hangs_on(site.access, still) and still.isdisjoint(hole_names(total(encoded, site)))
                found[site.access] = found.get(site.access, True) and own
        known[still] = frozenset(a for a, own in found.items() if own)
    return Opened(frozenset(holes), known[still])


def total(encoded: Encoded, site: Site) -> Expr:
    """Return an expression with the holes and grid axes that the total of the bytes of a site depends on. It is the sum of the bytes where
    it has no loop's variable."""
    assert site.access is not None
    trips = {loop.var: loop.trips for loop in encoded.loops if loop.stream == site.stream}
    fields = {**{n: Int(int(v)) for n, v in site.numbers if n in ("size", "dst_size")}, **dict(site.fields), "size": Int(site.gm_size)}
    out = normalise(substitute(INSTRUCTIONS[site.op].gm_bytes, fields))
    for loop in reversed(site.access.loops):
        out = sum_over(out, loop, trips[loop], encoded.units)
    return out


def sum_over(e: Expr, loop: str, trips: Expr, units: Mapping[str, int]) -> Expr:
    """Sum a product over a loop. Where no rule gives the sum, return the product times the trips, which depends on the same holes."""
    parts = factors(e)
    varying = [x for x in parts if loop in variables(x)]
    if len(varying) == 1:
        whole = gather_pieces(varying[0], loop, trips, units)
        if whole is not None:
            rest = [x for x in parts if x is not varying[0]]
            return product([*rest, whole])
    return product([*parts, trips])


def gather_pieces(piece: Expr, loop: str, trips: Expr, units: Mapping[str, int]) -> Expr | None:
    """Return what pieces are together, in their units; None where they are no pieces of one extent."""
    if isinstance(piece, Call) and piece.fn == "ceildiv" and isinstance(piece.args[1], Int):
        inside = gather_pieces(piece.args[0], loop, trips, units)
        even = inside is not None and unit(tile(piece.args[0], loop), units) % piece.args[1].value == 0
        return Call("ceildiv", (inside, piece.args[1])) if even and inside is not None else None
    f = tile(piece, loop)
    if f is None or not isinstance(trips, Call) or trips.fn != "ceildiv":
        return None
    assert isinstance(piece, Call)
    linear = affine(next(x for x in piece.args if loop in variables(x)), {loop})
    assert linear is not None
    steps, extent = linear[0][loop], normalise(linear[1])
    parted, by = trips.args  # the same quotient, perhaps of both times as much
    same = normalise(parted * f) == normalise(extent * by)
    return extent if same and normalise(steps + f) == Int(0) else None


def tile(piece: Expr, loop: str) -> Expr | None:
    """Return f where a piece is min(f, something that is linear in the loop). Return None for any other piece."""
    if not isinstance(piece, Call) or piece.fn != "min" or len(piece.args) != 2:
        return None
    fixed = [x for x in piece.args if loop not in variables(x)]
    moving = [x for x in piece.args if loop in variables(x)]
    return normalise(fixed[0]) if len(fixed) == 1 and affine(moving[0], {loop}) is not None else None


def unit(e: Expr | None, units: Mapping[str, int]) -> int:
    """Return a number of which all values of a product are multiples."""
    if e is None:
        return 1
    return prod(x.value if isinstance(x, Int) else units.get(x.name, 1) if isinstance(x, Hole) else 1 for x in factors(e))


def product(parts: list[Expr]) -> Expr:
    """Return the product of some factors, each kept as it is."""
    out = parts[0]
    for x in parts[1:]:
        out = Binary("*", out, x)
    return out


def units_of(choices: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """Return what all choices of a hole are multiples of, for each."""
    return {name: gcd(*values) for name, values in choices.items()}
