"""Definitions of the user's own that read where data say, around an end, by loops alone, or an image under a filter: each against NumPy."""
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import aoec
from aoec.artifact.artifact import load
from aoec.cli import main
from aoec.frontend.translate import onnx as frontend
from aoec.lowering.arrange.fuse import fuse
from aoec.ops import evaluate
from aoec.ops.own import read_definitions

pytestmark = pytest.mark.usefixtures("few")

Array = np.ndarray


def table(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def sliding(x: Array, w: Array, stride: int, dilation: int, before: tuple[int, int], out: tuple[int, int]) -> Array:
    """[b, c, h, w] under [o, c, p, q], or under [c, p, q] each channel alone, as a sum over the taps."""
    wide = np.pad(x, ((0, 0), (0, 0), (before[0], 40), (before[1], 40)))
    total = 0
    for p, q in np.ndindex(*w.shape[-2:]):
        part = wide[:, :, p * dilation:p * dilation + stride * out[0]:stride, q * dilation:q * dilation + stride * out[1]:stride]
        total = total + (np.einsum("bchw,oc->bohw", part, w[..., p, q]) if w.ndim == 4 else part * w[None, :, p, q, None, None])
    return np.asarray(total)


def rotated(x: Array, c: Array, s: Array) -> Array:
    return x * c + np.roll(x, -x.shape[-1] // 2, -1) * s


# name -> definition, arguments, attributes, the same in NumPy, the operators of its graph
CASES: dict[str, tuple[str, list[Array], dict[str, int], Callable[..., Array], set[str]]] = {
    "page": ("own(T[p, d], I[s]) -> Y[s, d] { Y[s, d] = T[I[s], d] }", [table(20, 48), np.array([3, 19, 0, -1, 40, -70])], {},
             lambda t, i: t[[3, 19, 0, 19, 19, 0]], {"gather"}),
    "experts": ("own(X[t, d], W[e, d, f], I[t]) -> Y[t, f] { Y[t, f] += X[t, d] * W[I[t], d, f] }",
                [table(9, 16), table(4, 16, 32, seed=1), np.arange(9) % 4], {}, lambda x, w, i: np.einsum("td,tdf->tf", x, w[i]),
                {"gather", "own.Y"}),
    "along": ("own(X[t, d], I[t, k]) -> Y[t, k] { Y[t, k] = X[t, I[t, k]] * 2.0 }", [table(8, 32), np.arange(128).reshape(8, 16) * 7 % 32],
              {}, lambda x, i: 2 * np.take_along_axis(x, i, 1), {"gather_elements", "own.Y"}),
    "rotated": ("own(X[b, s, d], C[s, d], N[s, d]; half) -> Y[b, s, d] {\n"
                "Y[b, s, d] = X[b, s, d] * C[s, d] + X[b, s, (d + half) % (2*half)] * N[s, d] }",
                [table(2, 16, 64), table(16, 64, seed=1), table(16, 64, seed=2)], {"half": 32}, rotated, {"slice", "concat", "own.Y"}),
    "halves": ("own(X[m, n]; half) -> Y[m, n] { Y[m, n] = select(n < half, X[m, n] * -1.0, X[m, n]) }", [table(16, 64)], {"half": 20},
               lambda x: x * np.where(np.arange(64) < 20, -1, 1), {"own.Y"}),
    "ramp": ("own(X[m, n]) -> Y[m, n] { Y[m, n] = X[m, n] + 0.01 * n - exp(m * -0.1) }", [table(16, 48)], {},
             lambda x: x + 0.01 * np.arange(48) - np.exp(-0.1 * np.arange(16))[:, None], {"own.Y"}),
    "image": ("own(X[b, c, h, w], W[o, c, p, q]) -> Y[b, o, h, w] {\n"
              "Y[b, o, h, w] += X[b, c, h + p - 1, w + q - 1] else 0.0 * W[o, c, p, q] }",
              [table(1, 16, 11, 14), table(32, 16, 3, 3, seed=1)], {}, lambda x, w: sliding(x, w, 1, 1, (1, 1), (11, 14)), {"conv2d"}),
    "channels_last": ("own(W[p, q, c, o], X[b, h, w, c]) -> Y[b, i: h//2, j: (w - 3)//2, o] {\n"
                      "Y[b, i, j, o] += W[p, q, c, o] * X[b, 2*i + 2*p - 2, 2*j + 2*q, c] else 0.0 }",
                      [table(3, 2, 16, 32), table(2, 12, 15, 16, seed=1)], {},
                      lambda w, x: sliding(x.transpose(0, 3, 1, 2), w.transpose(3, 2, 0, 1), 2, 2, (2, 0), (6, 6)).transpose(0, 2, 3, 1),
                      {"conv2d", "transpose"}),
    "alone": ("own(X[b, c, h, w], W[c, p, q]) -> Y[b, c, h, w] {\n"
              "Y[b, c, h, w] += X[b, c, h + p - 1, w + q - 1] else 0.0 * W[c, p, q] }",
              [table(1, 32, 9, 10), table(32, 3, 3, seed=1)], {}, lambda x, w: sliding(x, w, 1, 1, (1, 1), (9, 10)), {"conv2d"}),
    "signal": ("own(X[c, t], W[o, c, k]) -> Y[o, r: t - k + 1] { Y[o, r] += X[c, r + k] * W[o, c, k] }",
               [table(16, 40), table(32, 16, 5, seed=1)], {},
               lambda x, w: sliding(x[None, :, None], w[:, :, None], 1, 1, (0, 0), (1, 36))[0, :, 0], {"conv2d"}),
    "twice": ("own(X[h, w]) -> Y[h, w] { Y[h, w] = X[h - 1, w] else 0.0 + X[h + 1, w] else 0.0\n"
              "Y[h, w] = Y[h, w] * X[h, w - 2] else 1.0 }", [table(16, 32)], {},
              lambda x: (np.pad(x, ((1, 0), (0, 0)))[:-1] + np.pad(x, ((0, 1), (0, 0)))[1:]) *
              np.pad(x, ((0, 0), (2, 0)), constant_values=1)[:, :-2], {"pad", "own.Y"}),
}


def model(name: str) -> onnx.ModelProto:
    """A model of one node of the operator."""
    _, feeds, attributes, _, _ = CASES[name]
    inputs = [helper.make_tensor_value_info(f"x{i}", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for i, x in enumerate(feeds)]
    node = helper.make_node("own", [i.name for i in inputs], ["y"], domain="my", **attributes)  # type: ignore[arg-type]
    graph = helper.make_graph([node], "net", inputs, [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("my", 1)])


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n not in ("page", "rotated", "twice"))) for n in CASES])
def test_values_on_the_ai_core(name: str, tmp_path: Path) -> None:
    definition, feeds, _, wanted, _ = CASES[name]
    (tmp_path / "f.op").write_text(definition)
    session = aoec.compile(model(name), tmp_path / "f.aoec", ops=tmp_path / "f.op", bank=tmp_path / "bank.db", precision="fp32")
    right = wanted(*feeds)
    assert session.on_host == () and any(c.program for c in load(tmp_path / "f.aoec").groups)
    got = session.run(None, {f"x{i}": x for i, x in enumerate(feeds)})[0]
    np.testing.assert_allclose(got, right, rtol=0, atol=2e-6 * np.abs(right).max() * max(1, feeds[-1].size ** 0.5 / 8))


