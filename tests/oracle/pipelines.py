"""Programs with correct flags for the laws of time: tiled pipelines of random shape, with holes, and rows of values for them."""
from __future__ import annotations

import dataclasses

from hypothesis import strategies as st

from aoec.ir.index import Expr, Hole, Int, Var, ceildiv, fill, maximum, minimum
from aoec.ir.program import (
    OPTIONAL,
    Advance,
    CrossSet,
    CrossWait,
    For,
    Instr,
    Program,
    Ref,
    SetFlag,
    Space,
    Stream,
    Tensor,
    WaitFlag,
)
from aoec.target.isa.instructions import INSTRUCTIONS


def instr(op, operands, **numbers):
    """An instruction; number fields that are not given are 1, optional ones 0."""
    words = INSTRUCTIONS[op]
    refs = tuple((o.name, ref) for o, ref in zip(words.operands, operands, strict=True))
    return Instr(op, refs + tuple((n.name, as_int(numbers.get(n.name, 0 if n.name in OPTIONAL else 1))) for n in words.numbers))


def as_int(x):
    return x if isinstance(x, Expr) else Int(x)


def ref(name, slot=None, at=0):
    return Ref(name, as_int(at), slot if slot is not None else Int(0))


def prime(var, depth, op, source, target, base=0):
    """A loop that sets or waits for `depth` flags."""
    return For(var, as_int(depth), (op(source, target, Var(var) + base),))


def filled(x, values):
    """A noun with its holes filled."""
    if isinstance(x, Expr):
        return fill(x, values)
    if isinstance(x, tuple):
        return tuple(filled(i, values) for i in x)
    if dataclasses.is_dataclass(x):
        return dataclasses.replace(x, **{f.name: filled(getattr(x, f.name), values) for f in dataclasses.fields(x)})
    return x


def vector_stages(op, size, slot, at):
    """The body of a vector pipeline for one tile of `size` fp32 elements from `at`: load, work, store; flags by `slot`."""
    repeat = ceildiv(size, 64)
    operands = [ref("Y", slot)] + [ref("X", slot)] * (len(INSTRUCTIONS[op].operands) - 1)
    return (
        WaitFlag("V", "MTE2", slot),
        instr("copy_gm_ub", [ref("X", slot), ref("A", at=at)], bursts=1, length=size * 4, src_gap=0, dst_gap=0),
        SetFlag("MTE2", "V", slot), WaitFlag("MTE2", "V", slot), WaitFlag("MTE3", "V", slot),
        instr(op, operands, repeat=repeat, lanes=64), instr("vadds", [ref("Y", slot), ref("Y", slot)], repeat=repeat, lanes=64),
        SetFlag("V", "MTE2", slot), SetFlag("V", "MTE3", slot), WaitFlag("V", "MTE3", slot),
        instr("copy_ub_gm", [ref("B", at=at), ref("Y", slot)], bursts=1, length=size * 4, src_gap=0, dst_gap=0), SetFlag("MTE3", "V", slot),
        Advance("a"))


def vector_program(target, n, *, halo, repeats, op):
    """Tiles ?t of parts ?p of n elements, ?d slots, each pass done `repeats` times; with a halo tiles overlap by one element."""
    part = minimum(Hole("p"), Int(n) - Var("c") * Hole("p"))
    start, stop = Var("i") * Hole("t"), minimum(Var("i") * Hole("t") + Hole("t"), part)
    size = minimum(stop + 1, part) - maximum(start - 1, 0) if halo else stop - start
    stages = vector_stages(op, size, Var("a"), Var("c") * Hole("p") + Var("i") * Hole("t"))
    body = (
        prime("d0", Hole("d"), SetFlag, "V", "MTE2"), prime("d1", Hole("d"), SetFlag, "MTE3", "V"),
        For("o", as_int(repeats), (For("i", ceildiv(part, Hole("t")), stages),)),
        prime("d2", Hole("d"), WaitFlag, "V", "MTE2"), prime("d3", Hole("d"), WaitFlag, "MTE3", "V"))
    stream = Stream("v", "aiv", (("c", ceildiv(n, Hole("p"))),), (("a", Hole("d")),), body)
    tensors = (Tensor("A", "fp32", (Int(n),), "input"), Tensor("B", "fp32", (Int(n),), "output"))
    spaces = tuple(Space(name, "fp32", "UB", Int(0), Hole("t") * 4, Hole("d")) for name in "XY")
    return Program("vector", target, tensors, spaces, (stream,))


