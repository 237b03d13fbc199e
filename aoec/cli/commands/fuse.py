"""`aoec fuse`: a graph in layouts and groups."""
from __future__ import annotations

from aoec.cli.command import Command, write_line
from aoec.options.option import File, option, options, redeclare
from aoec.options.shared import DEFAULT_TARGET, OneInput, TargetOption
from aoec.options.weights import GraphOutput, WeightsOption, weights_beside


@options
class FuseOptions(WeightsOption, TargetOption, GraphOutput):
    input: str = redeclare(OneInput, "input", metavar="NET.graph")
    plan: str | None = option("--plan", default=None, metavar="FILE", file=File.READ,
                              help="put the graph together as this plan says (aoec plan makes one; default: all fusions of the rules)")


def run(options: FuseOptions) -> int:
    """Writes the graph and its packed constants."""
    from aoec.ir.text.show import show
    from aoec.jobs.stages.stages import fuse_text, save_weights
    given = options.text, options.input, options.weights_path, options.target or DEFAULT_TARGET
    if options.plan is None:
        graph, weights = fuse_text(*given)
    else:
        from aoec.jobs.plans.planning import fuse_planned
        graph, stored = fuse_planned(*given, options.plan)
        weights = dict(stored)
    if options.output != "-":
        save_weights(graph, weights, weights_beside(options.output))
    write_line(options.output, show(graph))
    return 0


COMMAND = Command("fuse", "lay out a graph and divide it into groups", FuseOptions, run, "research", 210,
                  "aoec fuse net.graph -o fused.graph")
