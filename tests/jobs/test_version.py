"""What is kept for later runs is named by all the sources that made it."""
from __future__ import annotations

from pathlib import Path

import aoec
from aoec.jobs.version import MAKING

ROOT = Path(aoec.__file__).parent
RESULTS = ("aoec.acl", "aoec.artifact", "aoec.ascendc", "aoec.bank", "aoec.cann", "aoec.cli", "aoec.collectives", "aoec.hivm",
           "aoec.options", "aoec.report", "aoec.standin", "aoec.toolchain")
# which ask for what is made, show, store or run it


def test_no_room_that_makes_what_is_kept_is_left_out() -> None:
    packages = {"aoec." + ".".join(p.parent.relative_to(ROOT).parts) for p in ROOT.rglob("__init__.py") if p.parent != ROOT}
    assert {p for p in packages if not p.startswith((*MAKING, *RESULTS))} == set()
