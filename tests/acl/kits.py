"""Toolkits of the stand-in by release, kernels built with them, and the sentence of those that have no g++."""
from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from aoec.acl.device import Device, open_device
from aoec.acl.known_good import KnownGood, empty_source, known_good, known_good_source
from aoec.base.npu_errors import CompileError
from aoec.standin.toolkit import make_toolkit
from aoec.toolchain.build import Source, build
from aoec.toolchain.find import Toolkit, find_toolkit

RELEASES = (81, 85, 91)
SOCS = {2201: "Ascend910B3", 2002: "Ascend310P3", 1001: "Ascend910A"}


@cache
def folder() -> Path:
    root = Path(tempfile.mkdtemp(prefix="aoec-kits-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    return root


@cache
def kit(release: int) -> Toolkit:
    """The toolkit of a release."""
    return find_toolkit({"ASCEND_HOME_PATH": str(make_toolkit(folder() / str(release), release))})


def built(release: int, sources: Sequence[Source]) -> list[Path]:
    """Objects of sources; what does not compile fails the test."""
    made = build(sources, kit(release))
    errors = [m.log for m in made if isinstance(m, CompileError)]
    assert not errors, errors[0]
    return [m for m in made if isinstance(m, Path)]


@cache
def good(release: int, product: int = 2201) -> KnownGood:
    """The known-good kernel."""
    name, text, kind = known_good_source(product)
    return known_good(built(release, [Source(name, text, kind, product)])[0], product)


@cache
def empty(release: int, product: int = 2201) -> tuple[Path, str, str]:
    """Path, name and core type of the empty kernel."""
    name, text, kind = empty_source(product)
    return built(release, [Source(name, text, kind, product)])[0], name, kind


def opened(release: int, leases: Path, product: int = 2201, **environ: str) -> Device:
    """A device of the stand-in, with its own folder of leases."""
    return open_device(kit(release), environ={**os.environ, "AOEC_STANDIN_SOC": SOCS[product], **environ}, lease_folder=leases)
