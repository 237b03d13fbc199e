"""Laws of cores that hold cube and vector both: what leaves L0C goes through UB, what comes in rows goes by blocks or through UB.

On a small machine with every capacity tight, and on the chips: values are the reference's, programs are accepted and can spare no flag,
filling holes first or last makes one program, and the timeline is the slow oracle's.
"""
from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aoec import primitives
from aoec.artifact.artifact import load as load_artifact
from aoec.base.errors import CheckError, TargetError
from aoec.cli import main
from aoec.frontend.translate.onnx import load as read
from aoec.ir.graph.graph import Graph, Group, OpNode, Tensor
from aoec.ir.index import DTYPES, Int
from aoec.ir.program import For, Item, Program, SetFlag, WaitFlag
from aoec.ir.rewrite import normalise
from aoec.jobs.run.execute import run_model
from aoec.jobs.stages.operators import graph_of
from aoec.jobs.stages.stages import lower_operator
from aoec.jobs.tune.tuning import Problem, problem, start
from aoec.lowering.arrange.fuse import fuse
from aoec.lowering.emit.emit import emit
from aoec.lowering.lower.lower import lower
from aoec.ops.run import evaluate
from aoec.ops.words.layout import to_logical, to_physical
from aoec.search.space.grid import Candidate
from aoec.simulate.timing.time import measure
from aoec.target.legality.check import check
from aoec.target.machine import DEFAULT, Machine, load, parse_machine
from tests.frontend.written import written
from tests.jobs.small import small_searches
from tests.laws.test_emit_laws import without_one_flag
from tests.laws.test_values_laws import QUICK, instr, program, ref, same, space, tensor, whole_numbers
from tests.laws.turns import SAME
from tests.lowering.coupled import TEXT
from tests.lowering.groups import ON_COUPLED, Case, case, cases, legal
from tests.models.compiled import TOLERANCE, distance, operators_on_host
from tests.oracle.slow_timeline import simulate

SMALL = parse_machine(TEXT, "coupled")
CUBE = ("matmul", "matmul_batch", "matmul_nd", "conv", "conv_dilated", "point", "point_strided", "grouped", "depthwise", "depthwise_blocks",
        "conv_few", "conv_four", "point_few")
VECTOR = ("residual", "max_pool", "avg_pool", "global_pool", "softmax", "concat", "chain",
          "slice", "rows_of_image", "rows_ragged", "gate")
CHIPS = ("Ascend910A", "Ascend310P3", "Ascend310", "Ascend310B1")
STEP = 8 if SAME else 3  # `make test` runs every eighth sketch, mutants and make test-all every third


def holds(c: Case, p: Problem, sketch: int, seed: int) -> Program:
    """The program of a legal candidate, which is accepted, computes what the operators mean, and is the same if holes are filled first."""
    (candidate,) = legal(p, sketch, 1, seed)
    made = p.program(candidate)
    check(made, p.machine)
    assert c.agrees(c.run(made)), (c.name, p.values(candidate))
    assert made == normalise(emit(primitives.apply(p.func, p.trace(candidate)), p.machine))
    assert p.bound().ticks <= p.cost([candidate])[0]
    return made


@pytest.mark.parametrize("model", CUBE)
def test_sketches_of_the_cube_hold_on_a_small_coupled_machine(model: str) -> None:
    """All are emitted; some are run."""
    for c in cases(model):
        p = problem(c.func, SMALL)
        assert not p.refused
        for sketch in range(0, len(p.sketches), STEP):
            last = holds(c, p, sketch, sketch)
        assert simulate(last, SMALL).ticks == measure(last, SMALL).ticks


@pytest.mark.parametrize("model", VECTOR)
def test_vector_groups_run_on_coupled_cores(model: str) -> None:
    for c in cases(model):
        made = holds(c, problem(c.func, SMALL), 0, 0)
        assert {s.core for s in made.streams} == {"core"}


BEHIND = ("active", "active_blocks", "joined", "joined_points", "joined_blocks")
# the other chip has the same, sooner; what is behind a depthwise convolution joined_blocks has there
LONG = [(m, "Ascend310P3") for m in ("active", "active_blocks", "joined", "joined_blocks")] + [("active_blocks", "Ascend910A")]


