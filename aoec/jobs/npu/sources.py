"""Sources: the kernel of each program of a model for one release of CANN. Equal kernels are written once. A program that no kernel can
express is left out with a sentence."""
from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from aoec.ascendc.kernel import Kernel, write_kernel
from aoec.ascendc.manifest import manifest
from aoec.base.errors import CapacityError, UnsupportedError
from aoec.ir.program import Program
from aoec.ir.text.simplify import simplify
from aoec.target.machine import Machine


@dataclass(frozen=True)
class WrittenKernel:
    """A kernel, what its launch needs, and the number of its binary among those that are built."""

    kernel: Kernel
    facts: dict[str, Any]  # the manifest
    binary: int


@dataclass(frozen=True)
class Sources:
    """`written`: by the identity of a program. `refused`: why a program has no kernel. `distinct`: the kernels whose sources are built."""

    written: dict[int, WrittenKernel]
    refused: dict[int, str]
    distinct: tuple[Kernel, ...]


def write_sources(programs: Iterable[Program], machine: Machine, release: str) -> Sources:
    """Return the kernels of programs, each program once. Raise UnsupportedError where sources are written for no product of the machine."""
    written, refused, known, distinct = dict[int, WrittenKernel](), dict[int, str](), dict[str, int](), list[Kernel]()
    for program in programs:
        if id(program) in written or id(program) in refused:
            continue
        try:
            kernel = write_kernel(simplify(program), machine, release)
        except (UnsupportedError, CapacityError) as e:
            refused[id(program)] = str(e)
            continue
        text = anonymous(kernel)
        if text not in known:
            known[text] = len(distinct)
            distinct.append(kernel)
        written[id(program)] = WrittenKernel(kernel, manifest(kernel), known[text])
    return Sources(written, refused, tuple(distinct))


def anonymous(kernel: Kernel) -> str:
    """Return the source without the kernel's own name: equal for kernels that do the same."""
    return re.sub(rf"\b{re.escape(kernel.name)}\b", "KERNEL", kernel.source)
