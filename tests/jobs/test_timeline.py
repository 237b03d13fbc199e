"""Timelines as traces and pictures: what is drawn is what happened, and pipes overlap as their flags say."""
from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

from aoec.base.errors import CheckError
from aoec.cli import main
from aoec.ir.text.parse import parse_program
from aoec.jobs.stages import timeline as job
from aoec.jobs.stages.timeline import View, observe
from aoec.report.pictures.chrome import trace
from aoec.report.pictures.panel import LEFT, RIGHT, WIDTH
from aoec.report.pictures.svg import SIZE_LIMIT, picture
from aoec.report.pictures.timeline import LANES, ORDER
from aoec.target.machine import load
from tests.oracle.slow_timeline import simulate
from tests.simulate.test_timeline_by_hand import LOAD, buffered, vector

PROGRAMS = sorted((Path(__file__).parents[1] / "programs").glob("*.prog"))
SVG = "{http://www.w3.org/2000/svg}"


DEFAULT = View()


def shown(text, view=DEFAULT):
    """All of a timeline, as a trace has it."""
    return seen(text, view).trace()


def seen(text, view=DEFAULT):
    program = parse_program(text)
    return observe(program, load(program.target), view)


@pytest.fixture(params=PROGRAMS, ids=lambda p: p.stem)
def text(request):
    return request.param.read_text(encoding="utf-8")


def test_slices_are_the_slow_simulators_and_lanes_never_overlap(text):
    program = parse_program(text)
    drawn, slow = shown(text), simulate(program, load(program.target))
    assert [c.name.partition(".")[0] for c in drawn.cores] == [s.name for s in program.streams]
    for core in drawn.cores:
        told = next(c for c in slow.cores if f"{c.stream.name}.{c.index}" == core.name)
        assert round(core.end * 1024) == told.end
        for pipe, lane in LANES.items():
            slices = core.lanes.get(lane, ())
            runs = [(round(s.start * 1024), round(s.end * 1024), round(s.done * 1024)) for s in slices if s.kind == "run"]
            assert runs == [(n.start, n.end, n.done) for n in told.notes if n.pipe == pipe and hasattr(n.item, "op")]
            assert all(a.end <= b.start for a, b in pairwise(slices))


def test_pipes_overlap_as_the_flags_say(text):
    """Nothing runs on a pipe while it waits, and what it waits for is done on the setting pipe when the flag is set."""
    for core in shown(text).cores:
        assert core.arrows
        for a in core.arrows:
            done = {s.done for s in core.lanes[a.source] if s.kind == "run"}
            assert a.set_at in done or a.set_at < min(done)  # the free flags are set before anything runs
            wait = next(s for s in core.lanes[a.target] if s.kind == "wait" and s.end == a.go_at)
            others = [s for s in core.lanes[a.target] if s is not wait]
            assert a.set_at < a.go_at and not [s for s in others if s.start < wait.end and s.end > wait.start]


def test_two_slots_overlap_and_one_does_not():
    def overlap(depth):
        core = shown(buffered(depth, 6)).cores[0]
        loads, adds = ([s for s in core.lanes[lane] if s.kind == "run"] for lane in ("MTE2", "VECTOR"))
        return sum(max(0.0, min(a.end, b.end) - max(a.start, b.start)) for a in loads for b in adds)
    assert overlap(1) == 0 and overlap(2) > 0


# ---------------------------------------------------------------- Chrome trace

def test_a_trace_is_what_viewers_read(text):
    drawn = shown(text)
    said = json.loads(trace(drawn))
    assert said["otherData"]["times"] == "modelled" and said["otherData"]["verdict"]
    events = said["traceEvents"]
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    order = {(e["pid"], e["tid"]): e["args"]["sort_index"] for e in events if e["name"] == "thread_sort_index"}
    assert all(order[k] == ORDER.index(n) for k, n in names.items())
    processes = [e["args"]["name"] for e in events if e["name"] == "process_name"]
    assert processes == [f"{c.process} ({c.name})" for c in drawn.cores]
    for (pid, _), lane in names.items():
        slices = [e for e in events if e["ph"] == "X" and e["pid"] == pid and names[pid, e["tid"]] == lane]
        wanted = drawn.cores[pid].lanes.get(lane, ())
        assert len(slices) == len(wanted)
        for e, s in zip(slices, wanted, strict=True):
            assert e["ts"] == pytest.approx(drawn.us(s.start), abs=1e-3) and e["args"]["cycles"] == s.end - s.start
        assert all(round((a["ts"] + a["dur"]) * 1000) <= round(b["ts"] * 1000) for a, b in pairwise(slices))