@pytest.mark.parametrize("model, chip", [pytest.param(m, c, marks=[pytest.mark.slow] * ((m, c) in LONG)) for m in BEHIND
                                         for c in ("Ascend910A", "Ascend310P3")] + [("active", "Ascend310B1"), ("joined", "Ascend310B1"),
                                                                                        ("active_wide", "Ascend310P3")])
def test_what_is_behind_a_convolution_is_worked_out_in_ub(model: str, chip: str) -> None:
    """One group on these chips, of which the last has FIXPIPE too, two where FIXPIPE alone stores; neither an activation nor a residual
    costs the result a way through GM."""
    apart, together = ([i for i, c in enumerate(found) if "cols" in {b.name for b in c.func.locals}][-1]
                       for found in (cases(model), cases(model, chip)))
    assert len(cases(model)) == len(cases(model, chip)) + 1
    c, machine = cases(model, chip)[together], load(chip)
    p = problem(c.func, machine)
    assert not p.refused
    for sketch in range(0, len(p.sketches), STEP):
        holds(c, p, sketch, sketch)
    with small_searches():
        best = start(p).ticks
        assert best < sum(start(problem(cases(model)[i].func, machine)).ticks for i in (apart, apart + 1))


def test_fixpipe_keeps_what_it_can_do_itself() -> None:
    """Where a core has FIXPIPE and a way to UB too, scales stay FIXPIPE's, and an activation joins by UB."""
    text = """<ir_version: 8, opset_import: ["": 17]> scaled (int8[1,32,9,9] x, float[32,32,3,3] w, float[32] b) => (int8[1,32,9,9] y)
        <float s = {0.5}, int8 z = {0}> {
        d = DequantizeLinear(x, s, z)  v = QuantizeLinear(w, s, z)  u = DequantizeLinear(v, s, z)
        c = Conv<pads=[1,1,1,1]>(d, u, b)  r = Relu(c)  a = QuantizeLinear(r, s, z)  e = DequantizeLinear(a, s, z)
        k = Conv<pads=[1,1,1,1]>(e, u, b)  g = Sigmoid(k)  y = QuantizeLinear(g, s, z) }"""
    random = np.random.default_rng(3)
    graph, weights, _ = read(written(text, lambda name, shape: random.integers(-3, 4, shape).astype(np.float32) if name in "wb" else None),
                             {}, "fp16")
    fused, _ = fuse(graph, weights, load("Ascend310B1"))
    ops = {n.name: n.op.removesuffix("_packed") for n in fused.nodes}
    cubes = [[ops[n] for n in g.nodes] for g in fused.groups if g.kind == "cube"]
    assert cubes == [["conv2d", "relu", "requantise"], ["conv2d", "sigmoid"]]


@pytest.mark.parametrize("model", ON_COUPLED)
def test_what_is_behind_a_product_is_worked_out_in_ub(model: str) -> None:
    """Rows in parts of a tile's columns, of which the last may be narrower; what is read beside the result is brought part by part."""
    together, apart = cases(model, "Ascend310P3"), cases(model)
    assert len(together) == len(apart) - 1
    p = problem(together[-1].func, SMALL)
    assert not p.refused
    for sketch in range(0, len(p.sketches), STEP):
        last = holds(together[-1], p, sketch, sketch)
    for candidate in in_parts(p, 0, 2):
        assert together[-1].agrees(together[-1].run(p.program(candidate)))
    assert simulate(last, SMALL).ticks == measure(last, SMALL).ticks


def test_chains_behind_a_product_are_worked_on_in_place() -> None:
    """Of erf's twenty operations in fp32 only what is read again keeps a place of its own, and such sources start half a period of the
    banks away from the others."""
    p = problem(cases("product_erf", "Ascend310P3")[-1].func, SMALL)
    (candidate,) = legal(p, 0, 1, 0)
    made = p.program(candidate)
    starts = {s.address for s in made.spaces if s.scope == "UB" and s.dtype == "fp32" and s.name.startswith("t_")}
    assert len(starts) <= 5 < sum(s.name.startswith("t_") for s in made.spaces)  # one of them is what came from L0C, apart
    assert {s.value % 512 for s in starts} == {0, 256}


