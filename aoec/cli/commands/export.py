"""`aoec export`: a compiled model or a graph as an ONNX model."""
from __future__ import annotations

import sys

from aoec.base.files.files import write_bytes
from aoec.cli.command import Command
from aoec.options.option import File, option, options, redeclare
from aoec.options.shared import OneInput
from aoec.options.weights import WeightsOption


@options
class ExportOptions(WeightsOption):
    input: str = redeclare(OneInput, "input", metavar="MODEL.aoec|NET.graph")
    weights: str | None = redeclare(WeightsOption, "weights", help="the constants of a graph (default: <input>.npz)")
    output: str = option("-o", "--output", required=True, metavar="FILE.onnx", file=File.WRITTEN,
                           help="the ONNX model, - for standard output. Its reals are float; precision is chosen when it is compiled")


def run(options: ExportOptions) -> int:
    """Writes the ONNX model."""
    from aoec.jobs.run.export import export_model
    text = "" if options.input.endswith(".aoec") else options.text
    data = export_model(options.input, text, options.weights_path).SerializeToString(deterministic=True)
    if options.output == "-":
        sys.stdout.buffer.write(data)
    else:
        write_bytes(options.output, data)
    return 0


COMMAND = Command("export", "write a compiled model or a graph as an ONNX model, slices spelled out", ExportOptions, run, "research", 230,
                  "aoec export model.aoec -o sliced.onnx")
