"""Results as text, as JSON, and the list of what is counted and what is not, as CSV."""
from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from bench.cases.eligible import apart, counted, not_counted
from bench.cases.score import Result, Score, by, leave_one_out, pairs, same_sign, score, worst

WARM = "from the previous launch alone"  # had no profiler cleared L2


def summary(results: Sequence[Result]) -> dict[str, dict[str, Score]]:
    """Return the tables of figures: in all, and by class, chip, operator class, and without each source."""
    ours = counted(results)
    return {
        "counted": {"all": score(ours), WARM: score(replace(r, modelled=r.warm) for r in ours)},
        "by class": by(ours, lambda r: r.case.kind), "by chip": by(ours, lambda r: r.case.chip),
        "by operator": by(ours, lambda r: r.case.family),
        "without one source": leave_one_out(ours),
        "apart": {"950": score(r for r in results if apart(r.case)),
                  "not counted (rank and sign only)": score(not_counted(results))}}


def text(results: Sequence[Result]) -> str:
    """Return everything for people; times are modelled and measured, in µs where nothing else is said."""
    head = f"{'case':7} {'chip':11} {'what':44} {'metric':10} {'modelled':>12} {'measured':>12} {'ratio':>6}  binds; why"
    lines = [head, *[line(r) for r in results]]
    ours = counted(results)
    expressed = [r for r in ours if r.modelled is not None]
    lines += ["", f"eligible {len(ours)} (outside 950), expressible {len(expressed)}"
                  + (f" = {len(expressed) / len(ours):.0%}" if ours else "") + "; every case that is not, with its reason, is above"]
    for title, scores in summary(results).items():
        columns = f"{title:32} {'rows':>5} {'mean':>7} {'median':>7} {'Spearman':>9} {'pairs':>6} {'sign':>6}"
        lines += ["", columns, *[row(n, s) for n, s in scores.items()]]
    return "\n".join([*lines, *_pairs_text(ours), "", "worst ten of the counted:", *[f"  {line(r)}" for r in worst(ours)]]) + "\n"


def what(r: Result) -> str:
    """Return the operator, its shape and its words, cut."""
    return f"{r.case.operator} {r.case.shape.text} {r.case.tile}"


def line(r: Result) -> str:
    """Return one result."""
    where = f"{r.case.id:7} {r.case.chip[:11]:11} {what(r)[:44]:44} {r.case.metric[:10]:10}"
    aside = f"  [{r.why_not}]" if r.why_not else ""
    if r.modelled is None:
        return f"{where} {'-':>12} {r.case.value:12,.2f} {'-':>6}  not expressed: {r.reason}{aside}"
    note = f" ({r.note})" if r.note else ""
    return f"{where} {r.modelled:12,.2f} {r.case.value:12,.2f} {r.ratio:6.2f}  {r.bound_by}; {r.reason}{note}{aside}"


def row(name: str, s: Score) -> str:
    """Return one line of figures."""
    cells = [percent(s.mean_error), percent(s.median_error), "-" if s.spearman is None else f"{s.spearman:.3f}"]
    return f"{name[:32]:32} {s.rows:5} {cells[0]:>7} {cells[1]:>7} {cells[2]:>9} {s.pairs:6} {percent(s.sign_accuracy):>6}"


def percent(x: float | None) -> str:
    return "-" if x is None else f"{x:.1%}"


def _pairs_text(results: Iterable[Result]) -> list[str]:
    """Return the pairs whose sign the model has wrong."""
    wrong = [(a, b) for a, b in pairs(r for r in results if r.modelled is not None) if not same_sign(a, b)]
    return ["", "pairs told the wrong way round:" if wrong else "no pair is told the wrong way round",
            *[f"  {a.case.id} -> {b.case.id}: measured {a.case.value:,.2f} -> {b.case.value:,.2f}, "
              f"modelled {a.modelled:,.2f} -> {b.modelled:,.2f}  ({a.case.tile} -> {b.case.tile})" for a, b in wrong]]


def as_dict(results: Sequence[Result]) -> dict[str, Any]:
    """Return everything for programs."""
    tables = {title: {n: score_dict(s) for n, s in scores.items()} for title, scores in summary(results).items()}
    return {"times": "modelled", "cases": [result_dict(r) for r in results], "figures": tables,
            "worst": [r.case.id for r in worst(counted(results))]}


def score_dict(s: Score) -> dict[str, float | int | None]:
    return {"rows": s.rows, "mean_error": s.mean_error, "median_error": s.median_error, "spearman": s.spearman, "pairs": s.pairs,
            "sign_accuracy": s.sign_accuracy}


def result_dict(r: Result) -> dict[str, Any]:
    return {"id": r.case.id, "chip": r.case.chip, "operator": r.case.operator, "shape": r.case.shape.text, "tile": str(r.case.tile),
            "class": r.case.kind, "metric": r.case.metric, "modelled": r.modelled, "measured": r.case.value, "ratio": r.ratio,
            "modelled_from_previous_launch": r.warm, "binds": r.bound_by, "reason": r.reason, "note": r.note, "eligible": not r.why_not,
            "why_not": r.why_not,
            "bound": r.bound, "parts_us": dict(r.parts_us), "source": r.case.source}


def eligible_csv(results: Sequence[Result]) -> str:
    """Return id, eligible, expressible and reason of every case, as CSV."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("id", "class", "chip", "operator", "eligible", "expressible", "reason"))
    for r in results:
        told = r.modelled is not None
        kept = "apart (950)" if apart(r.case) and not r.why_not else "no" if r.why_not else "yes"
        writer.writerow((r.case.id, r.case.kind, r.case.chip, r.case.operator, kept, "yes" if told else "no",
                         r.why_not or ("" if told else r.reason)))
    return out.getvalue()