def test_arrows_start_and_end_inside_slices():
    events = json.loads(trace(shown(buffered(2, 6))))["traceEvents"]
    lanes = {e["tid"]: [x for x in events if x["ph"] == "X" and x["tid"] == e["tid"]] for e in events if e["ph"] in "sf"}
    ends = [e for e in events if e["ph"] in "sf"]
    assert len({e["id"] for e in ends}) * 2 == len(ends) > 0
    for e in ends:
        assert [x for x in lanes[e["tid"]] if x["ts"] <= e["ts"] <= x["ts"] + x["dur"]] or e["ph"] == "s"


def test_a_window_of_a_trace():
    some = json.loads(trace(shown(buffered(2, 60), View((), 300.0, 500.0))))["traceEvents"]
    slices = [e["args"] for e in some if e["ph"] == "X"]
    assert slices and all(s["start_cycle"] <= 500 and s.get("done_cycle", s["start_cycle"] + s["cycles"]) >= 300 for s in slices)
    assert len(some) < len(json.loads(trace(shown(buffered(2, 60))))["traceEvents"])


# ---------------------------------------------------------------- picture

def rectangles(svg, words):
    """(x, width, title) of the rectangles whose title starts so."""
    root = ElementTree.fromstring(svg)
    out = []
    for r in root.iter(f"{SVG}rect"):
        title = r.find(f"{SVG}title")
        if title is not None and title.text.startswith(words):
            out.append((float(r.get("x")), float(r.get("width")), title.text))
    return out


def test_rectangles_stand_where_the_events_are():
    drawn = shown(buffered(2, 6))
    svg, core = picture(seen(buffered(2, 6)).picture()), drawn.cores[0]
    scale = (WIDTH - LEFT - RIGHT) / core.end
    loads = [s for s in core.lanes["MTE2"] if s.kind == "run"]
    found = [r for r in rectangles(svg, "copy_gm_ub") if "cycles" in r[2]]
    assert [x for x, _, _ in found] == pytest.approx([LEFT + s.start * scale for s in loads], abs=0.02)
    assert [w for _, w, _ in found] == pytest.approx([(s.end - s.start) * scale for s in loads], abs=0.02)
    waits = [s for lane in core.lanes.values() for s in lane if s.kind == "wait"]
    assert len(rectangles(svg, "wait for")) == len(waits) and "a free slot of X" in svg


def test_both_axes_have_round_numbers_where_they_belong():
    drawn = seen(buffered(2, 6)).picture()
    end = drawn.cores[0].end
    told = [(float(t.get("x")), t.text) for t in ElementTree.fromstring(picture(drawn)).iter(f"{SVG}text") if t.get("class") == "s"]
    for end_value, numbers in ((end, [(x, w) for x, w in told if re.fullmatch(r"[0-9.,]+", w)]),
                               (drawn.us(end), [(x, w.removesuffix(" µs")) for x, w in told if re.fullmatch(r"[0-9.,]+ µs", w)])):
        values = [float(w.replace(",", "")) for _, w in numbers]
        assert len(values) > 4 and [x for x, _ in numbers] == pytest.approx(
            [LEFT + (WIDTH - LEFT - RIGHT) * v / end_value for v in values], abs=0.1)
        assert float(f"{values[1]:e}".partition("e")[0]) in (1, 2, 5)
        assert values == pytest.approx([i * values[1] for i in range(len(values))])


def test_a_picture_stands_alone(text):
    svg = picture(seen(text).picture())
    root = ElementTree.fromstring(svg)
    assert not re.search(r"<script|href=|@import|url\((?!#)", svg) and "modelled" in svg
    assert root.get("width") == str(WIDTH)


