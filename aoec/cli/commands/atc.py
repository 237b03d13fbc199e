"""`aoec atc`: ATC's own command line."""
from __future__ import annotations

from aoec.cli.command import Command, VendorOptions
from aoec.cli.vendor.vendor_words import PAGE
from aoec.options.option import options

ADVICE = "not tuned: aoec aoe --job_type=2 searches for faster schedules"  # of a model that nothing tuned


@options
class AtcOptions(VendorOptions):
    def left_behind(self) -> str:
        return "a model that was compiled is kept; nothing is left running"


def run(options: AtcOptions) -> int:
    """Translates the words and runs what they say."""
    from aoec.cli.vendor.atc_line import main
    from aoec.cli.vendor.run_words import run_vendor
    return run_vendor(main, options.words, ADVICE)


COMMAND = Command("atc", "take ATC's own command line: compile from the bank, without a search", AtcOptions, run, PAGE, 140,
                  "aoec atc --model=model.onnx --framework=5 --soc_version=Ascend310P3 --output=model")
