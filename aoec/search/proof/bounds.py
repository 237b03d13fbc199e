"""Lower bounds: what no schedule of a func can beat on a machine. Admissible: never above the modelled time of a candidate.

The bound is the least over core grids (parts of m x parts of n for a product, parts of everything for vector work) of
    launch(cores) + fill + max(what each pipe of the fullest core needs, what the chip's HBM and L2 need).
Here `fill` is the time that one datum takes through latencies and flags from GM to GM. Each part counts only what every schedule must do.
Those are products at peak, operands through L1 and into L0 once a core, and each input byte that is not in L2 once from HBM. With a grid of
all cores the bound is at least max(products at peak, compulsory HBM bytes at the chip's rate) + launch.
"""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from aoec.base.ticks import TICKS_PER_CYCLE
from aoec.ir.func.tir import Block, Buffer, Func, Loop, blocks
from aoec.ir.index import DTYPES, Binary, Call, Expr, Int, Read, Var, evaluate, reads, variables, walk
from aoec.search.sketches.nests import Nest
from aoec.search.sketches.plan import by_fixpipe
from aoec.search.sketches.sketches_matmul import parts_of_k_pay
from aoec.target.isa.instructions import FRACTAL_BYTES, INSTRUCTIONS, REPEAT_BYTES
from aoec.target.isa.words import is_selection
from aoec.target.legality.placement import placed_names
from aoec.target.machine import Machine

ROWS = 16
MOST_VALUES = 1 << 21  # of one index: beyond that all of a dimension counts as read
Values = range | np.ndarray  # that a loop takes: a range where it takes all, which of millions of elements holds no memory


@dataclass(frozen=True, slots=True)
class Bound:
    """Cycles, all modelled. `parts`: the resources' needs at the grid that decides; the largest is what binds.

    `queued_cycles`: the bound of a launch that waits behind another one, which has the gap of the task queue in place of its launch
    (simulate.time.chain). It is the least over all grids, and so lies at another grid where launches grow with their cores.
    """

    cycles: float
    launch_cycles: float
    fill_cycles: float
    parts: dict[str, float]
    cores: int
    queued_cycles: float

    @property
    def ticks(self) -> int:
        """Return the bound in ticks of 1/1024 cycle, rounded down."""
        return int(self.cycles * TICKS_PER_CYCLE)