@pytest.mark.parametrize("machine", [SMALL, load(DEFAULT)], ids=lambda m: m.name)
def test_constant_matrices_of_a_batch_need_no_whole_fractals(machine: Machine) -> None:
    """Packed, the second of two matrices of 40 rows would start within a fractal."""
    c = cases("product_each")[0]
    holds(c, problem(c.func, machine), 0, 0)


def test_a_product_with_what_joins_it_is_faster_than_both() -> None:
    """Also where pipe V decides: GELU at sizes of BERT, and where all is asked a residual."""
    machine = load("Ascend310P3")
    for name in ("gelu",) if SAME else ("gelu", "add"):
        rows, out = Tensor("r", "fp16", (128, 768)), Tensor("y", "fp16", (128, 768))
        graph = Graph("g", ("x", "w", "r"), ("y",), (Tensor("x", "fp16", (128, 768)), Tensor("w", "fp16", (768, 768)), rows,
                                                     Tensor("t", "fp16", (128, 768)), out),
                      (OpNode("p", "matmul", ("x", "w"), ("t",), ()), OpNode("f", name, ("t", "r")[:1 + (name == "add")], ("y",), ())))
        together, _ = fuse(graph, {}, machine)
        assert [len(g.nodes) for g in together.groups] == [2]
        alone = replace(together, groups=(Group("g0", "cube", ("p",)), Group("g1", "vector", ("f",))))
        with small_searches():
            one, *two = (start(problem(lower(g, h), machine)).ticks for g, h in ((together, "g0"), (alone, "g0"), (alone, "g1")))
        assert one < sum(two)


def test_rows_that_are_no_whole_fractals_stay_apart() -> None:
    graph, weights = graph_of("matmul(m=20, k=40, n=21)")
    (product,) = graph.nodes
    (out,) = (t for t in graph.tensors if t.name in graph.outputs)
    more = replace(graph, nodes=(product, OpNode("f", "sigmoid", product.outputs, ("z",), ())), outputs=("z",),
                   tensors=(*graph.tensors, replace(out, name="z")))
    fused, _ = fuse(more, weights, load("Ascend310P3"))
    assert [g.kind for g in fused.groups] == ["cube", "vector"]


@pytest.mark.parametrize("chip", CHIPS)
def test_chips_with_coupled_cores(chip: str) -> None:
    for c in (cases("matmul")[0], cases("conv")[1]):
        p = problem(c.func, load(chip))
        assert not p.refused
        holds(c, p, len(p.sketches) - 1, 1)


def test_no_flag_can_be_spared() -> None:
    p = problem(cases("matmul")[0].func, SMALL)
    candidates = [c for s in range(2) for c in legal(p, s, 4, 5)]
    least = min(candidates, key=lambda c: (p.cost([c])[0], c))
    for cut in without_one_flag(p.program(least)):
        with pytest.raises(CheckError):
            check(cut, SMALL)


# ---------------------------------------------------------------- parts of a tile

def in_parts(p: Problem, sketch: int, count: int) -> list[Candidate]:
    """Legal candidates whose tiles leave L0C in two parts or more, in each of several tiles of a core's."""
    def parts(values: dict[str, int]) -> bool:
        return values["uc"] * 16 < values.get("tn", values.get("n1", 0) * 16)
    return [c for c in legal(p, sketch, 64, 2) if parts(p.values(c))][:count]


@pytest.mark.parametrize("model, number, machine", [("matmul", 0, SMALL), ("matmul_nd", 0, SMALL), ("point", 1, SMALL),
                                                    ("joined", 2, load("Ascend310P3"))],
                         ids=lambda x: getattr(x, "name", str(x)))
def test_tiles_leave_l0c_in_parts(model: str, number: int, machine: Machine) -> None:
    """Values, flags and times, with rows that end in a shorter part and with planes of channels."""
    c = cases(model, "Ascend310P3" if model == "joined" else DEFAULT)[number]
    p = problem(c.func, machine)
    found = in_parts(p, 0, 3)
    assert len(found) == 3
    for candidate in found:
        made = p.program(candidate)
        check(made, machine)
        assert c.agrees(c.run(made))
        assert made == normalise(emit(primitives.apply(p.func, p.trace(candidate)), machine))
        assert simulate(made, machine).ticks == measure(made, machine).ticks


