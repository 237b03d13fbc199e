"""Comparison of a device's results with the model machine: a model's outputs, and each group on the inputs that it really read."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from aoec.artifact.compiled import Artifact, Compiled
from aoec.ir.graph.graph import OPAQUE, Tensor
from aoec.jobs.run.execute import BoundProgram
from aoec.jobs.verify.allowed import finite
from aoec.ops.words.layout import to_logical
from aoec.simulate.values.values import Executable

# The most that a result may differ, relative to its largest number. A group: a few spacings of its dtype (2^-23, 2^-10, 2^-7), for square
# roots and reciprocals are approximate on the chip and sums have another order. Outputs: what groups add up to; networks of the zoo lie up
# to 2 % from onnxruntime in 16 bits.
OF_GROUP = {"fp32": 2.0**-14, "fp16": 2.0**-8, "bf16": 2.0**-5}
OF_OUTPUT = {"fp32": 2.0**-8, "fp16": 2.0**-5, "bf16": 2.0**-4}
STEP = 1.0  # of whole numbers: a cast of what is half way falls to either side


@dataclass(frozen=True)
class Difference:
    """How far a tensor lies from what it should be: relative to the largest number, and the most allowed."""

    tensor: str
    relative: float
    allowed: float

    @property
    def wrong(self) -> bool:
        return not self.relative <= self.allowed


def differ(name: str, got: np.ndarray, wanted: np.ndarray, dtype: str, limits: Mapping[str, float]) -> Difference:
    """Return the difference of two arrays; infinite where one has a number and the other has none. Whole numbers may differ by a step."""
    a, b = finite(got.reshape(wanted.shape), dtype), finite(wanted, dtype)
    if (np.isnan(a) != np.isnan(b)).any():
        return Difference(name, float("inf"), limits.get(dtype, 0.0))
    apart, size = (float(np.nan_to_num(x).max(initial=0.0)) for x in (np.abs(a - b), np.abs(b)))
    return Difference(name, apart / (size or 1.0), limits.get(dtype, 0.0 if dtype == "bool" else STEP / (size or 1.0)))


def differ_outputs(artifact: Artifact, got: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[Difference]:
    """Return the difference of each output of a model that is an array of numbers, by its name."""
    dtypes = {t.name: t.dtype for t in artifact.graph.tensors}
    arrays = [p for p in artifact.outputs if dtypes[p.tensor] != OPAQUE and got[p.name].dtype.kind in "fiubV"]
    precise = {"fp16": "fp16", "bf16": "bf16"}.get(artifact.precision, "fp32") if artifact.precision != "mixed" else "fp16"
    limits = {**OF_OUTPUT, "fp32": OF_OUTPUT[precise]}  # an output in fp32 is made of what has the precision of the model
    return [differ(p.name, got[p.name], wanted[p.name], dtypes[p.tensor], limits) for p in arrays]


@dataclass
class GroupWatch:
    """Sees each launch, and runs its program on the model machine with the same inputs. `first`: the first that differs; `worst`: the
    largest difference of one that does not."""

    tensors: Mapping[str, Tensor]
    seen: int = 0
    first: tuple[Compiled, Difference] | None = None
    worst: Difference | None = None
    programs: dict[int, Executable] = field(default_factory=dict)

    def __call__(self, compiled: Compiled, before: Mapping[str, np.ndarray], after: Mapping[str, np.ndarray]) -> None:
        assert compiled.program is not None
        self.seen += 1
        program = self.programs.setdefault(id(compiled.program), Executable(compiled.program))
        wanted = BoundProgram(program, compiled.bindings, self.tensors).run(before)
        for name, x in wanted.items():
            t = self.tensors[name]
            found = differ(name, to_logical(after[name], t), to_logical(x, t), t.dtype, OF_GROUP)
            if found.wrong and self.first is None:
                self.first = compiled, found
            if not found.wrong and (self.worst is None or found.relative > self.worst.relative):
                self.worst = found