def bound(func: Func, machine: Machine, resident: Mapping[str, int]) -> Bound:
    """Return the bound of an unscheduled func; `resident`: bytes of each input that are in L2 at the start."""
    traffic = Traffic.of(func, machine, resident)
    products = [(b, above) for b, above in blocks(func.body) if is_product(b)]
    if len(products) > 1:
        return products_bound(func, products, machine, traffic)
    return cube_bound(func, *products[0], machine, traffic) if products else vector_bound(func, machine, traffic)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes of a func's tensors: of inputs those that it reads (a stride may skip some); `cold` of all must come from HBM or go
    there, `cold_inputs` come from it."""

    inputs: Mapping[str, float]
    outputs: int
    cold: float
    cold_inputs: float

    @classmethod
    def of(cls, func: Func, machine: Machine, resident: Mapping[str, int]) -> Traffic:
        sizes = {b.name: size_bytes(b) for b in func.inputs}
        outputs = sum(size_bytes(b) for b in func.outputs)
        read = {name: read_share(func, name) for name in sizes}
        keep = float(machine.l2_keeps(sum(read[name] * size for name, size in sizes.items()) + outputs))
        first = sum(read[name] * max(size - resident.get(name, 0), 0) for name, size in sizes.items())
        return cls({name: read[name] * size for name, size in sizes.items()}, outputs, first + outputs * (1.0 - keep), first)


def read_share(func: Func, name: str) -> float:
    """Return the share of an input that the func reads at all."""
    return float(np.prod([places.mean() for places in places_read(func, name)]))


def places_read(func: Func, name: str, known: dict[str, list[np.ndarray]] | None = None) -> list[np.ndarray]:
    """Return, for each dimension of a buffer, which of its places some index reads. A read that writes to a local counts only as far as
    that local is read.

    `known` holds the answers for locals, so that each is found once. Without it, chains of locals that are read twice each would be walked
    over and over.
    """
    known = {} if known is None else known
    if name in known:
        return known[name]
    taken = [np.zeros(e.value if isinstance(e, Int) else 1, bool) for e in func.buffer(name).shape]
    for block, above in blocks(func.body):
        exprs = [block.value, *([block.init] if block.init is not None else [])]
        found = [r for e in exprs for r in reads(e) if r.buffer == name]
        ranges = loop_ranges(func, block, above, known) if found else {}
        for r in found:
            for places, index in zip(taken, r.indices):
                if reads(index):  # what data say: none for sure
                    continue
                own = ranges.get(index.name) if isinstance(index, Var) else None
                if own is not None:  # most indices: no need to sort a million places
                    places[slice(len(own)) if isinstance(own, range) else own[own < len(places)]] = True
                    continue
                values = index_values(index, ranges)
                places[:] |= True if values is None else np.isin(np.arange(len(places)), values)
    known[name] = taken
    return taken


def loop_ranges(func: Func, block: Block, above: tuple[Loop, ...], known: dict[str, list[np.ndarray]]) -> dict[str, Values | None]:
    """Return loop -> the values that matter: all, or where it walks a dimension of a local, those that are read there; None if open."""
    out: dict[str, Values | None] = {lp.var: range(lp.extent.value) if isinstance(lp.extent, Int) else None for lp in above}
    if block.target.buffer in {b.name for b in func.locals}:
        for places, index in zip(places_read(func, block.target.buffer, known), block.target.indices):
            if isinstance(index, Var) and out.get(index.name) is not None:
                out[index.name] = range(len(places)) if places.all() else np.flatnonzero(places)
    return out


def index_values(index: Expr, ranges: Mapping[str, Values | None]) -> np.ndarray | None:
    """Return the values that an index takes; None where a loop is open or there are too many."""
    own = {v: ranges.get(v) for v in sorted(variables(index))}
    axes = [a for a in own.values() if a is not None]
    if len(axes) < len(own) or np.prod([len(a) for a in axes]) > MOST_VALUES:
        return None
    return np.unique(evaluate(index, dict(zip(own, np.ix_(*axes)))))


def size_bytes(b: Buffer) -> int:
    n = DTYPES[b.dtype]
    for e in b.shape:
        assert isinstance(e, Int), "the tensors of an unscheduled func have fixed shapes"
        n *= e.value
    return n


def is_product(b: Block) -> bool:
    v = b.value
    return b.op == "+=" and isinstance(v, Binary) and v.op == "*" and isinstance(v.left, Read) and isinstance(v.right, Read)


def points(above: tuple[Loop, ...]) -> int:
    n = 1
    for lp in above:
        n *= lp.extent.value if isinstance(lp.extent, Int) else 1
    return n


def least(machine: Machine, launch: np.ndarray, fill: float, parts: dict[str, np.ndarray], cores: np.ndarray) -> Bound:
    """Return the bound at the grid where it is smallest."""
    run = fill + np.max(np.stack(list(parts.values())), axis=0)
    total, queued = launch + run, np.minimum(launch, machine.queue_gap_us * machine.clock_mhz) + run
    i = int(np.argmin(total))
    return Bound(float(total[i]), float(launch[i]), fill, {k: float(v[i]) for k, v in parts.items()}, int(cores[i]), float(queued.min()))


def launch_cycles(machine: Machine, cores: np.ndarray) -> np.ndarray:
    return (machine.launch_fixed_us + machine.launch_per_core_us * cores) * machine.clock_mhz


def chip_cycles(machine: Machine, cold: float, moved: np.ndarray) -> np.ndarray:
    """Return cycles that the chip's HBM and L2 need for `moved` bytes that are read, `cold` of them from HBM; the two follow each other."""
    return cold / machine.hbm_bytes_per_cycle + np.maximum(moved - cold, 0) / machine.l2_bytes_per_cycle


def marginal(machine: Machine, op: str, dtype: str, fields: Mapping[str, int], more: Mapping[str, int]) -> float:
    """Return the busy cycles that an instruction takes longer when fields grow from `fields` to `more`. Its fixed cost cancels out."""
    env: dict[str, float] = {**machine.constants, **{n: t[dtype] for n, t in machine.tables.items() if dtype in t}}
    env |= {"size": DTYPES[dtype], "dst_size": DTYPES[dtype]}
    return busy_cycles(machine, op, {**env, **more}) - busy_cycles(machine, op, {**env, **fields})


def busy_cycles(machine: Machine, op: str, env: Mapping[str, float]) -> float:
    """Return the least busy cycles of an instruction: its bytes of GM, if any, all hit L2, and its operands lie in one slot each."""
    env = {**dict.fromkeys(placed_names(INSTRUCTIONS[op]), 0.0), **env}
    moved = evaluate(INSTRUCTIONS[op].gm_bytes, env)
    return float(evaluate(machine.cost(op).busy, {**env, "cores": 1, "gm_bytes": moved, "hbm_bytes": 0, "l2_bytes": moved}))


