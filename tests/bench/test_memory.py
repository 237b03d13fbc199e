"""How much memory constants take: once, whatever reads them."""
from __future__ import annotations

import pytest

from bench import memory

BASE_BYTES = 500 << 20  # the interpreter, its packages, the kernels' compiler
ONCE = 1.15  # constants, and what of them is being packed


def test_the_model_names_its_constants_where_they_lie() -> None:
    proto = memory.model(2)
    assert [n.op_type for n in proto.graph.node] == ["MatMul", "Relu"] * 2
    places = [{e.key: e.value for e in w.external_data} for w in proto.graph.initializer]
    assert [p["offset"] for p in places] == ["0", str(memory.EACH_BYTES)] and {p["location"] for p in places} == {"weights.bin"}


def test_a_line_says_how_many_times_the_constants_are_held() -> None:
    bytes_ = {"constants_bytes": 1 << 30, "peak_bytes": 3 << 30, "own_bytes": 1 << 29}
    text = memory.show({"step": "run", "precision": "fp32", "cpu_s": 2.0, **bytes_})
    assert "peak 3.00 GiB x3.00" in text and "own 0.50 GiB x0.50" in text


@pytest.mark.slow
def test_constants_are_held_once() -> None:
    for line in memory.lines(0.5, ["fp32"]):
        assert 0 < line["own_bytes"] < ONCE * line["constants_bytes"] + BASE_BYTES, memory.show(line)
