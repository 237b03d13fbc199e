"""Where the vendor's tilings stand to the default space: each that is legal on the chip is a candidate of it (the same work, pipe by pipe),
or no faster than a candidate of the same L0 tiles, which the shrinking of the space rests on.

What the space leaves out, and why that loses nothing: blocks of L2 where all of a launch stays there, and blocks dealt out in turn,
are another order of the same blocks; shares of an axis that are not as even as fractals allow leave a core with more to do than a share of
the even ones; an operand that stays in L1 along k although no loop comes back to it takes L1 from its slots; output pixels that run faster
than channels are another order. Each is held against the model here, tiling by tiling.
"""
from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from random import Random

import pytest

from aoec import primitives
from aoec.ir.func.tir import Func
from aoec.ir.program import Program
from aoec.ir.rewrite import normalise
from aoec.ir.schedule import Trace
from aoec.jobs.stages.stages import lower_operator
from aoec.jobs.tune.tuning import Problem, problem
from aoec.lowering.emit.emit import emit
from aoec.search.sketches.nests import find_product
from aoec.search.sketches.sketches_matmul import Form, forms
from aoec.search.space.grid import NEVER, Candidate, Grid
from aoec.search.vendor.vendor import ORDER_N, MatmulTiling, matmul_choice, matmul_trace, up
from aoec.search.vendor.vendor_conv import ConvTiling, conv_choice, conv_trace
from aoec.simulate.encode.encode import encode
from aoec.simulate.timing.time import measure, time_rows
from aoec.target.machine import Machine, load
from tests.search.test_vendor import CONVS, MACHINE, cases_of, conv_drawn

MEMBER, COVERED, FASTER, ILLEGAL = "a member", "no faster than a member", "faster than the members of its tiles", "not legal on the chip"
Values = Mapping[str, int]


@dataclass(frozen=True)
class Tiling:
    """A vendor's tiling of a func: its trace, the candidates that would be the same work, and those of the same L0 tiles."""

    problem: Problem
    trace: Trace
    same: Sequence[Candidate]
    near: Sequence[Candidate]
    said: MatmulTiling | ConvTiling


# ---------------------------------------------------------------- matrix products

def plain(form: Form) -> Form:
    """A form without what says nothing: which chunk is larger, where an operand is resident."""
    return form if form.resident == "none" else replace(form, larger="")


def matmul_said(p: Problem, laid_out: Sequence[Form], tiling: MatmulTiling) -> Tiling:
    func = p.func
    form, values = matmul_choice(func, p.machine, tiling)
    mm = find_product(func)
    assert mm is not None and len(laid_out) == len(p.sketches)
    extents = {x: mm.extent(loop.var) for x, loop in zip("mn", mm.loops[-3:])}
    grids = list(zip(laid_out, p.space.grids))
    said = [said_in(form, other, dict(values), extents, grid) for other, grid in grids]
    same = [(i, v) for i, v in enumerate(said) if v is not None]
    near = [(i, v) for i, (_, grid) in enumerate(grids) for v in beside(grid, values, tiles_of(values, extents))]
    return Tiling(p, matmul_trace(func, p.machine, tiling), same, near, tiling)


