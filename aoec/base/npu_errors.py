"""What fails between a kernel and an NPU: CANN, its compiler, the driver, the device, the kernel. Each is an AoecError, so exit code 2.

Classes say what a caller can do. An instance says where it comes from: the function of ACL, its code, the vendor's text, the device, the
launch and the schedule's hash, as far as known.
"""
from __future__ import annotations

from collections.abc import Sequence

from aoec.base.errors import BackendError, one_line

MOST_TEXT = 800  # characters of the vendor's text in a message


class NpuError(BackendError):
    """Root of the classes below. `code`: 0 where no function of ACL answered one; `device`, `launch`: -1 where unknown."""

    def __init__(self, message: str, *, function: str = "", code: int = 0, vendor: str = "", device: int = -1, launch: int = -1,
                 schedule: str = "") -> None:
        super().__init__(one_line(message))
        self.function, self.code, self.vendor, self.device, self.launch, self.schedule = function, code, vendor, device, launch, schedule


class CannNotFound(NpuError):
    """There is no toolkit, or a part of it that is needed (compiler, library) is not there. `short`: the first part of the message;
    `looked`: each place that was looked at, and what was found there."""

    def __init__(self, message: str, *, short: str = "", looked: Sequence[str] = (), function: str = "", code: int = 0, vendor: str = "",
                 device: int = -1, launch: int = -1) -> None:
        super().__init__(message, function=function, code=code, vendor=vendor, device=device, launch=launch)
        self.short, self.looked = one_line(short), tuple(one_line(place) for place in looked)


class NoDriver(NpuError):
    """The library is there, and no driver answers it."""


class NoDevice(NpuError):
    """The driver has no device of that number, or not for this user."""


class DeviceBusy(NpuError):
    """Another process holds the lease of the device."""


class UnsupportedProduct(NpuError):
    """The device is of a product for which no kernel is written, or of another one than the kernel."""


class CompileError(NpuError):
    """A kernel that the compiler refuses, or that it does not end with. `argv`: the command line; `log`: the end of what it said; `source`:
    the kernel's name; `crash`: the compiler ended by a signal or took too long, so that another try can end otherwise."""

    def __init__(self, message: str, *, argv: Sequence[str] = (), log: str = "", source: str = "", crash: bool = False,
                 schedule: str = "") -> None:
        super().__init__(message, schedule=schedule)
        self.argv, self.log, self.source, self.crash = tuple(argv), log, source, crash


class LoadError(NpuError):
    """A kernel's object that the library does not load, or that has no such kernel."""


class LaunchError(NpuError):
    """A launch that the library refuses, or that fails for a reason without a class of its own."""


class OutOfMemory(NpuError):
    """The device has no more memory, streams, events or other resources."""


class WaitTimeout(NpuError):
    """The stream did not end in the host's time limit, and the device did not say why."""


class KernelHang(NpuError):
    """A kernel ran longer than its time limit."""


class KernelFault(NpuError):
    """A kernel did what the hardware refuses, or gave values that it must not give."""


class DeviceLost(NpuError):
    """The device, or the worker process that drives it, is gone."""


class AclMisuse(NpuError):
    """A call of ACL that breaks its rules: a fault of aoec."""


CLASSES: dict[str, type[NpuError]] = {c.__name__: c for c in (CannNotFound, NoDriver, NoDevice, DeviceBusy, UnsupportedProduct, LoadError,
                                                              LaunchError, OutOfMemory, WaitTimeout, KernelHang, KernelFault, DeviceLost,
                                                              AclMisuse)}
