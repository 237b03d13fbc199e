"""Compiles kernels against the stand-in's header with g++, each distinct source once: results are kept in the user's cache by content.

A source that does not compile is a result too. The result is the header's own sentence where a call does not take the elements. Where the
product or the release lacks a call, it is the first message of g++.
"""
from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from aoec.base.errors import BackendError
from aoec.base.files.memo import cache_folder
from aoec.base.files.ownership import why_not_own

HERE = Path(__file__).parent
INCLUDE, RUNTIME = HERE / "include", HERE / "runtime"
PRODUCTS = (2201, 2002, 1001)
RELEASES = (81, 85, 91)
KERNEL_SECONDS, RUNTIME_SECONDS = 60.0, 300.0
# a contraction of a product and a sum is one rounding in place of two: for matrix products alone, as the model machine has it
COMMON = ("-std=c++17", "-fPIC", "-fvisibility=hidden", "-fno-gnu-unique", f"-I{INCLUDE}")
FAST = ("-O2", "-ftree-vectorize", "-march=native")


class CompileError(BackendError):
    """A source that g++ refuses; `log` is all that it said."""

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(message)
        self.log = log


@lru_cache(maxsize=1)
def compiler() -> str:
    """Return the path of g++. Raise BackendError where there is none, or what it makes are no ELF objects."""
    if sys.platform != "linux":
        raise BackendError(f"the stand-in needs ELF objects, which g++ makes on Linux; this is {sys.platform}")
    found = shutil.which("g++")
    if not found:
        raise BackendError("there is no g++ on PATH, which the stand-in compiles kernels with; install it (Debian: apt install g++)")
    return found


def compile_kernel(source: str, product: int = 2201, release: int = 91, defines: tuple[str, ...] = ()) -> Path:
    """Return the shared object of a source; CompileError says why there is none."""
    _check(product, "product", PRODUCTS)
    _check(release, "release", RELEASES)
    said = [f"-D{d}" for d in (f"STANDIN_PRODUCT={product}", f"STANDIN_RELEASE={release}", *defines)]
    flags = ("-O1", "-ffp-contract=off", *said)
    objects = runtime_objects()

    def build(out: Path) -> None:
        text = out.with_suffix(".cpp")
        text.write_text(source, "utf-8")
        _run([compiler(), *COMMON, *flags, "-shared", str(text), *map(str, objects), "-o", str(out)], KERNEL_SECONDS, "the kernel")
    return _keep(f"kernel-{_digest(source, *flags, *(o.name for o in objects))}.so", build)


def acl_library(release: int) -> Path:
    """Return the stand-in for libascendcl of a release: what the release lacks it does not export."""
    _check(release, "release", RELEASES)
    source = HERE / "acl" / "ascendcl.cpp"
    flags = ("-O1", "-fPIC", "-shared", "-fvisibility=hidden", "-pthread", f"-DSTANDIN_ACL={release}")

    def build(out: Path) -> None:
        _run([compiler(), "-std=c++17", *flags, str(source), "-o", str(out), "-ldl"], KERNEL_SECONDS, source.name)
    return _keep(f"ascendcl-{_digest(source.read_text('utf-8'), *flags)}.so", build)


def _check(value: int, what: str, known: tuple[int, ...]) -> None:
    if value not in known:
        raise BackendError(f"the stand-in has no {what} {value}, only {', '.join(map(str, known))}")


@lru_cache(maxsize=1)
def runtime_objects() -> tuple[Path, ...]:
    """Return the objects of the runtime, which all kernels share."""
    with ThreadPoolExecutor(min(2, os.cpu_count() or 1), "g++") as pool:
        return tuple(pool.map(_runtime_object, sorted(RUNTIME.glob("*.cpp"))))


def _runtime_object(path: Path) -> Path:
    contract = "-ffp-contract=fast" if path.stem == "cube" else "-ffp-contract=off"
    headers = [p.read_text("utf-8") for p in sorted((*RUNTIME.glob("*.hpp"), *INCLUDE.glob("*.h")))]
    name = f"{path.stem}-{_digest(path.read_text('utf-8'), contract, *FAST, _processor(), *headers)}.o"
    command = [compiler(), *COMMON, *FAST, contract, "-c", str(path), "-o"]
    return _keep(name, lambda out: _run([*command, str(out)], RUNTIME_SECONDS, path.name))


@lru_cache(maxsize=1)
def _processor() -> str:
    """Return the facts on which code for this processor alone depends."""
    try:
        flags = re.search(r"^(?:flags|Features)\s*:.*$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        flags = None
    return platform.machine() + platform.processor() + (flags.group(0) if flags else "")


def sources_digest() -> str:
    """Return 16 hex digits for the header and the runtime: what a compiled kernel depends on beside its source."""
    return _digest(*(p.read_text("utf-8") for p in sorted((*RUNTIME.glob("*.?pp"), *INCLUDE.glob("*.h")))))[:16]


def _digest(*texts: str) -> str:
    return sha256("\0".join((_version(), *texts)).encode()).hexdigest()[:32]


@lru_cache(maxsize=1)
def _version() -> str:
    return subprocess.run([compiler(), "-dumpfullversion"], capture_output=True, text=True, check=False, timeout=60).stdout


@lru_cache(maxsize=1)
def _folder() -> Path:
    """Return where results are kept; what lies there is run, so it must be a place that no other user can write to."""
    folder = cache_folder().absolute() / "standin"
    folder.mkdir(parents=True, exist_ok=True)
    if why := why_not_own(folder, (".so", ".o")):
        raise BackendError(f"the stand-in keeps what it compiles in {folder}, and {why}; name another folder in AOEC_CACHE_DIR")
    return folder


def _keep(name: str, build: Callable[[Path], None]) -> Path:
    """Return the file of that name in the cache, which `build` makes where it is not there yet."""
    path = _folder() / name
    if not path.exists():
        with tempfile.TemporaryDirectory(prefix="aoec-standin-") as folder:
            made = Path(folder) / name
            build(made)
            aside = path.with_suffix(f".{os.getpid()}.part")
            shutil.copyfile(made, aside)
            os.chmod(aside, 0o700)
            os.replace(aside, path)
    return path


def _run(command: list[str], seconds: float, what: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds)
    except subprocess.TimeoutExpired:
        raise CompileError(f"g++ took more than {seconds:.0f} s for {what}") from None
    except OSError as e:
        raise CompileError(f"g++ cannot be started: {e.strerror or e}") from e
    if done.returncode:
        raise CompileError(first_error(done.stderr, what), done.stderr)


def first_error(log: str, what: str) -> str:
    """Return the first error of g++'s output as a sentence, with the line of the kernel that led to it."""
    said = re.search(r"^(\S+?):(\d+):\d+: (?:fatal )?error: (.*)$", log, re.MULTILINE)
    if not said:
        return f"{what} does not compile: {(log.strip().splitlines() or ['g++ says nothing'])[-1]}"
    kernel = re.search(r"kernel-\w+\.cpp:(\d+):\d+:", log)
    line = kernel.group(1) if kernel else said.group(2)
    text = re.sub(r"^static assertion failed: ", "", said.group(3))
    return f"{what} does not compile: line {line}: {text}"
