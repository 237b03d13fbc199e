"""`aoec run g.tir`: a func on its own, on data, by its default schedule or another, held against itself and against NumPy."""
from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from aoec.base.files import arrays
from aoec.cli import main
from aoec.ir.func.evaluate_whole import evaluate_whole
from aoec.ir.text.parse import parse_func
from aoec.jobs.run import run_func
from aoec.jobs.sweep.sweep_values import points_of, whole_numbers

TEXT = """func scaled(X: fp32[40, 64], S: fp32[64]) -> (Y: fp32[40, 64]) {
  local t: fp32[40, 64]
  for i in 40 { for j in 64 { t_: t[i, j] = X[i, j] * S[j] } }
  for oi in 40 { for oj in 64 { out: Y[oi, oj] = max(t[oi, oj], 0.0) } }
}
"""


@pytest.fixture
def func(tmp_path: Path) -> Path:
    path = tmp_path / "f.tir"
    path.write_text(TEXT)
    return path


def test_values_and_time(func: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    random = np.random.default_rng(0)
    feeds = {"X": random.standard_normal((40, 64)).astype(np.float32), "S": random.standard_normal(64).astype(np.float32)}
    arrays.save(tmp_path / "in.npz", feeds)
    out = str(tmp_path / "out.npz")
    assert main(["run", str(func), "--inputs", str(tmp_path / "in.npz"), "-o", out]) == 0
    said = capsys.readouterr().out
    assert "modelled on Ascend910B3: latency" in said and "values: Y within 0.0e+00 of the func itself" in said
    np.testing.assert_array_equal(arrays.load(out)["Y"], np.maximum(feeds["X"] * feeds["S"], 0))
    sched = str(tmp_path / "f.sched")
    assert main(["search", str(func), "--budget", "20", "-o", sched]) == 0
    capsys.readouterr()
    assert main(["run", str(func), "--with", sched, "--random", "--target", "Ascend910B1", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["schedule"], facts["target"]) == (sched, "Ascend910B1") and facts["modelled"]["latency_us"] > 0
    assert main(["schedule", str(func), "--with", sched, "-o", str(tmp_path / "s.tir")]) == 0
    assert main(["run", str(tmp_path / "s.tir"), "--random"]) == 0
    assert "not compared, for the func is scheduled already" in capsys.readouterr().out


def test_wrong_values_are_said(func: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_func, "evaluate_whole", lambda func, feeds: {"Y": np.ones((40, 64), np.float32)})
    assert main(["run", str(func), "--random"]) == 1 and "wrong values: Y within" in capsys.readouterr().out


def test_what_is_refused(func: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def refused(*words: str) -> str:
        assert main([*words]) == 2
        return capsys.readouterr().err

    assert "is a func, not a model: aoec search" in refused("compile", str(func))
    assert "--with and --target are of a func" in refused("run", "net.aoec", "--random", "--with", "f.sched")
    arrays.save(tmp_path / "in.npz", {"X": np.zeros((40, 63), np.float32), "S": np.zeros(64, np.float32)})
    assert "input X has shape [40, 64]" in refused("run", str(func), "--inputs", str(tmp_path / "in.npz"))
    (tmp_path / "f.sched").write_text("sched {\n  split(loop=oi, factor=?t in [4, 8], outer=a, inner=b)\n}\n")
    assert "leaves holes open: ?t" in refused("run", str(func), "--random", "--with", str(tmp_path / "f.sched"))
    func.write_text(TEXT.replace("40", "?m"))
    assert "has open holes: ?m" in refused("run", str(func), "--random")


PRODUCT = """func g(A: fp16[{m}, 96], B: fp16[96, 80] ZN, bias: fp32[80]) -> (Y: fp16[{m}, 80]) {{
  local C: fp32[{m}, 80]
  for m in {m} {{ for n in 80 {{ for k in 96 {{ mm: C[m, n] += A[m, k] * B[k, n] init bias[n] }} }} }}
  for om in {m} {{ for on in 80 {{ out: Y[om, on] = fp16(C[om, on]) }} }}
}}
"""


def test_a_program_is_held_against_its_func(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """One that the default schedule emits, and the same with the first columns of A for all, which ends with exit code 1."""
    monkeypatch.chdir(tmp_path)
    Path("g.tir").write_text(PRODUCT.format(m=37))
    assert main(["search", "g.tir", "--budget", "1", "-o", "g.sched"]) == 0
    assert main(["schedule", "g.tir", "--with", "g.sched", "-o", "s.tir"]) == 0 and main(["emit", "s.tir", "-o", "g.prog"]) == 0
    capsys.readouterr()
    assert main(["run", "g.prog", "--func", "g.tir", "--random", "-o", "y.npz"]) == 0
    said = capsys.readouterr().out
    assert "modelled on Ascend910B3" in said and "\nvalues: Y within" in said
    wrong = re.sub(r"k_start=[^,]*\w[^,]*,", "k_start=0,", Path("g.prog").read_text())
    Path("w.prog").write_text(wrong)
    assert main(["run", "w.prog", "--func", "g.tir", "--random"]) == 1
    assert "wrong values: Y within" in capsys.readouterr().out
    Path("h.tir").write_text(PRODUCT.format(m=31))
    for words, said in ((["g.prog", "--func", "h.tir"], "the program has 3,552: is it a program of this func?"),
                        (["g.prog"], "give its func"), (["g.tir", "--func", "g.tir"], "--func is the func of a program"),
                        (["g.prog", "--func", "g.tir", "--target", "Ascend310P3"], "was made for another chip")):
        assert main(["run", *words, "--random"]) == 2 and said in capsys.readouterr().err


def test_large_products_are_compared_by_numpy() -> None:
    """The reference of 64 x 4096 x 1024 comes from BLAS, in whole numbers exactly NumPy's; it counts as a 64th of its points."""
    text = PRODUCT.format(m=64).replace("96", "4096").replace("80", "1024")
    func = parse_func(text)
    assert points_of(func) == 64 * 4096 * 1024 // 64 + 64 * 1024
    feeds = whole_numbers(func)
    wanted = feeds["A"].astype(np.int64) @ feeds["B"].astype(np.int64) + feeds["bias"].astype(np.int64)
    np.testing.assert_array_equal(evaluate_whole(func, feeds)["Y"], wanted.astype(np.float16))
