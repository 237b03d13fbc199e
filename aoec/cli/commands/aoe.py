"""`aoec aoe`: AOE's own command line."""
from __future__ import annotations

from aoec.cli.command import Command, VendorOptions
from aoec.cli.vendor.vendor_words import PAGE
from aoec.options.option import options


@options
class AoeOptions(VendorOptions):
    def left_behind(self) -> str:
        return "what was found so far is kept in the bank; the same command with --reload goes on from there"


def run(options: AoeOptions) -> int:
    """Translates the words and runs what they say."""
    from aoec.cli.vendor.aoe_line import main
    from aoec.cli.vendor.run_words import run_vendor
    return run_vendor(main, options.words)


COMMAND = Command("aoe", "take AOE's own command line", AoeOptions, run, PAGE, 130,
                  "aoec aoe --job_type=2 --model=model.onnx")
