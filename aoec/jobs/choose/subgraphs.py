"""Subgraph tuning (SGAT): which groups of each subgraph run in slices. A bank's plan says so, or a search, whose result is put into the
bank.

A subgraph is what AOE tunes as one: groups on the AI Core that follow each other. A plan from anywhere is only a claim. A model with it is
scheduled and timed like any other, and it is used where it is faster.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import groupby

from aoec.bank.bank import Bank
from aoec.bank.claims import kept_plans
from aoec.bank.plans import SlicePlan
from aoec.base import regions as words
from aoec.base.errors import BankError
from aoec.base.keys import digest
from aoec.ir.graph.graph import Graph
from aoec.ir.text.keys import key
from aoec.ir.text.show import show
from aoec.jobs.choose import slices
from aoec.jobs.choose.slice_plans import Planned, Tuned
from aoec.jobs.compile.compiled_model import Made
from aoec.jobs.context import Job
from aoec.jobs.tune.budget import Until
from aoec.jobs.version import model_version
from aoec.options.compile import CompileOptions
from aoec.report.results.opat import Outcome
from aoec.target.machine import Machine

Asked = slices.Asked
Cut = Callable[[Asked], "Made | str"]  # the model with regions in slices, or why it cannot be had


@dataclass(frozen=True)
class Subgraph:
    """Groups in order, and the key of what they are and, `schedules`, of how each runs whole."""

    groups: tuple[str, ...]
    graph_key: str
    schedules: str


def plan_slices(made: Made, context: Job, cut: Cut, until: Until) -> Planned:
    """Return the model with its plan of slices. With slices "bank" of the options nothing is looked for. Raise BankError where something is
    to be, which --frozen forbids. `until`: when looking ends."""
    options, bank, say = context.options, context.bank, context.voice.say
    search = options.slicing.source == "search"
    if made.model.graph.bodies:
        if search and options.slices is not None:
            say("slices: a model whose control flow is walked is not sliced")
        return Planned(made)
    known = [p for p in plans(bank, context.machine) if p.metric == options.metric]
    if not search and not any(p.is_faster for p in known):
        return Planned(made)
    job = SubgraphJob(made, known, context.machine, options)
    missing = job.missing() if search else []
    if missing and options.frozen:
        raise BankError(f"bank {bank.path} has no plan of slices of {made.model.name}, and --frozen forbids to look for one: without "
                        "--slices auto, the model is compiled whole")
    out, regions = job.best(missing, cut, say, until)
    tuned = list(job.outcomes(out, regions, missing)) if regions is not None else []
    return Planned(out, tuned, job.was[0] if job.was else None, until.over)


def keep(bank: Bank, found: Iterable[Tuned], asked: bool) -> None:
    """Put the plans into the bank where it can be written. Where slices were not `asked` for, put only plans that are faster."""
    if bank.writable and (kept := [t.plan for t in found if asked or t.plan.is_faster]):
        bank.plans.put_all(kept)


class SubgraphJob:
    """The subgraphs of a compiled model, and what a bank has kept of them."""

    def __init__(self, made: Made, kept: Sequence[SlicePlan], machine: Machine, options: CompileOptions) -> None:
        self.made, self.machine, self.options = made, machine, options
        self.subgraphs = subgraphs(made.model.graph, {c.task.group.name: show(c.best.trace) for c in made.choices})
        self.whole_us = spans_us(made, options.metric)
        self.held = {s: plan_of(s, kept) for s in self.subgraphs}
        self.was: tuple[Made, dict[Subgraph, Asked]] | None = None  # the model by the bank's plan, and its regions

    def exact(self, s: Subgraph) -> SlicePlan | None:
        """Return what the bank has kept of a subgraph with these schedules."""
        found = self.held[s]
        return found if found is not None and found.schedules == s.schedules else None

    def missing(self) -> list[Subgraph]:
        """Return the subgraphs for which a plan is to be looked for."""
        return [s for s in self.subgraphs if self.options.repeat or self.exact(s) is None]

    def best(self, missing: Sequence[Subgraph], cut: Cut, say: Callable[[str], None],
             until: Until) -> tuple[Made, dict[Subgraph, Asked] | None]:
        """Return the fastest of three forms, with its regions, and report it. The forms are the model whole, as a search of the `missing`
        has it, and as the bank has it. The regions are None where nothing is known of them, because options forbid what would be needed to
        know them."""
        known = {s: plan_regions(p.regions, s) for s, p in self.held.items() if p is not None}
        banked = {s: r for s, r in known.items() if r}
        offers = {"by the bank's plan": banked}
        if missing:
            found = slices.find_regions(self.made.model.graph, {c.task.group.name: c.best for c in self.made.choices}, self.machine, until)
            fresh = {s: r for s, r in (banked | {s: own(found, s) for s in missing}).items() if r}
            offers |= {"as found": fresh} if fresh != banked else {}
        best, chosen, why, refused = self.made, dict[Subgraph, Asked](), "", ""
        for name, offer in offers.items():
            got = self.try_regions({s: r for s, r in offer.items() if r}, cut)
            if got is not None and not isinstance(got, str) and offer is banked:
                self.was = got
            if isinstance(got, str):
                refused = got
            elif got is not None and slices.faster(best.lines.tuned, got[0].lines.tuned, self.options.metric):
                (best, chosen), why = got, name
        if chosen:
            say(slices.gain(self.made.lines.tuned, best.lines.tuned, self.options.metric) + f", {why}")
        elif refused:
            say(f"slices: there are regions of groups that may be faster in slices, and they are not taken: {refused}")
            return best, None
        elif self.options.slices is not None or not missing:
            say(f"slices: {'no region of groups is faster in slices' if missing else 'the bank has a plan that is no faster'} than whole")
        return best, chosen

    def try_regions(self, offer: Mapping[Subgraph, Asked], cut: Cut) -> tuple[Made, dict[Subgraph, Asked]] | str | None:
        """Return the model with these regions in slices, without those of subgraphs that then take longer. Return None where none are left,
        or why there is no such model."""
        if not offer:
            return None
        out = cut(inside(self.made.model.graph, offer.values()))
        if isinstance(out, str):
            return out
        after = spans_us(out, self.options.metric)
        less = {s: r for s, r in offer.items() if ns(after[self.place(s)]) < ns(self.whole_us[self.place(s)])}
        return (out, less) if len(less) == len(offer) else self.try_regions(less, cut)

    def place(self, s: Subgraph) -> int:
        return self.subgraphs.index(s)

    def outcomes(self, out: Made, chosen: Mapping[Subgraph, Asked], missing: Sequence[Subgraph]) -> Iterator[Tuned]:
        """Yield what became of each subgraph in the model as it is now."""
        after_us, before_us, had_regions = spans_us(out, self.options.metric), self.whole_us, dict[Subgraph, Asked]()
        if self.was and slices.faster(self.made.lines.tuned, self.was[0].lines.tuned, self.options.metric):
            before_us, had_regions = spans_us(self.was[0], self.options.metric), self.was[1]
        for i, s in enumerate(self.subgraphs):
            text = words.show(place_regions(chosen.get(s, ()), s))
            plan = SlicePlan(s.graph_key, self.machine.name, self.machine.hash, model_version(), s.schedules, self.options.metric,
                        self.made.model.name[:200], text, ns(self.whole_us[i]), ns(after_us[i] if text else self.whole_us[i]),
                        f"aoec {version('aoec')}", f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}")
            better = s in missing and plan.after_ns < ns(before_us[i])
            outcome = (Outcome.UPDATE if better else Outcome.RESERVED) if had_regions.get(s) else \
                Outcome.ADD if text else Outcome.UNSATISFIED
            yield Tuned(len(s.groups), plan, before_us[i], outcome)


def ns(us: float) -> int:
    """Return a time in whole nanoseconds, one at least."""
    return max(1, round(1000 * us))


def plans(bank: Bank, machine: Machine) -> list[SlicePlan]:
    """Return what a bank, and then what lies beneath it, has kept of this machine and model."""
    return [p for p in kept_plans(bank, machine.name) if (p.machine_hash, p.model_version) == (machine.hash, model_version())]


def plan_of(s: Subgraph, kept: Iterable[SlicePlan]) -> SlicePlan | None:
    """Return what is kept of a subgraph: by the same schedules first, then what gained most."""
    of = [p for p in kept if p.graph_key == s.graph_key]
    return min(of, key=lambda p: (p.schedules != s.schedules, not p.is_faster, p.after_ns / p.before_ns, p), default=None)


# ---------------------------------------------------------------- subgraphs

def subgraphs(graph: Graph, traces: Mapping[str, str]) -> list[Subgraph]:
    """Return the subgraphs of a fused graph, in order. `traces`: the schedules of its groups."""
    return [Subgraph(run, key(subgraph(graph, run)), digest("\n".join(traces.get(name, "") for name in run))[:16]) for run in runs(graph)]


def runs(graph: Graph) -> list[tuple[str, ...]]:
    """Return the groups of each subgraph."""
    found = [list(run) for host, run in groupby(graph.groups, lambda g: g.kind == "host") if not host]
    return [tuple(g.name for g in run) for run in found if any(g.kind != "view" for g in run)]


def subgraph(graph: Graph, names: Sequence[str]) -> Graph:
    """Return the graph of some groups that follow each other; constants are what they are, and not what they hold."""
    groups = tuple(g for g in graph.groups if g.name in set(names))
    own = {name for g in groups for name in g.nodes}
    nodes = tuple(n for n in graph.nodes if n.name in own)
    made = {o for n in nodes for o in n.outputs}
    read = dict.fromkeys(i for n in nodes for i in n.inputs if i)
    later = {i for n in graph.nodes if n.name not in own for i in n.inputs} | set(graph.outputs)
    tensors = {t.name: replace(t, data="") for t in graph.tensors}
    inputs = tuple(i for i in read if i not in made)
    return Graph("subgraph", inputs, tuple(o for n in nodes for o in n.outputs if o in later),
                 tuple(tensors[t] for t in dict.fromkeys([*inputs, *read, *(o for n in nodes for o in n.outputs)])), nodes, groups)


def spans_us(made: Made, metric: str) -> list[float]:
    """Return the modelled time of each subgraph: its share of one inference or of the time between two, whichever a model is tuned for. It
    counts from the end of what is before the subgraph to its own end, its slices included."""
    at = {name: i for i, run in enumerate(runs(made.model.graph)) for name in run}
    spans: list[list[tuple[float, float]]] = [[] for _ in set(at.values())]
    line = made.lines.tuned
    for c, span in zip(made.choices, line.steady_us if metric == "throughput" else line.spans_us):
        if c.task.group.name in at:
            spans[at[c.task.group.name]].append(span)
    ends = [0.0, *(own[-1][1] for own in spans if own)]
    return [own[-1][1] - before if own else 0.0 for own, before in zip(spans, ends)]


def plan_regions(text: str, s: Subgraph) -> Asked:
    """Return the regions of a plan, by the names of a subgraph's groups; none where they are not of it."""
    found = words.regions(text) if text else ()
    if any(int(g[1:]) >= len(s.groups) for first, last, _ in found for g in (first, last)):
        return ()
    return [(s.groups[int(first[1:])], s.groups[int(last[1:])], n) for first, last, n in found]


def place_regions(regions: Asked, s: Subgraph) -> Asked:
    """Return regions by the places of their groups in a subgraph."""
    return [(f"g{s.groups.index(first)}", f"g{s.groups.index(last)}", n) for first, last, n in regions]


def own(regions: Asked, s: Subgraph) -> Asked:
    """Return the regions of a subgraph among those of a model."""
    return [r for r in regions if r[0] in s.groups]


def inside(graph: Graph, regions: Iterable[Asked]) -> Asked:
    """Return regions of several subgraphs in the order of the groups."""
    at = {g.name: i for i, g in enumerate(graph.groups)}
    return sorted((r for some in regions for r in some), key=lambda r: at[r[0]])
