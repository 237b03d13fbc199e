"""A profile of a device beside ours, operator by operator, largest difference first: `aoec explain --op-summary`."""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from aoec.artifact.artifact import load_gears
from aoec.cann.op_summary_join import Joined, Timed, join, list_timed, share
from aoec.cann.op_summary_read import read
from aoec.jobs.deliver.profile import ends_of
from aoec.report.reasons import table
from aoec.target.machine import load, parse_machine

HEADS = ("operator", "calls", "theirs µs", "ours µs", "theirs/ours", "all calls off by µs", "cores", "first called")
SHOWN = 40  # of each list
NAME = 48


def operators(path: str) -> tuple[list[Timed], list[str]]:
    """Return (the different operators of a profile, or of a compiled model, whose times are modelled; what of the file is not used)."""
    if path.endswith(".aoec"):
        return compiled_operators(path), []
    profile = read(path)
    return list_timed(profile), profile.notes


def compiled_operators(path: str) -> list[Timed]:
    """Return the groups of a compiled model (of its first gear) that run on the AI Core. Times are modelled, for each alone in its place,
    launch included."""
    a = load_gears(path)[0]
    machine = parse_machine(a.machine, path) if a.machine else load(a.target)
    ops, tensors = {n.name: n.op for n in a.graph.nodes}, {t.name: t for t in a.graph.tensors}
    nodes = {g.name: g.nodes for g in a.graph.groups}
    return [Timed(tuple(ops[n] for n in nodes[g.group]), *ends_of(g.program, dict(g.bindings), tensors), g.ticks * machine.us_per_tick,
                  "modelled", nodes[g.group][:1]) for g in a.groups if g.program is not None]


def join_profiles(theirs: Sequence[Timed], ours: Sequence[Timed]) -> list[Joined]:
    """Return what both have, largest difference over all calls first."""
    found = [Joined(theirs[i], ours[j]) for i, j in join(theirs, ours)]
    return sorted(found, key=lambda j: -j.off_us)


def facts(theirs: Sequence[Timed], ours: Sequence[Timed], sources: tuple[str, str]) -> dict[str, Any]:
    """Return the join as plain values; times in µs, each with its kind."""
    pairs = join(theirs, ours)
    mine, yours = {j for _, j in pairs}, {i for i, _ in pairs}
    return {
        "theirs": {"source": sources[0], "operators": len(theirs), "share_joined": share(theirs, yours)},
        "ours": {"source": sources[1], "operators": len(ours), "share_joined": share(ours, mine)},
        "joined": [{"work": str(j.theirs.work), "theirs_by_ours": j.ratio, "off_us": j.off_us, "theirs": one(j.theirs), "ours": one(j.ours)}
                   for j in join_profiles(theirs, ours)],
        "theirs_alone": [one(t) for t in list_unmatched(theirs, yours)], "ours_alone": [one(t) for t in list_unmatched(ours, mine)],
    }


def list_unmatched(of: Sequence[Timed], places: Iterable[int]) -> list[Timed]:
    """Return those that the other side has not, longest first."""
    met = set(places)
    return sorted((t for i, t in enumerate(of) if i not in met), key=lambda t: -t.us * t.calls)


def one(t: Timed) -> dict[str, Any]:
    """Return a side's operator as plain values."""
    return {"types": list(t.types), "inputs": [asdict(o) for o in t.inputs], "outputs": [asdict(o) for o in t.outputs], "us": t.us,
            "least_us": t.least_us, "most_us": t.most_us, "kind": t.kind, "calls": t.calls, "cores": t.cores, "names": list(t.names[:8])}


def describe_join(theirs: Sequence[Timed], ours: Sequence[Timed], sources: tuple[str, str]) -> str:
    """Return the join for people."""
    pairs, found = join(theirs, ours), join_profiles(theirs, ours)
    kinds = [next((t.kind for t in side), "modelled") for side in (theirs, ours)]
    rows = [(str(j.theirs.work), f"{j.theirs.calls:,}", f"{j.theirs.us:,.2f}", f"{j.ours.us:,.2f}", f"{j.ratio:.2f}", f"{j.off_us:,.1f}",
             " ".join("-" if c is None else str(c) for c in (j.theirs.cores, j.ours.cores)), clip(next(iter(j.theirs.names), "-")))
            for j in found[:SHOWN]]
    head = [f"theirs: {sources[0]} ({kinds[0]}), {len(theirs)} different operators; ours: {sources[1]} ({kinds[1]}), {len(ours)}",
            f"found in both: {len(found)}, which take {share(theirs, (i for i, _ in pairs)):.1%} of theirs and "
            f"{share(ours, (j for _, j in pairs)):.1%} of ours", ""]
    more = [f"and {len(found) - SHOWN} more; --json has all"] if len(found) > SHOWN else []
    return "\n".join([*head, *(table(HEADS, rows) if rows else []), *more, *rest("theirs", theirs, (i for i, _ in pairs)),
                      *rest("ours", ours, (j for _, j in pairs)), "", LEGEND]) + "\n"


LEGEND = ("A time is the median of the calls of one operator with equal shapes; cores: theirs and ours. What a profiler counts of a launch "
          "is in theirs;\nours of a model's file are without what a queue of ready tasks hides.")


def rest(whose: str, of: Sequence[Timed], places: Iterable[int]) -> list[str]:
    """Return what one side has alone, in words."""
    found = list_unmatched(of, places)
    lines = [f"  {t.us * t.calls:12,.1f}  {t.calls:5,}  {t.work or '+'.join(t.types)}  {clip(next(iter(t.names), ''))}".rstrip()
             for t in found[:SHOWN // 4]]
    more = [f"  and {len(found) - SHOWN // 4} more"] if len(found) > SHOWN // 4 else []
    return ["", f"in {whose} alone ({len(found)}): µs of all calls, calls, operator", *lines, *more] if found else []


def clip(name: str) -> str:
    """Return a name of at most NAME characters."""
    return name if len(name) <= NAME else name[:NAME - 3] + "..."
