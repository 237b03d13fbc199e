"""Vector operators without tuning: cores, and elements of a tile in UB (section 3 of docs/stock.md). Sizes in elements."""
from __future__ import annotations

from dataclasses import dataclass
from math import prod

from aoec.ir.func.tir import Func
from aoec.ir.index import DTYPES, Int
from aoec.search.stock.sizes import KB, parts

LEAST_BYTES = 4096  # a core (elewise_tiling: the 4 KB rule)
PAIRWISE = 16 * KB  # bytes of UB that a reduction keeps for partial sums
PING_PONG = 2


@dataclass(frozen=True, slots=True)
class Wanted:
    """Cores, and elements of one tile in UB; `rule` in words."""

    cores: int
    elements: int
    rule: str


def elements_of(func: Func, at: int = -1) -> int:
    """Return elements of a func's result."""
    return prod(e.value for e in func.outputs[at].shape if isinstance(e, Int))


def elementwise(func: Func, cores: int, ub: int) -> Wanted:
    """Return the 4 KB rule: a core for each 4 KB of the smallest dtype, and as large a tile as UB has room for in two slots of all
    tensors."""
    sizes = [DTYPES[b.dtype] for b in (*func.inputs, *func.outputs)]
    used = max(1, min(cores, parts(elements_of(func) * min(sizes), LEAST_BYTES)))
    tile = ub // (PING_PONG * len(sizes) * max(sizes)) // 256 * 256
    return Wanted(used, max(tile, 16), "elementwise: 4 KB a core")


def rows_rule(func: Func, cores: int, ub: int, columns: int) -> Wanted:
    """Return rows of a reduction along the last axis, shared by all cores; as many a pass as UB has room for beside the partial sums."""
    rows = max(1, elements_of(func) // max(1, min(columns, elements_of(func))))
    size, count = max(DTYPES[b.dtype] for b in (*func.inputs, *func.outputs)), PING_PONG * (len(func.inputs) + 1)
    return spread(rows, cores, columns, (ub - PAIRWISE) // count // size, "reduce: rows over cores")


def spread(rows: int, cores: int, columns: int, room: int, rule: str) -> Wanted:
    """Return rows over cores, as even as they come, and `room` elements of them a pass."""
    each = parts(rows, cores)
    return Wanted(parts(rows, each), max(16, min(each * columns, max(columns, room // columns * columns), room)), rule)


# ---------------------------------------------------------------- open rules of 910B: rows a pass

def add_layer_norm(func: Func, cores: int, ub: int, columns: int) -> Wanted:
    """Return the rule of AddLayerNorm: gamma and beta stay in UB, with three tensors of rows and single buffers."""
    e = DTYPES[func.outputs[-1].dtype]
    room = (ub - 512 - 2 * e * columns) // (columns * (3 * e + 12) + 8)
    rows = max(1, room if columns >= 500 else min(room, 255))
    return spread(elements_of(func) // columns, cores, columns, rows * columns, "AddLayerNorm")


def add_rms_norm(func: Func, cores: int, ub: int, columns: int) -> Wanted:
    """Return the rule of AddRmsNorm: a row is whole up to 12288 columns (fp32 10240), else it is in chunks. A pass takes several short
    rows."""
    wide = DTYPES[func.outputs[-1].dtype] == 4
    most, chunk = (10240, 9696) if wide else (12288, 12096)
    rows = (ub - KB) // (columns * (24 if wide else 18) + 260) if columns <= 2000 else 1
    room = max(1, rows) * columns if columns <= most else chunk
    return spread(elements_of(func) // columns, cores, columns, room, "AddRmsNorm")


def layer_norm(func: Func, cores: int, ub: int, columns: int) -> Wanted:
    """Return the rule of LayerNormV4: many rows a pass where a core has more than two and they are short, else row by row."""
    rows = elements_of(func) // columns
    many = parts(rows, cores) > 2 and columns < (ub - 2 * KB) // 8
    room = max(1, (ub - 2 * KB) // 8 // (1 + columns)) * columns if many else min(columns, (ub - 3 * KB) // 8)
    return spread(rows, cores, columns, room, "LayerNormV4")


def swiglu(func: Func, cores: int, ub: int, columns: int) -> Wanted:
    """Return the rule of SwiGlu: all cores, two slots."""
    e = DTYPES[func.outputs[-1].dtype]
    return Wanted(max(1, min(cores, parts(elements_of(func) * e, 512))), ub // (28 if e == 4 else 6 * e + 8), "SwiGlu")
