"""How far to believe a modelled time: what bench/fidelity.py found on published measurements, by target and operator class.

The figures are data (fidelity.toml, whose head says how it is written) of one version of the model; of another they are said to be old.
"""
from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

# by how much targets resemble each other: the first of the same line with rows stands for one without
LINES = (("Ascend910B1", "Ascend910B2", "Ascend910B3", "Ascend910B4",
          "Ascend910_9392", "Ascend910_9382", "Ascend910_9372", "Ascend910_9362"),
         ("Ascend950PR_958x", "Ascend950PR_957x"), ("Ascend910A", "Ascend310P3", "Ascend310", "Ascend310B1", "Ascend310B4"))
# operator families of graphs -> operator classes of the figures
CLASSES = {"cube": "matmul", "conv2d": "conv", "conv2d_packed": "conv", "matmul": "matmul", "softmax": "norm", "batch_norm": "norm",
           "concat": "copy", "transpose": "copy", "to_nc1hwc0": "copy", "from_nc1hwc0": "copy", "to_nz": "copy",
           "from_nz": "copy"}


@dataclass(frozen=True)
class Fidelity:
    """Figures of one target and operator class; errors as shares, `sign` the share of pairs told rightly (None: no pairs)."""

    target: str
    operator_class: str
    rows: int
    median_error: float
    mean_error: float
    pairs: int
    right_pairs: int

    @property
    def sign(self) -> float | None:
        return self.right_pairs / self.pairs if self.pairs else None

    def __str__(self) -> str:
        sign = "" if self.sign is None else f", {self.right_pairs} of {self.pairs} pairs of variants ordered rightly"
        return f"{self.rows} published row{'s' * (self.rows > 1)}, median error {self.median_error:.0%}{sign}"


@dataclass(frozen=True)
class Small:
    """Published kernels that are modelled below `limit_us`: how many, and between which multiples of their modelled time nine in ten of
    them were measured. Launch, scalar set-up and cold code are most of such a kernel, and no source puts them into numbers."""

    limit_us: float
    rows: int
    least: float
    median: float
    most: float

    def __str__(self) -> str:
        return f"{self.rows} published kernels modelled below {self.limit_us:g} µs were measured at {self.least:g} to {self.most:g} " \
               f"times that, {self.median:g} at the median"


@lru_cache(maxsize=1)
def small_kernels() -> Small | None:
    """Return the figures of published rows for small kernels. Return None where there are none."""
    found = _file().get("small")
    return Small(**found) if found else None


@lru_cache(maxsize=1)
def _file() -> dict[str, Any]:
    return tomllib.loads(resources.files("aoec.report").joinpath("fidelity.toml").read_text("utf-8"))


def known_version() -> str:
    """Return the version of the model that the figures are of."""
    return str(_file()["model_version"])


@lru_cache(maxsize=1)
def figures() -> tuple[Fidelity, ...]:
    """Return all figures."""
    names = Fidelity.__dataclass_fields__
    return tuple(Fidelity(**{n: row[n] for n in names}) for row in _file().get("row", ()))


def operator_class(op: str) -> str:
    """Return the class of the figures that an operator of a graph belongs to."""
    return CLASSES.get(op, "reduce" if op.startswith(("reduce", "global_avg")) else "elementwise")


def fidelity(target: str, op_class: str) -> Fidelity | None:
    """Return the figures of a target and class, if there is any row."""
    return next((f for f in figures() if (f.target, f.operator_class) == (target, op_class)), None)


def nearest(target: str, op_class: str) -> Fidelity | None:
    """Return the figures of the most similar target that has rows of the class."""
    line = next((names for names in LINES if target in names), (target,))
    found = (fidelity(name, op_class) for name in sorted(line, key=lambda n: abs(line.index(n) - line.index(target))))
    return next((f for f in found if f is not None), None)


def near(target: str, classes: Sequence[str], version: str) -> list[tuple[str, str]]:
    """Return (classes, how near their times on a target are to published ones), all that are told alike together; `version`: the model
    today."""
    told: dict[str, list[str]] = {}
    for c in classes:
        told.setdefault(_fidelity_words(target, c, version), []).append(c)
    return [(", ".join(same), words) for words, same in told.items()]


def _fidelity_words(target: str, op_class: str, version: str) -> str:
    old = "" if version == known_version() else f" (figures of model version {known_version()}, this is {version})"
    own, near = fidelity(target, op_class), nearest(target, op_class)
    if own:
        return f"{own}{old}"
    there = f"; {near.target}, the nearest chip that has some: {near}{old}" if near else ""
    return f"nothing published for {target}{there}"


def as_dict(target: str, classes: Sequence[str], version: str) -> dict[str, Any]:
    """Return the figures of some classes on a target, for JSON: by class, with the target that they are of."""
    out: dict[str, Any] = {}
    for name in classes:
        f = nearest(target, name)
        out[name] = None if f is None else {"target": f.target, "own": f.target == target, "rows": f.rows, "median_error": f.median_error,
                                            "mean_error": f.mean_error, "sign_accuracy": f.sign}
    return {"classes": out, "figures_of": known_version(), "stale": version != known_version()}
