"""The stand-in's toolkit: a source through its compiler, its libascendcl and a launch to numbers; releases, rules and injected faults.

The library keeps state, and faults end processes, so each story runs in a process of its own, as a launcher's worker does.
"""
from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from aoec.standin.bisheng import FAULT, commands
from aoec.standin.toolkit import BIN, make_toolkit
from tests.standin.need import needs_compiler

pytestmark = needs_compiler
KERNEL = Path(__file__).parent / "kernels/add.cpp"
ARCH = {81: "--cce-aicore-arch=dav-c220-vec", 85: "--npu-arch=dav-2201", 91: "--npu-arch=dav-2201"}
START = """
import ctypes, sys
import numpy as np
acl = ctypes.CDLL(sys.argv[1])
acl.aclGetRecentErrMsg.restype = ctypes.c_char_p
V, S, N = ctypes.c_void_p, ctypes.c_size_t, 3 * 2 * 1024
def do(name, *args):
    code = getattr(acl, name)(*args)
    if code:
        print(name, code, (acl.aclGetRecentErrMsg() or b"").decode())
        sys.exit(3)
def to_device(x):
    p = V()
    do("aclrtMalloc", ctypes.byref(p), S(x.nbytes), 0)
    do("aclrtMemcpy", p, S(x.nbytes), x.ctypes.data_as(V), S(x.nbytes), 1)
    return p
def function(path=sys.argv[2]):
    binary, out = V(), V()
    do("aclrtBinaryLoadFromFile", path.encode(), None, ctypes.byref(binary))
    do("aclrtBinaryGetFunction", binary, b"add", ctypes.byref(out))
    return out
def launch(f, stream, pointers, tiles=2, fault=0):
    args = V()
    do("aclrtKernelArgsInit", f, ctypes.byref(args))
    for p in pointers:
        do("aclrtKernelArgsAppend", args, ctypes.byref(p), S(8), ctypes.byref(V()))
    for n in (tiles, fault):
        do("aclrtKernelArgsAppend", args, ctypes.byref(ctypes.c_uint32(n)), S(4), ctypes.byref(V()))
    do("aclrtKernelArgsFinalize", args)
    do("aclrtLaunchKernelWithConfig", f, 3, stream, None, args, None)
def begin():
    do("aclInit", None)
    do("aclrtSetDevice", 0)
    stream = V()
    do("aclrtCreateStream", ctypes.byref(stream))
    x, y, z = np.arange(N, dtype=np.float16) % 7, np.arange(N, dtype=np.float16) % 5, np.zeros(N, np.float16)
    return stream, x, y, z, [to_device(a) for a in (x, y, z)]
def back(p, z):
    do("aclrtMemcpy", z.ctypes.data_as(V), S(z.nbytes), p, S(z.nbytes), 2)
    return z
"""
WHOLE = """
stream, x, y, z, places = begin()
f = function()
launch(f, stream, places)
do("aclrtSynchronizeStream", stream)
print(np.array_equal(back(places[2], z), x + y))
"""


