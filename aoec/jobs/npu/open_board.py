"""Opens a device of this computer as a board: toolkit, compiler, worker, product; each that is missing has its sentence."""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aoec.acl.device import open_device
from aoec.ascendc.calls import product_of, table
from aoec.base.errors import BackendError
from aoec.base.npu_errors import UnsupportedProduct
from aoec.jobs.npu.board import Board
from aoec.target.machine import Machine
from aoec.toolchain.build import Source, build
from aoec.toolchain.find import Toolkit, find_toolkit, spelling

if TYPE_CHECKING:
    from aoec.ascendc.kernel import Kernel

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Opened:
    """A board, and how its kernels are spelt. `facts`: what is said of the device, as plain values."""

    board: Board
    release: str
    facts: dict[str, Any]


@contextmanager
def open_board(number: int, machine: Machine, progress: Progress | None = None) -> Iterator[Opened]:
    """The device of that number, for kernels of a machine. CannNotFound, NoDriver, NoDevice or UnsupportedProduct say what is missing."""
    product = product_of(machine)
    toolkit = find_toolkit()
    toolkit.tool("bisheng")
    with open_device(toolkit, number) as device:
        there = str(device.facts.product)
        if there != product:
            said = table().products.get(there, "no product that aoec writes kernels for")
            raise UnsupportedProduct(f"this is compiled for {machine.name} (product {product}, {table().products[product]}), and device "
                                     f"{number} is {device.facts.soc} (product {there}, {said}): compile it for that (--target)",
                                     device=number)
        yield Opened(Board(device, builder(toolkit, progress)), spelling(toolkit), device_facts(number, device.facts, toolkit))


def builder(toolkit: Toolkit, progress: Progress | None = None) -> Callable[[Sequence[Kernel]], Sequence[Path | BackendError]]:
    """What builds kernels with a toolkit."""
    return lambda kernels: build([Source(k.name, k.source, k.kind, int(k.product)) for k in kernels], toolkit, progress=progress)


def device_facts(number: int, facts: Any, toolkit: Toolkit) -> dict[str, Any]:
    """What a result says of where it was made."""
    return {"device": f"npu:{number}", "soc": facts.soc, "product": str(facts.product), "cann": toolkit.release or "unknown",
            "cann_version": toolkit.version, "acl": facts.acl_version}
