"""The real atc: the line for it, and running it with a delivered bank."""
from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from aoec.base.errors import CheckError
from aoec.cli.vendor.aoe_models import as_ours
from aoec.cli.vendor.atc_places import find_delivered
from aoec.cli.vendor.atc_words import NOT_ATC
from aoec.cli.vendor.vendor_words import Options

KILLED = 128  # and the number of a signal: how shells give the end of a process that a signal ended
TOLD_S, PATIENCE_S = 1, 10  # after Ctrl-C, which a terminal gives it as well: until it is told, and how long it may take then


@dataclass(frozen=True)
class Real:
    """Options of the real atc, and the directory that it is to take its bank from, where there is one."""

    options: tuple[str, ...]
    bank: Path | None

    @property
    def line(self) -> str:
        """Return the command to type."""
        where = f"TUNE_BANK_PATH={shlex.quote(str(self.bank))} " if self.bank else ""
        return where + shlex.join(["atc", *self.options])


def real_command(given: Options) -> Real:
    """Return the same model for the real atc. What it remembers of kernels was built before the bank was there, and is made anew
    (op_compiler_cache_mode, atlasatcparam_16_0084)."""
    target = chip(given["soc_version"])
    said = {name: value for name, value in given.items() if name not in NOT_ATC} | {"soc_version": target}
    if "model" in given:
        said["output"] = str(as_ours(Path(given.get("output") or Path(given["model"]).stem)).with_suffix(""))
    bank = find_delivered(given, target)
    if bank and said.get("op_compiler_cache_mode") == "enable":
        said["op_compiler_cache_mode"] = "force"
    return Real(tuple(f"--{name}={value}" if value else f"--{name}" for name, value in said.items()), bank)


def chip(target: str) -> str:
    """Return the name of a target that CANN knows: that of the machine that a file describes."""
    if not target.endswith(".toml"):
        return target
    from aoec.target.machine import load
    return load(target).name


def program() -> str:
    """Return the atc on the PATH. Raise CheckError where there is none."""
    found = shutil.which("atc")
    if found is None:
        raise CheckError("--exec: there is no atc on the path; CANN's set_env.sh puts it there. Without --exec nothing but aoec runs")
    return found


def run(real: Real, note: Callable[[str], None]) -> int:
    """Return the exit code of the real atc. Ctrl-C is its own too; where it does not end then, it is ended, and nothing is left running."""
    path = program()
    note(f"atc: running {path}")
    child = subprocess.Popen([path, *real.options], env={**os.environ, "TUNE_BANK_PATH": str(real.bank)})
    try:
        code = child.wait()
    except KeyboardInterrupt:
        _end(child)
        raise
    note(f"atc: {path} ended with exit code {code}")
    return code if code >= 0 else KILLED - code


def _end(child: subprocess.Popen[bytes]) -> None:
    """End the process. Wait until it ends by itself, then interrupt it, then kill it. A second Ctrl-C kills it at once."""
    with suppress(KeyboardInterrupt):
        with suppress(subprocess.TimeoutExpired):
            child.wait(TOLD_S)
        if child.poll() is None:
            child.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            child.wait(PATIENCE_S)
    if child.poll() is None:
        child.kill()
    child.wait()
