"""What explain says of one candidate and of two: steps of the published ladder of a matrix product, small, and what users may give."""
from __future__ import annotations

import json
import re
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from aoec.cli import main
from aoec.jobs.stages import explain as job
from aoec.report import explain

PROGRAMS = Path(__file__).parents[1] / "programs"
STEPS = """sched {{
  split(loop=m, factor=128, outer=m_t, inner=m_i)
  split(loop=m_t, parts=4, outer=m_c, inner=m_s)
  split(loop=n, factor=256, outer=n_t, inner=n_i)
  split(loop=n_t, parts=6, outer=n_c, inner=n_s)
  split(loop=k, factor={chunk}, outer=k_1, inner=k_r)
  split(loop=k_r, factor=64, outer=k_0, inner=k_i)
  reorder(loops=[m_c, n_c, m_s, n_s, k_1, k_0, m_i, n_i, k_i])
  compute_at(block=out, loop=n_s)
  set_scope(buffer=C, scope=L0C, layout=NZ)
  cache_read(block=mm, buffer=A, scope=L1, at=k_1, layout=NZ)
  cache_read(block=mm, buffer=A_L1, scope=L0A, at=k_0, layout=ZZ)
  cache_read(block=mm, buffer=B, scope=L1, at=k_1, layout=ZN)
  cache_read(block=mm, buffer=B_L1, scope=L0B, at=k_0, layout=ZN)
  tensorize(loop=m_i, instr=mmad)
  tensorize(loop=out_m, instr=fixpipe)
  double_buffer(buffer=A_L1, depth={depth})
  double_buffer(buffer=B_L1, depth={depth})
  double_buffer(buffer=A_L0A, depth=2)
  double_buffer(buffer=B_L0B, depth=2)
  bind(loop=m_c)
  bind(loop=n_c)
}}
"""


@pytest.fixture(scope="module")
def ladder(tmp_path_factory):
    """(func, first step, last step): small loads into one slot, and large ones into two."""
    folder = tmp_path_factory.mktemp("ladder")
    paths = folder / "g.tir", folder / "first.sched", folder / "last.sched"
    assert main(["lower", "matmul(m=1024, k=1024, n=1536, fp16)", "-o", str(paths[0])]) == 0
    paths[1].write_text(STEPS.format(chunk=64, depth=1))
    paths[2].write_text(STEPS.format(chunk=256, depth=2))
    return paths


def options(ladder, *words):
    return ["explain", str(ladder[1]), *words, "--func", str(ladder[0]), "--target", "Ascend910B1"]


def test_the_first_step_waits_for_its_one_slot_and_loads_short_rows(ladder, capsys):
    assert main(options(ladder)) == 0
    said = capsys.readouterr().out
    assert "modelled" in said and "free slot of A_L1, which has one slot" in said and "128 rows of 128 bytes" in said
    assert "critical path of core aic.0" in said and "MTE2 work: copy_gm_l1_nd2nz A_L1" in said


def test_what_changed_between_the_steps_and_what_it_cost(ladder, capsys):
    assert main(options(ladder, str(ladder[2]))) == 0
    said = capsys.readouterr().out
    assert "b is 1." in said and "times as fast" in said and "A_L1 has 2 slots instead of 1" in said
    assert "buffer A_L1: 1 slot of 16,384 bytes in L1 -> 2 slots of 65,536 bytes in L1" in said
    assert "128 rows of 128 bytes" in said and "128 rows of 512 bytes" in said
    assert main(options(ladder, str(ladder[2]), "--json")) == 0
    both = json.loads(capsys.readouterr().out)
    assert both["kind"] == "modelled" and both["delta_us"] < 0
    assert sum(d["delta_us"] for d in both["differences"]) == pytest.approx(both["delta_us"], abs=1e-6)
    assert sum(d["a_us"] for d in both["differences"]) == pytest.approx(both["a_us"], abs=1e-6)
    sizes = [abs(d["delta_us"]) for d in both["differences"]]
    assert sizes == sorted(sizes, reverse=True) and both["differences"][0]["sentence"]


def test_the_other_way_round_is_a_loss(ladder, capsys):
    words = ["explain", str(ladder[2]), str(ladder[1]), "--func", str(ladder[0]), "--target", "Ascend910B1"]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "times as slow" in said and "A_L1 has 1 slot instead of 2" in said


def test_a_candidate_and_itself_do_not_differ(capsys):
    assert main(["explain", str(PROGRAMS / "matmul.prog"), str(PROGRAMS / "matmul.prog"), "--json"]) == 0
    both = json.loads(capsys.readouterr().out)
    assert both["delta_us"] == 0 and not both["changes"] and not [d for d in both["differences"] if d["sentence"] or d["delta_us"]]


