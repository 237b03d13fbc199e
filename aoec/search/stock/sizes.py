"""What the stock rules ask about: a matrix product, and the chip that it runs on."""
from __future__ import annotations

from dataclasses import dataclass

from aoec.target.machine import Machine

KB = 1024
L2_SHARE = (100, 192)  # MB that the rules let one L2 tile take, of so many (section 1, R7.5)
WAVES_OF = 24  # cores of the chips whose waves R6 and R8 look at


@dataclass(frozen=True, slots=True)
class Chip:
    """What of a machine the rules read; sizes in bytes. `product`: 910B or 310P, whose rules differ."""

    product: str
    cores: int
    l1: int
    l0: int
    l0c: int
    ub: int
    l2: int

    @property
    def is_coupled(self) -> bool:
        """Return whether a core holds cube and vector both, as on 310P."""
        return self.product == "310P"

    @property
    def rows(self) -> int:
        """Return rows of the base block of R1, which the small-shape rules count blocks by."""
        return 256 if self.is_coupled else 128

    @property
    def l2_limit(self) -> int:
        """Return bytes that operands and result of one L2 tile may have."""
        return L2_SHARE[0] * self.l2 // L2_SHARE[1]


@dataclass(frozen=True, slots=True)
class Product:
    """C[m, n] = A[m, k] * B[k, n] with `batch` matrices. `size_bytes`: of an element of A and B; `out_bytes`: of C. `trans_a`, `trans_b`:
    stored the other way round. `a_nz`, `b_nz`: stored in fractals. `b_batched`: whether B has a matrix for each of A's."""

    m: int
    n: int
    k: int
    size_bytes: int = 2
    out_bytes: int = 2
    trans_a: bool = False
    trans_b: bool = False
    a_nz: bool = False
    b_nz: bool = False
    bias: bool = False
    batch: int = 1
    b_batched: bool = False

    @property
    def inner_a(self) -> int:
        """Return bytes of A's inner dimension."""
        return (self.m if self.trans_a else self.k) * self.size_bytes

    @property
    def inner_b(self) -> int:
        """Return bytes of B's inner dimension."""
        return (self.k if self.trans_b else self.n) * self.size_bytes

    @property
    def bytes(self) -> int:
        """Return bytes of one A, one B and one C."""
        return (self.m + self.n) * self.k * self.size_bytes + self.m * self.n * self.out_bytes


def chip_of(machine: Machine, product: str) -> Chip:
    """Return the chip of a machine that has a cube."""
    cube = machine.core("core" if "core" in machine.cores else "aic")
    size = {name: machine.scope(name).size_bytes for name in ("L1", "L0A", "L0C", "UB")}
    return Chip(product, cube.count, size["L1"], size["L0A"], size["L0C"], size["UB"], machine.l2_size_bytes)


def parts(extent: int, each: int) -> int:
    """Return how many pieces of a size an extent has, the last perhaps smaller."""
    return -(-extent // each)


def align(value: int, unit: int = 16) -> int:
    """Return `value` rounded up to a multiple of the unit."""
    return -(-value // unit) * unit


def is_aligned(size_bytes: int) -> bool:
    """Return whether an inner dimension is whole bursts of 256 bytes."""
    return size_bytes % 256 == 0
