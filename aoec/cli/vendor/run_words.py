"""How a vendor's command line runs commands of aoec: as words of aoec's own command line."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from aoec.base.files.files import note
from aoec.options.compile import CompileOptions

Run = Callable[[Sequence[str]], int]


def run_vendor(main: Callable[[Sequence[str], Run, Callable[[str], None]], int], words: Sequence[str], advice: str = "") -> int:
    """Run a vendor's command line and return the exit code. `advice`: what is said of a model that nothing tuned."""
    from aoec.cli.parser import parse

    def run(own: Sequence[str]) -> int:
        command, options = parse(own)
        return command.start(replace(options, advice=advice) if isinstance(options, CompileOptions) else options)

    try:
        return main(words, run, note)
    except SystemExit as e:  # argparse has said what is wrong with a value
        return int(e.code or 0)
