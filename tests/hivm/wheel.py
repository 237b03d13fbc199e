"""The interpreter whose environment has the wheel of the vendor's compiler front half, where there is one."""
from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest

from aoec.base.errors import BackendError
from aoec.hivm.wheel import Wheel, find_wheel

VARIABLE = "AOEC_CHECK_PYTHON"
VENDOR = Path(__file__).parents[2] / ".vendor" / "bin" / "python"


@cache
def wheel_or_none() -> Wheel | None:
    """The wheel, if there is one."""
    try:
        return find_wheel(os.environ.get(VARIABLE) or str(VENDOR))
    except BackendError:
        return None


def need_wheel() -> Wheel:
    """The wheel; the test is left out with a sentence where there is none."""
    found = wheel_or_none()
    if found is None:
        pytest.skip(f"the wheel ascendnpu-ir is not here: make vendor-check makes .vendor with it, or {VARIABLE} names an interpreter")
    return found
