"""The page of gradient tuning: what it says is what its JSON says, names act as nothing but names, drawings hold what is extreme."""
from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aoec.ir.training import StepTrace
from aoec.report.gradients.gradient_page import PICTURE, TRACE, Cost, GradientReport, PlanRow, SystemRow, facts, files, sentence
from aoec.report.page import as_json, pages
from aoec.report.page import facts as page_facts
from aoec.report.pictures.step_plots import byte_chart, limit_chart
from tests.oracle.schemas import faults
from tests.report.steps import even_plan, step, trace
from tests.report.test_page import ABOUT, DETAILS, HOSTILE, REPORT, Read, check_numbers

COSTS = tuple(Cost(name, size, 60.0 + size * rate / 1e6) for size in (1 << 12, 1 << 20, 1 << 27)
              for name, rate in (("all_reduce", 13.6), ("reduce_scatter", 7.0)))


def plan_row(t: StepTrace, name: str, buckets: int, **more: Any) -> PlanRow:
    plan = even_plan(len(t.gradients), buckets)
    return PlanRow(name, f"plan {name}", plan, step(t, plan), **more)


def report(name: str = "net", count: int = 161, **more: Any) -> GradientReport:
    t = trace([4 * (1 + 7919 * i % 400_000) for i in range(count)])
    others = tuple(plan_row(t, word, min(buckets, count)) for word, buckets in (("default", 2), ("one", 1), ("ddp", 5)))
    ours = plan_row(t, "ours", min(12, count), proof="no plan is faster: the search is exact", lower_us=t.compute_us + 1.5)
    limits = tuple((k, min(k, count), step(t, even_plan(count, min(k, count))).step_us) for k in range(1, 17))
    system = SystemRow("a-8", f"a system of {name}", 8, 1.05, "0123456789abcdef", "modelled",
                       (("all_reduce", f"a fit {name}", name, "official"),), COSTS, (f"a page {name}",))
    lines = {"TF adapter": f"set_split_strategy_by_idx([1, 2])  # {name}", "MindSpore": "a\nb"}
    return GradientReport(name, "Ascend910B3", t, ours, others, "default", limits, system, lines, (f"note {name}",), **more)


def made(r: GradientReport, back: Mapping[str, str] | None = None) -> tuple[Any, dict[str, str]]:
    said = json.loads(as_json(facts(r)))
    return said, files(r, said, "report.json", back or {})


@pytest.mark.parametrize("count", [1, 3, 161])
def test_the_numbers_are_those_of_the_json(count: int) -> None:
    r = report(count=count)
    said, written = made(r)
    assert faults("gradients", said) == [] and set(written) == {"", PICTURE, TRACE}
    read = Read(written[""])
    check_numbers(said, read.numbers)
    shown = {place for place, _, _ in read.numbers}
    for i, p in enumerate(said["plans"]):
        assert {f"plans.{i}.{key}" for key in ("step_us", "exposed_us", "hidden_share", "buckets", "saved_by_ours")} <= shown, p["name"]
        assert sum(p["bytes"]) == r.trace.size and p["ends"][-1] == count - 1
    assert {f"limits.{k}.step_us" for k in range(16)} | {f"system.costs.{k}.us" for k in range(6)} <= shown
    assert said["saved_us"] == pytest.approx(r.old.timeline.step_us - r.ours.timeline.step_us)
    assert said["plans"][0]["lower_us"] == r.ours.lower_us and len(said["gradients"]) == count
    rows = [a["data-plan"] for tag, a in read.tags if tag == "tr" and "data-plan" in a]
    assert rows == [p["name"] for p in sorted(said["plans"], key=lambda p: p["step_us"])]


def test_the_schema_refuses_what_is_not_said() -> None:
    said, _ = made(report())
    for key, wrong in (("times", {"step": "measured"}), ("plans", []), ("saved_share", "much"), ("more", 1)):
        assert faults("gradients", {**said, key: wrong}), key


def test_it_is_said_where_times_come_from() -> None:
    r = report()
    measured = replace(r, trace=replace(r.trace, source="measured"), system=replace(r.system, kind="measured"))
    said, written = made(measured)
    assert said["times"] == {"compute": "measured", "communication": "measured", "step": "modelled"} and faults("gradients", said) == []
    assert "times of compute are measured, costs of communication measured" in written[""] and "Steps are modelled" in written[""]
    assert json.loads(written[TRACE])["otherData"]["times"] == "measured"


def test_hostile_names_are_only_names() -> None:
    said, written = made(report(HOSTILE), {HOSTILE: "model.html"})
    text = written[""]
    assert faults("gradients", said) == []
    tags = Read(text).tags
    assert [a for tag, a in tags if tag == "script"] == [{}] and not [tag for tag, _ in tags if tag == "img"]
    assert not [name for _, a in tags for name in a if name.startswith("on")]
    assert "\u202e" not in text and "\x1b" not in text and "&lt;script&gt;window.acted" in text
    assert not [a for _, a in tags for name in ("src", "href") if "//" in (a.get(name) or "")]
    policy = next(a["content"] for tag, a in tags if tag == "meta" and a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None and "default-src 'none'" in policy and "script-src 'sha256-" in policy
    assert "model.html" in [a.get("href") for tag, a in tags if tag == "a"] and "\u202e" not in written[PICTURE]


def test_the_page_of_a_model_links_others_beside_it() -> None:
    said = page_facts(REPORT, DETAILS, ABOUT)
    linked, alone = (pages(said, DETAILS, {}, beside)["index.html"] for beside in ({HOSTILE: "gradients.html"}, {}))
    assert [a.get("href") for tag, a in Read(linked).tags if tag == "a"].count("gradients.html") == 1
    assert "gradients.html" not in alone and [t for t, _ in Read(linked).tags].count("script") == 1


def test_the_sentence_names_gain_and_loss() -> None:
    r = report()
    hidden = facts(r)["plans"][0]["hidden_share"]
    assert "161 gradients, " in sentence(r)
    assert sentence(r).endswith(f"with 12 buckets; {hidden:.0%} of the communication is hidden; modelled")
    worse = replace(r, ours=r.others[1])
    assert f"({-facts(worse)['saved_share']:+.1%})" in sentence(worse)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 1 << 30), min_size=1, max_size=30), st.integers(1, 30), st.floats(0.1, 1e8))
def test_drawings_hold_what_is_extreme(sizes: list[int], buckets: int, us: float) -> None:
    t = trace(sizes, us, us, 0.0)
    p = plan_row(t, "a", min(buckets, len(sizes)))
    for text in (byte_chart(t, p.plan), limit_chart([(1, p.timeline.step_us)], t.compute_us, [("b", 1, p.timeline.step_us * 1.5)])):
        assert "nan" not in text and "inf" not in text and "circle" in text
