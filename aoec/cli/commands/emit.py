"""`aoec emit`: a scheduled func as a program of AI Core instructions, as the source of a kernel, or as HIVM text."""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from aoec.base.errors import CheckError
from aoec.cli.command import Command, as_json, write_line
from aoec.options.option import option, options, redeclare, switch
from aoec.options.shared import DEFAULT_TARGET, HoleOptions, OneInput, OutputOption, RawText, TargetOption

if TYPE_CHECKING:
    from aoec.ir.program import Program


@options
class EmitOptions(OneInput, HoleOptions, RawText, TargetOption, OutputOption):
    input: str = redeclare(OneInput, "input", metavar="SCHEDULED.tir|G.prog")
    short: bool = switch("--short", one_of="text", help="also leave out loops that run once. The values are the same; the modelled time "
                         "may differ a little")
    raw: bool = redeclare(RawText, "raw", one_of="text")
    form: str = option(
        "--as", default="prog", choices=("prog", "ascendc", "hivm"), help="prog: a program (default). ascendc: the source of a kernel in "
        "Ascend C, which takes a program too; with -o FILE, FILE.json says what its launch needs. hivm: HIVM text of a program or "
        "func, for aoec check")
    cann: str = option("--cann", default="8.5", choices=("8.1", "8.5", "9.1"), help="the release of CANN that the source is spelt for "
                       "(default: 8.5)")


def check(options: EmitOptions) -> None:
    """Raises BackendError where the file beside the source cannot be written."""
    if options.form == "ascendc" and options.output != "-":
        from aoec.ascendc.manifest import ENDING
        from aoec.base.files.files import check_writable
        beside = f"{options.output}{ENDING}"
        if beside == options.input:
            raise CheckError(f"{beside} is read, and would be written over: give another name with -o")
        check_writable(beside)


def run(options: EmitOptions) -> int:
    """Writes the program, the kernel and what its launch needs, or the HIVM text."""
    from aoec.ir.text.show import show
    if options.form == "ascendc":
        return _write_kernel(options)
    if options.form == "hivm":
        from aoec.jobs.hivm import module_of
        write_line(options.output, module_of(options.text, options.input, options.target, dict(options.holes), DEFAULT_TARGET,
                                             _form(options)).removesuffix("\n"))
        return 0
    from aoec.jobs.stages.stages import emit_text
    program = emit_text(options.text, options.input, options.target or DEFAULT_TARGET, dict(options.holes))
    write_line(options.output, show(_form(options)(program)))
    return 0


def _form(options: EmitOptions) -> Callable[[Program], Program]:
    """Return how a program is shown: as it was made, without what runs once, or simplified."""
    from aoec.ir.text.simplify import simplify, without_single
    return (lambda p: p) if options.raw else without_single if options.short else simplify


def _write_kernel(options: EmitOptions) -> int:
    from aoec.ascendc.manifest import ENDING, manifest
    from aoec.base.files.files import write_text
    from aoec.jobs.ascendc import kernel_of
    kernel = kernel_of(options.text, options.input, options.target, dict(options.holes), options.cann, DEFAULT_TARGET, _form(options))
    write_text(options.output, kernel.source)
    if options.output != "-":
        write_text(f"{options.output}{ENDING}", as_json(manifest(kernel)))
    return 0


COMMAND = Command("emit", "turn a scheduled func into a program of AI Core instructions, or into the source of a kernel", EmitOptions, run,
                  "tutorial", 260, "aoec emit scheduled.tir -o g.prog", check)
