"""Kernels that could be measured on an Ascend910B3: micro-benchmarks of one part of the chip each, and default schedules of operators.

`bench/measure.py` chooses among them. Each is legal: it reads nothing that was not loaded or made before, and flags order it.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from aoec.ir.func.tir import Func
from aoec.ir.index import DTYPES
from aoec.ir.text.show import show
from aoec.ir.text.simplify import simplify
from aoec.jobs.stages.stages import graph_of, lower_operator
from aoec.jobs.tune.made import emit_trace
from aoec.jobs.tune.tuning import problem, start
from aoec.lowering.arrange.fuse import fuse
from aoec.lowering.lower.lower import lower
from aoec.target.machine import Machine
from bench.cases.text import Stage, load_ub, pipeline, program, store_ub, vector

TARGET = "Ascend910B3"
VECTOR, CUBE = 40, 20  # cores of each kind


@dataclass(frozen=True)
class Probe:
    """A kernel: its name, what it is about in words, and its program as text."""

    name: str
    about: str
    text: str


def indented(lines: Sequence[str], by: int = 2) -> list[str]:
    return ["  " * by + line for line in lines]


def repeated(loops: Sequence[tuple[str, int]], lines: Sequence[str]) -> list[str]:
    """Return the lines in loops of (variable, trips)."""
    for var, trips in reversed(loops):
        lines = [f"for {var} in {trips} {{", *["  " + x for x in lines], "}"]
    return list(lines)


def handed(first: str, second: str, number: int = 0) -> list[str]:
    """Return the lines by which one pipe waits for another."""
    return [f"set({first}, {second}, {number})", f"wait({first}, {second}, {number})"]


def made(name: str, core: str, cores: int, tensors: Sequence[str], spaces: Sequence[str], lines: Sequence[str]) -> str:
    return program(name, TARGET, tensors, spaces, core, cores, indented(lines))


# ---------------------------------------------------------------- launches, flags, scalar work

def launches() -> Iterator[Probe]:
    """Yield kernels that do next to nothing: one block of 32 bytes in or out of each core."""
    for kind, cores in (("aiv", 1), ("aiv", VECTOR), ("aic", 1), ("aic", CUBE)):
        unit = "vector" if kind == "aiv" else "cube"
        scope, copy = ("UB", "copy_gm_ub(dst=x[0], src=X[core*256], bursts=1, length=32, src_gap=0, dst_gap=0)") if kind == "aiv" else \
            ("L1", "copy_gm_l1(dst=x[0], src=X[core*256], bursts=1, length=1, src_gap=0, dst_gap=0)")
        text = made("launch", kind, cores, [f"input X: fp16[{cores * 256}]"], [f"space x: fp16 in {scope} at 0 size 32"], [copy])
        yield Probe(f"launch-{unit}-{cores}", f"launch of {cores_of(cores, unit)} with one load of 32 bytes each", text)
    store = made("launch_store", "aiv", 1, ["output Y: fp16[256]"], ["space x: fp16 in UB at 0 size 256"],
                 ["vdup(dst=x[0], scalar=1.0, lanes=128, repeat=1, dst_blk=1, dst_rep=8)", *handed("V", "MTE3"),
                  store_ub("Y[0]", "x[0]", 1, 256)])
    yield Probe("launch-store", "launch of one vector core with one store of 256 bytes", store)


def cores_of(cores: int, unit: str) -> str:
    return f"one {unit} core" if cores == 1 else f"all {cores} {unit} cores"


def hand_overs() -> Iterator[Probe]:
    """Yield probes of flags, and of loops with a short body."""
    turn = [*vector("vadds", "x", ["x"], 128, "fp16", 1.0), *handed("V", "MTE2", 1), *handed("MTE2", "V", 1)]
    yield one_vector("flags", "two flags and one vector instruction in turn", "fp16", 128, repeated([("i", 2000)], turn))
    short = ["load_l0a(dst=a[0], src=A1[0], repeat=1, src_stride=1, dst_gap=0, transpose=0)"]
    yield cube_probe("scalar-loop", "a loop with one load of one fractal from L1 to L0A", 128, repeated([("i", 4000)], short), True)
    deep = repeated([("i", 1000), ("j", 2), ("k", 2)], short)
    yield cube_probe("scalar-nest", "three nested loops with one load of one fractal from L1 to L0A", 128, deep, True)
    row = vector("vadds", "x", ["x"], 128, "fp16", 1.0) * 8
    yield one_vector("vector-row", "eight short vector instructions in a row", "fp16", 128, repeated([("i", 500)], row))


def one_vector(name: str, about: str, dtype: str, elements: int, lines: Sequence[str], spaces: Sequence[str] = (), result: str = "x",
               to: str = "") -> Probe:
    """Return a probe of work of one vector core. Its elements are loaded before the work and stored after it. `result`: the buffer that is
    stored."""
    size, out = DTYPES[dtype], to or dtype
    body = [load_ub("x[0]", "X[0]", 1, elements * size, 0), *handed("MTE2", "V"), *lines, *handed("V", "MTE3"),
            store_ub("Y[0]", f"{result}[0]", 1, 256)]
    space = [f"space x: {dtype} in UB at 0 size {elements * size}", *spaces]
    tensors = [f"input X: {dtype}[{elements}]", f"output Y: {out}[{256 // DTYPES[out]}]"]
    return Probe(name, f"{about}, on one vector core", made(name.replace("-", "_"), "aiv", 1, tensors, space, body))


# ---------------------------------------------------------------- copies

def loads_ub() -> Iterator[Probe]:
    """Yield probes of GM -> UB: long rows, and rows of 512 and of 128 bytes out of wider ones, by one core and by all."""
    for cores in (1, VECTOR):
        for word, bursts, length, gap in (("long", 1, 32768, 0), ("rows-512", 64, 512, 512), ("rows-128", 64, 128, 384)):
            yield load_probe(word, cores, bursts, length, gap)
    yield load_probe("past-l2", VECTOR, 1, 32768, 0, uncached=True)
    yield load_probe("past-l2-rows-128", VECTOR, 64, 128, 384, uncached=True)
    text = made("same_address", "aiv", VECTOR, ["input X: fp16[1048576] uncached"], ["space x: fp16 in UB at 0 size 32768"],
                repeated([("i", 64)], [load_ub("x[0]", "X[i*16384]", 1, 32768, 0)]))
    yield Probe("same-address", "loads into UB of one place past L2 by all 40 vector cores", text)
    turn = [load_ub("x[0]", "X[i*256]", 1, 512, 0), *handed("MTE2", "V"), *handed("V", "MTE2")]
    text = made("load_alone", "aiv", 1, ["input X: fp16[131072]"], ["space x: fp16 in UB at 0 size 512"], repeated([("i", 512)], turn))
    yield Probe("load-ub-alone", "loads into UB of 512 bytes, each behind the one before, by one vector core", text)
    indexed = [load_ub("i[0]", "I[0]", 1, 1024, 0), *handed("MTE2", "S"),
               *repeated([("t", 256)], ["copy_gm_ub_at(dst=x[t*256], src=X[0], index=i[t], length=512, pitch=512, extent=4096)"]),
               *handed("MTE2", "MTE3", 1), store_ub("Y[0]", "x[0]", 1, 131072)]
    text = made("indexed", "aiv", 1, ["input X: fp16[1048576]", "input I: int32[256]", "output Y: fp16[65536]"],
                ["space x: fp16 in UB at 0 size 131072", "space i: int32 in UB at 131072 size 1024"], indexed)
    yield Probe("load-ub-indexed", "loads into UB of rows of 512 bytes by an index, by one vector core", text)


def load_probe(word: str, cores: int, bursts: int, length: int, gap: int, uncached: bool = False) -> Probe:
    elements, turns = bursts * (length + gap) // 2, 1048576 // (bursts * (length + gap))
    text = made("load_ub", "aiv", cores, [f"input X: fp16[{cores * turns * elements}]" + " uncached" * uncached],
                [f"space x: fp16 in UB at 0 size {bursts * length}"],
                repeated([("i", turns)], [load_ub("x[0]", f"X[(core*{turns} + i)*{elements}]", bursts, length, gap)]))
    rows = f"rows of {length} bytes" if bursts > 1 else f"runs of {length} bytes"
    return Probe(f"load-ub-{word}-{cores}", f"loads into UB of {rows}{' past L2' * uncached} by {cores_of(cores, 'vector')}", text)


def loads_l1() -> Iterator[Probe]:
    """Yield probes of GM -> L1: without a change of layout, and ND to NZ of long, short and ragged rows."""
    for cores in (1, CUBE):
        line = "copy_gm_l1(dst=x[0], src=X[(core*16 + i)*32768], bursts=1, length=2048, src_gap=0, dst_gap=0)"
        text = made("load_l1", "aic", cores, [f"input X: fp16[{cores * 524288}]"], ["space x: fp16 in L1 at 0 size 65536"],
                    repeated([("i", 16)], [line]))
        yield Probe(f"load-l1-long-{cores}", f"loads into L1 of runs of 65536 bytes by {cores_of(cores, 'cube')}", text)
        for word, rows, columns, stride in (("wide", 64, 512, 1024), ("narrow", 256, 64, 256), ("ragged", 64, 250, 500)):
            turns = max(1, 524288 // (rows * stride))
            line = f"copy_gm_l1_nd2nz(dst=x[0], src=X[(core*{turns} + i)*{rows * stride}], rows={rows}, cols={columns}, " \
                   f"src_stride={stride}, dst_rows={rows})"
            text = made("load_l1_nz", "aic", cores, [f"input X: fp16[{cores * turns * rows * stride}]"],
                        ["space x: fp16 in L1 at 0 size 65536"], repeated([("i", turns)], [line]))
            yield Probe(f"load-nz-{word}-{cores}", f"loads into L1 as NZ of rows of {columns * 2} bytes, {stride * 2} bytes apart, by "
                        f"{cores_of(cores, 'cube')}", text)


def stores() -> Iterator[Probe]:
    """Yield probes of UB -> GM (long, short and ragged rows), and of copies through UB."""
    fill = ["vdup(dst=x[0], scalar=1.0, lanes=128, repeat=128, dst_blk=1, dst_rep=8)"]
    for word, cores, bursts, length, gap in (("long", 1, 1, 32768, 0), ("long", VECTOR, 1, 32768, 0), ("rows-128", 1, 64, 128, 384),
                                             ("ragged", 1, 64, 100, 28)):
        elements, turns = bursts * (length + gap) // 2, min(64, 1048576 // (bursts * (length + gap)))
        line = store_ub(f"Y[(core*{turns} + i)*{elements}]", "x[0]", bursts, length, gap)
        text = made("store_ub", "aiv", cores, [f"output Y: fp16[{cores * turns * elements}]"], ["space x: fp16 in UB at 0 size 32768"],
                    [*fill, *handed("V", "MTE3"), *repeated([("i", turns)], [line])])
        rows = f"rows of {length} bytes" if bursts > 1 else f"runs of {length} bytes"
        yield Probe(f"store-{word}-{cores}", f"stores from UB of {rows} by {cores_of(cores, 'vector')}", text)
    for cores in (1, VECTOR):
        stage = Stage([load_ub("x.a[0]", "X[(core*32 + i)*16384]", 1, 32768, 0)], (),
                      [store_ub("Y[(core*32 + i)*16384]", "x.a[0]", 1, 32768)])
        text = program("copy", TARGET, [f"{role}: fp16[{cores * 524288}]" for role in ("input X", "output Y")],
                       ["space x: fp16 in UB at 0 size 32768 depth 2"], "aiv", cores, pipeline(stage, [("i", "32")], 2), 2)
        yield Probe(f"copy-ub-{cores}", f"loads and stores of runs of 32768 bytes in two slots by {cores_of(cores, 'vector')}", text)


# ---------------------------------------------------------------- vector instructions

def vectors() -> Iterator[Probe]:
    """Yield instructions of the vector unit, on 128 elements (their heads) and on 16,384 (their repeats)."""
    for repeat, turns in ((1, 2000), (128, 200)):
        n = repeat * 128
        loop = [("i", turns)]
        size = f"{n:,} elements of fp16"
        pair = [f"space y: fp16 in UB at {65536 + 256} size {n * 2}"]  # half a period of the banks away, in another bank
        fill = [f"vdup(dst=y[0], scalar=1.0, lanes=128, repeat={repeat}, dst_blk=1, dst_rep=8)"]
        for op in ("vadd", "vmul"):
            lines = [*fill, *repeated(loop, vector(op, "x", ["y", "x"], n, "fp16"))]
            yield one_vector(f"{op}-{n}", f"{op} of {size}", "fp16", n, lines, pair)
        for op in ("vexp", "vcopy"):
            yield one_vector(f"{op}-{n}", f"{op} of {size}", "fp16", n, repeated(loop, vector(op, "x", ["x"], n, "fp16")))
        for op in ("vcadd", "vcmax"):
            line = f"{op}(dst=y[0], src=x[0], lanes=128, repeat={repeat}, dst_rep=1, src_blk=1, src_rep=8)"
            yield one_vector(f"{op}-{n}", f"{op} of {size}", "fp16", n, [*fill, *repeated(loop, [line])], pair, "y")
        wide = [f"space y: fp32 in UB at 65536 size {max(n * 4, 256)}"]
        blocks = "dst_blk=1, src_blk=1"
        there = f"vconv(dst=y[0], src=x[0], lanes=64, repeat={2 * repeat - (repeat > 1)}, {blocks}, dst_rep=8, src_rep=4)"
        back = f"vconv(dst=x[0], src=y[0], lanes=64, repeat={2 * repeat - (repeat > 1)}, {blocks}, dst_rep=4, src_rep=8)"
        yield one_vector(f"vconv-{n}", f"casts to fp32 and back of {size}", "fp16", n, repeated(loop, [there, back]), wide)
    clash = ["space y: fp16 in UB at 32896 size 32640"]
    lines = repeated([("i", 200)], vector("vadds", "y", ["x"], 16256, "fp16", 1.0))
    yield one_vector("vadds-one-bank", "vadds of 16,256 elements of fp16 between places of one bank", "fp16", 16384, lines, clash, "y")
    turn = "vnchwconv(dst=y[0], src=x[0], repeat=64, dst_stride=1, dst_half=0, src_stride=1, dst_rep=16, src_rep=16)"
    yield one_vector("vnchwconv", "vnchwconv of 64 fractals", "fp16", 16384, repeated([("i", 200)], [turn]),
                     ["space y: fp16 in UB at 65536 size 32768"], "y")


# ---------------------------------------------------------------- the cube core

def cubes() -> Iterator[Probe]:
    """Yield products, loads of L0 and the way out, by one cube core, on tiles of 128 rows and columns."""
    for k, turns in ((16, 500), (128, 200)):
        yield cube_probe(f"mmad-k{k}", f"mmad of 128 x 128 x {k} of fp16, one on the other", k,
                         repeated([("i", turns)], [f"mmad(dst=C[0], a=a[0], b=b[0], m=128, n=128, k={k}, init=0)"]))
    alone = ["mmad(dst=C[0], a=a[0], b=b[0], m=16, n=16, k=16, init=0)", *handed("M", "MTE1", 2), *handed("MTE1", "M", 2)]
    yield cube_probe("mmad-alone", "mmad of 16 x 16 x 16 of fp16, each behind the one before", 128, repeated([("i", 500)], alone))
    for name, line in (("l0a", "load_l0a(dst=a[0], src=A1[0], repeat=64, src_stride=1, dst_gap=0, transpose=0)"),
                       ("l0b", "load_l0b(dst=b[0], src=B1[0], repeat=64, src_stride=1, dst_gap=0, transpose=1)")):
        yield cube_probe(f"load-{name}", f"loads of 64 fractals from L1 to {name.upper()}", 128, repeated([("i", 200)], [line]), True)
    image = "load3d(dst=a[0], src=A1[0], h=8, w=16, channels=64, k_start=0, k_size=128, m_start=0, m_size=128, stride_h=1, stride_w=1, " \
            "filter_h=3, filter_w=3, dilation_h=1, dilation_w=1, pad_top=1, pad_bottom=1, pad_left=1, pad_right=1)"
    yield cube_probe("load3d", "load3d of 128 pixels and 128 columns of a window of 3 x 3", 128, repeated([("i", 200)], [image]), True)
    yield filled_probe()
    for word, line in (("rows", "fixpipe_nd(dst=Y[i*16384], src=C[0], m=128, n=128, src_rows=128, dst_stride=128, relu=0)"),
                       ("nz", "fixpipe_nz(dst=Y[i*16384], src=C[0], m=128, n=128, src_rows=128, dst_stride=2048, relu=0)")):
        yield cube_probe(f"fixpipe-{word}", f"128 x 128 fp32 out of L0C as {'NZ' if word == 'nz' else word}", 128,
                         ["mmad(dst=C[0], a=a[0], b=b[0], m=128, n=128, k=128, init=1)", *handed("M", "FIXP", 1),
                               *repeated([("i", 64)], [line])], out=True)


def cube_probe(name: str, about: str, k: int, lines: Sequence[str], loads: bool = False, out: bool = False) -> Probe:
    """Return a probe of one cube core with loaded matrices of 128 x k. `loads`: it loads L0 itself. `out`: it stores the result itself."""
    fractals = 8 * k // 16
    tensors = [f"input A: fp16[{128 * k}]", f"input B: fp16[{128 * k}]", f"output Y: fp32[{16384 * (66 if out else 1)}]"]
    places = (("A1", "L1", 0), ("B1", "L1", 256 * k), ("a", "L0A", 0), ("b", "L0B", 0))
    spaces = [f"space {name}: fp16 in {scope} at {at} size {256 * k}" for name, scope, at in places]
    fill = [f"copy_gm_l1(dst={x}1[0], src={x}[0], bursts=1, length={8 * k}, src_gap=0, dst_gap=0)" for x in "AB"]
    load = [f"load_l0{x}(dst={x}[0], src={x.upper()}1[0], repeat={fractals}, src_stride=1, dst_gap=0, transpose={turned})"
            for x, turned in (("a", 0), ("b", 1))]
    product = f"mmad(dst=C[0], a=a[0], b=b[0], m=128, n=128, k={k}, init=1)"
    drain = "fixpipe_nd(dst=Y[0], src=C[0], m=128, n=128, src_rows=128, dst_stride=128, relu=0)"
    body = [*fill, *handed("MTE2", "MTE1"), *load, *(lines if loads else []), *handed("MTE1", "M"),
            *(lines if out else [product, *([] if loads else lines), *handed("M", "FIXP"), drain])]
    text = made(name.replace("-", "_"), "aic", 1, tensors, [*spaces, "space C: fp32 in L0C at 0 size 65536"], body)
    return Probe(name, f"{about}, by one cube core", text)


def filled_probe() -> Probe:
    """Yield probes of loads of L0A from one slot of L1 while the other is filled."""
    lines = ["wait(MTE1, MTE2, a)", "copy_gm_l1(dst=Z.a[0], src=X[i*16384], bursts=1, length=1024, src_gap=0, dst_gap=0)",
             "set(MTE2, MTE1, a)", "wait(MTE2, MTE1, a)",
             *["load_l0a(dst=a[0], src=Z.a[0], repeat=64, src_stride=1, dst_gap=0, transpose=0)"] * 4, "set(MTE1, MTE2, a)", "advance(a)"]
    body = [*repeated([("d", 2)], ["set(MTE1, MTE2, d)"]), *repeated([("i", 64)], lines), *repeated([("e", 2)], ["wait(MTE1, MTE2, e)"])]
    spaces = ["space Z: fp16 in L1 at 0 size 32768 depth 2", "space a: fp16 in L0A at 0 size 32768"]
    text = program("load_l0a_filled", TARGET, ["input X: fp16[1048576]"], spaces, "aic", 1, indented(body), 2)
    return Probe("load-l0a-while-filled", "loads from L1 to L0A while another slot of L1 is filled, by one cube core", text)


# ---------------------------------------------------------------- operators

OPERATORS = {
    "matmul-small": "matmul(m=64, k=512, n=512, fp16)",
    "matmul-thin": "matmul(m=16, k=4096, n=1024, fp16)",
    "matmul-1024": "matmul(m=1024, k=1024, n=1024, fp16)",
    "matmul-2048": "matmul(m=2048, k=2048, n=2048, fp16)",
    "conv-3x3": "conv2d(n=1, c=128, h=28, w=28, co=256, kh=3, kw=3, stride=1, pad=1, fp16)",
    "conv-3x3-stride": "conv2d(n=1, c=256, h=28, w=28, co=256, kh=3, kw=3, stride=2, pad=1, fp16)",
    "conv-1x1": "conv2d(n=1, c=256, h=28, w=28, co=256, kh=1, kw=1, stride=1, pad=0, fp16)",
    "softmax": "softmax(m=2048, n=256, fp16)",
    "layer-norm": "layer_norm(m=256, n=1024, bias, fp16)",
    "gelu": "gelu(m=256, n=4096, fp16)",
    "add": "add(m=512, n=1024, fp16)",
    "transpose": "transpose(m=1024, n=1024, fp16)",
}
GATHER = """graph gather {
  input X: fp16[32000, 1024]
  input I: int64[256]
  tensor Y: fp16[256, 1024]
  gather_0: gather(X, I; axis=0) -> Y
  output Y
}"""


def operators(machine: Machine, wanted: Callable[[str], bool]) -> Iterator[Probe]:
    """Yield probes of operators by their default schedules, which start with nothing of theirs in L2."""
    for name, call in OPERATORS.items():
        if wanted(name):
            yield operator(name, f"`{call}`", lower_operator(call), machine)
    if wanted("gather"):
        graph, _ = fuse(graph_of(GATHER, "gather"), {}, machine)
        yield operator("gather", "gather of 256 of 32,000 rows of 1,024", lower(graph, graph.groups[0]), machine)


def operator(name: str, about: str, func: Func, machine: Machine) -> Probe:
    found = problem(func, machine)
    text = show(simplify(emit_trace(func, show(found.trace(start(found).best)), machine)[1]))
    return Probe(name, f"{about} by its default schedule", text.rstrip("\n") + "\n")


def micro() -> list[Probe]:
    """Return those of one part of the chip each."""
    return [*launches(), *hand_overs(), *loads_ub(), *loads_l1(), *stores(), *vectors(), *cubes()]


def probes(machine: Machine, names: Sequence[str] = ()) -> list[Probe]:
    """Return all of them in a fixed order, or those whose names begin so."""
    def wanted(name: str) -> bool:
        return not names or name.startswith(tuple(names))

    return [*(p for p in micro() if wanted(p.name)), *operators(machine, wanted)]
