"""A device on paper: memory of bytes, and the model machine in place of kernels; it keeps the rules of memory that a device has."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from aoec.acl.device import Launch
from aoec.ascendc.kernel import Kernel
from aoec.ir.index import DTYPES, evaluate
from aoec.simulate.values.values import Executable
from aoec.target.isa.instructions import added_to
from aoec.target.isa.meaning import NUMPY_DTYPES

FIRST = 1 << 40  # an address that is none of this process


@dataclass(frozen=True)
class PaperFacts:
    memory_free: int = 1 << 33


@dataclass
class PaperDevice:
    """`runs`: how many launches each run had. Memory that nobody wrote to holds NaN."""

    facts: PaperFacts = field(default_factory=PaperFacts)
    memory: dict[int, np.ndarray] = field(default_factory=dict)
    kernels: list[Kernel] = field(default_factory=list)
    runs: list[int] = field(default_factory=list)
    limits: list[int] = field(default_factory=list)

    def build(self, kernels: Sequence[Kernel]) -> list[Path]:
        """What stands for binaries: the number of each kernel."""
        self.kernels += kernels
        return [Path(str(len(self.kernels) - len(kernels) + i)) for i in range(len(kernels))]

    def load(self, path: Path, name: str, core_type: str) -> int:
        kernel = self.kernels[int(path.name)]
        assert (kernel.name, kernel.kind) == (name, core_type)
        return int(path.name)

    def allocate(self, nbytes: int) -> int:
        at = max((a + len(m) for a, m in self.memory.items()), default=FIRST) // 64 * 64 + 4096 + 64
        self.memory[at] = np.full(nbytes, 0xFF, np.uint8)
        return at

    def bytes_at(self, address: int, nbytes: int) -> np.ndarray:
        """Bytes of one allocation."""
        (found,) = [m[address - at:address - at + nbytes] for at, m in self.memory.items() if at <= address <= at + len(m) - nbytes]
        assert len(found) == nbytes
        return found

    def write(self, address: int, data: Any) -> None:
        flat = np.frombuffer(data, np.uint8) if isinstance(data, (bytes, bytearray)) else data.reshape(-1).view(np.uint8)
        self.bytes_at(address, flat.size)[:] = flat

    def read(self, address: int, nbytes: int) -> bytes:
        return self.bytes_at(address, nbytes).tobytes()

    def fill(self, address: int, byte: int, nbytes: int) -> None:
        self.bytes_at(address, nbytes)[:] = byte

    def run(self, launches: Sequence[Launch], limit_us: int) -> None:
        self.runs.append(len(launches))
        self.limits.append(limit_us)
        for launch in launches:
            self.launch(self.kernels[launch.kernel], launch)

    def launch(self, kernel: Kernel, launch: Launch) -> None:
        """Runs a program on the bytes of its arguments; it reads as far on as its kernel may."""
        tensors = kernel.program.tensors
        assert launch.blocks == kernel.blocks and len(tensors) == len(launch.arguments)
        sizes = [prod(int(evaluate(d, {})) for d in t.shape) * DTYPES[t.dtype] for t in tensors]
        places = [self.bytes_at(at, size + kernel.reads_on)[:size] for at, size in zip(launch.arguments, sizes)]
        for t, place in zip(tensors, places):
            assert t.name not in added_to(kernel.program) or not place.any(), f"{kernel.name} adds to {t.name}, which holds no zeros"
        given = {t.name: place.copy().view(NUMPY_DTYPES[t.dtype]) for t, place in zip(tensors, places) if t.role == "input"}
        made = Executable(kernel.program).run(given)
        for t, place in zip(tensors, places):
            if t.role == "output":
                place[:] = np.ascontiguousarray(made[t.name]).reshape(-1).view(np.uint8)
            elif t.role == "temp":
                place[:] = 0xFF
