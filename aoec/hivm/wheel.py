"""The wheel of ascendnpu-ir in an environment of its own: where its verifier is, and which routines its tile library has.

The wheel is never imported, and never in aoec's own environment: an interpreter is asked where it lies.
"""
from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

from aoec.base.errors import BackendError
from aoec.base.process.tool import run_tool

ASK_SECONDS = 20.0
PACKAGE, DISTRIBUTION, TOOL = "ascendnpuir", "ascendnpu-ir", "bin/bishengir-opt"
ASK = (f"import importlib.util as u, importlib.metadata as m\ns = u.find_spec('{PACKAGE}')\n"
       f"print('at', s.submodule_search_locations[0], m.version('{DISTRIBUTION}'), sep='\\n') if s else print('none')")
LIBRARIES = ("meta_op.aic.bc", "meta_op.aiv.bc", "meta_op.mix.aic.bc", "meta_op.mix.aiv.bc")  # which the compiler names, less those for 950
ROUTINE = b"_mlir_ciface_"
MOST_BYTES = 64 << 20  # of a library
HELP = "make vendor-check makes an environment with it, .vendor"


@dataclass(frozen=True)
class Wheel:
    """`folder`: of the package. `version`: as the environment states it."""

    folder: Path
    version: str

    @property
    def tool(self) -> Path:
        """Return the verifier."""
        return self.folder / TOOL

    @property
    def name(self) -> str:
        """Return the name that messages use for it."""
        return f"bishengir-opt of {DISTRIBUTION} {self.version}"

    @cached_property
    def library(self) -> bytes:
        """Return the names in its tile library, as they lie in its files; empty where it has none."""
        paths = [self.folder / "lib" / name for name in LIBRARIES]
        return b"\0".join(p.read_bytes() for p in paths if p.is_file() and p.stat().st_size <= MOST_BYTES)

    def has_routine(self, name: str) -> bool:
        """Return whether a file of the library has the name of a routine. (The file's symbols are contiguous, so a name that is the
        beginning of another one is found with it.)"""
        return not self.library or ROUTINE + name.encode() in self.library


def interpreter_of(place: str) -> Path:
    """Return the interpreter that --check-python names: itself, or that of an environment's folder. BackendError where there is none."""
    path = Path(place)
    for found in ([path / "bin" / "python", path / "bin" / "python3"] if path.is_dir() else [path]):
        if found.is_file() and os.access(found, os.X_OK):
            return found.absolute()  # not resolved: a link into an environment says which environment is meant
    raise BackendError(f"{place} is no Python interpreter and no environment with one; {HELP}")


def find_wheel(place: str) -> Wheel:
    """Return the wheel in the environment of an interpreter; BackendError says in a sentence what is missing."""
    python = interpreter_of(place)
    with TemporaryDirectory(prefix="aoec-wheel-") as folder:
        ran = run_tool([str(python), "-I", "-c", ASK], Path(folder), ASK_SECONDS)
    if ran.is_late:
        raise BackendError(f"{place} did not say in {ASK_SECONDS:g} s where {DISTRIBUTION} is")
    found = re.search(r"^at\n([^\n]+)\n([^\n]+)$", ran.output.strip(), re.MULTILINE)
    if ran.code or found is None:
        raise BackendError(f"the environment of {place} has no {DISTRIBUTION}; {HELP}" if ran.output.strip() == "none" else
                           f"{place} cannot say where {DISTRIBUTION} is: {_last(ran.output)}; {HELP}")
    wheel = Wheel(Path(found[1]), found[2])
    if not wheel.tool.is_file() or not os.access(wheel.tool, os.X_OK):
        raise BackendError(f"{DISTRIBUTION} {wheel.version} in the environment of {place} has no {TOOL}")
    return wheel


def _last(output: str) -> str:
    lines = [line for line in output.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "it said nothing"
