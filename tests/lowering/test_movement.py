"""Copies in parts that are whole blocks of GM, and pools of small images: what is slow is to end within a block or a repeat."""
from __future__ import annotations

import onnx.parser
import pytest

from aoec.frontend.translate.onnx import load as load_model
from aoec.ir.func.tir import Func, blocks
from aoec.ir.index import Int
from aoec.jobs.stages.stages import lower_operator
from aoec.jobs.tune.tuning import problem, start
from aoec.lowering.arrange.fuse import fuse
from aoec.lowering.lower.lower import lower
from aoec.simulate.timing.time import measure
from aoec.target.machine import load


def concat(shapes: list[str], axis: int) -> Func:
    """The func of a concat of fp16 tensors."""
    names = [f"x{i}" for i in range(len(shapes))]
    inputs = ", ".join(f"float[{s}] {n}" for s, n in zip(shapes, names))
    model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 17]> '
                                    f"m ({inputs}) => (float[] y) {{ y = Concat<axis={axis}>({', '.join(names)}) }}")
    graph, weights, _ = load_model(onnx.shape_inference.infer_shapes(model), {}, "fp16")
    fused, _ = fuse(graph, weights)
    group = next(g for g in fused.groups if g.kind == "vector")
    return lower(fused, group)


@pytest.mark.parametrize("shapes, axis", [(["4,16,3136", "4,20,3136", "4,8,3136"], 1), (["4,24,784", "4,8,784"], 1), (["6272", "9408"], 0),
                                          (["64,561", "32,561"], 0)])
def test_parts_are_whole_blocks(shapes: list[str], axis: int) -> None:
    """3,136 elements in eight parts would end in the middle of a block each, seven are whole; 561 are in none, runs of them in eleven."""
    func = concat(shapes, axis)
    for _, above in blocks(func.body):
        inner = above[-1].extent
        assert isinstance(inner, Int) and inner.value * 2 % 32 == 0


def test_a_concat_of_planes_is_bound_by_memory_or_latency() -> None:
    """GoogLeNet's at 14 x 14: 2.6 MB in and out on eight cores."""
    p = problem(concat(["4,16,3136", "4,20,3136", "4,8,3136", "4,8,3136"], 1), load("Ascend310P3"))
    best = measure(p.program(start(p).best), p.machine)
    assert best.busy_cycles["MTE3"] < 0.6 * best.cycles


def test_small_images_are_pooled_a_repeat_of_all_rows_at_a_time() -> None:
    """224 rows a core of 14 pixels: an instruction for each of nine taps and rows would take some 20 cycles each, 40,000 in all; the two
    repeats of a row overlap, which a maximum does not mind."""
    p = problem(lower_operator("max_pool(n=4, c=512, h=14, w=14, kh=3, kw=3, pad=1)"), load("Ascend310P3"))
    assert measure(p.program(start(p).best), p.machine).cycles < 20_000


def test_a_cache_grows_in_bursts_worth_their_issue() -> None:
    """Of 1,088 rows one iteration holds a block each as columns, which is a burst of 32 bytes; as runs it holds bursts of 512 and more."""
    for _, above in blocks(concat(["2,1024,1024", "2,64,1024"], 1).body):
        inner = above[-1].extent
        assert isinstance(inner, Int) and inner.value * 2 >= 512


def test_a_row_behind_many_is_cut_as_often_as_they() -> None:
    """A part of it is a block then: one core would move all of the others else."""
    for _, above in blocks(concat(["1000,512", "1,512"], 0).body):
        parts = above[0].extent
        assert isinstance(parts, Int) and parts.value == 32


def test_runs_of_several_texts_are_cut_for_all_of_them() -> None:
    """Eight texts of a megabyte each are cut so that a part fits UB, no finer: their parts are enough for any machine's cores together."""
    for _, above in blocks(concat(["8,768,512", "8,256,512"], 1).body):
        outer, parts = (lp.extent for lp in above[:2])
        assert (outer, parts) == (Int(8), Int(32))


@pytest.mark.parametrize("shapes", [["1,19200,85", "1,4800,85", "1,1200,85"], ["2,6400,200", "2,12800,200"]])
def test_thin_columns_are_joined_as_runs(shapes: list[str]) -> None:
    """What each tensor gives is one run: of columns of one element no slot of UB would hold one, and each would be a burst of its own."""
    p = problem(concat(shapes, 1), load("Ascend910B3"))
    best = measure(p.program(start(p).best), p.machine)
    assert best.busy_cycles["MTE3"] < 20_000 * len(shapes)


def test_long_rows_of_elementwise_work_are_cut() -> None:
    model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 17]> '
                                    "m (float[1,64,256,256] x, float[1,64,1,1] z) => (float[1,64,256,256] y) { y = Add(x, z) }")
    fused, _ = fuse(*load_model(model, {}, "fp32")[:2])
    p = problem(lower(fused, "g0"), load("Ascend910B3"))
    assert measure(p.program(start(p).best), p.machine).time_us < 3 * 2 * 64 * 65536 * 4 / 1e6  # of what 1 TB/s would take