def test_no_flag_can_be_spared_where_tiles_leave_in_parts() -> None:
    p = problem(cases("matmul")[0].func, SMALL)
    least = min(in_parts(p, 0, 8), key=lambda c: (p.cost([c])[0], c))
    for cut in without_one_flag(p.program(least)):
        with pytest.raises(CheckError):
            check(cut, SMALL)


def later(body: tuple[Item, ...]) -> tuple[Item, ...]:
    """A body in which L0C is given back behind the loop over parts, not in it."""
    out: list[Item] = []
    for item in body:
        if not isinstance(item, For):
            out.append(item)
        elif item.var == "u_p":
            (found,) = [x for x in item.body if isinstance(x, For) and isinstance(x.body[0], SetFlag)]
            out += [replace(item, body=tuple(x for x in item.body if x is not found)), found.body[0]]
        else:
            out.append(replace(item, body=later(item.body)))
    return tuple(out)


def test_products_wait_for_the_last_part_and_not_for_the_work_on_it() -> None:
    p = problem(lower_operator("matmul(m=64, k=64, n=256, bias, relu)"), SMALL)
    times = []
    for candidate in (c for c in in_parts(p, 0, 64) if p.values(c)["dc"] == 1):
        made = p.program(candidate)
        (stream,) = made.streams
        waiting = replace(made, streams=(replace(stream, body=later(stream.body)),))
        check(waiting, SMALL)
        times.append((measure(made, SMALL).ticks, measure(waiting, SMALL).ticks))
    assert all(fast <= slow for fast, slow in times) and any(fast < slow for fast, slow in times)


# ---------------------------------------------------------------- matrices in fractals, matrices in rows

@pytest.mark.parametrize("machine", [SMALL, load("Ascend910B3")], ids=lambda m: m.name)
@pytest.mark.parametrize("text", ["matmul(m=37, k=50, n=21, bias, relu, nz)", "matmul(m=20, k=40, n=35, nz, nd)"])
def test_products_read_and_write_fractals(text: str, machine) -> None:
    graph, weights = graph_of(text)
    random = np.random.default_rng(0)
    shapes = {t.name: t.shape for t in graph.tensors}
    fused, packed = fuse(graph, {n: random.integers(-2, 3, w.shape).astype(w.dtype) for n, w in weights.items()})
    feeds = {i: random.integers(-2, 3, shapes[i]).astype(np.float32) for i in graph.inputs}
    c = case("nz", fused, fused.groups[-1].name, evaluate(fused, feeds, packed, every=True))
    p = problem(c.func, machine)
    assert not p.refused and c.result.layout == "NZ"
    for sketch in (0, len(p.sketches) - 1):
        made = p.program(legal(p, sketch, 1, 3)[0])
        check(made, machine)
        got = to_logical(c.run(made).reshape(-1)[:to_physical(c.wanted, c.result).size], c.result)
        assert np.array_equal(got, c.wanted)


def test_rows_of_whole_blocks_may_come_directly_and_others_go_through_ub() -> None:
    def ways(text: str) -> set[str]:
        sketches = problem(lower_operator(text), SMALL).sketches
        return {", ".join(s.name for s in k.program.spaces if s.name == "A_UB") for k in sketches}
    assert ways("matmul(m=20, k=48, n=20)") == {"", "A_UB"}
    assert ways("matmul(m=20, k=50, n=20)") == {"A_UB"}


def test_fractals_are_what_products_of_910a_are_fastest_with() -> None:
    """At a size where the cube's work counts; where the way of the inputs is most of the time (m=512, k=n=256) both come out alike."""
    rows, fractals = (start(problem(lower_operator(f"matmul(m=2048, k=1024, n=2048{flag})"), load("Ascend910A"))) for flag in ("", ", nz"))
    assert fractals.default_ticks < 0.9 * rows.default_ticks


# ---------------------------------------------------------------- instructions

