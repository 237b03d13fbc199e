"""`aoec targets`: the machines."""
from __future__ import annotations

from aoec.base.errors import CheckError
from aoec.base.files.files import note, write_text
from aoec.cli.command import Command, as_json
from aoec.options.option import File, argument, options
from aoec.options.shared import DEFAULT_TARGET, JsonOption, OutputOption

NO_NAME = {"show": f"which machine? For example: aoec targets show {DEFAULT_TARGET}",
           "import": f"which file? For example: aoec targets import {DEFAULT_TARGET}.ini -o my.toml"}


@options
class TargetsOptions(JsonOption, OutputOption):
    action: str = argument("ACTION", default="list", choices=("list", "show", "import"),
                           help="list: one line a machine; show: each number; import: a machine file from CANN's platform_config/*.ini")
    name: str | None = argument("NAME|FILE", default=None, file=File.READ, help="the machine to show, or the file to import")


def run(options: TargetsOptions) -> int:
    """Lists machines, shows one, or imports one."""
    from aoec.jobs.stages import targets
    if options.action == "list" and options.name:
        raise CheckError(f"to see one machine: aoec targets show {options.name}")
    if options.output != "-" and options.action != "import":
        raise CheckError("-o says where `aoec targets import` writes; list and show print")
    if options.action == "list":
        machines = targets.machines()
        write_text("-", as_json(machines) if options.json else targets.show_machines(machines))
        return 0
    if not options.name:
        raise CheckError(NO_NAME[options.action])
    if options.action == "import":
        text, notes = targets.import_machine(options.name)
        write_text(options.output, text)
        for line in notes:
            note(f"note: {line}")
    else:
        machine = targets.machine_facts(options.name)
        write_text("-", as_json(machine) if options.json else targets.show_machine(machine))
    return 0


COMMAND = Command(
    "targets", "list the machines, show one with its sources, or import one from CANN",
    TargetsOptions, run, "machine-keys", 300, "aoec targets show Ascend910B3")
