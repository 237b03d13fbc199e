"""`aoec tune`: tune as AOE does, and write AOE's result files."""
from __future__ import annotations

from aoec.cli.command import Command
from aoec.jobs import kinds
from aoec.options.compile import TuneOptions
from aoec.options.option import option, options


@options
class JobOptions(TuneOptions):
    """What `aoec tune` is asked for, and as which kind of job."""

    job: str = option("--job", default="opat", choices=kinds.names(), help=f"{kinds.describe_all()} (default: opat)")

    def left_behind(self) -> str:
        return kinds.load(self.job).left_behind or super().left_behind()


def run(options: JobOptions) -> int:
    """Tunes and compiles the model."""
    from aoec.jobs.compile.begin import compile_model
    kind = kinds.load(options.job)
    settled = kind.settle(options)
    settled.check()
    return compile_model(settled, kind=kind)


COMMAND = Command(
    "tune", "tune as AOE does, operators or subgraphs, and write AOE's result files. It compiles the model too",
    JobOptions, run, "deploy", 110, "aoec tune model.onnx --job opat")
