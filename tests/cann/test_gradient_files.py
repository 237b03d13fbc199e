"""What a plan becomes for CANN and MindSpore: the record of AOE, and strategies by index and by size."""
from __future__ import annotations

import ast
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aoec.cann.gradient_fusion import Record, file_name, is_record, parse_record, record_of, show_records
from aoec.cann.split_strategy import HUNDREDTHS, by_index, by_size, mindspore, percentages
from aoec.ir.training import BucketPlan, Gradient, StepTrace
from tests.oracle.schemas import faults

STEP = StepTrace((Gradient("a", 9_654, 10.0), Gradient("b", 300, 12.5), Gradient("c", 46, 12.5)), 50.0, 20.0, 3.0, "measured")


def test_the_record_is_that_of_aoe() -> None:
    """Sizes, times between gradients (the first from the begin of the backward pass), and a decimal hash of 64 bits that is ours."""
    text = show_records([record_of(STEP, "ff" * 8 + "00" * 24)])
    assert json.loads(text) == [{"modelhash": "18446744073709551615", "modelvalue": {
        "gradientTime": [10.0, 2.5, 0.0], "gradientSize": [9654, 300, 46]}}]
    assert faults("gradient_fusion", json.loads(text)) == [] and file_name("Ascend910A") == "Ascend910A_gradient_fusion.json"
    assert is_record(json.loads(text)) and parse_record(json.loads(text), "x", 3) == Record(
        "18446744073709551615", (9654, 300, 46), (10.0, 2.5, 0.0))


def test_an_entry_that_aoe_has_not_filled_counts_for_none() -> None:
    entries = json.loads(show_records([record_of(STEP, "12" * 32)]))
    entries.insert(0, {"modelhash": "5", "modelvalue": {"gradientTime": [0] * 5, "gradientSize": [0] * 5}})
    assert parse_record(entries, "x", 10).sizes == (9654, 300, 46)


def test_the_lines_to_copy() -> None:
    plan = BucketPlan((0, 2))
    assert by_index(plan) == "set_split_strategy_by_idx([0, 2])"
    assert by_size(plan, STEP) == "set_split_strategy_by_size([96.54, 3.46])"
    assert mindspore(plan) == "mindspore.set_auto_parallel_context(all_reduce_fusion_config=[0, 2])"


@given(st.lists(st.integers(1, 1 << 40), min_size=1, max_size=8))
def test_percentages_sum_to_a_hundred_and_follow_the_sizes(sizes: list[int]) -> None:
    shares = percentages(sizes)
    assert sum(shares) == HUNDREDTHS and min(shares) >= 1
    for share, size in zip(shares, sizes):
        assert abs(share - size * HUNDREDTHS / sum(sizes)) <= len(sizes)
    gradients = tuple(Gradient(str(n), size, float(n)) for n, size in enumerate(sizes))
    line = by_size(BucketPlan(tuple(range(len(sizes)))), StepTrace(gradients, 0.0, float(len(sizes)), 0.0, "modelled"))
    said = re.findall(r"[0-9]+\.[0-9]{2}", line)
    assert sum(round(100 * float(s)) for s in said) == HUNDREDTHS
    assert len(said) == len(sizes) == len(ast.literal_eval(line[line.index("["):-1]))


@pytest.mark.parametrize("key", ["0", "00" * 32, "abc123" * 8])
def test_a_hash_is_a_decimal_text_of_64_bits(key: str) -> None:
    assert 0 <= int(record_of(STEP, key).key) < 1 << 64
