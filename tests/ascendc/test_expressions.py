"""Index expressions and constants in C++ against their values here."""
from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from aoec.ascendc.expressions import HELPERS, expr, number
from aoec.ir.index import Expr, Float, Int, evaluate, fill, walk
from aoec.target.isa.meaning import NUMPY_DTYPES, cast
from tests.laws.strategies import integer_exprs

VALUES = {"a": 5, "b": -7, "c": 64}
SIZES = {"tm": 32, "tn": 3, "d": 2}


def is_small(e: Expr) -> bool:
    """Whether nothing in it leaves 62 bits, which Python has no limit for."""
    return all(abs(int(evaluate(part, VALUES))) < 1 << 62 for part in walk(e))


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
def test_expressions_have_their_values(tmp_path: Path) -> None:
    """Many expressions, of all operators and functions, in one C++ program."""
    found: dict[Expr, int] = {}

    @settings(max_examples=400, database=None)
    @given(integer_exprs(("a", "b", "c")))
    def collect(e: Expr) -> None:
        e = fill(e, SIZES)
        assume(is_small(e))
        found[e] = int(evaluate(e, VALUES))
    collect()
    assert len(found) > 200
    needed = dict[str, None]()
    lines = [f"    check({expr(e, str, lambda h: needed.setdefault(h) and None, 'aoec::')}, {value}LL, {i});"
             for i, (e, value) in enumerate(found.items())]
    lines += [f"    for (int64_t n = 0; n < {expr(e, str, lambda h: None, 'aoec::', False)}; ++n) {{ total++; if (n > 99) break; }}"
              for e in found]
    helpers = [HELPERS[h] for h in HELPERS if h in needed]
    order = sorted(helpers, key=lambda text: "floor_div(int64_t a" not in text)
    total = sum(min(max(value, 0), 101) for value in found.values())
    source = "\n".join(["#include <cstdint>", "#include <cstdio>", "#define __aicore__", "namespace aoec {", *order, "}",
                        "static int64_t total = 0; static int wrong = 0;",
                        "static void check(int64_t got, int64_t want, int i)", "{ if (got != want) { printf(\"%d\\n\", i); wrong = 1; } }",
                        "int main() {", *[f"    const int64_t {n} = {v};" for n, v in VALUES.items()], *lines,
                        f"    if (total != {total}) {{ printf(\"total %lld\\n\", (long long)total); return 1; }}",
                        "    return wrong;", "}"])
    (tmp_path / "e.cpp").write_text(source)
    subprocess.run(["g++", "-std=c++17", "-w", str(tmp_path / "e.cpp"), "-o", str(tmp_path / "e")], check=True, capture_output=True)
    done = subprocess.run([str(tmp_path / "e")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@given(st.one_of(st.floats(allow_nan=False), st.integers(-300, 300).map(float)),
       st.sampled_from(["fp32", "fp16", "bf16", "int32", "int8", "uint8"]))
def test_constants_are_rounded_once(value: float, dtype: str) -> None:
    """A constant's text, read as C++ reads it, is the value that the instruction takes."""
    wanted = cast(np.array(value, np.float64), np.dtype(NUMPY_DTYPES[dtype]))
    needed: list[str] = []
    text = number(Float(value), dtype, needed.append)
    if needed:
        size = wanted.itemsize
        assert not np.isfinite(wanted.astype(np.float64)) and f"0x{int(wanted.view(f'u{size}')):0{2 * size}x}" in text
        return
    inner = text[text.index("(") + 1:-1]
    got = np.float32(inner[:-1]) if inner.endswith("f") else np.float64(int(inner.rstrip("UL")))
    assert got.astype(wanted.dtype).tobytes() == wanted.tobytes()


def test_whole_numbers_at_the_ends() -> None:
    assert number(Int(-(1 << 63)), "int64", lambda h: None) == "static_cast<int64_t>(1ULL << 63)"
    assert number(Int(1 << 40), "int64", lambda h: None) == f"static_cast<int64_t>({1 << 40}LL)"
