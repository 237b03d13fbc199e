"""`aoec import`: an ONNX model as a graph."""
from __future__ import annotations

from aoec.base.files.files import note, write_text
from aoec.base.text import plural
from aoec.cli.command import Command, write_line
from aoec.options.option import File, argument, option, options
from aoec.options.shared import ModelOptions
from aoec.options.training import TrainingOptions
from aoec.options.weights import GraphOutput, weights_beside


@options
class ImportOptions(ModelOptions, TrainingOptions, GraphOutput):
    model: str = argument("NET.onnx", file=File.READ, help="an ONNX model")
    weights: str | None = option("--weights", default=None, metavar="FILE.npz", file=File.WRITTEN,
                                   help="write the constants there (default: beside -o, as <output>.npz)")


def run(options: ImportOptions) -> int:
    """Writes the graph and its constants."""
    from aoec.ir.text.show import show
    from aoec.jobs.stages.stages import import_model, save_weights
    from aoec.ops.narrowed import table
    graph, weights, notices = import_model(options.model, options.shapes, options.precision, options.operator_files,
                                            options.rewrite_files, options.training)
    for line in notices:
        note(line)
    if options.lowered:
        write_text(options.lowered, table({"": graph}, options.precision))
    if place := options.weights or weights_beside(options.output):
        save_weights(graph, weights, place)
    elif weights:
        note(f"{plural(len(weights), 'constant')} not written; give -o, or --weights FILE.npz")
    write_line(options.output, show(graph))
    return 0


COMMAND = Command("import", "turn an ONNX model into a graph", ImportOptions, run, "tutorial", 200, "aoec import net.onnx -o net.graph")
