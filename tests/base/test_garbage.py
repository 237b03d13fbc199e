"""Garbage is looked for less often within, and as before behind."""
from __future__ import annotations

import gc

import pytest

from aoec.base.process.garbage import MADE, seldom_collected


def test_garbage_is_looked_for_less_often_within_and_as_before_behind() -> None:
    was = gc.get_threshold()
    gc.disable()  # else the first small threshold has all that this process ever made looked through
    try:
        for threshold, within in (((700, 10, 10), (MADE, 10, 10)), ((2 * MADE, 5, 5), (2 * MADE, 5, 5)), ((0, 10, 10), (0, 10, 10))):
            gc.set_threshold(*threshold)
            with pytest.raises(KeyError), seldom_collected():
                assert gc.get_threshold() == within
                raise KeyError
            assert gc.get_threshold() == threshold
            assert seldom_collected()(gc.get_threshold)() == within and gc.get_threshold() == threshold
    finally:
        gc.enable()
        gc.set_threshold(*was)