# ---------------------------------------------------------------- cube

def products_bound(func: Func, products: list[tuple[Block, tuple[Loop, ...]]], machine: Machine, traffic: Traffic) -> Bound:
    """Return the bound of several products whose results need not leave the cores. It counts all products at peak, and the bytes that must
    cross HBM."""
    cores = np.arange(1, machine.core("core" if "core" in machine.cores else "aic").count + 1)
    kf = machine.tables["kf"]
    work = sum(points(above) / (256 * kf[func.buffer(reads(b.value)[1].buffer).dtype]) for b, above in products)
    parts = {"cube": work / cores, "HBM": np.full(len(cores), traffic.cold / machine.hbm_bytes_per_cycle)}
    fill = machine.paths["gm_l1"].latency_cycles + machine.paths["l1_l0b"].latency_cycles + 2 * machine.flag_hop_cycles
    return least(machine, launch_cycles(machine, cores), fill, parts, cores)


def cube_bound(func: Func, b: Block, above: tuple[Loop, ...], machine: Machine, traffic: Traffic) -> Bound:
    """Return the bound over grids gm x gn, where each core makes ceil(M / gm) x ceil(N / gn) of the result. Grids over parts of k count
    too, where cores may share k."""
    kind = machine.core("core" if "core" in machine.cores else "aic")
    left, right = reads(b.value)
    n = above_extent(above, b, -1)
    k = points(tuple(lp for lp in above if lp.var not in _loops_of(b)))
    m = points(above) // (n * k)
    dtype = func.buffer(right.buffer).dtype
    size = DTYPES[dtype]
    nest = Nest(b, above)
    shared = kind.count if gm_source(func, left.buffer) == left.buffer and parts_of_k_pay(func, nest, machine) else 1
    gm, gn, gk = np.meshgrid(*[np.arange(1, count + 1) for count in (kind.count, kind.count, shared)], indexing="ij")
    keep = gm * gn * gk <= kind.count
    gm, gn, gk = gm[keep], gn[keep], gk[keep]
    cores = gm * gn * gk
    mc, nc = -(-m // gm), -(-n // gn)
    a_cost, b_cost = fractal_cycles(func, left, right, machine)
    a_unit = b_unit = k * size / gk  # bytes of a row of A, of a column of B, in a core's part of k
    source = gm_source(func, left.buffer)
    loads_a = mc * a_unit if source == left.buffer else np.minimum(mc * a_unit, traffic.inputs[source] / gm)
    per_core = loads_a + nc * b_unit
    cold = np.minimum(traffic.cold_inputs / cores, per_core)
    path = machine.paths["gm_l1"]
    fast = max(path.bytes_per_cycle, path.l2_bytes_per_cycle)
    fixed = by_fixpipe(func, b.target.buffer, machine)
    parts = {
        "cube": m * n * k / (256 * machine.tables["kf"][dtype]) / cores,
        "MTE1": (mc * a_cost * a_unit + nc * b_cost * b_unit) / FRACTAL_BYTES,
        "MTE2": cold / max(path.bytes_per_cycle, 1e-9) + (per_core - cold) / fast,
        **way_out(func, b.target.buffer, machine, mc * nc, fixed),
        "HBM": np.full(len(cores), traffic.cold / machine.hbm_bytes_per_cycle),
        "HBM and L2": chip_cycles(machine, traffic.cold_inputs, cores * per_core),
    }
    steps = ("gm_l1", "l1_l0b", *(("l0c_gm",) if fixed else ("l0c_ub", "ub_gm")))
    fill = sum(machine.paths[p].latency_cycles for p in steps) + len(steps) * machine.flag_hop_cycles
    return least(machine, launch_cycles(machine, cores), fill, parts, cores)


def way_out(func: Func, sums: str, machine: Machine, elements: np.ndarray, fixed: bool) -> dict[str, np.ndarray]:
    """Return cycles of the pipes that take `elements` results of a core from `sums` to GM: FIXPIPE (`fixed`), which writes the type of the
    result, or the vector unit and then MTE3."""
    if fixed:
        one = {"m": 16, "n": 16, "src_rows": 16, "dst_stride": 512, "relu": 0}
        return {"FIXP": elements * marginal(machine, "fixpipe_nz", narrowest_result(func, sums), one, {**one, "m": 32}) / 256}
    one = {"bursts": 1, "length": 1, "src_gap": 0, "dst_gap": 0, "relu": 0}
    store = machine.paths["ub_gm"]
    size = DTYPES[func.outputs[0].dtype]
    return {"vector": elements * marginal(machine, "copy_l0c_ub", "fp32", one, {**one, "bursts": 2}) / 256,
            "MTE3": elements * size / max(store.bytes_per_cycle, store.l2_bytes_per_cycle)}


def narrowest_result(func: Func, sums: str) -> str:
    """Return the dtype of fewest bytes that a result made of the sums has."""
    made = {b.target.buffer for b, _ in blocks(func.body) if any(isinstance(e, Read) and e.buffer == sums for e in walk(b.value))}
    return min((o.dtype for o in func.outputs if o.name in made), key=DTYPES.__getitem__)


def _loops_of(b: Block) -> set[str]:
    return {v for i in b.target.indices for v in variables(i)}


def above_extent(above: tuple[Loop, ...], b: Block, dim: int) -> int:
    """Return the extent of the loops that a dimension of a block's target walks."""
    return points(tuple(lp for lp in above if lp.var in variables(b.target.indices[dim])))


def gm_source(func: Func, buffer: str) -> str:
    """Return the GM input that a local (the columns of an image) is gathered from, or the buffer itself."""
    for b, _ in blocks(func.body):
        if b.target.buffer == buffer:
            return reads(b.value)[0].buffer
    return buffer


def fractal_cycles(func: Func, left: Read, right: Read, machine: Machine) -> tuple[float, float]:
    """Return cycles to bring a fractal into L0A, and into L0B, at the best rate."""
    dtype = func.buffer(right.buffer).dtype
    load = {"repeat": 1, "src_stride": 1, "dst_gap": 0, "transpose": 0}
    b = marginal(machine, "load_l0b", dtype, load, {**load, "repeat": 2})
    if gm_source(func, left.buffer) == left.buffer:
        return marginal(machine, "load_l0a", dtype, load, {**load, "repeat": 2}), b
    c0 = 32 // DTYPES[dtype]
    image = {"m_size": 16, "k_size": c0, "channels": c0, "stride_h": 1, "stride_w": 1, "filter_h": 1, "filter_w": 1}
    return marginal(machine, "load3d", dtype, image, {**image, "m_size": 32}), b


# ---------------------------------------------------------------- vector

def vector_bound(func: Func, machine: Machine, traffic: Traffic) -> Bound:
    """Return the bound over core counts: each core does its share of the repeats, of the bytes in and of the bytes out."""
    kind = machine.core("core" if "core" in machine.cores else "aiv")
    cores = np.arange(1, kind.count + 1)
    load, store = machine.paths["gm_ub"], machine.paths["ub_gm"]
    moved = sum(traffic.inputs.values())
    cold = traffic.cold_inputs
    fast = max(load.bytes_per_cycle, load.l2_bytes_per_cycle)
    parts = {
        "vector": sum(repeats(func, b, above) / 2 + gathers(func, b, above, machine) for b, above in blocks(func.body)) / cores,
        "MTE2": (cold / load.bytes_per_cycle + (moved - cold) / fast) / cores,
        "MTE3": traffic.outputs / max(store.bytes_per_cycle, store.l2_bytes_per_cycle) / cores,
        "HBM": np.full(len(cores), traffic.cold / machine.hbm_bytes_per_cycle),
        "HBM and L2": chip_cycles(machine, traffic.cold_inputs, np.full(len(cores), float(moved))),
    }
    fill = load.latency_cycles + store.latency_cycles + machine.flag_hop_cycles
    return least(machine, launch_cycles(machine, cores), fill, parts, cores)


def gathers(func: Func, b: Block, above: tuple[Loop, ...], machine: Machine) -> float:
    """Return cycles in which what a block takes of a local by an index is gathered; none for any other."""
    value = b.value
    if not isinstance(value, Read) or not any(reads(i) for i in value.indices) or value.buffer not in {x.name for x in func.locals}:
        return 0.0
    one = {"lanes": 1, "repeat": 1}
    return points(above) * marginal(machine, "vgather", func.buffer(b.target.buffer).dtype, one, {**one, "lanes": 2})


def repeats(func: Func, b: Block, above: tuple[Loop, ...]) -> float:
    """Return the whole vector repeats of a block (no instruction takes less than half a cycle for one). A block that only moves data has
    none."""
    moves = isinstance(b.value, Read) and b.op == "=" or isinstance(b.value, Call) and b.value.fn == "select" and not is_selection(b.value)
    return 0.0 if moves else points(above) * DTYPES[func.buffer(b.target.buffer).dtype] / REPEAT_BYTES
