"""The routes by which a kernel is loaded and launched, as data, each chosen where the library exports what it needs.

A: the arguments are appended one by one and the runtime copies them; it puts the sync address before those of mixed kernels itself. B: the
arguments are 8-byte words in device memory. C: they are 8-byte words in host memory. By B and C the sync address is the caller's to put
first. Sources: the manual's pages of each function.
"""
from __future__ import annotations

import ctypes
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from aoec.acl.library import Library
from aoec.acl.structs import (
    ELF_AICORE,
    ELF_CUBE_CORE,
    ELF_VECTOR_CORE,
    HOST_TO_DEVICE,
    HUGE_FIRST,
    MAGIC,
    MOST_BLOCKS,
    MOST_PARAMETERS,
    TIMEOUT_US,
    LaunchAttr,
    LaunchConfig,
    LoadOption,
    LoadOptions,
)
from aoec.base.npu_errors import AclMisuse, LaunchError, LoadError, NpuError, UnsupportedProduct

LOADERS = {"file": ("aclrtBinaryLoadFromFile",), "data": ("aclrtBinaryLoadFromData",), "image": ("aclrtCreateBinary", "aclrtBinaryLoad")}
MAGICS = {"KERNEL_TYPE_AIV_ONLY": ELF_VECTOR_CORE, "KERNEL_TYPE_AIC_ONLY": ELF_CUBE_CORE, "KERNEL_TYPE_AICORE": ELF_AICORE,
          "": ELF_AICORE}  # of mixed kernels none is said
REFUSALS = (100000, 107000, 207000, 200001, 200006)  # codes of a launch that may be its attribute's fault
INTERNAL = 500000  # codes from here on leave the library in no known state
OBJECT_BYTES = 64 << 20
WORDS_ALIGN = 64  # bytes, of each launch's arguments on the device


@dataclass(frozen=True)
class Route:
    """How kernels are loaded and launched. `config`: whether a launch takes attributes."""

    name: str
    loaders: tuple[str, ...]
    needs: tuple[str, ...]
    config: bool


ROUTES = (
    Route("A", ("file",), ("aclrtKernelArgsInit", "aclrtKernelArgsAppend", "aclrtKernelArgsFinalize", "aclrtLaunchKernelWithConfig"), True),
    Route("C", ("file", "data"), ("aclrtLaunchKernelWithHostArgs",), True),
    Route("B", ("data", "image", "file"), ("aclrtLaunchKernel",), False))


@dataclass
class Loaded:
    """A kernel on the device. `mixed`: of both kinds of core, so that the sync address stands before its arguments; `image`: the object's
    bytes, which the library may go on reading; `held`: what aclrtCreateBinary made of them."""

    name: str
    function: int
    binary: int
    route: Route
    mixed: bool
    image: bytes = b""
    held: int = 0


