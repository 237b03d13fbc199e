"""`aoec results`: result files of tuning, side by side."""
from __future__ import annotations

from collections.abc import Sequence

from aoec.base.files.files import read_text, write_text
from aoec.cli.command import Command, as_json
from aoec.options.option import File, argument, options
from aoec.options.shared import JsonOption, OutputOption


@options
class ResultsOptions(JsonOption, OutputOption):
    files: Sequence[str] = argument("FILE.json|DIR", many=True, file=File.READ,
                                    help="aoe_result_opat_*.json or aoe_result_sgat_*.json, - for standard input")


def run(options: ResultsOptions) -> int:
    """Reads the files and writes what they say."""
    from aoec.report.results import results
    found = [job for given in options.files for path in results.files_of(given) for job in results.jobs(read_text(path), path)]
    write_text(options.output, as_json(results.facts(found)) if options.json else results.show(found))
    return 0


COMMAND = Command(
    "results", "show result files of tuning, aoec's or AOE's of any release; several side by side",
    ResultsOptions, run, "deploy", 150, "aoec results aoe_result_opat_20260901120000000_pid1.json")
