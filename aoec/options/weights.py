"""Where the constants of a graph lie: beside its text, unless an option says otherwise."""
from __future__ import annotations

from aoec.options.option import File, option, options, redeclare
from aoec.options.shared import OneInput, OutputOption

ENDING = ".npz"


@options
class WeightsOption(OneInput):
    """A command that works on one graph, with its constants."""

    weights: str | None = option(
        "--weights", default=None, metavar="FILE.npz", file=File.READ, help="the constants of the graph (default: <input>.npz)")

    @property
    def weights_path(self) -> str:
        """Return where the constants are. Return "" where nothing says so."""
        return str(self.weights or weights_beside(self.input))


@options
class GraphOutput(OutputOption):
    """A graph that is written, with its constants beside it."""

    output: str = redeclare(OutputOption, "output", with_it=(ENDING,))


def weights_beside(path: str) -> str:
    """Return where the constants of a graph at `path` lie; "" for the standard streams."""
    return "" if path == "-" else f"{path}{ENDING}"
