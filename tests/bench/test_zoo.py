"""The zoo's table: a row a network and precision, in order; what is allowed is beside the networks."""
from __future__ import annotations

from collections import Counter
from dataclasses import replace

from bench.networks import NETWORKS
from bench.networks.tolerances import EXACT, HALF, OWN, tolerance
from bench.zoo import HEAD, Checked, put

FOUND = Checked("resnet50", "fp16", 122, {"logits": 2e-3, "other": 1e-4}, Counter(), 248.6, 240.2, 20, 30.0, 1.0)


def test_a_row_takes_the_place_of_its_own(tmp_path):
    table = tmp_path / "zoo.md"
    table.write_text("\n".join(["# Zoo", "", *HEAD, "", "Words behind it."]) + "\n")
    for found in (FOUND, replace(FOUND, name="gpt2", trials=0), replace(FOUND, tuned_us=230.0)):
        put(found, table)
    *before, first, second, blank, behind = table.read_text().splitlines()
    assert before == ["# Zoo", "", *HEAD] and (blank, behind) == ("", "Words behind it.")
    assert first.startswith("| gpt2 | fp16 |") and first.endswith("| – |") and second.startswith("| resnet50 |") and "230 µs" in second


def test_a_difference_is_held_against_the_networks_own_tolerance():
    assert FOUND.fits and not replace(FOUND, errors={"logits": 2e-2}).fits and not replace(FOUND, precision="fp32").fits
    assert "beyond 0.001, " + EXACT.reason in replace(FOUND, precision="fp32").line()
    assert set(OWN) <= set(NETWORKS) and tolerance("gpt2", "fp16") == HALF
