"""Rows of a sweep are what the single commands say of the same thing; what is swept, drawn and kept is what was asked for."""
from __future__ import annotations

import csv
import json
import os
import re
import signal
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from aoec.base.errors import AoecError, CheckError
from aoec.base.ranges import axis
from aoec.cli import main
from aoec.ir.text.show import show
from aoec.jobs.stages.stages import emit_text, lower_operator, program_text, schedule_text
from aoec.jobs.sweep import sweep as job
from aoec.jobs.sweep.sweep_plan import plan
from aoec.jobs.sweep.sweep_time import Cell, How, Row
from aoec.simulate.timing.state import NAMED
from aoec.simulate.timing.time import measure

FUNCS = Path(__file__).parents[1] / "funcs"
HOLES = {"matmul": {"tm": (5, 8, 16, 32), "gm": (1, 2), "tn": (8, 16), "gn": (1, 2, 3), "tk1": (16, 24, 64), "tk0": (7, 8, 16),
                    "d1": (1, 2), "d0": (1, 2), "dc": (1, 2)}}
FUNC = (FUNCS / "matmul.tir").read_text().replace("33", "40")  # columns in whole blocks: the bias of 33 would be read beyond its end

LEGAL = [w for v in ("tm=16", "gm=1", "tn=16", "gn=1", "tk1=64", "tk0=16", "d1=2", "d0=2", "dc=1") for w in ("--set", v)]


def swept(source: str, traces: list[str], axes: list[str], targets: list[str], state: str = "cold", brief: bool = False) -> list[Row]:
    """The rows of a sweep."""
    what = plan(source, traces, [axis(a) for a in axes], targets, False)
    return list(job.rows(what, How(NAMED[state], brief, "genetic", 0, 0)))


def single(func: str, schedule: str, values: dict[str, int], target: str, state: str) -> Any:
    """The measure that `schedule | emit | simulate` give, or the refusal of one of them."""
    try:
        made = show(schedule_text(func, "f", schedule, "s", values))
        return measure(*program_text(show(emit_text(made, "t", target, {})), "p", target, {}), NAMED[state])
    except AoecError as e:
        return str(e)


