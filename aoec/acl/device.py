"""A device as the parent process sees it: memory, kernels, launches, times. A worker does them. It is ended when it fails or is late.

There are three time limits, each longer than the one before: the device's own for a kernel, the host's wait for the stream, and the
parent's wait for the answer. After the last one the worker is killed. After a kernel that hung or failed the worker always ends, and all
memory of the device is lost with it. `recover` starts a new worker, which first runs a kernel with known values.
"""
from __future__ import annotations

import mmap
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import numpy as np

from aoec.acl.channel import SHARED_BYTES, ChannelClosed, ChannelLate
from aoec.acl.known_good import KnownGood
from aoec.acl.launching import INTERNAL
from aoec.acl.lease import VISIBLE, Lease, physical
from aoec.acl.process import Worker
from aoec.acl.products import ABORTS
from aoec.acl.times import Timing, timing_of
from aoec.base.files.files import reason
from aoec.base.npu_errors import (
    CLASSES,
    AclMisuse,
    CannNotFound,
    CompileError,
    DeviceLost,
    KernelFault,
    KernelHang,
    LaunchError,
    LoadError,
    NpuError,
    UnsupportedProduct,
    WaitTimeout,
)

ENDING = (KernelHang, KernelFault, DeviceLost, WaitTimeout)  # after which a worker is not used on
SELF_TESTS = 2  # failed ones after which a device is no more used
SELF_TEST_US = 1_000_000
BYTES_A_SECOND = 50e6  # the slowest copy that is waited for
MOST_WAIT_MS = 2**31 - 1
# where the driver's package puts its libraries; the toolkit's set_env.sh does not name them
DRIVER_FOLDERS = tuple(f"/usr/local/Ascend/driver/lib64{part}" for part in ("", "/common", "/driver"))


class HasLibraries(Protocol):
    """What is asked of a toolkit (aoec.toolchain finds one)."""

    @property
    def root(self) -> Path: ...
    @property
    def libraries(self) -> tuple[Path, ...]: ...


@dataclass(frozen=True)
class Limits:
    """Seconds. `wait`: what the host waits longer than the device's limits; `answer`: what the parent waits longer than the host; `open`:
    for starting the library and the device; `call`: for anything else."""

    wait: float = 2.0
    answer: float = 5.0
    open: float = 120.0
    call: float = 60.0
    abort: float = 3.0


@dataclass(frozen=True)
class Launch:
    """A launch of a kernel that load gave. `arguments`: addresses and scalars of 8 bytes, without the sync address."""

    kernel: int
    blocks: int
    arguments: tuple[int, ...]


@dataclass(frozen=True)
class DeviceFacts:
    """What the library says of the device. Bytes, and 0 where a release does not say it; `symbols`: functions found, each with its library;
    `step_us`, `longest_us`: what a kernel's time limit is a multiple of, and the longest that the device keeps itself."""

    soc: str
    product: int
    memory_free: int
    memory_total: int
    cores: Mapping[str, int]
    l2_bytes: int
    acl_version: str
    symbols: Mapping[str, str]
    routes: tuple[str, ...]
    step_us: int
    longest_us: int
    stops: bool


def open_device(toolkit: HasLibraries, number: int = 0, *, product: int | None = None, known_good: KnownGood | None = None,
                limits: Limits | None = None, routes: Sequence[str] = ("A", "C", "B"), environ: Mapping[str, str] | None = None,
                lease_folder: Path | None = None) -> Device:
    """Return the device of that number, leased to this process until it is closed (use `with`).

    `product`: what it must be; `known_good`: a kernel that is run first, here and after every recovery; `routes`: by which to launch.
    DeviceBusy, CannNotFound, NoDriver, NoDevice, UnsupportedProduct; KernelFault or the like where the known-good kernel fails twice.
    """
    return Device(toolkit, number, product, known_good, limits or Limits(), routes, dict(os.environ if environ is None else environ),
                  lease_folder)