@cache
def folders() -> dict[int, Path]:
    import atexit
    import shutil
    import tempfile
    root = Path(tempfile.mkdtemp(prefix="aoec-toolkits-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    return {release: make_toolkit(root / str(release), release) for release in (81, 85, 91)}


def tool(release: int, name: str, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [str(folders()[release] / BIN / name), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env={**os.environ, **env})


@cache
def binary(release: int) -> Path:
    """A kernel by the route that the release has."""
    out = folders()[release] / "add.o"
    if release == 81:
        made = tool(81, "bisheng", "-c", "-O3", "-std=c++17", "--cce-aicore-lang", "--cce-aicore-only", ARCH[81], "-mllvm",
                    "-cce-aicore-stack-size=0x8000", "-DTILING_KEY_VAR=0", str(KERNEL), "-o", f"{out}.part")
        assert made.returncode == 0, made.stderr
        made = tool(81, "ld.lld", "-m", "aicorelinux", "-Ttext=0", f"{out}.part", "-static", "-o", str(out))
    else:
        made = tool(release, "bisheng", "-x", "asc", ARCH[release], "-O2", "-std=c++17", "-c", str(KERNEL), "-o", f"{out}.part")
        assert made.returncode == 0, made.stderr
        made = tool(release, "llvm-objcopy", "-O", "binary", "--only-section=.aicore_binary", f"{out}.part", str(out))
    assert made.returncode == 0, made.stderr
    return out


def story(text: str, release: int = 91, seconds: float = 60, **env: str) -> subprocess.CompletedProcess[str]:
    """What a process says that starts the library and does what the text says."""
    command = [sys.executable, "-c", START + text, str(folders()[release] / "lib64/libascendcl.so"), str(binary(release))]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds, env={**os.environ, **env})


@pytest.mark.parametrize("release", [81, 85, 91])
def test_a_source_becomes_numbers_through_compiler_and_library(release: int) -> None:
    for seed in ("0", "5"):
        done = story(WHOLE, release, AOEC_STANDIN_SEED=seed)
        assert done.stdout == "True\n", done.stdout + done.stderr
    assert [c[0] for c in commands(folders()[release])] == ["bisheng", "ld.lld" if release == 81 else "llvm-objcopy"]
    assert ARCH[release] in commands(folders()[release])[0]


ABSENT = {81: {"aclrtBinaryLoadFromData", "aclrtLaunchKernelWithHostArgs", "aclrtSetOpExecuteTimeOutV2", "aclrtGetDeviceInfo",
               "aclrtDeviceL2CacheFlush"}, 85: {"aclrtDeviceL2CacheFlush"}, 91: set()}


@pytest.mark.parametrize("release", [81, 85, 91])
def test_what_a_release_lacks_is_not_exported(release: int) -> None:
    import ctypes
    library = ctypes.CDLL(str(folders()[release] / "lib64/libascendcl.so"))
    assert {name for name in ABSENT[81] if not hasattr(library, name)} == ABSENT[release]
    assert all(hasattr(library, name) for name in ("aclInit", "aclrtKernelArgsInit", "aclrtLaunchKernelWithConfig", "aclrtStreamAbort"))
    assert (folders()[release] / "lib64/libacl_rt.so").exists() == (release == 91)


RULES = [  # what is done, and the code and words of the answer
    ("do('aclrtSetDevice', 0)", "aclrtSetDevice 100001", "before aclInit"),
    ("do('aclInit', None); do('aclInit', None)", "aclInit 100002", "a second time"),
    ("do('aclInit', None); do('aclrtMalloc', ctypes.byref(V()), S(64), 0)", "aclrtMalloc 107002", "no context"),
    ("do('aclInit', None); do('aclrtSetDevice', 1)", "aclrtSetDevice 107001", "device 1: there are 1"),
    ("begin(); function('add.o')", "aclrtBinaryLoadFromFile 107000", "must be absolute"),
    ("s, x, y, z, p = begin(); do('aclrtMemcpy', p[0], S(4), x.ctypes.data_as(V), S(8), 1)", "aclrtMemcpy 107000", "8 bytes into 4"),
    ("s, x, y, z, p = begin(); do('aclrtMemcpy', p[0], S(8), p[1], S(8), 1)", "aclrtMemcpy 107000", "an address is none of the memory"),
    ("s, x, y, z, p = begin(); do('aclrtFree', x.ctypes.data_as(V))", "aclrtFree 107000", "did not give"),
    ("s, x, y, z, p = begin(); e = V(); do('aclrtCreateEvent', ctypes.byref(e)); do('aclrtEventElapsedTime', ctypes.byref(V()), e, e)",
     "aclrtEventElapsedTime 107006", "was not recorded"),
    ("s, x, y, z, p = begin(); do('aclrtLaunchKernelWithConfig', function(), 0, s, None, None, None)",
     "aclrtLaunchKernelWithConfig 107000", "unfinished"),
    ("s, x, y, z, p = begin(); launch(function(), s, p, fault=3); do('aclrtSynchronizeStream', s)",
     "aclrtSynchronizeStream 507015", "MTE3_MTE2 0 is left set when the kernel ends")]


@pytest.mark.parametrize("text,answer,words", RULES, ids=[r[1] for r in RULES])
def test_rules_are_kept_by_codes(text: str, answer: str, words: str) -> None:
    done = story(text)
    assert done.returncode == 3 and done.stdout.startswith(answer + " ") and words in done.stdout, done.stdout + done.stderr


def test_device_memory_is_none_of_the_host() -> None:
    done = story("s, x, y, z, p = begin(); print(ctypes.string_at(p[0], 4))")
    assert done.returncode == -signal.SIGSEGV


def test_work_on_a_stream_is_done_when_somebody_waits() -> None:
    text = "stream, x, y, z, places = begin(); launch(function(), stream, places); print(back(places[2], z).any())"
    assert story(text).stdout == "False\n"


LIMITED = WHOLE.replace('launch(f', 'do("aclrtSetOpExecuteTimeOutV2", ctypes.c_uint64(200000), None)\nlaunch(f')
WAITED = WHOLE.replace('do("aclrtSynchronizeStream", stream)', 'do("aclrtSynchronizeStreamWithTimeout", stream, 200)')
ENDLESS = LIMITED.replace("places)\n", "places, 2, 18)\n", 1)
FAULTS = [(LIMITED, "launch=hang@1", "aclrtSynchronizeStream 507014"), (WAITED, "launch=hang", "aclrtSynchronizeStreamWithTimeout 507046"),
          (WHOLE, "launch=fault", "aclrtSynchronizeStream 507015"), (WHOLE, "launch=lose", "aclrtSynchronizeStream 507010"),
          (WHOLE, "aclrtMalloc=207001@3", "aclrtMalloc 207001"), (WHOLE, "aclrtSetDevice=507899", "aclrtSetDevice 507899"),
          (ENDLESS, "none=0", "aclrtSynchronizeStream 507014"), (WHOLE, "launch=wrong", "False"), (WHOLE, "launch=slow", "True"),
          (WHOLE, "launch=fault@2", "True")]


@pytest.mark.parametrize("text,fault,answer", FAULTS, ids=[f"{f[1]}-{f[2]}" for f in FAULTS])
def test_faults_that_are_injected(text: str, fault: str, answer: str) -> None:
    done = story(text, AOEC_STANDIN_FAULT=fault)
    assert done.stdout.startswith(answer), done.stdout + done.stderr


def test_a_crash_and_a_launch_that_never_ends() -> None:
    assert story(WHOLE, AOEC_STANDIN_FAULT="launch=crash").returncode == -signal.SIGSEGV
    with pytest.raises(subprocess.TimeoutExpired):
        story(WAITED, seconds=2.5, AOEC_STANDIN_FAULT="launch=never")


def test_no_device_another_product_and_no_driver() -> None:
    assert story(WHOLE, AOEC_STANDIN_DEVICES="0").stdout.startswith("aclrtSetDevice 107001 ")
    assert story(WHOLE, AOEC_STANDIN_DEVICES="-1").stdout.startswith("aclrtSetDevice 507899 ")
    assert "the kernel is for product 2201, and this device is Ascend310P3" in story(WHOLE, AOEC_STANDIN_SOC="Ascend310P3").stdout


def test_the_compiler_refuses_as_compilers_do(tmp_path: Path) -> None:
    bad = tmp_path / "bad.cpp"
    bad.write_text('#include "kernel_operator.h"\nnone here;\n')
    done = tool(91, "bisheng", "--npu-arch=dav-2201", str(bad), "-c", "-o", str(tmp_path / "bad.o"))
    assert done.returncode == 1 and "error" in done.stderr and ":2:" in done.stderr
    done = tool(81, "bisheng", "--npu-arch=dav-2201", str(KERNEL), "-c", "-o", str(tmp_path / "add.o"))
    assert done.returncode == 1 and "unknown argument: '--npu-arch=dav-2201'" in done.stderr
    assert tool(91, "bisheng", "-print-targets").stdout.count("hiipu64") == 1
    assert tool(91, "bisheng", "--version", **{FAULT: "crash"}).returncode == 139
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run([str(folders()[91] / BIN / "bisheng"), "--version"], timeout=1.5, check=False, env={**os.environ, FAULT: "hang"})
