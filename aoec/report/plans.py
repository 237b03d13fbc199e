"""What a plan says in short, and what two plans have otherwise: by cause, with the times that the plans claim.

Groups are told from each other by their nodes, for names of groups are numbers that move. All times are claims: modelled when a plan was
written, and not looked at again here.
"""
from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from aoec.base.text import clip_name, plural
from aoec.ir.plan import LISTS, Plan, PlanGroup
from aoec.report.reasons import table

Facts = dict[str, Any]
KINDS = ("cube", "vector", "host", "view")
SHOWN = 20  # parts, names or times in a text; JSON has all
NODES = 6  # of a group in a line
ENDINGS = {"result": "the move behind it is a launch of its own", "beside": "it is not joined with the group beside it",
           "siblings": "convolutions of one image are not joined", "planes": "it stays a convolution with its conversion"}
OPERAND = "the move in front of this operand is a launch of its own"
SINGLE = "attention in single operators, or scores in whole fractals"
WHY = "when a plan is found a fusion is not made where it takes longer by default schedules, modelled; an edited plan may say others"
DECISIONS = {"wide": "sums in fp32", "tail": "norms joined with their factors", "apart": "fusions not made", "nz": "matrices in NZ",
             "rewrite": "rewrites made at import", "off": "rewrites not made"}


def describe(plan: Plan) -> Facts:
    """Return a plan in short, as plain values; µs are what it claims."""
    kinds = {kind: [g for g in plan.groups if g.kind == kind] for kind in KINDS}
    return {"plan": plan.name, "target": plan.target, "times": "claimed, modelled",
            "groups": {kind: {"count": len(own), "us": total_us(own)} for kind, own in kinds.items() if own},
            "launches": sum(len(kinds[kind]) for kind in ("cube", "vector")), "us": total_us(plan.groups),
            **{word: list(names) for word, names in decisions(plan).items()},
            "slices": [f"{first}..{last}/{count}" for first, last, count in plan.slices]}


def decisions(plan: Plan) -> dict[str, list[str]]:
    """Return word of a line -> what its lines name."""
    named = {word: list(getattr(plan, field)) for word, field in LISTS.items()}
    sites = {"rewrite": plan.rewrites, "off": plan.declined}
    return {**named, **{word: [f"{rule} at {site}" for rule, site in found] for word, found in sites.items()}}


def total_us(groups: Iterable[PlanGroup]) -> float:
    """Return the time that groups claim, in µs. A group without a claim counts 0."""
    return sum(g.takes_ns or 0 for g in groups) / 1000


def words(f: Facts, source: str) -> str:
    """Return the text on one plan."""
    out = [f"{source}: {_headline(f)}"]
    if f["groups"]:
        rows = [[kind, str(g["count"]), f"{g['us']:,.2f}", f"{g['us'] / (f['us'] or 1):.1%}"] for kind, g in f["groups"].items()]
        out += ["", *table(["kind", "groups", "us", "share"], rows)]
    else:
        out += ["groups: those that fusion makes"]
    for word, said in DECISIONS.items():
        if f[word]:
            out += ["", f"{said}: {len(f[word])}"]
            out += [f"  {clip_name(name)}{meaning(name) if word == 'apart' else ''}" for name in f[word][:SHOWN]] + _more(f[word])
            out += [f"  ({WHY})"] if word == "apart" else []
    out += ["", f"in slices: {', '.join(f['slices'])}"] if f["slices"] else []
    return "\n".join(out) + "\n"


def meaning(name: str) -> str:
    """Return what an exception of fusion means, behind its name."""
    _, dot, end = name.rpartition(".")
    return f": {ENDINGS.get(end, OPERAND) if dot else SINGLE}"


def _more(items: Sequence[object]) -> list[str]:
    return [f"  and {len(items) - SHOWN:,} more; --json has all"] if len(items) > SHOWN else []


# ---------------------------------------------------------------- two plans

