"""State of this installation: versions, cores, kernel cache, bank, CANN. Nothing is compiled, opened for writing or run."""
from __future__ import annotations

import ctypes.util
import os
import platform
import shutil
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from aoec.base.errors import AoecError
from aoec.base.process.kernel_cache import choose_folder as kernel_cache_choice
from aoec.base.text import plural

PACKAGES = ("aoec", "numba", "numpy", "onnx", "onnxruntime", "lark", "scikit-optimize", "scipy", "sqlalchemy", "ml_dtypes")
KERNELS = ("timeline", "tile")  # modules of compiled functions
CANN_VARIABLES = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME", "ASCEND_OPP_PATH")


def examine(bank_path: Path) -> dict[str, Any]:
    """Return facts by section, as plain values."""
    return {
        "versions": {"python": platform.python_version(), **{p: _version(p) for p in PACKAGES}},
        "system": {"platform": platform.platform(terse=True), "cores": cores(), "memory_bytes": _memory_bytes()},
        "kernels": kernel_cache(), "bank": _bank(bank_path), "cann": _cann(),
    }


def cores() -> int:
    """Return how many processor cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return None


def kernel_cache() -> dict[str, Any]:
    """Return where the compiled kernels are kept, and how many files of them there are (0: the first use compiles them)."""
    folder = _cache_folder()
    files = [f for name in KERNELS for f in folder.rglob(f"{name}.*.nbc")] if folder.is_dir() else []
    return {"cache": str(folder), "compiled": len(files), "writable": os.access(_existing(folder), os.W_OK),
            "instead": kernel_cache_choice().why}


def _cache_folder() -> Path:
    """Return where compiled kernels are kept."""
    return kernel_cache_choice().folder


def _existing(folder: Path) -> Path:
    """Return the folder, or the nearest one above it that exists."""
    return next(p for p in (folder, *folder.absolute().parents) if p.exists())


def _bank(path: Path) -> dict[str, Any]:
    """Return path, records and trouble of the bank. A bank that does not exist yet is no trouble."""
    from aoec.bank.bank import Bank
    from aoec.bank.record import DEFAULT
    if not path.exists():
        try:
            Bank.open(path)  # which makes nothing
        except AoecError as e:
            return {"path": str(path), "exists": False, "records": None, "trouble": str(e)}
        return {"path": str(path), "exists": False, "records": 0}
    try:
        records = Bank.open(path, create=False, writable=False).list()
        tuned = sum(not r.key.state.endswith(DEFAULT) for r in records)
    except AoecError as e:
        return {"path": str(path), "exists": True, "records": None, "trouble": str(e)}
    return {"path": str(path), "exists": True, "records": len(records), "tuned": tuned}


def _cann() -> dict[str, Any]:
    """Return what of CANN is in sight; aoec does not need it."""
    seen: dict[str, Any] = {name: os.environ.get(name) for name in CANN_VARIABLES}
    seen |= {"atc": shutil.which("atc"), "libascendcl": _libascendcl()}
    return {"seen": any(seen.values()), **seen}


def _libascendcl() -> str | None:
    roots = [os.environ.get(name) for name in CANN_VARIABLES[:2]]
    found = [p for r in roots if r for p in sorted(Path(r).glob("**/lib64/libascendcl.so"))[:1]]
    return str(found[0]) if found else ctypes.util.find_library("ascendcl")


def show(facts: dict[str, Any]) -> str:
    """Return the facts as lines for people."""
    versions, system, kernels, bank, cann = (facts[k] for k in ("versions", "system", "kernels", "bank", "cann"))
    memory = f", {system['memory_bytes'] / 2**30:.0f} GiB memory" if system["memory_bytes"] else ""
    state = f"{plural(kernels['compiled'], 'file')} of compiled kernels" if kernels["compiled"] else \
        "empty: the first use compiles the kernels, for up to a minute"
    return "\n".join([
        f"aoec      {versions['aoec']}, Python {versions['python']}",
        "packages  " + ", ".join(f"{n} {v or '(not installed)'}" for n, v in versions.items() if n not in ("aoec", "python")),
        f"system    {system['platform']}, {plural(system['cores'], 'core')}{memory}",
        f"kernels   {kernels['cache']} ({state}{'' if kernels['writable'] else '; not writable'})"
        + (f"; not where Numba would keep them: {kernels['instead']}" if kernels["instead"] else ""),
        f"bank      {bank['path']} ({_bank_state(bank)})",
        "CANN      " + (", ".join(f"{k} {v}" for k, v in cann.items() if v and k != "seen") if cann["seen"]
                        else "not seen; not needed: times and values come from the model machine"),
    ]) + "\n"


def _bank_state(bank: dict[str, Any]) -> str:
    if bank.get("trouble"):
        return bank["trouble"]
    if not bank["exists"]:
        return "not there yet; the first compile makes it"
    defaults = bank["records"] - bank["tuned"]
    return f"{plural(bank['tuned'], 'tuned schedule')}, {plural(defaults, 'default schedule')}"
