"""What collectives cost on levels of links, from a start-up time and a rate for each level.

The formulas are the alpha-beta costs of Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication Operations in MPICH"
(IJHPCA 19(1), 2005). There are p ranks, and the whole tensor has n bytes. alpha is the start-up time of a step. A rank takes beta seconds
for a byte that it sends, and gamma seconds for a byte that it adds.

A reduce-scatter takes steps x alpha + (p - 1) / p x n x (beta + gamma). An all-gather takes the same without gamma. There are p - 1 steps
on a ring, and log2 p by halving (or doubling). There is 1 step on a mesh, where each rank has a link to each other one. An all-reduce is a
reduce-scatter and an all-gather.

Halving among p ranks that are no power of two takes more. p' is the largest power of two below p. First, p' ranks add the data of the
others, which costs alpha + n x (beta + gamma). At the end, alpha + n x beta gives the result back (the same paper, section 4.4, in its
simple form).

With several levels, the reduce-scatters begin at the innermost level and go outwards. Each works on the shard that the level below leaves.
The all-gathers come back inwards. HCCL's page on HCCL_ALGO names these levels level0 and level1.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from aoec.collectives.curve import Curve, polynomial

STEPS = {
    "ring": "each rank sends to its neighbour, in ranks - 1 steps",
    "mesh": "each rank sends to all others at once, in one step",
    "halving_doubling": "pairs at distances that double, in log2(ranks) steps",
}


@dataclass(frozen=True, slots=True)
class Level:
    """Links of one kind. `ranks` on this level (of a level above: groups of the level below). `latency_us`: a step's start-up. `gb_per_s`:
    10^9 bytes a second that one rank sends in one direction with this algorithm, over all links that it uses at a time. `reduce_gb_per_s`:
    those that it adds; infinite where adding is not apart. `fixed_us`: what one collective takes besides, once."""

    name: str
    ranks: int
    algorithm: str
    latency_us: float
    gb_per_s: float
    reduce_gb_per_s: float = math.inf
    fixed_us: float = 0.0


def ranks_of(levels: Sequence[Level]) -> int:
    """Return the ranks of all levels together."""
    return math.prod(level.ranks for level in levels)


def curves_of(levels: Sequence[Level]) -> dict[str, Curve]:
    """Return µs by bytes of the whole tensor of each collective."""
    scatter, gather = polynomial([0.0]), polynomial([0.0])
    shard = 1.0  # of the tensor, on this level
    for level in levels:
        scatter = scatter.plus(_pass(level, True).scale(size=shard))
        gather = gather.plus(_pass(level, False).scale(size=shard))
        shard /= level.ranks
    return {"all_reduce": scatter.plus(gather), "reduce_scatter": scatter, "all_gather": gather}


def _pass(level: Level, adds: bool) -> Curve:
    """Return µs by bytes of a reduce-scatter (`adds`) or an all-gather on one level."""
    p = level.ranks
    per_byte = 1e-3 / level.gb_per_s + (1e-3 / level.reduce_gb_per_s if adds else 0.0)
    steps, sent = {"ring": p - 1, "mesh": 1, "halving_doubling": 0}[level.algorithm], (p - 1) / p
    if level.algorithm == "halving_doubling":
        steps = p.bit_length() - 1
        within = 1 << steps
        sent = (within - 1) / within
        if within != p:
            steps, sent = steps + 1, sent + 1
    return polynomial([level.fixed_us + steps * level.latency_us, sent * per_byte])
