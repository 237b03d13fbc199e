"""The structural check of a plan: its names, its kinds, which nodes are in two groups, and its slices. What a model says comes later."""
from __future__ import annotations

import re
from collections.abc import Mapping

from aoec.ir.graph.check_graph import GROUP_KINDS
from aoec.ir.plan import LISTS, Plan
from aoec.ir.text.places import Places

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")  # of a group: it becomes the name of a func and of files
PIECE = re.compile(r".*_[0-9]+of[0-9]+")
MOST_SLICES = 9999


def check_plan(p: Plan, at: Places) -> None:
    """Raise CheckError for names or kinds that make no valid plan. The error states the place where there is a text."""
    where = f"plan {p.name}"
    for word, names in (*((word, getattr(p, field)) for word, field in LISTS.items()), ("rewrite", (*p.rewrites, *p.declined))):
        seen_names: set[object] = set()
        for name in names:
            at.refuse(name in seen_names, lambda word=word, name=name:  # type: ignore[misc]
                      f"{where}: {word} {name if isinstance(name, str) else ' at '.join(name)} is said twice; once is enough",
                      (word, name, 2))
            seen_names.add(name)
    order = {g.name: i for i, g in enumerate(p.groups)}
    at.unique([(g.name, g) for g in p.groups], "group", where)
    seen: dict[str, str] = {}
    for g in p.groups:
        at.refuse(not NAME.fullmatch(g.name) or bool(PIECE.fullmatch(g.name)), lambda g=g:  # type: ignore[misc]
                  f"{where}: {g.name} cannot name a group; a name has letters, digits and _, 100 at most, and does not end as slices do "
                  "(_1of4)", g, g.name)
        at.check_known(g.kind, GROUP_KINDS, "kind of group", f"{where}: group {g.name}", g)
        at.refuse(not g.nodes, lambda g=g: f"{where}: group {g.name} has no nodes; leave the line out", g, g.name)  # type: ignore[misc]
        for name in g.nodes:
            at.refuse(name in seen, lambda g=g, name=name:  # type: ignore[misc]
                      f"{where}: node {name} is in {seen[name]} and in {g.name}; a node belongs to one group", g, name)
            seen[name] = g.name
    _check_slices(p, order, at, where)


def _check_slices(p: Plan, order: Mapping[str, int], at: Places, where: str) -> None:
    """Raise CheckError for regions that are none, or that meet."""
    taken: dict[int, str] = {}
    for first, last, count in p.slices:
        said, here = f"{where}: slices {first}..{last}/{count}", ("slices", (first, last, count))
        at.refuse(not 2 <= count <= MOST_SLICES, lambda said=said:  # type: ignore[misc]
                  f"{said}: a region runs in 2 to {MOST_SLICES} slices", here)
        if not p.groups:
            continue
        for name in (first, last):
            at.check_known(name, order, "group", said, here)
        at.refuse(order[first] > order[last], lambda said=said:  # type: ignore[misc]
                  f"{said}: a region goes from a group to itself or a later one", here)
        for i in range(order[first], order[last] + 1):
            at.refuse(i in taken, lambda said=said, i=i:  # type: ignore[misc]
                      f"{said} meets {taken[i]}: group {p.groups[i].name} is in both", here)
            taken[i] = f"{first}..{last}"