def compare(a: Plan, b: Plan) -> Facts:
    """Return the differences of two plans, as plain values."""
    both = decisions(a), decisions(b)
    said = {word: {"a": sorted(set(both[0][word]) - set(both[1][word])), "b": sorted(set(both[1][word]) - set(both[0][word]))}
            for word in DECISIONS}
    found = sorted(parts(a, b), key=lambda p: -abs(p["b_us"] - p["a_us"]))
    return {"a": describe(a), "b": describe(b), "decisions": {word: x for word, x in said.items() if x["a"] or x["b"]},
            "parts": found, "slices": changed_slices(a, b), "times": other_times(a, b)}


def parts(a: Plan, b: Plan) -> Iterator[Facts]:
    """Yield each connected part of groups that differs: groups of both plans that have nodes in common, directly or through others."""
    sides = (a.groups, b.groups)
    at: tuple[dict[str, int], dict[str, int]] = ({}, {})
    for own, groups in zip(at, sides):
        own.update((name, i) for i, g in enumerate(groups) for name in g.nodes)
    seen: set[tuple[int, int]] = set()
    for start in [(side, i) for side in (0, 1) for i in range(len(sides[side]))]:
        if start in seen:
            continue
        part, open_ = {start}, [start]
        while open_:
            side, i = open_.pop()
            beside = {(1 - side, at[1 - side][name]) for name in sides[side][i].nodes if name in at[1 - side]} - part
            part |= beside
            open_ += beside
        seen |= part
        old, new = ([sides[side][i] for s, i in sorted(part) if s == side] for side in (0, 1))
        if [(g.kind, g.nodes) for g in old] != [(g.kind, g.nodes) for g in new]:
            yield part_facts(old, new, (a, b))


def part_facts(old: Sequence[PlanGroup], new: Sequence[PlanGroup], plans: tuple[Plan, Plan]) -> Facts:
    """Return a part as plain values: its cause, its groups and what they claim before and after, and exceptions of fusion among its
    nodes."""
    names = [{name for g in groups for name in g.nodes} for groups in (old, new)]
    every = names[0] | names[1]
    apart = sorted(x for x in set(plans[0].apart) ^ set(plans[1].apart) if {x, x.rpartition(".")[0]} & every)
    return {"cause": cause(old, new), "a": [group_facts(g) for g in old], "b": [group_facts(g) for g in new], "a_us": total_us(old),
            "b_us": total_us(new), "apart": apart, "only_a": sorted(names[0] - names[1]), "only_b": sorted(names[1] - names[0])}


def cause(old: Sequence[PlanGroup], new: Sequence[PlanGroup]) -> str:
    """Return the kind of change of a part, in a word."""
    if not old or not new:
        return "added" if new else "gone"
    if len(old) == len(new) == 1 and old[0].nodes == new[0].nodes:
        return "kind"
    if {name for g in old for name in g.nodes} != {name for g in new for name in g.nodes}:
        return "other nodes"
    return "split" if len(old) == 1 else "joined" if len(new) == 1 else "regrouped"


def group_facts(g: PlanGroup) -> Facts:
    """Return a group as plain values."""
    return {"name": g.name, "kind": g.kind, "nodes": list(g.nodes), "us": None if g.takes_ns is None else g.takes_ns / 1000}


def regions(plan: Plan) -> dict[frozenset[str], tuple[str, int, float]]:
    """Return the nodes of each region in slices -> (its text, how many slices, µs that its groups claim)."""
    at = {g.name: i for i, g in enumerate(plan.groups)}
    out = {}
    for first, last, count in plan.slices:
        groups = plan.groups[at[first]:at[last] + 1] if plan.groups else ()
        nodes = frozenset(name for g in groups for name in g.nodes) or frozenset((first, last))
        out[nodes] = f"{first}..{last}/{count}", count, total_us(groups)
    return out


def changed_slices(a: Plan, b: Plan) -> list[Facts]:
    """Return the regions that one plan alone has, or in another count, with what their nodes claim in both."""
    both, out = (regions(a), regions(b)), []
    for nodes in {**both[0], **both[1]}:
        old, new = (side.get(nodes) for side in both)
        if old is None or new is None or old[1] != new[1]:
            us = [total_us(g for g in p.groups if not nodes.isdisjoint(g.nodes)) for p in (a, b)]
            out.append({"a": old and old[0], "b": new and new[0], "a_us": us[0], "b_us": us[1]})
    return out