def cube_body(first, n, k, rows, cols, out, unit=0):
    """Loops over tiles of a product: A and B to L1 and L0, products, and `out` (items) once per tile of the result.

    `first`: row and column at which the core's part begins.
    """
    kk = minimum(Hole("tk"), Int(k) - Var("kt") * Hole("tk"))
    mm, nn = minimum(Hole("tm"), rows - Var("mt") * Hole("tm")), minimum(Hole("tn"), cols - Var("nt") * Hole("tn"))
    a, b, c = Var("a"), Var("b"), Var("c")
    k_at, row, col = Var("kt") * Hole("tk"), first[0] + Var("mt") * Hole("tm"), first[1] + Var("nt") * Hole("tn")
    inner = (
        WaitFlag("MTE1", "MTE2", a),
        instr("copy_gm_l1_nd2nz", [ref("A1", a), ref("A", at=row * k + k_at)], rows=mm, cols=kk, src_stride=k, dst_rows=Hole("tm")),
        instr("copy_gm_l1_nd2nz", [ref("B1", a), ref("B", at=k_at * n + col)], rows=kk, cols=nn, src_stride=n, dst_rows=Hole("tk")),
        SetFlag("MTE2", "MTE1", a),
        WaitFlag("MTE2", "MTE1", a), WaitFlag("M", "MTE1", b),
        instr("load_l0a", [ref("A0", b), ref("A1", a)], repeat=ceildiv(mm, 16) * ceildiv(kk, 16)),
        instr("load_l0b", [ref("B0", b), ref("B1", a)], repeat=ceildiv(kk, 16) * ceildiv(nn, 16)),
        SetFlag("MTE1", "MTE2", a), SetFlag("MTE1", "M", b), WaitFlag("MTE1", "M", b),
        instr("mmad", [ref("C", c), ref("A0", b), ref("B0", b)], m=mm, n=nn, k=kk, unit=unit), SetFlag("M", "MTE1", b),
        Advance("a"), Advance("b"))
    tile = (WaitFlag("FIXP", "M", c), For("kt", ceildiv(k, Hole("tk")), inner), SetFlag("M", "FIXP", c), WaitFlag("M", "FIXP", c),
            *out(mm, nn, c, row * n + col), SetFlag("FIXP", "M", c), Advance("c"))
    return (
        prime("p0", Hole("da"), SetFlag, "MTE1", "MTE2"), prime("p1", 2, SetFlag, "M", "MTE1"),
        prime("p2", Hole("dc"), SetFlag, "FIXP", "M"),
        For("mt", ceildiv(rows, Hole("tm")), (For("nt", ceildiv(cols, Hole("tn")), tile),)),
        prime("p3", Hole("da"), WaitFlag, "MTE1", "MTE2"), prime("p4", 2, WaitFlag, "M", "MTE1"),
        prime("p5", Hole("dc"), WaitFlag, "FIXP", "M"))


CUBE_COUNTERS = (("a", Hole("da")), ("b", Int(2)), ("c", Hole("dc")))
CUBE_SPACES = tuple(Space(n, d, s, Int(0), Int(512), Int(2)) for n, d, s in (
    ("A1", "fp16", "L1"), ("B1", "fp16", "L1"), ("A0", "fp16", "L0A"), ("B0", "fp16", "L0B"), ("C", "fp32", "L0C")))


