"""The names of operators: what results say is what joins and lists find again, and all of it is said in one place."""
from __future__ import annotations

import pytest

from aoec.cann import tune_ops
from aoec.cann.op_types import CANN, plain, type_of, types_of
from aoec.ops.registry import OPS

APART = {"DepthwiseConv2D"}  # which a profile tells from other convolutions


@pytest.mark.parametrize("ours", sorted(OPS))
def test_a_type_in_results_is_found_again_as_ours(ours: str) -> None:
    """By its own name, by CANN's of any release, and by that with a letter changed only by the case of ONNX."""
    assert {plain(t) for t in types_of(ours) if t not in APART} <= {plain(ours)}
    assert plain(type_of(ours)) == plain(ours) == plain(plain(ours))


def test_operators_of_one_first_type_are_one_word() -> None:
    """All others have words of their own."""
    words: dict[str, set[str]] = {}
    for name, types in CANN.items():
        words.setdefault(plain(name), set()).add(plain(types[0]))
    assert {w: first for w, first in words.items() if first != {w}} == {}
    assert {plain(n) for n in ("to_nc1hwc0", "from_nz")} == {"transdata"} and plain("gelu_tanh") == plain("gelu") == "gelu"
    assert plain("global_avg_pool") == "reducemean" and plain("conv2d_packed") == "conv2d" and plain("power") == "pow"


def test_names_are_of_operators_that_there_are() -> None:
    assert CANN.keys() <= OPS.keys() and all(t[0].isupper() for types in CANN.values() for t in types)
    assert (type_of("conv2d_packed"), type_of("to_nc1hwc0"), type_of("matmul"), type_of("host.NonZero")) == (
        "Conv2D", "TransData", "MatMulV2", "host.NonZero")


@pytest.mark.parametrize(("ours", "listed"), [  # aoepar_16_072
    ("conv2d", "Conv2D"), ("matmul", "BatchMatMulV2"), ("add", "Add"), ("gelu", "Gelu"), ("max_pool", "MaxPoolV3"),
    ("reduce_mean", "ReduceMeanD"),
    ("div", "RealDiv"), ("clip", "ClipByValue"), ("batch_norm", "BNInfer"), ("slice", "StridedSliceD")])
def test_cann_s_own_tuning_takes_it(ours: str, listed: str) -> None:
    assert listed in types_of(ours) and listed in tune_ops.TYPES
