"""`aoec completion`: the script with which a shell completes aoec's words."""
from __future__ import annotations

from aoec.base.files.files import write_text
from aoec.cli.command import Command
from aoec.options.option import argument, options
from aoec.options.shared import OutputOption

SHELLS = ("bash", "zsh", "tcsh")


@options
class CompletionOptions(OutputOption):
    shell: str = argument("|".join(SHELLS), choices=SHELLS, help="the shell")


def run(options: CompletionOptions) -> int:
    """Writes the script."""
    from aoec.cli.completion_script import script
    from aoec.cli.parser import parser
    write_text(options.output, script(options.shell, parser()))
    return 0


COMMAND = Command("completion", "print the script with which a shell completes aoec's words", CompletionOptions, run, "deploy", 330,
                  "aoec completion bash > ~/.local/share/bash-completion/completions/aoec")
