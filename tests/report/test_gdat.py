"""The result of gradient tuning: its file is of its schema, its text fits 80 columns, and caps make DDP's buckets what the plan says."""
from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aoec.ir.training import BucketPlan, Gradient, StepSpan, StepTimeline, StepTrace
from aoec.report.bucket_caps import MIB, bucket_caps, caps_line
from aoec.report.results import gdat
from aoec.report.results.gdat import Costs, PlanFigures, Proof, Tuning, headline, ms, show, text, text_of_job
from aoec.report.results.results import jobs
from tests.oracle.schemas import faults

STEP = StepTrace((Gradient("a", 6_000_000, 1_000.0), Gradient("b", 2_000_000, 9_000.0)), 4_000.0, 9_500.0, 500.0, "modelled")


def figures(title: str, ends: tuple[int, ...], step_us: float, sent_us: float) -> PlanFigures:
    spans = tuple(StepSpan("channel 0", "all_reduce", f"bucket {n}", 9_000.0, 9_000.0 + sent_us) for n in range(len(ends)))
    compute = StepSpan("compute", "forward", "forward", 0.0, 4_000.0)
    return PlanFigures(title, BucketPlan(ends), StepTimeline((compute, *spans), step_us, 14_000.0))


TUNING = Tuning(
    "resnet50", "Ascend910B3", 32, STEP, "ab" * 32, figures("this plan", (0, 1), 14_100.0, 400.0),
    {name: figures(name, (1,), 14_250.0, 500.0) for name in ("aoe", "aoe_default", "ddp", "horovod", "mg_wfbp", "one")},
    Proof(True, 14_100.0, "No plan has a shorter step."),
    Costs("910b-8", "a server of 8", 8, "cd" * 32, 1.0, "costs official: all_reduce."),
    {"scheme": "all_reduce", "max_buckets": None, "max_bucket_bytes": None, "channels": 1},
    {"AOE, by index": "set_split_strategy_by_idx([0, 1])"},
    ("a note",), ("r/x.json",), 1.5)


def test_the_file_is_of_its_schema_and_is_read_again() -> None:
    said = json.loads(text(TUNING))
    assert faults("gdat", said) == [] and faults("gdat", json.loads(text_of_job("resnet50"))) == []
    found = said[1]["GDAT"]
    assert (found["model_baseline_performance(ms)"], found["model_result_performance(ms)"]) == (14.25, 14.1)
    assert found["model_performance_improvement"] == "1.06%" and found["plan"]["hidden_share"] == 0.875
    job, = jobs(text(TUNING), "x")
    assert (job.job, job.status, job.times, job.baseline_ms, job.result_ms) == ("gdat", "tuning successful", "modelled", 14.25, 14.1)


def test_the_gain_is_that_of_the_step() -> None:
    assert headline(TUNING) == ("resnet50 batch 32 on Ascend910B3 x8 (910b-8): step 14.25 -> 14.10 ms (-1.1 %) against DDP's buckets; "
                                "modelled; proved")
    own = replace(TUNING, trace=replace(STEP, source="measured"), proof=replace(TUNING.proof, is_optimal=False), batch=None)
    assert headline(own) == ("resnet50 on 910b-8 x8: step 14.25 -> 14.10 ms (-1.1 %) against DDP's buckets; compute measured, "
                             "communication modelled; not proved")
    assert "(no change)" in headline(replace(TUNING, best=TUNING.others["ddp"]))


def test_what_is_printed_fits_a_terminal() -> None:
    long = {"AOE, by index": f"set_split_strategy_by_idx([{', '.join(map(str, range(1_000)))}])"}
    lines = show(replace(TUNING, name="m" * 300, lines=long)).splitlines()
    assert max(map(len, lines)) <= 120 and max(len(line) for line in lines if "idx" not in line) <= 80
    assert "(1,000 numbers, whole in the file)" in "\n".join(lines)
    plans = [line for line in lines if line.startswith(("this plan", "ddp"))]
    assert [line.split()[-5:] for line in plans] == [["14.10", "88", "%", "100.0", "%"], ["14.25", "50", "%", "101.1", "%"]]


@pytest.mark.parametrize("us, said", [(1.25, "0.0013"), (46.77, "0.0468"),
                                       (9_999.0, "9.999"), (14_249.0, "14.25"), (123_456.0, "123.5"), (4e6, "4,000")])
def test_milliseconds(us: float, said: str) -> None:
    assert ms(us) == said


def ddp(sizes: list[int], caps: list[float]) -> list[int]:
    """The last gradient of each bucket, as DDP makes them: one is closed as soon as it holds its cap, the last cap goes on."""
    ends: list[int] = []
    held = at = 0
    for number, size in enumerate(sizes):
        held += size
        if held >= int(caps[min(at, len(caps) - 1)] * MIB):
            ends, held, at = [*ends, number], 0, at + 1
    return ends if not held else [*ends, len(sizes) - 1]


@given(st.lists(st.integers(1, 1 << 34), min_size=1, max_size=20), st.data())
def test_caps_make_the_buckets_of_the_plan(sizes: list[int], data: st.DataObject) -> None:
    cuts = data.draw(st.sets(st.integers(0, len(sizes) - 1)))
    ends = tuple(sorted({*cuts, len(sizes) - 1}))
    step = StepTrace(tuple(Gradient(str(n), size, float(n)) for n, size in enumerate(sizes)), 0.0, 1e3, 0.0, "modelled")
    assert ddp(sizes, bucket_caps(BucketPlan(ends), step)) == list(ends)
    line = caps_line(BucketPlan(ends), step)
    assert ddp(sizes, [float(c) for c in line[line.index("[") + 1:-1].split(", ")]) == list(ends)


def test_lines_are_short_where_sizes_are_round() -> None:
    step = StepTrace((Gradient("a", 25 * MIB, 1.0), Gradient("b", MIB // 2, 2.0)), 0.0, 2.0, 0.0, "modelled")
    assert caps_line(BucketPlan((0, 1)), step) == "bucket_cap_mb_list=[25, 0.5]"


def test_a_size_in_words() -> None:
    assert [gdat.size_words(n) for n in (7, 27_688, 102_240_000, 5_000_000_000)] == ["7 bytes", "27.7 KB", "102.2 MB", "5.0 GB"]
