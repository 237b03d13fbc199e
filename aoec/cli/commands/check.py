"""`aoec check`: what the vendor's compiler front half says of an HIVM text."""
from __future__ import annotations

from dataclasses import asdict

from aoec.base.errors import CheckError
from aoec.base.files.files import read_text
from aoec.base.text import plural
from aoec.cli.command import Command, as_json, write_line
from aoec.options.exchange import CheckOptions


def run(options: CheckOptions) -> int:
    """Verifies and lowers the text. What is refused is said by the instruction and the loops that stand there, in one line."""
    from aoec.jobs.hivm import verdict_on
    verdict, name = verdict_on(read_text(options.input), options.python, options.limit)
    if options.json:
        write_line("-", as_json({"verifier": name, "verified": not verdict.refusals, **asdict(verdict)}).removesuffix("\n"))
        return 2 if verdict.refusals else 0
    if verdict.refusals:
        first, more = verdict.refusals[0], len(verdict.refusals) - 1
        rest = f" (and {plural(more, 'more refusal')}; --json shows all)" if more else ""
        place = f"{options.input}:{first.line}:{first.column}" if first.line else options.input
        raise CheckError(f"{name} refuses {first.sentence()}{rest}", source=place)
    write_line("-", f"{options.input}: verified and lowered by {name} to {plural(len(verdict.routines), 'routine')} of its library in "
                    f"{verdict.seconds:.2f} s. The vendor's compiler front half took it; it never ran on an NPU.")
    return 0


COMMAND = Command("check", "verify an HIVM text with the vendor's compiler front half", CheckOptions, run, "languages", 265,
                  "aoec emit g.prog --as hivm -o g.mlir && aoec check g.mlir --check-python .vendor")
