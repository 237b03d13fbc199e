"""A third line beside default and tuned: the model as CANN would run it without tuning."""
from __future__ import annotations

from dataclasses import replace

from aoec.base.errors import AoecError
from aoec.jobs.compile.compiled_model import Made
from aoec.jobs.stock.stock_model import stock_model
from aoec.report.table import Report, Stock
from aoec.target.machine import Machine


def add_stock(report: Report, made: Made, machine: Machine, metric: str) -> Report:
    """Return the report with the stock model. It has none where the machine's product has no public rules, which a note says, or where the
    job was entered behind the imported graph."""
    if made.stage.graph.groups:
        return report
    defaults = {(c.task.func_key, c.task.state_text): c.solved.default.trace for c in made.choices}
    try:
        found = stock_model(made.stage.graph, machine, metric == "throughput", defaults)
    except AoecError as e:
        return replace(report, notes=(*report.notes, f"no stock time: {e}"))
    if found is None:
        return replace(report, notes=(*report.notes, f"no stock time: CANN's rules for {machine.name} are not public (docs/stock.md)"))
    per_s = 1e6 / found.throughput_us if found.throughput_us else None
    return replace(report, stock=Stock(found.product, found.latency_us, found.sum_us, per_s, found.shares, found.groups, found.seconds))
