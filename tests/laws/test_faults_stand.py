"""The list of faults stays true: what each replaces stands once, and the tests that must notice it are there."""
from __future__ import annotations

import ast
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.mutants import __main__ as mutants
from tests.mutants.faults import FAULTS, Fault
from tests.mutants.find import change as change_of

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.name)
def test_a_fault_can_be_made(fault: Fault) -> None:
    change = change_of(fault, ROOT)
    assert change.after != change.before and (not change.path.endswith(".py") or ast.parse(change.after))
    assert all((ROOT / t.partition("::")[0]).exists() for t in fault.tests)


def test_names_are_unique() -> None:
    assert len({f.name for f in FAULTS}) == len(FAULTS)


def test_each_run_has_its_own_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All tests without a fault may take longer than those of one fault with it."""
    seen: list[float] = []
    monkeypatch.setattr(mutants.subprocess, "run", lambda *_, timeout, **__: seen.append(timeout) or CompletedProcess("", 0, "", ""))
    monkeypatch.setattr(mutants, "COPIED", ("README.md",))
    (tmp_path / "tree" / "aoec").mkdir(parents=True)
    monkeypatch.setattr(Path, "mkdir", lambda self, **_: None)
    tree = mutants.Tree(tmp_path)
    assert mutants._sound([tree], FAULTS[:1])
    tree.test(["tests/x.py"], tmp_path)
    assert seen == [mutants.SOUND_TIMEOUT_S, mutants.TIMEOUT_S] and mutants.SOUND_TIMEOUT_S > 10 * mutants.TIMEOUT_S
