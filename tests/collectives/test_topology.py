"""Formulas of a topology, held against messages that are counted step by step."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aoec.collectives.system import load
from aoec.collectives.topology import Level, curves_of, ranks_of


def count_scatter(algorithm: str, ranks: int, size: float) -> tuple[int, float]:
    """Return (steps, bytes that the busiest rank sends) of a reduce-scatter, by playing it: each rank ends with its chunk summed over all
    ranks. `holds[r][c]` is the set of ranks whose part of chunk c rank r has summed."""
    holds = [[{r} for _ in range(ranks)] for r in range(ranks)]
    chunk, steps, sent = size / ranks, 0, 0.0
    if algorithm == "ring":
        for step in range(ranks - 1):
            moves = [(r, (r + 1) % ranks, (r - step - 1) % ranks) for r in range(ranks)]
            before = [[set(x) for x in row] for row in holds]
            for r, to, c in moves:
                holds[to][c] |= before[r][c]
            steps, sent = steps + 1, sent + chunk
    elif algorithm == "mesh":
        before = [[set(x) for x in row] for row in holds]
        for r in range(ranks):
            for to in range(ranks):
                holds[to][to] |= before[r][to]
        steps, sent = 1, (ranks - 1) * chunk
    else:
        blocks = [(0, ranks) for _ in range(ranks)]
        distance = ranks // 2
        while distance:
            before = [[set(x) for x in row] for row in holds]
            for r in range(ranks):
                low, high = blocks[r]
                middle = (low + high) // 2
                keeps = (low, middle) if not r & distance else (middle, high)
                for c in range(*keeps):
                    holds[r][c] |= before[r ^ distance][c]
                blocks[r] = keeps
            steps, sent, distance = steps + 1, sent + distance * chunk, distance // 2
    assert all(holds[r][r] == set(range(ranks)) for r in range(ranks)), algorithm
    return steps, sent


@given(st.sampled_from(["ring", "mesh", "halving_doubling"]), st.integers(1, 5), st.floats(0, 100), st.floats(0.1, 500),
       st.integers(1, 10**9))
def test_a_level_costs_its_steps_and_its_bytes(algorithm: str, power: int, latency: float, rate: float, size: int) -> None:
    ranks = 2**power
    steps, sent = count_scatter(algorithm, ranks, size)
    curves = curves_of([Level("l", ranks, algorithm, latency, rate)])
    expected = steps * latency + sent / rate / 1e3
    assert curves["reduce_scatter"].us(size) == pytest.approx(expected)
    assert curves["all_gather"].us(size) == pytest.approx(expected)
    assert curves["all_reduce"].us(size) == pytest.approx(2 * expected)


def test_ranks_that_are_no_power_of_two_fold_first() -> None:
    six, four = (curves_of([Level("l", n, "halving_doubling", 10, 1)])["all_gather"] for n in (6, 4))
    assert six.us(1e6) == pytest.approx(four.us(1e6) + 10 + 1000)


def test_two_levels_work_on_the_shard_of_the_first() -> None:
    inner, outer = Level("in", 8, "mesh", 5, 100), Level("out", 4, "ring", 50, 10)
    both = curves_of([inner, outer])
    alone = [curves_of([level])["reduce_scatter"] for level in (inner, outer)]
    n = 64e6
    assert ranks_of([inner, outer]) == 32
    assert both["reduce_scatter"].us(n) == pytest.approx(alone[0].us(n) + alone[1].us(n / 8))
    # what all ranks must receive of others at least, over the links that lead out of a server
    assert both["all_reduce"].us(n) >= 2 * (3 / 4) * n / 8 / 10 / 1e3


def test_adding_takes_time_in_a_reduce_scatter_alone() -> None:
    curves = curves_of([Level("l", 4, "ring", 0, 10, reduce_gb_per_s=20, fixed_us=3)])
    assert curves["all_gather"].us(1e6) == pytest.approx(3 + 75)
    assert curves["reduce_scatter"].us(1e6) == pytest.approx(3 + 75 + 37.5)


def test_a_file_of_two_numbers_a_level(tmp_path: Path) -> None:
    path = tmp_path / "cluster.toml"
    path.write_text("""
title = "4 servers of 8"
[[level]]
name = "server"
ranks = 8
algorithm = "mesh"
latency_us = 5
gb_per_s = 100
[[level]]
name = "network"
ranks = 4
algorithm = "halving_doubling"
latency_us = {value = 20, source = "ib_write_lat", confidence = "measured"}
gb_per_s = 12.5
""", "utf-8")
    system = load(str(path))
    assert system.ranks == 32
    assert system.us("all_reduce", np.array([0.0])).tolist() == pytest.approx([2 * (5 + 2 * 20)])
    assert {(s.source, s.confidence) for s in system.statements} == {("stated in the file", "estimate"), ("ib_write_lat", "measured")}
