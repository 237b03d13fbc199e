"""bench/ascendc.py --run: kernels on the stand-in, held against the model machine."""
from __future__ import annotations

import re

import numpy as np
import pytest

from bench.ascendc import difference, main
from tests.standin.need import needs_compiler


@needs_compiler
def test_kernels_of_a_network_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--network", "mlp_softmax", "--run", "--jobs", "1"]) == 0
    assert re.search(r"\| mlp_softmax \| Ascend910B3 \| 3 \| 3 \| 3 \| 3 \| 3 \| 0 \| 0 \|", capsys.readouterr().out)


def test_a_difference_is_a_share_of_the_largest() -> None:
    x = np.float32([1.0, -4.0])
    assert difference(x, x) == 0.0
    assert difference(np.float32([2.0, -4.0]), x) == 0.25
    assert difference(np.float32([np.nan, -4.0]), x) == np.inf
    assert difference(np.float32([np.nan, 1.0]), np.float32([np.nan, 1.0])) == 0.0
