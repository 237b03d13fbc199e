"""`aoec deliver`: files for CANN and kernel writers, and what a device says of them."""
from __future__ import annotations

from aoec.base.errors import CheckError
from aoec.base.files.files import note, write_text
from aoec.cli.command import Command, as_json
from aoec.options.exchange import DeliverOptions


def run(options: DeliverOptions) -> int:
    """Writes a delivery, or reads a profile back."""
    if bool(options.model) == bool(options.read) or options.before and not options.read:
        raise CheckError("deliver writes of a model (aoec deliver MODEL --to DIR), or reads what a device says, without one (aoec deliver "
                         "--read FILE.csv, and --before FILE.csv for what was before)")
    if options.read:
        return read_profile(options.read, options)
    from aoec.jobs.deliver.deliver import deliver
    write_text("-", deliver(options.model or "", options.to or "", options))
    return 0


def read_profile(path: str, options: DeliverOptions) -> int:
    """Reads a device's profile back and says what it shows."""
    from aoec.jobs.deliver.read_back import read_back
    facts, text, notes = read_back(path, options)
    for line in notes:
        note(f"note: {line}")
    write_text("-", as_json(facts) if options.json else text)
    return 0


COMMAND = Command(
    "deliver", "write what was found as files for CANN and kernel writers, or read a device's profile back. The folder's APPLY.md says"
    " what to type on the board. Written for CANN, not yet run on a device by us",
    DeliverOptions, run, "deliver", 160, "aoec deliver model.onnx --to delivery")
