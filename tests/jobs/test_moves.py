"""Moves beside products that stay launches: decided by modelled time, said once for products that are alike."""
from __future__ import annotations

from math import inf

from aoec.jobs.choose.alone import time_groups
from aoec.jobs.choose.moves import Kept, kept_moves, sentences
from aoec.lowering.arrange.fuse import fuse
from aoec.target.machine import load
from tests.laws.test_folds import Net


def narrow(count: int) -> Net:
    """Heads of three elements, in many rows."""
    net = Net((1, count, 2 * 16 * 3))
    heads = []
    for part in range(2):
        net.last = "x"
        net.slice(2, 48 * part, 48)
        net.reshape(1, count, 16, 3)
        heads.append(net.transpose(0, 2, 1, 3))
    net.last = heads[0]
    net.square(heads[1])
    return net


def test_what_is_chosen_is_the_fastest_way() -> None:
    for target in ("Ascend910B3", "Ascend310P3"):
        machine = load(target)
        graph = narrow(64).graph()
        folded = fuse(graph, {}, machine)[0]
        kept = kept_moves(folded, machine)
        chosen = fuse(graph, {}, machine, [e for k in kept for e in k.exceptions])[0]
        assert time_groups(chosen, machine) <= time_groups(folded, machine)
        for k in kept:
            assert k.kept_us < k.folded_us and k.product in {n.name for n in graph.nodes}


def test_alike_products_are_said_once() -> None:
    kept = [Kept("a", ("a.b",), 2.06, 3.4), Kept("c", ("c.b",), 1.5, inf), Kept("b", ("b.b",), 2.06, 3.4)]
    assert sentences(kept) == ["a and 1 other: moves beside it kept, 2.1 us against 3.4 us folded, modelled",
                               "c: moves beside it kept, 1.5 us against no schedule folded, modelled"]
