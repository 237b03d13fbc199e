"""The figures that results of aoec carry: how near the model is to published rows, by target and operator class, as TOML."""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from aoec.jobs.version import model_version
from bench.cases.chips import chip_of
from bench.cases.eligible import apart
from bench.cases.score import Result, by

HEAD = """# How near modelled times are to published measurements, by target and operator class. Written by
#     python bench/fidelity.py --facts aoec/report/fidelity.toml
# rows: eligible published rows (docs/fidelity.md); errors as shares of the measured value; pairs told the right way round.
# small: kernels modelled below `limit_us`, counted or not; nine in ten of them were measured at `least` to `most` times that.
"""
SMALL_US = 40.0  # where the median of measured by modelled times is 1.2 and more; above it is 1.0


def facts_toml(results: Sequence[Result]) -> str:
    """Return the text of the file: one table a target and class with any eligible row that is modelled."""
    told = [r for r in results if r.modelled is not None and not r.why_not]
    lines = [HEAD, f'model_version = "{model_version()}"']
    for name, s in by(told, lambda r: f"{chip_of(r.case.chip).target}.{r.case.family}").items():
        target, family = name.split(".")
        lines += ["", "[[row]]", f'target = "{target}"', f'operator_class = "{family}"', f"rows = {s.rows}",
                  f"median_error = {s.median_error:.4f}", f"mean_error = {s.mean_error:.4f}", f"pairs = {s.pairs}",
                  f"right_pairs = {s.right_pairs}"]
    lines += small_lines(results)
    return "\n".join(lines) + "\n"


def small_lines(results: Sequence[Result]) -> list[str]:
    """Return the table of small kernels. Rows whose dtype is not published are in it: for what they lack alone they would not be small."""
    found = [r.case.value / r.modelled for r in results if r.modelled and r.modelled < SMALL_US and r.unit == "us" and not apart(r.case)]
    if not found:
        return []
    least, middle, most = np.quantile(found, (0.05, 0.5, 0.95))
    return ["", "[small]", f"limit_us = {SMALL_US}", f"rows = {len(found)}", f"least = {least:.2f}", f"median = {middle:.2f}",
            f"most = {most:.2f}"]
