"""Which of the vendor's tilings lie in the default space: each that is said to is the same work, pipe by pipe, as a candidate of it.

Those outside have a reason, and every reason is one of these lists: a structure that the search lays out for no shape or not for this one,
or a value that is no choice of a hole.
"""
from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import ceil
from random import Random

import pytest

from aoec import primitives
from aoec.ir.rewrite import normalise
from aoec.ir.schedule import Trace
from aoec.ir.tir import Func
from aoec.jobs.stages import lower_operator
from aoec.jobs.tuning import Problem, problem
from aoec.lowering.emit import emit
from aoec.search.grid import Grid
from aoec.search.sketches import find_product
from aoec.search.sketches_matmul import Form, forms
from aoec.search.vendor import ORDER_N, MatmulTiling, matmul_choice, matmul_trace
from aoec.search.vendor_conv import ConvForm, ConvTiling, conv_choice, conv_trace
from aoec.simulate.time import measure
from tests.search.test_vendor import CONVS, MACHINE, cases_of, conv_drawn

STRUCTURE = {"operands resident", "order of m and n", "L0 tiles in an L1 tile", "L2 blocks", "blocks dealt out", "parts of k",
             "staggered k", "core's block is no whole tiles", "core's share is uneven", "chunks of k in a ratio", "pixels inside channels"}
Values = Mapping[str, int]


@dataclass(frozen=True)
class Place:
    """Where a tiling would stand in the space: a sketch, its hole values, and why it is not there."""

    sketch: int
    values: Values
    why: frozenset[str]


Drawn = tuple[Func, Problem, MatmulTiling | ConvTiling, Place]  # a tiling of a func, and its place in the func's problem


def best_place(places: Iterable[Place]) -> Place:
    """The place with the fewest reasons against it, structures counting first."""
    return min(places, key=lambda p: (len(p.why & STRUCTURE), len(p.why)))


def no_choices(grid: Grid, values: Values) -> set[str]:
    """Holes whose value is none of their choices; a structure that differs leaves some without a value."""
    return {f"{'slots' if n in ('da', 'db') else 'ratio' if n == 'rk' else 'tile' if n[0] == 't' else 'value'} ?{n}"
            for n, choices in zip(grid.names, grid.choices) if n in values and values[n] not in choices}


def matmul_place(func: Func, p: Problem, laid_out: list[Form], tiling: MatmulTiling) -> Place:
    form, values = matmul_choice(func, MACHINE, tiling)
    mm = find_product(func)
    assert mm is not None and len(laid_out) == len(p.sketches)
    extents = {x: mm.extent(loop.var) for x, loop in zip("mn", mm.loops[-3:])}
    grids = enumerate(zip(laid_out, p.space.grids))
    return best_place(matmul_in(i, form, other, dict(values), extents, grid) for i, (other, grid) in grids)


