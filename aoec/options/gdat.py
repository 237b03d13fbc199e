"""The options of gradient tuning: the system whose communication is planned for, the trace, and limits of the plan."""
from __future__ import annotations

from aoec.base.errors import CheckError
from aoec.options import readers
from aoec.options.option import File, Options, Place, option, options

SCHEMES = ("all_reduce", "split", "sharded", "auto")


@options
class GradientOptions(Options):
    """What a plan of gradients is for, and what it may be."""

    title = "gradient tuning (--job gdat)"
    system: str | None = option(
        "--system", default=None, metavar="NAME|FILE.toml", file=File.READ, one_of="system",
        help="the system whose collectives gradients are sent by: how many ranks, and what so many bytes take. Another name lists them")
    hccl_test: Place | None = option(
        "--hccl-test", default=None, metavar="FILE", file=File.READ, one_of="system",
        help="in place of --system: the table that hccl_test printed on your own system")
    trace: Place | None = option(
        "--trace", default=None, metavar="FILE|bank", file=File.READ,
        help="a step of your own in place of the modelled one, and of a model: JSON, CSV, a torch profiler export, or AOE's record "
             "(docs/gdat.md). The bank keeps it; bank: the one that it has for the model's gradients")
    max_buckets: int | None = option("--max-buckets", default=None, metavar="N", read=readers.positive, help="buckets that a plan may have")
    max_bucket_size: int | None = option(
        "--max-bucket-size", default=None, metavar="25MB", read=readers.byte_size,
        help="bytes that a bucket may have; a gradient that is larger has one of its own")
    scheme: str = option(
        "--scheme", default="all_reduce", choices=SCHEMES, metavar="NAME",
        help="all_reduce (default). split: reduce-scatter under the backward pass, all-gather under the next forward pass. sharded: as "
             "split, and each rank updates a shard. auto: the one with the shortest step")
    channels: int = option(
        "--channels", default=1, metavar="N", read=readers.channels, help="collectives that may run at the same time (default: 1)")

    def check_system(self, names: str) -> None:
        """Raise CheckError where no option gives the cost of communication. `names`: those of the systems that come with aoec."""
        if self.system is None and self.hccl_test is None:
            raise CheckError(f"--job gdat needs a system: --system {names} or FILE.toml, or --hccl-test FILE")
