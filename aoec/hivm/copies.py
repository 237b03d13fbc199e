"""Copies as ops on views: between GM and UB, and from GM to L1."""
from __future__ import annotations

from collections.abc import Callable

from aoec.hivm.body import TYPES
from aoec.hivm.site import Site
from aoec.hivm.views import op, view
from aoec.ir.index import Expr, Int, Var, ceildiv, maximum, minimum, multiple, select
from aoec.target.isa.instructions import BLOCK_BYTES

FRACTAL_ROWS = 16
AT = "index read by the scalar unit"  # stands for a value that no variable of the program has


def elements(site: Site, name: str, size: int) -> Expr:
    """Return bytes as elements; UnsupportedError where they are not known to be whole ones."""
    found = site.expr(name)
    if multiple(found) % size:
        raise site.refusal(f"{name} is not known to be of whole elements, and a view counts elements")
    return site.simplify(found // size)


def between_gm_and_ub(site: Site) -> None:
    """Write the copy of bursts of bytes, as rows of elements. A row begins on a block in UB."""
    to_gm = site.op == "copy_ub_gm"
    size, bursts, block = site.size("src"), site.expr("bursts"), BLOCK_BYTES // site.size("src")
    length = elements(site, "length", size)
    gm = site.simplify(length + elements(site, "dst_gap" if to_gm else "src_gap", size))
    ub = site.simplify((ceildiv(length, block) + site.expr("src_gap" if to_gm else "dst_gap")) * block)
    sizes = (length,) if bursts == Int(1) else (bursts, length)

    def write() -> None:
        steps = {False: (1,) if bursts == Int(1) else (ub, 1), True: (1,) if bursts == Int(1) else (gm, 1)}
        src, dst = site.view("src", Int(0), sizes, steps[not to_gm]), site.view("dst", Int(0), sizes, steps[to_gm])
        adds = site.op == "copy_ub_gm" and site.adds()
        op(site.body, "store" if to_gm else "load", [(src.value, src.type)], [dst], behind="atomic = <add>" if adds else "")
    least = min(site.least(bursts), site.least(length))
    site.guard(None if least > 0 else bursts * length, write)


def at_index(site: Site) -> None:
    """Write the copy of one burst whose start an index gives. The scalar unit reads the index after MTE2 has reached this point."""
    body, size = site.body, site.size("src")
    length, pitch, extent = elements(site, "length", size), elements(site, "pitch", size), site.expr("extent")
    for flag in ("set_flag", "wait_flag"):
        body.line(f"hivm.hir.{flag}[<PIPE_MTE2>, <PIPE_S>, <EVENT_ID0>]")
    given = site.view("index", Int(0), (1,), (1,))
    kind = TYPES[site.dtype("index")]
    read = body.name("read")
    body.line(f"{read} = memref.load {given.value}[{body.constant(0)}] : {given.type}")
    body.vars[AT] = body.name("at")
    body.line(f"{body.vars[AT]} = arith.index_cast {read} : {kind} to index")
    at: Expr = Var(AT)
    at = minimum(maximum(select(maximum(0 - at, 0), at + extent, at), 0), extent - 1)
    ref = site.ref("src")
    src = view(body, site.bases[ref.buffer], ref.offset + at * pitch, (length,), (1,), ref.buffer)
    op(body, "load", [(src.value, src.type)], [site.view("dst", Int(0), (length,), (1,))])


def blocks_to_l1(site: Site) -> None:
    """Write the copy of bursts of blocks from GM to L1, as rows of elements."""
    block, bursts, length = BLOCK_BYTES // site.size("src"), site.expr("bursts"), site.expr("length")
    row = length * block
    sizes = (row,) if bursts == Int(1) else (bursts, row)

    def write() -> None:
        views = [site.view(n, Int(0), sizes, (1,) if bursts == Int(1) else (site.simplify((length + site.expr(f"{n}_gap")) * block), 1))
                 for n in ("dst", "src")]
        op(site.body, "load", [(views[1].value, views[1].type)], views[:1])
    least = min(site.least(bursts), site.least(length))
    site.guard(None if least > 0 else bursts * length, write)


def nd2nz(site: Site) -> None:
    """Write the copy of rows of a matrix to fractals in L1."""
    rows, cols, tall, block = site.expr("rows"), site.expr("cols"), site.expr("dst_rows"), BLOCK_BYTES // site.size("src")
    if multiple(tall) % FRACTAL_ROWS:
        raise site.refusal("the rows of a column of fractals are no multiple of 16, and nd2nz writes whole fractals")

    def write() -> None:
        src = site.view("src", Int(0), (rows, cols), (site.expr("src_stride"), 1))
        dst = site.view("dst", Int(0), (site.simplify(ceildiv(cols, block)), tall // FRACTAL_ROWS, FRACTAL_ROWS, block),
                        (tall * block, FRACTAL_ROWS * block, block, 1))
        op(site.body, "nd2nz", [(src.value, src.type)], [dst], "{dst_continuous}")
    least = min(site.least(rows), site.least(cols))
    site.guard(None if least > 0 else rows * cols, write)


FUNCTIONS: dict[str, Callable[[Site], None]] = {
    "copy_gm_ub": between_gm_and_ub, "copy_ub_gm": between_gm_and_ub, "copy_gm_ub_at": at_index, "copy_gm_l1": blocks_to_l1,
    "copy_gm_l1_nd2nz": nd2nz}
