"""The vendor's stock cube block, 128 x 256 x 64 with every slot doubled, fitted to a sketch: laid out before any search.

The block keeps what the shape allows; capacity takes from k first, and 256 columns are tried beside 128. Every core grid that keeps the
cores busy is laid out with it, so that the default schedule has at least seen what the block can do.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import prod

from aoec.search.grid import Candidate, Grid, Space

PIXELS, COLUMNS, DEPTHS = 128, (256, 128), (64, 32, 16, 8)
CHUNKS = (1, 4, 7, 16, 64)  # L0 tiles, or C1 planes, in an L1 chunk
ROWS = 16  # of an image at most where the sketch keeps rows whole
ONE = ("rk", "pm", "pn")  # factors of a chunk or tile: the block does without
SLOTS = ("da", "db", "d0a", "d0b", "dc", "uf", "pl", "do")
PART = 4  # columns of fractals: with three or four buffers in UB a part of 128 to 256 rows has room for its slots

Legal = Callable[[Sequence[Candidate]], Sequence[bool]]


def stock(space: Space, legal: Legal) -> list[Candidate]:
    """Legal candidates of every cube sketch with the stock block; none for vector work."""
    out: list[Candidate] = []
    for number, grid in enumerate(space.grids):
        if "tk" in grid.names:
            for columns in COLUMNS:
                out += deepest(number, grid, columns, legal)
    return out


def deepest(number: int, grid: Grid, columns: int, legal: Legal) -> list[Candidate]:
    """The legal candidates with the largest k of the block that has any."""
    for depth in DEPTHS:
        listed = [(number, v) for v in blocked(grid, columns, depth)]
        if found := [c for c, yes in zip(listed, legal(listed)) if yes]:
            return found
    return []


def blocked(grid: Grid, columns: int, depth: int) -> Iterator[tuple[int, ...]]:
    """Hole values with this L0 block, on every grid that is at least half full; the wide block takes all of a 2201's L0C: one slot."""
    choices = dict(zip(grid.names, grid.choices))
    limits = {"tm": PIXELS, "tn": columns, "n1": columns // 16, "tk": depth, "uc": PART}
    fixed: dict[str, tuple[int, ...]] = {name: (up_to(choices[name], limit),) for name, limit in limits.items() if name in choices}
    fixed |= {name: (up_to(choices[name], 2),) for name in SLOTS if name in choices}
    fixed |= {name: choices[name][:1] for name in (*ONE, *(["dc"] if columns == COLUMNS[0] else [])) if name in choices}
    fixed["sk"] = tuple(dict.fromkeys(up_to(choices["sk"], c) for c in CHUNKS))
    parts = [name for name in grid.names if name.startswith("g")]
    most = max((max(choices[name]) for name in parts), default=1)
    grids = [v for v in product(*[choices[name] for name in parts]) if most // 2 <= prod(v) <= most]
    for tile in tiles(choices):
        for spread in grids:
            at = {**tile, **dict(zip(parts, spread))}
            yield from product(*[(at[name],) if name in at else fixed.get(name, choices[name]) for name in grid.names])


def tiles(choices: dict[str, tuple[int, ...]]) -> list[dict[str, int]]:
    """Rectangles of a convolution with most pixels up to the block's, one L0 tile in an L1 tile; whole rows where only rows are cut."""
    if "th" not in choices:
        return [{}]
    rows = choices.get("h0", choices["th"])
    widths = choices.get("w0", choices.get("tw"))
    if widths is None:
        return [placed(choices, h, 0) for h in rows if h <= ROWS] or [placed(choices, min(rows), 0)]
    areas = {(h, w): h * w for h in rows for w in widths if h * w <= PIXELS} or {(min(rows), min(widths)): 1}
    return [placed(choices, h, w) for (h, w), area in areas.items() if area == max(areas.values())]


def placed(choices: dict[str, tuple[int, ...]], rows: int, columns: int) -> dict[str, int]:
    """The holes of an image's tiles at this rectangle."""
    wanted = {"th": rows, "h0": rows, "tw": columns, "w0": columns}
    return {name: up_to(choices[name], v) for name, v in wanted.items() if name in choices}


def up_to(values: tuple[int, ...], limit: int) -> int:
    """The largest choice up to the limit, or the smallest of all."""
    return max((v for v in values if v <= limit), default=min(values))
