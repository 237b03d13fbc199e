"""AOE's result file: its arithmetic on the samples that are published, its counters, and what it says of a job that did not end."""
from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aoec.report.results.opat import KINDS, Outcome, Policy, Tuning, document, improvement, plain, summary, text


@pytest.mark.parametrize("before, after, said", [
    (134, 99, "35.35%"), (72.055, 72.046, "0.01%"), (113.588725, 113.236731, "0.31%"),  # "tuning results" of the AOE guide: OPAT
    (5.600486, 3.610442, "55.11%"), (5.58434, 3.573203, "56.28%"), (4.58434, 2.573203, "78.15%"),  # and SGAT
    (2, 1, "100.00%"), (1, 1, "0.00%"), (1, 0, "0.00%"), (1, 2, "-50.00%")])
def test_percentages_are_those_of_published_samples(before: float, after: float, said: str) -> None:
    assert improvement(before, after) == said


def counted(add: int, update: int, reserved: int, unsatisfied: int) -> dict[str, int]:
    outcomes = [Outcome.ADD] * add + [Outcome.UPDATE] * update + [Outcome.RESERVED] * reserved + [Outcome.UNSATISFIED] * unsatisfied
    return summary([Policy(f"op{i}", ("add",), "Schedule", 2.0, 1.0, o) for i, o in enumerate(outcomes)])


def test_counters_are_those_of_published_samples() -> None:
    assert counted(2, 2, 15, 0) == {"repo_add_num": 2, "repo_hit_num": 17, "repo_reserved_num": 15, "repo_unsatisfied_num": 0,
                                    "repo_update_num": 2, "total_num": 19}
    assert counted(19, 0, 0, 2) == {"repo_add_num": 19, "repo_hit_num": 0, "repo_reserved_num": 0, "repo_unsatisfied_num": 2,
                                    "repo_update_num": 0, "total_num": 21}


    assert counted(1, 1, 0, 0) == {"repo_add_num": 1, "repo_hit_num": 1, "repo_reserved_num": 0, "repo_unsatisfied_num": 0,
                                   "repo_update_num": 1, "total_num": 2}


@pytest.mark.parametrize("before, after, said", [(3.2, 2.4, 25), (12.5, 9.8, 22), (8.1, 6.2, 23), (45.3, 35.1, 23)])
def test_the_other_figure_is_what_public_tutorials_mean(before: float, after: float, said: int) -> None:
    """The share of time that is saved (their 23.5 and 22.5 are rounded up once and down once)."""
    assert plain(before, after)["time_reduction_percent"] == pytest.approx(said, abs=0.55)


@given(*[st.integers(0, 5)] * 4)
def test_counters_add_up(add: int, update: int, reserved: int, unsatisfied: int) -> None:
    n = counted(add, update, reserved, unsatisfied)
    assert n["repo_hit_num"] == n["repo_update_num"] + n["repo_reserved_num"]
    assert n["total_num"] == n["repo_add_num"] + n["repo_hit_num"] + n["repo_unsatisfied_num"] == add + update + reserved + unsatisfied


CONV = Policy("Conv_125", ("conv2d", "relu"), "Schedule", 72.055, 72.046, Outcome.UPDATE)
SOFTMAX = Policy("softmax", ("softmax",), "Impl", 134.0, 99.0, Outcome.ADD)


def test_a_job_that_did_not_end_says_so_and_has_no_figures_of_the_model() -> None:
    basic, found = document(Tuning("net", (CONV, SOFTMAX)))
    assert basic == {"basic": {"tuning_name": "net"}}
    opat = found["OPAT"]
    assert opat["opat_tuning_result"] == "tuning incomplete" and not [k for k in opat if k.startswith("model_")]
    assert opat["repo_summary"]["total_num"] == 2 and opat["times"] == "modelled"


def test_a_job_that_ended() -> None:
    kept = Policy("kept", ("add",), "Schedule", 3.0, 3.0, Outcome.RESERVED)
    t = Tuning("net", (CONV, SOFTMAX, kept), ("lost",), 12.5, 113.588725, 113.236731)
    basic, found = json.loads(text(t))
    assert basic == {"basic": {"tuning_name": "net", "tuning_time(s)": 12.5}}
    opat = found["OPAT"]
    assert (opat["model_performance_improvement"], opat["opat_tuning_result"]) == ("0.31%", "tuning successful")
    assert opat["tuning_failed_operators"] == ["lost"] and opat["time_reduction_percent"] == pytest.approx(0.3099, abs=1e-3)
    assert [(o["op_name"], o["op_type"], *o["tune_performance"]) for o in opat["repo_modified_operators"]] == [
        ("Conv_125", ["conv2d", "relu"], "Schedule"), ("softmax", "softmax", "Impl")]
    assert set(KINDS) >= {k for o in opat["repo_modified_operators"] for k in o["tune_performance"]}
    figures = opat["repo_modified_operators"][1]["tune_performance"]["Impl"]
    assert figures == {"performance_before_tune(us)": 134.0, "performance_after_tune(us)": 99.0, "performance_improvement": "35.35%",
                       "update_mode": "add", "speedup": pytest.approx(134 / 99, abs=1e-6),
                       "time_reduction_percent": pytest.approx(100 * 35 / 134, abs=1e-4)}


def test_without_an_operator_to_tune_there_is_no_opat() -> None:
    assert document(Tuning("net", seconds=1.0)) == [{"basic": {"tuning_name": "net", "tuning_time(s)": 1.0}}]
    assert document(Tuning("net", failed=("a",), seconds=1.0))[1]["OPAT"]["opat_tuning_result"] == "tuning failed"
