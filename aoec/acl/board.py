"""What a worker does with its device: memory, kernels, launches in order, times by events. It runs in the worker process alone."""
from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from aoec.acl.launching import Launcher, Loaded
from aoec.acl.library import Library
from aoec.acl.products import ABORTS, product_of
from aoec.acl.structs import (
    AICORE_NUM,
    CUBE_CORE_NUM,
    DEVICE_TO_HOST,
    EVENT_TIME_LINE,
    HOST_TO_DEVICE,
    HUGE_FIRST,
    L2_CACHE,
    MEMORY_KINDS,
    NORMAL_ONLY,
    STOP_ON_FAILURE,
    VECTOR_CORE_NUM,
)
from aoec.base.npu_errors import AclMisuse, LaunchError, NpuError, OutOfMemory

STARTED_ALREADY, NOT_RECORDED = 100002, 107006
MOST_MARKS = 512  # launches of a run after each of which an event says how far the stream came
SECOND = 1_000_000  # in microseconds
MOST_STEPS = 254  # of the hardware's interval in a time limit
UNKNOWN_L2_BYTES = 256 << 20
WARM_LAUNCHES, WARM_US, SPAN_US, MOST_PASSES = 3, 300.0, 1000.0, 4096
ABORT_MS = 1000

Work = Sequence[tuple[Loaded, int, Sequence[int]]]


