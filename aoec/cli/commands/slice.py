"""`aoec slice`: groups of a fused graph in slices that stay in L2."""
from __future__ import annotations

from aoec.base import regions
from aoec.base.regions import Regions
from aoec.cli.command import Command, write_line
from aoec.options.option import option, options, redeclare
from aoec.options.shared import OneInput
from aoec.options.weights import GraphOutput, WeightsOption, weights_beside


@options
class SliceOptions(WeightsOption, GraphOutput):
    input: str = redeclare(OneInput, "input", metavar="FUSED.graph")
    regions: Regions = option(
        "--regions", required=True, read=regions.regions, metavar="G..G/N,..",
        help="from which group to which, and in how many parts; one part runs through all of them before the next")
    weights: str | None = redeclare(
        WeightsOption, "weights", help="the constants of the graph, which go beside -o as they are (default: <input>.npz)")


def run(options: SliceOptions) -> int:
    """Writes the graph in slices, with its constants."""
    from aoec.ir.text.show import show
    from aoec.jobs.stages.stages import load_weights, save_weights, slice_text
    graph = slice_text(options.text, options.input, options.regions)
    if options.output != "-":
        save_weights(graph, load_weights(graph, options.weights_path), weights_beside(options.output))
    write_line(options.output, show(graph))
    return 0


COMMAND = Command("slice", "run groups of a fused graph in slices that stay in L2", SliceOptions, run, "research", 220,
                  "aoec slice fused.graph --regions g3..g12/4 -o sliced.graph")
