"""Opens a device of this computer as a board: toolkit, compiler, worker, product; each that is missing has its sentence."""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aoec.acl.device import Device, DeviceFacts, open_device
from aoec.acl.known_good import known_good, known_good_source
from aoec.artifact.compiled import Artifact
from aoec.ascendc.calls import product_of, table
from aoec.base.errors import BackendError
from aoec.base.npu_errors import UnsupportedProduct
from aoec.jobs.npu.board import Board
from aoec.jobs.progress import show_progress
from aoec.target.machine import Machine, load, targets
from aoec.toolchain.build import Source, build
from aoec.toolchain.find import Toolkit, find_toolkit, spelling
from aoec.toolchain.probe import ask_compiler

if TYPE_CHECKING:
    from aoec.ascendc.kernel import Kernel

MACHINES = {2201: "Ascend910B3", 2002: "Ascend310P3", 1001: "Ascend910A"}  # where the SoC is none that aoec knows
STAND_IN = "stand-in"  # in what the compiler of aoec.standin says of itself


@dataclass(frozen=True)
class Opened:
    """A board, and how its kernels are spelt. `facts`: what is said of the device, as plain values."""

    board: Board
    release: str
    facts: dict[str, Any]


def kernel_machine(artifact: Artifact, own: Machine) -> Machine:
    """Return the machine for which kernels of an artifact are written: that of aoec by its name, which knows its product; else its own."""
    return load(artifact.target) if artifact.target in targets() else own


@contextmanager
def open_board(number: int, machine: Machine) -> Iterator[Opened]:
    """Yield the opened device of that number, for kernels of a machine. Raise CannNotFound, NoDriver, NoDevice or UnsupportedProduct where
    something is missing."""
    product = product_of(machine)
    toolkit = find_toolkit()
    toolkit.tool("bisheng")
    with open_device(toolkit, number) as device:
        check_product(device, machine, product)
        test_device(device, toolkit)
        yield Opened(Board(device, builder(toolkit)), spelling(toolkit), device_facts(number, device.facts, toolkit))


def machine_of(facts: DeviceFacts) -> str:
    """Return the machine that is a device: of its own name, else one of its product."""
    return facts.soc if facts.soc in targets() else MACHINES[facts.product]


def check_product(device: Device, machine: Machine, product: str) -> None:
    """Raise UnsupportedProduct where the device is of another product than the machine."""
    there, names = str(device.facts.product), table().products
    if there != product:
        raise UnsupportedProduct(f"this is for {machine.name}, product {product} ({names[product]}), and device {device.number} is "
                                 f"{device.facts.soc}, product {there} ({names[there]}): compile for that with --target "
                                 f"{machine_of(device.facts)}", device=device.number)


def test_device(device: Device, toolkit: Toolkit) -> None:
    """Run a kernel whose values are known. It runs again whenever the device is recovered. Raise CompileError, KernelFault or
    KernelHang."""
    product = device.facts.product
    name, text, kind = known_good_source(product)
    (made,) = build([Source(name, text, kind, product)], toolkit)
    if isinstance(made, BackendError):
        raise made
    device.known_good = known_good(made, product)
    device.self_test()


def builder(toolkit: Toolkit) -> Callable[[Sequence[Kernel]], Sequence[Path | BackendError]]:
    """Return what builds kernels with a toolkit, and shows how far it is."""
    def build_kernels(kernels: Sequence[Kernel]) -> Sequence[Path | BackendError]:
        with show_progress("building kernels", len(kernels)) as told:
            return build([Source(k.name, k.source, k.kind, int(k.product)) for k in kernels], toolkit,
                         progress=lambda done, total: told("", done, None))
    return build_kernels


def device_facts(number: int, facts: DeviceFacts, toolkit: Toolkit) -> dict[str, Any]:
    """Return what a result says of where it was made."""
    said = next(iter(ask_compiler(toolkit).version.splitlines()), "") if toolkit.compiler else ""
    return {"device": f"npu:{number}", "soc": facts.soc, "product": str(facts.product), "cores": dict(facts.cores),
            "cann": toolkit.version or toolkit.release or "of unknown release", "acl": facts.acl_version,
            "compiler": said, "stand_in": STAND_IN in said}