@settings(max_examples=6, phases=(Phase.generate,))  # each example runs the commands some eight times
@given(st.data())
def test_rows_are_what_the_single_commands_say(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("sweep") / "f.tir"
    fixed = {name: data.draw(st.sampled_from(choices), name) for name, choices in HOLES["matmul"].items()}
    wide = data.draw(st.sampled_from(["tm", "tn", "tk0"]))
    sizes = data.draw(st.lists(st.integers(1, 70), min_size=1, max_size=2, unique=True))
    state, target = data.draw(st.sampled_from(["cold", "previous", "cleared"])), data.draw(st.sampled_from(["Ascend910B3", "Ascend910B4"]))
    axes = [f"m={','.join(map(str, sizes))}", f"{wide}=all", *(f"?{n}={v}" for n, v in fixed.items() if n != wide)]
    path.write_text(FUNC)
    found = swept(str(path), [str(FUNCS / "matmul.sched")], axes, [target], state)
    assert [(r["m"], r[f"?{wide}"]) for r in found] == [(m, v) for m in sizes for v in HOLES["matmul"][wide]]
    for row in found:
        same(row, target, state)


@pytest.mark.parametrize("target, state", [("Ascend910B3", "cold"), ("Ascend910B4", "previous")])
def test_rows_that_differ_are_each_their_own(target: str, state: str, tmp_path: Path) -> None:
    """Legal ones of many sizes beside each other: other trips, cores, bytes and slots in each."""
    (tmp_path / "f.tir").write_text(FUNC)
    axes = ["m=60", "tm=16,32", "gm=1,2", "tn=8,16", "gn=1,3", "tk1=16,64", "tk0=16", "d1=1,2", "d0=2", "dc=1"]
    found = [r for r in swept(str(tmp_path / "f.tir"), [str(FUNCS / "matmul.sched")], axes, [target], state) if r["status"] == "timed"]
    assert len({r["cycles"] for r in found}) > 10 and len({r["bytes.GM->L1"] for r in found}) > 1
    for row in found[::5]:
        same(row, target, state)


def same(row: Row, target: str, state: str) -> None:
    """The row is what the single commands say."""
    values = {name[1:]: v for name, v in row.items() if name.startswith("?")}
    alone = single(FUNC.replace("20", str(row["m"])), (FUNCS / "matmul.sched").read_text(), values, target, state)
    assert (row["status"] == "timed") == (not isinstance(alone, str)), (row, alone)
    if row["status"] == "timed":
        assert (row["cycles"], row["time_us"], row["launch_us"], row["cores"]) == (
            alone.cycles, alone.time_us, alone.launch_us, alone.cores)
        assert {k[12:]: v for k, v in row.items() if k.startswith("busy_cycles.")} == alone.busy_cycles
        assert {k[6:]: v for k, v in row.items() if k.startswith("bytes.")} == alone.bytes_by_path
        assert (row["hbm_bytes"], row["bound_by"], row["verdict"]) == (alone.hbm_bytes, alone.bound_by, alone.verdict.bound)
        assert row["bound_us"] <= row["time_us"]


def test_brief_rows_say_the_same_times() -> None:
    source, traces = str(FUNCS / "matmul.tir"), [str(FUNCS / "matmul.sched")]
    axes = ["m=16,40", "tm=all", "gm=1", "tn=all", "gn=1,2", "tk1=64", "tk0=16", "d1=2", "d0=2", "dc=1"]
    full, short = (swept(source, traces, axes, ["Ascend910B3", "Ascend910A"], brief=b) for b in (False, True))
    assert len(full) == len(short) == 2 * 16 * 2
    for a, b in zip(full, short):
        assert b == {k: v for k, v in a.items() if k in b} and ("time_us" in b) == (a["status"] == "timed")
    assert {r["status"] for r in full} == {"timed", "illegal"}


def test_illegal_rows_say_which_limit_by_how_much() -> None:
    axes = ["tm=all", "gm=2", "tn=16", "gn=1", "tk1=64", "tk0=16", "d1=2", "d0=2", "dc=1", "m=32768"]
    rows = swept(str(FUNCS / "matmul.tir"), [str(FUNCS / "matmul.sched")], ["?tm=5,7,32", *axes[1:-1], "m=16"], ["Ascend910B3"])
    assert [r["status"] for r in rows] == ["timed", "illegal", "illegal"]
    assert rows[1]["reason"] == "hole ?tm takes 5, 8, 16, 32, not 7"
    assert rows[2]["reason"].startswith("none of the parts of loop mt is empty") and "1" in rows[2]["reason"].partition("(")[2]


def test_a_hole_in_a_shape_is_swept_in_one_lowering(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (FUNCS / "matmul.tir").read_text().replace("[20,", "[?rows,").replace("m in 20", "m in ?rows")
    (tmp_path / "f.tir").write_text(text)
    emitted = []
    plain = Cell.emit
    monkeypatch.setattr(Cell, "emit", lambda self, c: emitted.append(c) or plain(self, c))
    axes = ["?rows=16..64*2", "tm=16", "gm=1", "tn=16", "gn=1", "tk1=64", "tk0=16", "d1=2", "d0=2", "dc=1"]
    rows = swept(str(tmp_path / "f.tir"), [str(FUNCS / "matmul.sched")], axes, ["Ascend910B3"])
    fixed = swept(str(FUNCS / "matmul.tir"), [str(FUNCS / "matmul.sched")], ["m=16..64*2", *axes[1:]], ["Ascend910B3"])
    assert len(emitted) == 1 + 3 and [r["cycles"] for r in rows] == [r["cycles"] for r in fixed]
    assert [r["bound_us"] for r in rows] == [r["bound_us"] for r in fixed]


# ---------------------------------------------------------------- the command

def run(folder: Path, *words: str) -> tuple[int, list[dict[str, str]]]:
    """The exit code of a sweep into out.csv, and its rows."""
    code = main(["sweep", *words, "-o", str(folder / "out.csv")])
    return code, list(csv.DictReader((folder / "out.csv").read_text("utf-8").splitlines()))


def test_default_and_tuned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, rows = run(tmp_path, "softmax(n=64)", "--set", "m=48,64", "--tune", "30", "--verify")
    assert code == 0 and [(r["m"], r["schedule"]) for r in rows] == [(m, s) for m in ("48", "64") for s in ("default", "tuned")]
    assert all(r["verified"] == "yes" and "=" in r["found"] and r["status"] == "timed" for r in rows)
    for default, tuned in zip(rows[::2], rows[1::2]):
        assert float(tuned["bound_us"]) <= float(tuned["time_us"]) <= float(default["time_us"])
    said = capsys.readouterr()
    assert "modelled" in said.out and "tuned" in said.out and "4 rows: 4 timed" in said.err
    again = tmp_path / "again"
    again.mkdir()
    run(again, "softmax(n=64)", "--set", "m=48,64", "--tune", "30", "--verify")
    assert (again / "out.csv").read_bytes() == (tmp_path / "out.csv").read_bytes()


def test_a_search_fills_what_is_open_and_never_does_worse_than_a_value(tmp_path: Path) -> None:
    holes = [w for v in ("tm=16", "tk1=64", "tk0=16", "d1=2", "d0=2", "dc=1") for w in ("--set", v)]
    words = [str(FUNCS / "matmul.tir"), "--with", str(FUNCS / "matmul.sched"), "--set", "m=16..64*2", *holes]
    _, every = run(tmp_path, *words, "--set", "gm=all", "--set", "gn=all", "--set", "tn=all")
    code, best = run(tmp_path, *words, "--tune", "100")
    assert code == 0 and len(best) == 3
    for row in best:
        values = dict(word.split("=") for word in row["found"].split())
        same = [r for r in every if r["m"] == row["m"] and r["status"] == "timed"]
        assert float(row["time_us"]) == min(float(r["time_us"]) for r in same)
        assert [r["cycles"] for r in same if all(r[f"?{n}"] == v for n, v in values.items())] == [row["cycles"]]


# the hole names of aoec's own spaces: what a schedule that somebody wrote calls so may be anything, and the others may be missing
OWN_NAMES = ("tm", "tn", "n1", "tk", "sk", "rk", "pm", "pn", "da", "db", "d0a", "dc", "do", "uc", "pl", "g0", "gm", "gh", "sc", "th", "tw",
             "h0", "w0")


@settings(max_examples=8, phases=(Phase.generate,))
@given(st.data())
def test_a_search_fills_holes_of_any_name(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Tiles and slots under names that the search has habits for: each row is found and legal, whichever partners are missing."""
    path = tmp_path_factory.mktemp("named")
    wanted = {"tm": (8, 16, 32), "tn": (8, 16), "tk1": (24, 64), "d1": (3, 4), "gm": (1, 2)}
    fixed = {"gn": 1, "tk0": 16, "d0": 2, "dc": 1}
    names = data.draw(st.permutations(OWN_NAMES))
    text = (FUNCS / "matmul.sched").read_text().replace("B_L1, depth=?d1", "B_L1, depth=1")  # six flags stand between MTE2 and MTE1
    for (hole, choices), name in zip(wanted.items(), names):
        text = re.sub(rf"\?{hole}\b( in \[[^]]*\])?", f"?x_{name} in {list(choices)}", text, count=1)
        text = re.sub(rf"\?{hole}\b(?! in)( in \[[^]]*\])?", f"?x_{name}", text)
    for hole, value in fixed.items():
        text = re.sub(rf"\?{hole}\b( in \[[^]]*\])?", str(value), text)
    (path / "f.tir").write_text(FUNC)
    (path / "f.sched").write_text(text.replace("?x_", "?"))
    what = plan(str(path / "f.tir"), [str(path / "f.sched")], [], [], True)
    (row,) = job.rows(what, How(NAMED["cold"], True, "genetic", 20, 0))
    assert row["status"] == "timed", row["reason"]
    assert {w.partition("=")[0] for w in row["found"].split()} == set(names[:len(wanted)])


def test_json_is_the_same_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["softmax(m=8, n=64)", "--set", "n=64,128", "--target", "Ascend910B3", "--target", "Ascend310P3"]
    _, rows = run(tmp_path, *words)
    capsys.readouterr()
    assert main(["sweep", *words, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["kind"] == "modelled" and facts["swept"] == ["n"]
    assert [(str(r["n"]), r["target"], r["cycles"]) for r in facts["rows"]] == [(r["n"], r["target"], float(r["cycles"])) for r in rows]
    assert facts["rows"][0]["busy_cycles"] == {k[12:]: float(v) for k, v in rows[0].items() if k.startswith("busy_cycles.") and v}


def test_a_scheduled_func_is_swept_as_written(tmp_path: Path) -> None:
    made = schedule_text((FUNCS / "matmul.tir").read_text(), "f", (FUNCS / "matmul.sched").read_text(), "s", {"tm": 16, "tk1": 64})
    (tmp_path / "s.tir").write_text(show(made))
    sets = [w for v in ("gm=1", "tn=16", "gn=1", "tk0=16", "d1=1,2", "d0=2", "dc=1") for w in ("--set", v)]
    code, rows = run(tmp_path, str(tmp_path / "s.tir"), *sets)
    assert code == 0 and [(r["schedule"], r["?d1"], r["status"], r["bound_us"]) for r in rows] == [
        ("as written", "1", "timed", ""), ("as written", "2", "timed", "")]


def test_wrong_values_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against a reference of another meaning: the schedule is right, and the row says that values differ."""
    from aoec.jobs.sweep import sweep_values
    plain = sweep_values.evaluate_whole
    monkeypatch.setattr(sweep_values, "evaluate_whole", lambda f, feeds: {n: x + np.float16(1) for n, x in plain(f, feeds).items()})
    (tmp_path / "f.tir").write_text(FUNC)
    words = [str(tmp_path / "f.tir"), "--with", str(FUNCS / "matmul.sched"), "--verify"]
    code, rows = run(tmp_path, *words, *LEGAL)
    assert code == 1 and rows[0]["status"] == "wrong value" and "elements differ from the reference" in rows[0]["reason"]
    monkeypatch.undo()
    code, rows = run(tmp_path, str(FUNCS / "matmul.tir"), *words[1:], *LEGAL)
    assert code == 0 and rows[0]["status"] == "illegal" and "bytes 128 to 160 of bias" in rows[0]["reason"] and not rows[0]["cycles"]
    code, rows = run(tmp_path, *words, *LEGAL, "--set", "m=20,200000000")
    assert code == 0 and rows[0]["verified"] == "yes" and rows[1]["verified"].startswith("skipped: ")


def test_values_of_a_func_with_holes_in_its_shape(tmp_path: Path) -> None:
    (tmp_path / "f.tir").write_text((FUNCS / "elementwise.tir").read_text().replace("50", "?n"))
    words = [str(tmp_path / "f.tir"), "--with", str(FUNCS / "elementwise.sched"), "--verify"]
    code, rows = run(tmp_path, *words, *[w for v in ("?n=7,50,100", "t=8,64", "g=1", "d=2") for w in ("--set", v)])
    assert code == 0 and len(rows) == 6 and all(r["verified"] == "yes" for r in rows)
    code, rows = run(tmp_path, *words[:1], "--verify", "--set", "?n=50,100")
    assert code == 0 and [(r["schedule"], r["verified"]) for r in rows] == [("default", "yes")] * 2


def test_an_operators_values_are_checked_against_numpy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, rows = run(tmp_path, "conv2d(n=1, c=20, h=9, w=9, co=18, kh=3, kw=3, relu, bias)", "--set", "pad=1", "--verify")
    assert code == 0 and [(r["pad"], r["verified"]) for r in rows] == [("1", "yes")]
    code, rows = run(tmp_path, "matmul(m=32768, k=512, n=4096)", "--verify", "--brief")
    assert rows[0]["verified"].startswith("skipped: 1,207,") and "values not checked: 1 row (skipped" in capsys.readouterr().err


def test_dumped_schedules_say_the_rows_again(tmp_path: Path) -> None:
    code, rows = run(tmp_path, "softmax(n=64)", "--set", "m=48,64", "--tune", "30", "--dump", str(tmp_path / "found"))
    assert code == 0 and [r["file"] for r in rows] == [f"{s}.Ascend910B3.m={m}.sched" for m in (48, 64) for s in ("default", "tuned")]
    for row in rows:
        func = show(lower_operator(f"softmax(n=64, m={row['m']})"))
        alone = single(func, (tmp_path / "found" / row["file"]).read_text(), {}, "Ascend910B3", "cold")
        assert alone.cycles == pytest.approx(float(row["cycles"]), abs=1e-6)


# ---------------------------------------------------------------- pictures

def test_the_picture_says_what_it_shows(tmp_path: Path) -> None:
    values = ("m=16,640", "?tm=all", "?gm=2", "tn=16", "gn=1", "tk1=64", "tk0=16", "d1=2", "d0=2", "dc=1")
    picture = tmp_path / "out.svg"
    words = [str(FUNCS / "matmul.tir"), "--with", str(FUNCS / "matmul.sched"), "--with", "default", "--plot", str(picture)]
    code, rows = run(tmp_path, *words, *[w for v in values for w in ("--set", v)])
    assert code == 0
    root = ElementTree.parse(picture).getroot()
    words = [e.text or "" for e in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "m (log scale)" in words and "µs, modelled" in " ".join(words) and {"matmul", "default", "16", "640"} <= set(words)
    assert "lower bound of any schedule" in words
    titles = [e.text or "" for e in root.iter("{http://www.w3.org/2000/svg}title")]
    best = min(float(r["time_us"]) for r in rows if r["m"] == "640" and r["schedule"] == "matmul" and r["time_us"])
    assert f"matmul, 640: {best:,.2f} µs modelled" in titles
    assert not any(word in picture.read_text("utf-8") for word in ("<script", "href", "url("))


# ---------------------------------------------------------------- what is refused, and what is kept

@pytest.mark.parametrize("words, said", [
    (["matmul(k=64, n=64)"], "matmul needs m=... too"),
    (["matmul(m=64, k=64, n=64)", "--set", "q=1,2"], "has no size q, and no schedule such a hole"),
    (["matmul(m=64, k=64, n=64)", "--set", "?m=1,2"], "no schedule and no shape has a hole ?m"),
    (["matmul(m=64, k=64, n=64)", "--set", "m=1", "--set", "m=2"], "m is swept twice"),
    (["matmul(m=64, k=64, n=64)", "--set", "m=all"], "size m has no choices of its own"),
    (["matmul(m=64, k=64, n=64)", "--set", "m=1..1000", "--set", "n=1..1001"], "these are 1,001,000 combinations, and at most 1,000,000"),
    (["matmul(m=64, k=64, n=64)", "--set", "m"], "is not of the form m=128..8192*2"),
    (["matmul(m=64, k=64, n=64)", "--plot", "x.svg"], "there is nothing to draw along"),
    (["matmul(m=64, k=64, n=64)", "--with", "tuned"], "give --tune N"),
    (["mat(m=64)"], "unknown operator mat"),
    (["softmax(n=64)", "--set", "m=0,8"], "m must lie between 1 and 1,048,576"),
    ([str(FUNCS / "conv2d.tir"), "--set", "ho=4,8"], "what ho walks is ambiguous in func conv2d"),
    (["softmax(m=8, n=64)", "--set", "m=1..20000", "--dump", "d"], "--dump would write 20,000 files"),
    (["nothing.tir"], "cannot read nothing.tir"),
    (["matmul(m=64, k=64, n=64)", "--target", "Ascend1"], "target Ascend1 is unknown"),
    (["matmul(m=64, k=64, n=64)", "--tune", "0"], "is not a whole number above 0"),
    ([str(FUNCS / "matmul.tir"), "--with", str(FUNCS / "matmul.sched"), "--set", "tm=16"],
     '--set "?gm=all"'),
    (["-", "--with", "-"], "cannot both come from standard input"),
])
def test_refusals(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["sweep", *words])
    err = capsys.readouterr().err
    assert code == 2 and said in err and err.count("\n") <= 4


def test_loops_that_go_together_or_hide_a_column_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "f.tir").write_text("func f(A: fp16[50]) -> (Y: fp16[50]) { for i in 50 { y: Y[i] = A[i] } }")
    (tmp_path / "g.tir").write_text((tmp_path / "f.tir").read_text().replace("i in", "cycles in").replace("[i]", "[cycles]"))
    assert main(["sweep", str(FUNCS / "matmul.tir"), "--set", "m=16,32", "--set", "om=64"]) == 2
    assert "loops m and om of" in capsys.readouterr().err
    assert main(["sweep", str(tmp_path / "g.tir"), "--set", "cycles=16,32"]) == 2
    assert "the rows have a column of that name" in capsys.readouterr().err


def test_a_hole_may_have_the_name_of_a_size(tmp_path: Path) -> None:
    (tmp_path / "a.sched").write_text((FUNCS / "elementwise.sched").read_text().replace("?t in", "?j in"))
    words = [str(FUNCS / "elementwise.tir"), "--with", str(tmp_path / "a.sched"), "--set", "j=64,128", "--set", "?j=all"]
    code, rows = run(tmp_path, *words, "--set", "g=1", "--set", "d=1", "--brief")
    assert code == 0 and [(r["j"], r["?j"]) for r in rows] == [(j, t) for j in ("64", "128") for t in ("8", "16", "64")]


def test_a_schedule_with_a_wrong_step_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.sched").write_text("sched {\n  splitt(loop=m, factor=16, outer=a, inner=b)\n}\n")
    assert main(["sweep", "matmul(m=64, k=64, n=64)", "--with", str(tmp_path / "a.sched")]) == 2
    assert "a.sched:2:3" in capsys.readouterr().err


def test_ctrl_c_keeps_the_rows_that_are_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    plain = job.func_of

    def second(what: Any, sizes: dict[str, int]) -> Any:
        if sizes["m"] == 32:
            os.kill(os.getpid(), signal.SIGINT)
        return plain(what, sizes)
    monkeypatch.setattr(job, "func_of", second)
    path = tmp_path / "out.csv"
    words = [str(FUNCS / "matmul.tir"), "--with", str(FUNCS / "matmul.sched"), "--set", "m=16,32,48,64", *LEGAL]
    assert main(["sweep", *words, "-o", str(path)]) == 130
    rows = list(csv.DictReader(path.read_text().splitlines()))
    assert [(r["m"], r["status"]) for r in rows] == [("16", "timed"), ("32", "timed")]
    assert f"the 2 of 4 rows that were done are in {path}" in capsys.readouterr().err


def test_too_many_is_said_before_anything_is_read_twice() -> None:
    with pytest.raises(CheckError, match="1,000 of m x 1,001 of n x 1 schedule with holes' values x 1 machine;"):
        plan("matmul(m=64, k=64, n=64)", [], [axis("m=1..1000"), axis("n=1..1001")], [], False)


def test_lowering_is_what_lower_says() -> None:
    what = plan("matmul(k=64, n=64)", [], [axis("m=16")], [], False)
    assert what.title == "matmul(k=64, n=64, m=16)"
    assert plan("matmul(m=8, k=64, n=64, relu)", [], [axis("m=16,32")], [], False).title == "matmul(k=64, n=64, relu)"
    assert show(what.subject.func({"m": 16})) == show(lower_operator("matmul(m=16, k=64, n=64)"))
