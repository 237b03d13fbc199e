"""`aoec plan`: how a graph is put together, as text."""
from __future__ import annotations

from aoec.base.files.files import note
from aoec.cli.command import Command, write_line
from aoec.options.option import options, redeclare
from aoec.options.shared import DEFAULT_TARGET, OneInput, OutputOption, TargetOption
from aoec.options.weights import WeightsOption


@options
class PlanOptions(WeightsOption, TargetOption, OutputOption):
    input: str = redeclare(OneInput, "input", metavar="NET.graph")


def run(options: PlanOptions) -> int:
    """Writes the plan."""
    from aoec.ir.text.show import show
    from aoec.jobs.plans.planning import plan_text
    plan, said = plan_text(options.text, options.input, options.weights_path, options.target or DEFAULT_TARGET)
    for line in said:
        note(line)
    write_line(options.output, show(plan))
    return 0


COMMAND = Command("plan", "say how a graph is put together: which fusions are made, which groups there are", PlanOptions, run, "research",
                  205, "aoec plan net.graph -o net.plan")