def other_times(a: Plan, b: Plan) -> list[Facts]:
    """Return the groups that both plans have and that claim another time, largest change first: what they read lies otherwise, or schedules
    do."""
    before = {(g.kind, g.nodes): g for g in a.groups}
    pairs = [(before[g.kind, g.nodes], g) for g in b.groups if (g.kind, g.nodes) in before]
    found = [{"a": old.name, "b": new.name, "nodes": list(new.nodes), "a_us": old.takes_ns / 1000, "b_us": new.takes_ns / 1000}
             for old, new in pairs if old.takes_ns is not None and new.takes_ns is not None and old.takes_ns != new.takes_ns]
    return sorted(found, key=lambda x: -abs(x["b_us"] - x["a_us"]))


def compare_words(f: Facts, sources: tuple[str, str]) -> str:
    """Return the text on two plans."""
    a, b = f["a"], f["b"]
    out = [f"A {sources[0]}: {_headline(a)}", f"B {sources[1]}: {_headline(b)}"]
    out += [f"the plans are of two models, {a['plan']} and {b['plan']}"] if a["plan"] != b["plan"] else []
    if a["target"] != b["target"]:
        out += [f"the plans are for two machines, {a['target']} and {b['target']}: their times say nothing of each other"]
    if not any(f[x] for x in ("decisions", "parts", "slices", "times")):
        return "\n".join([*out, "they say the same"]) + "\n"
    for word, both in f["decisions"].items():
        out += ["", f"{DECISIONS[word]}:"]
        for side in ("a", "b"):
            out += [f"  {side.upper()} alone: {clip_name(n)}" for n in both[side][:SHOWN]] + _more(both[side])
    out += _parts_lines(f["parts"])
    if f["slices"]:
        lines = [f"  {x['a'] or 'whole'} -> {x['b'] or 'whole'}: {_change(x)}" for x in f["slices"][:SHOWN]]
        out += ["", "slices:", *lines, *_more(f["slices"])]
    if f["times"]:
        total = {side: sum(x[side] for x in f["times"]) for side in ("a_us", "b_us")}
        out += ["", f"groups of the same nodes that claim another time: {len(f['times'])}, {_change(total)}"]
        out += [*(f"  {x['a']} -> {x['b']} [{_nodes(x['nodes'])}]: {_change(x)}" for x in f["times"][:SHOWN]), *_more(f["times"])]
    return "\n".join(out) + "\n"


def _parts_lines(found: Sequence[Facts]) -> list[str]:
    """Return lines on the parts, by what became of them."""
    if not found:
        return []
    counts = Counter(p["cause"] for p in found)
    out = ["", f"groups that differ, in {plural(len(found), 'part')}: {', '.join(f'{n} {what}' for what, n in counts.items())}"]
    for p in found[:SHOWN]:
        apart = f" (apart: {', '.join(map(clip_name, p['apart'][:NODES]))})" if p["apart"] else ""
        out += [f"  {p['cause']}: {_change(p)}{apart}"]
        out += [f"    {side.upper()}  {g['name']} {g['kind']} [{_nodes(g['nodes'])}]" for side in ("a", "b") for g in p[side][:SHOWN]]
    return out + _more(found)


def _headline(f: Facts) -> str:
    return f"{f['plan']} for {f['target']}, {f['launches']} launches, {f['us']:,.2f} us as claimed, modelled"


def _change(x: Mapping[str, Any]) -> str:
    return f"{x['a_us']:,.2f} -> {x['b_us']:,.2f} us ({x['b_us'] - x['a_us']:+,.2f})"


def _nodes(names: Sequence[str]) -> str:
    return ", ".join(map(clip_name, names[:NODES])) + (f" and {len(names) - NODES} more" if len(names) > NODES else "")
