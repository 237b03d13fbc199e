"""Programs of published micro-benchmarks and block-size sweeps: copies into UB and L1, ND to NZ on vector cores, reductions, Triton grids.

Each says the row as its source describes the kernel: tile, cores, order, slots. What a source leaves open is set here, once for all rows.
"""
from __future__ import annotations

from math import ceil

from aoec.base.errors import UnsupportedError
from aoec.ir.index import DTYPES
from aoec.ir.program import Program
from aoec.ir.text.parse import parse_program
from aoec.target.machine import Machine
from bench.cases.case import Case
from bench.cases.text import Stage, drained, load_ub, looped, pipeline, primed, program, reduce_rows, store_ub, vector

# of a copy whose tile is not said: those of the asc-devkit DataCopy sample where all cores read one matrix, into UB and into L1
TILES = {False: (128, 64), True: (256, 64)}
UB_SHARE = 4  # a tile whose size is left open takes a quarter of UB


def core_kind(machine: Machine, cube: bool) -> str:
    """Return aic or aiv, or core where both share one."""
    return ("aic" if cube else "aiv") if "aiv" in machine.cores else "core"


def copy_program(case: Case, machine: Machine) -> Program:
    """Return copies GM -> UB or L1 by tiles of rows x columns. Every core has its own rows, or all cores copy everything (`shared`)."""
    to_l1 = case.operator.endswith("l1")
    kind = core_kind(machine, to_l1)
    rows, columns = matrix(case)
    told = case.tile.numbers("tile")
    tile_rows, tile_columns = told if len(told) == 2 else (min(TILES[to_l1][0], rows), min(TILES[to_l1][1], columns))
    cores = case.tile.one("cores", machine.core(kind).count)
    parts, passes = case.tile.one("parts", 1), case.tile.one("passes", 1)
    share = rows if "shared" in case.tile else ceil(rows / parts / cores)
    down, across = ceil(share / tile_rows), ceil(columns / tile_columns)
    tile_rows = ceil(share / down)  # no core reads rows that are another's, or that are not there
    row = "i" if "shared" in case.tile else f"(q*{cores} + core)*{down} + i"
    if "stagger" in case.tile:
        row = f"(i + core*{max(1, down // cores)}) % {down}"
    source = f"X[({row})*{tile_rows * columns} + j*{tile_columns}]"
    dtype = case.dtypes[0]
    tensors = [f"input X: {dtype}[{rows * columns}]" + " uncached" * ("shared" in case.tile)]  # the sample turns the cache off there
    scope, bytes_ = ("L1" if to_l1 else "UB"), tile_rows * tile_columns * DTYPES[dtype]
    line = load_l1(case, source, tile_rows, tile_columns, columns) if to_l1 else \
        load_ub("x[0]", source, tile_rows, tile_columns * DTYPES[dtype], (columns - tile_columns) * DTYPES[dtype])
    body = pipeline(Stage(loads=[line]), [("q", str(parts)), ("p", str(passes)), ("i", str(down)), ("j", str(across))], 1)
    return parse_program(program("copy", machine.name, tensors, [f"space x: {dtype} in {scope} at 0 size {bytes_}"], kind, cores, body))


def load_l1(case: Case, source: str, rows: int, columns: int, stride: int) -> str:
    """Return one load into L1: ND to NZ on the way, which is also what a load of unnamed kind does in the samples."""
    return f"copy_gm_l1_nd2nz(dst=x[0], src={source}, rows={rows}, cols={columns}, src_stride={stride}, dst_rows={rows})"


def matrix(case: Case) -> tuple[int, int]:
    """Return rows and columns of the first operand."""
    if not case.shape.inputs or len(case.shape.inputs[0]) > 2:
        raise UnsupportedError(f"shape {case.shape.text!r} is no matrix")
    sizes = case.shape.inputs[0]
    return (1, sizes[0]) if len(sizes) == 1 else (sizes[0], sizes[1])


