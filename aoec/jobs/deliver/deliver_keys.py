"""Operators of the user's own CANN, from a profile or a dumped graph. They are matched exactly to ours by the work that they do."""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import prod

from aoec.base.errors import CheckError
from aoec.base.text import plural
from aoec.cann import graph_dump, op_summary_read
from aoec.cann.op_summary_join import Work, work
from aoec.cann.seen import Seen
from aoec.jobs.deliver.deliver_entries import Entry
from aoec.options.exchange import DeliverOptions


@dataclass(frozen=True)
class Keys:
    """What CANN calls our groups: `found` by the name of an entry, `alone` what none of ours does. `source`: the file, "" for none; `kind`:
    of its times, measured or modelled."""

    source: str = ""
    kind: str = ""
    found: dict[str, tuple[Seen, ...]] = field(default_factory=dict)
    alone: tuple[Seen, ...] = ()

    def share(self, names: Iterable[str]) -> tuple[float, float] | None:
        """Return (time of all operators of the file, time of those behind the entries of these names). Return None where the file has no
        times."""
        listed = {id(s): s for one in self.found.values() for s in one}
        total = sum(s.all_us for s in (*listed.values(), *self.alone))
        those = {id(s): s for name in names for s in self.found.get(name, ())}
        return (total, sum(s.all_us for s in those.values())) if total else None


@dataclass(frozen=True)
class Theirs:
    """What the user's file lists; the fields are those of Keys."""

    source: str
    kind: str
    seen: tuple[Seen, ...]


def theirs(options: DeliverOptions) -> Theirs | None:
    """Return the operators of the file that is given, if one is."""
    if options.op_summary:
        profile = op_summary_read.read(options.op_summary)
        if profile.kind == "modelled":
            raise CheckError(f"{options.op_summary} is aoec's own file: its operators are aoec's and its times modelled; give msprof's, of "
                             "a device")
        return Theirs(options.op_summary, profile.kind, of_profile(profile))
    return Theirs(options.graph, "", graph_dump.read(options.graph)) if options.graph else None


def keys(listed: Theirs | None, entries: Sequence[Entry]) -> Keys:
    """Return the keys that the user's file gives. Raise CheckError where it has none of these operators."""
    if listed is None:
        return Keys()
    path, seen = listed.source, listed.seen
    by_work: dict[Work, list[Seen]] = {}
    for one in seen:
        if (does := work((one.type,), one.inputs, one.outputs)) is not None:
            by_work.setdefault(does, []).append(one)
    equal = {e.name: nearest(e, by_work.get(does, ())) for e in entries if (does := work_of(e)) is not None}
    found = {name: listed for name, listed in equal.items() if listed}
    if not any(e.name in found for e in entries if e.kind == "cube"):
        raise CheckError(f"{path} has {plural(len(seen), 'operator')}, and none is a matrix product or convolution of these sizes: "
                         f"{sizes(entries)}. Is it of another model, or of other input shapes?")
    taken = {id(one) for listed in found.values() for one in listed}
    return Keys(path, listed.kind, found, tuple(one for one in seen if id(one) not in taken))


def nearest(entry: Entry, listed: Sequence[Seen]) -> tuple[Seen, ...]:
    """Return the operators of equal work that are alike. Where some of these have as many inputs, return only those: a bias is part of a
    key."""
    found = tuple(s for s in listed if alike(entry, s))
    return tuple(s for s in found if len(s.inputs) == len(entry.inputs)) or found


def alike(entry: Entry, seen: Seen) -> bool:
    """Return whether what lies in rows on both sides has as many elements: work is compared in whole fractals."""
    pairs = [(a, b) for mine, theirs in ((entry.inputs[:2], seen.inputs), (entry.outputs, seen.outputs)) for a, b in zip(mine, theirs)]
    return all(prod(a.shape) == prod(b.shape) for a, b in pairs if a.layout == b.layout == "ND")


def of_profile(profile: op_summary_read.Profile) -> tuple[Seen, ...]:
    """Return the operators of an op_summary, those that are called several times once, with the mean of their measured times."""
    rows: dict[tuple[object, ...], list[op_summary_read.Row]] = {}
    for row in profile.rows:
        rows.setdefault((row.name, row.type, row.inputs, row.outputs), []).append(row)
    return tuple(Seen(r[0].name, r[0].type, r[0].inputs, r[0].outputs, sum(x.duration_us for x in r) / len(r), len(r))
                 for r in rows.values())


def work_of(entry: Entry) -> Work | None:
    """Return what an entry does, as a profile would show it."""
    return work(entry.types, entry.inputs, entry.outputs)


def sizes(entries: Iterable[Entry]) -> str:
    """Return a few of the products and convolutions, in words."""
    listed = [e.what for e in entries if e.kind == "cube"]
    return "; ".join(listed[:3]) + f" and {len(listed) - 3} more" * (len(listed) > 3)
