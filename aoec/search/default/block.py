"""The vendor's stock cube block, 128 x 256 x 64 with every slot doubled, fitted to a sketch: laid out before any search.

The block keeps what the shape allows; capacity takes from k first, and 256 columns are tried beside 128. Every core grid that keeps the
cores busy is laid out with it, so that the default schedule has at least seen what the block can do.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from aoec.ir.index import Expr, Hole, Int, binary, ceildiv
from aoec.search.space.draws import holding
from aoec.search.space.grid import Candidate, Grid

PIXELS, COLUMNS, DEPTHS = 128, (256, 128), (64, 32, 16, 8)
CHUNKS = (1, 4, 7, 16, 64)  # L0 tiles, or C1 planes, in an L1 chunk
ROWS = 16  # of an image at most where the sketch keeps rows whole
ONE = ("rk", "pm", "pn")  # factors of a chunk or tile: the block does without
SLOTS = ("da", "db", "d0a", "d0b", "dc", "uf", "pl", "do")
LIST, SAMPLE = 60, 1024  # candidates of a sketch, and of those with a block that are looked at
PART = 4  # columns of fractals: with three or four buffers in UB a part of 128 to 256 rows has room for its slots

Conditions = Callable[[int], Sequence[Expr]]  # sketch -> what its candidates must keep


def stock(grid: Grid, number: int, conditions: Sequence[Expr]) -> list[Candidate]:
    """Return legal candidates of a cube sketch with the stock block, as many as LIST; none of vector work."""
    if "tk" not in grid.names:
        return []
    rows = blocks(grid)
    kept = deepest(grid, rows[holding([*busy(grid), *conditions], dict(zip(grid.names, rows.T)), len(rows))])
    return list(dict.fromkeys((number, tuple(v)) for v in kept[evenly(len(kept), LIST)].tolist()))


def evenly(count: int, most: int) -> slice:
    """Return a slice that picks at most `most` of `count` items, at equal distances."""
    return slice(None, None, -(-count // most) or 1)


def deepest(grid: Grid, rows: np.ndarray) -> np.ndarray:
    """Return, for each width of the block, its rows with the largest k."""
    deep = rows[:, grid.names.index("tk")]
    wide = next((rows[:, grid.names.index(name)] for name in ("tn", "n1") if name in grid.names), np.zeros(len(rows), np.int64))
    return rows[[deep[i] == deep[wide == wide[i]].max() for i in range(len(rows))]] if len(rows) else rows


def blocks(grid: Grid) -> np.ndarray:
    """Return int64[row, hole]: hole values with the L0 blocks on every core grid, or a fixed sample of them."""
    choices = dict(zip(grid.names, grid.choices))
    random, found = np.random.RandomState(0), []  # whose numbers are the same in every version of NumPy
    for columns in COLUMNS:
        fixed = block_choices(choices, columns)
        for at in tiles(choices):
            part = Grid(grid.names, tuple((at[name],) if name in at else fixed.get(name, choices[name]) for name in grid.names))
            if part.size > SAMPLE:
                found.append([np.array(c, np.int64)[random.randint(len(c), size=SAMPLE)] if len(c) > 1 else np.full(SAMPLE, c[0], np.int64)
                              for c in part.choices])
            else:
                found.append(list(part.rows(0, part.size).values()))
    return np.stack([np.concatenate(column) for column in zip(*found)], axis=1)


def block_choices(choices: dict[str, tuple[int, ...]], columns: int) -> dict[str, tuple[int, ...]]:
    """Return the choices of holes for a block of so many columns. The wide block takes all of a 2201's L0C: one slot.
    A schedule that was read may have any of these holes and lack the others."""
    limits = {"tm": PIXELS, "tn": columns, "n1": columns // 16, "uc": PART}
    fixed: dict[str, tuple[int, ...]] = {name: (up_to(choices[name], limit),) for name, limit in limits.items() if name in choices}
    fixed |= {name: (up_to(choices[name], 2),) for name in SLOTS if name in choices}
    fixed |= {name: choices[name][:1] for name in (*ONE, *(["dc"] if columns == COLUMNS[0] else [])) if name in choices}
    several = [(name, values) for name, values in (("tk", DEPTHS), ("sk", CHUNKS)) if name in choices]
    return fixed | {name: tuple(dict.fromkeys(up_to(choices[name], v) for v in values)) for name, values in several}


def tiles(choices: dict[str, tuple[int, ...]]) -> list[dict[str, int]]:
    """Return rectangles of a convolution with most pixels up to the block's, one L0 tile in an L1 tile; whole rows where only rows are
    cut."""
    if "th" not in choices:
        return [{}]
    rows = choices.get("h0", choices["th"])
    widths = choices.get("w0", choices.get("tw"))
    if widths is None:
        return [image_holes(choices, h, 0) for h in rows if h <= ROWS] or [image_holes(choices, min(rows), 0)]
    areas = {(h, w): h * w for h in rows for w in widths if h * w <= PIXELS} or {(min(rows), min(widths)): 1}
    return [image_holes(choices, h, w) for (h, w), area in areas.items() if area == max(areas.values())]


def image_holes(choices: dict[str, tuple[int, ...]], rows: int, columns: int) -> dict[str, int]:
    """Return the holes of an image's tiles at this rectangle."""
    wanted = {"th": rows, "h0": rows, "tw": columns, "w0": columns}
    return {name: up_to(choices[name], v) for name, v in wanted.items() if name in choices}


def up_to(values: tuple[int, ...], limit: int) -> int:
    """Return the largest choice up to the limit, or the smallest of all."""
    return max((v for v in values if v <= limit), default=min(values))


def busy(grid: Grid) -> list[Expr]:
    """Return the conditions that a core grid takes at least half of the cores that its holes could, and no more."""
    largest = {name: max(c) for name, c in zip(grid.names, grid.choices)}
    most = max((v for name, v in largest.items() if name.startswith("g")), default=1)
    used: Expr = Int(1)
    for name in grid.names:
        if name == "sc":  # an extent of k for each core
            used = used * ceildiv(Int(largest[name]), Hole(name))
        elif name.startswith("g"):
            used = used * Hole(name)
    return [binary("<=", Int(most // 2), used), binary("<=", used, Int(most))]
