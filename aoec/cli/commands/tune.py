"""`aoec tune`: tune as AOE does, and write AOE's result files."""
from __future__ import annotations

from collections.abc import Sequence

from aoec.base.errors import CheckError, ParseError
from aoec.base.text import nearest
from aoec.cli.command import Command
from aoec.jobs import kinds
from aoec.options import readers
from aoec.options.compile import TuneOptions
from aoec.options.option import option, options


def read_jobs(text: str) -> tuple[str, ...]:
    """Return the names of kinds of jobs in a list."""
    for name in (found := readers.job_names(text)):
        if name not in kinds.names():
            raise ParseError(f"job {name!r} is unknown{nearest(name, kinds.names())}".rstrip("?"))
    return found


@options
class JobOptions(TuneOptions):
    """What `aoec tune` is asked for, and as which kinds of job."""

    job: Sequence[str] = option(
        "--job", default=("opat",), metavar="NAMES", read=read_jobs,
        help=f"one of these, or several with commas between. {kinds.describe_all()} (default: opat)")

    def left_behind(self) -> str:
        if not self.model:
            return "nothing was written"
        return next((said for name in self.job if (said := kinds.load(name).left_behind)), super().left_behind())


def run(options: JobOptions) -> int:
    """Tunes and compiles the model, or does what needs no model."""
    from aoec.jobs.compile.begin import compile_model
    asked, settled = [kinds.load(name) for name in options.job], options
    for kind in asked:
        settled = kind.settle(settled, options.job)
    settled.check()
    if len(asked) == 1 and (code := asked[0].run_alone(settled)) is not None:
        return code
    if not settled.model:
        raise CheckError("give a model: aoec tune MODEL.onnx")
    return compile_model(settled, kinds=asked)


COMMAND = Command(
    "tune", "tune as AOE does, operators, subgraphs or gradients, and write AOE's result files. It compiles the model too",
    JobOptions, run, "deploy", 110, "aoec tune model.onnx --job opat")
