"""Applies the listed faults one by one to copies of the tree and runs the tests that must notice: `make mutants`.

Each worker has its own copy and its own warmed kernel cache, of which every fault gets a fresh copy: a changed kernel is
compiled anew, the others are not. The tests must pass before any fault is applied, or a failure would prove nothing.
"""
from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from tests.mutants.faults import FAULTS, Fault
from tests.mutants.find import MisfitError
from tests.mutants.find import change as change_of

ROOT = Path(__file__).parents[2]
COPIED = ("aoec", "kernels", "grammars", "tests", "bench", "docs", "pyproject.toml", "README.md", "Makefile")
TIMEOUT_S = 600  # of the tests of one fault
SOUND_TIMEOUT_S = 4 * 3600  # of all of them without one, which compile every kernel first
TESTS_FAILED = 1  # pytest's exit code; 2 and above mean that the tests did not run


class Tree:
    """A copy of the project that imports itself and nothing of the original."""

    def __init__(self, home: Path) -> None:
        self.root, self.cache = home / "tree", home / "cache"
        self.root.mkdir(parents=True)
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", ".hypothesis")
        for name in COPIED:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, self.root / name, ignore=ignored)
            elif (ROOT / name).exists():
                shutil.copy2(ROOT / name, self.root)
        for package in ("kernels", "grammars"):
            (self.root / "aoec" / package).symlink_to(self.root / package)

    def test(self, selections: Iterable[str], cache: Path, timeout_s: float = TIMEOUT_S) -> tuple[int, str]:
        """pytest's exit code (or the one of a test that failed by not ending in time) and the end of its output."""
        environment = {**os.environ, "PYTHONPATH": str(self.root), "NUMBA_CACHE_DIR": str(cache), "PYTHONDONTWRITEBYTECODE": "1"}
        shutil.rmtree(self.root / ".hypothesis", ignore_errors=True)
        command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", "-p", "tests.mutants.no_shrink", *selections]
        try:
            done = subprocess.run(command, cwd=self.root, env=environment, capture_output=True, text=True, timeout=timeout_s)
        except subprocess.TimeoutExpired:
            return TESTS_FAILED, f"no end within {timeout_s:,.0f} s"
        return done.returncode, "\n".join((done.stdout + done.stderr).splitlines()[-25:])

    def try_fault(self, fault: Fault) -> tuple[str, str]:
        """("killed" | "survived" | "misfit", details)."""
        try:
            change = change_of(fault, ROOT)
        except MisfitError as e:
            return "misfit", str(e)
        path, cache = self.root / change.path, self.cache.with_name("cache-" + fault.name)
        shutil.copytree(self.cache, cache)
        try:
            path.write_text(change.after, "utf-8")
            code, output = self.test(fault.tests, cache)
        finally:
            shutil.copy2(ROOT / change.path, path)  # with its time, which the kernel cache compares
            shutil.rmtree(cache)
        if code == TESTS_FAILED:
            return "killed", next((line for line in output.splitlines() if line.startswith(("FAILED", "E  "))), "")
        return ("survived" if code == 0 else "misfit"), output


def main() -> int:
    """0 when every fault applied and made a test fail."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="faults to try (default: all)")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    faults = [f for f in FAULTS if not options.names or f.name in options.names]
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="aoec-mutants-") as folder:
        trees = [Tree(Path(folder) / str(i)) for i in range(min(options.workers, len(faults)))]
        if not _sound(trees, faults):
            return 2
        bad = _try_all(trees, faults)
    print(f"{len(faults) - bad} of {len(faults)} faults killed in {time.perf_counter() - start:.0f} s")
    return 1 if bad else 0


def _sound(trees: list[Tree], faults: list[Fault]) -> bool:
    """True where all selected tests pass without a fault, each tree taking a part of them; fills the kernel caches as well."""
    selections = sorted({t for f in faults for t in f.tests})
    with ThreadPoolExecutor(len(trees)) as pool:
        parts = [(tree, selections[i::len(trees)]) for i, tree in enumerate(trees) if selections[i:]]
        results = list(pool.map(lambda part: part[0].test(part[1], part[0].cache, SOUND_TIMEOUT_S), parts))
    for tree in trees:
        tree.cache.mkdir(exist_ok=True)  # tests without kernels leave none
    for code, output in results:
        if code:
            print(f"the tests fail without any fault:\n{output}")
            return False
    return True


def _try_all(trees: list[Tree], faults: list[Fault]) -> int:
    """How many faults were not killed; one line each as they end."""
    free: SimpleQueue[Tree] = SimpleQueue()
    for tree in trees:
        free.put(tree)

    def attempt(fault: Fault) -> bool:
        tree = free.get()
        start = time.perf_counter()
        try:
            verdict, details = tree.try_fault(fault)
        finally:
            free.put(tree)
        shown = details if verdict != "killed" else details[:110]
        print(f"{verdict:8} {time.perf_counter() - start:5.0f} s  {fault.name}: {shown}", flush=True)
        return verdict != "killed"

    with ThreadPoolExecutor(len(trees)) as pool:
        return sum(pool.map(attempt, faults))


if __name__ == "__main__":
    sys.exit(main())
