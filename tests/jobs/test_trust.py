"""How far a choice holds: seeded machines, what is picked by them, and what the results say."""
from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from aoec import cli
from aoec.bank.bank import Bank
from aoec.jobs.stages.stages import lower_operator
from aoec.jobs.tune.trust import MACHINES, Trust, of_programs, seeded_machines, together
from aoec.jobs.tune.tuning import Outcome, Problem, problem, search, start
from aoec.jobs.tune.weigh import BEST, again, leaders, most_robust, weigh
from aoec.search.space.grid import NEVER
from aoec.simulate.encode.encode import encode
from aoec.simulate.timing.time import measure
from aoec.target.machine import load
from tests.jobs.small import poor_defaults

MACHINE = load("Ascend910B3")


@pytest.fixture(scope="module")
def tuned() -> tuple[Problem, Outcome]:
    p = problem(lower_operator("matmul(m=500, k=250, n=600, fp16)"), MACHINE)
    with poor_defaults():
        first = start(p)
    return p, search(p, first, "genetic", ("trials", 150), 0)


def test_the_best_ten_are_timed_again_on_every_machine(tuned):
    p, found = tuned
    ten = leaders(p, found)
    ticks = again(p, ten)
    assert ten[0] == found.best and found.default in ten and len(set(ten)) == len(ten) in (BEST, BEST + 1)
    assert ticks.shape == (MACHINES, len(ten)) and MACHINES >= 32 and (ticks < NEVER).all()
    others = sorted(t for c, t in p.costs.items() if t is not None and c not in ten)
    assert max(t for t in p.cost(ten[:BEST]) if t is not None) <= others[0]
    for row in (0, 7):  # as the same programs are timed one by one
        m = seeded_machines(MACHINE)[row]
        one = measure(p.program(ten[0]), m)
        assert int(ticks[row, 0]) == one.ticks + round(one.launch_us * m.clock_mhz * 1024)


def test_trust_is_the_same_from_candidates_and_from_programs(tuned):
    p, found = tuned
    weighed = weigh(p, found, False)
    assert (weighed.best, weighed.ticks, weighed.proof) == (found.best, found.ticks, found.proof)  # nothing but the trust is new
    assert weighed.trust == of_programs(p.program(found.default), p.program(found.best), MACHINE, p.state)
    assert weigh(p, found, False) == weighed


@pytest.mark.parametrize("chip", ["Ascend910B3", "Ascend310P3"])
def test_a_program_on_another_machine_is_as_if_encoded_for_it(chip):
    machine = load(chip)
    for text in ("matmul(m=64, k=64, n=64, fp16, bias)", "softmax(m=40, n=96)"):
        sketch = problem(lower_operator(text), machine).sketches[0]
        for other in seeded_machines(machine)[:2]:
            on, anew = sketch.encoded.on(other), encode(sketch.program, other)
            assert on.sites == anew.sites != sketch.encoded.sites and on.machine is other
            assert np.array_equal(on.code, anew.code) and (on.loops, on.forms, on.counters) == (anew.loops, anew.forms, anew.counters)


def test_robust_picks_the_best_worst_case(tuned):
    p, found = tuned
    ten = leaders(p, found)
    ratios = again(p, ten) / again(p, [found.default])
    worst = {c: max(column) for c, column in zip(ten, ratios.T.tolist()) if sum(r < 1 for r in column) >= 0.9 * MACHINES}
    picked = weigh(p, found, True)
    assert picked.best == min(worst, key=lambda c: (worst[c], p.costs[c]), default=found.default)
    assert picked.ticks == p.costs[picked.best] and (picked.best == found.best or picked.proof == "")
    if picked.trust is not None:
        assert picked.trust.is_confirmed and picked.trust.worst == pytest.approx(worst[picked.best])


