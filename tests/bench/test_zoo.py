"""The zoo's table: a row a network and precision, in order; what is allowed follows from rounding alone, or is a step of eight bits."""
from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from bench.networks.steps import Steps
from bench.networks.tolerances import EXACT
from bench.zoo import HEAD, Checked, put

FOUND = Checked("resnet50", "fp16", 122, {"logits": 2e-3, "other": 1e-4}, 1.5e-3, None, Counter(), 248.6, 240.2, 20, "ab" * 8, 30.0, 1.0)


def test_a_row_takes_the_place_of_its_own(tmp_path):
    table = tmp_path / "zoo.md"
    table.write_text("\n".join(["# Zoo", "", *HEAD, "", "Words behind it."]) + "\n")
    for found in (FOUND, replace(FOUND, name="gpt2", trials=0), replace(FOUND, tuned_us=230.0)):
        put(found, table)
    *before, first, second, blank, behind = table.read_text().splitlines()
    assert before == ["# Zoo", "", *HEAD] and (blank, behind) == ("", "Words behind it.")
    assert first.startswith("| gpt2 | fp16 |") and first.endswith(f"| – | {FOUND.version} |")
    assert second.startswith("| resnet50 |") and "230 µs" in second


def test_a_difference_is_held_against_what_rounding_alone_costs():
    assert FOUND.fits and not replace(FOUND, rounding=9e-4).fits and not replace(FOUND, precision="fp32").fits
    assert "beyond 0.001, " + EXACT.reason in replace(FOUND, precision="fp32").line()
    assert "within 0.003, twice what 16 bits cost" in FOUND.line()


@pytest.mark.parametrize(("most", "fits"), [(0, True), (1, True), (2, False)])
def test_tensors_of_eight_bits_may_be_a_step_off(most, fits):
    """However far the whole results are, to which every step on the way adds its own."""
    found = replace(FOUND, precision="fp32", steps=Steps(3, 4000, 7, most))
    assert found.fits is fits and "7 of 4,000 elements" in found.line() and "whole results logits 2.0e-03" in found.line()
    assert f"| {most} step{'s' * (most != 1)}: 7 of 4,000 | 1 step |" in found.row()