def test_long_timelines_are_windows_of_bounded_size():
    long = vector(ADDS.replace("TIMES", "12000"))
    drawn = seen(long).picture()
    core = drawn.cores[0]
    assert [w.caption for w in core.windows] == ["beginning", "middle", "end"]
    for w in core.windows:
        assert [s for s in core.lanes["MTE2"] if w.start <= s.start and s.end <= w.stop], w.caption
    assert sum(len(s) for s in core.lanes.values()) < 2000
    svg = picture(drawn)
    assert 20_000 < len(svg) < SIZE_LIMIT and len(ElementTree.fromstring(svg)) > 100
    whole = picture(seen(long, View((), 0.0, core.end)).picture())
    assert len(whole) < SIZE_LIMIT and "slices, cycles" in whole


def test_the_strip_of_a_long_timeline_covers_what_is_busy():
    drawn = seen(vector(ADDS.replace("TIMES", "3000"))).picture()
    core = drawn.cores[0]
    busy = drawn.measure["busy_cycles"]["MTE2"]
    strip = core.strip["MTE2"]
    assert all(a.end <= b.start for a, b in pairwise(strip)) and strip[-1].end <= core.end + 1e-6
    assert sum((s.end - s.start) * s.facts["share"] for s in strip if s.kind == "run") == pytest.approx(busy, rel=0.2)
    waits = [s for s in core.strip["VECTOR"] if s.kind == "wait"]
    assert sum(s.end - s.start for s in waits) == pytest.approx(drawn.measure["reasons"]["accounts"]["V"]["flags"], rel=0.01)


ADDS = """for i in TIMES {
  copy_gm_ub(dst=X[0], src=A[0], bursts=1, length=32, src_gap=0, dst_gap=0)
  set(MTE2, V, 0)
  wait(MTE2, V, 0)
}"""


def test_what_is_left_out_is_said(monkeypatch):
    drawn = shown(buffered(2, 60), View(events=50))
    assert "the first 50 of" in trace(drawn) and sum(len(s) for s in drawn.cores[0].lanes.values()) <= 52
    monkeypatch.setattr(job, "KEPT", 40)
    assert "the first 40 of" in picture(seen(buffered(2, 60)).picture())
    with pytest.raises(CheckError, match="the first 40 events end at"):
        seen(buffered(2, 60), View((), 1000.0)).picture()


def test_names_from_a_program_do_not_break_the_picture():
    text = vector(LOAD.format(320)).replace("program p", 'program "<&>\\"x"')
    ElementTree.fromstring(picture(seen(text).picture()))


# ---------------------------------------------------------------- the command

@pytest.mark.parametrize(("options", "words"), [
    (["--core", "9"], "stream cube has no core 9"), (["--core", "x.0"], "no stream x"), (["--core", "x"], "not of the form cube.0"),
    (["--from", "900000"], "starts at or after the end, cycle"), (["--from", "90", "--to", "80"], "does not lie before --to")])
def test_what_cannot_be_shown_is_refused(options, words, tmp_path, capsys):
    path = tmp_path / "x.svg"
    assert main(["simulate", str(PROGRAMS[0]), "--svg", str(path), *options]) == 2
    said = capsys.readouterr()
    assert words in said.err and not said.out and not list(tmp_path.iterdir()) and said.err.strip().count("\n") <= 1


def test_files_are_written_whole_or_not_at_all(tmp_path, capsys):
    svg, chrome = tmp_path / "x.svg", tmp_path / "x.json"
    part = ["--core", "cube.1", "--from", "100", "--to", "900"]
    assert main(["simulate", str(PROGRAMS[0]), "--svg", str(svg), "--trace", str(chrome), *part]) == 0
    assert "core cube.1" in svg.read_text() and json.loads(chrome.read_text())["traceEvents"]
    assert "wait flag" in capsys.readouterr().out
    assert main(["simulate", str(PROGRAMS[0]), "--svg", str(tmp_path / "no" / "x.svg")]) == 2
    assert sorted(tmp_path.iterdir()) == [chrome, svg]


def test_a_core_needs_its_stream_where_there_are_two():
    program = parse_program(PROGRAMS[1].read_text())
    with pytest.raises(CheckError, match="of which stream"):
        observe(program, load(program.target), View(["0"]))
