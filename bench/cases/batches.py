"""Whole models over their batches: modelled against measured, and whether the ranks agree."""
from __future__ import annotations

from collections.abc import Sequence

from bench.cases.score import Result, spearman
from bench.cases.show import line, percent

NOISE = 0.03  # measured throughputs nearer to each other have no rank that a model could be held to
Name = tuple[str, str, str]


def name_of(r: Result) -> Name:
    """Return the model, its chip and its input sizes except for the batch."""
    s = r.case.shape.sizes
    return r.case.operator, r.case.chip, "x".join(str(s[k]) for k in ("image1", "seq") if k in s)


def batch(r: Result) -> int:
    return r.case.shape.sizes.get("batch", 1)


def by_model(results: Sequence[Result]) -> dict[Name, list[Result]]:
    """Return the modelled rows of each model by batch."""
    found: dict[Name, list[Result]] = {}
    for r in sorted((r for r in results if r.modelled is not None), key=batch):
        found.setdefault(name_of(r), []).append(r)
    return dict(sorted(found.items()))


def told_apart(rows: Sequence[Result]) -> list[Result]:
    """Return rows by measured throughput without those within the noise of the one before."""
    out: list[Result] = []
    for r in sorted(rows, key=lambda r: r.case.value):
        if not out or r.case.value > out[-1].case.value * (1 + NOISE):
            out.append(r)
    return out


def rank(rows: Sequence[Result]) -> float | None:
    return spearman([r.case.value for r in rows], [r.modelled or 0.0 for r in rows])


def text(results: Sequence[Result]) -> str:
    """Return the rows, the table of models with their ranks over batches, and what is beyond the bound."""
    models = by_model(results)
    told = [r for rows in models.values() for r in rows]
    beyond = [r.case.id for r in told if r.modelled is not None and r.bound is not None and r.modelled > r.bound]
    columns = f"{'model, chip, image or length':44} {'rows':>4} {'mean':>7} {'rank':>6} {'apart':>6}  modelled / measured by batch"
    built = f"models: {len(told)} of {len(results)} rows built; faster than the bound: {', '.join(beyond) or 'none'}"
    lines = [*map(line, results), "", built, "", columns]
    ranks: list[list[float]] = [[], []]
    for name, rows in models.items():
        found = rank(rows), rank(told_apart(rows))
        for values, value in zip(ranks, found):
            values += [] if value is None else [value]
        mean = sum(r.error or 0.0 for r in rows) / len(rows)
        by_batch = " ".join(f"{batch(r)}:{r.ratio:.2f}" for r in rows)
        lines.append(f"{' '.join(name)[:44]:44} {len(rows):4} {percent(mean):>7} {number(found[0]):>6} {number(found[1]):>6}  {by_batch}")
    means = [number(sum(v) / len(v) if v else None) for v in ranks]
    lines += ["", f"mean rank over models: {means[0]}; over those of their rows that are measured more than {NOISE:.0%} apart: {means[1]}"]
    return "\n".join(lines) + "\n"


def number(x: float | None) -> str:
    return "-" if x is None else f"{x:.2f}"
