"""Schedules of matrix products as the vendor's tilings, and tilings as the schedules that a search lays out.

The vendor's kernels decide what a tiling leaves open, alike for every tiling. Results leave L0C in granules where FIXPIPE takes them out,
and no load is a chunk of k ahead. (Their public sources say so: MM_CFG_NO_PRELOAD sets enUnitFlag and no preload.) So not every schedule
can be expressed as a tiling. `tiling_of` gives the nearest tiling, with what differs then. `trace_of` reads a tiling. Applying both to
their own result changes nothing more.
"""
from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from aoec.base.errors import CheckError, UnsupportedError
from aoec.ir.func.tir import Func
from aoec.ir.index import DTYPES, Read
from aoec.ir.rewrite import fill
from aoec.ir.rewrite import holes as holes_of
from aoec.ir.schedule import Step, Trace
from aoec.search.sketches.nests import Nest, find_product
from aoec.search.sketches.plan import cores_of, factors, unit_flag, ways
from aoec.search.sketches.sketches_matmul import Form, matmul_sketch
from aoec.search.space.nearest import solve_holes
from aoec.search.vendor.vendor import ORDER_M, ORDER_N, WALKS, MatmulTiling, legal_matmul, matmul_choice, product, up
from aoec.search.vendor.vendor_conv import ConvTiling
from aoec.target.machine import Machine

SAID = {"da": "slots of A in L1", "db": "slots of B in L1", "d0a": "slots of L0A", "d0b": "slots of L0B", "dc": "slots of L0C",
        "bm": "L2 tiles", "bn": "L2 tiles",
        "uf": "results leave L0C in granules (UnitFlag)", "pl": "loads a chunk of k ahead", "tk": "tile of k", "sk": "chunks of k in L1",
        "rk": "chunks of k in L1", "gm": "parts of m over cores", "gn": "parts of n over cores", "uc": "columns that leave L0C together",
        "do": "slots of results in UB", "du": "slots of operands in UB", "th": "rows in L1", "tw": "columns in L1", "h0": "rows in L0",
        "w0": "columns in L0", "gh": "parts of rows over cores", "gw": "parts of columns over cores", "gb": "parts of the batch over cores"}
STRUCTURE = {"resident": "operands that stay in L1", "inside": "order of m and n", "larger": "chunks of k in L1",
             "steps": "L0 tiles in an L1 tile", "l2": "L2 blocks", "spread": "how blocks are dealt to cores",
             "rotated": "where cores start along k", "parts_of_k": "parts of k"}


@dataclass(frozen=True, slots=True)
class Delivery:
    """A tiling, the schedule that it is read as, and in which words that differs from the one asked for; () where it does not."""

    tiling: MatmulTiling | ConvTiling
    trace: Trace
    differs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a schedule is no tiling of the vendor's."""

    why: str


# ---------------------------------------------------------------- tiling -> schedule

def trace_of(func: Func, machine: Machine, tiling: MatmulTiling) -> Trace:
    """Return the schedule of a tiling, in the search's words where it has them. UnsupportedError where no form of ours says it."""
    form, values = plainest(*matmul_choice(func, machine, tiling), extents(product(func)), cores_of(machine))
    return make_schedule(func, machine, form, values)