def cube_program(target, m, n, k, unit=0, atomic=0):
    """A product on a grid of parts ?pm x ?pn."""
    rows, cols = minimum(Hole("pm"), Int(m) - Var("mc") * Hole("pm")), minimum(Hole("pn"), Int(n) - Var("nc") * Hole("pn"))

    def out(mm, nn, c, at):
        return (instr("fixpipe_nd", [ref("Y", at=at), ref("C", c)], m=mm, n=nn, dst_stride=n, relu=0, unit=unit, atomic=atomic),)

    grid = (("mc", ceildiv(m, Hole("pm"))), ("nc", ceildiv(n, Hole("pn"))))
    body = cube_body((Var("mc") * Hole("pm"), Var("nc") * Hole("pn")), n, k, rows, cols, out, unit)
    stream = Stream("cube", "aic", grid, CUBE_COUNTERS, body)
    tensors = (Tensor("A", "fp16", (Int(m), Int(k)), "input"),
               Tensor("B", "fp16", (Int(k), Int(n)), "input"), Tensor("Y", "fp16", (Int(m), Int(n)), "output"))
    return Program("cube", target, tensors, CUBE_SPACES, (stream,))


def mixed_program(target, m, n, k, cubes, ratio, credit, unit=0):
    """A product whose tiles go through GM to vector cores, `ratio` of them a cube core (or, below 0, cube cores a vector core).

    With credit, the vector cores give tokens back, so that at most that many tiles are on the way.
    """
    rows = minimum(Hole("pm"), Int(m) - Var("mc") * Hole("pm"))

    def out(mm, nn, c, at):
        wait = (CrossWait("FIXP", "vec", Int(1)),) if credit else ()
        drain = instr("fixpipe_nd", [ref("W", at=at), ref("C", c)], m=mm, n=nn, dst_stride=n, relu=0, unit=unit)
        return (*wait, drain, CrossSet("FIXP", "vec", Int(0)))

    drain = (For("e1", as_int(credit), (CrossWait("S", "vec", Int(1)),)),) if credit else ()
    work = cube_body((Var("mc") * Hole("pm"), Int(0)), n, k, rows, Int(n), out, unit)
    cube = Stream("cube", "aic", (("mc", Int(cubes)),), CUBE_COUNTERS, work + drain)
    tiles, size = ceildiv(Hole("pm"), Hole("tm")) * ceildiv(n, Hole("tn")), ceildiv(Hole("tm") * Hole("tn"), max(ratio, 1))
    stages = list(vector_stages("vmul", size, Var("a"), (Var("vc") * tiles + Var("i")) * size))
    stages.insert(1, CrossWait("MTE2", "cube", Int(0)))
    if credit:
        stages.insert(3, CrossSet("MTE2", "cube", Int(1)))
    fill_credit = (For("e0", as_int(credit), (CrossSet("S", "cube", Int(1)),)),) if credit else ()
    body = (
        *fill_credit, prime("d0", 2, SetFlag, "V", "MTE2"), prime("d1", 2, SetFlag, "MTE3", "V"), For("i", tiles, tuple(stages)),
        prime("d2", 2, WaitFlag, "V", "MTE2"), prime("d3", 2, WaitFlag, "MTE3", "V"))
    vectors = cubes * ratio if ratio > 0 else cubes // -ratio
    vec = Stream("vec", "aiv", (("vc", Int(vectors)),), (("a", Int(2)),), body)
    tensors = (Tensor("A", "fp16", (Int(m), Int(k)), "input"), Tensor("B", "fp16", (Int(k), Int(n)), "input"),
               Tensor("W", "fp32", (Int(m), Int(n)), "temp"), Tensor("B_out", "fp32", (Int(m), Int(n)), "output"))
    rename = {"A": "W", "B": "B_out"}  # the vector stages' own names for what they read and write
    vec = renamed(vec, rename)
    spaces = (*CUBE_SPACES, Space("X", "fp32", "UB", Int(0), Int(512), Int(2)), Space("Y", "fp32", "UB", Int(0), Int(512), Int(2)))
    return Program("mixed", target, tensors, spaces, (cube, vec))


