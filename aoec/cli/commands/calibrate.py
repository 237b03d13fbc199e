"""`aoec calibrate`: a machine fitted to a profile of one's own chip."""
from __future__ import annotations

from aoec.base.errors import CheckError
from aoec.base.files.files import note, write_text
from aoec.cli.command import Command, as_json
from aoec.cli.kernels import ready_kernels
from aoec.options.exchange import CalibrateOptions


def run(options: CalibrateOptions) -> int:
    """Writes the machine file, or says why there is none."""
    from aoec.jobs.calibrate.calibrate_say import calibrate
    ready_kernels()
    facts, told, text, refusal = calibrate(options)
    for line in facts["notes"]:
        note(f"note: {line}")
    if options.output != "-":
        write_text("-", as_json(facts) if options.json else told)
    if refusal:
        raise CheckError(f"{refusal}; nothing is written", source=options.read)
    write_text(options.output, text)
    return 0


COMMAND = Command(
    "calibrate", "fit a machine to a profile of your own chip. The result is a machine file that extends it",
    CalibrateOptions, run, "research", 310, "aoec calibrate --read op_summary.csv --target Ascend910B3 -o my910b3.toml")
