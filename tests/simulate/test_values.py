"""Running programs on data: written by hand against NumPy, refusals before memory is touched, compiled against Python."""
from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from aoec.base.errors import CheckError
from aoec.ir.index import Int
from aoec.ir.program import Program
from aoec.ir.text.parse import parse_program
from aoec.simulate.values.values import execute
from aoec.target.isa.evaluate import evaluate_program

ROOT = Path(__file__).parents[2]


def program(name: str, *changes: tuple[str, str]) -> Program:
    text = (ROOT / "tests" / "programs" / f"{name}.prog").read_text("utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return parse_program(text, name)


def feeds(p: Program, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {t.name: rng.integers(-4, 5, [d.value for d in t.shape]).astype(np.float16) for t in p.tensors if t.role == "input"}


def test_matmul_with_tails_is_exact_on_whole_numbers():
    p = program("matmul")
    x = feeds(p)
    assert np.array_equal(execute(p, x)["Y"], (x["A"].astype(np.float32) @ x["B"].astype(np.float32)).astype(np.float16))


def test_vector_pipeline_rounds_after_every_instruction():
    p = program("vector")
    rng = np.random.default_rng(1)
    x, z = (rng.uniform(-60000, 60000, 2000).astype(np.float16) for _ in range(2))  # doubled, some of it overflows fp16
    with np.errstate(over="ignore", invalid="ignore"):
        doubled = (x.astype(np.float32) * 2).astype(np.float16)
        expected = np.maximum((doubled.astype(np.float32) + z.astype(np.float32)).astype(np.float16), np.float16(0))
    assert np.isinf(doubled).any()
    assert np.array_equal(execute(p, {"X": x, "Z": z})["Y"], expected, equal_nan=True)


def test_two_streams_meet_in_gm():
    p = program("two_streams")
    x = feeds(p)
    x["B"] /= np.float16(64)
    product = x["A"].astype(np.float32) @ x["B"].astype(np.float32)
    y = execute(p, x)
    assert np.allclose(y["Y"], np.exp(product), rtol=1e-6)
    assert np.array_equal(y["T"][0], product[128:])  # the ring keeps the last tile in its first half


def test_what_was_not_loaded_shows_as_nan():
    p = program("vector", ("src1=z.i[0]", "src1=w[0]"), ("  stream", "  space w: fp16 in UB at 4096 size 512\n  stream"))
    assert np.isnan(execute(p, feeds(p))["Y"]).all()


def test_an_output_that_nothing_writes_is_nan_and_one_that_is_given_stays():
    p = program("vector")
    short = replace(p, streams=(replace(p.streams[0], grid=(("core", Int(1)),)),))
    y = execute(short, feeds(p))["Y"]
    assert np.isnan(y[1000:]).all() and not np.isnan(y[:1000]).any()
    y = execute(short, feeds(p) | {"Y": np.full(2000, 7, np.float16)})["Y"]
    assert (y[1000:] == 7).all()


def test_every_core_starts_with_memory_of_its_own():
    one = feeds(program("matmul"))
    first = program("matmul", ("mc in 2", "mc in 1"))
    assert np.array_equal(execute(first, one)["Y"][:40], execute(program("matmul"), one)["Y"][:40])


def test_bf16_tensors_are_ml_dtypes():
    p = program("matmul", ("fp16", "bf16"))
    x = {k: v.astype(ml_dtypes.bfloat16) for k, v in feeds(program("matmul")).items()}
    y = execute(p, x)["Y"]
    assert y.dtype == ml_dtypes.bfloat16
    assert np.array_equal(y, (x["A"].astype(np.float32) @ x["B"].astype(np.float32)).astype(ml_dtypes.bfloat16))


@pytest.mark.parametrize("name, old, new, words", [
    ("matmul", "Y[(mc*40", "Y[(mc*60", r"fixpipe_nd: dst reaches byte .* of Y, which has 6400 bytes \(cube core 1 at mc=1"),
    ("matmul", "src=A[(mc*40", "src=A[(mc*40 - 1", r"src reaches byte -\d+ of A"),
    ("matmul", "dst=A_L0A.b[0]", "dst=A_L0A.(b + 1)[0]", r"load_l0a: dst names slot 2 of A_L0A, which has 2"),
    ("matmul", "src=A_L1.a[k0*256]", "src=A_L1.a[k0*256 + 3]", "no multiple of 32"),
    ("matmul", "cols=min(32, 72 - k1*32)", "cols=70000", "cols is 70000, outside 0..65535"),
    ("matmul", "dst_rows=16)", "dst_rows=8)", "rows is greater than dst_rows"),
    ("matmul", "for mt in 3", "for mt in 3 // (mc - mc)", "divides by zero"),
    ("vector", "lanes=min(256, 1000 - t*256)", "lanes=100 + min(256, 1000 - t*256)", r"vmuls: lanes is 228, outside 1..128 \(vec core 0"),
    ("two_streams", "      cross_set(FIXP, vec, 0)\n", "", "waits for a cross flag that nothing sets"),
    ("two_streams", "cross_set(FIXP, vec, 0)", "cross_set(FIXP, vec, 16)", "cross flag 16 is outside 0..15"),
])
def test_illegal_programs_are_refused_before_memory_is_touched(name, old, new, words):
    p = program(name, (old, new))
    with pytest.raises(CheckError, match=words):
        execute(p, feeds(p))


def test_inputs_are_checked():
    p = program("vector")
    x = feeds(p)
    with pytest.raises(CheckError, match=r"input Z \(fp16\[2000\]\) is missing"):
        execute(p, {"X": x["X"]})
    with pytest.raises(CheckError, match="no tensor W"):
        execute(p, x | {"W": x["X"]})
    with pytest.raises(CheckError, match=r"tensor X is float32\[2000\]"):
        execute(p, x | {"X": x["X"].astype(np.float32)})
    with pytest.raises(CheckError, match="open in a size"):
        execute(program("vector", ("depth 2\n  space z", "depth ?d\n  space z")), x)


def digest() -> str:
    """A hash of what every hand-written program computes."""
    out = hashlib.sha256()
    for name in ("matmul", "vector", "two_streams"):
        p = program(name)
        for key, value in sorted(execute(p, feeds(p)).items()):
            out.update(key.encode() + value.tobytes())
    return out.hexdigest()


def test_compiled_equals_python():
    """The same bytes with Numba off, so that the kernels say what they seem to say."""
    code = "import numpy as np; np.seterr(all='ignore'); from tests.simulate.test_values import digest; print(digest())"
    env = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    run = subprocess.run([sys.executable, "-c", code], env=env, cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == digest()


@pytest.mark.parametrize("name", ["matmul", "vector", "two_streams"])
def test_the_slow_evaluator_agrees(name):
    p = program(name)
    fast, slow = execute(p, feeds(p)), evaluate_program(p, feeds(p))
    for key, value in fast.items():
        assert np.array_equal(value, slow[key], equal_nan=True)
