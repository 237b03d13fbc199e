"""The resource that binds a program, in the words of the field's reports, and what would help.

As in the vendor's roofline view (hardware reports of `msprof op`): a resource binds from 80 % of its roof on; where none
is held so much, the pipeline's latency binds.
"""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from aoec.simulate.reasons.reasons import Account, Reasons, Wait, Work
from aoec.target.machine import Machine

BINDS = 0.8  # of a roof
NOTABLE = 0.05  # share of the time below which a wait is not worth a word
SLOW_PATH = 0.6  # of a path's rate: below it, instructions are too small or too ragged
MUCH = 0.3  # share of the time that a pipe holds work, from which on its troubles are worth a word
UNEVEN = 1.1  # slowest core over mean
FEW_CORES = 0.5  # share of the cores in use
WORDS = {"M": "compute bound", "V": "vector bound", "FIXP": "fixpipe bound", "S": "scalar bound"}


@dataclass(frozen=True)
class Verdict:
    """`bound`: such as "compute bound"; `resource`: a pipe, HBM, L2, launch or cores; `utilisation`: share of its roof, 0 to 1."""

    bound: str
    resource: str
    utilisation: float
    sentence: str
    advice: tuple[str, ...]


def verdict(r: Reasons, launch_us: float, run_us: float, machine: Machine) -> Verdict:
    """Return what binds a program whose run and launch take so long."""
    bound, resource, share, words = _binding(r, launch_us, run_us)
    return Verdict(bound, resource, share, f"{bound}: {words}", tuple(dict.fromkeys(_advice(r, resource, machine))))


def _binding(r: Reasons, launch_us: float, run_us: float) -> tuple[str, str, float, str]:
    """Return (bound, resource, share of its roof, why in words)."""
    if launch_us >= run_us:
        share = launch_us / (launch_us + run_us)
        return "launch bound", "launch", share, f"{_percent(share)} of the time is the launch ({launch_us:,.2f} us)"
    for resource, share in (("HBM", r.hbm_held), ("L2", r.l2_held)):  # before the cores: more of them would wait for the same memory
        if share >= BINDS:
            return f"memory bound ({resource})", resource, share, f"{resource} is held {_percent(share)} of the time"
    few = _few_cores(r)
    if few:
        stream, used, there = few
        return "insufficient parallelism", "cores", used / there, f"{used} of {there} cores of stream {stream} have work"
    pipe, account = _busiest(r)
    share, name = account.held_share, pipe.rpartition(".")[2]
    if share < BINDS:
        return "latency bound: pipeline", pipe, share, f"no pipe is busy more than {_percent(share)} of the time ({pipe})"
    words = f"{pipe} is busy {_percent(share)} of the time"
    if account.memory > account.busy:
        return "memory bound", pipe, share, words + ", more than half of it because cores share the memory"
    return WORDS.get(name, f"{name} bound"), pipe, share, words


def _few_cores(r: Reasons) -> tuple[str, int, int] | None:
    """Return (stream, cores used, cores there) of the stream that uses the largest share, where that is too small."""
    stream = max(r.cores, key=lambda s: r.cores[s][0] / r.cores[s][1])
    used, there = r.cores[stream]
    return (stream, used, there) if used <= there * FEW_CORES else None


def _busiest(r: Reasons) -> tuple[str, Account]:
    pipe = max(r.accounts, key=lambda p: r.accounts[p].held_share, default="")
    return pipe, r.accounts.get(pipe, Account(*[0.0] * 10))


# ---------------------------------------------------------------- what would help

def _advice(r: Reasons, resource: str, machine: Machine) -> Iterator[str]:
    """Yield sentences, the weightiest first."""
    if resource == "cores":
        yield "split the work over more cores: a grid of more parts, or a split of the reduction where the result is small"
    if resource == "launch":
        yield "fuse it with a neighbour, or give it fewer cores: each adds to the launch"
    if resource in ("HBM", "L2"):
        yield "move fewer bytes: larger tiles, an order of tiles that finds them in L2, or fusion with a neighbour"
    yield from _waiting(r, resource)
    if resource not in ("HBM", "L2"):
        yield from _small_transfers(r, machine)
    yield from _scalar(r, resource)
    if r.imbalance >= UNEVEN:
        yield (f"the slowest core takes {r.imbalance:.2f} times the mean of all cores: choose tiles that divide the work more evenly")


def _waiting(r: Reasons, resource: str) -> Iterator[str]:
    """Yield remarks on waits for slots that a second slot would end, and on what the busiest pipe waits for."""
    for w in r.waits:
        total = r.accounts[w.pipe].total
        if w.cycles < NOTABLE * total:
            continue
        if w.why == "slot" and w.depth == 1:
            yield (f"{w.pipe} waits {_percent(w.cycles / total)} of the time for a free slot of {w.buffer}, which has one slot: "
                   f"depth 2 would let it work on the next tile while {w.source} uses this one")
        elif w.pipe == resource:
            yield f"{waiting(w)} {_percent(w.cycles / total)} of the time"


def waiting(w: Wait) -> str:
    """Return a phrase such as "M waits for data in A_L0A from MTE1"."""
    what = {"data": f"data in {w.buffer} from {w.source}", "slot": f"a free slot of {w.buffer} from {w.source}",
            "cross": f"the cores of stream {w.source}"}
    return f"{w.pipe} waits for {what.get(w.why, f'a flag from {w.source}')}"


def _small_transfers(r: Reasons, machine: Machine) -> Iterator[str]:
    """Yield remarks on transfers that reach much less than their path's rate, even without what sharing costs."""
    for w in r.work:
        account, peak = r.accounts[w.pipe], path_rate(w, r, machine)
        alone = w.cycles * account.busy / max(account.busy + account.memory, 1e-9)
        if not (peak and w.gm_bytes and w.cycles > NOTABLE * account.total and account.held_share > MUCH):
            continue
        rate = w.gm_bytes * w.times / max(alone, 1e-9)
        if rate < SLOW_PATH * peak:
            yield (f"{w.op} for {w.buffer} moves {w.shape} at {rate:,.0f} bytes a cycle of the {peak:,.0f} that its path gives: "
                   "larger or better aligned pieces would help")


def path_rate(w: Work, r: Reasons, machine: Machine) -> float:
    """Return bytes a cycle that an instruction's path gives, at the program's share of L2 hits on it; 0 where it has none."""
    source, _, target = w.path.partition("->")
    found = next((p for p in machine.paths.values() if p.source == source and p.target == target), None)
    moved = r.bytes_by_path.get(w.path)
    if found is None or not moved or not sum(moved.values()):
        return 0.0
    return sum(moved.values()) / (moved["hbm"] / found.bytes_per_cycle + moved["l2"] / found.l2_bytes_per_cycle)


def _scalar(r: Reasons, resource: str) -> Iterator[str]:
    """Yield remarks on a scalar unit that holds up the busiest pipe, or another pipe that has much to do."""
    for pipe, a in r.accounts.items():
        stream, dot, name = pipe.rpartition(".")
        if name == "S" or a.issue <= NOTABLE * a.total or (pipe != resource and a.held_share < MUCH):
            continue
        full = r.accounts[f"{stream}{dot}S"].queue > a.issue
        why = "stands before the full queue of another pipe: fewer, larger instructions there, or this one issued earlier," if full else \
            "has not issued its next instruction: fewer, larger instructions"
        yield f"{pipe} is idle {_percent(a.issue / a.total)} of the time because the scalar unit {why} would help"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
