"""Schedules as the vendor's tilings: what a record says is read as the schedule that it was written for, and nothing is changed twice."""
from __future__ import annotations

from dataclasses import asdict
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aoec import primitives
from aoec.cann.runtime_bank import line, parse_line
from aoec.cann.runtime_bank_keys import Problem, Product, Window, key_of, problem_of
from aoec.cann.runtime_bank_tilings import knowledge_of
from aoec.cann.runtime_bank_tilings import tiling_of as fields_of
from aoec.frontend.translate.onnx import load as load_onnx
from aoec.ir.func.tir import Func
from aoec.ir.rewrite import fill, holes, normalise
from aoec.ir.schedule import Trace
from aoec.jobs.choose.model_tasks import tasks
from aoec.jobs.compile.models import fuse_model
from aoec.jobs.stages.stages import lower_operator
from aoec.lowering.emit.emit import emit
from aoec.search.sketches.nests import find_product
from aoec.search.sketches.sketches import sketches
from aoec.search.vendor.vendor import ORDER_M, ORDER_N, MatmulTiling, product
from aoec.search.vendor.vendor_back import Delivery, Refusal, tiling_of, trace_of
from aoec.search.vendor.vendor_conv import ConvTiling
from aoec.search.vendor.vendor_conv_back import conv_tiling_of, conv_trace_of
from aoec.simulate.timing.time import measure
from aoec.target.machine import Machine, load
from tests.frontend.written import seeded

MACHINES = {n: load(n) for n in ("Ascend910B3", "Ascend310P3", "Ascend310B1", "Ascend950PR_957x")}
PLAIN = {"uf": 1, "pl": 0, "tm": 32, "tk": 32, "gm": 2, "gn": 3, "da": 1, "db": 2, "d0a": 1, "d0b": 1, "dc": 1}  # what fields can say
SIZES = st.one_of(st.integers(1, 80), st.integers(1, 20).map(lambda n: 256 * n), st.sampled_from((1000, 333, 4096)))


def matmul(p: Product) -> Func:
    flags = [p.dtype, *["trans_a"] * p.trans_a, *["trans_b"] * p.trans_b, *["bias"] * p.bias, "nd"]
    return lower_operator(f"matmul(m={p.m}, k={p.k}, n={p.n}, {', '.join(flags)})")


def conv2d(w: Window) -> Func:
    sizes = {"n": w.n, "c": w.c, "h": w.h, "w": w.w, "co": w.co, "kh": w.kh, "kw": w.kw, "stride": w.stride[0], "pad": w.pads[0]}
    return lower_operator(f"conv2d({', '.join(f'{n}={v}' for n, v in sizes.items())})")


@st.composite
def products(draw: st.DrawFn) -> Product:
    dtype = draw(st.sampled_from(("fp16", "fp16", "fp32")))
    m, k, n = draw(SIZES), draw(SIZES), draw(SIZES)
    return Product(m, k, n, dtype, trans_a=draw(st.booleans()) and dtype == "fp16", trans_b=draw(st.booleans()), bias=draw(st.booleans()))


