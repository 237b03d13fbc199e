"""The faults: one small change each of the kind that a tired person makes, and the tests that must notice it."""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """`old` stands exactly once in `file`; with `new` in its place one of `tests` must fail."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


FAULTS = (
    Fault("aside-file-not-renamed", "aoec/base/files.py", "os.replace(aside, path)", "pass", ("tests/base/test_files.py",)),
    Fault("short-array-accepted", "aoec/base/arrays.py", "len(data) != size_bytes", "False", ("tests/base/test_arrays.py",)),
    Fault("house-door-open", "tests/laws/test_house.py", 'if there == "kernels" and here != "simulate":', "if False:",
          ("tests/laws/test_house.py",)),
    Fault("pad-counted-once", "aoec/jobs/operators.py", '2 * s["pad"]', 's["pad"]', ("tests/cli/test_operators.py",)),
)
