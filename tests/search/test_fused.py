"""Fused mappings: the search finds what brute force finds, and what it says of a mapping a slow walk of the mapping says too."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aoec.ir.text.parse import parse_meaning
from aoec.search.fused.chain import Access, Chain, Index, Machine, Operator, Tensor, chain_of
from aoec.search.fused.fused import Step, fuse
from aoec.search.fused.leaf import Chains, Kept, Stand, Tables, slides
from aoec.search.fused.mappings import rows_below
from aoec.search.fused.places import Place, Shared
from aoec.search.fused.spans import Spans, divisors, spans, tile_loop
from tests.oracle.fused_walk import Walk, Walked

KINDS = ("product", "window", "elementwise")


def operator(kind: str, i: int, sizes: dict[str, int], made: dict[str, Tensor], draw: st.DrawFn) -> Operator:
    """An operator that reads T{i} and writes T{i + 1}: a product, a depthwise window along the first dimension, or an elementwise sum."""
    rows, columns = made[f"T{i}"].shape
    m, c = f"m{i}", f"c{i}"
    bits = draw(st.sampled_from((8, 16)))
    if kind == "product":
        n = draw(st.sampled_from((1, 2, 3)))
        sizes |= {m: rows, c: columns, f"n{i}": n}
        reads = (("T", (Index(((m, 1),)), Index(((c, 1),)))), ("W", (Index(((c, 1),)), Index(((f"n{i}", 1),)))))
        writes, shapes = (Index(((m, 1),)), Index(((f"n{i}", 1),))), {"W": (columns, n)}
    elif kind == "window":
        stride = draw(st.sampled_from((1, 2))) if rows > 3 else 1
        window = draw(st.integers(max(stride, 2), 3))
        pad = draw(st.integers(0, 1))
        out = max((rows + 2 * pad - window) // stride + 1, 1)
        sizes |= {m: out, c: columns, f"r{i}": window}
        reads = (("T", (Index(((m, stride), (f"r{i}", 1)), -pad), Index(((c, 1),)))), ("W", (Index(((f"r{i}", 1),)), Index(((c, 1),)))))
        writes, shapes = (Index(((m, 1),)), Index(((c, 1),))), {"W": (window, columns)}
    else:
        sizes |= {m: rows, c: columns}
        reads = (("T", (Index(((m, 1),)), Index(((c, 1),)))), ("W", (Index(((c, 1),)),)))
        writes, shapes = (Index(((m, 1),)), Index(((c, 1),))), {"W": (columns,)}
    made |= {f"W{i}": Tensor(shapes["W"], bits)}
    made |= {f"T{i + 1}": Tensor(tuple(sizes[d.terms[0][0]] for d in writes), draw(st.sampled_from((8, 16))))}
    loops = dict.fromkeys(v for a in (writes, *(d for _, d in reads)) for d in a for v, _ in d.terms)
    inputs = tuple(Access(f"{t}{i}", d) for t, d in reads)
    return Operator(f"op{i}", tuple((v, sizes[v]) for v in loops), inputs, Access(f"T{i + 1}", writes))


@st.composite
def chains(draw: st.DrawFn, most: int, extent: int) -> Chain:
    made = {"T0": Tensor((draw(st.integers(2, extent)), draw(st.integers(1, 3))), 8)}
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=most))
    operators = tuple(operator(kind, i, {}, made, draw) for i, kind in enumerate(kinds))
    return Chain(made, operators)


machines = st.builds(Machine, st.sampled_from((1.0, 2.0)), st.sampled_from((1.0, 5.0, 1000.0)), st.sampled_from((1.0, 1000.0)),
                     st.integers(20, 600))


@given(chains(3, 6), machines)
@settings(max_examples=60, deadline=None)
def test_a_walk_moves_what_the_search_says(chain: Chain, machine: Machine) -> None:
    """Every value that is read from the buffer is whole, the bits that move give the stated time, and what is held fits."""
    found = fuse(chain, machine)
    walked = Walked(chain, found.steps, machine)
    assert walked.seconds == pytest.approx(found.seconds, rel=1e-9)
    assert walked.most <= machine.buffer_bits


@given(chains(3, 6), machines, st.integers(0, 200))
@settings(max_examples=40, deadline=None)
def test_more_room_is_never_slower(chain: Chain, machine: Machine, more: int) -> None:
    wide = fuse(chain, replace(machine, buffer_bits=machine.buffer_bits + more)).seconds
    assert wide <= fuse(chain, machine).seconds * (1 + 1e-9)


def test_what_is_no_chain_is_refused() -> None:
    read_twice = "f(A[i: 2]) -> C[i] {\nB[i] = A[i] * 2\nD[i] = B[i] * 2\nC[i] = B[i] * D[i]\n}"
    with pytest.raises(ValueError, match="B: what it writes is read by"):
        chain_of(parse_meaning(read_twice), 8)
    with pytest.raises(ValueError, match="the extent of loop k is unknown"):
        chain_of(parse_meaning("f(A[i: 2, k]) -> B[i] {\nB[i] += A[i, k]\n}"), 8)


@given(chains(1, 6), st.data())
@settings(max_examples=40, deadline=None)
def test_the_size_of_the_space_is_its_number_of_rows(chain: Chain, data: st.DataObject) -> None:
    """Chains of tiles are counted as they are made, below every loop of an operator cut into a tile or not."""
    op = chain.operators[0]
    where = {v: tile_loop(n, data.draw(st.sampled_from(divisors(n)))) for v, n in op.extents}
    kept = [Kept(a, chain.tensors[a.tensor].shape, 8, a is op.output) for a in (*op.inputs, op.output)]
    some = data.draw(st.lists(st.sampled_from(kept), min_size=1, unique_by=lambda k: k.access.tensor))
    assert rows_below(where, some) == sum(len(Chains(Tables(where), order).moved) for order in permutations(some))


# ---------------------------------------------------------------- brute force

Interval = tuple[int, int]


def box_of(dim: Index, ranges: dict[str, Interval], extent: int) -> Interval:
    """What of a dimension a box of the nest touches."""
    low, high = (dim.offset + sum(step * (ranges[v][0] if end == 0 else ranges[v][1] - 1) for v, step in dim.terms) for end in (0, 1))
    return min(max(low, 0), extent), min(max(high + 1, 0), extent)


def as_spans(intervals: list[Interval]) -> Spans:
    return spans(*(np.array(x, np.int64) for x in zip(*intervals, strict=True)))


Nest = list[tuple[str, Spans]]


def boundaries(chain: Chain, i: int, outer: Nest) -> Iterator[tuple[Nest, Shared | None, Nest]]:
    """Every (fused loops of operator i, what it shares with the one before, loops of the one before)."""
    op, link = chain.operators[i], chain.link(i)
    yield outer, None, []
    if link is None:
        return
    producer, tensor = chain.operators[i - 1], chain.tensors[link.tensor]
    sizes = op.sizes
    free = [v for v in link.loops() if v not in dict(outer)]
    nests = [outer]
    for n in range(1, len(free) + 1):
        for names in permutations(free, n):
            for tiles in product(*([t for t in range(1, sizes[v]) if sizes[v] % t == 0] for v in names)):
                nests.append(outer + [(v, tile_loop(sizes[v], t)) for v, t in zip(names, tiles, strict=True)])
    for loops in nests:
        for depth in range(len(outer) + 1) if loops is outer else [len(loops)]:
            mine = loops[:depth]
            places = [[d for d, dim in enumerate(link.dims) if v in dict(dim.terms)] for v, _ in mine]
            if any(len(p) != 1 for p in places) or len({p[0] for p in places}) < len(places):
                continue
            whole = {v: (0, n) for v, n in op.extents}
            tile, found = 1, {}
            for d, dim in enumerate(link.dims):
                loop = next(((v, s) for (v, s), p in zip(mine, places, strict=True) if p[0] == d), None)
                touched = [box_of(dim, {**whole, loop[0]: r}, tensor.shape[d]) for r in loop[1].pairs()] if loop else [(0, tensor.shape[d])]
                if loop:  # what nothing reads is made with what comes before it
                    ends = [a for a, _ in touched[1:]] + [tensor.shape[d]]
                    reach = 0
                    for t, end in enumerate(ends):
                        reach = max(reach, touched[t][1])
                        touched[t] = (0 if t == 0 else touched[t][0], end if end > reach else touched[t][1])
                        touched[t] = (touched[t][0], max(touched[t]))
                found[d] = touched
                tile *= max(b - a for a, b in touched)
            names = [producer.output.dims[p[0]].terms[0][0] for p in places]
            again = [(v, as_spans(found[p[0]])) for v, p in zip(names, places, strict=True)]
            yield loops, Shared(depth, tile * tensor.bits), again
            if mine:
                last, reach, rest, most = found[places[-1][0]], 0, [], 0
                for t, (a, b) in enumerate(last):
                    most = max(most, min(reach, b) - a) if t else 0
                    rest.append((max(a, reach), max(a, reach, b)) if t else (a, b))
                    reach = max(reach, b)
                if most > 0:
                    side = max(b - a for a, b in last)
                    halo = tile * tensor.bits // side * most
                    yield loops, Shared(depth, tile * tensor.bits, halo), again[:-1] + [(names[-1], as_spans(rest))]


def stands_of(chain: Chain, i: int, step: Step, names: tuple[str, ...]) -> Iterator[tuple[Stand, ...]]:
    """Every order of tensors below the fused loops, with every chain of tiles of which each divides the one above."""
    op = chain.operators[i]
    access = {a.tensor: a for a in (*op.inputs, op.output)}
    whole = {v: dict(step.loops)[v].box if v in dict(step.loops) else n for v, n in op.extents}

    def below(order: tuple[str, ...], above: dict[str, int]) -> Iterator[tuple[Stand, ...]]:
        if not order:
            yield ()
            return
        for tiles in product(*([t for t in range(1, n + 1) if n % t == 0] for n in above.values())):
            now = dict(zip(above, tiles, strict=True))
            for slide in ("", *(v for d, v in slides(access[order[0]]) if now[v] < above[v]
                                and all(whole[o] == now[o] for o, _ in access[order[0]].dims[d].terms if o != v)
                                and not any(o in dict(step.loops) for o, _ in access[order[0]].dims[d].terms if o != v))):
                for rest in below(order[1:], now):
                    yield (Stand(order[0], tuple(now.items()), slide), *rest)
    for order in permutations(names):
        yield from below(order, whole)


def placed(chain: Chain, i: int, step: Step) -> Iterator[Step]:
    """The step with every place of the tensors that lie in GM."""
    op = chain.operators[i]
    shared = {chain.operators[i - 1].output.tensor} if step.before else set()
    access = [a for a in (*op.inputs, op.output) if a.tensor not in shared and not (step.after and a is op.output)]
    ways = []
    for a in access:
        own: list[Place | None] = [None, Place(a.tensor, None), *(Place(a.tensor, d) for d in range(len(step.loops)))]
        for depth in range(1, len(step.loops) + 1):
            v = step.loops[depth - 1][0]
            above = {o for o, _ in step.loops[:depth - 1]}
            dims = [dim for dim in a.dims if v in dict(dim.terms)]
            if dims and a is not op.output and not above & set(dict(dims[0].terms)):
                own.append(Place(a.tensor, depth, True))
        ways.append(own)
    for choice in product(*ways):
        fixed = tuple(p for p in choice if p)
        for stands in stands_of(chain, i, step, tuple(a.tensor for a, p in zip(access, choice, strict=True) if p is None)):
            yield replace(step, places=fixed, stands=stands)


def choices(chain: Chain, i: int, step: Step, machine: Machine) -> set[tuple[float, tuple[int, ...]]]:
    """(seconds, bits held under each number of fused loops) of every place of the tensors of an operator, by walking each."""
    out = set()
    link = chain.link(i)
    for each in placed(chain, i, step):
        shared: dict[str, dict[tuple[int, ...], int]] = {chain.operators[i].output.tensor: {}} if step.after else {}
        if step.before and link:
            shared[link.tensor] = dict.fromkeys(product(*(range(n) for n in chain.tensors[link.tensor].shape)), -1)
        walk = Walk(chain, i, each, shared)
        walk.alone()
        held = [0] * (len(step.loops) + 1)
        for name, most in walk.largest.items():
            depth = next((p.depth for p in each.places if p.tensor == name and p.depth is not None), len(step.loops))
            halo = walk.halo.get(name, 0)
            held[depth] += (most - halo) * chain.tensors[name].bits
            held[max(depth - 1, 0)] += halo * chain.tensors[name].bits
        m = machine
        out.add((max(walk.gm / m.gm_rate, walk.buffer / m.buffer_rate, walk.points / m.step_rate), tuple(held)))
    return out


def peak(steps: list[Step], held: list[tuple[int, ...]], group: list[int], depth: int) -> int:
    """The most bits held by operators that share so many loops."""
    parts = [[group[0]]]
    for i in group[1:]:
        after = steps[i - 1].after
        if after and after.depth > depth:
            parts[-1].append(i)
        else:
            parts.append([i])
    most = 0
    for part in parts:
        own = sum(held[i][depth] for i in part)
        before, after = steps[part[0]].before, steps[part[-1]].after
        own += sum(s.bits - s.halo for s in (before, after) if s and s.depth == depth)
        for i in part:
            within = steps[i].before
            own += within.halo if within and within.depth == depth + 1 else 0
        leaf = len(part) == 1 and depth == len(steps[part[0]].loops)
        most = max(most, own + (0 if leaf else peak(steps, held, part, depth + 1)))
    return most


def brute(chain: Chain, machine: Machine) -> float:
    """The least seconds of all mappings that fit, each evaluated."""
    best = float("inf")
    seen = cache(lambda i, loops, before, after: choices(chain, i, Step("", loops, before, after, (), ()), machine))

    def back(i: int, outer: list[tuple[str, Spans]], after: Shared | None, steps: list[Step]) -> None:
        nonlocal best
        if i < 0:
            options = [seen(j, s.loops, s.before, s.after) for j, s in enumerate(steps)]
            for choice in product(*options):
                seconds, held = sum(t for t, _ in choice), [h for _, h in choice]
                if seconds < best and peak(steps, held, list(range(len(steps))), 0) <= machine.buffer_bits:
                    best = seconds
            return
        for loops, before, more in boundaries(chain, i, outer):
            back(i - 1, more, before, [Step("", tuple(loops), before, after, (), ()), *steps])
    back(len(chain.operators) - 1, [], None, [])
    return best


def tiny(*kinds: str, rows: int, columns: int) -> Chain:
    """A chain of products and windows with tiny extents, 8 bits."""
    lines, args, sizes = list[str](), [f"T0[x: {rows}, y: {columns}]"], {"m0": rows, "c0": columns}
    for i, kind in enumerate(kinds):
        m, c = f"m{i}", f"c{i}"
        out = sizes[m] - 1 if kind == "window" else sizes[m]
        wide = 2 if kind == "product" else sizes[c]
        sizes |= {f"m{i + 1}": out, f"c{i + 1}": wide, f"r{i}": 2}
        here, there = f"m{i + 1}", f"c{i + 1}"
        if kind == "product":
            args.append(f"W{i}[{c}, {there}]")
            lines.append(f"T{i + 1}[{here}, {there}] += T{i}[{here}, {c}] * W{i}[{c}, {there}]")
        elif kind == "window":
            args.append(f"W{i}[r{i}, {there}]")
            lines.append(f"T{i + 1}[{here}, {there}] += T{i}[{here} + r{i}, {there}] * W{i}[r{i}, {there}]")
        else:
            lines.append(f"T{i + 1}[{here}, {there}] = T{i}[{here}, {there}] * 2")
    loops = ", ".join(f"{v}: {n}" for v, n in sizes.items())
    last = len(kinds)
    return chain_of(parse_meaning(f"f({', '.join(args)}; {loops}) -> T{last}[m{last}, c{last}] {{\n" + "\n".join(lines) + "\n}"), 8)


TINY = [tiny("product", rows=4, columns=2), tiny("window", rows=3, columns=1), tiny("elementwise", "product", rows=4, columns=1),
        tiny("elementwise", "window", rows=5, columns=1), tiny("window", "window", rows=4, columns=1),
        tiny("window", "elementwise", rows=5, columns=1), tiny("elementwise", "elementwise", "window", rows=5, columns=1)]


BITS, RATES = (24, 56, 72, 400), ((1.0, 5.0, 1000.0), (1.0, 1000.0, 1000.0))


# in `make test` each chain with each buffer at one of the rates, in turn
@pytest.mark.parametrize("chain, bits, rates", [
    pytest.param(chain, bits, rates, marks=[pytest.mark.slow] * ((i + j + k) % 2),
                 id=f"rates{k}-{bits}-{'-'.join(str(op.extents) for op in chain.operators)}")
    for i, chain in enumerate(TINY) for j, bits in enumerate(BITS) for k, rates in enumerate(RATES)])
def test_brute_force_finds_the_same(chain: Chain, bits: int, rates: tuple[float, float, float]) -> None:
    machine = Machine(*rates, bits)
    found = fuse(chain, machine).seconds
    assert found == pytest.approx(brute(chain, machine), rel=1e-9)