def nd2nz_program(case: Case, machine: Machine) -> Program:
    """Return ND -> NZ by vector cores: tiles in, rows copied to columns of blocks `ubstride` rows apart, column runs out; two slots."""
    rows, columns = matrix(case)
    size, dtype = DTYPES[case.dtypes[0]], case.dtypes[0]
    r, c = case.tile.numbers("tile") or (128, REPEAT // size)
    stride, unit = case.tile.one("ubstride", r), 32 // size
    cores = case.tile.one("cores", machine.core(core_kind(machine, False)).count)
    across = ceil(columns / c)
    turns = ceil(ceil(rows / r) * across / cores)
    at = f"(core*{turns} + t)"
    blocks = c // unit
    loads = [load_ub("x.a[0]", f"X[{at} // {across}*{r * columns} + {at} % {across}*{c}]", r, c * size, (columns - c) * size)]
    work = [f"vcopy(dst=y.a[{i * unit}], src=x.a[{i * c}], lanes={REPEAT // size}, repeat={min(255, r - i)}, dst_blk={stride}, src_blk=1, "
            f"dst_rep=1, src_rep={blocks})" for i in range(0, r, 255)]
    place = f"Y[{at} % {across}*{c * rows} + {at} // {across}*{r * unit}]"
    stores = [store_ub(place, "y.a[0]", blocks, r * 32, (rows - r) * 32, stride - r)]
    body = pipeline(Stage(loads, work, stores), [("t", str(turns))], 2)
    tensors = [f"input X: {dtype}[{(rows + r) * columns}]", f"output Y: {dtype}[{(rows + r) * columns}]"]
    spaces = [f"space x: {dtype} in UB at 0 size {r * c * size} depth 2",
              f"space y: {dtype} in UB at {2 * r * c * size} size {stride * c * size} depth 2"]
    return parse_program(program("nd2nz", machine.name, tensors, spaces, core_kind(machine, False), cores, body, 2))


REPEAT = 256  # bytes of a vector repeat
REDUCERS = {"max": ("vmax", "vcmax"), "min": ("vmin", "vcmin"), "sum": ("vadd", "vcadd"), "mean": ("vadd", "vcadd")}


def reduce_program(case: Case, machine: Machine) -> Program:
    """Return a reduction by blocks: BM x BN tiles in, summed into an accumulator, reduced whole at the end of a program's rows, one store.

    More programs than cores run in turns.
    """
    rows, columns = matrix(case)
    kind = core_kind(machine, False)
    limit = machine.core(kind).count
    across = case.shape.output == (columns,) and rows > 1  # along the first axis
    tile = case.tile.numbers("tile")
    bm, bn = tile if len(tile) == 2 else (1, tile[0]) if tile else open_tile(rows, columns, case, machine)
    bm, bn = min(bm, rows), min(bn, columns)
    blocks = ceil(columns / bn) if across else ceil(rows / bm) if rows > 1 else ceil(columns / bn)
    programs = case.tile.one("programs", blocks)
    cores = min(programs, limit, case.tile.one("cores", limit))
    turns = ceil(programs / cores)
    steps = ceil(rows / bm) if across else ceil(columns / bn) if rows > 1 else 1
    part = parts_of(case, bm, bn, machine)
    return parse_program(reduce_text(case, machine, kind, (rows, columns), (bm, bn), (cores, turns, steps, part), across))


def open_tile(rows: int, columns: int, case: Case, machine: Machine) -> tuple[int, int]:
    """Return a tile of whole rows, or a part of one, that takes a share of UB."""
    most = machine.scope("UB").size_bytes // UB_SHARE // DTYPES[case.dtypes[0]]
    return max(1, min(rows, most // columns)), min(columns, most)


def parts_of(case: Case, bm: int, bn: int, machine: Machine) -> int:
    """Return parts that a block is loaded in: as `sub` says, or as UB asks for."""
    sub = case.tile.numbers("sub")
    wanted = ceil(bm / sub[0]) if sub and bm > 1 else ceil(bn / sub[0]) if sub else 1
    most = machine.scope("UB").size_bytes // 3 // DTYPES[case.dtypes[0]]
    return max(wanted, ceil(bm * bn / most))


def reduce_text(case: Case, machine: Machine, kind: str, shape: tuple[int, int], tile: tuple[int, int], plan: tuple[int, int, int, int],
                across: bool) -> str:
    """Return the text of a reduction: turns x steps x parts of loads and accumulation; results go out once a turn."""
    (_, columns), (bm, bn), (cores, turns, steps, part) = shape, tile, plan
    dtype = case.dtypes[0]
    size = DTYPES[dtype]
    loaded_rows, loaded = (ceil(bm / part), bn) if bm > 1 else (1, ceil(bn / part))
    elements = loaded_rows * loaded
    word = next((w for w in REDUCERS if w in case.operator), "sum")
    add, whole = REDUCERS[word]
    block = f"(core*{turns} + t)"
    place = f"{block}*{bn} + s*{bm * columns}" if across else f"{block}*{bm * columns} + s*{bn}"
    source = f"X[{place} + p*{loaded_rows * columns if bm > 1 else loaded}]"
    lines = [load_ub("x.a[0]", source, loaded_rows, loaded * size, (columns - loaded) * size)]
    kept = bn if across else elements
    work = [*(halved(add, loaded_rows, bn, dtype) if across else []), *vector(add, "acc", ["acc", "x.a"], kept, dtype)]
    results = bn if across else bm
    stage = Stage(lines, work)
    inner = looped(stage, [("s", str(steps)), ("p", str(part))], 3)
    finish = [*([] if across else reduce_rows(whole, "acc", "acc", kept, dtype)), "set(V, MTE3, 0)", "wait(V, MTE3, 0)",
              store_ub(f"Y[{block}*{results}]", "acc[0]", 1, results * size), "set(MTE3, V, 0)"]
    body = [*primed(stage, 2, 2), "    set(MTE3, V, 0)", f"    for t in {turns} {{", "      wait(MTE3, V, 0)", *inner,
            *["      " + x for x in finish], "    }", "    wait(MTE3, V, 0)", *drained(stage, 2, 2)]
    span = cores * turns * max(bm * columns if not across else bn, 1) + steps * bm * columns
    tensors = [f"input X: {dtype}[{span}]", f"output Y: {dtype}[{cores * turns * results}]"]
    spaces = [f"space x: {dtype} in UB at 0 size {elements * size} depth 2",
              f"space acc: {dtype} in UB at {2 * elements * size} size {max(kept * size, 32)}"]
    return program("reduce", machine.name, tensors, spaces, kind, cores, body, 2)


def halved(add: str, rows: int, columns: int, dtype: str) -> list[str]:
    """Return rows of a tile added to one, the second half to the first: few heads of instructions, as a compiler's tree of a tile is."""
    out = []
    while rows > 1:
        out += vector(add, "x.a", ["x.a", "x.a"], rows // 2 * columns, dtype)
        rows = -(-rows // 2)
    return out


def instruction_program(case: Case, machine: Machine) -> Program:
    """Return a reduction of what is in UB already: by halves (`tree`) or by the whole-reduce instruction, on one core."""
    elements, dtype = case.shape.inputs[0][0], case.dtypes[0]
    body = reduce_rows("vcadd", "x", "x", elements, dtype) if "whole" in case.tile else []
    while "tree" in case.tile and elements > REPEAT // DTYPES[dtype]:
        half = ceil(elements / 2)
        body += vector("vadd", "x", ["x", "x"], half, dtype)
        elements = half
    body += [] if "whole" in case.tile else reduce_rows("vcadd", "x", "x", elements, dtype)
    spaces = [f"space x: {dtype} in UB at 0 size {case.shape.inputs[0][0] * DTYPES[dtype]}"]
    return parse_program(program("reduce_instr", machine.name, [f"output Y: {dtype}[1]"], spaces, core_kind(machine, False), 1,
                                 ["    " + x for x in body]))