@st.composite
def windows(draw: st.DrawFn) -> Window:
    kernel, stride = draw(st.sampled_from((1, 3, 5))), draw(st.sampled_from((1, 1, 2)))
    pad = draw(st.integers(0, kernel // 2))
    size = st.integers(kernel, 40)
    return Window(draw(st.integers(1, 3)), draw(st.sampled_from((3, 16, 40, 64, 256))), draw(size), draw(size),
                  draw(st.sampled_from((16, 48, 96, 300))), kernel, kernel, (stride, stride), (pad, pad, pad, pad))


def any_candidate(func: Func, machine: Machine, seed: int, **fixed: int) -> Trace:
    """A schedule of the space, legal or not: the fields know no capacities."""
    random = Random(seed)
    sketch = random.choice(sketches(func, machine))
    return fill(sketch, {n: random.choice(choices) for n, choices in holes(sketch).items()} | fixed)


def delivered(func: Func, problem: Problem, machine: Machine, trace: Trace) -> Delivery | Refusal:
    return tiling_of(func, trace, machine) if isinstance(problem, Product) else conv_tiling_of(func, trace, machine)


def through_a_line(func: Func, problem: Problem, machine: Machine, d: Delivery) -> Trace:
    """The schedule that the line of a tiling is read as."""
    op, key = key_of(problem)
    read = parse_line(line(op, key, knowledge_of(problem, asdict(d.tiling))))
    assert key_of(problem_of(read.op, read.key)) == (op, key)
    fields = fields_of(problem, read.knowledge, machine.has("fixpipe_nd"))
    if isinstance(problem, Product):
        return trace_of(func, machine, MatmulTiling(**fields))
    return conv_trace_of(func, machine, ConvTiling(**fields))


def goes_round(func: Func, problem: Problem, machine: Machine, seed: int) -> None:
    trace = any_candidate(func, machine, seed)
    d = delivered(func, problem, machine, trace)
    if isinstance(d, Refusal):
        assert d.why
        return
    assert holes(d.trace) == {}
    assert through_a_line(func, problem, machine, d) == d.trace
    again = delivered(func, problem, machine, d.trace)
    assert isinstance(again, Delivery) and (again.trace, again.differs) == (d.trace, ())
    assert through_a_line(func, problem, machine, again) == d.trace


@settings(max_examples=40)
@given(products(), st.sampled_from(sorted(MACHINES)), st.integers(0, 2**32))
def test_a_product_is_read_as_the_schedule_that_it_was_written_for(p: Product, machine: str, seed: int) -> None:
    goes_round(matmul(p), p, MACHINES[machine], seed)


@settings(max_examples=25)
@given(windows(), st.sampled_from(sorted(MACHINES)), st.integers(0, 2**32))
def test_a_convolution_is_read_as_the_schedule_that_it_was_written_for(w: Window, machine: str, seed: int) -> None:
    goes_round(conv2d(w), w, MACHINES[machine], seed)


@pytest.mark.slow
@settings(max_examples=1500)
@given(st.one_of(products(), windows()), st.sampled_from(sorted(MACHINES)), st.integers(0, 2**32))
def test_many_are_read_as_what_they_were_written_for(problem: Problem, machine: str, seed: int) -> None:
    goes_round(matmul(problem) if isinstance(problem, Product) else conv2d(problem), problem, MACHINES[machine], seed)


def work(func: Func, machine: Machine, trace: Trace) -> tuple[object, ...] | None:
    """What a schedule does, pipe by pipe; None where it is not legal."""
    program = normalise(emit(primitives.apply(func, trace), machine))
    if program.constraints:
        return None
    m = measure(program, machine)
    return m.cores, m.busy_cycles, m.bytes_by_path


def same_work(count: int, seed: int) -> int:
    """How many schedules, of which nothing is other as a tiling, are the same work in other words."""
    random, seen = Random(seed), 0
    funcs = [matmul(Product(*sizes, trans_b=True)) for sizes in ((256, 256, 256), (64, 128, 512), (512, 64, 128))]
    for i in range(count):
        func, machine = funcs[i % len(funcs)], MACHINES["Ascend910B3"]
        trace = any_candidate(func, machine, random.randrange(1 << 30), **PLAIN)
        d = tiling_of(func, trace, machine)
        if isinstance(d, Delivery) and not d.differs and d.trace != trace and (was := work(func, machine, trace)):
            assert work(func, machine, d.trace) == was
            seen += 1
    return seen


def test_what_differs_in_nothing_is_the_same_work() -> None:
    assert same_work(60, 3) >= 4


@pytest.mark.slow
def test_much_that_differs_in_nothing_is_the_same_work() -> None:
    assert same_work(600, 4) >= 20


STEPS = {  # (stepKa, stepKb, iterateOrder) of what the search lays out for a product of 12 tiles of k, two of them in the smaller chunk
    0: (2, 2, ORDER_N), 1: (4, 2, ORDER_N), 2: (2, 4, ORDER_N), 3: (2, 2, ORDER_M), 4: (4, 2, ORDER_M), 5: (2, 4, ORDER_M),
    6: (12, 2, ORDER_N), 7: (2, 12, ORDER_M)}


@pytest.mark.parametrize("number", STEPS)
def test_each_structure_has_a_tiling_that_says_it(number: int) -> None:
    machine = MACHINES["Ascend910B3"]
    func = matmul(Product(512, 768, 2048))
    sketch = sketches(func, machine)[number]
    values = PLAIN | {"tm": 64, "tn": 128, "tk": 64, "sk": 2, "rk": 2, "gm": 2, "gn": 4, "da": 1, "db": 2}
    d = tiling_of(func, fill(sketch, {n: values[n] for n in holes(sketch)}), machine)
    assert isinstance(d, Delivery) and d.differs == () and isinstance(d.tiling, MatmulTiling)
    t = d.tiling
    assert (t.stepKa, t.stepKb, t.iterateOrder) == STEPS[number]
    assert (t.depthA1, t.depthB1) == (t.stepKa, 2 * t.stepKb)
    assert (t.usedCoreNum, t.singleCoreM, t.singleCoreN, t.singleCoreK, t.baseM, t.baseN, t.baseK) == (8, 256, 512, 768, 64, 128, 64)


def test_what_no_field_says_is_refused_or_told() -> None:
    machine = MACHINES["Ascend910B3"]
    attention = lower_operator("attention(b=2, m=64, n=64, d=64)")
    found = tiling_of(attention, any_candidate(attention, machine, 1), machine)
    assert isinstance(found, Refusal) and found.why
    func = matmul(Product(512, 768, 1024))
    sketch = sketches(func, machine)[0]
    values = {n: c[0] for n, c in holes(sketch).items()} | {"tm": 64, "tn": 64, "tk": 64, "gm": 2, "gn": 2}
    plain = tiling_of(func, fill(sketch, values | {"uf": 0, "pl": 1}), machine)
    assert isinstance(plain, Delivery)
    assert plain.differs == ("loads a chunk of k ahead", "results leave L0C in granules (UnitFlag)")
    assert (plain.tiling.baseM, plain.tiling.usedCoreNum, plain.tiling.singleCoreN, plain.tiling.stepKa) == (64, 4, 512, 1)


PRODUCT, IMAGES = ("(float[64,64] x, float[64,64] w1) => (float[64,64] y) { c = MatMul(x, w1)",
                   "(float[1,32,8,8] x, float[32,32,3,3] w1) => (float[1,32,8,8] y) { c = Conv<pads=[1,1,1,1]>(x, w1)")


@pytest.mark.parametrize("text, model, flag", [
    (f"{PRODUCT} y = Relu(c) }}", "Ascend310B1", 1), (f"{PRODUCT} y = Gelu(c) }}", "Ascend310B1", 0),
    (f"{PRODUCT} y = Relu(c) }}", "Ascend310P3", 0), (f"{PRODUCT} y = Relu(c) }}", "Ascend910B3", 1),
    (f"{IMAGES} y = Relu(c) }}", "Ascend310B1", 1), (f"{IMAGES} s = Sigmoid(c) y = Mul(c, s) }}", "Ascend310B1", 0)])
def test_results_leave_in_granules_where_fixpipe_takes_them_out(text: str, model: str, flag: int) -> None:
    """On 310B by what is done to them: FIXPIPE has no GELU, and such results go through UB."""
    machine = load(model)
    graph, weights, _ = load_onnx(seeded(f'<ir_version: 9, opset_import: ["": 20]> net {text}'), {}, "fp16")
    func = next(t.func for t in tasks(fuse_model(graph, weights, machine)[0], machine) if find_product(t.func))
    sketch = sketches(func, machine)[0]
    trace = fill(sketch, {n: c[-1] if n == "uf" else c[0] for n, c in holes(sketch).items()})
    d = (conv_tiling_of if "Conv" in text else tiling_of)(func, trace, machine)
    assert isinstance(d, Delivery) and d.tiling.unitFlag == flag == any(s.primitive == "unit_flag" for s in trace.steps)
    assert "results leave L0C in granules (UnitFlag)" not in d.differs


def test_a_convolution_is_no_product_and_the_other_way_round() -> None:
    func, machine = conv2d(Window(1, 64, 8, 8, 64, 3, 3)), MACHINES["Ascend910B3"]
    trace = any_candidate(func, machine, 0)
    assert isinstance(tiling_of(func, trace, machine), Refusal)
    other = matmul(Product(64, 64, 64))
    assert isinstance(conv_tiling_of(other, any_candidate(other, machine, 0), machine), Refusal)
    assert product(other).block.op == "+="


@pytest.mark.parametrize("channels", [48, 64, 96])
def test_where_results_go_through_ub_a_tile_leaves_in_even_parts(channels: int) -> None:
    machine, func = load("Ascend310P3"), lower_operator("conv2d(n=1, c=64, h=14, w=14, co=128, kh=3, kw=3, pad=1, bias, relu)")
    tiling = ConvTiling(hoL0=7, hoL1=7, nL0=channels, nBL1=channels, kL0=144, kAL1=144, kBL1=144)
    program = normalise(emit(primitives.apply(func, conv_trace_of(func, machine, tiling)), machine))
    assert program.constraints == ()
