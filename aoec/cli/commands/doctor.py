"""`aoec doctor`: what aoec finds on this computer."""
from __future__ import annotations

from aoec.base.files.files import write_text
from aoec.cli.command import Command, as_json
from aoec.options.option import options
from aoec.options.shared import JsonOption, OwnBank


@options
class DoctorOptions(OwnBank, JsonOption):
    title = ""


def run(options: DoctorOptions) -> int:
    """Writes what was found."""
    from aoec.jobs import doctor
    facts = doctor.examine(options.bank_path)
    write_text("-", as_json(facts) if options.json else doctor.show(facts))
    return 0


COMMAND = Command("doctor", "show versions, cores, caches, bank, and whether CANN is seen", DoctorOptions, run, "deploy", 340)
