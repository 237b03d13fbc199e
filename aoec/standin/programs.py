"""Programs on the stand-in: the tensors of a program as the arguments of its kernel's launch, and what it then wrote."""
from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from aoec.ir.index import evaluate
from aoec.ir.program import Program, Tensor
from aoec.standin.launch import POISON, Kernel
from aoec.target.isa.instructions import added_to
from aoec.target.isa.meaning import NUMPY_DTYPES
from aoec.target.isa.scales import scale_words, word_tensors


def elements(t: Tensor) -> int:
    """Return how many elements a tensor of a filled program has."""
    return prod(int(evaluate(d, {})) for d in t.shape)


def blank(t: Tensor, zero: bool = False) -> np.ndarray:
    """Return a flat tensor that nothing was written to, or zeros."""
    dtype = np.dtype(NUMPY_DTYPES[t.dtype])
    return np.full(elements(t) * dtype.itemsize, 0 if zero else POISON, np.uint8).view(dtype)


def draw(program: Program, seed: int = 5, real: bool = False) -> dict[str, np.ndarray]:
    """Return inputs by name, flat: small whole numbers, or of real dtypes normal ones; words of scales between 0.001 and 0.1."""
    random, words, out = np.random.default_rng(seed), word_tensors(program), dict[str, np.ndarray]()
    for t in program.tensors:
        if t.role == "input":
            whole = not real or t.dtype not in ("fp32", "fp16", "bf16")
            low, high = (0, 2) if t.dtype == "bool" else (-3, 4)
            values = random.integers(low, high, elements(t)) if whole else random.normal(size=elements(t))
            if t.name in words:
                values = scale_words(random.uniform(0.001, 0.1, elements(t)).astype(np.float32), words[t.name])
            out[t.name] = values.astype(NUMPY_DTYPES[t.dtype])
    return out


def launch(kernel: Kernel, program: Program, given: Mapping[str, np.ndarray], blocks: int, room: int = 0, seed: int = 0,
           races: bool = True) -> dict[str, np.ndarray]:
    """Return what the kernel of a program writes, by name; `given`: its inputs. `blocks` and `room` (bytes that it may read behind a
    tensor) are of its manifest, `seed` and `races` of `Kernel.launch`. Raises LaunchFault."""
    zeros = added_to(program)
    arrays = [given[t.name] if t.role == "input" else blank(t, t.name in zeros) for t in program.tensors]
    results = kernel.launch(arrays, blocks, seed, races, room)
    return {t.name: x for t, x in zip(program.tensors, results) if t.role == "output"}
