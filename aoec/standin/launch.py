"""Launches compiled kernels on NumPy arrays: buffers of global memory with guards, blocks, and an order of the pipes by a seed."""
from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from aoec.base.errors import BackendError
from aoec.standin.build import compile_kernel

GUARD_BYTES = 4096  # before and behind a buffer
ALIGN_BYTES = 512
GUARD, POISON = 0xA5, 0xFF
MESSAGE_BYTES = 2048
LAUNCH_SECONDS = 600.0  # the most; a loop of scalar code alone is not seen to run on


class LaunchFault(BackendError):
    """What ended a launch: a sentence of the stand-in with the block, the call and its line."""


class _Region(ctypes.Structure):
    _fields_ = (("at", ctypes.c_uint64), ("bytes", ctypes.c_uint64))


@dataclass(frozen=True)
class Buffer:
    """Memory for an array, with guards; `room`: bytes behind it that a kernel may read."""

    memory: np.ndarray
    start: int
    size: int
    room: int

    @staticmethod
    def of(array: np.ndarray, room: int = 0) -> Buffer:
        """Return a buffer that holds the array."""
        size = array.nbytes
        memory = np.full(size + room + 2 * GUARD_BYTES + ALIGN_BYTES, GUARD, np.uint8)
        start = GUARD_BYTES + -(memory.ctypes.data + GUARD_BYTES) % ALIGN_BYTES
        memory[start:start + size] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        memory[start + size:start + size + room] = POISON
        return Buffer(memory, start, size, room)

    @property
    def at(self) -> int:
        """Return the address of the first byte."""
        return int(self.memory.ctypes.data) + self.start

    def is_whole(self) -> bool:
        """Return whether nothing was written before or behind the array."""
        stop = self.start + self.size
        before, behind, after = self.memory[:self.start], self.memory[stop:stop + self.room], self.memory[stop + self.room:]
        return bool((before == GUARD).all() and (behind == POISON).all() and (after == GUARD).all())


class Kernel:
    """A compiled kernel, ready to be launched."""

    def __init__(self, path: Path, name: str) -> None:
        """Load a kernel. Raise BackendError where the object has no kernel of that name."""
        self.path, self.name = path, name
        self.library = _load(str(path))
        try:
            self.entry = ctypes.cast(getattr(self.library, name), ctypes.c_void_p)
        except AttributeError:
            raise BackendError(f"the source has no kernel {name}; is it extern \"C\" __global__ __aicore__?") from None

    @staticmethod
    def compile(source: str, name: str, product: int = 2201, release: int = 91, defines: tuple[str, ...] = ()) -> Kernel:
        """Return the kernel of that name in a source."""
        return Kernel(compile_kernel(source, product, release, defines), name)

    def launch(self, arguments: Sequence[np.ndarray | int], blocks: int = 1, seed: int = 0, races: bool = True,
               room: int = 0, seconds: float = LAUNCH_SECONDS) -> list[np.ndarray]:
        """Return the arrays among the arguments after the launch, in their order; the given ones stay as they are.

        An array is a buffer of global memory, a whole number a scalar argument. With `races` an access that no flag orders behind another
        ends the launch; without, the order of the pipes, which the seed chooses, shows in the values. Raises LaunchFault.
        """
        buffers = [Buffer.of(a, room) if isinstance(a, np.ndarray) else None for a in arguments]
        values = [b.at if b else int(a) & 2**64 - 1 for a, b in zip(arguments, buffers) if b or not isinstance(a, np.ndarray)]
        self.launch_at(values, [(b.at, b.size + b.room) for b in buffers if b], blocks, seed, races, seconds)
        for i, b in enumerate(buffers):
            if b and not b.is_whole():
                raise LaunchFault(f"{self.name}: bytes beside the buffer of argument {i} were written")
        return [b.memory[b.start:b.start + b.size].view(a.dtype).reshape(a.shape).copy()
                for a, b in zip(arguments, buffers) if b and isinstance(a, np.ndarray)]

    def launch_at(self, values: Sequence[int], regions: Sequence[tuple[int, int]], blocks: int = 1, seed: int = 0,
                  races: bool = True, seconds: float = LAUNCH_SECONDS) -> int:
        """Launch the kernel. Return how many instructions were executed. `regions`: address and bytes of the arrays that the arguments
        reach. Raise LaunchFault where the launch ends with a fault."""
        words, places = (ctypes.c_uint64 * len(values))(*values), (_Region * len(regions))(*[_Region(*r) for r in regions])
        message, executed = ctypes.create_string_buffer(MESSAGE_BYTES), ctypes.c_int64()
        if self.library.standin_launch(self.entry, words, len(values), places, len(regions), ctypes.c_int64(blocks), ctypes.c_uint64(seed),
                                       0 if races else 1, message, ctypes.c_uint64(MESSAGE_BYTES), ctypes.byref(executed),
                                       ctypes.c_int64(int(seconds * 1e6))):
            raise LaunchFault(f"{self.name}: {message.value.decode(errors='replace')}")
        return executed.value


@cache
def _load(path: str) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(path)
    except OSError as e:
        raise BackendError(f"a compiled kernel cannot be loaded: {e}") from None
