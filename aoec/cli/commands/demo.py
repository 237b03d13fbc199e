"""`aoec demo`: a ResNet-50, built and tuned."""
from __future__ import annotations

from aoec.cli.command import Command
from aoec.options.compile import DemoOptions


def run(options: DemoOptions) -> int:
    """Builds the model and compiles it."""
    from aoec.jobs.compile.begin import compile_demo
    options.check()
    return compile_demo(options)


COMMAND = Command("demo", "tune a full-size ResNet-50 with seeded random weights", DemoOptions, run, "deploy", 180, "aoec demo")
