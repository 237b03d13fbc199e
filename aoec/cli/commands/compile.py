"""`aoec compile`: compile an ONNX model, after a search where that is asked for."""
from __future__ import annotations

import os
from pathlib import Path

from aoec.cli.command import Command
from aoec.options.compile import CompileOptions


def check_model(options: CompileOptions) -> None:
    """Raises an error where what is to be compiled is compiled already, or a device: the default output would have its name."""
    from aoec.frontend.read.read import open_model
    model = options.name
    if model.endswith(".aoec") and os.path.exists(model) and not os.path.isdir(model) and not Path(model).is_fifo():
        open_model(model)


def run(options: CompileOptions) -> int:
    """Compiles the model."""
    from aoec.jobs.compile.begin import compile_model
    options.check()
    return compile_model(options)


COMMAND = Command("compile", "compile an ONNX model; with --tune search fast schedules first", CompileOptions, run, "deploy", 100,
                  "aoec compile --tune model.onnx", check_model)