def said_in(form: Form, other: Form, values: dict[str, int], extents: Values, grid: Grid) -> tuple[int, ...] | None:
    """The tiling's hole values in a form of the space; None where they are no choices of its holes, or say something else."""
    single = values["cores"] == MACHINE.core("aic").count and all(values[f"s{x}"] == values[f"t{x}"] for x in "mn")
    if (form.steps, form.parts_of_k, form.rotated) != (other.steps, other.parts_of_k, other.rotated):
        return None
    if other.dealt and not (single and form.dealt == other.dealt):
        return None
    for x in "mn" if not other.dealt else "":
        share = values[f"s{x}"] * (values[f"l{x}"] if x in form.l2 else 1)
        values[f"g{x}"] = -(-extents[x] // share)
        if other.l2 and form.l2 != other.l2 or share < extents[x] and up(-(-extents[x] // values[f"g{x}"]), 16) != share:
            return None
        values |= {f"t{x}": min(values[f"t{x}"], share), f"l{x}": max(1, values[f"s{x}"] // values[f"t{x}"])}
    if not other.ratio:
        values["sk"], values["rk"] = values["sk"] * (values["rk"] if form.resident == other.resident == "none" else 1), 1
    found = tuple(values.get(n, 1 if n == "rk" else 0) for n in grid.names)
    return found if all(v in c for v, c in zip(found, grid.choices)) else None


def tiles_of(values: Values, extents: Values) -> dict[str, tuple[int, ...]]:
    """L0 tiles: the tiling's, its L1 tiles, and what is left of its own in a share as even as its shares are many."""
    out = {}
    for x, extent in extents.items():
        tile, share = values[f"t{x}"], up(-(-extent // -(-extent // values[f"s{x}"])), 16)
        out[f"t{x}"] = tuple(dict.fromkeys((tile, tile * values[f"p{x}"], min(tile, share))))
    return out


def beside(grid: Grid, values: Values, tiles: Mapping[str, tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Candidates of a sketch with one of these tiles, or the next that there are: on every grid of cores, with the chunks and slots about
    as a tiling has them."""
    chunk = values["sk"] * values["rk"]
    slots = {d: (values[d], 2, 1) for d in ("da", "db")}
    wanted = {"sk": (values["sk"], chunk), "rk": (1, values["rk"]), **slots, **tiles}
    options = []
    for name, choices in zip(grid.names, grid.choices):
        if name.startswith("g") or name == "so":
            options.append(choices)
        else:
            asked = wanted.get(name, (values.get(name, choices[0]),))
            options.append(tuple(dict.fromkeys(min(choices, key=lambda c, a=a: (abs(c - a), c)) for a in asked)))  # type: ignore[misc]
    return list(product(*options))


# ---------------------------------------------------------------- convolutions

def conv_said(p: Problem, tiling: ConvTiling) -> Tiling:
    form, values = conv_choice(p.func, tiling)
    values = {"gw": 1, **values}
    kinds = ("none", "image", "weight", "both")
    laid_out = [(k, "tw" in g.names) for k, g in zip([k for k in kinds for _ in range(len(p.sketches) // len(kinds))], p.space.grids)]
    same, near = [], []
    for i, ((resident, wide), grid) in enumerate(zip(laid_out, p.space.grids)):
        found = tuple(values.get(n, 0) for n in grid.names)
        alike = resident == form.resident and (wide or not form.wide) and (resident != "none" or values["rk"] == 1)
        if alike and all(v in c for v, c in zip(found, grid.choices)):
            same.append((i, found))
        near += [(i, v) for v in beside(grid, values, {})]
    return Tiling(p, conv_trace(p.func, p.machine, tiling), same, near, tiling)


# ---------------------------------------------------------------- verdicts

def is_the_same_work(program: Program, other: Program, machine: Machine) -> bool:
    """Whether two programs are the same work: as many cores, every pipe as busy, as many bytes moved, and the other no later (a loop that
    says nothing, as over one chunk, takes time too)."""
    if other.constraints:
        return False
    one, two = (measure(x, machine) for x in (program, other))
    alike = (one.cores, one.busy_cycles, one.bytes_by_path) == (two.cores, two.busy_cycles, two.bytes_by_path)
    return alike and 0.98 * one.ticks <= two.ticks <= one.ticks


def verdict(t: Tiling) -> str:
    """What the tiling is to the space; one that no candidate beside it covers is printed, for who widens the space."""
    p = t.problem
    program = normalise(emit(primitives.apply(p.func, t.trace), p.machine))
    if program.constraints:
        assert all("holds" in c.reason for c in program.constraints), t.said
        return ILLEGAL
    if any(is_the_same_work(program, p.program(c), p.machine) for c in t.same):
        return MEMBER
    ticks = int(time_rows(encode(program, p.machine), {}, p.state).total_ticks[0])
    best = min((x for x in p.cost(t.near) if x is not None), default=NEVER)
    if best > ticks:
        print(f"{best / ticks:.4f}", [b.shape for b in p.func.inputs], t.said)
    return COVERED if best <= ticks else FASTER


def matmuls(count: int, seed: int, machine: Machine) -> Iterator[Tiling]:
    """Tilings of matrix products."""
    problems: dict[int, tuple[Problem, list[Form]]] = {}
    for func, tiling in cases_of(count, seed):
        if id(func) not in problems:
            problems[id(func)] = laid_out(func, machine)
        yield matmul_said(*problems[id(func)], tiling)


def laid_out(func: Func, machine: Machine) -> tuple[Problem, list[Form]]:
    mm = find_product(func)
    assert mm is not None
    return problem(func, machine), [plain(f) for f in forms(func, mm, machine)]


def convs(count: int, seed: int, machine: Machine) -> Iterator[Tiling]:
    """Tilings of convolutions."""
    random, problems = Random(seed), [problem(f, machine) for f in map(lower_operator, CONVS)]
    for i in range(count):
        yield conv_said(problems[i % len(problems)], conv_drawn(random))


def verdicts(drawn: Iterable[Tiling]) -> Counter[str]:
    """How many tilings are what."""
    return Counter(map(verdict, drawn))


def test_tilings_are_candidates_or_no_faster() -> None:
    found = verdicts(matmuls(12, 2, MACHINE)) + verdicts(convs(6, 1, MACHINE))
    assert found[MEMBER] >= 10 and found[FASTER] == 0, found


def test_an_l2_block_is_said_by_the_tiles_of_a_core_in_it() -> None:
    func = lower_operator("matmul(m=8192, k=8192, n=8192, trans_b)")
    p, found = laid_out(func, MACHINE)
    rows = MatmulTiling(singleCoreM=1024, singleCoreN=2048, usedCoreNum=24, stepKa=4, stepKb=4, l2MTileCnt=2, iterateOrder=ORDER_N)
    t = matmul_said(p, found, rows)
    assert "m" in {found[i].l2 for i, _ in t.same} and verdict(t) == MEMBER


@pytest.mark.slow
@pytest.mark.parametrize("machine", ["Ascend910B1", "Ascend910B3", "Ascend950PR_957x"])
@pytest.mark.parametrize(("kind", "members"), [(matmuls, 350), (convs, 900)])
def test_of_a_thousand_tilings_none_is_faster(kind: object, members: int, machine: str) -> None:
    found = verdicts(kind(1000, 2, load(machine)))  # type: ignore[operator]
    print(found)
    legal = found.total() - found[ILLEGAL]
    assert found[FASTER] <= legal // 200 and found[MEMBER] >= members * legal // 1000