def test_what_no_machine_confirms_is_not_picked():
    default = np.full(MACHINES, 100)
    sure, often, seldom = np.full(MACHINES, 99), np.where(np.arange(MACHINES) < 29, 50, 101), np.where(np.arange(MACHINES) < 28, 50, 101)
    assert most_robust(np.stack([often, sure], 1), default, [1, 2]) == 1  # its worst case is a gain
    assert most_robust(np.stack([seldom, often], 1), default, [1, 2]) == 1  # 29 of 32 are nine in ten, 28 are not
    assert most_robust(np.stack([seldom], 1), default, [1]) is None
    assert most_robust(np.stack([sure, sure], 1), default, [2, 1]) == 1


def test_where_nothing_is_confirmed_the_default_stays(tuned, monkeypatch):
    p, found = tuned
    monkeypatch.setattr("aoec.jobs.tune.weigh.most_robust", lambda *_: None)
    kept = weigh(p, found, True)
    assert (kept.best, kept.ticks, kept.trust) == (found.default, found.default_ticks, None)
    same = replace(found, best=found.default, ticks=found.default_ticks)
    assert weigh(p, same, True) == same


def test_trusts_add_up():
    a, b = Trust((10, 10), (5, 12)), Trust((30, 30), (31, 20))
    assert together([a, b]) == Trust((40, 40), (36, 32)) and together([a, b]).faster == 2
    assert (a.faster, a.worst, a.is_confirmed) == (1, 1.2, False)


def test_robust_is_kept_apart_in_the_bank_and_said(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [40, 96]) for n in "xy")
    onnx.save(helper.make_model(helper.make_graph([helper.make_node("Softmax", ["x"], ["y"], axis=1)], "g", [x], [y]),
                                opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "m.onnx")

    def run(*words: str) -> dict[str, Any]:
        assert cli.main(["compile", "m.onnx", "--tune", "--budget", "30", "--jobs", "1", "--bank", "b.db", "--json", *words]) == 0
        said: dict[str, Any] = json.loads(capsys.readouterr().out)
        return said

    plain, robust, again = run(), run("--robust"), run("--robust")
    states = [r.key.state for r in Bank.open("b.db").list()]
    assert sorted(s.rpartition("; ")[2] for s in states if s.endswith(("robust", "default"))) == ["default", "robust"] and len(states) == 3
    assert robust["found_in_bank"] == 0 and again["found_in_bank"] == 1
    assert sum(robust["groups"][0].pop("candidates").values()) > 30 and again["groups"][0].pop("candidates") == {}  # nothing was looked at
    assert sum(robust["groups"][0].pop("spent")["candidates"].values()) > 30 and again["groups"][0].pop("spent") == {}
    assert again["groups"] == robust["groups"]
    for facts in (plain, robust):
        group = facts["groups"][0]
        held = group["held"]
        assert group["tuned_us"] == group["default_us"] if held is None else held["machines"] == MACHINES
        assert facts["held"] == held
    assert robust["groups"][0]["held"] is None or robust["groups"][0]["held"]["confirmed"]


def test_times_of_a_program_and_of_a_search_have_ranges(tmp_path, capsys):
    func, prog = tmp_path / "f.tir", tmp_path / "f.prog"
    for words in (["lower", "matmul(m=64, k=64, n=64, fp16)", "-o", str(func)],
                  ["search", str(func), "--budget", "5", "-o", str(tmp_path / "f.sched")],
                  ["schedule", str(func), "--with", str(tmp_path / "f.sched"), "-o", str(tmp_path / "s.tir")],
                  ["emit", str(tmp_path / "s.tir"), "-o", str(prog)]):
        assert cli.main(words) == 0
    capsys.readouterr()
    assert cli.main(["simulate", str(prog), "--within", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert cli.main(["search", str(func), "--budget", "5", "--within", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    for w, us in ((made["within"], made["time_us"]), (found["within"], found["tuned_us"])):
        assert w["low_us"] <= us <= w["high_us"] and w["us"] == pytest.approx(us, abs=1e-3)
    assert cli.main(["search", str(func), "--budget", "5", "--within"]) == 0
    assert "within     " in capsys.readouterr().err
