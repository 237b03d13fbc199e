"""Convolutions of any attributes are scheduled by one trace: it keeps their values, and load3d finds their attributes again."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aoec import primitives
from aoec.ir import index
from aoec.ir.func.evaluate import evaluate_func
from aoec.ir.func.tir import Func, blocks
from aoec.ir.rewrite import fill, normalise
from aoec.ir.schedule import Trace
from aoec.ir.text.parse import parse_func, parse_trace
from aoec.ir.text.show import show
from aoec.primitives.patterns import Load3d, match_load3d


@dataclass(frozen=True)
class Conv:
    """Sizes and attributes; `each`: channels to a pixel."""

    c1: int
    h: int
    w: int
    co: int
    kh: int
    kw: int
    stride: tuple[int, int]
    dilation: tuple[int, int]
    pad: tuple[int, int]
    each: int

    @property
    def ho(self) -> int:
        return (self.h + 2 * self.pad[0] - self.dilation[0] * (self.kh - 1) - 1) // self.stride[0] + 1

    @property
    def wo(self) -> int:
        return (self.w + 2 * self.pad[1] - self.dilation[1] * (self.kw - 1) - 1) // self.stride[1] + 1

    @property
    def k(self) -> int:
        return self.c1 * self.kh * self.kw * self.each

    def func(self) -> Func:
        row = f"ih*{self.stride[0]} + ik//{self.kw * self.each}%{self.kh}*{self.dilation[0]} - {self.pad[0]}"
        col = f"iw*{self.stride[1]} + ik//{self.each}%{self.kw}*{self.dilation[1]} - {self.pad[1]}"
        read = f"X[im, ik//{self.kh * self.kw * self.each}, {row}, {col}, ik%{self.each}]"
        if any(self.pad):
            read = f"select(0 <= {row} and {row} < {self.h} and 0 <= {col} and {col} < {self.w}, {read}, 0.0)"
        ho, wo, k, co, each = self.ho, self.wo, self.k, self.co, self.each
        return parse_func(f"""
        func conv(X: fp16[1, {self.c1}, {self.h}, {self.w}, {each}], W: fp16[{k}, {co}] ZN) -> (Y: fp16[1, {co // 16}, {ho}, {wo}, 16]) {{
          local col: fp16[1, {ho}, {wo}, {k}]
          local C: fp32[1, {ho}, {wo}, {co}]
          for im in 1 {{ for ih in {ho} {{ for iw in {wo} {{ for ik in {k} {{ im2col: col[im, ih, iw, ik] = {read} }} }} }} }}
          for n in 1 {{ for ho in {ho} {{ for wo in {wo} {{ for co in {co} {{ for k in {k} {{
            mm: C[n, ho, wo, co] += col[n, ho, wo, k]*W[k, co]
          }} }} }} }} }}
          for on in 1 {{ for oh in {ho} {{ for ow in {wo} {{ for oc in {co} {{
            out: Y[on, oc//16, oh, ow, oc%16] = fp16(C[on, oh, ow, oc])
          }} }} }} }}
        }}""")

    def trace(self) -> Trace:
        return parse_trace(f"""sched conv {{
          split(loop=ho, factor=?th1, outer=h1, inner=hh)
          split(loop=h1, parts=?gh, outer=hc, inner=ht)
          split(loop=hh, factor=?th0, outer=hm, inner=hi)
          split(loop=wo, factor=?tw, outer=wt, inner=wi)
          split(loop=co, factor=?tn*16, outer=no, inner=ni)
          split(loop=k, factor=?tk1*{self.kh * self.kw * self.each}, outer=k1, inner=kk)
          split(loop=kk, factor=?tk0*16, outer=k0, inner=ki)
          reorder(loops=[hc, n, ht, wt, no, hm, k1, k0, hi, wi, ni, ki])
          compute_at(block=out, loop=hm)
          compute_at(block=im2col, loop=k0)
          set_scope(buffer=C, scope=L0C, layout=NZ)
          set_scope(buffer=col, scope=L0A, layout=ZZ)
          cache_read(block=im2col, buffer=X, scope=L1, at=wt)
          cache_read(block=mm, buffer=W, scope=L1, at=k1, layout=ZN)
          cache_read(block=mm, buffer=W_L1, scope=L0B, at=k0, layout=ZN)
          tensorize(loop=hi, instr=mmad)
          tensorize(loop=im, instr=load3d)
          tensorize(loop=on, instr=fixpipe)
          bind(loop=hc)
        }}""")


@st.composite
def convolutions(draw: st.DrawFn) -> Conv:
    def pair(low: int, high: int) -> tuple[int, int]:
        return draw(st.integers(low, high)), draw(st.integers(low, high))
    (kh, kw), dilation, stride = pair(1, 3), pair(1, 2), pair(1, 2)
    pad = draw(st.integers(0, kh // 2)), draw(st.integers(0, kw // 2))
    h = max(1, dilation[0] * (kh - 1) + 1 - 2 * pad[0]) + draw(st.integers(0, 3))
    w = max(1, dilation[1] * (kw - 1) + 1 - 2 * pad[1]) + draw(st.integers(0, 2))
    each = draw(st.sampled_from((4, 16)))
    c1 = draw(st.integers(1, 2)) if each == 16 else 1
    return Conv(c1, h, w, 16 * draw(st.integers(1, 2)), kh, kw, stride, dilation, pad, each)


VALUES = st.fixed_dictionaries({name: st.integers(1, 3) for name in ("th1", "gh", "th0", "tw", "tn", "tk1", "tk0")})
LAW = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@settings(LAW, max_examples=25)
@given(convolutions(), VALUES)
def test_attributes_are_found_again_and_filling_commutes(conv: Conv, values: dict[str, int]) -> None:
    func, trace = conv.func(), conv.trace()
    scheduled = primitives.apply(func, trace)
    filled = normalise(fill(scheduled, values))
    assert show(filled) == show(normalise(primitives.apply(func, fill(trace, values))))
    for f in (scheduled, filled):
        found = load3d(f)
        assert found.filter == (conv.kh, conv.kw) and found.c0 == conv.each
        for loop, size, steps, attribute in ((found.h_loop, conv.kh, found.dilation[0], conv.dilation[0]),
                                             (found.w_loop, conv.kw, found.dilation[1], conv.dilation[1])):
            assert steps == attribute or size == 1, loop
        assert found.stride[0] == conv.stride[0] or not found.h_loop
        assert found.stride[1] == conv.stride[1] or not found.w_loop
    assert normalise_of(load3d(scheduled), values) == normalise_of(load3d(filled), {})


@settings(LAW, max_examples=12)
@given(convolutions(), VALUES)
def test_values_are_kept(conv: Conv, values: dict[str, int]) -> None:
    func, rng = conv.func(), np.random.default_rng(2)
    x = rng.integers(-3, 4, (1, conv.c1, conv.h, conv.w, conv.each)).astype(np.float32)
    w = rng.integers(-2, 3, (conv.k, conv.co)).astype(np.float32)
    got = evaluate_func(fill(primitives.apply(func, conv.trace()), values), {"X": x, "W": w})["Y"]
    np.testing.assert_array_equal(got.astype(np.float32), reference(conv, x, w))


def load3d(func: Func) -> Load3d:
    block, above = next((b, above) for b, above in blocks(func.body) if b.name == "im2col")
    return match_load3d(func, block, [x for x in above if x.kind == "tensor"])


def normalise_of(found: Load3d, values: dict[str, int]) -> list[str]:
    """Where the tile begins, as text, holes filled."""
    return [show(index.normalise(index.fill(e, values))) for e in (found.row, found.col, found.k_start)]


def reference(conv: Conv, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    (ph, pw), (sh, sw), (dh, dw) = conv.pad, conv.stride, conv.dilation
    padded = np.pad(x, ((0, 0), (0, 0), (ph, ph), (pw, pw), (0, 0)))
    weights = w.reshape(conv.c1, conv.kh, conv.kw, conv.each, conv.co)
    out = np.zeros((conv.ho, conv.wo, conv.co), np.float32)
    for i in range(conv.ho):
        for j in range(conv.wo):
            taps = padded[0, :, i * sh:i * sh + dh * (conv.kh - 1) + 1:dh, j * sw:j * sw + dw * (conv.kw - 1) + 1:dw]
            out[i, j] = np.einsum("chwd,chwdo->o", taps, weights)
    return out.reshape(conv.ho, conv.wo, -1, 16).transpose(2, 0, 1, 3)[None].astype(np.float16).astype(np.float32)
