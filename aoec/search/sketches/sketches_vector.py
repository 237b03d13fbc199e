"""Sketches of vector funcs: the tile in UB, its axes over cores, slots of what goes in and out.

Holes are t0 and t1 (tile of the first two tiled axes), g0 and g1 (parts over cores), and di and do (slots in UB). Two more are pl (tiles by
which padded ones are filled and loaded ahead) and p0 (what the result's place is a multiple of).
"""
from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType

from aoec.base.errors import ScheduleError, UnsupportedError
from aoec.ir.func.narrow import GROUP, MOST, takes_every_nth
from aoec.ir.func.pixels import GROUP_ROWS, pixels_of
from aoec.ir.func.tir import Func
from aoec.ir.index import Call, Expr, Int, Read, Var, affine, normalise, reads, substitute, variables
from aoec.ir.schedule import Step, Trace
from aoec.primitives import apply
from aoec.search.sketches.nests import (
    AHEAD,
    SKEW,
    Nest,
    dtype_bytes,
    gm_reads,
    hole,
    is_beside,
    ladder,
    nests,
    output_nest,
    parts,
    skewed_buffers,
    step,
    tiles_over_cores,
)
from aoec.search.sketches.padding import own_name, padded_far
from aoec.search.sketches.rows import (
    ENDS,
    PACK,
    comes_as_run,
    copies_only,
    cores_of,
    from_gm,
    narrow_runs,
    rows_read,
    ruled_axes,
    turns,
    ways_out,
)
from aoec.target.machine import Machine

SLOTS = (1, 2)
DEEP = (1, 2, 3, 4)  # of tiles of one iteration, which are small: loads are longer under way than one of them is worked on
MOST_ELEMENTS = 65536
RUN_ELEMENTS = 16384  # of tensors of one axis that are moved a part at a time, all together: in two slots, 128 KB of fp32
ROW_OF_PIXELS = 256  # longer ones are cut where they are turned: UB holds a row for each of sixteen channels, twice
ROW_ELEMENTS = 4096  # longer rows of elementwise work are cut: UB holds a dozen of them in fp32
ROW_PAD = 16  # elements, a side of what is turned at once
LEAST_LANES = 32  # of rows that are reduced lane by lane: no longer ones are cut
LEAST_ELEMENTS = 2048  # smaller tiles are no choice
MOST_TILES = 2048  # where they would make more of them than this on a core: each costs some twenty cycles of issue
BANKS = (512, 65536)  # where results start: at the next slot, or in a bank of their own
# of conversions between layouts (lower_convert), of pixels that are interleaved (lower_interleaved), and of rows made of others
# (lower_columns): what one turn of UB needs whole
WHOLE = ("store_i", "store_j", "store_c_i", "store_c0_i", "store_near", "store_far")


def vector_sketches(func: Func, machine: Machine) -> list[Trace]:
    """Return one sketch a choice of tiled axes: the outermost alone, or the outer two."""
    if not func.locals and len(nests(func)) > 1 and len(func.outputs) == 1:
        return movement_sketches(func, machine)
    out = output_nest(func)
    axes = [lp.var for lp in out.loops if any(lp.var in variables(i) for i in out.block.target.indices)]
    if not axes:
        raise UnsupportedError(f"block {out.block.name} writes one element alone, and loops of its indices are what is tiled")
    if len(axes) == 1:
        return [vector_sketch(func, machine, out, axes, way) for way in ways_out(func, machine, out, axes)]
    whole = whole_axes(func, machine, out)
    free = [v for v in (axes if rows_read(out) else axes[:-1]) if v not in whole]
    longest = ROW_OF_PIXELS if turns(func) else RUN_ELEMENTS if copies_only(func) else ROW_ELEMENTS if elementwise(func) else None
    if longest is not None and axes[-1] not in whole and out.extent(axes[-1]) > longest:
        free.append(axes[-1])
    if lanes_cut(func, out) and axes[-1] not in whole:
        free.append(axes[-1])
    if summed := reduced_axes(func, out):
        free = [v for v in free if v not in summed] or axes[-1:]
    ruled = ruled_axes(out)
    if ruled:
        free = [v for v in free if v not in ruled] or axes[-1:]
    if narrow_runs(func, machine):
        free = [v for v in axes if v not in whole]
    tiled = [v for v in free if out.extent(v) > 1] or free[:1]
    choices = [tiled[i:j] for i in range(len(tiled)) for j in range(i + 1, min(i + 3, len(tiled) + 1))]
    far = padded_far(func, out) - whole - summed
    choices = [c for c in choices if far.isdisjoint(axes[:axes.index(c[0])])] or choices
    choices += shared_in_front(out, ruled, tiled, whole | summed, cores_of(machine))
    apart = len(func.inputs) <= machine.flag_ids and any(finds_numbers(func, n) for n in nests(func))
    return [vector_sketch(func, machine, out, c, way, hold) for c in choices for way in ways_out(func, machine, out, c)
            for hold in ([True, False] if apart else [True])]


