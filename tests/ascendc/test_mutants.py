"""Small faults in programs of kernels are noticed: by the checker of programs, by the stand-in, or by both (bench/kernel_mutants.py).

`python bench/ascendc.py --mutants` prints the whole table. What neither notices has the original's values, in three orders of the pipes and
for three inputs, on the stand-in and on the model machine; a flag among it is redundant, for the checker proves the order without it.

Of eight faults of each kind (fewer where there are fewer), drawn by `--most 8`, noticed by both / the checker alone / the stand-in alone /
neither; of what neither noticed 4 are flags that are redundant, and none has other values:

    kernel   flag missing   address off   tile too large   flags swapped   copy missing
    cube     8 0 0 0        8 0 0 0       6 0 1 1          4 0 0 4         6 0 2 0
    image    6 0 0 2        6 0 0 2       8 0 0 0          1 0 0 7         6 0 1 0
    vector   7 0 0 1        3 0 3 2       4 1 1 2          4 2 0 1         1 0 1 0
    mixed    7 0 0 1        5 0 0 3       4 1 1 2          1 0 0 7         5 0 3 0
"""
from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from bench.kernel_mutants import (
    ADDRESS,
    COPY,
    FLAG,
    KERNELS,
    KINDS,
    NEITHER,
    SWAP,
    TILE,
    Judge,
    Mutant,
    Verdict,
    original,
    some,
    verdicts,
)
from tests.standin.need import needs_compiler

pytestmark = needs_compiler
FEW, MANY = 1, 12  # mutants of each kind and kernel, of make test and of make test-all
# of the mutants of a kernel, how many of each kind are noticed at the least; the rest is harmless
LEAST = {FLAG: 0.6, ADDRESS: 0.4, TILE: 0.4, SWAP: 0.05, COPY: 0.8}


@cache
def judge(name: str) -> Judge:
    return Judge(original(name))


def assert_noticed(verdict: Verdict) -> None:
    """Somebody notices a mutant whose values are others."""
    assert verdict.by != NEITHER or verdict.same, f"{verdict.mutant.kind}: {verdict.mutant.what}"


@pytest.mark.parametrize("name", ["cube", *[pytest.param(n, marks=pytest.mark.slow) for n in ("vector", "mixed")]])
def test_some_mutants_are_noticed(name: str) -> None:
    found = [judge(name)(m) for m in some(name, judge(name).program, FEW)]
    for verdict in found:
        assert_noticed(verdict)
    assert any(v.by != NEITHER for v in found)


def test_the_original_is_not_noticed() -> None:
    judge_ = judge("vector")
    assert judge_(Mutant(FLAG, "nothing", judge_.program)).by == NEITHER


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_many_mutants_are_noticed(name: str) -> None:
    found = verdicts(name, MANY)
    for verdict in found:
        assert_noticed(verdict)
    counts, noticed = Counter(v.mutant.kind for v in found), Counter(v.mutant.kind for v in found if v.by != NEITHER)
    assert set(counts) == set(KINDS)
    assert all(noticed[kind] >= LEAST[kind] * counts[kind] for kind in KINDS), noticed
