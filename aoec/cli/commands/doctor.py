"""`aoec doctor`: what aoec finds on this computer."""
from __future__ import annotations

from shutil import get_terminal_size

from aoec.base.errors import CheckError
from aoec.base.files.files import write_text
from aoec.base.text import in_columns
from aoec.cli.command import Command, as_json, write_line
from aoec.cli.kernels import ready_kernels
from aoec.options import readers
from aoec.options.option import File, option, options, switch
from aoec.options.shared import JsonOption, OwnBank


@options
class DoctorOptions(OwnBank, JsonOption):
    """`device`: the number of one of this computer."""

    title = ""
    npu: bool = switch("--npu", help="try a device of this computer step by step, from the toolkit to kernels, and say of each step what "
                       "failed and what to do. Exit code 2 where one failed")
    device: int = option("--device", default=0, metavar="N", read=readers.device_number, help="the device of --npu (default: 0)")
    report: str | None = option("--report", default=None, metavar="FILE.json", file=File.WRITTEN,
                                help="write what --npu found to one file, to send back. It has no names of users or folders in it")


def run(options: DoctorOptions) -> int:
    """Writes what was found."""
    if options.npu:
        return _visit(options)
    if options.report or options.device:
        raise CheckError("--report and --device are of --npu")
    from aoec.jobs import doctor
    facts = doctor.examine(options.bank_path)
    write_text("-", as_json(facts) if options.json else doctor.show(facts))
    return 0


def _visit(options: DoctorOptions) -> int:
    from aoec.jobs.npu.first_steps import last_line, show_step, visit_npu
    ready_kernels()
    width = get_terminal_size().columns - 1
    report = visit_npu(options.device, (lambda step: None) if options.json else lambda step: write_line("-", show_step(step, width)))
    if options.report:
        write_text(options.report, as_json(report))
    write_text("-", as_json(report) if options.json else in_columns(last_line(report, options.report), width) + "\n")
    return 0 if report["well"] else 2


COMMAND = Command("doctor", "show versions, cores, caches, bank, and whether CANN is seen; or try a device", DoctorOptions, run, "deploy",
                  340)