@QUICK
@given(st.data())
def test_results_leave_l0c_as_the_meaning_says(data) -> None:
    draw = data.draw
    to, (bursts, length) = draw(st.sampled_from(("fp32", "fp16"))), (draw(st.integers(0, 3)), draw(st.integers(0, 3)))
    gaps = {"src_gap": draw(st.integers(0, 2)), "dst_gap": draw(st.integers(0, 5)), "relu": draw(st.integers(0, 1))}
    tensors = [tensor("X", "fp16", 256, "input"), tensor("Y", to, 1 << 13, "output")]
    spaces = [space("x", "fp16", "L1", 512), space("a", "fp16", "L0A", 8192), space("b", "fp16", "L0B", 8192),
              space("c", "fp32", "L0C", 65536), space("u", to, "UB", 32768)]
    body = [instr("copy_gm_l1", dst=ref("x"), src=ref("X"), bursts=1, length=16, src_gap=0, dst_gap=0)]
    body += [instr(f"load_l0{s}", dst=ref(s), src=ref("x"), repeat=4, src_stride=0, dst_gap=0, transpose=0) for s in "ab"]
    body += [instr("mmad", dst=ref("c"), a=ref("a"), b=ref("b"), m=64, n=64, k=16, init=1),
             instr("copy_l0c_ub", dst=ref("u"), src=ref("c"), bursts=bursts, length=length, **gaps),
             instr("copy_ub_gm", dst=ref("Y"), src=ref("u"), bursts=1, length=(1 << 13) * DTYPES[to], src_gap=0, dst_gap=0)]
    same(program("core", tensors, spaces, body), {"X": whole_numbers("fp16", 256, draw(st.integers(0, 99)))})


@QUICK
@given(st.integers(0, 3), st.integers(0, 4), st.integers(0, 3), st.integers(0, 3), st.integers(0, 99))
def test_blocks_go_from_ub_to_l1_as_the_meaning_says(bursts: int, length: int, src_gap: int, dst_gap: int, seed: int) -> None:
    tensors = [tensor("X", "fp16", 512, "input"), tensor("Y", "fp32", 256, "output")]
    spaces = [space("u", "fp16", "UB", 1024), space("x", "fp16", "L1", 1024), space("a", "fp16", "L0A", 512),
              space("b", "fp16", "L0B", 512), space("c", "fp32", "L0C", 1024), space("o", "fp32", "UB", 1024, 1024)]
    body = [instr("copy_gm_ub", dst=ref("u"), src=ref("X"), bursts=1, length=1024, src_gap=0, dst_gap=0),
            instr("copy_ub_l1", dst=ref("x"), src=ref("u"), bursts=1, length=32, src_gap=0, dst_gap=0),
            instr("copy_ub_l1", dst=ref("x"), src=ref("u"), bursts=bursts, length=length, src_gap=src_gap, dst_gap=dst_gap),
            *[instr(f"load_l0{s}", dst=ref(s), src=ref("x"), repeat=1, src_stride=1, dst_gap=0, transpose=0) for s in "ab"],
            instr("mmad", dst=ref("c"), a=ref("a"), b=ref("b"), m=16, n=16, k=16, init=1),
            instr("copy_l0c_ub", dst=ref("o"), src=ref("c"), bursts=1, length=1, src_gap=0, dst_gap=0, relu=0),
            instr("copy_ub_gm", dst=ref("Y"), src=ref("o"), bursts=1, length=1024, src_gap=0, dst_gap=0)]
    same(program("core", tensors, spaces, body), {"X": whole_numbers("fp16", 512, seed)})


def test_a_machine_lacks_what_its_file_says() -> None:
    assert SMALL.has("copy_l0c_ub") and not SMALL.has("copy_gm_l1_nd2nz") and not SMALL.has("mmad_bias") and not SMALL.has("fixpipe_nd")
    assert not load("toy").has("copy_l0c_ub")
    with pytest.raises(TargetError, match="lacks: unknown key copy_gm_l1_nz2nd; did you mean copy_gm_l1_nd2nz"):
        parse_machine(TEXT.replace('lacks = ["copy_gm_l1_nd2nz"]', 'lacks = ["copy_gm_l1_nz2nd"]'), "coupled")
    with pytest.raises(TargetError, match="lacks: must be a list"):
        parse_machine(TEXT.replace('lacks = ["copy_gm_l1_nd2nz"]', 'lacks = "copy_gm_l1_nd2nz"'), "coupled")


