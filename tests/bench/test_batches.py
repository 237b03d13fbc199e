"""Whole models over their batches: rows by model, ranks with and without what noise decides."""
from __future__ import annotations

from dataclasses import replace

from bench.cases.batches import by_model, rank, text, told_apart
from bench.cases.case import parse_cases
from bench.cases.score import Result
from tests.bench.test_fidelity import case


def rows(measured: dict[int, float], modelled: dict[int, float]) -> list[Result]:
    """Rows of one model by batch."""
    out = []
    for b, value in measured.items():
        (c,) = parse_cases(case(id=f"b{b}", operator="model_x", shape=f"batch={b} image=3x9x9", tile="", metric="throughput",
                                value=repr(value), unit="samples/s", **{"class": "e2e"}))
        out.append(Result(c, modelled[b], "HBM", f"batch {b}", bound=2 * modelled[b]))
    return out


def test_ranks_leave_noise_out() -> None:
    found = rows({1: 100.0, 2: 101.0, 4: 102.9, 8: 104.0, 16: 120.0}, {1: 1.0, 2: 3.0, 4: 2.0, 8: 4.0, 16: 5.0})
    ((name, ordered),) = by_model(found[::-1]).items()
    assert name == ("model_x", "910B1", "9") and ordered == found
    kept = told_apart(found)
    assert [r.case.id for r in kept] == ["b1", "b8", "b16"] and rank(kept) == 1.0 and (rank(found) or 1.0) < 1.0
    said = text([*found, Result(replace(found[0].case, id="other"), reason="not built")])
    assert "mean rank over models: 0.90" in said and "3% apart: 1.00" in said and "5 of 6 rows" in said
    assert "faster than the bound: none" in said and "16:0.04" in said and "not expressed: not built" in said
