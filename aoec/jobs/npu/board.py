"""Board: an open device with what models have there: kernels once, constants once, and an arena for each gear."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from aoec.base.errors import BackendError, CheckError
from aoec.jobs.npu.arena import ALIGN_BYTES, align
from aoec.jobs.npu.memory_plan import ARENA, Constant, Plan
from aoec.jobs.npu.sources import Sources, anonymous
from aoec.target.isa.scales import scale_words

if TYPE_CHECKING:
    from aoec.acl.device import Device
    from aoec.ascendc.kernel import Kernel

Build = Callable[[Sequence["Kernel"]], "Sequence[Path | BackendError]"]  # a binary for each kernel, or why there is none
POISON = 0xFF  # of reals: NaN


class Board:
    """What lies on a device, by what it is; `build` makes binaries of kernels."""

    def __init__(self, device: Device, build: Build) -> None:
        self.device, self._build = device, build
        self._kernels: dict[str, int] = {}  # source -> number on the device
        self._constants: dict[str, tuple[int, int]] = {}  # zone -> address, bytes

    def build(self, sources: Sources) -> dict[int, str]:
        """Return why sources have no binary, by their number; all others are on the device then. Raise BackendError where none of them has
        one."""
        new = [(i, k) for i, k in enumerate(sources.distinct) if anonymous(k) not in self._kernels]
        made = list(self._build([k for _, k in new]))
        wrong = {i: x for (i, _), x in zip(new, made) if isinstance(x, BackendError)}
        if wrong and len(wrong) == len(sources.distinct):
            raise next(iter(wrong.values()))
        for (_, k), x in zip(new, made):
            if not isinstance(x, BackendError):
                self._kernels[anonymous(k)] = self.device.load(x, k.name, k.kind)
        return {i: str(x) for i, x in wrong.items()}

    def load(self, kernels: Sequence[Kernel]) -> list[int]:
        """Return the numbers of kernels on the device. The first error of one that cannot be built."""
        made = list(self._build(kernels))
        for x in made:
            if isinstance(x, BackendError):
                raise x
        return [self.device.load(x, k.name, k.kind) for k, x in zip(kernels, made) if not isinstance(x, BackendError)]

    def kernel(self, kernel: Kernel) -> int:
        """Return the number of a kernel on the device."""
        return self._kernels[anonymous(kernel)]

    def place(self, plan: Plan, weights: Mapping[str, np.ndarray]) -> Mapping[str, int]:
        """Return zone -> address, with the constants there. Constants that are on the device already are not copied again. Raise CheckError
        where they do not all fit."""
        new = {zone: c for zone, c in plan.constants.items() if self._constants.get(zone, (0, 0))[1] < c.size}
        whole = sum(align(c.size) for c in new.values())
        self.check_room(plan, whole)
        at = self.reserve(whole) if new else 0
        for zone, c in new.items():
            data = bytes_of(c, weights[c.tensor])
            self.device.write(at, data)
            if c.size > data.nbytes:
                self.device.fill(at + data.nbytes, 0, c.size - data.nbytes)
            self._constants[zone] = at, c.size
            at += align(c.size)
        return {ARENA: self.reserve(plan.arena_bytes), **{zone: self._constants[zone][0] for zone in plan.constants}}

    def reserve(self, size: int) -> int:
        """Return an address at which a tensor can begin, of so many bytes."""
        return align(self.device.allocate(max(size, 1) + ALIGN_BYTES))

    def check_room(self, plan: Plan, constants: int) -> None:
        """Raise CheckError where the device has not the memory that a plan needs."""
        free, need = self.device.facts.memory_free, plan.arena_bytes + constants + 2 * ALIGN_BYTES
        if free and need > free:
            raise CheckError(f"this model needs {need:,} bytes of device memory: {constants:,} of constants and {plan.arena_bytes:,} of "
                             f"tensors that come and go; the device has {free:,} free. A smaller batch, or ending other programs there, "
                             "would help")


def bytes_of(constant: Constant, stored: np.ndarray) -> np.ndarray:
    """Return the bytes of a constant as it lies on a device. What is behind scales has words too, of scales that are 0."""
    flat = np.ascontiguousarray(stored).reshape(-1)
    if constant.zero is not None:
        more = constant.size // np.dtype(np.uint64).itemsize - flat.size
        flat = scale_words(np.pad(flat.astype(np.float32), (0, max(more, 0))), constant.zero)
    return flat.view(np.uint8)