def test_a_machine_lacks_forms_of_instructions() -> None:
    def of(entry: str) -> Machine:
        return parse_machine(TEXT.replace('lacks = ["copy_gm_l1_nd2nz"]', f'lacks = ["copy_gm_l1_nd2nz", "{entry}"]'), "coupled")
    assert of("load3d channels=4").has("load3d") and not of("load3d channels=4").has("load3d", "fp16", channels=4)
    cast = of("vconv int32 fp32")
    assert cast.has("vconv", "int32", "fp16") and not cast.has("vconv", "int32", "fp32")
    for entry, why in (("load3d channel=4", "unknown key channel"), ("vconv int32 float", "unknown key float"),
                       ("vconv fp16 fp16 fp16", "dtypes"), ("load3d channels=x", "name=value")):
        with pytest.raises(TargetError, match=f"lacks.*{why}"):
            of(entry)
    tensors = [tensor("X", "fp32", 64, "input"), tensor("Y", "int32", 64, "output")]
    spaces = [space("a", "fp32", "UB", 256), space("b", "int32", "UB", 256, 256)]
    body = [instr("copy_gm_ub", dst=ref("a"), src=ref("X"), bursts=1, length=256, src_gap=0, dst_gap=0),
            SetFlag("MTE2", "V", Int(0)), WaitFlag("MTE2", "V", Int(0)),
            instr("vconv", dst=ref("b"), src=ref("a"), lanes=64, repeat=1, dst_blk=1, src_blk=1, dst_rep=8, src_rep=8),
            SetFlag("V", "MTE3", Int(0)), WaitFlag("V", "MTE3", Int(0)),
            instr("copy_ub_gm", dst=ref("Y"), src=ref("b"), bursts=1, length=256, src_gap=0, dst_gap=0)]
    made = program("core", tensors, spaces, body)
    check(made, SMALL)
    with pytest.raises(CheckError, match="coupled has vconv, but not vconv int32 fp32"):
        check(made, cast)


# ---------------------------------------------------------------- end to end

def net() -> onnx.ModelProto:
    """Convolutions with bias and relu, one strided, a residual, pooling and a product with bias."""
    random = np.random.default_rng(7)
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
        net (float[1,3,12,12] x, float[24,3,3,3] w1, float[24] b1, float[24,24,1,1] w2, float[24,10] w3, float[10] b3) => (float[1,10] y) {
          a = Conv<pads=[1,1,1,1], strides=[2,2]>(x, w1, b1) r = Relu(a) c = Conv(r, w2) s = Add(c, r) t = Relu(s)
          g = GlobalAveragePool(t) f = Flatten(g) y = Gemm(f, w3, b3) }""")
    for i in [i for i in model.graph.input if i.name != "x"]:
        shape = [d.dim_value for d in i.type.tensor_type.shape.dim]
        data = random.standard_normal(shape) / np.sqrt(np.prod(shape[1:]) or 1)
        model.graph.initializer.append(onnx.numpy_helper.from_array(data.astype(np.float32), i.name))
        model.graph.input.remove(i)
    return model


@pytest.mark.parametrize("chip", ["Ascend910A", pytest.param("Ascend310P3", marks=pytest.mark.slow)])
def test_a_small_net_compiles_for_the_chip_and_matches_onnxruntime(chip: str, tmp_path: Path) -> None:
    onnx.save(net(), tmp_path / "net.onnx")
    words = ["compile", str(tmp_path / "net.onnx"), "--target", chip, "--bank", str(tmp_path / "bank"), "-o", str(tmp_path / "net.aoec"),
             "--jobs", "1", "--json"]
    with small_searches():
        assert main(words) == 0
    artifact = load_artifact(tmp_path / "net.aoec")
    assert operators_on_host(artifact) == []
    x = np.random.default_rng(1).standard_normal((1, 3, 12, 12), np.float32)
    (got,), (want,) = run_model(artifact, {"x": x}).values(), onnxruntime.InferenceSession(net().SerializeToString()).run(None, {"x": x})
    assert distance(got, want) <= TOLERANCE["fp16"]
