"""The list of faults stays true: what each replaces stands once, and the tests that must notice it are there."""
from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants.faults import FAULTS, Fault

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.name)
def test_a_fault_can_be_made(fault: Fault) -> None:
    assert (ROOT / fault.file).read_text("utf-8").count(fault.old) == 1
    assert all((ROOT / t.partition("::")[0]).exists() for t in fault.tests)


def test_names_are_unique() -> None:
    assert len({f.name for f in FAULTS}) == len(FAULTS)