def padded_rows(func: Func) -> frozenset[str]:
    """Return buffers of rows that are transposed into columns that several blocks make, or made from such columns. An even number of
    blocks, each a fractal wide, lies from row to row there. Without padding, the blocks of a column would meet in few groups of banks."""
    found = nests(func)
    makers = [n.block.target.buffer for n in found]
    columns = {b.name for b in func.locals if makers.count(b.name) > 1}
    sides = [{n.block.target.buffer, n.block.value.buffer} for n in found if n.block.op == "=" and isinstance(n.block.value, Read)]
    rows = {name for pair in sides if pair & columns for name in pair - columns}
    return frozenset(b.name for b in func.locals if b.name in rows and len(b.shape) == 2 and isinstance(b.shape[-1], Int)
                     and -(-b.shape[-1].value // ROW_PAD) % 2 == 0)


def elementwise(func: Func) -> bool:
    """Return True where no block reduces, but for what stands."""
    return all(n.block.op == "=" or finds_numbers(func, n) for n in nests(func))


def finds_numbers(func: Func, n: Nest) -> bool:
    """Return True where a block makes one number of an input that no other block reads, such as the greatest of a tensor's parts."""
    kept = {v for i in n.block.target.indices for v in variables(i)}
    sources = {r.buffer for r in reads(n.block.value)}
    others = {r.buffer for m in nests(func) if m.block.name != n.block.name for r in reads(m.block.value)}
    own = sources <= {b.name for b in func.inputs} and sources.isdisjoint(others)
    return n.block.op != "=" and own and all(n.extent(v) == 1 for v in kept)


def lanes_cut(func: Func, out: Nest) -> bool:
    """Return True where blocks reduce long rows, each of their lanes by itself."""
    found = [n for n in nests(func) if n.block.op != "="]
    apart = all(n.loops[-1].var in variables(n.block.target.indices[-1]) for n in found)
    return bool(found) and apart and out.extent(out.loops[-1].var) > LEAST_LANES


def whole_axes(func: Func, machine: Machine, out: Nest) -> set[str]:
    """Return loops that belong to one vector operation whole: the sixteen channels of a transposition, cut at the last, and narrow rows."""
    turned = out.loops[-2:] if narrow_runs(func, machine) else ()
    rows = {lp.var for lp in turned if isinstance(lp.extent, Int) and lp.extent.value < MOST}
    backwards = {own_name(n, v) for n in nests(func) for v in backward_loops(n)}
    return rows | {lp.var for lp in out.loops
                   if not isinstance(lp.extent, Int) or lp.var in WHOLE or own_name(out, lp.var) in backwards}


def backward_loops(n: Nest) -> set[str]:
    """Return the loops along which a block reads backwards, as each half of a row with the other: no step may split them."""
    found, loops = set[str](), frozenset(lp.var for lp in n.loops)
    for index in (i for r in reads(n.block.value) for i in r.indices):
        parts = affine(index, loops)
        found |= {v for v, c in parts[0].items() if isinstance(c, Int) and c.value < 0} if parts is not None else set()
    return found


def reduced_axes(func: Func, out: Nest) -> set[str]:
    """Return loops of the output over what some block reduces: a tile needs all of them. Lowering gives an axis the same name in all
    blocks, behind the name of the block's target."""
    found = {own_name(n, lp.var) for n in nests(func) if n.block.op != "=" for lp in n.loops
             if not any(lp.var in variables(i) for i in n.block.target.indices)}
    return {lp.var for lp in out.loops if own_name(out, lp.var) in found}


def shared_in_front(out: Nest, ruled: Sequence[str], tiled: Sequence[str], together: Collection[str], cores: int) -> list[list[str]]:
    """Return choices of axes that cores share one iteration at a time, such as images and blocks of channels of which the last is not full:
    each of them alone, two in a row, and each with the first axis that is tiled behind them; of one core the innermost alone, with all
    behind it whole. None where a tile needs one of them whole."""
    kept = {lp.var for lp in out.loops if any(lp.var in variables(i) for i in out.block.target.indices)}
    if not kept.issuperset(ruled) or not set(ruled).isdisjoint({*together, *tiled}):
        return []
    many = [v for v in ruled if out.extent(v) > 1]
    if cores == 1:
        return [[v] for v in many[-1:]]
    rest = [v for v in tiled if out.extent(v) > 1][:1]
    return [*[[v] for v in many], *[[a, b] for a, b in pairwise(many)], *[[v, *rest] for v in many if rest]]


def vector_sketch(func: Func, machine: Machine, out: Nest, tiled: list[str], way: str, hold: bool = True) -> Trace:
    """Return all blocks at one tile of the output block's axes `tiled`; the other outer axes stay whole. Those of them up to the last that
    rules the extents of others have tiles of one iteration, and what lies between them is serial. `hold`: what no tile moves in stays in
    UB, else it is brought and made for each tile, and takes room while it is used."""
    steps: list[Step] = []
    cores, size = cores_of(machine), dtype_bytes(func, func.outputs[-1].name)
    narrow = narrow_runs(func, machine)
    turned = 0 if not turns(func) else GROUP if narrow or any(takes_every_nth(n.block) for n in nests(func)) else max(16, 32 // size)
    ruled = ruled_axes(out)
    slots = SLOTS if set(ruled).isdisjoint(tiled) else DEEP
    for i, v in enumerate(tiled):
        unit, extent = tile_unit(out, v, size, turned), out.extent(v)
        if v in ruled:
            steps.append(step("split", loop=v, parts=hole(f"g{i}", parts(extent, cores)), outer=f"{v}_c", inner=f"{v}_s"))
            continue
        sizes = ladder(extent, unit, MOST_ELEMENTS, min(extent // (cores * MOST_TILES), LEAST_ELEMENTS))
        steps += tiles_over_cores(v, i, sizes, -(-extent // unit), cores)
    kept = {lp.var for lp in out.loops if any(lp.var in variables(i) for i in out.block.target.indices)}
    names = [lp.var for lp in out.loops]
    summed = reduced_axes(func, out)
    together = whole_axes(func, machine, out) | summed
    leading = [v for v in names[:names.index(tiled[0])] if v in kept and v not in together]
    between = [v for v in ruled if v not in leading and v not in tiled]
    inner = [v for v in names if v not in (*leading, *between, *tiled)]
    reduced = [v for v in inner if (v not in kept or v in summed) and names.index(v) < names.index(tiled[0])]
    inner = [v for v in inner if v not in reduced]
    grid, serial = [f"{v}_c" for v in tiled], [v if v in between else f"{v}_s" for v in names if v in between or v in tiled]
    lanes = [f"{v}_i" for v in tiled if v == names[-1]]
    own = [*[f"{v}_i" for v in tiled if v != names[-1] and v not in ruled], *inner, *lanes]
    steps.append(step("reorder", loops=(*grid, *leading, *serial, *reduced, *own)))
    at = serial[-1]
    order = [n for n in nests(func) if n.block.name != out.block.name]
    once = standing(func, order, out, {*tiled, *(v for v in (*leading, *between) if out.extent(v) > 1)}) if hold else set[str]()
    for n in [n for n in order if is_beside(func, n)]:
        steps.append(step("compute_at", block=n.block.name, loop=at))
    for n in [n for n in reversed(order) if not is_beside(func, n)]:
        steps.append(step("compute_at", block=n.block.name, loop=grid[-1] if n.block.target.buffer in once else at))
    apart = frozenset() if narrow else padded_rows(func)
    for buffer in dict.fromkeys(n.block.target.buffer for n in order if not is_beside(func, n)):
        more: dict[str, str | int] = {"layout": "RUN"} if buffer in narrow else {"pad": ROW_PAD} if buffer in apart else {}
        steps.append(step("set_scope", buffer=buffer, scope="UB", **more))
    axes = ({own_name(out, v) for v in (*leading, *between)}, {own_name(out, v) for v in tiled})
    runs = {b for b in {r.buffer for n in (*order, out) for r in reads(n.block.value)} - once - narrow
            if all(comes_as_run(func, machine, n, r, *axes) for n in (*order, out) for r in reads(n.block.value) if r.buffer == b)}
    steps += inputs(func, order + [out], at, dict.fromkeys(once, grid[-1]), once, runs, slots)
    steps += store(func, out, (*reduced, *own)[0], at, way, slots)
    for n in order:
        if is_beside(func, n):
            steps += store(func, n, n.loops[0].var, at, slots=slots)
        elif from_gm(func, n):
            steps.append(step("tensorize", loop=n.loops[0].var, instr="copy"))
            to = n.block.target.buffer
            if isinstance(n.block.value, Read) and n.block.value.buffer in runs and to not in narrow:
                steps.append(step("unpack", block=n.block.name))
                to = f"{to}_run"
            held = step("double_buffer", buffer=to, depth=hole("di", slots))
            steps += [held] if held not in steps else []
            if isinstance(n.block.value, Call):  # pipe V fills the tile for it, and would do so behind the work on the one before
                steps.append(step("preload", buffer=n.block.target.buffer, ahead=hole("pl", AHEAD)))
        else:
            steps.append(step("tensorize", loop=n.loops[0].var, instr="vector"))
    steps += placement(func, order + [out])
    for loop in grid:
        steps.append(step("bind", loop=loop))
    return Trace(tuple(steps))


def tile_unit(out: Nest, v: str, size: int, turned: int = 0) -> int:
    """Return what tiles of an axis are multiples of: of the last one whole blocks, of rows of pixels those that are made together;
    `turned`: what of the last one is turned at once, if it is."""
    if pixels_of(out.block) and v == out.loops[-2].var:
        return GROUP_ROWS
    if turned and v == (out.loops[-2] if out.extent(out.loops[-1].var) < MOST else out.loops[-1]).var:
        return turned
    return 32 // size if v == out.loops[-1].var and not rows_read(out) else 1


def placement(func: Func, order: list[Nest]) -> list[Step]:
    """Return sources that one instruction reads start half a period of the banks apart; where the result lies is a hole."""
    pairs = [(a, b) for n in order for a, b in [sources(n)] if a != b]
    inputs, last = {b.name for b in func.inputs}, order[-1]
    steps = [step("place", buffer=f"{name}_UB" if name in inputs else name, skew=SKEW) for name in skewed_buffers(pairs)]
    if pairs and last.block.op == "=" and sources(last) in pairs:
        steps.append(step("place", buffer=f"{last.block.target.buffer}_UB", align=hole("p0", BANKS)))
    return steps


def sources(n: Nest) -> tuple[str, str]:
    """Return the two buffers that a block's vector instruction reads; twice the same where it has one source, as a whole row's
    reduction."""
    if n.block.op != "=" and n.block.target.indices[-1:] == (Int(0),):
        return "", ""
    found = [r.buffer for r in [*([n.block.target] if n.block.op != "=" else []), *reads(n.block.value)]]
    return (found[0], found[1]) if len(found) == 2 else ("", "")


def standing(func: Func, order: list[Nest], out: Nest, moving: set[str]) -> set[str]:
    """Return buffers whose index no tile changes, such as a scale for each column and what is made of it alone. They are loaded once for
    each core."""
    moves = {out.block.name: moving}
    walked: dict[str, set[int]] = {}  # buffer -> its dimensions that move with the tiles
    for n in reversed([*order, out]):
        b = n.block
        own = moves.get(b.name, {v for d in walked.get(b.target.buffer, ()) for v in variables(b.target.indices[d])})
        for r in reads(b.value):
            found = walked.setdefault(r.buffer, set())
            found |= {d for d, i in enumerate(r.indices) if variables(i) & own}
    made = {n.block.target.buffer: n for n in order}
    still = {buffer for buffer, dims in walked.items() if not dims and (
        buffer not in made or made[buffer].block.op == "=" or finds_numbers(func, made[buffer]))}
    while True:
        readers = {b: {n.block.target.buffer for n in [*order, out] if b in {r.buffer for r in reads(n.block.value)}} for b in still}
        kept = {b for b in still if (b in made and {r.buffer for r in reads(made[b].block.value)} <= still)
                or (b not in made and (readers[b] <= still or not readers[b] & still))}
        if kept == still:
            return still
        still = kept


def inputs(func: Func, order: list[Nest], at: str, elsewhere: Mapping[str, str] = MappingProxyType({}),
           once: Collection[str] = (), runs: Collection[str] = (), slots: tuple[int, ...] = SLOTS) -> list[Step]:
    """Return copies into UB of what blocks read from GM, but for blocks that are such copies; in loop `at`, or where `elsewhere` says. What
    comes `once` has one slot; rows of `runs` come as runs."""
    out: list[Step] = []
    readers: dict[str, dict[tuple[Expr, ...], list[str]]] = {}
    for n in order:
        copies = from_gm(func, n) and n.block.target.buffer not in {b.name for b in func.outputs}
        for b in indices_read(n) if copies else gm_reads(func, n.block):
            readers.setdefault(b, {}).setdefault(starts(n, b), []).append(n.block.name)
    for buffer, places in readers.items():
        for number, names in enumerate(places.values()):
            local = f"{buffer}_UB{number or ''}"
            out.append(step("cache_read", block=tuple(names), buffer=buffer, scope="UB", at=elsewhere.get(buffer, at),
                            **{"name": local} if number else {}))
            if buffer in runs:
                out.append(step("unpack", block=local))
            if buffer not in once:
                out.append(step("double_buffer", buffer=f"{local}_run" if buffer in runs else local, depth=hole("di", slots)))
    return out


def indices_read(n: Nest) -> list[str]:
    """Return the buffers that say where a block reads."""
    return [r.buffer for read in reads(n.block.value) for i in read.indices for r in reads(i)]


def starts(n: Nest, buffer: str) -> tuple[Expr, ...]:
    """Return where a block's reads of a buffer begin: parts of a tensor, as the halves of its rows, are copied each by itself."""
    backwards = backward_loops(n)
    zero: dict[str, Expr] = {lp.var: lp.extent - 1 if lp.var in backwards else Int(0) for lp in n.loops}
    return next(tuple(normalise(substitute(i, zero)) for i in r.indices) for r in reads(n.block.value) if r.buffer == buffer)


def store(func: Func, out: Nest, first: str, at: str, way: str = "", slots: tuple[int, ...] = SLOTS) -> list[Step]:
    """Return the output through UB, in one of WAYS perhaps; a block that only copies a local out needs no buffer of its own."""
    target = out.block.target.buffer
    source = out.block.value if out.block.op == "=" and not pixels_of(out.block) else None
    if not isinstance(source, Read):
        steps = [step("cache_write", block=out.block.name, buffer=target, scope="UB", at=at), step("tensorize", loop=first, instr="vector")]
        return steps + leave(f"{target}_out", f"{target}_UB", way, slots)
    steps = [step("tensorize", loop=first, instr="copy")]
    if source.buffer in {b.name for b in func.locals}:
        return steps + leave(out.block.name, source.buffer, way, slots)
    return steps + (leave(out.block.name, f"{source.buffer}_UB", way, slots, False) if way else [])


def leave(block: str, buffer: str, way: str, slots: tuple[int, ...], apart: bool = True) -> list[Step]:
    """Return slots of what a copy takes out of UB, after its rows were packed, or their ends made; `apart`: the rows have slots of their
    own."""
    made = [step(way, block=block)] if way else []
    left = {PACK: [f"{buffer}_packed"], ENDS: [*([buffer] if apart else []), f"{buffer}_ends"]}.get(way, [buffer])
    return [*made, *[step("double_buffer", buffer=b, depth=hole("do", slots)) for b in left]]


def movement_sketches(func: Func, machine: Machine) -> list[Trace]:
    """Return the sketches of concat and upsample. The shared axes are split over cores, and a part of every input goes through UB in each
    tile of the last of them. Where parts of rows are no whole blocks, and the machine writes no others, there is also a sketch with rows
    that are joined in UB."""
    first = None if machine.has("copy_ub_gm", parts=1) else join_of(func)
    if first is None:
        return [movement_sketch(func, machine)]
    made = apply(func, Trace((first,)))
    out = output_nest(made)
    rows = [out.loops[0].var]
    joined = [vector_sketch(made, machine, out, rows, way) for way in ways_out(made, machine, out, rows)]
    return [*[Trace((first, *t.steps)) for t in joined], movement_sketch(func, machine)]


def join_of(func: Func) -> Step | None:
    """Return the step that joins rows of which blocks copy parts that are no whole blocks; None where there are none."""
    found, size = nests(func), dtype_bytes(func, func.outputs[-1].name)
    first = step("join_rows", block=tuple(n.block.name for n in found))
    ragged = any(n.extent(n.loops[-1].var) * size % 32 for n in found)
    try:
        return first if ragged and apply(func, Trace((first,))) else None
    except ScheduleError:
        return None


def movement_sketch(func: Func, machine: Machine) -> Trace:
    """Return the shared axes over cores, a part of every input through UB in each tile of the last of them."""
    steps: list[Step] = []
    found = nests(func)
    shared = [lp.var for lp in found[0].loops if all(lp.var in [x.var for x in n.loops] for n in found)]
    cores = cores_of(machine)
    for i, v in enumerate(shared):
        extent = found[0].extent(v)
        steps += tiles_over_cores(v, i, ladder(extent, 1, 4096), extent, cores)
    return Trace(tuple(steps)) if not shared else shared_movement(func, found, shared, steps)


def shared_movement(func: Func, found: list[Nest], shared: list[str], steps: list[Step]) -> Trace:
    steps.append(step("reorder", loops=(*[f"{v}_c" for v in shared], *[f"{v}_s" for v in shared], *[f"{v}_i" for v in shared])))
    readers = readers_of(found)
    alone = {names[0] for _, names in readers.values() if len(names) == 1}
    first = {n.block.name: next(lp.var for lp in n.loops if lp.var not in shared) for n in found}
    at = {n.block.name: f"{shared[-1]}_i" for n in found}
    run = max(RUN_ELEMENTS // len(found) // 64, 1) * 64
    for n in found:
        v, name = n.loops[-1].var, n.block.name
        if v not in shared and n.extent(v) > run and name in alone:  # too long for UB
            steps.append(step("split", loop=v, factor=run, outer=f"{v}_t", inner=f"{v}_i"))
            first[name], at[name] = f"{v}_i", f"{v}_t"
    for buffer, (source, names) in readers.items():
        own = {} if buffer == source else {"name": f"{buffer}_UB"}
        steps.append(step("cache_read", block=tuple(names), buffer=source, scope="UB", at=at[names[0]], **own))
        steps.append(step("double_buffer", buffer=f"{buffer}_UB", depth=hole("di", SLOTS)))
    for n in found:
        steps.append(step("tensorize", loop=first[n.block.name], instr="copy"))
    for v in shared:
        steps.append(step("bind", loop=f"{v}_c"))
    return Trace(tuple(steps))


def readers_of(found: list[Nest]) -> dict[str, tuple[str, list[str]]]:
    """Return what is brought to UB, by name -> (the tensor that it is of, the blocks that read it). Blocks that read a tensor alike share
    one buffer with all of it. Parts of a tensor that lie in different places have a buffer each, because a burst begins at a block of
    UB."""
    places: dict[str, dict[object, list[str]]] = {}
    for n in found:
        read, own = reads(n.block.value)[0], {lp.var: Var(f"i{at}") for at, lp in enumerate(n.loops)}
        place = tuple(normalise(substitute(i, own)) for i in read.indices), tuple(lp.extent for lp in n.loops)
        places.setdefault(read.buffer, {}).setdefault(place, []).append(n.block.name)
    out: dict[str, tuple[str, list[str]]] = {}
    for source, apart in places.items():
        out |= {source if len(apart) == 1 else f"{source}_{names[0]}": (source, names) for names in apart.values()}
    return out