@dataclass
class Launcher:
    """Loads and launches kernels on one stream. `limit_us`: of each launch, as an attribute where the library takes it."""

    library: Library
    stream: int
    names: Sequence[str] = ("A", "C", "B")
    limit_us: int = 0
    takes_limit: bool | None = None  # None: not tried yet
    _sync: int = field(default=0, repr=False)

    def routes(self) -> list[Route]:
        """Return the routes that the library has, in the order in which they are tried."""
        known = {r.name: r for r in ROUTES}
        return [r for n in self.names if self.library.has(*(r := known[n]).needs) and self._loaders(r)]

    def _loaders(self, route: Route) -> list[str]:
        return [ld for ld in route.loaders if self.library.has(*LOADERS[ld])]

    def load(self, path: str, name: str, core_type: str) -> Loaded:
        """Return the kernel of that name in an object, by the first route that takes it. LoadError says what each route answered."""
        said, last = [], None
        for route in self.routes():
            for loader in self._loaders(route):
                try:
                    return self._load(path, name, core_type, route, loader)
                except NpuError as e:
                    if isinstance(e, UnsupportedProduct) or e.code >= INTERNAL and not isinstance(e, LoadError):
                        raise  # another route would not help
                    said.append(f"route {route.name} by {LOADERS[loader][0]}: {e}")
                    last = e
        if last is None:
            raise LoadError("the library has none of the routes to launch a kernel: it lacks "
                            + "; ".join(", ".join(n for n in r.needs if not self.library.has(n)) for r in ROUTES if r.name in self.names))
        raise LoadError(f"{name} of {path} cannot be loaded: {'; '.join(said)}", function=last.function, code=last.code, vendor=last.vendor)

    def _load(self, path: str, name: str, core_type: str, route: Route, loader: str) -> Loaded:
        call, image, held = self.library.call, b"", 0
        if loader == "file":
            binary = call("aclrtBinaryLoadFromFile", path.encode(), None)
        else:
            image = _read(path)
            data = ctypes.cast(ctypes.c_char_p(image), ctypes.c_void_p)
            if loader == "data":
                option = LoadOption(MAGIC)
                option.value.magic = MAGICS.get(core_type, 0)
                options = LoadOptions(ctypes.pointer(option), 1)
                binary = call("aclrtBinaryLoadFromData", data, len(image), ctypes.addressof(options) if core_type in MAGICS else None)
            else:
                held = call("aclrtCreateBinary", data, len(image))
                if not held:
                    raise LoadError(f"aclrtCreateBinary made nothing of {path}", function="aclrtCreateBinary")
                binary = call("aclrtBinaryLoad", held)
        try:
            function = call("aclrtBinaryGetFunction", binary, name.encode())
        except NpuError:
            with suppress(NpuError):
                call("aclrtBinaryUnLoad", binary)
            raise
        return Loaded(name, function, binary, route, "MIX" in core_type, image, held or 0)

    def unload(self, kernel: Loaded) -> None:
        """Give a kernel's binary back."""
        self.library.call("aclrtBinaryUnLoad", kernel.binary)
        if kernel.held and self.library.has("aclrtDestroyBinary"):
            self.library.call("aclrtDestroyBinary", kernel.held)

    def sync_address(self) -> int:
        """Return the address that stands before a mixed kernel's arguments where the runtime does not put it."""
        if not self._sync:
            if self.library.has("aclrtGetHardwareSyncAddr"):
                self._sync = self.library.call("aclrtGetHardwareSyncAddr") or 0
            elif self.library.has("rtGetC2cCtrlAddr"):
                self._sync = self.library.call("rtGetC2cCtrlAddr")[0]
            if not self._sync:
                raise LaunchError("a kernel of both kinds of core is launched by route A alone where the library has neither "
                                  "aclrtGetHardwareSyncAddr nor rtGetC2cCtrlAddr")
        return self._sync

    def words(self, kernel: Loaded, arguments: Sequence[int]) -> list[int]:
        """Return the 8-byte words of a launch by route B or C."""
        return [*([self.sync_address()] if kernel.mixed else []), *arguments]

    def pack(self, launches: Sequence[tuple[Loaded, int, Sequence[int]]]) -> Packed:
        """Return the arguments of launches by route B in device memory, all of them in one allocation."""
        offsets, at, data = [], 0, bytearray()
        for kernel, _, arguments in launches:
            offsets.append(at)
            if kernel.route.name == "B":
                words = self.words(kernel, arguments)
                part = (ctypes.c_uint64 * len(words))(*words)
                data += bytes(part) + bytes(-8 * len(words) % WORDS_ALIGN)
                at = len(data)
        if not data:
            return Packed(0, offsets)
        address = self.library.call("aclrtMalloc", len(data), HUGE_FIRST)
        held = (ctypes.c_uint8 * len(data)).from_buffer(data)
        self.library.call("aclrtMemcpy", address, len(data), ctypes.addressof(held), len(data), HOST_TO_DEVICE)
        return Packed(address, offsets)

    def unpack(self, packed: Packed) -> None:
        """Free the memory that pack took. Call it when the launches are done."""
        if packed.address:
            self.library.call("aclrtFree", packed.address)

    def launch(self, kernel: Loaded, blocks: int, arguments: Sequence[int], packed: int) -> None:
        """Put a launch on the stream. `packed`: where pack put its arguments."""
        if not 1 <= blocks <= MOST_BLOCKS or len(arguments) > MOST_PARAMETERS:
            raise AclMisuse(f"{kernel.name}: {blocks} blocks and {len(arguments)} arguments; a launch has 1 to {MOST_BLOCKS} blocks and at "
                            f"most {MOST_PARAMETERS} arguments")
        if kernel.route.name == "B":
            count = len(arguments) + (1 if kernel.mixed else 0)
            self.library.call("aclrtLaunchKernel", kernel.function, blocks, packed, 8 * count, self.stream)
            return
        if not self.limit_us or self.takes_limit is False:
            self._launch(kernel, blocks, arguments, None)
            return
        attr = LaunchAttr(TIMEOUT_US)
        attr.value.timeout_us.low, attr.value.timeout_us.high = self.limit_us & 0xFFFFFFFF, self.limit_us >> 32
        config = LaunchConfig(ctypes.pointer(attr), 1)
        try:
            self._launch(kernel, blocks, arguments, ctypes.addressof(config))
            self.takes_limit = True
        except NpuError as e:
            if self.takes_limit or e.code not in REFUSALS:
                raise
            self._launch(kernel, blocks, arguments, None)  # where this fails too, the attribute was not the reason
            self.takes_limit = False

    def _launch(self, kernel: Loaded, blocks: int, arguments: Sequence[int], config: Any) -> None:
        call = self.library.call
        if kernel.route.name == "C":
            words = self.words(kernel, arguments)
            data = (ctypes.c_uint64 * len(words))(*words)
            call("aclrtLaunchKernelWithHostArgs", kernel.function, blocks, self.stream, config, ctypes.addressof(data), 8 * len(words),
                 None, 0)
            return
        # one such handle a thread: it is filled, finished and launched before the next is begun
        handle = call("aclrtKernelArgsInit", kernel.function)
        for a in arguments:
            value = ctypes.c_uint64(a)
            call("aclrtKernelArgsAppend", handle, ctypes.addressof(value), 8)
        call("aclrtKernelArgsFinalize", handle)
        call("aclrtLaunchKernelWithConfig", kernel.function, blocks, self.stream, config, handle, None)


@dataclass(frozen=True)
class Packed:
    """Where the arguments of launches are: an allocation, 0 where there is none, and the offset of each launch."""

    address: int
    offsets: Sequence[int]

    def at(self, launch: int) -> int:
        """Return the address of a launch's arguments."""
        return self.address + self.offsets[launch]


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as f:
            data = f.read(OBJECT_BYTES + 1)
    except OSError as e:
        raise LoadError(f"{path} cannot be read: {e.strerror}") from None
    if not 0 < len(data) <= OBJECT_BYTES:
        raise LoadError(f"{path} has {len(data)} bytes; an object of a kernel has 1 to {OBJECT_BYTES}")
    return data