def test_streams_and_programs_of_other_kinds(capsys):
    assert main(["explain", str(PROGRAMS / "two_streams.prog"), str(PROGRAMS / "vector.prog")]) == 0
    said = capsys.readouterr().out
    assert "MTE2 waiting for other cores" in said and "buffer x: none -> 2 slots" in said
    assert main(["explain", str(PROGRAMS / "two_streams.prog")]) == 0
    assert "vec.MTE2 for cores of stream cube" in capsys.readouterr().out


def test_a_timeline_too_long_for_a_path_is_told_by_its_busiest_pipe(ladder, monkeypatch, capsys):
    monkeypatch.setattr(job, "EVENTS", 100)
    assert main(options(ladder, str(ladder[2]), "--json")) == 0
    both = json.loads(capsys.readouterr().out)
    assert both["a"]["path"] is None and sum(d["delta_us"] for d in both["differences"]) == pytest.approx(both["delta_us"], abs=1e-6)
    assert "too long for a critical path" in explain.two(both) and "the first 100 of" in explain.one(both["a"])


def test_a_scheduled_func_and_its_program_are_explained_alike(ladder, tmp_path, capsys):
    scheduled, program = tmp_path / "s.tir", tmp_path / "s.prog"
    assert main(["schedule", str(ladder[0]), "--with", str(ladder[2]), "-o", str(scheduled)]) == 0
    assert main(["emit", str(scheduled), "--target", "Ascend910B1", "-o", str(program)]) == 0
    said = []
    for path, more in ((scheduled, ["--target", "Ascend910B1"]), (program, [])):
        assert main(["explain", str(path), *more]) == 0
        said.append(capsys.readouterr().out.split(":", 1)[1])
    assert said[0] == said[1]


def test_a_dumped_slice_takes_the_models_time_from_the_state_that_its_dump_names(tmp_path, capsys):
    ends = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, (256, 64)) for name in "xy"}
    nodes = [helper.make_node("Softmax", ["x"], ["a"]), helper.make_node("Softmax", ["a"], ["y"], axis=0)]
    model, dump = tmp_path / "m.onnx", tmp_path / "dump"
    graph = helper.make_graph(nodes, "m", [ends["x"]], [ends["y"]])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), model)
    assert main(["compile", str(model), "--dump", str(dump), "-o", str(tmp_path / "m.aoec"), "--jobs", "1"]) == 0
    told = json.loads((dump / "reasons" / "g1.json").read_text())
    assert re.fullmatch(r"\w+=32768", told["state"])
    capsys.readouterr()
    program = str(dump / "programs" / "g1.prog")
    assert main(["explain", program, "--state", told["state"], "--json"]) == 0
    warm = json.loads(capsys.readouterr().out)
    assert warm["measure"]["time_us"] == told["best"]["time_us"] and warm["state"] == told["state"]
    assert main(["explain", program]) == 0
    assert capsys.readouterr().out.splitlines()[0].endswith("from cold inputs")
    picture = tmp_path / "g1.svg"
    assert main(["simulate", program, "--state", told["state"], "--json", "--svg", str(picture)]) == 0
    timed = json.loads(capsys.readouterr().out)
    assert (timed["state"], timed["time_us"]) == (told["state"], told["best"]["time_us"])
    assert f">timed from L2 with {told['state']} (bytes)</text>" in picture.read_text()


@pytest.mark.parametrize(("words", "complaint"), [
    (["prog", "--state", "warm"], "neither cold"), (["prog", "--state", "Z=1"], "state is of Z"),
    (["prog", "--state", "A=1,A=99999999999"], "100,000,000,000 bytes of A, which has"),
    (["first"], "give --func G.tir"), (["missing.prog"], "cannot read"),
    (["func"], "is not scheduled yet"), (["prog", "-", "-"], "is one word too many"),
    (["prog", "--target", "nowhere"], "nowhere")])
def test_what_is_no_candidate_is_refused(words, complaint, ladder, capsys):
    names = {"first": str(ladder[1]), "func": str(ladder[0]), "prog": str(PROGRAMS / "matmul.prog")}
    assert main(["explain", *(names.get(w, w) for w in words)]) == 2
    said = capsys.readouterr()
    assert complaint in said.err and not said.out and "internal" not in said.err


@pytest.mark.parametrize("name", ["model.aoec", "model.onnx"])
def test_of_a_whole_model_it_says_where_reasons_are(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", name]) == 2
    said = capsys.readouterr().err
    assert "--report DIR" in said and "DIR/reasons" in said and len(said.splitlines()) == 1