def renamed(x, names):
    """A noun with the buffers of its operands renamed."""
    if isinstance(x, Ref):
        return Ref(names.get(x.buffer, x.buffer), x.offset, x.slot)
    if isinstance(x, tuple):
        return tuple(renamed(i, names) for i in x)
    if isinstance(x, (Instr, For, Stream)):
        return dataclasses.replace(x, **{f.name: renamed(getattr(x, f.name), names) for f in dataclasses.fields(x)})
    return x


TARGETS = st.sampled_from(["toy", "Ascend910B3"])
tiles = st.integers(1, 80)


@st.composite
def vector_cases(draw):
    """(program, list of rows)"""
    n = draw(st.integers(1, 600))
    program = vector_program(draw(TARGETS), n, halo=draw(st.booleans()), repeats=draw(st.integers(0, 3)),
                             op=draw(st.sampled_from(["vadd", "vexp", "vcmax"])))
    part, tile = st.integers(-(-n // 6), n + 3), st.integers(max(1, n // 12), n + 3)
    return program, [{"p": draw(part), "t": draw(tile), "d": draw(st.integers(1, 4))} for _ in range(draw(st.integers(1, 3)))]


@st.composite
def cube_cases(draw):
    m, n, k = (draw(st.integers(1, 90)) for _ in range(3))

    def row():
        parts = {"pm": draw(st.integers(-(-m // 3), m + 5)), "pn": draw(st.integers(-(-n // 2), n + 5))}
        sizes = {f"t{v}": draw(st.integers(max(1, x // 3), x + 5)) for v, x in (("m", m), ("n", n), ("k", k))}
        depths = {"da": draw(st.integers(1, 3)), "dc": draw(st.integers(1, 2))}
        return parts | sizes | depths | ({"u": draw(bits)} if unit == Hole("u") else {})

    bits = st.integers(0, 1)
    unit = draw(st.sampled_from([Int(0), Int(1), Hole("u")]))
    return cube_program(draw(TARGETS), m, n, k, unit, draw(bits)), [row() for _ in range(draw(st.integers(1, 3)))]


@st.composite
def mixed_cases(draw):
    """Every cube core has the same number of tiles, so that the vector cores know how many to expect."""
    cubes, parts, tm = draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(1, 20))
    ratio = draw(st.sampled_from([1, 2] + ([-cubes] if cubes > 1 else [])))
    n, k = draw(st.integers(1, 40)), draw(st.integers(1, 40))
    m = cubes * parts * tm - draw(st.integers(0, tm - 1))
    program = mixed_program(draw(TARGETS), m, n, k, cubes, ratio, draw(st.integers(0, 3)), draw(st.integers(0, 1)))
    rows = [{"pm": parts * tm, "tm": tm, "tn": draw(st.integers(max(1, n // 3), n)), "tk": draw(st.integers(max(1, k // 2), k)),
             "da": draw(st.integers(1, 3)), "dc": draw(st.integers(1, 2))} for _ in range(draw(st.integers(1, 2)))]
    return program, rows


# (queue depth, cycles of heads, of heads a core, bus, cycles a loop)
twists = st.tuples(st.integers(1, 5), st.integers(0, 300), st.sampled_from([0.0, 1.5]),
                   st.sampled_from([None, 8.0, 40.0]), st.integers(0, 3))


def twisted(machine, twist):
    """The machine with queues, heads, a bus and loops of the size that `twists` draws."""
    depth, head, per_core, bus, loop = twist
    cores = {}
    for kind in machine.cores.values():
        heads = tuple((p, float(head // i), per_core) for i, p in enumerate(("MTE2", "V", "M"), 1)
                      if p in kind.pipes and (head or per_core))
        shared = bus if "MTE3" in kind.pipes else None
        cores[kind.name] = dataclasses.replace(kind, queue_depth=depth, heads=heads, bus_bytes_per_cycle=shared)
    return dataclasses.replace(machine, cores=cores, loop_cycles=float(loop))


cases = st.one_of(vector_cases(), cube_cases(), mixed_cases())