def matmul_in(number: int, form: Form, other: Form, values: dict[str, int], extents: Values, grid: Grid) -> Place:
    """The tiling as the search's form would say it."""
    why = structure(form, other, values, extents)
    for x in "mn" if not why & {"L2 blocks", "blocks dealt out"} and not form.dealt else "":
        share = values[f"s{x}"] * (values[f"l{x}"] if x in form.l2 else 1)
        values |= {f"g{x}": ceil(extents[x] / share), f"l{x}": values[f"s{x}"] // values[f"t{x}"]}  # here a core's L1 tiles in an L2 block
        why |= shares(extents[x], values[f"t{x}"], values[f"s{x}"], share, values[f"g{x}"])
    if other.ratio and form.larger == "":
        values["rk"] = 1
    return Place(number, {n: values.get(n, 0) for n in grid.names}, frozenset(why | no_choices(grid, values)))


def structure(form: Form, other: Form, values: Values, extents: Values) -> set[str]:
    """What of a tiling's form another form has not."""
    serial = all(min(values[f"s{x}"], extents[x]) > values[f"t{x}"] for x in "mn")  # else a core's loops have no order
    single = values["cores"] == MACHINE.core("aic").count and all(values[f"s{x}"] == values[f"t{x}"] for x in "mn")
    differs = {"operands resident": form.resident != other.resident, "order of m and n": serial and form.inside != other.inside,
               "L0 tiles in an L1 tile": form.steps != other.steps, "L2 blocks": form.l2 != other.l2,
               "blocks dealt out": form.dealt != other.dealt or bool(form.dealt) and not single,
               "parts of k": form.parts_of_k != other.parts_of_k, "staggered k": form.rotated != other.rotated,
               "chunks of k in a ratio": form.ratio and form.larger != other.larger}
    return {name for name, yes in differs.items() if yes}


def shares(extent: int, tile: int, block: int, share: int, parts: int) -> set[str]:
    """What keeps cores' shares of a stated extent, made of blocks, from being even parts of tiles."""
    if block >= extent:
        return set()
    if block % tile:
        return {"core's block is no whole tiles"}
    return {"core's share is uneven"} if share < extent and ceil(ceil(extent / tile) / parts) * tile != share else set()


def conv_place(func: Func, p: Problem, tiling: ConvTiling) -> Place:
    form, values = conv_choice(func, tiling)
    values = {"gw": 1, **values}
    laid_out = [ConvForm(resident, "tw" in g.names, "", False) for resident, g in zip(residents(p), p.space.grids)]
    return best_place(Place(i, {n: values.get(n, 0) for n in g.names}, frozenset(conv_differs(form, other, values) | no_choices(g, values)))
                      for i, (other, g) in enumerate(zip(laid_out, p.space.grids)))


def residents(p: Problem) -> list[str]:
    """The operands that stay in L1, of each sketch: as many of each kind as there are kinds of tiles."""
    kinds = ("none", "image", "weight", "both")
    return [k for k in kinds for _ in range(len(p.sketches) // len(kinds))]


def conv_differs(form: ConvForm, other: ConvForm, values: Values) -> set[str]:
    differs = {"operands resident": form.resident != other.resident, "whole rows": form.wide and not other.wide,
               "chunks of k in a ratio": form.resident == "none" and values["rk"] > 1,
               "pixels inside channels": form.pixels_inside != other.pixels_inside}
    return {name for name, yes in differs.items() if yes}


def is_the_same_work(func: Func, p: Problem, trace: Trace, place: Place) -> bool:
    """Whether a trace and its place in the space are the same work: as many cores, every pipe as busy, as many bytes moved, and the place
    no later (a loop that says nothing, as over one chunk, takes time too); or both break a limit."""
    programs = [normalise(emit(primitives.apply(func, t), MACHINE)) for t in (
        trace, p.trace((place.sketch, tuple(place.values.values()))))]
    if any(x.constraints for x in programs):
        return all(any("holds" in c.reason for c in x.constraints) for x in programs)
    one, other = (measure(x, MACHINE) for x in programs)
    alike = (one.cores, one.busy_cycles, one.bytes_by_path) == (other.cores, other.busy_cycles, other.bytes_by_path)
    return alike and 0.98 * one.ticks <= other.ticks <= one.ticks


def matmuls(count: int, seed: int) -> Iterator[Drawn]:
    """Tilings of matrix products."""
    problems: dict[int, tuple[Problem, list[Form]]] = {}
    for func, tiling in cases_of(count, seed):
        if id(func) not in problems:
            mm = find_product(func)
            assert mm is not None
            problems[id(func)] = problem(func, MACHINE), [plain(f) for f in forms(func, mm, MACHINE)]
        p, laid_out = problems[id(func)]
        yield func, p, tiling, matmul_place(func, p, laid_out, tiling)


def plain(form: Form) -> Form:
    """A form without what says nothing: which chunk is larger, where an operand is resident."""
    return form if form.resident == "none" else replace(form, larger="")


def convs(count: int, seed: int) -> Iterator[Drawn]:
    """Tilings of convolutions."""
    random, problems = Random(seed), [(f, problem(f, MACHINE)) for f in map(lower_operator, CONVS)]
    for i in range(count):
        func, p = problems[i % len(problems)]
        tiling = conv_drawn(random)
        yield func, p, tiling, conv_place(func, p, tiling)


def members_of(drawn: Iterable[Drawn]) -> tuple[int, Counter[frozenset[str]]]:
    """(tilings that lie in the space and are the same work there, why the others do not lie in it)."""
    members, outside = 0, Counter[frozenset[str]]()
    for func, p, tiling, place in drawn:
        if place.why:
            outside[place.why] += 1
        else:
            trace = matmul_trace(func, MACHINE, tiling) if isinstance(tiling, MatmulTiling) else conv_trace(func, MACHINE, tiling)
            assert is_the_same_work(func, p, trace, place), tiling
            members += 1
    return members, outside


def told(members: int, outside: Counter[frozenset[str]]) -> str:
    """The figures in lines, for who widens a space."""
    any_of, alone = Counter[str](), Counter[str]()
    for why, n in outside.items():
        any_of.update(dict.fromkeys(why, n))
        alone.update({next(iter(why)): n} if len(why) == 1 else {})
    return "\n".join([f"{members} of {members + outside.total()} are members"]
                     + [f"{n:5} are kept out by {name}, {alone[name]} of them by it alone" for name, n in any_of.most_common()])


def test_members_are_candidates_of_the_same_work() -> None:
    members, outside = members_of(matmuls(60, 2))
    assert members >= 4, told(members, outside)
    members, outside = members_of(convs(15, 1))
    assert members >= 10, told(members, outside)


def test_an_l2_block_is_said_by_the_tiles_of_a_core_in_it() -> None:
    func = lower_operator("matmul(m=8192, k=8192, n=8192, trans_b)")
    mm = find_product(func)
    assert mm is not None
    p, laid_out = problem(func, MACHINE), [plain(f) for f in forms(func, mm, MACHINE)]
    rows = MatmulTiling(singleCoreM=1024, singleCoreN=1536, usedCoreNum=24, stepKa=4, stepKb=4, l2MTileCnt=2, iterateOrder=ORDER_N)
    place = matmul_place(func, p, laid_out, rows)
    assert place.why == set() and laid_out[place.sketch].l2 == "m", place
    assert is_the_same_work(func, p, matmul_trace(func, MACHINE, rows), place)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "least"), [(matmuls, 100), (convs, 800)])
def test_of_a_thousand_tilings_no_fewer_are_members(kind: object, least: int) -> None:
    members, outside = members_of(kind(1000, 2))  # type: ignore[operator]
    print(told(members, outside))
    assert members >= least
