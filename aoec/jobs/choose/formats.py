"""Formats: matrices between products in ND or in NZ, whichever the model is faster with when both are tuned."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from aoec.bank.bank import Bank
from aoec.base.errors import UnsupportedError
from aoec.base.text import plural
from aoec.ir.graph.graph import Graph
from aoec.ir.text.keys import key
from aoec.jobs.choose.model_tasks import Task
from aoec.jobs.compile.compiled_model import Ready
from aoec.jobs.tune.order import Solved, keys
from aoec.lowering.arrange.nz import Region, in_nz, regions
from aoec.lowering.lower.lower import Indexed
from aoec.lowering.lower.vector.lower_nz import CONVERSIONS
from aoec.target.machine import Machine

Found = tuple["Ready", dict[str, Solved]]
GroupsAt = Mapping[str, set[str]]


@dataclass(frozen=True)
class Change:
    """Regions that go into NZ together, for they share groups; `groups`: that touch them then, conversions too. Ticks: what these take,
    and what those take that touch them in ND."""

    regions: tuple[Region, ...]
    groups: frozenset[str]
    before_ticks: int
    after_ticks: int


def choose_formats(plain: Graph, base: Found, find: Callable[[Graph, bool], Found | None]) -> tuple[list[Change], Found, Found]:
    """Return (changes that pay, the model with all that were tuned, the model with those that pay) of a graph that is not fused yet.

    `base` is its model. `find` gives the model of another graph, by default schedules or tuned as `base` is; None where there is none. Only
    changes that already pay by default schedules are tuned. There are few of them, and to tune all would double the time. Times are those
    of groups alone, launches included, in the memory states of their places.
    """
    likely = paying(regions(plain), plain, base, find, tuned=False)[0]
    found, every = paying([r for c in likely for r in c.regions], plain, base, find, tuned=True)
    if not found:
        return [], every, base
    last = find(in_nz(plain, [r for c in found for r in c.regions]), True)
    return (found, every, as_found(last, (every, base))) if last is not None else ([], every, base)


def paying(found: Sequence[Region], plain: Graph, base: Found, find: Callable[[Graph, bool], Found | None],
           tuned: bool) -> tuple[list[Change], Found]:
    """Return the changes that pay among those of some regions, and the model with all of these in NZ."""
    every = find(in_nz(plain, found), tuned) if found else None
    if every is None:
        return [], base
    return [c for c in changes(found, base, every, tuned) if c.after_ticks < c.before_ticks], every


def heard_of(graph: Graph, bank: Bank) -> bool:
    """Return whether a bank may know a graph, in groups, with matrices in NZ. It may where it has a record of the first group that reads or
    writes such a matrix. The other groups are lowered only after this check."""
    of, indexed = {n.name: n for n in graph.nodes}, Indexed(graph)
    there = {t.name for t in graph.tensors if t.layout == "NZ"}
    for g in graph.groups:
        if g.kind in ("cube", "vector") and any(not there.isdisjoint((*of[n].inputs, *of[n].outputs)) for n in g.nodes):
            try:
                wanted = [key(indexed.lower(g))]
            except UnsupportedError:
                continue
            return bool(bank.of_funcs(wanted) or bank.base is not None and bank.base.of_funcs(wanted))
    return True


def are_known(plan: Sequence[Task], machine: Machine, bank: Bank, tuned: bool) -> bool:
    """Return whether a bank has the best schedules of all tasks, or their defaults."""
    wanted = {best if tuned else default for default, best in (keys(t, machine) for t in plan)}
    return wanted <= bank.claims(wanted).keys()


def as_found(last: Found, earlier: Sequence[Found]) -> Found:
    """Return a model with what this run knows of its groups from before: the bank alone would say that nothing was searched."""
    known = {s.best.key: s for _, solved in earlier for s in solved.values()}
    return last[0], {name: known.get(s.best.key, s) for name, s in last[1].items()}


def changes(found: Sequence[Region], base: Found, every: Found, tuned: bool) -> list[Change]:
    """Return how the groups around each region change; regions that share a group are one change. Changes with a group on the host are left
    out."""
    before, after = groups_at(base[0].model.graph), groups_at(every[0].model.graph)
    out = []
    for together in disjoint_lists(before, found):
        old, new = (frozenset().union(*(around(at, r) for r in together)) for at in (before, after))
        before_ticks, after_ticks = ticks(base, old, tuned), ticks(every, new, tuned)
        if before_ticks is not None and after_ticks is not None:
            out.append(Change(tuple(together), new, before_ticks, after_ticks))
    return out


def disjoint_lists(at: GroupsAt, found: Sequence[Region]) -> list[list[Region]]:
    """Return the regions in lists that have no group in common."""
    lists: dict[int, list[Region]] = {}
    owner: dict[str, int] = {}  # group -> the list that has it
    for number, region in enumerate(found):
        met = sorted({owner[g] for g in around(at, region) if g in owner})
        lists[number] = [*(r for i in met for r in lists.pop(i)), region]
        owner |= {g: number for r in lists[number] for g in around(at, r)}
    return list(lists.values())


def groups_at(graph: Graph) -> GroupsAt:
    """Return tensor -> the groups that read or write it, or what it is converted to."""
    of = {n: g.name for g in graph.groups for n in g.nodes}
    out: dict[str, set[str]] = {}
    for n in graph.nodes:
        for t in (*n.inputs, *n.outputs):
            out.setdefault(t, set()).add(of[n.name])
    for n in graph.nodes:
        if n.op in CONVERSIONS:
            out[n.inputs[0]] |= out[n.outputs[0]]
    return out


def around(at: GroupsAt, region: Region) -> frozenset[str]:
    """Return the groups that read or write a tensor of a region, or what one is converted to."""
    return frozenset().union(*(at[t] for t in (region.matrix, *region.made)))


def ticks(found: Found, groups: frozenset[str], tuned: bool) -> int | None:
    """Return what groups take as tuned, or by default schedules. Return None where one is on the host."""
    ready, solved = found
    views = {g.name for g in ready.model.graph.groups if g.kind == "view"}
    timed = groups - views
    return sum((solved[g].best if tuned else solved[g].default).ticks for g in timed) if solved.keys() >= timed else None


def sentence(found: Sequence[Change], machine: Machine) -> str:
    """Return what is said of changes that were made."""
    before_us, after_us = (sum(ticks) * machine.us_per_tick for ticks in zip(*((c.before_ticks, c.after_ticks) for c in found)))
    return f"matrices between products in NZ, in {plural(len(found), 'place')}: {before_us:.2f} -> {after_us:.2f} us modelled"