def make_schedule(func: Func, machine: Machine, form: Form, values: dict[str, int]) -> Trace:
    """Return the schedule of a form.
    Operands in rows go through UB where MTE2 does not reorder them, as in the vendor's kernels (VEC_ND2NZ), if they leave half of it to
    results. A tiling says nothing of the holes of that way: they are as `on_the_way` has them."""
    mm = product(func)
    most = machine.scope("UB").size_bytes // 2 if "UB" in machine.scopes else 0
    brought = {w: through_bytes(mm, func, form, values, w) for w in ways(func, mm, machine)}
    through = next((w for w in reversed(brought) if brought[w] <= most), next(iter(brought)))
    sketch = matmul_sketch(func, mm, machine, form, through)
    left = {n: choices for n, choices in holes_of(sketch).items() if n not in values}
    bias = 4 * min(values.get("sn", extents(mm)["n"]), extents(mm)["n"]) if isinstance(mm.block.init, Read) else 0
    return fill(sketch, {**values, **on_the_way(left, values["tm"], values["tn"] // 16, brought[through], bias, machine)})


def through_bytes(mm: Nest, func: Func, form: Form, values: dict[str, int], through: tuple[str, ...]) -> int:
    """Return bytes of the L1 tiles of the operands that go through UB."""
    total, sides = 0, (("left", "m"), ("right", "n"))
    for read, (side, axis) in zip(factors(mm), sides):
        chunk = values["tk"] * values["sk"] * (values["rk"] if form.ratio and form.larger == side else 1)
        k = extents(mm)["k"] if form.keeps(side) else min(chunk, extents(mm)["k"])
        total += (read.buffer in through) * tile_extent(form, values, axis) * k * DTYPES[func.buffer(read.buffer).dtype]
    return total


def on_the_way(left: dict[str, tuple[int, ...]], rows: int, fractals: int, brought: int, bias: int, machine: Machine) -> dict[str, int]:
    """Return values of the holes that no tiling says: of the way out through UB, two slots of results and even parts of a tile's columns
    that fit beside what is brought there."""
    if not left:
        return {}
    room = machine.scope("UB").size_bytes - bias
    du = 2 if 2 * brought <= room // 2 else 1
    parts = (room - du * brought) // (up(rows, 16) * 16 * 2 * (4 + 4))
    own = {"du": du, "uc": max([c for c in left.get("uc", ()) if c <= parts and fractals % c == 0], default=1)}
    return {n: max(v for v in choices if v <= own.get(n, 2)) for n, choices in left.items()}


def extents(mm: Nest) -> dict[str, int]:
    """Return extents of m, n and k."""
    return {x: mm.extent(loop.var) for x, loop in zip("mnk", mm.loops[-3:])}


def plainest(form: Form, values: dict[str, int], sizes: dict[str, int], cores: int) -> tuple[Form, dict[str, int]]:
    """Return the form and values that say the same work in the fewest words. Shares of a grid become parts where they are even. Blocks of
    one tile are dealt to all cores in turn. An operand is resident only where a core comes back to it."""
    values = dict(values)
    if form.spread == "single":
        form = in_parts(form, values, sizes)
    if form.spread.startswith("deal") and values["cores"] == cores and all(values[f"s{x}"] == tile_extent(form, values, x) for x in "mn"):
        form = replace(form, spread=form.spread.replace("deal", "turn"))
    form = unkept(form, values, sizes)
    if not form.ratio:
        values["rk"] = 1
    elif values["rk"] == 1:
        form = replace(form, larger="")
    return form, values


def tile_extent(form: Form, values: dict[str, int], axis: str) -> int:
    """Return the extent of an L1 tile."""
    return values[f"t{axis}"] * (values[f"p{axis}"] if axis in form.steps else 1)


def in_parts(form: Form, values: dict[str, int], sizes: dict[str, int]) -> Form:
    """Return the form with cores' shares in equal parts, where they are as even as whole fractals allow; values are set so."""
    grid = {}
    for x in "mn":
        tile, block, extent = tile_extent(form, values, x), values[f"s{x}"], sizes[x]
        share = block * (values[f"l{x}"] if x in form.l2 else 1)
        parts = -(-extent // share)
        if tile > share_of(extent, parts) or share < extent and (share_of(extent, parts) != share or x in form.l2 and block % tile):
            return form
        grid[x] = (parts, max(1, block // tile))
    for x, (parts, tiles) in grid.items():
        values |= {f"g{x}": parts, f"l{x}": tiles}
    return replace(form, spread="parts")


def share_of(extent: int, parts: int) -> int:
    """Return a core's share of an axis that so many share."""
    return up(-(-extent // parts), 16)


def serial(form: Form, values: dict[str, int], sizes: dict[str, int], axis: str) -> bool:
    """Return whether a core walks several L1 tiles of an axis, one after the other, between which it could keep the other operand."""
    if form.spread != "parts":
        return not form.spread.startswith("turn") and min(values.get(f"s{axis}", 0), sizes[axis]) > tile_extent(form, values, axis)
    tiles = -(-share_of(sizes[axis], values[f"g{axis}"]) // tile_extent(form, values, axis))
    return (values[f"l{axis}"] if axis in form.l2 else tiles) > 1


def unkept(form: Form, values: dict[str, int], sizes: dict[str, int]) -> Form:
    """Return the form without a resident operand that is brought only once anyway. Of the two, the operand that the inner loop does not
    move in stays, if a core comes back to it. An operand with several L0 tiles in an L1 tile must stay."""
    stays = {"left": "m" in form.steps or form.inside == "n" and serial(form, values, sizes, "n"),
             "right": "n" in form.steps or form.inside == "m" and serial(form, values, sizes, "m")}
    kept = [side for side in ("left", "right") if form.keeps(side) and stays[side]]
    if [side for side in ("left", "right") if form.keeps(side)] == kept:
        return order(form, values, sizes)
    share = values["sc"] if form.parts_of_k else sizes["k"]
    chunks = -(-share // values["tk"])
    own = {"both": (chunks, chunks), "left": (chunks, values["sk"]), "right": (values["sk"], chunks)}[form.resident]
    if kept:
        values["sk"] = own[kept[0] == "left"]
        return order(replace(form, resident=kept[0]), values, sizes)
    values |= {"sk": min(own), "rk": -(-max(own) // min(own))}
    larger = "" if own[0] == own[1] else "left" if own[0] > own[1] else "right"
    return order(replace(form, resident="none", larger=larger), values, sizes)


def order(form: Form, values: dict[str, int], sizes: dict[str, int]) -> Form:
    """Return the form with n inside where a core has no two loops to order."""
    both = all(serial(form, values, sizes, x) for x in "mn")
    return form if both or form.resident != "none" else replace(form, inside="n")


# ---------------------------------------------------------------- schedule -> tiling

def tiling_of(func: Func, trace: Trace, machine: Machine) -> Delivery | Refusal:
    """Return the vendor's tiling that says a schedule of a matrix product, or comes nearest to it; or why none does."""
    try:
        mm = product(func)
        choice = choice_of(func, mm, machine, trace)
    except (CheckError, UnsupportedError) as e:
        return Refusal(str(e))
    if choice is None:
        return Refusal("its structure is none that a matrix product's fields say")
    if prod(mm.extent(loop.var) for loop in mm.loops[:-3]) > 1:
        return Refusal("a batch of products: the key of MatMulV3 has none")
    if choice[0].parts_of_k and DTYPES[func.outputs[0].dtype] != 4:
        return Refusal("parts of k are added up in fp32 alone")
    return nearest(func, machine, trace, *choice)


def nearest(func: Func, machine: Machine, trace: Trace, form: Form, values: dict[str, int]) -> Delivery:
    """Return the tiling of a form with values, the schedule that its line is read as, and what is other there."""
    sizes = extents(product(func))
    tiling = tiling_in(func, form, values, machine)
    read = trace_of(func, machine, replace(tiling, swizzleOffset=0))  # which no line says
    plain = replace(tiling, iterateOrder=ORDER_M)  # the vendor's own where there is nothing to order
    if trace_of(func, machine, replace(plain, swizzleOffset=0)) == read:
        tiling = plain
    if read == trace:
        return Delivery(tiling, read)
    was = plainest(form, values, sizes, cores_of(machine))
    now = choice_of(func, product(func), machine, read)
    assert now is not None
    return Delivery(tiling, read, difference(was, now))


def difference(was: tuple[Form, dict[str, int]], now: tuple[Form, dict[str, int]]) -> tuple[str, ...]:
    """Return what of a schedule another one has otherwise, in words."""
    said = [text for n, text in STRUCTURE.items() if getattr(was[0], n) != getattr(now[0], n) and not (n == "larger" and not now[0].ratio)]
    shared = [n for n in was[1] if n in now[1] and was[1][n] != now[1][n] and not (n in ("rk", "sk") and was[0].larger != now[0].larger)]
    said += ["operands that go through UB"] * (("du" in was[1]) != ("du" in now[1]))
    return tuple(sorted({*said, *[SAID.get(n, f"?{n}") for n in shared]}))


def tiling_in(func: Func, form: Form, values: dict[str, int], machine: Machine) -> MatmulTiling:
    """Return the tiling of a product's form with values, legalised as the shape takes it; of a batch that of one."""
    mm = find_product(func)
    assert mm is not None
    sizes = extents(mm)
    share = min(values["sc"], sizes["k"]) if form.parts_of_k else sizes["k"]
    ka, kb = steps_of_k(form, values, -(-share // values["tk"]))
    block = {x: block_of(form, values, sizes, x) for x in "mn"}
    count = {x: -(-sizes[x] // block[x]) for x in "mn"}
    step = {x: values[f"p{x}"] if x in form.steps else 1 for x in "mn"}
    side = l2_sides(form, values, sizes, count, cores_of(machine))
    cut = {x: -(-count[x] // side[x]) for x in "mn"}
    cores = cores_of(machine) if form.spread.startswith("turn") else values["cores"] if form.in_turn else prod(
        side.values()) * -(-sizes["k"] // share)
    t = MatmulTiling(usedCoreNum=cores, singleCoreM=block["m"], singleCoreN=block["n"], singleCoreK=share, baseM=values["tm"],
                     baseN=values["tn"], baseK=values["tk"], stepM=step["m"], stepN=step["n"], stepKa=ka, stepKb=kb,
                     depthA1=values["da"] * step["m"] * ka, depthB1=values["db"] * step["n"] * kb,
                     iterateOrder=ORDER_M if form.inside == "m" else ORDER_N, dbL0A=values["d0a"], dbL0B=values["d0b"], dbL0C=values["dc"],
                     l2MTileCnt=cut["m"], l2NTileCnt=cut["n"], l2MTileBlock=side["m"] if form.walk else 0,
                     l2NTileBlock=side["n"] if form.walk else 0, l2IterateOrder=WALKS.index(form.walk) if form.walk else 0,
                     unitFlag=unit_flag(func, mm, machine), kRotate=int(form.rotated),
                     swizzleOffset=values["so"] if form.dealt else 0, swizzleDirection=int(form.dealt == "n"))
    legal = legal_matmul(t, sizes, DTYPES[func.inputs[0].dtype], machine)
    count = {"m": -(-sizes["m"] // legal.singleCoreM), "n": -(-sizes["n"] // legal.singleCoreN)}
    side = {x: min(side[x], count[x]) for x in "mn"}
    return replace(legal, usedCoreNum=min(cores, cores_of(machine)), l2MTileCnt=-(-count["m"] // side["m"]),
                   l2NTileCnt=-(-count["n"] // side["n"]), l2MTileBlock=side["m"], l2NTileBlock=side["n"], swizzleOffset=t.swizzleOffset)


def l2_sides(form: Form, values: dict[str, int], sizes: dict[str, int], count: dict[str, int], cores: int) -> dict[str, int]:
    """Return l2MTileBlock and l2NTileBlock. On a grid they hold what cores work on together. For groups of ?so rows or columns they hold
    about a round of all cores."""
    if form.walk:
        return {x: min(values[f"b{x}"], count[x]) for x in "mn"}
    if not form.dealt:
        return {x: -(-count[x] // l2_count(form, values, sizes, x)) for x in "mn"}
    along = "n" if form.dealt == "m" else "m"
    group = min(values["so"], count[form.dealt])
    return {form.dealt: group, along: min(count[along], -(-values.get("cores", cores) // group))}


def steps_of_k(form: Form, values: dict[str, int], chunks: int) -> tuple[int, int]:
    """Return (stepKa, stepKb): tiles of k of each operand in L1."""
    small = min(values["sk"], chunks)
    large = min(values["sk"] * values.get("rk", 1), chunks) if form.ratio else small
    if form.resident == "none":
        return (large, small) if form.larger != "right" else (small, large)
    return chunks if form.keeps("left") else small, chunks if form.keeps("right") else small


def block_of(form: Form, values: dict[str, int], sizes: dict[str, int], axis: str) -> int:
    """Return singleCoreM or singleCoreN: what a core works on before it goes on."""
    tile = tile_extent(form, values, axis)
    if form.spread.startswith("turn"):
        return min(tile, up(sizes[axis], 16))
    if form.spread != "parts":
        return values[f"s{axis}"]
    if axis in form.l2:
        return min(tile * values[f"l{axis}"], up(sizes[axis], 16))
    return share_of(sizes[axis], values[f"g{axis}"])


def l2_count(form: Form, values: dict[str, int], sizes: dict[str, int], axis: str) -> int:
    """Return l2MTileCnt or l2NTileCnt of a grid: rounds in which all cores work on one L2 block together."""
    if axis not in form.l2:
        return 1
    if form.spread != "parts":
        return values[f"l{axis}"]
    tiles = -(-share_of(sizes[axis], values[f"g{axis}"]) // tile_extent(form, values, axis))
    return -(-tiles // values[f"l{axis}"])


# ---------------------------------------------------------------- which form a schedule has

def choice_of(func: Func, mm: Nest, machine: Machine, trace: Trace) -> tuple[Form, dict[str, int]] | None:
    """Return (form, values of its holes) of a schedule; None where it is no matrix product's."""
    for form in forms_in(trace, mm):
        for through in ways(func, mm, machine):
            try:
                sketch = matmul_sketch(func, mm, machine, form, through)
            except UnsupportedError:
                continue
            if (values := solve_holes(sketch, trace)) is not None:
                return form, values
    return None


def forms_in(trace: Trace, mm: Nest) -> list[Form]:
    """Return the forms that a schedule's steps may be of."""
    names = {s.primitive for s in trace.steps}
    loops = next((s["loops"] for s in trace.steps if s.primitive == "reorder"), ())
    if not isinstance(loops, tuple) or not all(f"{x}_s" in loops for x in "mn"):
        return []
    a, b = (r.buffer for r in factors(mm))
    at = {str(s["buffer"]): str(s["at"]) for s in trace.steps if s.primitive == "cache_read" and s["scope"] == "L1"}
    load_a, load_b = (at.get(x, at.get(f"{x}_UB", "")) for x in (a, b))
    resident = {(True, True): "both", (True, False): "left", (False, True): "right"}.get((load_a == "m_s", load_b == "n_s"), "none")
    larger = "" if "k_2" not in loops else "left" if load_a == "k_2" else "right"
    form = Form(resident, "n" if loops.index("m_s") < loops.index("n_s") else "m", larger, "".join(x for x in "mn" if f"{x}_0" in loops),
                "".join(v[0] for v in loops if v in ("m_2", "n_2")), "parts", "rotate" in names, "k_c" in loops)
    return [replace(form, spread=s) for s in spreads(trace, names)]


def spreads(trace: Trace, names: set[str]) -> list[str]:
    """Return how cores may share the work, by a schedule's steps."""
    if "swizzle" in names:
        return [f"walk {s['order']}" for s in trace.steps if s.primitive == "swizzle"]
    if "fuse" in names:
        walked = next((str(s["outer"])[0] for s in trace.steps if s.primitive == "split" and s["loop"] in ("m_t", "n_t")), "m")
        walked = next((str(s["loop"])[0] for s in trace.steps if s.primitive == "split" and _outer(s) == "t_g"), walked)
        return [f"turn {walked}", f"deal {walked}"]
    return ["parts" if any(s.primitive == "split" and "most" in dict(s.fields) for s in trace.steps) else "single"]


def _outer(step: Step) -> str:
    return str(dict(step.fields).get("outer", ""))
