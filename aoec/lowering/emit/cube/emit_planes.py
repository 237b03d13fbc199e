"""Where tiles lie in GM in planes of channels (NC1HWC0) and in fractals (NZ). It is the same for FIXPIPE and for copies through UB."""
from __future__ import annotations

from dataclasses import dataclass

from aoec.base.errors import UnsupportedError
from aoec.ir.func.tir import COLUMNS, Buffer
from aoec.ir.index import Binary, Expr, Int, Read, Var, normalise, rebuild, round_up, substitute, walk
from aoec.ir.program import For, Item
from aoec.lowering.emit.tile import FRACTAL_ROWS, Emitter, TileOp, c0, column_rows, matrix_index, pitches, split_index


@dataclass(frozen=True, slots=True)
class Runs:
    """Where the rows of a tile lie in planes of C0 channels in GM: `count` runs of `rows` rows, `step` elements from run to run and
    `plane` from plane to plane, the first at element `base`. Loop `var` counts the runs; "" where there is one."""

    base: Expr
    rows: Expr
    count: Expr
    step: Expr
    plane: Expr
    var: str

    @property
    def start(self) -> Expr:
        """Return the element in GM where a run begins, in the first plane."""
        return self.base + Var(self.var) * self.step if self.var else self.base

    @property
    def first(self) -> Expr:
        """Return the row of the tile where a run begins."""
        return Var(self.var) * self.rows if self.var else Int(0)

    def around(self, *items: Item) -> list[Item]:
        """Return the items, once a run."""
        return [For(self.var, normalise(self.count), items)] if self.var else list(items)


def channel_runs(em: Emitter, op: TileOp, place: Read, row_loops: list[str]) -> Runs:
    """Return the runs of a tile's place in GM, in NC1HWC0 (one where it has whole rows of the image) or in a matrix in columns of C0."""
    out, p = em.buffers[place.buffer], pitches(em.buffers[place.buffer])
    zero = {v: Int(0) for v in op.names}
    if out.layout in COLUMNS:
        return _matrix_run(em, op, place, zero)
    n_off = substitute(_channel(place.indices[1]), zero)
    em.require_aligned(n_off, FRACTAL_ROWS, op, "a tile of channels")
    pixel = substitute(place.indices[2], zero) * p[2] + substitute(place.indices[3], zero) * p[3]
    start = substitute(place.indices[0], zero) * p[0] + n_off // out.shape[-1] * p[1] + pixel
    width_index, width_loops = split_index(place.indices[3], op.names)
    width = op.size(width_loops)
    height = op.size(v for v in row_loops if v not in width_loops)
    if width_index == Int(0) and width == out.shape[3]:
        return Runs(start, height * width, Int(1), Int(0), p[1], "")
    return Runs(start, width, height, p[2], p[1], em.fresh("row"))


def _matrix_run(em: Emitter, op: TileOp, place: Read, zero: dict[str, Int]) -> Runs:
    """Return the one run of a tile of a matrix [.., m, n] in columns of C0 in GM."""
    out = em.buffers[place.buffer]
    row, rows, column, _ = matrix_index(op, place)
    em.require_aligned(column, FRACTAL_ROWS, op, f"a tile of {out.name} along its columns")
    pitch = column_rows(out)
    start = fractal_lead(out, place.indices, zero) + column * pitch + row * c0(out)
    return Runs(start, rows, Int(1), Int(0), pitch * c0(out), "")


def fractal_lead(b: Buffer, indices: tuple[Expr, ...], zero: dict[str, Int]) -> Expr:
    """Return the element offset of the matrix that the leading indices name, in a tensor in GM in ZN or in columns of C0."""
    if b.layout == "ZN":
        step: Expr = round_up(b.shape[-2], c0(b)) * round_up(b.shape[-1], FRACTAL_ROWS)
    else:
        step = column_rows(b) * round_up(b.shape[-1], c0(b))
    out: Expr = Int(0)
    for i, extent in zip(reversed(indices[:-2]), reversed(b.shape[:-2])):
        out, step = out + substitute(i, zero) * step, step * extent
    return out


def _channel(e: Expr) -> Expr:
    """Return the channel in an index `channel // C0`."""
    e = normalise(e)
    if isinstance(e, Binary) and e.op == "//":
        return e.left
    parts = [n for n in walk(e) if isinstance(n, Binary) and n.op == "//"]
    if len(parts) == 1:  # normal form may have moved a whole part out: c1 + x // C0
        return normalise(replace_expr(e, parts[0], Int(0))) * parts[0].right + parts[0].left
    raise UnsupportedError("an output channel index is not channel // C0")


def replace_expr(e: Expr, old: Expr, new: Expr) -> Expr:
    """Replace a sub-expression of `e` by another."""
    return new if e == old else rebuild(e, lambda c: replace_expr(c, old, new))
