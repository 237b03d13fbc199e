"""Seeded machines: what varies, how far, and that structure does not."""
from __future__ import annotations

import pytest

from aoec.target.machine import load, parse_machine, targets
from aoec.target.vary import FIXED, SPREAD, ratio, varies, vary_machine

SEEDS = range(32)


@pytest.mark.parametrize("name", ["Ascend910B3", "Ascend310P3", "toy"])
def test_numbers_stay_within_their_confidence_and_use_it(name):
    machine = load(name)
    seen: dict[str, list[float]] = {}
    for seed in SEEDS:
        m = vary_machine(machine, seed)
        for place, n in machine.sources.items():
            r = m.sources[place].value / n.value if n.value else 1.0
            seen.setdefault(n.confidence if varies(place, machine) else "fixed", []).append(r)
    assert set(seen["fixed"]) == {1.0}
    for confidence, ratios in seen.items():
        if confidence != "fixed":
            most = 1 + SPREAD[confidence]
            assert 1 / most * 0.999 <= min(ratios) < most ** -0.8 and most ** 0.8 < max(ratios) <= most * 1.001


@pytest.mark.parametrize("name", targets())
def test_structure_never_varies(name):
    machine, m = load(name), vary_machine(load(name), 5)
    kinds, others = ({k: (c.count, c.pipes, c.queue_depth) for k, c in x.cores.items()} for x in (m, machine))  # heads and buses are costs
    assert (kinds, m.scopes, m.tables["kf"], m.flag_ids, m.l2_size_bytes, m.memory_bytes) == (
        others, machine.scopes, machine.tables["kf"], machine.flag_ids, machine.l2_size_bytes, machine.memory_bytes)
    assert m.timing is machine.timing and m.name == machine.name and m.hash != machine.hash
    assert all(m.constants[n] == machine.constants[n] for n in FIXED if n in machine.constants)
    assert m.l2_usable_bytes <= m.l2_size_bytes and m.clock_mhz != machine.clock_mhz


def test_a_seed_is_a_machine():
    machine = load()
    assert vary_machine(machine, 3).hash == vary_machine(machine, 3).hash != vary_machine(machine, 4).hash


def test_a_new_number_changes_no_other():
    text = 'name = "more"\nextends = "toy"\nnumbers.new = {value = 1, source = "x", confidence = "estimate"}\n'
    more, toy = vary_machine(parse_machine(text), 7), vary_machine(load("toy"), 7)
    assert {p: n.value for p, n in more.sources.items() if p != "numbers.new"} == {p: n.value for p, n in toy.sources.items()}


def test_a_path_rate_reaches_the_formulas():
    machine = load("toy")
    m = vary_machine(machine, 1)
    wanted = 32 * ratio("paths.gm_l1.bytes_per_cycle", "estimate", 1)
    assert m.constants["gm_l1_rate"] == m.paths["gm_l1"].bytes_per_cycle == pytest.approx(wanted)