class Board:
    """A device that is open. Every method raises an NpuError."""

    def __init__(self, libraries: Sequence[str], number: int, shared: Any, routes: Sequence[str] = ("A", "C", "B")) -> None:
        """Load the library, start it, and take the device: the only one that this process sees, or the `number`th of several.
        `shared`: memory that the parent has too, as an mmap."""
        self.shared = shared
        self.room = (ctypes.c_uint8 * len(shared)).from_buffer(shared)
        self.library = Library(libraries)
        call = self.library.call
        try:
            call("aclInit", None)
        except NpuError as e:
            if e.code != STARTED_ALREADY:
                raise
        self.number = number
        self.kernels: dict[int, Loaded] = {}
        self.marks: list[int] = []
        self.stops = False
        call("aclrtSetDevice", number)
        self.soc = (call("aclrtGetSocName") or b"").decode("utf-8", "replace")
        self.product = product_of(self.soc)
        self.stream = call("aclrtCreateStream")
        if self.library.has("aclrtSetStreamFailureMode"):
            with suppress(NpuError):  # a release may refuse it; then a failed launch is not the last one that runs
                call("aclrtSetStreamFailureMode", self.stream, STOP_ON_FAILURE)
                self.stops = True
        self.launcher = Launcher(self.library, self.stream, routes)
        self.step_us = self._step()
        # products that abort are those whose limit is a multiple of an interval
        self.longest_us = MOST_STEPS * self.step_us if self.product in ABORTS and self.library.has("aclrtSetOpExecuteTimeOutV2") else 0

    def _step(self) -> int:
        """Return microseconds that a time limit is a multiple of."""
        if not self.library.has("aclrtSetOpExecuteTimeOutV2"):
            return SECOND
        with suppress(NpuError):
            if self.library.has("aclrtGetOpTimeOutInterval"):
                return max(1, self.library.call("aclrtGetOpTimeOutInterval"))
        return SECOND

    def facts(self) -> dict[str, Any]:
        """Return the facts that the library reports about the device."""
        free, total = self.memory()
        version = self.library.call("aclrtGetVersion") if self.library.has("aclrtGetVersion") else ()
        cores = {name: n for name, what in (("core", AICORE_NUM), ("cube", CUBE_CORE_NUM), ("vector", VECTOR_CORE_NUM))
                 if (n := self._info(what)) > 0}
        return {"soc": self.soc, "product": self.product, "memory_free": free, "memory_total": total, "cores": cores,
                "l2_bytes": self._info(L2_CACHE), "acl_version": ".".join(map(str, version)),
                "symbols": {name: os.path.basename(path) for name, path in self.library.where.items()},
                "routes": [r.name for r in self.launcher.routes()], "step_us": self.step_us, "stops": self.stops,
                "longest_us": self.longest_us}

    def _info(self, what: int) -> int:
        """Return an attribute of the device; 0 where the release does not say it."""
        with suppress(NpuError):
            if self.library.has("aclrtGetDeviceInfo"):
                return int(self.library.call("aclrtGetDeviceInfo", self.number, what))
        return 0

    def memory(self) -> tuple[int, int]:
        """Free bytes and all bytes of the device's memory; zeros where the release does not say it."""
        if self.library.has("aclrtGetMemInfo"):
            for kind in MEMORY_KINDS:
                with suppress(NpuError):
                    free, total = self.library.call("aclrtGetMemInfo", kind)
                    if total:
                        return int(free), int(total)
        return 0, 0

    def allocate(self, size: int) -> int:
        """Return the address of new memory."""
        try:
            return int(self.library.call("aclrtMalloc", size, HUGE_FIRST))
        except OutOfMemory as e:
            free, total = self.memory()
            raise OutOfMemory(f"{e}; {size:,} bytes were asked for, {free:,} of {total:,} are free", function=e.function, code=e.code,
                              vendor=e.vendor) from None

    def free(self, address: int) -> None:
        """Give memory back."""
        self.library.call("aclrtFree", address)

    def write(self, address: int, size: int) -> None:
        """Copy the first bytes of the shared memory to the device."""
        self._check_size(size)
        self.library.call("aclrtMemcpy", address, size, ctypes.addressof(self.room), size, HOST_TO_DEVICE)

    def read(self, address: int, size: int) -> None:
        """Copy bytes of the device to the begin of the shared memory."""
        self._check_size(size)
        self.library.call("aclrtMemcpy", ctypes.addressof(self.room), size, address, size, DEVICE_TO_HOST)

    def _check_size(self, size: int) -> None:
        if not 0 < size <= len(self.room):
            raise AclMisuse(f"{size} bytes at once; shared memory has {len(self.room)}")

    def fill(self, address: int, byte: int, size: int) -> None:
        """Set bytes on the device."""
        self.library.call("aclrtMemset", address, size, byte, size)

    def load(self, kernel: int, path: str, name: str, core_type: str) -> str:
        """Load a kernel under a number, and return the name of the route."""
        self.kernels[kernel] = self.launcher.load(path, name, core_type)
        return self.kernels[kernel].route.name

    def unload(self, kernel: int) -> None:
        """Forget a kernel."""
        found = self.kernels.pop(kernel, None)
        if found:
            self.launcher.unload(found)

    def work(self, launches: Sequence[Sequence[Any]]) -> Work:
        """Return launches as [kernel's number, blocks, arguments], with the kernels themselves."""
        if unknown := [k for k, *_ in launches if k not in self.kernels]:
            raise AclMisuse(f"kernel {unknown[0]} is not loaded")
        return [(self.kernels[k], int(blocks), [int(a) for a in arguments]) for k, blocks, arguments in launches]

    def set_limit(self, limit_us: int) -> None:
        """Set the time limit of each kernel: for the process, and as an attribute of launches where the library takes it. A limit beyond
        the hardware's longest is the host's wait alone, and the hardware's is set to its longest, which is 0."""
        if limit_us <= 0:
            raise AclMisuse(f"a time limit of {limit_us} us")
        if self.longest_us and limit_us > self.longest_us:
            limit_us = 0
        self.launcher.limit_us = limit_us
        for name, value in (("aclrtSetOpExecuteTimeOutV2", limit_us), ("aclrtSetOpExecuteTimeOut", -(-limit_us // SECOND))):
            with suppress(NpuError):  # a product may not have it; then the attribute, or the host's wait, is the limit
                if self.library.has(name):
                    self.library.call(name, value)
                    return

    def run(self, launches: Sequence[Sequence[Any]], limit_us: int, wait_ms: int) -> None:
        """Put launches on the stream in order and wait. An error names the launch where that is known."""
        work = self.work(launches)
        self.set_limit(limit_us)
        packed = self.launcher.pack(work)
        marks = self._marks(len(work))
        for i, (kernel, blocks, arguments) in enumerate(work):
            try:
                self.launcher.launch(kernel, blocks, arguments, packed.at(i))
                if marks:
                    self.library.call("aclrtRecordEvent", marks[i], self.stream)
            except NpuError as e:
                e.launch = i
                with suppress(NpuError):  # those before it are on their way
                    self.wait(wait_ms)
                    self.launcher.unpack(packed)
                raise
        try:
            self.wait(wait_ms)
        except NpuError as e:
            e.launch = self._first_open(len(work), marks)
            raise
        self.launcher.unpack(packed)

    def wait(self, wait_ms: int) -> None:
        """Wait until the stream is done."""
        if self.library.has("aclrtSynchronizeStreamWithTimeout"):
            self.library.call("aclrtSynchronizeStreamWithTimeout", self.stream, wait_ms)
        else:
            self.library.call("aclrtSynchronizeStream", self.stream)

    def event(self) -> int:
        """Return a new event that keeps its time."""
        if self.library.has("aclrtCreateEventWithFlag"):
            return int(self.library.call("aclrtCreateEventWithFlag", EVENT_TIME_LINE))
        return int(self.library.call("aclrtCreateEvent"))

    def _marks(self, count: int) -> list[int]:
        """Return an event for each launch; none where they could not tell which launch failed."""
        if not self.stops or count > MOST_MARKS or not self.library.has("aclrtEventGetTimestamp", "aclrtRecordEvent", "aclrtCreateEvent"):
            return []
        with suppress(NpuError):
            while len(self.marks) < count:
                self.marks.append(self.event())
        return self.marks[:count] if len(self.marks) >= count else []

    def _first_open(self, count: int, marks: Sequence[int]) -> int:
        """Return the first launch whose event did not come; -1 where that is not known."""
        for i, mark in enumerate(marks):
            try:
                self.library.call("aclrtEventGetTimestamp", mark)
            except NpuError as e:
                return i if e.code == NOT_RECORDED or i else 0 if count == 1 else -1
        return 0 if count == 1 else -1

    def time(self, launches: Sequence[Sequence[Any]], empty: Sequence[Sequence[Any]], limit_us: int, wait_ms: int, spans: int,
             cold: int, l2_bytes: int) -> dict[str, Any]:
        """Return times of one pass over the launches in microseconds, by events: hot in spans of many passes, cold with L2 emptied before
        each, and of an empty kernel in as many passes."""
        if not self.library.has("aclrtRecordEvent", "aclrtEventElapsedTime", "aclrtCreateEvent"):
            raise LaunchError("the library has no events, by which kernels are timed")
        work, nothing = self.work(launches), self.work(empty)
        self.set_limit(limit_us)
        clock = _Clock(self, wait_ms)
        try:
            hot, passes = clock.spans(work, spans)
            out: dict[str, Any] = {"hot_us": hot, "passes": passes, "cold_us": [], "empty_us": [], "emptied_by": ""}
            if cold:
                out["cold_us"], out["emptied_by"] = clock.cold(work, cold, l2_bytes or self._info(L2_CACHE) or UNKNOWN_L2_BYTES)
            if nothing:
                out["empty_us"] = clock.spans(nothing, spans, passes * len(work))[0]
        finally:
            clock.close()
        return out

    def abort(self) -> None:
        """Ask a product that can to give up what its stream does. Its result does not matter, because the worker ends in every case."""
        if self.product in ABORTS:
            for name, given in (("aclrtStreamAbort", (self.stream,)), ("aclrtDeviceTaskAbort", (self.number, ABORT_MS))):
                if self.library.has(name):
                    with suppress(NpuError):
                        self.library.call(name, *given)

    def close(self) -> None:
        """Give the device back. Failures do not matter, because the process ends."""
        for name, given in (("aclrtDestroyStream", (self.stream,)), ("aclrtResetDevice", (self.number,)), ("aclFinalize", ())):
            with suppress(NpuError):
                self.library.call(name, *given)


class _Clock:
    """Two events on the stream of a board."""

    def __init__(self, board: Board, wait_ms: int) -> None:
        self.board, self.wait_ms = board, wait_ms
        self.start, self.end = board.event(), board.event()

    def close(self) -> None:
        """Destroy the events. The result after a failed launch does not matter."""
        if self.board.library.has("aclrtDestroyEvent"):
            for event in (self.start, self.end):
                with suppress(NpuError):
                    self.board.library.call("aclrtDestroyEvent", event)

    def span(self, work: Work, passes: int, before: Callable[[], object] = lambda: None) -> float:
        """Return microseconds of one pass of many, between two events on one stream."""
        call, launcher = self.board.library.call, self.board.launcher
        packed = launcher.pack(work)
        before()
        call("aclrtRecordEvent", self.start, self.board.stream)
        for _ in range(passes):
            for i, (kernel, blocks, arguments) in enumerate(work):
                launcher.launch(kernel, blocks, arguments, packed.at(i))
        call("aclrtRecordEvent", self.end, self.board.stream)
        self.board.wait(self.wait_ms * passes)
        launcher.unpack(packed)
        return float(call("aclrtEventElapsedTime", self.start, self.end)) * 1000 / passes

    def spans(self, work: Work, count: int, passes: int = 0) -> tuple[list[float], int]:
        """Return (Microseconds a pass of each span, passes of a span), after passes that warm up. Without `passes` a span is at least a
        millisecond."""
        begin, done, last = time.monotonic(), 0, 0.0
        while done < WARM_LAUNCHES or (time.monotonic() - begin) * 1e6 < WARM_US:
            last = self.span(work, 1)
            done += 1
        passes = passes or min(MOST_PASSES, max(1, int(-(-SPAN_US // max(last, 0.1)))))
        return [self.span(work, passes) for _ in range(count)], passes

    def cold(self, work: Work, count: int, l2_bytes: int) -> tuple[list[float], str]:
        """Return (Microseconds of single passes with L2 emptied before, how it was emptied): by the library's flush, or by filling memory
        larger than it."""
        call = self.board.library.call
        if self.board.library.has("aclrtDeviceL2CacheFlush"):
            with suppress(NpuError):
                call("aclrtDeviceL2CacheFlush")
                return [self.span(work, 1, lambda: call("aclrtDeviceL2CacheFlush")) for _ in range(count)], "aclrtDeviceL2CacheFlush"
        size = l2_bytes + l2_bytes // 4
        room = int(call("aclrtMalloc", size, NORMAL_ONLY))

        def fill() -> None:
            if self.board.library.has("aclrtMemsetAsync"):
                call("aclrtMemsetAsync", room, size, 0, size, self.board.stream)
            else:
                call("aclrtMemset", room, size, 0, size)
        try:
            return [self.span(work, 1, fill) for _ in range(count)], "memset"
        finally:
            with suppress(NpuError):
                call("aclrtFree", room)
