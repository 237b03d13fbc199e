"""Constant matrices of several, as layers of experts have them, are each read where they lie."""
from __future__ import annotations

import numpy as np
import pytest

from aoec import backend
from tests.frontend.models import model, node, normal, run


@pytest.mark.parametrize("target", ["Ascend310P3", "Ascend910B3"])
def test_each_product_takes_its_own_matrix(target: str) -> None:
    proto = model([node("MatMul", "x w", "y"), node("MatMul", "y v", "z")], {"x": (1, 20, 32)}, ["y", "z"],
                  {"w": normal(3, 32, 48), "v": normal(2, 3, 48, 40)})
    feeds = {"x": normal(1, 20, 32)}
    for got, wanted in zip(backend.prepare(proto, target=target).run(feeds), run(proto, feeds), strict=True):
        assert np.abs(got - wanted).max() < 3e-3 * np.abs(wanted).max()
