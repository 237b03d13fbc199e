"""Where the constants of a graph lie: beside its text, unless an option says otherwise."""
from __future__ import annotations

from aoec.options.option import File, Options, option, options

ENDING = ".npz"


@options
class WeightsOption(Options):
    input: str
    weights: str | None = option(
        "--weights", default=None, metavar="FILE.npz", file=File.READ, help="the constants of the graph (default: <input>.npz)")

    @property
    def weights_path(self) -> str:
        """Where the constants are; "" where nothing says so."""
        return str(self.weights or weights_beside(self.input))


def weights_beside(path: str) -> str:
    """Where the constants of a graph at `path` lie; "" for the standard streams."""
    return "" if path == "-" else f"{path}{ENDING}"
