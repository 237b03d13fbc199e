"""Where a command runs: the model machine, or a device; and what a run on a device is asked for."""
from __future__ import annotations

from aoec.options import readers
from aoec.options.option import Options, option, options

MODEL = "model"


@options
class OnOption(Options):
    """`on`: "model", or "npu:0" of the device with that number."""

    title = "device"
    on: str = option(
        "--on", default=MODEL, metavar="model|npu[:N]", read=readers.place_to_run,
        help="model: the model machine (default). npu, npu:1: a device of this computer, through CANN; aoec doctor --npu says what is "
             "missing")
    limit: float | None = option(
        "--limit", default=None, metavar="SECONDS", read=readers.limit,
        help="the most that one kernel may take on the device before it is stopped (default: 20 times what is modelled, at least 1)")

    @property
    def device(self) -> int | None:
        """Return the number of the device; None of the model machine."""
        return None if self.on == MODEL else int(self.on.partition(":")[2] or 0)


@options
class DeviceRunOptions(OnOption):
    check: str | None = option(
        "--check", default=None, metavar="outputs|groups", choices=("outputs", "groups"),
        help="hold what the device makes against the model machine. outputs: the model's outputs. groups: also each group on what it "
             "really read, and the first that differs is named. Exit code 1 where values differ")
    runs: int = option(
        "--runs", default=1, metavar="N", read=readers.positive,
        help="run so often on the device, and print the least measured time (default: 1)")
