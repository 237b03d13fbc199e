"""Reasons of gaps, each from a measure that was made by hand; and what is listed of a whole network."""
from __future__ import annotations

from dataclasses import replace

import pytest

from aoec.jobs.stages.stages import lower_operator
from aoec.simulate.reasons.reasons import Account, Reasons, Work
from aoec.simulate.timing.time import Measure
from aoec.target.machine import load
from bench import defaults, gaps
from bench.gaps import FAR, gap_of, operator_cases, why
from tests.oracle.opponents import least_ticks

pytestmark = pytest.mark.filterwarnings("ignore")  # of ONNX, as it makes its data
MACHINE = load("Ascend910B3")
CYCLES = 9000.0  # of a run
US = CYCLES / MACHINE.clock_mhz


def account(busy: float) -> Account:
    return Account(busy, 0.0, 0.0, 0.0, CYCLES - busy, 0.0, 0.0, 0.0, CYCLES, busy)


def work(op: str, pipe: str, path: str, times: int, cycles: float, gm_bytes: int = 0) -> Work:
    return Work(op, pipe, path, "x_UB", times, cycles, gm_bytes, {}, "one piece")


def measured(launch_us: float, accounts: dict[str, Account], found: tuple[Work, ...]) -> tuple[Measure, Reasons]:
    """A run on 40 cores whose reads all come from HBM."""
    moved = {w.path: {"hbm": float(w.gm_bytes * w.times), "l2": 0.0} for w in found if w.path}
    r = Reasons(accounts, (), found, moved, 0.0, 0.1, 0.1, {"main": 0}, 1.0, {"main": (40, 40)}, {"main": (0, 0)})
    return Measure(CYCLES, int(CYCLES * 1024), US + launch_us, launch_us, 40, {}, "", {}, 0.0, 0.0, 1, r), r


LOADS = work("copy_gm_ub", "MTE2", "GM->UB", 40, 1000.0, 2000)
VECTOR = work("vadd", "V", "", 100, 8000.0)
RATE = MACHINE.paths["gm_ub"].bytes_per_cycle


@pytest.mark.parametrize(("launch_us", "bound_us", "busy", "found", "reason"), [
    (1.0, US / 2, {"V": 8000.0}, (LOADS, VECTOR), "launch"),  # near its bound without the launch
    (US, US / 100, {"V": 8000.0}, (LOADS, VECTOR), "launch"),  # half of the time
    (1.0, US / 100, {"V": 3000.0}, (replace(LOADS, times=3), VECTOR), "short pipeline"),
    (1.0, US / 100, {"V": 3000.0}, (replace(LOADS, times=4), VECTOR), "structure"),
    (1.0, US / 100, {"V": 8000.0}, (replace(LOADS, times=3), VECTOR), "looser bound"),  # 80 cycles each
    (1.0, US / 100, {"V": 8000.0}, (LOADS, replace(VECTOR, times=1000)), "structure"),  # 8 cycles each
    # at the path's rate, and at half of it
    (1.0, US / 100, {"MTE2": 8000.0}, (replace(LOADS, cycles=8000.0, gm_bytes=int(200 * RATE)), VECTOR), "looser bound"),
    (1.0, US / 100, {"MTE2": 8000.0}, (replace(LOADS, cycles=8000.0, gm_bytes=int(100 * RATE)), VECTOR), "structure"),
    # single elements from where data say, on no path of two ends
    (1.0, US / 100, {"MTE2": 8000.0}, (work("copy_gm_ub_at", "MTE2", "", 266, 8000.0, 2), VECTOR), "structure"),
])
def test_a_reason_follows_from_the_measure(launch_us: float, bound_us: float, busy: dict[str, float], found: tuple[Work, ...],
                                           reason: str) -> None:
    m, r = measured(launch_us, {pipe: account(cycles) for pipe, cycles in busy.items()}, found)
    assert why(m, r, bound_us, MACHINE)[0] == reason


def test_a_group_near_its_bound_is_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one that is listed where the limit is lower, the times are its schedule's and the bound's."""
    case = "add", lower_operator("add(m=64,n=256)"), ()
    assert gap_of(case, MACHINE, 0) is None
    monkeypatch.setattr(gaps, "FAR", 1.0)
    gap = gap_of(case, MACHINE, 0)
    assert gap is not None and gap.launch_us < gap.us < FAR * gap.bound_us and gap.reason == "short pipeline"
    assert least_ticks(case[1], MACHINE, {}) * MACHINE.us_per_tick <= gap.bound_us < gap.us


def test_operators_of_onnx_are_each_once() -> None:
    found = list(operator_cases("test_add", MACHINE))
    assert {what.partition(" ")[0] for what, _, _ in found} >= {"add"}
    assert len({(func, state) for _, func, state in found}) == len(found)


def test_groups_of_networks_and_operators_are_listed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["--list", "--no-tune", "--network", "mlp_softmax", "--operators", "bitshift_left_uint64"]
    monkeypatch.setattr("sys.argv", ["defaults.py", *words])
    assert defaults.main() == 0
    head, *lines, last = capsys.readouterr().out.splitlines()
    assert head.startswith("group") and "Ascend910B3, modelled" in head
    assert last == f"{len(lines)} of 4 distinct groups: looser bound {len(lines)}" and len(lines) == 1
    us, bound, ratio = (float(word) for word in lines[0].partition("3->3")[2].split()[:3])
    assert lines[0].startswith("onnx             shift_left") and us > 3 * bound and ratio == pytest.approx(us / bound, 0.01)