@pytest.mark.parametrize("name", CASES)
def test_what_they_become(name: str) -> None:
    definition, feeds, _, wanted, operators = CASES[name]
    graph, weights, _ = frontend.load(model(name), None, "fp32", read_definitions(definition))
    assert operators <= {n.op for n in graph.nodes} and {n.op for n in graph.nodes if n.definition} <= operators
    inside = [np.clip(np.where(x < 0, x + feeds[0].shape[0], x), 0, None if name == "along" else feeds[0].shape[0] - 1)
              if x.dtype.kind == "i" and name == "page" else x for x in feeds]
    (got,) = evaluate(graph, {f"x{i}": x for i, x in enumerate(inside)}, weights).values()
    np.testing.assert_allclose(got, wanted(*feeds), rtol=1e-4, atol=1e-4)
    fuse(graph, weights)


REFUSED = {
    "own(T[p, d], I[s]) -> Y[s, d] {\n  S[s, d] = T[0, d] * 2.0\n  Y[s, d] = S[s, d] + T[I[s] + 1, d]\n}":
        "f.op:3:23: own: Y: T[I[s] + 1, d] reads where data say, and no gather makes that; the index is one whole number at loops",
    "own(T[p, d], I[s]) -> Y[s, d] {\n  Y[s, d] = T[I[s], d] else 0.0\n}": "f.op:2:13: own: Y: T[I[s], d] reads where data say",
    "own(T[p, d], I[s]) -> Y[s, d] {\n  Y[s, d] = T[I[s], d]\n  Y[s, d] += T[s + 1, d]\n}":
        "f.op:3:14: node own (own): own: T[s + 1, d] reads from 1 to 16 of 16",
    "own(T[p, d]) -> Y[p, d] {\n\n  Y[p, d] = idiv(T[p, d], 3) }": "f.op:3:3: own: Y: the vector unit has no operation for idiv(",
}


@pytest.mark.parametrize("definition", REFUSED)
def test_refusals_show_the_statement(definition: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                     monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("f.op").write_text(definition)
    sizes = "p=16, d=32" + ", s=16" * ("[s]" in definition)
    assert main(["lower", f"own({sizes}, fp16)", "--ops", "f.op"]) == 2
    assert REFUSED[definition] in capsys.readouterr().err


def test_groups_that_only_convert_need_no_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "f.op").write_text(CASES["image"][0])
    call = "own(b=1, c=16, h=14, w=14, o=16, p=3, q=3, fp16)"
    assert main(["lower", call, "--ops", str(tmp_path / "f.op")]) == 0 and "mm:" in capsys.readouterr().out
    assert main(["lower", call, "--ops", str(tmp_path / "f.op"), "--group", "g99"]) == 2
    assert "there is no group g99: own becomes 3 groups" in capsys.readouterr().err
