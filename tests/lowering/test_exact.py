"""Instructions that a machine lacks: what stands in their place gives the same bits, for numbers of every size and sign."""
from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aoec.ir.func.tir import Buffer, Func
from aoec.ir.index import Int, evaluate
from aoec.ir.program import For, Instr, Item, Ref
from aoec.lowering.emit.tile import Access, Emitter, Piece, instr
from aoec.lowering.emit.vector.emit_exact import AT_ONCE, WITHOUT, with_others
from aoec.target.isa.meaning import MEANINGS
from aoec.target.machine import load
from tests.lowering.test_typed import ran

LACKING = ("Ascend310P3", "Ascend910A")
ENDS = (0.0, 0.5, 1.0, 1.5, 2.5, 2.0**22 + 0.5, 2.0**23 - 0.5, 2.0**23, 2.0**23 + 1, 2.0**24 + 2, 2.0**31 - 128, 2.0**31, 2.0**32, 2.0**100,
        1e-45, 1.1754944e-38, 3.4028235e38, float("inf"), float("nan"), 0.49999997, 0.99999994, 8388607.0, 65504.0, 65519.0, 65520.0)
NUMPY = {"fp32": np.float32, "fp16": np.float16, "int32": np.int32, "int64": np.int64}


def do(items: Sequence[Item], arrays: dict[str, np.ndarray], env: dict[str, int]) -> None:
    """Does instructions on arrays, by what each of them means."""
    for item in items:
        if isinstance(item, For):
            for i in range(int(evaluate(item.trips, env))):
                do(item.body, arrays, env | {item.var: i})
            continue
        assert isinstance(item, Instr)
        operands = [arrays[r.buffer][int(evaluate(r.offset, env)):] for _, r in item.fields if isinstance(r, Ref)]
        numbers = {n: v.value if n == "scalar" else int(evaluate(v, env)) for n, v in item.fields if not isinstance(v, Ref)}
        MEANINGS[item.op](SimpleNamespace(**numbers), *operands)


def other(item: Instr, target: str, dst: str, src: str) -> tuple[list[Item], Emitter]:
    """What stands in the place of an instruction on a machine."""
    func = Func("f", (), (), tuple(Buffer(n, d, (Int(1 << 16),), "UB") for n, d in (("dst", dst), ("src", src))))
    em = Emitter(func, load(target), {})
    (made,) = with_others(em, [Piece((item,), (Access("dst", "V", True),))])
    return list(made.items), em


@pytest.mark.parametrize("target", LACKING)
@pytest.mark.parametrize("form", WITHOUT)
@settings(max_examples=25, deadline=None)
@given(st.data())
def test_bits_are_those_of_the_instruction(form: str, target: str, data: st.DataObject) -> None:
    """For any strides, lanes and repeats, of whole repeats and not."""
    op, dst, src = (form.split() + ["fp32", "fp32"])[:3]
    if load(target).has(op, dst, src):
        return
    draw, random = data.draw, np.random.default_rng(data.draw(st.integers(0, 1 << 30)))
    repeat, lanes = draw(st.integers(1, 2 * AT_ONCE + 3)), draw(st.integers(1, 64))
    blk, spread = draw(st.integers(1, 3)), draw(st.sampled_from([0, 1, 2]))
    sizes = {n: np.dtype(NUMPY[d]).itemsize for n, d in (("dst", dst), ("src", src))}
    fields = dict(lanes=lanes, repeat=repeat, dst_blk=blk, src_blk=spread, dst_rep=2 * sizes["dst"] * blk, src_rep=2 * sizes["src"])
    item = instr(op, dst=Ref("dst", Int(16)), src=Ref("src", Int(32)), **fields)
    bits = random.integers(0, 1 << 32, 1 << 16, np.uint64).astype(np.uint32).view(np.float32)
    x = np.where(random.random(1 << 16) < 0.3, random.choice([*ENDS, *(-e for e in ENDS)], 1 << 16).astype(np.float32), bits)
    x = np.where(random.random(1 << 16) < 0.3, (random.standard_normal(1 << 16) * 100).astype(np.float32), x)
    source = x.view(np.int32) if src == "int32" else x
    wanted = {"dst": np.zeros(1 << 16, NUMPY[dst]), "src": source.copy()}
    got = {n: a.copy() for n, a in wanted.items()}
    do([item], wanted, {})
    items, em = other(item, target, dst, src)
    got |= {b.name: np.full(int(evaluate(b.shape[0], {})), 77, NUMPY[b.dtype]) for b in em.scratch}
    do(items, got, {})
    nan = np.isnan(wanted["dst"]) if dst.startswith("fp") else np.zeros(1 << 16, bool)
    assert op not in {i.op for i in items if isinstance(i, Instr) and i.op != "vconv"}
    assert np.array_equal(np.isnan(got["dst"]), nan) if dst.startswith("fp") else True
    assert got["dst"][~nan].tobytes() == wanted["dst"][~nan].tobytes()


@pytest.mark.parametrize("target", LACKING)
@pytest.mark.parametrize("op, numpy", [("floor", np.floor), ("ceil", np.ceil), ("round", np.rint)])
def test_a_whole_program_rounds_as_numpy(op: str, numpy: np.ufunc, target: str) -> None:
    x = np.resize(np.array([*ENDS, *(-e for e in ENDS)], np.float32), (3, 700))
    got, _ = ran(op, [("fp32", x)], "fp32", load(target))
    there = ~np.isnan(x)
    assert np.isnan(got[~there]).all() and got[there].tobytes() == numpy(x)[there].tobytes()
