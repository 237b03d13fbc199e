"""How the stand-in compiles: what a product or a release lacks, the cache, and where there is no compiler."""
from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from aoec.base.errors import BackendError
from aoec.standin import build
from aoec.standin.build import CompileError, compile_kernel
from aoec.standin.launch import Kernel, LaunchFault
from tests.standin.need import needs_compiler

HEAD = """#include "kernel_operator.h"
using namespace AscendC;
extern "C" __global__ __aicore__ void k(GM_ADDR x) {
    GlobalTensor<half> g;
    g.SetGlobalBuffer((__gm__ half*)x);
    LocalTensor<half> h, l1;
    LocalTensor<float> f;
    LocalTensor<int32_t> i;
    LocalTensor<bfloat16_t> b;
    LocalTensor<uint8_t> bits;
"""
AT = HEAD.count("\n") + 1
PLAIN = "Add(h, h, h, 128);"


def source(line: str) -> str:
    return f"{HEAD}    {line}\n}}\n"


REFUSED = [  # a line, where it is refused, why; and where it is not
    ("DataCopyPad(g, h, DataCopyExtParams{1, 32, 0, 0, 0});", (2002, 91), "this product lacks the call DataCopyPad", (2201, 91)),
    ("ShiftLeft(i, i, 3, 64);", (2002, 91), "this product lacks the call ShiftLeft", (2201, 81)),
    ("DataCopy(l1, g, Nd2NzParams{1, 16, 16, 0, 16, 16, 1, 0});", (1001, 91), "lacks the form of DataCopy with Nd2NzParams", (2002, 91)),
    ("Maxs(h, h, (half)0, 128);", (1001, 91), "this product lacks the call Maxs", (2002, 81)),
    ("Cast(i, f, RoundMode::CAST_TRUNC, 64);", (2002, 91), "Cast has no such pair of elements on this product", (2201, 91)),
    ("Add(b, b, b, 128);", (2201, 91), "Add does not take elements of this type on this product", None),
    ("Div(i, i, i, 64);", (2201, 91), "Div does not take elements of this type on this product", None),
    ("CompareScalar(bits, h, (half)0, CMPMODE::GT, 128);", (2201, 91), "CompareScalar", (2201, 85)),
    ("Compares(bits, h, (half)0, CMPMODE::GT, 128);", (2201, 85), "Compares", (2201, 91)),
    ("SetAtomicNone();", (2201, 91), "SetAtomicNone", (2201, 85)),
    ("DisableDmaAtomic();", (2201, 81), "DisableDmaAtomic", (2201, 91)),
    ("WholeReduceSum(f, f, 64, 1, 1, 1, 8);", (2201, 91), "WholeReduceSum", (2201, 85)),
    ("LocalTensor<half> t(TPosition::VECIN, 0, 128);", (2201, 81), "no matching function", (2201, 85)),
    ("LocalTensor<half> t(TPosition::VECIN, 0, 128);", (1001, 91), "no matching function", (2002, 91)),
    ("SetAtomicAdd<int32_t>();", (2002, 91), "this product adds no elements of this type", (2201, 91)),
    ("PipeBarrier<PIPE_S>();", (2201, 91), "PipeBarrier takes any pipe but PIPE_S", None)]


@needs_compiler
@pytest.mark.parametrize("line,refused,why,taken", REFUSED, ids=[f"{r[0].split('(')[0]}-{r[1][0]}-{r[1][1]}" for r in REFUSED])
def test_what_a_product_or_a_release_lacks_does_not_compile(line: str, refused: tuple[int, int], why: str,
                                                            taken: tuple[int, int] | None) -> None:
    with pytest.raises(CompileError) as caught:
        compile_kernel(source(line), *refused)
    assert why in str(caught.value) and f"line {AT}:" in str(caught.value), caught.value
    if taken:
        assert compile_kernel(source(line), *taken).exists()


@needs_compiler
def test_a_source_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    path = compile_kernel(source(PLAIN))
    monkeypatch.setattr(build, "_run", None)
    assert compile_kernel(source(PLAIN)) == path
    with pytest.raises(TypeError):
        compile_kernel(source(PLAIN + " "))


@needs_compiler
def test_a_kernel_without_its_core_type_and_names_that_are_none() -> None:
    path = compile_kernel(source(PLAIN))
    with pytest.raises(LaunchFault, match="k: launch: the kernel does not say its core type"):
        Kernel(path, "k").launch([np.zeros(8, np.float16)])
    with pytest.raises(BackendError, match="the source has no kernel other"):
        Kernel(path, "other")
    with pytest.raises(BackendError, match="the stand-in has no product 3510, only 2201, 2002, 1001"):
        compile_kernel(source(PLAIN), 3510)


@needs_compiler
def test_where_others_can_write_nothing_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_folder = tmp_path / "standin"
    open_folder.mkdir()
    os.chmod(open_folder, 0o777)
    monkeypatch.setenv("AOEC_CACHE_DIR", str(tmp_path))
    build._folder.cache_clear()
    try:
        with pytest.raises(BackendError, match="others may write to"):
            build._folder()
    finally:
        build._folder.cache_clear()


def test_without_a_compiler_there_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(build.sys, "platform", "linux")
    build.compiler.cache_clear()
    try:
        with pytest.raises(BackendError, match=r"there is no g\+\+ on PATH"):
            build.compiler()
        monkeypatch.setattr(build.sys, "platform", "darwin")
        with pytest.raises(BackendError, match=r"the stand-in needs ELF objects.* this is darwin"):
            build.compiler()
    finally:
        build.compiler.cache_clear()