class Device:
    """A device that is open. Kernels stay loaded over a recovery under their numbers; memory does not. `generation` counts workers."""

    facts: DeviceFacts

    def __init__(self, toolkit: HasLibraries, number: int, product: int | None, known_good: KnownGood | None, limits: Limits,
                 routes: Sequence[str], environ: dict[str, str], lease_folder: Path | None) -> None:
        if not toolkit.libraries:
            raise CannNotFound(f"CANN at {toolkit.root} has no library of ACL (libacl_rt.so, libascendcl.so); install the toolkit whole")
        self.toolkit, self.product, self.known_good, self.limits, self.routes = toolkit, product, known_good, limits, tuple(routes)
        self.number = physical(number, environ)
        self.generation = 0
        self.quarantined = ""
        self._environ = self._environment(environ)
        self._kernels: dict[int, tuple[str, str, str]] = {}
        self._next = 1
        self._worker: Worker | None = None
        self._why = "the device is closed"
        self._lease = Lease(self.number, lease_folder)
        try:
            self._begin()
        except BaseException:
            self.close()
            raise

    def _environment(self, environ: dict[str, str]) -> dict[str, str]:
        """Return the worker's: it sees this device alone, finds libraries beside the toolkit's, and does not wait for logs at its end."""
        folders = dict.fromkeys(str(p.parent) for p in self.toolkit.libraries)
        path = os.pathsep.join([*folders, *filter(None, [environ.get("LD_LIBRARY_PATH", "")]), *filter(os.path.isdir, DRIVER_FOLDERS)])
        return {"ASCEND_LOG_DEVICE_FLUSH_TIMEOUT": "0", **environ, VISIBLE: str(self.number), "LD_LIBRARY_PATH": path}

    # ---------------------------------------------------------------- the worker
    def _begin(self) -> None:
        """Start a worker. With a known-good kernel, test it, and give the device up after two failed tests."""
        for attempt in range(SELF_TESTS):
            try:
                self._start()
                self.self_test()
                return
            except (DeviceLost, KernelFault, KernelHang, WaitTimeout) as e:
                self._end(str(e))
                if attempt + 1 == SELF_TESTS or not self.known_good:
                    if self.known_good:
                        self.quarantined = str(e)
                    why = f"the self-test failed twice, and device {self.number} is not used any more: " if self.quarantined else ""
                    raise type(e)(f"{why}{e}", function=e.function, code=e.code, vendor=e.vendor, device=self.number) from e

    def _start(self) -> None:
        try:
            self._worker = Worker(self._environ)
        except OSError as e:
            raise DeviceLost(f"a worker process for device {self.number} cannot be started: {reason(e)}", device=self.number) from None
        self.generation += 1
        answer = self._ask("open", self.limits.open, libraries=[str(p) for p in self.toolkit.libraries], number=0, routes=self.routes)
        self.facts = DeviceFacts(**{**answer, "routes": tuple(answer["routes"])})
        if self.product is not None and self.facts.product != self.product:
            raise UnsupportedProduct(f"device {self.number} is {self.facts.soc}, product {self.facts.product}, and the kernels are for "
                                     f"product {self.product}; name that device's target", device=self.number)

    def self_test(self) -> None:
        """Run the known-good kernel, if there is one. Raise KernelFault where its values are wrong."""
        test = self.known_good
        if test is None:
            return
        self._ask("load", self.limits.open, kernel=0, path=str(test.path), name=test.name, core_type=test.core_type)
        places = [self.allocate(len(b)) for b in (*test.inputs, test.expected)]
        for place, data in zip(places, test.inputs):
            self.write(place, data)
        self.fill(places[-1], 0xFF, len(test.expected))
        self.run([Launch(0, test.blocks, tuple(places))], SELF_TEST_US)
        got = self.read(places[-1], len(test.expected)).tobytes()
        for place in places:
            self.free(place)
        if got != test.expected:
            raise KernelFault(f"kernel {test.name}, whose values are known, gave others on device {self.number}", device=self.number)

    def recover(self) -> None:
        """End the worker and start a new one; the known-good kernel runs first, and kernels are loaded again under their numbers. All
        memory of the device is gone. After two failed self-tests the device is not used any more, and every call raises DeviceLost."""
        self._check_use()
        self._end("it is being recovered")
        self._begin()
        for kernel, (path, name, core_type) in self._kernels.items():
            self._ask("load", self.limits.open, kernel=kernel, path=path, name=name, core_type=core_type)

    def close(self) -> None:
        """End the worker and give the lease back."""
        if self._worker:
            with suppress(NpuError):
                self._ask("close", self.limits.abort)
            self._end("the device is closed")
        self._lease.release()

    def __enter__(self) -> Device:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _check_use(self) -> None:
        if self.quarantined:
            raise DeviceLost(f"device {self.number} is not used any more in this run, since its self-test failed twice: {self.quarantined}",
                             device=self.number)
        if self._lease.handle < 0:
            raise AclMisuse(f"device {self.number} is closed", device=self.number)

    def _end(self, why: str) -> None:
        """End the worker, if there is one, and keep the reason."""
        worker, self._worker = self._worker, None
        if worker:
            self._why = why
            if not worker.end():
                self.quarantined = f"its worker, process {worker.process.pid}, does not end when it is killed: {why}"

    def _ask(self, word: str, seconds: float, **given: Any) -> Any:
        """Return the answer of the worker. Any fault in between ends the worker."""
        worker = self._open_worker()
        try:
            answer = worker.ask(word, given, seconds)
        except ChannelLate:
            why = f"the worker of device {self.number} did not answer {word} in {seconds:.1f} s and was killed"
            self._end(why)
            kind = KernelHang if word in ("run", "time") else DeviceLost
            raise kind(why, device=self.number, launch=0 if len(given.get("launches", ())) == 1 else -1) from None
        except ChannelClosed:
            why = f"the worker of device {self.number} {worker.how_it_ended()}, in {word}"
            self._end(why)
            raise DeviceLost(why, device=self.number) from None
        except BaseException as e:  # Ctrl-C: what the worker does is not known any more
            self._end(f"{word} was interrupted by {type(e).__name__}")
            raise
        if "error" in answer:
            error = self._error(answer["error"])
            if isinstance(error, ENDING) or error.code >= INTERNAL and not isinstance(error, LoadError):
                self._give_up(str(error))
            raise error
        return answer.get("answer")

    def _open_worker(self) -> Worker:
        """Return the worker; DeviceLost where there is none."""
        self._check_use()
        if self._worker is None:
            raise DeviceLost(f"device {self.number} has no worker, since {self._why}; recover() starts a new one", device=self.number)
        return self._worker

    def _give_up(self, why: str) -> None:
        """End a worker after a failure, with a word to the device where the product takes one."""
        worker = self._worker
        if worker and getattr(self, "facts", None) and self.facts.product in ABORTS:
            with suppress(ChannelLate, ChannelClosed):
                worker.ask("abort", {}, self.limits.abort)
        self._end(why)

    def _error(self, said: Any) -> NpuError:
        """Return the error that a worker described."""
        facts: dict[str, Any] = said if isinstance(said, dict) else {}
        kind = CLASSES.get(str(facts.get("class")), LaunchError)
        assert kind is not CompileError
        message, launch = str(facts.get("message")), facts.get("launch")
        launch = launch if isinstance(launch, int) else -1
        where = f"launch {launch}: " if launch >= 0 else ""
        code = facts.get("code")
        return kind(f"device {self.number}: {where}{message}", function=str(facts.get("function")),
                    code=code if isinstance(code, int) else 0, vendor=str(facts.get("vendor")), device=self.number, launch=launch)

    # ---------------------------------------------------------------- memory
    def allocate(self, nbytes: int) -> int:
        """Return the address of new memory of the device, aligned to 64 bytes. OutOfMemory."""
        return int(self._ask("allocate", self.limits.call, size=nbytes))

    def free(self, address: int) -> None:
        """Give memory back."""
        self._ask("free", self.limits.call, address=address)

    def memory(self) -> tuple[int, int]:
        """Free bytes of the device's memory, and all."""
        free, total = self._ask("memory", self.limits.call)
        return int(free), int(total)

    def write(self, address: int, data: np.ndarray | bytes | bytearray | memoryview) -> None:
        """Copy an array, or bytes, to the device."""
        view = np.ascontiguousarray(data).reshape(-1).view(np.uint8).data if isinstance(data, np.ndarray) else memoryview(data).cast("B")
        for at in range(0, len(view), SHARED_BYTES):
            part = view[at:at + SHARED_BYTES]
            self._common_memory()[:len(part)] = part
            self._ask("write", self._copy_seconds(len(part)), address=address + at, size=len(part))

    def read(self, address: int, nbytes: int) -> np.ndarray:
        """Return bytes of the device, as an array of uint8."""
        out = np.empty(nbytes, np.uint8)
        for at in range(0, nbytes, SHARED_BYTES):
            size = min(SHARED_BYTES, nbytes - at)
            self._ask("read", self._copy_seconds(size), address=address + at, size=size)
            out[at:at + size].data[:] = memoryview(self._common_memory())[:size]
        return out

    def _common_memory(self) -> mmap.mmap:
        """Return the memory that the worker has too."""
        return self._open_worker().shared

    def fill(self, address: int, byte: int, nbytes: int) -> None:
        """Set bytes of the device."""
        self._ask("fill", self._copy_seconds(nbytes), address=address, byte=byte, size=nbytes)

    def _copy_seconds(self, nbytes: int) -> float:
        return self.limits.call + nbytes / BYTES_A_SECOND

    # ---------------------------------------------------------------- kernels
    def load(self, path: str | Path, name: str, core_type: str) -> int:
        """Return the number of a kernel, by which Launch names it. LoadError says what each route answered."""
        kernel, given = self._next, (str(Path(path).absolute()), name, core_type)
        self._ask("load", self.limits.open, kernel=kernel, path=given[0], name=name, core_type=core_type)
        self._next += 1
        self._kernels[kernel] = given
        return kernel

    def unload(self, kernel: int) -> None:
        """Forget a kernel."""
        self._ask("unload", self.limits.call, kernel=kernel)
        self._kernels.pop(kernel, None)

    def run(self, launches: Sequence[Launch], limit_us: int, total_us: int | None = None) -> None:
        """Run launches in order on one stream, and wait once at the end. Behind one that failed none runs, where the release can do so.

        `limit_us`: of each kernel, rounded up to what the device can (facts.step_us); `total_us`: of all of them, without it `limit_us` for
        each. KernelHang, KernelFault, WaitTimeout, DeviceLost end the worker (see recover); the error's `launch` is which, where known.
        """
        limit = self._limit(limit_us)
        wait = max(limit, total_us or limit * len(launches)) / 1e6 + self.limits.wait
        self._ask("run", wait + self.limits.answer, launches=self._rows(launches), limit_us=limit,
                  wait_ms=min(MOST_WAIT_MS, int(wait * 1000)))

    def time(self, launches: Sequence[Launch], limit_us: int = SELF_TEST_US, empty: Launch | None = None, spans: int = 7, cold: int = 20,
             l2_bytes: int = 0) -> Timing:
        """Return times of one pass over the launches, by events of the device: hot in `spans` spans of a millisecond or longer, after
        passes that warm up; cold in `cold` single passes with L2 emptied before each; and of as many launches of an `empty` kernel. Check
        values first.
        """
        limit = self._limit(limit_us)
        wait = limit * max(1, len(launches)) / 1e6 + self.limits.wait
        answer = self._ask("time", wait * (8 + 3 * spans + cold) + self.limits.answer, launches=self._rows(launches),
                              empty=self._rows([empty] if empty else []), limit_us=limit, wait_ms=min(MOST_WAIT_MS, int(wait * 1000)),
                              spans=spans, cold=cold, l2_bytes=l2_bytes)
        return timing_of(answer, len(launches))

    def _limit(self, limit_us: int) -> int:
        """Return a limit that the device can set: a multiple of its step."""
        if limit_us <= 0:
            raise AclMisuse(f"a time limit of {limit_us} us", device=self.number)
        step = self.facts.step_us if self._worker else 1
        return -(-limit_us // step) * step

    def _rows(self, launches: Sequence[Launch]) -> list[list[Any]]:
        return [[launch.kernel, launch.blocks, list(launch.arguments)] for launch in launches]
